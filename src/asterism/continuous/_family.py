"""Compiled: the evidence of sets of parents of a continuous child, averaged over small grids.

All columns are rows of C-ordered arrays here (one column of the regression per row), so that the
values of one trajectory lie side by side. ``gaps`` are numbered from 0 to R − 1 over all
trajectories; ``block[d] … block[d + 1]`` are those of the d-th trajectory that has any.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import inner, kernel

#: a column whose remaining share of its own square sum is below this adds nothing
_DEPENDENT = 1e-9
#: a term so many nats below the largest changes no digit of a sum
_NOTHING = 50.0


@inner
def copy_rows(source, target):
    """Copy a table; the assignment of a whole array takes numba two seconds to compile."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@kernel
def held_integrals(lam, grid_time, begin, end, held, out):
    """out[p, i] = ∫ e^(−λ (t_end − s)) held[p](s) ds over gap i, ``held`` constant on the grid."""
    n_columns = held.shape[0]
    for i in range(len(begin)):
        for p in range(n_columns):
            out[p, i] = 0.0
        last = grid_time[end[i]]
        left = math.exp(-lam * (last - grid_time[begin[i]]))
        for u in range(begin[i], end[i]):
            right = math.exp(-lam * (last - grid_time[u + 1]))
            weight = (right - left) / lam
            for p in range(n_columns):
                out[p, i] += weight * held[p, u]
            left = right


@kernel
def stimulus_integrals(lam, start, stop, trajectory, spans, out):
    """out[k, i] = ∫ e^(−λ (t_end − s)) 1(stimulus k is on at s) ds over gap i."""
    out[:] = 0.0
    number, where, on, off = spans
    for j in range(len(number)):
        for i in range(len(start)):
            if trajectory[i] == where[j]:
                a, b = max(start[i], on[j]), min(stop[i], off[j])
                if b > a:
                    late, early = math.exp(-lam * (stop[i] - b)), math.exp(-lam * (stop[i] - a))
                    out[number[j], i] += (late - early) / lam


@kernel
def whiten_gaps(lam, kappa, gap, is_first, columns):
    """Divide columns by the Cholesky factor of the gaps' covariance; returns its log det.

    A gap has variance (1 − a²)/2λ + κ (1 + a²), a = e^(−λ gap), and shares a measurement, with
    covariance −κ a, with the gap before it in the same trajectory.
    """
    total = 0.0
    before = 1.0
    for i in range(len(gap)):
        a = math.exp(-lam * gap[i])
        variance = -math.expm1(-2.0 * lam * gap[i]) / (2.0 * lam) + kappa * (1.0 + a * a)
        share = 0.0 if is_first[i] else -kappa * a / before
        root = math.sqrt(variance - share * share)
        total += math.log(root)
        inverse = 1.0 / root
        if share == 0.0:
            for p in range(columns.shape[0]):
                columns[p, i] *= inverse
        else:
            for p in range(columns.shape[0]):
                columns[p, i] = (columns[p, i] - share * columns[p, i - 1]) * inverse
        before = root
    return total


@kernel
def whiten_stimulus(rho, block, stimulus, columns):
    """Take a stimulus of variance ρ per trajectory into the covariance; returns half its log det.

    (I + ρ b bᵀ)^(−1/2) = I − γ b bᵀ with γ = (1 − (1 + ρ bᵀb)^(−1/2)) / bᵀb.
    """
    total = 0.0
    for d in range(len(block) - 1):
        square = 0.0
        for i in range(block[d], block[d + 1]):
            square += stimulus[i] * stimulus[i]
        if square == 0.0:
            continue
        total += 0.5 * math.log1p(rho * square)
        gamma = (1.0 - 1.0 / math.sqrt(1.0 + rho * square)) / square
        for p in range(columns.shape[0]):
            product = 0.0
            for i in range(block[d], block[d + 1]):
                product += stimulus[i] * columns[p, i]
            product *= gamma
            for i in range(block[d], block[d + 1]):
                columns[p, i] -= product * stimulus[i]
    return total


@kernel
def explained(gram, cross, which, n, factor, solved, ridge):
    """The square sum that ``n`` columns explain, and how many of them are independent.

    ``gram`` holds products between columns, ``cross`` with the response; ``ridge`` is added to the
    diagonal. ``factor`` receives the Cholesky factor, ``solved`` what it makes of the response.
    """
    total = 0.0
    rank = 0
    for i in range(n):
        a = which[i]
        rest = gram[a, a] + ridge
        value = cross[a]
        for j in range(rank):
            b = factor[i, j]
            rest -= b * b
            value -= b * solved[j]
        if rest <= _DEPENDENT * gram[a, a]:
            continue
        root = math.sqrt(rest)
        factor[i, rank] = root
        solved[rank] = value / root
        total += solved[rank] * solved[rank]
        # this column's share in those behind it
        for k in range(i + 1, n):
            c = gram[which[k], a]
            for j in range(rank):
                c -= factor[k, j] * factor[i, j]
            factor[k, rank] = c / root
        rank += 1
    return total, rank


