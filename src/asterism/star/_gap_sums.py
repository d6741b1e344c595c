"""Nodes without parents and children, whose rates are the same at all times: sums only.

With constant rates, steps of equal length have equal propagators, and what a step adds to the
expected statistics is linear in f ρ / (f P ρ). So the messages need one propagator per different
gap, and the integrals over all steps are one sum. Both are series in the shifted matrix
B = (A + λ)/λ, which has no negative entry (uniformisation): every term is positive, and small
entries keep their relative accuracy.

    P(h) = Σ_m e^{−λh} (λh)^m/m! B^m
    W    = Σ_m Σ_{i+j=m} (Bᵀ)^i D_m (Bᵀ)^j,    D_m = Σ_steps h e^{−λh} (λh)^m/(m+1)! f ρ / (f P ρ)

The number of terms grows with λh: where that is large, the sweeps of ``_solve.py`` are better.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inlined, inner, kernel
from asterism.star._buffers import DWELL, INITIAL, MARK, POINT, STATES, TABLE, VALUES

TILE = 128
STRIDE = TILE + 8  # rows a power of two apart would fall on the same places of the cache
_REORDER = {"contract", "reassoc", "nsz"}
_USUAL = 1e-17  # what is left out of a sum, relative to it
_DEEP = 1e-14  # the same for an entry that takes several jumps
_REACHED = 0.01  # probability from which on a state counts as reached by so many jumps


@inlined
def _n_terms(z, jumps):
    """How many terms of the series matter, also for states that are ``jumps`` jumps apart."""
    term = math.exp(-z)
    usual = 1
    while usual < z or term > _USUAL:
        term *= z / usual
        usual += 1
    term = 1.0
    deep = 1
    while deep < z or term > _DEEP * math.exp(z):
        term *= z / deep
        deep += 1
    return max(usual, deep + jumps)


@inner(allocates=True)
def _most_jumps(base, size):
    """After how many jumps every state has been reached from every other, if it can be."""
    rows = size * size
    power, room, so_far = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for x in range(size):
        power[x * size + x] = 1.0
        so_far[x * size + x] = 1.0
    most = 1
    for m in range(1, size):
        for x in range(size):
            for y in range(size):
                total = 0.0
                for i in range(size):
                    total += power[x * size + i] * base[i * size + y]
                room[x * size + y] = total
        for row in range(rows):
            power[row] = room[row]
            if so_far[row] < _REACHED:
                so_far[row] += power[row]
                # what is improbable even then can need the longest way
                if so_far[row] >= _REACHED or (m == size - 1 and so_far[row] > 0.0):
                    most = m
    return most


@inner(allocates=True)
def _powers(rates, size, longest):
    """λ, what is missing in the exponent of the scale, all powers of B that matter, and jumps.

    The jumps are those that an entry of an integral may need, which has two ways of a propagator.
    """
    rows = size * size
    shift = 0.0
    for x in range(size):
        shift = max(shift, -rates[x * size + x])
    norm = 0.0
    for x in range(size):
        total = shift
        for y in range(size):
            total += rates[x * size + y]
        norm = max(norm, total)
    inverse = 1.0 / norm if norm > 0.0 else 0.0
    base = np.zeros(rows)
    for x in range(size):
        for y in range(size):
            entry = x * size + y
            base[entry] = (rates[entry] + (shift if x == y else 0.0)) * inverse
    jumps = 2 * _most_jumps(base, size)
    n_terms = _n_terms(norm * longest, jumps)
    powers = np.zeros(((n_terms + 3) // 4 * 4, rows))
    for x in range(size):
        powers[0, x * size + x] = 1.0
    for m in range(1, powers.shape[0]):
        for x in range(size):
            for y in range(size):
                total = 0.0
                for i in range(size):
                    total += powers[m - 1, x * size + i] * base[i * size + y]
                powers[m, x * size + y] = total
    return norm, norm - shift, powers, jumps


@inlined
def _fill_weights(gaps, first, count, norm, offset, n_powers, jumps, weight):
    """Row m: e^{−z} z^m/(m + offset)! of a tile's gaps; how many rows there are, in fours.

    With ``offset`` one, times the gap. Weights behind the last that matters are zero.
    """
    z = weight[n_powers * STRIDE :]
    for k in range(count):
        gap = gaps[first + k]
        z[k] = norm * gap
        weight[k] = math.exp(-z[k]) * (gap if offset == 1 else 1.0)
    n_terms = min(_n_terms(z[count - 1], jumps), n_powers)
    whole = (n_terms + 3) // 4 * 4
    for m in range(1, whole):
        inverse = 1.0 / (m + offset) if m < n_terms else 0.0
        rows = weight[(m - 1) * STRIDE : (m + 1) * STRIDE]
        for k in range(count):
            rows[STRIDE + k] = rows[k] * (z[k] * inverse)
    return whole


@inner
def _propagators(gaps, norm, powers, jumps, size, weight, room, propagator):
    """P of every gap, up to its scale; ``room`` is a tile of them, gaps innermost.

    Four terms of two entries at a time, so that what is read is used more than once.
    """
    rows = size * size
    for first in range(0, gaps.shape[0], TILE):
        count = min(TILE, gaps.shape[0] - first)
        room[:] = 0.0
        n_terms = _fill_weights(gaps, first, count, norm, 0, powers.shape[0], jumps, weight)
        for m in range(0, n_terms, 4):
            w = weight[m * STRIDE : (m + 4) * STRIDE]
            for row in range(0, rows, 2):
                after = min(row + 1, rows - 1)
                p0, p1, p2, p3 = _four(powers, m, row)
                q0, q1, q2, q3 = _four(powers, m, after)
                to = room[row * STRIDE : (row + 2) * STRIDE]
                for k in range(count):
                    a, b, c, d = w[k], w[STRIDE + k], w[2 * STRIDE + k], w[3 * STRIDE + k]
                    to[k] += (a * p0 + b * p1) + (c * p2 + d * p3)
                    to[STRIDE + k] += (a * q0 + b * q1) + (c * q2 + d * q3)
        for k in range(count):
            for row in range(rows):
                propagator[first + k, row] = room[row * STRIDE + k]


@inlined
def _four(terms, m, row):
    """An entry of four neighbouring terms."""
    return terms[m, row], terms[m + 1, row], terms[m + 2, row], terms[m + 3, row]


@inner(fastmath=_REORDER)
def _integrals(gaps, norm, jumps, size, weight, room, products, sums):
    """D_m of all steps from f ρ / (f P ρ), summed over the steps of equal length."""
    rows = size * size
    for first in range(0, gaps.shape[0], TILE):
        count = min(TILE, gaps.shape[0] - first)
        n_terms = _fill_weights(gaps, first, count, norm, 1, sums.shape[0], jumps, weight)
        for k in range(count):
            for row in range(rows):
                room[row * STRIDE + k] = products[first + k, row]
        for m in range(0, n_terms, 4):
            w = weight[m * STRIDE : (m + 4) * STRIDE]
            for row in range(0, rows, 2):
                here = room[row * STRIDE : (row + 2) * STRIDE]
                s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0
                for k in range(count):
                    a, b, c, d = w[k], w[STRIDE + k], w[2 * STRIDE + k], w[3 * STRIDE + k]
                    s0 += a * here[k]
                    s1 += b * here[k]
                    s2 += c * here[k]
                    s3 += d * here[k]
                    t0 += a * here[STRIDE + k]
                    t1 += b * here[STRIDE + k]
                    t2 += c * here[STRIDE + k]
                    t3 += d * here[STRIDE + k]
                _add_four(sums, m, row, s0, s1, s2, s3)
                if row + 1 < rows:
                    _add_four(sums, m, row + 1, t0, t1, t2, t3)


@inlined
def _add_four(terms, m, row, a, b, c, d):
    """Add to an entry of four neighbouring terms."""
    terms[m, row] += a
    terms[m + 1, row] += b
    terms[m + 2, row] += c
    terms[m + 3, row] += d


@inner
def _multiply(left, right, size, is_left_transposed, to):
    """to = left · rightᵀ, or leftᵀ · right."""
    for x in range(size):
        for y in range(size):
            total = 0.0
            for i in range(size):
                if is_left_transposed:
                    total += left[i * size + x] * right[i * size + y]
                else:
                    total += left[x * size + i] * right[y * size + i]
            to[x * size + y] = total


@inner(allocates=True)
def _whole_integral(sums, powers, size):
    """W, by Horner's rule: Y ← D_m + Y Bᵀ, and X ← Y + Bᵀ X."""
    rows = size * size
    base = powers[1] if powers.shape[0] > 1 else np.zeros(rows)
    right, whole, room = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for m in range(sums.shape[0] - 1, -1, -1):
        _multiply(right, base, size, False, room)
        for row in range(rows):
            right[row] = sums[m, row] + room[row]
        _multiply(base, whole, size, True, room)
        for row in range(rows):
            whole[row] = right[row] + room[row]
    return whole


