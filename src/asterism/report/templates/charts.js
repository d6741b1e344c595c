/* Charts that do not change: curves against the known network, and convergence. */
{
  const square = (id, label, xLabel, yLabel, drawInside) => report.chart(report.byId(id), label, (svg, width) => {
    const side = Math.min(width - 70, 400), box = { left: 52, top: 10, width: side, height: side };
    const unit = { range: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) => ({ value, text: value.toFixed(1) })) };
    const { x, y } = report.axes(svg, box, { ...unit, label: xLabel }, { ...unit, label: yLabel });
    drawInside(svg, x, y);
    return side + 60;
  });

  const curve = (svg, path) => svg.append(report.svg("path", { d: path, fill: "none", stroke: report.colours[0], "stroke-width": 2.5, class: "curve" }));
  const chance = (svg, x, y, from, to, text) => {
    svg.append(report.svg("line", { class: "baseline", x1: x(0), x2: x(1), y1: y(from), y2: y(to), stroke: report.ink.axis, "stroke-width": 1.5, "stroke-dasharray": "5 4" }));
    svg.append(report.label(x(0.98), y(from === to ? from : 0.9) - 6, text, { "text-anchor": "end" }));
  };

  report.drawCurves = () => {
    if (!report.truth) return;
    const { roc, pr, base_rate: base, scores } = report.truth;
    square("roc-chart", `ROC curve, area ${scores.auroc}`, "false positive rate", "true positive rate", (svg, x, y) => {
      svg.append(report.svg("line", { class: "baseline", x1: x(0), x2: x(1), y1: y(0), y2: y(1), stroke: report.ink.axis, "stroke-width": 1.5, "stroke-dasharray": "5 4" }));
      svg.append(report.label(x(0.98), y(0.06), "dashed: guessing", { "text-anchor": "end" }));
      curve(svg, report.through(roc.x, roc.y, x, y));
    });
    square("pr-chart", `Precision against recall, average precision ${scores.aupr}`, "recall", "precision", (svg, x, y) => {
      chance(svg, x, y, base, base, "guessing");
      // precision holds from the recall before up to its own: steps, not slopes
      const path = pr.x.map((v, i) => (i ? `V${y(pr.y[i]).toFixed(1)}H${x(v).toFixed(1)}` : `M${x(v).toFixed(1)} ${y(pr.y[i]).toFixed(1)}`)).join("");
      curve(svg, path);
    });
  };

  report.drawHistory = () => {
    const holder = report.byId("history-chart");
    if (!holder) return;
    const counters = ["iteration", "sweep", "step", "draws"];
    const all = Object.entries(report.history);
    const counter = all.find(([name]) => counters.includes(name));
    const series = all.filter(([name, values]) => !counters.includes(name) && values.some((v) => v !== null)).slice(0, 3);
    if (!series.length) { holder.hidden = true; return; }
    const xs = counter ? counter[1] : series[0][1].map((_, i) => i + 1);
    report.chart(holder, `${series.map(([name]) => name.replaceAll("_", " ")).join(", ")} over the ${counter ? counter[0] : "iterations"}`, (svg, width) => {
      const columns = width < 560 ? 1 : series.length, each = width / columns, high = 190;
      series.forEach(([name, values], i) => {
        const known = values.filter((v) => v !== null);
        const log = known.every((v) => v > 0) && Math.max(...known) > 50 * Math.min(...known);
        const range = log ? [Math.min(...known) / 1.5, Math.max(...known) * 1.5] : report.padded(known, 0.08);
        const part = report.svg("g", { transform: `translate(${(i % columns) * each} ${Math.floor(i / columns) * (high + 70)})` });
        svg.append(part);
        const ticks = log ? report.logTicks(...range) : report.ticks(...range, 4);
        const left = 32 + Math.max(20, ...ticks.map(({ text }) => report.textWidth(text)));
        const box = { left, top: 12, width: each - left - 14, height: high };
        const { x, y } = report.axes(part, box, { range: report.padded(xs, 0.03), label: counter ? counter[0] : "iteration", whole: true, grid: false }, { range, log, ticks, label: name.replaceAll("_", " ") });
        part.append(report.svg("path", { d: report.through(xs, values, x, y), fill: "none", stroke: report.colours[i], "stroke-width": 2 }));
        if (xs.length <= 60) values.forEach((v, k) => { if (v !== null) part.append(report.svg("circle", { cx: x(xs[k]), cy: y(v), r: 2.8, fill: report.colours[i] })); });
      });
      return Math.ceil(series.length / columns) * (high + 70) - 10;
    });
  };
}
