"""Grids as fine as the tolerance asks: solve, halve the steps, compare, refine what needs it.

The scheme is of second order, so that halving all steps removes three quarters of the error and
the difference between two grids says how large the rest is. Trajectories are independent of each
other and are refined independently; each ends on the coarsest grid whose estimated error in its
evidence and in every step's marginals is within the tolerance. Expected statistics are checked in
the sum over trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asterism.errors import TooLargeError
from asterism.inference.batch import (
    Batch,
    Outcome,
    Parameters,
    expected_statistics,
    make_batch,
    relaxation_rate,
    run,
)
from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.inference.evidence_subset import subset
from asterism.kernels import refinement
from asterism.model.compiled import CompiledNetwork

_FIRST_STEP = 0.8  # relaxation times, at tolerance 1e-3
_FINEST = 256  # parts into which a first step may be cut
_SETTLED = 1e-3  # the iteration stops this much below the tolerance of the grid


@dataclass(frozen=True)
class Solution:
    """Every trajectory solved on its own grid."""

    batches: list[Batch]
    place: list[tuple[int, int]]
    """For each trajectory, its batch and its number there."""
    outcome: Outcome
    """Per trajectory, in the order of the evidence."""
    dwell: FloatArray
    transitions: FloatArray
    grid_error: float
    """Estimated relative error of the evidence, marginals and statistics; NaN if not estimated."""
    grid_error_is_small: bool


@dataclass
class _Level:
    """Some trajectories on one grid."""

    trajectories: IntArray
    factors: IntArray
    batch: Batch
    outcome: Outcome


def solve_on_grids(
    evidence: Evidence,
    network: CompiledNetwork,
    parameters: Parameters,
    tolerance: float,
    time_step: float | None,
    max_sweeps: int,
    n_jobs: int,
) -> Solution:
    """Solve with error control, or on equal steps where ``time_step`` is given."""
    settled = _SETTLED * tolerance
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    rate = relaxation_rate(network)
    step = _FIRST_STEP * float(np.sqrt(tolerance / 1e-3))

    def solve_level(chosen: IntArray, factors: IntArray, coarse: _Level | None) -> _Level:
        part = evidence if len(chosen) == len(everyone) else subset(evidence, chosen)
        batch = make_batch(part, network.graph, rate, step, factors, time_step)
        if coarse is not None:
            of_fine = np.searchsorted(coarse.trajectories, chosen)
            refinement.prolong(
                coarse.batch.problem,
                coarse.batch.moments,
                batch.problem,
                batch.moments,
                of_fine,
                factors // coarse.factors[of_fine],
            )
            _copy_links(coarse.batch, batch, of_fine)
        outcome = run(
            batch,
            parameters,
            restart=coarse is None,
            max_sweeps=max_sweeps,
            tolerance=settled,
            n_jobs=n_jobs,
        )
        return _Level(chosen, factors, batch, outcome)

    level = solve_level(everyone, np.ones(len(everyone), dtype=np.int64), None)
    if time_step is not None or rate == 0.0:
        dwell, transitions = expected_statistics(level.batch, parameters, n_jobs)
        unknown = 0.0 if rate == 0.0 else float("nan")
        return _assemble([level], evidence, dwell, transitions, unknown, True)

    done: list[_Level] = []
    coarse_statistics = expected_statistics(level.batch, parameters, n_jobs)
    finished = np.zeros(len(everyone), dtype=bool)
    worst = 0.0
    failing = everyone
    factors = np.full(len(everyone), 2, dtype=np.int64)
    while True:
        try:
            fine = solve_level(failing, factors[failing], level)
        except TooLargeError:
            if not len(done) and level.factors.max() == 1:
                raise
            done.append(_keep(level, ~finished[level.trajectories]))
            break
        error = _grid_error(level, fine)
        too_large = error > tolerance
        exhausted = fine.factors >= _FINEST
        passed = ~too_large | exhausted
        finished[fine.trajectories[passed]] = True
        worst = max(worst, float(error[passed].max(initial=0.0)))
        if passed.any():
            done.append(_keep(fine, passed))
        if passed.all():
            break
        failing = fine.trajectories[~passed]
        # the error falls with the square of the step
        halvings = np.ceil(0.5 * np.log2(error[~passed] / tolerance) - 1e-9).clip(1, 3)
        factors[failing] = np.minimum(_FINEST, factors[failing] * 2 ** halvings.astype(np.int64))
        level = fine
    dwell, transitions = _sum_statistics(done, parameters, n_jobs)
    statistics_error = _relative_change(coarse_statistics, (dwell, transitions)) / 3.0
    while statistics_error > tolerance and worst <= tolerance:
        # each trajectory is fine, their sum not yet: halve everywhere once more
        if max(int(part.factors.max()) for part in done) >= _FINEST:
            break
        try:
            done = [solve_level(part.trajectories, 2 * part.factors, part) for part in done]
        except TooLargeError:
            break
        before = (dwell, transitions)
        dwell, transitions = _sum_statistics(done, parameters, n_jobs)
        statistics_error = _relative_change(before, (dwell, transitions)) / 3.0
    worst = max(worst, statistics_error)
    if not finished.all():
        worst = max(worst, 1.0)
    return _assemble(done, evidence, dwell, transitions, worst, worst <= tolerance)


def _copy_links(coarse: Batch, fine: Batch, of_fine: IntArray) -> None:
    """Carry the marginals at linked evidence over to the finer problem."""
    if not len(fine.problem.marginals):
        return
    start = coarse.problem.link_start
    pieces = []
    for d in of_fine:
        first = int(coarse.problem.link[start[d], 3])
        last = int(coarse.problem.link[start[d + 1], 3])
        if last > first:
            offsets = coarse.problem.member[first:last, 1]
            sizes = coarse.problem.node[coarse.problem.member[first:last, 0], 0]
            pieces += [coarse.problem.marginals[o : o + s] for o, s in zip(offsets, sizes)]
    fine.problem.marginals[:] = np.concatenate(pieces)


def _grid_error(coarse: _Level, fine: _Level) -> FloatArray:
    """Estimated error of each fine trajectory from its difference to the coarse one."""
    of_fine = np.searchsorted(coarse.trajectories, fine.trajectories)
    ratios = fine.factors // coarse.factors[of_fine]
    change = np.zeros(len(of_fine))
    refinement.largest_change(
        coarse.batch.problem,
        coarse.batch.moments,
        fine.batch.problem,
        fine.batch.moments,
        of_fine,
        ratios,
        change,
    )
    scale = np.maximum(1.0, np.abs(fine.outcome.evidence))
    moved = np.abs(fine.outcome.evidence - coarse.outcome.evidence[of_fine]) / scale
    return np.asarray(np.maximum(change, moved) / (ratios.astype(np.float64) ** 2 - 1.0))


def _relative_change(
    before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray]
) -> float:
    """Largest change of a statistic, relative to itself or to a hundredth of the largest one."""
    worst = 0.0
    for old, new in zip(before, after):
        if len(new):
            scale = np.maximum(np.abs(new), 0.01 * np.abs(new).max() + 1e-300)
            worst = max(worst, float((np.abs(new - old) / scale).max()))
    return worst


def _sum_statistics(
    levels: list[_Level], parameters: Parameters, n_jobs: int
) -> tuple[FloatArray, FloatArray]:
    parts = [expected_statistics(level.batch, parameters, n_jobs) for level in levels]
    dwell, transitions = parts[0][0].copy(), parts[0][1].copy()
    for more_dwell, more_transitions in parts[1:]:
        dwell += more_dwell
        transitions += more_transitions
    return dwell, transitions


def _keep(level: _Level, chosen: NDArray[np.bool_]) -> _Level:
    """The chosen trajectories of a level; the level itself where that is all of them."""
    if chosen.all():
        return level
    index = np.flatnonzero(chosen)
    old = level.batch
    squares = len(old.moments) // max(1, int(old.grid.step_start[-1]))
    part = make_empty_copy(old, index)
    pieces = [
        old.moments[old.grid.step_start[d] * squares : old.grid.step_start[d + 1] * squares]
        for d in index
    ]
    part.moments[:] = np.concatenate(pieces)
    _copy_links(old, part, index)
    outcome = Outcome(**{k: v[index] for k, v in vars(level.outcome).items()})
    return _Level(level.trajectories[index], level.factors[index], part, outcome)


def make_empty_copy(batch: Batch, index: IntArray) -> Batch:
    """A batch of some of the trajectories on the same steps, its moments not yet filled."""
    return batch.rebuilt(subset(batch.evidence, index), index)


def _assemble(
    levels: list[_Level],
    evidence: Evidence,
    dwell: FloatArray,
    transitions: FloatArray,
    error: float,
    is_small: bool,
) -> Solution:
    place = [(-1, -1)] * evidence.n_trajectories
    for b, level in enumerate(levels):
        for i, d in enumerate(level.trajectories):
            place[int(d)] = (b, i)
    order = np.argsort(np.concatenate([level.trajectories for level in levels]))
    outcome = Outcome(
        **{
            k: np.concatenate([getattr(level.outcome, k) for level in levels])[order]
            for k in vars(levels[0].outcome)
        }
    )
    return Solution(
        [level.batch for level in levels], place, outcome, dwell, transitions, error, is_small
    )
