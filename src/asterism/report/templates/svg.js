/* Small tools for drawing charts as SVG: elements, text that fits, axes, saving. */
report.colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "var(--mixed)"];
/** Where colours begin again, lines are dashed: 28 can be told apart. */
report.line = (i) => ({ stroke: report.colours[i % 7], "stroke-dasharray": ["none", "8 4", "2 3", "9 3 2 3"][Math.floor(i / 7) % 4] });
/** Fills of the same hues, light enough for marks on top. */
report.fills = [0, 1, 2, 3, 4, 5, 6].map((i) => `var(--fill-${i})`);
report.ink = { text: "var(--ink)", soft: "var(--soft)", grid: "var(--grid)", axis: "var(--axis)" };

report.svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

{
  const pen = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;

  report.textWidth = (text, size = 12) => {
    pen.font = `${size}px ${family}`;
    return pen.measureText(text).width;
  };
}

/** The text, or its beginning and end: long names of genes often differ only there. */
report.fitText = (text, width, size = 12) => {
  if (report.textWidth(text, size) <= width) return text;
  const letters = [...text];
  for (let kept = letters.length - 1; kept > 1; kept -= 1) {
    const shown = report.shorten(letters, kept);
    if (report.textWidth(shown, size) <= width) return shown;
  }
  return "…";
};

report.label = (x, y, text, changes = {}) => report.svg("text", { x, y, "font-size": 12, fill: report.ink.soft, "text-anchor": "middle", ...changes }, text);

