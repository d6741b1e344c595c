/* The course of one node in one trajectory: expected measurement with its band, and states below. */
{
  const data = report.courses;
  const BAND = 0.9;

  const normalBelow = (z) => {
    // Abramowitz and Stegun's rational approximation, good to 1e-7: plenty for a drawn band
    const t = 1 / (1 + 0.2316419 * Math.abs(z));
    const tail = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI)
      * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    return z > 0 ? 1 - tail : tail;
  };

  /** The value below which a mixture of the states' measurements falls with probability q. */
  const mixtureQuantile = (weights, mean, sd, q) => {
    let low = Math.min(...mean.map((m, s) => m - 6 * sd[s])), high = Math.max(...mean.map((m, s) => m + 6 * sd[s]));
    for (let round = 0; round < 40; round += 1) {
      const middle = (low + high) / 2;
      const below = weights.reduce((sum, w, s) => sum + w * normalBelow((middle - mean[s]) / sd[s]), 0);
      if (below < q) low = middle; else high = middle;
    }
    return (low + high) / 2;
  };

  /** Expected measurement and central band at each time, from the state probabilities. */
  const expectation = (p, { mean, sd }) => {
    const at = p[0].map((_, k) => {
      const total = p.reduce((sum, line) => sum + line[k], 0) || 1;
      return p.map((line) => line[k] / total);
    });
    return {
      middle: at.map((w) => w.reduce((sum, value, s) => sum + value * mean[s], 0)),
      low: at.map((w) => mixtureQuantile(w, mean, sd, (1 - BAND) / 2)),
      high: at.map((w) => mixtureQuantile(w, mean, sd, (1 + BAND) / 2)),
    };
  };

  const timeRange = (times) => {
    const first = times[0] ?? 0, last = times[times.length - 1] ?? 1, pad = 0.015 * (last - first || 1);
    return [first - pad, last + pad];
  };

  const stateTraces = (times, p, states, axis) => p.map((line, s) => ({
    x: times, y: line.map((v) => v / 1000), name: report.plain(states[s]), stackgroup: "states", mode: "lines", yaxis: axis,
    line: { width: 0.8, color: report.colours[s % report.colours.length] }, fillcolor: report.fills[s % report.fills.length],
    hovertemplate: `P(${report.plain(states[s])}) %{y:.3f}<extra></extra>`,
  }));

  report.drawCourse = () => {
    const t = Number(report.byId("course-trajectory").value), n = Number(report.byId("course-node").value);
    const node = report.nodes[data.nodes[n]];
    const times = data.times[t], p = data.p[t][n], levels = data.levels[n];
    const [when, what] = data.measured[t][n];
    const name = report.plain(node.name);
    const traces = stateTraces(times, p, node.states, "y");
    const layout = {
      showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" }, hovermode: "x unified",
      dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
      xaxis: report.axis("time", { range: timeRange(times) }), yaxis: report.axis("P(state)", { range: [0, 1], domain: levels ? [0, 0.36] : [0, 1] }),
      margin: { l: 62, r: 16, t: 40, b: 48 },
    };
    if (levels) {
      const { middle, low, high } = expectation(p, levels);
      const shared = { x: times, yaxis: "y2", mode: "lines" };
      traces.push(
        { ...shared, y: low, line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
        { ...shared, y: high, line: { width: 0 }, fill: "tonexty", fillcolor: "rgba(0,114,178,0.16)", name: "90 % band", hoverinfo: "skip" },
        { ...shared, y: middle, line: { color: report.colours[0], width: 2.5 }, name: "expected", hovertemplate: "expected %{y:.3g}<extra></extra>" },
        { x: when, y: what, yaxis: "y2", mode: "markers", name: "measured", marker: { color: "#1b2430", size: 8, symbol: "circle-open", line: { width: 2 } }, hovertemplate: "measured %{y:.4g}<extra></extra>" });
      layout.yaxis2 = report.axis(name, { domain: [0.44, 1] });
      layout.xaxis.anchor = "y";
    } else if (when.length) {
      const text = what.map((s) => `measured ${report.plain(node.states[s])}`);
      traces.push({ x: when, y: what.map((s) => (s + 0.5) / node.states.length), text, mode: "markers", name: "measured", marker: { color: "#1b2430", size: 9, symbol: "diamond-open", line: { width: 2 } }, hovertemplate: "%{text}<extra></extra>" });
    }
    Plotly.react("course-chart", traces, report.layoutOf(layout), report.plotConfig);
    report.byId("course-text").textContent = `${node.name} in trajectory ${data.trajectories[t]}: ${when.length} measurement${when.length === 1 ? "" : "s"}`;
    report.byId("course-hint").textContent = levels
      ? "Line: the measurement to expect given all data. Band: where 90 % of measurements should fall. Below: probability of each state, stacked." + (layout.dragmode ? " Drag to enlarge a part, double-click to go back." : "")
      : when.length ? "Probability of each state, stacked; diamonds mark the measured state, at its own height (first state lowest)." : "Probability of each state, stacked. This node was not measured in this trajectory.";
  };

  report.startCourses = () => {
    if (!data) return;
    report.fillMenu(report.byId("course-node"), data.nodes.map(report.name));
    report.fillMenu(report.byId("course-trajectory"), data.trajectories);
    report.byId("course-node").addEventListener("change", (event) => report.announce("node", data.nodes[Number(event.target.value)]));
    report.byId("course-trajectory").addEventListener("change", report.drawCourse);
    report.listeners.node.push((node) => {
      const place = data.nodes.indexOf(node);
      if (place < 0) return;
      report.byId("course-node").value = String(place);
      report.drawCourse();
    });
  };
}
