"""Compiled: Kalman filter and Rauch–Tung–Striebel smoother with one measurement at a time."""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import kernel


@kernel
def filter_and_smooth(mean, covariance, which, forward, offset, spread, noise, values):
    """Smoothed means (T, N) and covariances (T, N, N), and ln p(values).

    ``which[i]`` is the transition from time i to i + 1. Nodes are taken in one after the other:
    their noise is independent, so that no matrix is inverted in the filter.
    """
    n_times, n = values.shape
    means, covariances = np.empty((n_times, n)), np.empty((n_times, n, n))
    ahead_means, aheads = np.empty((n_times, n)), np.empty((n_times, n, n))
    m, p = mean.copy(), covariance.copy()
    total = 0.0
    for i in range(n_times):
        if i > 0:
            f = forward[which[i - 1]]
            m = np.dot(f, m) + offset[which[i - 1]]
            p = np.dot(np.dot(f, p), f.T) + spread[which[i - 1]]
        ahead_means[i], aheads[i] = m, p
        for j in range(n):
            if math.isnan(values[i, j]):
                continue
            variance = p[j, j] + noise[j]
            miss = values[i, j] - m[j]
            total -= 0.5 * (math.log(2.0 * math.pi * variance) + miss * miss / variance)
            column = p[:, j].copy()
            m = m + column * (miss / variance)
            p = p - np.outer(column, column) / variance
        means[i], covariances[i] = m, p
    for i in range(n_times - 2, -1, -1):
        f = forward[which[i]]
        gain = np.linalg.solve(aheads[i + 1], np.dot(f, covariances[i])).T
        gain = np.ascontiguousarray(gain)
        means[i] += np.dot(gain, means[i + 1] - ahead_means[i + 1])
        change = np.dot(np.dot(gain, covariances[i + 1] - aheads[i + 1]), gain.T)
        covariances[i] += 0.5 * (change + change.T)
    return means, covariances, total
