"""The one door to the kernel that sweeps: iterating, counting and reading are the same call.

numba compiles that kernel, with everything it calls, only once this way; it is by far the largest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asterism.inference.evidence import FloatArray, IntArray
from asterism.inference.parameters import Parameters
from asterism.kernels import solve as kernels
from asterism.kernels.arrays import DWELL, INITIAL, TABLE, Problem
from asterism.kernels.readings import NOTHING, Messages
from asterism.kernels.sweep import N_TOTALS


class Progress(NamedTuple):
    """Per trajectory: what the iteration tells (columns as in ``kernels.solve``)."""

    totals: FloatArray
    integers: IntArray
    history: FloatArray
    """(D, 2, max_sweeps): F and residual after every sweep; NaN beyond the last one."""


class Counts(NamedTuple):
    """Expected statistics, summed over trajectories."""

    dwell: FloatArray
    transitions: FloatArray
    starts: FloatArray


_NO_POINTS = np.zeros(0)
_NO_STATES = np.zeros((0, 0), dtype=np.int32)
_NO_MESSAGES = Messages(_NO_POINTS, _NO_POINTS, _NO_POINTS, _NO_STATES, _NO_STATES)
_NO_COUNTS = Counts(_NO_POINTS, _NO_POINTS, _NO_POINTS)


def make_progress(n_trajectories: int, max_sweeps: int) -> Progress:
    return Progress(
        np.zeros((n_trajectories, N_TOTALS)),
        np.zeros((n_trajectories, kernels.N_INTEGERS), dtype=np.int64),
        np.full((n_trajectories, 2, max_sweeps), np.nan),
    )


def make_counts(problem: Problem) -> Counts:
    last = problem.node[-1]
    return Counts(
        np.zeros(int(last[DWELL])), np.zeros(int(last[TABLE])), np.zeros(int(last[INITIAL]))
    )


def sweep(
    problem: Problem,
    parameters: Parameters,
    moments: FloatArray,
    first: int,
    last: int,
    progress: Progress,
    *,
    restart: bool = False,
    tolerance: float = 0.0,
    damping: float = 1.0,
    counts: Counts | None = None,
    reading: int = NOTHING,
    messages: Messages = _NO_MESSAGES,
    at_points: FloatArray = _NO_POINTS,
) -> None:
    """Sweep trajectories first … last−1 as often as ``progress`` has room for; see the kernel."""
    kernels.iterate(
        problem,
        *parameters,
        moments,
        np.arange(first, last, dtype=np.int64),
        restart,
        progress.history.shape[2],
        tolerance,
        damping,
        *progress,
        counts is not None,
        *(counts or _NO_COUNTS),
        reading,
        messages,
        at_points,
    )