@inlined
def _times_marks(problem, begin, mark, end, step, point, message, size):
    """Multiply a message by the likelihoods at a point; the next mark, the logarithm taken out."""
    logarithm = 0.0
    while begin <= mark < end and problem.mark[mark, POINT] == point:
        for x in range(size):
            message[x] *= problem.likelihood[problem.mark[mark, VALUES] + x, 0]
        logarithm += problem.mark_scale[mark]
        mark += step
    return mark, logarithm


@inlined
def _to_one(message, size):
    """Let a message sum to one; its sum before."""
    total = 0.0
    for x in range(size):
        total += message[x]
    inverse = 1.0 / total
    for x in range(size):
        message[x] *= inverse
    return total


@inlined
def _from_left(p, message, size, to):
    """to = message · P."""
    for y in range(size):
        total = 0.0
        for x in range(size):
            total += message[x] * p[x * size + y]
        to[y] = total


@inlined
def _from_right(p, message, size, to):
    """to = P · message."""
    for x in range(size):
        total = 0.0
        for y in range(size):
            total += p[x * size + y] * message[y]
        to[x] = total


@inlined
def _keep_marginal(problem, first, last, marginal, size, points):
    """Normalise a marginal, and note it at the marks that fall on one point."""
    _to_one(marginal, size)
    for mark in range(first, last):
        for x in range(size):
            points[problem.mark[mark, VALUES] + x] = marginal[x]


