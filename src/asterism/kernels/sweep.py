"""Messages of one node along one trajectory, and sweeps over all nodes until they agree.

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

from asterism.kernels._jit import kernel
from asterism.kernels.arrays import JUMP, LIKELIHOOD
from asterism.kernels.averages import (
    add_pull_of_child,
    average_table,
    configuration_weights,
    node_moments,
)
from asterism.kernels.links import link_expectation, soft_log_likelihood
from asterism.kernels.propagate import (
    general_moments,
    general_propagator,
    two_state_moments,
    two_state_series,
)

BLOCK = 128
# sums and maxima over time may be reordered, so that they vectorise
_REORDER = {"contract", "reassoc", "nsz", "nnan"}
_LARGE = 1e30
_SMALL = 1e-30

FloatArray = NDArray[np.float64]


class Work(NamedTuple):
    """Buffers of one thread; (blocks, rows, BLOCK) where they hold a whole trajectory."""

    generator: FloatArray
    propagator: FloatArray
    coefficients: FloatArray
    is_closed: NDArray[np.bool_]
    log_scale: FloatArray
    pull: FloatArray
    forward: FloatArray
    backward: FloatArray
    inverse_width: FloatArray
    clamp: NDArray[np.int64]
    weights: FloatArray
    scratch: FloatArray
    matrices: FloatArray
    fresh: FloatArray
    mark_values: FloatArray
    mark_logs: FloatArray
    message: FloatArray
    point_marginal: FloatArray


class NodeResult(NamedTuple):
    """What one update of a node yields for the evidence."""

    log_z: float
    pull_mass: float
    """∫ Σ_x m ψ dt."""
    data: float
    """Σ over fixed likelihood marks of E[ln L]."""
    initial: float
    """−KL(m(0) ‖ p0)."""
    residual: float
    impossible_point: int
    """−1, or the grid point at which no state was left possible."""


@kernel
def make_work(graph, marks, max_steps):
    """Allocate the buffers for trajectories of up to ``max_steps`` steps."""
    n_nodes = graph.n_states.shape[0]
    size = 0
    n_configurations = 1
    for n in range(n_nodes):
        size = max(size, graph.n_states[n])
        n_configurations = max(n_configurations, graph.n_configurations[n])
    n_marks = 1
    for i in range(marks.start.shape[0] - 1):
        n_marks = max(n_marks, marks.start[i + 1] - marks.start[i])
    blocks = (max_steps + BLOCK - 1) // BLOCK
    rows = size * size
    return Work(
        np.zeros((blocks, rows, BLOCK)),
        np.zeros((blocks, rows, BLOCK)),
        np.zeros((blocks, 3, BLOCK)),
        np.zeros(blocks, dtype=np.bool_),
        np.zeros((blocks, BLOCK)),
        np.zeros((blocks, size, BLOCK)),
        np.zeros((blocks, size, BLOCK)),
        np.zeros((blocks, size, BLOCK)),
        np.zeros(max_steps),
        np.full(max_steps, -1, dtype=np.int64),
        np.zeros((n_configurations + 1, BLOCK)),
        np.zeros((n_configurations + 1, BLOCK)),
        np.zeros((8, rows, BLOCK)),
        np.zeros((rows, BLOCK)),
        np.zeros((n_marks, size)),
        np.zeros(n_marks),
        np.zeros(size + 1),
        np.zeros(size + 1),
    )


@kernel
def prepare_trajectory(problem, trajectory, work):
    """Fill the reciprocal step widths of this trajectory."""
    first = problem.grid.step_start[trajectory]
    for k in range(problem.grid.step_start[trajectory + 1] - first):
        work.inverse_width[k] = 1.0 / problem.grid.width[first + k]


@kernel
def node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work):
    """Averaged generator (off-diagonal) with exit rates and ψ on the diagonal, and its propagator.

    The equations: A(x,y) = E[R(x,y)] (star) or exp E[ln R(x,y)] (mean field, ``geometric``),
    A(x,x) = E[R(x,x)] + ψ(x). ψ itself is kept in ``work.pull``.
    """
    graph = problem.graph
    size = graph.n_states[node]
    first_step = problem.grid.step_start[trajectory]
    steps = problem.grid.step_start[trajectory + 1] - first_step
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        generator = work.generator[block]
        pull = work.pull[block]
        configuration_weights(
            graph, problem.grid, moments, trajectory, node, -1, first, count, work.inverse_width,
            work.weights, work.scratch,
        )
        average_table(
            table, graph.table_start[node], size, graph.n_configurations[node], work.weights,
            count, generator,
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
            for edge in range(graph.child_start[node], graph.child_start[node + 1]):
                add_pull_of_child(
                    graph, problem.grid, moments, table, trajectory, graph.children[edge],
                    graph.child_slot[edge], first, count, work.inverse_width, work.weights,
                    work.scratch, pull,
                )
            for x in range(size):
                for k in range(count):
                    pull[x, k] *= work.inverse_width[first + k]
                    generator[x * size + x, k] += pull[x, k]
        width = problem.grid.width[first_step + first : first_step + first + count]
        closed = False
        if size == 2:
            closed = two_state_series(
                generator, width, count, work.coefficients[block], work.propagator[block],
                work.log_scale[block],
            )
        work.is_closed[block] = closed
        if not closed:
            general_propagator(
                generator, width, size, count, work.propagator[block], work.log_scale[block],
                work.matrices,
            )


@kernel
def apply_spans(problem, trajectory, node, work):
    """On steps where the state is known, keep only that state alive; True if there are any."""
    graph = problem.graph
    marks = problem.marks
    n_nodes = graph.n_states.shape[0]
    pair = trajectory * n_nodes + node
    begin = marks.span_start[pair]
    end = marks.span_start[pair + 1]
    if begin == end:
        return False
    size = graph.n_states[node]
    first_step = problem.grid.step_start[trajectory]
    steps = problem.grid.step_start[trajectory + 1] - first_step
    for k in range(steps):
        work.clamp[k] = -1
    for i in range(begin, end):
        state = marks.span_state[i]
        diagonal = state * size + state
        for k in range(marks.span_first[i], marks.span_last[i]):
            work.clamp[k] = state
            block = k // BLOCK
            j = k % BLOCK
            for row in range(size * size):
                work.propagator[block, row, j] = 0.0
            work.propagator[block, diagonal, j] = 1.0
            work.log_scale[block, j] = (
                work.generator[block, diagonal, j] * problem.grid.width[first_step + k]
            )
    return True


@kernel
def evaluate_marks(problem, rates, trajectory, node, work):
    """Values and log scale of each of the node's marks, soft ones from the current marginals."""
    marks = problem.marks
    size = problem.graph.n_states[node]
    pair = trajectory * problem.graph.n_states.shape[0] + node
    begin = marks.start[pair]
    for i in range(begin, marks.start[pair + 1]):
        row = i - begin
        if marks.kind[i] == LIKELIHOOD:
            for x in range(size):
                work.mark_values[row, x] = marks.likelihood[marks.offset[i] + x]
            work.mark_logs[row] = marks.log_scale[i]
            continue
        values = work.mark_values[row]
        soft_log_likelihood(problem.graph, problem.links, rates, marks.link[i], marks.slot[i], values)
        largest = -math.inf
        for x in range(size):
            largest = max(largest, values[x])
        work.mark_logs[row] = largest
        for x in range(size):
            values[x] = math.exp(values[x] - largest)


