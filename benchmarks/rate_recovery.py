"""Rates found again from noisy data: exactly, by clusters, by the star (with a prior), mean field.

The same networks and data as tests/statistical/test_rate_recovery.py: 3 and 5 nodes of 2 and 3
states, 200 trajectories of 20 noisy measurements. Prints one line per network and method and
writes them to rate_recovery.csv: python benchmarks/rate_recovery.py -o out/
"clusters" is the default; "families" keeps every family a cluster of its own, so that even the
smallest of these networks is not solved exactly.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, timed, write_table
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.recovery_cases import (
    CASES,
    REDUCED_CASES,
    Case,
    simulated,
    standardised_errors,
    true_rates,
)

import asterism as am
from asterism.clusters import regions

MERGED_NODES = regions.MERGED_NODES
HELD = am.GammaPrior(5.0)
#: name in the table: method, prior
WAYS: dict[str, tuple[str, am.GammaPrior | None]] = {
    "exact": ("exact", None),
    "clusters": ("clusters", None),
    "families": ("clusters", None),
    "star": ("star", None),
    "star with prior": ("star", HELD),
    "mean field": ("mean_field", None),
}


def recover(case: Case, way: str, exact: dict[Case, pd.DataFrame]) -> dict[str, Any]:
    """Fit one network; how far its rates are from those that made the data, and from exact ones.

    ``exact`` receives the exact estimates, and gives them to the ways that follow.
    """
    method, prior = WAYS[way]
    regions.MERGED_NODES = 1 if way == "families" else MERGED_NODES
    network, emission, obs = simulated(case)
    learner = am.ParameterLearner(network, emission, prior, method, n_jobs=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, seconds = timed(lambda: learner.fit(obs))
    errors = standardised_errors(learner, network)
    ratio = learner.rate_intervals_.rate.to_numpy() / true_rates(learner, network)
    if way == "exact":
        exact[case] = learner.rate_intervals_
    best = exact[case]
    inside = ~best.note.str.startswith("at zero").to_numpy() & np.isfinite(best.se.to_numpy())
    mine, its, se = (
        x.to_numpy()[inside] for x in (learner.rate_intervals_.rate, best.rate, best.se)
    )
    gap = np.abs(np.log(np.maximum(mine, 1e-9) / its))
    return {
        "estimate": way,
        "nodes": case[0],
        "states": " ".join(map(str, case[1])),
        "rates": len(errors),
        "within_3_se": int(np.sum(np.abs(errors) < 3.0)),
        "share": float(np.mean(np.abs(errors) < 3.0)),
        "without_se": int(np.isinf(errors).sum()),
        "median_factor": float(np.exp(np.median(np.abs(np.log(np.maximum(ratio, 1e-9)))))),
        "largest_ratio": float(ratio.max()),
        "factor_to_exact": float(np.exp(np.median(gap))),
        "largest_factor_to_exact": float(np.exp(gap.max())),
        "farthest_from_exact_in_se": float((np.abs(mine - its) / se).max()),
        "converged": bool(learner.converged_),
        "seconds": round(seconds, 1),
        "stop_reason": learner.stop_reason_,
    }


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """One line per way of estimating, all networks together."""
    lines = []
    for way, own in table.groupby("estimate", sort=False):
        lines.append(
            {
                "estimate": way,
                "networks": len(own),
                "rates": int(own.rates.sum()),
                "within_3_se": int(own.within_3_se.sum()),
                "share": own.within_3_se.sum() / own.rates.sum(),
                "without_se": int(own.without_se.sum()),
                "converged": int(own.converged.sum()),
                "factor_to_exact": float(own.factor_to_exact.median()),
                "farthest_from_exact_in_se": float(own.farthest_from_exact_in_se.max()),
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    parser = option_parser(__doc__, "benchmark-rate-recovery")
    parser.add_argument("--quick", action="store_true", help="two networks only")
    parser.add_argument("--cases", type=int, nargs="+", default=list(range(len(CASES))))
    parser.add_argument("--add", action="store_true", help="keep the rows of other networks")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--name", default="rate_recovery", help="of the files that are written")
    arguments = parser.parse_args()
    path = arguments.output / f"{arguments.name}.csv"
    rows: list[dict[str, Any]] = []
    if arguments.add:
        old = pd.read_csv(path).to_dict("records")
        rows += [{str(k): v for k, v in row.items()} for row in old]
    exact: dict[Case, pd.DataFrame] = {}
    cases = REDUCED_CASES if arguments.quick else [CASES[i] for i in arguments.cases]
    ways = list(dict.fromkeys(["exact", *arguments.ways]))
    for case in cases:
        for way in ways:
            rows.append(recover(case, way, exact))
            print(rows[-1], flush=True)
            rows.sort(key=lambda row: list(WAYS).index(row["estimate"]))
            table = write_table(rows, path, digits=6)
    summary = pooled(table)
    write_table(summary, arguments.output / f"{arguments.name}_pooled.csv", digits=6)
    print(summary.to_string(index=False))


if __name__ == "__main__":
    main()
