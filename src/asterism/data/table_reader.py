"""One table while it is read: every column goes through the same checks.

Tables of measurements, paths, events, intervals and interventions have columns of the same few
kinds: names of trajectories, times and labels. Whatever is wrong is noted with the table, row,
trajectory and column in which it stands.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import clock, columns
from asterism.data.labels import as_names, plain
from asterism.data.measurements import objects
from asterism.data.problems import Problems, line_numbers
from asterism.errors import Sentence, Setting

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass
class TableReader:
    """A table, and where its problems are noted."""

    frame: pd.DataFrame
    problems: Problems
    table: str = "measurements"
    comma: str | None = None
    """What commas in numbers are where a column leaves it open."""
    trajectory: NDArray[Any] | None = None
    """Name of each row's trajectory, for messages, once it is read."""
    rows: IntArray = field(init=False)
    """Line of each row."""

    def __post_init__(self) -> None:
        self.rows = line_numbers(self.frame)
        self.frame = self.frame.rename(columns=str)

    def require(self, known: Collection[str], optional: Collection[str]) -> bool:
        """Whether the table has the columns that it needs; others than the known are noted."""
        found = self.frame.columns
        for name in found[found.duplicated()].unique():
            self.tell("the column name occurs more than once", column=str(name))
        for name in found:
            if name not in known:
                self.tell(f"unknown column; the table has {', '.join(known)}", column=name)
        absent = [c for c in known if c not in found and c not in optional]
        if absent:
            self.tell(f"needs the column(s) {', '.join(absent)}")
        return not absent and not found.has_duplicates

    def tell(self, message: str, **where: Any) -> None:
        """Note a problem of the table; ``where`` are fields of ``TableProblem``."""
        self.problems.add(message, table=self.table, **where)

    def note(self, bad: BoolArray, message: str, **where: Any) -> None:
        """Note a problem of each marked row; ``{value}`` in the message is its value."""
        self.problems.add_rows(
            *(bad, message),
            **{"rows": self.rows, "trajectory": self.trajectory, "table": self.table, **where},
        )

    def cells(self, column: str) -> NDArray[Any]:
        """The cells of a column."""
        return columns.cells(self.frame[column])

    def read_trajectories(self, column: str, otherwise: object = 0) -> tuple[NDArray[Any], Any]:
        """The trajectory of every row, and which rows name none; without the column, one name."""
        if column not in self.frame.columns:
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

    def times(self, column: str, unit: str | None = None) -> clock.ReadTimes:
        """A column in which every cell must be a time."""
        return clock.times(
            self.cells(column),
            column,
            problems=self.problems,
            rows=self.rows,
            trajectory=self.trajectory,
            table=self.table,
            unit=unit,
            comma=self.comma,
        )

    def ends(
        self, column: str | None, times: tuple[str, clock.ReadTimes], name: NDArray[Any]
    ) -> dict[object, float]:
        """The end of follow-up of each trajectory, from a column whose rows must agree.

        ``times`` are the name of the time column and how it was read.
        """
        if column is None:
            return {}
        if column not in self.frame.columns:
            self.tell(Sentence(Setting("end_column"), f" {column!r} names no column"))
            return {}
        cells = self.cells(column)
        read = clock.read_clock(cells, times[0], times[1].unit or None, self.comma)
        if read.number is not None and read.spelled is not None:
            columns.tell_commas(read.number, read.spelled, column, self.problems, self.rows)
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
