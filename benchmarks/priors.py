"""Chooses the default priors: log loss of edge probabilities on simulated networks of many kinds.

For each shape of the rate prior, with the sparse prior of edges, a learner meets networks that it
was not tuned on otherwise: no edges, random graphs with random rates, spins that align, two and
three states; complete paths and noisy points. For noisy points the factor by which the star's
probabilities are tempered is varied too. The odds of an edge are not varied here.

    python benchmarks/priors.py [--reduced]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.flat_settings import regrouped

import asterism as am
from asterism.learning.search.settings import numbered_prior

RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
#: fewer where every score is a solve
HIDDEN_SHAPES = (0.5, 1.0, 2.0)
FACTORS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


class Case(NamedTuple):
    """One data set with its true edges."""

    kind: str
    network: Any
    paths: Any
    observations: Any
    emission: Any


def random_case(seed: int, n_nodes: int) -> Case:
    """A network of a random kind, its paths, and noisy looks at them."""
    rng = np.random.default_rng(seed)
    kind = ("empty", "random", "spins", "three states")[seed % 4]
    n_states = 3 if kind == "three states" else 2
    n_trajectories = int(rng.integers(6, 25))
    if kind == "spins":
        parents: dict[str, list[str]] = {f"N{i}": [] for i in range(n_nodes)}
        for child in parents:
            others = [n for n in parents if n != child]
            n_parents = int(rng.integers(0, 3))
            parents[child] = list(rng.choice(others, size=n_parents, replace=False))
        network = am.glauber(parents, a=1.0, b=float(rng.uniform(0.3, 1.2)))
    elif kind == "empty":
        network = am.glauber({f"N{i}": [] for i in range(n_nodes)}, a=float(rng.uniform(0.5, 2.0)))
    else:
        network = am.random_network(n_nodes, n_states, max_parents=2, seed=seed)
    paths = am.simulate(network, n_trajectories=n_trajectories, duration=8.0, seed=seed)
    means = (-1.0, 1.0) if n_states == 2 else (-1.5, 0.0, 1.5)
    emission = am.Gaussian(means=means, scale=float(rng.uniform(0.2, 0.6)))
    observations = am.observe(paths, emission, n_observations=int(rng.integers(8, 21)), seed=seed)
    return Case(kind, network, paths, observations, emission)


def losses(probability: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Log loss per pair, in nats, and edges claimed at ≥ 0.5 that are not there."""
    clipped = np.clip(probability, 1e-6, 1.0 - 1e-6)
    loss = -np.where(truth, np.log(clipped), np.log1p(-clipped)).mean()
    return float(loss), float(((probability >= 0.5) & ~truth).sum())


def pairs(network: Any) -> tuple[list[tuple[str, str]], np.ndarray]:
    names = list(network.nodes)
    every = [(p, c) for c in names for p in names if p != c]
    return every, np.array([p in network.parents[c] for p, c in every])


def tempered(learner: Any, factor: float, every: list[tuple[str, str]]) -> np.ndarray:
    """Edge probabilities as they would be with another factor."""
    found = learner._found
    prior = numbered_prior(found.nodes, 2, am.StructurePrior())
    columns = {}
    for child, table in enumerate(found.tables):
        weights = table.tempered_by(factor, prior.log_prior(child, table.parents))
        columns[found.nodes[child]] = weights.edge_probabilities(len(found.nodes))
    place = {name: i for i, name in enumerate(found.nodes)}
    return np.array([columns[c][place[p]] for p, c in every])


def measure(seeds: range, n_nodes: int, hidden: bool) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        if hidden and seed % 4 == 3:
            continue  # three hidden states take minutes each
        case = random_case(seed, n_nodes)
        every, truth = pairs(case.network)
        for shape in HIDDEN_SHAPES if hidden else SHAPES:
            settings = {"prior": am.GammaPrior(shape, "auto"), "tempering": 1.0, "n_jobs": 1}
            begin = time.process_time()
            if hidden:
                learner = am.StructureLearner(
                    case.emission, **regrouped(**{"method": "star", **settings})
                ).fit(case.observations)
            else:
                learner = am.StructureLearner(**regrouped(**settings)).fit(case.paths)
            seconds = time.process_time() - begin
            for factor in FACTORS if hidden else (1.0,):
                loss, false = losses(tempered(learner, factor, every), truth)
                yield {
                    "data": "noisy points" if hidden else "complete paths",
                    "kind": case.kind,
                    "seed": seed,
                    "shape": shape,
                    "factor": factor,
                    "log_loss": loss,
                    "false_edges": false,
                    "n_edges": int(truth.sum()),
                    "n_pairs": len(truth),
                    "seconds": seconds,
                }


def main() -> None:
    reduced = "--reduced" in sys.argv
    budget = 400.0 if reduced else np.inf
    rows: list[dict[str, Any]] = []
    rows += measure(range(80 if reduced else 200), 8, hidden=False)
    write(rows)
    begin = time.process_time()
    for row in measure(range(100), 5, hidden=True):
        if time.process_time() - begin > budget and row["shape"] == HIDDEN_SHAPES[0]:
            break
        rows.append(row)
        if row["factor"] == FACTORS[-1] and row["shape"] == HIDDEN_SHAPES[-1]:
            write(rows)  # whole data sets only


def write(rows: list[dict[str, Any]]) -> None:
    """Averages over data sets, so far."""
    table = pd.DataFrame(rows)
    averages = (
        table.groupby(["data", "shape", "factor"])[["log_loss", "false_edges"]].mean().reset_index()
    )
    share = table["n_edges"] / table["n_pairs"]
    base = {k: float(share[table["data"] == k].mean()) for k in table["data"].unique()}
    averages["base_rate_loss"] = [
        float(-(base[d] * np.log(base[d]) + (1 - base[d]) * np.log(1 - base[d])))
        for d in averages["data"]
    ]
    averages["data_sets"] = [table[table["data"] == d]["seed"].nunique() for d in averages["data"]]
    averages.round(4).to_csv(RESULTS / "priors.csv", index=False)


if __name__ == "__main__":
    main()
