"""Between two grids of which one cuts every step of the other into equal numbers of parts."""

from __future__ import annotations

from asterism.kernels._jit import kernel
from asterism.kernels.arrays import SQUARES, STATES


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
        fine_begin = fine_problem.step_start[d] * squares
        largest = 0.0
        for node in range(n_nodes):
            size = problem.node[node, STATES]
            for x in range(size):
                row = problem.node[node, SQUARES] + x * size + x
                old = first * squares + row * steps
                new = fine_begin + row * steps * ratio
                for k in range(steps):
                    total = 0.0
                    for j in range(ratio):
                        total += fine_moments[new + k * ratio + j]
                    difference = abs(total - moments[old + k]) / problem.width[first + k]
                    largest = max(largest, difference)
        change[d] = largest
