"""The likelihood of noisy visits to a hidden chain, written as plainly as possible.

One chain per patient; each visit has a vector of log-likelihoods, one per state. Nothing here is
shared with the package.
"""

import numpy as np
from scipy.linalg import expm

from tests.reference.panel_likelihood import exponentials


def log_likelihood(q, start, times, logs):
    """ln P of one patient's visits, by the forward recursion; rates are ``q`` throughout."""
    p, total = np.asarray(start, dtype=float), 0.0
    for k, here in enumerate(logs):
        if k:
            p = p @ expm(q * (times[k] - times[k - 1]))
        p = p * np.exp(here)
        total += np.log(p.sum())
        p = p / p.sum()
    return total


def log_likelihoods(q, start, times, logs):
    """The same for patients with equally many visits, all at once: (D, V) times, (D, V, S) logs.

    ``log_likelihood``, one patient at a time, must give the same numbers.
    """
    p, total = np.broadcast_to(np.asarray(start, dtype=float), logs[:, 0].shape), 0.0
    for k in range(logs.shape[1]):
        if k:
            gap = (times[:, k] - times[:, k - 1])[:, None, None]
            p = np.einsum("dx,dxy->dy", p, exponentials(q * gap))
        p = p * np.exp(logs[:, k])
        total = total + np.log(p.sum(axis=1))
        p = p / p.sum(axis=1, keepdims=True)
    return total


def newton(value, at, step=1e-3):
    """One Newton step from ``at`` by differences of the value: the gain, where it leads, errors."""
    n = len(at)
    unit = np.eye(n)
    slope = np.array([(value(at + step * e) - value(at - step * e)) / (2 * step) for e in unit])
    hessian = np.empty((n, n))
    middle = value(at)
    for i in range(n):
        for j in range(i + 1):
            if i == j:
                ends = value(at + step * unit[i]) + value(at - step * unit[i]) - 2 * middle
            else:
                ends = sum(
                    a * b * value(at + step * (a * unit[i] + b * unit[j])) / 4
                    for a in (1, -1)
                    for b in (1, -1)
                )
            hessian[i, j] = hessian[j, i] = -ends / step**2
    move = np.linalg.solve(hessian, slope)
    return 0.5 * float(slope @ move), at + move, np.sqrt(np.diag(np.linalg.inv(hessian)))
