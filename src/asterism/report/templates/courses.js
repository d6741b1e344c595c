/* The course of one node in one trajectory: expected measurement with its band, and states below. */
{
  const data = report.courses;
  const holder = report.byId("course-chart");
  const MARGIN = { right: 14, bottom: 46 };
  let shown = null; // what the chart holds now: times, levels, expectation, measurements
  let zoomed = null;
  let cursorAt = null;

  const wholeRange = (times) => {
    const first = times[0] ?? 0, last = times[times.length - 1] ?? 1, pad = 0.015 * (last - first || 1);
    return [first - pad, last + pad];
  };

  const look = () => {
    const t = Number(report.byId("course-trajectory").value), n = Number(report.byId("course-node").value);
    const levels = data.levels[n], p = data.p[t][n];
    const [when, what] = data.measured[t][n];
    return { node: report.nodes[data.nodes[n]], times: data.times[t], p, at: report.weights(p), levels, when, what, trajectory: data.trajectories[t], ...(levels ? report.expectation(p, levels) : {}) };
  };

  /** What the chart shows at one of its times, in words. */
  const reading = (k) => {
    const { times, levels, at, node, middle, low, high } = shown;
    const states = at[k].map((w, s) => `P(${node.states[s]}) ${w.toFixed(2)}`).join(", ");
    const expected = levels ? `expected ${report.number(middle[k])} (90 % band ${report.number(low[k])} to ${report.number(high[k])}); ` : "";
    return `${report.timeLabel} ${report.number(times[k])}: ${expected}${states}`;
  };

  const drawLevels = (svg, box, range) => {
    const { times, middle, low, high, when, what, node } = shown;
    const all = [...low, ...high, ...what], span = report.padded(all);
    const { x, y } = report.axes(svg, box, { range, label: null }, { range: span, label: node.name });
    const inside = report.svg("g", { "clip-path": "url(#course-clip)" },
      report.svg("path", { class: "band", d: report.bandPath(times, low, high, x, y), fill: report.colours[0], "fill-opacity": 0.16 }),
      report.svg("path", { class: "expected", d: report.through(times, middle, x, y), fill: "none", stroke: report.colours[0], "stroke-width": 2.5 }));
    when.forEach((time, i) => inside.append(report.svg("circle", { class: "measured", cx: x(time), cy: y(what[i]), r: 4.5, fill: "none", stroke: report.ink.text, "stroke-width": 1.8 })));
    svg.append(inside);
  };

  const drawStates = (svg, box, range) => {
    const { times, p, node, levels, when, what } = shown;
    const { x, y } = report.axes(svg, box, { range, label: report.timeLabel }, { range: [0, 1], label: "P(state)", ticks: [0, 0.5, 1].map((value) => ({ value, text: String(value) })) });
    const inside = report.svg("g", { "clip-path": "url(#course-clip)" });
    report.stackPaths(times, p, x, y).forEach((d, s) => inside.append(report.svg("path", { class: "state", d, fill: report.fills[s % 7], stroke: report.colours[s % 7], "stroke-width": 0.8 })));
    if (!levels) when.forEach((time, i) => {
      const cx = x(time), cy = y((what[i] + 0.5) / node.states.length);
      inside.append(report.svg("path", { class: "measured", d: `M${cx} ${cy - 6}L${cx + 6} ${cy}L${cx} ${cy + 6}L${cx - 6} ${cy}Z`, fill: "none", stroke: report.ink.text, "stroke-width": 1.8 }));
    });
    svg.append(inside);
    return x;
  };

  /** A line that follows the pointer or the arrow keys and says what is there. */
  const addCursor = (svg, left, width, top, height, x, range) => {
    const { times } = shown;
    const line = report.svg("line", { y1: top, y2: top + height, stroke: report.ink.text, "stroke-width": 1, "stroke-dasharray": "3 3", visibility: "hidden", "data-aid": "" });
    const reach = report.svg("rect", { x: left, y: top, width, height, fill: "transparent", class: "cursor", "data-aid": "", tabindex: 0, role: "slider", "aria-label": `Time in the course of ${shown.node.name}`, "aria-valuemin": times[0] ?? 0, "aria-valuemax": times[times.length - 1] ?? 1 });
    const nearest = (time) => times.reduce((best, t, k) => (Math.abs(t - time) < Math.abs(times[best] - time) ? k : best), 0);
    const move = (k) => {
      cursorAt = k;
      line.setAttribute("x1", x(times[k]));
      line.setAttribute("x2", x(times[k]));
      line.setAttribute("visibility", "visible");
      reach.setAttribute("aria-valuenow", times[k]);
      reach.setAttribute("aria-valuetext", reading(k));
      report.byId("course-reading").textContent = reading(k);
    };
    const timeUnder = (event) => {
      const box = reach.getBoundingClientRect();
      return range[0] + (event.clientX - box.left) / box.width * (range[1] - range[0]);
    };
    reach.setAttribute("aria-valuenow", times[0] ?? 0);
    svg.append(line, reach);
    if (!times.length) return;
    reach.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -1e9, End: 1e9 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(Math.min(times.length - 1, Math.max(0, (cursorAt ?? -step) + step)));
    });
    let from = null;
    reach.addEventListener("pointermove", (event) => { if (event.pointerType !== "touch" || event.buttons === 0) move(nearest(timeUnder(event))); });
    reach.addEventListener("pointerdown", (event) => { from = event.pointerType === "mouse" ? timeUnder(event) : null; move(nearest(timeUnder(event))); });
    reach.addEventListener("pointerup", (event) => {
      const to = timeUnder(event);
      if (from !== null && Math.abs(to - from) > 0.03 * (range[1] - range[0])) { zoomed = [Math.min(from, to), Math.max(from, to)]; report.drawCourse(); }
      from = null;
    });
    reach.addEventListener("dblclick", () => { zoomed = null; report.drawCourse(); });
  };

  const draw = (svg, width) => {
    const { levels, times, node } = shown;
    const range = zoomed || wholeRange(times);
    const numbers = levels ? report.ticks(...report.padded([...shown.low, ...shown.high, ...shown.what])).map(({ text }) => report.textWidth(text)) : [];
    const left = 32 + Math.max(22, ...numbers), wide = width - left - MARGIN.right;
    const key = node.states.map((state, s) => ({ text: state, mark: report.keyBox(report.fills[s % 7], report.colours[s % 7]) }));
    if (levels) key.push({ text: "expected", mark: report.keyLine(report.line(0)) }, { text: "90 % band", mark: report.keyBox("var(--fill-0)") });
    if (shown.when.length) key.push({ text: "measured", mark: report.keyDot });
    const top = report.chartKey(svg, key, left, width) + 4;
    const upper = levels ? 210 : 0, gap = levels ? 26 : 0, lower = levels ? 110 : 240;
    svg.append(report.svg("clipPath", { id: "course-clip" }, report.svg("rect", { x: left, y: 0, width: wide, height: top + upper + gap + lower })));
    if (levels) drawLevels(svg, { left, top, width: wide, height: upper }, range);
    const x = drawStates(svg, { left, top: top + upper + gap, width: wide, height: lower }, range);
    addCursor(svg, left, wide, top, upper + gap + lower, x, range);
    return top + upper + gap + lower + MARGIN.bottom;
  };

  report.drawCourse = () => {
    shown = look();
    cursorAt = null;
    const { node, when, levels, trajectory } = shown;
    report.chart(holder, `Course of ${node.name} in trajectory ${trajectory}`, draw);
    report.byId("course-text").textContent = `${node.name} in trajectory ${trajectory}: ${report.count(when.length, "measurement")}`;
    report.byId("course-reading").textContent = "";
    report.byId("course-hint").textContent = (levels
      ? "Line: the measurement to expect, given all data. Band: where 90 % of the measurements should fall. Below: the probability of each state, stacked."
      : when.length ? "The probability of each state, stacked. Diamonds mark the measured states, each at the height of its state (first state lowest)."
        : "The probability of each state, stacked. This node was not measured in this trajectory.")
      + (matchMedia("(pointer: fine)").matches ? " Drag to enlarge a part, double-click to go back." : "");
  };
  report.shownCourse = () => shown;

  report.startCourses = () => {
    if (!data) return;
    report.fillMenu(report.byId("course-node"), data.nodes.map(report.name));
    report.fillMenu(report.byId("course-trajectory"), data.trajectories);
    report.byId("course-node").addEventListener("change", (event) => report.chooseNode(data.nodes[Number(event.target.value)]));
    report.byId("course-trajectory").addEventListener("change", () => { zoomed = null; report.drawCourse(); report.announce("trajectory", Number(report.byId("course-trajectory").value)); });
    report.listeners.node.push((node) => {
      const place = data.nodes.indexOf(node);
      if (place < 0) return;
      report.byId("course-node").value = String(place);
      report.drawCourse();
    });
  };
}
