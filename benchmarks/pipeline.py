"""Which stages pay? Log loss of edge probabilities and processor time, stage by stage.

Networks that defaults may be chosen on (``edge_sets.tuning_set``), small and middle ones, learned
by the star (as it is, and tempered by the learner's rule), by clusters, and by sampling with two
limits of sweeps. Written: ``pipeline.csv``.

    python benchmarks/pipeline.py [--sets 12] [--rows FOLDER]
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from edge_sets import COUNTED, RESULTS, Rows, base_rate_loss, log_loss, pairs, tuning_set

import asterism as am

STAGES: dict[str, dict[str, Any]] = {
    "star, as it is": {"tempering": 1.0},
    "star, tempered": {},
    "clusters": {"method": "clusters"},
    "sampling, 300 sweeps": {"method": "sample", "max_draws": 300, "n_chains": 2},
    "sampling, 1500 sweeps": {"method": "sample", "max_draws": 1500, "n_chains": 2},
}
SMALL = 6
#: three states take long everywhere, and say the same
KINDS = ("empty", "random", "spins")


def learned(stage: str, seed: int) -> dict[str, Any]:
    """One data set by one stage."""
    case = tuning_set(seed)
    every, truth = pairs(case.network)
    begin = time.process_time()
    learner = am.StructureLearner(COUNTED, n_jobs=1, **STAGES[stage]).fit(case.observations)
    seconds = time.process_time() - begin
    matrix = learner.edge_probabilities_
    probability = np.array([matrix.loc[p, c] for p, c in every])
    return {
        "nodes": len(case.network.nodes),
        "kind": case.kind,
        "seconds": seconds,
        "log_loss": log_loss(probability, truth),
        "base_rate": base_rate_loss(truth),
        "false_edges": int(((probability >= 0.5) & ~truth).sum()),
        "true_edges": int(((probability >= 0.5) & truth).sum()),
        "known_share": learner.known_share_,
    }


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "pipeline.jsonl")
    found = []
    for seed in range(options.sets):
        if tuning_set(seed).kind not in KINDS:
            continue
        for stage in options.stages:
            own = rows.get((stage, seed), lambda s=stage, n=seed: learned(s, n))
            size = "small (up to 6 nodes)" if own["nodes"] <= SMALL else "middle (7 to 10 nodes)"
            found.append({"networks": size, "stage": stage, "seed": seed, **own})
        table = (
            pd.DataFrame(found)
            .groupby(["networks", "stage"], sort=False)
            .agg(
                data_sets=("seed", "nunique"),
                log_loss=("log_loss", "mean"),
                base_rate=("base_rate", "mean"),
                true_edges=("true_edges", "mean"),
                false_edges=("false_edges", "mean"),
                seconds=("seconds", "median"),
            )
        )
        table.round(4).reset_index().to_csv(RESULTS / "pipeline.csv", index=False)
        print(table.to_string(), flush=True)


if __name__ == "__main__":
    main()
