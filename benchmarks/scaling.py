"""How learning and inference scale: from 14 nodes to 10,000, and what twice the size costs.

Glauber tree with leaf-to-root feedback (a = 1, b = 0.6), T = 10, 80 trajectories of 10 noisy
observations (σ = 0.2), at most one parent, screened search. Every size runs in a process of its
own, after a small warm-up that compiles (or loads) the kernels, so that memory and time are its
own. Writes ``scaling.csv`` and ``scaling.png`` into the folder given by -o.

    python benchmarks/scaling.py -o benchmarks/results --sizes 14 100 1000

``--doubled`` takes one loop after the other instead: the processor time for twice the nodes,
trajectories, measurements or states over that for once, on data of a ring and on noise that tells
nothing, beside the order that is expected. More than 1.2 times that is named as a loss. Writes
``scaling_doubled.csv``; eleven minutes of one core.

    python benchmarks/scaling.py --doubled
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, peak_gigabytes, timed, write_table

import asterism as am
from asterism.model.generators import random_rates
from asterism.results.metrics import edge_scores


def one_size(n_nodes: int, n_trajectories: int, scale: float, jobs: int) -> dict[str, float]:
    """Simulate, learn, compare with the truth."""
    emission = am.Gaussian((-1, 1), scale)

    def learn(net: am.Network, d: int, seed: int) -> tuple[am.StructureLearner, float]:
        paths = am.simulate(net, d, duration=10.0, seed=seed)
        obs = am.observe(paths, emission, n_observations=10, seed=seed + 1)
        del paths  # nobody who learns from measurements has them
        learner = am.StructureLearner(
            emission=emission,
            max_parents=1,
            search="screened",
            n_jobs=jobs,
            method="star",
        )
        return timed(lambda: learner.fit(obs))

    learn(am.glauber("tree:14"), 5, 100)
    net = am.glauber(f"tree:{n_nodes}", a=1.0, b=0.6)
    used = time.process_time()
    learner, seconds = learn(net, n_trajectories, 1)
    used = time.process_time() - used
    chosen = {n: set(learner.network_.parents[n]) for n in net.nodes}
    right = sum(chosen[n] == set(net.parents[n]) for n in net.nodes) / n_nodes
    scores = edge_scores(learner.edges_, net.graph, nodes=net.nodes) if n_nodes <= 2000 else {}
    return {
        "nodes": n_nodes,
        "trajectories": n_trajectories,
        "seconds": round(seconds, 2),
        "seconds_per_node": seconds / n_nodes,
        "processor_seconds": round(used, 1),
        "peak_memory_gb": peak_gigabytes(),
        "parents_right": right,
        "auroc": scores.get("auroc", float("nan")),
        "sweeps": learner.n_sweeps_,
        "converged": bool(learner.converged_),
    }


# ---- twice the size over once -----------------------------------------------------------------

#: a ratio of times beyond this many times the expected one is a loss
_LOSS = 1.2
#: data sets per time: the number of iterations differs from one to the next
_SEEDS = (1, 2, 3)
NOISE = 0.4
#: what is doubled, for inference and for learners
FOR_INFERENCE = {"nodes": 6, "trajectories": 40, "measurements": 8, "states": 2}
FOR_LEARNERS = {"nodes": 4, "trajectories": 16, "measurements": 6, "states": 2}


def emission_of(size: dict[str, int]) -> am.Gaussian:
    return am.Gaussian(tuple(np.linspace(-1.0, 1.0, size["states"])), NOISE)


def ring_data(
    size: dict[str, int], meaningless: bool, seed: int
) -> tuple[am.Network, am.Observations]:
    """A ring, and noisy measurements of it or in their place noise.

    There is one measurement per unit of time: more of them make the record longer, not denser.
    """
    nodes = [f"n{i}" for i in range(size["nodes"])]
    ring = {node: [nodes[i - 1]] for i, node in enumerate(nodes)}
    network = random_rates(ring, size["states"], seed=seed)
    duration = float(size["measurements"])
    paths = am.simulate(network, size["trajectories"], duration=duration, seed=seed + 100)
    obs = am.observe(paths, emission_of(size), n_observations=size["measurements"], seed=seed)
    if meaningless:
        frame = obs.to_frame()
        rng = np.random.default_rng(seed)
        frame[nodes] = rng.normal(size=(len(frame), len(nodes)))
        obs = am.Observations.from_frame(frame)
    return network, obs


Work = Callable[[am.Network, am.Observations, am.Gaussian], object]


def by_inference(method: str) -> Work:
    return lambda network, obs, emission: am.infer(network, obs, emission, method=method, n_jobs=1)


def by_search(emission: Any = None, **options: Any) -> Work:
    options = {"max_parents": 1, "n_jobs": 1, **options}
    return lambda _, obs, told: am.StructureLearner(emission or told, **options).fit(obs)


def by_rates(method: str) -> Work:
    return lambda network, obs, emission: am.ParameterLearner(
        network.parents, emission, method=method, n_jobs=1
    ).fit(obs)


_TWICE = {"nodes": 2, "trajectories": 2, "measurements": 2}
_PAIRS = {**_TWICE, "nodes": 4}
_NO_NODES = {"trajectories": 2, "measurements": 2}
#: what runs, at which size, and for twice the nodes, trajectories, measurements and states how
#: many times the work is expected. Where all pairs are scored it is 4 times for nodes. A table of
#: a node's transitions under one parent has states cubed entries: 8 times. The chain of all nodes
#: squares with their number, so exact methods have no order for nodes.
DOUBLED: dict[str, tuple[Work, dict[str, int], dict[str, int]]] = {
    "inference, star": (by_inference("star"), FOR_INFERENCE, {**_TWICE, "states": 8}),
    "inference, mean field": (by_inference("mean_field"), FOR_INFERENCE, {**_TWICE, "states": 8}),
    "inference, clusters": (by_inference("clusters"), FOR_LEARNERS, _TWICE),
    "inference, exact": (by_inference("exact"), FOR_INFERENCE, _NO_NODES),
    "graph, star, exhaustive": (
        by_search(method="star", search="exhaustive"),
        FOR_LEARNERS,
        {**_PAIRS, "states": 8},
    ),
    "graph, star, screened": (
        by_search(method="star", search="screened"),
        FOR_LEARNERS,
        {**_PAIRS, "states": 8},
    ),
    "graph, sampled": (
        by_search(method="sample", sampling=am.Sampling(max_draws=100, chains=2)),
        FOR_LEARNERS,
        _PAIRS,
    ),
    "graph, continuous": (by_search(am.Continuous()), FOR_INFERENCE, _PAIRS),
    "levels counted": (
        by_search(am.Gaussian(levels="auto", learn=True), max_parents=0, method="star"),
        FOR_LEARNERS,
        _TWICE,
    ),
    "rates, star": (by_rates("star"), FOR_LEARNERS, _TWICE),
    "rates, exact": (by_rates("exact"), FOR_LEARNERS, _NO_NODES),
}


def processor_seconds(work: Work, size: dict[str, int], meaningless: bool) -> float:
    """Of one data set after the other, after a first run that compiles."""
    cases = [ring_data(size, meaningless, seed) for seed in _SEEDS]
    emission = emission_of(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work(*cases[0], emission)
        begin = time.process_time()
        for network, obs in cases:
            work(network, obs, emission)
        return time.process_time() - begin


def doubled(only: list[str] | None = None) -> list[dict[str, Any]]:
    """One row per loop and kind of data: how many times as long for twice each size."""
    rows = []
    for name in only or DOUBLED:
        work, sizes, orders = DOUBLED[name]
        for meaningless in (False, True):
            once = processor_seconds(work, sizes, meaningless)
            ratios = {
                what: processor_seconds(work, {**sizes, what: 2 * n}, meaningless) / once
                for what, n in sizes.items()
                if what in orders
            }
            losses = [what for what, ratio in ratios.items() if ratio > _LOSS * orders[what]]
            rows.append(
                {
                    "loop": name,
                    "data": "noise" if meaningless else "ring",
                    "seconds": round(once, 3),
                    **{what: round(ratios[what], 2) if what in ratios else "" for what in sizes},
                    "expected": ", ".join(str(orders[what]) for what in ratios),
                    "loss": ", ".join(losses),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sizes", type=int, nargs="+", default=[14, 100, 1000])
    parser.add_argument("--trajectories", type=int, default=80)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--doubled", action="store_true", help="twice the size over once")
    parser.add_argument("--only", nargs="+", choices=list(DOUBLED), help="some loops, not kept")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.doubled or options.only:
        table = pd.DataFrame(doubled(options.only))
        if not options.only:
            write_table(table, options.output / "scaling_doubled.csv")
        print(f"{time.process_time():.0f} processor seconds")
        return
    if options.one is not None:
        row = one_size(options.one, options.trajectories, options.noise, options.jobs)
        print(json.dumps(row))
        return
    rows = []
    for size in options.sizes:
        command = [sys.executable, __file__, "--one", str(size)]
        command += ["--trajectories", str(options.trajectories), "--noise", str(options.noise)]
        command += ["--jobs", str(options.jobs)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows.append(json.loads(out.strip().splitlines()[-1]))
        print(rows[-1], flush=True)
    table = write_table(rows, options.output / "scaling.csv")
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(table.to_string(index=False))
    plot(table, options.output / "scaling.png")


def plot(table: pd.DataFrame, path: Path) -> None:
    """Seconds and memory over the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for ax, column, label in (
        (axes[0], "seconds", "seconds"),
        (axes[1], "peak_memory_gb", "peak memory (GB)"),
    ):
        ax.loglog(table["nodes"], table[column], "o-", color="#0072B2")
        ax.set_xlabel("nodes")
        ax.set_ylabel(label)
        ax.grid(True, which="both", alpha=0.3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
