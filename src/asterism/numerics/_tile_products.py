"""Products of small matrices and vectors on a tile of time steps, all in one buffer.

All rows of a tile lie in one buffer at distances that the compiler knows: this is what lets it use
vector instructions without asking whether rows overlap. ``_matrix_step.py`` says what the products
are for. The buffer begins with the matrices; four single rows follow, then the vectors ρ, v, two
that products read, and all f_i.

Three and four states have products of a size that is known when they are compiled: then loops over
states are unrolled within the loop over steps, and whole rows of a matrix stay in registers. With
400 steps that takes half the time of loops for any size.
"""

from __future__ import annotations

from numba import uint64

from asterism.numerics._jit import inlined, inner, kernel

TILE = 32
MOST_TERMS = 30

# matrices in the buffer, one behind the other; rows, vectors and flags follow
BASE = 0
LEFT = 1
RIGHT = 2
PRODUCT = 3
SQUARE = 4
INTEGRAL = 5
MATRICES = 6


@inlined
def single_rows(size):
    """Where four single rows begin: shifts, logarithms taken out, and two more."""
    return MATRICES * size * size * TILE


@inlined
def vectors(size):
    """Where vectors begin: ρ, v, room for two more, and then all f_i."""
    return single_rows(size) + 4 * TILE


@kernel
def room_for(size):
    """Length of the buffer that propagators and moments need."""
    return vectors(size) + (MOST_TERMS + 6) * size * TILE


@inner
def copy_rows(s, source, target, length):
    here = s[source : source + length]
    there = s[target : target + length]
    for j in range(length):
        there[j] = here[j]


@inner
def clear_rows(s, begin, length):
    here = s[begin : begin + length]
    for j in range(length):
        here[j] = 0.0


@inner
def add_to_diagonal(s, n, size, value):
    """RIGHT += value times the identity."""
    for x in range(size):
        at = (RIGHT * size * size + x * size + x) * TILE
        entry = s[at : at + n]
        for k in range(n):
            entry[k] += value


def _products_of(size):
    """Products of matrices and vectors of this size; see the functions for any size.

    Indices without a sign do not count from the end: only then loops over steps are vectorised.
    """
    begin = (MATRICES * size * size + 4) * TILE

    @inlined
    def entry(matrix, x, y):
        return uint64(((matrix * size + x) * size + y) * TILE)

    @inlined
    def place(vector, x):
        return uint64(begin + (vector * size + x) * TILE)

    @inlined
    def multiply(s, n, left, right, to):
        for k in range(uint64(n)):
            for x in range(size):
                for y in range(size):
                    value = 0.0
                    for z in range(size):
                        value += s[entry(left, x, z) + k] * s[entry(right, z, y) + k]
                    s[entry(to, x, y) + k] = value

    @inner
    def next_row(s, n, f):
        copy_rows(s, f, begin + 2 * size * TILE, size * TILE)
        for k in range(uint64(n)):
            for y in range(size):
                value = 0.0
                for x in range(size):
                    value += s[place(2, x) + k] * s[entry(BASE, x, y) + k]
                s[place(3, y) + k] = value
        copy_rows(s, begin + 3 * size * TILE, f + size * TILE, size * TILE)

    @inner
    def two_terms(s, n, f, first, second):
        copy_rows(s, f, begin + 2 * size * TILE, 2 * size * TILE)
        for k in range(uint64(n)):
            for x in range(size):
                value = first * s[place(0, x) + k]
                for y in range(size):
                    value += s[entry(BASE, x, y) + k] * s[place(1, y) + k]
                s[entry(PRODUCT, 0, x) + k] = value
            for x in range(size):
                value = second * s[place(0, x) + k]
                for y in range(size):
                    value += s[entry(BASE, x, y) + k] * s[entry(PRODUCT, 0, y) + k]
                s[place(1, x) + k] = value
            for x in range(size):
                for y in range(size):
                    s[entry(INTEGRAL, x, y) + k] += (
                        s[entry(PRODUCT, 0, x) + k] * s[place(3, y) + k]
                        + s[place(1, x) + k] * s[place(2, y) + k]
                    )

    return multiply, next_row, two_terms


_multiply_3, _next_row_3, _two_terms_3 = _products_of(3)
_multiply_4, _next_row_4, _two_terms_4 = _products_of(4)


