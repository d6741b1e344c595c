"""One node on its own, step by step: its evidence and moments by exponentials of block matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm


def plain_sums(
    batch: Any, a: np.ndarray, initial: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """F, ∫ f ρ over all steps (exponentials of block matrices), and the marginals at points."""
    size, total, evidence = len(a), np.zeros_like(a), 0.0
    points = batch.evidence.points
    at_points = np.zeros(len(points.log_likelihood))
    for d in range(batch.n_trajectories):
        times = batch.grid.times(d)
        likelihood = np.ones((len(times), size))
        for i in np.flatnonzero(points.trajectory == d):
            k = int(np.abs(times - points.time[i]).argmin())
            begin = int(points.offset[i])
            likelihood[k] *= np.exp(points.log_likelihood[begin : begin + size])
        rho = [likelihood[-1]]
        for k in range(len(times) - 2, -1, -1):
            rho.append(likelihood[k] * (expm(a * (times[k + 1] - times[k])) @ rho[-1]))
        rho = rho[::-1]
        evidence += np.log(initial @ rho[0])
        f = initial * likelihood[0]
        alpha = [f]
        for k in range(len(times) - 1):
            h = times[k + 1] - times[k]
            block = np.block([[a, np.outer(rho[k + 1], f)], [np.zeros_like(a), a]])
            p = expm(a * h)
            total += expm(block * h)[:size, size:].T / (f @ p @ rho[k + 1])
            f = (f @ p) * likelihood[k + 1]
            alpha.append(f)
        for i in np.flatnonzero(points.trajectory == d):
            k = int(np.abs(times - points.time[i]).argmin())
            # both contain the likelihood of this very point
            marginal = alpha[k] * rho[k] / likelihood[k]
            at_points[points.offset[i] : points.offset[i] + size] = marginal / marginal.sum()
    return evidence, total, at_points
