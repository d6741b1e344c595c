"""Compiled: whole batches of sweeps, so that Python is asked once per batch and not once per node.

Trajectories are cut into neighbouring chunks, one for each thread that works on a chain; every
chunk has its own part of the arena of jumps. The arrays that can turn out too small (the arena, the
room for one path, the record of draws) grow here; the kernels below only say that they are full. A
path that did not fit is drawn again from the same random numbers, so the draws depend neither on
how large the arrays were nor on the chunks.

The loop over nodes is the outer one: the paths of one node in all trajectories lie side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._bundle import bundle, keep
from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import copy
from asterism.sampling._along import state_at
from asterism.sampling._families import add_all_statistics, own_totals
from asterism.sampling._path import IMPOSSIBLE, WORK_TOO_SMALL, draw_path, write_path
from asterism.sampling.sampler_arrays import FloatArray, IntArray, PathModel, Paths, SamplerWork

#: how a sweep can end, beside "done" (0) and ``IMPOSSIBLE``
ARENA_FULL = -3
#: what :func:`run_paths` does: draw and keep, draw only, draw the very first paths (they explain
#: each node's own evidence only), keep the present paths as one draw
KEEP, SKIP, FIRST, KEEP_PRESENT = 0, 1, 2, 3
EVERYWHERE = (-1, 0)
#: spare room of a path in the arena
_SPARE = 6


class Ended(NamedTuple):
    """How a sweep over a chunk ended."""

    place: int
    pair: int
    """Where something went wrong, or −1."""
    trouble: int
    """0, ``IMPOSSIBLE`` or ``ARENA_FULL``."""
    n_jumps: int
    """That found no room."""


class Record(NamedTuple):
    """Kept draws of all paths, flat; here the place of node n in trajectory d is d·N + n."""

    initial: NDArray[np.int16]
    """(draws, D·N)"""
    start: IntArray
    """(draws, D·N+1) the jumps of each place in ``time`` and ``state``."""
    time: FloatArray
    state: NDArray[np.int16]


@kernel
def new_work(capacity, largest, n_followed, n_totals):
    """Room for ``capacity`` grid points of a node with up to ``largest`` states."""
    return SamplerWork(
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity),
        np.empty(capacity),
        np.empty((capacity + 1) * largest),
        np.empty((capacity + 1) * largest),
        np.empty(capacity, np.int64),
        np.empty(n_followed, np.int64),
        np.empty(n_followed, np.int64),
        np.empty(n_followed),
        np.empty(n_followed, np.int64),
        np.empty(n_totals),
        np.empty(n_totals),
    )


@kernel
def arranged(paths, first, wide_pair, needed):
    """The same paths in a new arena cut into chunks at ``first``, nodes side by side.

    ``wide_pair`` gets room for ``needed`` jumps.
    """
    n_chunks = len(first) - 1
    n_trajectories = first[n_chunks]
    n_nodes = len(paths.n_jumps) // n_trajectories
    slot = np.empty_like(paths.slot)
    room = np.empty_like(paths.room)
    used = np.empty(n_chunks, np.int64)
    limit = np.empty(n_chunks, np.int64)
    at = 0
    for c in range(n_chunks):
        begin = at
        for n in range(n_nodes):
            for d in range(first[c], first[c + 1]):
                pair = n * n_trajectories + d
                count = paths.n_jumps[pair]
                if pair == wide_pair:
                    count = max(count, needed)
                slot[pair] = at
                room[pair] = count + count // 2 + _SPARE
                at += room[pair]
        used[c] = at
        at += (at - begin) // 2 + 64
        limit[c] = at
    # one place more: paths may be read beyond their end
    time = np.full(at + 1, math.inf)
    state = np.zeros(at + 1, np.int16)
    for pair in range(len(slot)):
        old = paths.slot[pair]
        for i in range(paths.n_jumps[pair]):
            time[slot[pair] + i] = paths.time[old + i]
            state[slot[pair] + i] = paths.state[old + i]
    return Paths(paths.initial, paths.n_jumps, slot, room, first, used, limit, time, state)


@inner(allocates=True)
def _sweep_chunk(c, place, model, paths, work, streams, first_time):
    """Draw every node's path in the trajectories of one chunk, from ``place`` on.

    Returns (work, how it ended).
    """
    layout = model.layout
    n_trajectories = len(layout.start)
    begin = paths.first[c]
    width = paths.first[c + 1] - begin
    saved = np.empty(4, np.uint64)
    while place < width * len(layout.n_states):
        n = place // width
        d = begin + place % width
        if layout.is_given[n]:
            place += width
            continue
        pair = n * n_trajectories + d
        stream = streams[d]
        copy(stream, saved)
        while True:
            n_grid, n_jumps = draw_path(d, n, model, paths, work, stream, first_time)
            if n_jumps != WORK_TOO_SMALL:
                break
            copy(saved, stream)
            largest = len(work.filtered) // (len(work.time) + 1)
            work = new_work(2 * len(work.time), largest, len(work.place), len(work.totals))
        if n_jumps == IMPOSSIBLE:
            return work, Ended(place, pair, IMPOSSIBLE, 0)
        if n_jumps > paths.room[pair]:
            room = n_jumps + n_jumps // 2 + _SPARE
            if paths.used[c] + room > paths.limit[c]:
                copy(saved, stream)
                return work, Ended(place, pair, ARENA_FULL, n_jumps)
            paths.slot[pair] = paths.used[c]
            paths.room[pair] = room
            paths.used[c] += room
        write_path(paths, pair, work, n_grid)
        place += 1
    return work, Ended(place, -1, 0, 0)


@inner(allocates=True)
def _longer(time, state, length):
    more_time = np.empty(length)
    more_state = np.empty(length, np.int16)
    more_time[: len(time)] = time
    more_state[: len(state)] = state
    return more_time, more_state


@kernel
def run_paths(n_sweeps, how, where, model, paths, work, streams):
    """Sweeps over the paths at fixed rates; ``how`` says what is drawn and kept.

    ``where`` is ``EVERYWHERE``, or (chunk, place): the sweep goes on in one chunk from that place.
    Returns (paths, work, how it ended, record of the draws). All draws of paths go through this
    one kernel, because it takes long to compile.
    """
    n_trajectories = len(model.layout.start)
    n_pairs = len(paths.n_jumps)
    n_nodes = n_pairs // n_trajectories
    n_kept = n_sweeps if how in (KEEP, KEEP_PRESENT) else 0
    initial = np.empty((n_kept, n_pairs), np.int16)
    start = np.empty((n_kept, n_pairs + 1), np.int64)
    time = np.empty(64)
    state = np.empty(64, np.int16)
    used = 0
    ended = Ended(0, -1, 0, 0)
    first, last = (where[0], where[0] + 1) if where[0] >= 0 else (0, len(paths.used))
    for sweep in range(n_sweeps):
        c = first
        place = where[1]
        while c < last and how != KEEP_PRESENT:
            work, ended = _sweep_chunk(c, place, model, paths, work, streams, how == FIRST)
            place = ended.place
            if ended.trouble == ARENA_FULL and where[0] < 0:
                paths = arranged(paths, paths.first, ended.pair, ended.n_jumps)
            elif ended.trouble != 0:
                break
            else:
                c += 1
                place = 0
        if ended.trouble != 0:
            break
        if sweep >= n_kept:
            continue
        needed = used + paths.n_jumps.sum()
        if needed > len(time):
            time, state = _longer(time, state, 2 * needed)
        for place in range(n_pairs):
            pair = (place % n_nodes) * n_trajectories + place // n_nodes
            initial[sweep, place] = paths.initial[pair]
            start[sweep, place] = used
            at = paths.slot[pair]
            for i in range(paths.n_jumps[pair]):
                time[used] = paths.time[at + i]
                state[used] = paths.state[at + i]
                used += 1
        start[sweep, n_pairs] = used
    return paths, work, ended, Record(initial, start, time[:used].copy(), state[:used].copy())


@kernel
def draw_statistics(model, record, work):
    """(draws, table) statistics of every kept draw, summed over the trajectories."""
    n_draws, n_pairs = record.initial.shape
    n_trajectories = len(model.layout.start)
    n_nodes = n_pairs // n_trajectories
    result = np.zeros((n_draws, model.layout.table_start[-1]))
    initial = np.empty(n_pairs, np.int64)
    count = np.empty(n_pairs, np.int64)
    slot = np.empty(n_pairs, np.int64)
    # one place more: paths may be read beyond their end
    time, state = _longer(record.time, record.state, len(record.time) + 1)
    time[-1], state[-1] = math.inf, 0
    paths = Paths(initial, count, slot, count, count, count, count, time, state)
    layout, families = bundle(model.layout), bundle(model.families)
    packed = PathModel(layout, bundle(model.seen), families, bundle(model.rates))
    drawn, room = bundle(paths), bundle(work)
    for i in range(n_draws):
        for place in range(n_pairs):
            pair = (place % n_nodes) * n_trajectories + place // n_nodes
            initial[pair] = record.initial[i, place]
            slot[pair] = record.start[i, place]
            count[pair] = record.start[i, place + 1] - record.start[i, place]
        for n in range(n_nodes):
            at = model.layout.table_start[n]
            own = own_totals(n, packed, drawn)
            add_all_statistics(n, own, families, n, packed, drawn, room, result[i], at)
    keep(paths)
    return result


@kernel
def impossible_measurement(model, paths):
    """The first joint measurement that the present paths contradict, or −1."""
    layout, seen = model.layout, model.seen
    n_trajectories = len(layout.start)
    for row in range(len(seen.joint_index)):
        i = seen.joint_index[row]
        if seen.joint_member[row] != 0:
            continue
        d = (np.searchsorted(seen.joint_start, row, side="right") - 1) % n_trajectories
        at = seen.joint_table[i]
        for m in range(seen.member_start[i], seen.member_start[i + 1]):
            state = state_at(paths, seen.member[m] * n_trajectories + d, seen.joint_time[i])
            at += seen.member_stride[m] * state
        if seen.joint_log[at] == -np.inf:
            return i
    return -1
