/* The table of edges: filtered by threshold and search, sorted by any column. */
if (document.getElementById("edge-table")) {
  const FIRST_ROWS = 100;
  const body = report.byId("edge-table").tBodies[0];
  const headings = report.byId("edge-table").tHead.rows[0];
  const order = ["raises", "lowers", "mixed", "none"];
  let sorting = { column: report.learned ? "p" : "from", down: report.learned };
  let everything = false;

  const narrow = matchMedia("(max-width: 30rem)").matches;
  const known = (key) => report.edges.some((edge) => edge[key] != null);

  const columns = [
    { key: "from", label: "Parent", value: (edge) => report.name(edge.from) },
    { key: "to", label: "Child", value: (edge) => report.name(edge.to) },
    { key: "p", label: narrow ? "Prob." : "Probability", value: (edge) => edge.p, down: true },
    { key: "effect", label: "Effect", value: (edge) => (edge.effect ? order.indexOf(edge.effect) : order.length) },
    { key: "fold", label: "Fold change", value: (edge) => (edge.fold == null ? 1 : edge.fold), down: true },
    { key: "shift", label: "Shift", value: (edge) => (edge.shift == null ? 0 : edge.shift), down: true },
    { key: "in_graph", label: "In graph", value: (edge) => Number(edge.in_graph), down: true },
    { key: "true", label: "True", value: (edge) => Number(edge.true), down: true },
  ].filter((column) => {
    if (column.key === "true") return known("true");
    if (column.key === "fold" || column.key === "shift") return known(column.key) && !narrow;
    return report.learned || !["p", "in_graph"].includes(column.key);
  });

  const probabilityCell = (edge) => {
    const fill = report.element("i", {});
    fill.style.width = `${Math.round(100 * edge.p)}%`;
    return report.element("td", { class: "mark" }, report.probability(edge.p), report.sampled && edge.error ? report.element("span", { class: "between" }, ` ± ${report.number(edge.error, 2)}`) : "", report.element("span", { class: "bar", "aria-hidden": "true" }, fill));
  };

  /** An arrow and a word; on a phone the arrow alone is seen. */
  const effectCell = (edge) => {
    const { effect } = edge;
    if (!effect) return report.element("td", {});
    const [arrow, word] = { raises: ["↑", " raises"], lowers: ["↓", " lowers"], mixed: ["↕", " mixed"], none: ["=", " none"] }[effect];
    const meaning = report.element("span", { role: "img", "aria-label": word.trim() }, arrow);
    const cell = report.element("td", { class: `mark ${effect}` }, meaning, report.element("span", { class: "word", "aria-hidden": "true" }, word));
    // a phone has no room for columns of their own
    for (const key of narrow ? ["fold", "shift"] : []) if (edge[key] != null) cell.append(" ", ...withRange(edge, key));
    return cell;
  };

  const withRange = (edge, key) => {
    const [low, high] = [edge[`${key}_low`], edge[`${key}_high`]];
    const range = low != null && high != null ? ` ${report.number(low, 2)} to ${report.number(high, 2)}` : "";
    return [report.number(edge[key], 2), report.element("span", { class: "between" }, range)];
  };

  const mark = (yes) => report.element("td", {}, report.element("span", { role: "img", "aria-label": yes ? "yes" : "no" }, yes ? "✓" : "–"));

  const cells = {
    from: (edge) => {
      const button = report.element("button", { type: "button", "aria-label": `${report.name(edge.from)} to ${report.name(edge.to)}` }, report.name(edge.from));
      return report.element("td", {}, button);
    },
    to: (edge) => report.element("td", {}, report.name(edge.to)),
    p: probabilityCell,
    fold: (edge) => report.element("td", {}, ...(edge.fold == null ? [] : withRange(edge, "fold"))),
    shift: (edge) => report.element("td", {}, ...(edge.shift == null ? [] : withRange(edge, "shift"))),
    in_graph: (edge) => mark(edge.in_graph),
    effect: effectCell,
    true: (edge) => mark(edge.true),
  };

  const row = (edge) => {
    const element = report.element("tr", { "data-edge": `${edge.from}-${edge.to}` }, ...columns.map((column) => cells[column.key](edge)));
    element.classList.toggle("on", report.sameEdge(edge, report.chosen.edge));
    element.addEventListener("click", () => report.chooseEdge(edge));
    return element;
  };

  /** Edges above the threshold that match the search, in the chosen order. */
  report.listedEdges = () => {
    const wanted = report.byId("search").value.trim().toLocaleLowerCase();
    const found = report.edges.filter((edge) => edge.p >= report.threshold
      && (!wanted || [edge.from, edge.to].some((node) => report.name(node).toLocaleLowerCase().includes(wanted))));
    const { value } = columns.find((column) => column.key === sorting.column);
    const sign = sorting.down ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    return found.map((edge, i) => ({ edge, i }))
      .sort((a, b) => sign * compare(value(a.edge), value(b.edge)) || a.i - b.i)
      .map((item) => item.edge);
  };

  /** Why the table is empty, and what would fill it. */
  const noneText = () => {
    if (!report.edges.length && report.not_scored?.length) return "No edge was scored: the time was too short.";
    if (!report.edges.length) return report.learned ? "No edge has a probability worth listing." : "The network has no edges.";
    if (report.byId("search").value.trim()) return "No edge above the threshold matches the search.";
    const [surest] = report.edges;
    return `No edge reaches this probability. The surest is ${report.name(surest.from)} → ${report.name(surest.to)} with ${report.probability(surest.p)}: lower the threshold to see it.`;
  };

  report.listEdges = () => {
    const edges = report.listedEdges();
    const shown = everything ? edges : edges.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map(row));
    report.byId("no-edges").textContent = edges.length ? "" : noneText();
    const more = report.byId("show-more");
    more.hidden = shown.length === edges.length;
    more.textContent = `Show all ${edges.length}`;
    const unknown = report.not_scored?.length ? `; not scored: edges into ${report.not_scored.slice(0, 5).map(report.name).join(", ")}${report.not_scored?.length > 5 ? " and more" : ""}` : "";
    const truly = report.learned && edges.length ? `, about ${report.sumOf(edges)} of them true` : "";
    report.byId("listed-count").textContent = `${edges.length} of ${report.edges.length} edges${truly}${shown.length < edges.length ? `, the first ${shown.length} shown` : ""}${unknown}`;
  };

  const heading = (column) => {
    const button = report.element("button", { type: "button" }, column.label);
    const cell = report.element("th", { scope: "col" }, button);
    button.addEventListener("click", () => {
      const again = sorting.column === column.key;
      sorting = { column: column.key, down: again ? !sorting.down : Boolean(column.down) };
      markSorting();
      report.listEdges();
    });
    return cell;
  };

  const markSorting = () => columns.forEach((column, i) => {
    const cell = headings.cells[i];
    const sorted = column.key === sorting.column;
    cell.setAttribute("aria-sort", sorted ? (sorting.down ? "descending" : "ascending") : "none");
    cell.firstChild.textContent = column.label + (sorted ? (sorting.down ? " ▾" : " ▴") : "");
  });

  /** The listed edges as a table for other programs; quotes in names are doubled. */
  const saveCsv = () => {
    const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
    const more = { prior: "prior", bf: "bayes_factor", effect: "effect", fold: "fold_change", fold_low: "fold_change_lower", fold_high: "fold_change_upper", shift: "shift", shift_low: "shift_lower", shift_high: "shift_upper" };
    const keys = Object.keys(more).filter((key) => ["effect", "fold"].includes(key) || known(key));
    const lines = report.listedEdges().map((edge) => [quoted(report.name(edge.from)), quoted(report.name(edge.to)), edge.p, edge.in_graph, ...keys.map((key) => edge[key] ?? "")].join(","));
    report.saveFile("edges.csv", "text/csv", [["parent", "child", "probability", "in_graph", ...keys.map((key) => more[key])].join(","), ...lines].join("\n") + "\n");
  };

  report.startEdgeTable = () => {
    headings.append(...columns.map(heading));
    for (const key of ["fold", "shift"]) report.byId(`${key}-hint`).hidden = !known(key);
    report.byId("edge-table").classList.toggle("many", columns.length > 6);
    markSorting();
    document.querySelectorAll("#ranking-table tr[data-edge]").forEach((element) => {
      const edge = report.edges.find(({ from, to }) => `${from}-${to}` === element.dataset.edge);
      element.addEventListener("click", () => report.chooseEdge(edge));
      report.listeners.edge.push((chosen) => element.classList.toggle("on", report.sameEdge(edge, chosen)));
    });
    report.byId("search").addEventListener("input", report.listEdges);
    report.byId("show-more").addEventListener("click", () => { everything = true; report.listEdges(); });
    report.byId("save-csv").addEventListener("click", saveCsv);
    report.listeners.threshold.push(() => { everything = false; report.listEdges(); });
    report.listeners.edge.push((edge) => {
      for (const element of body.rows) element.classList.toggle("on", Boolean(edge) && element.dataset.edge === `${edge.from}-${edge.to}`);
      const on = body.querySelector(".on"), box = body.closest(".scroll");
      // bring the row into view inside its box, without moving the page
      if (on && (on.offsetTop < box.scrollTop + 30 || on.offsetTop + on.offsetHeight > box.scrollTop + box.clientHeight)) box.scrollTop = on.offsetTop - box.clientHeight / 2;
    });
    report.listEdges();
  };
}
