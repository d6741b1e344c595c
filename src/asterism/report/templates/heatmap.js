/* The heat map of edge probabilities: rows are parents, columns are children. */
{
  const SHADES = 5; // --heat-0 to --heat-4 of the style sheet, which knows light and dark
  const holder = report.byId("heatmap-chart");
  let at = null;

  const shade = (p) => {
    const place = Math.min(p, 0.9999) * (SHADES - 1), i = Math.floor(place), t = place - i;
    return `color-mix(in srgb, var(--heat-${i + 1}) ${(100 * t).toFixed(1)}%, var(--heat-${i}))`;
  };

  /** The scale above the map; a line marks what an edge had before any data. */
  const drawScale = (svg, left, width, prior) => {
    const steps = 40, right = Math.min(width - 78, left + 260), x = (p) => left + p * (right - left);
    for (let i = 0; i < steps; i += 1) {
      svg.append(report.svg("rect", { x: x(i / steps), y: 20, width: (right - left) / steps + 0.5, height: 10, fill: shade((i + 0.5) / steps) }));
    }
    [0, 0.5, 1].forEach((p) => svg.append(report.label(x(p), 44, String(p))));
    svg.append(report.label(right + 8, 29, "probability", { "text-anchor": "start" }));
    if (prior === null) return;
    svg.append(report.svg("line", { class: "prior", x1: x(prior), x2: x(prior), y1: 16, y2: 34, stroke: "var(--lowers)", "stroke-width": 2.5 }));
    const text = `prior ${report.probability(prior)}`, half = report.textWidth(text) / 2;
    svg.append(report.label(Math.max(left + half, Math.min(right - half, x(prior))), 12, text, { fill: "var(--poor)" }));
  };

  const text = (p, parent, child) => `${parent} → ${child}: ${p === null ? "not scored" : `probability ${report.probability(p)}`}`;

  const draw = (svg, width) => {
    const { nodes, z, prior } = report.heatmap;
    const n = nodes.length, size = n > 40 ? 9 : n > 25 ? 10 : 12;
    const names = nodes.map(report.name);
    const longest = Math.min(width * 0.3, 120), short = names.map((name) => report.fitText(name, longest, size));
    const widest = Math.max(...short.map((name) => report.textWidth(name, size)));
    const left = widest + 32, top = 58, cell = Math.min(56, (width - left - 8) / n), side = cell * n;
    const centre = (i) => (i + 0.5) * cell;
    drawScale(svg, left, width, prior);
    const cells = report.svg("g", { "data-cells": "" });
    svg.append(report.svg("rect", { x: left, y: top, width: side, height: side, fill: "var(--grid)" }), cells);
    z.forEach((row, i) => row.forEach((p, j) => {
      if (p !== null) cells.append(report.svg("rect", { x: left + j * cell + 0.5, y: top + i * cell + 0.5, width: Math.max(cell - 1, 0.5), height: Math.max(cell - 1, 0.5), fill: shade(p) }));
    }));
    // names are left out where they would overlap
    const every = Math.max(1, Math.ceil((size + 2) / cell));
    short.forEach((name, i) => {
      if (i % every) return;
      svg.append(report.label(left - 6, top + centre(i) + size / 3, name, { "text-anchor": "end", "font-size": size }));
      const x = left + centre(i) + size / 3, y = top + side + 8;
      svg.append(report.label(x, y, name, { "text-anchor": "end", "font-size": size, transform: `rotate(-60 ${x} ${y})` }));
    });
    const bottom = top + side + 8 + widest * 0.87 + 20;
    svg.append(report.label(left + side / 2, bottom, "child", { fill: report.ink.text, "font-size": 13 }));
    svg.append(report.label(12, top + side / 2, "parent", { fill: report.ink.text, "font-size": 13, transform: `rotate(-90 12 ${top + side / 2})` }));

    const chosen = report.chosen.edge && [nodes.indexOf(report.chosen.edge.from), nodes.indexOf(report.chosen.edge.to)];
    const frame = (i, j, attributes) => report.svg("rect", { x: left + j * cell, y: top + i * cell, width: cell, height: cell, fill: "none", ...attributes });
    if (chosen && Math.min(...chosen) >= 0) svg.append(frame(...chosen, { class: "chosen-cell", stroke: "var(--lowers)", "stroke-width": 2.5 }));
    if (n < 2) return bottom + 10;

    // one cell can be reached by keyboard, and moves with the arrow keys
    if (at === null) at = chosen && Math.min(...chosen) >= 0 ? chosen : [0, 1];
    const cursor = frame(...at, { role: "button", tabindex: 0, class: "cursor", "data-aid": "", "pointer-events": "none" });
    const say = (i, j) => {
      at = [i, j];
      cursor.setAttribute("x", left + j * cell);
      cursor.setAttribute("y", top + i * cell);
      const what = i === j ? `${names[i]}: a node has no edge to itself` : text(z[i][j], names[i], names[j]);
      cursor.setAttribute("aria-label", `${what}. Arrow keys move, Enter chooses.`);
      report.byId("heatmap-text").textContent = what;
    };
    const choose = (i, j) => { if (z[i][j] !== null) report.chooseEdge(report.edgeBetween(nodes[i], nodes[j])); };
    cursor.setAttribute("aria-label", `${names[at[0]]} → ${names[at[1]]}. Arrow keys move, Enter chooses.`);
    cursor.addEventListener("keydown", (event) => {
      const [di, dj] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
      if (di || dj) say(Math.min(n - 1, Math.max(0, at[0] + di)), Math.min(n - 1, Math.max(0, at[1] + dj)));
      else if (event.key === "Enter" || event.key === " ") choose(...at);
      else return;
      event.preventDefault();
    });
    const reach = report.svg("rect", { x: left, y: top, width: side, height: side, fill: "transparent", "data-aid": "", style: "cursor:pointer" });
    const under = (event) => {
      const box = reach.getBoundingClientRect(), place = (v, from, length) => Math.min(n - 1, Math.max(0, Math.floor((v - from) / length * n)));
      return [place(event.clientY, box.top, box.height), place(event.clientX, box.left, box.width)];
    };
    reach.addEventListener("pointermove", (event) => {
      const [i, j] = under(event);
      report.showTip(event, i === j ? "" : text(z[i][j], names[i], names[j]));
    });
    reach.addEventListener("pointerleave", report.hideTip);
    reach.addEventListener("click", (event) => { const [i, j] = under(event); say(i, j); choose(i, j); });
    svg.append(reach, cursor);
    return bottom + 10;
  };

  report.startHeatmap = () => {
    if (!holder) return;
    const show = () => report.chart(holder, "Heat map of the probability of every edge; the table of edges holds the same numbers", draw);
    report.listeners.edge.push((edge) => { if (edge) at = null; show(); });
    show();
  };
}
