"""What the messages of a solved trajectory say about the courses of its nodes.

One entry recomputes every node's messages once from the moments that the iteration left behind.
It either keeps them, which gives marginals at any time and sampled paths, or reads off the
marginals at the measurements only, which costs about one sweep and no memory.

On a step of length h with generator A, forward message f at its start and backward message ρ at
its end, the marginal at distance s from the start is m(x) ∝ (f exp(A s))(x) (exp(A (h−s)) ρ)(x).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.kernels._jit import inner, kernel
from asterism.kernels.arrays import (
    FIRST,
    INITIAL,
    IS_EXOGENOUS,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    LINK,
    MARGINAL,
    MARK,
    MEMBERS,
    POINT,
    SPAN,
    SQUARES,
    STATE,
    STATES,
    TO,
    VALUES,
)
from asterism.kernels.messages import (
    BLOCK,
    apply_spans,
    backward_pass,
    evaluate_marks,
    forward_pass,
    make_work,
    node_generator,
    prepare_trajectory,
)
from asterism.kernels.propagate import general_propagator

FloatArray = NDArray[np.float64]
SmallIntArray = NDArray[np.int32]


class Messages(NamedTuple):
    """Messages of all nodes along one trajectory of K steps."""

    generator: FloatArray
    """Flat; node n's is the (S², K) block at ``node[n, SQUARES] * K``."""
    forward: FloatArray
    """Flat; node n's is the (S, K+1) block at ``node[n, INITIAL] * (K + 1)``: the message at each
    grid point, with the evidence there included."""
    backward: FloatArray
    """Like ``forward``; also with the evidence at the point included."""
    clamp: SmallIntArray
    """(N, K) known state on each step, or −1."""
    entered: SmallIntArray
    """(N, K+1) state that a recorded jump enters at each grid point, or −1."""


@inner
def generator_of(problem, messages, node, steps):
    """(S², K) generators of one node; a view."""
    size = problem.node[node, STATES]
    begin = problem.node[node, SQUARES] * steps
    return messages.generator[begin : begin + size * size * steps].reshape(size * size, steps)


@inner
def at_grid_points(problem, flat, node, steps):
    """(S, K+1) forward or backward messages of one node; a view."""
    size = problem.node[node, STATES]
    begin = problem.node[node, INITIAL] * (steps + 1)
    return flat[begin : begin + size * (steps + 1)].reshape(size, steps + 1)


@inner
def _keep_known_path(problem, trajectory, node, messages):
    """An exogenous node: its state on every step, and messages that say the same."""
    steps = messages.clamp.shape[1]
    pair = trajectory * (problem.node.shape[0] - 1) + node
    forward = at_grid_points(problem, messages.forward, node, steps)
    backward = at_grid_points(problem, messages.backward, node, steps)
    for x in range(forward.shape[0]):
        for k in range(steps + 1):
            forward[x, k] = 0.0
            backward[x, k] = 1.0
    last = 0
    for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
        last = problem.span[i, STATE]
        for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
            messages.clamp[node, k] = last
            forward[last, k] = 1.0
    forward[last, steps] = 1.0


@inner
def _keep_messages(problem, trajectory, node, clamped, messages, work):
    """Copy what the two passes left in the buffers; ρ at the start is already there."""
    size = problem.node[node, STATES]
    rows = size * size
    begin_forward = 2 * rows + 4 + size
    begin_backward = begin_forward + size
    steps = messages.clamp.shape[1]
    generator = generator_of(problem, messages, node, steps)
    forward = at_grid_points(problem, messages.forward, node, steps)
    backward = at_grid_points(problem, messages.backward, node, steps)
    for k in range(steps):
        block = k // BLOCK
        j = k % BLOCK
        for row in range(rows):
            generator[row, k] = work.steps[block, row, j]
        for x in range(size):
            forward[x, k] = work.steps[block, begin_forward + x, j]
            backward[x, k + 1] = work.steps[block, begin_backward + x, j]
        if clamped:
            messages.clamp[node, k] = work.clamp[k]
    for x in range(size):
        forward[x, steps] = work.message[0, x]
    pair = trajectory * (problem.node.shape[0] - 1) + node
    for i in range(problem.pair[pair, MARK], problem.pair[pair + 1, MARK]):
        if problem.mark[i, KIND] == JUMP:
            state = problem.link[problem.mark[i, LINK], TO]
            messages.entered[node, problem.mark[i, POINT]] = state


@inner
def _marginals_at_marks(problem, trajectory, node, work, at_points):
    """m at each of the node's measurements; both messages are in the buffers. False if it fails."""
    size = problem.node[node, STATES]
    rows = size * size
    forward = 2 * rows + 4 + size
    backward = forward + size
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    pair = trajectory * (problem.node.shape[0] - 1) + node
    for i in range(problem.pair[pair, MARK], problem.pair[pair + 1, MARK]):
        if problem.mark[i, KIND] != LIKELIHOOD:
            continue
        point = problem.mark[i, POINT]
        offset = problem.mark[i, VALUES]
        block = point // BLOCK
        j = point % BLOCK
        total = 0.0
        for x in range(size):
            value = work.message[0, x]
            if point < steps:
                after = 0.0
                for y in range(size):
                    row = rows + x * size + y
                    after += work.steps[block, row, j] * work.steps[block, backward + y, j]
                value = work.steps[block, forward + x, j] * after
            at_points[offset + x] = value
            total += value
        if not 0.0 < total < math.inf:
            return False
        for x in range(size):
            at_points[offset + x] /= total
    return True


