"""Owns three ways to read a measured value that panel data need: entry times, codes and sets.

An *exact entry*: the row's time is when the state was entered (a date of death), so the row is an
event. A *state code*: a value such as 999 stands for a state that is known for certain. A *state
set*: a value such as 99 says only that the state is one of several ("alive, state unknown").

``final_states`` says which states the data show to be final, such as death.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.labels import canonical, plain
from asterism.data.measurements import Events, NodeMeasurements, objects
from asterism.errors import DataError, first_few

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
    wanted = {canonical(s) for s in states}
    label = _texts(record)
    entered = np.isin(label, list(wanted))
    _require_seen(node, wanted, set(label[entered].tolist()), label)
    first = np.concatenate([[True], np.diff(record.trajectory) != 0])[: len(record)]
    same = np.concatenate([[False], label[1:] == label[:-1]])[: len(record)]
    is_event = entered & ~first & ~same
    kept = record.take(np.flatnonzero(~is_event))
    kept = replace(kept, exact=kept.exact | entered[~is_event])
    rows = np.flatnonzero(is_event)
    joined = Events(
        np.concatenate([events.trajectory, record.trajectory[rows]]),
        np.concatenate([events.time, record.time[rows]]),
        objects([*events.node, *([node] * len(rows))]),
        objects([*events.to, *(plain(v) for v in record.value[rows])]),
        objects([*events.previous, *([None] * len(rows))]),
        np.concatenate([events.row, record.row[rows]]),
    )
    return kept, joined


def state_codes(node: str, record: NodeMeasurements, codes: Mapping[Any, Any]) -> NodeMeasurements:
    """Rows with a code report its state for certain."""
    label = _texts(record)
    named = {canonical(code): state for code, state in codes.items()}
    coded = np.isin(label, list(named))
    _require_seen(node, set(named), set(label[coded].tolist()), label)
    value = record.value.astype(object)
    for i in np.flatnonzero(coded):
        value[i] = named[str(label[i])]
    return replace(record, value=value, exact=record.exact | coded)


def state_sets(
    node: str, record: NodeMeasurements, codes: Mapping[Any, Iterable[Any]]
) -> NodeMeasurements:
    """Rows with a code say that the state is one of its set, and nothing else."""
    label = _texts(record)
    sets = {canonical(code): tuple(plain(s) for s in states) for code, states in codes.items()}
    for code, states in sets.items():
        if len(states) < 1:
            raise DataError(f"Code {code} of node {node!r} stands for no state; name at least one.")
    _require_seen(node, set(sets), set(label.tolist()) & set(sets), label)
    among = objects([None] * len(record)) if record.among is None else record.among.copy()
    for i, text in enumerate(label.tolist()):
        if text in sets:
            among[i] = sets[text]
    return replace(record, among=among)


def final_states(data: Observations) -> dict[str, dict[str, str]]:
    """States that no row leaves and that must be final, by node; each with the reason.

    They are called dead or the like, or they are entered at exact times and nothing shows the node
    in them for any length of time, as in a table that ends with the date of death.
    """
    table = changes(data)
    intervals = data.intervals
    lasting = intervals.end > intervals.start
    lasts = {*zip(intervals.node[lasting], map(canonical, intervals.state[lasting]))}
    exact = {*zip(data.events.node, map(canonical, data.events.to))} - lasts
    left = {*zip(table["node"], table["before"])}
    result: dict[str, dict[str, str]] = {}
    for node, state in sorted(({*zip(table["node"], table["after"])} | exact) - left):
        if state.lower() in DEATHS:
            result.setdefault(node, {})[state] = "its name says that it is final"
        elif (node, state) in exact:
            result.setdefault(node, {})[state] = "the times of its entries are exact"
    return result


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
        (str(node), canonical(before), canonical(after))
        for node, before, after in pairs.itertuples(index=False)
        if before is not None
        and not isinstance(before, tuple)
        and canonical(before)
        not in (map(canonical, after) if isinstance(after, tuple) else [canonical(after)])
    ]
    return pd.DataFrame(keep, columns=["node", "before", "after"]).drop_duplicates()


def _texts(record: NodeMeasurements) -> NDArray[Any]:
    if record.likelihood is not None:
        raise DataError("The measurements are likelihoods already; codes have no meaning there.")
    known: dict[Any, str] = {}
    for value in record.value.tolist():
        if value not in known:
            known[value] = canonical(value)
    return objects(known[v] for v in record.value.tolist())


def _require_seen(node: str, wanted: set[str], seen: set[Any], label: NDArray[Any]) -> None:
    absent = sorted(wanted - seen)
    if absent:
        values = sorted(set(label.tolist()))
        raise DataError(
            f"Node {node!r} is never measured as {absent[0]!r}; its values are "
            f"{first_few(values, 8)}."
        )
