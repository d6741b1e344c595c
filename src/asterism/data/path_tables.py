"""Reads tables of jump paths with checks, from frames or from a CSV file with its side file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.files import read_meta
from asterism.data.labels import canonical, encode, letters, plain
from asterism.data.measurements import objects
from asterism.data.problems import Problems
from asterism.data.table_file import read_text_table
from asterism.data.table_reader import TableReader
from asterism.errors import Advice, DataError, Sentence, Setting

IntArray = NDArray[np.int64]
FORMAT = "asterism-trajectories"


class PathFormat(NamedTuple):
    """How to read a table of paths: its columns and the user's choices."""

    trajectory: str = "trajectory"
    time: str = "time"
    node: str = "node"
    state: str = "state"
    sort: bool = False
    missing: Collection[object] = ()
    unit: str | None = None
    end_column: str | None = None
    comma: str | None = None


def parse_paths(
    frame: pd.DataFrame,
    states: Mapping[str, Sequence[Any]] | None,
    end: float | Mapping[Any, float] | None,
    form: PathFormat,
) -> dict[str, Any]:
    """The fields of Trajectories from a table of entered states; raises with every problem."""
    problems = Problems()
    frame = frame.rename(columns=str)
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"the column name {str(twice)!r} occurs more than once")
    frame = columns.without_codes(frame, form.missing)
    absent = [c for c in (form.time, form.node, form.state) if c not in frame.columns]
    if absent:
        raise DataError(
            f"a table of paths needs the column(s) {', '.join(absent)}; it has "
            f"{', '.join(map(str, frame.columns))}"
        )
    if len(frame) == 0:
        raise DataError("the table of paths is empty: it has no rows")
    table = TableReader(frame, problems, comma=form.comma)
    rows = table.rows
    name, _ = table.read_trajectories(form.trajectory)
    named = table.trajectory is not None
    read = table.times(form.time, form.unit)
    time = read.time
    ends = table.ends(form.end_column, (form.time, read), name)
    node_name = objects(map(str, table.labels(form.node)))
    cell = table.cells(form.state)
    table.note(columns.missing(cell), "the cell is empty", column=form.state)
    problems.raise_errors()
    trajectory, labels = pd.factorize(name)
    found = [str(n) for n in pd.unique(node_name)]
    nodes = tuple(found if states is None else (str(n) for n in states))
    if extra := sorted(set(found) - set(nodes)):
        raise DataError(
            f"node {extra[0]!r} is not among the nodes ",
            Advice("of states=", "in the side file"),
            f": {list(nodes)}",
        )
    node = encode(node_name, nodes)
    known: dict[str, tuple[Any, ...]] = {}
    state = np.empty(len(frame), dtype=np.int64)
    for n, one in enumerate(nodes):
        mine = np.flatnonzero(node == n)
        known[one] = _state_labels(cell[mine], None if states is None else states[one])
        state[mine] = encode(cell[mine], known[one])
        for i in mine[state[mine] < 0]:
            problems.add(
                f"node {one!r} has no state {cell[i]!r}; its states are {list(known[one])}",
                trajectory=name[i],
                row=int(rows[i]),
                column=form.state,
                value=cell[i],
            )
    problems.raise_errors()
    if not form.sort or not named:
        _check_sorted(trajectory, node, time, name if named else None, rows, form, problems)
        problems.raise_errors()
    fields = _assemble(trajectory, time, node, state, rows, list(labels), nodes, problems)
    limit = end if end is not None else ends or None
    fields["end"] = _ends(fields["end"], fields["start"], list(labels), limit, problems)
    problems.raise_errors()
    return {
        **fields,
        "nodes": nodes,
        "states": known,
        "labels": tuple(plain(x) for x in labels),
        "time_unit": read.unit,
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


def _check_sorted(
    trajectory: NDArray[Any],
    node: IntArray,
    time: NDArray[np.float64],
    name: NDArray[Any] | None,
    rows: IntArray,
    form: PathFormat,
    problems: Problems,
) -> None:
    """Note rows that go back in time, or that start again though no column names trajectories."""
    order = np.lexsort((rows, node, trajectory))
    same = (np.diff(trajectory[order]) == 0) & (np.diff(node[order]) == 0)
    back = same & (np.diff(time[order]) < 0)
    again = np.flatnonzero(back & (time[order][1:] <= time.min())) + 1
    if name is None and len(again):
        first = int(order[again].min())
        problems.add(
            f"the times start again at {time[first]:g}: the table seems to hold several "
            "trajectories, but no column was recognised as their name",
            row=int(rows[first]),
            column=form.time,
            remedy=Sentence("name the column with ", Setting("trajectory", ...)),
        )
        return
    if form.sort:
        return
    problems.add_rows(
        np.concatenate([[False], back]),
        "time {value} comes before the time of the node's previous row",
        remedy=Sentence("sort the table, or use ", Setting("sort", True)),
        rows=rows[order],
        trajectory=None if name is None else name[order],
        value=time[order],
        column=form.time,
    )


def _assemble(
    trajectory: NDArray[Any],
    time: NDArray[np.float64],
    node: IntArray,
    state: IntArray,
    rows: IntArray,
    labels: list[Any],
    nodes: tuple[str, ...],
    problems: Problems,
) -> dict[str, Any]:
    n_trajectories, n_nodes = len(labels), len(nodes)
    start = np.full(n_trajectories, np.inf)
    last = np.full(n_trajectories, -np.inf)
    np.minimum.at(start, trajectory, time)
    np.maximum.at(last, trajectory, time)
    order = np.lexsort((rows, time, node, trajectory))
    t, n, d, x, r = time[order], node[order], trajectory[order], state[order], rows[order]
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


def _ends(
    last: NDArray[np.float64],
    start: NDArray[np.float64],
    labels: list[Any],
    end: float | Mapping[Any, float] | None,
    problems: Problems,
) -> NDArray[np.float64]:
    if end is None:
        return last
    given = {canonical(k): v for k, v in end.items()} if isinstance(end, Mapping) else {}
    result = last.copy()
    for d, label in enumerate(labels):
        value = given.get(canonical(label)) if isinstance(end, Mapping) else end
        if value is None:
            continue
        if not np.isfinite(value) or value < last[d]:
            problems.add(
                f"the end {value!r} lies before the last row at {last[d]:g}: a negative duration",
                trajectory=label,
            )
        result[d] = value
    return result


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
        return parse_paths(frame, None, None, PathFormat())
    if set(meta["states"]) != set(meta["nodes"]):
        raise DataError(
            f"The side file of {str(path)!r} is damaged: its states are not those of its nodes; "
            "restore it, or move it away."
        )
    states = {n: tuple(meta["states"][n]) for n in meta["nodes"]}
    end = dict(zip(meta["trajectories"], meta["end"]))
    form = PathFormat(unit=meta.get("time_unit") or None)
    fields = parse_paths(frame, states, end, form)
    by_text = {canonical(x): x for x in meta["trajectories"]}
    fields["labels"] = tuple(by_text.get(canonical(x), x) for x in fields["labels"])
    return fields
