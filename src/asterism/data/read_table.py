"""Reads measurement tables, wide or long, with their events and intervals, from frames or files.

Wide: one row per time, one column per node. Long: one row per measurement with the columns
``node`` and ``value``, or ``node`` and one column ``p_<state>`` per state that holds the
probability of the measurement under that state. Events and intervals are read by
``known_paths.py``; here they get common trajectories, start and end, and are checked against each
other. The way back is in ``measurements.py``.

Beside a file ``NAME.csv`` may lie ``NAME.meta.json`` (start, end, order of nodes: what a table
cannot hold), ``NAME.events.csv`` and ``NAME.intervals.csv``; reading picks them up by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.files import check_names, read_meta, side_file, write_table, write_text
from asterism.data.given_likelihoods import likelihoods_of_columns
from asterism.data.known_paths import (
    TimeBound,
    check_consistency,
    check_inside,
    parse_events,
    parse_intervals,
    resolve_trajectory,
    time_limits,
    warn_of_unmeasured,
)
from asterism.data.labels import as_names, plain
from asterism.data.measurements import (
    LIKELIHOOD_PREFIX,
    NodeMeasurements,
    Parts,
    exact_column,
    long_frame,
    no_measurements,
    objects,
    wide_frame,
)
from asterism.data.numbers import COMMAS, is_missing, read_numbers
from asterism.data.problems import Problems
from asterism.data.table_file import read_text_table
from asterism.data.table_reader import TableReader
from asterism.data.table_rows import TableFormat, TableRows, read_rows
from asterism.errors import Sentence, Setting, first_few, quoted
from asterism.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from asterism.data.observations import Observations


@dataclass(frozen=True)
class ParsedTable:
    """What a table says, trajectories still by name."""

    trajectories: list[object]
    """In the order of their first row."""
    first: FloatArray
    last: FloatArray
    """(D,) first and last time of each trajectory's rows."""
    measurements: dict[str, NodeMeasurements]
    unit: str = ""
    """Of the times; "" if nothing says it."""
    ends: Mapping[object, float] = field(default_factory=dict)
    """End of follow-up, where a column gives it."""


def parse_table(frame: pd.DataFrame, form: TableFormat, problems: Problems) -> ParsedTable:
    """Read a table, noting every problem; the result is only meaningful if there was none."""
    nothing = ParsedTable([], np.empty(0), np.empty(0), {})
    table = TableReader(columns.without_codes(frame, form.missing), problems, comma=form.comma)
    if not table.names_are_unique():
        return nothing
    if not table.has(form.time):
        table.tell(
            f"there is no time column {form.time!r}; the columns are {quoted(table.frame)}",
            remedy=Sentence("name it with ", Setting("time", ...)),
        )
        return nothing
    if len(frame) == 0:
        table.tell("the table is empty: it has no rows")
        return nothing
    _note_repeated_rows(table)
    long = form.is_long(table.frame)
    rows = read_rows(table, form, long)
    where = np.unique(rows.trajectory, return_index=True)[1]
    ends = [*where[1:] - 1, -1] if len(where) else []
    measurements = (_read_long if long else _read_wide)(table, form, rows)
    if not measurements:
        table.tell("the table has no column of measurements besides trajectory and time")
    for node, record in measurements.items():
        if len(record) == 0:
            table.tell(
                "the column is all missing: the node is treated as never measured",
                column=node,
                severity="warning",
            )
    return ParsedTable(
        list(rows.name[where]), rows.time[where], rows.time[ends], measurements, rows.unit,
        rows.ends,
    )  # fmt: skip


def measured_values(
    table: TableReader, array: NDArray[Any], column: str, as_labels: bool, at: IntArray
) -> NDArray[Any]:
    """The cells of a node as numbers, or as labels where most of them are not numbers."""
    if array.dtype.kind == "f" and not as_labels:
        values = array
    else:
        read = read_numbers(array, table.comma)
        values, is_text = read.value, read.is_text
        n_text, n_number = int(is_text.sum()), int(np.isfinite(values).sum())
        if as_labels or n_text >= max(n_number, 1):
            return objects(np.nan if is_missing(v) else plain(v) for v in array)
        table.tell_commas(read, array, column, at)
        table.note(
            is_text,
            "{value} is text in a column of numbers",
            at,
            remedy=Sentence(
                "correct it or leave the cell empty; if it means 'not measured', name it with ",
                *(Setting("missing", ...), "; if the column holds states, name the column with "),
                Setting("labels", ...),
            ),
            value=array,
            column=column,
        )
    endless = "{value} is not a finite number; leave the cell empty where nothing was measured"
    table.note(np.isinf(values), endless, at, value=values, column=column)
    return values


