"""Compiled forward–backward pass of one node whose levels are sticky.

Between two measurements the level stays with probability e^(−gap/τ) and is otherwise drawn anew
from its long-run distribution. This hidden Markov model costs O(n·S) per pass and has one parameter
more than a mixture, so it can be fitted to every node for every number of levels.
"""

from __future__ import annotations

import numpy as np

from asterism.numerics._jit import kernel


@kernel
def sticky_pass(log_likelihood, stay, is_first, weights, posterior):
    """One pass forward and back: how likely the levels make the rows, and when levels were redrawn.

    ``stay`` (n,) is the probability of no redraw before row i; rows with ``is_first`` begin a
    trajectory. ``posterior`` (n, S) is written. Returns the log likelihood, (n,) the chance of a
    redraw before each row, and (S,) the expected redraws into each level.
    """
    n, size = log_likelihood.shape
    forward = np.empty((n, size))
    redrawn = np.empty((n, size))
    likelihood = np.empty((n, size))
    scale = np.empty(n)
    total = 0.0
    for i in range(n):
        top = log_likelihood[i, 0]
        for x in range(1, size):
            top = max(top, log_likelihood[i, x])
        for x in range(size):
            likelihood[i, x] = np.exp(log_likelihood[i, x] - top)
        keep = 0.0 if is_first[i] else stay[i]
        norm = 0.0
        for x in range(size):
            fresh = (1.0 - keep) * weights[x]
            before = fresh
            if keep > 0.0:
                before += keep * forward[i - 1, x]
            redrawn[i, x] = fresh
            forward[i, x] = before * likelihood[i, x]
            norm += forward[i, x]
        norm = max(norm, 1e-300)
        for x in range(size):
            forward[i, x] /= norm
        scale[i] = norm
        total += np.log(norm) + top
    redraws = np.zeros(n)
    into = np.zeros(size)
    backward = np.ones(size)
    for i in range(n - 1, -1, -1):
        for x in range(size):
            posterior[i, x] = forward[i, x] * backward[x]
            share = redrawn[i, x] * likelihood[i, x] / scale[i] * backward[x]
            redraws[i] += share
            into[x] += share
        if i > 0:
            keep = 0.0 if is_first[i] else stay[i]
            if is_first[i]:
                backward[:] = 1.0
            else:
                common = 0.0
                for x in range(size):
                    common += weights[x] * likelihood[i, x] * backward[x]
                for x in range(size):
                    own = keep * likelihood[i, x] * backward[x]
                    backward[x] = (own + (1.0 - keep) * common) / scale[i]
    return total, redraws, into
