"""Clusters against exact inference: one cluster is exact, several are close."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import asterism as am
from asterism.engine.rules.clusters import solve
from asterism.errors import AsterismError, DataError, TooLargeError
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.inference.posterior import Posterior
from asterism.timeline.evidence import Evidence, JointMeasurement
from tests.reference.random_evidence import make_evidence, random_evidence, random_network
from tests.reference.spin_cases import (
    RING,
    TREE,
    alternating_to_aligned,
    noisy_spins,
    random_points,
)


def largest_differences(network: am.Network, found: Posterior, expected: Posterior) -> list[float]:
    """Of the evidence per trajectory, and of the statistics of all nodes that are not given."""
    worst = [
        float(np.abs(found.log_evidence_by_trajectory - expected.log_evidence_by_trajectory).max())
    ]
    for field in ("dwell_times", "transitions"):
        own = [
            np.abs(
                getattr(found.statistics, field)[n] - getattr(expected.statistics, field)[n]
            ).max()
            for n in network.nodes
            if n not in network.exogenous
        ]
        worst.append(float(max(own)))
    return worst


@pytest.mark.parametrize("sizes", [[3], [2, 3], [2, 2, 2], [3, 2, 2], [2, 2, 3, 2]], ids=str)
@pytest.mark.parametrize("with_input", [False, True])
def test_one_cluster_is_exact_for_every_kind_of_evidence(
    sizes: list[int], with_input: bool
) -> None:
    rng = np.random.default_rng(sum(sizes) + with_input)
    exogenous = (0,) if with_input and len(sizes) > 1 else ()
    network = random_network(rng, sizes, exogenous=exogenous)
    evidence = random_evidence(rng, network)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, cluster_size=len(sizes))
    assert max(largest_differences(network, found, expected)) < 1e-9
    times = np.linspace(evidence.start.min() - 0.1, evidence.end.max() + 0.7, 9)
    np.testing.assert_allclose(found.marginals(times), expected.marginals(times), atol=1e-9)


@pytest.mark.smoke
@pytest.mark.parametrize("graph", [TREE, RING], ids=["tree", "ring"])
def test_without_coupling_everything_is_exact(graph: dict[int, list[int]]) -> None:
    network, evidence = noisy_spins(graph, b=0.0)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, tolerance=1e-5)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    assert max(largest_differences(network, found, expected)) < 1e-6


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("time_step", [0.02, 1e6])
def test_a_single_node_is_exact_at_any_step(size: int, time_step: float) -> None:
    rng = np.random.default_rng(size)
    rates = np.exp(rng.uniform(np.log(0.1), np.log(20.0), size=(size, size)))
    network = am.Network({"a": []}, {"a": rates * (1 - np.eye(size))})
    exact_zero = np.where(np.arange(size) == 0, 0.0, -np.inf)
    points = [*random_points(rng, [size], 4.0, 3), (0, 0, 0.0, exact_zero)]
    evidence = make_evidence([size], [0.0], [5.0], points)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, time_step=time_step)
    assert max(largest_differences(network, found, expected)) < 1e-9


@pytest.mark.parametrize("graph", [TREE, RING], ids=["tree", "ring"])
@pytest.mark.parametrize("b", [0.2, 0.8])
def test_spins_on_tree_and_ring(graph: dict[int, list[int]], b: float) -> None:
    network, evidence = alternating_to_aligned(graph, b)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, tolerance=1e-4)
    assert found.converged
    assert abs(found.log_evidence - expected.log_evidence) <= 0.01
    times = np.linspace(0.0, 1.0, 21)
    difference = np.abs(found.marginals(times) - expected.marginals(times))
    assert float(difference.max()) <= 0.001
    moved = total = 0.0
    for n in network.nodes:
        exact = expected.statistics.transitions[n]
        moved += float(np.abs(found.statistics.transitions[n] - exact).sum())
        total += float(exact.sum())
    assert moved / total <= 0.01


@pytest.mark.parametrize("seed", [4, 9])
def test_families_with_every_kind_of_evidence_are_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, [2, 2, 3, 2])
    evidence = random_evidence(rng, network)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, cluster_size=1)
    assert len(found.courses.clusters) > 1  # type: ignore[attr-defined]
    assert max(largest_differences(network, found, expected)) < 0.003


def test_the_number_of_threads_does_not_matter() -> None:
    network, evidence = noisy_spins(TREE, n_trajectories=3)
    one, two = (solve(network, evidence, n_jobs=n) for n in (1, 2))
    assert one.log_evidence == two.log_evidence
    for n in network.nodes:
        np.testing.assert_array_equal(one.statistics.transitions[n], two.statistics.transitions[n])


def test_bad_cases_end_in_a_sentence() -> None:
    network, evidence = noisy_spins(TREE, n_trajectories=1)
    with pytest.raises(AsterismError, match="cluster_size is 0"):
        solve(network, evidence, cluster_size=0)
    with pytest.raises(TooLargeError, match="above the limit of 2"):
        solve(network, evidence, state_limit=2)
    rates = {"a": np.array([[0.0, 1.0], [0.0, 0.0]]), "b": np.zeros((2, 2, 2))}
    rates["b"][1, 0, 1] = 1.0
    absorbing = am.Network(
        {"a": [], "b": ["a"], "c": ["b"]}, {**rates, "c": np.ones((2, 2, 2)) - np.eye(2)}
    )
    on, off = np.array([-np.inf, 0.0]), np.array([0.0, -np.inf])
    wrong = make_evidence([2, 2, 2], [0.0], [1.0], [(0, 0, 0.2, on), (0, 0, 0.8, off)])
    with pytest.raises(DataError, match="impossible"):
        solve(absorbing, wrong)
    # b can only rise after a has
    points = [(0, 0, 1.0, off), (0, 1, 0.0, off), (0, 1, 1.0, on)]
    with pytest.raises(DataError, match="impossible"):
        solve(absorbing, make_evidence([2, 2, 2], [0.0], [1.0], points), cluster_size=1)


def test_strong_coupling_settles_or_says_so() -> None:
    network, evidence = alternating_to_aligned(RING, 3.0)
    found = solve(network, evidence, max_sweeps=60)
    assert np.isfinite(found.log_evidence)
    assert found.converged or "not converged" in found.stop_reason


def test_absorbing_states_as_exactly() -> None:
    rates = {"a": np.array([[0.0, 1.0], [0.0, 0.0]]), "b": np.zeros((2, 2, 2))}
    rates["b"][1, 0, 1] = 1.0
    network = am.Network(
        {"a": [], "b": ["a"], "c": ["b"]}, {**rates, "c": np.ones((2, 2, 2)) - np.eye(2)}
    )
    on, off = np.array([-np.inf, 0.0]), np.array([0.0, -np.inf])
    points = [(0, 0, 0.0, off), (0, 1, 1.0, on), (0, 2, 1.0, np.log([0.3, 0.7]))]
    evidence: Evidence = make_evidence([2, 2, 2], [0.0], [2.0], points)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, cluster_size=1, tolerance=1e-4)
    assert found.converged
    assert max(largest_differences(network, found, expected)) < 0.01


def test_joint_probabilities_of_two_nodes() -> None:
    """Against exact inference; those in turn against measurements of both nodes at once."""
    rng = np.random.default_rng(4)
    network = random_network(rng, [2, 2, 3, 2])
    evidence = random_evidence(rng, network, ("points", "spans"), n_trajectories=1)
    exact = solve_exactly(network, evidence)
    found = solve(network, evidence, cluster_size=1)
    times = [float(evidence.start[0]) + 0.3, float(evidence.end[0]), float(evidence.end[0]) + 0.5]
    pair = found.courses.clusters[0][:2]  # type: ignore[attr-defined]
    expected = exact.joint_marginals(pair, times)
    assert expected.dims == ("trajectory", "time", *pair)
    np.testing.assert_allclose(expected.sum(pair), 1.0, atol=1e-10)
    np.testing.assert_allclose(found.joint_marginals(pair, times), expected, atol=0.003)
    # P(x, y at t | Y) = P(Y, x, y at t) / P(Y)
    a, b = (network.node_index(n) for n in pair)
    indicator = np.full((len(network.states[pair[0]]), len(network.states[pair[1]])), -np.inf)
    indicator[1, 0] = 0.0
    more = replace(evidence, joint=(JointMeasurement(0, times[0], (a, b), indicator),))
    ratio = np.exp(solve_exactly(network, more).log_evidence - exact.log_evidence)
    assert float(expected[0, 0, 1, 0]) == pytest.approx(ratio, abs=1e-9)
    marginal = exact.marginals(times).sel(node=pair[0]).to_numpy()
    size = expected.sizes[pair[0]]
    np.testing.assert_allclose(expected.sum(pair[1]), marginal[..., :size], atol=1e-9)
    with pytest.raises(AsterismError, match="No cluster holds"):
        found.joint_marginals(network.nodes, times)
    found.courses = object()  # type: ignore[assignment]
    with pytest.raises(AsterismError, match="does not know joint"):
        found.joint_marginals(pair)


def test_paths_hold_the_evidence_and_reproduce_the_marginals() -> None:
    rng = np.random.default_rng(4)
    network = random_network(rng, [2, 2, 3, 2])
    evidence = random_evidence(rng, network, n_trajectories=1)
    found = solve(network, evidence, cluster_size=1, tolerance=1e-2)
    draws = found.sample(300, seed=1)
    again = found.sample(300, seed=1)
    np.testing.assert_array_equal(draws.jump_time, again.jump_time)
    counts = np.zeros((network.n_nodes, 3))
    at = float(evidence.start[0]) + 0.6 * float(evidence.end[0] - evidence.start[0])
    for i in range(300):
        state = draws.initial[i].copy()
        rows = slice(draws.jump_offset[i], draws.jump_offset[i + 1])
        moves = zip(draws.jump_time[rows], draws.jump_node[rows], draws.jump_state[rows])
        for time, node, to in moves:
            assert state[node] != to
            if time <= at:
                state[node] = to
            else:
                break
        counts[np.arange(network.n_nodes), state] += 1.0
    expected = found.marginals([at]).to_numpy()[0, 0]
    np.testing.assert_allclose(counts / 300, expected, atol=0.1)
    for i, (node, time, to) in enumerate(
        zip(evidence.jumps.node, evidence.jumps.time, evidence.jumps.to_state)
    ):
        same = (draws.jump_node == node) & (draws.jump_time == time)
        assert same.sum() == 300, i
        assert (draws.jump_state[same] == to).all()
