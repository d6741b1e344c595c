"""The one rule for a prior's automatic rate, from nodes fitted alone."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.errors import ModelError
from asterism.model.priors import (
    GammaPrior,
    automatic_rate,
    rates_by_node,
    rates_by_transition,
    totals_of_nodes,
)
from tests.flat_settings import regrouped

FREE = ~np.eye(2, dtype=bool)


def rate(masks: list[np.ndarray], dwell: np.ndarray, transitions: np.ndarray) -> float:
    return automatic_rate(1.0, *totals_of_nodes(masks, dwell, transitions))


def test_all_nodes_together() -> None:
    # two states, then three: times by state, transitions by pair of states
    dwell = np.array([3.0, 5.0, 1.0, 2.0, 5.0])
    transitions = np.array([0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    masks = [FREE, ~np.eye(3, dtype=bool)]
    assert rate(masks, dwell, transitions) == pytest.approx(16.0 / 7.0)
    assert automatic_rate(5.0, np.array([8.0, 8.0]), np.array([3.0, 4.0])) == pytest.approx(80 / 7)


def test_a_node_that_runs_away_does_not_count() -> None:
    dwell = np.full(6, 5.0)
    transitions = np.zeros(12)
    transitions[[1, 5, 9]] = [2.0, 3.0, 4.0]
    assert rate([FREE] * 3, dwell, transitions) == pytest.approx(30.0 / 9.0)
    transitions[9] = 1e6
    assert rate([FREE] * 3, dwell, transitions) == pytest.approx(20.0 / 5.0)


def test_without_any_transition_one_is_counted() -> None:
    assert rate([FREE] * 2, np.full(4, 5.0), np.zeros(8)) == pytest.approx(20.0)


def test_known_inputs_do_not_count() -> None:
    dwell, transitions = np.array([4.0, 4.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(12)
    transitions[[1, 2]] = 1.0
    assert rate([FREE] * 3, dwell, transitions) == pytest.approx(4.0)


def test_time_in_states_that_are_never_left_does_not_count() -> None:
    mask = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=bool)
    moves = np.array([0.0, 4, 1, 2, 0, 0, 0, 0, 0])
    assert rate([mask], np.array([5.0, 2.0, 7.0]), moves) == pytest.approx(7.0 / 7.0)


def test_without_time_a_number_is_asked_for() -> None:
    with pytest.raises(ModelError, match="give the rate as a number"):
        automatic_rate(5.0, np.zeros(2), np.zeros(2))


def test_every_node_is_expected_to_be_as_fast_as_it_seems() -> None:
    time, moves = np.array([10.0, 40.0, 20.0]), np.array([19.0, 9.0, 22.0])
    usual = 50.0 / 70.0  # with three more transitions at this speed, each node's own
    wanted = (3.0 + moves) / (3.0 / usual + time)
    np.testing.assert_allclose(rates_by_node(3.0, time, moves), 3.0 / wanted)


def test_no_node_is_expected_to_differ_by_more_than_a_factor_of_ten() -> None:
    time, moves = np.array([1e3, 1e3, 1e3, 0.0]), np.array([1e3, 1e6, 0.0, 0.0])
    found = 1.0 / rates_by_node(1.0, time, moves)
    # the second runs away and does not count; the last cannot move
    np.testing.assert_allclose(found, [0.5 * 1001 / 501, 5.0, 0.05, 0.5], rtol=2e-3)


def test_every_transition_is_expected_to_be_as_fast_as_in_its_node() -> None:
    dwell, moves = np.array([4.0, 6.0, 3.0, 1e3, 2.0]), np.zeros(13)
    moves[[1, 2, 5, 7, 9]] = [3.0, 5.0, 2.0, 1.0, 4.0]
    found = 2.0 / rates_by_transition(2.0, np.array([1.0, 4.0]), dwell, moves, [2, 3])
    first, second = found[:4].reshape(2, 2), found[4:].reshape(3, 3)
    np.testing.assert_allclose(first[[0, 1], [1, 0]], [5.0 / 5.0, 7.0 / 7.0])
    assert second[0, 1] == pytest.approx(4.0 / (4.0 + 3.0))
    assert second[0, 2] == pytest.approx(2.0 / (4.0 + 3.0))
    assert second[1, 0] == 0.05  # 3.0/1004, but not less than a tenth of what is usual
    assert second[2, 0] == pytest.approx(2.0 / 6.0)


def test_time_counts_for_every_transition_that_may_end_it() -> None:
    mask = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=bool)
    moves = np.array([0.0, 4, 1, 2, 0, 0, 0, 0, 0])
    time, jumps = totals_of_nodes([mask], np.array([5.0, 2.0, 7.0]), moves, per_transition=True)
    assert (time[0], jumps[0]) == (12.0, 7.0)


@pytest.mark.parametrize("rate", ["by node", "auto"])
def test_the_unit_of_time_does_not_matter(rate: str) -> None:
    network = am.random_network(4, 3, max_parents=1, seed=3)
    noise = am.Gaussian((-1.5, 0.0, 1.5), 0.4)
    seen = am.observe(am.simulate(network, 6, duration=5.0, seed=1), noise, 10, seed=2)
    settings = {"prior": GammaPrior(3.0, rate), "max_parents": 0, "n_jobs": 1}
    table = seen.to_frame()
    hours = am.StructureLearner(noise, method="star", **regrouped(**settings)).fit(
        am.Observations.from_frame(table)
    )
    table["time"] *= 60.0
    minutes = am.StructureLearner(noise, method="star", **regrouped(**settings)).fit(
        am.Observations.from_frame(table)
    )
    np.testing.assert_allclose(minutes.prior_rates_, 60.0 * hours.prior_rates_, rtol=1e-6)
    assert (hours.prior_rates_.nunique() > 1) == (rate == "by node")
    assert hours.prior_.rate == pytest.approx(hours.prior_rates_.median())
