"""Steps by matrices: exp(A h) and its integrals for groups of few joint states.

exp(A h) = e^{−σh} exp((A + σI) h) with σ the largest exit rate, so the series has no negative
terms; it is summed at h/2^s and squared s times. The same squaring carries
G = ∫ e^{As} C e^{A(h−s)} ds (the upper right block of a block exponential): G ← PG + GP, P ← P².
Steps of equal width and column share P, and, as G is linear in C, one G for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.clusters._cluster_layout import RegionArrays, RegionWork
from asterism.timeline.evidence import FloatArray, IntArray

_SERIES_NORM = 0.5
_EXTRA_TERMS = 15  # 0.5^15 / 15! is below the rounding error
_BALANCED = 1e-12  # share of σ by which rounding may move the sum of a row
_TINY = 1e-60  # largest entry below which a scale is taken out


class StepKinds(NamedTuple):
    """Steps of equal width and column."""

    width: FloatArray
    column: IntArray
    member_start: IntArray
    member: IntArray
    """Steps of all trajectories, by kind."""

    def some(self, first: int, last: int) -> StepKinds:
        """The kinds ``first`` … ``last``−1."""
        starts = self.member_start[first : last + 1]
        return StepKinds(self.width[first:last], self.column[first:last], starts, self.member)


def step_matrices(
    regions: RegionArrays, r: int, kinds: StepKinds, work: RegionWork
) -> tuple[FloatArray, FloatArray]:
    """P of every kind up to a factor, and the logarithm of that factor."""
    return _exponentials(regions, r, kinds, work, None)[:2]


def add_expected(regions: RegionArrays, r: int, kinds: StepKinds, work: RegionWork) -> None:
    """Add the expected times and jumps on all steps of these kinds to their columns.

    W(x,y) = ∫ f(x) ρ(y) dt = G(y,x), summed over the steps that share width and column.
    """
    source = np.empty((len(kinds.width), *work.power.shape[1:]))
    for u in range(len(source)):
        steps = kinds.member[kinds.member_start[u] : kinds.member_start[u + 1]]
        source[u] = work.right[steps].T @ work.left[steps]
    integral = _exponentials(regions, r, kinds, work, source)[2]
    row, target = _entries(regions, r)
    jumps = integral[:, target, row] * work.rate[: len(row), kinds.column].T
    np.add.at(work.time.T, kinds.column, np.diagonal(integral, axis1=1, axis2=2))
    np.add.at(work.jumps[: len(row)].T, kinds.column, jumps)


def _entries(regions: RegionArrays, r: int) -> tuple[IntArray, IntArray]:
    """Joint states before and after every jump."""
    n, per_row, begin = (int(a[r]) for a in (regions.n_joint, regions.per_row, regions.entry_start))
    return np.repeat(np.arange(n), per_row), regions.column[begin : begin + n * per_row]


def _generators(
    regions: RegionArrays, r: int, column: IntArray, work: RegionWork
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """A + σI of these columns, σ, and whether the rows of A sum to zero.

    The diagonal of states that cannot be does not matter.
    """
    row, target = _entries(regions, r)
    exits, alive = work.diagonal[:, column].T, work.alive[column] > 0.0
    sigma = -np.where(alive, exits, np.inf).min(axis=1)
    matrix = np.zeros((len(column), *work.power.shape[1:]))
    matrix[:, row, target] = work.rate[: len(row), column].T
    diagonal = np.einsum("uxx->ux", matrix)
    diagonal[:] = np.where(alive, np.maximum(exits + sigma[:, None], 0.0), 0.0)
    drift = np.abs(matrix.sum(axis=2) - sigma[:, None])
    return matrix, sigma, (drift <= _BALANCED * sigma[:, None]).all(axis=1)


def _exponentials(
    regions: RegionArrays, r: int, kinds: StepKinds, work: RegionWork, source: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P, the logarithm of the factor taken out of it, and G for C = ``source``, divided alike."""
    matrix, sigma, is_balanced = _generators(regions, r, kinds.column, work)
    mass = sigma * kinds.width
    squarings = np.ceil(np.log2(np.maximum(mass / _SERIES_NORM, 1.0))).astype(np.int64)
    step = (kinds.width / 2.0**squarings)[:, None, None]
    matrix *= step
    term = np.broadcast_to(np.eye(matrix.shape[1]), matrix.shape)
    power = term.copy()
    integral = np.zeros_like(matrix if source is not None else matrix[:, :0])
    integral_term = integral
    # the series must reach every entry before it is cut: at most per_row jumps apart
    for k in range(1, int(regions.per_row[r]) + _EXTRA_TERMS):
        if source is not None:  # D_k = (B D_{k−1} + C B^{k−1}) / k, with B^{k−1}/(k−1)! in term
            integral_term = (matrix @ integral_term + (step * source) @ term) / k
            integral += integral_term
        term = term @ matrix / k
        power += term
    shrink = np.exp(-mass / 2.0**squarings)[:, None, None]
    power *= shrink
    integral *= shrink
    taken_out = _tame(power, integral, is_balanced)
    for s in range(int(squarings.max(initial=0))):
        more = np.flatnonzero(squarings > s)
        p, g = power[more], integral[more]
        if source is not None:
            g = p @ g + g @ p
        p = p @ p
        taken_out[more] = 2.0 * taken_out[more] + _tame(p, g, is_balanced[more])
        power[more], integral[more] = p, g
    return power, taken_out, integral


def _tame(power: FloatArray, integral: FloatArray, is_balanced: NDArray[np.bool_]) -> FloatArray:
    """Undo the drift of rounding (rows of P sum to one) or, with killing, take out a scale."""
    power[is_balanced] /= power[is_balanced].sum(axis=2, keepdims=True)
    top = power.max(axis=(1, 2), initial=0.0)
    top[is_balanced | (top > _TINY) | (top == 0.0)] = 1.0
    power /= top[:, None, None]
    integral /= top[:, None, None]
    return np.asarray(np.log(top))
