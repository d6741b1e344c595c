"""Compiled: the evidence of sets of parents of a continuous child, averaged over small grids.

All columns are rows of C-ordered arrays here (one column of the regression per row), so that the
values of one trajectory lie side by side. ``gaps`` are numbered from 0 to R − 1 over all
trajectories; ``block[d] … block[d + 1]`` are those of the d-th trajectory that has any.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.numerics._jit import kernel

#: a column whose remaining share of its own square sum is below this adds nothing
_DEPENDENT = 1e-9
#: a term so many nats below the largest changes no digit of a sum
_NOTHING = 50.0


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


@kernel
def single_scores(
    lambdas, kappas, gs, rhos, gaps, spans, grid_time, held, first_column, n_linear, values, own
):
    """Scores of no parent and of each single parent, of children measured at the same times.

    ``gaps`` are (gap, is_first, start, stop, trajectory, begin, end, block); ``values`` (n, R, 2)
    holds the two measurements of every gap of each child. Columns ``first_column[m] …`` of ``held``
    belong to parent m, the first ``n_linear[m]`` of them without the quadratic term. ``own`` are
    the children's own numbers among the parents (−1: none). Returns (n, C) and (n, M, C): ln of the
    mean over λ, κ and g, for each row of ``rhos`` (C, K), and the (λ, κ) weights of no parent.
    """
    gap, is_first, start, stop, trajectory, begin, end, block = gaps
    n, rows = values.shape[0], len(gap)
    n_parents, n_columns = len(n_linear), held.shape[0]
    n_stimuli, n_rho = rhos.shape[1], len(rhos)
    widest = 1
    for m in range(n_parents):
        widest = max(widest, first_column[m + 1] - first_column[m])
    n_all = n_columns + n + 1 + n_stimuli
    log_gs = np.log1p(gs)
    raw = np.empty((n_all, rows))
    first = np.empty((n_all, rows))
    work = np.empty((n_all, rows))
    none_top = np.full((n, n_rho), -np.inf)
    none_sum = np.zeros((n, n_rho))
    one_top = np.full((n, n_parents, n_rho), -np.inf)
    one_sum = np.zeros((n, n_parents, n_rho))
    by_grid = np.full((n, len(lambdas), len(kappas)), -np.inf)
    gram = np.empty((n_parents, widest, widest))
    block_gram = np.empty((widest, widest))
    block_cross = np.empty(widest)
    which = np.arange(widest)
    factor, solved = np.empty((widest, widest)), np.empty(widest)
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
            first[:] = raw
            log_det = whiten_gaps(lam, kappas[at_kappa], gap, is_first, first)
            for r in range(n_rho):
                work[:] = first
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
                cross = np.dot(work[:n_columns], work[n_columns : n_columns + n].T)
                for m in range(n_parents):
                    f = first_column[m]
                    for i in range(first_column[m + 1] - f):
                        for j in range(i + 1):
                            product = np.dot(work[f + i], work[f + j])
                            gram[m, i, j] = product
                            gram[m, j, i] = product
                for c in range(n):
                    z = work[n_columns + c]
                    square = np.dot(z, z)
                    if not square > 0.0:
                        square = 1e-300
                    shared = _log_shared(rows, square, ones, log_det_here)
                    none_top[c, r], none_sum[c, r] = add_up(none_top[c, r], none_sum[c, r], shared)
                    by_grid[c, at_lambda, at_kappa] = np.logaddexp(
                        by_grid[c, at_lambda, at_kappa], shared
                    )
                    for m in range(n_parents):
                        if m == own[c]:
                            continue
                        f = first_column[m]
                        width = first_column[m + 1] - f
                        for i in range(width):
                            block_cross[i] = cross[f + i, c]
                            for j in range(width):
                                block_gram[i, j] = gram[m, i, j]
                        n_kinds = 1 if width == n_linear[m] else 2
                        for kind in range(n_kinds):
                            used = n_linear[m] if kind == 0 else width
                            part, rank = explained(
                                block_gram, block_cross, which, used, factor, solved, 0.0
                            )
                            for at_g in range(len(gs)):
                                score = shared + log_family(
                                    rows, square, part, rank, gs[at_g], log_gs[at_g]
                                )
                                score -= math.log(n_kinds)
                                one_top[c, m, r], one_sum[c, m, r] = add_up(
                                    one_top[c, m, r], one_sum[c, m, r], score
                                )
    n_grid = len(lambdas) * len(kappas)
    none = none_top + np.log(none_sum) - math.log(n_grid)
    single = np.full((n, n_parents, n_rho), -np.inf)
    for c in range(n):
        for m in range(n_parents):
            for r in range(n_rho):
                if one_sum[c, m, r] > 0.0:
                    single[c, m, r] = one_top[c, m, r] + math.log(one_sum[c, m, r])
                    single[c, m, r] -= math.log(n_grid * len(gs))
    return none, single, by_grid


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
    families,
    n_core,
):
    """(F, C) ln evidence of sets of parents of one child, for each row of ``rhos`` (C, K).

    ``families`` (F, k) holds numbers of parents as in ``first_column``, padded with −1. A family is
    linear in all its parents or has all their quadratic terms, half each. At most one parent of a
    family may be beyond the first ``n_core``: products between the columns of those are not made.
    """
    gap, is_first, start, stop, trajectory, begin, end, block = gaps
    rows = len(gap)
    n_columns = held.shape[0]
    n_stimuli, n_rho = rhos.shape[1], len(rhos)
    n_families, most = families.shape
    n_all = n_columns + 2 + n_stimuli
    log_gs = np.log1p(gs)
    raw = np.empty((n_all, rows))
    first = np.empty((n_all, rows))
    work = np.empty((n_all, rows))
    top = np.full((n_families, n_rho), -np.inf)
    total = np.zeros((n_families, n_rho))
    widest = 1
    for m in range(len(n_linear)):
        widest = max(widest, first_column[m + 1] - first_column[m])
    core = first_column[n_core]
    gram = np.empty((n_columns, n_columns))
    which = np.empty(widest * most, np.int64)
    factor, solved = np.empty((widest * most, widest * most)), np.empty(widest * most)
    for lam in lambdas:
        held_integrals(lam, grid_time, begin, end, held, raw[:n_columns])
        for i in range(rows):
            a = math.exp(-lam * gap[i])
            raw[n_columns, i] = values[i, 1] - a * values[i, 0]
            raw[n_columns + 1, i] = (1.0 - a) / lam
        stimulus_integrals(lam, start, stop, trajectory, spans, raw[n_columns + 2 :])
        for kappa in kappas:
            first[:] = raw
            log_det = whiten_gaps(lam, kappa, gap, is_first, first)
            for r in range(n_rho):
                work[:] = first
                log_det_here = log_det
                for k in range(n_stimuli):
                    if rhos[r, k] > 0.0:
                        mark = work[n_columns + 2 + k].copy()
                        log_det_here += whiten_stimulus(rhos[r, k], block, mark, work)
                one = work[n_columns + 1]
                ones = np.dot(one, one)
                for p in range(n_columns + 1):
                    share = np.dot(work[p], one) / ones
                    for i in range(rows):
                        work[p, i] -= share * one[i]
                z = work[n_columns]
                square = np.dot(z, z)
                if not square > 0.0:
                    square = 1e-300
                shared = _log_shared(rows, square, ones, log_det_here)
                cross = np.dot(work[:n_columns], z)
                gram[:core] = np.dot(work[:core], work[:n_columns].T)
                gram[:, :core] = gram[:core].T
                for m in range(n_core, len(n_linear)):
                    for i in range(first_column[m], first_column[m + 1]):
                        for j in range(first_column[m], i + 1):
                            gram[i, j] = np.dot(work[i], work[j])
                            gram[j, i] = gram[i, j]
                for f in range(n_families):
                    n_kinds = 1
                    for i in range(most):
                        m = families[f, i]
                        if m >= 0 and first_column[m + 1] - first_column[m] > n_linear[m]:
                            n_kinds = 2
                    for kind in range(n_kinds):
                        used = 0
                        for i in range(most):
                            m = families[f, i]
                            if m < 0:
                                break
                            width = n_linear[m]
                            if kind == 1:
                                width = first_column[m + 1] - first_column[m]
                            for j in range(width):
                                which[used] = first_column[m] + j
                                used += 1
                        part, rank = explained(gram, cross, which, used, factor, solved, 0.0)
                        for at_g in range(len(gs)):
                            own = log_family(rows, square, part, rank, gs[at_g], log_gs[at_g])
                            score = shared + own
                            score -= math.log(n_kinds)
                            top[f, r], total[f, r] = add_up(top[f, r], total[f, r], score)
    return top + np.log(total) - math.log(len(lambdas) * len(kappas) * len(gs))


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
