"""One table while it is read: every column goes through the same checks.

Tables of measurements, paths, events, intervals, interventions, stimuli, stays and covariates have
columns of the same few kinds: names of trajectories, times, numbers, flags and labels. Whatever is
wrong is noted with the table, row, trajectory and column in which it stands.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.clock import ReadTimes, is_date, read_clock
from asterism.data.labels import as_names, plain
from asterism.data.measurements import objects
from asterism.data.numbers import ReadNumbers, possible_numbers, read_numbers
from asterism.data.problems import Problems, line_numbers
from asterism.errors import DataError, Sentence, Setting
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

#: the table whose times count for all others: only its times may be dates or durations
MEASUREMENTS = "measurements"

_TRUE = ("true", "yes", "1", "1.0", "t", "y")
_FALSE = ("false", "no", "0", "0.0", "f", "n", "")
_TIME_FORMS = "write a number, a time such as 2h or Day 3, or a date such as 2024-03-01"


@dataclass
class TableReader:
    """A table, and where its problems are noted.

    ``at`` in the methods are positions of rows; None means all of them.
    """

    frame: pd.DataFrame
    problems: Problems
    table: str = MEASUREMENTS
    comma: str | None = None
    """What commas in numbers are where a column leaves it open."""
    trajectory: NDArray[Any] | None = None
    """Name of each row's trajectory, for messages, once it is read."""
    rows: IntArray = field(init=False)
    """Line of each row."""

    def __post_init__(self) -> None:
        self.rows = line_numbers(self.frame)
        self.frame = self.frame.rename(columns=str)

    # ---- what is wrong ----------------------------------------------------------------------

    def has(self, column: str | None) -> bool:
        """Whether there is such a column."""
        return column in self.frame.columns

    def names_are_unique(self) -> bool:
        """Whether no two columns share a name; those that do are noted."""
        found = self.frame.columns
        for name in found[found.duplicated()].unique():
            self.tell("the column name occurs more than once", column=str(name))
        return not found.has_duplicates

    def require(self, known: Collection[str], optional: Collection[str]) -> bool:
        """Whether the table has the columns that it needs; others than the known are noted."""
        unique = self.names_are_unique()
        for name in self.frame.columns:
            if name not in known:
                self.tell(f"unknown column; the table has {', '.join(known)}", column=name)
        absent = [c for c in known if not self.has(c) and c not in optional]
        if absent:
            self.tell(f"needs the column(s) {', '.join(absent)}")
        return not absent and unique

    def tell(self, message: str, **where: Any) -> None:
        """Note a problem of the table; ``where`` are fields of ``TableProblem``."""
        self.problems.add(message, table=self.table, **where)

    def note(self, bad: BoolArray, message: str, at: IntArray | None = None, **where: Any) -> None:
        """Note a problem of each marked row; ``{value}`` in the message is its value."""
        if not bad.any():
            return
        which = slice(None) if at is None else at
        names = None if self.trajectory is None else self.trajectory[which]
        here = {"rows": self.rows[which], "trajectory": names, "table": self.table}
        self.problems.add_rows(bad, message, **{**here, **where})

    # ---- columns ----------------------------------------------------------------------------

    def cells(self, column: str) -> NDArray[Any]:
        """The cells of a column."""
        return columns.cells(self.frame[column])

    def read_trajectories(
        self, column: str, otherwise: object = 0
    ) -> tuple[NDArray[Any], BoolArray]:
        """The trajectory of every row, and which rows name none; without the column, one name."""
        if not self.has(column):
            name = objects([otherwise] * len(self.frame))
            return name, np.zeros(len(name), dtype=np.bool_)
        raw = self.cells(column)
        unnamed = columns.missing(raw)
        self.note(unnamed, "the trajectory is missing", column=column)
        self.trajectory = as_names(raw)
        return self.trajectory, unnamed

    def labels(self, column: str) -> NDArray[Any]:
        """Labels, of which none may be missing."""
        raw = self.cells(column)
        self.note(columns.missing(raw), "the cell is empty", column=column)
        return objects(plain(v) for v in raw)

    def flags(self, column: str) -> BoolArray:
        """A column of yes and no; an empty cell is no."""
        raw = self.cells(column)
        texts = [
            "" if gone else str(cell).strip().lower()
            for cell, gone in zip(raw, columns.missing(raw))
        ]
        wrong = np.array([text not in (*_TRUE, *_FALSE) for text in texts], dtype=np.bool_)
        message = "{value} is not a flag; write true or false"
        self.note(wrong, message, value=raw, column=column)
        return np.array([text in _TRUE for text in texts], dtype=np.bool_)

    def numbers(
        self, column: str, what: str = "{value} is not a number", cells: NDArray[Any] | None = None,
        at: IntArray | None = None,
    ) -> FloatArray:  # fmt: skip
        """A column of numbers, NaN where a cell is empty; ``cells`` are its cells at some rows."""
        raw = self.cells(column) if cells is None else cells
        read = read_numbers(raw, self.comma)
        self.tell_commas(read, raw, column, at)
        self.note(read.is_text, what, at, value=raw, column=column)
        return read.value

    def tell_commas(
        self, read: ReadNumbers, cells: NDArray[Any], column: str, at: IntArray | None = None
    ) -> None:
        """Say what the commas of a column were taken for; refuse them where no cell settles it."""
        if not read.comma:
            return
        cell = str(cells[read.first]).strip()
        kind = f"comma {read.comma}"
        meanings = {"decimal": "is a decimal mark", "thousands": "separates thousands"}
        if read.comma in meanings:
            self.problems.add(
                f"Column {column!r}: the comma {meanings[read.comma]}, so {cell!r} is read as "
                f"{read.value[read.first]:.12g}.",
                severity="note",
                kind=kind,
            )
            return
        row = self.rows[read.first if at is None else at[read.first]]
        where: dict[str, Any] = {"column": column, "kind": kind, "row": int(row), "value": cell}
        states = ("; if the column holds states, name it with ", Setting("labels", ...))
        if read.comma == "mixed":
            self.tell(
                f"the comma in {cell!r} is a decimal mark or separates thousands, but neither fits "
                "all cells of the column",
                remedy=Sentence("write all numbers alike", *states),
                **where,
            )
            return
        readings = " or ".join(f"{x:.12g}" for x in sorted(possible_numbers(cell), reverse=True))
        choices = (Setting("comma", "thousands"), " or ", Setting("comma", "decimal"))
        self.tell(
            f"{cell!r} may be {readings}, and no cell of the column settles it",
            remedy=Sentence("say what the comma is with ", *choices, *states),
            **where,
        )

    # ---- times ------------------------------------------------------------------------------

    def times(self, column: str, unit: str | None = None) -> ReadTimes:
        """A column in which every cell must be a time.

        Only times of measurements may be other than numbers: those of events count from the same
        zero.
        """
        cells = self.cells(column)
        read = read_numbers(cells, self.comma)
        parsed, is_text = read.value, read.is_text
        clock = ReadTimes(parsed, "", None, read, cells)
        if self.table == MEASUREMENTS:
            try:
                clock = read_clock(cells, column, unit, self.comma)
            except DataError as error:
                self.problems.add(error.sentence)
        if clock.number is not None and clock.spelled is not None:
            self.tell_commas(clock.number, clock.spelled, column)
        empty = columns.missing(cells)
        where: dict[str, Any] = {"column": column, "value": cells}
        bad = is_text & ~np.isfinite(clock.time)
        dates = bad & np.fromiter((is_date(v) for v in cells), np.bool_, len(cells))
        write = "write times as numbers, or dates as 2024-03-01"
        self.note(dates, "{value} is a date that cannot be read", remedy=write, **where)
        cause = ""
        if bad.sum() > len(cells) / 2:
            cause = Sentence(
                f"the column {column!r} holds text: is it the time? Name the right one with ",
                Setting("time", ...),
            )
        other = bad & ~dates
        self.note(other, "{value} is not a time", cause=cause, remedy=_TIME_FORMS, **where)
        self.note(empty, "the time is missing", **where)
        lost = ~np.isfinite(clock.time) & ~is_text & ~empty
        endless = lost & ~np.isfinite(parsed)
        self.note(endless, "the time {value} is not finite", **where)
        unitless = "the time {value} has no unit, but other times have one"
        self.note(lost & ~endless, unitless, **where)
        if clock.note is not None:
            self.problems.add(clock.note, severity="note")
        return clock

    def bounds(self, column: str) -> FloatArray:
        """Starts or ends; NaN where the cell is empty, which means that of the trajectory."""
        if not self.has(column):
            return np.full(len(self.frame), np.nan)
        what = f"the {column} {{value}} is not a number"
        found = self.numbers(column, what)
        self.note(np.isinf(found), what, value=self.cells(column), column=column)
        return found

    def ends(
        self, column: str | None, times: tuple[str, ReadTimes], name: NDArray[Any]
    ) -> dict[object, float]:
        """The end of follow-up of each trajectory, from a column whose rows must agree.

        ``times`` are the name of the time column and how it was read.
        """
        if column is None:
            return {}
        if not self.has(column):
            self.tell(Sentence(Setting("end_column"), f" {column!r} names no column"))
            return {}
        cells = self.cells(column)
        read = read_clock(cells, times[0], times[1].unit or None, self.comma)
        if read.number is not None and read.spelled is not None:
            self.tell_commas(read.number, read.spelled, column)
        given = ~columns.missing(cells)
        bad = given & ~np.isfinite(read.time)
        self.note(bad, "{value} is not a time", trajectory=name, value=cells, column=column)
        found: dict[object, float] = {}
        for i in np.flatnonzero(given & ~bad):
            end = float(read.time[i])
            if found.setdefault(name[i], end) != end:
                self.tell(
                    f"the end is {end:g} here and {found[name[i]]:g} in an earlier row",
                    trajectory=name[i],
                    row=int(self.rows[i]),
                    column=column,
                    kind="two ends",
                )
        return found
