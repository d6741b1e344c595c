"""Single columns, as pandas read them or as plain text: which cells are empty, which are numbers.

``table_reader.py`` reads them and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.numbers import DASHES, as_number, is_missing, plain_numbers, possible_numbers
from asterism.errors import AsterismError, DataError, require_known
from asterism.numerics.arrays import BoolArray


def as_pandas(table: Any) -> Any:
    """A table of polars, pyarrow or another library, as pandas has it."""
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    if hasattr(table, "__dataframe__"):
        return pd.api.interchange.from_dataframe(table)
    return table


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


def exact_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers to their last digit, nan where a cell holds none."""
    quick = pd.to_numeric(column, errors="coerce")
    if quick.dtype.kind != "f":
        return quick
    found = plain_numbers(column.to_numpy(dtype=object))
    if found is None:
        found = np.array([np.nan if (x := as_number(v)) is None else x for v in column.tolist()])
    return pd.Series(found, index=column.index, name=column.name, dtype=np.float64)


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


def require_columns(
    table: pd.DataFrame, names: Iterable[str], says: str, error: type[AsterismError] = DataError
) -> None:
    """Refuse a table that lacks some columns; ``says`` names it."""
    needed = list(names)
    if absent := [name for name in needed if name not in table.columns]:
        listed = ", ".join(map(repr, absent))
        raise error(says, f" has no column {listed}; it needs {', '.join(needed)}.")


def without_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A table without some of its columns, all of which it must have."""
    frame = frame.rename(columns=str)
    says = "The list of covariates or of columns to leave out names"
    require_known(names, frame.columns, says, "column", DataError)
    return frame.drop(columns=[str(name) for name in names])
