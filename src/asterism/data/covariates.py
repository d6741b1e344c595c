"""Owns covariates: what is known about each trajectory besides its nodes, such as sex or age.

A covariate is constant, or changes at known times: a value holds from its row until the next row
of its trajectory, and the first value also holds before it. Values are numbers or categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data import columns
from asterism.data.labels import encode, plain
from asterism.data.measurements import Records, last_before, objects
from asterism.data.numbers import read_numbers
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import DataError
from asterism.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Covariates(Records):
    """Values of every covariate, one row per trajectory and time, sorted by both."""

    time: FloatArray
    values: Mapping[str, NDArray[Any]]
    """float64 for numbers, object for categories; nothing is missing."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the covariates."""
        return tuple(self.values)

    def take(self, index: NDArray[Any]) -> Self:
        """Some of the rows."""
        values = {name: value[index] for name, value in self.values.items()}
        return replace(super().take(index), values=values)

    def merged(self, other: Covariates) -> Covariates:
        """Both tables as one; where they share a name the other wins."""
        if not set(self.values) - set(other.values):
            return other
        d = np.concatenate([self.trajectory, other.trajectory])
        t = np.concatenate([self.time, other.time])
        order = np.lexsort((t, d))
        fresh = np.concatenate([[True], (np.diff(d[order]) != 0) | (np.diff(t[order]) != 0)])
        keep = order[fresh]
        values = {}
        for part in (self, other):
            at = _places(part.trajectory, part.time, d[keep], t[keep])
            for name, value in part.values.items():
                values[name] = value[at]
        return Covariates(d[keep], t[keep], values)


def read_covariates(
    frame: pd.DataFrame,
    trajectories: Sequence[object],
    starts: FloatArray,
    *,
    trajectory: str = "trajectory",
    time: str = "time",
    names: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    comma: str | None = None,
) -> Covariates:
    """Read a table with a trajectory column, perhaps a time column, and one per covariate.

    Rows of other trajectories are ignored. An empty cell takes the value before it in its
    trajectory, or the first one after it where there is none before.
    """
    frame = frame.rename(columns=str)
    taken = {trajectory, time}
    wanted = [str(n) for n in (names if names is not None else frame.columns)]
    wanted = [n for n in wanted if n not in taken]
    listed = ", ".join(map(repr, frame.columns))
    for name in wanted:
        if name not in frame.columns:
            raise DataError(f"There is no covariate column {name!r}; the columns are {listed}.")
    if not wanted:
        raise DataError(f"The table of covariates has no covariate; its columns are {listed}.")
    if trajectory in frame.columns:
        d = encode(frame[trajectory].to_numpy(dtype=object), trajectories)
    elif len(trajectories) == 1:
        d = np.zeros(len(frame), dtype=np.int64)
    else:
        raise DataError(
            f"The table of covariates needs a column {trajectory!r}; its columns are {listed}."
        )
    table = TableReader(frame, Problems(), "covariates", comma)
    if table.has(time):
        clock = table.numbers(time, "{value} is not a time")
        table.note((d >= 0) & ~np.isfinite(clock), "the time is missing", column=time)
        table.problems.raise_errors()
    else:
        clock = np.where(d >= 0, starts[np.maximum(d, 0)], 0.0)
    keep = np.flatnonzero(d >= 0)
    keep = keep[np.lexsort((clock[keep], d[keep]))]
    values = {
        name: _filled(table, name, keep, d[keep], trajectories, name in categories)
        for name in wanted
    }
    return Covariates(d[keep], clock[keep], values)


def trajectories_without(
    frame: pd.DataFrame, name: str, trajectory: str, trajectories: Sequence[object]
) -> list[object]:
    """Those in which every cell of a column is empty."""
    d = encode(frame[trajectory].to_numpy(dtype=object), trajectories)
    given = d[(d >= 0) & ~columns.missing(columns.cells(frame[name]))]
    return [trajectories[k] for k in np.setdiff1d(np.arange(len(trajectories)), given)]


def _filled(
    table: TableReader,
    name: str,
    keep: IntArray,
    d: IntArray,
    trajectories: Sequence[object],
    is_category: bool,
) -> NDArray[Any]:
    """The values of one covariate, gaps filled within each trajectory."""
    cells = table.cells(name)
    raw = cells[keep]
    gone = columns.missing(raw)
    read = read_numbers(cells, table.comma)
    numbers = read.value[keep]
    is_number = not is_category and bool(np.isfinite(numbers[~gone]).all())
    if is_number:
        table.tell_commas(read, cells, name)
        table.problems.raise_errors()
    texts = objects(None if g else str(plain(v)) for v, g in zip(raw, gone))
    series = pd.Series(numbers if is_number else texts)
    groups = series.groupby(d)
    filled = groups.ffill().where(~groups.ffill().isna(), groups.bfill())
    absent = np.setdiff1d(np.arange(len(trajectories)), d[~filled.isna().to_numpy()])
    if len(absent):
        others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise DataError(
            f"Covariate {name!r} has no value in trajectory {trajectories[int(absent[0])]!r}"
            f"{others}; give one, or leave the rows of such trajectories out of the table."
        )
    result: NDArray[Any] = filled.to_numpy(dtype=np.float64 if is_number else object)
    return result


def _places(d: IntArray, t: FloatArray, to_d: IntArray, to_t: FloatArray) -> IntArray:
    """For every query the row that holds then: the last one at or before, else the first."""
    found = last_before(d, t, to_d, to_t)
    first = np.searchsorted(d, to_d, side="left")
    return np.where(found >= 0, found, first).astype(np.int64)


#: name of the covariate that says which period of time it is
PERIOD = "period"


def period_names(change_times: Sequence[float]) -> tuple[str, ...]:
    """What the periods between the times of change are called: <5, 5-10, >=10."""
    cuts = [f"{t:g}" for t in change_times]
    middle = [f"{a}-{b}" for a, b in pairwise(cuts)]
    return (f"<{cuts[0]}", *middle, f">={cuts[-1]}")


def with_periods(
    covariates: Covariates | None, start: FloatArray, end: FloatArray, change_times: FloatArray
) -> Covariates:
    """The covariates, and as one more of them the period that it is."""
    n = len(start)
    d = np.tile(np.arange(n), len(change_times) + 1)
    t = np.concatenate([start, np.repeat(change_times, n)])
    keep = np.concatenate([np.ones(n, dtype=np.bool_), (t > start[d])[n:] & (t < end[d])[n:]])
    d, t = d[keep], t[keep]
    order = np.lexsort((t, d))
    d, t = d[order], t[order]
    number = np.searchsorted(change_times, t, side="right")
    found = Covariates(d, t, {PERIOD: objects(period_names(change_times.tolist()))[number]})
    return found if covariates is None else covariates.merged(found)


def values_at(covariates: Covariates, name: str, trajectory: IntArray, time: FloatArray) -> Any:
    """The value of a covariate for some trajectories and times."""
    at = _places(covariates.trajectory, covariates.time, trajectory, time)
    return covariates.values[name][at]
