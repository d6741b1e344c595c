"""Naive mean field against a plain sweep, printed values, and the bound that it must keep."""

from __future__ import annotations

import os

import numpy as np
import pytest

import asterism as am
from asterism.engine.rules.star import solve
from asterism.exact.exact_posterior import solve as solve_exactly
from tests.agreement.test_star import assert_as_the_plain_sweep
from tests.reference.random_evidence import make_evidence, random_evidence, random_network
from tests.reference.spin_cases import RING, TREE, alternating_to_aligned, noisy_spins


@pytest.mark.parametrize("sizes", [[2, 3], [2, 2, 2], [3, 2, 2]], ids=str)
def test_every_kind_of_evidence_as_in_the_plain_sweep(sizes: list[int]) -> None:
    rng = np.random.default_rng(10 + sum(sizes))
    network = random_network(rng, sizes)
    assert_as_the_plain_sweep(network, random_evidence(rng, network), "mean_field")


@pytest.mark.parametrize(
    ("graph", "b", "excess"),
    [(TREE, 0.6, -2.7253), (TREE, 1.0, -3.6159), (RING, 0.6, -2.1172), (RING, 1.0, -1.6208)],
)
def test_distance_to_the_exact_evidence_of_aligning_spins(
    graph: dict[int, list[int]], b: float, excess: float
) -> None:
    network, evidence = alternating_to_aligned(graph, b)
    found = solve(network, evidence, method="mean_field", tolerance=1e-5)
    assert found.converged
    exact = solve_exactly(network, evidence).log_evidence
    assert found.log_evidence - exact == pytest.approx(excess, abs=2e-4)


def assert_never_above_the_exact_evidence(seeds: range) -> None:
    """Random networks of 2–5 nodes with 2–3 states, some measurements without noise."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        sizes = [int(s) for s in rng.integers(2, 4, size=rng.integers(2, 6))]
        network = random_network(rng, sizes)
        end = float(rng.uniform(0.5, 2.0))
        points = []
        for n, size in enumerate(sizes):
            for t in rng.uniform(0.0, end, size=rng.integers(0, 4)):
                values = np.log(rng.uniform(0.01, 1.0, size=size))
                if rng.random() < 0.3:
                    values = np.where(np.arange(size) == rng.integers(size), 0.0, -np.inf)
                points.append((0, n, float(t), values))
        evidence = make_evidence(sizes, [0.0], [end], points)
        found = solve(network, evidence, method="mean_field", tolerance=1e-4)
        exact = solve_exactly(network, evidence).log_evidence
        assert found.converged, f"seed {seed}: {found.stop_reason}"
        assert found.log_evidence <= exact + 1e-4 * max(1.0, abs(exact)), f"seed {seed}"


def test_a_lower_bound() -> None:
    assert_never_above_the_exact_evidence(range(60))


@pytest.mark.slow
def test_a_lower_bound_on_many_networks() -> None:
    count = 120 if os.environ.get("ASTERISM_REDUCED") else 300
    assert_never_above_the_exact_evidence(range(60, count))


@pytest.mark.smoke
def test_every_sweep_raises_the_evidence() -> None:
    """Each update maximises F over one node; the first sweep starts from nothing."""
    network, evidence = noisy_spins(RING, 1.0, n_trajectories=1)
    history = solve(network, evidence, method="mean_field", time_step=0.1).history
    assert len(history) > 3
    assert np.all(np.diff(history["log_evidence"].to_numpy()[1:5]) > -1e-9)


def test_a_transition_impossible_under_some_configuration_is_never_used() -> None:
    """b leaves 0 only while a = 1: mean field, which sees a as undecided, forbids the jump."""
    rates = {
        "a": [[-1.0, 1.0], [1.0, -1.0]],
        "b": [[[0.0, 0.0], [1.0, -1.0]], [[-2.0, 2.0], [1.0, -1.0]]],
    }
    network = am.Network({"a": [], "b": ["a"]}, rates)
    evidence = make_evidence([2, 2], [0.0], [2.0], [(0, 1, 1.0, np.log([0.4, 0.6]))])
    found = solve(network, evidence, method="mean_field")
    assert np.isfinite(found.log_evidence)
    assert found.log_evidence <= solve_exactly(network, evidence).log_evidence
    np.testing.assert_allclose(found.statistics.transitions["b"][..., 0, 1], 0.0, atol=1e-12)
    assert found.statistics.transitions["b"][..., 1, 0].sum() > 0.1
    assert np.all(np.isfinite(found.marginals().values))


def test_a_jump_that_a_doubtful_configuration_forbids_costs_nothing() -> None:
    """Jumps as good as never happen: the bound is the evidence of states that stay, on any steps.

    While b is used, the state of a that forbids its jump is pulled down without bound.
    """
    slow = np.array([[0.0, 3e-5], [3e-5, 0.0]])
    one_way = np.array([[0.0, 3e-5], [0.0, 0.0]])
    network = am.Network(
        {"c": [], "a": ["b", "c"], "b": ["a", "c"]},
        {
            "c": slow,
            "a": np.stack([np.stack([one_way, slow]), np.stack([slow, slow])]),
            "b": np.stack([np.stack([slow, slow]), np.stack([one_way, slow])]),
        },
        {"c": [0, 1], "a": [0, 1], "b": [0, 1]},
    )
    seen = {"c": [1e-6, 1.0], "a": [1.0, 1e-9], "b": [1.0, 0.02]}
    points = [(0, n, 0.6, np.log(seen[name])) for n, name in enumerate(network.nodes)]
    evidence = make_evidence([2, 2, 2], [0.0], [1.0], points)
    still = sum(np.log(0.5 * sum(values)) for values in seen.values())
    for options in ({"tolerance": 1e-3}, {"time_step": 0.5}, {"time_step": 0.1}):
        found = solve(network, evidence, method="mean_field", **options)
        assert found.log_evidence == pytest.approx(still, abs=1e-3)
