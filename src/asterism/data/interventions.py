"""Owns interventions: times during which the experimenter holds a node in a state.

A knock-out, a drug, a heat shock. That is not the same as a state that was *seen*: the node did not
choose it, so its own rates and parents have no part in it, while its children feel it like any
other state. At the end the node is free again and starts from the state it was set to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.labels import canonical
from asterism.data.measurements import Intervals, objects
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import DataError

COLUMNS = ("trajectory", "node", "start", "end", "state")


def read_interventions(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    nodes: Sequence[str],
    comma: str | None = None,
) -> Intervals:
    """Check a table of interventions; empty starts and ends are those of the trajectory."""
    absent = [c for c in ("trajectory", "node", "state") if c not in frame.columns]
    if absent:
        raise DataError(
            f"the table of interventions has no column {absent[0]!r}; it needs {', '.join(COLUMNS)}"
        )
    problems = Problems()
    table = TableReader(frame, problems, "interventions", comma)
    name, _ = table.read_trajectories("trajectory")
    number = {canonical(label): d for d, label in enumerate(trajectories)}
    d = np.array([number.get(canonical(label), -1) for label in name], dtype=np.int64)
    known = f"the first ones are {list(trajectories[:5])}"
    table.note(d < 0, f"there is no trajectory {{value}}; {known}", value=name)
    node = objects(map(str, table.labels("node")))
    known = f"the nodes are {', '.join(map(str, nodes[:8]))}"
    table.note(~np.isin(node, list(nodes)), f"{{value}} is not a node; {known}", value=node)
    state = table.labels("state")
    begin, stop = (ends(table, column) for column in ("start", "end"))
    problems.raise_errors()
    begin = np.fmax(begin, start[d])
    stop = np.fmin(stop, end[d])
    for i in np.flatnonzero(~(begin < stop)):
        problems.add(
            f"of the intervention nothing lies in the trajectory ({start[d[i]]:g} to "
            f"{end[d[i]]:g})",
            trajectory=name[i],
            row=int(table.rows[i]),
            table="interventions",
        )
    found = Intervals(d, node, begin, stop, state, table.rows)
    _check_overlaps(found, trajectories, problems)
    problems.raise_errors()
    return found


def ends(table: TableReader, column: str) -> NDArray[np.float64]:
    """Starts or ends; NaN where the cell is empty, which means that of the trajectory."""
    if column not in table.frame.columns:
        return np.full(len(table.frame), np.nan)
    cells = table.cells(column)
    read = columns.numbers(cells, column, table.problems, table.rows, table.comma, table.table)
    bad = read.is_text | np.isinf(read.value)
    table.note(bad, "the " + column + " {value} is not a number", value=cells, column=column)
    return read.value


def inside(
    interventions: Intervals, node: str, trajectory: NDArray[np.int64], time: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which times of one node lie in an intervention on it, its ends included."""
    found = np.zeros(len(time), dtype=np.bool_)
    for i in np.flatnonzero(interventions.node == node):
        found |= (
            (trajectory == interventions.trajectory[i])
            & (time >= interventions.start[i])
            & (time <= interventions.end[i])
        )
    return found


def _check_overlaps(found: Intervals, trajectories: Sequence[object], problems: Problems) -> None:
    order = np.lexsort((found.start, found.node.astype(str), found.trajectory))
    for a, b in pairwise(order):
        same = found.trajectory[a] == found.trajectory[b] and found.node[a] == found.node[b]
        if same and found.start[b] < found.end[a]:
            problems.add(
                f"rows {found.row[a]} and {found.row[b]}: both hold {found.node[a]!r} at time "
                f"{found.start[b]:g}",
                trajectory=trajectories[int(found.trajectory[a])],
                table="interventions",
            )
