"""State paths drawn node by node: exact for the averaged generator, nodes independent.

From state x a piece (``path_pieces``) has j virtual events with probability ∝ v_j(x), at uniform
times; each moves x → y with probability ∝ B(x,y) v_{j−1}(y), and y = x is no jump.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import kernel
from asterism.kernels.arrays import IS_EXOGENOUS, STATES
from asterism.kernels.path_pieces import (
    DRAW,
    ENTERED,
    NODE,
    PIECE,
    TERMS,
    forced_state,
    mass_of_step,
    piece_ends,
    powers_at_end,
    shifted_generator,
    start_weights,
    with_room,
)
from asterism.kernels.random_stream import choose, new_stream, uniform
from asterism.kernels.readings import at_grid_points, generator_of
from asterism.kernels.vectors import doubled, sort_first, total


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
    moments = np.empty(TERMS)
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
                        record = with_room(record, used)
                        when = doubled(when) if used == len(when) else when
                        record[used, DRAW] = draw
                        record[used, NODE] = node
                        record[used, ENTERED] = forced
                        when[used] = times[k]
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
                        moments[j] = uniform(stream)
                    sort_first(moments, events)
                    for j in range(events):
                        for y in range(size):
                            weights[y] = base[x * size + y] * terms[events - 1 - j, y]
                        y = choose(stream, weights, total(weights))
                        if y != x:
                            x = y
                            record = with_room(record, used)
                            when = doubled(when) if used == len(when) else when
                            record[used, DRAW] = draw
                            record[used, NODE] = node
                            record[used, ENTERED] = x
                            when[used] = min(times[k] + (piece + moments[j]) * length, times[k + 1])
                            used += 1
                    state[draw] = x
    return start, when[:used], record[:used]