#: columns that are compared first: rows of a wide table mostly differ in trajectory or time
_COMPARED_FIRST = 30


def _note_repeated_rows(table: TableReader) -> None:
    """Point out rows that say exactly what an earlier row says."""
    frame = table.frame
    # rows that differ in their first columns differ
    alike = frame.iloc[:, :_COMPARED_FIRST].astype(str).duplicated(keep=False).to_numpy()
    repeated = table.rows[alike][frame[alike].astype(str).duplicated().to_numpy()]
    if not len(repeated):
        return
    shown = first_few(repeated, 5)
    which = f"row {shown} repeats" if len(repeated) == 1 else f"rows {shown} repeat"
    count = f" ({len(repeated):,} rows)" if len(repeated) > 5 else ""
    table.tell(
        f"{which} an earlier row exactly{count}",
        severity="warning",
        remedy="remove copies; every row counts as a measurement of its own",
    )


def _read_wide(
    table: TableReader, form: TableFormat, rows: TableRows
) -> dict[str, NodeMeasurements]:
    wanted = [c for c in table.frame.columns if c not in form.not_nodes]
    if form.nodes is not None:
        wanted = [str(node) for node in form.nodes]
        for node in wanted:
            if not table.has(node):
                table.tell(
                    f"there is no such column; the columns are {quoted(table.frame)}", column=node
                )
        wanted = list(filter(table.has, wanted))
    result: dict[str, NodeMeasurements] = {}
    for node in wanted:
        cells = table.cells(node)[rows.order]
        value = measured_values(table, cells, node, form.as_labels(node), rows.order)
        everything = NodeMeasurements(rows.trajectory, rows.time, value, rows.exact, rows.number)
        gone = columns.missing(value)
        # Complete columns share the arrays of the rows: less memory, and a faster set-up later.
        result[node] = everything.take(np.flatnonzero(~gone)) if gone.any() else everything
    return result


def _read_long(
    table: TableReader, form: TableFormat, rows: TableRows
) -> dict[str, NodeMeasurements]:
    if not table.has(form.node):
        table.tell(f"a long table needs a column {form.node!r}")
        return {}
    raw_node = table.cells(form.node)[rows.order]
    gone = columns.missing(raw_node)
    table.note(gone, "the node is missing", rows.order, column=form.node)
    node_of_row = objects(map(str, as_names(raw_node)))
    original = np.argsort(rows.number, kind="stable")
    present = [str(x) for x in pd.unique(node_of_row[original]) if str(x) != "None"]
    wanted = present if form.nodes is None else [str(x) for x in form.nodes]
    for extra in [x for x in present if x not in set(wanted)]:
        table.tell(
            Sentence(f"node {extra!r} is not among ", Setting("nodes", ...)),
            column=form.node,
            value=extra,
        )
    states = [c for c in table.frame.columns if c.startswith(LIKELIHOOD_PREFIX)]
    tables = {c: table.cells(c)[rows.order] for c in states}
    values = table.cells(form.value)[rows.order] if table.has(form.value) else None
    if values is None and not states:
        table.tell(f"a long table needs a column {form.value!r}, or columns p_<state>")
        return {}
    # all nodes share the column of values, so its commas mean the same in all of them
    shared = table
    if table.comma is None and values is not None:
        meaning = read_numbers(values).comma
        shared = replace(table, comma=meaning if meaning in COMMAS else None)
    groups = pd.Series(np.arange(len(node_of_row))).groupby(node_of_row, sort=False).indices
    everything = NodeMeasurements(
        rows.trajectory, rows.time, np.full(len(rows.time), np.nan), rows.exact, rows.number
    )
    result: dict[str, NodeMeasurements] = {}
    for node in wanted:
        index = groups.get(node)
        if index is None:
            result[node] = no_measurements()
            continue
        mine, at = everything.take(np.asarray(index)), rows.order[index]
        given = [c for c in states if not columns.missing(tables[c][index]).all()]
        if given:
            own = {c: tables[c][index] for c in given}
            result[node] = likelihoods_of_columns(node, mine, own, table, at)
        elif values is None:
            result[node] = no_measurements()
        else:
            column = measured_values(shared, values[index], node, form.as_labels(node), at)
            record = replace(mine, value=column)
            result[node] = record.take(np.flatnonzero(~columns.missing(column)))
    return result


