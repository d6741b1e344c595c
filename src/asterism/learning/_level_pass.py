"""Compiled forward–backward pass of one node alone, and EM: a hidden Markov model of its levels.

The pass takes the chance of every move within each length of gap, so that it serves all kinds of
moves. EM is for levels with normal, Student's t or Poisson noise, drawn anew or climbed step by
step (``levels.py``, ``level_moves.py``; tests/reference has a slow version).
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel


@kernel
def level_pass(log_likelihood, moves, which, is_first, initial, posterior, pairs):
    """(n,) log likelihood of each row given those before; posteriors of levels and moves written.

    ``moves[which[i]]`` (S, S) is the chance of level b at row i after level a at row i − 1; rows
    with ``is_first`` begin a trajectory, at ``initial``. Written: ``posterior`` (n, S), and
    ``pairs``, like ``moves``: the posterior of (a, b), summed over the rows with these moves and
    divided by the chance of the move.
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
            likelihood[i, x] = math.exp(log_likelihood[i, x] - top)
            before = initial[x]
            if not is_first[i]:
                before = 0.0
                for a in range(size):
                    before += forward[i - 1, a] * moves[which[i], a, x]
            forward[i, x] = before * likelihood[i, x]
            norm += forward[i, x]
        norm = max(norm, 1e-300)
        for x in range(size):
            forward[i, x] /= norm
        scale[i] = norm
        by_row[i] = math.log(norm) + top
    pairs[:] = 0.0
    backward = np.ones(size)
    ahead = np.empty(size)
    for i in range(n - 1, -1, -1):
        for x in range(size):
            posterior[i, x] = forward[i, x] * backward[x]
            ahead[x] = likelihood[i, x] * backward[x] / scale[i]
        if is_first[i]:
            backward[:] = 1.0
            continue
        for a in range(size):
            backward[a] = 0.0
            for x in range(size):
                pairs[which[i], a, x] += forward[i - 1, a] * ahead[x]
                backward[a] += moves[which[i], a, x] * ahead[x]
    return by_row


#: stands in the place of Student's degrees of freedom: normal noise, and counts
NORMAL, COUNTS = 0.0, -1.0


@inner
def _density(y, mean, scale, df):
    """ln density of a value; ``df`` are Student's degrees of freedom, or the kind of noise."""
    if df == COUNTS:
        return (y * math.log(mean) if y > 0.0 else 0.0) - mean - math.lgamma(y + 1.0)
    z = (y - mean) / scale
    if df == NORMAL:
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
def _moves_within(gaps, group, initial, rates, redrawn, longest):
    """Chances of moves (U, S, S) within every gap; and what :func:`_step_chances` says of steps."""
    size = initial.shape[1]
    moves = np.zeros((len(gaps), size, size))
    speed, chances, powers = 0.0, np.empty((1, 1)), np.empty((1, 1, 1))
    if not redrawn:
        speed, chances, powers = _step_chances(gaps, rates[0], rates[1], longest)
    for u in range(len(gaps)):
        if redrawn:
            stay = math.exp(-rates[group[u], 0] * gaps[u])
            for a in range(size):
                for b in range(size):
                    moves[u, a, b] = (1.0 - stay) * initial[group[u], b]
                moves[u, a, a] += stay
            continue
        for m in range(len(powers)):
            for a in range(size):
                for b in range(size):
                    moves[u, a, b] += chances[u, m] * powers[m, a, b]
    return moves, speed, chances, powers


@kernel
def moves_within(gaps, group, initial, rates, redrawn, longest):
    """The same for Python to call, chances only."""
    return _moves_within(gaps, group, initial, rates, redrawn, longest)[0]


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


