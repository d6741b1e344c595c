"""The steps of one node: generators and propagators before the messages pass, moments after.

Updating a node: average its generator over its parents and collect ψ from its children
(``_averages.py``), correct it where steps are smooth (``_fourth_order.py``), propagate every step
(``numerics/_step.py``, ``numerics/_matrix_step.py``), run the messages (``_messages.py``), and
store the moments W of every step: integrals over it or, where steps are smooth, its length times
the value in its middle. For mean field the off-diagonal moments are multiplied by the averaged
rates, so that they hold the expected transitions of the step.
"""

from __future__ import annotations

import math

from numba import boolean, float64, int64
from numba.core import types

from asterism.numerics._jit import inlined, inner, unit
from asterism.numerics._matrix_step import (
    general_moments,
    general_propagator,
)
from asterism.numerics._step import (
    largest_of,
    two_state_moments,
    two_state_series,
    two_state_stiff,
    two_state_stiff_moments,
)
from asterism.star._averages import (
    add_pull_of_child,
    average_over_parents,
    configuration_weights,
)
from asterism.star._buffers import (
    BLOCK,
    CHILD,
    CHILDREN,
    CONFIGURATIONS,
    DWELL,
    FIRST,
    IS_EXOGENOUS,
    IS_SET,
    LAST,
    PARENTS,
    PROBLEM,
    SLOT,
    SPAN,
    STATES,
    TABLE,
    WORK,
    backward_row,
    forward_row,
    generator_row,
    is_corrected,
    moments_begin,
    pull_row,
    scale_row,
    whole_vectors,
)
from asterism.star._fourth_order import (
    CORRECT_GENERATOR,
    ENTER_STRETCHES,
    FILL_ENDS,
    MOMENTS_TO_MIDDLE,
    fourth_order,
)
from asterism.star._links import (
    JUMP_STATISTICS,
    ask_links,
)

# sums over time may be reordered, so that they vectorise
_REORDER = {"contract", "reassoc", "nsz"}


@unit((int64, float64[::1], int64, int64, int64, WORK))
def propagate_block(size, width, block, count, padded, work):
    """Propagators of a block of steps from its generators, both in ``work.steps``.

    ``padded`` steps may be computed, though only ``count`` are used.
    """
    rows = size * size
    here = work.steps[block]
    generator = here[:rows]
    propagator = here[rows : 2 * rows]
    log_scale = here[scale_row(size)]
    if size == 2:
        coefficients = here[8:11]
        closed = two_state_series(
            generator, width, count, padded, coefficients, propagator, log_scale
        )
        work.is_closed[block] = closed
        if not closed:
            two_state_stiff(generator, width, count, coefficients, propagator, log_scale)
    else:
        general_propagator(
            work.addresses, generator, width, size, count, propagator, log_scale, work.tile
        )


