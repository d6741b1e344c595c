"use strict";
/* The data of the page, the state that its parts share, and small helpers. */
const report = JSON.parse(document.getElementById("report-data").textContent);
report.timeLabel = report.time_label;
report.rateLabel = report.rate_label;
report.listeners = { threshold: [], node: [], edge: [], trajectory: [] };
report.chosen = { node: report.first_node, edge: null };

/** Tell every part that listens that something was chosen. */
report.announce = (what, value) => report.listeners[what].forEach((listener) => listener(value));

/** Choose an edge (or none) everywhere on the page; its child becomes the chosen node. */
report.chooseEdge = (edge) => {
  if (!edge && !report.chosen.edge) return;
  report.chosen = { node: edge ? edge.to : report.chosen.node, edge };
  report.announce("edge", edge);
  report.announce("node", report.chosen.node);
};

/** Choose a node everywhere; an edge into another node is no longer chosen. */
report.chooseNode = (node) => {
  const drop = report.chosen.edge && report.chosen.edge.to !== node;
  report.chosen = { node, edge: drop ? null : report.chosen.edge };
  if (drop) report.announce("edge", null);
  report.announce("node", node);
};

/** The listed edge between two nodes, or one that says how improbable it is. */
report.edgeBetween = (from, to) => report.edges.find((edge) => edge.from === from && edge.to === to)
  || { from, to, p: report.heatmap.z[report.heatmap.nodes.indexOf(from)][report.heatmap.nodes.indexOf(to)], in_graph: false };

report.sameEdge = (edge, other) => Boolean(edge && other) && edge.from === other.from && edge.to === other.to;

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

report.number = (value, digits = 3) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(digits)));
};

/** So many letters of a name: its beginning, an ellipsis and its end. */
report.shorten = (name, most) => {
  const letters = [...name], start = Math.ceil((most - 1) * 0.5);
  return letters.length <= most ? letters.join("") : `${letters.slice(0, start).join("")}…${letters.slice(letters.length - (most - 1 - start)).join("")}`;
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
  raises: "raises", lowers: "lowers", mixed: "has a mixed effect", none: "has no clear effect",
};

/** The number of these edges that are true on average: the sum of their probabilities. */
report.sumOf = (edges) => edges.reduce((sum, edge) => sum + edge.p, 0).toFixed(1);

report.count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

/** "2.4 (1.3 to 4.5)": a number with its interval, where one is known. */
report.between = (value, low, high) => `${report.number(value)}${low != null && high != null ? ` (${report.number(low)} to ${report.number(high)})` : ""}`;

/** Title, probability and, where known, a small table of rates for one edge. */
report.describeEdge = (edge) => {
  const child = report.nodes[edge.to];
  const box = document.createDocumentFragment();
  box.append(report.element("strong", {}, `${report.name(edge.from)} → ${child.name}`));
  if (report.learned) box.append(` · probability ${report.probability(edge.p)}${edge.error ? ` ± ${report.number(edge.error)}` : ""}`);
  if (edge.effect) box.append(` · ${report.effectText[edge.effect]}`);
  if (report.learned && !edge.in_graph) box.append(" · not in the graph");
  if (edge.prior != null) box.append(` · prior ${report.probability(edge.prior)}`);
  if (edge.bf != null) box.append(` · Bayes factor ${report.number(edge.bf)}`);
  if (edge.fold != null) box.append(` · fold change ${report.between(edge.fold, edge.fold_low, edge.fold_high)}`);
  if (edge.shift != null) box.append(` · shift ${report.between(edge.shift, edge.shift_low, edge.shift_high)} standard deviations`);
  if (edge.chance != null) box.append(` · by chance ${report.number(edge.chance, 2)} edges this probable`);
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
  if (edge.ratios.length) {
    const row = report.element("tr", {}, report.element("th", { scope: "row" }, "ratio"));
    moves.forEach((move) => {
      const ratio = edge.ratios.find(([x, y]) => x === move.x && y === move.y);
      row.append(report.element("td", {}, ratio ? report.between(...ratio.slice(2)) : ""));
    });
    table.append(row);
  }
  box.append(table);
  return box;
};

/** A small box beside the pointer; words or elements. */
report.showTip = (event, content) => {
  const tooltip = report.byId("tooltip");
  if (event.pointerType === "touch" || !content) { tooltip.hidden = true; return; }
  tooltip.replaceChildren(content);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 8);
  const below = event.clientY + 18 + box.height < window.innerHeight;
  tooltip.style.left = `${Math.max(8, left)}px`;
  tooltip.style.top = `${below ? event.clientY + 18 : event.clientY - box.height - 12}px`;
};
report.hideTip = () => { report.byId("tooltip").hidden = true; };

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

/** Buttons that copy a text: by the clipboard where the browser allows it, else by selection. */
report.startCopying = () => document.querySelectorAll("[data-copy]").forEach((button) => {
  button.addEventListener("click", async () => {
    const source = report.byId(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
});
