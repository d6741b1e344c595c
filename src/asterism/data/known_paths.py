"""Owns the reading and checking of events and intervals: what is known about paths exactly.

An event says that a node entered a state at a time; an interval says that a node's state was
known, and constant, throughout. The two may not contradict each other; whether related nodes
jump at one time is checked later, because that needs the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.labels import canonical, label_codes, plain
from asterism.data.lookup import last_before
from asterism.data.measurements import Events, Intervals, no_events, no_intervals, objects
from asterism.data.validate import FIRST_ROW, Problems

IntArray = NDArray[np.int64]

EVENT_COLUMNS = ("trajectory", "time", "node", "to", "from")
INTERVAL_COLUMNS = ("trajectory", "node", "start", "end", "state")


def parse_events(
    frame: pd.DataFrame | None, numbering: dict[object, int], problems: Problems
) -> Events:
    """Read the table of events; trajectories not seen before are added to ``numbering``."""
    if frame is None or len(frame) == 0:
        return no_events()
    table = _required(frame, EVENT_COLUMNS, {"trajectory", "from"}, "events", problems)
    if table is None:
        return no_events()
    rows = np.arange(len(table), dtype=np.int64) + FIRST_ROW
    trajectory, name = _trajectories(table, numbering, "events", problems, rows)
    time = _times(table, "time", "events", problems, rows, name)
    node = _names(table, "node", "events", problems, rows, name)
    to = _labels(table, "to", "events", problems, rows, name)
    previous = objects([None] * len(table))
    if "from" in table.columns:
        raw = columns.cells(table["from"])
        previous = objects(None if gone else plain(v) for v, gone in zip(raw, columns.missing(raw)))
    known = np.array([p is not None for p in previous])
    both = np.concatenate([to, previous])
    code = label_codes(both)
    same = known & (code[: len(to)] == code[len(to) :])
    problems.add_rows(
        same,
        "a jump from {value} into itself",
        rows=rows,
        trajectory=name,
        value=to,
        table="events",
    )
    return Events(trajectory, time, node, to, previous, rows)


def parse_intervals(
    frame: pd.DataFrame | None, numbering: dict[object, int], problems: Problems
) -> Intervals:
    """Read the table of intervals; trajectories not seen before are added to ``numbering``."""
    if frame is None or len(frame) == 0:
        return no_intervals()
    table = _required(frame, INTERVAL_COLUMNS, {"trajectory"}, "intervals", problems)
    if table is None:
        return no_intervals()
    rows = np.arange(len(table), dtype=np.int64) + FIRST_ROW
    trajectory, name = _trajectories(table, numbering, "intervals", problems, rows)
    start = _times(table, "start", "intervals", problems, rows, name)
    end = _times(table, "end", "intervals", problems, rows, name)
    node = _names(table, "node", "intervals", problems, rows, name)
    state = _labels(table, "state", "intervals", problems, rows, name)
    problems.add_rows(
        end < start,
        "the interval ends at {value}, before it starts: a negative duration",
        rows=rows,
        trajectory=name,
        value=end,
        column="end",
        table="intervals",
    )
    return Intervals(trajectory, node, start, end, state, rows)


def check_consistency(
    events: Events, intervals: Intervals, trajectories: list[object], problems: Problems
) -> None:
    """Note every interval or event that contradicts another one."""
    if len(events) == 0 and len(intervals) == 0:
        return
    group = _groups(events, intervals)
    event_group, interval_group = group[: len(events)], group[len(events) :]
    code = label_codes(np.concatenate([events.to, events.previous, intervals.state]))
    to, previous, state = np.split(code, [len(events), 2 * len(events)])
    order = np.lexsort((intervals.end, intervals.start, interval_group))
    _check_overlaps(intervals, order, interval_group, state, trajectories, problems)
    _check_repeated_events(events, event_group, to, trajectories, problems)

    def tell(bad: NDArray[np.bool_], found: IntArray, message: str) -> None:
        for e in np.flatnonzero(bad):
            i = order[found[e]]
            problems.add(
                f"{events.node[e]!r} enters {events.to[e]!r} at {events.time[e]:g}, but {message} "
                f"{intervals.state[i]!r} from {intervals.start[i]:g} to {intervals.end[i]:g} "
                f"(row {intervals.row[i]} of the intervals)",
                trajectory=trajectories[int(events.trajectory[e])],
                row=int(events.row[e]),
                value=events.to[e],
                table="events",
            )

    starts, groups = intervals.start[order], interval_group[order]
    begun = last_before(groups, starts, event_group, events.time, strict=True)
    has = begun >= 0
    i = order[np.maximum(begun, 0)] if len(order) else np.zeros(len(events), dtype=np.int64)
    if not len(order):
        return
    inside = has & (events.time < intervals.end[i])
    tell(inside, begun, "it is known to stay in")
    ending = has & (events.time == intervals.end[i])
    tell(ending & (previous >= 0) & (previous != state[i]), begun, "not from the state before:")
    tell(ending & (to == state[i]), begun, "it already is in")
    at = last_before(groups, starts, event_group, events.time)
    j = order[np.maximum(at, 0)]
    opening = (at >= 0) & (intervals.start[j] == events.time) & (intervals.end[j] > events.time)
    tell(opening & (to != state[j]), at, "it is known to be in")


def _check_overlaps(
    intervals: Intervals,
    order: IntArray,
    group: IntArray,
    state: IntArray,
    trajectories: list[object],
    problems: Problems,
) -> None:
    same = group[order][1:] == group[order][:-1]
    if not (same & (intervals.start[order][1:] < intervals.end[order][:-1])).any():
        return
    longest = order[0] if len(order) else -1
    for i in order[1:]:
        if group[i] != group[longest]:
            longest = i
            continue
        if intervals.start[i] < intervals.end[longest] and state[i] != state[longest]:
            problems.add(
                f"{intervals.node[i]!r} is said to be in {intervals.state[i]!r} from "
                f"{intervals.start[i]:g}, while row {intervals.row[longest]} says "
                f"{intervals.state[longest]!r} until {intervals.end[longest]:g}",
                trajectory=trajectories[int(intervals.trajectory[i])],
                row=int(intervals.row[i]),
                value=intervals.state[i],
                table="intervals",
            )
        if intervals.end[i] > intervals.end[longest]:
            longest = i


def _check_repeated_events(
    events: Events, group: IntArray, to: IntArray, trajectories: list[object], problems: Problems
) -> None:
    order = np.lexsort((events.row, events.time, group))
    same = (group[order][1:] == group[order][:-1]) & (np.diff(events.time[order]) == 0)
    for k in np.flatnonzero(same):
        e, before = order[k + 1], order[k]
        problems.add(
            f"{events.node[e]!r} enters a state twice at time {events.time[e]:g} "
            f"(row {events.row[before]} too); keep one of the rows",
            trajectory=trajectories[int(events.trajectory[e])],
            row=int(events.row[e]),
            value=events.to[e],
            table="events",
        )


def _groups(events: Events, intervals: Intervals) -> IntArray:
    """One number per (trajectory, node), over the events and then the intervals."""
    trajectory = np.concatenate([events.trajectory, intervals.trajectory])
    node, names = pd.factorize(np.concatenate([events.node, intervals.node]))
    return np.asarray(trajectory * (len(names) + 1) + node, dtype=np.int64)


def _required(
    frame: pd.DataFrame,
    known: tuple[str, ...],
    optional: set[str],
    table: str,
    problems: Problems,
) -> pd.DataFrame | None:
    frame = frame.rename(columns=str)
    found = set(frame.columns)
    for name in frame.columns[frame.columns.duplicated()].unique():
        problems.add("the column name occurs more than once", column=str(name), table=table)
    for name in frame.columns:
        if name not in known:
            problems.add(
                f"unknown column; the table has {', '.join(known)}", column=name, table=table
            )
    absent = [c for c in known if c not in found and c not in optional]
    if absent:
        problems.add(f"needs the column(s) {', '.join(absent)}", table=table)
    return None if absent or frame.columns.has_duplicates else frame


def _trajectories(
    table: pd.DataFrame,
    numbering: dict[object, int],
    title: str,
    problems: Problems,
    rows: IntArray,
) -> tuple[IntArray, NDArray[Any]]:
    if "trajectory" in table.columns:
        raw = columns.cells(table["trajectory"])
        problems.add_rows(
            columns.missing(raw),
            "the trajectory is missing",
            rows=rows,
            column="trajectory",
            table=title,
        )
        name = columns.names(raw)
    else:
        name = objects([next(iter(numbering), 0)] * len(table))
    codes, uniques = pd.factorize(name)
    numbers = [resolve_trajectory(u, numbering) for u in uniques]
    trajectory = np.array([*numbers, 0], dtype=np.int64)[codes]
    return trajectory, name


def resolve_trajectory(name: object, numbering: dict[object, int]) -> int:
    """The number of a trajectory, by its name or a name of the same meaning; new ones are added."""
    name = plain(name)
    if name in numbering:
        return numbering[name]
    text = canonical(name)
    for known, number in numbering.items() if type(name) not in _types(numbering) else ():
        if canonical(known) == text:
            return number
    numbering[name] = len(numbering)
    return numbering[name]


def _types(numbering: Mapping[object, int]) -> set[type]:
    return {type(next(iter(numbering), None))}


def _times(
    table: pd.DataFrame,
    column: str,
    title: str,
    problems: Problems,
    rows: IntArray,
    name: NDArray[Any],
) -> NDArray[np.float64]:
    return columns.times(
        columns.cells(table[column]),
        column,
        problems=problems,
        rows=rows,
        trajectory=name,
        table=title,
    )


def _names(
    table: pd.DataFrame,
    column: str,
    title: str,
    problems: Problems,
    rows: IntArray,
    name: NDArray[Any],
) -> NDArray[Any]:
    return objects(str(v) for v in _labels(table, column, title, problems, rows, name))


def _labels(
    table: pd.DataFrame,
    column: str,
    title: str,
    problems: Problems,
    rows: IntArray,
    name: NDArray[Any],
) -> NDArray[Any]:
    raw = columns.cells(table[column])
    problems.add_rows(
        columns.missing(raw),
        "the cell is empty",
        rows=rows,
        trajectory=name,
        column=column,
        table=title,
    )
    return objects(plain(v) for v in raw)
