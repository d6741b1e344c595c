"""Networks whose graph is to be found again, and how they are seen.

Shared by the statistical tests and by the benchmarks that write the tables in the documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import asterism as am
from tests.paper_settings import paper_learner

N_TREE = 14


@dataclass(frozen=True)
class Tree:
    """What was learned of the tree of 14 Glauber spins whose last leaf leads the root."""

    right: int
    """Nodes whose parents are exactly the true ones."""
    ahead: float
    """Score of the graph found, less that of the true graph."""
    auroc: float
    converged: bool


def tree(n_trajectories: int, seed: int, sigma: float) -> tuple[am.Network, am.Observations]:
    """Ten noisy measurements of each trajectory of length 10, at random times of its own."""
    network = am.glauber(f"tree:{N_TREE}", a=1.0, b=0.6)
    paths = am.simulate(network, n_trajectories, duration=10.0, seed=seed)
    noise = am.Gaussian((-1, 1), sigma)
    return network, am.observe(paths, noise, n_observations=10, seed=seed + 1000)


def learn_tree(n_trajectories: int, seed: int, sigma: float, search: str = "auto") -> Tree:
    """Learn it with the default prior and at most one parent per node."""
    network, seen = tree(n_trajectories, seed, sigma)
    noise = am.Gaussian((-1, 1), sigma)
    learner = paper_learner(noise, max_parents=1, search=search).fit(seen)
    found, true = (
        am.structure_score(graph, seen, noise, am.GammaPrior(5.0), max_parents=1)
        for graph in (learner.graph_, network.graph)
    )
    return Tree(
        right=families_right(learner, network),
        ahead=found - true,
        auroc=am.metrics.edge_scores(learner.edge_probabilities_, network.graph)["auroc"],
        converged=bool(learner.converged_),
    )


def families_right(learner: am.StructureLearner, network: am.Network) -> int:
    learned, true = learner.network_.parents, network.parents
    return sum(set(learned[n]) == set(true[n]) for n in network.nodes)


@dataclass(frozen=True)
class HardSetting:
    """Three states per node, one node never measured, random times, 30 % of values missing."""

    rate_range: tuple[float, float]
    duration: float
    n_observations: int
    n_measured: int = 5
    n_trajectories: int = 40
    time_step: float = 0.25


#: about one measurement per change of a node, and a third as many
SLOW = HardSetting((0.1, 1.6), 20.0, 20)
FAST = HardSetting((0.25, 4.0), 10.0, 10)
SHUFFLES = ("none", "rows", "values")


def learn_hard(setting: HardSetting, seed: int, shuffled: str = "none") -> dict[str, float]:
    """AUROC over ordered pairs of measured nodes, and over all pairs.

    ``shuffled``: "rows" deals the times of a trajectory out anew to its rows, so that what is
    measured together stays together; "values" does so for each node on its own.
    """
    n_nodes = setting.n_measured + 1
    network = am.random_network(
        n_nodes, n_states=3, max_parents=1, min_parents=1, seed=seed, rate_range=setting.rate_range
    )
    measured = list(network.nodes)[:-1]
    noise = am.Gaussian((-2, 0, 2), 0.5)
    paths = am.simulate(network, setting.n_trajectories, duration=setting.duration, seed=seed)
    seen = am.observe(
        paths, dict.fromkeys(measured, noise), setting.n_observations, missing=0.3, seed=seed + 1000
    )
    if shuffled != "none":
        table = _shuffled(seen.to_frame(), measured, shuffled, np.random.default_rng(seed))
        seen = am.Observations.from_frame(table, start=0.0, end=setting.duration)
    learner = paper_learner(
        noise, max_parents=1, search="screened", time_step=setting.time_step, states=network.states
    ).fit(seen)
    found = learner.edge_probabilities_
    truth = network.graph
    return {
        "auroc": am.metrics.edge_scores(
            found.loc[measured, measured], truth.subgraph(measured)
        )["auroc"],
        "auroc_all": am.metrics.edge_scores(found, truth)["auroc"],
    }  # fmt: skip


def _shuffled(
    table: pd.DataFrame, measured: list[str], how: str, rng: np.random.Generator
) -> pd.DataFrame:
    def deal(values: Any) -> Any:
        return rng.permutation(values.to_numpy())

    table = table.copy()
    if how == "rows":
        table["time"] = table.groupby("trajectory")["time"].transform(deal)
    else:
        for node in measured:
            table[node] = table.groupby("trajectory")[node].transform(deal)
    return table.sort_values(["trajectory", "time"], ignore_index=True)
