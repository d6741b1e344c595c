/* The page of a fit: state diagrams, hazard ratios, observed and expected shares, state after a time. */
{
  /** A box that no other box may overlap. */
  const overlaps = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

  /** States on an ellipse, an arrow for every transition, its width by the rate. */
  const drawDiagram = ({ states, rates }) => (svg, width) => {
    const high = 26, widest = Math.min(120, width / 3.4);
    const names = states.map((name) => report.fitText(name, widest - 16));
    const half = names.map((name) => Math.max(16, report.textWidth(name) / 2 + 9));
    const height = Math.max(260, Math.min(420, 0.5 * width)), most = Math.max(...rates.map(({ rate }) => rate), 1e-300);
    const place = states.map((_, i) => {
      const angle = Math.PI + 2 * Math.PI * i / states.length;
      return { x: width / 2 + (width / 2 - widest / 2 - 8) * Math.cos(angle), y: height / 2 + (height / 2 - 34) * Math.sin(angle), half: half[i] };
    });
    const taken = place.map(({ x, y, half: w }) => ({ x: x - w, y: y - high / 2, width: 2 * w, height: high }));
    const labels = [];
    rates.forEach(({ from, to, rate, text, title }) => {
      const { line, head, at } = report.arrow(place[from], place[to], { width: 1 + 3 * Math.sqrt(rate / most), bend: 0.16, halfHeight: high / 2 });
      svg.append(report.svg("g", { class: "transition" }, report.svg("title", {}, title),
        report.svg("path", { d: line, fill: "none", stroke: report.ink.soft, "stroke-width": (1 + 3 * Math.sqrt(rate / most)).toFixed(2) }),
        report.svg("path", { d: head, fill: report.ink.soft })));
      // the first place along the arrow where the number covers neither a state nor another number
      const wide = report.textWidth(text) + 6;
      const boxes = [0.5, 0.4, 0.6, 0.32, 0.68, 0.25, 0.75, 0.18, 0.82].map((share) => {
        const { x, y } = at(share);
        return { x: Math.min(Math.max(x - wide / 2, 0), width - wide), y: y - 8, width: wide, height: 16 };
      });
      const free = boxes.find((box) => !taken.some((other) => overlaps(box, other)));
      if (!free) return;  // the table below the diagram has it
      taken.push(free);
      labels.push(report.label(free.x + wide / 2, free.y + 12, text, { class: "rate", fill: report.ink.text }));
    });
    place.forEach(({ x, y, half: w }, i) => svg.append(
      report.svg("rect", { x: x - w, y: y - high / 2, width: 2 * w, height: high, rx: high / 2, fill: report.fills[i % 7], stroke: report.colours[i % 7], "stroke-width": 1.6 }),
      report.label(x, y + 4, names[i], { fill: report.ink.text })));
    svg.append(...labels);
    if (labels.length === rates.length) return height;
    svg.append(report.label(width / 2, height + 12, `room for ${labels.length} of ${rates.length} rates; all below`, { fill: report.ink.soft }));
    return height + 20;
  };

  /** A forest plot: hazard ratios with their intervals on a logarithmic axis. */
  const drawForest = (rows) => (svg, width) => {
    const known = rows.flatMap(({ low, high, ratio }) => [low, high, ratio]).filter((v) => v !== null && v > 1e-4 && v < 1e4);
    const range = [Math.min(0.5, ...known) / 1.15, Math.max(2, ...known) * 1.15];
    const above = rows.some(({ name }) => report.textWidth(name) > 0.42 * width), each = above ? 40 : 26;
    const left = above ? 12 : 20 + Math.max(...rows.map(({ name }) => report.textWidth(name)));
    const ticks = [0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100].filter((v) => v >= range[0] && v <= range[1]).map((value) => ({ value, text: String(value) }));
    const box = { left, top: 8, width: width - left - 14, height: each * rows.length };
    const { x } = report.axes(svg, box, { range, log: true, ticks, label: "hazard ratio" }, { range: [0, 1], ticks: [] });
    const inside = (v) => x(Math.min(range[1], Math.max(range[0], v)));
    svg.append(report.svg("line", { x1: x(1), x2: x(1), y1: box.top, y2: box.top + box.height, stroke: report.ink.axis, "stroke-width": 1.5 }));
    rows.forEach(({ name, ratio, low, high }, i) => {
      const y = box.top + each * (i + 0.5) + (above ? 8 : 0);
      svg.append(above ? report.label(left, y - 12, report.fitText(name, width - 24), { "text-anchor": "start", fill: report.ink.text })
        : report.label(left - 10, y + 4, name, { "text-anchor": "end", fill: report.ink.text }));
      svg.append(report.svg("line", { class: "interval", x1: inside(low ?? 0), x2: inside(high ?? Infinity), y1: y, y2: y, stroke: report.ink.text, "stroke-width": 2 }),
        // a ratio beyond the axis has no place on it; its interval says how little is known
        ...(inside(ratio) === x(ratio) ? [report.svg("circle", { cx: x(ratio), cy: y, r: 4.5, fill: report.colours[0] })] : []));
    });
    return box.top + box.height + 46;
  };

  const drawPrevalence = ({ states, times, observed, expected, n }) => (svg, width) => {
    const key = states.map((text, s) => ({ text, mark: report.keyLine(report.line(s)) }));
    const top = report.chartKey(svg, key, 52, width) + 4, box = { left: 52, top, width: width - 70, height: 260 };
    const share = [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value, text: `${100 * value} %` }));
    const { x, y } = report.axes(svg, box, { range: report.padded(times, 0.02), label: report.timeLabel }, { range: [0, 1], ticks: share });
    states.forEach((state, s) => {
      svg.append(report.svg("path", { class: "expected", d: report.through(times, expected[s], x, y), fill: "none", ...report.line(s), "stroke-width": 2 }));
      observed[s].forEach((p, k) => {
        if (n[s][k] > 0 && p !== null) svg.append(report.svg("circle", { class: "observed", cx: x(times[k]), cy: y(p), r: 3, fill: report.colours[s % 7] }, report.svg("title", {}, `${state}: ${(100 * p).toFixed(1)} % of ${n[s][k]}`)));
      });
    });
    return top + 260 + 46;
  };

  /** Survival from each state: the fitted curve, its band, and the empirical curve in steps. */
  const drawSurvival = (curves) => (svg, width) => {
    const key = curves.map(({ name }, s) => ({ text: `from ${name}`, mark: report.keyLine(report.line(s)) }));
    if (curves.some(({ empirical }) => empirical)) key.push({ text: "empirical", mark: report.keyLine({ stroke: report.ink.text, "stroke-dasharray": "1 3" }, 1.5) });
    const top = report.chartKey(svg, key, 52, width) + 4, box = { left: 52, top, width: width - 70, height: 260 };
    const share = [0, 0.25, 0.5, 0.75, 1].map((value) => ({ value, text: `${100 * value} %` }));
    const { x, y } = report.axes(svg, box, { range: report.padded(curves[0].times, 0.02), label: report.timeLabel }, { range: [0, 1], ticks: share });
    curves.forEach(({ times, survival, lower, upper, empirical, followed }, s) => {
      const colour = report.colours[s % 7];
      svg.append(report.svg("path", { d: report.bandPath(times, lower, upper, x, y), fill: colour, "fill-opacity": 0.14 }),
        report.svg("path", { class: "survival", d: report.through(times, survival, x, y), fill: "none", ...report.line(s), "stroke-width": 2 }));
      if (!empirical) return;
      const seen = empirical.filter((_, k) => followed[k] > 0);
      const path = seen.map((p, k) => (k ? `H${x(times[k]).toFixed(1)}V${y(p).toFixed(1)}` : `M${x(times[k]).toFixed(1)} ${y(p).toFixed(1)}`)).join("");
      svg.append(report.svg("path", { class: "empirical", d: path || "M0 0", fill: "none", stroke: colour, "stroke-width": 1.5, "stroke-dasharray": "1 3" }));
    });
    return top + 260 + 46;
  };

  const short = (v) => (v < 0.001 && v > 0 ? "<0.001" : v.toFixed(3));

  const showProbabilities = (k) => {
    const { labels, times, probability, lower, upper } = report.probabilities;
    const cell = (a, b) => report.element("td", {}, short(probability[k][a][b]), report.element("div", { class: "between" }, `${short(lower[k][a][b])} – ${short(upper[k][a][b])}`));
    const head = report.element("tr", {}, ...["from \\ to", ...labels].map((text) => report.element("th", { scope: "col" }, text)));
    const rows = labels.map((from, a) => report.element("tr", {}, report.element("th", { scope: "row" }, from), ...labels.map((_, b) => cell(a, b))));
    report.byId("probabilities").replaceChildren(report.element("table", { class: "numbers" }, report.element("thead", {}, head), report.element("tbody", {}, ...rows)));
    report.byId("time").textContent = String(Number(times[k].toPrecision(3)));
  };

  report.startFitted = () => {
    report.diagrams.forEach((diagram, i) => report.chart(report.byId(`diagram-${i}`), "States and the rates between them; the table below lists them", drawDiagram(diagram)));
    if (report.forest) report.chart(report.byId("forest-chart"), "Hazard ratios with their intervals; the table below lists them", drawForest(report.forest));
    if (report.survival) report.chart(report.byId("survival-chart"), "Survival from each state over time", drawSurvival(report.survival));
    if (report.prevalence) report.chart(report.byId("prevalence-chart"), "Observed and expected share of each state over time", drawPrevalence(report.prevalence));
    if (!report.probabilities) return;
    const slider = report.byId("slider");
    slider.max = report.probabilities.times.length - 1;
    slider.value = Math.round(slider.max / 4);
    slider.addEventListener("input", () => showProbabilities(Number(slider.value)));
    showProbabilities(Number(slider.value));
  };
}
