"""Products of matrices and vectors of three and four states on a tile of time steps, written out.

Measured with 400 steps: loops over states take 2.5 times as long with three states and 2 times with
four, also where the size is a constant. Written out, whole rows of a matrix stay in registers.
``_tile_products.py`` chooses between these and loops for any size, ``_matrix_step.py`` says what
the products are for. The buffer begins with the matrices; four single rows follow, then the vectors
ρ, v, f, and one more f.
"""

from __future__ import annotations

from asterism.numerics._jit import inlined, inner

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
def multiply_3(s, n, left, right, to):
    """to = left · right of three states; ``to`` is neither of them."""
    a, b, c = left * 9 * TILE, right * 9 * TILE, to * 9 * TILE
    for k in range(n):
        r00, r01, r02 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k]
        r10, r11, r12 = s[b + 3 * TILE + k], s[b + 4 * TILE + k], s[b + 5 * TILE + k]
        r20, r21, r22 = s[b + 6 * TILE + k], s[b + 7 * TILE + k], s[b + 8 * TILE + k]
        x0, x1, x2 = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k]
        s[c + k] = x0 * r00 + x1 * r10 + x2 * r20
        s[c + TILE + k] = x0 * r01 + x1 * r11 + x2 * r21
        s[c + 2 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22
        x0, x1, x2 = s[a + 3 * TILE + k], s[a + 4 * TILE + k], s[a + 5 * TILE + k]
        s[c + 3 * TILE + k] = x0 * r00 + x1 * r10 + x2 * r20
        s[c + 4 * TILE + k] = x0 * r01 + x1 * r11 + x2 * r21
        s[c + 5 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22
        x0, x1, x2 = s[a + 6 * TILE + k], s[a + 7 * TILE + k], s[a + 8 * TILE + k]
        s[c + 6 * TILE + k] = x0 * r00 + x1 * r10 + x2 * r20
        s[c + 7 * TILE + k] = x0 * r01 + x1 * r11 + x2 * r21
        s[c + 8 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22


@inner
def horner_3(s, n, c0, c1, c2):
    """RIGHT ← LEFT · RIGHT + c0 + c1 BASE + c2 SQUARE, of three states."""
    a, b, q = LEFT * 9 * TILE, RIGHT * 9 * TILE, SQUARE * 9 * TILE
    for k in range(n):
        r00, r01, r02 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k]
        r10, r11, r12 = s[b + 3 * TILE + k], s[b + 4 * TILE + k], s[b + 5 * TILE + k]
        r20, r21, r22 = s[b + 6 * TILE + k], s[b + 7 * TILE + k], s[b + 8 * TILE + k]
        x0, x1, x2 = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k]
        s[b + k] = (x0 * r00 + x1 * r10 + x2 * r20) + (c1 * s[k] + c2 * s[q + k] + c0)
        s[b + TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21) + (
            c1 * s[TILE + k] + c2 * s[q + TILE + k]
        )
        s[b + 2 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22) + (
            c1 * s[2 * TILE + k] + c2 * s[q + 2 * TILE + k]
        )
        x0, x1, x2 = s[a + 3 * TILE + k], s[a + 4 * TILE + k], s[a + 5 * TILE + k]
        s[b + 3 * TILE + k] = (x0 * r00 + x1 * r10 + x2 * r20) + (
            c1 * s[3 * TILE + k] + c2 * s[q + 3 * TILE + k]
        )
        s[b + 4 * TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21) + (
            c1 * s[4 * TILE + k] + c2 * s[q + 4 * TILE + k] + c0
        )
        s[b + 5 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22) + (
            c1 * s[5 * TILE + k] + c2 * s[q + 5 * TILE + k]
        )
        x0, x1, x2 = s[a + 6 * TILE + k], s[a + 7 * TILE + k], s[a + 8 * TILE + k]
        s[b + 6 * TILE + k] = (x0 * r00 + x1 * r10 + x2 * r20) + (
            c1 * s[6 * TILE + k] + c2 * s[q + 6 * TILE + k]
        )
        s[b + 7 * TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21) + (
            c1 * s[7 * TILE + k] + c2 * s[q + 7 * TILE + k]
        )
        s[b + 8 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22) + (
            c1 * s[8 * TILE + k] + c2 * s[q + 8 * TILE + k] + c0
        )


@inner
def two_terms_3(s, n, first, second):
    """Two of ``next_term``, with f and the f behind it, of three states."""
    rho = (MATRICES * 9 + 4) * TILE
    v = rho + 3 * TILE
    f = v + 3 * TILE
    g = INTEGRAL * 9 * TILE
    for k in range(n):
        a00, a01, a02 = s[k], s[TILE + k], s[2 * TILE + k]
        a10, a11, a12 = s[3 * TILE + k], s[4 * TILE + k], s[5 * TILE + k]
        a20, a21, a22 = s[6 * TILE + k], s[7 * TILE + k], s[8 * TILE + k]
        v0 = s[v + k]
        v1 = s[v + TILE + k]
        v2 = s[v + 2 * TILE + k]
        p0 = s[rho + k]
        p1 = s[rho + TILE + k]
        p2 = s[rho + 2 * TILE + k]
        w0 = first * p0 + (a00 * v0 + a01 * v1 + a02 * v2)
        w1 = first * p1 + (a10 * v0 + a11 * v1 + a12 * v2)
        w2 = first * p2 + (a20 * v0 + a21 * v1 + a22 * v2)
        v0 = second * p0 + (a00 * w0 + a01 * w1 + a02 * w2)
        v1 = second * p1 + (a10 * w0 + a11 * w1 + a12 * w2)
        v2 = second * p2 + (a20 * w0 + a21 * w1 + a22 * w2)
        s[v + k] = v0
        s[v + TILE + k] = v1
        s[v + 2 * TILE + k] = v2
        e, d = s[f + k], s[f + 3 * TILE + k]
        s[g + k] += w0 * e + v0 * d
        s[g + 3 * TILE + k] += w1 * e + v1 * d
        s[g + 6 * TILE + k] += w2 * e + v2 * d
        e, d = s[f + TILE + k], s[f + 4 * TILE + k]
        s[g + TILE + k] += w0 * e + v0 * d
        s[g + 4 * TILE + k] += w1 * e + v1 * d
        s[g + 7 * TILE + k] += w2 * e + v2 * d
        e, d = s[f + 2 * TILE + k], s[f + 5 * TILE + k]
        s[g + 2 * TILE + k] += w0 * e + v0 * d
        s[g + 5 * TILE + k] += w1 * e + v1 * d
        s[g + 8 * TILE + k] += w2 * e + v2 * d


@inlined
def multiply_4(s, n, left, right, to):
    """to = left · right of four states; ``to`` is neither of them."""
    a, b, c = left * 16 * TILE, right * 16 * TILE, to * 16 * TILE
    for k in range(n):
        r00, r01, r02, r03 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k], s[b + 3 * TILE + k]
        r10, r11, r12, r13 = (
            s[b + 4 * TILE + k],
            s[b + 5 * TILE + k],
            s[b + 6 * TILE + k],
            s[b + 7 * TILE + k],
        )
        r20, r21, r22, r23 = (
            s[b + 8 * TILE + k],
            s[b + 9 * TILE + k],
            s[b + 10 * TILE + k],
            s[b + 11 * TILE + k],
        )
        r30, r31, r32, r33 = (
            s[b + 12 * TILE + k],
            s[b + 13 * TILE + k],
            s[b + 14 * TILE + k],
            s[b + 15 * TILE + k],
        )
        x0, x1, x2, x3 = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k], s[a + 3 * TILE + k]
        s[c + k] = x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30
        s[c + TILE + k] = x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31
        s[c + 2 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32
        s[c + 3 * TILE + k] = x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33
        x0, x1, x2, x3 = (
            s[a + 4 * TILE + k],
            s[a + 5 * TILE + k],
            s[a + 6 * TILE + k],
            s[a + 7 * TILE + k],
        )
        s[c + 4 * TILE + k] = x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30
        s[c + 5 * TILE + k] = x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31
        s[c + 6 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32
        s[c + 7 * TILE + k] = x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33
        x0, x1, x2, x3 = (
            s[a + 8 * TILE + k],
            s[a + 9 * TILE + k],
            s[a + 10 * TILE + k],
            s[a + 11 * TILE + k],
        )
        s[c + 8 * TILE + k] = x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30
        s[c + 9 * TILE + k] = x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31
        s[c + 10 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32
        s[c + 11 * TILE + k] = x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33
        x0, x1, x2, x3 = (
            s[a + 12 * TILE + k],
            s[a + 13 * TILE + k],
            s[a + 14 * TILE + k],
            s[a + 15 * TILE + k],
        )
        s[c + 12 * TILE + k] = x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30
        s[c + 13 * TILE + k] = x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31
        s[c + 14 * TILE + k] = x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32
        s[c + 15 * TILE + k] = x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33


@inner
def horner_4(s, n, c0, c1, c2):
    """RIGHT ← LEFT · RIGHT + c0 + c1 BASE + c2 SQUARE, of four states."""
    a, b, q = LEFT * 16 * TILE, RIGHT * 16 * TILE, SQUARE * 16 * TILE
    for k in range(n):
        r00, r01, r02, r03 = s[b + k], s[b + TILE + k], s[b + 2 * TILE + k], s[b + 3 * TILE + k]
        r10, r11, r12, r13 = (
            s[b + 4 * TILE + k],
            s[b + 5 * TILE + k],
            s[b + 6 * TILE + k],
            s[b + 7 * TILE + k],
        )
        r20, r21, r22, r23 = (
            s[b + 8 * TILE + k],
            s[b + 9 * TILE + k],
            s[b + 10 * TILE + k],
            s[b + 11 * TILE + k],
        )
        r30, r31, r32, r33 = (
            s[b + 12 * TILE + k],
            s[b + 13 * TILE + k],
            s[b + 14 * TILE + k],
            s[b + 15 * TILE + k],
        )
        x0, x1, x2, x3 = s[a + k], s[a + TILE + k], s[a + 2 * TILE + k], s[a + 3 * TILE + k]
        s[b + k] = (x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30) + (c1 * s[k] + c2 * s[q + k] + c0)
        s[b + TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31) + (
            c1 * s[TILE + k] + c2 * s[q + TILE + k]
        )
        s[b + 2 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32) + (
            c1 * s[2 * TILE + k] + c2 * s[q + 2 * TILE + k]
        )
        s[b + 3 * TILE + k] = (x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33) + (
            c1 * s[3 * TILE + k] + c2 * s[q + 3 * TILE + k]
        )
        x0, x1, x2, x3 = (
            s[a + 4 * TILE + k],
            s[a + 5 * TILE + k],
            s[a + 6 * TILE + k],
            s[a + 7 * TILE + k],
        )
        s[b + 4 * TILE + k] = (x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30) + (
            c1 * s[4 * TILE + k] + c2 * s[q + 4 * TILE + k]
        )
        s[b + 5 * TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31) + (
            c1 * s[5 * TILE + k] + c2 * s[q + 5 * TILE + k] + c0
        )
        s[b + 6 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32) + (
            c1 * s[6 * TILE + k] + c2 * s[q + 6 * TILE + k]
        )
        s[b + 7 * TILE + k] = (x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33) + (
            c1 * s[7 * TILE + k] + c2 * s[q + 7 * TILE + k]
        )
        x0, x1, x2, x3 = (
            s[a + 8 * TILE + k],
            s[a + 9 * TILE + k],
            s[a + 10 * TILE + k],
            s[a + 11 * TILE + k],
        )
        s[b + 8 * TILE + k] = (x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30) + (
            c1 * s[8 * TILE + k] + c2 * s[q + 8 * TILE + k]
        )
        s[b + 9 * TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31) + (
            c1 * s[9 * TILE + k] + c2 * s[q + 9 * TILE + k]
        )
        s[b + 10 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32) + (
            c1 * s[10 * TILE + k] + c2 * s[q + 10 * TILE + k] + c0
        )
        s[b + 11 * TILE + k] = (x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33) + (
            c1 * s[11 * TILE + k] + c2 * s[q + 11 * TILE + k]
        )
        x0, x1, x2, x3 = (
            s[a + 12 * TILE + k],
            s[a + 13 * TILE + k],
            s[a + 14 * TILE + k],
            s[a + 15 * TILE + k],
        )
        s[b + 12 * TILE + k] = (x0 * r00 + x1 * r10 + x2 * r20 + x3 * r30) + (
            c1 * s[12 * TILE + k] + c2 * s[q + 12 * TILE + k]
        )
        s[b + 13 * TILE + k] = (x0 * r01 + x1 * r11 + x2 * r21 + x3 * r31) + (
            c1 * s[13 * TILE + k] + c2 * s[q + 13 * TILE + k]
        )
        s[b + 14 * TILE + k] = (x0 * r02 + x1 * r12 + x2 * r22 + x3 * r32) + (
            c1 * s[14 * TILE + k] + c2 * s[q + 14 * TILE + k]
        )
        s[b + 15 * TILE + k] = (x0 * r03 + x1 * r13 + x2 * r23 + x3 * r33) + (
            c1 * s[15 * TILE + k] + c2 * s[q + 15 * TILE + k] + c0
        )


@inner
def two_terms_4(s, n, first, second):
    """Two of ``next_term``, with f and the f behind it, of four states."""
    rho = (MATRICES * 16 + 4) * TILE
    v = rho + 4 * TILE
    f = v + 4 * TILE
    g = INTEGRAL * 16 * TILE
    for k in range(n):
        a00, a01, a02, a03 = s[k], s[TILE + k], s[2 * TILE + k], s[3 * TILE + k]
        a10, a11, a12, a13 = s[4 * TILE + k], s[5 * TILE + k], s[6 * TILE + k], s[7 * TILE + k]
        a20, a21, a22, a23 = s[8 * TILE + k], s[9 * TILE + k], s[10 * TILE + k], s[11 * TILE + k]
        a30, a31, a32, a33 = s[12 * TILE + k], s[13 * TILE + k], s[14 * TILE + k], s[15 * TILE + k]
        v0 = s[v + k]
        v1 = s[v + TILE + k]
        v2 = s[v + 2 * TILE + k]
        v3 = s[v + 3 * TILE + k]
        p0 = s[rho + k]
        p1 = s[rho + TILE + k]
        p2 = s[rho + 2 * TILE + k]
        p3 = s[rho + 3 * TILE + k]
        w0 = first * p0 + (a00 * v0 + a01 * v1 + a02 * v2 + a03 * v3)
        w1 = first * p1 + (a10 * v0 + a11 * v1 + a12 * v2 + a13 * v3)
        w2 = first * p2 + (a20 * v0 + a21 * v1 + a22 * v2 + a23 * v3)
        w3 = first * p3 + (a30 * v0 + a31 * v1 + a32 * v2 + a33 * v3)
        v0 = second * p0 + (a00 * w0 + a01 * w1 + a02 * w2 + a03 * w3)
        v1 = second * p1 + (a10 * w0 + a11 * w1 + a12 * w2 + a13 * w3)
        v2 = second * p2 + (a20 * w0 + a21 * w1 + a22 * w2 + a23 * w3)
        v3 = second * p3 + (a30 * w0 + a31 * w1 + a32 * w2 + a33 * w3)
        s[v + k] = v0
        s[v + TILE + k] = v1
        s[v + 2 * TILE + k] = v2
        s[v + 3 * TILE + k] = v3
        e, d = s[f + k], s[f + 4 * TILE + k]
        s[g + k] += w0 * e + v0 * d
        s[g + 4 * TILE + k] += w1 * e + v1 * d
        s[g + 8 * TILE + k] += w2 * e + v2 * d
        s[g + 12 * TILE + k] += w3 * e + v3 * d
        e, d = s[f + TILE + k], s[f + 5 * TILE + k]
        s[g + TILE + k] += w0 * e + v0 * d
        s[g + 5 * TILE + k] += w1 * e + v1 * d
        s[g + 9 * TILE + k] += w2 * e + v2 * d
        s[g + 13 * TILE + k] += w3 * e + v3 * d
        e, d = s[f + 2 * TILE + k], s[f + 6 * TILE + k]
        s[g + 2 * TILE + k] += w0 * e + v0 * d
        s[g + 6 * TILE + k] += w1 * e + v1 * d
        s[g + 10 * TILE + k] += w2 * e + v2 * d
        s[g + 14 * TILE + k] += w3 * e + v3 * d
        e, d = s[f + 3 * TILE + k], s[f + 7 * TILE + k]
        s[g + 3 * TILE + k] += w0 * e + v0 * d
        s[g + 7 * TILE + k] += w1 * e + v1 * d
        s[g + 11 * TILE + k] += w2 * e + v2 * d
        s[g + 15 * TILE + k] += w3 * e + v3 * d


@inner
def next_row_3(s, n):
    """f ← f A of three states."""
    f = (MATRICES * 9 + 4) * TILE + 6 * TILE
    for k in range(n):
        f0, f1, f2 = s[f + k], s[f + TILE + k], s[f + 2 * TILE + k]
        s[f + k] = f0 * s[k] + f1 * s[3 * TILE + k] + f2 * s[6 * TILE + k]
        s[f + TILE + k] = f0 * s[TILE + k] + f1 * s[4 * TILE + k] + f2 * s[7 * TILE + k]
        s[f + 2 * TILE + k] = f0 * s[2 * TILE + k] + f1 * s[5 * TILE + k] + f2 * s[8 * TILE + k]


@inner
def next_row_4(s, n):
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
