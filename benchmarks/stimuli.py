"""A stimulus that hits 2 of 10 nodes: are these found, and what do edges gain if it is told?

Ten nodes with two states and up to two parents, 24 trajectories of 16 noisy measurements, σ = .25.
In every trajectory the stimulus is on for a third of the time; the rates up of the nodes that it
hits are then 4 times as large, and those down a quarter. Emissions are given; two chains of 400
sweeps. The same data are learned with the stimulus told and without. Seeds from 1,000 on.

Written after every data set: ``stimuli.csv`` and ``stimuli_summary.csv``.

    python benchmarks/stimuli.py [--sets 10] [--first 1000]
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import pandas as pd
from common import option_parser
from influences import NOISE, data_set
from sklearn.metrics import average_precision_score, roc_auc_score

import asterism as am

N_NODES, N_HIT = 10, 2


def measure(seed: int, told: bool) -> dict[str, Any]:
    """Figures of one data set."""
    obs, (truth, hit) = data_set("stimulus told", seed, True, N_NODES, N_HIT)
    if not told:
        obs = am.Observations.from_frame(obs.to_frame())
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = am.StructureLearner(
            am.Gaussian((0.0, 1.0), NOISE),
            random_state=seed,
            n_jobs=1,
            sampling=am.Sampling(chains=2, max_draws=400),
        ).fit(obs)
    edges = learner.edges_
    n = [int(name[1:]) for name in edges["parent"]], [int(name[1:]) for name in edges["child"]]
    is_true, chance = truth[n], edges["probability"].to_numpy(float)
    found = {
        "told": told, "seed": seed, "aupr": average_precision_score(is_true, chance),
        "base_rate": float(is_true.mean()), "false": int(((chance >= 0.5) & ~is_true).sum()),
        "true": int(((chance >= 0.5) & is_true).sum()),
        "processor_seconds": time.process_time() - begin,
    }  # fmt: skip
    if told:
        targets = learner.targets_.set_index("node")["probability"]
        named = targets[[f"N{i}" for i in range(N_NODES)]].to_numpy()
        found["targets_auroc"] = roc_auc_score(hit, named)
        found["hit_found"] = int((named[hit] >= 0.5).sum())
        found["others_named"] = int((named[~hit] >= 0.5).sum())
    return found


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Told and not told."""
    means = {n: (n, "mean") for n in ("aupr", "base_rate", "targets_auroc", "processor_seconds")}
    sums = {n: (n, "sum") for n in ("true", "false", "hit_found", "others_named")}
    return (
        frame.groupby("told", sort=False).agg(sets=("seed", "size"), **means, **sums).reset_index()
    )


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in range(options.first, options.first + options.sets):
        for told in (True, False):
            rows.append(measure(seed, told))
            print(rows[-1], flush=True)
            frame = pd.DataFrame(rows)
            frame.to_csv(options.output / "stimuli.csv", index=False)
            summary(frame).to_csv(options.output / "stimuli_summary.csv", index=False)


if __name__ == "__main__":
    main()
