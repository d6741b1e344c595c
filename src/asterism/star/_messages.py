"""The backward and forward message of one node along one trajectory, with the evidence on it.

Messages are rescaled only when they leave a wide range; what matters, f ρ / Σ f ρ, does not depend
on their scale. ``_many_states.py`` carries them over the steps between two pieces of evidence.
"""

from __future__ import annotations

import math

from numba import float64, int64
from numba.core import types

from asterism.numerics._jit import inlined, inner, unit
from asterism.star._buffers import (
    BLOCK,
    FIRST,
    INITIAL,
    IS_SET,
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
    PROBLEM,
    SMALL,
    SPAN,
    STATE,
    STATES,
    TO,
    VALUES,
    WORK,
    backward_row,
    is_corrected,
    middle_row,
    pull_row,
    rescaled,
    scale_row,
)
from asterism.star._links import (
    SOFT_MARK,
    ask_links,
)
from asterism.star._many_states import backward_2, forward_2, pass_many_states


@inlined
def _apply_spans(problem, trajectory, node, work):
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
def _evaluate_marks(problem, rates, trajectory, node, work):
    """Values and log scale of each of the node's marks, soft ones from the current marginals."""
    size = problem.node[node, STATES]
    pair = trajectory * (problem.node.shape[0] - 1) + node
    begin = problem.pair[pair, MARK]
    for i in range(begin, problem.pair[pair + 1, MARK]):
        row = i - begin
        if problem.mark[i, KIND] == LIKELIHOOD:
            for x in range(size):
                work.marks[row, x] = problem.likelihood[problem.mark[i, VALUES] + x, 0]
                work.marks[row, size + 1 + x] = problem.likelihood[problem.mark[i, VALUES] + x, 1]
            work.marks[row, size] = problem.mark_scale[i]
            continue
        values = work.marks[row]
        ask_links(work.addresses, problem, rates, SOFT_MARK, i, values)
        largest = -math.inf
        for x in range(size):
            largest = max(largest, values[x])
        work.marks[row, size] = largest
        for x in range(size):
            values[x] = math.exp(values[x] - largest)


@inner(fastmath={"contract", "reassoc", "nsz"})
def _sum(values, count):
    total = 0.0
    for k in range(count):
        total += values[k]
    return total


@inlined
def _backward_pass(problem, initial, trajectory, node, work):
    """ρ from the end to the start; returns ln Z and the impossible point (or −1).

    Kept per step: ρ at its end, with the evidence there included.
    """
    size = problem.node[node, STATES]
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
            total = 0.0
            for x in range(size):
                total += message[x]
            if total < SMALL:
                log_norm += rescaled(message, size)
                if log_norm == -math.inf:
                    return log_norm, point
        if point == 0:
            break
        stop = 0
        if mark >= begin:
            stop = problem.mark[mark, POINT]
        k = point
        while k > stop:
            block = (k - 1) // BLOCK
            begin_block = block * BLOCK
            lowest = max(stop, begin_block)
            here, from_step, to_step = work.steps[block], lowest - begin_block, k - begin_block
            if size == 2:
                logarithm, bad = backward_2(here, from_step, to_step, message)
            else:
                logarithm, bad = pass_many_states(
                    work.addresses, here, size, from_step, to_step, message, work.message[1], True
                )
            if bad >= 0:
                return -math.inf, begin_block + bad
            log_norm += logarithm
            k = lowest
        point = stop
    for block in range((steps + BLOCK - 1) // BLOCK):
        log_norm += _sum(work.steps[block, scale_row(size)], min(BLOCK, steps - block * BLOCK))
    total = 0.0
    for x in range(size):
        work.message[2, x] = message[x]
        total += initial[problem.node[node, INITIAL] + x] * message[x]
    if not total > 0.0:
        return -math.inf, 0
    return log_norm + math.log(total), -1


@inlined
def _marginal_at_point(size, steps, point, message, work):
    """m at a grid point from the forward message behind the evidence there."""
    rows = size * size
    backward = backward_row(size)
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


@inlined
def _forward_pass(problem, initial, trajectory, node, work):
    """f from the start to the end; returns (E[ln L] of fixed marks, −KL(m(0) ‖ p0)).

    Kept per step: f at its start, with the evidence there included. Marginals at the times of
    linked evidence are stored with their links.
    """
    size = problem.node[node, STATES]
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
    point = int(0)  # not a written number: see ``inner``
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
        if mark > first_mark or point == 0:
            total = 0.0
            for x in range(size):
                total += message[x]
            if total < SMALL:
                rescaled(message, size)
            _marginal_at_point(size, steps, point, message, work)
            for i in range(first_mark, mark):
                if problem.mark[i, KIND] == LIKELIHOOD:
                    data += problem.mark_scale[i]
                    for x in range(size):
                        data += work.message[1, x] * work.marks[i - begin, size + 1 + x]
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
        k = point
        while k < stop:
            block = k // BLOCK
            begin_block = block * BLOCK
            highest = min(stop, begin_block + BLOCK)
            here, from_step, to_step = work.steps[block], k - begin_block, highest - begin_block
            if size == 2:
                forward_2(here, from_step, to_step, message)
            else:
                pass_many_states(
                    work.addresses, here, size, from_step, to_step, message, work.message[1], False
                )
            k = highest
        point = stop
    return data, divergence


@unit(
    (PROBLEM, WORK, float64[::1], float64[::1], int64, int64),
    returns=types.Tuple((float64, float64, float64, int64, types.boolean)),
)
def pass_messages(problem, work, rates, initial, trajectory, node):
    """Both messages of a node whose propagators are in the buffers.

    Returns ln Z, E[ln L] of its fixed marks, −KL(m(0) ‖ p0), the impossible grid point (or −1) and
    whether the node's state is known on some steps.
    """
    clamped = _apply_spans(problem, trajectory, node, work)
    _evaluate_marks(problem, rates, trajectory, node, work)
    log_z, bad_point = _backward_pass(problem, initial, trajectory, node, work)
    data, start = 0.0, 0.0
    if bad_point < 0:
        data, start = _forward_pass(problem, initial, trajectory, node, work)
    return log_z, data, start, bad_point, clamped
