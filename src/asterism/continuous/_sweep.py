"""Compiled: draws of graphs, parameters and paths of continuous nodes (``sampled.py`` says which).

Nodes that move are numbered 0 … C − 1 here, held ones (labels, then stimuli) 0 … J − 1. A *step*
leads from one grid point to the next of the same trajectory; there are R in all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.continuous._family import copy_rows, explained, whiten_stimulus
from asterism.continuous._mixed import Model, Seen, draw_continuous
from asterism.numerics._jit import inner, kernel
from asterism.sampling._variates import draw_index, gamma, normal


class Frame(NamedTuple):
    """What is the same in all chains and never changes."""

    left: np.ndarray
    """(R,) the grid point at which each step begins."""
    block: np.ndarray
    """(D + 1,) the first step of every trajectory."""
    first: np.ndarray
    """(D + 1,) the first grid point of every trajectory."""
    step: np.ndarray
    """(R,)"""
    held: np.ndarray
    """(T, J) states of labels; for stimuli 1 while they are on."""
    measured: np.ndarray
    """(T, C) 1 where a node was measured."""
    value: np.ndarray
    """(T, C)"""
    decays: np.ndarray
    stay: np.ndarray
    """(decays, R) a = e^(−λΔ)."""
    push: np.ndarray
    """(decays, R) (1 − a) / λ over the standard deviation of a step."""
    sharp: np.ndarray
    """(decays, R) 1 over the standard deviation of a step, for σ = 1."""
    log_sharp: np.ndarray
    """(decays,) sums of its logarithms."""
    strengths: np.ndarray
    """(rhos, K) variance of what each stimulus does, in units of σ²."""
    sizes: np.ndarray
    """Variances of weights, in units of σ²."""
    prior: np.ndarray
    """Shape and scale of σ², shape and scale of the noise, variance of the intercept / σ²."""


class Choices(NamedTuple):
    """The sets of parents of every node that moves, flat."""

    start: np.ndarray
    """(C + 1,) the first family of every node."""
    parents: np.ndarray
    """(F, k) places in ``used``, padded with −1."""
    log_prior: np.ndarray
    """(F,)"""
    used_start: np.ndarray
    """(C + 1,)"""
    used: np.ndarray
    """Parents of each node: 0 … C − 1 move, C + j is held node j."""
    n_core: np.ndarray
    """(C,) a family has at most one parent behind so many."""
    width: np.ndarray
    """(C + J,) columns of a parent."""
    n_linear: np.ndarray
    """(C + J,) those without the quadratic term."""
    edge: np.ndarray
    """Number of the edge from each entry of ``used``."""


class Present(NamedTuple):
    """Where a chain is."""

    x: np.ndarray
    """(T, C)"""
    family: np.ndarray
    """(C,) number among all families."""
    bent: np.ndarray
    """(C,) 1: with quadratic terms."""
    decay: np.ndarray
    strength: np.ndarray
    size: np.ndarray
    """(C,) places in the grids."""
    variance: np.ndarray
    """(C,) σ²"""
    noise: np.ndarray
    """(C,) variance of a measurement."""
    baseline: np.ndarray
    linear: np.ndarray
    quadratic: np.ndarray
    shifts: np.ndarray
    """(D, C, J, S)"""


class Drawn(NamedTuple):
    """What is added up or kept."""

    family: np.ndarray
    """(F,) sums of P(family | paths)."""
    edges: np.ndarray
    """(draws, edges) means of P(edge | paths)."""
    parents: np.ndarray
    """(draws, N, k)"""
    numbers: np.ndarray
    """(draws, 4 C) decay, σ², noise and intercept of every node."""


@inner
def _columns(frame, choices, held, x, i, at, which, out):
    """Whitened columns of parents ``which`` (places in ``used``), the response, the intercept and
    the stimuli; returns how many are the parents'."""
    n_moving = x.shape[1]
    stay, push, sharp = frame.stay[at], frame.push[at], frame.sharp[at]
    n = 0
    for m in which:
        parent = choices.used[choices.used_start[i] + m]
        if parent < n_moving:
            for r in range(len(frame.left)):
                value = x[frame.left[r], parent]
                out[n, r] = push[r] * value
                if choices.width[parent] > 1:
                    out[n + 1, r] = push[r] * value * value
        else:
            for r in range(len(frame.left)):
                state = held[frame.left[r], parent - n_moving]
                for j in range(choices.width[parent]):
                    out[n + j, r] = push[r] if state == j + 1 else 0.0
        n += choices.width[parent]
    n_stimuli = frame.strengths.shape[1]
    first = held.shape[1] - n_stimuli
    for r in range(len(frame.left)):
        k = frame.left[r]
        out[n, r] = sharp[r] * (x[k + 1, i] - stay[r] * x[k, i])
        out[n + 1, r] = push[r]
        for j in range(n_stimuli):
            out[n + 2 + j, r] = push[r] if held[k, first + j] == 1 else 0.0
    return n


