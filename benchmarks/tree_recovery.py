"""How much of a tree of 14 nodes is found again: noise, searches and numbers of trajectories.

Glauber spins (a = 1, b = 0.6), the last leaf leads the root, 10 noisy measurements per trajectory
of length 10, at most one parent, automatic prior. Prints one line per setting and writes
tree_recovery.csv: python benchmarks/tree_recovery.py -o out/ [--searches screened]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.recovery_graphs import N_TREE, learn_tree

SIGMAS = (0.6, 0.2, 1.0)
#: search: numbers of trajectories
PLAN = {"auto": (40, 80), "exhaustive": (40,)}


def learn(search: str, n_trajectories: int, sigma: float, n_seeds: int) -> dict[str, Any]:
    """One line: families right by seed, and whether the score or the search is to blame."""
    trees = [learn_tree(n_trajectories, seed, sigma, search) for seed in range(n_seeds)]
    wrong = [t for t in trees if t.right < N_TREE]
    return {
        "search": search,
        "trajectories": n_trajectories,
        "sigma": sigma,
        "right": " ".join(str(t.right) for t in trees),
        "seeds_with_13": sum(t.right >= N_TREE - 1 for t in trees),
        "seeds": n_seeds,
        "share_right": sum(t.right for t in trees) / (N_TREE * n_seeds),
        "auroc": np.mean([t.auroc for t in trees]),
        "imperfect": len(wrong),
        "truth_scores_lower": sum(t.ahead > 0.0 for t in wrong),
        "unsettled": sum(not t.converged for t in trees),
    }


def main() -> None:
    parser = option_parser(__doc__, "benchmark-tree-recovery")
    parser.add_argument("--searches", nargs="+", choices=list(PLAN), default=list(PLAN))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    for search in arguments.searches:
        for n_trajectories in PLAN[search]:
            for sigma in SIGMAS:
                rows.append(learn(search, n_trajectories, sigma, arguments.seeds))
                print(rows[-1], flush=True)
                # after every line: the exhaustive search takes long
                write_table(rows, arguments.output / "tree_recovery.csv", digits=5)


if __name__ == "__main__":
    main()
