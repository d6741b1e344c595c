"""Emissions fitted on the graph: what inference by another door says, and a score that rises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import ModelError
from asterism.learning.search import emission_refinement
from asterism.learning.search import task as search
from tests.paper_settings import paper_learner

LEARNED = am.Gaussian(learn=True)
STATES = {n: ["low", "high"] for n in "abcd"}


@pytest.fixture(scope="module")
def seen() -> am.Observations:
    network = am.glauber({"a": ["d"], "b": ["a"], "c": ["b"], "d": ["c"]}, a=1.0, b=1.2)
    paths = am.simulate(network, 20, duration=8.0, seed=1)
    return am.observe(paths, am.Gaussian((-1, 1), 0.9), n_observations=12, seed=2)


def learned(seen: am.Observations, **options: Any) -> am.StructureLearner:
    learner = paper_learner(LEARNED, max_parents=1, states=STATES, n_jobs=1, **options)
    return learner.fit(seen)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_emissions_are_those_of_the_posterior_on_the_graph(
    seen: am.Observations, search: str
) -> None:
    single = learned(seen, search=search)
    refined = learned(seen, search=search, refine_emissions=True)
    assert refined.converged_
    assert refined.n_sweeps_ > single.n_sweeps_
    assert [row["sweep"] for row in refined.history_] == list(range(1, refined.n_sweeps_ + 1))
    posterior = am.infer(refined.network_, seen, refined.emission_, tolerance=1e-5)
    table = seen.to_frame()
    places = [seen.trajectories.index(label) for label in table["trajectory"]]
    at_rows = [
        posterior.courses.marginals(place, np.array([time]))
        for place, time in zip(places, table["time"])
    ]
    for node in "abcd":
        number = refined.network_.node_index(node)
        weight = np.array([marginals[number][0] for marginals in at_rows])
        means = weight.T @ table[node].to_numpy(dtype=float) / weight.sum(axis=0)
        np.testing.assert_allclose(refined.emission_[node].means, means, atol=0.002)
        assert refined.emission_[node].means != single.emission_[node].means


def test_the_score_of_a_graph_rises(seen: am.Observations) -> None:
    for graph in ({n: [] for n in "abcd"}, {"a": ["d"], "b": ["a"], "c": ["b"], "d": ["c"]}):
        options: dict[str, Any] = {"emission": LEARNED, "states": STATES}
        before = am.structure_score(graph, seen, **options)
        assert (
            am.structure_score(graph, seen, search=am.Search(refine_emissions=True), **options)
            > before
        )


def test_given_emissions_stay(seen: am.Observations) -> None:
    given = am.Gaussian((-1, 1), 0.9)
    plain, asked = (
        paper_learner(given, max_parents=1, refine_emissions=flag, n_jobs=1).fit(seen)
        for flag in (False, True)
    )
    pd.testing.assert_frame_equal(plain.edge_probabilities_, asked.edge_probabilities_)
    assert asked.n_sweeps_ == plain.n_sweeps_  # and nothing is searched again
    with pytest.raises(ModelError, match="refine_emissions is 'no'; valid are True, False"):
        paper_learner(given, refine_emissions="no").fit(seen)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Home:
    """A user's own emission: Gaussian, but nobody knows."""

    inner: am.Gaussian
    learn: bool = True

    n_states = 2

    def log_likelihood(self, values: Any, states: Any) -> Any:
        return self.inner.log_likelihood(values, states)

    def initialise(self, values: Any, n_states: int) -> Home:
        return Home(self.inner.initialise(values, n_states))

    def m_step(self, values: Any, weights: Any, states: Any) -> Home:
        return Home(self.inner.m_step(values, weights, states))

    def sample(self, states: Any, labels: Any, rng: Any) -> Any:
        return self.inner.sample(states, labels, rng)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "home"}


def test_emissions_of_ones_own_are_refined_as_far(seen: am.Observations) -> None:
    options: dict[str, Any] = {"max_parents": 1, "states": STATES, "refine_emissions": True}
    known = paper_learner(LEARNED, n_jobs=1, **options).fit(seen)
    own = paper_learner(Home(LEARNED), n_jobs=1, **options).fit(seen)
    for node in "abcd":
        means = own.emission_[node].inner.means
        np.testing.assert_allclose(means, known.emission_[node].means, atol=0.01)


def test_what_did_not_settle_is_said(
    seen: am.Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emission_refinement, "_MAX_STEPS", 1)
    cut = learned(seen, search="exhaustive", refine_emissions=True)
    assert not cut.converged_
    assert "emissions were still changing" in cut.stop_reason_
    monkeypatch.undo()
    monkeypatch.setattr(search, "MAX_ROUNDS", 0)
    never = learned(seen, search="exhaustive", refine_emissions=True)
    assert not never.converged_
    assert "refined 0 times" in never.stop_reason_


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_a_refined_search_resumes_to_the_same_result(
    seen: am.Observations, search: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "search": search,
        "refine_emissions": True,
        "journal": tmp_path / "j.sqlite",
    }
    first = learned(seen, **options)
    again = learned(seen, resume=True, **options)
    pd.testing.assert_frame_equal(first.family_scores_, again.family_scores_, rtol=0, atol=0)
    assert first.emission_ == again.emission_
    unrefined = learned(seen, search=search)
    assert not np.array_equal(first.edge_probabilities_, unrefined.edge_probabilities_)
