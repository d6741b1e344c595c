"""Owns interventions: times during which the experimenter holds a node in a state.

A knock-out, a drug, a heat shock. That is not the same as a state that was *seen*: the node did not
choose it, so its own rates and parents have no part in it, while its children feel it like any
other state. At the end the node is free again and starts from the state it was set to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.labels import canonical, plain
from asterism.data.measurements import Intervals, objects
from asterism.data.numbers import as_number, is_missing
from asterism.errors import DataError

COLUMNS = ("trajectory", "node", "start", "end", "state")


def read_interventions(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    nodes: Sequence[str],
) -> Intervals:
    """Check a table of interventions; empty starts and ends are those of the trajectory."""
    absent = [c for c in ("trajectory", "node", "state") if c not in frame.columns]
    if absent:
        raise DataError(
            f"the table of interventions has no column {absent[0]!r}; it needs {', '.join(COLUMNS)}"
        )
    number = {canonical(plain(label)): d for d, label in enumerate(trajectories)}
    rows = [
        _row(i, cells, number, trajectories, (start, end), nodes)
        for i, cells in enumerate(frame.to_dict("records"))
    ]
    found = Intervals(
        np.array([r[0] for r in rows], dtype=np.int64),
        objects(r[1] for r in rows),
        np.array([r[2] for r in rows], dtype=np.float64),
        np.array([r[3] for r in rows], dtype=np.float64),
        objects(r[4] for r in rows),
        np.arange(1, len(rows) + 1, dtype=np.int64),
    )
    _check_overlaps(found, trajectories)
    return found


def taken(interventions: Intervals, new_number: NDArray[np.int64]) -> Intervals:
    """Those of some trajectories, renumbered; −1 marks trajectories that are left out."""
    keep = new_number[interventions.trajectory] >= 0
    return Intervals(
        new_number[interventions.trajectory[keep]],
        interventions.node[keep],
        interventions.start[keep],
        interventions.end[keep],
        interventions.state[keep],
        interventions.row[keep],
    )


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


def _row(
    i: int,
    cells: dict[Any, Any],
    number: dict[str, int],
    trajectories: Sequence[object],
    limits: tuple[NDArray[np.float64], NDArray[np.float64]],
    nodes: Sequence[str],
) -> tuple[int, str, float, float, Any]:
    where = f"interventions, row {i + 1}"
    d = number.get(canonical(plain(cells["trajectory"])))
    if d is None:
        raise DataError(
            f"{where}: there is no trajectory {cells['trajectory']!r}; the first ones are "
            f"{list(trajectories[:5])}"
        )
    node = str(cells["node"])
    if node not in nodes:
        raise DataError(
            f"{where}: {node!r} is not a node; the nodes are {', '.join(map(str, nodes[:8]))}"
        )
    ends = []
    for name, limit in zip(("start", "end"), (limits[0][d], limits[1][d])):
        value: Any = cells.get(name)
        given = float(limit) if is_missing(value) else as_number(value)
        if given is None:
            raise DataError(f"{where}: the {name} {value!r} is not a number")
        ends.append(given)
    begin, stop = max(ends[0], float(limits[0][d])), min(ends[1], float(limits[1][d]))
    if not (np.isfinite(begin) and np.isfinite(stop) and begin < stop):
        raise DataError(
            f"{where}: it lasts from {ends[0]:g} to {ends[1]:g}, of which nothing lies in the "
            f"trajectory {trajectories[d]!r} ({limits[0][d]:g} to {limits[1][d]:g})"
        )
    state = plain(cells["state"])
    if is_missing(state):
        raise DataError(f"{where}: the state to which {node!r} is set is missing")
    return d, node, begin, stop, state


def _check_overlaps(found: Intervals, trajectories: Sequence[object]) -> None:
    order = sorted(
        range(len(found)), key=lambda i: (found.trajectory[i], found.node[i], found.start[i])
    )
    for a, b in pairwise(order):
        same = found.trajectory[a] == found.trajectory[b] and found.node[a] == found.node[b]
        if same and found.start[b] < found.end[a]:
            raise DataError(
                f"interventions, rows {found.row[a]} and {found.row[b]}: both hold "
                f"{found.node[a]!r} in trajectory {trajectories[int(found.trajectory[a])]!r} at "
                f"time {found.start[b]:g}"
            )