def read_frames(
    frame: pd.DataFrame | None,
    form: TableFormat,
    limits_given: tuple[TimeBound, TimeBound],
    events: pd.DataFrame | None,
    intervals: pd.DataFrame | None,
    ties: str,
) -> tuple[Parts | None, Problems]:
    """Everything that the tables say (None where an error keeps it from being used), and every
    problem."""
    problems = Problems()
    for name, value, valid in (
        ("ties", ties, ("error", "order")),
        ("comma", form.comma or "decimal", COMMAS),
        ("kind", form.kind, ("auto", "wide", "long")),
    ):
        if value not in valid:
            words = f"{', '.join(map(repr, valid[:-1]))} or {valid[-1]!r}"
            problems.add(Sentence(Setting(name, value), f" is unknown; use {words}"))
    table = ParsedTable([], np.empty(0), np.empty(0), {})
    if frame is not None and (len(frame) or (events is None and intervals is None)):
        if frame.attrs.get("counted"):
            problems.add(
                "The first column has no name and only counts the rows: it is left out.",
                severity="note",
            )
        table = parse_table(frame, form, problems)
    elif frame is None and events is None and intervals is None:
        problems.add("there is nothing to read: no table, no events, no intervals")
    numbering: dict[object, int] = {name: i for i, name in enumerate(table.trajectories)}
    known_events = parse_events(events, numbering, problems, form.comma)
    known_intervals = parse_intervals(intervals, numbering, problems, form.comma)
    warn_of_unmeasured(list(numbering), len(table.trajectories), limits_given, problems)
    if table.ends and limits_given[1] is None:
        limits_given = (limits_given[0], table.ends)
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
    found = Parts(
        tuple(trajectories),
        *limits,
        measurements=table.measurements,
        events=known_events,
        intervals=known_intervals,
        time_unit=table.unit,
    )
    return found, problems


# ---- files, and the side files that complete them -------------------------------------------


FORMAT = "asterism-observations"


def write_observations(observations: Observations, path: str | Path, kind: str = "wide") -> None:
    """Write a table and its side files."""
    meta = {
        "format": FORMAT,
        "version": 1,
        "kind": kind,
        "exact": exact_column(observations),
        "nodes": list(observations.measurements),
        "labels": [n for n, m in observations.measurements.items() if m.holds_labels],
        "trajectories": [plain(x) for x in observations.trajectories],
        "start": observations.start.tolist(),
        "end": observations.end.tolist(),
        "ties": observations.ties,
        "time_unit": observations.time_unit,
    }
    make = wide_frame if kind == "wide" else long_frame
    tables = {Path(path): make(observations)}
    for ending, table in (
        ("events.csv", observations.events_frame()),
        ("intervals.csv", observations.intervals_frame()),
    ):
        side = side_file(path, ending)
        if len(table):
            tables[side] = table
        else:
            side.unlink(missing_ok=True)  # or an old table would be read back
    # a side file of an older table must not outlive it, whenever we are stopped
    side_file(path, "meta.json").unlink(missing_ok=True)
    for target, table in tables.items():
        write_table(target, table)
    write_text(side_file(path, "meta.json"), json.dumps(meta, indent=1))


def gather_files(
    path: str | Path, options: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any], list[Any]]:
    """The table, the settings of its side files (``options`` win), and the trajectories' names."""
    settings: dict[str, Any] = {}
    names: list[Any] = []
    meta = read_meta(path, FORMAT)
    if meta is not None:
        names = list(meta["trajectories"])
        settings = {
            "start": dict(zip(names, meta["start"])),
            "end": dict(zip(names, meta["end"])),
            "kind": meta["kind"],
            "exact": meta.get("exact"),
            "nodes": meta["nodes"] or None,
            "labels": tuple(meta["labels"]),
            "ties": meta.get("ties", "error"),
            "unit": meta.get("time_unit") or None,
        }
    for table in ("events", "intervals"):
        side = side_file(path, f"{table}.csv")
        if side.exists():
            settings[table] = read_text_table(side)
    settings = {**settings, **options}
    frame = read_text_table(path, settings.pop("sheet", None))
    column = settings.get("trajectory", "trajectory")
    if meta is not None and column in frame:
        sides = [settings[t] for t in ("events", "intervals") if settings.get(t) is not None]
        check_names(path, names, frame[column], [s.get(column) for s in sides])
    return frame, settings, names
