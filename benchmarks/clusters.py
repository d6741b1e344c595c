"""Clusters beside star and mean field: errors against exact inference, and what a sweep costs.

Spins on a tree and a ring of 8 (a = 8, T = 1, ends seen without noise), random networks of 5 to 8
nodes (rates 0.25 to 4, 1 or 2 parents, 5 trajectories of 10 values with σ = 0.5), and trees with
feedback of 250 nodes and more. Part "sizes": networks of three states with larger clusters. Writes
clusters_spins.csv, clusters_random_networks.csv with its summary clusters_random.csv,
clusters_sizes.csv, clusters_cost.csv, clusters_large.csv:
python benchmarks/clusters.py -o benchmarks/results [--parts spins random] [--seeds 100 101]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, peak_gigabytes, write_table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.spin_cases import RING, TREE, alternating_to_aligned

import asterism as am
from asterism.engine.rules.clusters import solve as by_clusters
from asterism.engine.rules.star import solve as by_star
from asterism.exact.exact_posterior import solve as exactly
from asterism.inference.posterior import Posterior
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence

METHODS = ("clusters", "star", "mean_field")
COUPLINGS = (0.2, 0.4, 0.6, 0.8)


def solved(network: am.Network, evidence: Evidence, method: str, tolerance: float) -> Posterior:
    if method == "clusters":
        return by_clusters(network, evidence, tolerance=tolerance)
    return by_star(network, evidence, method=method, tolerance=tolerance)


def errors(found: Posterior, expected: Posterior, times: Any) -> dict[str, float]:
    """Of evidence, marginals and transitions."""
    evidence = found.log_evidence_by_trajectory - expected.log_evidence_by_trajectory
    moved = total = 0.0
    for node in expected.network.nodes:
        exact = expected.statistics.transitions[node]
        moved += float(np.abs(found.statistics.transitions[node] - exact).sum())
        total += float(exact.sum())
    difference = np.abs(found.marginals(times) - expected.marginals(times))
    return {
        "evidence": float(evidence.abs().mean()),
        "worst_evidence": float(evidence.abs().max()),
        "marginals": float(difference.max()),
        "transitions": moved / total,
        "converged": bool(found.converged),
        "sweeps": found.n_sweeps,
    }


def spins() -> list[dict[str, Any]]:
    rows = []
    for name, graph in (("tree", TREE), ("ring", RING)):
        for b in COUPLINGS:
            network, evidence = alternating_to_aligned(graph, b)
            expected = exactly(network, evidence)
            for method in METHODS:
                found = solved(network, evidence, method, 1e-4)
                row = {"graph": name, "b": b, "method": method}
                rows.append({**row, **errors(found, expected, np.linspace(0.0, 1.0, 41))})
                print(rows[-1], flush=True)
    return rows


def random_case(
    seed: int, n_states: int, most_parents: int, slowest: float, fastest: float
) -> tuple[am.Network, Evidence]:
    """A network with log-uniform rates, and noisy values of all its nodes."""
    rng = np.random.default_rng(1000 * n_states + seed)
    n_nodes = int(rng.integers(5, 9 if n_states == 2 else 7))
    names = [f"n{i}" for i in range(n_nodes)]
    parents, rates = {}, {}
    for i, name in enumerate(names):
        count = int(rng.integers(1, most_parents + 1))
        others = [j for j in range(n_nodes) if j != i]
        chosen = sorted(rng.choice(others, size=count, replace=False))
        parents[name] = [names[j] for j in chosen]
        shape = (n_states,) * (count + 2)
        table = np.exp(rng.uniform(np.log(slowest), np.log(fastest), size=shape))
        table[..., np.arange(n_states), np.arange(n_states)] = 0.0
        rates[name] = table
    network = am.Network(parents, rates, {n: list(range(n_states)) for n in names})
    emission = am.Gaussian(tuple(float(x) for x in range(n_states)), 0.5)
    if n_states == 2:
        emission = am.Gaussian((-1.0, 1.0), 0.5)
    paths = am.simulate(network, 5, duration=5.0, seed=seed)
    obs = am.observe(paths, emission, n_observations=10, seed=seed + 1)
    return network, build_evidence(network, obs, emission)


#: networks with lower seeds were looked at when the rule that merges clusters was chosen
FRESH = 100
#: name: states, most parents, slowest and fastest rate
KINDS = {
    "two states": (2, 2, 0.25, 4.0),
    "three states": (3, 2, 0.25, 4.0),
    "three parents": (2, 3, 0.25, 4.0),
    "rates 0.05 to 20": (2, 2, 0.05, 20.0),
}


def random_networks(kinds: list[str], seeds: list[int], path: Path) -> pd.DataFrame:
    """One row per network and method, written as soon as known, beside those of other seeds."""
    table = pd.read_csv(path) if path.exists() else pd.DataFrame()
    for kind in kinds:
        n_states, most_parents, slowest, fastest = KINDS[kind]
        for seed in seeds:
            network, evidence = random_case(seed, n_states, most_parents, slowest, fastest)
            expected = exactly(network, evidence)
            rows = []
            for method in METHODS:
                posterior = solved(network, evidence, method, 1e-3)
                found = errors(posterior, expected, np.linspace(0.0, 5.0, 21))
                row = {"kind": kind, "seed": seed, "nodes": len(network.nodes), "method": method}
                rows.append({**row, **found})
                print(rows[-1], flush=True)
            if len(table):
                table = table[(table.kind != kind) | (table.seed != seed)]
            table = write_table(pd.concat([table, pd.DataFrame(rows)]), path, digits=6)
    return table


def sizes(seeds: list[int]) -> list[dict[str, Any]]:
    """Networks of three states: what larger clusters gain, and what they cost."""
    rows = []
    for seed in seeds:
        network, evidence = random_case(seed, *KINDS["three states"])
        expected = exactly(network, evidence)
        for size in (None, 4, 5):
            begin = time.process_time()
            posterior = by_clusters(network, evidence, tolerance=1e-3, cluster_size=size)
            seconds = time.process_time() - begin
            found = errors(posterior, expected, np.linspace(0.0, 5.0, 21))
            row = {"seed": seed, "nodes": len(network.nodes), "cluster_size": size or "default"}
            kept = {k: found[k] for k in ("evidence", "transitions", "sweeps")}
            rows.append({**row, **kept, "processor_seconds": seconds})
            print(rows[-1], flush=True)
    return rows


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Means and worst cases of the networks of one kind, those behind the merging rule apart."""
    rows = []
    table = table.assign(networks_are=np.where(table.seed < FRESH, "first", "fresh"))
    for (kind, drawn, method), own in table.groupby(["kind", "networks_are", "method"], sort=False):
        rows.append(
            {
                "kind": kind,
                "drawn": drawn,
                "networks": len(own),
                "method": method,
                **{f"mean_{k}": own[k].mean() for k in ("evidence", "marginals", "transitions")},
                "worst_evidence": own.worst_evidence.max(),
                "worst_transitions": own.transitions.max(),
                "converged": int(own.converged.sum()),
                "most_sweeps": int(own.sweeps.max()),
            }
        )
    found = pd.DataFrame(rows)
    order = {name: i for i, name in enumerate(KINDS)} | {"first": 0, "fresh": 1}
    return found.sort_values(["kind", "drawn"], key=lambda c: c.map(order), kind="stable")


