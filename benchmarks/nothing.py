"""What is claimed where nothing is: edges found among ten nodes that do not influence each other.

Data sets of ten unconnected nodes, 12 trajectories of 20 measurements: complete paths, and noisy
points (σ = 0.4 of the distance of two levels). Counts edges at a probability of at least 0.5, with
the defaults and with the priors of the paper. Beside it the recovery of a tree of 14 spins from
complete paths, which sparse priors must not spoil.

    python benchmarks/nothing.py [--reduced]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import asterism as am

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
PAPER: dict[str, Any] = {
    "prior": am.GammaPrior(5.0),
    "edge_log_odds": None,
    "graph": "map",
    "tempering": 1.0,
}
LEARNERS: dict[str, dict[str, Any]] = {"defaults": {}, "paper": PAPER}


def unconnected(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    nodes = {f"N{i}": [] for i in range(10)}
    network = am.glauber(nodes, a=float(rng.uniform(0.5, 2.0)))
    paths = am.simulate(network, n_trajectories=12, duration=10.0, seed=seed)
    emission = am.Gaussian(means=(-1.0, 1.0), scale=0.8)
    return paths, am.observe(paths, emission, n_observations=20, seed=seed), emission


def claimed(learner: Any) -> int:
    return int((learner.edges_["probability"] >= 0.5).sum())


def main() -> None:
    reduced = "--reduced" in sys.argv
    rows: list[tuple[Any, ...]] = []
    for seed in range(50):
        paths, _, _ = unconnected(seed)
        for name, settings in LEARNERS.items():
            exact = am.StructureLearner(n_jobs=1, **settings).fit(paths)
            rows.append(("unconnected", "complete paths", name, seed, claimed(exact), np.nan))
    tree = am.glauber("tree:14", b=0.6)
    for seed in range(8):
        paths = am.simulate(tree, n_trajectories=15, duration=10.0, seed=seed)
        for name, settings in LEARNERS.items():
            learner = am.StructureLearner(n_jobs=1, **settings).fit(paths)
            aupr = am.metrics.edge_scores(learner.edge_probabilities_, tree.graph)["aupr"]
            rows.append(("tree of 14", "complete paths", name, seed, claimed(learner), aupr))
    write(rows)
    for seed in range(4 if reduced else 50):
        _, observations, emission = unconnected(seed)
        star = am.StructureLearner(emission, n_jobs=1).fit(observations)
        rows.append(("unconnected", "noisy points", "defaults", seed, claimed(star), np.nan))
        write(rows)


def write(rows: list[tuple[Any, ...]]) -> None:
    """Averages over data sets, so far."""
    columns = ["network", "data", "learner", "seed", "edges_at_half", "aupr"]
    averages = (
        pd.DataFrame(rows, columns=columns)
        .groupby(["network", "data", "learner"])
        .agg(
            data_sets=("seed", "nunique"),
            edges_at_half=("edges_at_half", "mean"),
            aupr=("aupr", "mean"),
        )
    )
    averages.round(4).reset_index().to_csv(RESULTS / "nothing.csv", index=False)
    print(averages.to_string())


if __name__ == "__main__":
    main()
