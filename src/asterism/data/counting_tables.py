"""Owns counting tables: one row per stay in a state, from when to when and where it led.

Survival analysis keeps event histories like this: id, from, to, start, stop, status. A row with
status 0 or an empty ``to`` ends without a transition: the person was last seen then, or the row was
only split because a covariate changed. Stacked tables (R's mstate) have one row for every possible
transition of a stay, and status 1 in the one that happened. A first start above zero is a delayed
entry. What comes out is complete paths of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from asterism.data import columns
from asterism.data.clock import read_clock
from asterism.data.labels import by_number, canonical
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError

#: names of the columns, as common software writes them; compared without case and separators
NAMES = {
    "origin": ("from", "fromstate", "statefrom"),
    "target": ("to", "tostate", "stateto"),
    "start": ("start", "tstart", "entry", "starttime", "entrytime"),
    "stop": ("stop", "tstop", "exit", "stoptime", "exittime"),
    "status": ("status", "event", "failed"),
}
NODE = "state"
#: gaps and overlaps below this share of the longest time are rounding of the table
_ROUNDING = 1e-9


@dataclass(frozen=True)
class CountingColumns:
    """Which column is what."""

    origin: str
    target: str
    start: str
    stop: str
    status: str | None = None

    @classmethod
    def of(cls, header: Sequence[str]) -> CountingColumns | None:
        """The columns of a counting table; None if the header is not that of one."""
        known = {str(name).lower().translate({ord(c): None for c in " ._-"}): name
                 for name in reversed(header)}  # fmt: skip
        found = {
            role: next((known[name] for name in names if name in known), None)
            for role, names in NAMES.items()
        }
        if any(found[role] is None for role in ("origin", "target", "start", "stop")):
            return None
        return cls(**found)  # type: ignore[arg-type]


@dataclass(frozen=True)
class CountingTable:
    """The paths of a counting table, and what only such a table says."""

    paths: Trajectories
    transitions: tuple[tuple[str, str], ...]
    """Those that a stacked table lists as possible, or that happen in a plain one."""
    is_stacked: bool
    stays: pd.DataFrame
    """The table with one row per stay and its start in numbers, for covariates."""


def read_counting(
    frame: pd.DataFrame,
    trajectory: str | None,
    which: CountingColumns,
    unit: str | None = None,
    comma: str | None = None,
) -> CountingTable:
    """Check the stays and join them to paths; raises with the row of every problem."""
    reader = TableReader(frame, Problems(), comma=comma)
    name = reader.read_trajectories(trajectory)[0] if trajectory else 0
    table = pd.DataFrame(
        {
            "id": name,
            "origin": _texts(frame[which.origin]),
            "target": _texts(frame[which.target]),
            "row": reader.rows,
        }
    )
    # dates of both columns count from the first of them all
    both = np.concatenate([reader.cells(which.start), reader.cells(which.stop)])
    clock = read_clock(both, which.start, unit, comma)
    if clock.number is not None and clock.spelled is not None:
        twice = np.tile(np.arange(len(frame)), 2)
        reader.tell_commas(clock.number, clock.spelled, which.start, twice)
    table["start"], table["stop"] = np.split(clock.time, 2)
    table["moved"] = table["target"] != ""
    if which.status is not None:
        words = {"true": "1", "false": "0"}
        text = [words.get(t.lower(), t) for t in _texts(frame[which.status])]
        wrong = ~np.isin(text, ("0", "1"))
        reader.note(wrong, "the status is neither 0 nor 1", column=which.status)
        table["moved"] &= np.array(text) == "1"
    for time, column in (("start", which.start), ("stop", which.stop)):
        reader.note(~np.isfinite(table[time].to_numpy()), "the time is missing", column=column)
    nowhere = (table["origin"] == "").to_numpy()
    reader.note(nowhere, "the state is missing", column=which.origin)
    backwards = (table["stop"] <= table["start"]).to_numpy()
    reader.note(backwards, "the stay has no length", column=which.stop)
    reader.problems.raise_errors()
    is_stacked = bool(table.duplicated(["id", "origin", "start"]).any())
    listed = table["target"] != "" if is_stacked else table["moved"]
    pairs = table[listed][["origin", "target"]].drop_duplicates()
    stays = _one_row_each(table, reader) if is_stacked else table
    stays = stays.sort_values(["id", "start"], kind="stable")
    _check_order(stays, reader)
    reader.problems.raise_errors()
    first = stays.drop_duplicates("id")
    moved = stays[stays["moved"]]
    entered = pd.DataFrame(
        {
            "trajectory": [*first["id"], *moved["id"]],
            "time": [*first["start"], *moved["stop"]],
            "node": NODE,
            "state": [*first["origin"], *moved["target"]],
        }
    )
    states = sorted({*table["origin"], *moved["target"], *pairs["target"]}, key=by_number)
    paths = Trajectories.from_frame(
        entered,
        {NODE: states},
        end=stays.groupby("id", sort=False)["stop"].last().to_dict(),
        sort=True,
        unit=clock.unit or None,
    )
    own = frame.iloc[stays.index].copy()
    own[which.start] = stays["start"].to_numpy()
    possible = tuple(pairs.itertuples(index=False, name=None))
    return CountingTable(paths, possible, is_stacked, own)


def _one_row_each(table: pd.DataFrame, reader: TableReader) -> pd.DataFrame:
    """One row per stay of a stacked table: the one that happened, or the first."""
    keys = ["id", "origin", "start"]
    groups = table.groupby(keys, sort=False)
    uneven = (groups["stop"].transform("min") != groups["stop"].transform("max")).to_numpy()
    twice = ((groups["moved"].transform("sum") > 1) & table["moved"]).to_numpy()
    reader.note(uneven, "rows of one stay end at different times")
    reader.note(twice, "several transitions of one stay have status 1")
    reader.problems.raise_errors()
    return table.sort_values("moved", ascending=False, kind="stable").drop_duplicates(keys)


def _check_order(stays: pd.DataFrame, reader: TableReader) -> None:
    """Every stay of a person begins when and where the one before ended."""
    old, new = (stays.iloc[part].reset_index(drop=True) for part in (slice(-1), slice(1, None)))
    same = (old["id"] == new["id"]).to_numpy()
    gap = (new["start"] - old["stop"]).to_numpy()
    slack = _ROUNDING * float(np.abs(stays["stop"]).max())
    expected = old["target"].where(old["moved"], old["origin"])
    for bad, message in (
        (gap > slack, "the stay leaves a gap after the one before it"),
        (gap < -slack, "the stay overlaps the one before it"),
        (
            (np.abs(gap) <= slack) & (new["origin"] != expected).to_numpy(),
            "the stay is not in the state that the one before it led to",
        ),
    ):
        reader.note(same & bad, message, stays.index.to_numpy()[1:])


def _texts(column: pd.Series) -> list[str]:
    cells = columns.cells(column)
    gone = columns.missing(cells)
    return ["" if g else canonical(v) for v, g in zip(cells, gone)]


def require_counting(header: Sequence[str]) -> CountingColumns:
    """The columns, or an error that says which are needed."""
    found = CountingColumns.of(header)
    if found is None:
        raise DataError(
            "A counting table needs the columns from, to, start and stop (and usually id and "
            f"status); this one has {', '.join(map(repr, header))}."
        )
    return found