@kernel
def count_uncoupled(problem, parameters, node, steps_of, counts, totals, points):
    """Add one node's statistics on some trajectories to ``counts``, its F to ``totals``.

    ``steps_of``: which trajectories; the different widths of their steps, ascending; and which of
    them each step has. ``points`` receives the marginals at the node's marks, unless it is empty.
    False where evidence leaves no state possible, or numbers leave their range.
    """
    (first, last), gaps, slot = steps_of
    n_nodes = problem.node.shape[0] - 1
    size = problem.node[node, STATES]
    rows = size * size
    table, initial = problem.node[node, TABLE], problem.node[node, INITIAL]
    rates = parameters.rates[table : table + rows]
    origin = problem.step_start[first]
    longest = gaps[gaps.shape[0] - 1] if gaps.shape[0] > 0 else 0.0
    norm, excess, powers, jumps = _powers(rates, size, longest)
    propagator = np.zeros((gaps.shape[0], rows))
    products = np.zeros((gaps.shape[0], rows))
    room = np.zeros((rows + 1) * STRIDE)
    weight = np.zeros((powers.shape[0] + 1) * STRIDE)
    _propagators(gaps, norm, powers, jumps, size, weight, room, propagator)
    most = 1
    for d in range(first, last):
        most = max(most, problem.step_start[d + 1] - problem.step_start[d])
    kept = np.zeros((most + 1, size))
    message, spare = np.zeros(size), np.zeros(size)
    for d in range(first, last):
        begin_step = problem.step_start[d]
        steps = problem.step_start[d + 1] - begin_step
        pair = d * n_nodes + node
        begin, end = problem.pair[pair, MARK], problem.pair[pair + 1, MARK]
        log_z = 0.0
        mark = end - 1
        for x in range(size):
            message[x] = 1.0
        for k in range(steps - 1, -1, -1):
            mark, logarithm = _times_marks(problem, begin, mark, end, -1, k + 1, message, size)
            log_z += logarithm + math.log(_to_one(message, size))
            gap = slot[begin_step - origin + k]
            p = propagator[gap]
            log_z += excess * gaps[gap]
            for x in range(size):
                kept[k, x] = message[x]
            _from_right(p, message, size, spare)
            for x in range(size):
                message[x] = spare[x]
        mark, logarithm = _times_marks(problem, begin, mark, end, -1, 0, message, size)
        for x in range(size):
            spare[x] = message[x] * parameters.initial[initial + x]
        log_z += logarithm + math.log(_to_one(spare, size))
        if not math.isfinite(log_z):
            return False
        totals[d] += log_z
        for x in range(size):
            counts.starts[initial + x] += spare[x]
            message[x] = parameters.initial[initial + x]
        mark = begin
        for k in range(steps):
            first_mark = mark
            mark, logarithm = _times_marks(problem, begin, mark, end, 1, k, message, size)
            _to_one(message, size)
            gap = slot[begin_step - origin + k]
            p, product = propagator[gap], products[gap]
            if points.shape[0] > 0 and mark > first_mark:
                _from_right(p, kept[k], size, spare)
                for x in range(size):
                    spare[x] *= message[x]
                _keep_marginal(problem, first_mark, mark, spare, size, points)
            _from_left(p, message, size, spare)
            total = 0.0
            for y in range(size):
                total += spare[y] * kept[k, y]
            inverse = 1.0 / total
            for x in range(size):
                scaled = message[x] * inverse
                for y in range(size):
                    product[x * size + y] += scaled * kept[k, y]
            for x in range(size):
                message[x] = spare[x]
        if points.shape[0] > 0 and mark < end:
            first_mark = mark
            mark, logarithm = _times_marks(problem, begin, mark, end, 1, steps, message, size)
            _keep_marginal(problem, first_mark, mark, message, size, points)
    sums = np.zeros(powers.shape)
    _integrals(gaps, norm, jumps, size, weight, room, products, sums)
    whole = _whole_integral(sums, powers, size)
    for x in range(size):
        for y in range(size):
            value = whole[x * size + y]
            if not math.isfinite(value):
                return False
            if x == y:
                counts.dwell[problem.node[node, DWELL] + x] += value
            else:
                counts.transitions[table + x * size + y] += rates[x * size + y] * value
    return True
