"""Seconds of a structure search with three states beside two, and of a single node of five.

Prints a table and writes it to a folder: python benchmarks/search.py -o out/
A tree, 20 trajectories of ten noisy measurements, at most two parents. The cases take turns; the
shortest processor time of each counts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import Row, option_parser, show_and_write

import asterism as am


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


def search(n_states: int, n_nodes: int, n_trajectories: int, n_points: int) -> Any:
    """A function that searches, and returns its processor time."""
    emission = am.Gaussian(means=tuple(float(s) for s in range(n_states)), scale=0.3)
    paths = am.simulate(tree(n_states, n_nodes), n_trajectories, duration=float(n_points), seed=1)
    values = am.observe(paths, emission, n_observations=n_points, seed=2)

    def work() -> float:
        begin = time.process_time()
        am.StructureLearner(emission=emission, max_parents=2, n_jobs=1).fit(values)
        return time.process_time() - begin

    return work


def measure(sizes: tuple[int, ...] = (6, 10), repeats: int = 3, patients: int = 1000) -> list[Row]:
    rows: list[Row] = []
    for n_nodes in sizes:
        work = {s: search(s, n_nodes, 20, 10) for s in (2, 3)}
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
    alone = search(5, 1, patients, 20)
    alone()
    seconds_alone = min(alone() for _ in range(repeats))
    name = f"single node of 5 states, {patients} trajectories x 20, seconds"
    rows.append((name, seconds_alone, "at most 2"))
    return rows


if __name__ == "__main__":
    options = option_parser(__doc__, "docs/results").parse_args()
    show_and_write(measure(), options.output / "search.csv")
