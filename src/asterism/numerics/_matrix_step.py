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

Steps are worked on in tiles, all rows of which lie in one buffer at distances that the compiler
knows: this is what lets it use vector instructions without asking whether rows overlap. Three and
four states are written out for the same reason. With more states, entries that are zero throughout
a tile are skipped: jumps between neighbouring states cost what they are.
"""

from __future__ import annotations

import math

from numba import float64, int64

from asterism.numerics._jit import inlined, inner, kernel, separate
from asterism.numerics._step import largest_of

TILE = 32
_VECTOR = 16  # steps are worked on in multiples of this number
_LARGEST_NORM = 1.0
_MOST_TERMS = 30
_USUAL = 1e-16  # what is left out of a sum, relative to it
_DEEP = 1e-12  # the same for an entry that takes several jumps
_MOST_JUMPS = 8

# matrices in the buffer, one behind the other; rows, vectors and flags follow
_BASE = 0
_LEFT = 1
_RIGHT = 2
_PRODUCT = 3
_SQUARE = 4
_INTEGRAL = 5
_MATRICES = 6


@inlined
def _rows(size):
    """Where four single rows begin: shifts, logarithms taken out, and two more."""
    return _MATRICES * size * size * TILE


@inlined
def _vectors(size):
    """Where vectors begin: ρ, v, f, and then all f_i."""
    return _rows(size) + 4 * TILE


@inlined
def _flags(size):
    """Where the largest number of each entry of the matrix stands, over the steps of a tile."""
    return _vectors(size) + (_MOST_TERMS + 5) * size * TILE


@kernel
def room_for(size):
    """Length of the buffer that both functions need."""
    return _flags(size) + size * size


@inlined
def _n_terms(norm, jumps):
    """The last power of a matrix of this norm that matters for entries so many jumps away."""
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
    return min(max(usual, deep + min(jumps, _MOST_JUMPS)) - 1, _MOST_TERMS)


@inner
def _copy(s, source, target, length):
    here = s[source : source + length]
    there = s[target : target + length]
    for j in range(length):
        there[j] = here[j]


@inner
def _clear(s, begin, length):
    here = s[begin : begin + length]
    for j in range(length):
        here[j] = 0.0


@inner
def _take_in(generator, width, size, first, count, n, s):
    """Shifted matrices of a tile, times h and halved until small; (norm, squarings).

    Steps behind the last become zero.
    """
    rows = size * size
    begin = _rows(size)
    shift = s[begin : begin + n]
    sums = s[begin + 2 * TILE : begin + 2 * TILE + n]
    largest = s[begin + 3 * TILE : begin + 3 * TILE + n]
    h = width[first : first + count]
    for k in range(n):
        largest[k] = 0.0
        shift[k] = 0.0
    if count < n:
        _clear(s, 0, rows * TILE)
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
def _find_zeros(s, n, size):
    """Mark the entries that are zero on all steps of a tile; how many are not."""
    flags = _flags(size)
    n_entries = 0
    for row in range(size * size):
        entry = s[row * TILE : row * TILE + n]
        total = 0.0
        for k in range(n):
            total += entry[k]
        s[flags + row] = total
        if total != 0.0:
            n_entries += 1
    return n_entries


@inner
def _multiply_3(s, n):
    """PRODUCT = LEFT · RIGHT of three states."""
    a, b, c = _LEFT * 9 * TILE, _RIGHT * 9 * TILE, _PRODUCT * 9 * TILE
    for k in range(n):
        r0, r1, r2 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k]
        r3, r4, r5 = s[b + 3 * TILE + k], s[b + 4 * TILE + k], s[b + 5 * TILE + k]
        r6, r7, r8 = s[b + 6 * TILE + k], s[b + 7 * TILE + k], s[b + 8 * TILE + k]
        p, q, r = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k]
        s[c + k] = p * r0 + q * r3 + r * r6
        s[c + TILE + k] = p * r1 + q * r4 + r * r7
        s[c + 2 * TILE + k] = p * r2 + q * r5 + r * r8
        p, q, r = s[a + 3 * TILE + k], s[a + 4 * TILE + k], s[a + 5 * TILE + k]
        s[c + 3 * TILE + k] = p * r0 + q * r3 + r * r6
        s[c + 4 * TILE + k] = p * r1 + q * r4 + r * r7
        s[c + 5 * TILE + k] = p * r2 + q * r5 + r * r8
        p, q, r = s[a + 6 * TILE + k], s[a + 7 * TILE + k], s[a + 8 * TILE + k]
        s[c + 6 * TILE + k] = p * r0 + q * r3 + r * r6
        s[c + 7 * TILE + k] = p * r1 + q * r4 + r * r7
        s[c + 8 * TILE + k] = p * r2 + q * r5 + r * r8


@inner
def _multiply_4(s, n):
    """PRODUCT = LEFT · RIGHT of four states."""
    a, b, c = _LEFT * 16 * TILE, _RIGHT * 16 * TILE, _PRODUCT * 16 * TILE
    for k in range(n):
        w0, w1, w2, w3 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k], s[b + 3 * TILE + k]
        x0, x1 = s[b + 4 * TILE + k], s[b + 5 * TILE + k]
        x2, x3 = s[b + 6 * TILE + k], s[b + 7 * TILE + k]
        y0, y1 = s[b + 8 * TILE + k], s[b + 9 * TILE + k]
        y2, y3 = s[b + 10 * TILE + k], s[b + 11 * TILE + k]
        z0, z1 = s[b + 12 * TILE + k], s[b + 13 * TILE + k]
        z2, z3 = s[b + 14 * TILE + k], s[b + 15 * TILE + k]
        p, q, r, t = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k], s[a + 3 * TILE + k]
        s[c + k] = p * w0 + q * x0 + r * y0 + t * z0
        s[c + TILE + k] = p * w1 + q * x1 + r * y1 + t * z1
        s[c + 2 * TILE + k] = p * w2 + q * x2 + r * y2 + t * z2
        s[c + 3 * TILE + k] = p * w3 + q * x3 + r * y3 + t * z3
        p, q = s[a + 4 * TILE + k], s[a + 5 * TILE + k]
        r, t = s[a + 6 * TILE + k], s[a + 7 * TILE + k]
        s[c + 4 * TILE + k] = p * w0 + q * x0 + r * y0 + t * z0
        s[c + 5 * TILE + k] = p * w1 + q * x1 + r * y1 + t * z1
        s[c + 6 * TILE + k] = p * w2 + q * x2 + r * y2 + t * z2
        s[c + 7 * TILE + k] = p * w3 + q * x3 + r * y3 + t * z3
        p, q = s[a + 8 * TILE + k], s[a + 9 * TILE + k]
        r, t = s[a + 10 * TILE + k], s[a + 11 * TILE + k]
        s[c + 8 * TILE + k] = p * w0 + q * x0 + r * y0 + t * z0
        s[c + 9 * TILE + k] = p * w1 + q * x1 + r * y1 + t * z1
        s[c + 10 * TILE + k] = p * w2 + q * x2 + r * y2 + t * z2
        s[c + 11 * TILE + k] = p * w3 + q * x3 + r * y3 + t * z3
        p, q = s[a + 12 * TILE + k], s[a + 13 * TILE + k]
        r, t = s[a + 14 * TILE + k], s[a + 15 * TILE + k]
        s[c + 12 * TILE + k] = p * w0 + q * x0 + r * y0 + t * z0
        s[c + 13 * TILE + k] = p * w1 + q * x1 + r * y1 + t * z1
        s[c + 14 * TILE + k] = p * w2 + q * x2 + r * y2 + t * z2
        s[c + 15 * TILE + k] = p * w3 + q * x3 + r * y3 + t * z3


@inner
def _add_product(s, n, left, right, to):
    """One row more in a sum of products."""
    a = s[left : left + n]
    b = s[right : right + n]
    c = s[to : to + n]
    for k in range(n):
        c[k] += a[k] * b[k]


@inner
def _multiply_any(s, n, size, left):
    """PRODUCT = ``left`` · RIGHT; entries of BASE that are zero are skipped."""
    rows = size * size
    flags = _flags(size)
    for x in range(size):
        begin = (_PRODUCT * rows + x * size) * TILE
        _clear(s, begin, size * TILE)
        for z in range(size):
            if left == _BASE and s[flags + x * size + z] == 0.0:
                continue
            a = (left * rows + x * size + z) * TILE
            b = (_RIGHT * rows + z * size) * TILE
            for y in range(size):
                _add_product(s, n, a, b + y * TILE, begin + y * TILE)


@inner
def _multiply(s, n, size):
    """PRODUCT = LEFT · RIGHT."""
    if size == 3:
        _multiply_3(s, n)
    elif size == 4:
        _multiply_4(s, n)
    else:
        _multiply_any(s, n, size, _LEFT)


@inner
def _add_to_diagonal(s, n, size, value):
    for x in range(size):
        at = (_RIGHT * size * size + x * size + x) * TILE
        entry = s[at : at + n]
        for k in range(n):
            entry[k] += value


@inner
def _exponential(s, n, size, norm):
    """RIGHT = exp of the tile's matrices: Horner's rule in their cubes, or in the matrix itself."""
    length = size * size * TILE
    base = s[:length]
    right = s[_RIGHT * length : (_RIGHT + 1) * length]
    product = s[_PRODUCT * length : (_PRODUCT + 1) * length]
    square = s[_SQUARE * length : (_SQUARE + 1) * length]
    degree = _n_terms(norm, size - 1)
    blocks = max(degree, 2) // 3
    if size > 4 and _find_zeros(s, n, size) * degree < size * size * (blocks + 1):
        _clear(s, _RIGHT * length, length)
        _add_to_diagonal(s, n, size, 1.0)
        for i in range(degree, 0, -1):
            _multiply_any(s, n, size, _BASE)
            inverse = 1.0 / i
            for j in range(length):
                right[j] = inverse * product[j]
            _add_to_diagonal(s, n, size, 1.0)
        return
    _copy(s, 0, _LEFT * length, length)
    _copy(s, 0, _RIGHT * length, length)
    _multiply(s, n, size)
    _copy(s, _PRODUCT * length, _SQUARE * length, length)
    _copy(s, _PRODUCT * length, _RIGHT * length, length)
    _multiply(s, n, size)
    _copy(s, _PRODUCT * length, _LEFT * length, length)
    c2 = 1.0
    for i in range(2, 3 * blocks + 3):
        c2 /= i
    for i in range(blocks, -1, -1):
        c1 = c2 * (3 * i + 2)
        c0 = c1 * (3 * i + 1)
        if i == blocks:
            for j in range(length):
                right[j] = c1 * base[j] + c2 * square[j]
        else:
            _multiply(s, n, size)
            for j in range(length):
                right[j] = product[j] + (c1 * base[j] + c2 * square[j])
        _add_to_diagonal(s, n, size, c0)
        c2 = c0 * (3 * i)


@inner
def _take_out_scale(s, n, size):
    """After a squaring: the logarithm taken out so far doubles; take out more if entries grew."""
    rows = size * size
    begin = _rows(size) + TILE
    logarithm = s[begin : begin + n]
    begin += TILE
    largest = s[begin : begin + n]
    for k in range(n):
        largest[k] = 0.0
    for row in range(rows):
        begin = (_RIGHT * rows + row) * TILE
        entry = s[begin : begin + n]
        for k in range(n):
            largest[k] = entry[k] if entry[k] > largest[k] else largest[k]
    for k in range(n):
        logarithm[k] *= 2.0
        if largest[k] > 1e40 or largest[k] < 1e-40:
            inverse = 1.0 / largest[k]
            for row in range(rows):
                s[(_RIGHT * rows + row) * TILE + k] *= inverse
                s[(_INTEGRAL * rows + row) * TILE + k] *= inverse
            logarithm[k] += math.log(largest[k])


@inner
def _undo_halving(s, n, size, squarings, with_integral):
    """exp(2B) from exp(B) as often as the step was halved; the integral G becomes P G + G P."""
    length = size * size * TILE
    left, right = _LEFT * length, _RIGHT * length
    product, square, integral = _PRODUCT * length, _SQUARE * length, _INTEGRAL * length
    _clear(s, _rows(size) + TILE, n)
    for _ in range(squarings):
        if with_integral:
            _copy(s, integral, left, length)
            _multiply(s, n, size)
            _copy(s, product, square, length)
            _copy(s, right, left, length)
            _copy(s, integral, right, length)
            _multiply(s, n, size)
            _copy(s, product, integral, length)
            both = s[integral : integral + length]
            first = s[square : square + length]
            for j in range(length):
                both[j] += first[j]
            _copy(s, left, right, length)
        else:
            _copy(s, right, left, length)
        _multiply(s, n, size)
        _copy(s, product, right, length)
        _take_out_scale(s, n, size)


@kernel
def general_propagator(generator, width, size, count, propagator, log_scale, s):
    """exp(A h) of every step for any number of states; its scale goes to ``log_scale``.

    ``s`` is a buffer of :func:`room_for` numbers.
    """
    rows = size * size
    shift = _rows(size)
    for first in range(0, count, TILE):
        here = min(TILE, count - first)
        n = (here + _VECTOR - 1) // _VECTOR * _VECTOR
        norm, squarings = _take_in(generator, width, size, first, here, n, s)
        _exponential(s, n, size, norm)
        if squarings > 0:
            _undo_halving(s, n, size, squarings, False)
        for row in range(rows):
            to = propagator[row, first : first + here]
            at = (_RIGHT * rows + row) * TILE
            entry = s[at : at + here]
            for k in range(here):
                to[k] = entry[k]
        for k in range(here):
            log_scale[first + k] = s[shift + k] * width[first + k]
        if squarings > 0:
            for k in range(here):
                log_scale[first + k] += s[shift + TILE + k]


@inner
def _next_row_3(s, n):
    """f ← f A of three states."""
    f = (_MATRICES * 9 + 4) * TILE + 6 * TILE
    for k in range(n):
        f0, f1, f2 = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k]
        s[f + k] = f0 * s[k] + f1 * s[3 * TILE + k] + f2 * s[6 * TILE + k]
        s[f + TILE + k] = f0 * s[TILE + k] + f1 * s[4 * TILE + k] + f2 * s[7 * TILE + k]
        s[f + 2 * TILE + k] = f0 * s[2 * TILE + k] + f1 * s[5 * TILE + k] + f2 * s[8 * TILE + k]


@inner
def _next_term_3(s, n, inverse):
    """v ← ρ · inverse + A v, and integral += v f, of three states."""
    rho = (_MATRICES * 9 + 4) * TILE
    v = rho + 3 * TILE
    f = v + 3 * TILE
    g = _INTEGRAL * 9 * TILE
    for k in range(n):
        v0, v1, v2 = s[v + k], s[v + TILE + k], s[v + 2 * TILE + k]
        f0, f1, f2 = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k]
        w = inverse * s[rho + k] + v0 * s[k] + v1 * s[TILE + k] + v2 * s[2 * TILE + k]
        s[v + k] = w
        s[g + k] += w * f0
        s[g + TILE + k] += w * f1
        s[g + 2 * TILE + k] += w * f2
        w = inverse * s[rho + TILE + k] + v0 * s[3 * TILE + k]
        w += v1 * s[4 * TILE + k] + v2 * s[5 * TILE + k]
        s[v + TILE + k] = w
        s[g + 3 * TILE + k] += w * f0
        s[g + 4 * TILE + k] += w * f1
        s[g + 5 * TILE + k] += w * f2
        w = inverse * s[rho + 2 * TILE + k] + v0 * s[6 * TILE + k]
        w += v1 * s[7 * TILE + k] + v2 * s[8 * TILE + k]
        s[v + 2 * TILE + k] = w
        s[g + 6 * TILE + k] += w * f0
        s[g + 7 * TILE + k] += w * f1
        s[g + 8 * TILE + k] += w * f2


@inner
def _next_row_4(s, n):
    """f ← f A of four states."""
    f = (_MATRICES * 16 + 4) * TILE + 8 * TILE
    for k in range(n):
        p, q, r, t = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k], s[f + 3 * TILE + k]
        s[f + k] = p * s[k] + q * s[4 * TILE + k] + r * s[8 * TILE + k] + t * s[12 * TILE + k]
        u = p * s[TILE + k] + q * s[5 * TILE + k]
        s[f + TILE + k] = u + r * s[9 * TILE + k] + t * s[13 * TILE + k]
        u = p * s[2 * TILE + k] + q * s[6 * TILE + k]
        s[f + 2 * TILE + k] = u + r * s[10 * TILE + k] + t * s[14 * TILE + k]
        u = p * s[3 * TILE + k] + q * s[7 * TILE + k]
        s[f + 3 * TILE + k] = u + r * s[11 * TILE + k] + t * s[15 * TILE + k]


@inner
def _next_term_4(s, n, inverse):
    """v ← ρ · inverse + A v, and integral += v f, of four states."""
    rho = (_MATRICES * 16 + 4) * TILE
    v = rho + 4 * TILE
    f = v + 4 * TILE
    g = _INTEGRAL * 16 * TILE
    for k in range(n):
        p, q, r, t = s[v + k], s[v + TILE + k], s[v + 2 * TILE + k], s[v + 3 * TILE + k]
        f0, f1, f2, f3 = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k], s[f + 3 * TILE + k]
        w = inverse * s[rho + k] + p * s[k] + q * s[TILE + k]
        w += r * s[2 * TILE + k] + t * s[3 * TILE + k]
        s[v + k] = w
        s[g + k] += w * f0
        s[g + TILE + k] += w * f1
        s[g + 2 * TILE + k] += w * f2
        s[g + 3 * TILE + k] += w * f3
        w = inverse * s[rho + TILE + k] + p * s[4 * TILE + k] + q * s[5 * TILE + k]
        w += r * s[6 * TILE + k] + t * s[7 * TILE + k]
        s[v + TILE + k] = w
        s[g + 4 * TILE + k] += w * f0
        s[g + 5 * TILE + k] += w * f1
        s[g + 6 * TILE + k] += w * f2
        s[g + 7 * TILE + k] += w * f3
        w = inverse * s[rho + 2 * TILE + k] + p * s[8 * TILE + k] + q * s[9 * TILE + k]
        w += r * s[10 * TILE + k] + t * s[11 * TILE + k]
        s[v + 2 * TILE + k] = w
        s[g + 8 * TILE + k] += w * f0
        s[g + 9 * TILE + k] += w * f1
        s[g + 10 * TILE + k] += w * f2
        s[g + 11 * TILE + k] += w * f3
        w = inverse * s[rho + 3 * TILE + k] + p * s[12 * TILE + k] + q * s[13 * TILE + k]
        w += r * s[14 * TILE + k] + t * s[15 * TILE + k]
        s[v + 3 * TILE + k] = w
        s[g + 12 * TILE + k] += w * f0
        s[g + 13 * TILE + k] += w * f1
        s[g + 14 * TILE + k] += w * f2
        s[g + 15 * TILE + k] += w * f3


@inner
def _next_row_any(s, n, size):
    """f ← f A."""
    flags = _flags(size)
    spare = _SQUARE * size * size * TILE
    f = _vectors(size) + 2 * size * TILE
    _clear(s, spare, size * TILE)
    for x in range(size):
        for y in range(size):
            if s[flags + x * size + y] != 0.0:
                _add_product(s, n, f + x * TILE, (x * size + y) * TILE, spare + y * TILE)
    _copy(s, spare, f, size * TILE)


@inner
def _next_term_any(s, n, size, inverse):
    """v ← ρ · inverse + A v, and integral += v f."""
    flags = _flags(size)
    spare = _SQUARE * size * size * TILE
    rho = _vectors(size)
    v = rho + size * TILE
    f = v + size * TILE
    length = size * TILE
    fresh = s[spare : spare + length]
    source = s[rho : rho + length]
    for j in range(length):
        fresh[j] = inverse * source[j]
    for x in range(size):
        for y in range(size):
            if s[flags + x * size + y] != 0.0:
                _add_product(s, n, (x * size + y) * TILE, v + y * TILE, spare + x * TILE)
    _copy(s, spare, v, size * TILE)
    for x in range(size):
        begin = (_INTEGRAL * size + x) * size * TILE
        for y in range(size):
            _add_product(s, n, v + x * TILE, f + y * TILE, begin + y * TILE)


@inner
def _integrate(s, n, size, norm):
    """INTEGRAL = Σ_i v_i f_i; ρ and f are in place."""
    last = _n_terms(norm, 2 * size - 2)
    v = _vectors(size) + size * TILE
    f = v + size * TILE
    kept = f + size * TILE
    length = size * TILE
    if size == 2 or size > 4:
        _find_zeros(s, n, size)
    _copy(s, f, kept, length)
    for i in range(1, last + 1):
        if size == 3:
            _next_row_3(s, n)
        elif size == 4:
            _next_row_4(s, n)
        else:
            _next_row_any(s, n, size)
        _copy(s, f, kept + i * length, length)
    inverse = 1.0
    for i in range(2, last + 2):
        inverse /= i
    _clear(s, v, length)
    _clear(s, _INTEGRAL * size * length, size * length)
    for i in range(last, -1, -1):
        _copy(s, kept + i * length, f, length)
        if size == 3:
            _next_term_3(s, n, inverse)
        elif size == 4:
            _next_term_4(s, n, inverse)
        else:
            _next_term_any(s, n, size, inverse)
        inverse *= i + 1


@kernel
def general_moments(generator, width, size, count, forward, backward, moments, s):
    """W of every step for any number of states; ``s`` is a buffer of :func:`room_for` numbers.

    ``forward[:, k]`` is f at the start of step k, ``backward[:, k]`` is ρ at its end; any scale.
    """
    rows = size * size
    rho = _vectors(size)
    integral = _INTEGRAL * rows * TILE
    trace = _rows(size)
    for first in range(0, count, TILE):
        here = min(TILE, count - first)
        n = (here + _VECTOR - 1) // _VECTOR * _VECTOR
        norm, squarings = _take_in(generator, width, size, first, here, n, s)
        if here < n:
            _clear(s, rho, 3 * size * TILE)
        for x in range(size):
            at = rho + x * TILE
            to = s[at : at + here]
            row = backward[x, first : first + here]
            for k in range(here):
                to[k] = row[k]
            at += 2 * size * TILE
            to = s[at : at + here]
            row = forward[x, first : first + here]
            for k in range(here):
                to[k] = row[k]
        _integrate(s, n, size, norm)
        if squarings > 0:
            _exponential(s, n, size, norm)
            _undo_halving(s, n, size, squarings, True)
        _clear(s, trace, n)
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


_ROWS, _ROW = float64[:, ::1], float64[::1]
PROPAGATOR = 0
MOMENTS = 1
# for kernels that have a table of addresses: none of this becomes a part of them
separate_propagator = separate(
    general_propagator, (_ROWS, _ROW, int64, int64, _ROWS, _ROW, _ROW), PROPAGATOR
)
separate_moments = separate(
    general_moments, (_ROWS, _ROW, int64, int64, _ROWS, _ROWS, _ROWS, _ROW), MOMENTS
)