@inner(allocates=True)
def _improved_redraws(gaps, which, group, pairs, begun, first, initial, rates, found):
    """One EM step of levels that are drawn anew, in each group of gaps by itself.

    Trajectories begin in the group ``first``, in the levels ``begun``.
    """
    size = initial.shape[1]
    for g in range(len(initial)):
        weights, rate = np.zeros(size), rates[g, 0]
        redraws, drawn, exposure = 0.0, 0.0, 0.0
        for u in range(len(gaps)):
            if group[u] != g:
                continue
            own = 0.0
            leave = -math.expm1(-rate * gaps[u])
            for x in range(size):
                moved = pairs[u, :, x].sum() * leave * initial[g, x]
                weights[x] += moved
                own += moved
            redraws += own
            if gaps[u] > 0.0:
                # a gap with a redraw had on average so many of them
                drawn += own * rate * gaps[u] / leave
        if g == first:
            weights += begun
            redraws += begun.sum()
        for i in range(len(which)):
            if group[which[i]] == g:
                exposure += gaps[which[i]]
        for x in range(size):
            initial[g, x] = max(weights[x], 1e-6)
        initial[g] /= initial[g].sum()
        if exposure > 0.0:
            rates[g, 0] = min(max(drawn / exposure, 1e-3), 1e3)
        found[g, 0] = redraws


@inner(allocates=True)
def _improved_levels(values, posterior, means, scale, shared, df, least_share, smallest):
    """One EM step of means and scales, in place; outliers of heavy tails weigh less."""
    size = len(means)
    squares, weight = np.zeros(size), np.zeros(size)
    heavy = np.empty(len(values))
    for x in range(size):
        sum_w, sum_y = 0.0, 0.0
        for i in range(len(values)):
            heavy[i] = posterior[i, x]
            if df > 0.0:
                z = (values[i] - means[x]) / scale[x]
                heavy[i] *= (df + 1.0) / (df + z * z)
            sum_w += heavy[i]
            sum_y += heavy[i] * values[i]
        if sum_w > 0.0:
            means[x] = sum_y / sum_w
        for i in range(len(values)):
            squares[x] += heavy[i] * (values[i] - means[x]) ** 2
            weight[x] += posterior[i, x]
    if df == COUNTS:  # a mean of exactly zero would forbid every later count
        for x in range(size):
            means[x] = max(means[x], smallest)
    elif smallest > 0.0:
        apart = least_share * (means.max() - means.min())
        if shared:
            scale[:] = max(math.sqrt(squares.sum() / weight.sum()), smallest, apart)
            return
        for x in range(size):
            if weight[x] > 0.0:
                scale[x] = math.sqrt(squares[x] / weight[x])
            scale[x] = max(scale[x], smallest, apart)


@kernel
def climb_levels(
    values, gaps, which, group, is_first, means, scale, shared, df, learn, initial, rates, redrawn,
    max_steps, few_steps, tolerance, least_share, bounds, stop, found,
):  # fmt: skip
    """EM of the levels of one node (``levels.climb``): ln likelihood, and weights of levels.

    ``gaps[which[i]]`` is the gap before row i; gaps of different ``group`` have moves of their own.
    ``means``, ``scale`` (one per level), ``initial`` (one row per group) and ``rates`` are changed;
    ``found`` is what the moves remember of the last step. With ``redrawn`` levels are drawn anew
    from ``initial`` at rate ``rates[g, 0]``, else climbed. ``bounds``: the longest gap in steps,
    the slowest and the fastest step, the smallest scale, or mean of counts.
    """
    n, size = len(values), len(means)
    logs, posterior = np.empty((n, size)), np.empty((n, size))
    pairs = np.empty((len(gaps), size, size))
    first = group[which[0]]
    before = total = -np.inf
    for step in range(max_steps):
        if step >= few_steps and stop[0]:
            break
        moves, speed, chances, powers = _moves_within(
            gaps, group, initial, rates, redrawn, bounds[0]
        )
        for i in range(n):
            for x in range(size):
                logs[i, x] = _density(values[i], means[x], scale[x], df)
        total = level_pass(logs, moves, which, is_first, initial[first], posterior, pairs).sum()
        if total - before < tolerance * (1.0 + abs(total) * 1e-3):
            break
        before = total
        begun = np.zeros(size)
        for i in range(n):
            if is_first[i]:
                begun += posterior[i]
        if redrawn:
            _improved_redraws(gaps, which, group, pairs, begun, first, initial, rates, found)
        else:
            _improved_steps(speed, chances, powers, pairs, bounds[1], bounds[2], rates, found)
            initial[0] = (begun + 0.5) / (begun + 0.5).sum()
        if learn:
            _improved_levels(values, posterior, means, scale, shared, df, least_share, bounds[3])
    levels = np.zeros(size)
    for i in range(n):
        levels += posterior[i]
    return total, levels
