"""The timeline: all evidence in the order of time, laid out once and read by every method.

*Event times* are the different times of a trajectory at which something is known or begins or ends:
its start and end, measurements, jumps, and the ends of spans and interventions. Between two
neighbouring event times nothing changes.

An *entry* says what applies to one node, and until when. Entries are rows of one array with named
columns, sorted by trajectory, node, event time and kind, so that the entries of a node in a
trajectory are neighbours, in the order in which they act:

======================  ================================  =====================  ================
``KIND``                ``VALUE``                         ``OTHER``              acts
======================  ================================  =====================  ================
``SET`` (intervention)  the state that is set             −1                     until ``UNTIL``
``JUMP``                the state entered                 the state left, or −1  at ``EVENT``
``HELD`` (span)         the known state                   −1                     until ``UNTIL``
``LIKELIHOOD``          offset of its values              −1                     at ``EVENT``
``JOINT``               number in ``evidence.joint``      which of its members   at ``EVENT``
======================  ================================  =====================  ================

``EVENT`` and ``UNTIL`` are numbers of event times, counted over all trajectories. A joint
measurement has one entry for every node that it reads. An exogenous node has ``HELD`` entries from
the start to the end of each trajectory.

**What applies to node n of trajectory d, until when?** The rows ``start[d * N + n]`` up to
``start[d * N + n + 1]`` of ``entry``. A method on a grid asks :func:`on_grid`, which puts grid
points in the place of event times: an entry then applies to steps ``EVENT`` ≤ k < ``UNTIL``;
:func:`spans_on_grid` gives such steps alone, and :func:`joint_tables` what joint measurements say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asterism.errors import DataError
from asterism.numerics.arrays import offsets, starts_of
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    Points,
    has_length,
    is_exogenous,
    rows_of,
)

SET, JUMP, HELD, LIKELIHOOD, JOINT = 0, 1, 2, 3, 4
"""Kinds of entries, in the order in which they act at one time."""
EVENT, KIND, VALUE, OTHER, UNTIL = 0, 1, 2, 3, 4
"""Columns of an entry."""
FIRST, LAST, STATE, IS_SET = 0, 1, 2, 3
"""Columns of a span on a grid: a node is known to be in STATE on steps FIRST ≤ k < LAST; set: the
experimenter held it there."""

#: a difference in log-likelihood of 6 makes the worse state 400 times less likely: as good as
#: excluded
_DECISIVE = 6.0
#: under which name an :class:`Evidence` remembers its timeline
_REMEMBERED = "timeline"
#: a larger timeline is laid out again instead: a copy of it would be most of the memory
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Timeline:
    """The evidence of all trajectories in the order of time."""

    n_trajectories: int
    n_nodes: int
    trajectory: IntArray
    """Of every event time."""
    time: FloatArray
    """Of every event time; ascending within a trajectory."""
    sharpness: FloatArray
    """Of every event time, from 0 (nothing is learned there) to 1 (some node's state is as good as
    known there)."""
    start: IntArray
    """(D·N + 1,) first entry of node n of trajectory d, at d·N + n."""
    entry: IntArray
    """(entries, 5) what applies, and until when."""

    @cached_property
    def pair(self) -> IntArray:
        """Of every entry d·N + n, for trajectory d and node n."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def kind(self) -> IntArray:
        """Of every entry."""
        return self.entry[:, KIND]


def on_grid(timeline: Timeline, point_of_event: IntArray) -> IntArray:
    """The entries with grid points, counted within a trajectory, in the place of event times."""
    entry = timeline.entry.copy()
    entry[:, EVENT] = point_of_event[entry[:, EVENT]]
    entry[:, UNTIL] = point_of_event[entry[:, UNTIL]]
    return entry


def spans_on_grid(entry: IntArray, point_of_event: IntArray) -> IntArray:
    """Entries that hold a node (``HELD``, ``SET``) as spans of steps."""
    steps = point_of_event[entry[:, [EVENT, UNTIL]]]
    span = np.column_stack([steps, entry[:, VALUE], entry[:, KIND] == SET])
    return np.ascontiguousarray(span)  # for another order in memory numba would compile anew


def joint_tables(evidence: Evidence) -> tuple[IntArray, FloatArray]:
    """Where the log-likelihoods of each joint measurement begin, and all of them, in C order."""
    tables = [np.asarray(m.log_likelihood, dtype=np.float64).ravel() for m in evidence.joint]
    return offsets([len(table) for table in tables]), np.concatenate([np.zeros(0), *tables])


def timeline_of(evidence: Evidence) -> Timeline:
    """Lay evidence out in the order of time, or remember how it was."""
    known = evidence.memory.get(_REMEMBERED)
    if isinstance(known, Timeline):
        return known
    found = _lay_out(evidence)
    if found.entry.nbytes <= _MOST_BYTES:
        evidence.memory[_REMEMBERED] = found
    return found


