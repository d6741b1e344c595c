"""Joint chains of few states: exponentials of small dense matrices, all terms positive.

exp(Q h) = e^{−qh} exp((Q + qI) h) with q the largest exit rate, so the series has no negative
terms; it is summed at h/2^s and squared s times. The same squaring carries
G = ∫ e^{Qs} C e^{Q(h−s)} ds (the upper right block of a block exponential): G ← PG + GP, P ← P².
Segments of equal length and kind share P, and, as G is linear in C, one G for all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.exact._joint_chain import (
    evidence_backward,
    kind_before,
    pass_instant,
    rescale,
    start_vector,
)
from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import add, copy, fill, largest, scale, total

_SERIES_NORM = 0.5
_EXTRA_TERMS = 15  # 0.5^15 / 15! is below the rounding error


class Segments(NamedTuple):
    """The distinct segments of time: their lengths and kinds, and which instants they follow."""

    length: np.ndarray
    generator: np.ndarray
    member_start: np.ndarray
    member: np.ndarray


class Propagators(NamedTuple):
    """exp(A·length) of every distinct segment, up to a factor."""

    kind: np.ndarray
    """Which distinct segment follows each instant."""
    power: np.ndarray
    log_scale: np.ndarray
    """The logarithm of the factor."""


@inner
def _add_product(a, b, factor, out):
    """out += a b · factor."""
    n = a.shape[0]
    for i in range(n):
        for k in range(n):
            x = a[i, k] * factor
            if x != 0.0:
                for j in range(n):
                    out[i, j] += x * b[k, j]


@inner
def _clear(matrix):
    for x in range(matrix.shape[0]):
        fill(matrix[x], 0.0)


@inner
def _scale_matrix(matrix, factor):
    for x in range(matrix.shape[0]):
        scale(matrix[x], factor)


@inner
def _add_matrix(matrix, other):
    for x in range(matrix.shape[0]):
        add(matrix[x], other[x])


@inner
def _copy_matrix(source, target):
    for x in range(source.shape[0]):
        copy(source[x], target[x])


@inner(allocates=True)
def _scaled_step(generators, g, pattern, length):
    """(Q + qI) h/2^s as a dense matrix, q h/2^s, and s."""
    n = generators.diagonal.shape[1]
    bound = generators.bound[g]
    squarings = 0
    mass = bound * length
    while mass > _SERIES_NORM:
        mass *= 0.5
        squarings += 1
    step = length / 2.0**squarings
    matrix = np.zeros((n, n))
    for x in range(n):
        matrix[x, x] = (bound + generators.diagonal[g, x]) * step
        for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
            matrix[x, pattern.column[e]] += generators.value[g, e] * step
    return matrix, mass, step, squarings


@inner
def _tame(power, integral, conservative, with_integral):
    """Undo the drift of rounding (rows of P sum to one) or, with killing, take out a scale."""
    if conservative:
        for x in range(power.shape[0]):
            scale(power[x], 1.0 / total(power[x]))
        return 0.0
    top = 0.0
    for x in range(power.shape[0]):
        top = max(top, largest(power[x]))
    if top > 1e-60 or top == 0.0:
        return 0.0
    _scale_matrix(power, 1.0 / top)
    if with_integral:
        _scale_matrix(integral, 1.0 / top)
    return math.log(top)


@inner(allocates=True)
def exponential_and_integral(
    generators, g, pattern, length, diameter, source, with_integral, power, integral
):
    """P = exp(Q h) and, if wanted, G for C = ``source``, both divided by the same scale.

    Returns the log of the scale. ``diameter``: the most jumps one joint state is from another, so
    that the series reaches every entry before it is cut.
    """
    n = power.shape[0]
    conservative = True
    for i in range(generators.held.shape[1]):
        conservative = conservative and generators.held[g, i] == -1
    matrix, mass, step, squarings = _scaled_step(generators, g, pattern, length)
    _clear(power)
    _clear(integral)
    term = np.zeros((n, n))
    for x in range(n):
        term[x, x] = 1.0
        power[x, x] = 1.0
    integral_term = np.zeros((n, n))
    scratch = np.zeros((n, n))
    for k in range(1, diameter + _EXTRA_TERMS):
        if with_integral:  # D_k = (B D_{k−1} + C B^{k−1}) / k, with B^{k−1}/(k−1)! in term
            _clear(scratch)
            _add_product(matrix, integral_term, 1.0 / k, scratch)
            _add_product(source, term, step / k, scratch)
            integral_term, scratch = scratch, integral_term
            _add_matrix(integral, integral_term)
        _clear(scratch)
        _add_product(term, matrix, 1.0 / k, scratch)
        term, scratch = scratch, term
        _add_matrix(power, term)
    shrink = math.exp(-mass)
    _scale_matrix(power, shrink)
    _scale_matrix(integral, shrink)
    taken_out = _tame(power, integral, conservative, with_integral)
    for _ in range(squarings):
        if with_integral:
            _clear(scratch)
            _add_product(power, integral, 1.0, scratch)
            _add_product(integral, power, 1.0, scratch)
            _copy_matrix(scratch, integral)
        _clear(scratch)
        _add_product(power, power, 1.0, scratch)
        _copy_matrix(scratch, power)
        taken_out = 2.0 * taken_out + _tame(power, integral, conservative, with_integral)
    return taken_out


@kernel
def fill_propagators(
    pattern, generators, diameter, kind_length, kind_generator, first, last, power, power_scale
):
    """P and its log scale for the distinct segments ``first`` … ``last``−1."""
    n = power.shape[1]
    nothing = np.zeros((n, n))
    unused = np.zeros((n, n))
    for u in range(first, last):
        power_scale[u] = exponential_and_integral(
            generators,
            kind_generator[u],
            pattern,
            kind_length[u],
            diameter,
            nothing,
            False,
            power[u],
            unused,
        )


@kernel
def dense_pass(chain, propagators, first, last, log_evidence, marginals, left, right, table):
    """Forward–backward of trajectories ``first`` … ``last``−1.

    Fills ``log_evidence`` per trajectory, node ``marginals`` per instant, and per segment the
    vectors ``left`` f and ``right`` ρ at its two ends with f P ρ = 1; adds recorded jumps to
    ``table``. Returns the trajectory and instant at which the evidence became impossible, or
    −1, −1.
    """
    pattern, schedule, generators = chain.pattern, chain.schedule, chain.generators
    rates, log_likelihood = chain.rates, chain.log_likelihood
    kind, power, power_scale = propagators.kind, propagators.power, propagators.log_scale
    n = pattern.state_of.shape[0]
    forward = np.empty(n)
    room = np.empty((3, n))
    for d in range(first, last):
        begin = schedule.first[d]
        end = schedule.first[d + 1]
        after = np.ones((end - begin, n))  # backward vectors just after each instant
        for k in range(end - 1, begin, -1):
            incoming = right[k - 1]
            copy(after[k - begin], incoming)
            shift = generators.shift[kind_before(schedule, k, False)]
            evidence_backward(pattern, schedule, shift, rates, log_likelihood, k, incoming, room[0])
            p = power[kind[k - 1]]
            target = after[k - 1 - begin]
            for x in range(n):
                value = 0.0
                for y in range(n):
                    value += p[x, y] * incoming[y]
                target[x] = value
            rescale(target)
        log_evidence[d] = 0.0
        doubtful = -1
        start_vector(pattern, chain.initial, forward)
        for k in range(begin, end):
            gained, norm = pass_instant(
                chain, k, k == begin, forward, after[k - begin], marginals[k], table, room
            )
            log_evidence[d] += gained
            if log_evidence[d] == -np.inf:
                return d, k
            if doubtful < 0 and not norm > 0.0:
                doubtful = k  # go on forward, to find where the contradiction shows
            if k + 1 == end:
                log_evidence[d] += math.log(total(forward))
                break
            copy(forward, left[k])
            p = power[kind[k]]
            fill(forward, 0.0)
            for x in range(n):
                f = left[k, x]
                if f > 0.0:
                    for y in range(n):
                        forward[y] += f * p[x, y]
            overlap = 0.0
            for y in range(n):
                overlap += forward[y] * right[k, y]
            if overlap > 0.0:
                scale(right[k], 1.0 / overlap)
            log_evidence[d] += power_scale[kind[k]] + rescale(forward)
        if doubtful >= 0:
            log_evidence[d] = -np.inf
            return d, doubtful
    return -1, -1


@kernel
def dense_statistics(chain, segments, first, last, left, right, table):
    """Expected dwell times (on the diagonal) and transitions of the distinct segments given.

    W(x,y) = ∫ f(x) ρ(y) dt = G(y,x), summed over the segments that share length and kind.
    """
    pattern, generators = chain.pattern, chain.generators
    n, n_nodes = pattern.state_of.shape
    source = np.empty((n, n))
    power = np.empty((n, n))
    integral = np.empty((n, n))
    for u in range(first, last):
        _clear(source)
        for r in range(segments.member_start[u], segments.member_start[u + 1]):
            k = segments.member[r]
            for y in range(n):
                rho = right[k, y]
                for x in range(n):
                    source[y, x] += rho * left[k, x]
        g = segments.generator[u]
        exponential_and_integral(
            *(generators, g, pattern, segments.length[u], chain.diameter, source, True),
            *(power, integral),
        )
        shift = generators.shift[g]
        for x in range(n):
            for i in range(n_nodes):
                if generators.held[g, i] >= -1:
                    table[pattern.exit_table[x, i] + shift[i] * pattern.block[i]] += integral[x, x]
            for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
                i = pattern.entry_node[e]
                at = pattern.entry_table[e] + shift[i] * pattern.block[i]
                table[at] += integral[pattern.column[e], x] * generators.value[g, e]
