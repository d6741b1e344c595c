"""The time scale of the automatic prior, from nodes fitted alone."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.learning.search.single_nodes import usual_waiting_time


def test_all_nodes_together() -> None:
    # two states, then three: times by state, transitions by pair of states
    dwell = np.array([3.0, 5.0, 1.0, 2.0, 5.0])
    transitions = np.array([0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    assert usual_waiting_time([2, 3], dwell, transitions) == pytest.approx(16.0 / 7.0)


def test_a_node_that_runs_away_does_not_count() -> None:
    dwell = np.full(6, 5.0)
    transitions = np.zeros(12)
    transitions[[1, 5, 9]] = [2.0, 3.0, 4.0]
    usual = usual_waiting_time([2, 2, 2], dwell, transitions)
    assert usual == pytest.approx(30.0 / 9.0)
    transitions[9] = 1e6
    assert usual_waiting_time([2, 2, 2], dwell, transitions) == pytest.approx(20.0 / 5.0)


def test_without_any_transition_one_is_counted() -> None:
    assert usual_waiting_time([2, 2], np.full(4, 5.0), np.zeros(8)) == pytest.approx(20.0)


def test_known_inputs_do_not_count() -> None:
    dwell, transitions = np.array([4.0, 4.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(12)
    transitions[[1, 2]] = 1.0
    assert usual_waiting_time([2, 2, 2], dwell, transitions) == pytest.approx(4.0)
    assert usual_waiting_time([2], np.zeros(2), np.zeros(4)) == 0.0