@inner(allocates=True)
def _without_stimuli(frame, at, n, rows):
    """Take the stimuli into the covariance; returns half its log determinant."""
    total = 0.0
    for k in range(frame.strengths.shape[1]):
        rho = frame.strengths[at, k]
        if rho > 0.0:
            mark = rows[n + 2 + k].copy()
            total += whiten_stimulus(rho, frame.block, mark, rows)
    return total


@inner(allocates=True)
def _products(frame, rows, first, n_core):
    """Products of the parents' columns and, last, the response, the intercept summed out.

    Columns of parents behind the first ``n_core`` meet only those before them and their own. Also
    returns the posterior variance of the intercept / σ², and half the log determinant.
    """
    n, core = first[len(first) - 1], first[n_core]
    one = rows[n + 1]
    ones, along = np.dot(one, one), np.dot(rows[: n + 1], one)
    shrink = 1.0 / (ones + 1.0 / frame.prior[4])
    gram = np.zeros((n + 1, n + 1))
    product, last = np.dot(rows[:core], rows[: n + 1].T), np.dot(rows[: n + 1], rows[n])
    copy_rows(product, gram)
    for a in range(n + 1):
        gram[n, a] = last[a]
    for a in range(n + 1):
        for b in range(core):
            gram[a, b] = product[b, a]
    for m in range(n_core, len(first) - 1):
        for a in range(first[m], first[m + 1]):
            for b in range(first[m], a + 1):
                gram[a, b] = np.dot(rows[a], rows[b])
                gram[b, a] = gram[a, b]
    return gram - shrink * np.outer(along, along), shrink, 0.5 * math.log1p(frame.prior[4] * ones)


@inner
def _log_evidence(frame, gram, use, n_used, size, factor, solved):
    """ln p(path | a set of columns), and what remains of the square sum."""
    last = len(gram) - 1
    part, _ = explained(gram, gram[last], use, n_used, factor, solved, 1.0 / size)
    root = 1.0
    for j in range(n_used):
        root *= factor[j, j]
    log = -0.5 * math.log(root**2 * size**n_used)
    rest = frame.prior[1] + 0.5 * max(gram[last, last] - part, 0.0)
    return log - (frame.prior[0] + 0.5 * len(frame.left)) * math.log(rest), rest


@inner
def _use_of(choices, i, f, bent, first, use):
    """The columns of family f; returns their number."""
    n = 0
    for j in range(choices.parents.shape[1]):
        m = choices.parents[f, j]
        if m < 0:
            break
        parent = choices.used[choices.used_start[i] + m]
        wide = choices.width[parent] if bent else choices.n_linear[parent]
        for c in range(wide):
            use[n] = first[m] + c
            n += 1
    return n


@inner
def _may_bend(choices, i, f):
    for j in range(choices.parents.shape[1]):
        m = choices.parents[f, j]
        if m >= 0:
            parent = choices.used[choices.used_start[i] + m]
            if choices.width[parent] > choices.n_linear[parent]:
                return True
    return False


