"""Makes the data behind ``asterism demo``, so that anybody can see where they come from.

Eight genes switch between low and high. Each parent pushes its child up (activation) or down
(repression); there is one feedback loop. Twelve replicates are measured about every two hours
for two days through noise, and a fifth of the values is missing.

    python examples/make_demo_data.py            writes src/asterism/report/demo_data/
    python examples/make_demo_data.py FOLDER     writes elsewhere
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import asterism as am

SEED = 20
HOURS = 48.0
REPLICATES = 12
MISSING = 0.2
GAP = 2.0

#: child -> {parent: +1 activates, -1 represses}
INFLUENCES = {
    "AlpA": {"ThetaH": -1},
    "BetB": {"AlpA": +1},
    "GamC": {"AlpA": -1},
    "DelD": {"BetB": +1, "GamC": +1},
    "EpsE": {"GamC": +1},
    "ZetF": {"DelD": -1},
    "EtaG": {"EpsE": +1, "BetB": -1},
    "ThetaH": {"ZetF": +1},
}
#: how much faster a parent that pushes makes a jump; jumps per hour without any push
PUSH, BASE = 8.0, 0.12


def make_network() -> am.Network:
    rates = {}
    for child, parents in INFLUENCES.items():
        table = np.zeros((2,) * len(parents) + (2, 2))
        for states in product((0, 1), repeat=len(parents)):
            push = sum(sign * (2 * x - 1) for sign, x in zip(parents.values(), states))
            strength = PUSH ** (push / len(parents) / 2)
            table[(*states, 0, 1)] = BASE * strength
            table[(*states, 1, 0)] = BASE / strength
        rates[child] = table
    return am.Network(
        parents={child: list(parents) for child, parents in INFLUENCES.items()},
        rates=rates,
        states={gene: ["low", "high"] for gene in INFLUENCES},
    )


def main(folder: Path) -> None:
    rng = np.random.default_rng(SEED)
    network = make_network()
    paths = am.simulate(network, n_trajectories=REPLICATES, duration=HOURS, seed=SEED)
    planned = np.arange(0.0, HOURS + 1e-9, GAP)
    late = rng.normal(0.0, 0.2, (REPLICATES, len(planned)))
    times = np.clip(np.round(planned + late, 2), 0.0, HOURS)
    emission = {
        gene: am.Gaussian(
            means=(round(rng.uniform(2, 4), 1), round(rng.uniform(6, 9), 1)),
            scale=round(rng.uniform(0.7, 1.2), 1),
        )
        for gene in INFLUENCES
    }
    observed = am.observe(paths, emission, times=times, missing=MISSING, seed=SEED + 1)
    table = observed.to_frame().rename(columns={"trajectory": "replicate", "time": "hours"})
    table["replicate"] += 1
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "cells.csv", index=False, float_format="%.2f", lineterminator="\n")
    edges = [(parent, child) for child, parents in INFLUENCES.items() for parent in parents]
    pd.DataFrame(edges, columns=["parent", "child"]).to_csv(
        folder / "true_edges.csv", index=False, lineterminator="\n"
    )


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "src" / "asterism" / "report" / "demo_data"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