@kernel
def add_up(top, total, value):
    """One more term of a sum of exponentials, kept as (largest term, sum relative to it)."""
    if value < top - _NOTHING:
        return top, total
    if value <= top:
        return top, total + math.exp(value - top)
    return value, total * math.exp(top - value) + 1.0


@kernel
def log_family(rows, square, part, rank, g, log_g):
    """ln of the regression's evidence with Zellner's prior, but for what all families share.

    ``log_g`` is ln(1 + g).
    """
    nu = rows - 1.0
    left = max(1.0 - part / square, 0.0) if square > 0.0 else 1.0
    return 0.5 * (nu - rank) * log_g - 0.5 * nu * math.log1p(g * left)


@kernel
def _log_shared(rows, square, ones, log_det):
    return -0.5 * (rows - 1.0) * math.log(square) - log_det - 0.5 * math.log(ones)


@inner
def _look_up(family, first_column, n_linear, core_gram, own_gram, which, straight, gram):
    """Fill ``which`` columns a family has and the lower half of the products between them.

    ``straight`` are the places of those without the quadratic terms. Returns how many both are.
    """
    n_core_columns = len(core_gram)
    n_used, n_straight = 0, 0
    for m in family:
        if m < 0:
            break
        begin = n_used
        for a in range(first_column[m], first_column[m + 1]):
            which[n_used] = a
            if a - first_column[m] < n_linear[m]:
                straight[n_straight] = n_used
                n_straight += 1
            for j in range(n_used + 1):
                b = which[j]
                if a < n_core_columns:
                    product = core_gram[a, b]
                elif b < n_core_columns:
                    product = core_gram[b, a]
                else:
                    product = own_gram[m, n_used - begin, j - begin]
                gram[n_used, j] = product
            n_used += 1
    return n_used, n_straight


