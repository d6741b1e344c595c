"""The one rule for a prior's automatic rate, from nodes fitted alone."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.errors import ModelError
from asterism.model.priors import automatic_rate, totals_of_nodes

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
