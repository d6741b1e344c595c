"""Paths drawn exactly from the joint chain's posterior.

Backward vectors first; then forward in time, step by step of the uniformised series. Given the
present joint state x and the backward vector ρ at the end of a step, the number of uniformised
events is j with probability ∝ (B^j ρ)(x) / j!, their times are uniform, and each event moves
x → y with probability ∝ B(x,y) (B^{j−1} ρ)(y); y = x is no jump.
"""

from __future__ import annotations

import numpy as np

from asterism.exact._joint_chain import (
    evidence_backward,
    jump_target,
    kind_before,
    start_vector,
)
from asterism.exact._sparse_chain import (
    backward_boundaries,
    column_terms,
    most_terms,
    sparse_backward,
)
from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, new_stream, uniform
from asterism.numerics._step import copy, doubled, multiply, sort_first, total


@inner
def _next_state(pattern, generators, g, x, later, stream):
    """Joint state after one uniformised event from x, and the entry used (−1: no jump)."""
    stay = (generators.bound[g] + generators.diagonal[g, x]) * later[x]
    weights = stay
    for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
        weights += generators.value[g, e] * later[pattern.column[e]]
    target = uniform(stream) * weights - stay
    if target < 0.0:
        return x, -1
    last = -1
    for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
        weight = generators.value[g, e] * later[pattern.column[e]]
        if weight > 0.0:
            last = e
            target -= weight
            if target < 0.0:
                break
    if last < 0:
        return x, -1
    return pattern.column[last], last


@kernel
def draw_paths(chain, time, d, n_draws, key):
    """``n_draws`` joint paths of trajectory d.

    Returns the joint state at the start of every draw, and of every jump, in the order of time
    within each draw: draw, time, node of the component, state entered.
    """
    pattern, schedule, generators = chain.pattern, chain.schedule, chain.generators
    rates, log_likelihood = chain.rates, chain.log_likelihood
    diameter = chain.diameter
    n = pattern.state_of.shape[0]
    begin = schedule.first[d]
    end = schedule.first[d + 1]
    after = np.empty((end - begin, n))
    sparse_backward(chain, d, after)
    work = np.empty(n)
    incoming = after[0].copy()
    shift = generators.shift[kind_before(schedule, begin, True)]
    evidence_backward(pattern, schedule, shift, rates, log_likelihood, begin, incoming, work)
    start_vector(pattern, chain.initial, work)
    multiply(work, incoming)
    norm = total(work)
    state = np.empty(n_draws, np.int64)
    streams = np.empty((n_draws, 4), np.uint64)
    for draw in range(n_draws):
        streams[draw] = new_stream(key, draw)
        state[draw] = choose(streams[draw], work, norm)
    first_state = state.copy()
    who = np.empty(256, np.int64)
    when = np.empty(256)
    node = np.empty(256, np.int64)
    entered = np.empty(256, np.int64)
    used = 0
    for k in range(begin, end):
        for r in range(schedule.jump_start[k], schedule.jump_start[k + 1]):
            for draw in range(n_draws):
                if used == len(who):
                    who, when, node, entered = (
                        doubled(who),
                        doubled(when),
                        doubled(node),
                        doubled(entered),
                    )
                state[draw] = jump_target(pattern, schedule, r, state[draw])
                who[used] = draw
                when[used] = time[k]
                node[used] = schedule.jump_node[r]
                entered[used] = schedule.jump_to[r]
                used += 1
        if k + 1 == end:
            break
        copy(after[k + 1 - begin], incoming)
        shift = generators.shift[kind_before(schedule, k + 1, False)]
        evidence_backward(pattern, schedule, shift, rates, log_likelihood, k + 1, incoming, work)
        g = schedule.generator[k]
        boundaries = backward_boundaries(
            pattern, generators, g, schedule.length[k], diameter, incoming
        )
        count = boundaries.shape[0] - 1
        step = schedule.length[k] / count
        terms = np.empty((most_terms(generators.bound[g] * step, diameter), n))
        share = np.empty(terms.shape[0])
        for s in range(count):
            size = column_terms(pattern, generators, g, step, diameter, boundaries[s + 1], terms)
            for draw in range(n_draws):
                stream = streams[draw]
                x = state[draw]
                weights = terms[:size, x]
                events = choose(stream, weights, total(weights))
                for j in range(events):
                    share[j] = uniform(stream)
                sort_first(share, events)
                for j in range(events):
                    x, entry = _next_state(pattern, generators, g, x, terms[events - 1 - j], stream)
                    if entry >= 0:
                        if used == len(who):
                            who, when = doubled(who), doubled(when)
                            node, entered = doubled(node), doubled(entered)
                        i = pattern.entry_node[entry]
                        who[used] = draw
                        when[used] = time[k] + (s + share[j]) * step
                        node[used] = i
                        entered[used] = pattern.state_of[x, i]
                        used += 1
                state[draw] = x
    return first_state, who[:used], when[:used], node[:used], entered[:used]
