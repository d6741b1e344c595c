"""Owns measurements that arrive as likelihoods P(y | state) instead of values.

They come as arrays, one per trajectory and node, or as columns ``p_<state>`` of a long table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asterism.data.known_paths import TimeBound, check_inside, time_limits
from asterism.data.measurements import (
    LIKELIHOOD_PREFIX,
    NodeMeasurements,
    Parts,
    no_events,
    no_intervals,
    objects,
)
from asterism.data.problems import Problems
from asterism.data.table_reader import TableReader
from asterism.errors import DataError
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray


def read_likelihoods(
    times: Sequence[ArrayLike],
    likelihoods: Sequence[Mapping[str, ArrayLike]],
    limits_given: tuple[TimeBound, TimeBound],
    trajectories: Sequence[object] | None,
    states: Mapping[str, Sequence[object]] | None,
) -> Parts:
    """One (I, S) array per trajectory and node; raises on the first things that are wrong."""
    if len(times) != len(likelihoods):
        raise DataError(
            f"there are {len(times)} arrays of times but {len(likelihoods)} of likelihoods; "
            "give one of each per trajectory"
        )
    if len(times) == 0:
        raise DataError("there is nothing to read: no trajectories")
    names = list(range(len(times))) if trajectories is None else list(trajectories)
    if len(names) != len(times) or len(set(names)) != len(names):
        raise DataError(f"trajectories= must hold {len(times)} different names")
    problems = Problems()
    clock = [np.atleast_1d(np.asarray(t, dtype=np.float64)) for t in times]
    for name, t in zip(names, clock):
        if not np.isfinite(t).all():
            problems.add("a time is missing or not finite", trajectory=name)
        elif (np.diff(t) < 0).any():
            problems.add("the times are not sorted", trajectory=name)
    problems.raise_errors()
    nodes = list(dict.fromkeys(str(n) for table in likelihoods for n in table))
    measurements = {
        node: _node_record(node, names, clock, likelihoods, (states or {}).get(node), problems)
        for node in nodes
    }
    problems.raise_errors()
    first = np.array([t.min(initial=np.inf) for t in clock])
    last = np.array([t.max(initial=-np.inf) for t in clock])
    limits = time_limits(names, (first, last), no_events(), no_intervals(), limits_given, problems)
    check_inside(names, limits, measurements, no_events(), no_intervals(), problems)
    problems.raise_errors()
    return Parts(tuple(names), *limits, measurements, no_events(), no_intervals())


def _node_record(
    node: str,
    names: Sequence[object],
    clock: Sequence[FloatArray],
    likelihoods: Sequence[Mapping[str, ArrayLike]],
    states: Sequence[object] | None,
    problems: Problems,
) -> NodeMeasurements:
    """All rows of one node; a row of nan is not measured."""
    blocks = {
        d: np.asarray(table[node], dtype=np.float64)
        for d, table in enumerate(likelihoods)
        if node in table
    }
    for d, block in blocks.items():
        if block.ndim != 2 or len(block) != len(clock[d]):
            raise DataError(
                f"trajectory {names[d]!r}, node {node!r}: the likelihoods have shape {block.shape} "
                f"but there are {len(clock[d])} times; give one row per time, one column per state"
            )
    width = {b.shape[1] for b in blocks.values()} | ({len(states)} if states is not None else set())
    if len(width) != 1:
        raise DataError(
            f"node {node!r}: the likelihoods have {sorted(width)} states; make them agree"
        )
    matrix = np.concatenate(list(blocks.values()))
    n = len(matrix)
    rows = NodeMeasurements(
        np.repeat(np.array(list(blocks), dtype=np.int64), list(map(len, blocks.values()))),
        np.concatenate([clock[d] for d in blocks]),
        np.full(n, np.nan),
        np.zeros(n, dtype=np.bool_),
        np.arange(n),
        likelihood=matrix,
        states=None if states is None else tuple(states),
    ).take(np.flatnonzero(~np.isnan(matrix).all(axis=1)))
    assert rows.likelihood is not None
    _check(node, rows.likelihood, rows.row, objects(names)[rows.trajectory], problems)
    return rows


def likelihoods_of_columns(
    node: str,
    rows: NodeMeasurements,
    cells: dict[str, NDArray[Any]],
    table: TableReader,
    at: IntArray,
) -> NodeMeasurements:
    """The same from columns ``p_<state>`` of a long table; ``rows`` says whose and when."""
    what = "{value} is not a probability"
    matrix = np.column_stack([table.numbers(c, what, own, at) for c, own in cells.items()])
    keep = np.flatnonzero(~np.isnan(matrix).all(axis=1))
    assert table.trajectory is not None
    _check(node, matrix[keep], rows.row[keep], table.trajectory[at][keep], table.problems)
    states = tuple(c.removeprefix(LIKELIHOOD_PREFIX) for c in cells)
    return replace(rows.take(keep), likelihood=matrix[keep], states=states)


def _check(
    node: str,
    matrix: FloatArray,
    rows: IntArray,
    trajectory: NDArray[Any],
    problems: Problems,
) -> None:
    """A likelihood is finite, not negative, and positive for at least one state."""
    finite = np.isfinite(matrix).all(axis=1)
    lowest = np.where(np.isfinite(matrix), matrix, 0.0).min(axis=1, initial=0.0)
    usable: BoolArray = finite & (lowest >= 0)
    where: dict[str, Any] = {"rows": rows, "trajectory": trajectory, "column": node}
    problems.add_rows(
        ~usable, "a likelihood is missing, negative or not finite for some of the states", **where
    )
    problems.add_rows(
        usable & (matrix.max(axis=1, initial=0.0) == 0),
        "the likelihood is zero under every state",
        **where,
    )
