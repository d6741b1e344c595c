"""How structure learning scales: seconds, memory and accuracy from 14 nodes to 10,000.

Glauber tree with leaf-to-root feedback (a = 1, b = 0.6), T = 10, 80 trajectories of 10 noisy
observations (σ = 0.2), at most one parent, screened search. Every size runs in a process of its
own, after a small warm-up that compiles (or loads) the kernels, so that memory and time are its
own. Writes ``scaling.csv`` and ``scaling.png`` into the folder given by -o.

    python benchmarks/scaling.py -o benchmarks/results --sizes 14 100 1000
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
from common import option_parser, peak_gigabytes, timed, write_table

import asterism as am
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


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sizes", type=int, nargs="+", default=[14, 100, 1000])
    parser.add_argument("--trajectories", type=int, default=80)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
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
