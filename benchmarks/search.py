"""Seconds of a structure search with three states beside two, and of a single node of five.

Prints a table and writes it to a folder: python benchmarks/search.py -o out/ [--before SRC]
A tree, 20 trajectories of ten noisy measurements, at most two parents; a prior of shape 5, so that
the figures do not depend on the default one. The cases take turns; the shortest processor time of
each counts.

With ``--before``, the source folder of another version, both versions search once on the same
graphs with the settings of version 0.1 and a given prior, and their edge probabilities are
compared.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, option_parser, show_and_write, side_by_side, told_by

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.flat_settings import regrouped

import asterism as am

_PRIOR = am.GammaPrior(5.0)


def tree(n_states: int, n_nodes: int, seed: int = 0) -> am.Network:
    """Random rates; every state is left at a total rate of about one."""
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(n_nodes)]
    parents = {n: [names[(i - 1) // 2]] if i else [] for i, n in enumerate(names)}
    rates = {}
    for name in names:
        shape = (n_states,) * (len(parents[name]) + 2)
        table = np.exp(rng.uniform(np.log(0.25), np.log(4.0), shape)) * (1 - np.eye(n_states))
        rates[name] = table / table.sum(axis=-1).mean()
    states = {n: [str(s) for s in range(n_states)] for n in names}
    return am.Network(parents, rates, states=states)


def old_settings() -> dict[str, Any]:
    """Settings that versions since 0.1 understand alike."""
    options = {"prior": am.GammaPrior(5, 5.0), "tempering": 1.0, "graph": "map"}
    known = inspect.signature(am.StructureLearner.__init__).parameters
    return {"edge_log_odds": None, **{k: v for k, v in options.items() if k in known}}


def search(n_states: int, n_nodes: int, n_trajectories: int, n_points: int, **options: Any) -> Any:
    """A function that searches, and returns its processor time; it keeps what it found."""
    emission = am.Gaussian(means=tuple(float(s) for s in range(n_states)), scale=0.3)
    paths = am.simulate(tree(n_states, n_nodes), n_trajectories, duration=float(n_points), seed=1)
    values = am.observe(paths, emission, n_observations=n_points, seed=2)

    def work() -> float:
        begin = time.process_time()
        learner = am.StructureLearner(
            emission=emission, max_parents=2, n_jobs=1, **regrouped(**{"method": "star", **options})
        )
        work.found = learner.fit(values)  # type: ignore[attr-defined]
        return time.process_time() - begin

    return work


def measure(sizes: tuple[int, ...] = (6, 10), repeats: int = 3, patients: int = 1000) -> list[Row]:
    rows: list[Row] = []
    for n_nodes in sizes:
        work = {s: search(s, n_nodes, 20, 10, prior=_PRIOR) for s in (2, 3)}
        for fit in work.values():
            fit()
        seconds = dict.fromkeys(work, float("inf"))
        for _ in range(repeats):
            for size, fit in work.items():
                seconds[size] = min(seconds[size], fit())
        for size, value in seconds.items():
            rows.append((f"search, {n_nodes} nodes, {size} states, seconds", value, ""))
        ratio = seconds[3] / seconds[2]
        rows.append((f"search, {n_nodes} nodes, three states times two", ratio, "at most 6"))
    alone = search(5, 1, patients, 20, prior=_PRIOR)
    alone()
    seconds_alone = min(alone() for _ in range(repeats))
    name = f"single node of 5 states, {patients} trajectories x 20, seconds"
    rows.append((name, seconds_alone, "at most 2"))
    return rows


def once(sizes: tuple[int, ...], patients: int) -> dict[str, Any]:
    """Every case once, compiled before: rows, and edge probabilities by case."""
    rows: list[Row] = []
    edges: dict[str, Any] = {}
    for n_states in (2, 3):
        search(n_states, 6, 2, 3, **old_settings())()
    for n_nodes in sizes:
        seconds = {}
        for n_states in (2, 3):
            work = search(n_states, n_nodes, 20, 10, **old_settings())
            seconds[n_states] = work()
            name = f"search, {n_nodes} nodes, {n_states} states"
            rows.append((f"{name}, seconds", seconds[n_states], ""))
            table = work.found.edges_
            pairs = zip(table["parent"], table["child"], table["probability"])
            edges[name] = {f"{a} {b}": float(p) for a, b, p in pairs}
        ratio = seconds[3] / seconds[2]
        rows.append((f"search, {n_nodes} nodes, three states times two", ratio, "at most 6"))
    search(5, 1, 2, 3, **old_settings())()
    name = f"single node of 5 states, {patients} trajectories x 20, seconds"
    rows.append((name, search(5, 1, patients, 20, **old_settings())(), ""))
    return {"rows": rows, "edges": edges}


def compare(source: Path, sizes: tuple[int, ...], patients: int) -> list[Row]:
    """Both versions once, and how much their answers differ."""
    options = ["--patients", str(patients), "--sizes", *map(str, sizes)]
    before = told_by(__file__, source, "--tell", *options)
    now = once(sizes, patients)
    rows = side_by_side(before["rows"], now["rows"])
    for name, old in before["edges"].items():
        new = now["edges"][name]
        moved = max(abs(old.get(e, 0.0) - new.get(e, 0.0)) for e in {*old, *new})
        rows.append((f"{name}, largest difference of an edge probability", moved, ""))
    return rows


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--before", type=Path, help="src folder of another version")
    parser.add_argument(
        "--patients", type=int, default=50, help="of the single node, both versions"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[6, 10], help="numbers of nodes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tell", action="store_true", help="print JSON only")
    options = parser.parse_args()
    sizes = tuple(options.sizes)
    if options.tell:
        print(json.dumps(once(sizes, options.patients)))
        return
    rows = measure(sizes, options.repeats)
    if options.before:
        rows += compare(options.before, sizes, options.patients)
    show_and_write(rows, options.output / "search.csv")


if __name__ == "__main__":
    main()
