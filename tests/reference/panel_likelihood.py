"""The likelihood of a panel with covariates, written as plainly as possible, and its maximum.

One chain per patient, states seen without error at visits; a death may be timed exactly. The
covariates of a visit hold until the next one. Rates are exp(a + b·z). Nothing here is shared with
the package: scipy's matrix exponential and scipy's optimiser, with numerical derivatives.
"""

import numpy as np
from scipy.linalg import expm
from scipy.optimize import minimize


def generator(log_base, effects, z, pairs, n_states):
    """Q at covariates z; ``effects`` is (transitions, covariates)."""
    q = np.zeros((n_states, n_states))
    for (x, y), a, b in zip(pairs, log_base, effects):
        q[x, y] = np.exp(np.clip(a + b @ z, -30.0, 10.0))
    np.fill_diagonal(q, -q.sum(axis=1))
    return q


def log_likelihood(visits, log_base, effects, pairs, n_states, exact_death=None):
    """ln P of all visits given each patient's first; ``visits``: (times, states, z) per patient."""
    total = 0.0
    known = {}
    for times, states, z in visits:
        for k in range(len(times) - 1):
            key = tuple(z[k])
            if key not in known:
                known[key] = generator(log_base, effects, np.asarray(z[k]), pairs, n_states)
            q = known[key]
            p = expm(q * (times[k + 1] - times[k]))[states[k]]
            if states[k + 1] == exact_death:
                into = np.where(np.arange(n_states) == exact_death, 0.0, q[:, exact_death])
                total += np.log(max(p @ into, 1e-300))
            else:
                total += np.log(max(p[states[k + 1]], 1e-300))
    return total


def maximum(value, start):
    """The largest value of a function, where it is, and the covariance there."""
    found = minimize(lambda v: -value(v), start, method="BFGS", options={"gtol": 1e-4})
    found = minimize(lambda v: -value(v), found.x, method="BFGS", options={"gtol": 1e-5})
    return -found.fun, found.x


def hessian(value, at, step=1e-3):
    """Minus the second derivatives, by central differences of the value itself."""
    n = len(at)
    result = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            ends = 0.0
            for a, b, sign in ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)):
                moved = np.array(at, dtype=float)
                moved[i] += a * step
                moved[j] += b * step
                ends += sign * value(moved)
            result[i, j] = result[j, i] = -ends / (4 * step**2)
    return result
