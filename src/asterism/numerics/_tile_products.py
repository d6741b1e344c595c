"""Products of small matrices and vectors on a tile of time steps, all in one buffer.

All rows of a tile lie in one buffer at distances that the compiler knows: this is what lets it use
vector instructions without asking whether rows overlap. Three and four states are written out for
the same reason. With more states, entries that are zero throughout a tile are skipped; a chain of
five states gained nothing measurable by it. ``_matrix_step.py`` says what the products are for.
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
    """Where vectors begin: ρ, v, f, and then all f_i."""
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
def _multiply_3(s, n):
    """PRODUCT = LEFT · RIGHT of three states."""
    a, b, c = LEFT * 9 * TILE, RIGHT * 9 * TILE, PRODUCT * 9 * TILE
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
    a, b, c = LEFT * 16 * TILE, RIGHT * 16 * TILE, PRODUCT * 16 * TILE
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
        _multiply_3(s, n)
    elif size == 4:
        _multiply_4(s, n)
    else:
        multiply_any(s, n, size, LEFT)


@inner
def _next_row_3(s, n):
    """f ← f A of three states."""
    f = (MATRICES * 9 + 4) * TILE + 6 * TILE
    for k in range(n):
        f0, f1, f2 = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k]
        s[f + k] = f0 * s[k] + f1 * s[3 * TILE + k] + f2 * s[6 * TILE + k]
        s[f + TILE + k] = f0 * s[TILE + k] + f1 * s[4 * TILE + k] + f2 * s[7 * TILE + k]
        s[f + 2 * TILE + k] = f0 * s[2 * TILE + k] + f1 * s[5 * TILE + k] + f2 * s[8 * TILE + k]


@inner
def _next_term_3(s, n, inverse):
    """v ← ρ · inverse + A v, and integral += v f, of three states."""
    rho = (MATRICES * 9 + 4) * TILE
    v = rho + 3 * TILE
    f = v + 3 * TILE
    g = INTEGRAL * 9 * TILE
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
    f = (MATRICES * 16 + 4) * TILE + 8 * TILE
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
    rho = (MATRICES * 16 + 4) * TILE
    v = rho + 4 * TILE
    f = v + 4 * TILE
    g = INTEGRAL * 16 * TILE
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
        _next_row_3(s, n)
    elif size == 4:
        _next_row_4(s, n)
    else:
        _next_row_any(s, n, size)


@inner
def next_term(s, n, size, inverse):
    """v ← ρ · inverse + A v, and INTEGRAL += v f."""
    if size == 3:
        _next_term_3(s, n, inverse)
    elif size == 4:
        _next_term_4(s, n, inverse)
    else:
        _next_term_any(s, n, size, inverse)
