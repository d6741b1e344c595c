"""What a sweep can leave behind besides moments: messages, or marginals at the measurements.

Messages of one trajectory give marginals at any time (``_between_points.py``) and sampled paths
(``engine/rules/star.py``). The marginals at the measurements alone need no memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int32, int64
from numba.core import types
from numpy.typing import NDArray

from asterism.numerics._bundle import Bundle
from asterism.numerics._jit import inner, unit, view
from asterism.star._buffers import (
    BLOCK,
    FIRST,
    INITIAL,
    IS_EXOGENOUS,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    LINK,
    MARK,
    POINT,
    PROBLEM,
    SPAN,
    SQUARES,
    STATE,
    STATES,
    TO,
    VALUES,
    WORK,
    forward_row,
    generator_row,
    is_corrected,
)
from asterism.star._fourth_order import end_entry

FloatArray = NDArray[np.float64]
SmallIntArray = NDArray[np.int32]

# what a sweep is to leave behind
NOTHING = 0
AT_POINTS = 1
MESSAGES = 2


class Messages(NamedTuple):
    """Messages of all nodes along one trajectory of K steps."""

    generator: FloatArray
    """Flat; node n's is the (S², K) block at ``node[n, SQUARES] * K``: in the middle of the step
    where steps are smooth, else averaged over it."""
    forward: FloatArray
    """Flat; node n's is the (S, K+1) block at ``node[n, INITIAL] * (K + 1)``: the message at each
    grid point, with the evidence there included."""
    backward: FloatArray
    """Like ``forward``; also with the evidence at the point included."""
    clamp: SmallIntArray
    """(N, K) known state on each step, or −1."""
    entered: SmallIntArray
    """(N, K+1) state that a recorded jump enters at each grid point, or −1."""


class Reading(NamedTuple):
    """What a sweep is to leave behind, and where."""

    kind: int
    messages: Messages
    at_points: FloatArray


MESSAGES_BUNDLE = Bundle(
    types.NamedTuple(
        (float64[::1], float64[::1], float64[::1], int32[:, ::1], int32[:, ::1]), Messages
    )
)


@view
def generator_of(problem, messages, node, steps):
    """(S², K) generators of one node; a view."""
    size = problem.node[node, STATES]
    begin = problem.node[node, SQUARES] * steps
    return messages.generator[begin : begin + size * size * steps].reshape(size * size, steps)


@view
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


@inner(allocates=True)
def _leave_stretches(problem, trajectory, node, generator, forward, backward):
    """Inside a stretch the buffers hold f (1 − s) and (1 + s) ρ, s = h²/12 G'; take that out."""
    size = problem.node[node, STATES]
    first_step = problem.step_start[trajectory]
    ahead = np.empty(size)
    behind = np.empty(size)
    for i in range(problem.stretch_start[trajectory], problem.stretch_start[trajectory + 1]):
        for point in range(problem.stretch[i, FIRST] + 1, problem.stretch[i, LAST]):
            h = problem.width[first_step + point - 1]
            later = problem.width[first_step + point]
            for x in range(size):
                ahead[x] = forward[x, point]
                behind[x] = backward[x, point]
            for x in range(size):
                for y in range(size):
                    row = x * size + y
                    change = generator[row, point] - generator[row, point - 1]
                    value = h * later / (6.0 * (h + later)) * change
                    value = end_entry(value, x, y, h * generator[row, point])
                    forward[y, point] += ahead[x] * value
                    backward[x, point] -= value * behind[y]
            for x in range(size):
                forward[x, point] = max(forward[x, point], 0.0)
                backward[x, point] = max(backward[x, point], 0.0)


@inner(allocates=True)
def _copy_messages(problem, trajectory, node, clamped, messages, work):
    """Copy what the two passes left in the buffers."""
    size = problem.node[node, STATES]
    rows = size * size
    source = generator_row(problem, size)
    begin_forward = forward_row(size)
    begin_backward = begin_forward + size
    steps = messages.clamp.shape[1]
    generator = generator_of(problem, messages, node, steps)
    forward = at_grid_points(problem, messages.forward, node, steps)
    backward = at_grid_points(problem, messages.backward, node, steps)
    for k in range(steps):
        block = k // BLOCK
        j = k % BLOCK
        for row in range(rows):
            generator[row, k] = work.steps[block, source + row, j]
        for x in range(size):
            forward[x, k] = work.steps[block, begin_forward + x, j]
            backward[x, k + 1] = work.steps[block, begin_backward + x, j]
        if clamped:
            messages.clamp[node, k] = work.clamp[k]
    if is_corrected(problem):
        _leave_stretches(problem, trajectory, node, generator, forward, backward)
    for x in range(size):
        forward[x, steps] = work.message[0, x]
        backward[x, 0] = work.message[2, x]
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
    forward = forward_row(size)
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


@unit((PROBLEM, WORK, MESSAGES_BUNDLE, int64, int64, boolean), allocates=True)
def keep_messages(problem, work, messages, trajectory, node, clamped):
    """Keep the messages of a node; those of one with rates of its own are in the buffers."""
    if problem.node[node, IS_EXOGENOUS] == 1:
        _keep_known_path(problem, trajectory, node, messages)
    else:
        _copy_messages(problem, trajectory, node, clamped, messages, work)


@unit((PROBLEM, WORK, float64[::1], int64, int64), returns=boolean)
def keep_marginals(problem, work, at_points, trajectory, node):
    """Keep the marginals at a node's measurements; False if they left the range of numbers."""
    if problem.node[node, IS_EXOGENOUS] == 1:
        _known_at_marks(problem, trajectory, node, at_points)
        return True
    return _marginals_at_marks(problem, trajectory, node, work, at_points)
