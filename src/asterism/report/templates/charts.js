/* Charts that do not change: heat map, curves against the truth, convergence. */
report.colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d"];
/** Fills under the same hues, light enough for marks on top. */
report.fills = ["#c9dff0", "#f9d3b5", "#bfe6da", "#f0d5e3", "#fae3b0", "#d6edfb", "#d9d9d9"];
/** No tool bar: it covers small charts, and newer versions offer to send the data to a server. */
report.plotConfig = { displayModeBar: false, displaylogo: false, showSendToCloud: false, showLink: false, responsive: true };

report.layoutOf = (changes) => ({
  font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif", size: 13, color: "#1b2430" },
  margin: { l: 62, r: 16, t: 30, b: 48 },
  paper_bgcolor: "#ffffff",
  plot_bgcolor: "#ffffff",
  showlegend: false,
  dragmode: false, // a finger on a chart should scroll the page
  hoverlabel: { bgcolor: "#ffffff", font: { color: "#1b2430" } },
  ...changes,
});

report.axis = (title, changes = {}) => ({
  title: { text: title, standoff: 8 }, gridcolor: "#e8ecf0", linecolor: "#8a94a0", zeroline: false, automargin: true, ...changes,
});

/** Names may look like Plotly's markup (<b>, <br>): show them as they are. */
report.plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

report.drawHeatmap = () => {
  const chart = report.byId("heatmap-chart");
  if (!chart) return;
  const { nodes, z } = report.heatmap;
  const short = nodes.map((name) => report.plain(name.length > 16 ? `${name.slice(0, 15)}…` : name));
  const ticks = { tickvals: nodes.map((_, i) => i), ticktext: short, tickfont: { size: nodes.length > 30 ? 9 : 12 } };
  const hover = z.map((line, i) => line.map((p, j) => (p === null ? "" : `${report.plain(nodes[i])} → ${report.plain(nodes[j])}: ${p.toFixed(3)}`)));
  Plotly.newPlot(chart, [{
    type: "heatmap", z, zmin: 0, zmax: 1, text: hover, hoverinfo: "text", hoverongaps: false, xgap: 1, ygap: 1,
    colorscale: [[0, "#f7fafc"], [0.25, "#c6dbef"], [0.5, "#6baed6"], [0.75, "#2171b5"], [1, "#08306b"]],
    colorbar: { thickness: 10, len: 0.7, outlinewidth: 0, tickvals: [0, 0.5, 1], xpad: 6 },
  }], report.layoutOf({
    xaxis: report.axis("child", { ...ticks, side: "bottom", showgrid: false, tickangle: -45 }),
    yaxis: report.axis("parent", { ...ticks, autorange: "reversed", showgrid: false }),
    margin: { l: 60, r: 10, t: 10, b: 60 }, plot_bgcolor: "#e3e7ec",
  }), report.plotConfig);
};

report.drawCurves = () => {
  if (!report.truth) return;
  const { roc, pr, base_rate: base } = report.truth;
  const curve = (points, shape) => ({ ...points, mode: "lines", line: { color: report.colours[0], width: 2.5, shape }, hovertemplate: "%{x:.2f}, %{y:.2f}<extra></extra>" });
  const chance = (x, y) => ({ x, y, mode: "lines", line: { color: "#8a94a0", width: 1.5, dash: "dash" }, hoverinfo: "skip" });
  const unit = { range: [-0.02, 1.02], dtick: 0.2 };
  const draw = (id, curves, x, y) => Plotly.newPlot(id, curves, report.layoutOf({
    xaxis: report.axis(x, unit), yaxis: report.axis(y, unit), margin: { l: 58, r: 12, t: 10, b: 48 },
  }), report.plotConfig);
  draw("roc-chart", [chance([0, 1], [0, 1]), curve(roc)], "false positive rate", "true positive rate");
  draw("pr-chart", [chance([0, 1], [base, base]), curve(pr, "vh")], "recall", "precision");
};

report.drawHistory = () => {
  const chart = report.byId("history-chart");
  if (!chart) return;
  const counters = ["iteration", "sweep", "step"];
  const all = Object.entries(report.history);
  const counter = all.find(([name]) => counters.includes(name));
  const series = all.filter(([name, values]) => !counters.includes(name) && values.some((v) => v !== null)).slice(0, 3);
  if (!series.length) return;
  const x = counter ? counter[1] : series[0][1].map((_, i) => i + 1);
  const layout = { grid: { rows: 1, columns: series.length, pattern: "independent", xgap: 0.22 } };
  const narrow = chart.clientWidth < 560;
  if (narrow) {
    layout.grid = { rows: series.length, columns: 1, pattern: "independent", ygap: 0.35 };
    chart.style.height = `${10 * series.length + 3}rem`;
  }
  const traces = series.map(([name, values], i) => {
    const n = i === 0 ? "" : i + 1;
    const falling = values.every((v) => v === null || v > 0) && Math.max(...values) > 50 * Math.min(...values.filter((v) => v !== null));
    layout[`xaxis${n}`] = report.axis(counter ? counter[0] : "iteration", { tickformat: "d", ...(Math.max(...x) - Math.min(...x) < 8 ? { dtick: 1 } : {}) });
    layout[`yaxis${n}`] = report.axis(name.replaceAll("_", " "), falling ? { type: "log", exponentformat: "power", dtick: "auto", nticks: 5 } : { nticks: 6, tickformat: "~f", hoverformat: "~f" });
    return { x, y: values, mode: x.length > 60 ? "lines" : "lines+markers", line: { color: report.colours[i], width: 2 }, marker: { size: 5 }, xaxis: `x${n}`, yaxis: `y${n}`, hovertemplate: "%{x}: %{y:.6g}<extra></extra>" };
  });
  Plotly.newPlot(chart, traces, report.layoutOf(layout), report.plotConfig);
};

/** Charts are as wide as the window; a sheet of paper is not, and printing tells nobody its width. */
report.startPrinting = () => {
  const PAPER = 690; // what fits between the margins of A4 and of letter paper
  const charts = () => [...document.querySelectorAll(".chart.js-plotly-plot")].filter((chart) => !chart.hidden);
  addEventListener("beforeprint", () => charts().forEach((chart) => {
    const width = chart.closest(".pair") ? PAPER / 2 - 10 : PAPER;
    Plotly.relayout(chart, { width, height: Math.min(chart.clientHeight, chart.classList.contains("square") ? 560 : 400) });
  }));
  addEventListener("afterprint", () => charts().forEach((chart) => Plotly.relayout(chart, { autosize: true })));
};

report.startSaving = () => document.querySelectorAll("[data-chart]").forEach((button) => {
  const chart = button.dataset.chart;
  button.setAttribute("aria-label", `Save ${chart.replace("-chart", "")} picture as SVG`);
  button.addEventListener("click", () => {
    const { clientWidth: width, clientHeight: height } = report.byId(chart);
    Plotly.downloadImage(chart, { format: "svg", filename: chart.replace("-chart", ""), width, height });
  });
});
