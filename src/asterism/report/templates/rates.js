/* What each parent does to the chosen node: bars by parent state, and the full table. */
{
  /** Edges of the learned graph into a node; they carry the rates by parent state. */
  const edgesInto = (node) => report.edges.filter((edge) => edge.to === node && edge.rates);

  const foldText = (edge, moves) => {
    const last = edge.rates.length - 1;
    return moves.slice(0, 2).map((move) => {
      const before = edge.rates[0][move.x][move.y], after = edge.rates[last][move.x][move.y];
      if (!(before > 0) || !(after > 0)) return null;
      const fold = after / before;
      const much = fold >= 1 ? `${report.number(fold)} times faster` : `${report.number(1 / fold)} times slower`;
      return `${move.label} ${Math.abs(Math.log(fold)) < 0.05 ? "about as fast" : much}`;
    }).filter(Boolean).join(", ");
  };

  const drawBars = (node, edges, moves) => {
    const chart = report.byId("rates-chart");
    chart.hidden = !edges.length;
    if (!edges.length) return;
    const groups = edges.flatMap((edge) => report.nodes[edge.from].states.map((state, s) => ({ edge, s, label: [report.plain(report.name(edge.from)), `= ${report.plain(state)}`] })));
    const traces = moves.slice(0, 6).map((move, i) => ({
      type: "bar", name: report.plain(move.label), x: [groups.map((g) => g.label[0]), groups.map((g) => g.label[1])],
      y: groups.map((g) => g.edge.rates[g.s][move.x][move.y]), marker: { color: report.colours[i], pattern: { shape: ["", "/", "x", ".", "+", "-"][i], fillmode: "overlay", fgcolor: "#ffffff", solidity: 0.2 } },
      hovertemplate: `${report.plain(move.label)}: %{y:.3g}<extra></extra>`,
    }));
    Plotly.react(chart, traces, report.layoutOf({
      barmode: "group", showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, bargap: 0.3,
      xaxis: report.axis("state of the parent", { type: "multicategory", showgrid: false }), yaxis: report.axis("rate per unit of time", { rangemode: "tozero" }), margin: { l: 62, r: 16, t: 40, b: 60 },
    }), report.plotConfig);
  };

  const fillTable = (node, family, moves) => {
    const table = report.byId("rates-table");
    table.hidden = !family.rows;
    if (!family.rows) return;
    const parents = family.parents.map(report.name);
    const head = report.element("tr", {}, ...[...parents, ...moves.map((move) => move.label)].map((text) => report.element("th", { scope: "col" }, text)));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren(...family.rows.map((line) => report.element("tr", {},
      ...line.u.map((state) => report.element("td", {}, state)),
      ...moves.map((move) => report.element("td", {}, report.number(line.r[move.x][move.y]))))));
  };

  report.showRates = (node) => {
    const family = report.rates[node], edges = edgesInto(node);
    // transitions that never happen would only fill the page with zeros
    const blocks = family.rows ? family.rows.map((line) => line.r) : edges.flatMap((edge) => edge.rates);
    const moves = report.transitions(node).filter(({ x, y }) => blocks.some((block) => block[x][y] > 0));
    const text = report.byId("rates-text");
    const name = report.name(node);
    if (family.exogenous) text.textContent = `The path of ${name} was given with the data; it has no rates.`;
    else if (!family.parents.length) text.textContent = `${name} has no parents: its rates are the same at all times.`;
    else {
      text.replaceChildren(...edges.flatMap((edge, i) => {
        const states = report.nodes[edge.from].states;
        const folds = foldText(edge, moves);
        return [i ? " " : "", report.element("strong", {}, report.name(edge.from)), ` ${report.effectText[edge.effect]}${edge.effect === "raises" || edge.effect === "lowers" ? ` ${name}` : ""}`,
          folds ? `: with ${states[states.length - 1]} instead of ${states[0]}, ${folds}.` : "."];
      }), family.parents.length > 1 ? " Where there are several parents, the bars average over the others with equal weights." : "");
    }
    if (!family.rows && !family.exogenous) text.append(" The table of all configurations is too long for this page; network.json holds it.");
    drawBars(node, edges, moves);
    fillTable(node, family, moves);
  };

  report.startRates = () => {
    const menu = report.byId("rates-node");
    report.fillMenu(menu, report.nodes.map((node) => node.name));
    menu.addEventListener("change", () => report.announce("node", Number(menu.value)));
    report.listeners.node.push((node) => { menu.value = String(node); report.showRates(node); });
  };
}
