"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const make = (tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; return e; };
const short = (v) => (v < 0.001 && v > 0 ? "<0.001" : v.toFixed(3));

function showProbabilities(k) {
  const p = data.probabilities, table = make("table"), head = make("tr");
  head.append(make("th", "from \\ to"), ...p.labels.map((s) => make("th", s)));
  table.append(head);
  p.labels.forEach((from, a) => {
    const row = make("tr");
    row.append(make("td", from));
    p.labels.forEach((_, b) => {
      const cell = make("td", short(p.probability[k][a][b]));
      const range = make("div", `${short(p.lower[k][a][b])} – ${short(p.upper[k][a][b])}`);
      range.className = "soft";
      cell.append(range);
      row.append(cell);
    });
    table.append(row);
  });
  document.getElementById("probabilities").replaceChildren(table);
  document.getElementById("time").textContent = String(+p.times[k].toPrecision(3));
}

function showCourse(d) {
  const c = data.courses, one = c.trajectories[d], holder = document.getElementById("course");
  holder.replaceChildren();
  one.nodes.forEach((node, n) => {
    if (!node.t.length) return;
    const width = 720, height = 150, left = 46, t0 = node.t[0], t1 = Math.max(node.t[node.t.length - 1], t0 + 1e-12);
    const x = (t) => left + ((width - left - 30) * (t - t0)) / (t1 - t0), y = (p) => 8 + (height - 40) * (1 - p);
    let below = node.t.map(() => 0), svg = "";
    c.states[n].forEach((_, s) => {
      const above = node.p.map((row, k) => below[k] + row[s]);
      const up = node.t.map((t, k) => `${x(t)},${y(above[k])}`), down = node.t.map((t, k) => `${x(t)},${y(below[k])}`).reverse();
      svg += `<polygon points="${up.concat(down).join(" ")}" fill="${data.colours[s % data.colours.length]}" fill-opacity=".8"/>`;
      below = above;
    });
    for (const [name, t, value] of c.measured[one.label] || []) {
      const s = c.states[n].indexOf(value);
      if (name === c.nodes[n]) svg += `<circle cx="${x(t)}" cy="${height - 24}" r="4.5" fill="${s < 0 ? "#888" : data.colours[s % data.colours.length]}"/>`;
    }
    for (let k = 0; k <= 5; k++) { const t = t0 + (k * (t1 - t0)) / 5; svg += `<text x="${x(t)}" y="${height - 4}" class="tick">${+t.toPrecision(3)}</text>`; }
    if (data.unit) svg += `<text x="${width - 10}" y="${height + 10}" class="name">${data.unit}</text>`;
    const element = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    element.setAttribute("viewBox", `0 0 ${width} ${height + 14}`);
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", `Probability of each state of ${c.nodes[n]} over time`);
    element.innerHTML = svg;
    const legend = make("p");
    legend.className = "legend";
    legend.append(make("b", c.nodes[n] + " "));
    c.states[n].forEach((label, s) => { const part = make("span"), box = make("i"); box.style.background = data.colours[s % data.colours.length]; part.append(box, label); legend.append(part); });
    holder.append(legend, element);
  });
}

if (data.probabilities) {
  const slider = document.getElementById("slider");
  slider.max = data.probabilities.times.length - 1;
  slider.value = Math.round(slider.max / 4);
  slider.addEventListener("input", () => showProbabilities(+slider.value));
  showProbabilities(+slider.value);
}
if (data.courses && data.courses.trajectories.length) {
  const choice = document.getElementById("trajectory");
  data.courses.trajectories.forEach((one, d) => { const o = make("option", one.label); o.value = d; choice.append(o); });
  choice.addEventListener("change", () => showCourse(+choice.value));
  showCourse(0);
}
