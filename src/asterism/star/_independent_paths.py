"""State paths drawn node by node: exact for the averaged generator, nodes independent.

A step is cut into pieces on which the shifted generator B = (A − min A(x,x)) h has row sums of a
few units. With ρ at the end of a piece, v_j = B^j ρ / j! are computed once for all draws, and
Σ_j v_j φ^j is, up to a common factor, ρ at the fraction φ before the end. From state x a piece has
j virtual events with probability ∝ v_j(x), at uniform times; each moves x → y with probability
∝ B(x,y) v_{j−1}(y), and y = x is no jump.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, new_stream, uniform
from asterism.numerics._step import doubled, sort_first, total
from asterism.star._buffers import INITIAL, IS_EXOGENOUS, STATES
from asterism.star._kept_messages import at_grid_points, generator_of


@kernel
def virtual_events(problem, messages, width):
    """How many virtual events one draw takes: summed over nodes; and of the busiest node per step.

    Both decide whether drawing is affordable.
    """
    steps = width.shape[0]
    summed = 0.0
    busiest = 0.0
    for k in range(steps):
        highest = 0.0
        for node in range(problem.node.shape[0] - 1):
            if messages.clamp[node, k] < 0:
                generator = generator_of(problem, messages, node, steps)
                mass = mass_of_step(generator, problem.node[node, STATES], k) * width[k]
                summed += mass
                highest = max(highest, mass)
        busiest += highest
    return summed, busiest


@kernel
def draw_independent(problem, messages, initial, times, width, n_draws, key):
    """Paths of all nodes, each drawn on its own.

    Returns the states at the start (draws, N) and of every jump its time and its record (columns
    named above), in the order of time within each draw and node.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    start = np.zeros((n_draws, n_nodes), np.int64)
    record = np.empty((256, 3), np.int64)
    when = np.empty(256)
    used = 0
    share = np.empty(TERMS)
    streams = np.empty((n_draws, 4), np.uint64)
    state = np.empty(n_draws, np.int64)
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        is_exogenous = problem.node[node, IS_EXOGENOUS] == 1
        generator = generator_of(problem, messages, node, steps)
        backward = at_grid_points(problem, messages.backward, node, steps)
        base = np.empty(size * size)
        terms = np.empty((TERMS, size))
        weights = np.empty(size)
        ends = np.empty((1, size))
        norm = start_weights(problem, messages, initial, node, steps, weights)
        for draw in range(n_draws):
            # a draw's numbers do not depend on how many draws there are
            streams[draw] = new_stream(key, draw * n_nodes + node)
            state[draw] = choose(streams[draw], weights, norm)
        for k in range(steps + 1):
            forced = forced_state(messages, node, k, is_exogenous)
            for draw in range(n_draws):
                if forced >= 0 and forced != state[draw]:
                    state[draw] = forced
                    if k > 0:
                        record, when = with_jump(record, when, used, draw, node, forced, times[k])
                        used += 1
                if k == 0:
                    start[draw, node] = state[draw]
            if k == steps:
                break
            if messages.clamp[node, k] >= 0:
                continue
            n_pieces = max(1, math.ceil(mass_of_step(generator, size, k) * width[k] / PIECE))
            length = width[k] / n_pieces
            shifted_generator(generator, size, k, length, base)
            if ends.shape[0] < n_pieces:
                ends = np.empty((n_pieces, size))
            piece_ends(base, size, backward[:, k + 1], n_pieces, terms, ends)
            for piece in range(n_pieces):
                count = powers_at_end(base, size, ends[piece], terms)
                for draw in range(n_draws):
                    stream = streams[draw]
                    x = state[draw]
                    norm = 0.0
                    for j in range(count):
                        norm += terms[j, x]
                    events = choose(stream, terms[:count, x], norm)
                    for j in range(events):
                        share[j] = uniform(stream)
                    sort_first(share, events)
                    for j in range(events):
                        for y in range(size):
                            weights[y] = base[x * size + y] * terms[events - 1 - j, y]
                        y = choose(stream, weights, total(weights))
                        if y != x:
                            x = y
                            time = min(times[k] + (piece + share[j]) * length, times[k + 1])
                            record, when = with_jump(record, when, used, draw, node, x, time)
                            used += 1
                    state[draw] = x
    return start, when[:used], record[:used]


