"""The stretches of smooth steps that are of fourth order, and comparing two grids.

Inside a gap every generator is a smooth function of time, and three neighbouring steps
tell its slope and curvature. With G the generator, G' and G'' its derivatives and h the step
(``docs/derivations.md`` has the argument):

- averages and pulls are taken in the middle of a step, from moments whose step means are turned
  into values in the middle (``to_middle``);
- a step is propagated by exp(h B) with B = G − h²/24 G'' − h h'/6 G' (``to_step``);
- a message that enters a stretch is multiplied by 1 − h²/12 G', one that leaves it by 1 + h²/12 G'
  (``end_slope``): with both, the error of the commutator [G, G'] is gone;
- values in the middle of steps are summed with weights (``quadrature``) that give back the sum of
  the step means.

A stretch has at least three steps, lies in one block of the buffers, and its steps are neither long
against the relaxation time nor very unequal. All other steps keep the plain scheme of second order.
"""

from __future__ import annotations

import numpy as np

from asterism.engine._grid_steps import LEAST_STEPS
from asterism.numerics._jit import inner, kernel
from asterism.star._buffers import BLOCK, FIRST, LAST, VECTORS

_LARGEST_RATIO = 2.0  # of two neighbouring steps
_ROUNDS = 30  # of the iteration for the weights; each gains more than one digit


@inner
def _is_smooth(width, first, last, longest):
    """Whether steps first … last−1 can form a stretch."""
    if last - first < LEAST_STEPS:
        return False
    for k in range(first, last):
        if not width[k] <= longest:
            return False
        if k > first:
            ratio = width[k] / width[k - 1]
            if ratio > _LARGEST_RATIO or ratio * _LARGEST_RATIO < 1.0:
                return False
    return True


@inner
def distance(width, k, other):
    """From the middle of step k to that of another one nearby."""
    total = 0.0
    for i in range(min(k, other), max(k, other)):
        total += 0.5 * (width[i] + width[i + 1])
    return total if other >= k else -total


@inner
def derivative_weights(a, b, c):
    """Weights of a value at ``a`` in first and second derivative at 0, with others at b and c."""
    product = (a - b) * (a - c)
    return -(b + c) / product, 2.0 / product


@inner
def _fill_middle(width, first, last, to_middle, to_step):
    """Rows of both operators for the steps of one stretch."""
    for k in range(first, last):
        h = width[k]
        begin = min(max(k - 1, first), last - LEAST_STEPS)
        h0, h1, h2 = width[begin], width[begin + 1], width[begin + 2]
        d0 = distance(width, k, begin)
        d1 = distance(width, k, begin + 1)
        d2 = distance(width, k, begin + 2)
        # a parabola's mean over a step is its value in the middle plus h²/24 of its curvature
        q0 = d0 * d0 + h0 * h0 / 12.0
        q1 = d1 * d1 + h1 * h1 / 12.0
        q2 = d2 * d2 + h2 * h2 / 12.0
        m0 = d1 * q2 - d2 * q1
        m1 = d2 * q0 - d0 * q2
        m2 = d0 * q1 - d1 * q0
        total = m0 + m1 + m2
        place = begin - k + 2
        to_middle[place, k] = m0 / total * h / h0
        to_middle[place + 1, k] = m1 / total * h / h1
        to_middle[place + 2, k] = m2 / total * h / h2
        slope0, bend0 = derivative_weights(d0, d1, d2)
        slope1, bend1 = derivative_weights(d1, d0, d2)
        slope2, bend2 = derivative_weights(d2, d0, d1)
        widening = slope0 * h0 + slope1 * h1 + slope2 * h2
        for_bend = -h * h / 24.0
        for_slope = -h * widening / 6.0
        to_step[place, k] = for_bend * bend0 + for_slope * slope0
        to_step[place + 1, k] = for_bend * bend1 + for_slope * slope1
        to_step[place + 2, k] = for_bend * bend2 + for_slope * slope2
        to_step[2, k] += 1.0


@inner
def _fill_end(h0, h1, h2, sign, slope):
    """Weights of the first three generators, from an end inwards, in h²/12 G' at that end."""
    d0 = 0.5 * h0
    d1 = h0 + 0.5 * h1
    d2 = h0 + h1 + 0.5 * h2
    square = max(1.5 * h0 * h0 - 0.5 * h1 * h1, 0.25 * h0 * h0)
    slope[0] = sign * square / 12.0 * derivative_weights(d0, d1, d2)[0]
    slope[1] = sign * square / 12.0 * derivative_weights(d1, d0, d2)[0]
    slope[2] = sign * square / 12.0 * derivative_weights(d2, d0, d1)[0]


