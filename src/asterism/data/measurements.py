"""What is stored about measurements, one record of arrays per node, and the tables made from it.

Trajectories are numbers here (positions in ``Observations.trajectories``); states and values
stay as the user wrote them, because only a network knows their numbers. The tables are wide, long,
events, intervals and a summary per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.errors import Advice, DataError, Setting, first_few
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray

if TYPE_CHECKING:
    from asterism.data.observations import Observations


#: columns that begin like this hold the probability of the measurement under a state
LIKELIHOOD_PREFIX = "p_"


@dataclass(frozen=True, eq=False)
class Records:
    """Rows of a table about some trajectories: arrays with one entry per row."""

    trajectory: IntArray

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        found = ((column.name, getattr(self, column.name)) for column in fields(self))
        return {name: array for name, array in found if isinstance(array, np.ndarray)}

    def __len__(self) -> int:
        return len(self.trajectory)

    def take(self, index: NDArray[Any]) -> Self:
        """Some of the rows."""
        return replace(self, **{name: array[index] for name, array in self.columns().items()})

    def renumbered(self, new: IntArray) -> Self:
        """Rows of trajectories whose new number is at least zero, sorted by it."""
        number = new[self.trajectory]
        kept = np.flatnonzero(number >= 0)
        kept = kept[np.argsort(number[kept], kind="stable")]
        return replace(self.take(kept), trajectory=number[kept])

    def scaled(self, factor: float) -> Self:
        """All times multiplied."""
        times = [name for name in self.columns() if name in ("time", "start", "end")]
        changed: dict[str, Any] = {name: getattr(self, name) * factor for name in times}
        return replace(self, **changed)


@dataclass(frozen=True, eq=False)
class NodeMeasurements(Records):
    """All measurements of one node, sorted by (trajectory, time)."""

    time: FloatArray
    value: NDArray[Any]
    """float64, or object where the cells are labels; unused where ``likelihood`` is set."""
    exact: BoolArray
    """Rows that report the state itself and bypass the emission."""
    row: IntArray
    """Line of the user's table, for messages."""
    likelihood: FloatArray | None = None
    """(I, S) probability of the measurement under each state, if that is what was given."""
    states: tuple[object, ...] | None = None
    """Labels of the likelihood's columns; None = in the order of the network's states."""
    among: ObjectArray | None = None
    """Per row None, or the states of which one is meant: such a row bypasses the emission too."""

    @property
    def in_a_set(self) -> BoolArray:
        """Rows that only say the state is one of several."""
        if self.among is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.array([states is not None for states in self.among], dtype=np.bool_)

    @property
    def noisy(self) -> BoolArray:
        """Rows that the emission reads."""
        return ~self.exact if self.among is None else ~self.exact & ~self.in_a_set

    @property
    def holds_labels(self) -> bool:
        """Whether the values are names of states rather than numbers."""
        return self.likelihood is None and self.value.dtype == object


@dataclass(frozen=True, eq=False)
class Known(Records):
    """What is known of paths exactly: events and intervals, each with its own columns."""

    def joined(self, **more: Any) -> Self:
        """With further rows, one list or array for each column."""
        rows: dict[str, Any] = {
            name: objects([*old, *more[name]])
            if old.dtype == object
            else np.concatenate([old, more[name]])
            for name, old in self.columns().items()
        }
        return replace(self, **rows)

    def of_nodes(self, names: Mapping[str, str]) -> Self:
        """Rows of these nodes only, under the names that they get."""
        node = self.columns()["node"]
        kept = self.take(np.flatnonzero([n in names for n in node]))
        changed: dict[str, Any] = {"node": objects(names[n] for n in kept.columns()["node"])}
        return replace(kept, **changed)


@dataclass(frozen=True, eq=False)
class Events(Known):
    """Exactly timed transitions, in the order of the user's table."""

    time: FloatArray
    node: ObjectArray
    to: ObjectArray
    previous: ObjectArray
    """The state before the jump; None where it is not known."""
    row: IntArray


@dataclass(frozen=True, eq=False)
class Intervals(Known):
    """Times during which a node's state is known, in the order of the user's table."""

    node: ObjectArray
    start: FloatArray
    end: FloatArray
    state: ObjectArray
    row: IntArray


