"""Structure scores of the four graphs of two nodes, beside the exact evidence.

The evidence integrates the rates over their Gamma prior, by importance sampling on the exact joint
chain (tests/reference/two_node_evidence.py). Writes every graph of every data set to
two_node_evidence.csv and the agreement to two_node_evidence_summary.csv:
python benchmarks/two_node_evidence.py -o out/
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.two_node_evidence import GRAPHS, NOISE, PRIOR, TwoNodes, data, log_evidence

import asterism as am

METHODS = ("star", "mean_field")
CLEAR = 1.0  # nats between two graphs from which on their order is compared


def compare(truth: str, seed: int, n_trajectories: int, n_samples: int) -> list[dict[str, Any]]:
    """One line per graph; factors are relative to the graph without edges."""
    obs = data(truth, seed, n_trajectories)
    nodes = TwoNodes.of(obs)
    rows = []
    for graph, above in GRAPHS.items():
        exact, error = log_evidence(nodes, graph, n_samples)
        row = {"truth": truth, "trajectories": n_trajectories, "seed": seed, "graph": graph}
        row |= {"exact": exact, "exact_se": error}
        for method in METHODS:
            row[method] = am.structure_score(above, obs, NOISE, PRIOR, method, initial="uniform")
        rows.append(row)
    for name in ("exact", *METHODS):
        for row in rows:
            row[f"{name}_factor"] = row[name] - rows[0][name]
    return rows


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Per number of trajectories and method: how often the order is that of the evidence."""
    lines = []
    for n_trajectories, part in table.groupby("trajectories"):
        sets = [own.set_index("graph") for _, own in part.groupby(["truth", "seed"])]
        for method in METHODS:
            pairs = [
                (own.exact[g] - own.exact[h], own[method][g] - own[method][h])
                for own in sets
                for g, h in combinations(GRAPHS, 2)
            ]
            clear = [(e, s) for e, s in pairs if abs(e) > CLEAR]
            off = (part[f"{method}_factor"] - part.exact_factor)[part.graph != "none"]
            lines.append(
                {
                    "trajectories": n_trajectories,
                    "method": method,
                    "data_sets": len(sets),
                    "same_best": sum(own.exact.idxmax() == own[method].idxmax() for own in sets),
                    "true_best_exact": sum(own.exact.idxmax() == own.truth.iloc[0] for own in sets),
                    "true_best": sum(own[method].idxmax() == own.truth.iloc[0] for own in sets),
                    "clear_pairs": len(clear),
                    "clear_pairs_same_order": sum(e * s > 0 for e, s in clear),
                    "mean_difference": off.mean(),
                    "rms_difference": np.sqrt((off**2).mean()),
                    "largest_difference": off.abs().max(),
                    "score_minus_evidence": (part[method] - part.exact).mean(),
                }
            )
    return pd.DataFrame(lines)


def main() -> None:
    parser = option_parser(__doc__, "benchmark-two-node-evidence")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2000)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for n_trajectories in (5, 20):
        for truth in GRAPHS:
            for seed in range(arguments.seeds):
                rows += compare(truth, seed, n_trajectories, arguments.samples)
    table = write_table(rows, arguments.output / "two_node_evidence.csv", digits=5)
    summary = write_table(
        summarise(table), arguments.output / "two_node_evidence_summary.csv", digits=5
    )
    print(summary.to_string(index=False))


if __name__ == "__main__":
    main()
