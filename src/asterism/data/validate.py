"""Owns how problems of a table are collected and told.

Reading a table never stops at the first problem: every reader appends to a :class:`Problems`
list, so that ``asterism check`` can print all of them and an exception can name the first few
and the number of the rest.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import DataError

#: The first data row of a file with a header line is its line 2.
FIRST_ROW = 2


class DataWarning(UserWarning):
    """Something in the measurements is legal but probably not meant."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a table, and where."""

    message: str
    trajectory: object = None
    row: int | None = None
    """Line of the file (the header is line 1), or of the frame counted the same way."""
    column: str | None = None
    value: object = None
    table: str = "measurements"
    severity: str = "error"
    """"error", or "warning" for what is legal but probably not meant."""

    def __str__(self) -> str:
        place = []
        if self.table != "measurements":
            place.append(f"table of {self.table}")
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.trajectory is not None:
            place.append(f"trajectory {self.trajectory!r}")
        if self.column is not None:
            place.append(f"column {self.column!r}")
        where = ", ".join(place)
        return f"{where}: {self.message}" if where else self.message


@dataclass
class Problems:
    """A growing list of problems."""

    found: list[Problem] = field(default_factory=list)

    def add(self, message: str, **where: Any) -> None:
        self.found.append(Problem(message, **where))

    def add_rows(
        self,
        bad: NDArray[np.bool_],
        message: str,
        *,
        rows: NDArray[np.int64],
        trajectory: NDArray[Any] | None = None,
        value: NDArray[Any] | None = None,
        column: str | None = None,
        table: str = "measurements",
    ) -> None:
        """One problem per marked row; ``{value}`` in the message is the offending cell."""
        for i in np.flatnonzero(bad):
            cell = None if value is None else value[i]
            self.add(
                message.format(value=_show(cell)),
                trajectory=None if trajectory is None else trajectory[i],
                row=int(rows[i]),
                column=column,
                value=cell,
                table=table,
            )

    @property
    def errors(self) -> list[Problem]:
        return [p for p in self.found if p.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        return [p for p in self.found if p.severity != "error"]

    def raise_errors(self, shown: int = 5) -> None:
        """Raise if anything is wrong, naming the first few problems and how many there are."""
        errors = self.errors
        if not errors:
            return
        if len(errors) == 1:
            raise DataError(str(errors[0]))
        lines = "\n".join(f"  {problem}" for problem in errors[:shown])
        more = f"\n  … and {len(errors) - shown} more" if len(errors) > shown else ""
        raise DataError(f"the table has {len(errors)} problems:\n{lines}{more}")

    def warn(self) -> None:
        for problem in self.warnings:
            warnings.warn(str(problem), DataWarning, stacklevel=4)


def _show(cell: object) -> str:
    if isinstance(cell, np.generic):
        cell = cell.item()
    return repr(cell)
