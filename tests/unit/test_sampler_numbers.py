"""The sampler's sweep in numbers: long chains of tiny networks against exact inference.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks it whether wrong code
would be noticed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am

NOISE = am.Gaussian((0.0, 1.0), 0.6)
PAIR = am.Network(
    {"A": ["B"], "B": ["A"]},
    {
        "A": [[[0.0, 0.6], [1.5, 0.0]], [[0.0, 1.8], [0.3, 0.0]]],
        "B": [[[0.0, 0.4], [2.0, 0.0]], [[0.0, 2.5], [0.5, 0.0]]],
    },
    {"A": [0, 1], "B": [0, 1]},
    {"A": [0.7, 0.3], "B": [0.4, 0.6]},
)
THREE = am.Network(
    {"C": []}, {"C": [[0.0, 1.0, 0.3], [0.2, 0.0, 1.4], [0.8, 0.1, 0.0]]}, {"C": [0, 1, 2]}
)


def measured() -> am.Observations:
    rows = pd.DataFrame(
        {"trajectory": 0, "time": [0.3, 0.9, 1.6], "A": [0.1, 0.8, np.nan], "B": [np.nan, 0.9, 0.2]}
    )
    return am.Observations.from_frame(rows, start=0.0, end=2.0)


def known() -> am.Observations:
    """A jump at a known time, and a stretch in which the state was watched."""
    rows = pd.DataFrame({"trajectory": 0, "time": [0.2, 1.7], "C": [0.2, 1.1]})
    events = pd.DataFrame({"trajectory": [0], "time": [0.8], "node": ["C"], "to": [2]})
    spans = {"trajectory": [0], "node": ["C"], "start": [1.2], "end": [1.5], "state": [1]}
    return am.Observations.from_frame(
        rows, start=0.0, end=2.0, events=events, intervals=pd.DataFrame(spans)
    )


CASES: dict[str, tuple[am.Network, Any, Any]] = {
    "three states, a jump and a span": (THREE, known(), am.Gaussian((0.0, 1.0, 2.0), 0.7)),
    "a pair that follows each other": (PAIR, measured(), NOISE),
}
TIMES = np.array([0.0, 0.3, 0.75, 0.85, 1.3, 1.6, 2.0])


@pytest.mark.parametrize("name", CASES)
def test_averages_over_draws_are_those_of_exact_inference(name: str) -> None:
    network, seen, noise = CASES[name]
    options = {"n_chains": 2, "n_draws": 750, "seed": 4, "n_jobs": 1}
    drawn = am.infer(network, seen, noise, method="sample", **options)
    exact = am.infer(network, seen, noise, method="exact")
    size = max(len(network.states[n]) for n in network.nodes)
    for node in network.nodes:
        one, other = (p.marginals(TIMES).sel(node=node).values[0, :, :size] for p in (drawn, exact))
        np.testing.assert_allclose(one, other, atol=0.06)
        for field in ("dwell_times", "transitions"):
            one, other = (np.asarray(getattr(p.statistics, field)[node]) for p in (drawn, exact))
            np.testing.assert_allclose(one, other, atol=0.1, rtol=0.1)
    if name.startswith("three"):
        paths = drawn.sample(50, seed=0)
        at = paths.state_at(np.array([0.8, 1.2, 1.35, 1.499]))[:, :, 0]
        assert (at == [2, 1, 1, 1]).all()
