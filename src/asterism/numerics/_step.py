"""One time step of one node: propagators and the integral of forward × backward messages.

On a step of length h the averaged generator A is constant. The propagator is P = exp(A h), and
the moments are W(x,y) = ∫ f(x,t) ρ(y,t) dt / (f P ρ). Arrays are (rows, steps) blocks with time
innermost, so that every arithmetic loop runs over consecutive steps and vectorises.

Two states have closed forms, written as power series in q = (δh)², which need neither exp nor
sqrt while q ≤ 1. Every other case (more states, or a stiff step) uses scaling and squaring of a
Taylor series of the *shifted*, entrywise non-negative matrix: all terms are positive, so small
entries keep their relative accuracy at any stiffness.

Loops over one vector, spelled out.

numba would accept numpy's array expressions as well, but compiles each of them anew, which takes
far longer than these few loops.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inlined, inner, kernel

_SMALL_NORM = 0.5
_TAYLOR_TERMS = 16
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


@inner
def _multiply(left, right, size, count, out):
    """out = left · right for blocks of (size², steps) matrices."""
    for x in range(size):
        for y in range(size):
            row = x * size + y
            for k in range(count):
                out[row, k] = 0.0
            for z in range(size):
                a = x * size + z
                b = z * size + y
                for k in range(count):
                    out[row, k] += left[a, k] * right[b, k]


@inner
def _prepare(generator, width, size, count, base, shift):
    """Shift to a non-negative matrix, times h, halved until small; returns the squarings needed."""
    norm = 0.0
    for k in range(count):
        lowest = generator[0, k]
        for x in range(1, size):
            lowest = min(lowest, generator[x * size + x, k])
        shift[k] = lowest
        for x in range(size):
            total = 0.0
            for y in range(size):
                value = generator[x * size + y, k]
                if x == y:
                    value -= lowest
                base[x * size + y, k] = value * width[k]
                total += value * width[k]
            norm = max(norm, total)
    squarings = 0
    while norm > _SMALL_NORM and squarings < 1000:
        norm *= 0.5
        squarings += 1
    if squarings > 0:
        factor = 0.5**squarings
        for row in range(size * size):
            for k in range(count):
                base[row, k] *= factor
    return squarings


@inner
def _square_scale(matrix, companion, rows, count, extra):
    """After a squaring: the logarithm taken out so far doubles; take out more if entries grew."""
    for k in range(count):
        largest = 0.0
        for row in range(rows):
            largest = max(largest, matrix[row, k])
        extra[k] *= 2.0
        if largest > 1e40 or largest < 1e-40:
            inverse = 1.0 / largest
            for row in range(rows):
                matrix[row, k] *= inverse
                companion[row, k] *= inverse
            extra[k] += math.log(largest)


@kernel
def general_propagator(generator, width, size, count, propagator, log_scale, scratch):
    """exp(A h) of every step for any number of states; its scale goes to ``log_scale``.

    ``scratch`` is (≥ 6, size², steps).
    """
    rows = size * size
    base = scratch[0]
    term = scratch[1]
    other = scratch[2]
    unused = scratch[3]
    shift = scratch[5, 0]
    extra = scratch[5, 1]
    squarings = _prepare(generator, width, size, count, base, shift)
    term[:, :count] = 0.0
    propagator[:, :count] = 0.0
    for x in range(size):
        term[x * size + x, :count] = 1.0
        propagator[x * size + x, :count] = 1.0
    for i in range(1, _TAYLOR_TERMS + 1):
        _multiply(base, term, size, count, other)
        inverse = 1.0 / i
        for row in range(rows):
            for k in range(count):
                term[row, k] = other[row, k] * inverse
                propagator[row, k] += term[row, k]
    extra[:count] = 0.0
    unused[:, :count] = 0.0
    for _ in range(squarings):
        _multiply(propagator, propagator, size, count, other)
        for row in range(rows):
            for k in range(count):
                propagator[row, k] = other[row, k]
        _square_scale(propagator, unused, rows, count, extra)
    for k in range(count):
        log_scale[k] = shift[k] * width[k] + extra[k]


@kernel
def general_moments(generator, width, size, count, forward, backward, moments, scratch):
    """W of every step for any number of states: the off-diagonal block of a block exponential.

    exp(h [[A, ρ f], [0, A]]) = [[P, G], [0, P]] with G(y, x) = ∫ ρ(y) f(x); squaring turns (P, G)
    into (P², P G + G P). ``scratch`` is (≥ 8, size², steps).
    """
    rows = size * size
    base = scratch[0]
    term = scratch[1]
    other = scratch[2]
    integral = scratch[3]
    integral_term = scratch[4]
    shift = scratch[5, 0]
    extra = scratch[5, 1]
    total = scratch[6]
    third = scratch[7]
    squarings = _prepare(generator, width, size, count, base, shift)
    term[:, :count] = 0.0
    total[:, :count] = 0.0
    integral[:, :count] = 0.0
    integral_term[:, :count] = 0.0
    for x in range(size):
        term[x * size + x, :count] = 1.0
        total[x * size + x, :count] = 1.0
    piece = 0.5**squarings
    for i in range(1, _TAYLOR_TERMS + 1):
        inverse = 1.0 / i
        _multiply(base, integral_term, size, count, other)
        # add the source: ρ (f · term), times the length of the piece
        for x in range(size):
            for k in range(count):
                third[0, k] = 0.0
            for z in range(size):
                for k in range(count):
                    third[0, k] += forward[z, k] * term[z * size + x, k]
            for y in range(size):
                row = y * size + x
                for k in range(count):
                    value = other[row, k] + backward[y, k] * third[0, k] * (width[k] * piece)
                    integral_term[row, k] = value * inverse
        for row in range(rows):
            for k in range(count):
                integral[row, k] += integral_term[row, k]
        _multiply(base, term, size, count, other)
        for row in range(rows):
            for k in range(count):
                term[row, k] = other[row, k] * inverse
                total[row, k] += term[row, k]
    extra[:count] = 0.0
    for _ in range(squarings):
        _multiply(total, integral, size, count, other)
        _multiply(integral, total, size, count, third)
        for row in range(rows):
            for k in range(count):
                integral[row, k] = other[row, k] + third[row, k]
        _multiply(total, total, size, count, other)
        for row in range(rows):
            for k in range(count):
                total[row, k] = other[row, k]
        _square_scale(total, integral, rows, count, extra)
    for k in range(count):
        trace = 0.0
        for x in range(size):
            trace += integral[x * size + x, k]
        # f ρ is constant in time, so the diagonal sums to h exactly
        scale = width[k] / trace
        for x in range(size):
            for y in range(size):
                moments[x * size + y, k] = integral[y * size + x, k] * scale


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
