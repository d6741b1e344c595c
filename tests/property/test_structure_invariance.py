"""What must not matter to structure learning: unit of time, order of columns and rows, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from tests.paper_settings import paper_learner

NODES = ["a", "b", "c", "d"]
EMISSION = am.Gaussian((-1, 1), 0.5)


def observations(seed: int = 4) -> am.Observations:
    """Four spins, a → b → c → a and a → d; a node's values are missing now and then."""
    net = am.glauber({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["a"]}, a=1.0, b=0.8)
    paths = am.simulate(net, n_trajectories=12, duration=5.0, seed=seed)
    return am.observe(paths, EMISSION, n_observations=8, missing=0.1, seed=seed)


def learn(obs: am.Observations, **options: Any) -> am.StructureLearner:
    settings: dict[str, Any] = {"emission": EMISSION, "max_parents": 2, "n_jobs": 1, **options}
    return paper_learner(**settings).fit(obs)


@pytest.fixture(scope="module")
def reference() -> am.StructureLearner:
    return learn(observations())


def assert_same(
    found: am.StructureLearner, expected: am.StructureLearner, within: float = 1e-6
) -> None:
    assert set(found.graph_.edges) == set(expected.graph_.edges)
    aligned = found.edge_probabilities_.loc[NODES, NODES].to_numpy()
    truth = expected.edge_probabilities_.loc[NODES, NODES].to_numpy()
    np.testing.assert_allclose(aligned, truth, rtol=0, atol=within)


def test_there_is_something_to_change(reference: am.StructureLearner) -> None:
    """Probabilities neither all certain nor all even, and edges in the graph."""
    chance = reference.edge_probabilities_.to_numpy()
    assert reference.converged_
    assert reference.graph_.number_of_edges() >= 2
    assert np.sum((chance > 0.01) & (chance < 0.99)) >= 4


@pytest.mark.parametrize("factor", [60.0, 1 / 365.25])
@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_unit_of_time(method: str, factor: float) -> None:
    obs = observations()
    here, there = learn(obs, method=method), learn(obs.scale_time(factor), method=method)
    assert_same(there, here)
    assert there.prior_.rate_value == pytest.approx(factor * here.prior_.rate_value, rel=1e-9)
    for node in NODES:
        np.testing.assert_allclose(
            there.network_.rates[node] * factor, here.network_.rates[node], rtol=1e-5
        )


def test_a_prior_given_in_the_unit_of_time() -> None:
    obs = observations()
    here = learn(obs, prior=am.GammaPrior(5, 10))
    assert_same(learn(obs.scale_time(60.0), prior=am.GammaPrior(5, 600)), here)
    changed = learn(obs.scale_time(3.0), prior=am.GammaPrior(5, 10)).edge_probabilities_
    assert np.abs(changed.to_numpy() - here.edge_probabilities_.to_numpy()).max() > 0.01


@pytest.mark.parametrize("order", ["dcba", "bdac"])
def test_order_of_columns(order: str, reference: am.StructureLearner) -> None:
    frame = observations().to_frame()
    shuffled = frame[["trajectory", "time", *order]]
    found = learn(am.Observations.from_frame(shuffled, start=0.0, end=5.0))
    assert list(found.edge_probabilities_.columns) == list(order)
    assert_same(found, reference, within=1e-12)
    assert found.network_.nodes == tuple(order)


def test_order_of_trajectories_and_rows(reference: am.StructureLearner) -> None:
    frame = observations().to_frame()
    rng = np.random.default_rng(0)
    labels = frame["trajectory"].unique()
    moved = pd.concat([frame[frame["trajectory"] == d] for d in rng.permutation(labels)])
    assert_same(learn(am.Observations.from_frame(moved, start=0.0, end=5.0)), reference)
    mixed = frame.sample(frac=1.0, random_state=1)
    found = am.Observations.from_frame(mixed, start=0.0, end=5.0, sort=True)
    assert_same(learn(found), reference)


def test_number_of_threads_to_the_last_bit(reference: am.StructureLearner) -> None:
    found = learn(observations(), n_jobs=2)
    pd.testing.assert_frame_equal(found.family_scores_, reference.family_scores_, rtol=0, atol=0)
    pd.testing.assert_frame_equal(found.edges_, reference.edges_, rtol=0, atol=0)
    for node in NODES:
        np.testing.assert_array_equal(found.network_.rates[node], reference.network_.rates[node])


def test_random_starts_depend_on_the_seed_only() -> None:
    obs = observations()
    first, second = (learn(obs, n_init=3, random_state=7, n_jobs=n) for n in (1, 2))
    pd.testing.assert_frame_equal(first.family_scores_, second.family_scores_, rtol=0, atol=0)
