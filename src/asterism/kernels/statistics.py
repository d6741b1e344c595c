"""Expected dwell times and transitions from the moments of solved trajectories."""

from __future__ import annotations

from asterism.kernels._jit import inner
from asterism.kernels.arrays import (
    CONFIGURATIONS,
    DWELL,
    IS_EXOGENOUS,
    IS_JUMP,
    PARENTS,
    STATES,
    TABLE,
)
from asterism.kernels.averages import configuration_weights
from asterism.kernels.buffers import BLOCK, is_corrected
from asterism.kernels.links import add_jump_statistics
from asterism.kernels.moments import moments_begin

_REORDER = {"contract", "reassoc", "nsz"}


@inner(fastmath=_REORDER)
def _add_node_statistics(
    problem, rates, geometric, moments, trajectory, node, dwell, transitions, work
):
    """Add T^u(x) = ∫ m m^u and M^u(x,y) = ∫ τ^u of one node and trajectory to the flat tables."""
    size = problem.node[node, STATES]
    rows = size * size
    begin = moments_begin(problem, trajectory, node)
    table = problem.node[node, TABLE]
    dwell_begin = problem.node[node, DWELL]
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    weights = work.configurations[0]
    nobody = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        configuration_weights(
            problem,
            moments,
            trajectory,
            node,
            nobody,
            first,
            count,
            work.inverse_width,
            weights,
            work.configurations[1],
        )
        if is_corrected(problem):
            begin_step = problem.step_start[trajectory] + first
            quadrature = problem.quadrature[begin_step : begin_step + count]
            for u in range(problem.node[node, CONFIGURATIONS]):
                for k in range(count):
                    weights[u, k] *= quadrature[k]
        for u in range(problem.node[node, CONFIGURATIONS]):
            for row in range(rows):
                total = 0.0
                place = begin + row * steps + first
                here = moments[place : place + count]
                for k in range(count):
                    total += weights[u, k] * here[k]
                x = row // size
                if row == x * size + x:
                    dwell[dwell_begin + u * size + x] += total
                elif geometric:
                    transitions[table + u * rows + row] += total
                else:
                    transitions[table + u * rows + row] += rates[table + u * rows + row] * total


@inner
def add_statistics(problem, rates, geometric, moments, trajectory, dwell, transitions, work):
    """Add the expected statistics of one trajectory to flat tables."""
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 0:
            _add_node_statistics(
                problem, rates, geometric, moments, trajectory, node, dwell, transitions, work
            )
    for link in range(problem.link_start[trajectory], problem.link_start[trajectory + 1]):
        if problem.link[link, IS_JUMP] == 1:
            add_jump_statistics(problem, link, transitions)
