"""Time steps as fine as the tolerance asks: solve, halve the steps, compare, refine what needs it.

Messages are constant on a step, so errors fall with the square of its length: halving removes three
quarters, and the difference between two grids says how large the rest is. Compared are the
evidence, the probabilities at every measurement, and the sums of the expected statistics.
Trajectories are independent and are refined independently. Without separators nothing is
approximated and any steps will do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asterism.clusters import _cluster_sweep as _sweep
from asterism.clusters._cluster_layout import TOO_STIFF
from asterism.clusters.batch_of_clusters import (
    ClusterBatch,
    ClusterModel,
    ClusterOutcome,
    ClusterStatistics,
    make_cluster_batch,
    run_clusters,
    start_messages,
)
from asterism.errors import DataError, Setting, TooLargeError
from asterism.star.grid import Grid, build_even_grid, build_grid
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, Points, subset
from asterism.timeline.timeline import timeline_of

_FIRST_STEP = 0.5  # relaxation times, at tolerance 1e-3
_FINEST = 64  # parts into which a first step may be cut
_SETTLED = 1e-3  # the iteration stops this much below the tolerance of the grid
_GROUP_BYTES = 2e8  # messages on the first grid up to which trajectories are refined together
_PARTS_PER_STEP = 32.0  # how often a step is cut inside, where nothing else asks for short steps
_FORBIDDEN = 1e-3  # expected jumps at rates of zero from which the data count as impossible


@dataclass(frozen=True)
class ClusterParameters:
    """Rates and start probabilities, flat as in the compiled network."""

    rates: FloatArray
    initial: FloatArray
    relaxation_rate: float


@dataclass(frozen=True)
class Precision:
    """How exactly, and how long."""

    tolerance: float
    time_step: float | None
    max_sweeps: int
    n_jobs: int


@dataclass
class ClusterSolution:
    """Every trajectory solved on its own grid."""

    batches: list[ClusterBatch]
    place: list[tuple[int, int]]
    """For each trajectory, its batch and its number there."""
    outcome: ClusterOutcome
    statistics: ClusterStatistics
    grid_error: float
    """Estimated relative error of the time steps; NaN if not estimated."""


@dataclass
class _ClusterLevel:
    trajectories: IntArray
    factor: int
    batch: ClusterBatch
    outcome: ClusterOutcome
    statistics: ClusterStatistics


def solve_on_cluster_grids(
    model: ClusterModel, evidence: Evidence, parameters: ClusterParameters, precision: Precision
) -> ClusterSolution:
    """Solve with error control, or on equal steps where ``time_step`` is given."""
    has_borders = len(model.regions.separators) > 0
    once = precision.time_step is not None or not has_borders
    done: list[_ClusterLevel] = []
    worst = 0.0
    coarse_table = np.zeros(len(parameters.rates))
    for group in _groups(model, evidence, parameters, precision):
        level = _solve_level(model, evidence, parameters, precision, group, 1, None)
        coarse_table += level.statistics.table
        if once:
            done.append(level)
            continue
        while True:
            fine = _solve_level(
                model, evidence, parameters, precision, level.trajectories, 2 * level.factor, level
            )
            error = _error(level, fine)
            is_fine = (error <= precision.tolerance) | (fine.factor >= _FINEST)
            worst = max(worst, float(error[is_fine].max(initial=0.0)))
            if is_fine.all():
                done.append(fine)
                break
            if is_fine.any():
                done.append(_part(fine, is_fine, parameters, precision))
                fine = _part(fine, ~is_fine, parameters, precision)
            level = fine
    table = np.sum([level.statistics.table for level in done], axis=0)
    if not once:
        ratio = min(level.factor for level in done)
        change = _relative_change(coarse_table, table) / (float(ratio) ** 2 - 1.0)
        while change > precision.tolerance and max(level.factor for level in done) < _FINEST:
            # each trajectory is fine, their sum not yet: halve everywhere once more
            done = [
                _solve_level(model, evidence, parameters, precision, part.trajectories,
                             2 * part.factor, part)
                for part in done
            ]  # fmt: skip
            before, table = table, np.sum([level.statistics.table for level in done], axis=0)
            change = _relative_change(before, table) / 3.0
        worst = max(worst, change)
    error_known = 0.0 if not has_borders else float("nan")
    return _assemble(done, evidence, error_known if once else worst)


def _groups(
    model: ClusterModel, evidence: Evidence, parameters: ClusterParameters, precision: Precision
) -> list[IntArray]:
    """Trajectories that are refined together: all of them unless that needs much memory."""
    everyone = np.arange(evidence.n_trajectories, dtype=np.int64)
    grid = _grid(model, evidence, parameters, precision, 1)
    n_bytes = 8.0 * model.numbers_per_step * np.diff(grid.step_start)
    group = (np.cumsum(n_bytes) // _GROUP_BYTES).astype(np.int64)
    return np.split(everyone, np.flatnonzero(np.diff(group)) + 1)


def _grid(
    model: ClusterModel,
    evidence: Evidence,
    parameters: ClusterParameters,
    precision: Precision,
    factor: int,
) -> Grid:
    timeline = timeline_of(evidence)
    if precision.time_step is not None:
        return build_even_grid(timeline, precision.time_step)
    if not len(model.regions.separators):
        fastest = -float(parameters.rates.min(initial=0.0))
        longest = float((evidence.end - evidence.start).max(initial=0.0))
        step = _PARTS_PER_STEP / fastest if fastest > 0.0 else np.inf
        return build_even_grid(timeline, min(step, max(longest, 1e-300)))
    step = _FIRST_STEP * (precision.tolerance / 1e-3) ** 0.5
    return build_grid(timeline, parameters.relaxation_rate, step, factor)


def _solve_level(
    model: ClusterModel,
    evidence: Evidence,
    parameters: ClusterParameters,
    precision: Precision,
    chosen: IntArray,
    factor: int,
    coarse: _ClusterLevel | None,
) -> _ClusterLevel:
    part = evidence if len(chosen) == evidence.n_trajectories else subset(evidence, chosen)
    grid = _grid(model, part, parameters, precision, factor)
    batch = make_cluster_batch(model, part, grid)
    start_messages(batch, parameters.rates)
    if coarse is not None:
        _prolong(coarse.batch, batch)
    outcome, statistics = run_clusters(
        batch,
        parameters.rates,
        parameters.initial,
        _SETTLED * precision.tolerance,
        precision.max_sweeps,
        precision.n_jobs,
    )
    require_possible_clusters(batch, outcome)
    return _ClusterLevel(chosen, factor, batch, outcome, statistics)


def _prolong(coarse: ClusterBatch, fine: ClusterBatch) -> None:
    """Start on finer steps from the messages of the coarser ones."""
    for old, new in zip(coarse.messages, fine.messages):
        n_old, n_new = old.rate.shape[1], new.rate.shape[1]
        if n_old and n_new % n_old == 0:
            new.rate[:] = np.repeat(old.rate, n_new // n_old, axis=1)
            new.diagonal[:] = np.repeat(old.diagonal, n_new // n_old, axis=1)
            new.start[:] = old.start
    fine.halvings[:] = coarse.halvings


def _error(coarse: _ClusterLevel, fine: _ClusterLevel) -> FloatArray:
    """Estimated error of each fine trajectory from its difference to the coarse one."""
    points = fine.batch.evidence.points
    new, old = fine.outcome.evidence, coarse.outcome.evidence
    change = np.abs(new - old) / np.maximum(1.0, np.abs(new))
    moved = np.abs(fine.statistics.points - coarse.statistics.points)
    np.maximum.at(change, _owner_of_values(points), moved)
    return np.asarray(change / ((fine.factor / coarse.factor) ** 2 - 1.0))


def _owner_of_values(points: Points) -> IntArray:
    """Trajectory of every value of the points."""
    lengths = np.diff(np.append(points.offset, len(points.log_likelihood)))
    return np.asarray(np.repeat(points.trajectory, lengths), dtype=np.int64)


def _part(
    level: _ClusterLevel,
    chosen: NDArray[np.bool_],
    parameters: ClusterParameters,
    precision: Precision,
) -> _ClusterLevel:
    """Some of a level's trajectories, with their messages."""
    index = np.flatnonzero(chosen)
    part = subset(level.batch.evidence, index)
    batch = make_cluster_batch(level.batch.model, part, level.batch.grid.select(index))
    batch.messages = [level.batch.messages[d] for d in index]
    batch.halvings[:] = level.batch.halvings[index]
    batch.parameters = level.batch.parameters
    outcome, statistics = run_clusters(
        batch,
        parameters.rates,
        parameters.initial,
        _SETTLED * precision.tolerance,
        precision.max_sweeps,
        precision.n_jobs,
    )
    return _ClusterLevel(level.trajectories[index], level.factor, batch, outcome, statistics)


