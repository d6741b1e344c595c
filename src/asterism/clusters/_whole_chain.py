"""A region without separators along all trajectories: exact passes and paths drawn, compiled.

No message ever changes its rates, so one pass over a trajectory gives everything. Rates stand in
one column per kind of step (see ``RegionWork``).

Paths: given the present joint state x and the backward vector ρ at the end of a part of a step, the
number of uniformised events is j with probability ∝ (B^j ρ)(x) / j!, their times are uniform, and
each event moves x → y with probability ∝ B(x,y) (B^{j−1} ρ)(y); y = x is no jump.
"""

from __future__ import annotations

import numpy as np

from asterism.clusters._cluster_messages import start_vector
from asterism.clusters._region_chain import (
    backward_pass,
    block_endings,
    delete_held_jumps,
    fill_base,
    find_ending,
    forward_pass,
    part_endings,
)
from asterism.clusters._region_evidence import (
    count_columns,
    count_points,
    count_starts,
    find_alive,
    is_recorded,
    jump_target,
    sort_evidence,
)
from asterism.clusters._region_step import add_terms, load_column, parts_of, shape_of
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, new_stream, uniform
from asterism.numerics._step import copy, doubled, multiply, sort_first, total

_EXACT = 0.0  # the precision that lets series go on until every entry has converged


@kernel
def fill_columns(regions, r, problem, is_held, table, work):
    """Rates of every kind of step."""
    n_columns = len(work.step)
    region, room = bundle(regions), bundle(work)
    find_alive(region, r, n_columns, room)
    fill_base(region, r, bundle(problem), n_columns, is_held, table, room)
    delete_held_jumps(region, r, n_columns, room)


@inner
def _open(regions, r, problem, d, column, initial, work):
    """Columns, start and evidence of trajectory d; the logarithms taken out of likelihoods."""
    first = problem.step_start[d]
    for k in range(problem.step_start[d + 1] - first):
        work.column[k] = column[first + k]
    start_vector(regions, r, initial, work.start)
    return sort_evidence(regions, r, problem, d, work)


@kernel
def pass_trajectories(
    regions, r, problem, column, which, parameters, is_held, is_wanted, work, log_evidence, found
):
    """Forward–backward of the trajectories from ``which[0]`` to before ``which[1]``.

    ``parameters``: rates and start probabilities. ``found``: a table for recorded jumps, the
    expected starts, probabilities at measurements. Returns the trajectory whose evidence is
    impossible (``work.failure`` says where), or −1.
    """
    regions, problem, work = bundle(regions), bundle(problem), bundle(work)
    table, initial = parameters
    counted, starts, points = found
    for d in range(which[0], which[1]):
        taken_out = _open(regions, r, problem, d, column, initial, work)
        if not backward_pass(work.addresses, regions, r, problem, d, table, _EXACT, is_held, work):
            return d
        log_evidence[d] = taken_out + forward_pass(
            work.addresses, regions, r, problem, d, table, _EXACT, is_held, is_wanted, counted, work
        )
        if log_evidence[d] == -np.inf:
            return d
        count_starts(regions, r, work, starts)
        for slot in range(regions.node_start[r + 1] - regions.node_start[r]):
            count_points(regions, r, problem, d, work, slot, points)
    return -1


@kernel
def count_all(regions, r, problem, is_held, is_zero, work, table):
    """Add the expected times and jumps of all columns to a table like the network's rates."""
    n_columns = len(work.step)
    count_columns(
        bundle(regions), r, bundle(problem), n_columns, is_held, is_zero, bundle(work), table
    )


@inner
def _next_state(regions, r, work, x, later, stream):
    """Joint state after one uniformised event from x, and the entry used (−1: no jump)."""
    per_row, begin = regions.per_row[r], regions.entry_start[r]
    stay = work.vector[0][x] * later[x]
    weights = stay
    for e in range(x * per_row, (x + 1) * per_row):
        weights += work.local[e] * later[regions.column[begin + e]]
    target = uniform(stream) * weights - stay
    if target < 0.0:
        return x, -1
    last = -1
    for e in range(x * per_row, (x + 1) * per_row):
        weight = work.local[e] * later[regions.column[begin + e]]
        if weight > 0.0:
            last = e
            target -= weight
            if target < 0.0:
                break
    if last < 0:
        return x, -1
    return regions.column[begin + last], last


