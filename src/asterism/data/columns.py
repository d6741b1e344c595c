"""Owns the reading of single columns: numbers, labels, times, flags, trajectory names.

Columns arrive as pandas read them or as plain text; each reader says which cells are wrong.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.labels import is_missing, plain
from asterism.data.validate import Problems

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_TRUE = frozenset({"true", "yes", "1", "1.0", "t", "y"})
_FALSE = frozenset({"false", "no", "0", "0.0", "f", "n"})
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b")


def cells(series: pd.Series[Any]) -> NDArray[Any]:
    """The cells as float64 where the column is numeric, otherwise as objects, missing = nan."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return series.to_numpy(dtype=np.float64)
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    array = series.to_numpy(dtype=object, na_value=np.nan).copy()
    array[missing(array)] = np.nan
    return array


def missing(array: NDArray[Any]) -> BoolArray:
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array), dtype=np.bool_)
    return np.fromiter((is_missing(v) for v in array), dtype=np.bool_, count=len(array))


def numbers(array: NDArray[Any]) -> tuple[FloatArray, BoolArray]:
    """Every cell as a number (nan where it is none), and which cells are text instead."""
    if array.dtype.kind == "f":
        return array.astype(np.float64), np.zeros(len(array), dtype=np.bool_)
    parsed = np.full(len(array), np.nan)
    is_text = np.zeros(len(array), dtype=np.bool_)
    for i, value in enumerate(array):
        if is_missing(value):
            continue
        if isinstance(value, bool | np.bool_):
            is_text[i] = True
            continue
        try:
            parsed[i] = float(value)
        except (TypeError, ValueError):
            is_text[i] = True
    return parsed, is_text


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


def measured_values(
    array: NDArray[Any],
    column: str,
    *,
    as_labels: bool,
    problems: Problems,
    rows: NDArray[np.int64],
    trajectory: NDArray[Any],
) -> NDArray[Any]:
    """The cells of a node as numbers, or as labels where most of them are not numbers."""
    if array.dtype.kind == "f" and not as_labels:
        values = array
    else:
        parsed, is_text = numbers(array)
        n_text, n_number = int(is_text.sum()), int(np.isfinite(parsed).sum())
        if as_labels or n_text >= max(n_number, 1):
            labels = np.empty(len(array), dtype=object)
            labels[:] = [np.nan if is_missing(v) else plain(v) for v in array]
            return labels
        problems.add_rows(
            is_text,
            "{value} is text in a column of numbers; correct it, leave the cell empty, or list the "
            "column in labels=",
            rows=rows,
            trajectory=trajectory,
            value=array,
            column=column,
        )
        values = parsed
    problems.add_rows(
        np.isinf(values),
        "{value} is not a finite number; leave the cell empty where nothing was measured",
        rows=rows,
        trajectory=trajectory,
        value=values,
        column=column,
    )
    return values


def _is_date(value: Any) -> bool:
    """Whether a cell is a date or the text of one."""
    if isinstance(value, str):
        return _DATE.match(value.strip()) is not None
    return hasattr(value, "isoformat") and hasattr(value, "year")


def times(
    array: NDArray[Any],
    column: str,
    *,
    problems: Problems,
    rows: NDArray[np.int64],
    trajectory: NDArray[Any] | None = None,
    table: str = "measurements",
) -> FloatArray:
    """A column in which every cell must be a finite number."""
    parsed, is_text = numbers(array)
    empty = missing(array)
    where: dict[str, Any] = {
        "rows": rows,
        "trajectory": trajectory,
        "column": column,
        "table": table,
        "value": array,
    }
    is_date = is_text & np.fromiter((_is_date(v) for v in array), np.bool_, len(array))
    problems.add_rows(
        is_date, "{value} is a date; times are numbers, such as days since the first", **where
    )
    problems.add_rows(is_text & ~is_date, "{value} is not a number", **where)
    problems.add_rows(empty, "the time is missing", **where)
    problems.add_rows(
        ~np.isfinite(parsed) & ~is_text & ~empty, "the time {value} is not finite", **where
    )
    return parsed
