"""How many sweeps a solved graph takes, by the way the iteration is accelerated.

Messages and posterior rates are iterated together until they agree. Two accelerations are in use:
Anderson mixing of moments and rates (star inference, graphs of small networks) and Aitken's step on
each node's rates (graphs of large networks, local scores). Each is tried here on the other's
ground, from the same start to the same tolerance. ``difference`` is the distance of the score from
that of an iteration with a tolerance 1,000 times smaller; for local scores, that of the sums of
all scores, plain and extrapolated.

    python benchmarks/fixed_points.py [--reduced]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import asterism as am
from asterism.learning.search import coupled, local_solves, screened
from asterism.learning.search.score import GraphSolution, Scorer
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import prepare
from asterism.learning.tasks import Silent
from asterism.star._buffers import CONFIGURATIONS, STATES

RESULTS = Path(__file__).resolve().parent / "results"
TOLERANCE = 1e-5
DEPTH = 4


class AndersonOfRates:
    """Mixes the logarithms of all rates: image − Σ γ Δimage from the last four differences."""

    def __init__(self) -> None:
        self.before: Any = None
        self.images: list[Any] = []
        self.residuals: list[Any] = []

    def __call__(self, nodes: Any, parameters: Any, logs: Any, steps: Any, jump: bool) -> None:
        is_rate = parameters.rates > 0.0
        image = np.log(parameters.rates[is_rate])
        before = logs[is_rate] if self.before is None else self.before
        self.images.append(image)
        self.residuals.append(image - before)
        mixed = image
        if len(self.images) > 1:
            images = np.diff(self.images[-DEPTH - 1 :], axis=0)
            residuals = np.diff(self.residuals[-DEPTH - 1 :], axis=0)
            gamma = np.linalg.lstsq(residuals.T, self.residuals[-1], rcond=1e-10)[0]
            mixed = image + np.clip(-gamma @ images, -2.0, 2.0)
        self.before = mixed
        parameters.rates[is_rate] = np.exp(mixed)
        start = 0
        for row in nodes[:-1]:
            size = int(row[STATES])
            end = start + size * size * int(row[CONFIGURATIONS])
            block = parameters.rates[start:end].reshape(-1, size, size)
            x = np.arange(size)
            block[:, x, x] = 0.0
            block[:, x, x] = -block.sum(axis=2)
            start = end


def networks(reduced: bool) -> dict[str, tuple[am.Network, Any, int]]:
    spins = am.Gaussian((-1.0, 1.0), 0.6)
    three = am.Gaussian((0.0, 1.0, 2.0), 0.4)
    found: dict[str, tuple[am.Network, Any, int]] = {
        "cycle of 6": (am.glauber("cycle:6", a=1.0, b=0.6), spins, 8),
        "tree of 14": (am.glauber("tree:14", a=1.0, b=0.6), spins, 8),
        "6 nodes, 3 states": (am.random_network(6, 3, max_parents=2, seed=3), three, 8),
    }
    if not reduced:
        found["strong cycle of 6"] = (am.glauber("cycle:6", a=1.0, b=1.2), spins, 8)
        found["random, 60 nodes"] = (am.random_network(60, 2, max_parents=2, seed=4), spins, 6)
    return found


def scorer_of(network: am.Network, emission: Any, n: int) -> tuple[Scorer, Any]:
    n_states = len(next(iter(network.states.values())))
    means = emission.means[:n_states]
    noise = am.Gaussian(means, emission.scale)
    paths = am.simulate(network, n, duration=6.0, seed=5)
    seen = am.observe(paths, noise, n_observations=12, seed=6)
    task = prepare(StructureSettings(emission=noise), seen, Silent())
    number = {name: i for i, name in enumerate(task.nodes)}
    parents = tuple(tuple(sorted(number[p] for p in network.parents[n])) for n in task.nodes)
    return task.scorer, parents


def tries(scorer: Scorer, parents: Any) -> dict[str, Callable[[], GraphSolution]]:
    loose = replace(scorer, tolerance=TOLERANCE, max_iterations=2000)

    def marginal(mixed: bool) -> GraphSolution:
        with mock.patch.object(Scorer, "_accelerate", mixed):
            return loose.solve(parents)

    def threads(period: int, step: Any = None) -> GraphSolution:
        with (
            mock.patch.object(coupled, "_PERIOD", period),
            mock.patch.object(coupled, "_QUIET", 0.0),
            mock.patch.object(coupled, "extrapolate_all", step or coupled.extrapolate_all),
        ):
            return loose.solve(parents, n_jobs=1, precise=True)

    return {
        "plain": lambda: marginal(False),
        "Anderson, moments and rates": lambda: marginal(True),
        "Aitken, rates, every third": lambda: threads(3),
        "Aitken, rates, every second": lambda: threads(2),
        "Anderson, rates": lambda: threads(3, AndersonOfRates()),
    }


def coupled_rows(reduced: bool) -> list[dict[str, Any]]:
    rows = []
    for name, given in networks(reduced).items():
        scorer, parents = scorer_of(*given)
        exact = replace(scorer, tolerance=TOLERANCE / 1000.0, max_iterations=5000).solve(parents)
        for way in tries(scorer, parents):
            tries(scorer, parents)[way]()  # compiles, if need be
            best = np.inf
            for _ in range(1 if reduced else 3):
                fresh = tries(scorer, parents)[way]
                begin = time.process_time()
                found = fresh()
                best = min(best, time.process_time() - begin)
            rows.append(
                {
                    "network": name,
                    "solve": "whole graph",
                    "acceleration": way,
                    "sweeps": found.n_iterations,
                    "converged": found.converged,
                    "seconds": best,
                    "difference": abs(found.score - exact.score),
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def local_rows(reduced: bool, way: str) -> list[dict[str, Any]]:
    """Sweeps and seconds of one family, scored with its neighbours frozen."""
    rows = []
    for name, given in networks(reduced).items():
        scorer, parents = scorer_of(*given)
        solution = scorer.solve(parents)
        n_nodes = len(parents)
        families = {
            child: np.array([[p, -1] for p in range(n_nodes) if p != child][:10], dtype=np.int64)
            for child in range(min(n_nodes, 6))
        }
        counts: list[Any] = []
        kernel = local_solves.local.score_families

        def spy(*arguments: Any, counts: list[Any] = counts, kernel: Any = kernel) -> None:
            kernel(*arguments)
            counts.append(arguments[7].iterations.copy())

        shared = scorer.shared_input(solution)
        nodes = np.array(sorted(families))
        rows_of = [families[c] for c in sorted(families)]
        scores = screened.score_piece(shared, nodes, rows_of)  # compiles, if need be
        with mock.patch.object(local_solves.local, "score_families", spy):
            begin = time.process_time()
            screened.score_piece(shared, nodes, rows_of)
            seconds = time.process_time() - begin
        rows.append(
            {
                "network": name,
                "solve": "one family",
                "acceleration": way,
                "sweeps": float(np.concatenate(counts).mean()),
                "converged": True,
                "seconds": seconds / sum(len(c) for c in counts),
                "difference": float(np.concatenate(scores).sum()),
            }
        )
    return rows


def plain_local_rows(reduced: bool) -> list[dict[str, Any]]:
    """The same without extrapolation: compiled anew, in a process and a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--plain", *(["--reduced"] if reduced else [])]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout
    found: list[dict[str, Any]] = json.loads(answer.splitlines()[-1])
    return found


def without_extrapolation() -> None:
    from asterism.learning.search import _local
    from asterism.numerics._jit import inner

    def stay(size: Any, n_configurations: Any, geometric: Any, jump: Any, family: Any) -> bool:
        return False

    _local.extrapolate = inner(stay)


def main() -> None:
    reduced = "--reduced" in sys.argv
    if "--plain" in sys.argv:
        without_extrapolation()
        print(json.dumps(local_rows(reduced, "plain")))
        return
    rows = coupled_rows(reduced)
    plain, used = plain_local_rows(reduced), local_rows(reduced, "Aitken, rates, every second")
    for a, b in zip(plain, used):
        a["difference"] = b["difference"] = abs(a["difference"] - b["difference"])
        rows += [a, b]
    table = pd.DataFrame(rows)
    for column, digits in (("seconds", 3), ("difference", 2), ("sweeps", 4)):
        table[column] = table[column].map(lambda value, d=digits: float(f"{value:.{d}g}"))
    print(table.to_string(index=False))
    if not reduced:
        table.to_csv(RESULTS / "fixed_points.csv", index=False)


if __name__ == "__main__":
    main()
