"""Compiled: factors on the rates of nodes, of each trajectory or of spans of the time.

Trajectories may differ in how fast nodes move, and rates may change over time; both make nodes look
as if they followed each other. Nodes that share factors form a group of one kind: one factor per
trajectory on all rates; two per trajectory, one on the rates of leaving low states and one on those
of leaving high ones; two per span of the time since the start, for two, three or four spans. The
others have none.
Along the present paths, the nodes of a group make M jumps in a cell (what one factor is about)
where their present rates expect E = Σ rate · time. With factors f ~ Gamma(a, a),

    P(paths | group, a, rates) / P(paths | no factors, rates)
        = Π_cells a^a Γ(a + M) e^E / (Γ(a) (a + E)^(a + M))
    f | paths, rates, group, a ~ Gamma(a + M, a + E)

In every sweep each node is drawn into a group, a new one, or none, with the factors summed out;
then kind and a (from a few values) of every group, and then the factors: one block. Beforehand a
group has the weight of its nodes, and what is new or none that of ``FactorPrior.weight`` (a
Dirichlet process, summed out), so factors that several nodes share are more probable than as many
of their own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.sampling._along import (
    ALL_RATES,
    MOST_SPANS,
    N_KINDS,
    NO_FACTORS,
    OVER_TIME,
    advance,
    factors_at,
    follow,
    is_high,
    n_spans,
    soonest,
    when_set,
)
from asterism.sampling._variates import draw_index, gamma
from asterism.sampling.sampler_arrays import FloatArray

#: what happens is counted in as many parts of the time: two, three and four divide it
N_CELLS = 12


class FactorPrior(NamedTuple):
    """What is known of factors beforehand."""

    shape: FloatArray
    """(A,) values of a, all equally probable."""
    log_gamma: FloatArray
    """[a, m] ln Γ(a + m) − ln Γ(a) for m = 0, 1, …"""
    weight: FloatArray
    """(N_KINDS,) in numbers of nodes; 0: the kind is left out."""


@inner
def log_ratio(prior, i, m, e):
    """ln of one cell's part of the product above, for the shape of number ``i``."""
    a, number = prior.shape[i], int(m)
    total = a * math.log(a) - (a + m) * math.log(a + e) + e
    if number < prior.log_gamma.shape[1]:
        return total + prior.log_gamma[i, number]
    return total + math.lgamma(a + m) - math.lgamma(a)


@inner
def _count(d, n, model, paths, work, cell):
    """Fill ``cell[part of the time, side, (M, E)]`` for one node in one trajectory.

    What happens while the experimenter holds the node is left out.
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
    by_hand = seen.set_start[pair]
    held = False
    set_time = when_set(seen, pair, by_hand, held)
    part = 0
    cell[:] = 0.0
    while True:
        who = soonest(work, n_followed)
        parent_time = work.next_time[who] if who >= 0 else math.inf
        jump_time = paths.time[jump] if jump < last_jump else math.inf
        edge = math.inf
        if part + 1 < N_CELLS:
            edge = layout.start[d] + rates.duration[0] * (part + 1) / N_CELLS
        until = min(jump_time, parent_time, end, set_time, edge)
        side = 1 if is_high(state, size) else 0
        if not held:
            leaving = rates.rate[table + (config * size + state) * size + state]
            cell[part, side, 1] += (until - time) * leaving
        time = until
        if set_time == until:
            by_hand += 1 if held else 0
            held = not held
            set_time = when_set(seen, pair, by_hand, held)
        elif jump_time == until:
            if not held:
                cell[part, side, 0] += 1.0
            state = np.int64(paths.state[jump])
            jump += 1
        elif parent_time == until:
            config += advance(families, n, -1, paths, work, who)
        elif edge == until and until < end:
            part += 1
        else:
            return


@inner
def _add_cells(n, sign, at, cells, sums):
    """Add a node's cells, or take them away, from those of a group."""
    for c in range(cells.shape[1]):
        for side in range(2):
            for i in range(2):
                sums[at, c, side, i] += sign * cells[n, c, side, i]


@inner
def _sum_of(at, first, width, cells):
    """M and E of neighbouring cells, of leaving low and high states."""
    m, e, m_high, e_high = 0.0, 0.0, 0.0, 0.0
    for c in range(first, first + width):
        m += cells[at, c, 0, 0]
        e += cells[at, c, 0, 1]
        m_high += cells[at, c, 1, 0]
        e_high += cells[at, c, 1, 1]
    return m, e, m_high, e_high