@kernel
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


@kernel
def backward_pass(problem, initial, trajectory, node, work):
    """ρ from the end to the start; returns ln Z and the impossible point (or −1).

    ``work.backward`` keeps, per step, ρ at its end with the evidence there included.
    """
    graph = problem.graph
    marks = problem.marks
    size = graph.n_states[node]
    pair = trajectory * graph.n_states.shape[0] + node
    begin = marks.start[pair]
    mark = marks.start[pair + 1] - 1
    first_step = problem.grid.step_start[trajectory]
    steps = problem.grid.step_start[trajectory + 1] - first_step
    message = work.message
    for x in range(size):
        message[x] = 1.0
    log_norm = 0.0
    point = steps
    while True:
        marked = False
        while mark >= begin and marks.point[mark] == point:
            marked = True
            values = work.mark_values[mark - begin]
            if marks.kind[mark] == JUMP:
                after = message[problem.links.to_state[marks.link[mark]]]
                for x in range(size):
                    message[x] = values[x] * after
            else:
                for x in range(size):
                    message[x] *= values[x]
            log_norm += work.mark_logs[mark - begin]
            mark -= 1
        if marked:
            log_norm += _rescaled(message, size)
            if log_norm == -math.inf:
                return log_norm, point
        if point == 0:
            break
        stop = 0
        if mark >= begin:
            stop = marks.point[mark]
        if size == 2:
            r0 = message[0]
            r1 = message[1]
            for k in range(point - 1, stop - 1, -1):
                block = k // BLOCK
                j = k % BLOCK
                work.backward[block, 0, j] = r0
                work.backward[block, 1, j] = r1
                n0 = work.propagator[block, 0, j] * r0 + work.propagator[block, 1, j] * r1
                n1 = work.propagator[block, 2, j] * r0 + work.propagator[block, 3, j] * r1
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
            next_message = work.point_marginal
            for k in range(point - 1, stop - 1, -1):
                block = k // BLOCK
                j = k % BLOCK
                total = 0.0
                for x in range(size):
                    work.backward[block, x, j] = message[x]
                    value = 0.0
                    for y in range(size):
                        value += work.propagator[block, x * size + y, j] * message[y]
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
            log_norm += work.log_scale[block, k]
    total = 0.0
    for x in range(size):
        total += initial[graph.state_start[node] + x] * message[x]
    if not total > 0.0:
        return -math.inf, 0
    return log_norm + math.log(total), -1


