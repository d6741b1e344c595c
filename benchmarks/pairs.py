"""Are edge probabilities true in networks of 20 to 100 nodes? Log loss over all pairs, and more.

Random networks: up to three parents per node, two states, rates log-uniform from .1 to 5 for every
configuration, 20 noisy measurements at random times within 10 units of time, 10 to 40 trajectories.
The learner is the default one. Per network: log loss of all ordered pairs beside that of the base
rate (which knows how many edges there are), pairs of probability zero and how many of them are true
edges, and how many false edges of at least one half are reversals of true ones. Over all networks
of a size: the expected calibration error of ten bins, among pairs of at least .05, beside what it
would be on average if all probabilities were true (edges drawn from them).

Seeds below 1,000 are for choices; from 1,000 on for figures (the default).

With ``--tree`` the networks are binary trees of spins (a = 2, b = 1), 80 trajectories of 10 noisy
points, σ = .6.

Written after every network: ``pairs.csv`` (networks), ``pairs_summary.csv`` (sizes) and
``pairs_bins.csv`` (bins of probability), or files with the name given by ``--name``.

    python benchmarks/pairs.py [--nodes 20 40 80 100] [--networks 10] [--first 1000] [--jobs N]
    python benchmarks/pairs.py --name pairs_star --method star --nodes 40 200
    python benchmarks/pairs.py --name pairs_large --method sample --minutes 10 --nodes 200 1000
"""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, peak_gigabytes

import asterism as am

STATES = ("off", "on")
#: of the bins of probability
LIMITS = (0.0, 0.05, *(b / 10 for b in range(1, 11)))


def random_rates(n_nodes: int, rng: np.random.Generator) -> am.Network:
    """A network of the kind described above."""
    names = [f"N{i}" for i in range(n_nodes)]
    parents, rates = {}, {}
    for child in names:
        others = [name for name in names if name != child]
        parents[child] = [str(p) for p in rng.choice(others, rng.integers(0, 4), replace=False)]
        low, high = np.log([0.1, 5.0])
        speed = np.exp(rng.uniform(low, high, size=(*(2,) * len(parents[child]), 2)))
        rates[child] = np.zeros((*speed.shape, 2))
        rates[child][..., 0, 1], rates[child][..., 1, 0] = speed[..., 0], speed[..., 1]
    return am.Network(parents, rates, dict.fromkeys(names, STATES))


