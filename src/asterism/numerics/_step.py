"""One time step of a node with two states, and loops over one vector.

On a step of length h the averaged generator A is constant. The propagator is P = exp(A h), and
the moments are W(x,y) = ∫ f(x,t) ρ(y,t) dt / (f P ρ). Arrays are (rows, steps) blocks with time
innermost, so that every arithmetic loop runs over consecutive steps and vectorises.

Two states have closed forms: power series in q = (δh)², which need neither exp nor sqrt while
q ≤ 1, and exponentials for stiffer steps. ``_matrix_step.py`` does more states.

Loops over one vector are spelled out: numba would accept numpy's array expressions as well, but
compiles each of them anew, which takes far longer than these few loops.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inlined, inner

_SERIES_LIMIT = 1.0


@inlined
def _series(q):
    """cosh √q, sinh √q / √q and (cosh √q − sinh √q / √q) / q for q ≤ 1, without exp and sqrt."""
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
                        + q * (1 / 6227020800 + q * (1 / 1307674368000 + q * (1 / 355687428096000)))
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
                    + q * (12 / 6227020800 + q * (14 / 1307674368000 + q * (16 / 355687428096000)))
                )
            )
        )
    )
    return c, s, g


@inlined
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
        c, s, g = _series(q)
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


@inlined
def _mild_moments(h, c, s, g, half, a01, a10, f, r):
    """W of one step from c, s and g, its diagonal not yet scaled to h."""
    f0, f1 = f
    r0, r1 = r
    fb0 = f0 * half + f1 * a10
    fb1 = f0 * a01 - f1 * half
    br0 = half * r0 + a01 * r1
    br1 = a10 * r0 - half * r1
    u = 0.5 * (h * c + s)
    v = 0.5 * h * s
    w = 0.5 * g
    m00 = u * f0 * r0 + v * (fb0 * r0 + f0 * br0) + w * fb0 * br0
    m01 = u * f0 * r1 + v * (fb0 * r1 + f0 * br1) + w * fb0 * br1
    m10 = u * f1 * r0 + v * (fb1 * r0 + f1 * br0) + w * fb1 * br0
    m11 = u * f1 * r1 + v * (fb1 * r1 + f1 * br1) + w * fb1 * br1
    return max(m00, 0.0), max(m01, 0.0), max(m10, 0.0), max(m11, 0.0)


@inlined
def two_state_moments(generator, width, count, coefficients, forward, backward, moments):
    """W of 2×2 steps from the coefficients of :func:`two_state_series`.

    ``forward[:, k]`` is f at the start of step k, ``backward[:, k]`` is ρ at its end; any scale.
    """
    for k in range(count):
        h = width[k]
        m00, m01, m10, m11 = _mild_moments(
            h,
            coefficients[0, k],
            coefficients[1, k],
            coefficients[2, k],
            0.5 * (generator[0, k] - generator[3, k]),
            generator[1, k],
            generator[2, k],
            (forward[0, k], forward[1, k]),
            (backward[0, k], backward[1, k]),
        )
        # the diagonal sums to h exactly: f ρ is constant in time
        scale = h / (m00 + m11)
        moments[0, k] = m00 * scale
        moments[1, k] = m01 * scale
        moments[2, k] = m10 * scale
        moments[3, k] = m11 * scale


@inlined
def _shares(half, a01, a10, delta):
    """(δ + half)/2δ and (δ − half)/2δ, the small one without a difference."""
    size = abs(half)
    large = (delta + size) / (2.0 * delta)
    small = a01 * a10 / (2.0 * delta * (delta + size))
    return (large, small) if half >= 0.0 else (small, large)


@inner
def two_state_stiff(generator, width, count, coefficients, propagator, log_scale):
    """exp(A h) of 2×2 steps, however stiff; for those of a block that has a stiff one.

    e^{δh} is taken out of steps with δh > 1. What is left is a sum of positive terms: with the
    shares α = (δ + half)/2δ and β = (δ − half)/2δ it is α + β e^{−2δh} on the diagonal, and the
    same with α and β exchanged. ``coefficients`` receives −1, δ and e^{−2δh} for such steps; for
    all others c, s and g.
    """
    for k in range(count):
        h = width[k]
        a01 = generator[1, k]
        a10 = generator[2, k]
        half = 0.5 * (generator[0, k] - generator[3, k])
        log_scale[k] = 0.5 * (generator[0, k] + generator[3, k]) * h
        q = (half * half + a01 * a10) * h * h
        if q <= _SERIES_LIMIT:
            c, s, g = _series(q)
            s *= h
            coefficients[0, k] = c
            coefficients[1, k] = s
            coefficients[2, k] = g * h * h * h
            propagator[0, k] = c + s * half
            propagator[1, k] = s * a01
            propagator[2, k] = s * a10
            propagator[3, k] = c - s * half
            continue
        delta = math.hypot(half, math.sqrt(a01) * math.sqrt(a10))
        decay = math.exp(-2.0 * delta * h)
        alpha, beta = _shares(half, a01, a10, delta)
        s = 0.5 * (1.0 - decay) / delta
        coefficients[0, k] = -1.0
        coefficients[1, k] = delta
        coefficients[2, k] = decay
        propagator[0, k] = alpha + beta * decay
        propagator[1, k] = s * a01
        propagator[2, k] = s * a10
        propagator[3, k] = beta + alpha * decay
        log_scale[k] += delta * h


@inner
def two_state_stiff_moments(generator, width, count, coefficients, forward, backward, moments):
    """W of 2×2 steps from the coefficients of :func:`two_state_stiff`.

    With f⁺ and ρ⁺ the projections on the slow direction, W = a f⁺ρ⁺ + b f ρ + c (f⁺ρ + f ρ⁺) up to
    a factor, all of them positive.
    """
    for k in range(count):
        h = width[k]
        a01 = generator[1, k]
        a10 = generator[2, k]
        half = 0.5 * (generator[0, k] - generator[3, k])
        f0 = forward[0, k]
        f1 = forward[1, k]
        r0 = backward[0, k]
        r1 = backward[1, k]
        if coefficients[0, k] >= 0.0:
            c, s, g = coefficients[0, k], coefficients[1, k], coefficients[2, k]
            m00, m01, m10, m11 = _mild_moments(h, c, s, g, half, a01, a10, (f0, f1), (r0, r1))
        else:
            delta = coefficients[1, k]
            decay = coefficients[2, k]
            alpha, beta = _shares(half, a01, a10, delta)
            u = 0.5 * a01 / delta
            v = 0.5 * a10 / delta
            g0 = alpha * f0 + v * f1
            g1 = u * f0 + beta * f1
            s0 = alpha * r0 + u * r1
            s1 = v * r0 + beta * r1
            length = delta * h
            both = length * (1.0 + decay) - (1.0 - decay)
            none = length * decay
            one = 0.5 * (1.0 - decay) - none
            m00 = both * g0 * s0 + none * f0 * r0 + one * (g0 * r0 + f0 * s0)
            m01 = both * g0 * s1 + none * f0 * r1 + one * (g0 * r1 + f0 * s1)
            m10 = both * g1 * s0 + none * f1 * r0 + one * (g1 * r0 + f1 * s0)
            m11 = both * g1 * s1 + none * f1 * r1 + one * (g1 * r1 + f1 * s1)
        scale = h / (m00 + m11)
        moments[0, k] = m00 * scale
        moments[1, k] = m01 * scale
        moments[2, k] = m10 * scale
        moments[3, k] = m11 * scale


@inner
def fill(vector, value):
    for i in range(len(vector)):
        vector[i] = value


@inner
def copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@inner
def add(vector, other):
    """vector += other."""
    for i in range(len(vector)):
        vector[i] += other[i]


@inner
def multiply(vector, other):
    """vector *= other."""
    for i in range(len(vector)):
        vector[i] *= other[i]


@inner
def scale(vector, factor):
    """vector *= factor."""
    for i in range(len(vector)):
        vector[i] *= factor


@inner
def total(vector):
    result = 0.0
    for i in range(len(vector)):
        result += vector[i]
    return result


@inner
def largest(vector):
    result = vector[0]
    for i in range(1, len(vector)):
        result = max(result, vector[i])
    return result


@inner(allocates=True)
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


def has_settled(change: float, moved: float, tolerance: float, size: float) -> bool:
    """The stop rule of every iteration, in ``star`` and in ``learning/search``.

    Neither messages and rates (``change``) nor the score (``moved``) change by more than the
    tolerance; the score by ``size`` times as much, for what much data say may move by more.
    """
    return change <= tolerance and moved <= tolerance * size