@inner
def _known_at_marks(problem, trajectory, node, at_points):
    """The same for an exogenous node, whose state is known."""
    pair = trajectory * (problem.node.shape[0] - 1) + node
    for i in range(problem.pair[pair, MARK], problem.pair[pair + 1, MARK]):
        state = -1
        for s in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
            if state < 0 or problem.span[s, FIRST] <= problem.mark[i, POINT]:
                state = problem.span[s, STATE]
        for x in range(problem.node[node, STATES]):
            at_points[problem.mark[i, VALUES] + x] = 1.0 if x == state else 0.0


@kernel
def recompute(
    problem, rates, table, initial, geometric, moments, chosen, keep, messages, at_points
):
    """Messages of the ``chosen`` trajectories from their moments.

    With ``keep`` (then for one trajectory) they go to ``messages``, whose clamp and entered are −1
    before; without, the marginals at the measurements go to ``at_points``, which has the layout of
    the likelihoods. Moments and marginals of linked evidence stay as they were. Returns whether
    all is well.
    """
    n_nodes = problem.node.shape[0] - 1
    longest = 1
    for trajectory in chosen:
        steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
        longest = max(longest, steps)
    work = make_work(problem, longest)
    with_pull = True
    is_well = True
    for trajectory in chosen:
        prepare_trajectory(problem, trajectory, work)
        # forward passes overwrite these; they are put back, so that asking changes nothing
        member = problem.link[problem.link_start[trajectory], MEMBERS]
        past = problem.link[problem.link_start[trajectory + 1], MEMBERS]
        first_linked = problem.marginals.shape[0]
        last_linked = problem.marginals.shape[0]
        if member < problem.member.shape[0]:
            first_linked = problem.member[member, MARGINAL]
        if past < problem.member.shape[0]:
            last_linked = problem.member[past, MARGINAL]
        linked = problem.marginals[first_linked:last_linked].copy()
        for node in range(n_nodes):
            if problem.node[node, IS_EXOGENOUS] == 1:
                if keep:
                    _keep_known_path(problem, trajectory, node, messages)
                else:
                    _known_at_marks(problem, trajectory, node, at_points)
                continue
            node_generator(problem, moments, table, geometric, with_pull, trajectory, node, work)
            clamped = apply_spans(problem, trajectory, node, work)
            evaluate_marks(problem, rates, trajectory, node, work)
            _, bad_point = backward_pass(problem, initial, trajectory, node, work)
            if bad_point >= 0:
                is_well = False
                break
            if keep:
                steps = messages.clamp.shape[1]
                backward = at_grid_points(problem, messages.backward, node, steps)
                for x in range(problem.node[node, STATES]):
                    backward[x, 0] = work.message[0, x]
            forward_pass(problem, initial, trajectory, node, work)
            if keep:
                _keep_messages(problem, trajectory, node, clamped, messages, work)
            elif not _marginals_at_marks(problem, trajectory, node, work, at_points):
                is_well = False
        problem.marginals[first_linked:last_linked] = linked
    return is_well


@kernel
def marginals_at(problem, messages, width, step, inside, out):
    """m of every node at times ``inside`` (from its start) step ``step``; (queries, Σ S).

    Step K stands for the end of the trajectory. ``width`` are the lengths of this trajectory's
    steps. Returns whether all marginals are finite.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    largest_size = 0
    for node in range(n_nodes):
        largest_size = max(largest_size, problem.node[node, STATES])
    rows = largest_size * largest_size
    generator = np.zeros((rows, BLOCK))
    to_start = np.zeros(BLOCK)
    to_end = np.zeros(BLOCK)
    before = np.zeros((rows, BLOCK))
    behind = np.zeros((rows, BLOCK))
    log_scale = np.zeros(BLOCK)
    scratch = np.zeros((6, rows, BLOCK))
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        at = problem.node[node, INITIAL]
        own = generator_of(problem, messages, node, steps)
        forward = at_grid_points(problem, messages.forward, node, steps)
        backward = at_grid_points(problem, messages.backward, node, steps)
        for first in range(0, step.shape[0], BLOCK):
            count = min(BLOCK, step.shape[0] - first)
            for q in range(count):
                k = step[first + q]
                free = k < steps and messages.clamp[node, min(k, steps - 1)] < 0
                for row in range(size * size):
                    generator[row, q] = own[row, k] if free else 0.0
                to_start[q] = inside[first + q] if free else 0.0
                to_end[q] = width[k] - inside[first + q] if free else 0.0
            general_propagator(generator, to_start, size, count, before, log_scale, scratch)
            general_propagator(generator, to_end, size, count, behind, log_scale, scratch)
            for q in range(count):
                k = step[first + q]
                result = out[first + q, at : at + size]
                if k < steps and messages.clamp[node, k] >= 0:
                    result[:] = 0.0
                    result[messages.clamp[node, k]] = 1.0
                    continue
                # in logarithms: where f is tiny ρ may be huge
                highest = -math.inf
                for x in range(size):
                    f = forward[x, k]
                    r = 1.0
                    if k < steps:
                        f = 0.0
                        r = 0.0
                        for y in range(size):
                            f += forward[y, k] * before[y * size + x, q]
                            r += behind[x * size + y, q] * backward[y, k + 1]
                    result[x] = -math.inf
                    if f > 0.0 and r > 0.0:
                        result[x] = math.log(f) + math.log(r)
                    highest = max(highest, result[x])
                if not math.isfinite(highest):
                    return False
                total = 0.0
                for x in range(size):
                    result[x] = math.exp(result[x] - highest)
                    total += result[x]
                for x in range(size):
                    result[x] /= total
    return True
