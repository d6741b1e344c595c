"""Exact inference in linear networks of continuous nodes: Kalman filter and smoother.

Between two times the nodes have a joint normal distribution, whose mean and covariance follow from
matrix exponentials; measurements are noisy and may be missing node by node. Nothing is
approximated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from asterism.continuous import _kalman as compiled
from asterism.continuous.network import drift_matrix, is_linear, start
from asterism.continuous.series import FloatArray
from asterism.errors import DataError, ModelError
from asterism.model.network import Network


@dataclass(frozen=True)
class SmoothedPath:
    """The posterior of all nodes at the given times of one trajectory."""

    times: FloatArray
    mean: FloatArray
    """(T, N)"""
    covariance: FloatArray
    """(T, N, N)"""
    log_evidence: float
    """ln p(values), the start included."""


def transition(network: Network, gap: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """F, b and Q of x(t + gap) = F x(t) + b + normal(0, Q), exactly (Van Loan 1978)."""
    matrix, baseline = drift_matrix(network)
    n = len(baseline)
    diffusion = np.diag([d.diffusion**2 for d in network.drifts.values()])
    both = np.zeros((2 * n, 2 * n))
    both[:n, :n], both[:n, n:], both[n:, n:] = -matrix, diffusion, matrix.T
    power = expm(both * gap)
    forward = power[n:, n:].T
    spread = forward @ power[:n, n:]
    with_one = np.zeros((n + 1, n + 1))
    with_one[:n, :n], with_one[:n, n] = matrix, baseline
    offset = expm(with_one * gap)[:n, n]
    return forward, offset, 0.5 * (spread + spread.T)


def smooth(network: Network, times: FloatArray, values: FloatArray) -> SmoothedPath:
    """Filter and smooth one trajectory that starts at the first time.

    ``values`` (T, N) are measurements, nan where there is none: rows of nan ask for the posterior
    between measurements, or after the last.
    """
    if not is_linear(network):
        raise ModelError(
            "Only linear networks of continuous nodes have an exact answer: no quadratic weights "
            "and no jumping nodes."
        )
    times, values = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    n = len(network.drifts)
    if values.shape != (len(times), n):
        raise DataError(f"{values.shape} values do not fit {len(times)} times and {n} nodes.")
    gaps = np.diff(times)
    if (gaps < 0.0).any():
        raise DataError("Times must ascend.")
    noise = np.array([d.noise_sd**2 for d in network.drifts.values()])
    if (noise <= 0.0).any() and len(gaps) and gaps.min() == 0.0:
        raise DataError("Two measurements at one time need measurement noise.")
    distinct, which = np.unique(gaps, return_inverse=True)
    steps = [transition(network, float(gap)) for gap in distinct]
    forward = np.array([s[0] for s in steps]).reshape(-1, n, n)
    offset = np.array([s[1] for s in steps]).reshape(-1, n)
    spread = np.array([s[2] for s in steps]).reshape(-1, n, n)
    mean, covariance, log_evidence = compiled.filter_and_smooth(
        *start(network), which.astype(np.int64), forward, offset, spread, noise, values
    )
    return SmoothedPath(times, mean, covariance, float(log_evidence))
