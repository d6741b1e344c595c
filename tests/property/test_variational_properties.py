"""What must hold for star and mean field on every network and every evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import asterism as am
from asterism.engine.rules.star import solve
from asterism.timeline.evidence import Evidence, subset
from tests.reference.random_evidence import make_evidence, random_evidence, random_network
from tests.reference.spin_cases import random_points
from tests.soundness import assert_same_in_another_unit, assert_sound

METHODS = ["star", "mean_field"]
cases = st.tuples(
    st.integers(0, 10_000),
    st.lists(st.integers(2, 3), min_size=1, max_size=4),
    st.sampled_from(METHODS),
)


def make(case: tuple[int, list[int], str], n_trajectories: int = 2) -> tuple[Any, Evidence, str]:
    seed, sizes, method = case
    rng = np.random.default_rng(seed)
    network = random_network(rng, sizes)
    return network, random_evidence(rng, network, n_trajectories=n_trajectories), method


@settings(max_examples=30, deadline=None)
@given(cases)
def test_marginals_sum_to_one_and_dwell_times_to_the_duration(
    case: tuple[int, list[int], str],
) -> None:
    network, evidence, method = make(case)
    posterior = solve(network, evidence, method=method)
    assert list(posterior.statistics.dwell_times) == list(network.nodes)
    assert_sound(posterior, evidence)


@settings(max_examples=20, deadline=None)
@given(cases, st.floats(1e-6, 1e6))
def test_the_unit_of_time_does_not_matter(case: tuple[int, list[int], str], unit: float) -> None:
    seed, sizes, method = case
    rng = np.random.default_rng(seed)
    network = random_network(rng, sizes)
    points = random_points(rng, sizes, 2.0)
    scaled = [(d, n, t * unit, values) for d, n, t, values in points]
    slow = network.with_rates({n: np.asarray(r) / unit for n, r in network.rates.items()})
    one = solve(network, make_evidence(sizes, [0.0], [2.0], points), method=method)
    other = solve(slow, make_evidence(sizes, [0.0], [2.0 * unit], scaled), method=method)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-7)
    assert one.n_sweeps == other.n_sweeps
    assert_same_in_another_unit(one, other, unit, rtol=1e-5)


@settings(max_examples=15, deadline=None)
@given(cases)
def test_the_number_of_threads_changes_no_bit(case: tuple[int, list[int], str]) -> None:
    network, evidence, method = make(case, n_trajectories=9)
    one = solve(network, evidence, method=method, n_jobs=1)
    two = solve(network, evidence, method=method, n_jobs=3)
    assert one.log_evidence == two.log_evidence
    assert one.converged == two.converged
    for node in network.nodes:
        for field in ("dwell_times", "transitions"):
            assert np.array_equal(
                getattr(one.statistics, field)[node], getattr(two.statistics, field)[node]
            )
    times = np.linspace(-1.0, 3.0, 7)
    assert np.array_equal(one.marginals(times).values, two.marginals(times).values)


@settings(max_examples=15, deadline=None)
@given(cases)
def test_a_trajectory_does_not_notice_the_others(case: tuple[int, list[int], str]) -> None:
    """Alone, or in any order among others: the same evidence, whatever grids the others need."""
    network, evidence, method = make(case, n_trajectories=5)
    together = solve(network, evidence, method=method, time_step=0.2)
    alone = [
        solve(network, subset(evidence, np.array([d])), method=method, time_step=0.2).log_evidence
        for d in range(5)
    ]
    np.testing.assert_array_equal(together.log_evidence_by_trajectory.to_numpy(), alone)


@settings(max_examples=15, deadline=None)
@given(cases)
def test_the_order_of_trajectories_does_not_matter(case: tuple[int, list[int], str]) -> None:
    seed, sizes, method = case
    rng = np.random.default_rng(seed)
    network = random_network(rng, sizes)
    rows = [random_points(rng, sizes, 2.0) for _ in range(4)]

    def with_order(order: list[int]) -> am.Posterior:
        points = [(i, n, t, v) for i, d in enumerate(order) for _, n, t, v in rows[d]]
        evidence = make_evidence(sizes, [0.0] * 4, [2.0] * 4, points)
        return solve(network, evidence, method=method, time_step=0.25)

    one, other = with_order([0, 1, 2, 3]), with_order([2, 0, 3, 1])
    np.testing.assert_array_equal(
        one.log_evidence_by_trajectory.to_numpy()[[2, 0, 3, 1]],
        other.log_evidence_by_trajectory.to_numpy(),
    )
    for node in network.nodes:
        np.testing.assert_allclose(
            one.statistics.transitions[node], other.statistics.transitions[node], rtol=1e-12
        )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(METHODS))
@example(522, "mean_field")
def test_names_and_order_of_nodes_do_not_matter(seed: int, method: str) -> None:
    """Sweeps go through the nodes in order; the fixed point does not depend on it.

    Mean field may have several fixed points and crawl between them (the example does): then it
    says that it has not settled. The star always settles here.
    """
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 2]
    network = random_network(rng, sizes)
    points = random_points(rng, sizes, 1.5)
    order = [2, 0, 1]
    names = [network.nodes[i] for i in order]
    turned = am.Network(
        {n: network.parents[n] for n in names},
        network.rates,
        network.states,
        network.initial,
    )
    moved = [(d, order.index(n), t, v) for d, n, t, v in points]
    settings_ = {"method": method, "time_step": 0.1, "tolerance": 1e-7}
    one = solve(network, make_evidence(sizes, [0.0], [1.5], points), **settings_)
    other = solve(
        turned, make_evidence([sizes[i] for i in order], [0.0], [1.5], moved), **settings_
    )
    if method == "mean_field" and not (one.converged and other.converged):
        unsettled = one if not one.converged else other
        assert "max_sweeps" in unsettled.stop_reason
        return
    assert one.converged, one.stop_reason
    assert other.converged, other.stop_reason
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
