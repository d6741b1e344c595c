"""Between two grids of which one cuts every step of the other into equal numbers of parts."""

from __future__ import annotations

from asterism.kernels._jit import inner, kernel
from asterism.kernels.arrays import SQUARES, STATES
from asterism.kernels.buffers import is_corrected


@kernel
def prolong(problem, moments, fine_problem, fine_moments, coarse_of_fine, ratios):
    """Start the fine moments from the coarse ones, spread over each coarse step by width."""
    n_nodes = problem.node.shape[0] - 1
    squares = problem.node[n_nodes, SQUARES]
    for d in range(coarse_of_fine.shape[0]):
        c = coarse_of_fine[d]
        ratio = ratios[d]
        first = problem.step_start[c]
        steps = problem.step_start[c + 1] - first
        fine_first = fine_problem.step_start[d]
        for row in range(squares):
            old = first * squares + row * steps
            new = fine_first * squares + row * steps * ratio
            for k in range(steps):
                mean = moments[old + k] / problem.width[first + k]
                for j in range(k * ratio, (k + 1) * ratio):
                    fine_moments[new + j] = mean * fine_problem.width[fine_first + j]


@inner
def _mean(problem, moments, first, row_begin, steps, k):
    """A moment as the integral over its step, whatever the step keeps (see ``stretches``)."""
    value = moments[row_begin + k]
    if not is_corrected(problem):
        return value
    # the inverse of the correction, to the order of the scheme
    corrected = 0.0
    for i in range(max(0, 2 - k), min(5, steps + 2 - k)):
        corrected += problem.to_middle[i, first + k] * moments[row_begin + k + i - 2]
    return 2.0 * value - corrected


@kernel
def largest_change(problem, moments, fine_problem, fine_moments, coarse_of_fine, ratios, change):
    """Per trajectory, the largest difference between the two grids in a coarse step's marginals."""
    n_nodes = problem.node.shape[0] - 1
    squares = problem.node[n_nodes, SQUARES]
    for d in range(coarse_of_fine.shape[0]):
        c = coarse_of_fine[d]
        ratio = ratios[d]
        first = problem.step_start[c]
        steps = problem.step_start[c + 1] - first
        fine_first = fine_problem.step_start[d]
        fine_steps = steps * ratio
        largest = 0.0
        for node in range(n_nodes):
            size = problem.node[node, STATES]
            for x in range(size):
                row = problem.node[node, SQUARES] + x * size + x
                old = first * squares + row * steps
                new = fine_first * squares + row * fine_steps
                for k in range(steps):
                    total = 0.0
                    for j in range(k * ratio, (k + 1) * ratio):
                        total += _mean(fine_problem, fine_moments, fine_first, new, fine_steps, j)
                    before = _mean(problem, moments, first, old, steps, k)
                    largest = max(largest, abs(total - before) / problem.width[first + k])
        change[d] = largest
