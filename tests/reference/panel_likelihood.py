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
        q[x, y] = np.exp(np.clip(a + b @ z, -30.0, 5.0))
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


class Steps:
    """All steps from one visit to the next, as arrays, so that a maximum is found in seconds.

    P(t) comes from Taylor's series, all matrices at once; ``log_likelihood`` above, with scipy's
    matrix exponential, must give the same number.
    """

    def __init__(self, visits, pairs, n_states, exact_death=None):
        rows = [
            (t[k + 1] - t[k], x[k], x[k + 1], *z[k])
            for t, x, z in visits
            for k in range(len(t) - 1)
        ]
        table = np.array(rows, dtype=float)
        self.gap = table[:, 0]
        self.before, self.after = table[:, 1].astype(int), table[:, 2].astype(int)
        self.z, self.which = np.unique(table[:, 3:], axis=0, return_inverse=True)
        self.which = np.ravel(self.which)
        self.pairs, self.n_states = pairs, n_states
        self.dies = np.zeros(len(table), bool) if exact_death is None else self.after == exact_death
        self.exact_death = exact_death

    def value(self, log_base, effects):
        """ln P of all visits given each patient's first."""
        q = np.array([
            generator(log_base, effects, z, self.pairs, self.n_states) for z in self.z
        ])  # fmt: skip
        p = exponentials(q[self.which] * self.gap[:, None, None])[
            np.arange(len(self.gap)), self.before
        ]
        found = p[np.arange(len(p)), self.after]
        if self.exact_death is not None:
            into = q[:, :, self.exact_death].copy()
            into[:, self.exact_death] = 0.0
            found = np.where(self.dies, np.sum(p * into[self.which], axis=1), found)
        return float(np.log(np.maximum(found, 1e-300)).sum())


def exponentials(matrices):
    """exp of a stack of matrices: halve until small, Taylor's series, square again."""
    size = np.abs(matrices).sum(axis=-1).max()
    halvings = max(0, int(np.ceil(np.log2(size / 0.25))))
    small = matrices / 2.0**halvings
    result, term = np.eye(matrices.shape[-1]) + small, small
    for k in range(2, 14):
        term = term @ small / k
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return result


def maximum(value, start):
    """The largest value of a function, and where it is; scipy alone, from a distant start."""
    found = minimize(lambda v: -value(v), start, method="BFGS", options={"gtol": 1e-3})
    for _ in range(3):
        found = minimize(lambda v: -value(v), found.x, method="BFGS", options={"gtol": 1e-5})
    return -found.fun, found.x


def standard_errors(value, at, step=1e-3):
    """Square roots of the diagonal of the inverse information."""
    return np.sqrt(np.diag(np.linalg.inv(hessian(value, at, step))))


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


def typed_log_likelihood(visits, q):
    """ln P given the first row of each patient; ``visits``: (times, states, types) per patient.

    Type 1 is a visit, 2 an exact transition with no change before it, 3 an exact entry.
    """
    total = 0.0
    for times, states, types in visits:
        for k in range(1, len(times)):
            gap, x, y = times[k] - times[k - 1], states[k - 1], states[k]
            if types[k] == 1:
                total += np.log(expm(q * gap)[x, y])
            elif types[k] == 2:
                total += q[x, x] * gap + (np.log(q[x, y]) if x != y else 0.0)
            else:
                into = np.where(np.arange(len(q)) == y, 0.0, q[:, y])
                total += np.log(expm(q * gap)[x] @ into)
    return total
