"""The timeline: what applies to which node, until when, in the order of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asterism.timeline.evidence import Evidence, JointMeasurement, Spans, subset
from asterism.timeline.timeline import (
    EVENT,
    FIRST,
    HELD,
    IS_SET,
    JOINT,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    OTHER,
    SET,
    STATE,
    UNTIL,
    VALUE,
    joint_tables,
    known_states,
    on_grid,
    scaled_likelihoods,
    scales_of,
    spans_on_grid,
    timeline_of,
)
from tests.reference.random_evidence import make_evidence


def evidence_of_every_kind() -> Evidence:
    """Two trajectories and three nodes, the last of them exogenous."""
    found = make_evidence(
        [2, 3, 2],
        [0.0, 1.0],
        [4.0, 3.0],
        points=[(0, 0, 2.0, [-0.1, -np.inf]), (0, 1, 0.0, [-1.0, -2.0, -3.0]),
                (1, 0, 2.0, [-5.0, -5.5])],
        jumps=[(0, 0, 2.0, 0, 1), (0, 1, 3.0, 2, -1)],
        spans=[(0, 1, 1.0, 1.5, 1), (0, 2, 0.0, 2.5, 1), (0, 2, 2.5, 4.0, 0), (1, 2, 1.0, 3.0, 0)],
        joint=[JointMeasurement(0, 3.0, (1, 0), np.log(np.full((3, 2), 0.5)))],
        exogenous=(2,),
    )  # fmt: skip
    columns = [[1], [0], [1.0], [2.0], [1]]
    by_hand = Spans(*(np.array(c, dtype=float if i in (2, 3) else np.int64)
                      for i, c in enumerate(columns)))  # fmt: skip
    return replace(found, interventions=by_hand)


def rows(evidence: Evidence, trajectory: int, node: int) -> list[tuple[object, ...]]:
    """Kind, time, value, other and end of what applies to one node."""
    timeline = timeline_of(evidence)
    pair = trajectory * evidence.n_nodes + node
    entry = timeline.entry[timeline.start[pair] : timeline.start[pair + 1]]
    assert (timeline.trajectory[entry[:, EVENT]] == trajectory).all()
    time = timeline.time
    return [
        (int(e[KIND]), float(time[e[EVENT]]), int(e[VALUE]), int(e[OTHER]), float(time[e[UNTIL]]))
        for e in entry
    ]


def test_entries_of_a_node_stand_in_the_order_in_which_they_act() -> None:
    evidence = evidence_of_every_kind()
    assert rows(evidence, 0, 0) == [
        (JUMP, 2.0, 0, 1, 2.0), (LIKELIHOOD, 2.0, 0, -1, 2.0), (JOINT, 3.0, 0, 1, 3.0),
    ]  # fmt: skip
    assert rows(evidence, 0, 1) == [
        (LIKELIHOOD, 0.0, 2, -1, 0.0), (HELD, 1.0, 1, -1, 1.5),
        (JUMP, 3.0, 2, -1, 3.0), (JOINT, 3.0, 0, 0, 3.0),
    ]  # fmt: skip
    assert rows(evidence, 0, 2) == [(HELD, 0.0, 1, -1, 2.5), (HELD, 2.5, 0, -1, 4.0)]
    assert rows(evidence, 1, 0) == [(SET, 1.0, 1, -1, 2.0), (LIKELIHOOD, 2.0, 5, -1, 2.0)]
    assert rows(evidence, 1, 1) == []


def test_event_times_and_how_much_is_learned_at_each() -> None:
    timeline = timeline_of(evidence_of_every_kind())
    first = timeline.trajectory == 0
    assert timeline.time[first].tolist() == [0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]
    assert timeline.time[~first].tolist() == [1.0, 2.0, 3.0]
    # the input is known from the start; at 2 an intervention ends
    assert timeline.sharpness.tolist() == [1.0] * 10
    vague = timeline_of(make_evidence([2], [0.0], [4.0], [(0, 0, 1.0, [-1.0, -2.5])]))
    assert vague.sharpness.tolist() == [0.0, 0.25, 0.0]


def test_spans_and_joint_tables_on_a_grid() -> None:
    evidence = evidence_of_every_kind()
    timeline = timeline_of(evidence)
    holds = np.isin(timeline.kind, (HELD, SET))
    span = spans_on_grid(timeline.entry[holds], 3 * np.arange(len(timeline.time)))
    np.testing.assert_array_equal(span[:, FIRST], 3 * timeline.entry[holds, EVENT])
    np.testing.assert_array_equal(span[:, LAST], 3 * timeline.entry[holds, UNTIL])
    np.testing.assert_array_equal(span[:, STATE], timeline.entry[holds, VALUE])
    np.testing.assert_array_equal(span[:, IS_SET], timeline.kind[holds] == SET)
    assert span.flags.c_contiguous
    start, logs = joint_tables(evidence)
    for i, m in enumerate(evidence.joint):
        np.testing.assert_array_equal(logs[start[i] : start[i + 1]], m.log_likelihood.ravel())


def test_entries_on_a_grid_apply_from_step_to_step() -> None:
    timeline = timeline_of(evidence_of_every_kind())
    placed = on_grid(timeline, 3 * np.arange(len(timeline.time)))
    np.testing.assert_array_equal(placed[:, EVENT], 3 * timeline.entry[:, EVENT])
    np.testing.assert_array_equal(placed[:, UNTIL], 3 * timeline.entry[:, UNTIL])
    np.testing.assert_array_equal(placed[:, VALUE], timeline.entry[:, VALUE])


def test_likelihoods_are_scaled_to_one_and_the_rest_is_remembered() -> None:
    evidence = evidence_of_every_kind()
    timeline = timeline_of(evidence)
    values, taken_out = scaled_likelihoods(evidence.points)
    assert taken_out.tolist() == [-0.1, -1.0, -5.0]
    np.testing.assert_allclose(values[:2], [[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(values[5:], [[1.0, 0.0], [np.exp(-0.5), -0.5]])
    scale = scales_of(timeline.entry, evidence.points, taken_out)
    assert scale[timeline.kind == LIKELIHOOD].tolist() == [-0.1, -1.0, -5.0]
    assert not scale[timeline.kind != LIKELIHOOD].any()


def test_some_trajectories_have_the_same_entries() -> None:
    evidence = evidence_of_every_kind()
    alone = subset(evidence, np.array([1]))
    assert rows(alone, 0, 0) == [(SET, 1.0, 1, -1, 2.0), (LIKELIHOOD, 2.0, 0, -1, 2.0)]
    assert rows(alone, 0, 2) == rows(evidence, 1, 2)


def test_states_of_an_input_at_any_times() -> None:
    evidence = evidence_of_every_kind()
    assert known_states(evidence, 0, 2, [-1.0, 0.0, 2.4, 2.5, 9.0]).tolist() == [1, 1, 1, 0, 0]
