"""Learning by clusters: where exact fits stop paying, how often intervals cover, which edges.

Part "limit": rings of binary nodes, each of which follows the one before (16 to 512 joint states),
10 trajectories of 15 noisy values, rates 0.25 to 4. Processor seconds per E-step of a fit, exactly
and by clusters: both need about as many, also for intervals. For the smaller ones fits with
intervals, and how far estimates and standard errors are apart. Part "coverage": a tree of 20 nodes,
100 trajectories of 15 noisy values: how often the 95 % intervals hold the true rates. Part "tree":
the tree of 14 nodes of tree_recovery.py (σ = 0.6, 40 trajectories), learned with the star and with
clusters settling close calls. Rows are written when they are known, and added to those of other
seeds: python benchmarks/cluster_fits.py [--parts limit coverage tree] [--seeds 0 1]
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, write_table
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.paper_settings import paper_learner
from tests.reference.recovery_graphs import families_right, tree

import asterism as am

NOISE = am.Gaussian((-1.0, 1.0), 0.5)


def drawn_network(parents: dict[str, list[str]], seed: int) -> am.Network:
    """Binary nodes, rates log-uniform between 0.25 and 4."""
    rng = np.random.default_rng(seed)
    rates = {}
    for node, above in parents.items():
        table = np.exp(rng.uniform(np.log(0.25), np.log(4.0), size=(2,) * (len(above) + 2)))
        rates[node] = table * (1.0 - np.eye(2))
    return am.Network(parents, rates, {n: [-1, 1] for n in parents})


def ring(n_nodes: int) -> dict[str, list[str]]:
    """Every node follows the one before; the first follows the last."""
    names = [f"n{i}" for i in range(n_nodes)]
    return {name: [names[i - 1]] for i, name in enumerate(names)}


def binary_tree(n_nodes: int) -> dict[str, list[str]]:
    return {f"n{i}": [f"n{(i - 1) // 2}"] if i else [] for i in range(n_nodes)}


def fitted(
    network: am.Network, obs: am.Observations, method: str, **options: Any
) -> tuple[am.ParameterLearner, float]:
    """The fit, and its processor seconds."""
    learner = am.ParameterLearner(network, NOISE, method=method, n_jobs=1, **options)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(obs)
    return learner, time.process_time() - begin


#: columns of the fits with intervals, in a file of their own
COMPARED = (
    *("rates", "largest_gap_in_se"),
    *("median_se_ratio", "lowest_se_ratio", "highest_se_ratio"),
)


def limit(n_nodes: int, is_compared: bool) -> dict[str, Any]:
    """One ring; the first of two short fits compiles."""
    network = drawn_network(ring(n_nodes), n_nodes)
    paths = am.simulate(network, 10, duration=8.0, seed=n_nodes)
    obs = am.observe(paths, NOISE, n_observations=15, seed=n_nodes + 1)
    row: dict[str, Any] = {"nodes": n_nodes, "joint_states": 2**n_nodes, "trajectories": 10}
    for method in ("clusters", "exact"):
        fitted(network, obs, method, max_iterations=1)
        learner, seconds = fitted(network, obs, method, max_iterations=4)
        row[f"seconds_per_e_step_{method}"] = seconds / learner.n_iter_
    row["exact_over_clusters"] = (
        row["seconds_per_e_step_exact"] / row["seconds_per_e_step_clusters"]
    )
    if is_compared:
        tables = {m: fitted(network, obs, m)[0].rate_intervals_ for m in ("clusters", "exact")}
        mine, its = tables["clusters"], tables["exact"]
        inside = ~its.note.str.startswith("at zero").to_numpy() & (its.rate > 0).to_numpy()
        inside &= np.isfinite(its.se.to_numpy()) & np.isfinite(mine.se.to_numpy())
        se = (mine.se / its.se).to_numpy()[inside]
        row |= {
            "rates": int(inside.sum()),
            "largest_gap_in_se": float(((mine.rate - its.rate).abs() / its.se)[inside].max()),
            "median_se_ratio": float(np.median(se)),
            "lowest_se_ratio": float(se.min()),
            "highest_se_ratio": float(se.max()),
        }
    print(row, flush=True)
    return row


def coverage(seeds: list[int]) -> list[dict[str, Any]]:
    rows = []
    for seed in seeds:
        network = drawn_network(binary_tree(20), seed)
        paths = am.simulate(network, 100, duration=8.0, seed=100 + seed)
        obs = am.observe(paths, NOISE, n_observations=15, seed=200 + seed)
        learner, seconds = fitted(network, obs, "clusters")
        table = learner.rate_intervals_
        truth = []
        for line in table.to_dict("records"):
            above = [item.split("=")[1] for item in line["configuration"].split(", ") if item]
            where = tuple([-1, 1].index(int(a)) for a in above)
            places = [[-1, 1].index(int(line[k])) for k in ("from", "to")]
            truth.append(float(network.rates[line["node"]][(*where, *places)]))
        true = np.array(truth)
        lower, upper = table.lower.to_numpy(), table.upper.to_numpy()
        is_known = np.isfinite(lower) & np.isfinite(upper)
        covered = (lower <= true) & (true <= upper)
        rows.append(
            {
                "seed": seed,
                "rates": len(true),
                "with_interval": int(is_known.sum()),
                "covered": int(covered[is_known].sum()),
                "share": float(covered[is_known].mean()),
                "median_factor": float(np.exp(np.median(np.abs(np.log(table.rate / true))))),
                "converged": bool(learner.converged_),
                "iterations": int(learner.n_iter_),
                "seconds": seconds,
            }
        )
        print(rows[-1], flush=True)
    return rows


def recovered(seed: int) -> list[dict[str, Any]]:
    """One tree by both methods; log loss of the edges with the scores as they are, and tempered."""
    network, seen = tree(40, seed, 0.6)
    names = list(network.nodes)
    truth = np.array([[network.graph.has_edge(a, b) for b in names] for a in names])
    off = ~np.eye(len(names), dtype=bool)
    rows = []
    for method in ("star", "clusters"):
        learner = paper_learner(am.Gaussian((-1, 1), 0.6), max_parents=1, method=method, n_jobs=1)
        begin = time.process_time()
        learner.fit(seen)
        seconds = time.process_time() - begin
        loss = {}
        for tempering in (1.0, 0.44):
            chance = np.zeros(truth.shape)
            for child, own in learner.family_scores_.groupby("node"):
                weight = np.exp(tempering * (own.score - own.score.max()))
                for parents, share in zip(own.parents, weight / weight.sum()):
                    for parent in parents:
                        chance[names.index(parent), names.index(str(child))] += share
            p = np.clip(chance[off], 1e-6, 1.0 - 1e-6)
            loss[tempering] = -float(np.mean(np.log(np.where(truth[off], p, 1.0 - p))))
        rows.append(
            {
                "seed": seed,
                "method": method,
                "right": families_right(learner, network),
                "auroc": am.metrics.edge_scores(learner.edge_probabilities_, network.graph)[
                    "auroc"
                ],
                "log_loss": loss[1.0],
                "log_loss_tempered": loss[0.44],
                "converged": bool(learner.converged_),
                "seconds": seconds,
            }
        )
        print(rows[-1], flush=True)
    return rows


def add_rows(rows: list[dict[str, Any]], path: Path) -> None:
    """Write rows beside those of other seeds that the file holds."""
    table = pd.DataFrame(rows)
    if path.exists():
        old = pd.read_csv(path)
        table = pd.concat([old[~old.seed.isin(table.seed)], table])
    write_table(table.sort_values("seed", kind="stable"), path, digits=4)


def main() -> None:
    parser = option_parser(__doc__, "benchmark-cluster-fits")
    parser.add_argument("--parts", nargs="+", default=["limit", "coverage", "tree"])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(range(4, 10)))
    parser.add_argument("--compared", type=int, nargs="*", default=[5])
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    options = parser.parse_args()
    if "limit" in options.parts:
        rows: list[dict[str, Any]] = []
        for size in options.sizes:
            rows.append(limit(size, size in options.compared))
            timed = [{k: v for k, v in row.items() if k not in COMPARED} for row in rows]
            write_table(timed, options.output / "cluster_limit.csv", digits=4)
            fits = [{k: row[k] for k in ("nodes", *COMPARED)} for row in rows if "rates" in row]
            write_table(fits, options.output / "cluster_standard_errors.csv", digits=4)
    for seed in options.seeds:
        if "coverage" in options.parts:
            add_rows(coverage([seed]), options.output / "cluster_coverage.csv")
        if "tree" in options.parts:
            add_rows(recovered(seed), options.output / "cluster_tree.csv")


if __name__ == "__main__":
    main()
