"""Plain likelihoods of trajectories that differ by a Gamma factor, and their maxima by scipy.

Complete paths have a closed form (Gamma and Poisson); panels are integrated by many Gauss–Legendre
points in the quantiles, with the transition probabilities of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import gamma

import asterism as am
from tests.reference.panel_likelihood import exponentials

RATES = np.array([0.8, 1.1])


class Data(NamedTuple):
    """A simulated study: visits, complete paths, and what the plain likelihoods need."""

    table: pd.DataFrame
    paths: pd.DataFrame
    panels: list[Any]
    counts: np.ndarray
    times: np.ndarray


def simulated(
    seed: int, spread: float, n: int = 50, duration: float = 5.0, rates: np.ndarray = RATES
) -> Data:
    """A node of two states whose rates have a factor of each trajectory."""
    rng = np.random.default_rng(seed)
    factor = rng.gamma(1.0 / spread**2, spread**2, n) if spread else np.ones(n)
    clock = np.linspace(0.0, duration, 8)
    table, paths, panels = [], [], []
    counts, times = np.zeros((n, 2)), np.zeros((n, 2))
    for d in range(n):
        t, x, entered = 0.0, 0, [(0.0, 0)]
        while True:
            wait = rng.exponential(1.0 / (factor[d] * rates[x]))
            times[d, x] += min(wait, duration - t)
            if t + wait > duration:
                break
            counts[d, x] += 1.0
            t, x = t + wait, 1 - x
            entered.append((t, x))
        at = np.searchsorted([time for time, _ in entered], clock, side="right") - 1
        states = np.array([entered[i][1] for i in at])
        panels.append((clock, states))
        table += [(d, time, s) for time, s in zip(clock, states)]
        paths += [(d, time, "B", s) for time, s in entered]
    return Data(
        pd.DataFrame(table, columns=["trajectory", "time", "B"]),
        pd.DataFrame(paths, columns=["trajectory", "time", "node", "state"]),
        panels,
        counts,
        times,
    )


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
    factor, weight = quantile_points(spread, n_points)
    values, vectors = np.linalg.eig(q)
    inverse = np.linalg.inv(vectors)
    chance: dict[float, np.ndarray] = {}  # (points, S, S) of every gap
    result = []
    for time, state in panels:
        total = np.ones(n_points)
        for gap, x, y in zip(np.diff(time).round(12), state[:-1], state[1:]):
            if gap not in chance:
                each = np.exp(np.outer(factor, values) * gap)
                chance[gap] = np.real(np.einsum("xk,pk,ky->pxy", vectors, each, inverse))
            total = total * chance[gap][:, x, y]
        result.append(np.log(weight @ total))
    return np.array(result)


def maximum(log_likelihood: Any, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Positive parameters that maximise a function of them, and its value."""
    found = minimize(
        lambda v: -log_likelihood(np.exp(v)),
        np.log(start),
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-8, "maxiter": 4000},
    )
    return np.exp(found.x), -float(found.fun)


def spread_intervals(seed: int, n_patients: int, spread: float = 0.6) -> pd.DataFrame:
    """The 95 % interval of the spread of a simulated panel, and whether it holds the truth."""
    obs = am.Observations.from_frame(simulated(seed, spread, n=n_patients).table)
    table = am.ParameterLearner({"B": []}, frailty="B").fit(obs).frailty_
    covered = (table["lower"] <= spread) & (spread <= table["upper"])
    return table.assign(panel=seed, kind="spread of factors", note="", covered=covered)


def quantile_points(spread: float, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors and their weights: Gauss–Legendre in p = 3v² − 2v³, fine at both ends."""
    p, weight = np.polynomial.legendre.leggauss(n_points)
    p, weight = 0.5 * (p + 1.0), 0.5 * weight
    p, weight = 3 * p**2 - 2 * p**3, weight * 6 * p * (1 - p)
    return gamma.ppf(p, 1.0 / spread**2, scale=spread**2), weight


def pair_log_likelihood(
    generator: Any, spreads: Any, counts: np.ndarray, gap: float, n_points: int = 30
) -> np.ndarray:
    """Per trajectory, given its first state, with two independent factors u and v.

    ``generator(u, v)`` is Q for factors (points,); all gaps between visits are equal, ``counts``
    (D, S, S) of the steps from one state seen to the next.
    """
    (u, weight_u), (v, weight_v) = (quantile_points(s, n_points) for s in spreads)
    u, v = (grid.ravel() for grid in np.meshgrid(u, v, indexing="ij"))
    weight = np.outer(weight_u, weight_v).ravel()
    chance = np.maximum(exponentials(generator(u, v) * gap), 1e-300)
    logs = np.einsum("dxy,pxy->dp", counts, np.log(chance))
    top = logs.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(logs - top) @ weight)
