"""Graphs found from hard data: three states, a node never measured, random times, 30 % missing.

Five measured nodes and a hidden one, one parent each, 40 trajectories; beside it the same data
with their times shuffled, compared seed by seed. Two settings: about one measurement per change of
a node, and far fewer. Prints one line per run and writes hidden_recovery.csv:
python benchmarks/hidden_recovery.py -o out/
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.recovery_graphs import FAST, SHUFFLES, SLOW, learn_hard

SETTINGS = {"slow": (SLOW, SHUFFLES), "fast": (FAST, ("none",))}
FIRST_SEED = 10


def main() -> None:
    parser = option_parser(__doc__, "benchmark-hidden-recovery")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    lines = []
    for name, (setting, shuffles) in SETTINGS.items():
        in_order = None
        for shuffled in shuffles:
            seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
            found = pd.DataFrame([learn_hard(setting, seed, shuffled) for seed in seeds])
            in_order = found if in_order is None else in_order
            loss = in_order.auroc - found.auroc
            lines.append(
                {
                    "rates": name,
                    "measurements": setting.n_observations,
                    "duration": setting.duration,
                    "times_shuffled": shuffled,
                    "seeds": len(found),
                    "auroc": found.auroc.mean(),
                    "auroc_se": found.auroc.std(ddof=1) / np.sqrt(len(found)),
                    "loss": loss.mean(),
                    "loss_se": loss.std(ddof=1) / np.sqrt(len(found)),
                    "by_seed": " ".join(f"{x:.2f}" for x in found.auroc),
                    "auroc_with_hidden": found.auroc_all.mean(),
                    "by_seed_with_hidden": " ".join(f"{x:.2f}" for x in found.auroc_all),
                }
            )
            print(lines[-1], flush=True)
            write_table(lines, arguments.output / "hidden_recovery.csv", digits=4)


if __name__ == "__main__":
    main()
