"""Owns the prior probability of an edge: the chance that a random set of parents holds it.

The structure prior weighs sets of parents by the odds of their edges and by their number. How
probable one edge is beforehand follows by summing over all sets that hold it, which elementary
symmetric sums do without listing the sets.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def inclusion_probabilities(log_odds: FloatArray, log_weight: FloatArray) -> FloatArray:
    """(n,) chance of each item in a random set with P(set) ∝ weight[size] Π odds of its items."""
    sizes = len(log_weight)
    if np.ptp(log_odds) == 0.0:
        n = len(log_odds)
        size = np.arange(sizes)
        logs = np.array([math.log(math.comb(n, int(k))) for k in size]) + size * log_odds[0]
        mass = np.exp(logs + log_weight - (logs + log_weight).max())
        return np.full(n, float((mass * size).sum() / (mass.sum() * n)))
    # elementary symmetric sums of the items before and behind each one, in logs
    before = _running_sums(log_odds, sizes)
    behind = _running_sums(log_odds[::-1], sizes)[::-1]
    total = np.logaddexp.reduce(before[-1] + log_weight)
    result = np.empty(len(log_odds))
    for i, own in enumerate(log_odds):
        terms = [
            before[i, a] + behind[i + 1, b] + own + log_weight[a + b + 1]
            for a in range(sizes - 1)
            for b in range(sizes - 1 - a)
        ]
        result[i] = np.exp(np.logaddexp.reduce(terms) - total)
    return np.minimum(result, 1.0)


def _running_sums(log_odds: FloatArray, sizes: int) -> FloatArray:
    """[i, k] ln of the sum over all sets of k of the first i items of the product of their odds."""
    sums = np.full((len(log_odds) + 1, sizes), -np.inf)
    sums[:, 0] = 0.0
    for i, own in enumerate(log_odds):
        sums[i + 1, 1:] = np.logaddexp(sums[i, 1:], sums[i, :-1] + own)
    return sums
