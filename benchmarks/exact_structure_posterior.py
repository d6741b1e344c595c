"""Is a learned graph as good as the data allow? The learner beside the exact posterior over graphs.

Rows of table 1 (random graphs of five spins) and the tree of 14 spins, same data and priors for
both. The exact posterior comes from Markov chains over paths, rates and graphs that start from the
true, the empty and two random graphs (tests/reference/structure_posterior.py). Writes
exact_structure_posterior.csv and, seed by seed, exact_structure_posterior_tree.csv:
python benchmarks/exact_structure_posterior.py -o out/ [--graphs 100] [--sweeps 3000] [--trees 5]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.recovery_graphs import N_TREE, families_right, tree
from tests.reference.structure_posterior import (
    Chain,
    Measured,
    all_families,
    as_families,
    sample_graphs,
    size_log_prior,
)

import asterism as am
from asterism.model.names import random_parents
from asterism.paper.common import mean_and_errors
from asterism.paper.table1 import (
    COUPLING,
    DURATION,
    N_NODES,
    N_OBSERVATIONS,
    RATE,
    SEARCHED_PARENTS,
    SHAPE,
    STRUCTURE_PRIORS,
)

#: (k_max, trajectories, noise, structure prior) of table 1, and the share of the graphs learned
PLAN = {
    (1, 5, 0.2, "as drawn"): 1.0,
    (1, 5, 0.2, "uniform"): 1.0,
    (1, 10, 0.2, "uniform"): 0.25,
    (1, 10, 1.0, "uniform"): 0.25,
    (2, 10, 0.2, "uniform"): 0.25,
}
BURN_IN = 1000
TREE_TRAJECTORIES, TREE_SIGMA = 40, 0.6
WAYS = ("learner", "exact")


def chains(
    network: am.Network,
    measured: Measured,
    max_parents: int,
    prior: tuple[float, float],
    sweeps: int,
    seed: int,
    log_prior: np.ndarray[Any, Any] | None = None,
) -> list[Chain]:
    """Chains from the true graph, from the empty one and from two random ones."""
    rng = np.random.default_rng(seed)
    families = all_families(network.n_nodes, max_parents)
    truth = as_families(network.parents, network.nodes)
    starts = [truth, families[:, 0]]
    for _ in range(2):
        drawn = rng.integers(families.shape[1], size=network.n_nodes)
        starts.append(families[np.arange(network.n_nodes), drawn])
    return [
        sample_graphs(
            *(measured, max_parents, start, prior, sweeps, BURN_IN),
            seed=4 * seed + i,
            log_prior=log_prior,
        )
        for i, start in enumerate(starts)
    ]


def spread(found: list[Chain]) -> float:
    """The largest difference between chains in the probability of an edge."""
    edges = np.array([chain.edges for chain in found])
    return float((edges.max(axis=0) - edges.min(axis=0)).max())


def scores(found: list[Chain], network: am.Network) -> dict[str, float]:
    edges = np.mean([chain.edges for chain in found], axis=0)
    table = pd.DataFrame(edges, network.nodes, network.nodes)
    return am.metrics.edge_scores(table, network.graph)


# ---- table 1 --------------------------------------------------------------------------------


def one_graph(
    k_max: int, n_trajectories: int, sigma: float, structure_prior: str, seed: int, sweeps: int
) -> Any:
    """AUROC and AUPR of both, and how well the chains agree."""
    network = am.glauber(random_parents(N_NODES, 1, k_max, seed=seed), a=1.0, b=COUPLING)
    noise = am.Gaussian((-1, 1), sigma)
    paths = am.simulate(network, n_trajectories, duration=DURATION, seed=seed)
    seen = am.observe(paths, noise, n_observations=N_OBSERVATIONS, seed=seed + 1000)
    learner = am.StructureLearner(
        noise,
        SEARCHED_PARENTS,
        prior=am.GammaPrior(SHAPE, RATE),
        n_jobs=1,
        search="exhaustive",
        structure_prior=STRUCTURE_PRIORS[structure_prior],
        method="star",
    ).fit(seen)
    as_drawn = size_log_prior(N_NODES, SEARCHED_PARENTS)
    log_prior = as_drawn if structure_prior == "as drawn" else None
    measured = Measured.of(seen, network.nodes, noise)
    found = chains(network, measured, SEARCHED_PARENTS, (SHAPE, RATE), sweeps, seed, log_prior)
    of = {
        "learner": am.metrics.edge_scores(learner.edge_probabilities_, network.graph),
        "exact": scores(found, network),
    }
    return {f"{way}_{what}": of[way][what] for way in WAYS for what in ("auroc", "aupr")} | {
        "chains_differ": spread(found)
    }


def table_row(key: tuple[int, int, float, str], graphs: int, sweeps: int) -> dict[str, Any]:
    """Means over graphs, and of the paired differences, with standard errors."""
    single = pd.DataFrame([one_graph(*key, seed, sweeps) for seed in range(graphs)])
    row: dict[str, Any] = dict(zip(("k_max", "D", "sigma", "structure_prior"), key)) | {
        "graphs": graphs
    }
    for what in ("auroc", "aupr"):
        single[f"{what}_gain"] = single[f"exact_{what}"] - single[f"learner_{what}"]
        for column in (f"learner_{what}", f"exact_{what}", f"{what}_gain"):
            mean, _, error = mean_and_errors(single[column])
            row |= {column: mean, f"{column}_se": error}
    return row | {"chains_differ": single["chains_differ"].mean()}


# ---- the tree -------------------------------------------------------------------------------


def one_tree(seed: int, sweeps: int) -> dict[str, Any]:
    """Families found by both; what the exact posterior says where the learner is wrong."""
    network, seen = tree(TREE_TRAJECTORIES, seed, TREE_SIGMA)
    noise = am.Gaussian((-1, 1), TREE_SIGMA)
    learner = am.StructureLearner(noise, max_parents=1, method="star").fit(seen)
    prior = (learner.prior_.shape, learner.prior_.rate_value)
    found = chains(network, Measured.of(seen, network.nodes, noise), 1, prior, sweeps, seed)
    probabilities = np.mean([chain.probabilities for chain in found], axis=0)
    everyone = np.arange(N_TREE)
    best = found[0].families[everyone, probabilities.argmax(axis=1), 0]
    learned = as_families(learner.network_.parents, network.nodes)[:, 0]
    true = as_families(network.parents, network.nodes)[:, 0]

    def probability(child: int, parent: int) -> float:
        return float(probabilities[child, found[0].families[child, :, 0] == parent][0])

    wrong = [int(n) for n in np.flatnonzero(learned != true)]
    return {
        "seed": seed,
        "learner_right": families_right(learner, network),
        "exact_right": int((best == true).sum()),
        "learner_wrong": len(wrong),
        # of these:
        "truth_more_probable": sum(
            probability(n, true[n]) > probability(n, learned[n]) for n in wrong
        ),
        "mutual": sum(bool(learned[learned[n]] == n) for n in wrong),
        "mutual_truth_more_probable": sum(
            probability(n, true[n]) > probability(n, learned[n])
            for n in wrong
            if learned[learned[n]] == n
        ),
        "learner_aupr": am.metrics.edge_scores(learner.edge_probabilities_, network.graph)["aupr"],
        "exact_aupr": scores(found, network)["aupr"],
        "chains_differ": spread(found),
    }


def main() -> None:
    parser = option_parser(__doc__, "benchmark-exact-structure-posterior")
    parser.add_argument("--graphs", type=int, default=100, help="of the first row; a quarter else")
    parser.add_argument("--sweeps", type=int, default=3000, help=f"per chain, {BURN_IN} left out")
    parser.add_argument("--trees", type=int, default=5, help="seeds of the tree")
    arguments = parser.parse_args()
    if arguments.sweeps <= BURN_IN:
        parser.error(f"--sweeps must be above {BURN_IN}, which are left out")
    rows: list[dict[str, Any]] = []
    for key, share in PLAN.items():
        graphs = int(arguments.graphs * share)
        if graphs > 1:
            rows.append(table_row(key, graphs, arguments.sweeps))
            print(rows[-1], flush=True)
            write_table(rows, arguments.output / "exact_structure_posterior.csv", digits=5)
    trees: list[dict[str, Any]] = []
    for seed in range(arguments.trees):
        trees.append(one_tree(seed, arguments.sweeps))
        print(trees[-1], flush=True)
        write_table(trees, arguments.output / "exact_structure_posterior_tree.csv", digits=5)


if __name__ == "__main__":
    main()