@inner(allocates=True)
def _draw_grids(frame, choices, now, held, i, widest, stream):
    """Decay, then strength of stimuli and size of weights together, given family and path."""
    f = now.family[i]
    n_parents = 0
    for j in range(choices.parents.shape[1]):
        n_parents += 1 if choices.parents[f, j] >= 0 else 0
    which = choices.parents[f, :n_parents]
    n_all = n_parents * widest + 2 + frame.strengths.shape[1]
    rows = np.empty((n_all, len(frame.left)))
    solved, factor = np.empty(n_all), np.empty((n_all, n_all))
    use = np.empty(n_all, np.int64)
    first = np.zeros(n_parents + 1, np.int64)
    by_place = np.zeros(choices.used_start[i + 1] - choices.used_start[i], np.int64)
    for j in range(n_parents):
        by_place[which[j]] = first[j]
        first[j + 1] = first[j] + choices.width[choices.used[choices.used_start[i] + which[j]]]
    n_used = _use_of(choices, i, f, now.bent[i] == 1, by_place, use)
    logs = np.empty(max(len(frame.decays), len(frame.strengths) * len(frame.sizes)))
    for at in range(len(frame.decays)):
        n = _columns(frame, choices, held, now.x, i, at, which, rows)
        log_det = _without_stimuli(frame, now.strength[i], n, rows)
        gram, _, log_det_one = _products(frame, rows, first, n_parents)
        size = frame.sizes[now.size[i]]
        logs[at], _ = _log_evidence(frame, gram, use, n_used, size, factor, solved)
        logs[at] += frame.log_sharp[at] - log_det - log_det_one
    now.decay[i] = draw_index(stream, logs, 0, len(frame.decays))
    for at in range(len(frame.strengths)):
        n = _columns(frame, choices, held, now.x, i, now.decay[i], which, rows)
        log_det = _without_stimuli(frame, at, n, rows)
        gram, _, log_det_one = _products(frame, rows, first, n_parents)
        for s in range(len(frame.sizes)):
            place = at * len(frame.sizes) + s
            size = frame.sizes[s]
            logs[place], _ = _log_evidence(frame, gram, use, n_used, size, factor, solved)
            logs[place] -= log_det + log_det_one
    both = draw_index(stream, logs, 0, len(frame.strengths) * len(frame.sizes))
    now.strength[i], now.size[i] = both // len(frame.sizes), both % len(frame.sizes)


