"""Time steps as fine as the tolerance asks: solve, halve the steps, compare, refine what needs it.

A rule (``rules/``) says how trajectories are solved on a grid and with which power of the step its
error falls. Halving all steps then removes at least three quarters of the error, and the difference
between two grids says how large the rest is and how far to cut next. Trajectories are independent
of each other and are refined independently; each ends on a grid whose estimated error, in its
evidence and in its marginals, is within the tolerance. Expected statistics are checked in the sum
over trajectories.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.engine._outcome import SWEEP_LIMIT
from asterism.engine.batch import Outcome, joined, total
from asterism.engine.grid import Grid, most_steps
from asterism.engine.rule import Rule
from asterism.errors import TooLargeError
from asterism.numerics.resources import current_limit
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, subset

SETTLED = 1e-3
"""The iteration stops this much below the tolerance of the grid, so that it adds nothing to it."""
_USUAL_SWEEPS = 50  # on all grids together
_WORTH_SAYING = 60.0  # seconds from which a solve is announced
_MOST_RELAXATIONS = 1e12  # in one trajectory; beyond, rounding decides
_FEW_BYTES = 256e6  # of messages in the end up to which they are kept in double precision

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Solution:
    """Every trajectory solved on its own grid."""

    batches: list[Any]
    place: list[tuple[int, int]]
    """For each trajectory, its batch and its number there."""
    outcome: Outcome
    """Per trajectory, in the order of the evidence."""
    statistics: tuple[FloatArray, ...]
    grid_error: float
    """Estimated relative error of the evidence, marginals and statistics; NaN if not estimated."""
    grid_error_is_small: bool


@dataclass(frozen=True)
class _Level:
    """Some trajectories on one grid."""

    trajectories: IntArray
    factors: IntArray
    batch: Any
    outcome: Outcome
    statistics: tuple[FloatArray, ...]


def solve_on_grids(rule: Rule, evidence: Evidence) -> Solution:
    """Solve with error control, or on equal steps where these are given."""
    _require_span(evidence, rule.relaxation_rate)
    return _Refinement(rule, evidence).solve()


class _Refinement:
    """One solve: from the first grids to those that are fine enough."""

    def __init__(self, rule: Rule, evidence: Evidence) -> None:
        self.rule = rule
        self.evidence = evidence
        self.pace = _Pace(rule.usual_pace)
        self.done: list[_Level] = []
        self.fine: list[tuple[FloatArray, ...]] = []

    def solve(self) -> Solution:
        rule, done, fine = self.rule, self.done, self.fine
        tolerance = rule.precision.tolerance
        once = rule.precision.time_step is not None or rule.is_exact_on_any_grid
        worst = 0.0
        all_finished = True
        coarse: list[tuple[FloatArray, ...]] = []
        for group in _groups(rule, self.evidence):
            level = self.level(group, np.ones(len(group), dtype=np.int64), None)
            if once:
                self.keep([level])
                continue
            coarse.append(level.statistics)
            found, error, finished = self.refine(level)
            self.keep(found)
            worst = max(worst, error)
            all_finished = all_finished and finished
        statistics = total(fine)
        if once:
            error = 0.0 if rule.is_exact_on_any_grid else float("nan")
            return _assemble(done, self.evidence, statistics, error, True)
        ratio = min(int(part.factors.min()) for part in done)
        order = min(int(rule.order(part.batch).min()) for part in done)
        change = _relative_change(total(coarse), statistics)
        statistics_error = change / max(1.0, float(ratio) ** order - 1.0)
        is_full = False
        while statistics_error > tolerance and worst <= tolerance and not current_limit().stops():
            # each trajectory is fine, their sum not yet: halve everywhere once more
            if is_full or max(int(part.factors.max()) for part in done) >= rule.finest:
                break
            fine.clear()
            for _ in range(len(done)):
                # one after the other: so only one of them is in memory twice
                part = self.in_precision(done.pop(0), np.float64)
                try:
                    part = self.level(part.trajectories, 2 * part.factors, part)
                except TooLargeError:
                    is_full = True
                self.keep([part])
            before, statistics = statistics, total(fine)
            if not is_full:
                statistics_error = _relative_change(before, statistics) / (2.0**order - 1.0)
        worst = max(worst, statistics_error)
        if not all_finished:
            worst = max(worst, 1.0)
        return _assemble(done, self.evidence, statistics, worst, worst <= tolerance)

    def level(self, chosen: IntArray, factors: IntArray, coarse: _Level | None) -> _Level:
        """Some trajectories on steps cut into ``factors`` parts, from a coarser level if given."""
        rule, evidence, same = self.rule, self.evidence, None
        if coarse is not None and len(chosen) == len(coarse.trajectories):
            part, same = coarse.batch.evidence, coarse.batch
        else:
            part = evidence if len(chosen) == evidence.n_trajectories else subset(evidence, chosen)
        batch = rule.make_batch(part, rule.grid(part, factors), same)
        if coarse is not None:
            of_fine = np.searchsorted(coarse.trajectories, chosen)
            rule.prolong(coarse.batch, batch, of_fine, factors // coarse.factors[of_fine])
        n_numbers = rule.numbers_per_step * int(batch.grid.step_start[-1])
        if coarse is None:
            _announce(batch.grid, n_numbers / rule.usual_pace)
        max_sweeps = rule.precision.max_sweeps
        allowed = self.pace.sweeps(n_numbers, max_sweeps)
        begin = time.monotonic()
        outcome, statistics = rule.run(batch, allowed, coarse is None)
        self.pace.note(n_numbers, outcome, time.monotonic() - begin)
        if allowed < max_sweeps and (outcome.status == SWEEP_LIMIT).any():
            self.pace.limit.was_felt = True
        return _Level(chosen, factors, batch, outcome, statistics)

    def part(self, level: _Level, chosen: NDArray[np.bool_]) -> _Level:
        """The chosen trajectories of a level; the level itself where that is all of them."""
        if chosen.all():
            return level
        index = np.flatnonzero(chosen)
        batch, statistics = self.rule.select(level.batch, index)
        outcome = level.outcome.select(index)
        return _Level(level.trajectories[index], level.factors[index], batch, outcome, statistics)

    def keep(self, levels: list[_Level]) -> None:
        """Note what the levels expect, then keep them in the space there is."""
        self.fine.extend(level.statistics for level in levels)
        stored = sum(self.rule.stored_bytes(level.batch) for level in [*self.done, *levels])
        if stored > _FEW_BYTES:
            levels = [self.in_precision(level, np.float32) for level in levels]
        self.done.extend(levels)

    def in_precision(self, level: _Level, kind: Any) -> _Level:
        return replace(level, batch=self.rule.in_precision(level.batch, kind))

    def refine(self, level: _Level) -> tuple[list[_Level], float, bool]:
        """Cut the steps of a level's trajectories until each is fine enough.

        Returns every trajectory on its last grid, the largest estimated error, and whether all
        trajectories were compared (not if memory or time ran short).
        """
        rule, tolerance = self.rule, self.rule.precision.tolerance
        done: list[_Level] = []
        worst = 0.0
        failing = level.trajectories
        factors = dict.fromkeys(failing.tolist(), 2)
        finished = dict.fromkeys(failing.tolist(), False)
        while True:
            try:
                if current_limit().stops():
                    raise TooLargeError("There is no time left for finer steps.")
                fine = self.level(failing, np.array([factors[d] for d in failing.tolist()]), level)
            except TooLargeError:
                if not current_limit().passed and not len(done) and level.factors.max() == 1:
                    raise
                rest = np.array([not finished[d] for d in level.trajectories.tolist()])
                done.append(self.part(level, rest))
                break
            error = self.error(level, fine)
            passed = (error <= tolerance) | (2 * fine.factors > rule.finest)
            for d in fine.trajectories[passed].tolist():
                finished[d] = True
            worst = max(worst, float(error[passed].max(initial=0.0)))
            if passed.any():
                done.append(self.part(fine, passed))
            if passed.all():
                break
            failing = fine.trajectories[~passed]
            powers = 1.0 / rule.order(fine.batch)[~passed]
            ratios = np.ceil(1.05 * (error[~passed] / tolerance) ** powers)
            ratios = ratios.clip(2, rule.largest_cut).astype(int)
            for d, ratio in zip(failing.tolist(), ratios.tolist()):
                factors[d] = min(rule.finest // factors[d] * factors[d], factors[d] * ratio)
            level = fine
        return done, worst, all(finished.values())

    def error(self, coarse: _Level, fine: _Level) -> FloatArray:
        """Estimated error of each fine trajectory from its difference to the coarse one."""
        of_fine = np.searchsorted(coarse.trajectories, fine.trajectories)
        ratios = fine.factors // coarse.factors[of_fine]
        change = self.rule.largest_change(coarse.batch, fine.batch, of_fine, ratios)
        scale = np.maximum(1.0, np.abs(fine.outcome.evidence))
        moved = np.abs(fine.outcome.evidence - coarse.outcome.evidence[of_fine]) / scale
        gain = ratios.astype(np.float64) ** self.rule.order(coarse.batch)[of_fine] - 1.0
        return np.asarray(np.maximum(change, moved) / gain)


def _groups(rule: Rule, evidence: Evidence) -> list[IntArray]:
    """Trajectories that are refined together: all of them unless that needs much memory."""
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    most = most_steps(evidence, rule.relaxation_rate, rule.first_step, rule.precision.time_step)
    if 8.0 * rule.numbers_per_step * most <= rule.group_bytes:
        return [everyone]
    grid = rule.grid(evidence, np.ones(evidence.n_trajectories, dtype=np.int64))
    n_bytes = 8.0 * rule.numbers_per_step * np.diff(grid.step_start)
    group = (np.cumsum(n_bytes) // rule.group_bytes).astype(np.int64)
    return np.split(everyone, np.flatnonzero(np.diff(group)) + 1)


class _Pace:
    """How many sweeps there is time for, from how long earlier ones took."""

    def __init__(self, usual: float) -> None:
        self.limit = current_limit()
        self._per_second = usual
        self._slowest = 0.1 * usual
        """Believed, so that a compilation does not end everything."""

    def sweeps(self, n_numbers: int, at_most: int) -> int:
        """At least one, so that every trajectory has an answer."""
        if self.limit.seconds == float("inf"):
            return at_most
        return max(1, min(at_most, int(self.limit.left * self._per_second / max(1, n_numbers))))

    def note(self, n_numbers: int, outcome: Outcome, seconds: float) -> None:
        """Learn from a solve; one that compiled does not count as slow."""
        done = n_numbers * float(outcome.n_sweeps.mean()) if len(outcome.n_sweeps) else 0.0
        if seconds > 0.01:
            self._per_second = max(self._slowest, done / seconds)


def _require_span(evidence: Evidence, rate: float) -> None:
    """Refuse trajectories in which more happens than numbers of this precision can follow."""
    longest = float((evidence.end - evidence.start).max(initial=0.0)) * rate
    if longest > _MOST_RELAXATIONS:
        raise TooLargeError(
            f"Rates times duration come to {longest:.2g} changes of state in one trajectory, more "
            f"than can be followed ({_MOST_RELAXATIONS:g}). Is the unit of time right?"
        )


def _announce(grid: Grid, seconds_per_sweep: float) -> None:
    """Say beforehand that a solve will take minutes, with the figure that makes it so."""
    seconds = seconds_per_sweep * _USUAL_SWEEPS
    if seconds > _WORTH_SAYING:
        log.warning(
            "Rates times duration ask for about %.2g time steps; this may take %.0f minutes. "
            "A time limit ends it earlier, with the best so far.",
            float(grid.step_start[-1]),
            max(1.0, seconds / 60.0),
        )


def _relative_change(before: tuple[FloatArray, ...], after: tuple[FloatArray, ...]) -> float:
    """Largest change of a statistic, relative to itself or to a hundredth of the largest one."""
    worst = 0.0
    for old, new in zip(before, after):
        if len(new):
            scale = np.maximum(np.abs(new), 0.01 * np.abs(new).max() + 1e-300)
            worst = max(worst, float((np.abs(new - old) / scale).max()))
    return worst


def _assemble(
    levels: list[_Level],
    evidence: Evidence,
    statistics: tuple[FloatArray, ...],
    error: float,
    is_small: bool,
) -> Solution:
    place = [(-1, -1)] * evidence.n_trajectories
    for b, level in enumerate(levels):
        for i, d in enumerate(level.trajectories.tolist()):
            place[d] = (b, i)
    outcome = levels[0].outcome
    if len(levels) > 1:
        order = np.argsort(np.concatenate([level.trajectories for level in levels]))
        outcome = joined([level.outcome for level in levels]).select(order)
    return Solution([level.batch for level in levels], place, outcome, statistics, error, is_small)
