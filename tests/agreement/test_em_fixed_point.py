"""EM ends where a plain maximiser of the plain likelihood ends, and gets there uphill.

The reference: joint generator and likelihoods of tests/reference/joint_chain.py, one matrix
exponential per gap, and scipy.optimize on the logarithms of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.stats import norm

import asterism as am
from asterism.timeline.build import build_evidence
from tests.reference.joint_chain import ReferenceChain

FloatArray = np.ndarray[Any, Any]
NOISE = am.Gaussian(means=(-1, 1), scale=0.5)
PRIOR = am.GammaPrior(3.0, 2.0)
BINARY = np.array([[0, 1], [1, 0]], dtype=bool)
FORWARD = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
METHODS = ["exact", "star", "mean_field"]


def lead_and_follow() -> am.Network:
    return am.Network(
        {"A": [], "B": ["A"]},
        {"A": [[0, 0.5], [0.8, 0]], "B": [[[0, 0.3], [1.5, 0]], [[0, 2.0], [0.4, 0]]]},
    )


def both_ways() -> am.Network:
    return am.Network(
        {"A": ["B"], "B": ["A"]},
        {
            "A": [[[0, 0.4], [1.2, 0]], [[0, 1.0], [0.5, 0]]],
            "B": [[[0, 0.3], [1.5, 0]], [[0, 1.7], [0.6, 0]]],
        },
    )


def progressive() -> am.Network:
    """B climbs three steps and never returns, faster where A is on."""
    slow, fast = 0.3 * FORWARD, 1.0 * FORWARD
    return am.Network({"A": [], "B": ["A"]}, {"A": [[0, 0.5], [0.8, 0]], "B": [slow, fast]})


def seen(network: am.Network, emission: Any, n: int = 30) -> am.Observations:
    paths = am.simulate(network, n_trajectories=n, duration=6.0, seed=1)
    # the same times for all, so that the plain version has few exponentials to compute
    return am.observe(paths, emission, times=[0.0, 0.3, 0.9, 1.2, 2.4, 3.1, 4.4, 5.5], seed=2)


@dataclass
class PlainLikelihood:
    """ln P(Y) of a network in which only rates change; every gap by scipy's expm."""

    chain: ReferenceChain
    likelihoods: FloatArray
    """(trajectory, moment, joint state)"""
    gaps: FloatArray
    """Between moments, the same for every trajectory."""

    @classmethod
    def of(cls, network: am.Network, obs: am.Observations, emission: Any) -> PlainLikelihood:
        chain = ReferenceChain(network, build_evidence(network, obs, emission))
        times = chain.instants(0, [])
        assert all(chain.instants(d, []) == times for d in range(obs.n_trajectories))
        seen_as = [[chain.likelihood(d, t) for t in times] for d in range(obs.n_trajectories)]
        return cls(chain, np.array(seen_as), np.diff(times))

    def __call__(self, network: am.Network) -> float:
        self.chain.network = network
        generator = self.chain.generator({})
        alpha = self.chain.initial() * self.likelihoods[:, 0]
        for k, gap in enumerate(self.gaps):
            alpha = (alpha @ expm(gap * generator)) * self.likelihoods[:, k + 1]
        return float(np.log(alpha.sum(axis=1)).sum())


def with_rates(network: am.Network, masks: dict[str, FloatArray], rates: FloatArray) -> am.Network:
    """The network with new rates where the masks allow, in the order of nodes and tables."""
    tables, used = {}, 0
    for node in network.nodes:
        table = np.zeros(np.shape(network.rates[node]))
        where = np.broadcast_to(masks[node], table.shape)
        count = int(where.sum())
        table[where] = rates[used : used + count]
        used += count
        tables[node] = table
    return am.Network(network.parents, tables, network.states, network.initial)


def free_rates(network: am.Network, masks: dict[str, FloatArray]) -> FloatArray:
    return np.concatenate(
        [network.rates[n][np.broadcast_to(masks[n], network.rates[n].shape)] for n in network.nodes]
    )


def highest(
    objective: Callable[[FloatArray], float], start: FloatArray
) -> tuple[FloatArray, float]:
    """Where the objective is largest and how large, by BFGS with central differences."""

    def gradient(x: FloatArray) -> FloatArray:
        steps = 1e-5 * np.eye(len(x))
        return np.array([objective(x - h) - objective(x + h) for h in steps]) / 2e-5

    found = minimize(lambda x: -objective(x), start, jac=gradient, options={"gtol": 1e-5})
    assert np.abs(gradient(found.x)).max() < 1e-3
    return found.x, -found.fun


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["likelihood", "mode"])
@pytest.mark.parametrize(
    ("network", "masks"),
    [
        (lead_and_follow(), {"A": BINARY, "B": BINARY}),
        (both_ways(), {"A": BINARY, "B": BINARY}),
        (progressive(), {"A": BINARY, "B": FORWARD}),
    ],
    ids=["one way", "both ways", "progressive"],
)
def test_same_maximum_as_a_plain_maximiser(
    network: am.Network, masks: dict[str, FloatArray], prior: am.GammaPrior | None
) -> None:
    emission = {
        n: am.Gaussian(tuple(2.0 * np.arange(len(network.states[n])) - 1.0), 0.5)
        for n in network.nodes
    }
    obs = seen(network, emission)
    learner = am.ParameterLearner(
        network,
        emission,
        prior,
        "exact",
        initial="uniform",
        allowed_transitions=masks,
        map=prior is not None,
        stop_gain=1e-9,
    ).fit(obs)
    assert learner.converged_
    plain = PlainLikelihood.of(network, obs, emission)

    def objective(log_rates: FloatArray) -> float:
        value = plain(with_rates(network, masks, np.exp(log_rates)))
        if prior is not None:  # the density of R, though the search is in ln R
            value += np.sum((prior.shape - 1.0) * log_rates - prior.rate * np.exp(log_rates))
        return value

    top, value = highest(objective, np.zeros(len(free_rates(network, masks))))
    np.testing.assert_allclose(free_rates(learner.network_, masks), np.exp(top), rtol=1e-4)
    assert learner.history_.objective.iloc[-1] == pytest.approx(value, abs=5e-6)
    assert learner.log_evidence_ == pytest.approx(plain(learner.network_), abs=5e-6)


