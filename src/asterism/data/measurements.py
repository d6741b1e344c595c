"""Owns what is stored about measurements: one record of arrays per node, and two small tables.

Trajectories are numbers here (positions in ``Observations.trajectories``); states and values
stay as the user wrote them, because only a network knows their numbers.

Owns the search for "the last entry before this time in the same group".

Groups are numbers (a trajectory, or a trajectory and a node together). One sort answers all
questions at once, with no loop over groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NodeMeasurements:
    """All measurements of one node, sorted by (trajectory, time)."""

    trajectory: IntArray
    time: FloatArray
    value: NDArray[Any]
    """float64, or object where the cells are labels; unused where ``likelihood`` is set."""
    exact: BoolArray
    """Rows that report the state itself and bypass the emission."""
    row: IntArray
    """Line of the user's table, for messages."""
    likelihood: FloatArray | None = None
    """(I, S) probability of the measurement under each state, if that is what was given."""
    states: tuple[object, ...] | None = None
    """Labels of the likelihood's columns; None = in the order of the network's states."""
    among: ObjectArray | None = None
    """Per row None, or the states of which one is meant: such a row bypasses the emission too."""

    @property
    def in_a_set(self) -> BoolArray:
        """Rows that only say the state is one of several."""
        if self.among is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.array([states is not None for states in self.among], dtype=np.bool_)

    @property
    def noisy(self) -> BoolArray:
        """Rows that the emission reads."""
        return ~self.exact if self.among is None else ~self.exact & ~self.in_a_set

    def __len__(self) -> int:
        return len(self.time)

    @property
    def holds_labels(self) -> bool:
        return self.likelihood is None and self.value.dtype == object

    def take(self, index: NDArray[Any], trajectory: IntArray | None = None) -> NodeMeasurements:
        """Some of the rows, with new trajectory numbers if given."""
        return NodeMeasurements(
            trajectory=self.trajectory[index] if trajectory is None else trajectory,
            time=self.time[index],
            value=self.value[index],
            exact=self.exact[index],
            row=self.row[index],
            likelihood=None if self.likelihood is None else self.likelihood[index],
            states=self.states,
            among=None if self.among is None else self.among[index],
        )


@dataclass(frozen=True, eq=False)
class Events:
    """Exactly timed transitions, in the order of the user's table."""

    trajectory: IntArray
    time: FloatArray
    node: ObjectArray
    to: ObjectArray
    previous: ObjectArray
    """The state before the jump; None where it is not known."""
    row: IntArray

    def __len__(self) -> int:
        return len(self.time)

    def take(self, index: NDArray[Any], new: IntArray | None = None) -> Events:
        """Some of the rows, their trajectories renumbered if ``new`` numbers are given."""
        number = self.trajectory[index]
        return Events(
            number if new is None else new[number],
            self.time[index],
            self.node[index],
            self.to[index],
            self.previous[index],
            self.row[index],
        )


@dataclass(frozen=True, eq=False)
class Intervals:
    """Times during which a node's state is known, in the order of the user's table."""

    trajectory: IntArray
    node: ObjectArray
    start: FloatArray
    end: FloatArray
    state: ObjectArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: NDArray[Any], new: IntArray | None = None) -> Intervals:
        """Some of the rows, their trajectories renumbered if ``new`` numbers are given."""
        number = self.trajectory[index]
        return Intervals(
            number if new is None else new[number],
            self.node[index],
            self.start[index],
            self.end[index],
            self.state[index],
            self.row[index],
        )


#: what was read, from tables or arrays: the fields of ``Observations`` in their order
Parts = tuple[
    tuple[object, ...], FloatArray, FloatArray, dict[str, NodeMeasurements], Events, Intervals
]


def objects(values: Iterable[Any]) -> ObjectArray:
    """A one-dimensional object array, whatever the elements are."""
    items = list(values)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def no_events() -> Events:
    none = np.empty(0, dtype=np.int64)
    return Events(none, np.empty(0), objects([]), objects([]), objects([]), none)


def no_intervals() -> Intervals:
    none = np.empty(0, dtype=np.int64)
    return Intervals(none, objects([]), np.empty(0), np.empty(0), objects([]), none)


def no_measurements() -> NodeMeasurements:
    none = np.empty(0, dtype=np.int64)
    return NodeMeasurements(none, np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_), none)


def last_before(
    entry_group: IntArray,
    entry_time: FloatArray,
    query_group: IntArray,
    query_time: FloatArray,
    *,
    strict: bool = False,
) -> IntArray:
    """Index of the last entry of the query's group at or before its time; −1 if there is none.

    Entries must be sorted by (group, time). With ``strict`` only entries before the time count.
    """
    n_entries, n_queries = len(entry_group), len(query_group)
    if n_entries == 0 or n_queries == 0:
        return np.full(n_queries, -1, dtype=np.int64)
    group = np.concatenate([entry_group, query_group])
    time = np.concatenate([entry_time, query_time])
    is_entry = np.zeros(n_entries + n_queries, dtype=np.bool_)
    is_entry[:n_entries] = True
    rank = is_entry if strict else ~is_entry
    order = np.lexsort((rank, time, group))
    seen = np.cumsum(is_entry[order]) - 1
    place = np.empty(n_entries + n_queries, dtype=np.int64)
    place[order] = seen
    found = place[n_entries:]
    valid = (found >= 0) & (entry_group[np.maximum(found, 0)] == query_group)
    return np.where(valid, found, -1).astype(np.int64)