def tree_of_spins(n_nodes: int) -> am.Network:
    """Every node follows the one above it."""
    names = [f"N{i}" for i in range(n_nodes)]
    above = {n: [names[(i - 1) // 2]] if i else [] for i, n in enumerate(names)}
    return am.glauber(above, a=2.0, b=1.0)


def one_network(
    n_nodes: int, seed: int, tree: bool, **settings: Any
) -> tuple[dict[str, Any], Any, Any]:
    """Figures of one network; probabilities and truth of all its pairs."""
    rng = np.random.default_rng([32, n_nodes, seed])
    if tree:
        network, n_trajectories, noise, n_points = tree_of_spins(n_nodes), 80, 0.6, 10
        means = (-1.0, 1.0)
    else:
        network, means, n_points = random_rates(n_nodes, rng), (0.0, 1.0), 20
        n_trajectories, noise = int(rng.integers(10, 41)), float(rng.uniform(0.15, 0.45))
    paths = am.simulate(network, n_trajectories, duration=10.0, seed=seed)
    obs = am.observe(paths, am.Gaussian(means, noise), n_observations=n_points, seed=seed + 1)
    begin, clock = time.process_time(), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        emission = am.Gaussian(levels=2, learn=True)
        learner = am.StructureLearner(emission, random_state=seed, **settings)
        learner.fit(obs)
    table = learner.edge_probabilities_
    names = list(network.nodes)
    pairs = [(p, c) for p in names for c in names if p != c]
    own = ~np.eye(len(names), dtype=bool)
    probability = table.loc[names, names].to_numpy()[own]
    is_edge = np.array([p in network.parents[c] for p, c in pairs])
    shown = {c: set(learner.network_.parents[c]) for c in names}
    claimed = [pair for pair, q, e in zip(pairs, probability, is_edge) if q >= 0.5 and not e]
    reversed_ = sum(c in network.parents[p] for p, c in claimed)
    row = {
        "kind": "tree of spins" if tree else "random",
        "nodes": n_nodes,
        "seed": seed,
        "trajectories": n_trajectories,
        "noise": noise,
        "method": learner.method_,
        "sweeps": learner.n_sweeps_,
        "converged": learner.converged_,
        "largest_error": float(learner.edges_["error"].replace(np.inf, np.nan).max()),
        "log_loss": log_loss(probability, is_edge),
        "base_rate": log_loss(np.full(len(is_edge), is_edge.mean()), is_edge),
        "zeros": int((probability == 0.0).sum()),
        "true_zeros": int(is_edge[probability == 0.0].sum()),
        "claimed": int((probability >= 0.5).sum()),
        "false": len(claimed),
        "reversals": reversed_,
        "parents_right": float(np.mean([shown[c] == set(network.parents[c]) for c in names])),
        "settled": settled(learner),
        "gigabytes": peak_gigabytes(),
        "seconds": time.monotonic() - clock,
        "processor_seconds": time.process_time() - begin,
        "stop_reason": learner.stop_reason_,
    }
    return row, probability, is_edge


def settled(learner: Any) -> float:
    """Share of the unsure edges with R̂ ≤ 1.05, where graphs were drawn."""
    if learner.method_ != "sample":
        return np.nan
    table = learner.diagnostics_
    return float((table.loc[table.probability.between(0.02, 0.98), "r_hat"] <= 1.05).mean())


def log_loss(probability: Any, is_edge: Any) -> float:
    """Mean of −ln of the probability of what is true; probabilities are kept from 0 and 1."""
    kept = np.clip(probability, 1e-6, 1.0 - 1e-6)
    return float(-np.mean(np.log(np.where(is_edge, kept, 1.0 - kept))))


def calibration_error(probability: Any, is_edge: Any) -> float:
    """Expected calibration error of ten bins, among pairs of at least .05."""
    bins = in_bins(probability, is_edge)[1:]
    return float(sum(abs(b["expected"] - b["edges"]) for b in bins)) / max(
        1, sum(b["pairs"] for b in bins)
    )


def error_by_chance(probability: Any, n_draws: int = 200) -> float:
    """Mean calibration error of edges that are drawn from these probabilities."""
    likely = probability[probability >= 0.05]
    rng = np.random.default_rng(0)
    drawn = rng.random((n_draws, len(likely))) < likely
    return float(np.mean([calibration_error(likely, edges) for edges in drawn]))


def in_bins(probability: Any, is_edge: Any) -> list[dict[str, Any]]:
    """Pairs, expected and true edges by probability: below .05, up to .1, .2 and so on."""
    number = np.searchsorted(LIMITS[1:-1], probability, side="right")
    return [
        {
            "from": low,
            "to": high,
            "pairs": int((number == b).sum()),
            "expected": float(probability[number == b].sum()),
            "edges": int(is_edge[number == b].sum()),
        }
        for b, (low, high) in enumerate(itertools.pairwise(LIMITS))
    ]


def main() -> None:
    """Measure and write."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--nodes", type=int, nargs="+", default=[20, 40, 80, 100])
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--jobs", type=int, default=-1, help="threads; results do not depend on it")
    parser.add_argument("--method", default="auto", help="as of StructureLearner")
    parser.add_argument("--minutes", type=float, help="upper bound on the time of one network")
    parser.add_argument("--tree", action="store_true", help="trees of spins, not random networks")
    parser.add_argument("--name", default="pairs", help="name of the files")
    options = parser.parse_args()
    settings = {"method": options.method, "minutes": options.minutes, "n_jobs": options.jobs}
    rows, sizes, bins = [], {}, {}
    for n_nodes in options.nodes:
        found = []
        for seed in range(options.first, options.first + options.networks):
            found.append(one_network(n_nodes, seed, options.tree, **settings))
            rows.append(found[-1][0])
            print({k: v for k, v in rows[-1].items() if k != "stop_reason"}, flush=True)
            pd.DataFrame(rows).to_csv(options.output / f"{options.name}.csv", index=False)
            sizes[n_nodes] = summary(found)
            overall = options.output / f"{options.name}_summary.csv"
            pd.DataFrame(sizes.values()).to_csv(overall, index=False)
            every = [np.concatenate([f[i] for f in found]) for i in (1, 2)]
            bins[n_nodes] = [{"nodes": n_nodes, **b} for b in in_bins(*every)]
            together = pd.DataFrame([b for own in bins.values() for b in own]).round(3)
            together.to_csv(options.output / f"{options.name}_bins.csv", index=False)
        print(sizes[n_nodes], flush=True)


def summary(found: list[tuple[dict[str, Any], Any, Any]]) -> dict[str, Any]:
    """Figures of all networks of one size."""
    probability, is_edge = (np.concatenate([f[i] for f in found]) for i in (1, 2))
    own = pd.DataFrame([f[0] for f in found])
    averaged = ["nodes", "log_loss", "base_rate", "parents_right", "settled", "gigabytes"]
    means = own[[*averaged, "seconds", "processor_seconds"]].mean()
    sums = own[["zeros", "true_zeros", "claimed", "false", "reversals", "converged"]].sum()
    return {
        "nodes": int(means.pop("nodes")),
        "first": int(own["seed"].min()),
        "networks": len(own),
        "gain": means["base_rate"] - means["log_loss"],
        "calibration_error": calibration_error(probability, is_edge),
        "calibration_error_by_chance": error_by_chance(probability),
        **means,
        **sums.astype(int),
    }


if __name__ == "__main__":
    main()
