"""Rates and emissions that made the data are found again, within what the data can tell."""

import os

import numpy as np
import pytest

import asterism as am
from tests.reference import recovery_cases
from tests.reference.recovery_cases import simulated, standardised_errors

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
CASES = recovery_cases.REDUCED_CASES if REDUCED else recovery_cases.CASES


@pytest.mark.slow
def test_rates_lie_within_three_standard_errors():
    errors = []
    for case in CASES:
        network, emission, obs = simulated(case)
        learner = am.ParameterLearner(network, emission, method="exact", n_jobs=-1).fit(obs)
        assert learner.converged_
        errors.append(standardised_errors(learner, network))
    pooled = np.concatenate(errors)
    inside = np.mean(np.abs(pooled) < 3.0)
    print(f"exact: {inside:.3f} of {len(pooled)} rates within 3 standard errors")
    assert inside >= 0.95


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stopped")
def test_report_the_same_with_star():
    errors = []
    for case in CASES:
        network, emission, obs = simulated(case)
        learner = am.ParameterLearner(network, emission, method="star", n_jobs=-1).fit(obs)
        print(f"star: {learner.stop_reason_}")
        errors.append(standardised_errors(learner, network))
    pooled = np.concatenate(errors)
    print(
        f"star: {np.mean(np.abs(pooled) < 3.0):.3f} of {len(pooled)} within 3 standard errors; "
        f"{np.isinf(pooled).sum()} without one"
    )
    assert not np.isnan(pooled).any()  # no threshold: the star is an approximation


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "star"])
def test_gaussian_emissions_from_data_alone(method):
    network = am.random_network(n_nodes=5, n_states=2, max_parents=2, seed=3)
    rng = np.random.default_rng(3)
    truth = {
        node: am.Gaussian(
            means=tuple(rng.normal(0.0, 2.0) + np.array([0.0, 1.6 + rng.random()])),
            scale=float(0.3 + 0.2 * rng.random()),
        )
        for node in network.nodes
    }
    paths = am.simulate(network, n_trajectories=200, duration=8.0, seed=4)
    times = np.sort(rng.uniform(0.0, 8.0, 20))
    obs = am.observe(paths, truth, times=times, seed=5)
    # the star's evidence is no bound and needs a prior to hold it
    prior = None if method == "exact" else am.GammaPrior(5.0)
    learner = am.ParameterLearner(
        network, am.Gaussian(learn=True), prior, method, n_jobs=-1, stop_gain=1e-4
    ).fit(obs)
    for node in network.nodes:
        found = learner.emission_[node]
        np.testing.assert_allclose(found.means, truth[node].means, atol=0.05)
        assert found.scale == pytest.approx(truth[node].scale, rel=0.10)
