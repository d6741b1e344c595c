"""Reads single columns (numbers, labels, flags, trajectory names), and collects what is wrong.

Columns arrive as pandas read them or as plain text; each reader says which cells are wrong. A state
called 1 in a network may come back from a spreadsheet as 1.0, "1" or "1.0": labels are compared as
they are first, and by their canonical text second; nothing else is guessed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.numbers import (
    DASHES,
    ReadNumbers,
    as_number,
    is_missing,
    plain_numbers,
    possible_numbers,
    read_numbers,
)
from asterism.errors import DataError, Sentence, Setting, composed, joined

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_TRUE = frozenset({"true", "yes", "1", "1.0", "t", "y"})
_FALSE = frozenset({"false", "no", "0", "0.0", "f", "n"})


def cells(series: pd.Series[Any]) -> NDArray[Any]:
    """The cells as float64 where the column is numeric, otherwise as objects, missing = nan."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return series.to_numpy(dtype=np.float64)
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    array = series.to_numpy(dtype=object, na_value=np.nan).copy()
    quick = plain_numbers(array)
    if quick is not None:
        array[np.isnan(quick)] = np.nan
        return array
    gone = np.fromiter((is_missing(v) for v in array), np.bool_, len(array))
    dashes = np.fromiter(
        (isinstance(v, str) and v.strip() in DASHES for v in array), np.bool_, len(array)
    )
    if dashes.any() and not any(isinstance(v, str) and v.strip() == "+" for v in array):
        gone |= dashes
    array[gone] = np.nan
    return array


def missing(array: NDArray[Any]) -> BoolArray:
    """Which cells are empty, or a code for "not measured"."""
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array), dtype=np.bool_)
    return np.fromiter((is_missing(v) for v in array), np.bool_, len(array))


def numbers(
    array: NDArray[Any],
    column: str,
    problems: Problems,
    rows: NDArray[np.int64],
    comma: str | None = None,
    table: str = "measurements",
) -> ReadNumbers:
    """A column as numbers; what its commas mean is noted, or asked where it is unclear."""
    read = read_numbers(array, comma)
    tell_commas(read, array, column, problems, rows, table)
    return read


def tell_commas(
    read: ReadNumbers,
    array: NDArray[Any],
    column: str,
    problems: Problems,
    rows: NDArray[np.int64],
    table: str = "measurements",
) -> None:
    """Say what the commas of a column were taken for; refuse them where that cannot be known."""
    if not read.comma:
        return
    cell = str(array[read.first]).strip()
    kind = f"comma {read.comma}"
    meanings = {"decimal": "is a decimal mark", "thousands": "separates thousands"}
    if read.comma in meanings:
        problems.add(
            f"Column {column!r}: the comma {meanings[read.comma]}, so {cell!r} is read as "
            f"{read.value[read.first]:.12g}.",
            severity="note",
            kind=kind,
        )
        return
    where: dict[str, Any] = {"column": column, "table": table, "kind": kind}
    where |= {"row": int(rows[read.first]), "value": cell}
    if read.comma == "mixed":
        problems.add(
            f"the comma in {cell!r} is a decimal mark or separates thousands, but neither fits "
            "all cells of the column",
            remedy=Sentence(
                "write all numbers alike; if the column holds states, name it with ",
                Setting("labels", ...),
            ),
            **where,
        )
        return
    readings = " or ".join(f"{x:.12g}" for x in sorted(possible_numbers(cell), reverse=True))
    problems.add(
        f"{cell!r} may be {readings}, and no cell of the column settles it",
        remedy=Sentence(
            "say what the comma is with ",
            *(Setting("comma", "thousands"), " or ", Setting("comma", "decimal")),
            *("; if the column holds states, name it with ", Setting("labels", ...)),
        ),
        **where,
    )


