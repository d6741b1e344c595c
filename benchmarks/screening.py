"""What screening costs in accuracy and saves in time, and how well its local stage uses two cores.

1. Random graphs of 200 nodes with one or two parents each, 20 to 80 trajectories: the screened
   search, with 10 or more candidates, beside exhaustive scoring. Exhaustive means every family of
   up to two parents (19,901 per node) by local solves around the same solution, for a random sample
   of the nodes. Accuracies of both are those of the sampled nodes; times are processor time per
   node.
2. The set-ups of the paper's table (5 nodes): how often the screened and the exhaustive search
   choose the same graph.
3. Local solves in two threads beside independent loops in two threads, in the same run.
4. How near screening, which is matrix products, comes to plain products of matrices (--peak).

    python benchmarks/screening.py -o benchmarks/results
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from common import (
    Row,
    best_of,
    gain_of_independent_loops,
    option_parser,
    peak_gigabytes,
    show_and_write,
    write_table,
)

import asterism as am
from asterism.learning.search import screened
from asterism.learning.search import task as search_module
from asterism.learning.search.found import FamilyTable
from asterism.learning.search.screened import local_scores
from asterism.learning.search.task import SearchRun
from asterism.learning.tasks import Silent
from asterism.model.names import random_parents
from asterism.timeline.evidence import FloatArray, IntArray

#: trajectories and candidates; the last line also gives the cost of local solves
PLAN = ["20:10", "20:25", "40:10", "80:10"]
TABLE_ROWS = [
    (k_max, n_trajectories, sigma)
    for k_max in (1, 2)
    for n_trajectories, sigma in ((5, 0.2), (10, 0.2), (20, 0.2), (10, 0.6), (10, 1.0))
]


def observed(
    n_nodes: int, k_max: int, n_trajectories: int, sigma: float, duration: float, seed: int
) -> tuple[am.Network, am.Observations, am.Gaussian]:
    """Glauber spins on a random graph, ten noisy measurements per trajectory."""
    network = am.glauber(random_parents(n_nodes, 1, k_max, seed=seed), a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), sigma)
    paths = am.simulate(network, n_trajectories, duration=duration, seed=seed)
    return network, am.observe(paths, noise, n_observations=10, seed=seed + 1000), noise


def learn_and_keep(learner: am.StructureLearner, seen: am.Observations) -> SearchRun:
    """Fit, and return what the search worked with."""
    kept: list[SearchRun] = []
    original = search_module._run

    def remember(search: SearchRun) -> SearchRun:
        kept.append(original(search))
        return kept[-1]

    search_module._run = remember
    try:
        learner.fit(seen)
    finally:
        search_module._run = original
    return kept[0]


def edge_probabilities(search: SearchRun, tables: dict[int, FamilyTable]) -> dict[Any, float]:
    """P(parent → child) of the children that have a table."""
    found: dict[Any, float] = {}
    for child, table in tables.items():
        weights = np.exp(table.scores - table.scores.max())
        weights /= weights.sum()
        for parent in range(len(search.nodes)):
            if parent != child:
                has = (table.parents == parent).any(axis=1)
                found[search.nodes[parent], search.nodes[child]] = float(weights[has].sum())
    return found


def accuracy(network: am.Network, probability: dict[Any, float]) -> tuple[float, float]:
    """AUROC and average precision over the pairs that were scored."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    true = [parent in network.parents[child] for parent, child in probability]
    scores = list(probability.values())
    return float(roc_auc_score(true, scores)), float(average_precision_score(true, scores))


def against_all_families(
    n_nodes: int, n_sampled: int, n_trajectories: int, n_candidates: int
) -> dict[str, Any]:
    """Part 1, for one number of trajectories and of candidates."""
    network, seen, noise = observed(n_nodes, 2, n_trajectories, 0.2, 10.0, seed=0)
    learner = am.StructureLearner(
        noise,
        max_parents=2,
        n_jobs=2,
        search=am.Search("screened", candidates=n_candidates),
        method="star",
    )
    begin = time.process_time()
    search = learn_and_keep(learner, seen)
    screened_seconds = (time.process_time() - begin) / n_nodes

    sample = np.random.default_rng(0).choice(n_nodes, n_sampled, replace=False)
    families = {int(c): search.prior.families(int(c)) for c in sorted(sample)}
    begin = time.process_time()
    scores = _score_all(search, families)
    all_seconds = (time.process_time() - begin) / n_sampled
    everything = {
        c: FamilyTable(rows, scores[c] + search.prior.log_prior(c, rows))
        for c, rows in families.items()
    }
    found = accuracy(network, edge_probabilities(search, {c: search.tables[c] for c in everything}))
    exhaustive = accuracy(network, edge_probabilities(search, everything))
    same = [
        search.tables[c].best(search.nodes) == everything[c].best(search.nodes) for c in everything
    ]
    return {
        "nodes": n_nodes,
        "trajectories": n_trajectories,
        "candidates": n_candidates,
        "sampled_nodes": n_sampled,
        "true_edges": sum(len(network.parents[search.nodes[c]]) for c in everything),
        "families": sum(len(rows) for rows in families.values()),
        "auroc_screened": found[0],
        "auroc_all": exhaustive[0],
        "auroc_lost": exhaustive[0] - found[0],
        "aupr_screened": found[1],
        "aupr_all": exhaustive[1],
        "same_best_family": float(np.mean(same)),
        "seconds_screened": screened_seconds,
        "seconds_all": all_seconds,
        "share_of_time": screened_seconds / all_seconds,
        "settled": search.settled,
    }


