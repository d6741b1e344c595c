/* Both graphs of a comparison as one drawing: edges are coloured by what became of them. */
report.startCompared = () => report.compared.forEach(({ layout, edges, label }, i) => {
  const holder = report.byId(`compared-${i}`);
  if (!holder) return;
  const places = report.places(layout, (node) => node);
  const drawn = new Set(edges.map(({ from, to }) => `${from}\n${to}`));
  const lines = edges.map(({ from, to, kind }) => {
    const { line, head } = report.arrow(places[from], places[to], { width: 3, bend: report.freeBend(places[from], places[to], Object.values(places), drawn.has(`${to}\n${from}`) ? 0.18 : 0.03) });
    return report.svg("g", {}, report.svg("title", {}, `${from} → ${to}: ${kind}`), report.svg("path", { class: `line ${kind}`, d: line }), report.svg("path", { class: `head ${kind}`, d: head }));
  });
  const boxes = Object.entries(places).map(([node, place]) => report.nodeBox(place, node));
  const { x, y, width, height } = report.viewOf(places);
  holder.append(report.svg("svg", { viewBox: `${x} ${y} ${width} ${height}`, role: "img", "aria-label": label }, ...lines, ...boxes));
});