@kernel
def draw_paths(regions, r, problem, d, column, time, parameters, is_held, n_draws, key, work):
    """``n_draws`` joint paths of trajectory d, whose grid points have these times.

    Returns the joint state at the start of every draw, and of every jump, in the order of time
    within each draw: draw, time, node of the region, state entered.
    """
    regions, problem, work = bundle(regions), bundle(problem), bundle(work)
    table, initial = parameters
    n, per_row = regions.n_joint[r], regions.per_row[r]
    n_nodes = regions.node_start[r + 1] - regions.node_start[r]
    digit0 = regions.digit_start[r]
    _open(regions, r, problem, d, column, initial, work)
    backward_pass(work.addresses, regions, r, problem, d, table, _EXACT, is_held, work)
    multiply(work.first_time, work.start)
    norm = total(work.first_time)
    state = np.empty(n_draws, np.int64)
    streams = np.empty((n_draws, 4), np.uint64)
    for draw in range(n_draws):
        streams[draw] = new_stream(key, draw)
        state[draw] = choose(streams[draw], work.first_time, norm)
    first_state = state.copy()
    when = np.empty(256)
    who = np.empty(256, np.int64)
    slot_of, entered = np.empty(256, np.int64), np.empty(256, np.int64)
    used = 0
    share = np.empty(work.u.shape[0])
    ending = np.empty(n)
    kept = work.endings.shape[0] // 2
    summed = work.vector[3]
    shape = shape_of(regions, r)
    for k in range(len(time)):
        for at in range(work.event_start[k], work.event_start[k + 1]):
            if not is_recorded(problem, work, at):
                continue
            slot = work.event_slot[at]
            for draw in range(n_draws):
                target = jump_target(regions, r, problem, work, at, state[draw])
                if target == state[draw]:
                    continue
                state[draw] = target
                if used == len(who):
                    who, when = doubled(who), doubled(when)
                    slot_of, entered = doubled(slot_of), doubled(entered)
                who[used], when[used], slot_of[used] = draw, time[k], slot
                entered[used] = regions.digit[digit0 + target * n_nodes + slot]
                used += 1
        if k + 1 == len(time):
            break
        find_ending(regions, r, problem, d, table, is_held, work, k, ending)
        width = problem.width[problem.step_start[d] + k]
        _, bound = load_column(n, per_row, work, work.column[k], is_held)
        n_parts = parts_of(bound * width, _EXACT)
        step = width / n_parts
        block_endings(regions, r, n_parts, kept, step, _EXACT, work, ending)
        for part in range(n_parts):
            if part % kept == 0:
                part_endings(regions, r, n_parts, kept, part, step, _EXACT, work)
            copy(work.endings[part % kept], ending)
            size = add_terms(
                shape,
                regions.column,
                work.vector[0],
                work.local,
                step,
                int(2),
                len(share),
                ending,
                work.u,
                summed,
            )
            for draw in range(n_draws):
                stream = streams[draw]
                x = state[draw]
                weights = work.u[:size, x]
                events = choose(stream, weights, total(weights))
                for j in range(events):
                    share[j] = uniform(stream)
                sort_first(share, events)
                for j in range(events):
                    x, entry = _next_state(regions, r, work, x, work.u[events - 1 - j], stream)
                    if entry < 0:
                        continue
                    if used == len(who):
                        who, when = doubled(who), doubled(when)
                        slot_of, entered = doubled(slot_of), doubled(entered)
                    slot = regions.entry_slot[regions.entry_start[r] + entry]
                    who[used], slot_of[used] = draw, slot
                    when[used] = time[k] + (part + share[j]) * step
                    entered[used] = regions.digit[digit0 + x * n_nodes + slot]
                    used += 1
                state[draw] = x
    return first_state, who[:used], when[:used], slot_of[:used], entered[:used]