PIECE = 4.0
"""Largest row sum of B on a piece."""
TERMS = 80

# columns of the records of jumps
DRAW = 0
NODE = 1
ENTERED = 2


@inner
def mass_of_step(generator, size, k):
    """Largest row sum of the shifted generator of a step, per unit of time."""
    lowest = generator[0, k]
    for x in range(1, size):
        lowest = min(lowest, generator[x * size + x, k])
    largest = 0.0
    for x in range(size):
        row = -lowest
        for y in range(size):
            row += generator[x * size + y, k]
        largest = max(largest, row)
    return largest


@inner
def shifted_generator(generator, size, k, length, base):
    """B of a piece of this length, row by row."""
    lowest = generator[0, k]
    for x in range(1, size):
        lowest = min(lowest, generator[x * size + x, k])
    for x in range(size):
        for y in range(size):
            value = generator[x * size + y, k]
            if x == y:
                value -= lowest
            base[x * size + y] = value * length


@inner
def powers_at_end(base, size, end, terms):
    """v_j = B^j ρ / j! for as many j as matter in some state; returns how many."""
    for x in range(size):
        terms[0, x] = end[x]
    count = 1
    while count < TERMS:
        matters = count <= size
        for x in range(size):
            value = 0.0
            for y in range(size):
                value += base[x * size + y] * terms[count - 1, y]
            terms[count, x] = value / count
            sum_so_far = 0.0
            for j in range(count):
                sum_so_far += terms[j, x]
            if terms[count, x] > 1e-17 * sum_so_far:
                matters = True
        count += 1
        if not matters:
            break
    return count


@inner
def piece_ends(base, size, end, n_pieces, terms, ends):
    """ρ at the end of every piece, the last one first known; each scaled to a largest of one."""
    for x in range(size):
        ends[n_pieces - 1, x] = end[x]
    for piece in range(n_pieces - 1, 0, -1):
        count = powers_at_end(base, size, ends[piece], terms)
        largest = 0.0
        for x in range(size):
            ends[piece - 1, x] = 0.0
            for j in range(count):
                ends[piece - 1, x] += terms[j, x]
            largest = max(largest, ends[piece - 1, x])
        for x in range(size):
            ends[piece - 1, x] /= largest


@inner(allocates=True)
def with_jump(record, when, used, draw, node, state, time):
    """The tables of jumps with one more in row ``used``; larger ones if they are full."""
    if used == len(when):
        when = doubled(when)
        wider = np.empty((len(when), 3), np.int64)
        for i in range(used):
            for j in range(3):
                wider[i, j] = record[i, j]
        record = wider
    record[used, DRAW] = draw
    record[used, NODE] = node
    record[used, ENTERED] = state
    when[used] = time
    return record, when


@inner
def start_weights(problem, messages, initial, node, steps, weights):
    """p0(x) ρ(x) just before the evidence at the start; returns the sum."""
    size = problem.node[node, STATES]
    forward = at_grid_points(problem, messages.forward, node, steps)
    backward = at_grid_points(problem, messages.backward, node, steps)
    result = 0.0
    for x in range(size):
        if problem.node[node, IS_EXOGENOUS] == 1:
            weights[x] = forward[x, 0]
        else:
            weights[x] = initial[problem.node[node, INITIAL] + x] * backward[x, 0]
        result += weights[x]
    return result


@inner
def forced_state(messages, node, k, is_exogenous):
    """State that a node is known to enter at grid point k, or −1."""
    if messages.entered[node, k] >= 0:
        return messages.entered[node, k]
    if is_exogenous and k < messages.clamp.shape[1]:
        return messages.clamp[node, k]
    return -1
