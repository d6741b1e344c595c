"""Grids as fine as the tolerance asks: solve, halve the steps, compare, refine what needs it.

The scheme is of fourth order on smooth steps and of second order elsewhere; we count on no more
than third and second. Halving all steps then removes at least three quarters of the error, and the
difference between two grids says how large the rest is and how far to cut next. Trajectories
are independent of each other and are refined independently; each ends on a grid whose estimated
error in its evidence and in every step's marginals is within the tolerance. Expected statistics are
checked in the sum over trajectories.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import TooLargeError
from asterism.model.compiled import CompiledNetwork
from asterism.numerics.resources import current_limit
from asterism.star import _grid_steps as refinement
from asterism.star._buffers import FIRST, LAST
from asterism.star._solve import SWEEP_LIMIT
from asterism.star.batch import (
    Batch,
    Outcome,
    Statistics,
    copy_links,
    expected_statistics,
    make_batch,
    run,
    sum_in_order,
)
from asterism.star.grid import build_even_grid, build_grid, most_steps
from asterism.star.problem import Parameters
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, subset
from asterism.timeline.timeline import timeline_of

_FIRST_STEP = 0.6  # relaxation times, at tolerance 1e-3
_STEP_POWER = 0.3  # of the tolerance; between fourth and second order
_MOSTLY = 0.9  # share of smooth steps, by time, from which a trajectory counts as smooth
_FINEST = 256  # parts into which a first step may be cut
_GROUP_BYTES = 16e6  # moments on the first grid up to which trajectories are refined together
_FEW_BYTES = 256e6  # moments in the end up to which they are kept in double precision
_SETTLED = 1e-3  # the iteration stops this much below the tolerance of the grid
_USUAL_PACE = 2e7  # moments updated in a second
_SLOWEST_PACE = 2e6  # believed, so that a compilation does not end everything
_USUAL_SWEEPS = 50  # on all grids together
_WORTH_SAYING = 60.0  # seconds from which a solve is announced
_MOST_RELAXATIONS = 1e12  # in one trajectory; beyond, rounding decides

log = logging.getLogger(__name__)


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
    statistics: Statistics


_SolveLevel = Callable[[IntArray, IntArray, "_Level | None"], _Level]
_KeepPart = Callable[[_Level, NDArray[np.bool_]], _Level]


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
    rate = network.relaxation_rate
    step = _FIRST_STEP * (tolerance / 1e-3) ** _STEP_POWER
    pace = _Pace()
    _require_span(evidence, rate)
    is_smooth = not (parameters.geometric and _forbids_sometimes(network))

    def solve_level(chosen: IntArray, factors: IntArray, coarse: _Level | None) -> _Level:
        known = None
        if coarse is not None and len(chosen) == len(coarse.trajectories):
            part, known = coarse.batch.evidence, coarse.batch.layout
        else:
            part = evidence if len(chosen) == evidence.n_trajectories else subset(evidence, chosen)
        batch = make_batch(
            part, network.graph, rate, step, factors, time_step, known, is_corrected=is_smooth
        )
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
            copy_links(coarse.batch, batch, of_fine)
        if coarse is None:
            _announce(batch)
        allowed = pace.sweeps(batch.moments.size, max_sweeps)
        begin = time.monotonic()
        outcome, statistics = run(
            batch,
            parameters,
            restart=coarse is None,
            max_sweeps=allowed,
            tolerance=settled,
            n_jobs=n_jobs,
        )
        pace.note(batch.moments.size, outcome, time.monotonic() - begin)
        if allowed < max_sweeps and (outcome.status == SWEEP_LIMIT).any():
            pace.limit.was_felt = True
        return _Level(chosen, factors, batch, outcome, statistics)

    def keep_part(level: _Level, chosen: NDArray[np.bool_]) -> _Level:
        """The chosen trajectories of a level; the level itself where that is all of them."""
        if chosen.all():
            return level
        index = np.flatnonzero(chosen)
        outcome = Outcome(**{k: v[index] for k, v in vars(level.outcome).items()})
        batch = level.batch.select(index)
        statistics = expected_statistics(batch, parameters, n_jobs)
        return _Level(level.trajectories[index], level.factors[index], batch, outcome, statistics)

    done: list[_Level] = []
    worst = 0.0
    all_finished = True
    coarse: list[Statistics] = []
    fine: list[Statistics] = []

    def keep(levels: list[_Level]) -> list[_Level]:
        """Note what the levels expect, then keep them in the space there is."""
        fine.extend(level.statistics for level in levels)
        is_much = sum(level.batch.moments.nbytes for level in [*done, *levels]) > _FEW_BYTES
        return [_in_single_precision(level) for level in levels] if is_much else levels

    for group in _groups(evidence, network, rate, step, time_step):
        level = solve_level(group, np.ones(len(group), dtype=np.int64), None)
        if time_step is not None or rate == 0.0:
            done += keep([level])
            continue
        coarse.append(level.statistics)
        found, error, finished = _refine(level, solve_level, keep_part, tolerance)
        done += keep(found)
        worst = max(worst, error)
        all_finished = all_finished and finished
    dwell, transitions = _total(fine)
    if time_step is not None or rate == 0.0:
        unknown = 0.0 if rate == 0.0 else float("nan")
        return _assemble(done, evidence, dwell, transitions, unknown, True)
    ratio = min(int(part.factors.min()) for part in done)
    order = min(int(_order(part).min()) for part in done)
    change = _relative_change(_total(coarse), (dwell, transitions))
    statistics_error = change / max(1.0, float(ratio) ** order - 1.0)
    is_full = False
    while statistics_error > tolerance and worst <= tolerance and not current_limit().stops():
        # each trajectory is fine, their sum not yet: halve everywhere once more
        if is_full or max(int(part.factors.max()) for part in done) >= _FINEST:
            break
        fine.clear()
        for _ in range(len(done)):
            # one after the other: so only one of them is in memory twice
            part = _in_double_precision(done.pop(0))
            try:
                part = solve_level(part.trajectories, 2 * part.factors, part)
            except TooLargeError:
                is_full = True
            done += keep([part])
        before = (dwell, transitions)
        dwell, transitions = _total(fine)
        if not is_full:
            statistics_error = _relative_change(before, (dwell, transitions)) / (2.0**order - 1.0)
    worst = max(worst, statistics_error)
    if not all_finished:
        worst = max(worst, 1.0)
    return _assemble(done, evidence, dwell, transitions, worst, worst <= tolerance)


def _groups(
    evidence: Evidence,
    network: CompiledNetwork,
    rate: float,
    step: float,
    time_step: float | None,
) -> list[IntArray]:
    """Trajectories that are refined together: all of them unless that needs much memory."""
    squares = int((network.graph.n_states**2).sum())
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    if 8.0 * squares * most_steps(evidence, rate, step, time_step) <= _GROUP_BYTES:
        return [everyone]
    if time_step is not None:
        grid = build_even_grid(timeline_of(evidence), time_step, rate)
    else:
        grid = build_grid(timeline_of(evidence), rate, step, is_corrected=True)
    n_bytes = 8.0 * squares * np.diff(grid.step_start)
    group = (np.cumsum(n_bytes) // _GROUP_BYTES).astype(np.int64)
    cuts = np.flatnonzero(np.diff(group)) + 1
    return np.split(everyone, cuts)


class _Pace:
    """How many sweeps there is time for, from how long earlier ones took."""

    def __init__(self) -> None:
        self.limit = current_limit()
        self._per_second = _USUAL_PACE

    def sweeps(self, n_moments: int, at_most: int) -> int:
        """At least one, so that every trajectory has an answer."""
        if self.limit.seconds == float("inf"):
            return at_most
        return max(1, min(at_most, int(self.limit.left * self._per_second / max(1, n_moments))))

    def note(self, n_moments: int, outcome: Outcome, seconds: float) -> None:
        """Learn from a solve; one that compiled does not count as slow."""
        done = n_moments * float(outcome.n_sweeps.mean()) if len(outcome.n_sweeps) else 0.0
        if seconds > 0.01:
            self._per_second = max(_SLOWEST_PACE, done / seconds)


def _forbids_sometimes(network: CompiledNetwork) -> bool:
    """Whether some transition is impossible under some configurations of the parents only.

    In mean field a parent's state that forbids what its child does is pulled down without bound.
    Such a pull is not smooth on any grid: corrections of fourth order reach their limits, alike on
    all grids, so that a comparison of two grids would not show what they cost.
    """
    graph = network.graph
    for n in np.flatnonzero(graph.n_configurations > 1):
        size = int(graph.n_states[n])
        own = slice(int(graph.table_start[n]), int(graph.table_start[n + 1]))
        is_zero = network.rates[own].reshape(-1, size, size) == 0.0
        if (is_zero.any(axis=0) & ~is_zero.all(axis=0)).any():
            return True
    return False


def _require_span(evidence: Evidence, rate: float) -> None:
    """Refuse trajectories in which more happens than numbers of this precision can follow."""
    longest = float((evidence.end - evidence.start).max(initial=0.0)) * rate
    if longest > _MOST_RELAXATIONS:
        raise TooLargeError(
            f"Rates times duration come to {longest:.2g} changes of state in one trajectory, more "
            f"than can be followed ({_MOST_RELAXATIONS:g}). Is the unit of time right?"
        )


def _announce(batch: Batch) -> None:
    """Say beforehand that a solve will take minutes, with the figure that makes it so."""
    seconds = batch.moments.size * _USUAL_SWEEPS / _USUAL_PACE
    if seconds > _WORTH_SAYING:
        log.warning(
            "Rates times duration ask for about %.2g time steps; this may take %.0f minutes. "
            "A time limit ends it earlier, with the best so far.",
            float(batch.grid.step_start[-1]),
            max(1.0, seconds / 60.0),
        )


def _refine(
    level: _Level, solve_level: _SolveLevel, keep_part: _KeepPart, tolerance: float
) -> tuple[list[_Level], float, bool]:
    """Halve the steps of a level's trajectories until each is fine enough.

    Returns every trajectory on its last grid, the largest estimated error, and whether all
    trajectories were compared (not if memory ran short).
    """
    done: list[_Level] = []
    worst = 0.0
    failing = level.trajectories
    factors = dict.fromkeys(failing.tolist(), 2)
    finished = dict.fromkeys(failing.tolist(), False)
    while True:
        try:
            if current_limit().stops():
                raise TooLargeError("There is no time left for finer steps.")
            fine = solve_level(failing, np.array([factors[d] for d in failing.tolist()]), level)
        except TooLargeError:
            if not current_limit().passed and not len(done) and level.factors.max() == 1:
                raise
            rest = np.array([not finished[d] for d in level.trajectories.tolist()])
            done.append(keep_part(level, rest))
            break
        error = _grid_error(level, fine)
        passed = (error <= tolerance) | (2 * fine.factors > _FINEST)
        for d in fine.trajectories[passed].tolist():
            finished[d] = True
        worst = max(worst, float(error[passed].max(initial=0.0)))
        if passed.any():
            done.append(keep_part(fine, passed))
        if passed.all():
            break
        failing = fine.trajectories[~passed]
        powers = 1.0 / _order(fine)[~passed]
        ratios = np.ceil(1.05 * (error[~passed] / tolerance) ** powers).clip(2, 8).astype(int)
        for d, ratio in zip(failing.tolist(), ratios.tolist()):
            factors[d] = min(_FINEST // factors[d] * factors[d], factors[d] * ratio)
        level = fine
    return done, worst, all(finished.values())


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
    gain = ratios.astype(np.float64) ** _order(coarse)[of_fine] - 1.0
    return np.asarray(np.maximum(change, moved) / gain)


def _order(level: _Level) -> IntArray:
    """Per trajectory, with which power of the step its error surely falls."""
    problem = level.batch.problem
    n = len(level.trajectories)
    if not len(problem.stretch):
        return np.full(n, 2)
    ends = np.concatenate([[0.0], np.cumsum(problem.width)])
    of = np.repeat(np.arange(n), np.diff(problem.stretch_start))
    first = problem.step_start[of] + problem.stretch[:, FIRST]
    last = problem.step_start[of] + problem.stretch[:, LAST]
    smooth = np.bincount(of, ends[last] - ends[first], n)
    lasting = np.diff(ends[problem.step_start])
    return np.where(smooth >= _MOSTLY * lasting, 3, 2)


def _relative_change(before: Statistics, after: Statistics) -> float:
    """Largest change of a statistic, relative to itself or to a hundredth of the largest one."""
    worst = 0.0
    for old, new in zip(before, after):
        if len(new):
            scale = np.maximum(np.abs(new), 0.01 * np.abs(new).max() + 1e-300)
            worst = max(worst, float((np.abs(new - old) / scale).max()))
    return worst


def _total(parts: list[Statistics]) -> Statistics:
    return sum_in_order([p[0] for p in parts]), sum_in_order([p[1] for p in parts])


def _in_single_precision(level: _Level) -> _Level:
    """The same with moments in half the space, for courses that may be asked for later."""
    batch = replace(level.batch, moments=level.batch.moments.astype(np.float32))
    return replace(level, batch=batch)


def _in_double_precision(level: _Level) -> _Level:
    batch = replace(level.batch, moments=level.batch.moments.astype(np.float64, copy=False))
    return replace(level, batch=batch)


def _assemble(
    levels: list[_Level],
    evidence: Evidence,
    dwell: FloatArray,
    transitions: FloatArray,
    error: float,
    is_small: bool,
) -> Solution:
    if len(levels) == 1:
        only = levels[0]
        place = [(0, i) for i in range(evidence.n_trajectories)]
        return Solution([only.batch], place, only.outcome, dwell, transitions, error, is_small)
    place = [(-1, -1)] * evidence.n_trajectories
    for b, level in enumerate(levels):
        for i, d in enumerate(level.trajectories):
            place[int(d)] = (b, i)
    order = np.argsort(np.concatenate([level.trajectories for level in levels]))
    outcome = Outcome(
        **{
            k: np.concatenate(_equally_wide([getattr(level.outcome, k) for level in levels]))[order]
            for k in vars(levels[0].outcome)
        }
    )
    return Solution(
        [level.batch for level in levels], place, outcome, dwell, transitions, error, is_small
    )


def _equally_wide(parts: list[Any]) -> list[Any]:
    """Histories padded with NaN: where time runs short, levels are allowed fewer sweeps."""
    if parts[0].ndim < 3:
        return parts
    widest = max(part.shape[2] for part in parts)
    return [
        np.pad(part, ((0, 0), (0, 0), (0, widest - part.shape[2])), constant_values=np.nan)
        for part in parts
    ]