def test_same_maximum_with_emissions_and_start_learned() -> None:
    """One node: rates, start, two means and a scale together."""
    network = am.Network({"A": []}, {"A": [[0, 0.5], [0.8, 0]]})
    paths = am.simulate(network, n_trajectories=40, duration=6.0, seed=3)
    times = np.linspace(0.0, 6.0, 10)
    obs = am.observe(paths, NOISE, times=times, seed=4)
    learner = am.ParameterLearner(
        network, am.Gaussian(learn=True), method="exact", stop_gain=1e-9
    ).fit(obs)
    values = obs.to_frame().pivot(index="trajectory", columns="time", values="A").to_numpy()
    gap = times[1] - times[0]

    def log_likelihood(x: FloatArray) -> float:
        (up, down), start, means, scale = np.exp(x[:2]), x[2], x[3:5], np.exp(x[5])
        first = np.array([1.0, np.exp(start)]) / (1.0 + np.exp(start))
        step = expm(gap * np.array([[-up, up], [down, -down]]))
        density = norm.pdf(values[..., None], means, scale)
        alpha = first * density[:, 0]
        for k in range(1, len(times)):
            alpha = (alpha @ step) * density[:, k]
        return float(np.log(alpha.sum(axis=1)).sum())

    top, value = highest(log_likelihood, np.array([0.0, 0.0, 0.0, -1.0, 1.0, -1.0]))
    found = learner.emission_["A"]
    np.testing.assert_allclose(learner.network_.rates["A"][[0, 1], [1, 0]], np.exp(top[:2]), 1e-4)
    np.testing.assert_allclose(found.means, top[3:5], rtol=1e-4)
    assert found.scale == pytest.approx(np.exp(top[5]), rel=1e-4)
    odds = learner.network_.initial["A"][1] / learner.network_.initial["A"][0]
    assert odds == pytest.approx(np.exp(top[2]), rel=1e-3)
    assert learner.log_evidence_ == pytest.approx(value, abs=5e-6)


def test_rates_are_expected_transitions_per_expected_time() -> None:
    """The M-step leaves the estimate where it is; statistics from the plain joint chain."""
    network = both_ways()
    obs = seen(network, NOISE)
    learner = am.ParameterLearner(
        network, NOISE, method="exact", initial="uniform", stop_gain=1e-9
    ).fit(obs)
    chain = ReferenceChain(learner.network_, build_evidence(learner.network_, obs, NOISE))
    solved = [chain.solve(d) for d in range(obs.n_trajectories)]
    for n, node in enumerate(network.nodes):
        moves = sum(s["transitions"][n] for s in solved)
        dwell = sum(s["dwell_times"][n] for s in solved)
        expected = (moves / dwell[..., None])[:, BINARY]
        np.testing.assert_allclose(learner.network_.rates[node][:, BINARY], expected, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior", [None, am.GammaPrior(2.0)], ids=["likelihood", "prior"])
@pytest.mark.filterwarnings("ignore:Stopped")  # the star without a prior may have no maximum
def test_rates_outside_the_mask_stay_zero(method: str, prior: am.GammaPrior | None) -> None:
    network = progressive()
    emission = {"A": NOISE, "B": am.Gaussian((-1, 1, 3), 0.5)}
    learner = am.ParameterLearner(
        network, emission, prior, method, allowed_transitions={"B": FORWARD}
    ).fit(seen(network, emission))
    found = learner.network_.rates["B"]
    closed = ~FORWARD & ~np.eye(3, dtype=bool)
    assert (found[:, closed] == 0.0).all()
    assert (found[:, FORWARD] > 0.0).all()
    assert (found[:, 2] == 0.0).all()  # no way out of the last state, whatever the prior
    assert (learner.statistics_.transitions["B"][:, closed] == 0.0).all()
    assert len(learner.rate_intervals_.query("node == 'B'")) == 4


@pytest.mark.parametrize("method", ["exact", "mean_field"])
@pytest.mark.parametrize("prior", [None, PRIOR], ids=["likelihood", "mode"])
def test_the_objective_never_falls(method: str, prior: am.GammaPrior | None) -> None:
    network = both_ways()
    learner = am.ParameterLearner(
        network, NOISE, prior, method, map=prior is not None, stop_gain=1e-4
    ).fit(seen(network, NOISE))
    assert learner.converged_
    history = learner.history_
    if "grid" not in history:
        history = history.assign(grid="none")
    assert (history.step == "em").sum() >= 3
    for _, part in history.groupby("grid"):  # another grid is another function
        size = np.abs(part.objective).max()
        assert (np.diff(part.objective) >= -1e-9 * size).all()
    assert history.objective.iloc[-1] > history.objective.iloc[0] + 1.0
