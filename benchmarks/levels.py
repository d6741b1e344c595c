"""How often the right number of levels is counted, and what miscounting costs.

Networks of six nodes with 2, 3 or 4 levels each, σ a third of the distance between levels, 200
measurements per node unless said otherwise. Three kinds: nodes without edges and with random rates
between all levels; random networks; and genes that climb from level to level, some of which are
hardly ever reached ("seldom": the share of nodes whose rarest level was measured fewer than ten
times). For these "oracle" knows σ and the distance of the levels and chooses only which of them
there are, by the same score. The score was chosen with seeds 0 to 3 in view, so these are 100 and
up. Then networks of five nodes with mixed levels are learned with counted levels, and by a learner
that was told their numbers.

    python benchmarks/levels.py [--sets 6] [--learned 4] [--others] [--rows FOLDER]
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from edge_sets import COUNTED, RESULTS, Rows, regulated, summary

import asterism as am
from asterism.learning.level_moves import Redrawn, Stepwise
from asterism.learning.levels import LevelRows, choose_levels, climb

KINDS = ("no edges", "random network", "step by step")
SEEN_SELDOM = 10
FIRST_SEED = 100


def make_network(kind: str, sizes: list[int], seed: int) -> am.Network:
    """Nodes with so many levels each."""
    rng = np.random.default_rng([seed, len(kind), *sizes])
    levels = {f"N{i}": size for i, size in enumerate(sizes)}
    names = list(levels)
    parents: dict[str, list[str]] = {name: [] for name in names}
    if kind != "no edges":
        for child in names:
            if rng.random() < 0.7:
                parents[child] = [str(rng.choice([n for n in names if n != child]))]
    if kind == "step by step":
        return regulated(parents, levels, rng)
    rates = {}
    for node, above in parents.items():
        shape = (*(levels[p] for p in above), levels[node], levels[node])
        rates[node] = rng.gamma(2.0, 0.25, size=shape) * (1.0 - np.eye(levels[node]))
    return am.Network(parents, rates, {n: list(range(s)) for n, s in levels.items()})


def measured(network: am.Network, n_measurements: int, seed: int) -> tuple[Any, Any]:
    """Noisy looks, and the states that were looked at."""
    paths = am.simulate(network, n_trajectories=10, duration=10.0, seed=seed)
    noise = {
        n: am.Gaussian(means=tuple(map(float, range(len(s)))), scale=1 / 3)
        for n, s in network.states.items()
    }
    n_points = n_measurements // 10
    seen = am.observe(paths, noise, n_observations=n_points, seed=seed)
    return seen, am.observe(paths, am.Exact(), n_observations=n_points, seed=seed)


def counted(kind: str, size: int, n_measurements: int, seed: int) -> dict[str, Any]:
    network = make_network(kind, [size] * 6, seed)
    seen, states = measured(network, n_measurements, seed)
    found, rarest, seconds, best = [], [], [], []
    for node in network.nodes:
        begin = time.process_time()
        found.append(choose_levels(node, seen.measurements[node], COUNTED).n_levels)
        seconds.append(time.process_time() - begin)
        if kind == "step by step":
            best.append(oracle(seen.measurements[node], size))
        visits = pd.Series(states.measurements[node].value).value_counts()
        rarest.append(int(visits.min()) if len(visits) == size else 0)
    typical = float(np.median(seconds))
    return {"found": found, "oracle": best, "rarest": rarest, "seconds": typical}


def oracle(record: Any, size: int) -> int:
    """The number of levels by whoever knows σ and that levels lie one apart, at whole numbers."""
    rows = LevelRows.of(record)
    scores = {}
    for n_levels in range(2, 6):
        room = range(min(0, size - n_levels), max(0, size - n_levels) + 1)
        fits = []
        for lowest in room:
            known = am.Gaussian(tuple(float(lowest + i) for i in range(n_levels)), 1 / 3)
            redrawn = Redrawn(np.full(n_levels, 1.0 / n_levels), 0.5)
            fits += [climb(rows, known, redrawn).score]
            fits += [climb(rows, known, Stepwise.like(redrawn)).score]
        scores[n_levels] = max(fits)
    return max(scores, key=lambda n: scores[n])


def learned(seed: int) -> dict[str, float]:
    """AUROC with counted levels, and of a learner that was told."""
    sizes = [2, 2, 3, 3, 4]
    number = 7000 + seed
    network = make_network("random network", sizes, number)
    while not network.graph.number_of_edges():  # nothing to rank
        number += 500
        network = make_network("random network", sizes, number)
    seen, _ = measured(network, 200, number)
    told = {n: am.Gaussian(levels=len(s), learn=True) for n, s in network.states.items()}
    result = {}
    for name, emission in (("counted", COUNTED), ("told", told)):
        learner = am.StructureLearner(emission, max_parents=1, n_jobs=1, method="star").fit(seen)
        scores = am.metrics.edge_scores(learner.edge_probabilities_, network.graph)
        result |= {f"auroc_{name}": scores["auroc"], f"aupr_{name}": scores["aupr"]}
        if name == "counted":
            right = [
                int(row.levels) == len(network.states[row.node])
                for row in learner.levels_.itertuples()
            ]
            result["share_right"] = float(np.mean(right))
    return result


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--learned", type=int, default=4)
    parser.add_argument("--others", action="store_true", help="also 100 and 400 measurements")
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "levels.jsonl")
    lines = []
    plan = [(kind, 200) for kind in KINDS]
    plan += [("no edges", 100), ("no edges", 400)] if options.others else []
    for kind, n_measurements in plan:
        for size in (2, 3, 4):
            every: list[dict[str, Any]] = []
            for seed in range(FIRST_SEED, FIRST_SEED + options.sets):
                case = (kind, size, n_measurements, seed)
                every.append(rows.get(case, lambda c=case: counted(*c)))
            right = np.concatenate([e["found"] for e in every]) == size
            known = np.concatenate([np.array(e["oracle"], dtype=int) for e in every]) == size
            often = np.concatenate([e["rarest"] for e in every]) >= SEEN_SELDOM
            lines.append(
                {
                    "kind": kind,
                    "measurements": n_measurements,
                    "levels": size,
                    "nodes": len(right),
                    "share_right": right.mean(),
                    "share_right_oracle": known.mean() if len(known) else np.nan,
                    "seldom": 1.0 - often.mean(),
                    "share_right_of_others": right[often].mean() if often.any() else np.nan,
                    "seconds_per_node": np.median([e["seconds"] for e in every]),
                }
            )
            table = pd.DataFrame(lines).round(4)
            table.to_csv(RESULTS / "levels.csv", index=False)
    print(table.to_string(), flush=True)
    found = []
    for seed in range(options.learned):
        own = rows.get(("learned", seed), lambda s=seed: learned(s))
        found.append({"network": "random, 2 to 4 levels", "seed": seed, **own})
        print(summary(found, ["network"], "levels_learned").to_string(), flush=True)


if __name__ == "__main__":
    main()
