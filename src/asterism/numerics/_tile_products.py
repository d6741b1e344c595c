"""Products of small matrices and vectors on a tile of time steps, all in one buffer.

All rows of a tile lie in one buffer at distances that the compiler knows: this is what lets it use
vector instructions without asking whether rows overlap. Three and four states are written out
(``_few_states.py``). ``_matrix_step.py`` says what the products are for.
"""

from __future__ import annotations

from numba import uint64

from asterism.numerics._few_states import (
    BASE,
    INTEGRAL,
    LEFT,
    MATRICES,
    MOST_TERMS,
    PRODUCT,
    RIGHT,
    SQUARE,
    TILE,
    horner_3,
    horner_4,
    multiply_3,
    multiply_4,
    next_row_3,
    next_row_4,
    two_terms_3,
    two_terms_4,
)
from asterism.numerics._jit import inlined, inner, kernel


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
def _multiply_any(s, n, size):
    """PRODUCT = LEFT · RIGHT."""
    length = size * size * TILE
    clear_rows(s, PRODUCT * length, length)
    for x in range(size):
        for y in range(size):
            left = LEFT * length + x * size * TILE
            right = RIGHT * length + y * TILE
            to = PRODUCT * length + (x * size + y) * TILE
            _times(s, n, size, left, TILE, right, size * TILE, to)


@inner
def _next_row_any(s, n, size, f):
    """The vector behind ``f`` becomes f A."""
    clear_rows(s, f + size * TILE, size * TILE)
    for y in range(size):
        _times(s, n, size, f, TILE, y * TILE, size * TILE, f + (size + y) * TILE)


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


@inner
def multiply(s, n, size):
    """PRODUCT = LEFT · RIGHT."""
    if size == 3:
        multiply_3(s, n, LEFT, RIGHT, PRODUCT)
    elif size == 4:
        multiply_4(s, n, LEFT, RIGHT, PRODUCT)
    else:
        _multiply_any(s, n, size)


@inner
def add_powers(s, n, size):
    """SQUARE and LEFT become the square and the cube of BASE."""
    if size == 3:
        multiply_3(s, n, BASE, BASE, SQUARE)
        multiply_3(s, n, BASE, SQUARE, LEFT)
    elif size == 4:
        multiply_4(s, n, BASE, BASE, SQUARE)
        multiply_4(s, n, BASE, SQUARE, LEFT)
    else:
        length = size * size * TILE
        copy_rows(s, 0, LEFT * length, length)
        copy_rows(s, 0, RIGHT * length, length)
        _multiply_any(s, n, size)
        copy_rows(s, PRODUCT * length, SQUARE * length, length)
        copy_rows(s, PRODUCT * length, RIGHT * length, length)
        _multiply_any(s, n, size)
        copy_rows(s, PRODUCT * length, LEFT * length, length)


@inner
def horner(s, n, size, c0, c1, c2):
    """RIGHT ← LEFT · RIGHT + c0 + c1 BASE + c2 SQUARE."""
    if size == 3:
        horner_3(s, n, c0, c1, c2)
    elif size == 4:
        horner_4(s, n, c0, c1, c2)
    else:
        _multiply_any(s, n, size)
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
    if size < 3 or size > 4:
        _next_row_any(s, n, size, f)
        return
    near = vectors(size) + 2 * size * TILE
    copy_rows(s, f, near, size * TILE)
    if size == 3:
        next_row_3(s, n)
    else:
        next_row_4(s, n)
    copy_rows(s, near, f + size * TILE, size * TILE)


@inner
def two_terms(s, n, size, f, first, second):
    """v ← ρ · first + A v, then v ← ρ · second + A v; INTEGRAL += v f of both.

    ``f`` is the vector of the second; that of the first lies behind it.
    """
    if size < 3 or size > 4:
        _two_terms_any(s, n, size, f, first, second)
        return
    near = vectors(size) + 2 * size * TILE
    copy_rows(s, f + size * TILE, near, size * TILE)
    copy_rows(s, f, near + size * TILE, size * TILE)
    if size == 3:
        two_terms_3(s, n, first, second)
    else:
        two_terms_4(s, n, first, second)
