/* The fit of all nodes at a glance: one small picture per node, for the chosen trajectory. */
{
  const WIDTH = 180, HEIGHT = 64;
  const data = report.courses;
  const holder = report.byId("fit-grid");

  const picture = (n, t) => {
    const times = data.times[t], p = data.p[t][n], levels = data.levels[n], [when, what] = data.measured[t][n];
    const svg = report.svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", preserveAspectRatio: "none" });
    const first = times[0] ?? 0, span = (times[times.length - 1] ?? 1) - first || 1;
    const x = (time) => 3 + (time - first) / span * (WIDTH - 6);
    if (levels) {
      const { middle, low, high } = report.expectation(p, levels);
      const [floor, roof] = report.padded([...low, ...high, ...what]);
      const y = (v) => HEIGHT - (v - floor) / (roof - floor) * HEIGHT;
      svg.append(
        report.svg("path", { d: report.bandPath(times, low, high, x, y), fill: report.colours[0], "fill-opacity": 0.16 }),
        report.svg("path", { d: report.through(times, middle, x, y), fill: "none", stroke: report.colours[0], "stroke-width": 1.6 }));
      when.forEach((time, i) => svg.append(report.svg("circle", { cx: x(time), cy: y(what[i]), r: 2, fill: report.ink.text })));
    } else {
      const y = (v) => HEIGHT - v * HEIGHT;
      report.stackPaths(times, p, x, y).forEach((d, s) => svg.append(report.svg("path", { d, fill: report.fills[s % 7] })));
      const count = report.nodes[data.nodes[n]].states.length;
      when.forEach((time, i) => svg.append(report.svg("circle", { cx: x(time), cy: y((what[i] + 0.5) / count), r: 2, fill: report.ink.text })));
    }
    return svg;
  };

  const words = ({ inside, total }) => (total ? `${Math.round(100 * inside / total)} % of ${total}` : "not measured");

  const card = (entry, t) => {
    const name = report.name(data.nodes[entry.node]);
    const button = report.element("button", { type: "button", class: "fit", "data-node": data.nodes[entry.node] },
      report.element("span", { class: "fit-name", title: name }, name), picture(entry.node, t),
      report.element("span", { class: entry.poor ? "fit-share poor" : "fit-share" }, words(entry), entry.poor ? " · poor" : ""));
    button.addEventListener("click", () => report.chooseNode(data.nodes[entry.node]));
    return button;
  };

  report.startFit = () => {
    if (!data || !holder) return;
    const mark = (node) => holder.querySelectorAll(".fit").forEach((button) => {
      const on = Number(button.dataset.node) === node;
      button.classList.toggle("on", on);
      button.setAttribute("aria-pressed", String(on));
    });
    const draw = (t) => { holder.replaceChildren(...report.fit.map((entry) => card(entry, t))); mark(report.chosen.node); };
    report.listeners.trajectory.push(draw);
    report.listeners.node.push(mark);
    draw(0);
  };
}
