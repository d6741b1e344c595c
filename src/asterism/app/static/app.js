"use strict";
// Text of tables and runs is only ever set as textContent: nothing of it becomes markup.
const one = (selector) => document.querySelector(selector);
const state = { table: null, watched: null, checks: 0, left: new Set(), chosen: new Set(), runs: [], wait: 0 };

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made) made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const fill = (selector, ...children) => one(selector).replaceChildren(...children);
// the program's sentences name flags of the command line; here one clicks
const FIELDS = {
  "--sheet": "“Sheet”", "--max-parents": "“Most parents per node”", "--sort": "Rows: sorted by time", "--missing": "“Codes for missing”", "--labels": "“Columns of state names”", "--states": "“Numbers are”", "--time": "“Time”",
  "--trajectory": "“Trajectory”", "--kind": "“Layout”", "--top": "“Only the most variable”", "--comma": "“Commas in numbers”", "--nodes": "“Columns to learn from”",
  "--emission": "“Emission”", "--exogenous": "“Set from outside”", "--method": "“Method”", "--minutes": "“Stop after minutes”",
};
// brackets about flags that have no field here are left out; elsewhere it is said where such a flag is
const told = (brackets) => brackets.match(/--[a-z-]+/g).every((flag) => flag in FIELDS) ? brackets : "";
function plain(text) {
  const said = String(text).replace(/ \((--[\w-]+(, | and )?)+\)/g, "").replace(/ \([^()]*--[a-z][^()]*\)/g, told)
    .replace(/^Warning: /, "").replace(/--[a-z][a-z-]*/g, (flag) => FIELDS[flag] ?? flag);
  return /--[a-z]/.test(said) ? `${said} (Words that begin with -- are for asterism learn on the command line.)` : said;
}

function trouble(text) {
  one("#trouble").hidden = !text;
  one("#trouble").textContent = text || "";
  if (text) one("#trouble").scrollIntoView({ block: "nearest" });
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The app does not answer: is asterism app still running?");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.error || `This could not be done (${answer.status}).`);
  return content;
}
const post = (path, content) => ask(path, { method: "POST", body: JSON.stringify(content) });
const guarded = (work) => async (event) => {
  try { trouble(""); await work(event); } catch (error) { trouble(error.message); }
};

// ---- the table ----------------------------------------------------------------------------------

const upload = guarded(async (files) => {
  if (files.length !== 1) throw new Error("One table at a time, please.");
  const [file] = files;
  if (file.size > 200 * 2 ** 20) throw new Error("The table is larger than 200 MB: use asterism learn instead.");
  one("#checking").textContent = `Reading ${file.name} …`;
  const { name } = await ask("/tables", {
    method: "POST", body: file, headers: { "X-Filename": encodeURIComponent(file.name) },
  });
  one("#form").reset();
  state.left.clear();
  show(name, {});
});

function show(name, settings) {
  state.table = name;
  for (const [key, value] of Object.entries(settings)) {
    const field = one("#form").elements[key];
    if (field && key !== "nodes" && key !== "time" && key !== "trajectory") field.value = value;
  }
  one("#understood").hidden = false;
  fill("#facts"); fill("#problems"); fill("#decisions"); fill("#courses");
  check(settings);
  one("#understood-title").focus();
  look();
}

function chosen() {
  const settings = {};
  for (const field of one("#form").elements) {
    if (field.name && field.value !== "") settings[field.name] = field.value;
  }
  const boxes = [...document.querySelectorAll("#node-list input")];
  if (boxes.some((box) => !box.checked)) settings.nodes = boxes.filter((box) => box.checked).map((box) => box.value);
  return settings;
}

async function check(settings) {
  const number = ++state.checks;
  one("#checking").textContent = "Looking at the table …";
  one("#start").disabled = true;
  try {
    const found = await post(`/runs/${state.table}/check`, settings);
    if (number === state.checks) understood(found, settings);
  } catch (error) {
    if (number === state.checks) { one("#checking").textContent = ""; trouble(error.message); }
  }
}

