"""Owns the start and end of each trajectory, and the check that everything lies between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.labels import canonical
from asterism.data.measurements import Events, Intervals, NodeMeasurements
from asterism.data.validate import Problems

FloatArray = NDArray[np.float64]
TimeLimit = float | Mapping[Any, float] | None


def time_limits(
    trajectories: Sequence[object],
    seen: tuple[FloatArray, FloatArray],
    events: Events,
    intervals: Intervals,
    limits: tuple[TimeLimit, TimeLimit],
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
    start = _given(trajectories, limits[0], first, "start", problems)
    end = _given(trajectories, limits[1], last, "end", problems)
    for d, name in enumerate(trajectories):
        if not np.isfinite(start[d]) or not np.isfinite(end[d]):
            problems.add(
                "has no measurement and no start and end; give both in start= and end=",
                trajectory=name,
            )
        elif end[d] < start[d]:
            problems.add(
                f"ends at {end[d]:g}, before it starts at {start[d]:g}: a negative duration",
                trajectory=name,
                value=float(end[d]),
            )
    return start, end


def _given(
    trajectories: Sequence[object],
    limit: TimeLimit,
    default: FloatArray,
    title: str,
    problems: Problems,
) -> FloatArray:
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
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
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

    def check(
        number: NDArray[np.int64], time: FloatArray, rows: NDArray[np.int64], **where: Any
    ) -> None:
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
