"""Owns what every row of a table has: trajectory, time, whether it is exact, and its line.

Rows are checked for their order here. Where the times start again and no column names the
trajectories, the table is refused: sorting would mix them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.measurements import LIKELIHOOD_PREFIX
from asterism.data.table_reader import TableReader
from asterism.errors import Advice, Sentence, Setting, quoted
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray


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
    missing: Collection[object] = ()
    """The user's own codes for "not measured"."""
    unit: str | None = None
    """Unit of time to read into; None: that of the cells or of the column's name."""
    end_column: str | None = None
    """Column with the end of the trajectory's follow-up."""
    comma: str | None = None
    """What commas in numbers are where a column leaves it open: "decimal" or "thousands"."""

    @property
    def not_nodes(self) -> set[str]:
        """Columns of a wide table that hold no measurements."""
        taken = {self.trajectory, self.time, self.end_column or self.time}
        if isinstance(self.exact, str) and self.exact != "first":
            taken.add(self.exact)
        return taken

    def as_labels(self, node: str) -> bool:
        """Whether the cells of a node are names even where they look like numbers."""
        return self.labels if isinstance(self.labels, bool) else node in self.labels

    def is_long(self, frame: pd.DataFrame) -> bool:
        """Whether the table has one row per measurement."""
        if self.kind in ("wide", "long"):
            return self.kind == "long"
        found = [str(c) for c in frame.columns]
        has_value = self.value in found or any(c.startswith(LIKELIHOOD_PREFIX) for c in found)
        return self.node in found and has_value


class RowReading(TypedDict, total=False):
    """The fields of :class:`TableFormat` about rows, as a user gives them; all are optional."""

    trajectory: str
    time: str
    node: str
    sort: bool
    missing: Collection[object]
    unit: str | None
    end_column: str | None
    comma: str | None


class Reading(RowReading, total=False):
    """All fields, by name."""

    kind: str
    value: str
    nodes: Sequence[str] | None
    labels: Collection[str] | bool


def table_format(exact: Any = None, **reading: Unpack[Reading]) -> TableFormat:
    """The format that a user's arguments describe; names that are none are refused."""
    known = [one.name for one in fields(TableFormat)]
    for name in reading:
        if name not in known:
            raise TypeError(
                f"There is no argument {name!r} for reading a table; there are {', '.join(known)}."
            )
    return TableFormat(exact=exact, **reading)


@dataclass(frozen=True)
class TableRows:
    """The columns that every row has, sorted by (trajectory, time); invalid rows left out."""

    order: IntArray
    name: NDArray[Any]
    trajectory: IntArray
    time: FloatArray
    exact: BoolArray
    number: IntArray
    """Line of the file."""
    unit: str
    """Of the times; "" if nothing says it."""
    ends: dict[object, float]
    """End of follow-up by trajectory, where a column gives it."""


def read_rows(table: TableReader, form: TableFormat, long: bool) -> TableRows:
    """Trajectory, time and exactness of every usable row, in order."""
    name, unnamed = table.read_trajectories(form.trajectory)
    named = table.trajectory is not None
    if not named and form.trajectory != TableFormat.trajectory:  # somebody named it
        table.tell(
            f"there is no column {form.trajectory!r} that names trajectories; the columns are "
            f"{quoted(table.frame.columns)}"
        )
    read = table.times(form.time, form.unit)
    trajectory = pd.factorize(name)[0].astype(np.int64)
    usable = np.flatnonzero(~unnamed & np.isfinite(read.time))
    _check_order(_Order(table, form, long, usable, trajectory, read.time, name))
    ends = table.ends(form.end_column, (form.time, read), name)
    # Trajectories are numbered by their first usable row: one without any has no number.
    trajectory = np.full(len(name), -1, dtype=np.int64)
    trajectory[usable] = pd.factorize(name[usable])[0]
    order = usable[np.lexsort((read.time[usable], trajectory[usable]))]
    trajectory, time = trajectory[order], read.time[order]
    exact = _read_exact(table, form, order, trajectory, time)
    table.trajectory = name
    return TableRows(
        order, name[order], trajectory, time, exact, table.rows[order], read.unit, ends
    )


# ---- order ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Order:
    """Everything that the order of the rows is judged by."""

    table: TableReader
    form: TableFormat
    long: bool
    usable: IntArray
    trajectory: IntArray
    time: FloatArray
    name: NDArray[Any]

    @property
    def is_named(self) -> bool:
        """Whether a column names the trajectories."""
        return self.table.has(self.form.trajectory)

    def group(self) -> IntArray:
        """Rows of one group must go forward in time: those of a trajectory, or of its node."""
        if self.long and self.table.has(self.form.node):
            codes, uniques = pd.factorize(self.table.frame[self.form.node].to_numpy(dtype=object))
            return np.asarray(self.trajectory * (len(uniques) + 1) + codes, dtype=np.int64)
        return self.trajectory

    def backwards(self, group: IntArray) -> tuple[IntArray, IntArray]:
        """Rows that go back in time, and the row before each of them."""
        by_group = self.usable[np.argsort(group[self.usable], kind="stable")]
        back = (np.diff(self.time[by_group]) < 0) & (np.diff(group[by_group]) == 0)
        at = np.flatnonzero(back)
        return by_group[at + 1], by_group[at]


