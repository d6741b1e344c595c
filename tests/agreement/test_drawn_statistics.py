"""Statistics of the graph that sampling shows: those of the draws, not of the star."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.learning.search.drawn_statistics import DrawnStatistics
from asterism.learning.search.score import RanAway, Scorer
from tests.flat_settings import regrouped

NOISE = am.Gaussian((-1, 1), 0.5)
STEADY = am.GammaPrior(1e6, 1e6)
"""All rates are one."""


def learner(**settings: Any) -> am.StructureLearner:
    given = {"prior": STEADY, "method": "sample", "max_draws": 1500, "initial": "uniform"}
    return am.StructureLearner(NOISE, n_jobs=1, **regrouped(**{**given, **settings}))


def observations() -> am.Observations:
    network = am.glauber({"A": [], "B": ["A"], "C": ["A", "B"]}, a=1.0, b=0.5)
    return am.observe(am.simulate(network, 6, duration=4.0, seed=1), NOISE, 6, seed=2)


def test_expected_statistics_are_exact_where_rates_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> Any:
        raise AssertionError("the star was asked")

    monkeypatch.setattr(DrawnStatistics, "_by_star", refuse)
    seen = observations()
    found = learner(required=[("A", "B"), ("A", "C"), ("B", "C")], forbidden=[("C", "A")])
    found.fit(seen)
    exact = am.infer(found.network_, seen, NOISE, method="exact").statistics
    parents = found.network_.parents
    assert list(parents["C"]) == ["A", "B"]
    for node in seen.nodes:
        own = found._found.counts[node]
        size = exact.transitions[node].sum()
        assert np.abs(own.transitions - exact.transitions[node]).max() < 0.03 * size
        assert np.abs(own.dwell - exact.dwell_times[node]).max() < 0.03 * 24.0
        assert own.dwell.sum() == pytest.approx(24.0)  # of six trajectories


def test_a_family_that_was_never_drawn_is_left_to_the_star(monkeypatch: pytest.MonkeyPatch) -> None:
    found = learner(max_parents=1, threshold=1e-9)  # every edge is shown, none with another
    found.fit(observations())
    counts = found._found.counts["C"]
    assert counts.dwell.shape == (2, 2, 2)
    assert counts.dwell.sum() == pytest.approx(24.0)

    def runs_away(scorer: Scorer, parents: Any, *others: Any, **more: Any) -> Any:
        if any(len(own) > 1 for own in parents):  # only the graph that is shown
            raise RanAway("it never settles")
        return solve(scorer, parents, *others, **more)

    solve = Scorer.solve
    monkeypatch.setattr(Scorer, "solve", runs_away)
    found.fit(observations())
    assert found._found.counts["C"].dwell.sum() == 0.0
    np.testing.assert_allclose(found.network_.rates["C"][0, 0, 0, 1], 1.0)
