"""Owns the reading of measurement tables, wide or long, into one record per node.

Wide: one row per time, one column per node. Long: one row per measurement with the columns
``node`` and ``value``, or ``node`` and one column ``p_<state>`` per state that holds the
probability of the measurement under that state.

Owns what every row of a measurement table says, whatever its other columns hold.

That is: its trajectory, its time, whether it reports the state itself, and its line in the user's
table. Rows come out sorted by trajectory and time; unusable ones are noted and left out.

Owns the reading of a table of measurements together with its events and intervals.

Each is read by a module of its own; here they get common trajectories, start and end, and are
checked against each other. The way back is in ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.columns import FIRST_ROW, Problems
from asterism.data.given_likelihoods import LIKELIHOOD_PREFIX, likelihoods_of_columns
from asterism.data.known_paths import (
    TimeLimit,
    check_consistency,
    check_inside,
    parse_events,
    parse_intervals,
    resolve_trajectory,
    time_limits,
)
from asterism.data.measurements import NodeMeasurements, Parts, no_measurements


@dataclass(frozen=True)
class ParsedTable:
    """What a table says, trajectories still by name."""

    trajectories: list[object]
    """In the order of their first row."""
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    """(D,) first and last time of each trajectory's rows."""
    measurements: dict[str, NodeMeasurements]


def parse_table(frame: pd.DataFrame, form: TableFormat, problems: Problems) -> ParsedTable:
    """Read a table, noting every problem; the result is only meaningful if there was none."""
    nothing = ParsedTable([], np.empty(0), np.empty(0), {})
    frame = frame.rename(columns=str)
    if frame.columns.has_duplicates:
        for name in frame.columns[frame.columns.duplicated()].unique():
            problems.add("the column name occurs more than once", column=str(name))
        return nothing
    if form.time not in frame.columns:
        problems.add(
            f"there is no time column {form.time!r}; the columns are {_listed(frame.columns)}"
        )
        return nothing
    if len(frame) == 0:
        problems.add("the table is empty: it has no rows")
        return nothing
    long = form.is_long(frame)
    rows = read_rows(frame, form, problems, long)
    n_trajectories = int(rows.trajectory.max()) + 1 if len(rows.trajectory) else 0
    trajectories: list[object] = [None] * n_trajectories
    first = np.full(n_trajectories, np.inf)
    last = np.full(n_trajectories, -np.inf)
    np.minimum.at(first, rows.trajectory, rows.time)
    np.maximum.at(last, rows.trajectory, rows.time)
    where = np.unique(rows.trajectory, return_index=True)[1]
    for i in where:
        trajectories[int(rows.trajectory[i])] = rows.name[i]
    read = _read_long if long else _read_wide
    measurements = read(frame, form, rows, problems)
    if not measurements:
        problems.add("the table has no column of measurements besides trajectory and time")
    for node, record in measurements.items():
        if len(record) == 0:
            problems.add(
                "the column is all missing: the node is treated as never measured",
                column=node,
                severity="warning",
            )
    return ParsedTable(trajectories, first, last, measurements)


def _read_wide(
    frame: pd.DataFrame, form: TableFormat, rows: Rows, problems: Problems
) -> dict[str, NodeMeasurements]:
    taken = {form.trajectory, form.time}
    if isinstance(form.exact, str) and form.exact != "first":
        taken.add(form.exact)
    wanted = [c for c in frame.columns if c not in taken]
    if form.nodes is not None:
        wanted = [str(node) for node in form.nodes]
        for node in wanted:
            if node not in frame.columns:
                problems.add(
                    f"there is no such column; the columns are {_listed(frame.columns)}",
                    column=node,
                )
        wanted = [node for node in wanted if node in frame.columns]
    result: dict[str, NodeMeasurements] = {}
    for node in wanted:
        value = columns.measured_values(
            columns.cells(frame[node])[rows.order],
            node,
            as_labels=form.as_labels(node),
            problems=problems,
            rows=rows.number,
            trajectory=rows.name,
        )
        everything = NodeMeasurements(rows.trajectory, rows.time, value, rows.exact, rows.number)
        gone = columns.missing(value)
        # Complete columns share the arrays of the rows: less memory, and a faster set-up later.
        result[node] = everything.take(np.flatnonzero(~gone)) if gone.any() else everything
    return result


