/* The drawing of the network: positions come from Python, edges from the threshold. */
if (document.getElementById("drawing")) {
  const holder = report.byId("drawing");
  const places = report.places(report.layout, report.name);
  const drawsAllNodes = Object.keys(places).length === report.nodes.length;
  let view = null;
  let whole = null;
  let svg = null;

  const make = report.svg;

  const edgeElement = (edge, opposite, obstacles) => {
    const sign = edge.effect || (edge.in_graph ? "none" : "outside");
    const kind = edge.in_graph ? sign : `${sign} dashed`;
    const width = report.learned ? 0.8 + 4.7 * edge.p : 2.5;
    const tee = sign === "lowers";
    const bend = report.freeBend(places[edge.from], places[edge.to], obstacles, opposite ? 0.18 : 0.03);
    const { line, head } = report.arrow(places[edge.from], places[edge.to], { width, bend, tee });
    const group = make("g", { class: "edge", role: "button", tabindex: -1, "data-edge": `${edge.from}-${edge.to}`, "aria-label": `Edge ${report.name(edge.from)} → ${report.name(edge.to)}${report.learned ? `, probability ${report.probability(edge.p)}` : ""}${edge.effect ? `, ${report.effectText[edge.effect]}` : ""}` },
      make("path", { class: "reach", d: line }),
      make("path", { class: `line ${kind}`, d: line, style: `stroke-width:${width.toFixed(2)}` }),
      tee ? make("path", { class: `line ${kind}`, d: head, style: `stroke-width:${(2 + width * 0.5).toFixed(2)}` })
        : make("path", { class: `head ${kind}`, d: head }));
    group.addEventListener("pointermove", (event) => report.showTip(event, report.describeEdge(edge)));
    group.addEventListener("pointerleave", report.hideTip);
    group.addEventListener("click", () => report.chooseEdge(edge));
    return group;
  };

  const nodeElement = (node) => {
    const group = report.nodeBox(places[node], report.name(node), { role: "button", tabindex: -1, "data-node": node, "aria-label": `Node ${report.name(node)}` });
    group.addEventListener("click", () => report.chooseNode(Number(node)));
    return group;
  };

  const applyView = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);

  const zoom = (factor) => {
    const width = view.width * factor, height = view.height * factor;
    view = { x: view.x + (view.width - width) / 2, y: view.y + (view.height - height) / 2, width, height };
    applyView();
  };

  const startDragging = () => {
    let last = null;
    svg.addEventListener("pointerdown", (event) => { last = { x: event.clientX, y: event.clientY }; });
    svg.addEventListener("pointermove", (event) => {
      if (!last || !event.buttons || view.width >= whole.width) return;
      const scale = view.width / svg.clientWidth;
      view.x -= (event.clientX - last.x) * scale;
      view.y -= (event.clientY - last.y) * scale;
      last = { x: event.clientX, y: event.clientY };
      applyView();
    });
    for (const end of ["pointerup", "pointerleave"]) svg.addEventListener(end, () => { last = null; });
  };

  const hint = report.byId("edge-detail").textContent;

  const markChosen = () => {
    const { edge, node } = report.chosen;
    svg.querySelectorAll(".edge").forEach((group) => group.classList.toggle("on", Boolean(edge) && group.dataset.edge === `${edge.from}-${edge.to}`));
    svg.querySelectorAll(".node").forEach((group) => group.classList.toggle("on", Number(group.dataset.node) === node));
    svg.classList.toggle("chosen", svg.querySelector(".edge.on") !== null);
  };

  /** One stop for the Tab key; arrow keys go from node to node and from edge to edge. */
  const startKeys = () => svg.addEventListener("keydown", (event) => {
    const all = [...svg.querySelectorAll(".node"), ...svg.querySelectorAll(".edge")], now = all.indexOf(document.activeElement);
    if (now < 0) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = all[(now + step + all.length) % all.length];
      all[now].setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") all[now].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else return;
    event.preventDefault();
  });

  /** Edges above the threshold, surest first; a drawing holds only so many. */
  report.drawnEdges = () => report.edges.filter((edge) => edge.p >= report.threshold).slice(0, report.drawn_limit);

  report.drawNetwork = () => {
    const above = report.edges.filter((edge) => edge.p >= report.threshold).length;
    const edges = report.drawnEdges().filter((edge) => edge.from in places && edge.to in places);
    const drawn = new Set(edges.map((edge) => `${edge.from}-${edge.to}`));
    const used = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
    const nodes = Object.keys(places).filter((node) => drawsAllNodes || used.has(Number(node)));
    const obstacles = nodes.map((node) => places[node]);
    const lines = make("g", {}, ...edges.slice().reverse().map((edge) => edgeElement(edge, drawn.has(`${edge.to}-${edge.from}`), obstacles)));
    const dots = make("g", {}, ...nodes.map(nodeElement));
    svg.replaceChildren(lines, dots);
    svg.setAttribute("aria-label", `Network with ${report.count(nodes.length, "node")} and ${report.count(edges.length, "edge")}. Arrow keys move between them, Enter chooses; the table lists the edges.`);
    (svg.querySelector(".node") || svg.querySelector(".edge"))?.setAttribute("tabindex", 0);
    markChosen();
    if (!nodes.length) {
      svg.append(make("text", { class: "empty", "text-anchor": "middle", x: view.x + view.width / 2, y: view.y + view.height / 2 }, "No edge reaches this probability."));
    }
    const count = report.count(nodes.length, "node");
    const among = edges.length < above
      ? `The ${edges.length} surest of ${above} edges, between ${count}`
      : `${report.count(edges.length, "edge")}, ${count}`;
    report.byId("drawn-count").textContent = report.learned && edges.length
      ? `${among}; about ${report.sumOf(edges)} of these edges are true` : among;
  };

  report.startNetwork = () => {
    whole = Object.keys(places).length ? report.viewOf(places) : { x: 0, y: 0, width: 420, height: 240 };
    view = { ...whole };
    svg = make("svg", { role: "group" });
    holder.append(svg);
    applyView();
    startDragging();
    startKeys();
    report.byId("zoom-in").addEventListener("click", () => zoom(0.75));
    report.byId("zoom-out").addEventListener("click", () => zoom(Math.min(1 / 0.75, whole.width / view.width)));
    report.byId("zoom-reset").addEventListener("click", () => { view = { ...whole }; applyView(); });
    report.byId("save-svg").addEventListener("click", () => report.saveSvg(svg, "network.svg"));
    report.listeners.threshold.push(report.drawNetwork);
    report.listeners.edge.push((edge) => {
      markChosen();
      report.byId("edge-detail").replaceChildren(edge ? report.describeEdge(edge) : report.element("p", {}, hint));
    });
    report.listeners.node.push(markChosen);
    report.drawNetwork();
  };
}
