"""Tables of both kinds: are edges between jumping and continuous nodes found, and none made up?

Two jumping nodes, measured with a noise of a third of the distance between their levels, and two
continuous ones; 8 trajectories of 41 points. "connected": one jumping node sets the resting level
of a continuous one, the other continuous node steers the rates of the other jumping one; "half":
both effects halved; "unconnected": nobody does anything. Kinds are told.

    python benchmarks/mixed.py [--sets 10] [-o .]
"""

from __future__ import annotations

import pandas as pd
from common import option_parser

import asterism as am

SWITCH = [[0, 0.25], [0.25, 0]]
KINDS = {n: am.Gaussian(levels=2, learn=True) for n in "jk"} | {n: am.Continuous() for n in "xy"}
NOISE = {n: am.Gaussian((0.0, 3.0), 1.0) for n in "jk"}
STRENGTHS = {"connected": 1.0, "half": 0.5, "unconnected": 0.0}


def measured(strength: float, seed: int) -> am.Observations:
    """j -> y and x -> k, with this strength."""
    network = am.Network(
        {"j": [], "k": ["x"], "x": [], "y": ["j"]},
        {"j": SWITCH, "k": SWITCH},
        drifts={
            "x": am.Drift(0.25, 0.7, noise_sd=0.1),
            "y": am.Drift(0.6, 0.5, shifts={"j": (-0.8 * strength, 0.8 * strength)}, noise_sd=0.1),
        },
        slopes={"k": {"x": [[0, 1.5 * strength], [-1.5 * strength, 0]]}},
    )
    paths = am.simulate(network, 8, duration=40.0, seed=[seed, 1])
    return am.observe(paths, NOISE, interval=1.0, seed=[seed, 2])


def main() -> None:
    """Write mixed.csv."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=10, help="tables per row (10)")
    options = parser.parse_args()
    lines = []
    for name, strength in STRENGTHS.items():
        line = {"data": name, "tables": options.sets, "state_sets_level": 0, "value_sets_rates": 0}
        line |= {"false_between_kinds": 0, "false_within_kinds": 0}
        for seed in range(2000, 2000 + options.sets):
            learner = am.StructureLearner(KINDS, n_jobs=1).fit(measured(strength, seed))
            edges = learner.edges_
            for parent, child in edges.loc[edges["probability"] >= 0.5, ["parent", "child"]].values:
                pair = parent + child if strength else ""
                between = (parent in "jk") != (child in "jk")
                column = {"jy": "state_sets_level", "xk": "value_sets_rates"}.get(pair)
                line[column or f"false_{'between' if between else 'within'}_kinds"] += 1
        lines.append(line)
        print(line, flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(lines).to_csv(options.output / "mixed.csv", index=False)


if __name__ == "__main__":
    main()
