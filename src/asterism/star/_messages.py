"""The backward and forward message of one node along one trajectory, with the evidence on it.

Messages are rescaled only when they leave a wide range; what matters, f ρ / Σ f ρ, does not depend
on their scale.

One sweep over the nodes of a trajectory: every node's messages and moments, once, in order.
"""

from __future__ import annotations

import math

from asterism.numerics._jit import inlined, inner
from asterism.star._buffers import (
    BLOCK,
    INITIAL,
    IS_EXOGENOUS,
    IS_JUMP,
    JUMP,
    KIND,
    LIKELIHOOD,
    LINK,
    MARGINAL,
    MARK,
    MEMBER,
    MEMBER_NODE,
    MEMBERS,
    POINT,
    STATES,
    TO,
    VALUES,
    backward_row,
    scale_row,
)
from asterism.star._links import link_expectation, soft_log_likelihood
from asterism.star._node import apply_spans, node_generator, store_moments
from asterism.star._passing import SMALL, pass_backward, pass_forward, rescaled
from asterism.star._readings import (
    MESSAGES,
    NOTHING,
    keep_first_backward,
    read_known_node,
    read_node,
)


@inlined
def evaluate_marks(problem, rates, trajectory, node, work):
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
        soft_log_likelihood(problem, rates, problem.mark[i, LINK], problem.mark[i, MEMBER], values)
        largest = -math.inf
        for x in range(size):
            largest = max(largest, values[x])
        work.marks[row, size] = largest
        for x in range(size):
            values[x] = math.exp(values[x] - largest)


@inlined(fastmath={"contract", "reassoc", "nsz"})
def _sum(values, count):
    total = 0.0
    for k in range(count):
        total += values[k]
    return total


@inlined
def backward_pass(problem, initial, trajectory, node, work):
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
            logarithm, bad = pass_backward(
                work.steps[block],
                size,
                lowest - begin_block,
                k - begin_block,
                message,
                work.message[1],
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
def forward_pass(problem, initial, trajectory, node, work):
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
            pass_forward(
                work.steps[block],
                size,
                k - begin_block,
                highest - begin_block,
                message,
                work.message[1],
            )
            k = highest
        point = stop
    return data, divergence


# columns of the totals of a trajectory
EVIDENCE = 0
DATA = 1
START = 2
JUMPS = 3
RESIDUAL = 4
N_TOTALS = 5


@inner
def link_totals(problem, rates, trajectory):
    """(correction of F, E[ln L] of joint measurements, Σ G_e of jumps) of one trajectory."""
    correction = 0.0
    joint = 0.0
    jumps = 0.0
    for link in range(problem.link_start[trajectory], problem.link_start[trajectory + 1]):
        expectation = link_expectation(problem, rates, link)
        # every member beyond the first that received a factor counted the evidence once more
        for member in range(problem.link[link, MEMBERS] + 1, problem.link[link + 1, MEMBERS]):
            if problem.node[problem.member[member, MEMBER_NODE], IS_EXOGENOUS] == 0:
                correction -= expectation
        if problem.link[link, IS_JUMP] == 1:
            jumps += expectation
        else:
            joint += expectation
    return correction, joint, jumps


@inner(inline="always")
def sweep_trajectory(
    problem,
    rates,
    table,
    initial,
    geometric,
    with_pull,
    damping,
    moments,
    trajectory,
    work,
    totals,
    reading,
    messages,
    at_points,
):
    """Update every node of one trajectory once, in order (Gauss–Seidel).

    ``totals[trajectory]`` receives F by the fixed-point identity Σ_n (ln Z_n − ∫ Σ m ψ), with the
    corrections of linked evidence, its data and initial terms and the residual. ``reading`` says
    what goes to ``messages`` or ``at_points``; with ``damping`` zero the moments stay as they are.
    Returns node and grid point of impossible evidence, or −1 and −1.
    """
    evidence = 0.0
    data = 0.0
    start = 0.0
    residual = 0.0
    for node in range(problem.node.shape[0] - 1):
        if problem.node[node, IS_EXOGENOUS] == 1:
            read_known_node(problem, trajectory, node, reading, messages, at_points)
            continue
        node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work)
        clamped = apply_spans(problem, trajectory, node, work)
        evaluate_marks(problem, rates, trajectory, node, work)
        log_z, bad_point = backward_pass(problem, initial, trajectory, node, work)
        if bad_point >= 0:
            totals[trajectory, EVIDENCE] = -math.inf
            return node, bad_point
        if reading == MESSAGES:
            keep_first_backward(problem, node, messages, work)
        node_data, node_start = forward_pass(problem, initial, trajectory, node, work)
        if reading != NOTHING and not read_node(
            problem, trajectory, node, clamped, reading, messages, at_points, work
        ):
            totals[trajectory, EVIDENCE] = -math.inf
            return node, 0
        change, pull_mass = store_moments(
            problem, moments, geometric, damping, clamped, trajectory, node, work
        )
        evidence += log_z - pull_mass
        data += node_data
        start += node_start
        residual = max(residual, change)
    correction, joint, jumps = link_totals(problem, rates, trajectory)
    totals[trajectory, EVIDENCE] = evidence + correction
    totals[trajectory, DATA] = data + joint
    totals[trajectory, START] = start
    totals[trajectory, JUMPS] = jumps
    totals[trajectory, RESIDUAL] = residual
    return -1, -1