@kernel
def _marginal_at_point(size, steps, point, message, work):
    """m at a grid point from the forward message behind the evidence there."""
    total = 0.0
    for x in range(size):
        after = 1.0
        if point < steps:
            block = point // BLOCK
            j = point % BLOCK
            after = 0.0
            for y in range(size):
                after += work.propagator[block, x * size + y, j] * work.backward[block, y, j]
        work.point_marginal[x] = message[x] * after
        total += work.point_marginal[x]
    for x in range(size):
        work.point_marginal[x] /= total


@kernel
def forward_pass(problem, initial, trajectory, node, work):
    """f from the start to the end; returns (E[ln L] of fixed marks, −KL(m(0) ‖ p0)).

    ``work.forward`` keeps, per step, f at its start with the evidence there included. Marginals
    at the times of linked evidence are stored with their links.
    """
    graph = problem.graph
    marks = problem.marks
    links = problem.links
    size = graph.n_states[node]
    pair = trajectory * graph.n_states.shape[0] + node
    begin = marks.start[pair]
    end = marks.start[pair + 1]
    mark = begin
    first_step = problem.grid.step_start[trajectory]
    steps = problem.grid.step_start[trajectory + 1] - first_step
    message = work.message
    for x in range(size):
        message[x] = initial[graph.state_start[node] + x]
    data = 0.0
    divergence = 0.0
    point = 0
    while True:
        first_mark = mark
        while mark < end and marks.point[mark] == point:
            values = work.mark_values[mark - begin]
            if marks.kind[mark] == JUMP:
                link = marks.link[mark]
                total = 0.0
                for x in range(size):
                    total += message[x] * values[x]
                offset = links.member_offset[links.member_start[link]]
                for x in range(size):
                    links.marginals[offset + x] = message[x] * values[x] / total
                    message[x] = 0.0
                message[links.to_state[link]] = 1.0
            else:
                for x in range(size):
                    message[x] *= values[x]
            mark += 1
        if mark > first_mark:
            _rescaled(message, size)
        if mark > first_mark or point == 0:
            _marginal_at_point(size, steps, point, message, work)
            for i in range(first_mark, mark):
                if marks.kind[i] == LIKELIHOOD:
                    data += marks.log_scale[i]
                    for x in range(size):
                        if work.point_marginal[x] > 0.0:
                            value = work.mark_values[i - begin, x]
                            if value > 0.0:
                                data += work.point_marginal[x] * math.log(value)
                elif marks.kind[i] != JUMP:
                    member = links.member_start[marks.link[i]] + marks.slot[i]
                    offset = links.member_offset[member]
                    for x in range(size):
                        links.marginals[offset + x] = work.point_marginal[x]
            if point == 0:
                for x in range(size):
                    m = work.point_marginal[x]
                    if m > 0.0:
                        divergence -= m * math.log(m / initial[graph.state_start[node] + x])
        if point == steps:
            break
        stop = steps
        if mark < end:
            stop = marks.point[mark]
        if size == 2:
            f0 = message[0]
            f1 = message[1]
            for k in range(point, stop):
                block = k // BLOCK
                j = k % BLOCK
                work.forward[block, 0, j] = f0
                work.forward[block, 1, j] = f1
                n0 = f0 * work.propagator[block, 0, j] + f1 * work.propagator[block, 2, j]
                n1 = f0 * work.propagator[block, 1, j] + f1 * work.propagator[block, 3, j]
                f0 = n0
                f1 = n1
                total = f0 + f1
                if total > _LARGE or total < _SMALL:
                    f0 /= total
                    f1 /= total
            message[0] = f0
            message[1] = f1
        else:
            next_message = work.point_marginal
            for k in range(point, stop):
                block = k // BLOCK
                j = k % BLOCK
                total = 0.0
                for y in range(size):
                    work.forward[block, y, j] = message[y]
                    value = 0.0
                    for x in range(size):
                        value += message[x] * work.propagator[block, x * size + y, j]
                    next_message[y] = value
                    total += value
                for x in range(size):
                    message[x] = next_message[x]
                if total > _LARGE or total < _SMALL:
                    _rescaled(message, size)
        point = stop
    return data, divergence