def _read_long(
    frame: pd.DataFrame, form: TableFormat, rows: Rows, problems: Problems
) -> dict[str, NodeMeasurements]:
    if form.node not in frame.columns:
        problems.add(f"a long table needs a column {form.node!r}")
        return {}
    raw_node = columns.cells(frame[form.node])[rows.order]
    problems.add_rows(
        columns.missing(raw_node),
        "the node is missing",
        rows=rows.number,
        trajectory=rows.name,
        column=form.node,
    )
    node_of_row = np.array([str(x) for x in columns.names(raw_node)], dtype=object)
    original = np.argsort(rows.number, kind="stable")
    present = [str(x) for x in pd.unique(node_of_row[original]) if str(x) != "None"]
    wanted = present if form.nodes is None else [str(x) for x in form.nodes]
    for extra in [x for x in present if x not in set(wanted)]:
        problems.add(f"node {extra!r} is not among nodes=", column=form.node, value=extra)
    states = [c for c in frame.columns if c.startswith(LIKELIHOOD_PREFIX)]
    tables = {c: columns.cells(frame[c])[rows.order] for c in states}
    has_value = form.value in frame.columns
    values = columns.cells(frame[form.value])[rows.order] if has_value else None
    if values is None and not states:
        problems.add(f"a long table needs a column {form.value!r}, or columns p_<state>")
        return {}
    groups = pd.Series(np.arange(len(node_of_row))).groupby(node_of_row, sort=False).indices
    result: dict[str, NodeMeasurements] = {}
    for node in wanted:
        index = groups.get(node)
        if index is None:
            result[node] = no_measurements()
            continue
        mine = NodeMeasurements(
            rows.trajectory[index],
            rows.time[index],
            np.full(len(index), np.nan),
            rows.exact[index],
            rows.number[index],
        )
        given = [c for c in states if not columns.missing(tables[c][index]).all()]
        if given:
            table = {c: tables[c][index] for c in given}
            result[node] = likelihoods_of_columns(node, mine, table, rows.name[index], problems)
            continue
        if values is None:
            result[node] = no_measurements()
            continue
        cells = values[index]
        column = columns.measured_values(
            cells,
            node,
            as_labels=form.as_labels(node),
            problems=problems,
            rows=mine.row,
            trajectory=rows.name[index],
        )
        record = NodeMeasurements(mine.trajectory, mine.time, column, mine.exact, mine.row)
        result[node] = record.take(np.flatnonzero(~columns.missing(column)))
    return result


def _listed(names: Collection[Any], shown: int = 12) -> str:
    text = ", ".join(repr(str(n)) for n in list(names)[:shown])
    return text + (", …" if len(names) > shown else "")


IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class TableFormat:
    """How to read a table: its columns and the user's choices."""

    kind: str = "auto"
    trajectory: str = "trajectory"
    time: str = "time"
    node: str = "node"
    value: str = "value"
    nodes: Sequence[str] | None = None
    labels: Collection[str] | bool = ()
    exact: Any = None
    sort: bool = False

    def as_labels(self, node: str) -> bool:
        return self.labels if isinstance(self.labels, bool) else node in self.labels

    def is_long(self, frame: pd.DataFrame) -> bool:
        if self.kind in ("wide", "long"):
            return self.kind == "long"
        found = [str(c) for c in frame.columns]
        has_value = self.value in found or any(c.startswith(LIKELIHOOD_PREFIX) for c in found)
        return self.node in found and has_value


@dataclass(frozen=True)
class Rows:
    """The columns that every row has, sorted by (trajectory, time); invalid rows left out."""

    order: IntArray
    name: NDArray[Any]
    trajectory: IntArray
    time: NDArray[np.float64]
    exact: BoolArray
    number: IntArray