def _relative_change(before: FloatArray, after: FloatArray) -> float:
    """Largest change of a statistic, relative to itself or to a hundredth of the largest one."""
    scale = np.maximum(np.abs(after), 0.01 * np.abs(after).max(initial=0.0) + 1e-300)
    return float((np.abs(after - before) / scale).max(initial=0.0))


def require_possible_clusters(batch: ClusterBatch, outcome: ClusterOutcome) -> None:
    """Raise, naming the place, where the evidence has no probability."""
    failed = np.flatnonzero(outcome.status == _sweep.FAILED)
    labels = batch.evidence.labels
    if len(failed):
        d = int(failed[0])
        label = labels[d] if labels else d
        _, step, kind = (int(i) for i in outcome.failure[d])
        time = batch.grid.times(d)[min(step, len(batch.grid.times(d)) - 1)]
        if kind == TOO_STIFF:
            raise TooLargeError(
                f"Trajectory {label!r}: near time {time:g} some rates are too large for the time "
                "between two measurements; use ",
                *(Setting("method", "star"), "."),
            )
        raise DataError(_impossible(label, f"at about time {time:g}"))
    forbidden = np.flatnonzero(outcome.forbidden > _FORBIDDEN)
    if len(forbidden):
        d = int(forbidden[0])
        raise DataError(_impossible(labels[d] if labels else d, "somewhere between its ends"))


