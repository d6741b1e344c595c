"""What was done from outside: interventions and stimuli.

An intervention is a time during which the experimenter holds a node in a state: a knock-out, a heat
shock. That is not the same as a state that was *seen*: the node did not choose it, so its own rates
and parents have no part in it, while its children feel it like any other state. At the end the node
is free again and starts from the state it was set to.

A stimulus is a time during which something acts on nodes yet to be learned: a drug, a change of
medium, light. Only its times are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.known_paths import groups, overlapping
from asterism.data.labels import as_names, encode
from asterism.data.measurements import Intervals, NodeMeasurements, no_events, objects
from asterism.data.numbers import MISSING_TEXT
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import DataError, quoted
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

STIMULI_COLUMNS = ("name", "trajectory", "start", "end")
#: a further column of stimuli: the node that a stimulus is known to act on
TARGET = "node"
#: the states of a stimulus as a node
OFF, ON = "off", "on"
#: cells of a column that say that no stimulus is on, and that it is
_OFF_CELLS = {*MISSING_TEXT, OFF, "none", "no", "0", "control", "false"}
_ON_CELLS = {ON, "yes", "1", "true"}


def read_interventions(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    start: FloatArray,
    end: FloatArray,
    nodes: Sequence[str],
    comma: str | None = None,
) -> Intervals:
    """Check a table of interventions; empty starts and ends are those of the trajectory."""
    table = _opened(frame, "interventions", ("trajectory", "node", "state"), comma)
    name, _ = table.read_trajectories("trajectory")
    d = _numbered(table, name, trajectories, np.ones(len(name), dtype=np.bool_))
    node = objects(map(str, table.labels("node")))
    known = f"the nodes are {quoted(nodes)}"
    table.note(~np.isin(node, list(nodes)), f"{{value}} is not a node; {known}", value=node)
    state = table.labels("state")
    begin, stop = table.bounds("start"), table.bounds("end")
    table.problems.raise_errors()
    begin, stop = np.fmax(begin, start[d]), np.fmin(stop, end[d])
    for i in np.flatnonzero(~(begin < stop)):
        table.tell(
            f"of the intervention nothing lies in the trajectory ({start[d[i]]:g} to "
            f"{end[d[i]]:g})",
            trajectory=name[i],
            row=int(table.rows[i]),
        )
    found = Intervals(d, node, begin, stop, state, table.rows)
    for a, b in overlapping(found, groups(no_events(), found)):
        table.tell(
            f"rows {found.row[a]} and {found.row[b]}: both hold {found.node[a]!r} at time "
            f"{found.start[b]:g}",
            trajectory=trajectories[int(found.trajectory[a])],
        )
    table.problems.raise_errors()
    return found


def read_stimuli(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    start: FloatArray,
    end: FloatArray,
    nodes: Sequence[str],
    comma: str | None = None,
) -> pd.DataFrame:
    """Check a table of stimuli: one row per name and trajectory, with its times filled in."""
    known = (*STIMULI_COLUMNS, TARGET)
    table = _opened(frame, "stimuli", ("name", "trajectory"), comma)
    name, raw = table.labels("name"), table.cells("trajectory")
    target = _targets(table, name, nodes)
    everywhere = columns.missing(raw)
    place = _numbered(table, as_names(raw), trajectories, ~everywhere)
    begin, stop = table.bounds("start"), table.bounds("end")
    table.problems.raise_errors()
    rows = []
    for i in range(len(frame)):
        hit = np.arange(len(trajectories)) if everywhere[i] else place[i : i + 1]
        first, last = np.fmax(begin[i], start[hit]), np.fmin(stop[i], end[hit])
        inside = np.flatnonzero(first < last)
        if len(inside) == 0:
            table.tell(
                f"of the stimulus {str(name[i])!r} nothing lies in a trajectory",
                row=int(table.rows[i]),
            )
        own = str(name[i]).strip()
        rows += [
            (own, trajectories[int(hit[j])], float(first[j]), float(last[j]), target[i])
            for j in inside
        ]
    table.problems.raise_errors()
    found = pd.DataFrame(rows, columns=list(known))
    found = found.astype(dict.fromkeys(("name", "trajectory", TARGET), object))
    found = found.astype({"start": float, "end": float})
    return found if any(target) else found.drop(columns=TARGET)


def _targets(table: TableReader, name: NDArray[Any], nodes: Sequence[str]) -> list[str]:
    """The node that each row says the stimulus acts on; "" where it is to be found."""
    if not table.has(TARGET):
        return [""] * len(name)
    raw = table.cells(TARGET)
    empty = columns.missing(raw)
    node = objects(str(one).strip() for one in raw)
    known = f"the nodes are {quoted(nodes)}"
    table.note(
        ~empty & ~np.isin(node, list(nodes)), f"{{value}} is not a node; {known}", value=node
    )
    for own in dict.fromkeys(map(str, name)):
        here = empty[name.astype(str) == own]
        if here.any() and not here.all():
            table.tell(
                f"the stimulus {own!r} names its nodes in some rows only; name them in all, or in "
                "none to have them found"
            )
    return ["" if none else str(one) for none, one in zip(empty, node)]


def known_targets(stimuli: pd.DataFrame) -> dict[str, set[str]]:
    """Of the stimuli whose nodes were given, which these are."""
    if TARGET not in stimuli:
        return {}
    told = stimuli[stimuli[TARGET] != ""]
    return {str(name): set(own[TARGET]) for name, own in told.groupby("name", sort=False)}


def stimuli_in_column(
    name: str,
    record: NodeMeasurements,
    trajectories: Sequence[object],
    measured: Iterable[tuple[object, float]],
) -> pd.DataFrame:
    """Stimuli by a column that says at every time whether one is on, or which.

    Numbers above zero, and words such as "on" and "yes", stand for a stimulus with the name of the
    column; other words for one of that name. It lasts from the first time that says so to the next
    that does not, or to the end of the trajectory; from the start if the first time says so. At the
    times in ``measured`` (trajectory, time) an empty cell says that none is on.
    """
    if record.likelihood is not None:
        raise DataError(f"{name!r} holds likelihoods, so it cannot be read as a stimulus")
    says: dict[object, dict[float, str]] = {}
    for d, time, cell, row in zip(record.trajectory, record.time, record.value, record.row):
        own, now = says.setdefault(trajectories[d], {}), stimulus_of(name, cell)
        if own.setdefault(float(time), now) != now:
            raise DataError(
                f"column {name!r} says {own[float(time)] or OFF!r} and {now or OFF!r} at time "
                f"{time:g} of trajectory {trajectories[d]!r} (row {row}): what is the same for all "
                "nodes has one value at a time"
            )
    for trajectory, time in measured:
        says.setdefault(trajectory, {}).setdefault(time, "")
    return stimuli_by_time(says)


def stimuli_by_time(says: Mapping[Any, Mapping[float, str]]) -> pd.DataFrame:
    """A table of stimuli from the name of the one that is on at each time of a trajectory.

    One lasts from the first time that names it (from the start, if that is the first of all) to the
    next that does not, or to the end of the trajectory. The name "" says that none is on.
    """
    rows: list[tuple[str, object, float, float]] = []
    for trajectory, by_time in says.items():
        on, since = "", np.nan
        for k, (time, now) in enumerate(sorted(by_time.items())):
            if now != on:
                if on:
                    rows.append((on, trajectory, since, time))
                on, since = now, time if k else np.nan
        if on:
            rows.append((on, trajectory, since, np.nan))
    return pd.DataFrame(rows, columns=list(STIMULI_COLUMNS))


def stimulus_of(column: str, cell: Any) -> str:
    """The name of the stimulus that a cell says is on; "" for none."""
    if not isinstance(cell, str):
        return column if float(cell) > 0.0 else ""
    text = cell.strip()
    if text.lower() in _OFF_CELLS:
        return ""
    return column if text.lower() in _ON_CELLS else text


def stimulus_paths(
    stimuli: pd.DataFrame,
    trajectories: Sequence[object],
    start: FloatArray,
    end: FloatArray,
) -> Intervals:
    """When each stimulus is off and on, from the start to the end of every trajectory."""
    rows: list[tuple[int, str, float, float, str]] = []
    for name, own in stimuli.groupby("name", sort=False):
        for d, trajectory in enumerate(trajectories):
            time = float(start[d])
            here = own[own["trajectory"] == trajectory].sort_values("start")
            for begin, stop in zip(here["start"], here["end"]):
                if begin > time:
                    rows.append((d, str(name), time, float(begin), OFF))
                if stop > max(begin, time):
                    rows.append((d, str(name), max(float(begin), time), float(stop), ON))
                    time = float(stop)
            if time < end[d] or not len(here):
                rows.append((d, str(name), time, float(end[d]), OFF))
    place, names, begins, stops, states = zip(*rows)
    return Intervals(
        np.array(place, dtype=np.int64),
        objects(names),
        np.array(begins, dtype=np.float64),
        np.array(stops, dtype=np.float64),
        objects(states),
        np.arange(1, len(rows) + 1),
    )


def _opened(
    frame: pd.DataFrame, what: str, needed: Sequence[str], comma: str | None
) -> TableReader:
    """The table, if it has the columns that it needs."""
    columns.require_columns(frame, needed, f"the table of {what}")
    return TableReader(frame, Problems(), what, comma)


def _numbered(
    table: TableReader, names: NDArray[Any], known: Sequence[object], named: BoolArray
) -> IntArray:
    """The number of every row's trajectory; a name that is none is noted."""
    number = encode(names, known)
    first = f"the first ones are {quoted(known, 5)}"
    table.note((number < 0) & named, f"there is no trajectory {{value}}; {first}", value=names)
    return number


def inside(
    interventions: Intervals, node: str, trajectory: IntArray, time: FloatArray
) -> BoolArray:
    """Which times of one node lie in an intervention on it, its ends included."""
    found = np.zeros(len(time), dtype=np.bool_)
    for i in np.flatnonzero(interventions.node == node):
        found |= (
            (trajectory == interventions.trajectory[i])
            & (time >= interventions.start[i])
            & (time <= interventions.end[i])
        )
    return found
