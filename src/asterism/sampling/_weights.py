"""Compiled: what the states of a node explain: the paths of its children, and measurements.

Weights are logarithms, one per state and grid point: they hold from that point to the next.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inlined, inner
from asterism.sampling._along import (
    advance,
    factors_at,
    follow,
    is_high,
    soonest,
    span_ends,
    state_at,
    when_set,
)


@inlined
def weigh_child(d, child, slot, size, model, paths, work, n_grid):
    """Add to the weights how well each of ``size`` states of a parent explains a child's path."""
    layout, seen, families, rates = model
    n_trajectories = len(layout.start)
    pair = child * n_trajectories + d
    own_size = layout.n_states[child]
    square = own_size * own_size
    table = layout.table_start[child]
    n_followed, config = follow(families, child, slot, d, n_trajectories, paths, work)
    time = layout.start[d]
    end = layout.end[d]
    jump = paths.slot[pair]
    last_jump = jump + paths.n_jumps[pair]
    state = paths.initial[pair]
    k = 0
    grid_time = work.time[1] if n_grid > 1 else math.inf
    jump_time = paths.time[jump] if jump < last_jump else math.inf
    who = soonest(work, n_followed)
    parent_time = work.next_time[who] if who >= 0 else math.inf
    by_hand = seen.set_start[pair]
    held = False
    set_time = when_set(seen, pair, by_hand, held)
    span = 0
    low, high = factors_at(rates, child, pair, span)
    span_time = span_ends(rates, child, time, span)
    border = min(end, set_time, span_time)
    while True:
        until = min(grid_time, jump_time, parent_time, border)
        length = until - time
        time = until
        here = table + (config * own_size + state) * own_size
        if length > 0.0 and not held:
            length *= high if is_high(state, own_size) else low
            for x in range(size):
                at = here + families.term[child, slot, x] * square
                work.log_weight[k * size + x] -= length * rates.rate[at + state]
        if set_time == until:
            by_hand += 1 if held else 0
            held = not held
            set_time = when_set(seen, pair, by_hand, held)
            border = min(end, set_time, span_time)
        elif span_time == until:
            span += 1
            low, high = factors_at(rates, child, pair, span)
            span_time = span_ends(rates, child, layout.start[d], span)
            border = min(end, set_time, span_time)
        elif jump_time == until:
            target = np.int64(paths.state[jump])
            if not held:
                for x in range(size):
                    at = here + families.term[child, slot, x] * square
                    work.log_weight[k * size + x] += rates.log_rate[at + target]
            state = target
            jump += 1
            jump_time = paths.time[jump] if jump < last_jump else math.inf
        elif grid_time == until:
            k += 1
            grid_time = work.time[k + 1] if k + 1 < n_grid else math.inf
        elif parent_time == until:
            config += advance(families, child, slot, paths, work, who)
            who = soonest(work, n_followed)
            parent_time = work.next_time[who]
        else:
            return


@inner
def weigh_evidence(d, n, model, paths, work, n_grid, with_joint):
    """Add measurements, joint measurements given the other members, and known states."""
    layout, seen = model.layout, model.seen
    n_trajectories = len(layout.start)
    pair = n * n_trajectories + d
    size = layout.n_states[n]
    k = 0
    for i in range(seen.point_start[pair], seen.point_start[pair + 1]):
        while k + 1 < n_grid and work.time[k + 1] <= seen.point_time[i]:
            k += 1
        for x in range(size):
            work.log_weight[k * size + x] += seen.log_likelihood[seen.point_offset[i] + x]
    k = 0
    for i in range(seen.span_start[pair], seen.span_start[pair + 1]):
        while k + 1 < n_grid and work.time[k + 1] <= seen.span_begin[i]:
            k += 1
        for x in range(size):
            if x != seen.span_state[i]:
                work.log_weight[k * size + x] = -math.inf
    if not with_joint:
        return
    k = 0
    for row in range(seen.joint_start[pair], seen.joint_start[pair + 1]):
        i = seen.joint_index[row]
        while k + 1 < n_grid and work.time[k + 1] <= seen.joint_time[i]:
            k += 1
        at = seen.joint_table[i]
        stride = 0
        for m in range(seen.member_start[i], seen.member_start[i + 1]):
            if m - seen.member_start[i] == seen.joint_member[row]:
                stride = seen.member_stride[m]
            else:
                other = seen.member[m] * n_trajectories + d
                at += seen.member_stride[m] * state_at(paths, other, seen.joint_time[i])
        for x in range(size):
            work.log_weight[k * size + x] += seen.joint_log[at + x * stride]
