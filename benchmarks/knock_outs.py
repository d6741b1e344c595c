"""What telling the learner about knock-outs is worth, and a direction that only they can show.

Networks of five spins, ten trajectories; every node is held low in one trajectory and high in
another, for the whole of it. The same measurements are learned from twice: by a learner that is
told and by one that is not. Then two spins, one following the other, seen so seldom that each seems
to follow the other: measurements alone, the same number with knock-outs not told, and told.

    python benchmarks/knock_outs.py [--sets 20] [--rows FOLDER]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from edge_sets import Rows, summary

import asterism as am
from asterism.model.names import random_parents

NOISE = am.Gaussian((-1.0, 1.0), 0.4)
N_NODES = 5


def held_network(network: am.Network, node: str, state: Any) -> am.Network:
    """The same network while one node is held: it has no parents and does not move."""
    parents = {n: list(p) for n, p in network.parents.items()} | {node: []}
    size = len(network.states[node])
    rates = {n: network.rates[n] for n in network.nodes} | {node: np.zeros((size, size))}
    first = {n: np.full(len(s), 1.0 / len(s)) for n, s in network.states.items()}
    first[node] = np.array([float(s == state) for s in network.states[node]])
    return am.Network(parents, rates, network.states, first)


def experiment(
    network: am.Network,
    held: list[tuple[str, Any] | None],
    duration: float,
    n_points: int,
    seed: int,
) -> tuple[Any, pd.DataFrame]:
    """Measurements of one trajectory per entry, and the table of interventions."""
    frames, rows = [], []
    for number, setting in enumerate(held):
        here = network if setting is None else held_network(network, *setting)
        paths = am.simulate(here, 1, duration=duration, seed=[seed, number])
        frame = am.observe(paths, NOISE, n_points, seed=[seed, number, 1]).to_frame()
        frames.append(frame.assign(trajectory=number))
        if setting is not None:
            rows.append((number, setting[0], 0.0, duration, setting[1]))
    columns = ["trajectory", "node", "start", "end", "state"]
    seen = am.Observations.from_frame(pd.concat(frames), start=0.0, end=duration)
    return seen, pd.DataFrame(rows, columns=columns)


def learned(network: am.Network, data: Any, max_parents: int = 2) -> dict[str, Any]:
    learner = am.StructureLearner(
        NOISE,
        max_parents=max_parents,
        states=network.states,
        n_jobs=1,
        method="star",
    ).fit(data)
    matrix = learner.edge_probabilities_
    return {"probability": {f"{p}>{c}": float(matrix.loc[p, c]) for p in matrix for c in matrix}}


def knock_outs(seed: int) -> dict[str, Any]:
    network = am.glauber(random_parents(N_NODES, 1, 2, seed=seed), a=1.0, b=0.9)
    names = list(network.nodes)
    held = [(n, network.states[n][i]) for n in names for i in (0, -1)]
    seen, table = experiment(network, held, 10.0, 20, seed)
    result = {}
    for name, data in (("told", seen.with_interventions(table)), ("not told", seen)):
        found = learned(network, data)["probability"]
        matrix = pd.DataFrame({c: {p: found[f"{p}>{c}"] for p in names} for c in names})
        scores = am.metrics.edge_scores(matrix, network.graph)
        result[name] = {"auroc": scores["auroc"], "aupr": scores["aupr"]}
    return result


def direction(seed: int) -> dict[str, Any]:
    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.5)
    low, high = network.states["A"]
    held = [(n, s) for n in ("A", "B") for s in (low, high) for _ in range(5)]
    seen, table = experiment(network, held, 30.0, 10, seed)
    alone, _ = experiment(network, [None] * len(held), 30.0, 10, seed + 500)
    result = {}
    for name, data in (
        ("no knock-outs", alone),
        ("not told", seen),
        ("told", seen.with_interventions(table)),
    ):
        found = learned(network, data, 1)["probability"]
        result[name] = {"right": found["A>B"], "wrong": found["B>A"]}
    return result


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "knock_outs.jsonl")
    scores, sides = [], []
    for seed in range(options.sets):
        for name, own in rows.get(("knock-outs", seed), lambda s=seed: knock_outs(s)).items():
            scores.append({"learner": name, "seed": seed, **own})
        for name, own in rows.get(("direction", seed), lambda s=seed: direction(s)).items():
            resolved = own["right"] >= 0.5 > own["wrong"]
            preferred = own["wrong"] > own["right"]
            sides.append(
                {
                    "data": name,
                    "seed": seed,
                    **own,
                    "resolved": float(resolved),
                    "wrong_preferred": float(preferred),
                }
            )
    print(summary(scores, ["learner"], "knock_outs").to_string())
    print(summary(sides, ["data"], "knock_out_direction").to_string())


if __name__ == "__main__":
    main()
