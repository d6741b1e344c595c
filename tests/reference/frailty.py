"""Plain likelihoods of trajectories that differ by a Gamma factor, and their maxima by scipy.

Complete paths have a closed form (Gamma and Poisson); panels are integrated by many Gauss–Legendre
points in the quantiles, with a matrix exponential for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import gamma


def complete_log_likelihood(
    rates: np.ndarray, spread: float, counts: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Per trajectory; ``counts`` (D, R) transitions and ``times`` (D, R) at risk of each rate.

    ∫ Π (uR)^n exp(−uRT) Gamma(u; k, k) du = Π R^n · k^k Γ(k+n) / (Γ(k) (k+ΣRT)^(k+n))
    """
    own = counts @ np.log(rates)
    hazard, n = times @ rates, counts.sum(axis=1)
    if spread == 0.0:
        return own - hazard
    k = 1.0 / spread**2
    return own + k * np.log(k) + gammaln(k + n) - gammaln(k) - (k + n) * np.log(k + hazard)


def panel_log_likelihood(
    q: np.ndarray, spread: float, panels: list[tuple[np.ndarray, np.ndarray]], n_points: int = 400
) -> np.ndarray:
    """Per trajectory, given its first state; a panel is its times and its states, all seen."""
    p, weight = np.polynomial.legendre.leggauss(n_points)
    p, weight = 0.5 * (p + 1.0), 0.5 * weight
    # a finer rule at both ends: p = 3v² − 2v³
    p, weight = 3 * p**2 - 2 * p**3, weight * 6 * p * (1 - p)
    k = 1.0 / spread**2
    factor = gamma.ppf(p, k, scale=1.0 / k)
    values, vectors = np.linalg.eig(q)
    inverse = np.linalg.inv(vectors)
    result = []
    for time, state in panels:
        total = np.ones(n_points)
        for gap, x, y in zip(np.diff(time), state[:-1], state[1:]):
            each = np.exp(np.outer(factor, values) * gap)
            total = total * np.real(each @ (vectors[x] * inverse[:, y]))
        result.append(np.log(np.real(weight @ total)))
    return np.array(result)


def plain_panel_log_likelihood(q: np.ndarray, panels: list[Any]) -> float:
    """Without factors."""
    return float(
        sum(
            np.log(expm(q * gap)[x, y])
            for time, state in panels
            for gap, x, y in zip(np.diff(time), state[:-1], state[1:])
        )
    )


def maximum(log_likelihood: Any, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Positive parameters that maximise a function of them, and its value."""
    found = minimize(
        lambda v: -log_likelihood(np.exp(v)),
        np.log(start),
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 4000},
    )
    return np.exp(found.x), -float(found.fun)
