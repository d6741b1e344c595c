"""Compiled forward–backward pass of one node alone: a hidden Markov model of its levels.

The chance of every move between two measurements is given, so the same pass serves levels that are
drawn anew and levels that are climbed step by step (``levels.py``, ``level_moves.py``).
"""

from __future__ import annotations

import numpy as np

from asterism.numerics._jit import kernel


@kernel
def level_pass(log_likelihood, moves, is_first, initial, posterior, pairs):
    """(n,) log likelihood of each row given those before; posteriors of levels and moves written.

    ``moves`` (n, S, S) is the chance of level b at row i after level a at row i − 1; rows with
    ``is_first`` begin a trajectory, at ``initial``. Written: ``posterior`` (n, S), and ``pairs``
    (n, S, S), the posterior of (a, b) divided by the chance of the move.
    """
    n, size = log_likelihood.shape
    forward = np.empty((n, size))
    likelihood = np.empty((n, size))
    scale = np.empty(n)
    by_row = np.empty(n)
    for i in range(n):
        top = log_likelihood[i, 0]
        for x in range(1, size):
            top = max(top, log_likelihood[i, x])
        norm = 0.0
        for x in range(size):
            likelihood[i, x] = np.exp(log_likelihood[i, x] - top)
            if is_first[i]:
                before = initial[x]
            else:
                before = 0.0
                for a in range(size):
                    before += forward[i - 1, a] * moves[i, a, x]
            forward[i, x] = before * likelihood[i, x]
            norm += forward[i, x]
        norm = max(norm, 1e-300)
        for x in range(size):
            forward[i, x] /= norm
        scale[i] = norm
        by_row[i] = np.log(norm) + top
    backward = np.ones(size)
    ahead = np.empty(size)
    for i in range(n - 1, -1, -1):
        for x in range(size):
            posterior[i, x] = forward[i, x] * backward[x]
            ahead[x] = likelihood[i, x] * backward[x] / scale[i]
        if is_first[i]:
            pairs[i] = 0.0
            backward[:] = 1.0
        else:
            for a in range(size):
                backward[a] = 0.0
                for x in range(size):
                    pairs[i, a, x] = forward[i - 1, a] * ahead[x]
                    backward[a] += moves[i, a, x] * ahead[x]
    return by_row
