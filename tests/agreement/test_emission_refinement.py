"""Emissions fitted on the graph: what inference by another door says, and a score that rises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am

LEARNED = am.Gaussian(learn=True)
STATES = {n: ["low", "high"] for n in "abcd"}


@pytest.fixture(scope="module")
def seen() -> am.Observations:
    network = am.glauber({"a": ["d"], "b": ["a"], "c": ["b"], "d": ["c"]}, a=1.0, b=1.2)
    paths = am.simulate(network, 20, duration=8.0, seed=1)
    return am.observe(paths, am.Gaussian((-1, 1), 0.9), n_observations=12, seed=2)


def learned(seen: am.Observations, **options: Any) -> am.StructureLearner:
    learner = am.StructureLearner(LEARNED, max_parents=1, states=STATES, n_jobs=1, **options)
    return learner.fit(seen)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_emissions_are_those_of_the_posterior_on_the_graph(
    seen: am.Observations, search: str
) -> None:
    lone = learned(seen, search=search)
    refined = learned(seen, search=search, refine_emissions=True)
    assert refined.converged_
    assert refined.n_sweeps_ > lone.n_sweeps_
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
        assert refined.emission_[node].means != lone.emission_[node].means


def test_the_score_of_a_graph_rises(seen: am.Observations) -> None:
    for graph in ({n: [] for n in "abcd"}, {"a": ["d"], "b": ["a"], "c": ["b"], "d": ["c"]}):
        options: dict[str, Any] = {"emission": LEARNED, "states": STATES}
        before = am.structure_score(graph, seen, **options)
        assert am.structure_score(graph, seen, refine_emissions=True, **options) > before


def test_given_emissions_stay(seen: am.Observations) -> None:
    given = am.Gaussian((-1, 1), 0.9)
    plain, asked = (
        am.StructureLearner(given, max_parents=1, refine_emissions=flag, n_jobs=1).fit(seen)
        for flag in (False, True)
    )
    pd.testing.assert_frame_equal(plain.edge_probabilities_, asked.edge_probabilities_, atol=1e-5)


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
