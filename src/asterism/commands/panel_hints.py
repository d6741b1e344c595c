"""Questions that a table of states raises: states never left, orders never reversed, odd codes.

Nothing is decided here. Each finding is one sentence that names the flag which would settle it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.commands.panel_flags import PanelOptions, allowed_transitions
from asterism.data.columns import canonical
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.model.restrictions import as_mask

#: entries after which "never left" is worth a sentence
FEWEST_ENTRIES = 3

#: moves forward, and none back, after which an order is worth a sentence
FEWEST_MOVES = 10

#: a value that occurs this often, this many times the range of all others away, looks like a code
FEWEST_CODES = 3
FAR = 2.0


def hints(data: Observations, options: PanelOptions) -> list[str]:
    """One sentence per oddity of the measured nodes."""
    found: list[str] = []
    for node, record in data.measurements.items():
        if record.likelihood is not None or not len(record):
            continue
        odd = odd_codes(record)
        found += [_about_code(node, value, count, low, high) for value, count, low, high in odd]
        if not odd:
            found += _about_order(node, data, record, options)
    return found


def odd_codes(record: NodeMeasurements) -> list[tuple[str, int, float, float]]:
    """Values that repeat and stand far outside the others: value, count, range of the others."""
    rows = record.noisy
    try:
        numbers = record.value[rows].astype(np.float64)
    except (TypeError, ValueError):
        return []
    if len(numbers) == 0:
        return []
    values, counts = np.unique(numbers, return_counts=True)
    result = []
    for end in (0, -1):
        others = np.delete(values, end)
        if len(others) < 2 or counts[end] < FEWEST_CODES:
            continue
        low, high = float(others.min()), float(others.max())
        away = max(low - values[end], values[end] - high)
        looks_like_code = set(canonical(abs(values[end])).strip("0.")) == {"9"}
        if away > (FAR if looks_like_code else 10.0 * FAR) * (high - low) and away > 1.0:
            result.append((canonical(values[end]), int(counts[end]), low, high))
    return result


def _about_code(node: str, value: str, count: int, low: float, high: float) -> str:
    return (
        f"{node!r} is {value} in {count} rows and from {low:g} to {high:g} in all others. If "
        f"{value} is a code, say so: --state-code {value}=STATE (a state known for certain, such "
        f"as dead), "
        f"--censored {value}=STATES (one of several states), or leave these cells empty."
    )


def _about_order(
    node: str, data: Observations, record: NodeMeasurements, options: PanelOptions
) -> list[str]:
    trajectory, label = _readings(node, data, record)
    states = sorted(set(label.tolist()), key=by_number)
    if not 2 <= len(states) <= 12:
        return []
    number = {state: i for i, state in enumerate(states)}
    code = np.array([number[v] for v in label.tolist()])
    same = trajectory[1:] == trajectory[:-1]
    before, after = code[:-1][same], code[1:][same]
    moves = np.zeros((len(states), len(states)), dtype=np.int64)
    np.add.at(moves, (before, after), 1)
    np.fill_diagonal(moves, 0)
    given = (allowed_transitions(options, [*data.measurements]) or {}).get(node)
    try:
        allowed = as_mask(node, given, states)
    except Exception:  # named in full when the fit checks it
        return []
    prefix = f"{node}:" if len(data.measurements) > 1 else ""
    back, forward = int(np.tril(moves).sum()), int(np.triu(moves).sum())
    if len(states) > 2 and back == 0 and forward >= FEWEST_MOVES and np.tril(allowed).any():
        order = " → ".join(states)
        return [
            f"{node!r} only ever moves forward in the order {order} ({forward} moves, none back), "
            "yet moves back are allowed: --progressive excludes them."
        ]
    result = []
    for x, state in enumerate(states):
        entries = int(moves[:, x].sum())
        if entries >= FEWEST_ENTRIES and moves[x].sum() == 0 and allowed[x].any():
            result.append(
                f"{node!r} enters {state!r} {entries} times and never leaves it, yet it may: "
                f"--absorbing {prefix}{state} makes it final (and --exact-entry {prefix}{state} "
                "says that its times are exact)."
            )
    return result


def _readings(
    node: str, data: Observations, record: NodeMeasurements
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Everything said about the state, as texts, by trajectory and time; numbers are none."""
    rows = np.flatnonzero(~record.in_a_set)
    values = [canonical(v) for v in record.value[rows].tolist()]
    mine = data.events.node == node
    trajectory = np.concatenate([record.trajectory[rows], data.events.trajectory[mine]])
    time = np.concatenate([record.time[rows], data.events.time[mine]])
    label = np.array([*values, *(canonical(v) for v in data.events.to[mine])], dtype=object)
    order = np.lexsort((time, trajectory))
    return trajectory[order], label[order]


def by_number(value: Any) -> tuple[int, float, str]:
    """Sorts states: numbers by size, then texts."""
    try:
        return 0, float(value), str(value)
    except (TypeError, ValueError):
        return 1, 0.0, str(value)
