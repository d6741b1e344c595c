"""Do sparse priors spoil what was found? Table 1 and the tree of 14, old priors beside the new.

Random graphs of five spins as in table 1 of the paper, every row of it, and a tree of 14 spins
whose last leaf leads the root, seen through noise and as complete paths. "paper" has the paper's
priors (shape 5, every set of parents equally probable), "star" those of the learner by the star
alone, "defaults" those of the learner as ``asterism learn`` uses it, with sampling after the star.
None is told how the graphs were drawn. "star, shape 5" and "star, flat" each take one of the
paper's priors, to see which of them matters (``--which-prior``). Probabilities rank the same edges
first whether tempered or not within a node, not between nodes, so the star is tempered here as a
user gets it.

    python benchmarks/recovery.py [--graphs 6] [--trees 5] [--which-prior] [--rows FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from common import option_parser
from edge_sets import Rows, probabilities, scored, summary

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.flat_settings import regrouped

import asterism as am
from asterism.learning.search.settings import StructureSettings
from asterism.model.names import random_parents
from asterism.paper import table1

PAPER: dict[str, Any] = {"edge_log_odds": None, "graph": "map", "tempering": 1.0}
LEARNERS: dict[str, dict[str, Any]] = {
    "paper": {"prior": am.GammaPrior(5.0), **PAPER},
    "star": {"tempering": 1.0},
    "defaults": {"method": "auto"},
}
ONE_BY_ONE: dict[str, dict[str, Any]] = {
    "star, shape 5": {"tempering": 1.0, "prior": am.GammaPrior(5.0)},
    "star, flat": {"tempering": 1.0, "edge_log_odds": None},
}
#: (trajectories, σ); 0 is a complete path
TREES = ((40, 0.6), (40, 0.2), (15, 0.0))


def random_graph(key: tuple[int, int, float], learner: str, seed: int) -> dict[str, Any]:
    """One graph of one row of table 1."""
    k_max, n_trajectories, sigma = key
    network = am.glauber(
        random_parents(table1.N_NODES, 1, k_max, seed=seed), a=1.0, b=table1.COUPLING
    )
    noise = am.Gaussian((-1, 1), sigma)
    paths = am.simulate(network, n_trajectories, duration=table1.DURATION, seed=seed)
    seen = am.observe(paths, noise, table1.N_OBSERVATIONS, seed=seed + 1000)
    settings = LEARNERS[learner]
    if learner == "paper":
        settings = {"prior": am.GammaPrior(table1.SHAPE, table1.RATE), **PAPER}
    own = regrouped(**{"method": "star", "search": "exhaustive", **settings})
    found = am.StructureLearner(noise, n_jobs=1, **own).fit(seen)
    return described(network, found)


def tree(n_trajectories: int, sigma: float, learner: str, seed: int) -> dict[str, Any]:
    """One data set of the tree."""
    network = am.glauber("tree:14", a=1.0, b=0.6)
    paths = am.simulate(network, n_trajectories, duration=10.0, seed=seed)
    prior = LEARNERS[learner]
    if sigma:
        noise = am.Gaussian((-1, 1), sigma)
        seen = am.observe(paths, noise, n_observations=10, seed=seed + 1000)
        own = regrouped(**{"method": "star", **prior})
        found = am.StructureLearner(noise, max_parents=1, n_jobs=1, **own).fit(seen)
    else:
        found = am.StructureLearner(n_jobs=1, **regrouped(**prior)).fit(paths)
    return described(network, found)


def described(network: am.Network, learner: Any) -> dict[str, Any]:
    """The true edges, the scores of all families, and the tempering that a user would get."""
    hidden = learner.known_share_ < 1.0 and learner.method_ == "star"
    factor = StructureSettings().tempering_factor(learner.known_share_) if hidden else 1.0
    return {"edges": sorted(map(list, network.graph.edges)), "factor": factor, **scored(learner)}


def figures(result: dict[str, Any], factor: float) -> dict[str, float]:
    matrix = probabilities(result, factor)
    truth = [(str(a), str(b)) for a, b in result["edges"]]
    scores = am.metrics.edge_scores(matrix, truth)
    claimed = matrix.to_numpy() >= 0.5
    right = sum(bool(claimed[matrix.index.get_loc(a), matrix.columns.get_loc(b)]) for a, b in truth)
    return {
        "auroc": scores["auroc"],
        "aupr": scores["aupr"],
        "true_at_half": right,
        "false_at_half": int(claimed.sum()) - right,
    }


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--graphs", type=int, default=6)
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--which-prior", action="store_true", help="the paper's priors one by one")
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "recovery.jsonl")
    lines: list[dict[str, Any]] = []
    LEARNERS.update(ONE_BY_ONE if options.which_prior else {})
    for seed in range(max(options.graphs, options.trees)):
        for learner in LEARNERS:
            for key in table1.PRINTED if seed < options.graphs else ():
                case = ("table1", *key, learner, seed)
                found = rows.get(case, lambda k=key, w=learner, s=seed: random_graph(k, w, s))
                factor = 1.0 if learner == "paper" else found["factor"]
                lines.append(
                    {
                        "network": f"table 1, up to {key[0]} parents",
                        "trajectories": key[1],
                        "sigma": key[2],
                        "learner": learner,
                        "seed": seed,
                        **figures(found, factor),
                    }
                )
            for size, sigma in TREES if seed < options.trees else ():
                case = ("tree", size, sigma, learner, seed)
                found = rows.get(case, lambda d=size, s=sigma, w=learner, n=seed: tree(d, s, w, n))
                factor = 1.0 if learner == "paper" else found["factor"]
                lines.append(
                    {
                        "network": "tree of 14",
                        "trajectories": size,
                        "sigma": sigma,
                        "learner": learner,
                        "seed": seed,
                        **figures(found, factor),
                    }
                )
        print(seed, flush=True)
    by = ["network", "trajectories", "sigma", "learner"]
    print(summary(lines, by, "recovery").to_string())


if __name__ == "__main__":
    main()
