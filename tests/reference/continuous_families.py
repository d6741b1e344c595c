"""The evidence of parents of a continuous node by dense Gaussian integration, slow and plain.

Nothing is whitened and nothing is updated: covariance matrices are written out, weights and stimuli
enter them as what they are, normal variables, the intercept is a flat Gaussian integral, and σ² is
integrated numerically.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from scipy.integrate import quad


def ou_covariance(times, lam):
    """Stationary covariance of an OU process with σ = 1."""
    return np.exp(-lam * np.abs(times[:, None] - times[None, :])) / (2.0 * lam)


def course(times, measured, values, lam, kappa, level):
    """Means at all times of one trajectory: given the past where measured, else given all."""
    out = np.empty(len(times))
    covariance = ou_covariance(times, lam)
    for i in range(len(times)):
        known = measured & (times <= times[i]) if measured[i] else measured
        if not known.any():
            out[i] = level
            continue
        own = covariance[np.ix_(known, known)] + kappa * np.eye(known.sum())
        pull = np.linalg.pinv(own, hermitian=True) @ (values[known] - level)
        out[i] = level + covariance[i, known] @ pull
    return out


def regressor(lam, start, stop, grid, path):
    """∫ e^(−λ (stop − s)) path(s) ds, the path held from one time of the grid to the next."""
    total = 0.0
    for left, right, height in zip(grid[:-1], grid[1:], path[:-1]):
        a, b = max(left, start), min(right, stop)
        if b > a:
            total += height * quad(lambda s: np.exp(-lam * (stop - s)), a, b)[0]
    return total


def on_integral(lam, start, stop, on, off):
    a, b = max(start, on), min(stop, off)
    return quad(lambda s: np.exp(-lam * (stop - s)), a, b)[0] if b > a else 0.0


def gap_covariance(lam, kappa, measurements):
    """Covariance of y_b − a y_a over all gaps of all trajectories, for σ = 1.

    ``measurements`` holds one array of times per trajectory.
    """
    blocks = []
    for times in measurements:
        a = np.exp(-lam * np.diff(times))
        n = len(a)
        take = np.zeros((n, n + 1))
        for i in range(n):
            take[i, i], take[i, i + 1] = -a[i], 1.0
        noise = kappa * take @ take.T
        blocks.append(noise + np.diag((1.0 - a**2) / (2.0 * lam)))
    size = sum(len(b) for b in blocks)
    whole = np.zeros((size, size))
    at = 0
    for b in blocks:
        whole[at : at + len(b), at : at + len(b)] = b
        at += len(b)
    return whole


def log_evidence(response, intercept, columns, covariance, g):
    """ln ∫∫ p(response | c, w, σ²) p(w | σ²) dw dc dσ²/σ²."""
    inverse = np.linalg.inv(covariance)
    whole = covariance.copy()
    if columns.shape[1]:
        b = intercept[:, None]
        centred = columns - b @ (b.T @ inverse @ columns) / (b.T @ inverse @ b)
        information = centred.T @ inverse @ centred
        whole = whole + g * centred @ np.linalg.inv(information) @ centred.T
    inverse = np.linalg.inv(whole)
    n = len(response)
    centre = (intercept @ inverse @ response) / (intercept @ inverse @ intercept)
    rest = response - centre * intercept
    square = rest @ inverse @ rest
    _, log_det = np.linalg.slogdet(whole)
    information = intercept @ inverse @ intercept

    def log_density(log_variance):
        v = np.exp(log_variance)
        gauss = -0.5 * (n * np.log(2 * np.pi * v) + log_det + square / v)
        return gauss + 0.5 * np.log(2 * np.pi * v / information)

    centre = np.log(square / n)
    top = log_density(centre)
    area = quad(lambda s: np.exp(log_density(s) - top), centre - 12, centre + 30, limit=400)[0]
    return top + np.log(area)


def constant_of(n_rows):
    """What scores leave out: the same for all families and all values of the grids."""
    from scipy.special import gammaln

    nu = n_rows - 1
    return gammaln(nu / 2) - 0.5 * nu * np.log(np.pi)


def family_score(measurements, values, grids, paths, spans, family, settings):
    """ln of the mean evidence of one family over all grids.

    ``measurements[d]``, ``values[d]``: times and values of the child; ``grids[d]``: common times;
    ``paths[m][d]`` a list of columns (linear ones, all) of parent m on that grid;
    ``spans[k][d]``: (on, off) of stimulus k.
    """
    decays, noises, strengths, gs = settings
    logs = []
    for lam, kappa in product(decays, noises):
        gaps = [(d, a, b) for d, times in enumerate(measurements) for a, b in pairwise(times)]
        response = np.concatenate(
            [v[1:] - np.exp(-lam * np.diff(t)) * v[:-1] for t, v in zip(measurements, values)]
        )
        intercept = np.array([on_integral(lam, a, b, a, b) for _, a, b in gaps])
        base = gap_covariance(lam, kappa, measurements)
        kinds = [
            [column for m in family for column in paths[m][which]] for which in ("linear", "all")
        ]
        designs = [
            np.array(
                [[regressor(lam, a, b, grids[d], column[d]) for column in kind] for d, a, b in gaps]
            ).reshape(len(gaps), len(kind))
            for kind in kinds
        ]
        for rho in product(strengths, repeat=len(spans)):
            covariance = base.copy()
            for k, size in enumerate(rho):
                for d in range(len(measurements)):
                    hit = np.array(
                        [
                            on_integral(lam, a, b, *spans[k][d]) if e == d else 0.0
                            for e, a, b in gaps
                        ]
                    )
                    covariance += size * np.outer(hit, hit)
            for g, design in product(gs, designs):
                logs.append(log_evidence(response, intercept, design, covariance, g))
    logs = np.array(logs)
    return np.logaddexp.reduce(logs) - np.log(len(logs)) - constant_of(len(response))