def read_rows(frame: pd.DataFrame, form: TableFormat, problems: Problems, long: bool) -> Rows:
    n_rows = len(frame)
    number = np.arange(n_rows, dtype=np.int64) + FIRST_ROW
    if form.trajectory in frame.columns:
        raw = columns.cells(frame[form.trajectory])
        unnamed = columns.missing(raw)
        name = columns.names(raw)
        problems.add_rows(unnamed, "the trajectory is missing", rows=number, column=form.trajectory)
    else:
        if form.trajectory != TableFormat.trajectory:  # somebody named it
            listed = ", ".join(repr(str(c)) for c in frame.columns[:8])
            problems.add(
                f"there is no column {form.trajectory!r} that names trajectories; the columns are "
                f"{listed}"
            )
        unnamed = np.zeros(n_rows, dtype=np.bool_)
        name = np.zeros(n_rows, dtype=np.int64).astype(object)
    time = columns.times(
        columns.cells(frame[form.time]), form.time, problems=problems, rows=number, trajectory=name
    )
    trajectory = pd.factorize(name)[0].astype(np.int64)
    usable = np.flatnonzero(~unnamed & np.isfinite(time))
    if not form.sort:
        _check_sorted(frame, form, problems, long, usable, trajectory, time, name, number)
    order = usable[np.lexsort((time[usable], trajectory[usable]))]
    trajectory, time, name = trajectory[order], time[order], name[order]
    exact = _read_exact(frame, form, problems, order, trajectory, time, number)
    # Where the leading rows were unusable a trajectory may have lost all its rows.
    trajectory = _renumber(trajectory, order)
    by_trajectory = np.lexsort((time, trajectory))
    return Rows(
        order[by_trajectory],
        name[by_trajectory],
        trajectory[by_trajectory],
        time[by_trajectory],
        exact[by_trajectory],
        number[order][by_trajectory],
    )


def _renumber(trajectory: IntArray, order: IntArray) -> IntArray:
    """Number trajectories 0, 1, … by the position of their first usable row."""
    uniques, inverse = np.unique(trajectory, return_inverse=True)
    first = np.full(len(uniques), np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, order)
    rank = np.empty(len(uniques), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(uniques))
    return rank[inverse]


def _check_sorted(
    frame: pd.DataFrame,
    form: TableFormat,
    problems: Problems,
    long: bool,
    usable: IntArray,
    trajectory: IntArray,
    time: NDArray[np.float64],
    name: NDArray[Any],
    number: IntArray,
) -> None:
    group = trajectory
    if long and form.node in frame.columns:
        codes, uniques = pd.factorize(frame[form.node].to_numpy(dtype=object))
        group = trajectory * (len(uniques) + 1) + codes
    by_group = usable[np.argsort(group[usable], kind="stable")]
    back = (np.diff(time[by_group]) < 0) & (np.diff(group[by_group]) == 0)
    several = ""
    if form.trajectory not in frame.columns:
        several = "; if these are several trajectories, name their column with trajectory="
    for i in np.flatnonzero(back):
        row, before = by_group[i + 1], by_group[i]
        problems.add(
            f"time {time[row]:g} comes after time {time[before]:g} of row {number[before]}; "
            f"sort the table or pass sort=True{several}",
            trajectory=name[row],
            row=int(number[row]),
            column=form.time,
            value=float(time[row]),
        )


def _read_exact(
    frame: pd.DataFrame,
    form: TableFormat,
    problems: Problems,
    order: IntArray,
    trajectory: IntArray,
    time: NDArray[np.float64],
    number: IntArray,
) -> BoolArray:
    """Which of the sorted rows report the state itself."""
    exact = form.exact
    if exact is None:
        return np.zeros(len(order), dtype=np.bool_)
    if isinstance(exact, str) and exact == "first":
        first = np.full(int(trajectory.max(initial=-1)) + 1, np.inf)
        np.minimum.at(first, trajectory, time)
        return np.asarray(time == first[trajectory], dtype=np.bool_)
    if isinstance(exact, str):
        if exact not in frame.columns:
            problems.add(
                f"exact={exact!r} names no column; give a column, a boolean mask or 'first'"
            )
            return np.zeros(len(order), dtype=np.bool_)
        return columns.flags(columns.cells(frame[exact]), exact, problems, number)[order]
    mask = np.asarray(exact)
    if mask.dtype != np.bool_ or mask.shape != (len(frame),):
        problems.add(
            f"exact= must be a boolean mask with one entry for each of the {len(frame)} rows, the "
            "name of a column, or 'first'"
        )
        return np.zeros(len(order), dtype=np.bool_)
    return mask[order]


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
