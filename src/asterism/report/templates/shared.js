"use strict";
/* The data of the page, the state that its parts share, and small helpers. */
const report = JSON.parse(document.getElementById("report-data").textContent);
report.threshold = report.learned ? 0.5 : 0;
report.listeners = { threshold: [], node: [], edge: [] };

/** Tell every part that listens that something was chosen. */
report.announce = (what, value) => report.listeners[what].forEach((listener) => listener(value));

report.byId = (id) => document.getElementById(id);

/** An element with text; names of nodes only ever enter the page as text, never as HTML. */
report.element = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

report.name = (node) => report.nodes[node].name;

/** Two decimals, but never a certainty that rounding alone has made. */
report.probability = (p) => (p < 1 && p >= 0.995 ? ">0.99" : p > 0 && p < 0.005 ? "<0.01" : p.toFixed(2));

report.number = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
};

/** All ordered pairs of different states: the transitions a node can make. */
report.transitions = (node) => {
  const states = report.nodes[node].states;
  const found = [];
  states.forEach((from, x) => states.forEach((to, y) => {
    if (x !== y) found.push({ x, y, label: `${from} → ${to}` });
  }));
  return found;
};

report.effectText = {
  raises: "raises", lowers: "lowers", mixed: "depends on the other parents", none: "no clear effect",
};

/** Title, probability and, where known, a small table of rates for one edge. */
report.describeEdge = (edge) => {
  const child = report.nodes[edge.to];
  const box = document.createDocumentFragment();
  box.append(report.element("strong", {}, `${report.name(edge.from)} → ${child.name}`));
  if (report.learned) box.append(` · probability ${report.probability(edge.p)}`);
  if (edge.effect) box.append(` · ${report.effectText[edge.effect]}`);
  if (report.learned && !edge.in_graph) box.append(" · not in the learned graph");
  if (!edge.rates) return box;
  const moves = report.transitions(edge.to).slice(0, 6);
  const head = report.element("tr", {}, report.element("th", { scope: "col" }, `rates of ${child.name} when`));
  moves.forEach((move) => head.append(report.element("th", { scope: "col" }, move.label)));
  const table = report.element("table", { class: "small" }, head);
  edge.rates.forEach((block, state) => {
    const label = `${report.name(edge.from)} = ${report.nodes[edge.from].states[state]}`;
    const row = report.element("tr", {}, report.element("th", { scope: "row" }, label));
    moves.forEach((move) => row.append(report.element("td", {}, report.number(block[move.x][move.y]))));
    table.append(row);
  });
  box.append(table);
  return box;
};

/** Fill a menu with node names. */
report.fillMenu = (menu, labels) => {
  menu.replaceChildren(...labels.map((label, i) => report.element("option", { value: i }, label)));
};

/** Offer text as a file. */
report.saveFile = (name, type, text) => {
  const link = report.element("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