def _score_all(search: SearchRun, families: dict[int, IntArray]) -> dict[int, FloatArray]:
    """Local scores of these families, half of the nodes in each of two threads."""
    alone = replace(search, progress=Silent(), settings=replace(search.settings, n_jobs=1))
    children = list(families)

    def score(some: list[int]) -> dict[int, FloatArray]:
        own = {c: families[c] for c in some}
        return local_scores(alone, search.solution, own, "all families")

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(score, (children[::2], children[1::2]))
    return {**first, **second}


def cost_of_local_solves(of_all: dict[str, Any]) -> list[Row]:
    """What one local solve costs, from the last comparison."""
    per_family = of_all["seconds_all"] * of_all["sampled_nodes"] / of_all["families"]
    return [
        ("trajectories", of_all["trajectories"], ""),
        ("milliseconds per local solve on one thread", 1e3 * per_family, ""),
        ("hours per million families on one thread", 1e6 * per_family / 3600.0, ""),
        ("gigabytes while scoring", peak_gigabytes(), ""),
    ]


def same_graphs(n_seeds: int) -> list[Row]:
    """Part 2."""
    same = []
    for k_max, n_trajectories, sigma in TABLE_ROWS:
        for seed in range(n_seeds):
            _, seen, noise = observed(5, k_max, n_trajectories, sigma, 5.0, seed)
            chosen = [
                set(
                    am.StructureLearner(
                        noise, prior=am.GammaPrior(5, 10), search=search, method="star"
                    )
                    .fit(seen)
                    .graph_.edges
                )
                for search in ("exhaustive", "screened")
            ]
            same.append(chosen[0] == chosen[1])
    return [
        ("data sets of the paper's table (all ten rows)", len(same), ""),
        ("share with the same graph by both searches", float(np.mean(same)), "at least 0.95"),
    ]


def two_workers() -> list[Row]:
    """Part 3."""
    _, seen, noise = observed(40, 2, 40, 0.2, 10.0, seed=2)
    search = learn_and_keep(
        am.StructureLearner(noise, max_parents=2, search="screened", method="star"), seen
    )
    search = replace(search, progress=Silent())
    families = {c: table.parents[:40] for c, table in search.tables.items()}

    def local_stage(n_jobs: int) -> None:
        alone = replace(search, settings=replace(search.settings, n_jobs=n_jobs))
        local_scores(alone, search.solution, families, "timing")

    ideal = gain_of_independent_loops(np.random.default_rng(0).normal(size=16_000_000), 10)
    ours = best_of(lambda: local_stage(1), 3) / best_of(lambda: local_stage(2), 3)
    return [
        ("speed-up of local solves by two threads", ours, ""),
        ("the same of independent loops", ideal, ""),
        ("share of it", ours / ideal, "at least 0.8"),
    ]


def share_of_peak(n_nodes: int = 1000, n_trajectories: int = 20, repeats: int = 3) -> list[Row]:
    """Part 4: products per second while all pairs are screened, beside plain matrix products."""
    network = am.glauber(f"tree:{n_nodes}", a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.2)
    paths = am.simulate(network, n_trajectories, duration=10.0, seed=1)
    seen = am.observe(paths, noise, n_observations=10, seed=2)
    kept: list[tuple[SearchRun, Any]] = []

    class _Enough(Exception):
        pass

    def remember(search: SearchRun, solution: Any) -> dict[int, IntArray]:
        kept.append((replace(search, progress=Silent()), solution))
        raise _Enough

    original = screened.screen
    screened.screen = remember
    try:
        am.StructureLearner(noise, max_parents=1, search="screened", n_jobs=1, method="star").fit(
            seen
        )
    except _Enough:
        pass
    finally:
        screened.screen = original
    search, solution = kept[0]
    original(search, solution)  # compiles
    seconds = best_of(lambda: original(search, solution), repeats, time.process_time)
    n_steps = int(search.scorer.base.grid.step_start[-1])
    # of two states one needs no product: the states of a parent exclude each other
    operations = 2.0 * (4.0 * n_nodes) * n_nodes * n_steps
    a, b = np.ones((256, n_steps)), np.ones((4096, n_steps))
    plain = 2.0 * a.shape[0] * b.shape[0] * n_steps
    plain /= best_of(lambda: a @ b.T, repeats, time.process_time)
    return [
        (f"screening {n_nodes} nodes on {n_steps} steps, seconds", seconds, ""),
        ("screening, 1e9 operations per second", operations / seconds / 1e9, ""),
        ("plain matrix products, 1e9 operations per second", plain / 1e9, ""),
        ("screening, share of plain matrix products", operations / seconds / plain, ""),
    ]


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--peak", type=int, help="only part 4, with so many nodes")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--sampled", type=int, default=20)
    parser.add_argument(
        "--plan", nargs="+", default=PLAN, help="trajectories:candidates, as often as wanted"
    )
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.peak:
        show_and_write(share_of_peak(options.peak), options.output / "screening_peak.csv")
        return
    rows = two_workers()
    rows += same_graphs(options.seeds)
    compared: list[dict[str, Any]] = []
    for entry in options.plan:
        amounts = [int(part) for part in entry.split(":")]
        compared.append(against_all_families(options.nodes, options.sampled, *amounts))
        print(compared[-1], flush=True)
        write_table(compared, options.output / "screening_random.csv", digits=6)
    rows += cost_of_local_solves(compared[-1])
    show_and_write(rows, options.output / "screening.csv")


if __name__ == "__main__":
    main()
