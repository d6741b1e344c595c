"""Compiled forward–backward pass of one node alone, and EM: a hidden Markov model of its levels.

The pass takes the chance of every move within each length of gap, so that it serves all kinds of
moves. EM is for levels with normal, Student's t or Poisson noise, drawn anew or climbed step by
step (``levels.py``, ``level_moves.py``; tests/reference has a slow version).

All is spelled out number by number. Sums, products and copies of whole arrays took numba three
times as long to compile, and the first run waits for that.
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
    for u in range(len(moves)):
        for a in range(size):
            for x in range(size):
                pairs[u, a, x] = 0.0
    backward = np.empty(size)
    ahead = np.empty(size)
    for x in range(size):
        backward[x] = 1.0
    for i in range(n - 1, -1, -1):
        for x in range(size):
            posterior[i, x] = forward[i, x] * backward[x]
            ahead[x] = likelihood[i, x] * backward[x] / scale[i]
        for a in range(size):
            backward[a] = 1.0 if is_first[i] else 0.0
            if is_first[i]:
                continue
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


@kernel
def moves_within(gaps, group, initial, rates, redrawn, longest, moves, chances, powers):
    """Chances of moves within every gap, written to ``moves`` (U, S, S).

    For levels that are climbed, returned: the speed of steps, and how many of them in a gap are
    looked at. Written: the ``chances`` (U, M) of m steps in a gap, and the ``powers`` (M, S, S):
    where m steps lead.
    """
    size = initial.shape[1]
    if redrawn:
        for u in range(len(gaps)):
            stay = math.exp(-rates[group[u], 0] * gaps[u])
            for a in range(size):
                for b in range(size):
                    moves[u, a, b] = (1.0 - stay) * initial[group[u], b]
                moves[u, a, a] += stay
        return 0.0, 0
    speed, largest = 0.0, 0.0
    for i in range(size):
        down = rates[1, i - 1] if i > 0 else 0.0
        up = rates[0, i] if i < size - 1 else 0.0
        speed = max(speed, 1.2 * (down + up))
    for u in range(len(gaps)):
        largest = max(largest, gaps[u])
    largest = min(speed * largest, longest)
    most = int(largest + 6.0 * math.sqrt(largest) + 8.0)
    for a in range(size):
        down = rates[1, a - 1] / speed if a > 0 else 0.0
        up = rates[0, a] / speed if a < size - 1 else 0.0
        for b in range(size):
            powers[0, a, b] = 1.0 if a == b else 0.0
            powers[1, a, b] = 0.0
            if b == a - 1:
                powers[1, a, b] = down
            elif b == a + 1:
                powers[1, a, b] = up
        powers[1, a, a] = 1.0 - (down + up)
    for m in range(2, most):
        for a in range(size):
            for b in range(size):
                led = 0.0
                for c in range(size):
                    led += powers[m - 1, a, c] * powers[1, c, b]
                powers[m, a, b] = led
    for u in range(len(gaps)):
        mean = min(speed * gaps[u], longest)
        chance = math.exp(-mean)
        for m in range(most):
            if m > 0:
                chance = chance * mean / m
            chances[u, m] = chance
            for a in range(size):
                for b in range(size):
                    before = moves[u, a, b] if m > 0 else 0.0
                    moves[u, a, b] = before + chance * powers[m, a, b]
    return speed, most


@inner
def _improved_steps(speed, most, chances, powers, pairs, slowest, fastest, room, rates, found):
    """One EM step over the steps, those that stay included (``Stepwise.improved``).

    ``room`` (4, S, S) is to write in.
    """
    size = powers.shape[1]
    for k in range(4):
        for a in range(size):
            for b in range(size):
                room[k, a, b] = 0.0
    # what led to a step is in the first two places of the room, with what follows in the others:
    # of this number of steps, and of the number before
    for m in range(most - 1, 0, -1):
        now, before = m % 2, 1 - m % 2
        for a in range(size):
            for b in range(size):
                led = 0.0
                for c in range(size):
                    led += room[before, a, c] * powers[1, b, c]
                room[now, a, b] = led
        for u in range(len(pairs)):
            for a in range(size):
                for b in range(size):
                    room[now, a, b] += chances[u, m] * pairs[u, a, b]
        for a in range(size):
            for b in range(size):
                follows = 0.0
                for c in range(size):
                    follows += powers[1, c, a] * room[2 + before, c, b]
                room[2 + now, a, b] = room[now, a, b] + follows
    for i in range(size):
        made = 0.0
        for b in range(size):
            # the last number of steps was one
            room[3, i, b] *= powers[1, i, b]
            made += room[3, i, b]
        found[2, i] = max(made, 1e-9) / speed
    for i in range(size - 1):
        for way in range(2):
            climbs = room[3, i, i + 1] if way == 0 else room[3, i + 1, i]
            made = found[2, i + way] * speed
            found[way, i] = climbs
            rate = speed * (climbs + 0.05) / (made + 0.1)
            rates[way, i] = min(max(rate, slowest), fastest)


@inner
def _improved_redraws(gaps, which, group, pairs, begun, first, initial, rates, weights, found):
    """One EM step of levels that are drawn anew, in each group of gaps by itself.

    Trajectories begin in the group ``first``, in the levels ``begun``; ``weights`` (S,) is to
    write in.
    """
    size = initial.shape[1]
    for g in range(len(initial)):
        rate, redraws, drawn, exposure = rates[g, 0], 0.0, 0.0, 0.0
        for x in range(size):
            weights[x] = 0.0
        for u in range(len(gaps)):
            if group[u] != g:
                continue
            own = 0.0
            leave = -math.expm1(-rate * gaps[u])
            for x in range(size):
                moved = 0.0
                for a in range(size):
                    moved += pairs[u, a, x]
                moved *= leave * initial[g, x]
                weights[x] += moved
                own += moved
            redraws += own
            if gaps[u] > 0.0:
                # a gap with a redraw had on average so many of them
                drawn += own * rate * gaps[u] / leave
        for i in range(len(which)):
            if group[which[i]] == g:
                exposure += gaps[which[i]]
        total, starts = 0.0, 0.0
        for x in range(size):
            if g == first:
                weights[x] += begun[x]
                starts += begun[x]
            initial[g, x] = max(weights[x], 1e-6)
            total += initial[g, x]
        for x in range(size):
            initial[g, x] /= total
        if exposure > 0.0:
            rates[g, 0] = min(max(drawn / exposure, 1e-3), 1e3)
        found[g, 0] = redraws + starts


@inner
def _improved_levels(values, posterior, means, scale, shared, df, least_share, smallest, heavy):
    """One EM step of means and scales, in place; outliers of heavy tails weigh less.

    ``heavy`` (n,) is to write in.
    """
    squares, weight = 0.0, 0.0
    for x in range(len(means)):
        sum_w, sum_y, own_squares, own_weight = 0.0, 0.0, 0.0, 0.0
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
            away = values[i] - means[x]
            own_squares += heavy[i] * (away * away)
            own_weight += posterior[i, x]
        squares += own_squares
        weight += own_weight
        if df == COUNTS:  # a mean of exactly zero would forbid every later count
            means[x] = max(means[x], smallest)
        elif smallest > 0.0 and not shared and own_weight > 0.0:
            scale[x] = math.sqrt(own_squares / own_weight)
    if df == COUNTS or smallest <= 0.0:
        return
    low, high = means[0], means[0]
    for x in range(len(means)):
        low, high = min(low, means[x]), max(high, means[x])
    for x in range(len(means)):
        if shared:
            scale[x] = math.sqrt(squares / weight)
        scale[x] = max(scale[x], smallest, least_share * (high - low))


@kernel
def climb_levels(
    values, gaps, which, group, is_first, means, scale, shared, df, learn, initial, rates, redrawn,
    max_steps, few_steps, tolerance, least_share, bounds, stop, found, room,
):  # fmt: skip
    """EM of the levels of one node (``levels.climb``): ln likelihood, and weights of levels.

    ``gaps[which[i]]`` is the gap before row i; gaps of different ``group`` have moves of their own.
    ``means``, ``scale`` (one per level), ``initial`` (one row per group) and ``rates`` are changed;
    ``found`` is what the moves remember of the last step. With ``redrawn`` levels are drawn anew
    from ``initial`` at rate ``rates[g, 0]``, else climbed. ``bounds``: the longest gap in steps,
    the slowest and the fastest step, the smallest scale, or mean of counts. ``room`` are the last
    three arguments of :func:`moves_within`.
    """
    n, size = len(values), len(means)
    moves, chances, powers = room
    logs, posterior = np.empty((n, size)), np.empty((n, size))
    pairs, small = np.empty((len(gaps), size, size)), np.empty((4, size, size))
    begun, weights, heavy = np.empty(size), np.empty(size), np.empty(n)
    first = group[which[0]]
    before = total = -np.inf
    for step in range(max_steps):
        if step >= few_steps and stop[0]:
            break
        speed, most = moves_within(
            gaps, group, initial, rates, redrawn, bounds[0], moves, chances, powers
        )
        for i in range(n):
            for x in range(size):
                logs[i, x] = _density(values[i], means[x], scale[x], df)
        by_row = level_pass(logs, moves, which, is_first, initial[first], posterior, pairs)
        total = 0.0
        for i in range(n):
            total += by_row[i]
        if total - before < tolerance * (1.0 + abs(total) * 1e-3):
            break
        before = total
        for x in range(size):
            begun[x] = 0.0
            for i in range(n):
                if is_first[i]:
                    begun[x] += posterior[i, x]
        if redrawn:
            _improved_redraws(
                gaps, which, group, pairs, begun, first, initial, rates, weights, found
            )
        else:
            _improved_steps(
                speed, most, chances, powers, pairs, bounds[1], bounds[2], small, rates, found
            )
            starts = 0.0
            for x in range(size):
                starts += begun[x] + 0.5
            for x in range(size):
                initial[0, x] = (begun[x] + 0.5) / starts
        if learn:
            _improved_levels(
                values, posterior, means, scale, shared, df, least_share, bounds[3], heavy
            )
    for x in range(size):
        weights[x] = 0.0
        for i in range(n):
            weights[x] += posterior[i, x]
    return total, weights
