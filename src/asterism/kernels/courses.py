"""Marginals at any time from the messages of a solved trajectory.

On a step of length h with generator A, forward message f at its start and backward message ρ at
its end, the marginal at distance s from the start is m(x) ∝ (f exp(A' s))(x) (exp(A'' (h−s)) ρ)(x).
The true generator is not constant: A' and A'' are A plus a slope, taken from the neighbouring
steps, averaged over the two parts of the step. Both are A itself for the whole step, so that
nothing changes at grid points; between them the error falls to that of the grid points.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import inner, kernel
from asterism.kernels.arrays import INITIAL, STATES
from asterism.kernels.buffers import BLOCK, STRIDE
from asterism.kernels.propagate import general_propagator
from asterism.kernels.readings import at_grid_points, generator_of


@inner
def _slope(own, row, k, width, smooth_before, smooth_after):
    """Change of a generator's entry per time around step k; zero where both sides have kinks."""
    if smooth_before and smooth_after:
        distance = 0.5 * (width[k - 1] + width[k + 1]) + width[k]
        return (own[row, k + 1] - own[row, k - 1]) / distance
    if smooth_after:
        return (own[row, k + 1] - own[row, k]) / (0.5 * (width[k] + width[k + 1]))
    if smooth_before:
        return (own[row, k] - own[row, k - 1]) / (0.5 * (width[k - 1] + width[k]))
    return 0.0


@kernel
def marginals_at(problem, messages, width, is_kink, step, inside, out):
    """m of every node at times ``inside`` (from its start) step ``step``; (queries, Σ S).

    Step K stands for the end of the trajectory. ``width`` are the lengths of this trajectory's
    steps; ``is_kink`` tells at which of its grid points something is known. Returns whether all
    marginals are finite.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    largest_size = 0
    for node in range(n_nodes):
        largest_size = max(largest_size, problem.node[node, STATES])
    rows = largest_size * largest_size
    generator = np.zeros((rows, STRIDE))
    later_generator = np.zeros((rows, STRIDE))
    to_start = np.zeros(STRIDE)
    to_end = np.zeros(STRIDE)
    before = np.zeros((rows, STRIDE))
    behind = np.zeros((rows, STRIDE))
    log_scale = np.zeros(STRIDE)
    scratch = np.zeros((6, rows, STRIDE))
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        at = problem.node[node, INITIAL]
        own = generator_of(problem, messages, node, steps)
        forward = at_grid_points(problem, messages.forward, node, steps)
        backward = at_grid_points(problem, messages.backward, node, steps)
        for first in range(0, step.shape[0], BLOCK):
            count = min(BLOCK, step.shape[0] - first)
            for q in range(count):
                k = step[first + q]
                free = k < steps and messages.clamp[node, min(k, steps - 1)] < 0
                to_start[q] = inside[first + q] if free else 0.0
                to_end[q] = width[k] - inside[first + q] if free else 0.0
                smooth_before = (
                    free and k > 0 and not is_kink[k] and messages.clamp[node, k - 1] < 0
                )
                smooth_after = (
                    free
                    and k + 1 < steps
                    and not is_kink[k + 1]
                    and messages.clamp[node, k + 1] < 0
                )
                for row in range(size * size):
                    value = own[row, k] if free else 0.0
                    half = 0.0
                    if free:
                        half = 0.5 * _slope(own, row, k, width, smooth_before, smooth_after)
                    if row // size != row % size and width[k] * abs(half) > value:
                        half = 0.0  # rates stay positive
                    generator[row, q] = value - half * to_end[q]
                    later_generator[row, q] = value + half * to_start[q]
            general_propagator(generator, to_start, size, count, before, log_scale, scratch)
            general_propagator(later_generator, to_end, size, count, behind, log_scale, scratch)
            for q in range(count):
                k = step[first + q]
                result = out[first + q, at : at + size]
                if k < steps and messages.clamp[node, k] >= 0:
                    result[:] = 0.0
                    result[messages.clamp[node, k]] = 1.0
                    continue
                # in logarithms: where f is tiny ρ may be huge
                highest = -math.inf
                for x in range(size):
                    f = forward[x, k]
                    r = 1.0
                    if k < steps:
                        f = 0.0
                        r = 0.0
                        for y in range(size):
                            f += forward[y, k] * before[y * size + x, q]
                            r += behind[x * size + y, q] * backward[y, k + 1]
                    result[x] = -math.inf
                    if f > 0.0 and r > 0.0:
                        result[x] = math.log(f) + math.log(r)
                    highest = max(highest, result[x])
                if not math.isfinite(highest):
                    return False
                total = 0.0
                for x in range(size):
                    result[x] = math.exp(result[x] - highest)
                    total += result[x]
                for x in range(size):
                    result[x] /= total
    return True