function understood(found, settings) {
  const problems = found.error ? [{ message: found.error }] : found.problems ?? [];
  const errors = problems.filter((problem) => problem.severity !== "warning");
  one("#checking").textContent = found.ok ? "The table can be used." : `${errors.length} problem${errors.length === 1 ? "" : "s"} to mend, in the table or below.`;
  one("#start").disabled = !found.ok;
  const unit = found.time_unit ? ` ${found.time_unit}` : "";
  const facts = found.n_nodes === undefined ? [] : [
    ["nodes", found.n_nodes], ["trajectories", found.n_trajectories], ["measurements", found.n_measurements],
    ["time", found.first_time === null || found.first_time === undefined ? null : `${found.first_time} to ${found.last_time}${unit}`],
  ].filter(([, value]) => value !== undefined && value !== null);
  fill("#facts", ...facts.map(([name, value]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value.toLocaleString("en") }))));
  const shown = problems.slice(0, 100).map((problem) => {
    const where = [problem.row === null || problem.row === undefined ? "" : `row ${problem.row}`, problem.column ? `column ${problem.column}` : ""].filter(Boolean).join(", ");
    return make("p", { className: "problem" }, make("span", { className: "where", textContent: where && `${where}: ` }),
      plain((where ? problem.message.replace(/^row [^:]*: /, "") : problem.message) + (problem.remedy ? `; ${problem.remedy}` : "")));
  });
  if (problems.length > shown.length) shown.push(make("p", { textContent: `… and ${problems.length - shown.length} more.` }));
  fill("#problems", ...shown, ...(found.warnings ?? []).map((text) => make("p", { className: "caution", textContent: plain(text) })));
  fill("#decisions", ...(found.decisions ?? []).map((text) => make("li", { textContent: plain(text) })));
  fill("#courses", ...(found.courses ?? []).map(course));
  one("#sheets").hidden = (found.sheets ?? []).length < 2;
  choices("#sheet", found.sheets, settings.sheet);
  choices("#time", found.header, settings.time, found.columns?.time);
  choices("#trajectory", found.header, settings.trajectory, found.columns?.trajectory);
  const taken = new Set([found.columns?.time, found.columns?.trajectory]);
  const values = new Map((found.nodes ?? []).map((node) => [node.node, node.values ?? ""]));
  const wide = found.columns?.kind === "wide" && (found.header ?? []).length <= 300;
  const nodes = wide ? found.header.filter((name) => !taken.has(name)) : [];
  one("#nodes").hidden = nodes.length < 2;
  fill("#node-list", ...nodes.map((name) => make("label", {},
    make("input", { type: "checkbox", value: name, checked: !settings.nodes || settings.nodes.includes(name) }),
    ` ${name} `, make("span", { className: "hint", textContent: values.get(name) ?? "" }))));
}

function choices(selector, header, asked, recognised) {
  const first = recognised && !asked ? `${recognised} (recognised)` : "as recognised";
  fill(selector, make("option", { value: "", textContent: first }), ...(header ?? []).map((name) => make("option", { value: name, textContent: name, selected: name === asked })));
}

function course({ node, lines }) {
  const points = lines.flat(), bounds = (k) => [Math.min(...points.map((p) => p[k])), Math.max(...points.map((p) => p[k]))];
  const [[t0, t1], [v0, v1]] = [bounds(0), bounds(1)];
  const place = ([t, v]) => `${(100 * (t - t0)) / (t1 - t0 || 1)},${40 - (38 * (v - v0)) / (v1 - v0 || 1)}`;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["viewBox", "0 0 100 42"], ["preserveAspectRatio", "none"], ["role", "img"], ["aria-label", `${node} over time, ${v0.toPrecision(3)} to ${v1.toPrecision(3)}`]]) svg.setAttribute(name, value);
  for (const line of lines) {
    const drawn = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    drawn.setAttribute("points", line.map(place).join(" "));
    svg.append(drawn);
  }
  return make("div", { className: "course" }, make("b", { textContent: node, title: node }), svg);
}

// ---- runs ---------------------------------------------------------------------------------------

async function look() {
  clearTimeout(state.wait);
  try {
    const { runs, folder } = await ask("/runs");
    state.runs = runs;
    one("#folder").textContent = `Kept in ${folder}.`;
    if (state.watched === null) state.watched = runs.find((run) => run.state === "running")?.name ?? null;
    list();
    watch(runs.find((run) => run.name === state.watched));
    if (state.silent) { trouble(""); state.silent = false; }
  } catch (error) {
    state.silent = true;
    trouble(error.message);
  }
  state.wait = setTimeout(look, state.runs.some((run) => run.state === "running") ? 1000 : 5000);
}

const linkTo = (path, text, more = {}) => make("a", { href: path, textContent: text, className: "button", ...more });
const report = (run) => linkTo(`/runs/${run.name}/report`, "Open the report", { target: "_blank", rel: "noopener" });
const folder = (run) => linkTo(`/runs/${run.name}/zip`, "Download the folder");
let drawn = "";

