"""A linear network of continuous nodes as one large normal distribution, slow and plain."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm


def joint_normal(matrix, baseline, diffusion, start_mean, start_covariance, times):
    """Mean (T·N) and covariance (T·N, T·N) of all nodes at all times.

    Moments follow their differential equations; between two times the covariance is propagated.
    """
    n = len(baseline)

    def change(_, flat):
        m, p = flat[:n], flat[n:].reshape(n, n)
        dp = matrix @ p + p @ matrix.T + np.diag(diffusion**2)
        return np.concatenate([matrix @ m + baseline, dp.ravel()])

    begin = np.concatenate([start_mean, start_covariance.ravel()])
    found = solve_ivp(
        change, (times[0], times[-1] + 1e-9), begin, t_eval=times, rtol=1e-11, atol=1e-12
    ).y.T
    mean = found[:, :n].ravel()
    covariance = np.empty((len(times) * n,) * 2)
    for i in range(len(times)):
        own = found[i, n:].reshape(n, n)
        for j in range(i, len(times)):
            block = expm(matrix * (times[j] - times[i])) @ own
            covariance[j * n : (j + 1) * n, i * n : (i + 1) * n] = block
            covariance[i * n : (i + 1) * n, j * n : (j + 1) * n] = block.T
    return mean, covariance


def conditioned(mean, covariance, noise, values):
    """Posterior mean and covariance given noisy values (nan: missing), and ln p(values)."""
    seen = ~np.isnan(values)
    own = covariance[np.ix_(seen, seen)] + np.diag(noise[seen])
    rest = values[seen] - mean[seen]
    gain = covariance[:, seen] @ np.linalg.inv(own)
    _, log_det = np.linalg.slogdet(2 * np.pi * own)
    log_evidence = -0.5 * (log_det + rest @ np.linalg.solve(own, rest))
    return mean + gain @ rest, covariance - gain @ covariance[seen], log_evidence
