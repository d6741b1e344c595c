"""Made-up runs for the tests of files, figures and report page."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from asterism.model.network import Network
from asterism.results import courses
from asterism.results.run import RATE_COLUMNS, Run

GENES = ["SWI5", "CBF1", "GAL4", "GAL80", "ASH1", "MCM1", "FKH2", "CLN3"]
TRUE_PARENTS = {
    "SWI5": ["GAL4"],
    "CBF1": ["SWI5", "ASH1"],
    "GAL4": ["CBF1"],
    "GAL80": ["SWI5"],
    "ASH1": ["SWI5"],
    "MCM1": ["CLN3"],
    "FKH2": ["MCM1", "CLN3"],
    "CLN3": [],
}


def example_network(
    parents: dict[str, list[str]], seed: int = 0, states: tuple[Any, ...] = ("off", "on")
) -> Network:
    """Every parent pushes its child up or down, at random."""
    rng = np.random.default_rng(seed)
    n_states = len(states)
    rates = {}
    for node, above in parents.items():
        push = rng.choice([-1.2, 1.2], size=len(above))
        table = np.zeros((n_states,) * (len(above) + 2))
        for u in product(range(n_states), repeat=len(above)):
            drive = float(np.sum(push * (np.array(u) - (n_states - 1) / 2))) if above else 0.0
            for x, y in product(range(n_states), repeat=2):
                if abs(x - y) == 1:
                    table[(*u, x, y)] = 0.8 * np.exp((y - x) * drive * 0.5)
        rates[node] = table
    return Network(parents, rates, {node: list(states) for node in parents})


def example_run(
    parents: dict[str, list[str]] | None = None,
    *,
    seed: int = 0,
    n_trajectories: int = 4,
    n_times: int = 60,
    states: tuple[Any, ...] = ("off", "on"),
    labels: bool = False,
    truth: bool = True,
    n_weak: int | None = None,
) -> Run:
    """A run whose numbers look like those of a real one."""
    parents = TRUE_PARENTS if parents is None else parents
    rng = np.random.default_rng(seed)
    network = example_network(parents, seed, states)
    nodes = list(network.nodes)
    return Run(
        network=network,
        edges=_edges(network, rng, n_weak),
        families=pd.DataFrame(
            [(n, tuple(p), -100.0 + i, 0.9) for i, (n, p) in enumerate(parents.items())],
            columns=["node", "parents", "score", "probability"],
        ),
        **_data(nodes, rng, n_trajectories, n_times, states, labels),
        run={
            "settings": {"max_parents": 2, "method": "star", "emission": "Gaussian", "n_init": 1},
            "seed": 0,
            "data_hash": "sha256:9f2d1c",
            "converged": True,
            "stop_reason": "The graph did not change in a full sweep over the nodes.",
        },
        history=pd.DataFrame(
            {
                "sweep": np.arange(1, 9),
                "score": -812.0 - 60 * 0.4 ** np.arange(8),
                "residual": 0.3 * 0.35 ** np.arange(8),
            }
        ),
        truth=[(p, c) for c, above in parents.items() for p in above] if truth else None,
    )


def _edges(network: Network, rng: np.random.Generator, n_weak: int | None) -> pd.DataFrame:
    rows = []
    nodes = list(network.nodes)
    inside = {(p, c) for c in nodes for p in network.parents[c]}
    for parent, child in sorted(inside):
        rows.append((parent, child, float(1 - 0.5 * rng.beta(0.6, 3)), True))
    pairs = [(p, c) for p in nodes for c in nodes if p != c and (p, c) not in inside]
    kept = range(len(pairs)) if n_weak is None else rng.choice(len(pairs), n_weak, replace=False)
    for i in kept:
        rows.append((*pairs[i], float(rng.beta(0.35, 4.0)), False))
    return pd.DataFrame(rows, columns=["parent", "child", "probability", "in_graph"])


def _data(
    nodes: list[str],
    rng: np.random.Generator,
    n_trajectories: int,
    n_times: int,
    states: tuple[Any, ...],
    labels: bool,
) -> dict[str, Any]:
    """Smooth state probabilities, and measurements that roughly follow them."""
    times, blocks, rows = [], [], []
    for t in range(n_trajectories):
        measured = np.sort(rng.uniform(0, 10 + t, 10))
        grid = np.unique(np.concatenate([measured, np.linspace(0, 10 + t, n_times)]))
        phase = rng.uniform(0, 6, (len(nodes), len(states)))
        speed = rng.uniform(0.3, 1.0, len(nodes))
        push = 3 * np.sin(speed[None, :, None] * grid[:, None, None] + phase[None])
        block = np.exp(push)
        block /= block.sum(axis=2, keepdims=True)
        times.append(grid)
        blocks.append(block)
        for n, node in enumerate(nodes):
            for when in measured:
                if rng.uniform() < 0.2:
                    continue
                weights = block[np.searchsorted(grid, when), n]
                state = int(rng.choice(len(states), p=weights))
                value = states[state] if labels else 2.0 * state - 1 + 0.4 * rng.normal()
                rows.append((t + 1, float(when), node, value))
    found = courses.StoredCourses(
        tuple(range(1, n_trajectories + 1)), tuple(nodes), tuple(times), tuple(blocks)
    )
    return {
        "posterior": courses.to_dataset(found),
        "observations": pd.DataFrame(rows, columns=["trajectory", "time", "node", "value"]),
    }


def weak_run() -> Run:
    """A run in which no edge is certain, as real data often end: effects of the likely ones."""
    run = example_run({gene: [] for gene in GENES}, truth=False)
    table, rng = run.edge_table.copy(), np.random.default_rng(4)
    table["probability"] *= 0.45 / float(table["probability"].max())
    table["prior"], likely = 0.12, np.arange(len(table)) < 25
    odds = table["probability"] / (1.0 - table["probability"])
    table["bayes_factor"] = odds / (0.12 / 0.88)
    log_fold = np.abs(rng.normal(0.8, 0.4, len(table))) * np.where(np.arange(len(table)) % 3, 1, -1)
    log_fold[0] = abs(log_fold[0])
    table["effect"] = np.where(likely, np.where(log_fold > 0, "raises", "lowers"), "")
    for name, end in (("", 0.0), ("_lower", -0.9), ("_upper", 0.9)):
        table[f"fold_change{name}"] = np.where(likely, np.exp(log_fold + end), np.nan)
    run.run["settings"]["threshold"] = 0.5
    return replace(run, edges=table)


def with_rate_intervals(run: Run, width: float = 1.5) -> Run:
    """The run with an interval of every rate, and with what a learner says of its edges."""
    rows = []
    for node in run.network.nodes:
        found = run.network.configurations(node, 1_000)
        assert found is not None
        for labels, block in found:
            pairs = zip(run.network.parents[node], labels)
            configuration = ", ".join(f"{parent}={label}" for parent, label in pairs)
            states = run.network.states[node]
            for x, y in product(range(len(states)), repeat=2):
                if x != y and block[x, y] > 0:
                    rate = float(block[x, y])
                    ends = (rate / width, rate * width)
                    rows.append((node, configuration, states[x], states[y], rate, *ends))
    edges = run.edge_table.assign(prior=0.125, bayes_factor=12.5, fold_change=2.5, error=0.01)
    return replace(run, rates=pd.DataFrame(rows, columns=RATE_COLUMNS), edges=edges)


def large_run(n_nodes: int = 500) -> Run:
    """As many nodes as a page must still open."""
    rng = np.random.default_rng(1)
    names = [f"gene{i:03d}" for i in range(n_nodes)]
    parents = {
        name: list(dict.fromkeys(rng.choice(names[max(0, i - 30) : i], 2))) if i > 1 else []
        for i, name in enumerate(names)
    }
    return example_run(parents, n_trajectories=20, n_times=40, n_weak=6_000, truth=True)


def genome_run(n_nodes: int) -> Run:
    """A tree of very many nodes, ten weak edges into each, and two short trajectories."""
    rng = np.random.default_rng(1)
    names = [f"gene{i:05d}" for i in range(n_nodes)]
    parents = {name: [names[(i - 1) // 2]] if i else [] for i, name in enumerate(names)}
    rows = [(p, c, float(1 - 0.5 * rng.beta(0.6, 3)), True) for c in names for p in parents[c]]
    for child in names:
        others = {names[i] for i in rng.choice(n_nodes, 10)} - {child, *parents[child]}
        rows += [(other, child, float(rng.beta(0.35, 4.0)), False) for other in sorted(others)]
    edges = pd.DataFrame(rows, columns=["parent", "child", "probability", "in_graph"])
    small = example_run({names[0]: [], names[1]: [names[0]]}, truth=False)
    return replace(
        small,
        network=example_network(parents),
        edges=edges,
        families=None,
        **_data(names, rng, 2, 8, ("off", "on"), False),
    )
