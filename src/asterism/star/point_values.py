"""Values at the measurements: reading marginals there, and replacing likelihoods in place.

This is what learning an emission needs between two solutions of a batch: the probability of every
state at every measurement goes out, new likelihoods of the same measurements come in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asterism.errors import AsterismError, DataError
from asterism.evidence.arrays import Evidence, FloatArray
from asterism.numerics.resources import chunks, map_chunks
from asterism.star._buffers import KIND, LIKELIHOOD, VALUES
from asterism.star._kept_messages import AT_POINTS
from asterism.star._solve import IMPOSSIBLE, STATUS
from asterism.star.batch import NO_READING, Batch, Control, make_progress, sweep
from asterism.star.problem import Parameters, scaled_likelihoods


def point_marginals(batch: Batch, parameters: Parameters, n_jobs: int = 1) -> FloatArray:
    """P(state | data) at every measurement of a solved batch, about the cost of one sweep.

    Flat, with the layout of ``batch.evidence.points.log_likelihood``. A measurement at the time of
    a recorded jump sees the state after it.
    """
    found = np.zeros(len(batch.problem.likelihood))
    progress = make_progress(batch.n_trajectories, 1)

    def read_chunk(first: int, last: int) -> None:
        sweep(
            batch.problem,
            parameters,
            batch.moments,
            (first, last),
            progress,
            control=Control(damping=0.0),
            reading=NO_READING._replace(kind=AT_POINTS, at_points=found),
        )

    map_chunks(read_chunk, chunks(batch.n_trajectories), n_jobs)
    if np.any(progress.integers[:, STATUS] == IMPOSSIBLE):
        raise AsterismError(
            "The probabilities at the measurements left the range of finite numbers: rates or "
            "likelihoods are too extreme, or the data are impossible under these rates."
        )
    return found


def set_log_likelihoods(batch: Batch, log_likelihood: FloatArray) -> None:
    """Replace the likelihoods of a batch's measurements, in place.

    ``log_likelihood`` has the layout of ``batch.evidence.points.log_likelihood``. The grid and the
    moments stay, so that an iteration continues from where it was; ``batch.evidence`` follows.
    """
    points = batch.evidence.points
    if np.shape(log_likelihood) != points.log_likelihood.shape:
        raise DataError(
            f"The new log-likelihoods have shape {np.shape(log_likelihood)}; the measurements of "
            f"this batch need {points.log_likelihood.shape}."
        )
    if not len(points.offset):
        return
    values = np.array(log_likelihood, dtype=np.float64)
    _require_possible(batch.evidence, np.maximum.reduceat(values, points.offset))
    problem = batch.problem
    problem.likelihood[:], largest = scaled_likelihoods(values, points.offset)
    # marks are sorted otherwise than points; where a mark's values begin tells which point it is
    own = np.flatnonzero(problem.mark[:, KIND] == LIKELIHOOD)
    problem.mark_scale[own] = largest[np.searchsorted(points.offset, problem.mark[own, VALUES])]
    batch.evidence = replace(batch.evidence, points=replace(points, log_likelihood=values))


def _require_possible(evidence: Evidence, largest: FloatArray) -> None:
    """A measurement needs a finite likelihood under some state (NaN in any state shows here)."""
    bad = np.flatnonzero(~np.isfinite(largest))
    if len(bad):
        i, points = int(bad[0]), evidence.points
        d = int(points.trajectory[i])
        label = evidence.labels[d] if evidence.labels else d
        raise DataError(
            f"trajectory {label!r}, time {points.time[i]:g}, node number {int(points.node[i])}: "
            "the measurement's log-likelihoods must be numbers below +inf, and not −inf for all "
            "states"
        )
