"""Owns the question whether two labels mean the same.

A state called 1 in a network may come back from a spreadsheet as 1.0, "1" or "1.0". Labels are
compared as they are first, and by their canonical text second; nothing else is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

#: How an empty cell may be spelled in a text file.
MISSING_TEXT = frozenset(
    {"", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "<NA>", "null", "NULL", "-nan", "-NaN"}
)


def is_missing(value: object) -> bool:
    """Whether a cell says "not measured"."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return isinstance(value, str) and value.strip() in MISSING_TEXT


def canonical(label: object) -> str:
    """The text by which labels of different types are compared: 1, 1.0, "1" and "1.0" agree."""
    text = str(label).strip()
    if isinstance(label, bool | np.bool_):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if not np.isfinite(number) or "_" in text:
        return text
    return str(int(number)) if number == int(number) else repr(number)


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
    same = {state: i for i, state in reversed(list(enumerate(states)))}
    alike = {canonical(state): i for i, state in reversed(list(enumerate(states)))}
    codes, uniques = pd.factorize(np.asarray(array, dtype=object))
    numbers = [same.get(u, alike.get(canonical(u), -1)) for u in uniques]
    return np.array([*numbers, -1], dtype=np.int64)[codes]


def _encode_numbers(values: NDArray[np.float64], states: NDArray[np.float64]) -> IntArray:
    order = np.argsort(states, kind="stable")
    place = np.minimum(np.searchsorted(states[order], values), len(states) - 1)
    found = states[order][place] == values
    return np.where(found, order[place], -1).astype(np.int64)


def label_codes(labels: NDArray[Any]) -> IntArray:
    """Numbers that are equal exactly where the labels mean the same; missing labels get −1."""
    codes, uniques = pd.factorize(np.asarray(labels, dtype=object))
    by_text: dict[str, int] = {}
    numbers = [by_text.setdefault(canonical(u), len(by_text)) for u in uniques]
    return np.array([*numbers, -1], dtype=np.int64)[codes]