@kernel
def family_scores(
    lambdas,
    kappas,
    gs,
    rhos,
    gaps,
    spans,
    grid_time,
    held,
    first_column,
    n_linear,
    values,
    own,
    families,
    n_core,
):
    """Scores of sets of parents of children that were measured at the same times.

    ``gaps`` are (gap, is_first, start, stop, trajectory, begin, end, block); ``values`` (n, R, 2)
    holds the two measurements of every gap of each child. Columns ``first_column[m] …`` of ``held``
    belong to parent m, the first ``n_linear[m]`` of them without the quadratic term. ``own`` are
    the children's own numbers among the parents (−1: none). ``families`` (F, k) holds numbers of
    parents, padded with −1. A family is linear in all its parents or has all their quadratic terms,
    half each. At most one parent of a family may be beyond the first ``n_core``: products between
    the columns of those are not made. Returns (n, F, C), ln of the mean over λ, κ and g for each
    row of ``rhos`` (C, K), −inf where a child is its own parent; and the (λ, κ) weights without
    parents.
    """
    gap, is_first, start, stop, trajectory, begin, end, block = gaps
    n, rows = values.shape[0], len(gap)
    n_parents, n_columns = len(n_linear), held.shape[0]
    n_stimuli, n_rho = rhos.shape[1], len(rhos)
    n_families, most = families.shape
    n_all = n_columns + n + 1 + n_stimuli
    log_gs, log_n_gs = np.log1p(gs), math.log(len(gs))
    raw = np.empty((n_all, rows))
    first = np.empty((n_all, rows))
    work = np.empty((n_all, rows))
    top = np.full((n, n_families, n_rho), -np.inf)
    total = np.zeros((n, n_families, n_rho))
    by_grid = np.full((n, len(lambdas), len(kappas)), -np.inf)
    widest = 1
    for m in range(n_parents):
        widest = max(widest, first_column[m + 1] - first_column[m])
    core = first_column[n_core]
    core_gram = np.empty((core, n_columns))
    own_gram = np.empty((n_parents, widest, widest))
    wide = widest * most
    gram, cross = np.empty((wide, wide)), np.empty(wide)
    which, straight, every = np.empty(wide, np.int64), np.empty(wide, np.int64), np.arange(wide)
    factor, solved = np.empty((wide, wide)), np.empty(wide)
    square, shared = np.empty(n), np.empty(n)
    for at_lambda in range(len(lambdas)):
        lam = lambdas[at_lambda]
        held_integrals(lam, grid_time, begin, end, held, raw[:n_columns])
        for i in range(rows):
            a = math.exp(-lam * gap[i])
            for c in range(n):
                raw[n_columns + c, i] = values[c, i, 1] - a * values[c, i, 0]
            raw[n_columns + n, i] = (1.0 - a) / lam
        stimulus_integrals(lam, start, stop, trajectory, spans, raw[n_columns + n + 1 :])
        for at_kappa in range(len(kappas)):
            copy_rows(raw, first)
            log_det = whiten_gaps(lam, kappas[at_kappa], gap, is_first, first)
            for r in range(n_rho):
                copy_rows(first, work)
                log_det_here = log_det
                for k in range(n_stimuli):
                    if rhos[r, k] > 0.0:
                        mark = work[n_columns + n + 1 + k].copy()
                        log_det_here += whiten_stimulus(rhos[r, k], block, mark, work)
                one = work[n_columns + n]
                ones = np.dot(one, one)
                for p in range(n_columns + n):
                    share = np.dot(work[p], one) / ones
                    for i in range(rows):
                        work[p, i] -= share * one[i]
                all_cross = np.dot(work[:n_columns], work[n_columns : n_columns + n].T)
                copy_rows(np.dot(work[:core], work[:n_columns].T), core_gram)
                for m in range(n_core, n_parents):
                    f = first_column[m]
                    for i in range(first_column[m + 1] - f):
                        for j in range(i + 1):
                            own_gram[m, i, j] = np.dot(work[f + i], work[f + j])
                for c in range(n):
                    z = work[n_columns + c]
                    square[c] = np.dot(z, z)
                    if not square[c] > 0.0:
                        square[c] = 1e-300
                    shared[c] = _log_shared(rows, square[c], ones, log_det_here)
                    by_grid[c, at_lambda, at_kappa] = np.logaddexp(
                        by_grid[c, at_lambda, at_kappa], shared[c]
                    )
                for f in range(n_families):
                    n_used, n_straight = _look_up(
                        families[f], first_column, n_linear, core_gram, own_gram, which, straight,
                        gram,
                    )  # fmt: skip
                    n_kinds = 1 if n_used == n_straight else 2
                    log_kinds = math.log(n_kinds)
                    for c in range(n):
                        if n_used == 0:  # the same for every g
                            top[c, f, r], total[c, f, r] = add_up(
                                top[c, f, r], total[c, f, r], shared[c] + log_n_gs
                            )
                            continue
                        is_own = False
                        for m in families[f]:
                            is_own |= m == own[c] and m >= 0
                        if is_own:
                            continue
                        for i in range(n_used):
                            cross[i] = all_cross[which[i], c]
                        for kind in range(n_kinds):
                            use, number = (straight, n_straight) if kind == 0 else (every, n_used)
                            part, rank = explained(gram, cross, use, number, factor, solved, 0.0)
                            base = shared[c] - log_kinds
                            for at_g in range(len(gs)):
                                score = base + log_family(
                                    rows, square[c], part, rank, gs[at_g], log_gs[at_g]
                                )
                                top[c, f, r], total[c, f, r] = add_up(
                                    top[c, f, r], total[c, f, r], score
                                )
    n_grid = len(lambdas) * len(kappas) * len(gs)
    return top + np.log(total) - math.log(n_grid), by_grid


@kernel
def filtered_path(lam, kappa, level, grid_time, is_first, value, is_measured, out):
    """The mean of an OU process with σ = 1 on the grid: filtered where measured, else smoothed.

    Every trajectory begins in the stationary distribution around ``level``.
    """
    n = len(grid_time)
    mean, variance = np.empty(n), np.empty(n)
    ahead_mean, ahead_variance = np.empty(n), np.empty(n)
    rest = 1.0 / (2.0 * lam)
    for i in range(n):
        if is_first[i]:
            ahead_mean[i], ahead_variance[i] = level, rest
        else:
            a = math.exp(-lam * (grid_time[i] - grid_time[i - 1]))
            ahead_mean[i] = level + a * (mean[i - 1] - level)
            ahead_variance[i] = a * a * variance[i - 1] + rest * (1.0 - a * a)
        mean[i], variance[i] = ahead_mean[i], ahead_variance[i]
        if is_measured[i]:
            gain = ahead_variance[i] / (ahead_variance[i] + kappa)
            mean[i] += gain * (value[i] - ahead_mean[i])
            variance[i] *= 1.0 - gain
    smooth = 0.0
    for i in range(n - 1, -1, -1):
        if i == n - 1 or is_first[i + 1]:
            smooth = mean[i]
        else:
            a = math.exp(-lam * (grid_time[i + 1] - grid_time[i]))
            smooth = mean[i] + variance[i] * a / ahead_variance[i + 1] * (
                smooth - ahead_mean[i + 1]
            )
        out[i] = mean[i] if is_measured[i] else smooth
