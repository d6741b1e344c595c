"""Simulated data sets with known edges, and rows of results that outlive an interruption.

Two families of networks. ``tuning_set`` is what defaults may be chosen on: no edges, random rates,
spins that align, three states. ``unseen_set`` is for tests only and works otherwise: genes that
speed up or slow down each other by factors, with hubs, rings, two or three levels that are climbed
step by step, speeds that differ from node to node, and missing values.

``scored`` keeps the scores of all families of a fitted learner, from which probabilities follow for
any tempering; ``Rows`` appends to a CSV file, one data set at a time, and knows what is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import asterism as am
from asterism.learning.search.found import FamilyTable

RESULTS = Path(__file__).resolve().parent / "results"
#: as many levels as the measurements show: what the command line takes for columns of numbers
COUNTED = am.Gaussian(levels="auto", learn=True)


class DataSet(NamedTuple):
    """One data set with its true network."""

    kind: str
    network: Any
    paths: Any
    observations: Any
    emission: Any
    """The true one, for learners that are told."""


def tuning_set(seed: int) -> DataSet:
    """A network of a kind that defaults may be chosen on, its paths, and noisy looks at them."""
    rng = np.random.default_rng([17, seed])
    kind = ("empty", "random", "spins", "three states")[seed % 4]
    n_states = 3 if kind == "three states" else 2
    n_nodes = int(rng.integers(4, 7 if kind == "three states" else 11))
    names = [f"N{i}" for i in range(n_nodes)]
    if kind in ("empty", "spins"):
        parents: dict[str, list[str]] = {name: [] for name in names}
        for child in parents if kind == "spins" else ():
            others = [n for n in parents if n != child]
            parents[child] = list(rng.choice(others, size=rng.integers(0, 3), replace=False))
        coupling = float(rng.uniform(0.3, 1.2))
        network = am.glauber(parents, a=float(rng.uniform(0.5, 2.0)), b=coupling)
    else:
        network = am.random_network(n_nodes, n_states, max_parents=2, seed=seed)
    paths = am.simulate(network, int(rng.integers(6, 25)), duration=8.0, seed=seed)
    means = (-1.0, 1.0) if n_states == 2 else (-1.5, 0.0, 1.5)
    emission = am.Gaussian(means=means, scale=float(rng.uniform(0.2, 0.6)))
    observations = am.observe(paths, emission, n_observations=int(rng.integers(8, 21)), seed=seed)
    return DataSet(kind, network, paths, observations, emission)


def unseen_set(seed: int, more: int = 1) -> DataSet:
    """A network of regulated genes that nothing was chosen on; ``more`` times the trajectories."""
    rng = np.random.default_rng([2026, seed])
    kind = ("hub", "sparse", "ring", "sparse, three levels")[seed % 4]
    n_nodes = int(rng.integers(5, 8 if "three" in kind else 12))
    names = [f"G{i}" for i in range(n_nodes)]
    parents = _regulators(kind, names, rng)
    n_levels = {n: 3 if "three" in kind and rng.random() < 0.6 else 2 for n in names}
    network = regulated(parents, n_levels, rng)
    paths = am.simulate(network, more * int(rng.integers(5, 21)), duration=10.0, seed=seed)
    noise = {
        n: am.Gaussian(tuple(map(float, range(n_levels[n]))), float(rng.uniform(0.1, 0.33)))
        for n in names
    }
    seen = am.observe(paths, noise, int(rng.integers(10, 31)), missing=0.1, seed=seed)
    return DataSet(kind, network, paths, seen, noise)


def _regulators(kind: str, names: list[str], rng: np.random.Generator) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {name: [] for name in names}
    for place, child in enumerate(names):
        others = [n for n in names if n != child]
        if kind == "hub":
            chosen = [names[0]] if place and rng.random() < 0.6 else []
        elif kind == "ring":
            chosen = [names[place - 1]]
        else:
            chosen = []
        if rng.random() < (0.15 if chosen else 0.5):
            free = [n for n in others if n not in chosen]
            chosen.append(str(rng.choice(free)))
        parents[child] = chosen
    return parents


def regulated(
    parents: dict[str, list[str]], n_levels: dict[str, int], rng: np.random.Generator
) -> am.Network:
    """Levels that are climbed step by step, with speeds that parents multiply by 2 to 12."""
    rates: dict[str, Any] = {}
    for node, above in parents.items():
        size = n_levels[node]
        up, down = np.exp(rng.uniform(np.log(0.2), np.log(1.5), size=2))
        folds = np.exp(rng.uniform(np.log(2.0), np.log(12.0), size=len(above)))
        raises = rng.random(len(above)) < 0.7
        shape = tuple(n_levels[p] for p in above)
        table = np.zeros((*shape, size, size))
        for configuration in np.ndindex(*shape):
            faster_up = faster_down = 1.0
            for state, most, fold, raising in zip(configuration, shape, folds, raises):
                strength = fold ** (state / (most - 1))
                faster_up *= strength if raising else 1.0
                faster_down *= 1.0 if raising else strength
            for level in range(size - 1):
                table[(*configuration, level, level + 1)] = up * faster_up
                table[(*configuration, level + 1, level)] = down * faster_down
        rates[node] = table
    return am.Network(parents, rates, {n: list(range(s)) for n, s in n_levels.items()})


def pairs(network: Any) -> tuple[list[tuple[str, str]], np.ndarray]:
    """All ordered pairs of nodes, and which of them are edges."""
    names = list(network.nodes)
    every = [(p, c) for c in names for p in names if p != c]
    return every, np.array([p in network.parents[c] for p, c in every])


# ---- one fit, every tempering ----------------------------------------------------------------


def scored(learner: Any) -> dict[str, Any]:
    """The families of a fitted learner as plain lists: parents, score, prior."""
    found = learner._found
    prior = found.structure
    return {
        "nodes": list(found.nodes),
        "tables": [
            {
                "parents": table.parents.tolist(),
                "scores": np.round(table.scores - table.scores.max(), 6).tolist(),
                "prior": np.round(prior.log_prior(n, table.parents), 6).tolist(),
            }
            for n, table in enumerate(found.tables)
        ],
    }


def probabilities(record: dict[str, Any], factor: float) -> pd.DataFrame:
    """Edge probabilities at one tempering: rows are parents, columns children."""
    nodes = record["nodes"]
    columns = {}
    for name, own in zip(nodes, record["tables"]):
        table = FamilyTable(np.array(own["parents"], dtype=np.int64), np.array(own["scores"]))
        weighed = table.tempered_by(factor, np.array(own["prior"]))
        columns[name] = weighed.edge_probabilities(len(nodes))
    return pd.DataFrame(columns, index=nodes)


def log_loss(probability: np.ndarray, truth: np.ndarray) -> float:
    """Mean over pairs, in nats."""
    clipped = np.clip(probability, 1e-6, 1.0 - 1e-6)
    return float(-np.where(truth, np.log(clipped), np.log1p(-clipped)).mean())


def base_rate_loss(truth: np.ndarray) -> float:
    """That of whoever knows only how many edges there are."""
    share = float(truth.mean())
    if share in (0.0, 1.0):
        return 0.0
    return -share * np.log(share) - (1.0 - share) * np.log1p(-share)


# ---- rows that are kept ----------------------------------------------------------------------


class Rows:
    """Finished cases, one JSON object per line of a file; done ones are not computed again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.done[json.dumps(row["case"])] = row["result"]

    def get(self, case: Sequence[Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of a case: remembered, or computed and remembered."""
        name = json.dumps(list(case))
        if name not in self.done:
            self.done[name] = work()
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"case": list(case), "result": self.done[name]}) + "\n")
        return self.done[name]


def summary(rows: Iterable[dict[str, Any]], by: list[str], name: str) -> pd.DataFrame:
    """Means over data sets and their standard errors, as benchmarks/results/NAME.csv."""
    table = pd.DataFrame(list(rows))
    values = [c for c in table.columns if c not in (*by, "seed")]
    groups = table.groupby(by, sort=False)
    result = groups[values].mean()
    for value in values:
        result[f"{value}_se"] = groups[value].sem()
    result.insert(0, "data_sets", groups["seed"].nunique())
    result = result.round(4).reset_index()
    result.to_csv(RESULTS / f"{name}.csv", index=False)
    return result