@inner
def _fill_quadrature(width, first, last, to_middle, quadrature, rest):
    """Weights v with Σ_k v_k (to_middle W)_k = Σ_k W_k for any W, by iteration."""
    for _ in range(_ROUNDS):
        for k in range(first, last):
            rest[k] = 1.0
        for k in range(first, last):
            for i in range(5):
                if to_middle[i, k] != 0.0:
                    rest[k + i - 2] -= quadrature[k] * to_middle[i, k]
        largest = 0.0
        for k in range(first, last):
            quadrature[k] += rest[k]
            largest = max(largest, abs(rest[k]))
        if largest < 1e-15:
            break


@kernel
def find_stretches(step_start, width, trajectory, point, longest):
    """Stretches of all trajectories: (start, stretch, slope, to_middle, to_step, quadrature).

    ``trajectory`` and ``point`` say at which grid points something is known; no step of a stretch
    is longer than ``longest``. The results are described in ``arrays``; those per step have room
    for whole vectors behind the last one.
    """
    n_trajectories = step_start.shape[0] - 1
    start = np.zeros(n_trajectories + 1, dtype=np.int64)
    n_steps = step_start[n_trajectories]
    to_middle = np.zeros((5, n_steps + VECTORS))
    to_step = np.zeros((5, n_steps + VECTORS))
    quadrature = np.ones(n_steps + VECTORS)
    rest = np.empty(n_steps)
    stretch = np.empty((n_steps // LEAST_STEPS, 2), dtype=np.int64)
    slope = np.empty((n_steps // LEAST_STEPS, 6))
    found = 0
    for i in range(1, trajectory.shape[0]):
        d = trajectory[i]
        if d != trajectory[i - 1]:
            continue
        begin = point[i - 1]
        while begin < point[i]:
            end = min(point[i], (begin // BLOCK + 1) * BLOCK)
            first = step_start[d] + begin
            last = step_start[d] + end
            if _is_smooth(width, first, last, longest):
                stretch[found, FIRST] = begin
                stretch[found, LAST] = end
                _fill_middle(width, first, last, to_middle, to_step)
                _fill_end(width[first], width[first + 1], width[first + 2], 1.0, slope[found, :3])
                _fill_end(width[last - 1], width[last - 2], width[last - 3], -1.0, slope[found, 3:])
                _fill_quadrature(width, first, last, to_middle, quadrature, rest)
                found += 1
                start[d + 1] += 1
            else:
                for k in range(first, last):
                    to_middle[2, k] = 1.0
                    to_step[2, k] = 1.0
            begin = end
    for d in range(n_trajectories):
        start[d + 1] += start[d]
    return start, stretch[:found].copy(), slope[:found].copy(), to_middle, to_step, quadrature


@inner
def _step_integral(to_middle, moments, first, begin, steps, k):
    """A moment as the integral over its step, whatever the step keeps."""
    value = moments[begin + k]
    if to_middle.shape[1] == 0:
        return value
    # the inverse of the correction, to the order of the scheme
    corrected = 0.0
    for i in range(max(0, 2 - k), min(5, steps + 2 - k)):
        corrected += to_middle[i, first + k] * moments[begin + k + i - 2]
    return 2.0 * value - corrected


@kernel
def compare(rows, starts, width, to_middle, moments, fine_to_middle, fine_moments, ratios, change):
    """See ``largest_change`` in ``batch.py``; ``starts``: first step and steps of each pair."""
    squares = starts[0, 3]
    for d in range(starts.shape[0]):
        first, steps, fine_first = starts[d, 0], starts[d, 1], starts[d, 2]
        fine_steps = steps * ratios[d]
        largest = 0.0
        for row in rows:
            old = first * squares + row * steps
            new = fine_first * squares + row * fine_steps
            for k in range(steps):
                total = -_step_integral(to_middle, moments, first, old, steps, k)
                for j in range(k * ratios[d], (k + 1) * ratios[d]):
                    total += _step_integral(
                        fine_to_middle, fine_moments, fine_first, new, fine_steps, j
                    )
                largest = max(largest, abs(total) / width[first + k])
        change[d] = largest
