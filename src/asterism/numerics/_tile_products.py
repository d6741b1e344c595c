"""Products of small matrices and vectors on a tile of time steps, all in one buffer.

All rows of a tile lie in one buffer at distances that the compiler knows: this is what lets it use
vector instructions without asking whether rows overlap. Three and four states are written out for
the same reason (``_few_states.py``). With more states, entries that are zero throughout a tile are
skipped; a chain of five states gained nothing measurable by it. ``_matrix_step.py`` says what the
products are for.
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
    next_term_3,
    next_term_4,
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
    """Where vectors begin: ρ, v, f, one more f, and then all f_i."""
    return single_rows(size) + 4 * TILE


@inlined
def flags_of(size):
    """Where the largest number of each entry of the matrix stands, over the steps of a tile."""
    return vectors(size) + (MOST_TERMS + 5) * size * TILE


@kernel
def room_for(size):
    """Length of the buffer that both functions need."""
    return flags_of(size) + size * size


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
def find_zeros(s, n, size):
    """Mark the entries that are zero on all steps of a tile; how many are not."""
    flags = flags_of(size)
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
def _add_product(s, n, left, right, to):
    """One row more in a sum of products."""
    for k in range(n):
        # numbers without a sign: no index counts from the end (cheaper than cutting rows out)
        s[uint64(to + k)] += s[uint64(left + k)] * s[uint64(right + k)]


@inner
def _add_four_products(s, n, left, left_step, right, right_step, to):
    """Four rows more: fewer passes over the sum."""
    l1, l2, l3 = left + left_step, left + 2 * left_step, left + 3 * left_step
    r1, r2, r3 = right + right_step, right + 2 * right_step, right + 3 * right_step
    for k in range(n):
        s[uint64(to + k)] += (
            s[uint64(left + k)] * s[uint64(right + k)] + s[uint64(l1 + k)] * s[uint64(r1 + k)]
        ) + (s[uint64(l2 + k)] * s[uint64(r2 + k)] + s[uint64(l3 + k)] * s[uint64(r3 + k)])


@inner
def _add_products(s, n, count, left, left_step, right, right_step, to, flag, flag_step):
    """Add the products of so many rows; those whose flag is zero are skipped (−1: no flags)."""
    i = 0
    while i < count:
        if flag >= 0 and s[flag + i * flag_step] == 0.0:
            i += 1
        elif i + 4 <= count:
            _add_four_products(
                s, n, left + i * left_step, left_step, right + i * right_step, right_step, to
            )
            i += 4
        else:
            _add_product(s, n, left + i * left_step, right + i * right_step, to)
            i += 1


@inner
def multiply_any(s, n, size, left):
    """PRODUCT = ``left`` · RIGHT; entries of BASE that are zero are skipped."""
    rows = size * size
    begin = PRODUCT * rows * TILE
    clear_rows(s, begin, rows * TILE)
    for x in range(size):
        row = (left * rows + x * size) * TILE
        flag = flags_of(size) + x * size if left == BASE else -1
        for y in range(size):
            column = (RIGHT * rows + y) * TILE
            to = begin + (x * size + y) * TILE
            _add_products(s, n, size, row, TILE, column, size * TILE, to, flag, 1)


@inner
def multiply_matrices(s, n, size):
    """PRODUCT = LEFT · RIGHT."""
    if size == 3:
        multiply_3(s, n, LEFT, RIGHT, PRODUCT)
    elif size == 4:
        multiply_4(s, n, LEFT, RIGHT, PRODUCT)
    else:
        multiply_any(s, n, size, LEFT)


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
        multiply_any(s, n, size, LEFT)
        copy_rows(s, PRODUCT * length, SQUARE * length, length)
        copy_rows(s, PRODUCT * length, RIGHT * length, length)
        multiply_any(s, n, size, LEFT)
        copy_rows(s, PRODUCT * length, LEFT * length, length)


@inner
def horner(s, n, size, c0, c1, c2):
    """RIGHT ← LEFT · RIGHT + c0 + c1 BASE + c2 SQUARE."""
    if size == 3:
        horner_3(s, n, c0, c1, c2)
    elif size == 4:
        horner_4(s, n, c0, c1, c2)
    else:
        multiply_any(s, n, size, LEFT)
        length = size * size * TILE
        base = s[:length]
        right = s[RIGHT * length : (RIGHT + 1) * length]
        product = s[PRODUCT * length : (PRODUCT + 1) * length]
        square = s[SQUARE * length : (SQUARE + 1) * length]
        for j in range(length):
            right[j] = product[j] + (c1 * base[j] + c2 * square[j])
        add_to_diagonal(s, n, size, c0)


@inner
def add_to_diagonal(s, n, size, value):
    """RIGHT += value times the identity."""
    for x in range(size):
        at = (RIGHT * size * size + x * size + x) * TILE
        entry = s[at : at + n]
        for k in range(n):
            entry[k] += value


@inner
def _next_row_any(s, n, size):
    """f ← f A."""
    flags = flags_of(size)
    spare = SQUARE * size * size * TILE
    f = vectors(size) + 2 * size * TILE
    clear_rows(s, spare, size * TILE)
    for y in range(size):
        to = spare + y * TILE
        _add_products(s, n, size, f, TILE, y * TILE, size * TILE, to, flags + y, size)
    copy_rows(s, spare, f, size * TILE)


@inner
def _next_term_any(s, n, size, inverse):
    """v ← ρ · inverse + A v, and integral += v f."""
    flags = flags_of(size)
    spare = SQUARE * size * size * TILE
    rho = vectors(size)
    v = rho + size * TILE
    f = v + size * TILE
    length = size * TILE
    fresh = s[spare : spare + length]
    source = s[rho : rho + length]
    for j in range(length):
        fresh[j] = inverse * source[j]
    for x in range(size):
        row = x * size * TILE
        flag = flags + x * size
        _add_products(s, n, size, row, TILE, v, TILE, spare + x * TILE, flag, 1)
    copy_rows(s, spare, v, size * TILE)
    for x in range(size):
        begin = (INTEGRAL * size + x) * size * TILE
        for y in range(size):
            _add_product(s, n, v + x * TILE, f + y * TILE, begin + y * TILE)


@inner
def next_row(s, n, size):
    """f ← f A."""
    if size == 3:
        next_row_3(s, n)
    elif size == 4:
        next_row_4(s, n)
    else:
        _next_row_any(s, n, size)


@inner
def next_term(s, n, size, inverse):
    """v ← ρ · inverse + A v, and INTEGRAL += v f."""
    if size == 3:
        next_term_3(s, n, inverse)
    elif size == 4:
        next_term_4(s, n, inverse)
    else:
        _next_term_any(s, n, size, inverse)


@inner
def two_terms(s, n, size, first, second):
    """The same twice, with f and then with the row behind it, for three and four states."""
    if size == 3:
        two_terms_3(s, n, first, second)
    else:
        two_terms_4(s, n, first, second)
