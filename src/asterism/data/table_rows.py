"""Owns what every row of a measurement table says, whatever its other columns hold.

That is: its trajectory, its time, whether it reports the state itself, and its line in the user's
table. Rows come out sorted by trajectory and time; unusable ones are noted and left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.given_likelihoods import LIKELIHOOD_PREFIX
from asterism.data.validate import FIRST_ROW, Problems

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
