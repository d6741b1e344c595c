"""Compiled: draws the path of one node in one trajectory, given everything else (Rao and Teh).

Four steps, all by walking along sorted lists, without sorting and without allocating:

1. *Grid.* Along the present path, imagined jumps are laid at rate Ω(u) − exit(x): together with
   the real jumps they are a Poisson process of rate Ω(u), whatever the path.
2. *Weights* (``_weights.py``). Between two grid points state x is weighed by what depends on it
   elsewhere: the waiting times and jumps of the children, measurements, joint measurements given
   the other members, indicators where the state is known.
3. *Filter.* On the grid the path is a chain in discrete time with transitions I + R/Ω; at a
   recorded jump it must move, with weight R; where the experimenter takes hold of the node every
   state becomes the one that is set, with weight 1.
4. *Draw* backwards. Jumps of a state into itself are dropped when the path is written.

Where factors multiply a node's rates (``_factors.py``), its Ω and R are multiplied likewise.

For two states ``_path_two.py`` does steps 3 and 4 faster.

Ties: at one time, a node's own jump comes before changes of its parents (only exogenous parents and
those set by hand can change exactly then), and a measurement sees the state after the jump.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner
from asterism.numerics._random_stream import uniform
from asterism.sampling._along import (
    advance,
    factors_at,
    follow,
    is_high,
    soonest,
    span_ends,
    when_set,
)
from asterism.sampling._path_two import draw_backwards_two, filter_two
from asterism.sampling._weights import weigh_child, weigh_evidence

#: what :func:`draw_path` returns instead of a number of jumps
WORK_TOO_SMALL = -1
IMPOSSIBLE = -2


@inner
def _lay_grid(d, n, model, paths, work, stream, first_time):
    """Fill ``work.time``, ``config`` and ``jump``; returns the number of grid points + 1.

    Point 0 is the start. No jumps are imagined where the state is known throughout. The very first
    time there is no present path yet, only times at which it may jump: then Ω itself is the rate.
    """
    layout, seen, families, rates = model
    n_trajectories = len(layout.start)
    pair = n * n_trajectories + d
    size = layout.n_states[n]
    table = layout.table_start[n]
    omegas = layout.config_start[n]
    n_followed, config = follow(families, n, -1, d, n_trajectories, paths, work)
    capacity = len(work.time)
    time = layout.start[d]
    end = layout.end[d]
    own = paths.slot[pair]
    last_own = own + paths.n_jumps[pair]
    recorded = seen.jump_start[pair]
    known = seen.span_start[pair]
    last_known = seen.span_start[pair + 1]
    by_hand = seen.set_start[pair]
    pinned = False
    state = paths.initial[pair]
    work.time[0] = time
    work.config[0] = config
    work.jump[0] = -1
    span = 0
    low, high = factors_at(rates, n, pair, span)
    work.low[0], work.high[0] = low, high
    span_time = span_ends(rates, n, time, span)
    held = when_set(seen, pair, by_hand, bool(False)) <= time
    if held:
        work.jump[0] = -2 - seen.set_state[by_hand]
    set_time = when_set(seen, pair, by_hand, held)
    k = 1
    hazard = -math.log(uniform(stream))
    while True:
        own_time = paths.time[own] if own < last_own else math.inf
        who = soonest(work, n_followed)
        parent_time = work.next_time[who] if who >= 0 else math.inf
        edge = math.inf
        if known < last_known:
            edge = seen.span_end[known] if pinned else seen.span_begin[known]
        until = min(own_time, parent_time, edge, end, set_time, span_time)
        if not (pinned or held):
            rate = rates.omega[omegas + config] * max(low, high)
            if not first_time:
                leaving = rates.rate[table + (config * size + state) * size + state]
                rate -= leaving * (high if is_high(state, size) else low)
            while hazard < rate * (until - time):
                if k == capacity:
                    return WORK_TOO_SMALL
                time += hazard / rate
                work.time[k] = time
                work.config[k] = config
                work.low[k], work.high[k] = low, high
                work.jump[k] = -1
                k += 1
                hazard = -math.log(uniform(stream))
            hazard -= rate * (until - time)
        time = until
        if set_time == until and held:
            by_hand += 1
            held = False
            set_time = when_set(seen, pair, by_hand, held)
        elif set_time == until:
            if k == capacity:
                return WORK_TOO_SMALL
            work.time[k] = time
            work.config[k] = config
            work.low[k], work.high[k] = low, high
            work.jump[k] = -2 - seen.set_state[by_hand]
            k += 1
            if own_time == until:
                own += 1
            state = seen.set_state[by_hand]
            held = True
            set_time = when_set(seen, pair, by_hand, held)
        elif own_time == until:
            if k == capacity:
                return WORK_TOO_SMALL
            work.time[k] = time
            work.config[k] = config
            work.low[k], work.high[k] = low, high
            work.jump[k] = -1
            if recorded < seen.jump_start[pair + 1] and seen.jump_time[recorded] == time:
                work.jump[k] = recorded
                recorded += 1
            k += 1
            state = np.int64(paths.state[own])
            own += 1
        elif parent_time == until:
            config += advance(families, n, -1, paths, work, who)
        elif span_time == until:
            span += 1
            low, high = factors_at(rates, n, pair, span)
            span_time = span_ends(rates, n, layout.start[d], span)
        elif edge == until:
            if pinned:
                known += 1
            pinned = not pinned
        else:
            return k


@inner
def _weighed(work, k, size):
    """Multiply the filtered probabilities of grid point k by its weights; False if all vanish.

    The largest weight of a state that can be reached counts as one, so nothing underflows that
    matters, and equal weights cost no exponential.
    """
    top = -math.inf
    for x in range(size):
        if work.filtered[k * size + x] > 0.0 and work.log_weight[k * size + x] > top:
            top = work.log_weight[k * size + x]
    if top == -math.inf:
        return False
    total = 0.0
    for x in range(size):
        gap = work.log_weight[k * size + x] - top
        if gap < 0.0:
            work.filtered[k * size + x] *= math.exp(gap)
        total += work.filtered[k * size + x]
    for x in range(size):
        work.filtered[k * size + x] /= total
    return True


@inner
def _filter(n, model, work, n_grid):
    """Fill ``work.filtered``: P(state after grid point k, all weights up to then), normalised."""
    layout, seen, _, rates = model
    size = layout.n_states[n]
    table = layout.table_start[n]
    omegas = layout.config_start[n]
    for x in range(size):
        work.filtered[x] = rates.initial[layout.state_start[n] + x]
        if work.jump[0] < -1:
            work.filtered[x] = 1.0 if x == -2 - work.jump[0] else 0.0
    if not _weighed(work, 0, size):
        return False
    for k in range(1, n_grid):
        before = (k - 1) * size
        after = k * size
        block = table + work.config[k] * size * size
        recorded = work.jump[k]
        if recorded >= 0:
            target = seen.jump_to[recorded]
            origin = seen.jump_from[recorded]
            total = 0.0
            for x in range(size):
                work.filtered[after + x] = 0.0
                if x != target and (origin < 0 or origin == x):
                    total += work.filtered[before + x] * rates.rate[block + x * size + target]
            if total <= 0.0:
                return False
            work.filtered[after + target] = 1.0
        elif recorded < -1:
            for x in range(size):
                work.filtered[after + x] = 1.0 if x == -2 - recorded else 0.0
        else:
            low, high = work.low[k], work.high[k]
            omega = rates.omega[omegas + work.config[k]] * max(low, high)
            share = 1.0 / omega if omega > 0.0 else 0.0
            for y in range(size):
                leaving = rates.rate[block + y * size + y] * (high if is_high(y, size) else low)
                total = work.filtered[before + y] * max(0.0, 1.0 - share * leaving)
                for x in range(size):
                    if x != y:
                        moves = share * rates.rate[block + x * size + y]
                        moves *= high if is_high(x, size) else low
                        total += work.filtered[before + x] * moves
                work.filtered[after + y] = total
        if not _weighed(work, k, size):
            return False
    return True


@inner
def _draw_backwards(n, model, work, n_grid, stream):
    """Fill ``work.state``; returns the number of real jumps."""
    layout, seen, _, rates = model
    size = layout.n_states[n]
    table = layout.table_start[n]
    omegas = layout.config_start[n]
    k = n_grid - 1
    target = uniform(stream)
    state = 0
    for x in range(size):
        if work.filtered[k * size + x] > 0.0:
            state = x
            target -= work.filtered[k * size + x]
            if target < 0.0:
                break
    work.state[k] = state
    n_jumps = 0
    for k in range(n_grid - 1, 0, -1):
        before = (k - 1) * size
        block = table + work.config[k] * size * size
        recorded = work.jump[k]
        omega = rates.omega[omegas + work.config[k]] * max(work.low[k], work.high[k])
        total = 0.0
        for x in range(size):
            factor = work.high[k] if is_high(x, size) else work.low[k]
            if recorded >= 0:
                may = x != state and (seen.jump_from[recorded] < 0 or seen.jump_from[recorded] == x)
                weight = factor * rates.rate[block + x * size + state] if may else 0.0
            elif recorded < -1:
                weight = 1.0
            elif x == state:
                weight = max(0.0, omega - factor * rates.rate[block + x * size + x])
            else:
                weight = factor * rates.rate[block + x * size + state]
            weight *= work.filtered[before + x]
            # the weights of the previous point are not needed any more
            work.log_weight[before + x] = weight
            total += weight
        target = uniform(stream) * total
        chosen = state
        for x in range(size):
            weight = work.log_weight[before + x]
            if weight > 0.0:
                chosen = x
                target -= weight
                if target < 0.0:
                    break
        if chosen != state:
            n_jumps += 1
        state = chosen
        work.state[k - 1] = state
    return n_jumps


@inner
def draw_path(d, n, model, paths, work, stream, first_time):
    """Draw a path into ``work``; returns (number of grid points, number of jumps or a problem).

    The first time (see ``_lay_grid``) children and joint measurements are left out.
    """
    n_grid = _lay_grid(d, n, model, paths, work, stream, first_time)
    if n_grid < 0:
        return 0, WORK_TOO_SMALL
    families = model.families
    size = model.layout.n_states[n]
    if (n_grid + 1) * size > len(work.filtered):
        return 0, WORK_TOO_SMALL
    for i in range(n_grid * size):
        work.log_weight[i] = 0.0
    if not first_time:
        for i in range(families.child_start[n], families.child_start[n + 1]):
            child, slot = families.child[i], families.child_slot[i]
            if size == 2:  # known when it is compiled: loops over states are unrolled
                weigh_child(d, child, slot, 2, model, paths, work, n_grid)
            else:
                weigh_child(d, child, slot, size, model, paths, work, n_grid)
    weigh_evidence(d, n, model, paths, work, n_grid, not first_time)
    if size == 2:
        if not filter_two(n, model, work, n_grid):
            return n_grid, IMPOSSIBLE
        return n_grid, draw_backwards_two(n, model, work, n_grid, stream)
    if not _filter(n, model, work, n_grid):
        return n_grid, IMPOSSIBLE
    return n_grid, _draw_backwards(n, model, work, n_grid, stream)


@inner
def write_path(paths, pair, work, n_grid):
    """Copy the drawn path from ``work`` into the arena, where there is room for it."""
    state = work.state[0]
    paths.initial[pair] = state
    at = paths.slot[pair]
    for k in range(1, n_grid):
        if work.state[k] != state:
            state = work.state[k]
            paths.time[at] = work.time[k]
            paths.state[at] = state
            at += 1
    paths.n_jumps[pair] = at - paths.slot[pair]
