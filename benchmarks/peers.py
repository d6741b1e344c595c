"""Beside other programs: the same data, the same run, accuracy, seconds and memory in one table.

Complete paths: the graph (pyAgrum) and the rates of a known graph (causal-hub). Nodes seen half of
the time: rates and graph (causal-hub); measurements with noise, which only we read. DREAM4, the
mean over its networks of ten genes: a random forest, lagged regression and lagged correlation.
Courses without data: scipy's solution of the master equation. Panel data: a plain maximiser of the
likelihood. Each line runs in a process of its own, twice; the processor time of the second run
counts, so nobody pays for compiling, importing or a busy machine. A program that is not installed
is skipped with a reason.
Run: python benchmarks/peers.py -o benchmarks/results [--data FOLDER]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, peak_gigabytes, write_table

import asterism as am
from asterism.data.formats.pyagrum import write_pyagrum

PARENTS = {"A": [], "B": ["A"], "C": ["A"], "D": ["B", "C"], "E": ["D"], "F": []}
STATES = dict.fromkeys(PARENTS, (-1, 1))
Measured = tuple[str, float]


class Cannot(Exception):
    """The program does not do this task at all."""


def network() -> am.Network:
    return am.glauber(PARENTS, a=1.0, b=1.0)


def paths() -> am.Trajectories:
    """One long path: pyAgrum found no edge at all in many short ones."""
    return am.simulate(network(), 1, duration=900.0, seed=1)


def f1(found: set[tuple[str, str]]) -> Measured:
    true = {(p, c) for c, above in PARENTS.items() for p in above}
    hits = len(found & true)
    return "F1 of the edges", 2.0 * hits / max(1, len(found) + len(true))


# ---- complete paths ---------------------------------------------------------------------------


def graph_by_asterism() -> Callable[[], Measured]:
    seen = paths()

    def work() -> Measured:
        learner = am.StructureLearner(max_parents=2, method="star").fit(seen)
        return f1({(str(p), str(c)) for p, c in learner.graph_.edges})

    return work


def graph_by_pyagrum() -> Callable[[], Measured]:
    import pyagrum.ctbn as ctbn

    file = Path(tempfile.mkdtemp()) / "paths.csv"
    write_pyagrum(paths(), file)

    def work() -> Measured:
        found = ctbn.Learner(str(file)).learnCTBN()
        return f1({(found.variable(p).name(), found.variable(c).name()) for p, c in found.arcs()})

    return work


def rate_error(rates: dict[str, np.ndarray]) -> Measured:
    """Median |ln| between learned and true rates; a rate that was never seen may be zero."""
    errors = []
    for node, true in network().rates.items():
        off = ~np.eye(true.shape[-1], dtype=bool)
        errors.append(np.abs(np.log(rates[node][..., off] / np.asarray(true)[..., off])).ravel())
    return "median error of ln rates", float(np.median(np.concatenate(errors)))


def rates_by_asterism() -> Callable[[], Measured]:
    seen = paths()

    def work() -> Measured:
        fit = am.ParameterLearner(PARENTS, method="exact").fit(seen)
        return rate_error({n: np.asarray(r) for n, r in fit.network_.rates.items()})

    return work


def rates_by_causal_hub() -> Callable[[], Measured]:
    from causal_hub.datasets import CatTrjs
    from causal_hub.models import CatCTBN

    seen = paths()
    names = list(PARENTS)
    frames = []
    for d in range(seen.n_trajectories):
        here = slice(seen.jump_offset[d], seen.jump_offset[d + 1])
        clock = np.concatenate([[0.0], seen.jump_time[here], seen.end[d : d + 1]])
        states = seen.state_at(np.tile(clock, (seen.n_trajectories, 1)))[d]
        frame = pd.DataFrame({n: states[:, i].astype(str) for i, n in enumerate(names)})
        frames.append(frame.astype("category").assign(time=clock))
    data = CatTrjs.from_pandas(frames)
    graph = graph_for_causal_hub()

    def work() -> Measured:
        return rate_error(rates_from_causal_hub(CatCTBN.fit(data, graph)))

    return work


def graph_for_causal_hub() -> Any:
    from causal_hub.models import DiGraph

    graph = DiGraph.empty(list(PARENTS))
    for child, above in PARENTS.items():
        for parent in above:
            graph.add_edge(parent, child)
    return graph


def rates_from_causal_hub(model: Any) -> dict[str, np.ndarray]:
    found = model.cims()
    shapes = {n: (2,) * (len(above) + 2) for n, above in PARENTS.items()}
    return {n: np.reshape(found[n].parameters(), shapes[n]) for n in PARENTS}


# ---- every node seen half of the time -----------------------------------------------------------


def watched_halves() -> pd.DataFrame:
    """Each node is watched in four windows of one unit; in between nobody knows."""
    seen = am.simulate(network(), 60, duration=8.0, seed=3)
    rng = np.random.default_rng(3)
    rows = []
    for d in range(seen.n_trajectories):
        here = slice(seen.jump_offset[d], seen.jump_offset[d + 1])
        for i, name in enumerate(PARENTS):
            own = seen.jump_node[here] == i
            cuts = [0.0, *seen.jump_time[here][own], 8.0]
            states = [seen.initial[d, i], *seen.jump_state[here][own]]
            for begin in 2.0 * np.arange(4) + rng.uniform(0.0, 1.0, 4):
                for start, end, state in zip(cuts[:-1], cuts[1:], states):
                    start, end = max(start, begin), min(end, begin + 1.0)
                    if end > start:
                        rows.append((d, name, start, end, (-1, 1)[state]))
    return pd.DataFrame(rows, columns=["trajectory", "node", "start", "end", "state"])


def halves_for_asterism() -> am.Observations:
    return am.Observations.from_frame(None, start=0.0, end=8.0, intervals=watched_halves())


def halves_for_causal_hub() -> Any:
    from causal_hub.datasets import CatTrjsEv

    frames = []
    for _, own in watched_halves().groupby("trajectory"):
        frame = pd.DataFrame(
            {"event": own["node"], "state": own["state"].map({-1: "0", 1: "1"}),
             "start_time": own["start"], "end_time": own["end"]}
        )  # fmt: skip
        frames.append(frame.astype({"event": object, "state": object}))
    return CatTrjsEv.from_pandas(frames, with_states=dict.fromkeys(PARENTS, ("0", "1")))


def half_rates_by_asterism() -> Callable[[], Measured]:
    seen = halves_for_asterism()

    def work() -> Measured:
        fit = am.ParameterLearner(PARENTS, method="exact", states=STATES).fit(seen)
        return rate_error({n: np.asarray(r) for n, r in fit.network_.rates.items()})

    return work


def half_rates_by_causal_hub() -> Callable[[], Measured]:
    from causal_hub.estimators import em

    seen, graph = halves_for_causal_hub(), graph_for_causal_hub()

    def work() -> Measured:
        return rate_error(rates_from_causal_hub(em(seen, graph, 50, 1)["last_model"]))

    return work


def half_graph_by_asterism() -> Callable[[], Measured]:
    seen = halves_for_asterism()

    def work() -> Measured:
        learner = am.StructureLearner(max_parents=2, states=STATES, method="star").fit(seen)
        return f1({(str(p), str(c)) for p, c in learner.graph_.edges})

    return work


def half_graph_by_causal_hub() -> Callable[[], Measured]:
    """Its hill climbing; its other search stops with a failed check inside on these data."""
    from causal_hub.estimators import PK, sem

    seen = halves_for_causal_hub()

    def work() -> Measured:
        found = sem(seen, PK(list(PARENTS), [], [], []), "cthc", 20, 1)["last_model"]
        return f1({(str(p), str(c)) for p, c in found.graph().edges()})

    return work


# ---- measured with noise ------------------------------------------------------------------------


def noisy_by_asterism() -> Callable[[], Measured]:
    emission = am.Gaussian((-1, 1), 0.3)
    replicates = am.simulate(network(), 60, duration=8.0, seed=1)
    seen = am.observe(replicates, emission, n_observations=20, seed=2)

    def work() -> Measured:
        learner = am.StructureLearner(emission, max_parents=2, minutes=120 / 60, method="star").fit(
            seen
        )
        return f1({(str(p), str(c)) for p, c in learner.graph_.edges})

    return work


def cannot_hide() -> Callable[[], Measured]:
    raise Cannot("reads complete paths only")


def cannot_measure() -> Callable[[], Measured]:
    raise Cannot("reads states, not measurements with noise")


# ---- DREAM4 -----------------------------------------------------------------------------------


def dream4(method: str, folder: str) -> Callable[[], Measured]:
    from asterism.paper.dream4 import rank_edges, read_edges

    data = Path(folder)
    there = sorted((data / "dream4").glob("insilico_size10_*_timeseries.csv"))
    names = [path.name.removeprefix("insilico_").removesuffix("_timeseries.csv") for path in there]

    def work() -> Measured:
        areas = []
        for name in names:
            if method == "regression":
                table = lagged_regression(data, name)
            else:
                found = rank_edges({"network": name, "method": method}, data)
                table = pd.DataFrame(found["scores"], index=found["genes"], columns=found["genes"])
            areas.append(am.metrics.edge_scores(table, read_edges(data, name))["aupr"])
        return "mean AUPR", float(np.mean(areas))

    return work


def lagged_regression(data: Path, name: str) -> pd.DataFrame:
    """|coefficient| of every gene in a lasso that predicts each gene one step later."""
    from sklearn.linear_model import LassoCV

    from asterism.paper.dream4 import read_series

    table = read_series(data, name)
    genes = [c for c in table.columns if c not in ("series", "time")]
    series = [own[genes].to_numpy() for _, own in table.sort_values("time").groupby("series")]
    before = np.concatenate([one[:-1] for one in series])
    after = np.concatenate([one[1:] for one in series])
    before = (before - before.mean(axis=0)) / before.std(axis=0)
    scores = np.zeros((len(genes), len(genes)))
    for target in range(len(genes)):
        change = after[:, target] / after[:, target].std()
        scores[:, target] = np.abs(LassoCV(cv=5).fit(before, change).coef_)
    return pd.DataFrame(scores, index=genes, columns=genes)


# ---- courses without data ---------------------------------------------------------------------


def marginals_by_asterism() -> Callable[[], Measured]:
    empty = am.Observations.from_likelihoods([np.zeros(0)], [{"A": np.zeros((0, 2))}], start=0.0,
                                             end=2.0, states={"A": (-1, 1)})  # fmt: skip
    start = network().with_initial({n: [1.0, 0.0] for n in PARENTS})

    def work() -> Measured:
        found = am.infer(start, empty, am.Likelihood(), method="exact").marginals([2.0])
        return "P(E = 1) at time 2", float(found.sel(node="E").values.ravel()[1])

    return work


def marginals_by_scipy() -> Callable[[], Measured]:
    from scipy.integrate import solve_ivp

    net = network()
    generator = net.joint_generator().T.tocsr()
    states = net.joint_states()
    begin = np.zeros(len(states))
    begin[0] = 1.0

    def work() -> Measured:
        end = solve_ivp(lambda _, p: generator @ p, (0.0, 2.0), begin, rtol=1e-8, atol=1e-10)
        return "P(E = 1) at time 2", float(end.y[states[:, 4] == 1, -1].sum())

    return work


# ---- panel data -------------------------------------------------------------------------------


def panel(way: str, folder: str) -> Callable[[], Measured]:
    from em_vs_scipy import by_em, crude_rates, gaps, minus_two_log, read
    from scipy.optimize import minimize

    table = read(Path(folder) / "msm_cav.csv")
    obs = am.Observations.from_frame(table, labels=["disease"])
    seen = gaps(table)

    def work() -> Measured:
        if way == "asterism":
            return "-2 ln P", float(-2.0 * by_em(obs).log_evidence_given_first_)
        found = minimize(minus_two_log, crude_rates(seen), args=(seen,), method="L-BFGS-B")
        return "-2 ln P", float(found.fun)

    return work


#: task, program, what makes the work; those with a folder read its files
LINES: list[tuple[str, str, Callable[..., Callable[[], Measured]]]] = [
    ("graph from complete paths, 6 nodes", "asterism", graph_by_asterism),
    ("graph from complete paths, 6 nodes", "pyAgrum (CTPC)", graph_by_pyagrum),
    ("rates from complete paths, graph given", "asterism", rates_by_asterism),
    ("rates from complete paths, graph given", "causal-hub", rates_by_causal_hub),
    ("rates, nodes seen half of the time", "asterism (exact)", half_rates_by_asterism),
    ("rates, nodes seen half of the time", "causal-hub (EM)", half_rates_by_causal_hub),
    ("rates, nodes seen half of the time", "pyAgrum", cannot_hide),
    ("graph, nodes seen half of the time", "asterism", half_graph_by_asterism),
    ("graph, nodes seen half of the time", "causal-hub (structural EM)", half_graph_by_causal_hub),
    ("graph, nodes seen half of the time", "pyAgrum (CTPC)", cannot_hide),
    ("graph, measured now and then with noise", "asterism", noisy_by_asterism),
    ("graph, measured now and then with noise", "causal-hub", cannot_measure),
    ("graph, measured now and then with noise", "pyAgrum (CTPC)", cannot_measure),
    ("courses without data, 6 nodes", "asterism (exact)", marginals_by_asterism),
    ("courses without data, 6 nodes", "scipy (solve_ivp)", marginals_by_scipy),
    ("DREAM4, 10 genes", "asterism (defaults)", lambda folder: dream4("defaults", folder)),
    ("DREAM4, 10 genes", "asterism (paper's settings)",
     lambda folder: dream4("asterism", folder)),
    ("DREAM4, 10 genes", "forest (scikit-learn)", lambda folder: dream4("forest", folder)),
    ("DREAM4, 10 genes", "lagged regression (lasso)",
     lambda folder: dream4("regression", folder)),
    ("DREAM4, 10 genes", "lagged correlation",
     lambda folder: dream4("lagged_correlation", folder)),
    ("panel data, 622 patients", "asterism (EM)", lambda folder: panel("asterism", folder)),
    ("panel data, 622 patients", "scipy (L-BFGS-B)", lambda folder: panel("scipy", folder)),
]  # fmt: skip


def measure(number: int, folder: str) -> dict[str, Any]:
    """One line of the table, in this process."""
    task, program, make = LINES[number]
    try:
        work = make(folder) if "DREAM4" in task or "panel" in task else make()
        work()
        begin = time.process_time()
        what, value = work()
        seconds = time.process_time() - begin
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of another language is no Exception
        kind = "" if isinstance(error, Cannot) else f"{type(error).__name__}: "
        why = f"skipped: {kind}{error}"
        return {"task": task, "program": program, "accuracy": why}
    return {
        "task": task, "program": program, "accuracy": what, "value": value, "seconds": seconds,
        "peak_gigabytes": peak_gigabytes(),
    }  # fmt: skip


def main() -> None:
    parser = option_parser(__doc__, "benchmark-peers")
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder with DREAM4 and panel")
    parser.add_argument("--line", type=int, help="measure this line only, and print it as JSON")
    parser.add_argument("--finish", action="store_true", help="write the table with what is known")
    arguments = parser.parse_args()
    if arguments.line is not None:
        print("RESULT " + json.dumps(measure(arguments.line, str(arguments.data))))
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    kept = arguments.output / "peers.jsonl"  # so that a run that is cut short can go on
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    rows = {(row["task"], row["program"]): row for row in done}
    for number, (task, program, _) in enumerate(LINES):
        if (task, program) in rows:
            continue
        if arguments.finish:
            unknown = {"task": task, "program": program, "accuracy": "not measured"}
            rows[task, program] = unknown
            continue
        command = [sys.executable, __file__, "--line", str(number), "--data", str(arguments.data)]
        ended = subprocess.run(command, capture_output=True, text=True)
        lines = [text for text in ended.stdout.splitlines() if text.startswith("RESULT ")]
        failed = {"task": task, "program": program, "accuracy": "skipped: it crashed"}
        rows[task, program] = json.loads(lines[-1][7:]) if lines else failed
        print(rows[task, program], flush=True)
        with kept.open("a") as file:
            file.write(json.dumps(rows[task, program]) + "\n")
    table = [rows[task, program] for task, program, _ in LINES]
    write_table(table, arguments.output / "peers.csv", digits=4)
    kept.unlink()


if __name__ == "__main__":
    main()