@kernel(fastmath=_REORDER)
def store_moments(problem, moments, geometric, damping, clamped, trajectory, node, work):
    """W of each step, mixed into ``moments`` with weight ``damping``; (residual, ∫ Σ m ψ).

    The residual is the largest change of an averaged marginal or of a step's expected transitions.
    """
    graph = problem.graph
    size = graph.n_states[node]
    rows = size * size
    own = node_moments(graph, problem.grid, moments, trajectory, node)
    first_step = problem.grid.step_start[trajectory]
    steps = problem.grid.step_start[trajectory + 1] - first_step
    residual = 0.0
    pull_mass = 0.0
    fresh = work.fresh
    keep = 1.0 - damping
    for block in range((steps + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        count = min(BLOCK, steps - first)
        width = problem.grid.width[first_step + first : first_step + first + count]
        generator = work.generator[block]
        if work.is_closed[block]:
            two_state_moments(
                generator, width, count, work.coefficients[block], work.forward[block],
                work.backward[block], fresh,
            )
        else:
            general_moments(
                generator, width, size, count, work.forward[block], work.backward[block], fresh,
                work.matrices,
            )
        if clamped:
            for k in range(count):
                state = work.clamp[first + k]
                if state >= 0:
                    for row in range(rows):
                        fresh[row, k] = 0.0
                    fresh[state * size + state, k] = width[k]
        for x in range(size):
            for y in range(size):
                row = x * size + y
                if x == y:
                    for k in range(count):
                        change = (fresh[row, k] - own[row, first + k]) * work.inverse_width[first + k]
                        residual = max(residual, abs(change))
                        pull_mass += fresh[row, k] * work.pull[block, x, k]
                elif geometric:
                    for k in range(count):
                        fresh[row, k] *= generator[row, k]
                        residual = max(residual, abs(fresh[row, k] - own[row, first + k]))
                else:
                    for k in range(count):
                        change = (fresh[row, k] - own[row, first + k]) * generator[row, k]
                        residual = max(residual, abs(change))
                if damping == 1.0:
                    for k in range(count):
                        own[row, first + k] = fresh[row, k]
                else:
                    for k in range(count):
                        own[row, first + k] = (
                            keep * own[row, first + k] + damping * fresh[row, k]
                        )
    return residual, pull_mass


@kernel
def update_node(
    problem, rates, table, initial, geometric, with_pull, damping, moments, trajectory, node, work
):
    """One full update of a node along one trajectory, the other nodes held fixed."""
    node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work)
    clamped = apply_spans(problem, trajectory, node, work)
    evaluate_marks(problem, rates, trajectory, node, work)
    log_z, impossible = backward_pass(problem, initial, trajectory, node, work)
    if impossible >= 0:
        return NodeResult(log_z, 0.0, 0.0, 0.0, 0.0, impossible)
    data, divergence = forward_pass(problem, initial, trajectory, node, work)
    residual, pull_mass = store_moments(
        problem, moments, geometric, damping, clamped, trajectory, node, work
    )
    return NodeResult(log_z, pull_mass, data, divergence, residual, -1)


class SweepResult(NamedTuple):
    """One sweep over all nodes of a trajectory."""

    evidence: float
    """F by the fixed-point identity Σ_n (ln Z_n − ∫ Σ m ψ) with the corrections of links."""
    data: float
    initial: float
    jumps: float
    """Σ G_e of exactly timed jumps."""
    residual: float
    impossible_node: int
    impossible_point: int


@kernel
def sweep_trajectory(
    problem, rates, table, initial, geometric, with_pull, damping, moments, trajectory, work
):
    """Update every node of one trajectory once, in order (Gauss–Seidel)."""
    graph = problem.graph
    links = problem.links
    evidence = 0.0
    data = 0.0
    divergence = 0.0
    residual = 0.0
    for node in range(graph.n_states.shape[0]):
        if graph.is_exogenous[node]:
            continue
        result = update_node(
            problem, rates, table, initial, geometric, with_pull, damping, moments, trajectory,
            node, work,
        )
        if result.impossible_point >= 0:
            return SweepResult(
                -math.inf, 0.0, 0.0, 0.0, 0.0, node, result.impossible_point
            )
        evidence += result.log_z - result.pull_mass
        data += result.data
        divergence += result.initial
        residual = max(residual, result.residual)
    jumps = 0.0
    for link in range(links.trajectory_start[trajectory], links.trajectory_start[trajectory + 1]):
        expectation = link_expectation(graph, links, rates, link)
        n_others = 0  # members beyond the first that received a factor of their own
        for member in range(links.member_start[link] + 1, links.member_start[link + 1]):
            if not graph.is_exogenous[links.member_node[member]]:
                n_others += 1
        evidence -= n_others * expectation
        if links.is_jump[link]:
            jumps += expectation
        else:
            data += expectation
    return SweepResult(evidence, data, divergence, jumps, residual, -1, -1)
