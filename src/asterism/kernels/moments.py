"""Where the moments W of a trajectory lie, how they begin, and what makes them legal.

Moments are flat: for every trajectory and node S² rows, one after the other, one entry per step.
"""

from __future__ import annotations

from asterism.kernels._jit import inlined, inner
from asterism.kernels.arrays import FIRST, LAST, SPAN, SQUARES, STATE, STATES


@inlined
def moments_begin(problem, trajectory, node):
    """Where a node's moments begin: S² rows, one after the other, each K steps long."""
    first = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first
    n_nodes = problem.node.shape[0] - 1
    return first * problem.node[n_nodes, SQUARES] + problem.node[node, SQUARES] * steps


@inner
def moments_range(problem, trajectory):
    """First and past-the-last entry of a trajectory's moments."""
    squares = problem.node[problem.node.shape[0] - 1, SQUARES]
    return problem.step_start[trajectory] * squares, problem.step_start[trajectory + 1] * squares


@inner
def start_moments(problem, trajectory, moments):
    """Uninformed moments: uniform marginals; known states where they are known throughout."""
    n_nodes = problem.node.shape[0] - 1
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for row in range(size * size):
            for k in range(steps):
                moments[begin + row * steps + k] = problem.width[first_step + k] / size
        pair = trajectory * n_nodes + node
        for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
            state = problem.span[i, STATE]
            for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
                for row in range(size * size):
                    moments[begin + row * steps + k] = 0.0
                known = begin + (state * size + state) * steps
                moments[known + k] = problem.width[first_step + k]


@inner
def project_moments(problem, trajectory, moments):
    """Make mixed moments legal: no negative entry, each step's diagonal sums to its width."""
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for i in range(begin, begin + size * size * steps):
            moments[i] = max(moments[i], 0.0)
        for k in range(steps):
            total = 0.0
            for x in range(size):
                total += moments[begin + (x * size + x) * steps + k]
            width = problem.width[first_step + k]
            for x in range(size):
                diagonal = begin + (x * size + x) * steps + k
                if total > 0.0:
                    moments[diagonal] *= width / total
                else:
                    moments[diagonal] = width / size


@inner
def scale_of_moments(problem, geometric, trajectory, scale):
    """What makes a trajectory's changes dimensionless: times are measured in steps.

    Mean field's off-diagonal moments are numbers of transitions already.
    """
    first = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for row in range(size * size):
            begin = (problem.node[node, SQUARES] + row) * steps
            is_number = geometric and row // size != row % size
            for k in range(steps):
                scale[begin + k] = 1.0 if is_number else 1.0 / problem.width[first + k]
