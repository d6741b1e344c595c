"""Kalman smoothing and simulation of continuous networks against the joint normal distribution."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.continuous.kalman import smooth
from asterism.continuous.network import drift_matrix, start
from asterism.continuous.simulate import simulate
from asterism.errors import DataError, ModelError
from asterism.model.drift import Drift
from tests.drift_network import JumpRates, drift_network
from tests.reference.continuous_network import conditioned, joint_normal

LOOP = drift_network(
    {
        "A": Drift(0.5, 0.4, 1.0, {"C": -0.3}, start_mean=1.0, start_sd=0.5, noise_sd=0.2),
        "B": Drift(0.8, 0.6, 0.2, {"A": 0.7}, noise_sd=0.1),
        "C": Drift(0.3, 0.5, 0.0, {"B": 0.4, "A": -0.2}, noise_sd=0.3),
    }
)
TIMES = np.array([0.0, 0.3, 0.9, 2.0, 2.0 + 1e-3, 4.5])


def as_normal(network: am.Network, times: np.ndarray):
    diffusion = np.array([d.diffusion for d in network.drifts.values()])
    return joint_normal(*drift_matrix(network), diffusion, *start(network), times)


def test_smoothing_and_evidence_as_of_the_joint_normal() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(len(TIMES), 3))
    values[rng.random(values.shape) < 0.4] = np.nan
    values[2] = np.nan
    noise = np.tile([d.noise_sd**2 for d in LOOP.drifts.values()], len(TIMES))
    mean, covariance, evidence = conditioned(*as_normal(LOOP, TIMES), noise, values.ravel())
    found = smooth(LOOP, TIMES, values)
    assert found.log_evidence == pytest.approx(evidence, abs=1e-6)
    assert found.mean.ravel() == pytest.approx(mean, abs=1e-6)
    for i in range(len(TIMES)):
        own = covariance[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]
        assert found.covariance[i] == pytest.approx(own, abs=1e-6)


def test_exact_paths_have_the_moments_of_the_joint_normal() -> None:
    paths = simulate(LOOP, TIMES[[0, 2, 5]], 4000, seed=3)
    mean, covariance = as_normal(LOOP, TIMES[[0, 2, 5]])
    flat = paths.reshape(4000, -1)
    error = np.sqrt(np.diag(covariance) / 4000)
    assert (np.abs(flat.mean(axis=0) - mean) < 5 * error).all()
    spread = np.cov(flat.T) - covariance
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / 4000)
    assert (np.abs(spread) < 5 * scale).all()


def test_stepped_paths_agree_with_exact_ones() -> None:
    other = drift_network(LOOP.drifts, {"idle": JumpRates([[0, 1.0], [1.0, 0]])})
    times = np.array([0.0, 1.5])
    stepped = simulate(other, times, 1500, seed=1)[:, 1, :3]
    mean, covariance = as_normal(LOOP, times)
    error = np.sqrt(np.diag(covariance)[3:] / 1500)
    assert (np.abs(stepped.mean(axis=0) - mean[3:]) < 5 * error + 0.02).all()
    assert np.cov(stepped.T) == pytest.approx(covariance[3:, 3:], abs=0.12)


def test_same_seed_same_paths() -> None:
    a, b = (simulate(LOOP, TIMES, 3, seed=7) for _ in range(2))
    assert (a == b).all()
    assert not (simulate(LOOP, TIMES, 3, seed=8) == a).all()


def test_a_jumping_node_follows_its_continuous_parent() -> None:
    mixed = drift_network(
        {"x": Drift(0.5, 0.01, 1.0, start_mean=2.0, start_sd=0.01)},
        {"s": JumpRates([[0.0, 0.5], [0.0, 0.0]], {"x": 1.0})},
    )
    paths = simulate(mixed, [0.0, 0.1], 6000, seed=2)
    began = paths[:, 0, 1] == 0
    share = paths[began, 1, 1].mean()
    expected = 1 - np.exp(-0.5 * np.exp(2.0) * 0.1)
    assert share == pytest.approx(expected, abs=5 * np.sqrt(0.25 / began.sum()))


def test_learning_recovers_a_simulated_network() -> None:
    mixed = am.Network(
        {"A": ["S"], "B": ["A"], "S": []},
        {"S": [[0, 0.2], [0.2, 0]]},
        {"S": ["off", "on"]},
        drifts={
            "A": Drift(0.4, 0.6, shifts={"S": (-0.6, 0.6)}, noise_sd=0.05),
            "B": Drift(0.5, 0.4, linear={"A": 0.6}, noise_sd=0.05),
        },
    )
    paths = am.simulate(mixed, 6, duration=25.0, seed=4)
    seen = am.observe(paths, times=np.arange(0.0, 25.0), seed=5)
    kinds = {"A": am.Continuous(), "B": am.Continuous(), "S": am.Exact()}
    found = am.StructureLearner(kinds, n_jobs=1).fit(seen).edge_probabilities_
    assert found.loc["S", "A"] > 0.5
    assert found.loc["A", "B"] > 0.5
    assert found.loc["B", "A"] < 0.5


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ModelError, match="positive"):
        drift_network({"A": Drift(0.0, 1.0)})
    with pytest.raises(ModelError, match="'B'"):
        drift_network({"A": Drift(1.0, 1.0, linear={"B": 1.0})})
    curved = drift_network({"A": Drift(1.0, 1.0), "B": Drift(1.0, 1.0, quadratic={"A": 0.1})})
    with pytest.raises(ModelError, match="linear"):
        smooth(curved, TIMES, np.zeros((len(TIMES), 2)))
    with pytest.raises(DataError, match="ascend"):
        smooth(LOOP, TIMES[::-1], np.zeros((len(TIMES), 3)))


def pair() -> am.Network:
    return am.Network(
        {"B": ["A"], "A": []},
        drifts={
            "A": Drift(0.5, 0.4, 1.0, start_mean=2.0, start_sd=0.5, noise_sd=0.2),
            "B": Drift(0.8, 0.6, 0.2, {"A": 0.7}, noise_sd=0.1),
        },
    )


def test_a_network_is_simulated_measured_and_inferred() -> None:
    network = pair()
    paths = am.simulate(network, 100, duration=6.0, seed=1)
    again = am.simulate(network, 100, duration=6.0, seed=1)
    assert paths.to_frame().equals(again.to_frame())
    seen = am.observe(paths, n_observations=7, missing=0.3, seed=2, per_node=True)
    times = np.array([0.0, 2.9, 6.0, 7.5])
    found = am.infer(network, seen)
    post = found.marginals(times)
    assert post.dims == ("trajectory", "time", "node", "quantity")
    # the truth lies where the posterior says, of the nodes in the network's order
    index = [int(np.argmin(np.abs(paths.times - t))) for t in times[:3]]
    truth = paths.values[:, index]
    mean, sd = (post.sel(quantity=name).to_numpy()[:, :3] for name in ("mean", "sd"))
    z = (truth - mean) / sd
    assert np.abs(z.mean()) < 0.15
    assert z.std() == pytest.approx(1.0, abs=0.1)
    # and the true numbers have more evidence than others
    other = am.Network(
        network.parents,
        drifts={**network.drifts, "B": Drift(0.8, 0.6, 0.9, {"A": 0.2}, noise_sd=0.1)},
    )
    assert found.log_evidence > am.infer(other, seen).log_evidence + 10


def test_evidence_of_a_trajectory_as_of_the_joint_normal() -> None:
    network = pair()
    seen = am.observe(am.simulate(network, 1, duration=4.0, seed=3), n_observations=5, seed=4)
    frame = seen.to_frame()
    times = np.concatenate([[0.0], frame["time"].to_numpy()])
    values = np.vstack([[np.nan, np.nan], frame[["A", "B"]].to_numpy()])
    drifts = drift_network({name: network.drifts[name] for name in "AB"})
    noise = np.tile([0.2**2, 0.1**2], len(times))
    *_, evidence = conditioned(*as_normal(drifts, times), noise, values.ravel())
    assert am.infer(network, seen).log_evidence == pytest.approx(evidence, abs=1e-6)


def test_what_cannot_be_simulated_or_inferred_is_said() -> None:
    network = pair()
    with pytest.raises(DataError, match="duration"):
        am.simulate(network, 1, n_transitions=3)
    grows = am.Network(
        {"A": ["B"], "B": ["A"]},
        drifts={"A": Drift(0.1, 1.0, linear={"B": 50.0}), "B": Drift(0.1, 1.0, linear={"A": 50.0})},
    )
    with pytest.raises(ModelError, match="bounds"):
        am.simulate(grows, 1, duration=100.0, seed=0)
    seen = am.observe(am.simulate(network, 1, duration=4.0, seed=3), n_observations=5, seed=4)
    with pytest.raises(DataError, match="no numbers"):
        am.infer(network, am.Observations.from_frame(seen.to_frame().assign(A="high")))
    with pytest.raises(ModelError, match="parents are"):
        am.Network(
            {"A": [], "B": []},
            drifts={"A": Drift(1.0, 1.0), "B": Drift(1.0, 1.0, linear={"A": 0.1})},
        )
