"""Compiled: the path of a node with two states, drawn as ``_path.py`` does it for any number.

Most nodes have two states, and drawing their paths is most of a sweep. Everything is written out
for states 0 and 1: no loops over states, nothing is normalised unless it becomes very small, and no
branch depends on the states drawn, which no processor could guess.
"""

from __future__ import annotations

import math

from asterism.numerics._jit import inner
from asterism.numerics._random_stream import uniform

#: filtered probabilities whose sum is below are scaled up
_SMALL = 1e-100


@inner
def filter_two(n, model, work, n_grid):
    """Fill ``work.filtered`` with what is proportional to P(state after grid point k, weights)."""
    layout, seen, _, rates = model
    table = layout.table_start[n]
    omegas = layout.config_start[n]
    zero = rates.initial[layout.state_start[n]]
    one = rates.initial[layout.state_start[n] + 1]
    if work.jump[0] < -1:
        zero, one = (1.0, 0.0) if work.jump[0] == -2 else (0.0, 1.0)
    for k in range(n_grid):
        if k > 0:
            block = table + 4 * work.config[k]
            recorded = work.jump[k]
            if recorded == -1:
                omega = rates.omega[omegas + work.config[k]] * max(work.low[k], work.high[k])
                share = 1.0 / omega if omega > 0.0 else 0.0
                up = share * work.low[k] * rates.rate[block + 1]
                down = share * work.high[k] * rates.rate[block + 2]
                zero, one = zero * (1.0 - up) + one * down, one * (1.0 - down) + zero * up
            elif recorded >= 0:
                origin = 1 - seen.jump_to[recorded]
                if seen.jump_from[recorded] >= 0 and seen.jump_from[recorded] != origin:
                    return False
                if (zero if origin == 0 else one) * rates.rate[block + 1 + origin] <= 0.0:
                    return False
                zero, one = (1.0, 0.0) if origin == 1 else (0.0, 1.0)
            else:
                zero, one = (1.0, 0.0) if recorded == -2 else (0.0, 1.0)
        # the larger weight of a state that can be reached counts as one
        log_zero = work.log_weight[2 * k] if zero > 0.0 else -math.inf
        log_one = work.log_weight[2 * k + 1] if one > 0.0 else -math.inf
        top = max(log_zero, log_one)
        if top == -math.inf:
            return False
        gap = log_one - log_zero
        if gap != 0.0:
            weight = math.exp(-abs(gap))
            zero = zero * weight if gap > 0.0 else zero
            one = one if gap > 0.0 else one * weight
        total = zero + one
        if total < _SMALL:
            zero /= total
            one /= total
        work.filtered[2 * k] = zero
        work.filtered[2 * k + 1] = one
    return True


@inner
def draw_backwards_two(n, model, work, n_grid, stream):
    """Fill ``work.state``; returns the number of real jumps."""
    layout, _, _, rates = model
    table = layout.table_start[n]
    omegas = layout.config_start[n]
    k = n_grid - 1
    zero = work.filtered[2 * k]
    state = 0 if uniform(stream) * (zero + work.filtered[2 * k + 1]) < zero else 1
    work.state[k] = state
    n_jumps = 0
    for k in range(n_grid - 1, 0, -1):
        block = table + 4 * work.config[k]
        recorded = work.jump[k]
        zero = work.filtered[2 * k - 2]
        one = work.filtered[2 * k - 1]
        target = uniform(stream)
        if recorded >= 0:
            # it must move
            before = 1 - state
        elif recorded < -1:
            before = 0 if target * (zero + one) < zero else 1
        else:
            omega = rates.omega[omegas + work.config[k]] * max(work.low[k], work.high[k])
            up = work.low[k] * rates.rate[block + 1]
            down = work.high[k] * rates.rate[block + 2]
            # where it was if it is in state 0, and if it is in state 1
            stays = zero * (omega - up)
            of_zero = 0 if target * (stays + one * down) < stays else 1
            moves = zero * up
            of_one = 0 if target * (moves + one * (omega - down)) < moves else 1
            before = of_zero if state == 0 else of_one
        n_jumps += 1 if before != state else 0
        state = before
        work.state[k - 1] = state
    return n_jumps
