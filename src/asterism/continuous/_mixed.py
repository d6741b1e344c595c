"""Compiled: draws of paths of continuous and jumping nodes on a grid of times.

The model on the grid is that of ``simulate.py``: within a step every continuous node takes an exact
step of its own OU process and every jumping node leaves its state at most once, parents held at
their values at the beginning of the step. One node's path is drawn given all others:

- A jumping path by a backward filter and forward draws: exact.
- A continuous path from a normal distribution with a tridiagonal precision where all its children
  are linear. Otherwise quadratic children and jumping children add terms, each of one grid point.
  Newton steps, which depend on the other paths only, find a normal distribution close to all of
  it; elliptical slice sampling (Murray, Adams and MacKay 2010) corrects for the difference.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import uniform
from asterism.sampling._variates import normal

#: Newton steps towards the mode; more change nothing that the slice sampler would notice
_NEWTON_STEPS = 6
#: angles that the slice sampler tries before the path stays as it is
_MOST_ANGLES = 200
#: log rates are cut off here, so that no rate is infinite
_LARGEST_LOG = 200.0


class Model(NamedTuple):
    """A network as arrays: C continuous nodes, J jumping ones with up to S states."""

    decay: np.ndarray
    diffusion: np.ndarray
    baseline: np.ndarray
    linear: np.ndarray
    """(C, C) [child, parent]"""
    quadratic: np.ndarray
    """(C, C)"""
    shifts: np.ndarray
    """(C, J, S)"""
    start_mean: np.ndarray
    start_variance: np.ndarray
    n_states: np.ndarray
    """(J,)"""
    stride: np.ndarray
    """(J, J) [child, parent]: what one state of the parent adds to the number of the block."""
    rates: np.ndarray
    """(J, blocks, S, S)"""
    slopes: np.ndarray
    """(J, C, S, S)"""
    initial: np.ndarray
    """(J, S)"""


class Seen(NamedTuple):
    """One trajectory: T grid points and what was measured at them."""

    step: np.ndarray
    """(T − 1,)"""
    weight: np.ndarray
    """(T, C) sum of 1 / noise variance"""
    pull: np.ndarray
    """(T, C) sum of value / noise variance"""
    log_likelihood: np.ndarray
    """(T, J, S)"""


@inner
def _own_step(model, c, h):
    """a, b, q of x(t + h) = a x(t) + b push + normal(0, q)."""
    decay = model.decay[c]
    a = math.exp(-decay * h)
    spread = -math.expm1(-2.0 * decay * h) / (2.0 * decay)
    return a, (1.0 - a) / decay, model.diffusion[c] ** 2 * spread


@inner
def _push(model, c, x, s, k, without):
    """What drives node c at point k, but for its own decay and one continuous parent."""
    total = model.baseline[c]
    for p in range(x.shape[1]):
        if p != without:
            total += (model.linear[c, p] + model.quadratic[c, p] * x[k, p]) * x[k, p]
    for m in range(s.shape[1]):
        total += model.shifts[c, m, s[k, m]]
    return total


@inner
def _leave(model, m, x, s, k, start, changed, state, without, out):
    """Rates out of ``start`` of node m at point k, and their sum.

    Jumping node ``changed`` counts as being in ``state``, continuous node ``without`` as zero.
    """
    block = 0
    for p in range(s.shape[1]):
        block += model.stride[m, p] * (state if p == changed else s[k, p])
    total = 0.0
    for j in range(model.n_states[m]):
        rate = model.rates[m, block, start, j]
        if rate > 0.0 and j != start:
            log = 0.0
            for c in range(x.shape[1]):
                if c != without:
                    log += model.slopes[m, c, start, j] * x[k, c]
            rate *= math.exp(min(log, _LARGEST_LOG))
            total += rate
            out[j] = rate
        else:
            out[j] = 0.0
    return total


@inner
def _log_move(total, rate, h, stays):
    """ln P of staying, or of the move that has this rate, within a step."""
    if stays:
        return -total * h
    if not rate > 0.0:
        return -math.inf
    return math.log(-math.expm1(-total * h)) + math.log(rate / total)


@kernel
def draw_jumping(model, seen, m, x, s, alone, stream):
    """A new path of jumping node m; False if no path can be. ``alone``: without its children."""
    n, size = len(x), model.n_states[m]
    n_jump, widest = s.shape[1], model.rates.shape[2]
    out = np.empty(widest)
    logs = np.empty(size)
    move = np.zeros((n, size, size))
    after = np.ones((n, size))
    for k in range(n - 1, -1, -1):
        for i in range(size):
            logs[i] = seen.log_likelihood[k, m, i]
        if k < n - 1:
            h = seen.step[k]
            for i in range(size):
                total = _leave(model, m, x, s, k, i, -1, 0, -1, out)
                gone = -math.expm1(-total * h)
                for j in range(size):
                    move[k, i, j] = gone * out[j] / total if out[j] > 0.0 else 0.0
                move[k, i, i] = math.exp(-total * h)
            for c in range(x.shape[1]):
                touched = False
                for i in range(size):
                    touched |= model.shifts[c, m, i] != 0.0
                if touched and not alone:
                    a, b, q = _own_step(model, c, h)
                    others = _push(model, c, x, s, k, -1) - model.shifts[c, m, s[k, m]]
                    for i in range(size):
                        miss = x[k + 1, c] - a * x[k, c] - b * (others + model.shifts[c, m, i])
                        logs[i] -= 0.5 * miss * miss / q
            for child in range(n_jump):
                if model.stride[child, m] > 0 and not alone:
                    was, becomes = s[k, child], s[k + 1, child]
                    for i in range(size):
                        total = _leave(model, child, x, s, k, was, m, i, -1, out)
                        logs[i] += _log_move(total, out[becomes], h, was == becomes)
        top = -math.inf
        for i in range(size):
            top = max(top, logs[i])
        if not top > -math.inf:
            return False
        everything = 0.0
        for i in range(size):
            ahead = 1.0
            if k < n - 1:
                ahead = 0.0
                for j in range(size):
                    ahead += move[k, i, j] * after[k + 1, j]
            after[k, i] = math.exp(logs[i] - top) * ahead
            everything += after[k, i]
        if not everything > 0.0:
            return False
        for i in range(size):
            after[k, i] /= everything
    for k in range(n):
        everything = 0.0
        for i in range(size):
            chance = model.initial[m, i] if k == 0 else move[k - 1, s[k - 1, m], i]
            logs[i] = chance * after[k, i]
            everything += logs[i]
        if not everything > 0.0:
            return False
        target = uniform(stream) * everything
        for i in range(size):
            if logs[i] > 0.0:
                s[k, m] = i
                target -= logs[i]
                if target < 0.0:
                    break
    return True


@inner
def _terms(model, seen, c, k, value, s, base, rest):
    """What quadratic and jumping children at point k say of node c: ln, slope, curvature ≥ 0."""
    log, slope, curvature = 0.0, 0.0, 0.0
    h = seen.step[k]
    for d in range(len(model.decay)):
        bend = model.quadratic[d, c]
        if bend != 0.0:
            _, b, q = _own_step(model, d, h)
            weight = model.linear[d, c]
            miss = rest[k, d] - b * (weight + bend * value) * value
            change = b * (weight + 2.0 * bend * value)
            log -= 0.5 * miss * miss / q
            slope += miss * change / q
            curvature += change * change / q
    for m in range(s.shape[1]):
        was, becomes = s[k, m], s[k + 1, m]
        total, first, second, own = 0.0, 0.0, 0.0, 0.0
        steered = False
        for j in range(model.n_states[m]):
            by = model.slopes[m, c, was, j]
            steered |= by != 0.0
            rate = base[k, m, j]
            if rate > 0.0:
                rate *= math.exp(min(by * value, _LARGEST_LOG))
                total += rate
                first += by * rate
                second += by * by * rate
                if j == becomes:
                    own = rate
        if not steered or total == 0.0:
            continue
        log += _log_move(total, own, h, was == becomes)
        if was == becomes:
            slope -= h * first
            curvature += h * second
        else:
            # u = ln(1 − e^(−h total)) − ln total: its first and second derivative
            y = h * total
            if y < 1e-3:
                du, ddu = h * (y / 12.0 - 0.5), h * h / 12.0
            else:
                grown = math.expm1(min(y, 500.0))
                du = h / grown - 1.0 / total
                ddu = 1.0 / total**2 - h * h * (1.0 / grown + 1.0 / grown**2)
            slope += du * first + model.slopes[m, c, was, becomes]
            curvature += max(-(du * second + ddu * first * first), 0.0)
    return log, slope, curvature


@inner
def _factor(diagonal, off, root, share):
    """The bidiagonal Cholesky factor of a tridiagonal matrix."""
    before = 0.0
    for k in range(len(diagonal)):
        root[k] = math.sqrt(diagonal[k] - before * before)
        if k < len(off):
            share[k] = off[k] / root[k]
            before = share[k]


@inner
def _solve(root, share, pull, out):
    n = len(root)
    for k in range(n):
        out[k] = (pull[k] - (share[k - 1] * out[k - 1] if k > 0 else 0.0)) / root[k]
    for k in range(n - 1, -1, -1):
        out[k] = (out[k] - (share[k] * out[k + 1] if k < n - 1 else 0.0)) / root[k]


@kernel
def draw_continuous(model, seen, c, x, s, alone, stream):
    """A new path of continuous node c. ``alone``: without its children."""
    n, n_jump = len(x), s.shape[1]
    diagonal, off, pull = seen.weight[:, c].copy(), np.zeros(n - 1), seen.pull[:, c].copy()
    diagonal[0] += 1.0 / model.start_variance[c]
    pull[0] += model.start_mean[c] / model.start_variance[c]
    is_bent = False
    if not alone:
        for d in range(len(model.decay)):
            is_bent |= model.quadratic[d, c] != 0.0
        for m in range(n_jump):
            for i in range(model.n_states[m]):
                for j in range(model.n_states[m]):
                    is_bent |= model.slopes[m, c, i, j] != 0.0
    base = np.zeros((n - 1, n_jump, model.rates.shape[2])) if is_bent else np.zeros((0, 0, 0))
    rest = np.zeros((n - 1, len(model.decay))) if is_bent else np.zeros((0, 0))
    for k in range(n - 1):
        h = seen.step[k]
        a, b, q = _own_step(model, c, h)
        driven = b * _push(model, c, x, s, k, c)
        diagonal[k] += a * a / q
        diagonal[k + 1] += 1.0 / q
        off[k] = -a / q
        pull[k] -= a * driven / q
        pull[k + 1] += driven / q
        if alone:
            continue
        for d in range(len(model.decay)):
            weight, bend = model.linear[d, c], model.quadratic[d, c]
            if d != c and (weight != 0.0 or bend != 0.0):
                a, b, q = _own_step(model, d, h)
                miss = x[k + 1, d] - a * x[k, d] - b * _push(model, d, x, s, k, c)
                if bend == 0.0:
                    diagonal[k] += (b * weight) ** 2 / q
                    pull[k] += b * weight * miss / q
                else:
                    rest[k, d] = miss
        if is_bent:
            for m in range(n_jump):
                _leave(model, m, x, s, k, s[k, m], -1, 0, c, base[k, m])
    root, share, middle = np.empty(n), np.empty(n - 1), np.empty(n)
    _factor(diagonal, off, root, share)
    _solve(root, share, pull, middle)
    curvature, lean = np.zeros(n), np.zeros(n)
    if is_bent:
        usual = model.diffusion[c] / math.sqrt(2.0 * model.decay[c])
        full, pulled, moved = np.empty(n), np.empty(n), np.empty(n)
        for _ in range(_NEWTON_STEPS):
            for k in range(n - 1):
                _, slope, curvature[k] = _terms(model, seen, c, k, middle[k], s, base, rest)
                lean[k] = slope + curvature[k] * middle[k]
            for k in range(n):
                full[k], pulled[k] = diagonal[k] + curvature[k], pull[k] + lean[k]
            _factor(full, off, root, share)
            _solve(root, share, pulled, moved)
            for k in range(n):
                step = moved[k] - middle[k]
                middle[k] += min(max(step, -3.0 * usual), 3.0 * usual)
        _solve(root, share, pulled, middle)
    noise = np.empty(n)
    for k in range(n - 1, -1, -1):
        noise[k] = (normal(stream) - (share[k] * noise[k + 1] if k < n - 1 else 0.0)) / root[k]
    if not is_bent:
        for k in range(n):
            x[k, c] = middle[k] + noise[k]
        return
    level = _beyond(model, seen, c, x[:, c], s, base, rest, curvature, lean)
    level += math.log(uniform(stream))
    angle = 2.0 * math.pi * uniform(stream)
    low, high = angle - 2.0 * math.pi, angle
    tried = np.empty(n)
    for _ in range(_MOST_ANGLES):
        for k in range(n):
            away = x[k, c] - middle[k]
            tried[k] = middle[k] + away * math.cos(angle) + noise[k] * math.sin(angle)
        if _beyond(model, seen, c, tried, s, base, rest, curvature, lean) > level:
            for k in range(n):
                x[k, c] = tried[k]
            return
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * uniform(stream)


@inner
def _beyond(model, seen, c, path, s, base, rest, curvature, lean):
    """What the terms of the children say beyond their normal approximation."""
    total = 0.0
    for k in range(len(path) - 1):
        log, _, _ = _terms(model, seen, c, k, path[k], s, base, rest)
        total += log - (lean[k] - 0.5 * curvature[k] * path[k]) * path[k]
    return total


@kernel
def sweeps(model, seen, x, s, n_sweeps, alone, watched, stream, kept, sums, counts):
    """Draw every node's path in turn, ``n_sweeps`` times; False if no path can be.

    ``kept`` (n_sweeps, watched, C + J) receives values at some grid points, ``sums`` (2, T, C) and
    ``counts`` (T, J, S) add up values, squares and states; of length zero where nothing is kept.
    """
    n_moving, n_jump = x.shape[1], s.shape[1]
    for sweep in range(n_sweeps):
        for m in range(n_jump):
            if not draw_jumping(model, seen, m, x, s, alone, stream):
                return False
        for c in range(n_moving):
            draw_continuous(model, seen, c, x, s, alone, stream)
        if len(kept) == 0:
            continue
        for i in range(len(watched)):
            for c in range(n_moving):
                kept[sweep, i, c] = x[watched[i], c]
            for m in range(n_jump):
                kept[sweep, i, n_moving + m] = s[watched[i], m]
        for k in range(len(x)):
            for c in range(n_moving):
                sums[0, k, c] += x[k, c]
                sums[1, k, c] += x[k, c] ** 2
            for m in range(n_jump):
                counts[k, m, s[k, m]] += 1.0
    return True