def _lay_out(evidence: Evidence) -> Timeline:
    points, jumps, by_hand = evidence.points, evidence.jumps, evidence.interventions
    says_something = has_length(evidence) | is_exogenous(evidence, evidence.spans.node)
    spans = rows_of(evidence.spans, says_something)
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    joint = [(i, k, n) for i, m in enumerate(evidence.joint) for k, n in enumerate(m.nodes)]
    number, member, node_read = np.array(joint, dtype=np.int64).reshape(-1, 3).T
    joint_trajectory = np.array([m.trajectory for m in evidence.joint], dtype=np.int64)
    joint_time = np.array([m.time for m in evidence.joint], dtype=np.float64)
    n_nodes = evidence.n_nodes
    # one block of entries per kind: trajectory, node, time, value, other
    nothing = np.broadcast_to(np.int64(-1), max(len(points.node), len(spans.node), 1))
    blocks = (
        (SET, by_hand.trajectory, by_hand.node, by_hand.start, by_hand.state, nothing),
        (JUMP, jumps.trajectory, jumps.node, jumps.time, jumps.to_state, jumps.from_state),
        (HELD, spans.trajectory, spans.node, spans.start, spans.state, nothing),
        (LIKELIHOOD, points.trajectory, points.node, points.time, points.offset, nothing),
        (JOINT, joint_trajectory[number], node_read, joint_time[number], number, member),
    )
    event, trajectory, time = _event_times(
        [
            (everyone, evidence.start),
            (everyone, evidence.end),
            *((block[1], block[3]) for block in blocks),
            (by_hand.trajectory, by_hand.end),
            (spans.trajectory, spans.end),
        ]
    )
    n_entries = sum(len(block[1]) for block in blocks)
    entry = np.empty((n_entries, 5), dtype=np.int64)
    pair = np.empty(n_entries, dtype=np.int64)
    sharpness = np.zeros(len(time))
    bounds = pairwise(accumulate((len(block[1]) for block in blocks), initial=0))
    for block, begins, (first, last) in zip(blocks, event[2:7], bounds):
        kind, trajectories, nodes, _, value, other = block
        own = entry[first:last]
        pair[first:last] = trajectories * n_nodes + nodes
        own[:, EVENT] = own[:, UNTIL] = begins
        own[:, KIND] = kind
        own[:, VALUE] = value
        own[:, OTHER] = other[: last - first]
        if kind in (SET, HELD):
            own[:, UNTIL] = event[7] if kind == SET else event[8]
            sharpness[own[:, UNTIL]] = 1.0
        if kind in (SET, HELD, JUMP):
            sharpness[begins] = 1.0
        elif kind == LIKELIHOOD and last > first:
            np.maximum.at(sharpness, begins, _decisiveness(points))
    order = np.lexsort((entry[:, KIND], entry[:, EVENT], pair))
    return Timeline(
        *(evidence.n_trajectories, n_nodes, trajectory, time, sharpness),
        *(starts_of(pair, evidence.n_trajectories * n_nodes), np.ascontiguousarray(entry[order])),
    )


def _event_times(
    pieces: list[tuple[IntArray, FloatArray]],
) -> tuple[list[IntArray], IntArray, FloatArray]:
    """The event time of every row of every piece, and the trajectory and time of each."""
    trajectory = np.concatenate([p[0] for p in pieces])
    time = np.concatenate([p[1] for p in pieces])
    order = np.lexsort((time, trajectory))
    t_sorted, d_sorted = time[order], trajectory[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (d_sorted[1:] != d_sorted[:-1]) | (t_sorted[1:] != t_sorted[:-1])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = is_new.cumsum() - 1
    bounds = accumulate((len(p[0]) for p in pieces), initial=0)
    return [number[a:b] for a, b in pairwise(bounds)], d_sorted[is_new], t_sorted[is_new]


def _decisiveness(points: Points) -> FloatArray:
    """Of every measurement, from 0 (as likely under all states) to 1 (it excludes one)."""
    highest = np.maximum.reduceat(points.log_likelihood, points.offset)
    lowest = np.minimum.reduceat(points.log_likelihood, points.offset)
    return np.asarray(np.minimum((highest - lowest) / _DECISIVE, 1.0))


def scaled_likelihoods(points: Points) -> tuple[FloatArray, FloatArray]:
    """(values, 2) likelihoods of measurements and their logarithms; (points,) what was taken out.

    Each measurement is scaled to a largest likelihood of 1. The logarithm of a likelihood of zero
    is given as zero: its state has no probability.
    """
    logs, offset = points.log_likelihood, points.offset
    if not len(offset):
        return np.zeros((0, 2)), np.zeros(0)
    largest = np.maximum.reduceat(logs, offset)
    scaled = np.empty((len(logs), 2))
    lengths = np.diff(offset, append=len(logs))
    left = np.subtract(logs, largest.repeat(lengths), out=scaled[:, 1])
    np.exp(left, out=scaled[:, 0])
    left[left == -np.inf] = 0.0
    return scaled, largest


def scales_of(entry: IntArray, points: Points, taken_out: FloatArray) -> FloatArray:
    """Of every entry the logarithm that was taken out of its likelihoods; 0 of other kinds."""
    scale = np.zeros(len(entry))
    own = np.flatnonzero(entry[:, KIND] == LIKELIHOOD)
    scale[own] = taken_out[np.searchsorted(points.offset, entry[own, VALUE])]
    return scale


def put_likelihoods(
    points: Points, entry: IntArray, likelihood: FloatArray, scale: FloatArray
) -> None:
    """Write likelihoods and what was taken out of them where a method keeps them, in place."""
    values, taken_out = scaled_likelihoods(points)
    likelihood[:] = values[:, : likelihood.shape[1]] if likelihood.ndim > 1 else values[:, 0]
    scale[:] = scales_of(entry, points, taken_out)


def known_states(evidence: Evidence, trajectory: int, node: int, times: ArrayLike) -> IntArray:
    """The state of a node that spans cover, at each of the times; before the first, that one."""
    spans = evidence.spans
    mine = np.flatnonzero((spans.trajectory == trajectory) & (spans.node == node))
    if not len(mine):
        raise DataError(f"Trajectory number {trajectory} gives no path for exogenous node {node}.")
    place = np.searchsorted(spans.start[mine], times, side="right") - 1
    states: NDArray[np.int64] = spans.state[mine[np.maximum(place, 0)]]
    return states