@inner(allocates=True)
def _draw_family(frame, choices, now, held, i, drawn, at_draw, share, stream):
    """Parents and the shape of φ with all weights summed out, then σ², weights, intercept and what
    stimuli do."""
    begin, end = choices.start[i], choices.start[i + 1]
    n_used_nodes = choices.used_start[i + 1] - choices.used_start[i]
    which = np.arange(n_used_nodes)
    first = np.zeros(n_used_nodes + 1, np.int64)
    widest = 1
    for m in range(n_used_nodes):
        wide = choices.width[choices.used[choices.used_start[i] + m]]
        first[m + 1] = first[m] + wide
        widest = max(widest, wide)
    n_stimuli = frame.strengths.shape[1]
    n_all = first[n_used_nodes] + 2 + n_stimuli
    rows = np.empty((n_all, len(frame.left)))
    at = now.decay[i]
    n = _columns(frame, choices, held, now.x, i, at, which, rows)
    raw = rows.copy()
    _without_stimuli(frame, now.strength[i], n, rows)
    gram, shrink, _ = _products(frame, rows, first, choices.n_core[i])
    most = widest * choices.parents.shape[1]
    use = np.empty(most, np.int64)
    factor, solved = np.empty((most, most)), np.empty(most)
    size = frame.sizes[now.size[i]]
    logs = np.empty(2 * (end - begin))
    for f in range(begin, end):
        may_bend = _may_bend(choices, i, f)
        for bent in range(2):
            place = 2 * (f - begin) + bent
            logs[place] = -math.inf
            if bent == 1 and not may_bend:
                continue
            n_use = _use_of(choices, i, f, bent == 1, first, use)
            logs[place], _ = _log_evidence(frame, gram, use, n_use, size, factor, solved)
            logs[place] += choices.log_prior[f]
            if may_bend:
                logs[place] -= math.log(2.0)
    chosen = draw_index(stream, logs, 0, len(logs))
    now.family[i], now.bent[i] = begin + chosen // 2, chosen % 2
    for f in range(begin, end):
        own = logs[2 * (f - begin)] + logs[2 * (f - begin) + 1]
        drawn.family[f] += own
        if at_draw >= 0:
            for j in range(choices.parents.shape[1]):
                m = choices.parents[f, j]
                if m >= 0:
                    drawn.edges[at_draw, choices.edge[choices.used_start[i] + m]] += share * own
    # numbers of the chosen family
    f = now.family[i]
    n_use = _use_of(choices, i, f, now.bent[i] == 1, first, use)
    _, rest = _log_evidence(frame, gram, use, n_use, size, factor, solved)
    now.variance[i] = rest / gamma(stream, frame.prior[0] + 0.5 * len(frame.left))
    sigma = math.sqrt(now.variance[i])
    weight = np.empty(n_use)
    for j in range(n_use - 1, -1, -1):
        weight[j] = solved[j] + sigma * normal(stream)
        for k in range(j + 1, n_use):
            weight[j] -= factor[k, j] * weight[k]
        weight[j] /= factor[j, j]
    pull = np.dot(rows[n + 1], rows[n])
    for j in range(n_use):
        pull -= np.dot(rows[n + 1], rows[use[j]]) * weight[j]
    now.baseline[i] = shrink * pull + sigma * math.sqrt(shrink) * normal(stream)
    _keep_weights(frame, choices, now, i, first, weight)
    for r in range(len(frame.left)):
        for j in range(n_use):
            raw[n, r] -= weight[j] * raw[use[j], r]
        raw[n, r] -= now.baseline[i] * raw[n + 1, r]
    _draw_stimuli(frame, now, i, raw[n], raw[n + 2 :], sigma, stream)


@inner
def _keep_weights(frame, choices, now, i, first, weight):
    now.linear[i] = 0.0
    now.quadratic[i] = 0.0
    now.shifts[:, i] = 0.0
    n_moving, n = now.x.shape[1], 0
    for j in range(choices.parents.shape[1]):
        m = choices.parents[now.family[i], j]
        if m < 0:
            break
        parent = choices.used[choices.used_start[i] + m]
        if parent < n_moving:
            now.linear[i, parent] = weight[n]
            n += 1
            if now.bent[i] == 1 and choices.width[parent] > 1:
                now.quadratic[i, parent] = weight[n]
                n += 1
        else:
            for c in range(choices.width[parent]):
                now.shifts[:, i, parent - n_moving, c + 1] = weight[n]
                n += 1


@inner(allocates=True)
def _draw_stimuli(frame, now, i, rest, marks, sigma, stream):
    """What the stimuli do to node i in every trajectory, given all else."""
    n_stimuli = frame.strengths.shape[1]
    first = frame.held.shape[1] - n_stimuli
    gram = np.empty((n_stimuli, n_stimuli))
    cross, solved = np.empty(n_stimuli), np.empty(n_stimuli)
    factor = np.empty((n_stimuli, n_stimuli))
    use = np.empty(n_stimuli, np.int64)
    for d in range(len(frame.block) - 1):
        n = 0
        for k in range(n_stimuli):
            if frame.strengths[now.strength[i], k] > 0.0:
                use[n] = k
                n += 1
        for a in range(n_stimuli):
            cross[a] = 0.0
            gram[a] = 0.0
            for r in range(frame.block[d], frame.block[d + 1]):
                cross[a] += marks[a, r] * rest[r]
                for b in range(n_stimuli):
                    gram[a, b] += marks[a, r] * marks[b, r]
        for j in range(n):
            gram[use[j], use[j]] += 1.0 / frame.strengths[now.strength[i], use[j]]
        explained(gram, cross, use, n, factor, solved, 0.0)
        for j in range(n - 1, -1, -1):
            value = solved[j] + sigma * normal(stream)
            for k in range(j + 1, n):
                value -= factor[k, j] * now.shifts[d, i, first + use[k], 1]
            now.shifts[d, i, first + use[j], 1] = value / factor[j, j]


