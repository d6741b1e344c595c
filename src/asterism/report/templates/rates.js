/* The rates of the chosen node: bars with their intervals, and the table of numbers. */
{
  const MOST_BARS = 48;
  const holder = report.byId("rates-chart");

  /** Edges of the graph into a node; they carry the rates by parent state. */
  const edgesInto = (node) => report.edges.filter((edge) => edge.to === node && edge.rates);

  /** "3.1 times faster (1.6 to 6)"; slower ones are turned round, so that numbers are above one. */
  const much = ([, , ratio, low, high]) => {
    if (low == null && Math.abs(Math.log(ratio)) < 0.05) return "about as fast";
    const range = low == null ? "" : ratio >= 1 ? ` (${report.number(low)} to ${report.number(high)})` : ` (${report.number(1 / high)} to ${report.number(1 / low)})`;
    return ratio >= 1 ? `${report.number(ratio)} times faster${range}` : `${report.number(1 / ratio)} times slower${range}`;
  };

  const ratioText = (edge, moves) => edge.ratios.map((ratio) => {
    const move = moves.find(({ x, y }) => x === ratio[0] && y === ratio[1]);
    return move ? `${move.label} ${much(ratio)}` : null;
  }).filter(Boolean).slice(0, 2).join(", ");

  /** Rows of bars: one per configuration, or per parent state where configurations are many. */
  const barGroups = (family, edges, moves) => {
    if (family.rows && family.rows.length * moves.length <= MOST_BARS) {
      return family.rows.map((row) => ({
        label: row.u.map((state, i) => `${report.name(family.parents[i])} = ${state}`).join(", ") || "always",
        parents: family.parents,
        bars: moves.map(({ x, y }) => ({ rate: row.r[x][y], low: row.low?.[x][y] ?? null, high: row.high?.[x][y] ?? null })),
      }));
    }
    return edges.flatMap((edge) => edge.rates.map((block, s) => ({
      label: `${report.name(edge.from)} = ${report.nodes[edge.from].states[s]}`,
      parents: [edge.from],
      bars: moves.map(({ x, y }) => ({ rate: block[x][y], low: null, high: null })),
    })));
  };

  const drawBars = (groups, moves) => (svg, width) => {
    const thick = 13, gap = 12, size = 12;
    // more transitions than there are colours to tell apart: each bar has its own label instead
    const many = moves.length > report.colours.length;
    const colour = (i) => (many ? report.colours[0] : report.colours[i]);
    const key = many ? [] : moves.map((move, i) => ({ text: move.label, mark: report.keyBox(colour(i)) }));
    const below = many || groups.some((group) => report.textWidth(group.label) > width * 0.3);
    const named = many ? Math.min(width * 0.4, 14 + Math.max(...moves.map((move) => report.textWidth(move.label)))) : 0;
    const left = below ? 10 + named : 16 + Math.max(...groups.map((group) => report.textWidth(group.label)));
    let y = (key.length ? report.chartKey(svg, key, below ? 10 : left, width) : 0) + 8;
    const top = y, wide = width - left - 20;
    const rates = groups.flatMap((group) => group.bars.map((bar) => bar.rate));
    const ends = groups.flatMap((group) => group.bars.map((bar) => bar.high ?? bar.rate));
    // one very uncertain rate should not shrink all others to nothing
    const most = Math.min(Math.max(...ends, 1e-300), 3 * Math.max(...rates, 1e-300)) * 1.04;
    const high = groups.length * (moves.length * thick + gap + (below ? 17 : 0));
    const { x } = report.axes(svg, { left, top, width: wide, height: high }, { range: [0, most], label: report.rateLabel }, { range: [0, 1], ticks: [] });
    groups.forEach((group) => {
      y += gap / 2;
      const name = report.fitText(group.label, below ? width - 20 : left - 12, size);
      if (below) { y += 13; svg.append(report.label(10, y, name, { "text-anchor": "start", fill: report.ink.text })); y += 4; }
      else svg.append(report.label(left - 8, y + moves.length * thick / 2 + 4, name, { "text-anchor": "end", fill: report.ink.text }));
      group.bars.forEach((bar, i) => {
        const middle = y + thick / 2 - 0.5;
        svg.append(report.svg("rect", { class: "rate-bar", x: left, y, width: Math.max(0, x(Math.min(bar.rate, most)) - left), height: thick - 2, fill: colour(i), "fill-opacity": 0.75 }));
        if (many) svg.append(report.label(left - 6, y + thick - 4, report.fitText(moves[i].label, named - 8, 11), { "text-anchor": "end", "font-size": 11 }));
        if (bar.low !== null && bar.high !== null) {
          const cut = bar.high > most, end = x(Math.min(bar.high, most)), start = x(Math.min(bar.low, most));
          svg.append(report.svg("path", { class: "interval", d: `M${start} ${middle - 3.5}v7M${start} ${middle}H${end}${cut ? `m-5 -4l5 4l-5 4` : "m0 -3.5v7"}`, fill: "none", stroke: report.ink.text, "stroke-width": 1.4 }));
        }
        y += thick;
      });
      y += gap / 2;
    });
    return top + high + 46;
  };

  const cell = (row, { x, y }) => {
    const rate = report.number(row.r[x][y]);
    if (row.low?.[x][y] == null || row.high?.[x][y] == null) return report.element("td", {}, rate);
    return report.element("td", {}, rate, report.element("span", { class: "between" }, ` ${report.number(row.low[x][y])} to ${report.number(row.high[x][y])}`));
  };

  const fillTable = (family, moves) => {
    const table = report.byId("rates-table");
    table.hidden = !family.rows || !moves.length;
    if (table.hidden) return;
    const parents = family.parents.map(report.name);
    table.tHead.replaceChildren(report.element("tr", {}, ...[...parents, ...moves.map((move) => move.label)].map((text) => report.element("th", { scope: "col" }, text))));
    table.tBodies[0].replaceChildren(...family.rows.map((row) => report.element("tr", {},
      ...row.u.map((state) => report.element("td", {}, state)), ...moves.map((move) => cell(row, move)))));
  };

  /** "A raises B: with on instead of off, off → on 3 times faster." */
  const effectSentence = (edge, name, moves) => {
    const states = report.nodes[edge.from].states, ratios = ratioText(edge, moves);
    const object = edge.effect === "raises" || edge.effect === "lowers" ? ` ${name}` : "";
    return [report.element(report.chosen.edge === edge ? "mark" : "strong", {}, report.name(edge.from)), ` ${report.effectText[edge.effect]}${object}`,
      ratios ? `: with ${states[states.length - 1]} instead of ${states[0]}, ${ratios}.` : ".", " "];
  };

  report.showRates = (node) => {
    const family = report.rates[node], edges = edgesInto(node), name = report.name(node);
    // transitions that never happen would only fill the page with zeros
    const blocks = family.rows ? family.rows.map((line) => line.r) : edges.flatMap((edge) => edge.rates);
    const moves = report.transitions(node).filter(({ x, y }) => blocks.some((block) => block[x][y] > 0));
    const text = report.byId("rates-text");
    if (family.continuous) {
      const into = report.edges.filter((edge) => edge.to === node && edge.in_graph);
      text.textContent = [family.continuous, ...into.map((edge) => `${report.name(edge.from)} ${report.effectText[edge.effect] || "acts on"}${["raises", "lowers"].includes(edge.effect) ? ` ${name}` : ""}${edge.shift == null ? "" : `: one standard deviation more of it moves ${name} by ${report.between(edge.shift, edge.shift_low, edge.shift_high)} of its own`}.`)].join(" ");
      holder.hidden = report.byId("rates-table").hidden = true;
      return;
    }
    if (family.exogenous) text.textContent = `The path of ${name} was given with the data; it has no rates.`;
    else if (!family.parents.length) text.textContent = `${name} has no parents: its rates are the same at all times.`;
    else text.replaceChildren(...edges.flatMap((edge) => effectSentence(edge, name, moves)));
    const groups = barGroups(family, edges, moves);
    if (family.parents.length > 1 && groups.some((group) => group.parents.length === 1)) text.append("The bars average over the other parents with equal weights. ");
    if (groups.some((group) => group.bars.some((bar) => bar.high !== null))) text.append(`Black lines: ${report.interval_text || "intervals of the rates"}.`);
    if (!family.rows && !family.exogenous) text.append(" The table of all configurations is too long for this page; network.json holds it.");
    holder.hidden = !groups.length || !moves.length;
    if (!holder.hidden) report.chart(holder, `Rates of ${name}; the table below holds the numbers`, drawBars(groups, moves));
    fillTable(family, moves);
  };

  report.startRates = () => {
    const menu = report.byId("rates-node");
    report.fillMenu(menu, report.nodes.map((node) => node.name));
    menu.addEventListener("change", () => report.chooseNode(Number(menu.value)));
    report.listeners.node.push((node) => { menu.value = String(node); report.showRates(node); });
  };
}