function list() {
  const runs = [...state.runs].reverse();
  const now = JSON.stringify(runs.map((run) => [run.name, run.state, run.message, run.has_results]));
  if (now === drawn) return;  // the keyboard stays where it is
  drawn = now;
  fill("#runs", ...(runs.length ? runs.map(row) : [make("li", { textContent: "None yet." })]));
}

function row(run) {
  const box = make("input", { type: "checkbox", checked: state.chosen.has(run.name), disabled: !run.has_results });
  box.addEventListener("change", () => {
    state.chosen[box.checked ? "add" : "delete"](run.name);
    one("#compare").disabled = state.chosen.size !== 2;
  });
  const again = make("button", { type: "button", textContent: run.state === "running" ? "Watch" : "Table" });
  again.addEventListener("click", () => {
    if (run.state === "running") { state.watched = run.name; look(); } else { one("#form").reset(); show(run.name, run.settings); }
  });
  const when = new Date(1000 * run.created).toLocaleString();
  const what = run.state === "new" ? "not started" : run.state;
  return make("li", {}, make("label", {}, box, ` ${run.title}`),
    make("span", { className: "hint", textContent: `${what}, ${when}${run.message ? `. ${run.message}` : ""}` }),
    again, ...(run.has_results ? [report(run), folder(run)] : []));
}

let buttons = "";
function watch(run) {
  one("#running").hidden = !run;
  if (!run) return;
  const runs = run.state === "running", { stage, done, total, left } = run.stage;
  one("#running-title").textContent = `${run.title}: ${run.state}`;
  one("#bar").hidden = !runs;
  if (total > 0) { one("#bar").max = total; one("#bar").value = Math.min(done, total); } else one("#bar").removeAttribute("value");
  one("#stage").textContent = !runs ? "" : `${stage ?? "Starting"}${total > 1 ? `: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : ""}${left > 2 ? `, about ${Math.round(left)} s left` : ""}`;
  one("#outcome").textContent = plain(run.message);
  one("#outcome").className = run.state === "failed" ? "warning" : "";
  const now = `${run.name} ${run.state} ${run.has_results}`;
  if (now !== buttons) {
    buttons = now;
    const stop = make("button", { type: "button", id: "stop", textContent: "Stop, keep the best so far" });
    stop.addEventListener("click", guarded(async () => { stop.textContent = "Stopping … (again: at once)"; await post(`/runs/${run.name}/stop`, {}); look(); }));
    fill("#run-buttons", ...(runs ? [stop] : []), ...(run.has_results && !runs ? [report(run), folder(run)] : []));
  }
  one("#ranking-box").hidden = run.ranking.length === 0;
  one("#ranking-hint").textContent = runs ? "As the search has it now; the report gives the final probabilities." : "As it was last while it ran; the report gives the final probabilities.";
  fill("#ranking tbody", ...run.ranking.map(([parent, child, p]) => {
    const bar = make("span", { className: "bar" }, make("i", { style: `width:${100 * p}%` }));
    return make("tr", {}, make("td", { textContent: `${parent} → ${child}` }), make("td", {}, p.toFixed(2), bar));
  }));
  fill("#lines", ...run.lines.map((line) => make("li", { textContent: plain(line) })));
}

// ---- what one does ------------------------------------------------------------------------------

one("#file").addEventListener("change", ({ target }) => { if (target.files.length) upload(target.files); target.value = ""; });
for (const name of ["dragover", "drop", "dragleave"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    one("#drop").classList.toggle("over", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) upload(event.dataTransfer.files);
  });
}
one("#form").addEventListener("change", ({ target }) => {
  if (!["max-parents", "minutes", "method"].includes(target.name)) { trouble(""); check(chosen()); }
});
one("#form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(async () => {
    const run = await post(`/runs/${state.table}/start`, chosen());
    state.watched = run.name;
    await look();
    one("#running-title").focus();
  })();
});
one("#compare").addEventListener("click", guarded(async () => {
  one("#compare").textContent = "Comparing …";
  try {
    const { page } = await post("/compare", [...state.chosen]);
    one("#compare").after(" ", linkTo(page, "Open the comparison", { target: "_blank", rel: "noopener", id: "compared" }));
  } finally { one("#compare").textContent = "Compare the two chosen"; }
}));
look();
