"""One time step of a node with two states, and loops over one vector.

On a step of length h the averaged generator A is constant. The propagator is P = exp(A h), and
the moments are W(x,y) = ∫ f(x,t) ρ(y,t) dt / (f P ρ). Arrays are (rows, steps) blocks with time
innermost, so that every arithmetic loop runs over consecutive steps and vectorises.

Two states have closed forms, written as power series in q = (δh)², which need neither exp nor
sqrt while q ≤ 1. ``_matrix_step.py`` does every other case: more states, or a stiff step.

Loops over one vector are spelled out: numba would accept numpy's array expressions as well, but
compiles each of them anew, which takes far longer than these few loops.
"""

from __future__ import annotations

import numpy as np

from asterism.numerics._jit import inlined, kernel

_SERIES_LIMIT = 1.0


@kernel
def two_state_series(generator, width, count, padded, coefficients, propagator, log_scale):
    """Closed-form exp(A h) of 2×2 steps; False (outputs unusable) if a step is too stiff for it.

    ``padded`` steps, at least ``count``, are computed: whole vectors are faster than parts.

    With μ = tr A / 2, B = A − μ and δ² = −det B: exp(A h) = e^{μh} (c + s B), where c = cosh δh and
    s = sinh(δh)/δ. ``coefficients`` receives c, s and g = (h c − s)/δ².
    """
    for k in range(padded):
        half = 0.5 * (generator[0, k] - generator[3, k])
        q = (half * half + generator[1, k] * generator[2, k]) * width[k] * width[k]
        coefficients[0, k] = q
        coefficients[1, k] = q
    if not largest_of(coefficients[1], count) <= _SERIES_LIMIT:
        return False
    for k in range(padded):
        h = width[k]
        q = coefficients[0, k]
        # Taylor coefficients 1/(2i)!, 1/(2i+1)! and (2i+2)/(2i+3)!
        c = 1.0 + q * (
            1 / 2
            + q
            * (
                1 / 24
                + q
                * (
                    1 / 720
                    + q
                    * (
                        1 / 40320
                        + q
                        * (
                            1 / 3628800
                            + q * (1 / 479001600 + q * (1 / 87178291200 + q * (1 / 20922789888000)))
                        )
                    )
                )
            )
        )
        s = 1.0 + q * (
            1 / 6
            + q
            * (
                1 / 120
                + q
                * (
                    1 / 5040
                    + q
                    * (
                        1 / 362880
                        + q
                        * (
                            1 / 39916800
                            + q
                            * (1 / 6227020800 + q * (1 / 1307674368000 + q * (1 / 355687428096000)))
                        )
                    )
                )
            )
        )
        g = 2 / 6 + q * (
            4 / 120
            + q
            * (
                6 / 5040
                + q
                * (
                    8 / 362880
                    + q
                    * (
                        10 / 39916800
                        + q
                        * (12 / 6227020800 + q * (14 / 1307674368000 + q * (16 / 355687428096000)))
                    )
                )
            )
        )
        s *= h
        half = 0.5 * (generator[0, k] - generator[3, k])
        coefficients[0, k] = c
        coefficients[1, k] = s
        coefficients[2, k] = g * h * h * h
        propagator[0, k] = c + s * half
        propagator[1, k] = s * generator[1, k]
        propagator[2, k] = s * generator[2, k]
        propagator[3, k] = c - s * half
        log_scale[k] = 0.5 * (generator[0, k] + generator[3, k]) * h
    return True


@kernel
def two_state_moments(generator, width, count, coefficients, forward, backward, moments):
    """W of 2×2 steps from the coefficients of :func:`two_state_series`.

    ``forward[:, k]`` is f at the start of step k, ``backward[:, k]`` is ρ at its end; any scale.
    """
    for k in range(count):
        h = width[k]
        c = coefficients[0, k]
        s = coefficients[1, k]
        half = 0.5 * (generator[0, k] - generator[3, k])
        a01 = generator[1, k]
        a10 = generator[2, k]
        f0 = forward[0, k]
        f1 = forward[1, k]
        r0 = backward[0, k]
        r1 = backward[1, k]
        fb0 = f0 * half + f1 * a10
        fb1 = f0 * a01 - f1 * half
        br0 = half * r0 + a01 * r1
        br1 = a10 * r0 - half * r1
        u = 0.5 * (h * c + s)
        v = 0.5 * h * s
        w = 0.5 * coefficients[2, k]
        m00 = u * f0 * r0 + v * (fb0 * r0 + f0 * br0) + w * fb0 * br0
        m01 = u * f0 * r1 + v * (fb0 * r1 + f0 * br1) + w * fb0 * br1
        m10 = u * f1 * r0 + v * (fb1 * r0 + f1 * br0) + w * fb1 * br0
        m11 = u * f1 * r1 + v * (fb1 * r1 + f1 * br1) + w * fb1 * br1
        m00 = max(m00, 0.0)
        m11 = max(m11, 0.0)
        # the diagonal sums to h exactly: f ρ is constant in time
        scale = h / (m00 + m11)
        moments[0, k] = m00 * scale
        moments[1, k] = max(m01, 0.0) * scale
        moments[2, k] = max(m10, 0.0) * scale
        moments[3, k] = m11 * scale


@kernel
def fill(vector, value):
    for i in range(len(vector)):
        vector[i] = value


@kernel
def copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def add(vector, other):
    """vector += other."""
    for i in range(len(vector)):
        vector[i] += other[i]


@kernel
def multiply(vector, other):
    """vector *= other."""
    for i in range(len(vector)):
        vector[i] *= other[i]


@kernel
def scale(vector, factor):
    """vector *= factor."""
    for i in range(len(vector)):
        vector[i] *= factor


@kernel
def total(vector):
    result = 0.0
    for i in range(len(vector)):
        result += vector[i]
    return result


@kernel
def largest(vector):
    result = vector[0]
    for i in range(1, len(vector)):
        result = max(result, vector[i])
    return result


@kernel
def doubled(array):
    """A copy with room for as many entries again."""
    result = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        result[i] = array[i]
    return result


@inlined
def largest_of(values, count):
    """The largest of some numbers ≥ 0, or NaN if there is one; ``values[0]`` is overwritten.

    Such numbers are ordered like the integers with the same bits, and the largest of integers can
    be found with vector instructions.
    """
    bits = values.view(np.int64)
    largest = np.int64(0)
    for k in range(count):
        largest = max(largest, bits[k])
    bits[0] = largest
    return values[0]


@kernel
def sort_first(values, count):
    """Sort the first few values in place; there are only some tens of them."""
    for i in range(1, count):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


def has_settled(change: float, moved: float, tolerance: float, size: float) -> bool:
    """The stop rule of every iteration, in ``star`` and in ``learning/search``.

    Neither messages and rates (``change``) nor the score (``moved``) change by more than the
    tolerance; the score by ``size`` times as much, for what much data say may move by more.
    """
    return change <= tolerance and moved <= tolerance * size
