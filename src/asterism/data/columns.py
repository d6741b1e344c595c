"""Reads single columns: which cells are empty, numbers, flags; each reader says what is wrong.

Columns arrive as pandas read them or as plain text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from asterism.data.problems import Problems
from asterism.errors import DataError, Sentence, Setting

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


def without_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A table without some of its columns, all of which it must have."""
    frame = frame.rename(columns=str)
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"there is no column {name!r}; the columns are {list(map(str, frame.columns))}"
            )
    return frame.drop(columns=[str(name) for name in names])