def _impossible(label: object, where: str) -> str:
    return (
        f"The data of trajectory {label!r} are impossible under this network: nothing can lead to "
        f"what was seen {where}. Look for contradictory exact measurements, transitions whose rate "
        "is zero, or start probabilities of zero."
    )


def _assemble(levels: list[_ClusterLevel], evidence: Evidence, error: float) -> ClusterSolution:
    place = [(-1, -1)] * evidence.n_trajectories
    for b, level in enumerate(levels):
        for i, d in enumerate(level.trajectories):
            place[int(d)] = (b, i)
    order = np.argsort(np.concatenate([level.trajectories for level in levels]))
    outcome = ClusterOutcome(
        **{
            k: np.concatenate([getattr(level.outcome, k) for level in levels])[order]
            for k in vars(levels[0].outcome)
        }
    )
    owner = _owner_of_values(evidence.points)
    points = np.zeros(len(evidence.points.log_likelihood))
    for level in levels:
        points[np.isin(owner, level.trajectories)] = level.statistics.points
    statistics = ClusterStatistics(
        np.sum([level.statistics.table for level in levels], axis=0),
        np.sum([level.statistics.initial for level in levels], axis=0),
        points,
    )
    return ClusterSolution([level.batch for level in levels], place, outcome, statistics, error)
