"""Reads tables of jump paths with checks, from frames or from a CSV file with its side file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.files import read_meta
from asterism.data.known_paths import given_limits
from asterism.data.labels import canonical, encode, letters, plain
from asterism.data.measurements import objects
from asterism.data.problems import Problems
from asterism.data.table_file import read_text_table
from asterism.data.table_reader import TableReader
from asterism.data.table_rows import TableFormat, TableRows, read_rows
from asterism.errors import Advice, DataError
from asterism.numerics.arrays import IntArray

FORMAT = "asterism-trajectories"

#: how a table of paths is read unless somebody says otherwise
PATHS = TableFormat(kind="long", value="state")


def parse_paths(
    frame: pd.DataFrame,
    states: Mapping[str, Sequence[Any]] | None,
    end: float | Mapping[Any, float] | None,
    form: TableFormat,
) -> dict[str, Any]:
    """The fields of Trajectories from a table of entered states; raises with every problem.

    ``form`` is that of a long table whose values are states.
    """
    problems = Problems()
    table = TableReader(columns.without_codes(frame, form.missing), problems, comma=form.comma)
    if not table.names_are_unique():
        problems.raise_errors()
    columns.require_columns(table.frame, (form.time, form.node, form.value), "the table of paths")
    if len(frame) == 0:
        raise DataError("the table of paths is empty: it has no rows")
    rows = read_rows(table, form, long=True)
    node_name = objects(map(str, table.labels(form.node)))[rows.order]
    cell = table.cells(form.value)
    table.note(columns.missing(cell), "the cell is empty", column=form.value)
    cell = cell[rows.order]
    problems.raise_errors()
    in_file = np.argsort(rows.number, kind="stable")
    found = [str(n) for n in pd.unique(node_name[in_file])]
    nodes = tuple(found if states is None else (str(n) for n in states))
    if extra := sorted(set(found) - set(nodes)):
        raise DataError(
            f"node {extra[0]!r} is not among the nodes ",
            Advice("of states=", "in the side file"),
            f": {list(nodes)}",
        )
    node = encode(node_name, nodes)
    known: dict[str, tuple[Any, ...]] = {}
    state = np.empty(len(cell), dtype=np.int64)
    for n, one in enumerate(nodes):
        mine = np.flatnonzero(node == n)
        known[one] = _state_labels(cell[mine], None if states is None else states[one])
        state[mine] = encode(cell[mine], known[one])
        what = f"node {one!r} has no state {{value}}; its states are {list(known[one])}"
        bad, at = state[mine] < 0, rows.order[mine]
        table.note(bad, what, at, value=cell[mine], column=form.value)
    problems.raise_errors()
    labels = list(rows.name[np.unique(rows.trajectory, return_index=True)[1]])
    fields = _assemble(rows, node, state, labels, nodes, problems)
    last, limit = fields["end"], end if end is not None else rows.ends or None
    fields["end"] = given_limits(labels, limit, last, "end", problems)
    for d in np.flatnonzero(fields["end"] < last):
        problems.add(
            f"the end {fields['end'][d]:g} lies before the last row at {last[d]:g}: a negative "
            "duration",
            trajectory=labels[d],
        )
    problems.raise_errors()
    return {
        **fields,
        "nodes": nodes,
        "states": known,
        "labels": tuple(plain(x) for x in labels),
        "time_unit": rows.unit,
    }


def _state_labels(cells: NDArray[Any], given: Sequence[Any] | None) -> tuple[Any, ...]:
    if given is not None:
        return tuple(given)
    unique = {letters(v): plain(v) for v in pd.unique(cells)}
    values = list(unique.values())
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def _assemble(
    rows: TableRows,
    node: IntArray,
    state: IntArray,
    labels: list[Any],
    nodes: tuple[str, ...],
    problems: Problems,
) -> dict[str, Any]:
    n_trajectories, n_nodes = len(labels), len(nodes)
    each = np.arange(n_trajectories)
    start = rows.time[np.searchsorted(rows.trajectory, each)]
    last = rows.time[np.searchsorted(rows.trajectory, each, side="right") - 1]
    order = np.lexsort((rows.number, rows.time, node, rows.trajectory))
    t, d, r = rows.time[order], rows.trajectory[order], rows.number[order]
    n, x = node[order], state[order]
    same = np.concatenate([[False], (np.diff(d) == 0) & (np.diff(n) == 0)])
    first = ~same
    initial = np.full((n_trajectories, n_nodes), -1, dtype=np.int64)
    initial[d[first], n[first]] = x[first]
    for i in np.flatnonzero(first & (t > start[d])):
        problems.add(
            f"node {nodes[n[i]]!r} starts at {t[i]:g}, after the trajectory's start at "
            f"{start[d[i]]:g}; give its state from the start",
            trajectory=labels[d[i]],
            row=int(r[i]),
        )
    for k, m in zip(*np.nonzero(initial < 0)):
        problems.add(f"node {nodes[m]!r} has no row", trajectory=labels[k])
    changed = np.concatenate([[False], np.diff(x) != 0]) & same
    for i in np.flatnonzero(changed & np.concatenate([[False], np.diff(t) == 0])):
        problems.add(
            f"node {nodes[n[i]]!r} has two different states at time {t[i]:g}",
            trajectory=labels[d[i]],
            row=int(r[i]),
        )
    jump = np.flatnonzero(changed)
    jump = jump[np.lexsort((r[jump], t[jump], d[jump]))]
    return {
        "start": start,
        "end": last,
        "initial": initial,
        "jump_offset": np.searchsorted(d[jump], np.arange(n_trajectories + 1)).astype(np.int64),
        "jump_time": t[jump],
        "jump_node": n[jump].astype(np.int64),
        "jump_state": x[jump].astype(np.int64),
    }


def open_ended(fields: Mapping[str, Any]) -> list[object]:
    """Trajectories whose last row is a jump, so that nothing says how long they were followed."""
    offset, jump_time, start = (fields[name] for name in ("jump_offset", "jump_time", "start"))
    return [
        label
        for d, label in enumerate(fields["labels"])
        if (jump_time[offset[d + 1] - 1] if offset[d + 1] > offset[d] else start[d])
        >= fields["end"][d]
    ]


def load_paths(path: str | Path) -> dict[str, Any]:
    """The fields of Trajectories from a CSV table and its side file, if there is one."""
    frame = read_text_table(path)
    meta = read_meta(path, FORMAT)
    if meta is None:
        return parse_paths(frame, None, None, PATHS)
    if set(meta["states"]) != set(meta["nodes"]):
        raise DataError(
            f"The side file of {str(path)!r} is damaged: its states are not those of its nodes; "
            "restore it, or move it away."
        )
    states = {n: tuple(meta["states"][n]) for n in meta["nodes"]}
    end = dict(zip(meta["trajectories"], meta["end"]))
    fields = parse_paths(frame, states, end, replace(PATHS, unit=meta.get("time_unit") or None))
    by_text = {canonical(x): x for x in meta["trajectories"]}
    fields["labels"] = tuple(by_text.get(canonical(x), x) for x in fields["labels"])
    return fields
