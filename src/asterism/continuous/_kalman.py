"""Compiled: Kalman filter and Rauch–Tung–Striebel smoother with one measurement at a time."""

from __future__ import annotations

import math

import numpy as np

from asterism.continuous._family import copy_rows
from asterism.numerics._jit import kernel


@kernel
def _product(a, b, transposed, out):
    """out = a b, or a bᵀ."""
    n = len(a)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * (b[j, k] if transposed else b[k, j])
            out[i, j] = total


@kernel
def _solve(matrix, right):
    """Overwrite ``right`` by matrix⁻¹ right and the symmetric ``matrix`` by its Cholesky factor."""
    n = len(matrix)
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
        root = math.sqrt(max(matrix[j, j], 1e-300))
        for i in range(j, n):
            matrix[i, j] /= root
    for c in range(right.shape[1]):
        for i in range(n):
            for k in range(i):
                right[i, c] -= matrix[i, k] * right[k, c]
            right[i, c] /= matrix[i, i]
        for i in range(n - 1, -1, -1):
            for k in range(i + 1, n):
                right[i, c] -= matrix[k, i] * right[k, c]
            right[i, c] /= matrix[i, i]


@kernel
def filter_and_smooth(mean, covariance, which, forward, offset, spread, noise, values):
    """Smoothed means (T, N) and covariances (T, N, N), and ln p(values).

    ``which[i]`` is the transition from time i to i + 1. Nodes are taken in one after the other:
    their noise is independent, so that no matrix is inverted in the filter.
    """
    n_times, n = values.shape
    means, covariances = np.empty((n_times, n)), np.empty((n_times, n, n))
    ahead_means, aheads = np.empty((n_times, n)), np.empty((n_times, n, n))
    work, other, change = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    column = np.empty(n)
    total = 0.0
    for i in range(n_times):
        if i == 0:
            for j in range(n):
                ahead_means[0, j] = mean[j]
            copy_rows(covariance, aheads[0])
        else:
            f = forward[which[i - 1]]
            for j in range(n):
                ahead_means[i, j] = offset[which[i - 1], j]
                for k in range(n):
                    ahead_means[i, j] += f[j, k] * means[i - 1, k]
            _product(f, covariances[i - 1], False, work)
            _product(work, f, True, other)
            added = spread[which[i - 1]]
            for j in range(n):
                for k in range(n):
                    aheads[i, j, k] = other[j, k] + added[j, k]
        m, p = means[i], covariances[i]
        for j in range(n):
            m[j] = ahead_means[i, j]
        copy_rows(aheads[i], p)
        for j in range(n):
            if math.isnan(values[i, j]):
                continue
            variance = p[j, j] + noise[j]
            miss = values[i, j] - m[j]
            total -= 0.5 * (math.log(2.0 * math.pi * variance) + miss * miss / variance)
            for k in range(n):
                column[k] = p[k, j]
            for k in range(n):
                m[k] += column[k] * miss / variance
                for c in range(n):
                    p[k, c] -= column[k] * column[c] / variance
    for i in range(n_times - 2, -1, -1):
        # the transposed gain: ahead⁻¹ F P
        _product(forward[which[i]], covariances[i], False, work)
        copy_rows(aheads[i + 1], other)
        _solve(other, work)
        for j in range(n):
            for k in range(n):
                means[i, j] += work[k, j] * (means[i + 1, k] - ahead_means[i + 1, k])
        for j in range(n):
            for c in range(n):
                other[j, c] = covariances[i + 1, j, c] - aheads[i + 1, j, c]
        for j in range(n):
            for c in range(n):
                change[j, c] = 0.0
                for k in range(n):
                    change[j, c] += other[j, k] * work[k, c]
        for j in range(n):
            for c in range(n):
                for k in range(n):
                    covariances[i, j, c] += work[k, j] * change[k, c]
    return means, covariances, total
