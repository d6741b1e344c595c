"""The steps of one node: generators and propagators before the messages pass, moments after.

Updating a node: average its generator over its parents and collect ψ from its children
(``averages``), correct it where steps are smooth (``corrections``), propagate every step
(``propagate``), run the messages (``passes``), and store the moments W of every step: integrals
over it or, where steps are smooth, its length times the value in its middle. For mean field the
off-diagonal moments are multiplied by the averaged rates, i.e. they hold the expected transitions
of the step.
"""

from __future__ import annotations

import math

from asterism.numerics._jit import inlined, inner
from asterism.numerics._matrix_step import (
    MOMENTS,
    PROPAGATOR,
    separate_moments,
    separate_propagator,
)
from asterism.numerics._step import (
    largest_of,
    two_state_moments,
    two_state_series,
)
from asterism.star._averages import (
    add_pull_of_child,
    average_over_parents,
)
from asterism.star._buffers import (
    BLOCK,
    CHILD,
    CHILDREN,
    FIRST,
    IS_SET,
    LAST,
    SLOT,
    SPAN,
    STATE,
    STATES,
    backward_row,
    forward_row,
    generator_row,
    is_corrected,
    middle_row,
    moments_begin,
    pull_row,
    scale_row,
    whole_vectors,
)
from asterism.star._fourth_order import (
    correct_generator,
    enter_stretches,
    fill_edges,
    moments_to_middle,
)

# sums over time may be reordered, so that they vectorise
_REORDER = {"contract", "reassoc", "nsz"}


@inner(inline="always")
def propagate_block(size, width, block, count, padded, work):
    """Propagators of a block of steps from its generators, both in ``work.steps``.

    ``padded`` steps may be computed, though only ``count`` are used.
    """
    rows = size * size
    here = work.steps[block]
    generator = here[:rows]
    propagator = here[rows : 2 * rows]
    log_scale = here[scale_row(size)]
    closed = False
    if size == 2:
        coefficients = here[2 * rows : 2 * rows + 3]
        closed = two_state_series(
            generator, width, count, padded, coefficients, propagator, log_scale
        )
    work.is_closed[block] = closed
    if not closed:
        separate_propagator(
            work.addresses[PROPAGATOR],
            (generator, width, size, count, propagator, log_scale, work.tile),
        )


@inner(inline="always")
def step_moments(size, width, first, count, padded, clamped, work):
    """Moments W of a block of steps, from ``work.steps`` to ``work.matrices[3]``."""
    rows = size * size
    here = work.steps[first // BLOCK]
    generator = here[:rows]
    forward = here[forward_row(size) : forward_row(size) + size]
    backward = here[backward_row(size) : backward_row(size) + size]
    fresh = work.matrices[3]
    if work.is_closed[first // BLOCK]:
        coefficients = here[2 * rows : 2 * rows + 3]
        two_state_moments(generator, width, padded, coefficients, forward, backward, fresh)
    else:
        separate_moments(
            work.addresses[MOMENTS],
            (generator, width, size, count, forward, backward, fresh, work.tile),
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


@inlined
def collect_pull(problem, moments, table, trajectory, node, first, count, work, pull):
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
        add_pull_of_child(
            problem,
            moments,
            table,
            trajectory,
            child,
            problem.edge[edge, SLOT],
            first,
            count,
            work.inverse_width,
            work.configurations[0],
            work.configurations[1],
            pull,
        )
        copy_set_steps(problem, trajectory, child, first, count, size, room, pull)
    inverse = work.inverse_width[first : first + count]
    for x in range(size):
        for k in range(count):
            pull[x, k] *= inverse[k]


@inlined
def node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work):
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
        average_over_parents(
            problem,
            moments,
            table,
            trajectory,
            node,
            first,
            count,
            work.inverse_width,
            work.configurations[0],
            work.configurations[1],
            average,
        )
        if geometric:
            for x in range(size):
                for y in range(size):
                    if x != y:
                        for k in range(count):
                            average[x * size + y, k] = math.exp(average[x * size + y, k])
        if with_pull:
            collect_pull(problem, moments, table, trajectory, node, first, count, work, pull)
            for x in range(size):
                for k in range(count):
                    average[x * size + x, k] += pull[x, k]
        else:
            for x in range(size):
                for k in range(count):
                    pull[x, k] = 0.0
        if corrected:
            correct_generator(problem, size, trajectory, block, count, work)
        padded = whole_vectors(count)
        width = work.width[first : first + padded]
        propagate_block(size, width, block, count, padded, work)
    if corrected:
        fill_edges(problem, size, trajectory, work)


@inlined
def apply_spans(problem, trajectory, node, work):
    """On steps where the state is known, keep only that state alive; True if there are any."""
    n_nodes = problem.node.shape[0] - 1
    pair = trajectory * n_nodes + node
    begin = problem.pair[pair, SPAN]
    end = problem.pair[pair + 1, SPAN]
    if begin == end:
        return False
    size = problem.node[node, STATES]
    rows = size * size
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    corrected = is_corrected(problem)
    for k in range(steps):
        work.clamp[k] = -1
    for i in range(begin, end):
        state = problem.span[i, STATE]
        is_set = problem.span[i, IS_SET] == 1
        diagonal = state * size + state
        for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
            work.clamp[k] = state
            block = k // BLOCK
            j = k % BLOCK
            for row in range(size * size):
                work.steps[block, rows + row, j] = 0.0
            work.steps[block, rows + diagonal, j] = 1.0
            exit_rate = work.steps[block, diagonal, j]
            if corrected:
                # nothing moves: the integral over time is all there is
                exit_rate = work.steps[block, middle_row(size) + diagonal, j]
                exit_rate *= problem.quadrature[first_step + k]
            if is_set:
                # whatever the state was, it is now this one; only the children have a say
                for x in range(size):
                    work.steps[block, rows + x * size + state, j] = 1.0
                exit_rate = work.steps[block, pull_row(size) + state, j]
                if corrected:
                    exit_rate *= problem.quadrature[first_step + k]
            work.steps[block, scale_row(size), j] = exit_rate * problem.width[first_step + k]
    return True


@inlined
def _larger(a, b):
    """The larger of two numbers, up to rounding; unlike a maximum it vectorises."""
    return 0.5 * (a + b + abs(a - b))


@inlined(fastmath=_REORDER)
def store_moments(problem, moments, geometric, damping, clamped, trajectory, node, work):
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
        enter_stretches(problem, size, trajectory, work)
    keep = 1.0 - damping
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        padded = whole_vectors(count)
        width = work.width[first : first + padded]
        steps_here = work.steps[block]
        generator = steps_here[source : source + rows]
        pull = steps_here[pull_row(size) : pull_row(size) + size]
        step_moments(size, width, first, count, padded, clamped, work)
        if corrected:
            moments_to_middle(problem, size, trajectory, first, count, work)
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
