/* Small pictures side by side: chains of a sampled run, and histograms with the levels counted in them. */
{
  const figure = (title, label, width, height, ...shapes) => report.element("figure", {}, report.element("figcaption", {}, title),
    report.svg("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": `${label} ${title}` }, ...shapes));
  const fill = (id, figures) => report.byId(id)?.replaceChildren(...figures);
  const figureOf = (value, digits) => (value === null ? "unknown" : value.toFixed(digits));

  /** P(edge | paths) along each chain. Chains that agree lie on top of each other. */
  const trace = ({ parent, child, probability, error, r_hat: rHat, traces }, draws) => {
    const width = 340, height = 110, left = 34, right = width - 6, top = 8, bottom = height - 18;
    const y = (v) => bottom - v * (bottom - top);
    const lines = [[0, "0"], [0.5, "½"], [1, "1"]].flatMap(([v, text]) => [
      report.svg("line", { x1: left, x2: right, y1: y(v), y2: y(v), stroke: report.ink.grid }),
      report.label(left - 6, y(v) + 4, text, { "text-anchor": "end", "font-size": 11 })]);
    const chains = traces.map((values, i) => report.svg("path", { class: "chain", fill: "none", ...report.line(i), "stroke-width": 1.2, opacity: 0.8,
      d: report.through(values.map((_, k) => k), values, (k) => left + k * (right - left) / Math.max(1, values.length - 1), y) }));
    const words = report.label(right, height - 4, `${draws.toLocaleString("en")} draws of each chain`, { "text-anchor": "end", "font-size": 11 });
    return figure(`${parent} → ${child}: ${probability.toFixed(2)} ± ${figureOf(error, 3)}, R̂ ${figureOf(rHat, 2)}`, "Trace of", width, height, ...lines, ...chains, words);
  };

  const histogram = ({ title, counts, range: [low, high], means, course }) => {
    const width = 220, height = 96, top = 6, bottom = height - 16, most = Math.max(...counts), each = (width - 8) / counts.length;
    const x = (v) => 4 + (v - low) / (high - low) * (width - 8);
    const bars = counts.map((count, i) => report.svg("rect", { x: 4 + i * each, width: each, y: bottom - (bottom - top) * count / most, height: (bottom - top) * count / most, fill: report.ink.axis, opacity: 0.5 }));
    let free = -Infinity; // a number is left out where it would cover the one before
    const levels = means.flatMap((mean) => {
      const text = report.number(mean), wide = report.textWidth(text, 11), at = Math.min(Math.max(x(mean), wide / 2), width - wide / 2);
      const line = report.svg("line", { x1: x(mean), x2: x(mean), y1: top, y2: bottom, stroke: report.colours[0], "stroke-width": 2 });
      if (at - wide / 2 < free) return [line];
      free = at + wide / 2 + 4;
      return [line, report.label(at, height - 4, text, { "font-size": 11 })];
    });
    if (!course) return figure(title, "Measurements of", width, height, ...bars, ...levels);
    const [times, values] = course, [first, last] = [times[0], times[times.length - 1]];
    const across = (t) => width + 6 + (t - first) / (last - first || 1) * (width - 12), up = (v) => bottom - (v - low) / (high - low) * (bottom - top);
    const ends = [low, high].map((v) => report.label(v === low ? 4 : width - 4, height - 4, report.number(v), { "font-size": 11, "text-anchor": v === low ? "start" : "end" }));
    const line = report.svg("path", { d: report.through(times, values, across, up), fill: "none", stroke: report.colours[0], "stroke-width": 1.5 });
    const dots = times.map((t, i) => report.svg("circle", { cx: across(t), cy: up(values[i]), r: 2, fill: report.colours[0] }));
    return figure(title, "Measurements of", 2 * width, height, ...bars, ...ends, line, ...dots);
  };

  report.drawPanels = () => {
    if (report.chains) fill("trace-panels", report.chains.edges.map((edge) => trace(edge, report.chains.draws)));
    if (report.levels) fill("level-panels", report.levels.map(histogram));
  };
}
