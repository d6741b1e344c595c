"""Forward–backward of one region (cluster or separator) along one trajectory, compiled.

``_region_step.py`` carries vectors over one step by a series, ``exact/dense_steps.py`` makes
matrices that do it at once, ``_region_evidence.py`` carries them through a grid point. Arrays are
(entry or state, column): what runs over all columns at once is contiguous.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64

from asterism.clusters._cluster_layout import (
    IMPOSSIBLE,
    REGIONS,
    ROOM,
    TOO_STIFF,
    TRAJECTORIES,
)
from asterism.clusters._region_evidence import evidence_ahead, evidence_back, hold
from asterism.clusters._region_step import (
    add_terms,
    advance,
    integrate,
    load_column,
    load_transposed,
    parts_of,
    rescale,
    shape_of,
    term_limits,
    terms_for,
)
from asterism.numerics._jit import inner, unit

_MOST_PARTS = 100_000  # of a step in a region with separators
_LONGEST = 1.2e7  # mass of a step elsewhere; what is longer is refused before it is tried


@inner
def fill_base(regions, r, problem, n_columns, is_held, table, work):
    """Rates of a region before any message: owned rates, 1 elsewhere; exit rates of owned nodes.

    A node that is held does not jump; while an experimenter holds it, it has no exit rates either.
    """
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    begin = regions.entry_start[r]
    node0 = regions.node_start[r]
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    rate, diagonal, step, shift = work.rate, work.diagonal, work.step, problem.input_shift
    work.loaded[0] = -1.0
    for e in range(n_joint * per_row):
        value = table[regions.base_index[begin + e]]
        row = rate[e]
        for c in range(n_columns):
            row[c] = value
    for x in range(n_joint):
        total = 0.0
        for j in range(n_owned):
            total += table[regions.exit_index[regions.exit_start[r] + x * n_owned + j]]
        row = diagonal[x]
        for c in range(n_columns):
            row[c] = total
    for j in range(n_owned):
        slot = regions.owned_slot[owned0 + j]
        node = regions.node[node0 + slot]
        inputs = problem.input_column[node]
        if inputs < 0:
            continue
        block = regions.block[node]
        for x in range(n_joint):
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
            for c in range(n_columns):
                moved = at + block * shift[step[c], inputs]
                diagonal[x, c] += table[moved] - table[at]
            for e in range(x * per_row, (x + 1) * per_row):
                if regions.entry_slot[begin + e] == slot:
                    base = regions.base_index[begin + e]
                    for c in range(n_columns):
                        moved = base + block * shift[step[c], inputs]
                        rate[e, c] = table[moved]
    if is_held:
        for j in range(n_owned):
            _leave_out_exits(regions, r, problem, n_columns, table, work, j)


@inner
def _leave_out_exits(regions, r, problem, n_columns, table, work, j):
    """Take the exit rates of an owned node away where an experimenter holds it."""
    n_owned = regions.owned_start[r + 1] - regions.owned_start[r]
    slot = regions.owned_slot[regions.owned_start[r] + j]
    node = regions.node[regions.node_start[r] + slot]
    inputs = problem.input_column[node]
    for c in range(n_columns):
        if work.held[c, slot] < -1:
            shift = problem.input_shift[work.step[c], inputs] if inputs >= 0 else 0
            for x in range(regions.n_joint[r]):
                at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
                work.diagonal[x, c] -= table[at + regions.block[node] * shift]


@inner
def delete_held_jumps(regions, r, n_columns, work):
    """A node that is held does not jump; after messages have been multiplied in."""
    held, rate = work.held, work.rate
    for e in range(regions.n_joint[r] * regions.per_row[r]):
        slot = regions.entry_slot[regions.entry_start[r] + e]
        for c in range(n_columns):
            if held[c, slot] != -1:
                rate[e, c] = 0.0


@inner
def find_ending(regions, r, problem, d, table, is_held, work, k, vector):
    """Backward vector at the end of step k, evidence there included; zero if it vanishes."""
    n_joint = regions.n_joint[r]
    later = work.backward[k + 1]
    for x in range(n_joint):
        vector[x] = later[x]
    if work.event_start[k + 1] < work.event_start[k + 2]:
        evidence_back(regions, r, problem, d, table, work, k + 1, work.event_start[k + 1], vector)
    if is_held:
        hold(n_joint, work, k, vector)
    return rescale(n_joint, vector)


@unit((REGIONS, int64, TRAJECTORIES, int64, float64, boolean, ROOM, int64), returns=boolean)
def series_back(regions, r, problem, d, precision, is_held, work, k):
    """Carry the backward vector over step k by series; False if it is too long."""
    width = problem.width[problem.step_start[d] + k]
    _, bound = load_column(regions.n_joint[r], regions.per_row[r], work, work.column[k], is_held)
    if not bound * width < (_MOST_PARTS if precision > 0.0 else _LONGEST):
        work.failure[0] = k
        work.failure[1] = TOO_STIFF
        return False
    n_parts = parts_of(bound * width, precision)
    vector = work.backward[k]
    advance(regions, r, work, work.local, width / n_parts, n_parts, precision, vector, bool(False))
    return True


@unit((REGIONS, int64, TRAJECTORIES, int64, float64[::1], float64, boolean, ROOM), returns=boolean)
def backward_pass(regions, r, problem, d, table, precision, is_held, work):
    """Backward vectors of the region; False where a step is too long (``work.failure`` says which).

    Where the evidence is impossible the vectors vanish; the forward pass then finds out where.
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    backward, powers, ending = work.backward, work.power, work.vector[1]
    for x in range(n_joint):
        backward[n_steps, x] = 1.0
    for k in range(n_steps - 1, -1, -1):
        vector = backward[k]
        if len(powers) > 0:
            find_ending(regions, r, problem, d, table, is_held, work, k, ending)
            power = powers[work.power_kind[first + k]]
            for x in range(n_joint):
                value = 0.0
                for y in range(n_joint):
                    value += power[x, y] * ending[y]
                vector[x] = value
            rescale(n_joint, vector)
            continue
        find_ending(regions, r, problem, d, table, is_held, work, k, vector)
        if not series_back(work.addresses, regions, r, problem, d, precision, is_held, work, k):
            return False
    start = work.first_time
    for x in range(n_joint):
        start[x] = backward[0, x]
    evidence_back(regions, r, problem, d, table, work, int(0), int(0), start)
    return True


