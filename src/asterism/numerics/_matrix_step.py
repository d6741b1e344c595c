"""One time step of a node with any number of states: exp(A h) and W = ∫ f ρ dt / (f P ρ).

Both come from Taylor series of the *shifted* matrix A − min diagonal, times h, which has no
negative entry: all terms are positive, so small entries keep their relative accuracy at any
stiffness. Where its norm exceeds one, the step is halved until it does not, and the results are
squared as often.

- The propagator is a polynomial of degree 3b + 2, evaluated with b + 2 products of matrices
  (Horner's rule in the cube of the matrix).
- The moments need no matrix function. With f_i = f Aⁱ and v_i = Σ_j h^{i+j+1}/(i+j+1)! Aʲ ρ,
  ∫ f ρ dt = Σ_i f_i v_i, and the second family follows from v_{i−1} = hⁱ/i! ρ + A v_i, downwards
  from the last. A term costs three products of a matrix's size.

Steps are worked on in tiles (``_tile_products.py``).
"""

from __future__ import annotations

import math

from numba import float64, int64

from asterism.numerics._jit import inlined, inner, unit
from asterism.numerics._step import largest_of
from asterism.numerics._tile_products import (
    BASE,
    INTEGRAL,
    LEFT,
    MOST_TERMS,
    PRODUCT,
    RIGHT,
    SQUARE,
    TILE,
    add_to_diagonal,
    clear_rows,
    copy_rows,
    horner,
    multiply,
    next_row,
    single_rows,
    two_terms,
    vectors,
)

_ROWS, _ROW = float64[:, ::1], float64[::1]
_VECTOR = 16  # steps are worked on in multiples of this number
_LARGEST_NORM = 1.0
_USUAL = 1e-16  # what is left out of a sum, relative to it
_DEEP = 1e-12  # the same for an entry that takes several jumps
_MOST_JUMPS = 8


@inlined
def _n_terms(norm, jumps):
    """The last power of a matrix of this norm that matters, for states ``jumps`` jumps apart."""
    usual = 0
    term = 1.0
    while term > _USUAL:
        usual += 1
        term *= norm / usual
    deep = 0
    term = 1.0
    while term > _DEEP:
        deep += 1
        term *= norm / deep
    return min(max(usual, deep + min(jumps, _MOST_JUMPS)) - 1, MOST_TERMS)


@inner
def _take_in(generator, width, size, first, count, n, s):
    """Shifted matrices of a tile, times h and halved until small; (norm, squarings).

    Steps behind the last become zero.
    """
    rows = size * size
    begin = single_rows(size)
    shift = s[begin : begin + n]
    sums = s[begin + 2 * TILE : begin + 2 * TILE + n]
    largest = s[begin + 3 * TILE : begin + 3 * TILE + n]
    h = width[first : first + count]
    for k in range(n):
        largest[k] = 0.0
        shift[k] = 0.0
    if count < n:
        clear_rows(s, 0, rows * TILE)
    for x in range(size):
        diagonal = generator[x * size + x, first : first + count]
        for k in range(count):
            lowest = diagonal[k] if x == 0 else shift[k]
            shift[k] = diagonal[k] if diagonal[k] < lowest else lowest
    for x in range(size):
        for k in range(n):
            sums[k] = 0.0
        for y in range(size):
            entry = generator[x * size + y, first : first + count]
            at = (x * size + y) * TILE
            to = s[at : at + count]
            if x == y:
                for k in range(count):
                    to[k] = (entry[k] - shift[k]) * h[k]
            else:
                for k in range(count):
                    to[k] = entry[k] * h[k]
            for k in range(count):
                sums[k] += to[k]
        for k in range(n):
            largest[k] = sums[k] if sums[k] > largest[k] else largest[k]
    norm = largest_of(largest, n)
    squarings = 0
    while norm > _LARGEST_NORM and squarings < 1000:
        norm *= 0.5
        squarings += 1
    if squarings > 0:
        factor = 0.5**squarings
        for i in range(rows * TILE):
            s[i] *= factor
    return norm, squarings


@inner
def _exponential(s, n, size, norm):
    """RIGHT = exp of the tile's matrices by Horner's rule in their cubes."""
    length = size * size * TILE
    base = s[:length]
    right = s[RIGHT * length : (RIGHT + 1) * length]
    square = s[SQUARE * length : (SQUARE + 1) * length]
    blocks = max(_n_terms(norm, size - 1), 2) // 3
    multiply(s, n, size, BASE, BASE, SQUARE)
    multiply(s, n, size, BASE, SQUARE, LEFT)
    c2 = 1.0
    for i in range(2, 3 * blocks + 3):
        c2 /= i
    for i in range(blocks, -1, -1):
        c1 = c2 * (3 * i + 2)
        c0 = c1 * (3 * i + 1)
        if i == blocks:
            for j in range(length):
                right[j] = c1 * base[j] + c2 * square[j]
            add_to_diagonal(s, n, size, c0)
        else:
            horner(s, n, size, c0, c1, c2)
        c2 = c0 * (3 * i)