/** A path through points, leaving gaps where a value is not a number. */
report.through = (xs, ys, x, y) => {
  let path = "", pen = "M";
  xs.forEach((value, i) => {
    if (ys[i] === null || !Number.isFinite(ys[i])) { pen = "M"; return; }
    path += `${pen}${x(value).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
    pen = "L";
  });
  return path;
};

/** Round numbers that cover a range, about so many. */
report.ticks = (low, high, wanted = 5) => {
  const rough = (high - low || 1) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i += 1) found.push(i * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const write = (v) => (Math.abs(v) >= 1e6 || (v !== 0 && step < 1e-5) ? v.toExponential(1) : v.toFixed(Math.min(digits, 8)));
  return found.map((value) => ({ value, text: write(value) }));
};

report.logTicks = (low, high) => {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / 6));
  const found = [];
  for (let i = first; i <= last; i += every) found.push({ value: 10 ** i, text: i >= -3 && i <= 4 ? String(Number((10 ** i).toPrecision(1))) : `1e${i}` });
  return found;
};

/**
 * Axes in a box: {left, top, width, height}. An axis is {range, label, log, ticks, grid, whole}.
 * Returns the two functions that place a value.
 */
report.axes = (svg, box, xAxis, yAxis) => {
  const scale = ({ range, log }, from, to) => {
    const [low, high] = log ? range.map(Math.log10) : range, span = high - low || 1;
    return (value) => from + ((log ? Math.log10(value) : value) - low) / span * (to - from);
  };
  const ticksOf = (axis, wanted) => {
    if (axis.ticks) return axis.ticks;
    const found = axis.log ? report.logTicks(...axis.range) : report.ticks(...axis.range, wanted);
    return axis.whole ? found.filter(({ value }) => Math.abs(value - Math.round(value)) < 1e-9).map(({ value }) => ({ value, text: String(Math.round(value)) })) : found;
  };
  const right = box.left + box.width, bottom = box.top + box.height;
  const x = scale(xAxis, box.left, right), y = scale(yAxis, bottom, box.top);
  const line = (attributes) => svg.append(report.svg("line", { "stroke-width": 1, stroke: report.ink.grid, ...attributes }));
  ticksOf(yAxis, Math.max(2, Math.floor(box.height / 45))).forEach(({ value, text }) => {
    if (yAxis.grid !== false) line({ x1: box.left, x2: right, y1: y(value), y2: y(value) });
    svg.append(report.label(box.left - 7, y(value) + 4, text, { "text-anchor": "end" }));
  });
  ticksOf(xAxis, Math.max(2, Math.floor(box.width / 75))).forEach(({ value, text }) => {
    if (xAxis.grid !== false) line({ x1: x(value), x2: x(value), y1: box.top, y2: bottom });
    if (xAxis.label !== null) svg.append(report.label(x(value), bottom + 17, text));
  });
  line({ x1: box.left, x2: right, y1: bottom, y2: bottom, stroke: report.ink.axis });
  if (xAxis.label) svg.append(report.label(box.left + box.width / 2, bottom + 37, xAxis.label, { fill: report.ink.text, "font-size": 13 }));
  if (yAxis.label) {
    const middle = box.top + box.height / 2, text = report.fitText(yAxis.label, box.height + 20, 13);
    svg.append(report.label(13, middle, text, { fill: report.ink.text, "font-size": 13, transform: `rotate(-90 13 ${middle})` }));
  }
  return { x, y };
};

/** A range with a little air on both sides. */
report.padded = (values, share = 0.05) => {
  let low = Infinity, high = -Infinity;
  values.forEach((v) => { if (v !== null && Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); } });
  if (low > high) return [0, 1];
  const pad = (high - low) * share || Math.abs(high) * share || 1;
  return [low - pad, high + pad];
};

/** One line of marks and words above a chart; returns the height used. */
report.chartKey = (svg, entries, left, width) => {
  let x = left, y = 12;
  entries.forEach(({ text, mark }) => {
    const shown = report.fitText(text, width - left - 30), wide = 26 + report.textWidth(shown) + 16;
    if (x > left && x + wide > width) { x = left; y += 19; }
    svg.append(mark(x, y - 4), report.label(x + 24, y, shown, { "text-anchor": "start" }));
    x += wide;
  });
  return y + 8;
};
report.keyBox = (fill, stroke = "none") => (x, y) => report.svg("rect", { x, y: y - 5, width: 18, height: 10, fill, stroke, rx: 2 });
report.keyLine = (line, width = 2.5) => (x, y) => report.svg("line", { x1: x, x2: x + 18, y1: y, y2: y, ...line, "stroke-width": width });
report.keyDot = (x, y) => report.svg("circle", { cx: x + 9, cy: y, r: 4.5, fill: "none", stroke: report.ink.text, "stroke-width": 1.8 });

{
  const charts = new Map();

  const redraw = (holder) => {
    const { label, draw } = charts.get(holder);
    const width = Math.floor(holder.clientWidth);
    if (holder.hidden || width < 40) return;
    const focused = holder.contains(document.activeElement);
    const svg = report.svg("svg", { role: "group", "aria-label": label, "font-family": getComputedStyle(document.body).fontFamily });
    holder.replaceChildren(svg);
    const height = draw(svg, width);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    holder.dataset.width = width;
    if (focused) holder.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  };

  // Text should keep its size, so a chart is drawn again when its place becomes wider or narrower.
  const watcher = new ResizeObserver((entries) => entries.forEach(({ target }) => {
    if (Math.abs(target.clientWidth - Number(target.dataset.width || 0)) > 1 && !matchMedia("print").matches) redraw(target);
  }));

  /** Keep a chart in its holder: draw(svg, width) returns the height it took. */
  report.chart = (holder, label, draw) => {
    const known = charts.has(holder);
    charts.set(holder, { label, draw });
    redraw(holder);
    if (!known) watcher.observe(holder);
  };
}

/** Mixed colours as rgb(): other programs do not read color(). */
const plainColour = (value) => value.replace(/color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)\)/, (_, ...parts) => `rgb(${parts.slice(0, 3).map((part) => Math.round(255 * part)).join(", ")})`);

/** An SVG as a file of its own: styles are written into its elements. */
report.saveSvg = (svg, name) => {
  const copy = svg.cloneNode(true), { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const all = "path, rect, text, line, circle";
  const originals = svg.querySelectorAll(all);
  copy.querySelectorAll(all).forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const property of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "text-anchor", "dominant-baseline", "opacity"]) {
      element.style.setProperty(property, plainColour(style.getPropertyValue(property)));
    }
    element.style.fontFamily = "Helvetica, Arial, sans-serif";
  });
  copy.querySelectorAll("[data-aid]").forEach((element) => element.remove());
  report.saveFile(name, "image/svg+xml", new XMLSerializer().serializeToString(copy));
};

report.startSaving = () => document.querySelectorAll("[data-chart]").forEach((button) => {
  const name = button.dataset.chart.replace("-chart", "");
  button.setAttribute("aria-label", `Save SVG of ${name}`);
  button.addEventListener("click", () => report.saveSvg(report.byId(button.dataset.chart).querySelector("svg"), `${name}.svg`));
});
