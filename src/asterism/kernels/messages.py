"""Messages of one node along one trajectory, given the moments of its neighbours.

Updating a node: average its generator over its parents and collect ψ from its children
(``averages``), run the backward message from the end to the start and the forward message back
(``propagate``), and store the moments W of every step. For mean field the off-diagonal moments
are multiplied by the averaged rates, i.e. they hold the expected transitions of the step.

Steps are handled in blocks with time innermost. Messages are rescaled only when they leave a
wide range; what matters, f ρ / Σ f ρ, does not depend on their scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.kernels._jit import inner
from asterism.kernels.arrays import (
    CHILD,
    CHILDREN,
    CONFIGURATIONS,
    FIRST,
    INITIAL,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    LINK,
    MARGINAL,
    MARK,
    MEMBER,
    MEMBERS,
    POINT,
    SLOT,
    SPAN,
    STATE,
    STATES,
    TO,
    VALUES,
)
from asterism.kernels.averages import (
    add_pull_of_child,
    average_over_parents,
    moments_begin,
)
from asterism.kernels.links import soft_log_likelihood
from asterism.kernels.propagate import (
    general_moments,
    general_propagator,
    two_state_moments,
    two_state_series,
)

BLOCK = 256
# sums and maxima over time may be reordered, so that they vectorise
_REORDER = {"contract", "reassoc", "nsz", "nnan"}
_LARGE = 1e30
_SMALL = 1e-30

FloatArray = NDArray[np.float64]


class Work(NamedTuple):
    """Buffers of one thread."""

    steps: FloatArray
    """(blocks, rows, BLOCK): what is kept of every step of the node at hand. With S states the
    rows are: generator (S²), propagator (S²), coefficients (3), log scale (1), ψ (S), forward
    message at the start of the step (S), backward message at its end (S)."""
    is_closed: NDArray[np.bool_]
    """Per block, whether the closed form of two states applied."""
    inverse_width: FloatArray
    clamp: NDArray[np.int64]
    """Known state on each step, or −1; valid only while a node with spans is at hand."""
    configurations: FloatArray
    """(2, configurations, BLOCK): weights, and room to compute them."""
    matrices: FloatArray
    """(9, S², BLOCK): room for matrix functions; the last holds fresh moments."""
    marks: FloatArray
    """(marks, S + 1): values of the node's marks and the logarithm of their scale."""
    message: FloatArray
    """(2, S): the running message and one more vector."""
    starts: FloatArray
    """Marginals at the start of the trajectory at hand, one entry per node and state."""


@inner(allocates=True)
def make_work(problem, max_steps):
    """Allocate the buffers for trajectories of up to ``max_steps`` steps."""
    size = 0
    n_configurations = 1
    for n in range(problem.node.shape[0] - 1):
        size = max(size, problem.node[n, STATES])
        n_configurations = max(n_configurations, problem.node[n, CONFIGURATIONS])
    n_marks = 1
    for i in range(problem.pair.shape[0] - 1):
        n_marks = max(n_marks, problem.pair[i + 1, MARK] - problem.pair[i, MARK])
    blocks = (max_steps + BLOCK - 1) // BLOCK
    rows = size * size
    return Work(
        np.zeros((blocks, 2 * rows + 4 + 3 * size, BLOCK)),
        np.zeros(blocks, dtype=np.bool_),
        np.zeros(max_steps),
        np.zeros(max_steps, dtype=np.int64),
        np.zeros((2, n_configurations + 1, BLOCK)),
        np.zeros((9, rows, BLOCK)),
        np.zeros((n_marks, size + 1)),
        np.zeros((2, size)),
        np.zeros(problem.node[problem.node.shape[0] - 1, INITIAL]),
    )


@inner
def prepare_trajectory(problem, trajectory, work):
    """Fill the reciprocal step widths of this trajectory."""
    first = problem.step_start[trajectory]
    for k in range(problem.step_start[trajectory + 1] - first):
        work.inverse_width[k] = 1.0 / problem.width[first + k]


@inner(inline="always")
def propagate_block(size, width, block, count, work):
    """Propagators of a block of steps from its generators, both in ``work.steps``."""
    rows = size * size
    here = work.steps[block]
    generator = here[:rows]
    propagator = here[rows : 2 * rows]
    log_scale = here[2 * rows + 3]
    closed = False
    if size == 2:
        coefficients = here[2 * rows : 2 * rows + 3]
        closed = two_state_series(generator, width, count, coefficients, propagator, log_scale)
    work.is_closed[block] = closed
    if not closed:
        general_propagator(generator, width, size, count, propagator, log_scale, work.matrices)