def large_tree(n_nodes: int, n_trajectories: int) -> tuple[am.Network, Evidence]:
    """A tree whose last leaf leads the root, ten noisy values of every node and trajectory."""
    emission = am.Gaussian((-1.0, 1.0), 0.2)
    network = am.glauber(f"tree:{n_nodes}", a=1.0, b=0.6)
    paths = am.simulate(network, n_trajectories, duration=10.0, seed=1)
    obs = am.observe(paths, emission, n_observations=10, seed=2)
    return network, build_evidence(network, obs, emission)


def cost(sizes: list[int], numbers: list[int]) -> list[dict[str, Any]]:
    """Processor time per node, step and sweep on a tree with feedback, both methods in turn.

    Slopes compare with the first row: ln(seconds per sweep) over ln(nodes times trajectories).
    """
    rows: list[dict[str, Any]] = []
    by_clusters(*large_tree(20, 1), time_step=0.25)  # compiles
    by_star(*large_tree(20, 1), time_step=0.25)
    plan = [(sizes[0], n) for n in numbers] + [(size, numbers[0]) for size in sizes[1:]]
    for n_nodes, n_trajectories in plan:
        network, evidence = large_tree(n_nodes, n_trajectories)
        best: dict[str, float] = {}
        sweeps: dict[str, int] = {}
        for _ in range(2):
            for method in ("star", "clusters"):
                begin = time.process_time()
                if method == "star":
                    found = by_star(network, evidence, time_step=0.25)
                else:
                    found = by_clusters(network, evidence, time_step=0.25)
                seconds = time.process_time() - begin
                best[method] = min(best.get(method, np.inf), seconds)
                sweeps[method] = found.n_sweeps
        n_steps = 40 * n_trajectories + 10 * n_trajectories
        ns = {m: 1e9 * best[m] / (n_nodes * n_steps * sweeps[m]) for m in best}
        slope = np.nan
        if rows:
            first = rows[0]
            work = np.log(n_nodes * n_trajectories / (first["nodes"] * first["trajectories"]))
            before = first["seconds_clusters"] / first["sweeps_clusters"]
            slope = float(np.log(best["clusters"] / sweeps["clusters"] / before) / work)
        rows.append(
            {
                "nodes": n_nodes,
                "trajectories": n_trajectories,
                **{f"seconds_{m}": best[m] for m in best},
                **{f"sweeps_{m}": sweeps[m] for m in best},
                **{f"ns_per_node_step_sweep_{m}": ns[m] for m in best},
                "ratio": ns["clusters"] / ns["star"],
                "slope_clusters": slope,
                "converged": found.converged,
                "peak_memory_gb": peak_gigabytes(),
            }
        )
        print(rows[-1], flush=True)
    return rows


