"""What is wrong with a table: collected while it is read, then told all at once.

Every problem knows its table, row, column and trajectory, and what to do about it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.errors import DataError, Sentence, composed, joined
from asterism.numerics.arrays import BoolArray, IntArray

#: The first data row of a file with a header line is its line 2.
FIRST_ROW = 2


def line_numbers(frame: pd.DataFrame) -> IntArray:
    """The line of each row in its file, or counted as if the frame were one."""
    lines = frame.attrs.get("lines")  # kept where a file has blank lines
    if lines is not None and len(lines) == len(frame):
        return np.asarray(lines, dtype=np.int64)
    return np.arange(len(frame), dtype=np.int64) + FIRST_ROW


#: problems of one kind that are told one by one
SHOWN = 5


class DataWarning(UserWarning):
    """Something in the measurements is legal but probably not meant."""


@dataclass(frozen=True)
class TableProblem:
    """One thing that is wrong with a table, where, and what to do."""

    message: str
    trajectory: object = None
    row: int | None = None
    """Line of the file (the header is line 1), or of the frame counted the same way."""
    column: str | None = None
    value: object = None
    table: str = "measurements"
    severity: str = "error"
    """"error", "warning" for what is legal but probably not meant, "note" for how it was read."""
    remedy: str = ""
    kind: str = ""
    """Problems of one kind differ only in where they are and in the offending value."""
    cause: str = ""
    """What all problems of this kind probably have in common."""

    @property
    def where(self) -> str:
        """The table (if not that of the measurements), row, trajectory and column."""
        place = []
        if self.table != "measurements":
            place.append(f"table of {self.table}")
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.trajectory is not None:
            place.append(f"trajectory {self.trajectory!r}")
        if self.column is not None:
            place.append(f"column {self.column!r}")
        return ", ".join(place)

    @property
    def sentence(self) -> Sentence:
        """Where, what, and what to do, for any front."""
        return composed(self.message, self.where, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.sentence)


@dataclass
class Problems:
    """A growing list of problems."""

    found: list[TableProblem] = field(default_factory=list)

    def add(self, message: str, **where: Any) -> None:
        """Note one problem; ``where`` are the fields of :class:`TableProblem`."""
        self.found.append(TableProblem(message, **{"kind": message, **where}))

    def add_rows(
        self,
        bad: BoolArray,
        message: str,
        *,
        rows: IntArray,
        trajectory: NDArray[Any] | None = None,
        value: NDArray[Any] | None = None,
        **where: Any,
    ) -> None:
        """One problem per marked row; ``{value}`` in the message is the offending cell."""
        for i in np.flatnonzero(bad):
            cell = None if value is None else value[i]
            self.add(
                message.format(value=_show(cell)),
                trajectory=None if trajectory is None else trajectory[i],
                row=int(rows[i]),
                value=cell,
                **{"kind": message, **where},
            )

    @property
    def errors(self) -> list[TableProblem]:
        """What keeps the table from being used."""
        return [p for p in self.found if p.severity == "error"]

    @property
    def warnings(self) -> list[TableProblem]:
        """What is probably not meant."""
        return [p for p in self.found if p.severity == "warning"]

    def raise_errors(self) -> None:
        """Raise if anything is wrong."""
        if self.errors:
            raise as_error(self.errors)

    def warn(self) -> None:
        """Give Python's warning for everything that is probably not meant."""
        for sentence in listed(self.warnings):
            warnings.warn(sentence, DataWarning, stacklevel=4)


def listed(problems: Iterable[TableProblem], shown: int = SHOWN) -> list[Sentence]:
    """Each problem in a sentence; of each kind the first few, a count, and the common cause.

    What to do is said once, with the first of its kind.
    """
    kinds: dict[str, list[TableProblem]] = {}
    for problem in problems:
        kinds.setdefault(f"{problem.table} {problem.kind or problem.message}", []).append(problem)
    lines: list[Sentence] = []
    for alike in kinds.values():
        said = alike[0].remedy
        for number, problem in enumerate(alike[:shown]):
            known = number > 0 and problem.remedy == said
            lines.append(composed(problem.message, problem.where) if known else problem.sentence)
        more = len(alike) - shown
        cause = (alike[0].cause or _in_common(alike, more)) if len(alike) > 1 else ""
        if more > 0:
            last = f" (the last in row {alike[-1].row})" if alike[-1].row is not None else ""
            lines.append(Sentence(f"… and {more:,} more like this{last}"))
        if cause:
            if more > 0:
                lines[-1] = Sentence(lines[-1], ": ", cause)
            else:
                lines.append(Sentence(cause))
    return lines


def _in_common(alike: Sequence[TableProblem], more: int) -> str:
    """What those that are not listed share with the others, where that is worth saying."""
    if more <= 0:
        return ""
    parts = []
    columns = list(dict.fromkeys(problem.column for problem in alike))
    if None not in columns and len(columns) > 1:
        parts.append(f"in {len(columns):,} columns")
    values = {str(problem.value) for problem in alike if problem.value is not None}
    if len(values) == 1 and not _is_missing(alike[0].value):
        parts.append(f"each cell holds {_show(alike[0].value)}")
    return "; ".join(parts)


def _is_missing(value: Any) -> bool:
    return bool(np.ndim(value) == 0 and pd.isna(value))


class TableError(DataError):
    """A table has problems, which ``problems`` lists."""

    problems: tuple[TableProblem, ...] = ()


def as_error(problems: list[TableProblem]) -> TableError:
    """One error that tells all problems."""
    lines = listed(problems)
    count = f"the table has {len(problems):,} problem{'' if len(problems) == 1 else 's'}:\n  "
    error = TableError(lines[0]) if len(lines) == 1 else TableError(count, joined("\n  ", lines))
    error.problems = tuple(problems)
    return error


def _show(cell: object) -> str:
    if isinstance(cell, np.generic):
        cell = cell.item()
    return repr(cell)
