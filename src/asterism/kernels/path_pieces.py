"""What drawing paths from messages needs of every step: pieces, powers at their ends, records.

A step is cut into pieces on which the shifted generator B = (A − min A(x,x)) h has row sums of a
few units. With ρ at the end of a piece, v_j = B^j ρ / j! are computed once for all draws, and
Σ_j v_j φ^j is, up to a common factor, ρ at the fraction φ before the end.
"""

from __future__ import annotations

import numpy as np

from asterism.kernels._jit import inner
from asterism.kernels.arrays import INITIAL, IS_EXOGENOUS, STATES
from asterism.kernels.readings import at_grid_points

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
def with_room(record, used):
    """The table of records, larger if it is full."""
    if used < record.shape[0]:
        return record
    result = np.empty((2 * record.shape[0], 3), np.int64)
    for i in range(used):
        for j in range(3):
            result[i, j] = record[i, j]
    return result


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
