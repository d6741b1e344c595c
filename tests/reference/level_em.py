"""EM of the levels of one node, slow and obvious: one step of the moves, and the whole fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from asterism.learning.level_moves import Redrawn, Stepwise
from asterism.model.emissions import Gaussian
from asterism.numerics.arrays import FloatArray

SLOWEST, FASTEST = 1e-3, 30.0
MOST_STEPS = 80.0
LEAST_SHARE = 0.004


def steps_of(moves: Stepwise, gap: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The speed of steps, true or not; (n, M) chances of m of them; (M, S, S) where they lead."""
    size = len(moves.initial)
    leave = np.concatenate([moves.up, [0.0]]) + np.concatenate([[0.0], moves.down])
    speed = 1.2 * float(leave.max())
    step = np.diag(1.0 - leave / speed)
    lower = np.arange(size - 1)
    step[lower, lower + 1] = moves.up / speed
    step[lower + 1, lower] = moves.down / speed
    mean = np.minimum(speed * gap, MOST_STEPS)
    most = int(mean.max(initial=0.0) + 6.0 * np.sqrt(mean.max(initial=0.0)) + 8.0)
    chances = np.empty((len(gap), most))
    chances[:, 0] = np.exp(-mean)
    powers = np.empty((most, size, size))
    powers[0] = np.eye(size)
    for m in range(1, most):
        chances[:, m] = chances[:, m - 1] * mean / m
        powers[m] = powers[m - 1] @ step
    return speed, chances, powers


def moves_within(moves: Redrawn | Stepwise, gap: FloatArray) -> FloatArray:
    """(n, S, S) chances of moves within each gap."""
    if isinstance(moves, Redrawn):
        stay = np.exp(-moves.rate * gap)[:, None, None]
        return stay * np.eye(len(moves.weights)) + (1.0 - stay) * moves.weights
    _, chances, powers = steps_of(moves, gap)
    return np.einsum("nm,mab->nab", chances, powers)


def improved(
    moves: Redrawn | Stepwise, gap: FloatArray, pairs: FloatArray, first: FloatArray
) -> Redrawn | Stepwise:
    """One EM step; ``first`` is the posterior at the beginnings of trajectories."""
    if isinstance(moves, Redrawn):
        return _redrawn(moves, gap, pairs, first)
    size = len(moves.initial)
    speed, chances, powers = steps_of(moves, gap)
    by_steps = np.einsum("nm,nab->mab", chances, pairs)
    # Σ over steps of (what led there) × (what follows), from the last step to the first
    after, total = np.zeros((size, size)), np.zeros((size, size))
    for m in range(len(powers) - 1, 0, -1):
        after = by_steps[m] + after @ powers[1].T
        total = after + powers[1].T @ total
    steps = powers[1] * total
    made = np.maximum(steps.sum(axis=1), 1e-9)
    lower = np.arange(size - 1)
    climbs = np.stack([steps[lower, lower + 1], steps[lower + 1, lower]])
    rates = speed * (climbs + 0.05) / (np.stack([made[:-1], made[1:]]) + 0.1)
    rates = np.clip(rates, SLOWEST, FASTEST)
    initial = first.sum(axis=0) + 0.5
    return Stepwise(initial / initial.sum(), rates[0], rates[1], climbs, made / speed)


def _redrawn(moves: Redrawn, gap: FloatArray, pairs: FloatArray, first: FloatArray) -> Redrawn:
    ahead = pairs.sum(axis=1) * (-np.expm1(-moves.rate * gap))[:, None] * moves.weights
    redraws = ahead.sum(axis=1)
    weights = np.maximum(ahead.sum(axis=0) + first.sum(axis=0), 1e-6)
    later, rate = gap > 0.0, moves.rate
    if later.any():
        exposure = gap[later]
        mean_if_any = rate * exposure / -np.expm1(-rate * exposure)
        rate = float(np.clip(redraws[later] @ mean_if_any / exposure.sum(), 1e-3, 1e3))
    return Redrawn(weights / weights.sum(), rate, float(redraws.sum() + len(first)))


def em(rows: Any, emission: Any, moves: Any, n_steps: int) -> tuple[Any, Any, float, FloatArray]:
    """So many steps, or fewer where the likelihood stays; parts that are on are moves of theirs."""
    from asterism.learning._level_pass import level_pass

    size, n = len(moves.initial), len(rows.values)
    is_on = getattr(moves, "is_on", None)
    posterior, pairs = np.empty((n, size)), np.empty((n, size, size))
    before = total = -np.inf
    for _ in range(n_steps):
        logs = emission.log_likelihood(rows.values, tuple(range(size)))
        if is_on is None:
            chances = moves_within(moves, rows.gap)
        else:
            on, off = (moves_within(part, rows.gap) for part in (moves.on, moves.off))
            chances = np.where(is_on[:, None, None], on, off)
        total = level_pass(
            logs, chances, np.arange(n), rows.is_first, moves.initial, posterior, pairs
        ).sum()
        if total - before < 2e-3 * (1.0 + abs(total) * 1e-3):
            break
        before, first = total, posterior[rows.is_first]
        if is_on is None:
            moves = improved(moves, rows.gap, pairs, first)
        else:
            halves = {}
            for name, mine in (("on", is_on), ("off", ~is_on)):
                begins = first if mine[0] else first[:0]
                part = getattr(moves, name)
                halves[name] = improved(part, rows.gap[mine], pairs[mine], begins)
            moves = replace(moves, **halves)
        if emission.learn:
            emission = emission.m_step(rows.values, posterior, tuple(range(size)))
            if isinstance(emission, Gaussian):
                least = LEAST_SHARE * float(np.ptp(np.asarray(emission.means)))
                scale = np.maximum(emission.scale, least)
                emission = replace(emission, scale=tuple(scale) if scale.ndim else float(scale))
    return emission, moves, total, posterior.sum(axis=0)