def large(n_nodes: int, n_trajectories: int) -> list[dict[str, Any]]:
    """One run of very many nodes: does it settle, how long does it take, how much memory."""
    network, evidence = large_tree(n_nodes, n_trajectories)
    begin = time.process_time()
    found = by_clusters(network, evidence, time_step=1.0, tolerance=1e-2, n_jobs=2)
    row = {
        "nodes": n_nodes,
        "trajectories": n_trajectories,
        "time_step": 1.0,
        "processor_seconds": time.process_time() - begin,
        "sweeps": found.n_sweeps,
        "converged": bool(found.converged),
        "peak_memory_gb": peak_gigabytes(),
    }
    print(row, flush=True)
    return [row]


def main() -> None:
    parser = option_parser(__doc__, "benchmark-clusters")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(FRESH, FRESH + 20)))
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 1000])
    parser.add_argument("--trajectories", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--parts", nargs="+", default=["spins", "random", "cost", "large"])
    options = parser.parse_args()
    if "spins" in options.parts:
        write_table(spins(), options.output / "clusters_spins.csv", digits=4)
    if "random" in options.parts:
        path = options.output / "clusters_random_networks.csv"
        each = random_networks(options.kinds, options.seeds, path)
        write_table(summary(each), options.output / "clusters_random.csv", digits=4)
    if "sizes" in options.parts:
        write_table(sizes(options.seeds), options.output / "clusters_sizes.csv", digits=3)
    if "cost" in options.parts:
        rows = cost(options.sizes, options.trajectories)
        write_table(rows, options.output / "clusters_cost.csv", digits=4)
    if "large" in options.parts:
        write_table(large(10_000, 20), options.output / "clusters_large.csv", digits=4)


if __name__ == "__main__":
    main()
