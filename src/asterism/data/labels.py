"""Names of trajectories, nodes and states, and when two of them mean the same.

A state called 1 in a network may come back from a spreadsheet as 1.0, "1" or "1.0". Labels of one
column are told apart letter by letter; labels of different tables are compared letter by letter
first, and then by the number that they spell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.measurements import objects
from asterism.data.numbers import as_number
from asterism.errors import DataError, quoted
from asterism.numerics.arrays import FloatArray, IntArray


def as_names(array: NDArray[Any]) -> NDArray[Any]:
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


def positions(names: Sequence[object], wanted: Iterable[object], what: str) -> IntArray:
    """Where each of some names stands among all; ``what`` they name, for the message."""
    position = {name: i for i, name in enumerate(names)}
    listed = list(wanted)
    for name in listed:
        if name not in position:
            raise DataError(f"there is no {what} {name!r}; there are {quoted(names)}")
    return np.array([position[name] for name in listed], dtype=np.int64)


def letters(label: object) -> str:
    """The text by which labels of one column are told apart: letter by letter.

    The numbers 1 and 1.0 and the text "1" are one label; "01" and "1.0" are others.
    """
    return label.strip() if isinstance(label, str) else canonical(label)


def spelled(values: NDArray[Any]) -> NDArray[Any]:
    """Every value letter by letter."""
    codes, uniques = pd.factorize(values)
    return objects(map(letters, uniques.tolist()))[codes]


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


def _encode_numbers(values: FloatArray, states: FloatArray) -> IntArray:
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


def combinations(states: Mapping[str, Sequence[object]], nodes: Sequence[str]) -> list[str]:
    """What to call every combination of some nodes' states: "A=on, B=off"; the last moves first."""
    return [
        ", ".join(f"{node}={label}" for node, label in zip(nodes, labels))
        for labels in product(*(states[node] for node in nodes))
    ]


#: the columns that tell rates apart in every table of them
RATE_LABELS = ("node", "configuration", "from", "to")


def rate_labels(
    node: str, configurations: Iterable[str], states: Sequence[Any]
) -> list[tuple[str, str, Any, Any]]:
    """:data:`RATE_LABELS` of every entry of a node's table (configurations, S, S), one by one."""
    return [(node, given, *move) for given in configurations for move in product(states, repeat=2)]


def by_number(value: Any) -> tuple[int, float, str]:
    """Sorts states: numbers by size, then texts."""
    number = as_number(value)
    return (1, 0.0, str(value)) if number is None else (0, number, str(value))
