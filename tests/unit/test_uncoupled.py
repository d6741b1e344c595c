"""Statistics of nodes that nothing couples: against block exponentials, and against sweeps."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.evidence.build import build_evidence
from asterism.learning.search import coupled
from asterism.learning.search.coupled import Uncoupled
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import prepare
from asterism.learning.tasks import Silent
from asterism.star._solve import EVIDENCE, N_TOTALS
from asterism.star.batch import Batch, make_batch
from asterism.star.problem import Parameters
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


@pytest.mark.parametrize("n_states", [3, 5])
@pytest.mark.parametrize("kind", ["usual", "slow and fast", "exits of their own"])
def test_sums_are_those_of_block_exponentials(n_states: int, kind: str) -> None:
    noise = am.Gaussian(tuple(float(s) for s in range(n_states)), 0.6)
    network, seen = panel(n_states, noise)
    batch = batch_of(network, seen, noise)
    rates = network.compiled.rates.reshape(n_states, n_states).copy()
    if kind == "slow and fast":
        rates *= np.geomspace(1e-3, 10.0, n_states)[:, None]
    elif kind == "exits of their own":
        rates[np.diag_indices(n_states)] *= np.linspace(0.7, 1.3, n_states)
    parameters = Parameters(rates.ravel(), rates.ravel(), network.compiled.initial.copy(), False)
    pieces = [(0, 1), (1, 3)]
    totals = np.zeros((3, N_TOTALS))
    uncoupled = Uncoupled.of(batch.problem, pieces)
    assert uncoupled is not None
    parts = uncoupled.count(parameters, totals, 1)
    assert parts is not None
    evidence, total = plain_sums(batch, rates, parameters.initial)
    assert totals[:, EVIDENCE].sum() == pytest.approx(evidence, abs=1e-10)
    dwell = sum(p.dwell for p in parts)
    transitions = sum(p.transitions for p in parts).reshape(rates.shape)
    expected = rates * total
    np.testing.assert_allclose(dwell, np.diag(total), rtol=1e-9)
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(transitions, expected, rtol=1e-9)
    assert sum(p.starts for p in parts).sum() == pytest.approx(3.0, abs=1e-12)


def test_rates_that_are_too_fast_or_impossible_are_left_to_sweeps() -> None:
    network, seen = panel(3, am.Exact())
    batch = batch_of(network, seen, am.Exact())
    uncoupled = Uncoupled.of(batch.problem, [(0, 3)])
    assert uncoupled is not None
    totals = np.zeros((3, N_TOTALS))
    compiled = network.compiled
    for rates in (1e4 * compiled.rates, 0.0 * compiled.rates):
        parameters = Parameters(rates, rates, compiled.initial.copy(), False)
        assert uncoupled.count(parameters, totals, 1) is None


def test_the_solution_is_that_of_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = am.Gaussian((0.0, 1.0, 2.0), 0.5)
    _, seen = panel(3, noise, n_trajectories=60)
    settings = StructureSettings(emission=noise)
    quick = prepare(settings, seen, Silent())
    found = [quick.scorer.solve(((),)), quick.scorer.solve(((),), n_jobs=2, precise=True)]
    monkeypatch.setattr(coupled.Uncoupled, "applies_to", staticmethod(lambda _: False))
    swept = prepare(settings, seen, Silent())
    assert quick.single_nodes.prior_rate == pytest.approx(swept.single_nodes.prior_rate, rel=1e-3)
    before = [quick.scorer.solve(((),)), quick.scorer.solve(((),), n_jobs=2, precise=True)]
    for now, then in zip(found, before):
        assert now.converged
        assert now.score == pytest.approx(then.score, abs=1e-5)
        np.testing.assert_allclose(now.rates, then.rates, rtol=2e-4)
        np.testing.assert_allclose(now.moments, then.moments, rtol=1e-3, atol=1e-6)
