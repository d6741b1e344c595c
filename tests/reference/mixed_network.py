"""Two nodes, the first continuous, by numerical integration: slow and plain.

The continuous node is cut into a fine grid of values, the other one too unless it jumps. Forward
and backward passes over the product take steps that are short enough for parents to be held.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm


def normal(value, mean, sd):
    return np.exp(-0.5 * ((value - mean) / sd) ** 2) / sd


def own_moves(values, drift, push, h):
    """(n, n) probabilities from each value to each after a step, given what else drives a node."""
    a = np.exp(-drift.decay * h)
    mean = a * values + (drift.baseline + push) * (1 - a) / drift.decay
    sd = drift.diffusion * np.sqrt((1 - a * a) / (2 * drift.decay))
    table = normal(values[None, :], mean[:, None], sd)
    return table / table.sum(axis=1, keepdims=True)


def smoothed(first, second, start, seen, h, n_steps):
    """(n_steps + 1, n, m) posterior of both nodes.

    ``first[j]`` (n, n) moves the first node while the second is j, ``second[i]`` (m, m) the second
    while the first is i; ``seen`` {step: (n, m) likelihood}.
    """

    def forward(p):
        # both move given where both were: p[i, j] first[j][i, k] second[i][j, l]
        return np.einsum("ij,jik,ijl->kl", p, first, second, optimize=True)

    def backward(p):
        return np.einsum("kl,jik,ijl->ij", p, first, second, optimize=True)

    ahead = [start * seen.get(0, 1.0)]
    for step in range(1, n_steps + 1):
        p = forward(ahead[-1]) * seen.get(step, 1.0)
        ahead.append(p / p.sum())
    behind = [np.ones_like(start)]
    for step in range(n_steps, 0, -1):
        p = backward(behind[-1] * seen.get(step, 1.0))
        behind.append(p / p.max())
    both = np.array(ahead) * np.array(behind[::-1])
    return both / both.sum(axis=(1, 2), keepdims=True)


def jump_moves(values, rates, slopes, h):
    """(n, S, S) transition probabilities of a jumping node at each value of its parent."""
    found = []
    for x in values:
        q = np.array(rates) * np.exp(np.array(slopes) * x)
        np.fill_diagonal(q, 0.0)
        found.append(expm((q - np.diag(q.sum(axis=1))) * h))
    return np.array(found)