@inner
def _log_evidence(prior, kind, i, at, cells):
    """ln P(paths | group, shape i) less that without factors; ``cells[at]`` are the group's."""
    total = 0.0
    width = N_CELLS // n_spans(kind) if kind >= OVER_TIME else 1
    for first in range(0, cells.shape[1], width):
        m, e, m_high, e_high = _sum_of(at, first, width, cells)
        if kind == ALL_RATES:
            total += log_ratio(prior, i, m + m_high, e + e_high)
        else:
            total += log_ratio(prior, i, m, e) + log_ratio(prior, i, m_high, e_high)
    return total


@inner
def _weigh_new(prior, at, by_trajectory, over_time, weights, first):
    """Fill ``weights[first:]`` with ln of weight and evidence of each kind and shape of a group."""
    n_shapes = len(prior.shape)
    for kind in range(1, N_KINDS):
        for i in range(n_shapes):
            place = first + (kind - 1) * n_shapes + i
            if prior.weight[kind] <= 0.0:
                weights[place] = -math.inf
                continue
            cells = over_time if kind >= OVER_TIME else by_trajectory
            weights[place] = math.log(prior.weight[kind] / n_shapes)
            weights[place] += _log_evidence(prior, kind, i, at, cells)


@inner
def _draw_group(n, rates, is_given, prior, by_trajectory, over_time, sums, sums_over_time, size,
                weights, stream, total):  # fmt: skip
    """Draw which group a node is in, if any; ``size``, ``sums`` are those of the groups.

    ``total`` (kinds, shapes) gets its probabilities.
    """
    n_nodes, n_shapes = len(size), len(prior.shape)
    own = rates.group[n]
    if own >= 0:
        size[own] -= 1
        _add_cells(n, -1.0, own, by_trajectory, sums)
        _add_cells(n, -1.0, own, over_time, sums_over_time)
    without = prior.weight[NO_FACTORS]
    empty = -1
    for m in range(n_nodes):
        is_free = m != n and not is_given[m]
        without += 1.0 if is_free and rates.kind[m] == NO_FACTORS else 0.0
    for g in range(n_nodes):
        weights[g] = -math.inf
        if size[g] == 0:
            empty = g
            continue
        kind, i = rates.group_kind[g], rates.group_shape[g]
        cells, own_cells = (
            (sums_over_time, over_time) if kind >= OVER_TIME else (sums, by_trajectory)
        )
        alone = _log_evidence(prior, kind, i, g, cells)
        _add_cells(n, 1.0, g, own_cells, cells)
        weights[g] = math.log(size[g]) + _log_evidence(prior, kind, i, g, cells) - alone
        _add_cells(n, -1.0, g, own_cells, cells)
    weights[n_nodes] = math.log(without)
    first = n_nodes + 1
    _weigh_new(prior, n, by_trajectory, over_time, weights, first)
    chosen = draw_index(stream, weights, 0, len(weights))
    total[NO_FACTORS, 0] += weights[n_nodes]
    for g in range(n_nodes):
        if size[g] > 0:
            total[rates.group_kind[g], rates.group_shape[g]] += weights[g]
    for place in range(first, len(weights)):
        total[1 + (place - first) // n_shapes, (place - first) % n_shapes] += weights[place]
    if chosen == n_nodes:
        rates.group[n], rates.kind[n] = -1, NO_FACTORS
        return
    g = chosen
    if chosen > n_nodes:
        g = empty
        rates.group_kind[g] = 1 + (chosen - first) // n_shapes
        rates.group_shape[g] = (chosen - first) % n_shapes
        for c in range(sums.shape[1]):
            sums[g, c] = 0.0
        sums_over_time[g] = 0.0
    rates.group[n], rates.kind[n] = g, rates.group_kind[g]
    size[g] += 1
    _add_cells(n, 1.0, g, by_trajectory, sums)
    _add_cells(n, 1.0, g, over_time, sums_over_time)


@inner
def _draw_cells(g, kind, a, rates, sums, sums_over_time, stream):
    """Draw the factors of one group; all its nodes get them."""
    n_nodes, n_trajectories = len(rates.kind), sums.shape[1]
    is_over_time = kind >= OVER_TIME
    n_factors = n_spans(kind) if is_over_time else n_trajectories
    width = N_CELLS // n_factors if is_over_time else 1
    cells = sums_over_time if is_over_time else sums
    for i in range(n_factors):
        m, e, m_high, e_high = _sum_of(g, i * width, width, cells)
        if kind == ALL_RATES:
            low = gamma(stream, a + m + m_high) / (a + e + e_high)
            high = low
        else:
            low = gamma(stream, a + m) / (a + e)
            high = gamma(stream, a + m_high) / (a + e_high)
        for n in range(n_nodes):
            if rates.group[n] != g:
                continue
            for k in range(n_trajectories if is_over_time else MOST_SPANS):
                d, span = (k, i) if is_over_time else (i, k)
                at = 2 * (MOST_SPANS * (n * n_trajectories + d) + span)
                rates.factor[at], rates.factor[at + 1] = low, high


@inner
def _add_residuals(n, d, rates, pair, cells, residual):
    """Add jumps less those expected, in every part of the time."""
    for part in range(N_CELLS):
        low, high = factors_at(rates, n, pair, part * n_spans(rates.kind[n]) // N_CELLS)
        residual[n, d, part, 0] += cells[n, d, part, 0, 0] - low * cells[n, d, part, 0, 1]
        residual[n, d, part, 1] += cells[n, d, part, 1, 0] - high * cells[n, d, part, 1, 1]


@kernel
def draw_factors(model, paths, work, prior, stream, counts, average, residual):
    """Draw groups and factors of all nodes; adds P(kind, a | paths, rates) to ``average``.

    ``average`` is (N, N_KINDS, A), without factors a is 0; ``residual`` (N, D, N_CELLS, 2) gets
    jumps less those that rates and factors expect. Both are left alone unless ``counts``.
    """
    layout, rates = model.layout, model.rates
    n_nodes, n_trajectories, n_shapes = len(layout.n_states), len(layout.start), len(prior.shape)
    cells = np.zeros((n_nodes, n_trajectories, N_CELLS, 2, 2))
    by_trajectory = np.zeros((n_nodes, n_trajectories, 2, 2))
    over_time = np.zeros((n_nodes, N_CELLS, 2, 2))
    sums, sums_over_time = np.zeros_like(by_trajectory), np.zeros_like(over_time)
    size = np.zeros(n_nodes, np.int64)
    weights = np.zeros(n_nodes + 1 + (N_KINDS - 1) * n_shapes)
    total = np.zeros((N_KINDS, n_shapes))
    for n in range(n_nodes):
        if layout.is_given[n]:
            continue
        for d in range(n_trajectories):
            cell = cells[n, d]
            _count(d, n, model, paths, work, cell)
            over_time[n] += cell
            for part in range(N_CELLS):
                by_trajectory[n, d] += cell[part]
        g = rates.group[n]
        if g >= 0:
            size[g] += 1
            _add_cells(n, 1.0, g, by_trajectory, sums)
            _add_cells(n, 1.0, g, over_time, sums_over_time)
    for n in range(n_nodes):
        if layout.is_given[n]:
            continue
        total[:] = 0.0
        _draw_group(n, rates, layout.is_given, prior, by_trajectory, over_time, sums,
                    sums_over_time, size, weights, stream, total)  # fmt: skip
        if counts:
            average[n] += total
    first = n_nodes + 1
    for g in range(n_nodes):
        if size[g] == 0:
            continue
        _weigh_new(prior, g, sums, sums_over_time, weights, first)
        chosen = draw_index(stream, weights, first, len(weights)) - first
        rates.group_kind[g], rates.group_shape[g] = 1 + chosen // n_shapes, chosen % n_shapes
        for n in range(n_nodes):
            if rates.group[n] == g:
                rates.kind[n] = rates.group_kind[g]
        a = prior.shape[rates.group_shape[g]]
        _draw_cells(g, rates.group_kind[g], a, rates, sums, sums_over_time, stream)
    if counts:
        for n in range(n_nodes):
            for d in range(n_trajectories):
                if not layout.is_given[n]:
                    _add_residuals(n, d, rates, n * n_trajectories + d, cells, residual)