@inner(inline="always")
def step_moments(size, width, first, count, clamped, work):
    """Moments W of a block of steps, from ``work.steps`` to ``work.matrices[8]``."""
    rows = size * size
    here = work.steps[first // BLOCK]
    generator = here[:rows]
    forward = here[2 * rows + 4 + size : 2 * rows + 4 + 2 * size]
    backward = here[2 * rows + 4 + 2 * size : 2 * rows + 4 + 3 * size]
    fresh = work.matrices[8]
    if work.is_closed[first // BLOCK]:
        coefficients = here[2 * rows : 2 * rows + 3]
        two_state_moments(generator, width, count, coefficients, forward, backward, fresh)
    else:
        general_moments(generator, width, size, count, forward, backward, fresh, work.matrices)
    if clamped:
        for k in range(count):
            state = work.clamp[first + k]
            if state >= 0:
                for row in range(rows):
                    fresh[row, k] = 0.0
                fresh[state * size + state, k] = width[k]


@inner
def node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work):
    """Averaged generator (off-diagonal) with exit rates and ψ on the diagonal, and its propagator.

    The equations: A(x,y) = E[R(x,y)] (star) or exp E[ln R(x,y)] (mean field, ``geometric``),
    A(x,x) = E[R(x,x)] + ψ(x). ψ itself is kept too.
    """
    size = problem.node[node, STATES]
    rows = size * size
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        steps_here = work.steps[block]
        generator = steps_here[:rows]
        pull = steps_here[2 * rows + 4 : 2 * rows + 4 + size]
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
            generator,
        )
        if geometric:
            for x in range(size):
                for y in range(size):
                    if x != y:
                        for k in range(count):
                            generator[x * size + y, k] = math.exp(generator[x * size + y, k])
        for x in range(size):
            for k in range(count):
                pull[x, k] = 0.0
        if with_pull:
            for edge in range(problem.node[node, CHILDREN], problem.node[node + 1, CHILDREN]):
                add_pull_of_child(
                    problem,
                    moments,
                    table,
                    trajectory,
                    problem.edge[edge, CHILD],
                    problem.edge[edge, SLOT],
                    first,
                    count,
                    work.inverse_width,
                    work.configurations[0],
                    work.configurations[1],
                    pull,
                )
            inverse = work.inverse_width[first : first + count]
            for x in range(size):
                for k in range(count):
                    pull[x, k] *= inverse[k]
                    generator[x * size + x, k] += pull[x, k]
        width = problem.width[first_step + first : first_step + first + count]
        propagate_block(size, width, block, count, work)


@inner
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
    for k in range(steps):
        work.clamp[k] = -1
    for i in range(begin, end):
        state = problem.span[i, STATE]
        diagonal = state * size + state
        for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
            work.clamp[k] = state
            block = k // BLOCK
            j = k % BLOCK
            for row in range(size * size):
                work.steps[block, rows + row, j] = 0.0
            work.steps[block, rows + diagonal, j] = 1.0
            work.steps[block, 2 * rows + 3, j] = (
                work.steps[block, diagonal, j] * problem.width[first_step + k]
            )
    return True


@inner
def evaluate_marks(problem, rates, trajectory, node, work):
    """Values and log scale of each of the node's marks, soft ones from the current marginals."""
    size = problem.node[node, STATES]
    pair = trajectory * (problem.node.shape[0] - 1) + node
    begin = problem.pair[pair, MARK]
    for i in range(begin, problem.pair[pair + 1, MARK]):
        row = i - begin
        if problem.mark[i, KIND] == LIKELIHOOD:
            for x in range(size):
                work.marks[row, x] = problem.likelihood[problem.mark[i, VALUES] + x]
            work.marks[row, size] = problem.mark_scale[i]
            continue
        values = work.marks[row]
        soft_log_likelihood(problem, rates, problem.mark[i, LINK], problem.mark[i, MEMBER], values)
        largest = -math.inf
        for x in range(size):
            largest = max(largest, values[x])
        work.marks[row, size] = largest
        for x in range(size):
            values[x] = math.exp(values[x] - largest)


@inner
def _rescaled(message, size):
    """Bring a message back to order one; returns the logarithm taken out (−inf if all zero)."""
    largest = 0.0
    for x in range(size):
        largest = max(largest, message[x])
    if largest == 0.0:
        return -math.inf
    for x in range(size):
        message[x] /= largest
    return math.log(largest)


