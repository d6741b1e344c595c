"""Owns the tables that observations are written to: wide, long, events, intervals, summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.given_likelihoods import LIKELIHOOD_PREFIX
from asterism.data.measurements import NodeMeasurements, objects
from asterism.errors import Advice, DataError, Setting

if TYPE_CHECKING:
    from asterism.data.observations import Observations

IntArray = NDArray[np.int64]


def exact_column(observations: Observations) -> str | None:
    """Name of the column that marks exact rows; None where there are none."""
    if not any(m.exact.any() for m in observations.measurements.values()):
        return None
    name = "exact"
    while name in observations.measurements:
        name += "_"
    return name


def wide_frame(observations: Observations) -> pd.DataFrame:
    """One row per time; replicates at one time, and exact cells, have rows of their own."""
    records = observations.measurements
    for node, record in records.items():
        if record.likelihood is not None:
            raise DataError(
                f"node {node!r} holds likelihoods, which have one column per state; use ",
                Setting("kind", "long"),
            )
        if node in ("trajectory", "time"):
            raise DataError(
                f"a node cannot be called {node!r} in a wide table; ",
                Advice("use kind='long'", "rename it"),
            )
    layouts = {_layout(m): m for m in records.values()}
    columns = [
        np.concatenate([np.empty(0, dtype=np.int64), *(m.trajectory for m in layouts.values())]),
        np.concatenate([np.empty(0), *(m.time for m in layouts.values())]),
        np.concatenate([np.empty(0, dtype=np.bool_), *(~m.exact for m in layouts.values())]),
        np.concatenate([np.empty(0, dtype=np.int64), *map(_replicate, layouts.values())]),
    ]
    order = np.lexsort(columns[::-1])
    trajectory, time, noisy, replicate = (c[order] for c in columns)
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (
        (np.diff(trajectory) != 0)
        | (np.diff(time) != 0)
        | (noisy[1:] != noisy[:-1])
        | (np.diff(replicate) != 0)
    )
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(fresh) - 1
    cuts = np.cumsum([len(m) for m in layouts.values()])[:-1]
    rows_of = dict(zip(layouts, np.split(place, cuts)))
    data: dict[str, Any] = {
        "trajectory": _named(observations, trajectory[fresh]),
        "time": time[fresh],
    }
    for node, record in records.items():
        rows = rows_of[_layout(record)]
        n_rows = int(fresh.sum())
        # an integer cannot be missing
        kind = record.value.dtype if len(rows) == n_rows else np.result_type(record.value, float)
        column: NDArray[Any] = np.empty(n_rows, dtype=kind)
        if len(rows) < n_rows:
            column[:] = np.nan
        column[rows] = record.value
        data[node] = column
    name = exact_column(observations)
    if name is not None:
        data[name] = ~noisy[fresh]
    return pd.DataFrame(data)


def _layout(record: NodeMeasurements) -> tuple[int, int, int]:
    """Complete columns share their arrays; what is laid out alike is worked out once."""
    return id(record.trajectory), id(record.time), id(record.exact)


def _replicate(record: NodeMeasurements) -> IntArray:
    """0 for the first measurement at a time, 1 for the second, …"""
    new = np.ones(len(record), dtype=np.bool_)
    order = np.lexsort((record.exact, record.time, record.trajectory))
    t, d, e = record.time[order], record.trajectory[order], record.exact[order]
    new[1:] = (np.diff(t) != 0) | (np.diff(d) != 0) | (e[1:] != e[:-1])
    index = np.arange(len(record))
    count = index - np.maximum.accumulate(np.where(new, index, 0))
    result = np.empty(len(record), dtype=np.int64)
    result[order] = count
    return result


def long_frame(observations: Observations) -> pd.DataFrame:
    """One row per measurement; likelihoods in columns p_<state>."""
    pieces = []
    name = exact_column(observations)
    for node, record in observations.measurements.items():
        if not len(record):
            continue
        piece: dict[str, Any] = {
            "trajectory": _named(observations, record.trajectory),
            "time": record.time,
            "node": node,
        }
        if record.likelihood is None:
            piece["value"] = record.value
        else:
            states = record.states or tuple(range(record.likelihood.shape[1]))
            for k, state in enumerate(states):
                piece[f"{LIKELIHOOD_PREFIX}{state}"] = record.likelihood[:, k]
        if name is not None:
            piece[name] = record.exact
        pieces.append(pd.DataFrame(piece))
    if not pieces:
        return pd.DataFrame({"trajectory": [], "time": [], "node": [], "value": []})
    if any(p["value"].dtype == object for p in pieces if "value" in p):
        for p in pieces:
            if "value" in p:
                p["value"] = p["value"].astype(object)
    return pd.concat(pieces, ignore_index=True)


def events_frame(observations: Observations) -> pd.DataFrame:
    events = observations.events
    return pd.DataFrame(
        {
            "trajectory": _named(observations, events.trajectory),
            "time": events.time,
            "node": events.node,
            "to": events.to,
            "from": events.previous,
        }
    )


def intervals_frame(observations: Observations) -> pd.DataFrame:
    intervals = observations.intervals
    return pd.DataFrame(
        {
            "trajectory": _named(observations, intervals.trajectory),
            "node": intervals.node,
            "start": intervals.start,
            "end": intervals.end,
            "state": intervals.state,
        }
    )


def describe(observations: Observations) -> pd.DataFrame:
    """Per node: number of points, share of the times at which it was missing, span, median gap."""
    records = observations.measurements
    n_times = len(wide_keys(observations))
    events = pd.Series(observations.events.node, dtype=object).value_counts()
    rows = []
    for node in observations.nodes:
        record = records.get(node)
        n = 0 if record is None else len(record)
        row: dict[str, Any] = {
            "node": node,
            "points": n,
            "missing": 1.0 - len(wide_keys(observations, node)) / n_times if n_times else 0.0,
            "trajectories": 0 if record is None else len(np.unique(record.trajectory)),
            "first_time": None,
            "last_time": None,
            "typical_gap": None,
            "values": "never measured",
            "events": int(events.get(node, 0)),
        }
        if record is not None and n:
            gap = np.diff(record.time)[
                (np.diff(record.trajectory) == 0) & (np.diff(record.time) > 0)
            ]
            row["first_time"], row["last_time"] = record.time.min(), record.time.max()
            row["typical_gap"] = float(np.median(gap)) if len(gap) else None
            row["values"] = _kind(record)
        rows.append(row)
    return pd.DataFrame(rows).set_index("node") if rows else pd.DataFrame()


def _kind(record: NodeMeasurements) -> str:
    if record.likelihood is not None:
        return f"likelihoods of {record.likelihood.shape[1]} states"
    if record.holds_labels:
        shown = sorted({str(v) for v in record.value})
        return "labels " + ", ".join(shown[:6]) + (", …" if len(shown) > 6 else "")
    # adding zero makes a minus zero a zero
    return f"numbers {record.value.min() + 0.0:g} to {record.value.max() + 0.0:g}"


def wide_keys(observations: Observations, node: str | None = None) -> set[tuple[int, float]]:
    """The different (trajectory, time) pairs at which anything, or one node, was measured."""
    if node is None:
        records = list(observations.measurements.values())
    else:
        records = [observations.measurements[node]] if node in observations.measurements else []
    keys: set[tuple[int, float]] = set()
    done: set[tuple[int, int]] = set()
    for m in records:
        if (id(m.trajectory), id(m.time)) not in done:
            done.add((id(m.trajectory), id(m.time)))
            keys.update(zip(m.trajectory.tolist(), m.time.tolist()))
    return keys


def _named(observations: Observations, number: IntArray) -> NDArray[Any]:
    return objects(observations.trajectories)[number]
