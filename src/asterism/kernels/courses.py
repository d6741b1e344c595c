"""Marginals at any time from the messages of a solved trajectory.

On a step of length h with generator A, forward message f at its start and backward message ρ at
its end, the marginal at distance s from the start is m(x) ∝ (f exp(A s))(x) (exp(A (h−s)) ρ)(x).
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import kernel
from asterism.kernels.arrays import INITIAL, STATES
from asterism.kernels.messages import BLOCK
from asterism.kernels.propagate import general_propagator
from asterism.kernels.readings import at_grid_points, generator_of


@kernel
def marginals_at(problem, messages, width, step, inside, out):
    """m of every node at times ``inside`` (from its start) step ``step``; (queries, Σ S).

    Step K stands for the end of the trajectory. ``width`` are the lengths of this trajectory's
    steps. Returns whether all marginals are finite.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    largest_size = 0
    for node in range(n_nodes):
        largest_size = max(largest_size, problem.node[node, STATES])
    rows = largest_size * largest_size
    generator = np.zeros((rows, BLOCK))
    to_start = np.zeros(BLOCK)
    to_end = np.zeros(BLOCK)
    before = np.zeros((rows, BLOCK))
    behind = np.zeros((rows, BLOCK))
    log_scale = np.zeros(BLOCK)
    scratch = np.zeros((6, rows, BLOCK))
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
                for row in range(size * size):
                    generator[row, q] = own[row, k] if free else 0.0
                to_start[q] = inside[first + q] if free else 0.0
                to_end[q] = width[k] - inside[first + q] if free else 0.0
            general_propagator(generator, to_start, size, count, before, log_scale, scratch)
            general_propagator(generator, to_end, size, count, behind, log_scale, scratch)
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
