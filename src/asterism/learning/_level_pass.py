"""Compiled forward–backward pass of one node alone, and EM: a hidden Markov model of its levels.

The pass takes the chance of every move between two measurements, so that it serves all kinds of
moves. EM of levels with normal or Student's t noise, drawn anew or climbed step by step, is
compiled as a whole (``levels.py``, ``level_moves.py``).
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel


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


@inner
def _density(y, mean, scale, df):
    """ln density of a value: normal, or Student's t with ``df`` degrees of freedom if positive."""
    z = (y - mean) / scale
    if df <= 0.0:
        return -0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - math.log(scale)
    half = 0.5 * (df + 1.0)
    constant = math.lgamma(half) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    return constant - 2.0 * half * math.log(math.hypot(1.0, z / math.sqrt(df))) - math.log(scale)


@inner(allocates=True)
def _step_chances(gaps, up, down, longest):
    """The speed of steps; chances of m steps in every gap; where m steps lead."""
    size = len(up) + 1
    step = np.zeros((size, size))
    for i in range(size - 1):
        step[i, i + 1], step[i + 1, i] = up[i], down[i]
    speed = 0.0
    for i in range(size):
        speed = max(speed, 1.2 * step[i].sum())
    step /= speed
    for i in range(size):
        step[i, i] = 1.0 - step[i].sum()
    largest = min(speed * gaps.max(), longest)
    most = int(largest + 6.0 * math.sqrt(largest) + 8.0)
    chances = np.empty((len(gaps), most))
    powers = np.zeros((most, size, size))
    powers[0] = np.eye(size)
    for u in range(len(gaps)):
        mean = min(speed * gaps[u], longest)
        chances[u, 0] = math.exp(-mean)
        for m in range(1, most):
            chances[u, m] = chances[u, m - 1] * mean / m
    for m in range(1, most):
        for a in range(size):
            for c in range(size):
                for b in range(size):
                    powers[m, a, b] += powers[m - 1, a, c] * step[c, b]
    return speed, chances, powers


@inner(allocates=True)
def _improved_steps(speed, chances, powers, pairs, slowest, fastest, rates, found):
    """One EM step over the steps, those that stay included (``Stepwise.improved``)."""
    most, size = powers.shape[0], powers.shape[1]
    after, total = np.zeros((size, size)), np.zeros((size, size))
    for m in range(most - 1, 0, -1):
        moved = after @ np.ascontiguousarray(powers[1].T)
        for u in range(len(pairs)):
            moved += chances[u, m] * pairs[u]
        after = moved
        total = after + np.ascontiguousarray(powers[1].T) @ total
    steps = powers[1] * total
    for i in range(size):
        found[2, i] = max(steps[i].sum(), 1e-9) / speed
    for i in range(size - 1):
        for way in range(2):
            climbs = steps[i, i + 1] if way == 0 else steps[i + 1, i]
            made = found[2, i + way] * speed
            found[way, i] = climbs
            rate = speed * (climbs + 0.05) / (made + 0.1)
            rates[way, i] = min(max(rate, slowest), fastest)


