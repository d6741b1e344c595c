"""Statistics of nodes that nothing couples: against block exponentials, and against sweeps."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.learning.search import coupled, score
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import prepare
from asterism.learning.tasks import Silent
from asterism.star import batch
from asterism.star.batch import Batch, make_batch
from asterism.star.problem import Parameters
from asterism.star.uncoupled import Uncoupled
from asterism.timeline.build import build_evidence
from tests.reference.constant_rates import plain_sums


def panel(
    n_states: int, emission: am.Emission, n_trajectories: int = 3
) -> tuple[am.Network, am.Observations]:
    rng = np.random.default_rng(n_states)
    rates = rng.uniform(0.1, 1.0, (n_states, n_states)) * (1.0 - np.eye(n_states))
    network = am.Network({"x": []}, {"x": rates}, states={"x": [*map(str, range(n_states))]})
    paths = am.simulate(network, n_trajectories, duration=4.0, seed=1)
    return network, am.observe(paths, emission, n_observations=5, seed=2)


def batch_of(network: am.Network, seen: am.Observations, emission: am.Emission) -> Batch:
    evidence = build_evidence(network, seen, emission)
    return make_batch(evidence, network.compiled.graph, 0.0, 1.0)


@pytest.mark.parametrize("n_states", [3, 5, 8])
@pytest.mark.parametrize("kind", ["usual", "slow and fast", "exits of their own", "a chain"])
def test_sums_are_those_of_block_exponentials(n_states: int, kind: str) -> None:
    noise = am.Gaussian(tuple(float(s) for s in range(n_states)), 0.6)
    network, seen = panel(n_states, noise)
    laid_out = batch_of(network, seen, noise)
    rates = network.compiled.rates.reshape(n_states, n_states).copy()
    if kind == "slow and fast":
        rates *= np.geomspace(1e-3, 10.0, n_states)[:, None]
    elif kind == "exits of their own":
        rates[np.diag_indices(n_states)] *= np.linspace(0.7, 1.3, n_states)
    elif kind == "a chain":
        rates = np.eye(n_states, k=1) + np.eye(n_states, k=-1)
        rates -= np.diag(rates.sum(axis=1))
    parameters = Parameters(rates.ravel(), rates.ravel(), network.compiled.initial.copy(), False)
    pieces = [(0, 1), (1, 3)]
    points = np.zeros(len(laid_out.evidence.points.log_likelihood))
    found = Uncoupled.of(laid_out.problem, pieces).count(parameters, 1, points)
    assert found is not None
    parts, by_trajectory = found
    evidence, total, at_points = plain_sums(laid_out, rates, parameters.initial)
    np.testing.assert_allclose(points, at_points, rtol=1e-9)
    assert by_trajectory.sum() == pytest.approx(evidence, abs=1e-10)
    dwell = sum(p.dwell for p in parts)
    transitions = sum(p.transitions for p in parts).reshape(rates.shape)
    expected = rates * total
    np.testing.assert_allclose(dwell, np.diag(total), rtol=1e-9)
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(transitions, expected, rtol=1e-9)
    assert sum(p.starts for p in parts).sum() == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("weak", [0.0, 1e-12])
@pytest.mark.parametrize("gap", [3e-4, 0.1])
def test_states_that_are_many_jumps_apart_are_reached(weak: float, gap: float) -> None:
    """Seen at one end of a chain and soon at the other: every step up is made once more than down.

    The probability of that is tiny, and a series that is cut too early knows nothing of it.
    """
    n_states = 6
    names = [str(s) for s in range(n_states)]
    jumps = np.eye(n_states, k=1) + np.eye(n_states, k=-1)
    rates = jumps + weak * (1.0 - np.eye(n_states))
    network = am.Network({"x": []}, {"x": rates}, states={"x": names})
    table = {"trajectory": 0, "time": [0.0, gap], "x": ["0", "5"]}
    seen = am.Observations.from_frame(pd.DataFrame(table))
    laid_out = batch_of(network, seen, am.Exact())
    compiled = network.compiled
    parameters = Parameters(compiled.rates, compiled.rates, compiled.initial.copy(), False)
    found = Uncoupled.of(laid_out.problem, [(0, 1)]).count(parameters, 1)
    assert found is not None
    (counts,), evidence = found
    assert counts.dwell.sum() == pytest.approx(gap, rel=1e-9)
    flow = counts.transitions.reshape(rates.shape)
    flow = flow - flow.T
    # across every border between two neighbours, whatever jumps cross it
    crossed = [flow[: s + 1, s + 1 :].sum() for s in range(n_states - 1)]
    np.testing.assert_allclose(crossed, 1.0, rtol=1e-9)
    if gap < 1e-3 and weak == 0.0:
        way = 5 * np.log(gap) - np.log(120.0)
        assert evidence.sum() - np.log(compiled.initial[0]) == pytest.approx(way, abs=2e-3)


def test_rates_that_are_too_fast_or_impossible_are_left_to_sweeps() -> None:
    network, seen = panel(3, am.Exact())
    laid_out = batch_of(network, seen, am.Exact())
    uncoupled = Uncoupled.of(laid_out.problem, [(0, 3)])
    compiled = network.compiled
    for rates in (1e4 * compiled.rates, 0.0 * compiled.rates):
        parameters = Parameters(rates, rates, compiled.initial.copy(), False)
        assert uncoupled.count(parameters, 1) is None


def test_the_solution_is_that_of_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = am.Gaussian((0.0, 1.0, 2.0), 0.5)
    _, seen = panel(3, noise, n_trajectories=60)
    settings = StructureSettings(emission=noise)
    quick = prepare(settings, seen, Silent())
    found = [quick.scorer.solve(((),)), quick.scorer.solve(((),), n_jobs=2, precise=True)]
    for module in (coupled, score):
        monkeypatch.setattr(module, "is_uncoupled", lambda _: False)
    swept = prepare(settings, seen, Silent())
    assert quick.single_nodes.prior_rate == pytest.approx(swept.single_nodes.prior_rate, rel=1e-3)
    before = [quick.scorer.solve(((),)), quick.scorer.solve(((),), n_jobs=2, precise=True)]
    for now, then in zip(found, before):
        assert now.converged
        assert now.score == pytest.approx(then.score, abs=1e-5)
        np.testing.assert_allclose(now.rates, then.rates, rtol=2e-4)
        np.testing.assert_allclose(now.moments, then.moments, rtol=1e-3, atol=1e-6)


def test_fitted_emissions_are_those_of_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = am.Gaussian((0.0, 1.0, 2.0), 0.5)
    _, seen = panel(3, noise, n_trajectories=20)
    learned = am.Gaussian((0.2, 1.1, 1.8), 0.6, learn=True)
    options = {"method": "star", "prior": am.GammaPrior(2.0, 2.0), "max_iterations": 10}

    def fitted() -> am.ParameterLearner:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return am.ParameterLearner({"x": []}, learned, **options).fit(seen)

    now = fitted()
    monkeypatch.setattr(batch, "is_uncoupled", lambda _: False)
    then = fitted()
    assert now.log_evidence_ == pytest.approx(then.log_evidence_, abs=1e-7)
    own, swept = (f.emission_["x"] for f in (now, then))
    np.testing.assert_allclose(own.means, swept.means, rtol=1e-6)
    rates = [f.network_.rates["x"] for f in (now, then)]
    np.testing.assert_allclose(*rates, rtol=1e-6)
