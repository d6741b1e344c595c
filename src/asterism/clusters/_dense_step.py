"""Steps by matrices: exp(A h) and its integrals for regions of few joint states, compiled.

exp(A h) = e^{−σh} exp((A + σI) h) with σ the largest exit rate, so the series has no negative
terms; it is summed at h/2^s and squared s times. The same squaring carries
G = ∫ e^{As} C e^{A(h−s)} ds (the upper right block of a block exponential): G ← PG + GP, P ← P².
Steps of equal width and column share P, and, as G is linear in C, one G for all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.clusters._region_step import load_column
from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import add, copy, fill, largest, scale, total

_SERIES_NORM = 0.5
_EXTRA_TERMS = 15  # 0.5^15 / 15! is below the rounding error
_BALANCED = 1e-12  # share of σ by which rounding may move the sum of a row


class StepKinds(NamedTuple):
    """Steps of equal width and column."""

    width: np.ndarray
    column: np.ndarray
    member_start: np.ndarray
    member: np.ndarray
    """Steps of all trajectories, by kind."""


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


@inner
def _scaled_generator(regions, r, work, column, width, is_held, matrix):
    """(A + σI) h/2^s as a dense matrix; σ h/2^s, h/2^s, s, and whether rows of A sum to zero."""
    n = matrix.shape[0]
    per_row, begin = regions.per_row[r], regions.entry_start[r]
    sigma, _ = load_column(n, per_row, work, column, is_held)
    squarings = 0
    mass = sigma * width
    while mass > _SERIES_NORM:
        mass *= 0.5
        squarings += 1
    step = width / 2.0**squarings
    _clear(matrix)
    is_balanced = True
    for x in range(n):
        row_sum = work.vector[0][x]
        matrix[x, x] = row_sum * step
        for e in range(x * per_row, (x + 1) * per_row):
            row_sum += work.local[e]
            matrix[x, regions.column[begin + e]] += work.local[e] * step
        is_balanced = is_balanced and abs(row_sum - sigma) <= _BALANCED * sigma
    return mass, step, squarings, is_balanced


@inner
def _tame(power, integral, is_balanced, with_integral):
    """Undo the drift of rounding (rows of P sum to one) or, with killing, take out a scale."""
    if is_balanced:
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


@inner
def _exponential(
    regions, r, work, column, width, is_held, source, with_integral, power, integral, room
):
    """P = exp(A h) and, if wanted, G for C = ``source``, both divided by the same scale.

    Returns the log of the scale. ``room``: four matrices.
    """
    n = power.shape[0]
    matrix, term, integral_term, scratch = room[0], room[1], room[2], room[3]
    mass, step, squarings, is_balanced = _scaled_generator(
        regions, r, work, column, width, is_held, matrix
    )
    _clear(power)
    _clear(integral)
    _clear(term)
    _clear(integral_term)
    for x in range(n):
        term[x, x] = 1.0
        power[x, x] = 1.0
    # the series must reach every entry before it is cut: at most per_row jumps apart
    for k in range(1, regions.per_row[r] + _EXTRA_TERMS):
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
    taken_out = _tame(power, integral, is_balanced, with_integral)
    for _ in range(squarings):
        if with_integral:
            _clear(scratch)
            _add_product(power, integral, 1.0, scratch)
            _add_product(integral, power, 1.0, scratch)
            _copy_matrix(scratch, integral)
        _clear(scratch)
        _add_product(power, power, 1.0, scratch)
        _copy_matrix(scratch, power)
        taken_out = 2.0 * taken_out + _tame(power, integral, is_balanced, with_integral)
    return taken_out


@kernel
def solve_kinds(regions, r, kinds, first, last, is_held, is_wanted, work):
    """The kinds of steps ``first`` … ``last``−1: P and its log scale, or what is expected on them.

    Without ``is_wanted`` the matrices are filled in. With it, the expected times and jumps of all
    steps of these kinds are added to their columns: W(x,y) = ∫ f(x) ρ(y) dt = G(y,x), summed over
    the steps that share width and column.
    """
    n = work.power.shape[1]
    per_row, begin = regions.per_row[r], regions.entry_start[r]
    source, integral = np.zeros((n, n)), np.zeros((n, n))
    room = np.empty((5, n, n))
    region, own = bundle(regions), bundle(work)
    for u in range(first, last):
        c, width = kinds.column[u], kinds.width[u]
        if is_wanted:
            _clear(source)
            for i in range(kinds.member_start[u], kinds.member_start[u + 1]):
                k = kinds.member[i]
                for y in range(n):
                    rho = work.right[k, y]
                    for x in range(n):
                        source[y, x] += rho * work.left[k, x]
        power = room[4] if is_wanted else work.power[u]
        scale_log = _exponential(
            region, r, own, c, width, is_held, source, is_wanted, power, integral, room
        )
        if not is_wanted:
            work.power_log[u] = scale_log
            continue
        for x in range(n):
            work.time[x, c] += integral[x, x]
            for e in range(x * per_row, (x + 1) * per_row):
                y = regions.column[begin + e]
                work.jumps[e, c] += integral[y, x] * work.local[e]
