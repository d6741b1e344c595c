"""One time step of a region's chain (a cluster's or a separator's): exp(A h) on vectors, compiled.

On step k the region's chain has the generator A: few off-diagonal entries per row, since one node
moves at a time, and a diagonal that need not balance them. With σ such that B = (A + σI) h ≥ 0,

    exp(A h) = e^{−σh} Σ B^i / i!,      v_i = f B^i / i!,      u_j = B^j ρ / j!,
    T(x)     = h e^{−σh} Σ_ij i! j! / (i+j+1)! v_i(x) u_j(x)        time in x,
    M(x→y)   = A(x,y) h e^{−σh} Σ_ij i! j! / (i+j+1)! v_i(x) u_j(y)  jumps from x to y,

both divided by f exp(A h) ρ. All terms are positive; matrices are never formed. Steps on which B is
large are cut into parts. One or two nodes of two states, the most frequent regions, have loops of
their own, written out.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import MOST_TERMS
from asterism.numerics._jit import inner

_LARGEST_MASS = 1.5  # of one part of a step
_EXACT_MASS = 6.0  # the same where a series goes on until every entry has converged
_ROUNDING = 1e-17  # a term that adds less than this to an entry changes nothing


@inner
def terms_for(mass, precision):
    """Terms of Σ massⁱ/i! after which the rest is below ``precision``."""
    n = 1
    tail = mass
    while tail > precision and n < MOST_TERMS - 8:
        n += 1
        tail *= mass / n
    return n + 1


@inner
def shape_of(regions, r):
    """Joint states, jumps per state, first entry and nodes of a region.

    Loops that run once per part of a step are given these numbers: reading them from the arrays
    takes as long as a term of the series of a small region.
    """
    nodes = regions.node_start[r + 1] - regions.node_start[r]
    return regions.n_joint[r], regions.per_row[r], regions.entry_start[r], nodes


@inner
def load_column(n_joint, per_row, work, c, is_held):
    """Copy a column's rates to contiguous room; σ, and the largest row sum of A + σI.

    The diagonal of states that cannot be does not matter.
    """
    if work.loaded[0] == c:
        return work.loaded[1], work.loaded[2]
    alive, exits, rate = work.alive, work.diagonal, work.rate
    diagonal, local = work.vector[0], work.local
    lowest = np.inf
    for x in range(n_joint):
        if not is_held or alive[c, x] > 0.0:
            lowest = min(lowest, exits[x, c])
    sigma = -lowest
    bound = 0.0
    for x in range(n_joint):
        diagonal[x] = max(exits[x, c] + sigma, 0.0)
        if is_held and alive[c, x] == 0.0:
            diagonal[x] = 0.0
        total = diagonal[x]
        for e in range(x * per_row, (x + 1) * per_row):
            local[e] = rate[e, c]
            total += local[e]
        bound = max(bound, total)
    work.loaded[0] = c
    work.loaded[1] = sigma
    work.loaded[2] = bound
    return sigma, bound


@inner
def rescale(n_joint, vector):
    """Divide by the largest entry and return it; zero where the vector vanishes."""
    top = 0.0
    for x in range(n_joint):
        top = max(top, vector[x])
    if top > 0.0 and top < np.inf:
        for x in range(n_joint):
            vector[x] /= top
        return top
    return 0.0


@inner
def parts_of(mass, precision):
    """Number of parts into which a step is cut; see :func:`term_limits` for the precision."""
    return max(1, math.ceil(mass / (_LARGEST_MASS if precision > 0.0 else _EXACT_MASS)))


@inner
def term_limits(shape, most, n_terms, precision, vector):
    """The least and the largest number of terms for one part.

    With a precision both are ``n_terms`` (see :func:`terms_for`), or more where states are empty
    that several jumps can reach. Precision 0 means as many as it takes until every entry has
    converged by itself, at most ``most``.
    """
    if precision == 0.0:
        return 2, most
    for x in range(shape[0]):
        if vector[x] == 0.0:
            n_terms = min(n_terms + shape[3], MOST_TERMS)
            break
    return n_terms, n_terms


@inner
def load_transposed(regions, r, work):
    """The loaded rates again, of the jumps back: for row vectors."""
    begin = regions.entry_start[r]
    back, local, reverse = work.back, work.local, regions.reverse
    for e in range(regions.n_joint[r] * regions.per_row[r]):
        back[e] = local[reverse[begin + e]]


@inner
def _has_converged(n_joint, term, total, is_reached):
    """Whether another term changes no entry.

    ``is_reached``: whether there were terms enough for every state to be reached by jumps.
    """
    for x in range(n_joint):
        if term[x] > _ROUNDING * total[x] or (total[x] == 0.0 and not is_reached):
            return False
    return True


@inner
def add_terms(shape, column, diagonal, rates, step, least, most, start, terms, total):
    """terms[j] = B^j start / j!, and their sum in ``total``; the number of terms.

    ``column``: the state behind each jump; ``diagonal``: ``work.vector[0]``; ``rates``: those of
    the jumps for a column vector, ``work.back`` for start B^j / j!. Beyond ``least`` terms the
    series ends as soon as every entry has converged.
    """
    n_joint, per_row, begin, _ = shape
    for x in range(n_joint):
        terms[0, x] = start[x]
        total[x] = start[x]
    if least == most and n_joint == 4 and per_row == 2:
        _terms_of_a_pair(diagonal, rates, step, most, terms, total)
        return most
    if least == most and n_joint == 2:
        _terms_of_two_states(diagonal, rates, step, most, terms, total)
        return most
    for j in range(1, most):
        factor = step / j
        for x in range(n_joint):
            value = diagonal[x] * terms[j - 1, x]
            for e in range(x * per_row, (x + 1) * per_row):
                value += rates[e] * terms[j - 1, column[begin + e]]
            value *= factor
            terms[j, x] = value
            total[x] += value
        # a state is at most per_row = Σ (S − 1) jumps away
        if least <= j + 1 < most and _has_converged(n_joint, terms[j], total, j >= per_row):
            return j + 1
    return most


@inner
def advance(regions, r, work, rates, step, n_parts, precision, vector, is_counted):
    """Carry a vector over parts of a step, in place, up to a factor; its logarithm if wanted."""
    shape = shape_of(regions, r)
    column, diagonal, summed, terms = regions.column, work.vector[0], work.vector[2], work.u
    n_terms = terms_for(work.loaded[2] * step, precision)
    gained = 0.0
    for _ in range(n_parts):
        least, most = term_limits(shape, terms.shape[0], n_terms, precision, vector)
        add_terms(shape, column, diagonal, rates, step, least, most, vector, terms, summed)
        for x in range(shape[0]):
            vector[x] = summed[x]
        top = rescale(shape[0], vector)
        if is_counted:
            gained += math.log(top) if top > 0.0 else -np.inf
    return gained


@inner
def _terms_of_two_states(b, a, step, n_terms, terms, total):
    b0, b1 = b[0] * step, b[1] * step
    a01, a10 = a[0] * step, a[1] * step
    t0, t1 = terms[0, 0], terms[0, 1]
    s0, s1 = t0, t1
    for j in range(1, n_terms):
        over = 1.0 / j
        t0, t1 = (b0 * t0 + a01 * t1) * over, (b1 * t1 + a10 * t0) * over
        terms[j, 0], terms[j, 1] = t0, t1
        s0 += t0
        s1 += t1
    total[0], total[1] = s0, s1


@inner
def _terms_of_a_pair(b, a, step, n_terms, terms, total):
    """Two nodes of two states: states 00, 01, 10, 11, per row the jump of the first, the second."""
    b0, b1, b2, b3 = b[0] * step, b[1] * step, b[2] * step, b[3] * step
    a02, a01, a13, a10 = a[0] * step, a[1] * step, a[2] * step, a[3] * step
    a20, a23, a31, a32 = a[4] * step, a[5] * step, a[6] * step, a[7] * step
    t0, t1, t2, t3 = terms[0, 0], terms[0, 1], terms[0, 2], terms[0, 3]
    s0, s1, s2, s3 = t0, t1, t2, t3
    for j in range(1, n_terms):
        over = 1.0 / j
        n0 = (b0 * t0 + a01 * t1 + a02 * t2) * over
        n1 = (b1 * t1 + a10 * t0 + a13 * t3) * over
        n2 = (b2 * t2 + a20 * t0 + a23 * t3) * over
        n3 = (b3 * t3 + a31 * t1 + a32 * t2) * over
        t0, t1, t2, t3 = n0, n1, n2, n3
        terms[j, 0], terms[j, 1], terms[j, 2], terms[j, 3] = t0, t1, t2, t3
        s0 += t0
        s1 += t1
        s2 += t2
        s3 += t3
    total[0], total[1], total[2], total[3] = s0, s1, s2, s3


@inner(fastmath={"contract", "reassoc"})
def integrate(regions, r, n_joint, per_row, n_terms, factor, c, work):
    """Add ∫ f(x) ρ(y) dt of one part to the times and jumps of column c."""
    if n_joint == 2:
        _integrate_two_states(n_terms, factor, c, work)
        return
    if n_joint == 4 and per_row == 2:
        _integrate_a_pair(n_terms, factor, c, work)
        return
    begin = regions.entry_start[r]
    u, v, coefficient, column = work.u, work.v, work.coefficient, regions.column
    by_state, all_z, local = work.by_state, work.z, work.local
    time, jumps = work.time, work.jumps
    for x in range(n_joint):
        own = by_state[x]
        z = all_z[x]
        for i in range(n_terms):
            own[i] = v[i, x]
            z[i] = coefficient[0, i] * u[0, x]
        for j in range(1, n_terms):
            weight = u[j, x]
            if weight > 0.0:
                row = coefficient[j]
                for i in range(n_terms - j):
                    z[i] += row[i] * weight
    for x in range(n_joint):
        own = by_state[x]
        z = all_z[x]
        value = 0.0
        for i in range(n_terms):
            value += own[i] * z[i]
        time[x, c] += value * factor
        for e in range(x * per_row, (x + 1) * per_row):
            if local[e] > 0.0:
                z = all_z[column[begin + e]]
                value = 0.0
                for i in range(n_terms):
                    value += own[i] * z[i]
                jumps[e, c] += value * factor * local[e]


@inner
def _integrate_two_states(n_terms, factor, c, work):
    u, v, coefficient = work.u, work.v, work.coefficient
    t0 = t1 = m01 = m10 = 0.0
    for i in range(n_terms):
        z0 = z1 = 0.0
        for j in range(n_terms - i):
            weight = coefficient[i, j]
            z0 += weight * u[j, 0]
            z1 += weight * u[j, 1]
        v0, v1 = v[i, 0], v[i, 1]
        t0 += v0 * z0
        t1 += v1 * z1
        m01 += v0 * z1
        m10 += v1 * z0
    work.time[0, c] += t0 * factor
    work.time[1, c] += t1 * factor
    work.jumps[0, c] += m01 * factor * work.local[0]
    work.jumps[1, c] += m10 * factor * work.local[1]


@inner
def _integrate_a_pair(n_terms, factor, c, work):
    u, v, a, coefficient = work.u, work.v, work.local, work.coefficient
    t0 = t1 = t2 = t3 = 0.0
    m02 = m01 = m13 = m10 = m20 = m23 = m31 = m32 = 0.0
    for i in range(n_terms):
        z0 = z1 = z2 = z3 = 0.0
        for j in range(n_terms - i):
            weight = coefficient[i, j]
            z0 += weight * u[j, 0]
            z1 += weight * u[j, 1]
            z2 += weight * u[j, 2]
            z3 += weight * u[j, 3]
        v0, v1, v2, v3 = v[i, 0], v[i, 1], v[i, 2], v[i, 3]
        t0 += v0 * z0
        t1 += v1 * z1
        t2 += v2 * z2
        t3 += v3 * z3
        m02 += v0 * z2
        m01 += v0 * z1
        m13 += v1 * z3
        m10 += v1 * z0
        m20 += v2 * z0
        m23 += v2 * z3
        m31 += v3 * z1
        m32 += v3 * z2
    work.time[0, c] += t0 * factor
    work.time[1, c] += t1 * factor
    work.time[2, c] += t2 * factor
    work.time[3, c] += t3 * factor
    work.jumps[0, c] += m02 * factor * a[0]
    work.jumps[1, c] += m01 * factor * a[1]
    work.jumps[2, c] += m13 * factor * a[2]
    work.jumps[3, c] += m10 * factor * a[3]
    work.jumps[4, c] += m20 * factor * a[4]
    work.jumps[5, c] += m23 * factor * a[5]
    work.jumps[6, c] += m31 * factor * a[6]
    work.jumps[7, c] += m32 * factor * a[7]
