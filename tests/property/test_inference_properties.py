"""What must hold for every network and every evidence."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import asterism as am
from asterism.exact.exact_posterior import solve
from tests.reference.random_evidence import random_evidence, random_network
from tests.soundness import assert_same_in_another_unit, assert_sound

networks = st.tuples(
    st.integers(0, 10_000), st.lists(st.integers(2, 3), min_size=1, max_size=3)
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(networks)
def test_rows_of_the_joint_generator_sum_to_zero(case: tuple[int, list[int]]) -> None:
    seed, sizes = case
    network = random_network(np.random.default_rng(seed), sizes)
    generator = network.joint_generator()
    rows = np.asarray(generator.sum(axis=1)).ravel()
    np.testing.assert_allclose(rows, 0.0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(networks)
def test_marginals_sum_to_one_and_dwell_times_to_the_duration(case: tuple[int, list[int]]) -> None:
    seed, sizes = case
    rng = np.random.default_rng(seed)
    network = random_network(rng, sizes)
    evidence = random_evidence(rng, network)
    posterior = solve(network, evidence)
    assert list(posterior.statistics.dwell_times) == list(network.nodes)
    assert_sound(posterior, evidence)


@settings(max_examples=20, deadline=None)
@given(networks, st.floats(1e-6, 1e6))
def test_the_unit_of_time_does_not_matter(case: tuple[int, list[int]], unit: float) -> None:
    """Times × c and rates / c: the same evidence and jumps, dwell times × c."""
    seed, sizes = case
    network = random_network(np.random.default_rng(seed), sizes)
    paths = am.simulate(network, 3, duration=2.0, seed=seed)
    emission = am.Categorical([[0.9, 0.1], [0.1, 0.9]]) if set(sizes) == {2} else am.Exact()
    observations = am.observe(paths, emission, n_observations=4, seed=seed)
    slow = network.with_rates({n: np.asarray(r) / unit for n, r in network.rates.items()})
    one = am.infer(network, observations, emission, method="exact")
    other = am.infer(slow, observations.scale_time(unit), emission, method="exact")
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-8, atol=1e-8)
    assert_same_in_another_unit(one, other, unit, rtol=1e-6)
