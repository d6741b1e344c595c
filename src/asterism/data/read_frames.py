"""Owns the reading of a table of measurements together with its events and intervals.

Each is read by a module of its own; here they get common trajectories, start and end, and are
checked against each other. The way back is in ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from asterism.data.known_paths import (
    check_consistency,
    parse_events,
    parse_intervals,
    resolve_trajectory,
)
from asterism.data.measurements import Parts
from asterism.data.spans_of_time import TimeLimit, check_inside, time_limits
from asterism.data.table_rows import TableFormat
from asterism.data.tables import ParsedTable, parse_table
from asterism.data.validate import Problems


def read_frames(
    frame: pd.DataFrame | None,
    form: TableFormat,
    limits_given: tuple[TimeLimit, TimeLimit],
    events: pd.DataFrame | None,
    intervals: pd.DataFrame | None,
    ties: str,
) -> tuple[Parts | None, Problems]:
    """Everything that the tables say, or None where an error keeps it from being used."""
    problems = Problems()
    if ties not in ("error", "order"):
        problems.add(f"ties={ties!r} is unknown; use 'error' or 'order'")
    if form.kind not in ("auto", "wide", "long"):
        problems.add(f"kind={form.kind!r} is unknown; use 'auto', 'wide' or 'long'")
    table = ParsedTable([], np.empty(0), np.empty(0), {})
    if frame is not None and (len(frame) or (events is None and intervals is None)):
        table = parse_table(frame, form, problems)
    elif frame is None and events is None and intervals is None:
        problems.add("there is nothing to read: no table, no events, no intervals")
    numbering: dict[object, int] = {name: i for i, name in enumerate(table.trajectories)}
    known_events = parse_events(events, numbering, problems)
    known_intervals = parse_intervals(intervals, numbering, problems)
    for limit in limits_given:
        if isinstance(limit, Mapping):
            for name in limit:
                resolve_trajectory(name, numbering)
    trajectories = list(numbering)
    seen = (table.first, table.last)
    limits = time_limits(trajectories, seen, known_events, known_intervals, limits_given, problems)
    check_inside(trajectories, limits, table.measurements, known_events, known_intervals, problems)
    check_consistency(known_events, known_intervals, trajectories, problems)
    if problems.errors:
        return None, problems
    return (
        (tuple(trajectories), *limits, table.measurements, known_events, known_intervals),
        problems,
    )