class Parts(NamedTuple):
    """What was read from tables or arrays: fields of ``Observations``."""

    trajectories: tuple[object, ...]
    start: FloatArray
    end: FloatArray
    measurements: dict[str, NodeMeasurements]
    events: Events
    intervals: Intervals
    time_unit: str = ""


def objects(values: Iterable[Any]) -> ObjectArray:
    """A one-dimensional object array, whatever the elements are."""
    items = list(values)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def no_events() -> Events:
    """A table without rows."""
    none, nobody = np.empty(0, dtype=np.int64), objects([])
    return Events(none, np.empty(0), nobody, nobody, nobody, none)


def no_intervals() -> Intervals:
    """A table without rows."""
    none, nobody = np.empty(0, dtype=np.int64), objects([])
    return Intervals(none, nobody, np.empty(0), np.empty(0), nobody, none)


def no_measurements() -> NodeMeasurements:
    """The record of a node that was never measured."""
    none = np.empty(0, dtype=np.int64)
    return NodeMeasurements(none, np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_), none)


def last_before(
    entry_group: IntArray,
    entry_time: FloatArray,
    query_group: IntArray,
    query_time: FloatArray,
    *,
    strict: bool = False,
) -> IntArray:
    """Index of the last entry of the query's group at or before its time; −1 if there is none.

    Entries must be sorted by (group, time). With ``strict`` only entries before the time count.
    """
    n_entries, n_queries = len(entry_group), len(query_group)
    if n_entries == 0 or n_queries == 0:
        return np.full(n_queries, -1, dtype=np.int64)
    group = np.concatenate([entry_group, query_group])
    time = np.concatenate([entry_time, query_time])
    is_entry = np.zeros(n_entries + n_queries, dtype=np.bool_)
    is_entry[:n_entries] = True
    rank = is_entry if strict else ~is_entry
    order = np.lexsort((rank, time, group))
    seen = np.cumsum(is_entry[order]) - 1
    place = np.empty(n_entries + n_queries, dtype=np.int64)
    place[order] = seen
    found = place[n_entries:]
    valid = (found >= 0) & (entry_group[np.maximum(found, 0)] == query_group)
    return np.where(valid, found, -1).astype(np.int64)


# ---- tables -----------------------------------------------------------------------------------


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
    layouts = {_layout(m): m for m in [no_measurements(), *records.values()]}
    parts = layouts.values()
    cells = pd.DataFrame(
        {
            "trajectory": np.concatenate([m.trajectory for m in parts]),
            "time": np.concatenate([m.time for m in parts]),
            "noisy": np.concatenate([~m.exact for m in parts]),
            "layout": np.repeat(np.arange(len(parts)), [len(m) for m in parts]),
        }
    )
    cells["replicate"] = cells.groupby(["layout", "trajectory", "time", "noisy"]).cumcount()
    place = cells.groupby(["trajectory", "time", "noisy", "replicate"]).ngroup().to_numpy()
    kept = cells.iloc[np.unique(place, return_index=True)[1]]
    rows_of = dict(zip(layouts, np.split(place, np.cumsum([len(m) for m in parts])[:-1])))
    data: dict[str, Any] = {
        "trajectory": _named(observations, kept["trajectory"].to_numpy()),
        "time": kept["time"].to_numpy(),
    }
    for node, record in records.items():
        column = pd.Series(record.value, index=rows_of[_layout(record)])
        data[node] = column.reindex(range(len(kept))).to_numpy()
    name = exact_column(observations)
    if name is not None:
        data[name] = ~kept["noisy"].to_numpy()
    return pd.DataFrame(data)


def _layout(record: NodeMeasurements) -> tuple[int, int, int]:
    """Complete columns share their arrays; what is laid out alike is worked out once."""
    return id(record.trajectory), id(record.time), id(record.exact)


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
    return pd.concat(pieces, ignore_index=True)


def known_frame(observations: Observations, known: Events | Intervals) -> pd.DataFrame:
    """One row per event (trajectory, time, node, to, from) or per interval."""
    columns = known.columns()
    del columns["row"]
    columns["trajectory"] = _named(observations, columns["trajectory"])
    return pd.DataFrame(columns).rename(columns={"previous": "from"})


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
        return f"labels {first_few(shown)}"
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
