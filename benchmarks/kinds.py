"""Which kind of node: columns simulated as jumps or as moving continuously, and their verdict.

Jumps between 2 or 3 levels, the noise a third of the distance between levels; Ornstein–Uhlenbeck
processes, the noise a third of their standard deviation or of four of them (their range). Few
trajectories with many points and many with few.

Seeds from 5000 on are fresh: the rule was built while this script used those up to 3049.

    python benchmarks/kinds.py [--sets 50] [--first-seed 5000] [--design NAME] [-o .]
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from common import option_parser

from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.learning.kinds import choose_kind

DESIGNS = {"5 × 21": (5, 21), "20 × 11": (20, 11), "2 × 100": (2, 100)}


def jumps(rng: np.random.Generator, n: int, length: int, levels: int, noise: float) -> list:
    """Rows of a column that jumps about once in three gaps to another level."""
    rows = []
    for d in range(n):
        state = rng.integers(levels)
        for t in range(length):
            if t and rng.random() < 1.0 - np.exp(-1.0 / 3.0):
                state = (state + rng.integers(1, levels)) % levels
            rows.append((d, float(t), state + noise * rng.normal()))
    return rows


def smooth(rng: np.random.Generator, n: int, length: int, decay: float, noise: float) -> list:
    """Rows of an OU process of standard deviation 1."""
    a = np.exp(-decay)
    rows = []
    for d in range(n):
        x = rng.normal()
        for t in range(length):
            x = a * x + np.sqrt(1 - a * a) * rng.normal() if t else x
            rows.append((d, float(t), x + noise * rng.normal()))
    return rows


ROWS = {
    "jumps, 2 levels": lambda rng, n, length: jumps(rng, n, length, 2, 1 / 3),
    "jumps, 3 levels": lambda rng, n, length: jumps(rng, n, length, 3, 1 / 3),
    "jumps, 2 levels, quiet": lambda rng, n, length: jumps(rng, n, length, 2, 0.1),
    "continuous, slow": lambda rng, n, length: smooth(rng, n, length, 0.1, 1 / 3),
    "continuous": lambda rng, n, length: smooth(rng, n, length, 0.3, 1 / 3),
    "continuous, quiet": lambda rng, n, length: smooth(rng, n, length, 0.3, 0.05),
    "continuous, noise of a third of the range": lambda rng, n, length: smooth(
        rng, n, length, 0.3, 4 / 3
    ),
}


def record(rows: list) -> NodeMeasurements:
    """As the learner sees a column."""
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "x"])
    return Observations.from_frame(frame).measurements["x"]


def main() -> None:
    """Write kinds.csv."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=50, help="columns per row (50)")
    parser.add_argument("--first-seed", type=int, default=5000, help="of the columns (5000)")
    parser.add_argument("--design", default="", help="only designs whose name holds this")
    options = parser.parse_args()
    lines = []
    for design, size in ((k, v) for k, v in DESIGNS.items() if options.design in k):
        for name, make in ROWS.items():
            found = [
                choose_kind("x", record(make(np.random.default_rng([seed, 7]), *size)))
                for seed in range(options.first_seed, options.first_seed + options.sets)
            ]
            truth = name.split(",")[0]
            right = sum(c.kind == truth for c in found)
            clear = sum(c.kind != truth and c.gain > 3.0 for c in found)
            line = {"design": design, "column": name, "right": right, "clearly_wrong": clear}
            lines.append({**line, "columns": options.sets})
            print(line, flush=True)
            options.output.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(lines).to_csv(options.output / "kinds.csv", index=False)


if __name__ == "__main__":
    main()
