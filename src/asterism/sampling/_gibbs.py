"""Compiled: whole batches of sweeps, so that Python is asked once per batch and not once per node.

The arrays that can turn out too small (the arena of jumps, the room for one path, the record of
draws) grow here; the kernels below only say that they are full. A path that did not fit is drawn
again from the same random numbers, so the draws never depend on how large the arrays were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._jit import inner, kernel
from asterism.sampling._families import add_statistics
from asterism.sampling._path import (
    IMPOSSIBLE,
    WORK_TOO_SMALL,
    draw_path,
    state_at,
    write_path,
)
from asterism.sampling.sampler_arrays import FloatArray, IntArray, Paths, Work


class Record(NamedTuple):
    """Kept draws of all paths, flat."""

    initial: NDArray[np.int16]
    """(draws, D·N)"""
    start: IntArray
    """(draws, D·N+1) the jumps of each pair in ``time`` and ``state``."""
    time: FloatArray
    state: NDArray[np.int16]


@kernel
def new_work(capacity, largest, n_followed):
    """Room for ``capacity`` grid points of a node with up to ``largest`` states."""
    return Work(
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty((capacity + 1) * largest),
        np.empty((capacity + 1) * largest),
        np.empty(capacity, np.int64),
        np.empty(n_followed, np.int64),
        np.empty(n_followed, np.int64),
        np.empty(n_followed),
        np.empty(n_followed, np.int64),
    )


@inner(allocates=True)
def _with_room(paths, pair, n_jumps):
    """The same paths, with a slot for ``n_jumps`` jumps of this pair."""
    room = 2 * n_jumps
    first = paths.used[0]
    time = paths.time
    state = paths.state
    if first + room > len(time):
        length = 2 * len(time) + room
        time = np.empty(length)
        state = np.empty(length, np.int16)
        time[:first] = paths.time[:first]
        state[:first] = paths.state[:first]
    paths.slot[pair] = first
    paths.room[pair] = room
    paths.used[0] = first + room
    return Paths(paths.initial, paths.n_jumps, paths.slot, paths.room, paths.used, time, state)


@inner(allocates=True)
def sweep_paths(layout, seen, families, rates, paths, work, streams, first_time):
    """Draw every node's path in every trajectory; returns (paths, work, pair that failed or −1)."""
    n_nodes = len(layout.n_states)
    saved = np.empty(4, np.uint64)
    for d in range(len(layout.start)):
        stream = streams[d]
        for n in range(n_nodes):
            if layout.is_given[n]:
                continue
            pair = d * n_nodes + n
            saved[:] = stream
            n_grid, n_jumps = draw_path(
                d, n, layout, seen, families, rates, paths, work, stream, first_time
            )
            while n_jumps == WORK_TOO_SMALL:
                stream[:] = saved
                largest = len(work.filtered) // (len(work.time) + 1)
                work = new_work(2 * len(work.time), largest, len(work.place))
                n_grid, n_jumps = draw_path(
                    d, n, layout, seen, families, rates, paths, work, stream, first_time
                )
            if n_jumps == IMPOSSIBLE:
                return paths, work, pair
            if n_jumps > paths.room[pair]:
                paths = _with_room(paths, pair, n_jumps)
            write_path(paths, pair, work, n_grid)
    return paths, work, -1


@kernel
def present_statistics(layout, families, paths, work, table):
    """Add the statistics of the present families, summed over the trajectories, to a flat table."""
    n_nodes = len(layout.n_states)
    for d in range(len(layout.start)):
        for n in range(n_nodes):
            add_statistics(d, n, families, n, layout, paths, work, table, layout.table_start[n])


@inner(allocates=True)
def _longer(time, state, length):
    more_time = np.empty(length)
    more_state = np.empty(length, np.int16)
    more_time[: len(time)] = time
    more_state[: len(state)] = state
    return more_time, more_state


@kernel
def run_paths(n_sweeps, layout, seen, families, rates, paths, work, streams):
    """Sweeps over the paths at fixed rates, all kept.

    Returns (paths, work, failed pair or −1, record of the draws).
    """
    n_pairs = len(paths.n_jumps)
    initial = np.empty((n_sweeps, n_pairs), np.int16)
    start = np.empty((n_sweeps, n_pairs + 1), np.int64)
    time = np.empty(64)
    state = np.empty(64, np.int16)
    used = 0
    failed = -1
    for kept in range(n_sweeps):
        paths, work, failed = sweep_paths(
            layout, seen, families, rates, paths, work, streams, False
        )
        if failed >= 0:
            break
        needed = used + paths.n_jumps.sum()
        if needed > len(time):
            time, state = _longer(time, state, 2 * needed)
        for pair in range(n_pairs):
            initial[kept, pair] = paths.initial[pair]
            start[kept, pair] = used
            at = paths.slot[pair]
            for i in range(paths.n_jumps[pair]):
                time[used] = paths.time[at + i]
                state[used] = paths.state[at + i]
                used += 1
        start[kept, n_pairs] = used
    return paths, work, failed, Record(initial, start, time[:used].copy(), state[:used].copy())


@kernel
def skip_paths(n_sweeps, layout, seen, families, rates, paths, work, streams):
    """Sweeps of which nothing is kept; returns (paths, work, failed pair or −1)."""
    failed = -1
    for _ in range(n_sweeps):
        paths, work, failed = sweep_paths(
            layout, seen, families, rates, paths, work, streams, False
        )
        if failed >= 0:
            break
    return paths, work, failed


@kernel
def draw_statistics(layout, families, record, work):
    """(draws, table) statistics of every kept draw, summed over the trajectories."""
    n_draws, n_pairs = record.initial.shape
    result = np.zeros((n_draws, layout.table_start[-1]))
    initial = np.empty(n_pairs, np.int64)
    count = np.empty(n_pairs, np.int64)
    slot = np.empty(n_pairs, np.int64)
    paths = Paths(initial, count, slot, count, count, record.time, record.state)
    for i in range(n_draws):
        for pair in range(n_pairs):
            initial[pair] = record.initial[i, pair]
            slot[pair] = record.start[i, pair]
            count[pair] = record.start[i, pair + 1] - record.start[i, pair]
        present_statistics(layout, families, paths, work, result[i])
    return result


@kernel
def impossible_measurement(layout, seen, paths):
    """The first joint measurement that the present paths contradict, or −1."""
    n_nodes = len(layout.n_states)
    for row in range(len(seen.joint_index)):
        i = seen.joint_index[row]
        if seen.joint_member[row] != 0:
            continue
        d = (np.searchsorted(seen.joint_start, row, side="right") - 1) // n_nodes
        at = seen.joint_table[i]
        for m in range(seen.member_start[i], seen.member_start[i + 1]):
            state = state_at(paths, d * n_nodes + seen.member[m], seen.joint_time[i])
            at += seen.member_stride[m] * state
        if seen.joint_log[at] == -np.inf:
            return i
    return -1


@kernel
def draw_first_paths(layout, seen, families, rates, paths, work, streams):
    """Paths that explain each node's own evidence; returns (paths, work, failed pair or −1)."""
    return sweep_paths(layout, seen, families, rates, paths, work, streams, True)
