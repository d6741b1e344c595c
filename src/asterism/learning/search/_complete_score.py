"""Kernels that score many families of one node on fully known paths, in one pass over the jumps.

Every family keeps a running *place*: the cell of its table that holds (configuration, own state)
now. A jump of the child touches all families, a jump of another node only the families that have
it as a parent, found through lists of members; nothing else is looked at. One record of the table
holds the time spent in a cell and, behind it, the jumps from it to every state, so that a jump
touches one spot in memory. Places are offsets into the flat table, and unsigned where they index:
numba then need not ask whether they count from the end, which halves the time.
"""

from __future__ import annotations

import numpy as np

from asterism.numerics._jit import kernel


@kernel
def family_statistics(child, families, n_states, paths):
    """Dwell times and transition counts of every family of ``child``.

    ``families`` (F, k) are parents padded with −1; ``paths`` are ``JumpArrays``. Returns
    ``cell_start`` (F+1,) and a table (cells, 1 + S): column 0 is the dwell time, column 1 + y the
    jumps into y. The cells of a family are its configurations in C order (the last parent varies
    fastest) times own state.
    """
    jump_node, jump_state, jump_time = paths.jump_node, paths.jump_state, paths.jump_time
    n_families, width = families.shape
    n_nodes = len(n_states)
    size = n_states[child]
    record = 1 + size

    stride = np.zeros((n_families, width), dtype=np.int64)
    cell_start = np.zeros(n_families + 1, dtype=np.int64)
    member_start = np.zeros(n_nodes + 1, dtype=np.int64)
    for f in range(n_families):
        cells = size
        for j in range(width - 1, -1, -1):
            parent = families[f, j]
            if parent >= 0:
                stride[f, j] = cells
                cells *= n_states[parent]
                member_start[parent + 1] += 1
        cell_start[f + 1] = cell_start[f] + cells
    for n in range(n_nodes):
        member_start[n + 1] += member_start[n]
    member = np.empty(member_start[n_nodes], dtype=np.uint64)
    member_stride = np.empty(member_start[n_nodes], dtype=np.int64)
    filled = member_start[:n_nodes].copy()
    for f in range(n_families):
        for j in range(width):
            parent = families[f, j]
            if parent >= 0:
                member[filled[parent]] = f
                member_stride[filled[parent]] = stride[f, j] * record
                filled[parent] += 1

    table = np.zeros(cell_start[n_families] * record)
    place = np.empty(n_families, dtype=np.int64)
    since = np.empty(n_families)
    state = np.empty(n_nodes, dtype=np.int64)
    for d in range(len(paths.start)):
        for n in range(n_nodes):
            state[n] = paths.initial[d, n]
        for f in range(n_families):
            cell = cell_start[f] + state[child]
            for j in range(width):
                if families[f, j] >= 0:
                    cell += stride[f, j] * state[families[f, j]]
            place[f] = cell * record
            since[f] = paths.start[d]
        for k in range(paths.jump_offset[d], paths.jump_offset[d + 1]):
            node, new, t = jump_node[k], jump_state[k], jump_time[k]
            step = new - state[node]
            state[node] = new
            if node == child:
                for f in range(n_families):
                    at = place[f]
                    table[np.uint64(at)] += t - since[f]
                    table[np.uint64(at + 1 + new)] += 1.0
                    since[f] = t
                    place[f] = at + step * record
            else:
                for i in range(member_start[node], member_start[node + 1]):
                    f = member[np.uint64(i)]
                    at = place[f]
                    table[np.uint64(at)] += t - since[f]
                    since[f] = t
                    place[f] = at + step * member_stride[np.uint64(i)]
        for f in range(n_families):
            table[np.uint64(place[f])] += paths.end[d] - since[f]
    return cell_start, table.reshape(-1, record)


@kernel
def table_scores(cell_start, table, allowed, shape, rate, log_gamma):
    """Σ [α ln β − ln Γ(α) + ln Γ(M+α) − (M+α) ln(T+β)] of every family's cells.

    ``log_gamma[m]`` is ln Γ(m+α) for whole numbers m; ``allowed`` (S, S) has a false diagonal.
    Transitions out of one cell share T, so one logarithm serves them all.
    """
    n_families = len(cell_start) - 1
    size = len(allowed)
    ways_out = np.zeros(size, dtype=np.int64)
    for x in range(size):
        for y in range(size):
            if allowed[x, y]:
                ways_out[x] += 1
    constant = shape * np.log(rate) - log_gamma[0]
    scores = np.empty(n_families)
    for f in range(n_families):
        total = 0.0
        for cell in range(cell_start[f], cell_start[f + 1]):
            x = (cell - cell_start[f]) % size
            jumps = 0.0
            for y in range(size):
                if allowed[x, y]:
                    m = table[cell, 1 + y]
                    jumps += m
                    total += log_gamma[int(m)]
            total += ways_out[x] * constant
            total -= (jumps + ways_out[x] * shape) * np.log(table[cell, 0] + rate)
        scores[f] = total
    return scores


@kernel
def complete_scores(child, families, allowed, shape, rate, log_gamma, n_states, paths):
    """(F,) exact log marginal likelihood of every family of ``child``."""
    cell_start, table = family_statistics(child, families, n_states, paths)
    return table_scores(cell_start, table, allowed, shape, rate, log_gamma)