def exact_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers to their last digit, nan where a cell holds none.

    ``pd.to_numeric`` decides what is a number; older versions of it round the last digit.
    """
    quick = pd.to_numeric(column, errors="coerce")
    if quick.dtype.kind != "f" or column.dtype.kind == "f":
        return quick
    exact = quick.to_numpy(dtype=np.float64, copy=True)
    for i, cell in enumerate(column.tolist()):
        number = as_number(cell)
        exact[i] = np.nan if number is None else number
    return pd.Series(exact, index=column.index, name=column.name)


def flags(
    array: NDArray[Any], column: str, problems: Problems, rows: NDArray[np.int64]
) -> BoolArray:
    """A column of yes and no; an empty cell is no."""
    result = np.zeros(len(array), dtype=np.bool_)
    for i, value in enumerate(array):
        text = "" if is_missing(value) else str(value).strip().lower()
        result[i] = text in _TRUE
        if text and text not in _TRUE and text not in _FALSE:
            problems.add(
                f"{value!r} is not a flag; write true or false",
                row=int(rows[i]),
                column=column,
                value=value,
            )
    return result


def names(array: NDArray[Any]) -> NDArray[Any]:
    """Trajectory or node names: whole numbers as int, also when they were read as text.

    Text is only turned into numbers when the whole column allows it without loss ("007" stays).
    """
    found, uniques = pd.factorize(array)
    labels = [plain(u) for u in uniques]
    if labels and all(isinstance(x, str) for x in labels):
        whole = [_as_whole(x) for x in labels]
        if None not in whole:
            labels = whole
    table = np.empty(len(labels) + 1, dtype=object)
    table[:-1] = labels
    table[-1] = None
    result: NDArray[Any] = table[found]
    return result


def _as_whole(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text else None


IntArray = NDArray[np.int64]


def without_codes(frame: pd.DataFrame, codes: Collection[object]) -> pd.DataFrame:
    """The table with cells that hold one of the user's codes for "not measured" emptied."""
    texts = {str(code).strip().lower() for code in codes}
    values = {number for number in map(as_number, texts) if number is not None}
    if not texts:
        return frame

    def is_code(cell: object) -> bool:
        text = str(cell).strip().lower()
        return text in texts or (bool(values) and not values.isdisjoint(possible_numbers(text)))

    result = frame.copy()
    for place in range(len(frame.columns)):
        column = frame.iloc[:, place]
        found = column.map(is_code).to_numpy(dtype=np.bool_)
        if found.any():
            result.isetitem(place, column.astype(object).mask(found, np.nan).to_numpy())
    return result


def letters(label: object) -> str:
    """The text by which labels of one column are told apart: letter by letter.

    The numbers 1 and 1.0 and the text "1" are one label; "01" and "1.0" are others.
    """
    return label.strip() if isinstance(label, str) else canonical(label)


def canonical(label: object) -> str:
    """The text by which labels of different tables are compared: 1, 1.0, "1" and "1.0" agree.

    A leading zero makes another label: "01" is not 1.
    """
    text = str(label).strip()
    if isinstance(label, bool | np.bool_) or _ZERO_FIRST.match(text):
        return text
    number = as_number(text)
    if number is None or not np.isfinite(number):
        return text
    return str(int(number)) if number == int(number) else repr(number)


_ZERO_FIRST = re.compile(r"[-+]?0[0-9]")


def plain(label: Any) -> Any:
    """A label as an ordinary Python value: whole floats and numpy integers become ints."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and np.isfinite(label) and label == int(label):
        return int(label)
    return label.strip() if isinstance(label, str) else label


def encode(values: NDArray[Any] | Sequence[Any], states: Sequence[object]) -> IntArray:
    """The number of each value's state; −1 where the value is none of the states."""
    array = np.asarray(values)
    if array.dtype.kind in "fiu" and all(isinstance(s, int | float | np.number) for s in states):
        return _encode_numbers(array.astype(np.float64), np.array([float(s) for s in states]))  # type: ignore[arg-type]
    same = {letters(state): i for i, state in reversed(list(enumerate(states)))}
    alike = {canonical(state): i for i, state in reversed(list(enumerate(states)))}
    codes, uniques = pd.factorize(np.asarray(array, dtype=object))
    numbers = [same.get(letters(u), alike.get(canonical(u), -1)) for u in uniques]
    return np.array([*numbers, -1], dtype=np.int64)[codes]


def _encode_numbers(values: NDArray[np.float64], states: NDArray[np.float64]) -> IntArray:
    order = np.argsort(states, kind="stable")
    place = np.minimum(np.searchsorted(states[order], values), len(states) - 1)
    found = states[order][place] == values
    return np.where(found, order[place], -1).astype(np.int64)


def label_codes(labels: NDArray[Any], key: Callable[[object], str] = letters) -> IntArray:
    """Numbers that are equal exactly where the labels are the same; missing labels get −1.

    Labels of several tables are compared by the key :func:`canonical`.
    """
    codes, uniques = pd.factorize(np.asarray(labels, dtype=object))
    by_text: dict[str, int] = {}
    numbers = [by_text.setdefault(key(u), len(by_text)) for u in uniques]
    return np.array([*numbers, -1], dtype=np.int64)[codes]


def without_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A table without some of its columns, all of which it must have."""
    frame = frame.rename(columns=str)
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"there is no column {name!r}; the columns are {list(map(str, frame.columns))}"
            )
    return frame.drop(columns=[str(name) for name in names])


# ---- problems of a table: collected, then told ------------------------------------------------


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
        bad: NDArray[np.bool_],
        message: str,
        *,
        rows: NDArray[np.int64],
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
    if len(values) == 1:
        parts.append(f"each cell holds {_show(alike[0].value)}")
    return "; ".join(parts)


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
