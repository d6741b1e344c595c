"""Compiled: do nodes jump more or less often than their rates say, by trajectory or over time?

Along the present paths, node n makes M jumps in a cell (a trajectory, or a span of the time since
the start) where its present rates expect E = Σ rate · time: waiting times transformed to unit
exponentials. If a factor f ~ Gamma(a, a) multiplied the rates there,

    P(paths | factors, rates) / P(paths | rates) = Π_cells a^a Γ(a + M) e^E / (Γ(a) (a + E)^(a + M))

The posterior expectation of this ratio is the Bayes factor of such factors. The average of its
logarithm, which is summed here, is a lower bound on the logarithm of the Bayes factor.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.sampling._along import advance, follow, soonest

#: shapes a of the factors: they differ by a factor of 2.7, 1.8 or 1.4 (one standard deviation)
FACTOR_SHAPES = (1.0, 3.0, 10.0)
#: what is compared: one factor per trajectory; one up and one down per trajectory; one up and one
#: down per span of time
ALL_RATES, UP_AND_DOWN, OVER_TIME = 0, 1, 2
N_TIME_SPANS = 4


@inner
def _log_ratio(a, m, e):
    """ln of one cell's part of the product above."""
    return a * math.log(a) + math.lgamma(a + m) - math.lgamma(a) - (a + m) * math.log(a + e) + e


@inner
def _count(d, n, model, paths, work, length, cell):
    """Fill ``cell[span, direction, (M, E)]`` for one node in one trajectory; directions down, up.

    A span is a part of ``length``. What happens while the experimenter holds the node is left out.
    """
    layout, seen, families, rates = model
    n_trajectories = len(layout.start)
    pair = n * n_trajectories + d
    size = layout.n_states[n]
    table = layout.table_start[n]
    n_followed, config = follow(families, n, -1, d, n_trajectories, paths, work)
    time, end = layout.start[d], layout.end[d]
    jump = paths.slot[pair]
    last_jump = jump + paths.n_jumps[pair]
    state = paths.initial[pair]
    by_hand, last_by_hand = seen.set_start[pair], seen.set_start[pair + 1]
    held = False
    set_time = seen.set_begin[by_hand] if by_hand < last_by_hand else math.inf
    span, n_spans = 0, len(cell)
    cell[:] = 0.0
    while True:
        who = soonest(work, n_followed)
        parent_time = work.next_time[who] if who >= 0 else math.inf
        jump_time = paths.time[jump] if jump < last_jump else math.inf
        edge = layout.start[d] + length * (span + 1) / n_spans if span + 1 < n_spans else math.inf
        until = min(jump_time, parent_time, end, set_time, edge)
        here = table + (config * size + state) * size
        if not held:
            for y in range(size):
                if y != state:
                    up = 1 if y > state else 0
                    cell[span, up, 1] += (until - time) * rates.rate[here + y]
        time = until
        if set_time == until:
            held = not held
            if held:
                set_time = seen.set_end[by_hand]
            else:
                by_hand += 1
                set_time = seen.set_begin[by_hand] if by_hand < last_by_hand else math.inf
        elif jump_time == until:
            target = np.int64(paths.state[jump])
            if not held:
                cell[span, 1 if target > state else 0, 0] += 1.0
            state = target
            jump += 1
        elif parent_time == until:
            config += advance(families, n, -1, paths, work, who)
        elif edge == until and until < end:
            span += 1
        else:
            return


@inner
def _add_cells(shapes, cells, total):
    """Add the logarithms of one trajectory, or of all, to ``total[:, shape]``."""
    for i in range(len(shapes)):
        a = shapes[i]
        m, e = cells[0, 0] + cells[1, 0], cells[0, 1] + cells[1, 1]
        total[ALL_RATES, i] += _log_ratio(a, m, e)
        for up in range(2):
            total[UP_AND_DOWN, i] += _log_ratio(a, cells[up, 0], cells[up, 1])


@kernel
def add_residuals(model, paths, work, shapes, total):
    """Add the logarithms for every node, and for one factor of all nodes together in the last row.

    ``total`` is (N + 1, 3, shapes + 1): what is compared, by shape; the last place counts calls.
    """
    layout = model.layout
    n_nodes, n_trajectories = len(layout.n_states), len(layout.start)
    length = 0.0
    for d in range(n_trajectories):
        length = max(length, layout.end[d] - layout.start[d])
    cell = np.zeros((N_TIME_SPANS, 2, 2))
    by_trajectory = np.zeros((n_trajectories, 2, 2))
    over_time = np.zeros((N_TIME_SPANS, 2, 2))
    whole = np.zeros((N_TIME_SPANS, 2, 2))
    total[:, :, len(shapes)] += 1.0
    for n in range(n_nodes):
        if layout.is_given[n]:
            continue
        over_time[:] = 0.0
        for d in range(n_trajectories):
            _count(d, n, model, paths, work, length, cell)
            own = cell.sum(axis=0)
            _add_cells(shapes, own, total[n])
            by_trajectory[d] += own
            over_time += cell
        whole += over_time
        for i in range(len(shapes)):
            for s in range(N_TIME_SPANS):
                for up in range(2):
                    total[n, OVER_TIME, i] += _log_ratio(
                        shapes[i], over_time[s, up, 0], over_time[s, up, 1]
                    )
    for d in range(n_trajectories):
        _add_cells(shapes, by_trajectory[d], total[n_nodes])
    for i in range(len(shapes)):
        for s in range(N_TIME_SPANS):
            for up in range(2):
                total[n_nodes, OVER_TIME, i] += _log_ratio(
                    shapes[i], whole[s, up, 0], whole[s, up, 1]
                )