@unit((int64, float64[::1], int64, int64, int64, boolean, WORK))
def step_moments(size, width, first, count, padded, clamped, work):
    """Moments W of a block of steps, from ``work.steps`` to ``work.matrices[3]``."""
    rows = size * size
    here = work.steps[first // BLOCK]
    generator = here[:rows]
    forward = here[forward_row(size) : forward_row(size) + size]
    backward = here[backward_row(size) : backward_row(size) + size]
    fresh = work.matrices[3]
    if size == 2:
        coefficients = here[8:11]
        if work.is_closed[first // BLOCK]:
            two_state_moments(generator, width, padded, coefficients, forward, backward, fresh)
        else:
            two_state_stiff_moments(generator, width, count, coefficients, forward, backward, fresh)
    else:
        general_moments(
            work.addresses, generator, width, size, count, forward, backward, fresh, work.tile
        )
    if clamped:
        for k in range(count):
            state = work.clamp[first + k]
            if state >= 0:
                for row in range(rows):
                    fresh[row, k] = 0.0
                fresh[state * size + state, k] = width[k]


@inner
def copy_set_steps(problem, trajectory, node, first, count, rows, source, target):
    """Copy the first rows of a block, on the steps on which the experimenter held the node."""
    pair = trajectory * (problem.node.shape[0] - 1) + node
    for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
        if problem.span[i, IS_SET] == 1:
            begin = max(problem.span[i, FIRST], first)
            for k in range(begin, min(problem.span[i, LAST], first + count)):
                for row in range(rows):
                    target[row, k - first] = source[row, k - first]


@inner
def clear_set_steps(problem, trajectory, node, first, count, rows, values):
    """Zero the first rows of a block, on the steps on which the experimenter held the node."""
    pair = trajectory * (problem.node.shape[0] - 1) + node
    for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
        if problem.span[i, IS_SET] == 1:
            begin = max(problem.span[i, FIRST], first)
            for k in range(begin, min(problem.span[i, LAST], first + count)):
                for row in range(rows):
                    values[row, k - first] = 0.0


@unit((PROBLEM, WORK, float64[::1], float64[::1], int64, int64, int64, int64, float64[:, ::1]))
def collect_pull(problem, work, moments, table, trajectory, node, first, count, pull):
    """ψ of the node on steps first … first+count−1, from all its children."""
    size = problem.node[node, STATES]
    for x in range(size):
        for k in range(count):
            pull[x, k] = 0.0
    for edge in range(problem.node[node, CHILDREN], problem.node[node + 1, CHILDREN]):
        child = problem.edge[edge, CHILD]
        # a child that is held tells its parents nothing: what it adds then is taken back
        room = work.matrices[0]
        copy_set_steps(problem, trajectory, child, first, count, size, pull, room)
        slot = problem.edge[edge, SLOT]
        add_pull_of_child(
            problem, work, moments, table, trajectory, child, slot, first, count, pull
        )
        copy_set_steps(problem, trajectory, child, first, count, size, room, pull)
    inverse = work.inverse_width[first : first + count]
    for x in range(size):
        for k in range(count):
            pull[x, k] *= inverse[k]


@unit((PROBLEM, WORK, float64[::1], float64[::1], boolean, boolean, int64, int64))
def node_generator(problem, work, moments, table, geometric, with_pull, trajectory, node):
    """Averaged generator (off-diagonal) with exit rates and ψ on the diagonal, and its propagator.

    The equations: A(x,y) = E[R(x,y)] (star) or exp E[ln R(x,y)] (mean field, ``geometric``),
    A(x,x) = E[R(x,x)] + ψ(x). ψ itself is kept too.
    """
    size = problem.node[node, STATES]
    rows = size * size
    corrected = is_corrected(problem)
    source = generator_row(problem, size)
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        steps_here = work.steps[block]
        average = steps_here[source : source + rows]
        pull = steps_here[pull_row(size) : pull_row(size) + size]
        average_over_parents(problem, work, moments, table, trajectory, node, first, count, average)
        if geometric:
            for x in range(size):
                for y in range(size):
                    if x != y:
                        for k in range(count):
                            average[x * size + y, k] = math.exp(average[x * size + y, k])
        if with_pull:
            collect_pull(
                work.addresses, problem, work, moments, table, trajectory, node, first, count, pull
            )
            for x in range(size):
                for k in range(count):
                    average[x * size + x, k] += pull[x, k]
        else:
            for x in range(size):
                for k in range(count):
                    pull[x, k] = 0.0
        if corrected:
            fourth_order(
                work.addresses, problem, work, CORRECT_GENERATOR, size, trajectory, first, count
            )
        padded = whole_vectors(count)
        width = work.width[first : first + padded]
        propagate_block(work.addresses, size, width, block, count, padded, work)
    if corrected:
        fourth_order(work.addresses, problem, work, FILL_ENDS, size, trajectory, 0, steps)


@inlined
def _larger(a, b):
    """The larger of two numbers, up to rounding; unlike a maximum it vectorises."""
    return 0.5 * (a + b + abs(a - b))


@unit(
    (PROBLEM, WORK, float64[::1], boolean, float64, boolean, int64, int64),
    returns=types.UniTuple(float64, 2),
    fastmath=_REORDER,
)
def store_moments(problem, work, moments, geometric, damping, clamped, trajectory, node):
    """W of each step, mixed into ``moments`` with weight ``damping``; (residual, ∫ Σ m ψ).

    The residual is the largest change of an averaged marginal or of a step's expected transitions.
    """
    size = problem.node[node, STATES]
    rows = size * size
    begin = moments_begin(problem, trajectory, node)
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    residual = 0.0
    pull_mass = 0.0
    corrected = is_corrected(problem)
    source = generator_row(problem, size)
    fresh = work.matrices[3]
    if corrected:
        fresh = work.matrices[2]
        fourth_order(work.addresses, problem, work, ENTER_STRETCHES, size, trajectory, 0, steps)
    keep = 1.0 - damping
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        padded = whole_vectors(count)
        width = work.width[first : first + padded]
        steps_here = work.steps[block]
        generator = steps_here[source : source + rows]
        pull = steps_here[pull_row(size) : pull_row(size) + size]
        step_moments(work.addresses, size, width, first, count, padded, clamped, work)
        if corrected:
            fourth_order(
                work.addresses, problem, work, MOMENTS_TO_MIDDLE, size, trajectory, first, count
            )
            # ∫ m ψ from values in the middle
            begin_step = first_step + first
            quadrature = problem.quadrature[begin_step : begin_step + count]
            for x in range(size):
                here = pull[x]
                for k in range(count):
                    here[k] *= quadrature[k]
        inverse = work.inverse_width[first : first + count]
        change = work.matrices[1, 0]  # the largest of each step, over pairs of states
        for k in range(count):
            change[k] = 0.0
        for x in range(size):
            for y in range(size):
                row = x * size + y
                new = fresh[row]
                rate = generator[row]
                place = begin + row * steps + first
                old = moments[place : place + count]
                if x == y:
                    here = pull[x]
                    for k in range(count):
                        pull_mass += new[k] * here[k]
                        moved = abs(new[k] - old[k]) * inverse[k]
                        change[k] = _larger(change[k], moved)
                        old[k] = keep * old[k] + damping * new[k]
                elif geometric:
                    for k in range(count):
                        value = new[k] * rate[k]
                        change[k] = _larger(change[k], abs(value - old[k]))
                        old[k] = keep * old[k] + damping * value
                else:
                    for k in range(count):
                        moved = abs(new[k] - old[k]) * rate[k]
                        change[k] = _larger(change[k], moved)
                        old[k] = keep * old[k] + damping * new[k]
        residual = max(residual, largest_of(change, count))
    return residual, pull_mass


@inner(fastmath=_REORDER)
def _add_node_statistics(
    problem, work, rates, geometric, moments, trajectory, node, dwell, transitions
):
    """Add T^u(x) = ∫ m m^u and M^u(x,y) = ∫ τ^u of one node and trajectory to the flat tables."""
    size = problem.node[node, STATES]
    rows = size * size
    begin = moments_begin(problem, trajectory, node)
    table = problem.node[node, TABLE]
    dwell_begin = problem.node[node, DWELL]
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    weights = work.configurations[0]
    no_parent_fixed = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        configuration_weights(
            work.addresses, problem, work, moments, trajectory, node, no_parent_fixed, first, count
        )
        if is_corrected(problem):
            begin_step = problem.step_start[trajectory] + first
            quadrature = problem.quadrature[begin_step : begin_step + count]
            for u in range(problem.node[node, CONFIGURATIONS]):
                for k in range(count):
                    weights[u, k] *= quadrature[k]
        n_configurations = problem.node[node, CONFIGURATIONS]
        clear_set_steps(problem, trajectory, node, first, count, n_configurations, weights)
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


_ROW = float64[::1]


@unit((PROBLEM, WORK, _ROW, boolean, _ROW, int64, _ROW, _ROW))
def add_statistics(problem, work, rates, geometric, moments, trajectory, dwell, transitions):
    """Add the expected statistics of one trajectory to flat tables."""
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 0:
            _add_node_statistics(
                problem, work, rates, geometric, moments, trajectory, node, dwell, transitions
            )
    if problem.link_start[trajectory + 1] > problem.link_start[trajectory]:
        ask_links(work.addresses, problem, rates, JUMP_STATISTICS, trajectory, transitions)
