"""What is claimed where nothing is: edges found among ten nodes that do not influence each other.

Data sets of ten unconnected nodes, 12 trajectories of 20 measurements: complete paths, and noisy
points (σ = 0.4 of the distance of two levels). Counts edges at a probability of at least one half,
with the defaults of ``asterism learn``, by the star alone, and with the priors of the paper, and
whether the sentence says that nothing was found. Levels are counted, as on the command line. The
odds of an edge were once set with seeds 0 to 49 in view, so these data sets have the seeds 1000 to
1049. The shape for whole paths was chosen after a look at the first 29 of them.

    python benchmarks/nothing.py [--sets 50] [--noisy 50] [--others] [--star] [--rows FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import option_parser
from edge_sets import COUNTED, Rows, summary

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.flat_settings import regrouped

import asterism as am
from asterism.results.run import Run
from asterism.results.summary import sentences

PAPER: dict[str, Any] = {
    "prior": am.GammaPrior(5.0),
    "edge_log_odds": None,
    "graph": "map",
    "tempering": 1.0,
}
LEARNERS: dict[str, dict[str, Any]] = {
    "defaults": {"method": "auto"},
    "odds 1/N": {"edge_log_odds": -np.log(10.0)},
    "paper's priors": PAPER,
}
NOISY: dict[str, dict[str, Any]] = {"defaults": {"method": "auto"}}
FIRST_SEED = 1000


def unconnected(seed: int) -> tuple[Any, Any, Any]:
    """Paths of ten nodes, and noisy looks at them with their emission."""
    rng = np.random.default_rng(seed)
    nodes = {f"N{i}": [] for i in range(10)}
    network = am.glauber(nodes, a=float(rng.uniform(0.5, 2.0)))
    paths = am.simulate(network, n_trajectories=12, duration=10.0, seed=seed)
    emission = am.Gaussian(means=(-1.0, 1.0), scale=0.8)
    return paths, am.observe(paths, emission, n_observations=20, seed=seed), emission


def claims(learner: Any) -> dict[str, float]:
    """How many edges are claimed, the largest probability, and what the sentence says."""
    sentence = " ".join(sentences(Run.from_learner(learner)))
    return {
        "edges_at_half": int((learner.edges_["probability"] >= 0.5).sum()),
        "largest_probability": float(learner.edges_["probability"].max()),
        "says_nothing_was_found": float("No edge reaches" in sentence),
    }


def learned(data: str, settings: dict[str, Any], seed: int) -> dict[str, float]:
    paths, observations, _ = unconnected(seed)
    if data == "complete paths":
        return claims(am.StructureLearner(n_jobs=1, **regrouped(**settings)).fit(paths))
    return claims(
        am.StructureLearner(COUNTED, n_jobs=1, **regrouped(**{"method": "star", **settings})).fit(
            observations
        )
    )


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--noisy", type=int, default=50, help="data sets with noisy points")
    parser.add_argument("--others", action="store_true", help="other priors on complete paths")
    parser.add_argument("--star", action="store_true", help="noisy points by the star alone too")
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "nothing.jsonl")
    found = []
    for data in ("noisy points", "complete paths"):
        sets = options.noisy if data == "noisy points" else options.sets
        alone = data == "noisy points" or not options.others
        noisy = {**NOISY, "star": {}} if options.star and data == "noisy points" else NOISY
        for seed in range(FIRST_SEED, FIRST_SEED + sets):
            for name, settings in (noisy if alone else LEARNERS).items():
                result = rows.get(
                    (data, name, seed),
                    lambda d=data, s=settings, n=seed: learned(d, s, n),  # type: ignore[misc]
                )
                found.append({"data": data, "learner": name, "seed": seed, **result})
            summary(found, ["data", "learner"], "nothing")
    print(summary(found, ["data", "learner"], "nothing").to_string())


if __name__ == "__main__":
    main()