@inner
def _take_out_scale(s, n, size):
    """After a squaring: the logarithm taken out so far doubles; take out more if entries grew."""
    rows = size * size
    begin = single_rows(size) + TILE
    logarithm = s[begin : begin + n]
    begin += TILE
    largest = s[begin : begin + n]
    for k in range(n):
        largest[k] = 0.0
    for row in range(rows):
        begin = (RIGHT * rows + row) * TILE
        entry = s[begin : begin + n]
        for k in range(n):
            largest[k] = entry[k] if entry[k] > largest[k] else largest[k]
    for k in range(n):
        logarithm[k] *= 2.0
        if largest[k] > 1e40 or largest[k] < 1e-40:
            inverse = 1.0 / largest[k]
            for row in range(rows):
                s[(RIGHT * rows + row) * TILE + k] *= inverse
                s[(INTEGRAL * rows + row) * TILE + k] *= inverse
            logarithm[k] += math.log(largest[k])


@inner
def _undo_halving(s, n, size, squarings, with_integral):
    """exp(2B) from exp(B) as often as the step was halved; the integral G becomes P G + G P."""
    length = size * size * TILE
    first = s[SQUARE * length : (SQUARE + 1) * length]
    second = s[PRODUCT * length : (PRODUCT + 1) * length]
    integral = s[INTEGRAL * length : (INTEGRAL + 1) * length]
    clear_rows(s, single_rows(size) + TILE, n)
    for _ in range(squarings):
        if with_integral:
            multiply(s, n, size, INTEGRAL, RIGHT, SQUARE)
            multiply(s, n, size, RIGHT, INTEGRAL, PRODUCT)
            for j in range(length):
                integral[j] = first[j] + second[j]
        multiply(s, n, size, RIGHT, RIGHT, PRODUCT)
        copy_rows(s, PRODUCT * length, RIGHT * length, length)
        _take_out_scale(s, n, size)


@unit((_ROWS, _ROW, int64, int64, _ROWS, _ROW, _ROW), no_cpython_wrapper=False)
def general_propagator(generator, width, size, count, propagator, log_scale, s):
    """exp(A h) of every step for any number of states; its scale goes to ``log_scale``.

    ``s`` is a buffer of :func:`room_for` numbers.
    """
    rows = size * size
    shift = single_rows(size)
    for first in range(0, count, TILE):
        here = min(TILE, count - first)
        n = (here + _VECTOR - 1) // _VECTOR * _VECTOR
        norm, squarings = _take_in(generator, width, size, first, here, n, s)
        _exponential(s, n, size, norm)
        if squarings > 0:
            _undo_halving(s, n, size, squarings, False)
        for row in range(rows):
            to = propagator[row, first : first + here]
            at = (RIGHT * rows + row) * TILE
            entry = s[at : at + here]
            for k in range(here):
                to[k] = entry[k]
        for k in range(here):
            log_scale[first + k] = s[shift + k] * width[first + k]
        if squarings > 0:
            for k in range(here):
                log_scale[first + k] += s[shift + TILE + k]


@inner
def _integrate(s, n, size, norm):
    """INTEGRAL = Σ_i v_i f_i; ρ and f_0 are in place."""
    last = _n_terms(norm, 2 * size - 2) | 1  # two terms at a time
    length = size * TILE
    v = vectors(size) + length
    f = v + 3 * length
    for i in range(last):
        next_row(s, n, size, f + i * length)
    inverse = 1.0
    for i in range(2, last + 2):
        inverse /= i
    clear_rows(s, v, length)
    clear_rows(s, INTEGRAL * size * length, size * length)
    for i in range(last, 0, -2):
        two_terms(s, n, size, f + (i - 1) * length, inverse, inverse * (i + 1))
        inverse *= (i + 1) * i


@unit((_ROWS, _ROW, int64, int64, _ROWS, _ROWS, _ROWS, _ROW), no_cpython_wrapper=False)
def general_moments(generator, width, size, count, forward, backward, moments, s):
    """W of every step for any number of states; ``s`` is a buffer of :func:`room_for` numbers.

    ``forward[:, k]`` is f at the start of step k, ``backward[:, k]`` is ρ at its end; any scale.
    """
    rows = size * size
    rho = vectors(size)
    integral = INTEGRAL * rows * TILE
    trace = single_rows(size)
    for first in range(0, count, TILE):
        here = min(TILE, count - first)
        n = (here + _VECTOR - 1) // _VECTOR * _VECTOR
        norm, squarings = _take_in(generator, width, size, first, here, n, s)
        if here < n:
            clear_rows(s, rho, 5 * size * TILE)
        for x in range(size):
            at = rho + x * TILE
            to = s[at : at + here]
            row = backward[x, first : first + here]
            for k in range(here):
                to[k] = row[k]
            at += 4 * size * TILE
            to = s[at : at + here]
            row = forward[x, first : first + here]
            for k in range(here):
                to[k] = row[k]
        _integrate(s, n, size, norm)
        if squarings > 0:
            _exponential(s, n, size, norm)
            _undo_halving(s, n, size, squarings, True)
        clear_rows(s, trace, n)
        scale = s[trace : trace + here]
        for x in range(size):
            at = integral + (x * size + x) * TILE
            diagonal = s[at : at + here]
            for k in range(here):
                scale[k] += diagonal[k]
        h = width[first : first + here]
        # f ρ is constant in time, so the diagonal sums to h exactly
        for k in range(here):
            scale[k] = h[k] / scale[k]
        for x in range(size):
            for y in range(size):
                at = integral + (y * size + x) * TILE
                entry = s[at : at + here]
                to = moments[x * size + y, first : first + here]
                for k in range(here):
                    to[k] = entry[k] * scale[k]
