"""Marginals at any time from the messages of a solved trajectory.

On a step of length h with forward message f at its start and backward message ρ at its end, the
marginal at distance s from the start is m(x) ∝ (f U)(x) (V ρ)(x), where U and V propagate over the
two parts of the step. The generator is not constant: its slope, and on a stretch of smooth steps
its curvature too, are taken from the neighbouring steps, and each part is propagated by the mean of
the generator over it. On a stretch the propagators are of fourth order, as the sweeps are (see
``_stretches.py``): (1 − s²/12 G') exp(s A) (1 + s²/12 G').
"""

from __future__ import annotations

import math

import numpy as np

from asterism.engine._grid_steps import LEAST_STEPS
from asterism.numerics._jit import inner, kernel
from asterism.numerics._matrix_step import (
    general_propagator,
)
from asterism.numerics._step import two_state_stiff
from asterism.numerics._tile_products import room_for
from asterism.star._buffers import BLOCK, FIRST, INITIAL, LAST, STATES, STRIDE
from asterism.star._fourth_order import end_entry
from asterism.star._kept_messages import at_grid_points, generator_of
from asterism.star._stretches import derivative_weights, distance


@inner
def _derivatives(own, k, width, first, last):
    """First to third derivative of a generator's entry in the middle of a step of a stretch.

    The curvature is that of the scheme's own parabola, so that a whole step is propagated as in
    the sweeps; slope and third derivative are those of a cubic if there are four steps.
    """
    begin = min(max(k - 1, first), last - LEAST_STEPS)
    d0 = distance(width, k, begin)
    d1 = distance(width, k, begin + 1)
    d2 = distance(width, k, begin + 2)
    v0, v1, v2 = own[begin], own[begin + 1], own[begin + 2]
    slope0, bend0 = derivative_weights(d0, d1, d2)
    slope1, bend1 = derivative_weights(d1, d0, d2)
    slope2, bend2 = derivative_weights(d2, d0, d1)
    slope = slope0 * v0 + slope1 * v1 + slope2 * v2
    bend = bend0 * v0 + bend1 * v1 + bend2 * v2
    if last - first == LEAST_STEPS:
        return slope, bend, 0.0
    # what the cubic adds to the parabola: third/6 (τ − d0)(τ − d1)(τ − d2)
    another = begin - 1
    if another < first:
        another = begin + LEAST_STEPS
    d3 = distance(width, k, another)
    v3 = own[another]
    parabola = v0 * (d3 - d1) * (d3 - d2) / ((d0 - d1) * (d0 - d2))
    parabola += v1 * (d3 - d0) * (d3 - d2) / ((d1 - d0) * (d1 - d2))
    parabola += v2 * (d3 - d0) * (d3 - d1) / ((d2 - d0) * (d2 - d1))
    sixth = (v3 - parabola) / ((d3 - d0) * (d3 - d1) * (d3 - d2))
    return slope + sixth * (d0 * d1 + d0 * d2 + d1 * d2), bend, 6.0 * sixth


@inner
def _mean_of_cubic(value, slope, bend, third, center, length):
    """Mean, over an interval around ``center``, of a cubic given by its derivatives at 0."""
    square = length * length
    return (
        value
        + slope * center
        + 0.5 * bend * (center * center + square / 12.0)
        + third / 6.0 * center * (center * center + square / 4.0)
    )


@inner
def _slope(own, k, width, smooth_before, smooth_after):
    """Change of a generator's entry per time around step k; zero where both sides have kinks."""
    if smooth_before and smooth_after:
        return (own[k + 1] - own[k - 1]) / (distance(width, k, k + 1) - distance(width, k, k - 1))
    if smooth_after:
        return (own[k + 1] - own[k]) / distance(width, k, k + 1)
    if smooth_before:
        return (own[k] - own[k - 1]) / distance(width, k - 1, k)
    return 0.0


@inner
def _fill_end(slope, generator, q, time, size, sign, out):
    """1 ± time²/12 G', limited as in ``corrections``."""
    for x in range(size):
        for y in range(size):
            row = x * size + y
            value = time * time / 12.0 * slope[row, q]
            out[x, y] = sign * end_entry(value, x, y, time * generator[row, q])
        out[x, x] += 1.0


@inner
def _times(message, matrix, size, spare):
    """message ← message · matrix."""
    for y in range(size):
        spare[y] = 0.0
        for x in range(size):
            spare[y] += message[x] * matrix[x, y]
    for x in range(size):
        message[x] = spare[x]


@inner
def _carry(message, is_backward, size, q, propagator, generator, slope, time, on_stretch, room):
    """message ← message · U over ``time`` or, backward, U · message.

    The latter as the product with the transposed factors. ``room``: for a matrix and a vector.
    """
    matrix, spare = room
    sign = 1.0 if is_backward else -1.0
    for part in range(3):
        if part == 1:
            for x in range(size):
                for y in range(size):
                    matrix[x, y] = propagator[x * size + y, q]
        elif on_stretch:
            _fill_end(slope, generator, q, time, size, sign if part == 0 else -sign, matrix)
        else:
            continue
        if is_backward:
            for x in range(size):
                for y in range(x):
                    matrix[x, y], matrix[y, x] = matrix[y, x], matrix[x, y]
        _times(message, matrix, size, spare)


