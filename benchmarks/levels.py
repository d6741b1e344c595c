"""How often the right number of levels is counted: nodes with 2, 3 and 4 levels.

σ is a third of the distance between levels; rates are random; every node has the number of
measurements given.

    python benchmarks/levels.py
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

import asterism as am
from asterism.learning.levels import choose_levels

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
AUTO = am.Gaussian(levels="auto", learn=True)


def main() -> None:
    rows = []
    for n_measurements in (100, 200, 400):
        for seed in range(8):
            rng = np.random.default_rng([seed, n_measurements])
            sizes = {f"N{i}": 2 + i % 3 for i in range(9)}
            rates = {}
            for node, size in sizes.items():
                table = rng.gamma(2.0, 0.25, size=(size, size))
                rates[node] = table - np.diag(np.diag(table))
            network = am.Network(
                {n: [] for n in sizes}, rates, {n: list(range(s)) for n, s in sizes.items()}
            )
            paths = am.simulate(network, n_trajectories=10, duration=10.0, seed=seed)
            noise = {
                n: am.Gaussian(means=tuple(map(float, range(s))), scale=1 / 3)
                for n, s in sizes.items()
            }
            seen = am.observe(paths, noise, n_observations=n_measurements // 10, seed=seed)
            for node, size in sizes.items():
                begin = time.process_time()
                found = choose_levels(node, seen.measurements[node], AUTO)
                seconds = time.process_time() - begin
                rows.append((n_measurements, size, found.n_levels, found.probability, seconds))
    columns = ["measurements", "levels", "found", "probability", "seconds"]
    table = pd.DataFrame(rows, columns=columns)
    table["right"] = table["found"] == table["levels"]
    summary = table.groupby(["measurements", "levels"]).agg(
        nodes=("right", "size"),
        share_right=("right", "mean"),
        mean_probability=("probability", "mean"),
        seconds_per_node=("seconds", "median"),
    )
    summary.round(4).reset_index().to_csv(RESULTS / "levels.csv", index=False)
    print(summary.to_string())


if __name__ == "__main__":
    main()
