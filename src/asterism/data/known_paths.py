"""Owns the reading and checking of events and intervals: what is known about paths exactly.

An event says that a node entered a state at a time; an interval says that a node's state was
known, and constant, throughout. The two may not contradict each other; whether related nodes
jump at one time is checked later, because that needs the graph.

Owns the start and end of each trajectory, and the check that everything lies between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from asterism.data import columns
from asterism.data.labels import canonical, label_codes, plain
from asterism.data.measurements import (
    Events,
    Intervals,
    NodeMeasurements,
    last_before,
    no_events,
    no_intervals,
    objects,
)
from asterism.data.numbers import as_number
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import Sentence, Setting, quoted
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

TimeBound = float | Mapping[Any, float] | None

EVENT_COLUMNS = ("trajectory", "time", "node", "to", "from")
INTERVAL_COLUMNS = ("trajectory", "node", "start", "end", "state")


def parse_events(
    frame: pd.DataFrame | None,
    numbering: dict[object, int],
    problems: Problems,
    comma: str | None = None,
) -> Events:
    """Read the table of events; trajectories not seen before are added to ``numbering``."""
    if frame is None or len(frame) == 0:
        return no_events()
    table = TableReader(frame, problems, "events", comma)
    if not table.require(EVENT_COLUMNS, {"trajectory", "from"}):
        return no_events()
    trajectory = _trajectories(table, numbering)
    time = table.times("time").time
    node = objects(map(str, table.labels("node")))
    to = table.labels("to")
    previous = objects([None] * len(to))
    if "from" in table.frame.columns:
        raw = table.cells("from")
        previous = objects(None if gone else plain(v) for v, gone in zip(raw, columns.missing(raw)))
    known = np.array([p is not None for p in previous])
    both = np.concatenate([to, previous])
    code = label_codes(both, canonical)
    same = known & (code[: len(to)] == code[len(to) :])
    table.note(same, "a jump from {value} into itself", value=to)
    return Events(trajectory, time, node, to, previous, table.rows)


def parse_intervals(
    frame: pd.DataFrame | None,
    numbering: dict[object, int],
    problems: Problems,
    comma: str | None = None,
) -> Intervals:
    """Read the table of intervals; trajectories not seen before are added to ``numbering``."""
    if frame is None or len(frame) == 0:
        return no_intervals()
    table = TableReader(frame, problems, "intervals", comma)
    if not table.require(INTERVAL_COLUMNS, {"trajectory"}):
        return no_intervals()
    trajectory = _trajectories(table, numbering)
    start, end = table.times("start").time, table.times("end").time
    node = objects(map(str, table.labels("node")))
    state = table.labels("state")
    table.note(
        end < start,
        "the interval ends at {value}, before it starts: a negative duration",
        value=end,
        column="end",
    )
    return Intervals(trajectory, node, start, end, state, table.rows)


def check_consistency(
    events: Events, intervals: Intervals, trajectories: list[object], problems: Problems
) -> None:
    """Note every interval or event that contradicts another one."""
    if len(events) == 0 and len(intervals) == 0:
        return
    group = groups(events, intervals)
    event_group, interval_group = group[: len(events)], group[len(events) :]
    code = label_codes(np.concatenate([events.to, events.previous, intervals.state]), canonical)
    to, previous, state = np.split(code, [len(events), 2 * len(events)])
    order = np.lexsort((intervals.end, intervals.start, interval_group))
    for a, b in overlapping(intervals, interval_group):
        if state[a] != state[b]:
            problems.add(
                f"{intervals.node[b]!r} is said to be in {intervals.state[b]!r} from "
                f"{intervals.start[b]:g}, while row {intervals.row[a]} says "
                f"{intervals.state[a]!r} until {intervals.end[a]:g}",
                **_place(intervals, b, trajectories),
            )
    _check_repeated_events(events, event_group, trajectories, problems)

    def tell(bad: BoolArray, found: IntArray, message: str) -> None:
        for e in np.flatnonzero(bad):
            i = order[found[e]]
            problems.add(
                f"{events.node[e]!r} enters {events.to[e]!r} at {events.time[e]:g}, but {message} "
                f"{intervals.state[i]!r} from {intervals.start[i]:g} to {intervals.end[i]:g} "
                f"(row {intervals.row[i]} of the intervals)",
                **_place(events, e, trajectories),
            )

    if not len(order):
        return
    starts, own = intervals.start[order], interval_group[order]
    begun = last_before(own, starts, event_group, events.time, strict=True)
    has = begun >= 0
    i = order[np.maximum(begun, 0)]
    inside = has & (events.time < intervals.end[i])
    tell(inside, begun, "it is known to stay in")
    ending = has & (events.time == intervals.end[i])
    tell(ending & (previous >= 0) & (previous != state[i]), begun, "not from the state before:")
    tell(ending & (to == state[i]), begun, "it already is in")
    at = last_before(own, starts, event_group, events.time)
    j = order[np.maximum(at, 0)]
    opening = (at >= 0) & (intervals.start[j] == events.time) & (intervals.end[j] > events.time)
    tell(opening & (to != state[j]), at, "it is known to be in")


def overlapping(intervals: Intervals, group: IntArray) -> Iterator[tuple[int, int]]:
    """Pairs of rows of one group of which the second begins before the first ends."""
    start, end = intervals.start, intervals.end
    order = np.lexsort((end, start, group))
    one, other = order[:-1], order[1:]
    if not ((group[one] == group[other]) & (start[other] < end[one])).any():
        return
    longest = order[0]
    for i in order[1:]:
        if group[i] == group[longest] and start[i] < end[longest]:
            yield int(longest), int(i)
        if group[i] != group[longest] or end[i] > end[longest]:
            longest = i


def _check_repeated_events(
    events: Events, group: IntArray, trajectories: list[object], problems: Problems
) -> None:
    order = np.lexsort((events.row, events.time, group))
    same = (group[order][1:] == group[order][:-1]) & (np.diff(events.time[order]) == 0)
    for k in np.flatnonzero(same):
        e, before = order[k + 1], order[k]
        problems.add(
            f"{events.node[e]!r} enters a state twice at time {events.time[e]:g} "
            f"(row {events.row[before]} too); keep one of the rows",
            **_place(events, e, trajectories),
        )


def _place(table: Events | Intervals, row: Any, trajectories: list[object]) -> dict[str, Any]:
    """Where a row stands, for messages."""
    name, state = ("events", table.to) if isinstance(table, Events) else ("intervals", table.state)
    return {
        "trajectory": trajectories[int(table.trajectory[row])],
        "row": int(table.row[row]),
        "value": state[row],
        "table": name,
    }


def groups(events: Events, intervals: Intervals) -> IntArray:
    """One number per (trajectory, node), over the events and then the intervals."""
    trajectory = np.concatenate([events.trajectory, intervals.trajectory])
    node, names = pd.factorize(np.concatenate([events.node, intervals.node]))
    return np.asarray(trajectory * (len(names) + 1) + node, dtype=np.int64)


def _trajectories(table: TableReader, numbering: dict[object, int]) -> IntArray:
    name, _ = table.read_trajectories("trajectory", next(iter(numbering), 0))
    table.trajectory = name
    codes, uniques = pd.factorize(name)
    numbers = [resolve_trajectory(u, numbering) for u in uniques]
    return np.array([*numbers, 0], dtype=np.int64)[codes]


def resolve_trajectory(name: object, numbering: dict[object, int]) -> int:
    """The number of a trajectory, by its name or a name of the same meaning; new ones are added."""
    name = plain(name)
    if name in numbering:
        return numbering[name]
    text = canonical(name)
    usual = type(next(iter(numbering), None))
    for known, number in numbering.items() if type(name) is not usual else ():
        if canonical(known) == text:
            return number
    numbering[name] = len(numbering)
    return numbering[name]


def warn_of_unmeasured(
    trajectories: Sequence[object],
    n_measured: int,
    limits: tuple[TimeBound, TimeBound],
    problems: Problems,
) -> None:
    """Point out trajectories of events and intervals that the table of measurements lacks.

    They are legal, and whoever gives their start or end means them; others may be slips.
    """
    named = {canonical(name) for limit in limits if isinstance(limit, Mapping) for name in limit}
    known = quoted(trajectories[:n_measured])
    for name in trajectories[n_measured:] if n_measured else ():
        if canonical(name) not in named:
            problems.add(
                "the table of measurements has no such trajectory: read as one without "
                f"measurements; the table's are {known}",
                trajectory=name,
                severity="warning",
                table="events and intervals",
            )


def time_limits(
    trajectories: Sequence[object],
    seen: tuple[FloatArray, FloatArray],
    events: Events,
    intervals: Intervals,
    limits: tuple[TimeBound, TimeBound],
    problems: Problems,
) -> tuple[FloatArray, FloatArray]:
    """Start and end per trajectory: as given, or the first and last time anything is known."""
    first = np.full(len(trajectories), np.inf)
    last = np.full(len(trajectories), -np.inf)
    first[: len(seen[0])], last[: len(seen[1])] = seen
    for number, time in (
        (events.trajectory, events.time),
        (intervals.trajectory, intervals.start),
        (intervals.trajectory, intervals.end),
    ):
        np.fmin.at(first, number, time)
        np.fmax.at(last, number, time)
    start = given_limits(trajectories, limits[0], first, "start", problems)
    end = given_limits(trajectories, limits[1], last, "end", problems)
    for d, name in enumerate(trajectories):
        if not np.isfinite(start[d]) or not np.isfinite(end[d]):
            problems.add(
                "has no measurement and no start and end",
                remedy=Sentence(
                    "give both with ", Setting("start", ...), " and ", Setting("end", ...)
                ),
                trajectory=name,
            )
        elif end[d] < start[d]:
            problems.add(
                f"ends at {end[d]:g}, before it starts at {start[d]:g}: a negative duration",
                trajectory=name,
                value=float(end[d]),
            )
    return start, end


def given_limits(
    trajectories: Sequence[object],
    limit: TimeBound,
    default: FloatArray,
    title: str,
    problems: Problems,
) -> FloatArray:
    """The start or end of each trajectory: a number for all, by name, or the default."""
    if limit is None:
        return default
    result = default.copy()
    if isinstance(limit, Mapping):
        by_text = {canonical(k): v for k, v in limit.items()}
        wanted = [by_text.get(canonical(name)) for name in trajectories]
    else:
        wanted = [limit] * len(trajectories)
    for d, value in enumerate(wanted):
        if value is None:
            continue
        number = as_number(value)
        if number is None or not np.isfinite(number):
            problems.add(
                f"{title} is {value!r}, not a finite number",
                trajectory=trajectories[d],
                value=value,
            )
        else:
            result[d] = number
    return result


def check_inside(
    trajectories: Sequence[object],
    limits: tuple[FloatArray, FloatArray],
    measurements: Mapping[str, NodeMeasurements],
    events: Events,
    intervals: Intervals,
    problems: Problems,
) -> None:
    """Note everything that lies before the start or after the end of its trajectory."""
    start, end = limits
    if not np.isfinite(start).all() or not np.isfinite(end).all():
        return
    checked: set[tuple[int, int]] = set()

    def check(number: IntArray, time: FloatArray, rows: IntArray, **where: Any) -> None:
        bad = (time < start[number]) | (time > end[number])
        for i in np.flatnonzero(bad):
            d = number[i]
            problems.add(
                f"time {time[i]:g} lies outside the trajectory, which lasts from {start[d]:g} to "
                f"{end[d]:g}",
                trajectory=trajectories[int(d)],
                row=int(rows[i]),
                value=float(time[i]),
                **where,
            )

    for node, record in measurements.items():
        key = (id(record.time), id(record.trajectory))
        if key not in checked:  # complete columns share their arrays: tell each row once
            checked.add(key)
            check(record.trajectory, record.time, record.row, column=node)
    check(events.trajectory, events.time, events.row, table="events", column="time")
    check(intervals.trajectory, intervals.start, intervals.row, table="intervals", column="start")
    check(intervals.trajectory, intervals.end, intervals.row, table="intervals", column="end")
