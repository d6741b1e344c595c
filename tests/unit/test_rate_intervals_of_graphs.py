"""Intervals of the rates of a learned graph, on paths whose statistics can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gamma

import asterism as am
from asterism.results.run import GIVEN_THE_GRAPH, RATE_COLUMNS


@pytest.fixture(scope="module")
def learner() -> am.StructureLearner:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.5)
    paths = am.simulate(network, n_trajectories=30, duration=10.0, seed=1)
    return am.StructureLearner(max_parents=1, prior=am.GammaPrior(2.0, 1.0), method="star").fit(
        paths
    )


def test_intervals_are_those_of_the_gamma_posterior(learner: am.StructureLearner) -> None:
    table = learner.rate_intervals_
    assert table is not None
    assert list(table.columns) == RATE_COLUMNS
    network, counts = learner.network_, learner._found.counts
    assert network.parents["B"] == ("A",) or list(network.parents["B"]) == ["A"]
    for row in table[table["node"] == "B"].to_dict("records"):
        u = network.states["A"].index(int(row["configuration"].removeprefix("A=")))
        x, y = (network.states["B"].index(row[end]) for end in ("from", "to"))
        shape = counts["B"].transitions[u, x, y] + 2.0
        scale = 1.0 / (counts["B"].dwell[u, x] + 1.0)
        assert row["rate"] == pytest.approx(network.rates["B"][u, x, y])
        assert row["lower"] == pytest.approx(gamma.ppf(0.05, shape, scale=scale))
        assert row["upper"] == pytest.approx(gamma.ppf(0.95, shape, scale=scale))
    assert len(table) == 2 * len(network.parents["A"] or [0]) + 4


def test_intervals_are_saved_with_the_run(learner: am.StructureLearner, tmp_path: Path) -> None:
    learner.save(tmp_path / "run")
    run = am.load(tmp_path / "run")
    table = learner.rate_intervals_
    assert table is not None
    assert run.rates is not None
    np.testing.assert_allclose(run.rates["upper"], table["upper"])
    assert run.run["rate_intervals"] == GIVEN_THE_GRAPH
