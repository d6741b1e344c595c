"""State labels: one spelling for 1, "1", 1.0 and "+1".

A state written 1 in a network comes back from a CSV file as 1, 1.0 or "1", depending on the other
values in its column. Labels are therefore compared by a common spelling, never by their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import DataError, ModelError

Label = Any


def plain(label: Label) -> Label:
    """The label as a plain Python value, so that it can be written to JSON."""
    return label.item() if isinstance(label, np.generic) else label


def spelling(label: Label) -> str:
    """The text by which labels are compared: equal for 1, "1", 1.0, " 1" and "+1"."""
    label = plain(label)
    if isinstance(label, bool):
        return str(label)
    text = str(label).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() else repr(number)


def checked_states(node: str, states: Sequence[Label]) -> tuple[Label, ...]:
    """The labels of a node's states, at least two and all different."""
    if isinstance(states, str):
        raise ModelError(f"The states of node {node!r} must be a list of labels, got {states!r}.")
    labels = tuple(plain(s) for s in states)
    if len(labels) < 2:
        raise ModelError(f"Node {node!r} needs at least two states, got {list(labels)}.")
    for label in labels:
        if not isinstance(label, (str, int, float)) or label != label or label == "":
            raise ModelError(
                f"The states of node {node!r} must be non-empty text or numbers, got {label!r}."
            )
    seen: dict[str, Label] = {}
    for label in labels:
        if spelling(label) in seen:
            raise ModelError(
                f"Two states of node {node!r} have the same label: "
                f"{seen[spelling(label)]!r} and {label!r}."
            )
        seen[spelling(label)] = label
    return labels


def state_index(node: str, states: Sequence[Label], label: Label) -> int:
    """The number of the state called ``label``, however it is spelled."""
    wanted = spelling(label)
    for index, state in enumerate(states):
        if spelling(state) == wanted:
            return index
    raise DataError(unknown_state(node, states, label))


def state_indices(node: str, states: Sequence[Label], labels: Any) -> NDArray[np.int64]:
    """The numbers of many states at once; each distinct label is looked up once."""
    return numbers_of(states, labels, lambda label: unknown_state(node, states, label))


def numbers_of(
    known: Sequence[Label], labels: Any, complaint: Callable[[Label], str]
) -> NDArray[np.int64]:
    """The position of each label among the known ones; ``complaint`` words the error."""
    positions = {spelling(label): position for position, label in enumerate(known)}
    values = np.asarray(labels)
    order: dict[Label, int] = {}
    # a dictionary rather than np.unique, which cannot sort a mixture of text and numbers
    codes = [order.setdefault(value, len(order)) for value in values.ravel().tolist()]
    for label in order:
        if spelling(label) not in positions:
            raise DataError(complaint(label))
    found = np.array([positions[spelling(label)] for label in order], dtype=np.int64)
    result: NDArray[np.int64] = found[np.array(codes, dtype=np.int64).reshape(values.shape)]
    return result


def label_array(labels: Sequence[Label]) -> NDArray[Any]:
    """Labels as an array to index with state numbers: numeric where all of them are numbers."""
    if all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in labels):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = list(labels)
    return array


def unknown_state(node: str, states: Sequence[Label], label: Label) -> str:
    """The sentence that says which labels would have been right."""
    valid = ", ".join(repr(s) for s in states)
    return f"Node {node!r} has no state {plain(label)!r}; its states are {valid}."