@unit(
    (
        *(REGIONS, int64, TRAJECTORIES, int64, float64[::1], float64, boolean, boolean),
        *(float64[::1], ROOM),
    ),
    returns=float64,
)
def forward_pass(regions, r, problem, d, table, precision, is_held, is_wanted, counted, work):
    """Forward vectors, times and jumps; ln Z of the region, without what evidence took out.

    ``is_wanted``: whether times and jumps are; ``counted``: where recorded jumps are added up. −inf
    where the evidence is impossible (``work.failure`` says where).
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    vector, start, first_time, forward = work.vector[1], work.start, work.first_time, work.forward
    total = 0.0
    norm = 0.0
    for x in range(n_joint):
        vector[x] = start[x]
        first_time[x] *= start[x]
        norm += first_time[x]
    for x in range(n_joint):
        first_time[x] /= norm if norm > 0.0 else 1.0
    is_possible = norm > 0.0
    work.failure[0] = 0
    work.failure[1] = IMPOSSIBLE
    for k in range(n_steps + 1):
        if work.event_start[k] < work.event_start[k + 1]:
            evidence_ahead(regions, r, problem, d, table, work, k, counted, vector)
        if is_held and k < n_steps:
            hold(n_joint, work, k, vector)
        top = rescale(n_joint, vector)
        if top == 0.0:
            work.failure[0] = k
            return -np.inf
        total += math.log(top)
        for x in range(n_joint):
            forward[k, x] = vector[x]
        if k == n_steps:
            break
        if len(work.power) > 0:
            gained = _dense_step(regions, r, problem, d, table, is_held, is_wanted, work, k, vector)
        else:
            gained = series_ahead(
                work.addresses,
                regions,
                r,
                problem,
                d,
                table,
                precision,
                is_held,
                is_wanted,
                work,
                k,
                vector,
            )
        if gained == -np.inf:
            if is_possible:
                work.failure[0] = k
            is_possible = False  # go on, to find out where the contradiction shows
            gained = 0.0
        total += gained
    if not is_possible:
        return -np.inf
    norm = 0.0
    for x in range(n_joint):
        norm += vector[x]
    return total + math.log(norm)


@inner
def _dense_step(regions, r, problem, d, table, is_held, is_wanted, work, k, vector):
    """Carry the forward vector over step k by a matrix; what ln Z gains."""
    n_joint = regions.n_joint[r]
    step = problem.step_start[d] + k
    kind = work.power_kind[step]
    power, forward = work.power[kind], work.forward[k]
    for x in range(n_joint):
        vector[x] = 0.0
    for x in range(n_joint):
        f = forward[x]
        if f > 0.0:
            for y in range(n_joint):
                vector[y] += f * power[x, y]
    if is_wanted:
        ending = work.right[step]
        find_ending(regions, r, problem, d, table, is_held, work, k, ending)
        overlap = 0.0
        for x in range(n_joint):
            overlap += vector[x] * ending[x]
        if not overlap > 0.0:
            rescale(n_joint, vector)
            return -np.inf
        left = work.left[step]
        for x in range(n_joint):
            ending[x] /= overlap
            left[x] = forward[x]
    top = rescale(n_joint, vector)
    return work.power_log[kind] + math.log(top) if top > 0.0 else -np.inf


@unit(
    (
        *(REGIONS, int64, TRAJECTORIES, int64, float64[::1], float64, boolean, boolean, ROOM),
        *(int64, float64[::1]),
    ),
    returns=float64,
)
def series_ahead(regions, r, problem, d, table, precision, is_held, is_wanted, work, k, vector):
    """Carry the forward vector over step k by series, part by part; what ln Z gains."""
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    column = work.column[k]
    width = problem.width[problem.step_start[d] + k]
    sigma, bound = load_column(n_joint, per_row, work, column, is_held)
    load_transposed(regions, r, work)
    n_parts = parts_of(bound * width, precision)
    step = width / n_parts
    gained = -sigma * width
    if not is_wanted:
        return gained + advance(
            regions, r, work, work.back, step, n_parts, precision, vector, bool(True)
        )
    shape, target, diagonal = shape_of(regions, r), regions.column, work.vector[0]
    local, back, u, v = work.local, work.back, work.u, work.v
    n_terms = terms_for(bound * step, precision)
    summed, unused = work.vector[2], work.vector[3]
    kept = work.endings.shape[0] // 2
    ending = work.vector[4]
    find_ending(regions, r, problem, d, table, is_held, work, k, ending)
    if n_parts > 1:
        block_endings(regions, r, n_parts, kept, step, precision, work, ending)
    for part in range(n_parts):
        if n_parts > 1:
            if part % kept == 0:
                part_endings(regions, r, n_parts, kept, part, step, precision, work)
            ending = work.endings[part % kept]
        least, most = term_limits(shape, u.shape[0], n_terms, precision, ending)
        least_v, most_v = term_limits(shape, u.shape[0], n_terms, precision, vector)
        least, most = max(least, least_v), max(most, most_v)
        n_u = add_terms(shape, target, diagonal, local, step, least, most, ending, u, unused)
        n_v = add_terms(shape, target, diagonal, back, step, n_u, most, vector, v, summed)
        if n_v > n_u:
            add_terms(shape, target, diagonal, local, step, n_v, n_v, ending, u, unused)
        ahead = 0.0
        for x in range(n_joint):
            ahead += summed[x] * ending[x]
        for x in range(n_joint):
            vector[x] = summed[x]
        top = rescale(n_joint, vector)
        if not ahead > 0.0 or top == 0.0:
            return -np.inf
        integrate(regions, r, n_joint, per_row, n_v, step / ahead, column, work)
        gained += math.log(top)
    return gained


@inner
def block_endings(regions, r, n_parts, kept, step, precision, work, vector):
    """Backward vectors at the ends of blocks of ``kept`` parts, behind those of single parts."""
    for i in range(n_parts - 1, -1, -1):
        if i == n_parts - 1 or (i + 1) % kept == 0:
            for x in range(regions.n_joint[r]):
                work.endings[kept + i // kept, x] = vector[x]
        if i < kept:
            break
        advance(regions, r, work, work.local, step, int(1), precision, vector, bool(False))


@inner
def part_endings(regions, r, n_parts, kept, part, step, precision, work):
    """Backward vectors at the ends of the parts of the block that begins with ``part``."""
    n_joint = regions.n_joint[r]
    vector = work.vector[4]
    for x in range(n_joint):
        vector[x] = work.endings[kept + part // kept, x]
    for i in range(min(part + kept, n_parts) - 1, part - 1, -1):
        for x in range(n_joint):
            work.endings[i - part, x] = vector[x]
        if i > part:
            advance(regions, r, work, work.local, step, int(1), precision, vector, bool(False))
