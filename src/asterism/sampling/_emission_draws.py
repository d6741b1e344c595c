"""Compiled: draws the parameters of learned emissions, given the paths.

Conjugate draws, one node after the other:

* Gaussian: means ~ N(m, σ²/κ), σ² ~ inverse Gamma(a, b), with one σ for all states or one each;
* Poisson: means ~ Gamma(a, rate b);
* Categorical: rows ~ Dirichlet(1), entries that start at zero stay there.

A draw that puts the states in another order than at the start is refused and the old parameters
stay; drawing from the conditional restricted to one order is exactly that.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner
from asterism.sampling._variates import gamma, normal

GAUSSIAN_SHARED = 1
GAUSSIAN = 2
POISSON = 3
CATEGORICAL = 4

# columns of Emitted.prior
MEAN = 0
STRENGTH = 1
SHAPE = 2
SCALE = 3


@inner
def _gather(n, layout, seen, emitted, paths, totals):
    """Per state: number, sum and sum of squares of the values measured in it.

    For a categorical emission: the number of every label instead.
    """
    n_trajectories = len(layout.start)
    size = layout.n_states[n]
    n_labels = 0
    if emitted.kind[n] == CATEGORICAL:
        n_labels = (emitted.start[n + 1] - emitted.start[n]) // size
    for d in range(n_trajectories):
        pair = n * n_trajectories + d
        at = paths.slot[pair]
        last = at + paths.n_jumps[pair]
        state = paths.initial[pair]
        for i in range(seen.point_start[pair], seen.point_start[pair + 1]):
            while at < last and paths.time[at] <= seen.point_time[i]:
                state = np.int64(paths.state[at])
                at += 1
            if not emitted.is_read[i]:
                continue
            value = emitted.value[i]
            if n_labels > 0:
                totals[state * n_labels + int(value)] += 1.0
            else:
                totals[3 * state] += 1.0
                totals[3 * state + 1] += value
                totals[3 * state + 2] += value * value


@inner
def _propose(n, size, emitted, totals, stream, new):
    """Draw parameters of one node into ``new``; those without a free choice stay."""
    kind = emitted.kind[n]
    first = emitted.start[n]
    m, kappa = emitted.prior[n, MEAN], emitted.prior[n, STRENGTH]
    a, b = emitted.prior[n, SHAPE], emitted.prior[n, SCALE]
    if kind in (GAUSSIAN_SHARED, GAUSSIAN):
        shape, scale = a, b
        for x in range(size):
            if kind == GAUSSIAN:
                shape, scale = a, b
            count = totals[3 * x]
            if count > 0.0:
                mean = totals[3 * x + 1] / count
                squares = max(0.0, totals[3 * x + 2] - count * mean * mean)
                shape += 0.5 * count
                scale += 0.5 * (squares + kappa * count / (kappa + count) * (mean - m) ** 2)
            if kind == GAUSSIAN:
                new[size + x] = math.sqrt(scale / gamma(stream, shape))
        if kind == GAUSSIAN_SHARED:
            sigma = math.sqrt(scale / gamma(stream, shape))
            for x in range(size):
                new[size + x] = sigma
        for x in range(size):
            count = totals[3 * x]
            centre = (kappa * m + totals[3 * x + 1]) / (kappa + count)
            new[x] = centre + new[size + x] / math.sqrt(kappa + count) * normal(stream)
    elif kind == POISSON:
        for x in range(size):
            new[x] = gamma(stream, a + totals[3 * x + 1]) / (b + totals[3 * x])
    else:
        n_labels = (emitted.start[n + 1] - first) // size
        for x in range(size):
            total = 0.0
            n_free = 0
            for r in range(n_labels):
                i = x * n_labels + r
                new[i] = 0.0
                if emitted.parameter[first + i] > 0.0:
                    new[i] = gamma(stream, 1.0 + totals[i])
                    total += new[i]
                    n_free += 1
            for r in range(n_labels):
                new[x * n_labels + r] /= total


@inner
def _keeps_order(n, size, layout, emitted, new):
    at = layout.state_start[n]
    if emitted.order[at] < 0:
        return True
    if emitted.kind[n] == CATEGORICAL:
        # each state remains the likeliest source of its own label
        n_labels = (emitted.start[n + 1] - emitted.start[n]) // size
        for x in range(size):
            for other in range(size):
                if other != x and new[other * n_labels + x] > new[x * n_labels + x]:
                    return False
        return True
    for k in range(size - 1):
        if new[emitted.order[at + k]] > new[emitted.order[at + k + 1]]:
            return False
    return True


@inner
def _write_likelihoods(n, layout, seen, emitted):
    n_trajectories = len(layout.start)
    size = layout.n_states[n]
    first = emitted.start[n]
    kind = emitted.kind[n]
    n_labels = (emitted.start[n + 1] - first) // size
    for d in range(n_trajectories):
        pair = n * n_trajectories + d
        for i in range(seen.point_start[pair], seen.point_start[pair + 1]):
            if not emitted.is_read[i]:
                continue
            at = seen.point_offset[i]
            for x in range(size):
                if kind == POISSON:
                    mean = emitted.parameter[first + x]
                    log = emitted.value[i] * math.log(mean) - mean
                elif kind == CATEGORICAL:
                    share = emitted.parameter[first + x * n_labels + int(emitted.value[i])]
                    log = math.log(share) if share > 0.0 else -math.inf
                else:
                    sigma = emitted.parameter[first + size + x]
                    z = (emitted.value[i] - emitted.parameter[first + x]) / sigma
                    log = -0.5 * z * z - math.log(sigma)
                seen.log_likelihood[at + x] = log


@inner
def draw_emission(n, layout, seen, emitted, paths, stream, totals, new):
    """Draw the parameters of one node and write the likelihoods of its measurements."""
    size = layout.n_states[n]
    totals[:] = 0.0
    _gather(n, layout, seen, emitted, paths, totals)
    _propose(n, size, emitted, totals, stream, new)
    if _keeps_order(n, size, layout, emitted, new):
        for i in range(emitted.start[n + 1] - emitted.start[n]):
            emitted.parameter[emitted.start[n] + i] = new[i]
        _write_likelihoods(n, layout, seen, emitted)
