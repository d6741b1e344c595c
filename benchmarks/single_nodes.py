"""Processor seconds to learn from a single node on 1,000 trajectories of 20 measurements.

Prints a table and writes it to a folder: python benchmarks/single_nodes.py -o out/
Noisy values, states seen without error at any and at yearly times, and emissions that are learned,
for two to eight states. A small panel of every kind is learned from first: it compiles.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from common import Row, option_parser, show_and_write
from search import tree

import asterism as am

_POINTS = 20
_LIMIT = "at most 2"


def _seconds(n_states: int, truth: Any, emission: Any, n: int, at: Any = None) -> float:
    paths = am.simulate(tree(n_states, 1), n, duration=float(_POINTS), seed=1)
    if at is None:
        seen = am.observe(paths, truth, n_observations=_POINTS, seed=2)
    else:
        seen = am.observe(paths, truth, times=at, seed=2)
    begin = time.process_time()
    am.StructureLearner(emission=emission, max_parents=2, n_jobs=1, method="star").fit(seen)
    return time.process_time() - begin


def measure(patients: int = 1000) -> list[Row]:
    def noise(size: int, learn: bool = False) -> am.Gaussian:
        return am.Gaussian(tuple(float(s) for s in range(size)), 0.3, learn=learn)

    years = np.arange(1.0, _POINTS + 1.0)
    cases: dict[str, tuple[Any, ...]] = {
        **{f"{s} states, noisy values": (s, noise(s), noise(s)) for s in (2, 3, 5, 8)},
        "5 states, seen without error": (5, am.Exact(), am.Exact()),
        "5 states, seen every year": (5, am.Exact(), am.Exact(), years),
        "5 states, learned emission": (5, noise(5), noise(5, learn=True)),
    }
    rows: list[Row] = []
    for name, (size, truth, emission, *at) in cases.items():
        _seconds(size, truth, emission, 3, *at)
        rows.append((f"{name}, seconds", _seconds(size, truth, emission, patients, *at), _LIMIT))
    return rows


if __name__ == "__main__":
    options = option_parser(__doc__, "benchmarks/results").parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        show_and_write(measure(), options.output / "single_nodes.csv")