@inner
def backward_pass(problem, initial, trajectory, node, work):
    """ρ from the end to the start; returns ln Z and the impossible point (or −1).

    Kept per step: ρ at its end, with the evidence there included.
    """
    size = problem.node[node, STATES]
    rows = size * size
    backward = 2 * rows + 4 + 2 * size
    pair = trajectory * (problem.node.shape[0] - 1) + node
    begin = problem.pair[pair, MARK]
    mark = problem.pair[pair + 1, MARK] - 1
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    message = work.message[0]
    for x in range(size):
        message[x] = 1.0
    log_norm = 0.0
    point = steps
    while True:
        marked = False
        while mark >= begin and problem.mark[mark, POINT] == point:
            marked = True
            values = work.marks[mark - begin]
            if problem.mark[mark, KIND] == JUMP:
                after = message[problem.link[problem.mark[mark, LINK], TO]]
                for x in range(size):
                    message[x] = values[x] * after
            else:
                for x in range(size):
                    message[x] *= values[x]
            log_norm += work.marks[mark - begin, size]
            mark -= 1
        if marked:
            log_norm += _rescaled(message, size)
            if log_norm == -math.inf:
                return log_norm, point
        if point == 0:
            break
        stop = 0
        if mark >= begin:
            stop = problem.mark[mark, POINT]
        if size == 2:
            r0 = message[0]
            r1 = message[1]
            for k in range(point - 1, stop - 1, -1):
                block = k // BLOCK
                j = k % BLOCK
                work.steps[block, backward + 0, j] = r0
                work.steps[block, backward + 1, j] = r1
                n0 = work.steps[block, rows + 0, j] * r0 + work.steps[block, rows + 1, j] * r1
                n1 = work.steps[block, rows + 2, j] * r0 + work.steps[block, rows + 3, j] * r1
                r0 = n0
                r1 = n1
                total = r0 + r1
                if total > _LARGE or total < _SMALL:
                    if not total > 0.0:
                        return -math.inf, k
                    r0 /= total
                    r1 /= total
                    log_norm += math.log(total)
            message[0] = r0
            message[1] = r1
        else:
            next_message = work.message[1]
            for k in range(point - 1, stop - 1, -1):
                block = k // BLOCK
                j = k % BLOCK
                total = 0.0
                for x in range(size):
                    work.steps[block, backward + x, j] = message[x]
                    value = 0.0
                    for y in range(size):
                        value += work.steps[block, rows + x * size + y, j] * message[y]
                    next_message[x] = value
                    total += value
                for x in range(size):
                    message[x] = next_message[x]
                if total > _LARGE or total < _SMALL:
                    log_norm += _rescaled(message, size)
                    if log_norm == -math.inf:
                        return log_norm, k
        point = stop
    for block in range((steps + BLOCK - 1) // BLOCK):
        for k in range(min(BLOCK, steps - block * BLOCK)):
            log_norm += work.steps[block, 2 * rows + 3, k]
    total = 0.0
    for x in range(size):
        total += initial[problem.node[node, INITIAL] + x] * message[x]
    if not total > 0.0:
        return -math.inf, 0
    return log_norm + math.log(total), -1


@inner
def _marginal_at_point(size, steps, point, message, work):
    """m at a grid point from the forward message behind the evidence there."""
    rows = size * size
    backward = 2 * rows + 4 + 2 * size
    total = 0.0
    for x in range(size):
        after = 1.0
        if point < steps:
            block = point // BLOCK
            j = point % BLOCK
            after = 0.0
            for y in range(size):
                after += (
                    work.steps[block, rows + x * size + y, j] * work.steps[block, backward + y, j]
                )
        work.message[1, x] = message[x] * after
        total += work.message[1, x]
    for x in range(size):
        work.message[1, x] /= total


@inner
def forward_pass(problem, initial, trajectory, node, work):
    """f from the start to the end; returns (E[ln L] of fixed marks, −KL(m(0) ‖ p0)).

    Kept per step: f at its start, with the evidence there included. Marginals at the times of
    linked evidence are stored with their links.
    """
    size = problem.node[node, STATES]
    rows = size * size
    forward = 2 * rows + 4 + size
    pair = trajectory * (problem.node.shape[0] - 1) + node
    begin = problem.pair[pair, MARK]
    end = problem.pair[pair + 1, MARK]
    mark = begin
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    message = work.message[0]
    for x in range(size):
        message[x] = initial[problem.node[node, INITIAL] + x]
    data = 0.0
    divergence = 0.0
    point = 0
    while True:
        first_mark = mark
        while mark < end and problem.mark[mark, POINT] == point:
            values = work.marks[mark - begin]
            if problem.mark[mark, KIND] == JUMP:
                link = problem.mark[mark, LINK]
                total = 0.0
                for x in range(size):
                    total += message[x] * values[x]
                offset = problem.member[problem.link[link, MEMBERS], MARGINAL]
                for x in range(size):
                    problem.marginals[offset + x] = message[x] * values[x] / total
                    message[x] = 0.0
                message[problem.link[link, TO]] = 1.0
            else:
                for x in range(size):
                    message[x] *= values[x]
            mark += 1
        if mark > first_mark:
            _rescaled(message, size)
        if mark > first_mark or point == 0:
            _marginal_at_point(size, steps, point, message, work)
            for i in range(first_mark, mark):
                if problem.mark[i, KIND] == LIKELIHOOD:
                    data += problem.mark_scale[i]
                    for x in range(size):
                        if work.message[1, x] > 0.0:
                            value = work.marks[i - begin, x]
                            if value > 0.0:
                                data += work.message[1, x] * math.log(value)
                elif problem.mark[i, KIND] != JUMP:
                    member = problem.link[problem.mark[i, LINK], MEMBERS] + problem.mark[i, MEMBER]
                    offset = problem.member[member, MARGINAL]
                    for x in range(size):
                        problem.marginals[offset + x] = work.message[1, x]
            if point == 0:
                for x in range(size):
                    m = work.message[1, x]
                    work.starts[problem.node[node, INITIAL] + x] = m
                    if m > 0.0:
                        divergence -= m * math.log(m / initial[problem.node[node, INITIAL] + x])
        if point == steps:
            break
        stop = steps
        if mark < end:
            stop = problem.mark[mark, POINT]
        if size == 2:
            f0 = message[0]
            f1 = message[1]
            for k in range(point, stop):
                block = k // BLOCK
                j = k % BLOCK
                work.steps[block, forward + 0, j] = f0
                work.steps[block, forward + 1, j] = f1
                n0 = f0 * work.steps[block, rows + 0, j] + f1 * work.steps[block, rows + 2, j]
                n1 = f0 * work.steps[block, rows + 1, j] + f1 * work.steps[block, rows + 3, j]
                f0 = n0
                f1 = n1
                total = f0 + f1
                if total > _LARGE or total < _SMALL:
                    f0 /= total
                    f1 /= total
            message[0] = f0
            message[1] = f1
        else:
            next_message = work.message[1]
            for k in range(point, stop):
                block = k // BLOCK
                j = k % BLOCK
                total = 0.0
                for y in range(size):
                    work.steps[block, forward + y, j] = message[y]
                    value = 0.0
                    for x in range(size):
                        value += message[x] * work.steps[block, rows + x * size + y, j]
                    next_message[y] = value
                    total += value
                for x in range(size):
                    message[x] = next_message[x]
                if total > _LARGE or total < _SMALL:
                    _rescaled(message, size)
        point = stop
    return data, divergence


@inner(fastmath=_REORDER)
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
    fresh = work.matrices[8]
    keep = 1.0 - damping
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        width = problem.width[first_step + first : first_step + first + count]
        steps_here = work.steps[block]
        generator = steps_here[:rows]
        pull = steps_here[2 * rows + 4 : 2 * rows + 4 + size]
        step_moments(size, width, first, count, clamped, work)
        inverse = work.inverse_width[first : first + count]
        for x in range(size):
            for y in range(size):
                row = x * size + y
                new = fresh[row]
                place = begin + row * steps + first
                old = moments[place : place + count]
                if x == y:
                    for k in range(count):
                        residual = max(residual, abs(new[k] - old[k]) * inverse[k])
                        pull_mass += new[k] * pull[x, k]
                elif geometric:
                    for k in range(count):
                        new[k] *= generator[row, k]
                        residual = max(residual, abs(new[k] - old[k]))
                else:
                    for k in range(count):
                        residual = max(residual, abs(new[k] - old[k]) * generator[row, k])
                if damping == 1.0:
                    for k in range(count):
                        old[k] = new[k]
                elif damping > 0.0:
                    for k in range(count):
                        old[k] = keep * old[k] + damping * new[k]
    return residual, pull_mass
