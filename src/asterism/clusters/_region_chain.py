"""Forward–backward of one region (cluster or separator) along one trajectory, compiled.

``_region_step.py`` carries vectors over one step, ``_region_evidence.py`` through a grid point.
Arrays are (entry or state, step): what runs over all steps at once is contiguous.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import (
    FIRST_STEP,
    IMPOSSIBLE,
    IS_SET,
    PARTS_KEPT,
    STEP_AFTER,
    TOO_STIFF,
)
from asterism.clusters._region_evidence import evidence_ahead, evidence_back, find_alive, hold
from asterism.clusters._region_step import (
    add_terms,
    advance,
    integrate,
    load_step,
    load_transposed,
    parts_of,
    rescale,
    series_length,
)
from asterism.numerics._jit import inner

_MOST_PARTS = 100_000


@inner
def fill_base(regions, r, problem, d, table, work):
    """Rates of a region before any message: owned rates, 1 elsewhere; exit rates of owned nodes."""
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    begin = regions.entry_start[r]
    node0 = regions.node_start[r]
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    for e in range(n_joint * per_row):
        value = table[regions.base_index[begin + e]]
        row = work.rate[e]
        for k in range(n_steps):
            row[k] = value
    for x in range(n_joint):
        total = 0.0
        for j in range(n_owned):
            total += table[regions.exit_index[regions.exit_start[r] + x * n_owned + j]]
        row = work.diagonal[x]
        for k in range(n_steps):
            row[k] = total
    for j in range(n_owned):
        slot = regions.owned_slot[owned0 + j]
        node = regions.node[node0 + slot]
        column = problem.input_column[node]
        if column < 0:
            continue
        block = regions.block[node]
        for x in range(n_joint):
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
            for k in range(n_steps):
                moved = at + block * problem.input_shift[first + k, column]
                work.diagonal[x, k] += table[moved] - table[at]
            for e in range(x * per_row, (x + 1) * per_row):
                if regions.entry_slot[begin + e] == slot:
                    base = regions.base_index[begin + e]
                    for k in range(n_steps):
                        moved = base + block * problem.input_shift[first + k, column]
                        work.rate[e, k] = table[moved]
    for j in range(n_owned):
        _leave_out_exits(regions, r, problem, d, table, work, j)


@inner
def _leave_out_exits(regions, r, problem, d, table, work, j):
    """Take the exit rates of an owned node away where an experimenter holds it."""
    first = problem.step_start[d]
    n_owned = regions.owned_start[r + 1] - regions.owned_start[r]
    slot = regions.owned_slot[regions.owned_start[r] + j]
    node = regions.node[regions.node_start[r] + slot]
    column = problem.input_column[node]
    pair = d * len(regions.block) + node
    for row in range(problem.span_start[pair], problem.span_start[pair + 1]):
        if problem.span[row, IS_SET] == 0:
            continue
        for x in range(regions.n_joint[r]):
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
            for k in range(problem.span[row, FIRST_STEP], problem.span[row, STEP_AFTER]):
                shift = problem.input_shift[first + k, column] if column >= 0 else 0
                work.diagonal[x, k] -= table[at + regions.block[node] * shift]


@inner
def backward_pass(regions, r, problem, d, table, precision, is_held, work):
    """Backward vectors of the region; False where they vanish (``work.counts`` says where)."""
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    vector = work.vector[1]
    alive = work.vector[3]
    for x in range(n_joint):
        vector[x] = 1.0
        alive[x] = 1.0
        work.backward[n_steps, x] = 1.0
    for k in range(n_steps - 1, -1, -1):
        evidence_back(regions, r, problem, d, table, work, k + 1, vector)
        if is_held:
            hold(regions, r, problem, d, k, vector)
            find_alive(regions, r, problem, d, k, alive)
        if rescale(n_joint, vector) == 0.0:
            work.counts[1] = k + 1
            work.counts[2] = IMPOSSIBLE
            return False
        for x in range(n_joint):
            work.ending[k, x] = vector[x]
        width = problem.width[first + k]
        _, bound = load_step(n_joint, per_row, work, k, alive)
        n_parts = parts_of(bound * width)
        if not bound * width < _MOST_PARTS:
            work.counts[1] = k
            work.counts[2] = TOO_STIFF
            return False
        step = width / n_parts
        for _ in range(n_parts):
            advance(regions, r, work, work.local, step, bound * step, precision, vector)
        for x in range(n_joint):
            work.backward[k, x] = vector[x]
    evidence_back(regions, r, problem, d, table, work, 0, vector)
    for x in range(n_joint):
        work.first_time[x] = vector[x]
    return True


@inner
def forward_pass(regions, r, problem, d, table, precision, is_held, work):
    """Forward vectors, times and jumps; ln Z of the region, without what evidence took out.

    −inf where the evidence is impossible (``work.counts`` says where).
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    vector = work.vector[1]
    summed = work.vector[2]
    alive = work.vector[3]
    total = 0.0
    norm = 0.0
    for x in range(n_joint):
        alive[x] = 1.0
        vector[x] = work.start[x]
        work.first_time[x] *= work.start[x]
        norm += work.first_time[x]
    for x in range(n_joint):
        work.first_time[x] /= norm if norm > 0.0 else 1.0
    for k in range(n_steps + 1):
        evidence_ahead(regions, r, problem, d, table, work, k, vector)
        if is_held and k < n_steps:
            hold(regions, r, problem, d, k, vector)
            find_alive(regions, r, problem, d, k, alive)
        top = rescale(n_joint, vector)
        if top == 0.0:
            work.counts[1] = k
            work.counts[2] = IMPOSSIBLE
            return -np.inf
        total += math.log(top)
        for x in range(n_joint):
            work.forward[k, x] = vector[x]
        if k == n_steps:
            break
        width = problem.width[first + k]
        sigma, bound = load_step(n_joint, per_row, work, k, alive)
        load_transposed(regions, r, work)
        n_parts = parts_of(bound * width)
        step = width / n_parts
        total -= sigma * width
        for x in range(n_joint):
            work.time[x, k] = 0.0
        for e in range(n_joint * per_row):
            work.jumps[e, k] = 0.0
        for part in range(n_parts):
            if part % PARTS_KEPT == 0:
                _part_endings(regions, r, k, n_parts, part, bound, step, precision, work)
            ending = work.endings[part % PARTS_KEPT]
            n_terms = series_length(regions, r, n_joint, bound * step, precision, ending)
            n_terms = max(
                n_terms, series_length(regions, r, n_joint, bound * step, precision, vector)
            )
            add_terms(regions, r, work, work.local, step, n_terms, ending, work.u, summed)
            add_terms(regions, r, work, work.back, step, n_terms, vector, work.v, summed)
            ahead = 0.0
            for x in range(n_joint):
                ahead += summed[x] * ending[x]
            if not ahead > 0.0:
                work.counts[1] = k
                work.counts[2] = IMPOSSIBLE
                return -np.inf
            integrate(regions, r, n_joint, per_row, n_terms, step / ahead, k, work)
            for x in range(n_joint):
                vector[x] = summed[x]
            total += math.log(rescale(n_joint, vector))
    norm = 0.0
    for x in range(n_joint):
        norm += vector[x]
    return total + math.log(norm)


@inner
def _part_endings(regions, r, k, n_parts, part, bound, step, precision, work):
    """Backward vectors at the ends of the parts of step k from ``part`` on, as many as are kept."""
    n_joint = regions.n_joint[r]
    vector = work.vector[4]
    for x in range(n_joint):
        vector[x] = work.ending[k, x]
    for i in range(n_parts - 1, part - 1, -1):
        if i < part + PARTS_KEPT:
            for x in range(n_joint):
                work.endings[i - part, x] = vector[x]
        if i > part:
            advance(regions, r, work, work.local, step, bound * step, precision, vector)