@inner
def _split_generator(own, row, size, k, q, width, s, r, around, out):
    """Means of an entry of the generator over both parts of a step, ``s`` and ``r`` long.

    ``around`` is (first, last) of the stretch the step belongs to, or, with first < 0, whether the
    generator is smooth on the two sides of the step. Kept under ``q`` in ``out``: the means and the
    slope.
    """
    value = own[k]
    first, last, smooth_before, smooth_after = around
    if first >= 0:
        slope, bend, third = _derivatives(own, k, width, first, last)
    else:
        slope = _slope(own, k, width, smooth_before, smooth_after)
        bend, third = 0.0, 0.0
    before, behind, slopes = out
    is_rate = row // size != row % size
    if is_rate and width[k] * abs(slope) > 2.0 * value:
        slope, bend, third = 0.0, 0.0, 0.0  # rates stay positive
    slopes[row, q] = slope
    before[row, q] = _mean_of_cubic(value, slope, bend, third, -0.5 * r, s)
    behind[row, q] = _mean_of_cubic(value, slope, bend, third, 0.5 * s, r)
    if is_rate:
        before[row, q] = max(before[row, q], 0.0)
        behind[row, q] = max(behind[row, q], 0.0)


@inner
def _normalised_product(ahead, back, result):
    """result ∝ ahead · back, in logarithms: where f is tiny ρ may be huge. False if it fails."""
    size = result.shape[0]
    highest = -math.inf
    for x in range(size):
        result[x] = -math.inf
        if ahead[x] > 0.0 and back[x] > 0.0:
            result[x] = math.log(ahead[x]) + math.log(back[x])
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


@kernel
def marginals_at(problem, trajectory, messages, width, is_kink, step, inside, out, addresses):
    """m of every node at times ``inside`` (from its start) step ``step``; (queries, Σ S).

    Step K stands for the end of the trajectory. ``width`` are the lengths of this trajectory's
    steps; ``is_kink`` tells at which of its grid points something is known. Returns whether all
    marginals are finite.
    """
    n_nodes = problem.node.shape[0] - 1
    steps = width.shape[0]
    largest_size = 0
    for node in range(n_nodes):
        largest_size = max(largest_size, problem.node[node, STATES])
    rows = largest_size * largest_size
    generator = np.zeros((rows, STRIDE))
    later_generator = np.zeros((rows, STRIDE))
    slopes = np.zeros((rows, STRIDE))
    to_start = np.zeros(STRIDE)
    to_end = np.zeros(STRIDE)
    before = np.zeros((rows, STRIDE))
    behind = np.zeros((rows, STRIDE))
    log_scale = np.zeros(STRIDE)
    coefficients = np.zeros((3, STRIDE))
    factor = np.zeros((largest_size, largest_size))
    ahead = np.zeros(largest_size)
    back = np.zeros(largest_size)
    spare = np.zeros(largest_size)
    stretch_of = np.full(steps + 1, -1)
    for i in range(problem.stretch_start[trajectory], problem.stretch_start[trajectory + 1]):
        stretch_of[problem.stretch[i, FIRST] : problem.stretch[i, LAST]] = i
    scratch = np.zeros(room_for(largest_size) if largest_size > 2 else 0)
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        at = problem.node[node, INITIAL]
        own = generator_of(problem, messages, node, steps)
        forward = at_grid_points(problem, messages.forward, node, steps)
        backward = at_grid_points(problem, messages.backward, node, steps)
        clamp = messages.clamp[node]
        for first in range(0, step.shape[0], BLOCK):
            count = min(BLOCK, step.shape[0] - first)
            for q in range(count):
                k = step[first + q]
                if k == steps or clamp[k] >= 0:
                    to_start[q] = 0.0
                    to_end[q] = 0.0
                    for row in range(size * size):
                        generator[row, q] = 0.0
                        later_generator[row, q] = 0.0
                        slopes[row, q] = 0.0
                    continue
                to_start[q] = inside[first + q]
                to_end[q] = width[k] - inside[first + q]
                smooth_before = k > 0 and not is_kink[k] and clamp[k - 1] < 0
                smooth_after = k + 1 < steps and not is_kink[k + 1] and clamp[k + 1] < 0
                around = (-1, -1, smooth_before, smooth_after)
                if stretch_of[k] >= 0:
                    on = problem.stretch[stretch_of[k]]
                    around = (on[FIRST], on[LAST], smooth_before, smooth_after)
                for row in range(size * size):
                    _split_generator(
                        own[row],
                        row,
                        size,
                        k,
                        q,
                        width,
                        to_start[q],
                        to_end[q],
                        around,
                        (generator, later_generator, slopes),
                    )
            if size == 2:
                two_state_stiff(generator, to_start, count, coefficients, before, log_scale)
                two_state_stiff(later_generator, to_end, count, coefficients, behind, log_scale)
            else:
                general_propagator(
                    addresses, generator, to_start, size, count, before, log_scale, scratch
                )
                general_propagator(
                    addresses, later_generator, to_end, size, count, behind, log_scale, scratch
                )
            for q in range(count):
                k = step[first + q]
                result = out[first + q, at : at + size]
                if k < steps and clamp[k] >= 0:
                    result[:] = 0.0
                    result[clamp[k]] = 1.0
                    continue
                for x in range(size):
                    ahead[x] = forward[x, k]
                    back[x] = backward[x, k + 1] if k < steps else 1.0
                if k < steps:
                    s, r, on_stretch = to_start[q], to_end[q], stretch_of[k] >= 0
                    room = (factor, spare)
                    _carry(
                        ahead, bool(False), size, q, before, generator, slopes, s, on_stretch, room
                    )
                    _carry(
                        back,
                        bool(True),
                        size,
                        q,
                        behind,
                        later_generator,
                        slopes,
                        r,
                        on_stretch,
                        room,
                    )
                if not _normalised_product(ahead, back, result):
                    return False
    return True