@kernel
def climb_levels(
    values, gaps, which, is_first, means, scale, shared, df, learn, initial, rates, redrawn,
    max_steps, few_steps, tolerance, least_share, bounds, stop, found,
):  # fmt: skip
    """EM of the levels of one node (``levels.climb``): ln likelihood, redraws, weights of levels.

    ``gaps[which[i]]`` is the gap before row i. ``means``, ``scale`` (one per level), ``initial``
    and ``rates`` are changed; ``found`` is what ``Stepwise`` remembers of its last step. With
    ``redrawn`` levels are drawn anew from ``initial`` at rate ``rates[0, 0]``, else climbed.
    ``bounds``: the longest gap in steps, the slowest and the fastest step, the smallest scale.
    """
    n, size, n_gaps = len(values), len(means), len(gaps)
    likelihood, forward, posterior = np.empty((n, size)), np.empty((n, size)), np.empty((n, size))
    norms, heavy = np.empty(n), np.empty((n, size))
    moves, pairs = np.empty((n_gaps, size, size)), np.empty((n_gaps, size, size))
    backward, ahead, redraws = np.empty(size), np.empty(size), 0.0
    speed, chances, powers = 0.0, np.empty((1, 1)), np.empty((1, 1, 1))
    before = total = -np.inf
    for step in range(max_steps):
        if step >= few_steps and stop[0]:
            break
        # chances of moves
        if redrawn:
            for u in range(n_gaps):
                stay = math.exp(-rates[0, 0] * gaps[u])
                for a in range(size):
                    for b in range(size):
                        moves[u, a, b] = (1.0 - stay) * initial[b]
                    moves[u, a, a] += stay
        else:
            speed, chances, powers = _step_chances(gaps, rates[0], rates[1], bounds[0])
            moves[:] = 0.0
            for u in range(n_gaps):
                for m in range(len(powers)):
                    for a in range(size):
                        for b in range(size):
                            moves[u, a, b] += chances[u, m] * powers[m, a, b]
        # forwards
        total = 0.0
        for i in range(n):
            top = -np.inf
            for x in range(size):
                likelihood[i, x] = _density(values[i], means[x], scale[x], df)
                top = max(top, likelihood[i, x])
            norm = 0.0
            for x in range(size):
                likelihood[i, x] = math.exp(likelihood[i, x] - top)
                chance = initial[x]
                if not is_first[i]:
                    chance = 0.0
                    for a in range(size):
                        chance += forward[i - 1, a] * moves[which[i], a, x]
                forward[i, x] = chance * likelihood[i, x]
                norm += forward[i, x]
            norm = max(norm, 1e-300)
            for x in range(size):
                forward[i, x] /= norm
            norms[i] = norm
            total += math.log(norm) + top
        # backwards
        pairs[:] = 0.0
        backward[:] = 1.0
        for i in range(n - 1, -1, -1):
            for x in range(size):
                posterior[i, x] = forward[i, x] * backward[x]
                ahead[x] = likelihood[i, x] * backward[x] / norms[i]
            if is_first[i]:
                backward[:] = 1.0
                continue
            u = which[i]
            for a in range(size):
                backward[a] = 0.0
                for x in range(size):
                    pairs[u, a, x] += forward[i - 1, a] * ahead[x]
                    backward[a] += moves[u, a, x] * ahead[x]
        if total - before < tolerance * (1.0 + abs(total) * 1e-3):
            break
        before = total
        # better moves
        begun = np.zeros(size)
        for i in range(n):
            if is_first[i]:
                begun += posterior[i]
        if redrawn:
            weights, rate, redraws, drawn, exposure = begun.copy(), rates[0, 0], 0.0, 0.0, 0.0
            for u in range(n_gaps):
                own = 0.0
                leave = -math.expm1(-rate * gaps[u])
                for x in range(size):
                    moved = pairs[u, :, x].sum() * leave * initial[x]
                    weights[x] += moved
                    own += moved
                redraws += own
                if gaps[u] > 0.0:
                    # a gap with a redraw had on average so many of them
                    drawn += own * rate * gaps[u] / leave
            redraws += begun.sum()
            for i in range(n):
                exposure += gaps[which[i]]
            for x in range(size):
                initial[x] = max(weights[x], 1e-6)
            initial /= initial.sum()
            if exposure > 0.0:
                rates[0, 0] = min(max(drawn / exposure, 1e-3), 1e3)
        else:
            _improved_steps(speed, chances, powers, pairs, bounds[1], bounds[2], rates, found)
            initial[:] = (begun + 0.5) / (begun + 0.5).sum()
        if not learn:
            continue
        # better levels; outliers of heavy tails weigh less
        squares, weight = np.zeros(size), np.zeros(size)
        for x in range(size):
            sum_w, sum_y = 0.0, 0.0
            for i in range(n):
                heavy[i, x] = posterior[i, x]
                if df > 0.0:
                    z = (values[i] - means[x]) / scale[x]
                    heavy[i, x] *= (df + 1.0) / (df + z * z)
                sum_w += heavy[i, x]
                sum_y += heavy[i, x] * values[i]
            if sum_w > 0.0:
                means[x] = sum_y / sum_w
            for i in range(n):
                squares[x] += heavy[i, x] * (values[i] - means[x]) ** 2
                weight[x] += posterior[i, x]
        if bounds[3] > 0.0:
            apart = least_share * (means.max() - means.min())
            if shared:
                scale[:] = max(math.sqrt(squares.sum() / weight.sum()), bounds[3], apart)
            else:
                for x in range(size):
                    if weight[x] > 0.0:
                        scale[x] = math.sqrt(squares[x] / weight[x])
                    scale[x] = max(scale[x], bounds[3], apart)
    levels = np.zeros(size)
    for i in range(n):
        levels += posterior[i]
    return total, redraws, levels