@inlined
def _times(s, n, size, left, left_step, right, right_step, to):
    """Row ``to`` += Σ_z row ``left`` + z · left_step times row ``right`` + z · right_step.

    Three or four rows at a time mean fewer passes over the sum. Indices without a sign do not
    count from the end, which costs less than cutting rows out.
    """
    a, b = left, right
    rest = size
    while rest > 0:
        a1, b1 = a + left_step, b + right_step
        a2, b2 = a1 + left_step, b1 + right_step
        a3, b3 = a2 + left_step, b2 + right_step
        done = 1
        if rest >= 4:
            done = 4
            for k in range(n):
                s[uint64(to + k)] += (
                    s[uint64(a + k)] * s[uint64(b + k)] + s[uint64(a1 + k)] * s[uint64(b1 + k)]
                ) + (s[uint64(a2 + k)] * s[uint64(b2 + k)] + s[uint64(a3 + k)] * s[uint64(b3 + k)])
        elif rest == 3:
            done = 3
            for k in range(n):
                s[uint64(to + k)] += (
                    s[uint64(a + k)] * s[uint64(b + k)] + s[uint64(a1 + k)] * s[uint64(b1 + k)]
                ) + s[uint64(a2 + k)] * s[uint64(b2 + k)]
        else:
            for k in range(n):
                s[uint64(to + k)] += s[uint64(a + k)] * s[uint64(b + k)]
        a += done * left_step
        b += done * right_step
        rest -= done


@inner
def _multiply_any(s, n, size, left, right, to):
    """to = left · right; ``to`` is neither of them."""
    length = size * size * TILE
    clear_rows(s, to * length, length)
    for x in range(size):
        for y in range(size):
            row = to * length + (x * size + y) * TILE
            first = left * length + x * size * TILE
            _times(s, n, size, first, TILE, right * length + y * TILE, size * TILE, row)


@inlined
def multiply(s, n, size, left, right, to):
    """to = left · right; ``to`` is neither of them."""
    if size == 3:
        _multiply_3(s, n, left, right, to)
    elif size == 4:
        _multiply_4(s, n, left, right, to)
    else:
        _multiply_any(s, n, size, left, right, to)


@inner
def horner(s, n, size, c0, c1, c2):
    """RIGHT ← LEFT · RIGHT + c0 + c1 BASE + c2 SQUARE."""
    multiply(s, n, size, LEFT, RIGHT, PRODUCT)
    length = size * size * TILE
    base = s[:length]
    right = s[RIGHT * length : (RIGHT + 1) * length]
    product = s[PRODUCT * length : (PRODUCT + 1) * length]
    square = s[SQUARE * length : (SQUARE + 1) * length]
    for j in range(length):
        right[j] = product[j] + (c1 * base[j] + c2 * square[j])
    add_to_diagonal(s, n, size, c0)


@inner
def next_row(s, n, size, f):
    """The vector behind ``f`` becomes f A."""
    if size == 3:
        _next_row_3(s, n, f)
    elif size == 4:
        _next_row_4(s, n, f)
    else:
        clear_rows(s, f + size * TILE, size * TILE)
        for y in range(size):
            _times(s, n, size, f, TILE, y * TILE, size * TILE, f + (size + y) * TILE)


@inner
def two_terms(s, n, size, f, first, second):
    """v ← ρ · first + A v, then v ← ρ · second + A v; INTEGRAL += v f of both.

    ``f`` is the vector of the second; that of the first lies behind it.
    """
    if size == 3:
        _two_terms_3(s, n, f, first, second)
    elif size == 4:
        _two_terms_4(s, n, f, first, second)
    else:
        _two_terms_any(s, n, size, f, first, second)


@inner
def _two_terms_any(s, n, size, f, first, second):
    """v ← ρ · first + A v, then v ← ρ · second + A v; INTEGRAL += v f of both.

    ``f`` is the vector of the second; that of the first lies behind it.
    """
    rho = vectors(size)
    v = rho + size * TILE
    w = v + size * TILE
    u = w + size * TILE
    for x in range(size):
        for k in range(n):
            i = x * TILE + k
            value = s[uint64(rho + i)]
            s[uint64(w + i)] = first * value
            s[uint64(u + i)] = second * value
    for x in range(size):
        _times(s, n, size, x * size * TILE, TILE, v, TILE, w + x * TILE)
    for x in range(size):
        _times(s, n, size, x * size * TILE, TILE, w, TILE, u + x * TILE)
    for x in range(size):
        for y in range(size):
            to = (INTEGRAL * size * size + x * size + y) * TILE
            own, other = w + x * TILE, u + x * TILE
            later, earlier = f + (size + y) * TILE, f + y * TILE
            for k in range(n):
                s[uint64(to + k)] += (
                    s[uint64(own + k)] * s[uint64(later + k)]
                    + s[uint64(other + k)] * s[uint64(earlier + k)]
                )
    copy_rows(s, u, v, size * TILE)