def _check_order(order: _Order) -> None:
    """Note rows that go back in time, or times that start again without a trajectory column."""
    group = order.group()
    rows, before = order.backwards(group)
    if not len(rows):
        return
    form, time = order.form, order.time
    if not order.is_named:
        pairs = np.column_stack([group[order.usable], time[order.usable]])
        if len(np.unique(pairs, axis=0)) < len(pairs) or _runs_restart(order, group):
            _refuse_restart(order, rows, before)
            return
    if form.sort:
        return
    remedy = Sentence("sort the table, or use ", Setting("sort", True))
    if not order.is_named:
        remedy += "; if these are several trajectories, name their column with "
        remedy = Sentence(remedy, Setting("trajectory", ...))
    else:
        remedy += "; if several trajectories share this name, give each its own"
    for row, previous in zip(rows, before):
        order.table.tell(
            f"time {time[row]:g} comes after time {time[previous]:g} of row "
            f"{order.table.rows[previous]}",
            trajectory=order.name[row] if order.is_named else None,
            row=int(order.table.rows[row]),
            column=form.time,
            value=float(time[row]),
            remedy=remedy,
            kind="not sorted",
        )


def _runs_restart(order: _Order, group: IntArray) -> bool:
    """Whether the rows are runs that each begin early and cover most of the time.

    Rows of one trajectory that got out of order do not look like that.
    """
    time, one = order.time[order.usable], group[order.usable]
    by_group = np.argsort(one, kind="stable")
    time, one = time[by_group], one[by_group]
    breaks = np.flatnonzero((np.diff(time) < 0) | (np.diff(one) != 0)) + 1
    runs = np.split(time, breaks)
    first, span = float(time.min()), float(np.ptp(time))
    return all(
        len(run) >= 3 and run[0] <= first + span / 4 and np.ptp(run) >= span / 2 for run in runs
    )


def _refuse_restart(order: _Order, rows: IntArray, before: IntArray) -> None:
    """Several trajectories one below the other, and no column that tells them apart."""
    fitting = _columns_that_separate(order)
    hint = f" ({', '.join(map(repr, fitting[:3]))} would fit)" if fitting else ""
    often = "" if len(rows) == 1 else f" (and {len(rows) - 1:,} more time"
    often += "" if len(rows) == 1 else (")" if len(rows) == 2 else "s)")
    order.table.tell(
        f"the times start again at {order.time[rows[0]]:g}, after {order.time[before[0]]:g} in row "
        f"{order.table.rows[before[0]]}{often}: the table seems to hold several trajectories, but "
        "no column was recognised as their name",
        row=int(order.table.rows[rows[0]]),
        column=order.form.time,
        remedy=Sentence(
            "name the column with ",
            Setting("trajectory", ...),
            hint,
            _OR_ADD_IT if not fitting else "",
        ),
    )


_OR_ADD_IT = Advice(", or add one", ", or add one to the table")


def _columns_that_separate(order: _Order) -> list[str]:
    """Columns that cut the rows into at least two trajectories that go forward in time."""
    fitting = []
    skipped = {order.form.time, order.form.node if order.long else None, order.form.value}
    for place, column in enumerate(order.table.frame.columns):
        if column in skipped or len(order.usable) < 3:
            continue
        codes, uniques = pd.factorize(order.table.frame.iloc[:, place].to_numpy(dtype=object))
        if not 2 <= len(uniques) <= (len(order.usable) + 1) / 2:
            continue
        group = order.group() * (len(uniques) + 1) + codes
        pairs = np.column_stack([group[order.usable], order.time[order.usable]])
        if len(order.backwards(group)[0]) == 0 and len(np.unique(pairs, axis=0)) == len(pairs):
            fitting.append(str(column))
    return fitting


def _read_exact(
    table: TableReader,
    form: TableFormat,
    order: IntArray,
    trajectory: IntArray,
    time: FloatArray,
) -> BoolArray:
    """Which of the sorted rows report the state itself."""
    exact = form.exact
    none = np.zeros(len(order), dtype=np.bool_)
    if exact is None:
        return none
    if isinstance(exact, str) and exact == "first":
        first = np.full(int(trajectory.max(initial=-1)) + 1, np.inf)
        np.minimum.at(first, trajectory, time)
        return np.asarray(time == first[trajectory], dtype=np.bool_)
    if isinstance(exact, str) and table.has(exact):
        return table.flags(exact)[order]
    if isinstance(exact, str):
        table.tell(
            Sentence(
                Setting("exact", exact),
                " names no column; give a column",
                Advice(", a boolean mask", ""),
                " or 'first'",
            )
        )
        return none
    mask = np.asarray(exact)
    if mask.dtype != np.bool_ or mask.shape != (len(table.frame),):
        table.tell(
            Sentence(
                Setting("exact"),
                f" must be a boolean mask with one entry for each of the {len(table.frame)} rows, "
                "the name of a column, or 'first'",
            )
        )
        return none
    return mask[order]
