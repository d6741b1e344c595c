"""One node seen all the time, the rest at noisy points: exact answers equal brute force."""

import numpy as np
import pytest

import asterism as am
from asterism.timeline.build import build_evidence
from tests.reference.joint_chain import ReferenceChain

EMISSION = {"A": am.Gaussian((-1, 1), 0.6), "C": am.Gaussian((-1, 1), 0.6)}


@pytest.fixture(scope="module")
def network() -> am.Network:
    rng = np.random.default_rng(4)

    def table(*shape):
        return rng.gamma(2.0, 0.4, size=(*shape, 2, 2)) * (1 - np.eye(2))

    parents = {"A": ["C"], "B": ["A"], "C": ["B", "A"]}
    rates = {"A": table(2), "B": table(2), "C": table(2, 2)}
    return am.Network(parents, rates)


@pytest.fixture(scope="module")
def observations(network) -> am.Observations:
    paths = am.simulate(network, n_trajectories=12, duration=2.0, seed=1)
    return am.observe(paths, EMISSION, n_observations=3, seed=2, known=["B"])


def brute_force(network, observations):
    evidence = build_evidence(network, observations, EMISSION)
    chain = ReferenceChain(network, evidence)
    return [chain.solve(d) for d in range(evidence.n_trajectories)]


def test_evidence_and_statistics(network, observations):
    posterior = am.infer(network, observations, EMISSION, method="exact")
    expected = brute_force(network, observations)
    np.testing.assert_allclose(
        posterior.log_evidence_by_trajectory, [e["log_evidence"] for e in expected], rtol=1e-9
    )
    for n, node in enumerate(network.nodes):
        dwell = sum(e["dwell_times"][n] for e in expected)
        moves = sum(e["transitions"][n] for e in expected)
        np.testing.assert_allclose(posterior.statistics.dwell_times[node], dwell, rtol=1e-8)
        np.testing.assert_allclose(posterior.statistics.transitions[node], moves, rtol=1e-8)


def test_learned_rates_are_the_fixed_point_of_brute_force_em(network, observations):
    prior = am.GammaPrior(shape=2.0, rate=3.0)
    learner = am.ParameterLearner(
        network, EMISSION, prior=prior, method="exact", initial="uniform", stop_gain=1e-12
    ).fit(observations)
    expected = brute_force(learner.network_, observations)
    assert learner.log_evidence_ == pytest.approx(
        sum(e["log_evidence"] for e in expected), rel=1e-10
    )
    off = ~np.eye(2, dtype=bool)
    for n, node in enumerate(network.nodes):
        dwell = sum(e["dwell_times"][n] for e in expected)
        moves = sum(e["transitions"][n] for e in expected)
        again = (moves + 2.0) / (dwell[..., None] + 3.0)
        found = learner.network_.rates[node]
        np.testing.assert_allclose(found[..., off], again[..., off], rtol=1e-5)


def test_everything_seen_gives_counts_divided_by_times(network):
    paths = am.simulate(network, n_trajectories=30, duration=4.0, seed=3)
    counted = paths.statistics(network)
    for method in ("exact", "star", "mean_field"):
        learner = am.ParameterLearner(network, method=method).fit(paths)
        for node in network.nodes:
            rates = learner.network_.rates[node]
            moves, dwell = counted.transitions[node], counted.dwell_times[node]
            off = ~np.eye(2, dtype=bool)
            expected = moves / dwell[..., None]
            np.testing.assert_allclose(rates[..., off], expected[..., off], rtol=1e-6)
