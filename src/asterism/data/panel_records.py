"""Owns four ways to read a measured value that panel data need.

An *exact entry*: the row's time is when the state was entered (a date of death), so the row is an
event. A *state code*: a value such as 999 stands for a state that is known for certain. A *state
set*: a value such as 99 says only that the state is one of several ("alive, state unknown").
An *observation type* says this row by row: 1 the state at a visit, 2 a transition at its exact time
with no change before it, 3 an exact entry from an unknown state.

``final_states`` says which states the data show to be final, such as death.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.labels import canonical, letters, plain, spelled
from asterism.data.measurements import Events, Intervals, NodeMeasurements, objects
from asterism.errors import DataError, first_few
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from asterism.data.observations import Observations

#: states of this name are final unless a row leaves them
DEATHS = ("dead", "death", "died", "deceased", "exitus")


def exact_entries(
    node: str, record: NodeMeasurements, events: Events, states: Iterable[Any]
) -> tuple[NodeMeasurements, Events]:
    """Rows that report one of the states become events, unless the state was there before.

    The first row of a trajectory cannot be an entry: it stays, as a state known for certain.
    """
    label = _texts(record)
    entered = _meant(node, label, list(states)) >= 0
    first = np.concatenate([[True], np.diff(record.trajectory) != 0])[: len(record)]
    same = np.concatenate([[False], label[1:] == label[:-1]])[: len(record)]
    return _as_events(node, record, events, entered, entered & ~first & ~same)


def observation_types(
    node: str, record: NodeMeasurements, events: Events, intervals: Intervals, kind: NDArray[Any]
) -> tuple[NodeMeasurements, Events, Intervals]:
    """Rows as ``kind`` says: 1 a visit, 2 an exact transition, 3 an exact entry.

    The first row of a trajectory is where it starts, whatever its type. Before a row of type 2
    the node stayed in the state of the row before it.
    """
    known = np.isin(kind, (1.0, 2.0, 3.0))
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        raise DataError(
            f"Row {record.row[i]}: the observation type is {kind[i]:g}; it is 1 (a visit), 2 (a "
            "transition at its exact time, with no change before it) or 3 (an exact entry from a "
            "state that is not known)."
        )
    label = _texts(record)
    first = np.concatenate([[True], np.diff(record.trajectory) != 0])[: len(record)]
    same = np.concatenate([[False], label[1:] == label[:-1]])[: len(record)]
    stays = np.flatnonzero((kind == 2.0) & ~first)
    if record.in_a_set[stays - 1].any():
        i = stays[record.in_a_set[stays - 1]][0]
        raise DataError(
            f"Row {record.row[i]}: observation type 2 says that the state of the row before it "
            "lasted until then, but that row names several states."
        )
    jumps = ~first & (((kind == 2.0) & ~same) | (kind == 3.0))
    certain = kind > 1.0
    certain[stays - 1] = True
    kept, joined = _as_events(node, record, events, certain, jumps)
    lasting = intervals.joined(
        trajectory=record.trajectory[stays],
        node=[node] * len(stays),
        start=record.time[stays - 1],
        end=record.time[stays],
        state=map(plain, record.value[stays - 1]),
        row=record.row[stays],
    )
    return kept, joined, lasting


def _as_events(
    node: str,
    record: NodeMeasurements,
    events: Events,
    certain: BoolArray,
    is_event: BoolArray,
) -> tuple[NodeMeasurements, Events]:
    """Some rows become events; those that are certain and stay are known without error."""
    kept = record.take(np.flatnonzero(~is_event))
    kept = replace(kept, exact=kept.exact | certain[~is_event])
    rows = np.flatnonzero(is_event)
    joined = events.joined(
        trajectory=record.trajectory[rows],
        time=record.time[rows],
        node=[node] * len(rows),
        to=map(plain, record.value[rows]),
        previous=[None] * len(rows),
        row=record.row[rows],
    )
    return kept, joined


def state_codes(node: str, record: NodeMeasurements, codes: Mapping[Any, Any]) -> NodeMeasurements:
    """Rows with a code report its state for certain."""
    code = _meant(node, _texts(record), list(codes))
    value = record.value.astype(object)
    states = objects([*codes.values(), None])
    value[code >= 0] = states[code[code >= 0]]
    return replace(record, value=value, exact=record.exact | (code >= 0))


def state_sets(
    node: str, record: NodeMeasurements, codes: Mapping[Any, Iterable[Any]]
) -> NodeMeasurements:
    """Rows with a code say that the state is one of its set, and nothing else."""
    sets = [tuple(plain(s) for s in states) for states in codes.values()]
    for code, states in zip(codes, sets):
        if len(states) < 1:
            raise DataError(f"Code {code} of node {node!r} stands for no state; name at least one.")
    meant = _meant(node, _texts(record), list(codes))
    among = objects([None] * len(record)) if record.among is None else record.among.copy()
    for i in np.flatnonzero(meant >= 0):
        among[i] = sets[meant[i]]
    return replace(record, among=among)


def final_states(data: Observations) -> dict[str, dict[str, str]]:
    """States that no row leaves and that must be final, by node; each with the reason.

    They are called dead or the like, or they are entered at exact times and nothing shows the node
    in them for any length of time, as in a table that ends with the date of death.
    """
    table = changes(data)
    intervals = data.intervals
    lasting = intervals.end > intervals.start
    lasts = {*zip(intervals.node[lasting], map(letters, intervals.state[lasting]))}
    exact = {*zip(data.events.node, map(letters, data.events.to))} - lasts
    left = {*zip(table["node"], table["before"])}
    result: dict[str, dict[str, str]] = {}
    for node, state in sorted(({*zip(table["node"], table["after"])} | exact) - left):
        if state.lower() in DEATHS:
            result.setdefault(node, {})[state] = "its name says that it is final"
        elif (node, state) in exact:
            result.setdefault(node, {})[state] = "the times of its entries are exact"
    return result


def states_in_order(
    node: str, data: Observations, with_ends: bool = False
) -> tuple[IntArray, FloatArray, NDArray[Any]]:
    """Trajectory, time and state of everything said about a node, in the order of time.

    Intervals count when they begin, and ``with_ends`` when they end: before a jump at that time.
    """
    events, intervals = data.events, data.intervals
    jump, stay = events.node == node, intervals.node == node
    parts: list[tuple[Any, ...]] = []
    if with_ends:
        parts.append((intervals.trajectory[stay], intervals.end[stay], intervals.state[stay]))
    record = data.measurements.get(node)
    if record is not None and record.likelihood is None:
        rows = np.flatnonzero(~record.in_a_set)
        parts.append((record.trajectory[rows], record.time[rows], record.value[rows]))
    parts.append((events.trajectory[jump], events.time[jump], events.to[jump]))
    parts.append((intervals.trajectory[stay], intervals.start[stay], intervals.state[stay]))
    d, t, value = (np.concatenate(column) for column in zip(*parts))
    order = np.lexsort((t, d))
    return d[order], t[order], objects(value[order])


def changes(data: Observations, also: Iterable[str] = ()) -> pd.DataFrame:
    """Every kind of change between successive rows: node, before, after; states as texts.

    Only of nodes whose states have names or known times, and those in ``also``. A row that names a
    set of states is no change from a state of that set.
    """
    events, intervals = data.events, data.intervals
    known = {*events.node, *intervals.node, *also}
    rows: list[tuple[Any, ...]] = []  # measurements stand before the events of their time
    for node, record in data.measurements.items():
        if record.likelihood is None and (record.holds_labels or node in known):
            states = _texts(record)
            if record.among is not None:
                states = objects(s if a is None else a for s, a in zip(states, record.among))
            rows.append((node, record.trajectory, record.time, states))
    rows.append((events.node, events.trajectory, events.time, events.to))
    rows.append((intervals.node, intervals.trajectory, intervals.start, intervals.state))
    names = ("node", "d", "t", "state")
    table = pd.concat([pd.DataFrame(dict(zip(names, part))) for part in rows], ignore_index=True)
    table = table.sort_values(["node", "d", "t"], kind="stable")
    follows = (table["node"] == table["node"].shift()) & (table["d"] == table["d"].shift())
    pairs = pd.DataFrame(
        {
            "node": [*table["node"][follows], *events.node],
            "before": [*table["state"].shift()[follows], *events.previous],
            "after": [*table["state"][follows], *events.to],
        }
    ).drop_duplicates()
    keep = [
        (str(node), letters(before), letters(after))
        for node, before, after in pairs.itertuples(index=False)
        if before is not None
        and not isinstance(before, tuple)
        and letters(before)
        not in (map(letters, after) if isinstance(after, tuple) else [letters(after)])
    ]
    return pd.DataFrame(keep, columns=["node", "before", "after"]).drop_duplicates()


def _texts(record: NodeMeasurements) -> NDArray[Any]:
    if record.likelihood is not None:
        raise DataError("The measurements are likelihoods already; codes have no meaning there.")
    return spelled(record.value)


def _meant(node: str, label: NDArray[Any], wanted: list[Any]) -> IntArray:
    """Per row the number of the wanted value that it holds, −1 where it is none of them.

    A value that the rows spell letter by letter means those rows only, else those of its number.
    """
    seen = list(dict.fromkeys(label.tolist()))
    meant = np.full(len(label), -1, dtype=np.int64)
    for k, value in enumerate(wanted):
        alike = [letters(value)] if letters(value) in seen else [
            text for text in seen if canonical(text) == canonical(value)
        ]  # fmt: skip
        if not alike:
            raise DataError(
                f"Node {node!r} is never measured as {str(value)!r}; its values are "
                f"{first_few(sorted(seen), 8)}."
            )
        meant[np.isin(label, alike)] = k
    return meant