@inner
def _draw_noise(frame, now, i, stream):
    """The variance of a node's measurements, conjugate."""
    n, total = 0, 0.0
    for k in range(len(frame.value)):
        if frame.measured[k, i] > 0:
            n += 1
            total += (frame.value[k, i] - now.x[k, i]) ** 2
    shape = frame.prior[2] + 0.5 * n
    now.noise[i] = (frame.prior[3] + 0.5 * total) / gamma(stream, shape)


@kernel
def sweeps(frame, choices, now, n_sweeps, keep_every, start_variance, drawn, stream):
    """Draw everything unknown in turn, ``n_sweeps`` times; ``keep_every`` 0 keeps nothing."""
    n_moving, n_held = now.x.shape[1], frame.held.shape[1]
    n_trajectories = len(frame.first) - 1
    widest = 1
    for w in choices.width:
        widest = max(widest, w)
    n_states = np.full(n_held, now.shifts.shape[3])
    stride = np.zeros((n_held, n_held), np.int64)
    none = np.zeros((n_held, 1, now.shifts.shape[3], now.shifts.shape[3]))
    slopes = np.zeros((n_held, n_moving, now.shifts.shape[3], now.shifts.shape[3]))
    initial = np.zeros((n_held, now.shifts.shape[3]))
    start_mean, started = np.zeros(n_moving), np.full(n_moving, start_variance)
    decay, diffusion = np.empty(n_moving), np.empty(n_moving)
    weight, pull = np.empty(now.x.shape), np.empty(now.x.shape)
    empty = np.zeros((0, 0, 0))
    for sweep in range(n_sweeps):
        at_draw, share = -1, 0.0
        if keep_every > 0:
            at_draw, share = sweep // keep_every, 1.0 / keep_every
        for i in range(n_moving):
            _draw_grids(frame, choices, now, frame.held, i, widest, stream)
            _draw_family(frame, choices, now, frame.held, i, drawn, at_draw, share, stream)
            _draw_noise(frame, now, i, stream)
            decay[i], diffusion[i] = frame.decays[now.decay[i]], math.sqrt(now.variance[i])
            for k in range(len(weight)):
                weight[k, i] = frame.measured[k, i] / now.noise[i]
                pull[k, i] = frame.value[k, i] * weight[k, i]
        for d in range(n_trajectories):
            a, b = frame.first[d], frame.first[d + 1]
            model = Model(
                *(decay, diffusion, now.baseline, now.linear, now.quadratic, now.shifts[d]),
                *(start_mean, started, n_states, stride, none, slopes, initial),
            )
            seen = Seen(
                frame.step[frame.block[d] : frame.block[d + 1]], weight[a:b], pull[a:b], empty
            )
            for i in range(n_moving):
                draw_continuous(model, seen, i, now.x[a:b], frame.held[a:b], bool(False), stream)
        if at_draw >= 0 and (sweep + 1) % keep_every == 0:
            for i in range(n_moving):
                drawn.numbers[at_draw, i] = decay[i]
                drawn.numbers[at_draw, n_moving + i] = now.variance[i]
                drawn.numbers[at_draw, 2 * n_moving + i] = now.noise[i]
                drawn.numbers[at_draw, 3 * n_moving + i] = now.baseline[i]
                for j in range(choices.parents.shape[1]):
                    m = choices.parents[now.family[i], j]
                    drawn.parents[at_draw, i, j] = -1
                    if m >= 0:
                        drawn.parents[at_draw, i, j] = choices.used[choices.used_start[i] + m]
