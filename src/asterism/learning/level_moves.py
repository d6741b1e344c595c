"""Owns how the level of a node alone may move between two measurements, and how that is fitted.

Two kinds. :class:`Redrawn`: a level stays for a while and is then drawn anew from its long-run
distribution. :class:`Stepwise`: a level climbs and falls to its neighbours only, at rates of its
own. Both give the chances of moves for :func:`level_pass`, take one EM step from what it found, and
say what their fitted numbers cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from asterism.numerics.arrays import FloatArray

#: most steps that a gap between two measurements can hold; longer gaps are cut to this
_MOST_STEPS = 80.0
#: rates stay within these, in median gaps
_SLOWEST, _FASTEST = 1e-3, 30.0
#: all three, for the compiled steps
STEP_BOUNDS = (_MOST_STEPS, _SLOWEST, _FASTEST)


@dataclass(frozen=True)
class Redrawn:
    """Stays with probability e^(−rate·gap); otherwise the level is drawn from ``weights``."""

    weights: FloatArray
    rate: float
    redraws: float = 0.0
    """How many were found in the last step."""

    @property
    def initial(self) -> FloatArray:
        """Where trajectories begin: anywhere, as in the long run."""
        return self.weights

    def moves(self, gap: FloatArray) -> FloatArray:
        """(n, S, S) chances of moves within each gap."""
        stay = np.exp(-self.rate * gap)[:, None, None]
        result: FloatArray = stay * np.eye(len(self.weights)) + (1.0 - stay) * self.weights
        return result

    def improved(self, gap: FloatArray, pairs: FloatArray, first: FloatArray) -> Redrawn:
        """One EM step; ``first`` is the posterior at the beginnings of trajectories."""
        ahead = pairs.sum(axis=1) * (-np.expm1(-self.rate * gap))[:, None] * self.weights
        redraws = ahead.sum(axis=1)
        weights = np.maximum(ahead.sum(axis=0) + first.sum(axis=0), 1e-6)
        later = gap > 0.0
        rate = self.rate
        if later.any():
            # a gap with a redraw had on average rate·gap / (1 − e^(−rate·gap)) of them
            exposure = gap[later]
            mean_if_any = rate * exposure / -np.expm1(-rate * exposure)
            rate = float(np.clip(redraws[later] @ mean_if_any / exposure.sum(), 1e-3, 1e3))
        return Redrawn(weights / weights.sum(), rate, float(redraws.sum() + len(first)))

    def penalty(self, n_trajectories: int) -> float:
        """Half the log of the points that speak for each number fitted."""
        return 0.5 * len(self.weights) * float(np.log1p(self.redraws))

    def with_level(self, where: int, weight: float) -> Redrawn:
        """With one more level before number ``where``."""
        weights = np.insert(self.weights * (1.0 - weight), where, weight)
        return replace(self, weights=weights / weights.sum())

    def ordered(self, order: Any) -> Redrawn:
        """With the levels renumbered."""
        return replace(self, weights=self.weights[order])


@dataclass(frozen=True)
class Stepwise:
    """Climbs from level i at rate ``up[i]``, falls to i at rate ``down[i]``."""

    initial: FloatArray
    up: FloatArray
    """(S − 1,)"""
    down: FloatArray
    """(S − 1,) from level i + 1 to i"""
    climbs: FloatArray | None = None
    """(2, S − 1) how many of each were found in the last step."""
    times: FloatArray | None = None
    """(S,) the time that was found in each level."""
    _kept: dict[int, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def like(cls, other: Redrawn) -> Stepwise:
        """With the same long-run distribution and about the same speed."""
        weights = np.maximum(other.weights, 1e-3)
        rate = float(np.clip(other.rate, 10.0 * _SLOWEST, 0.3 * _FASTEST))
        ratio = np.sqrt(weights[1:] / weights[:-1])
        return cls(other.weights, rate * np.minimum(ratio, 5.0), rate * np.minimum(1 / ratio, 5.0))

    def _chain(self, gap: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The speed of steps, true or not; (n, M) chances of m of them; (M, S, S) where they lead.

        A step stays where it is with the chance that makes all levels equally fast. Kept, since
        both the pass and the step of EM after it need this.
        """
        if id(gap) in self._kept:
            return self._kept[id(gap)][1]  # type: ignore[no-any-return]
        size = len(self.initial)
        leave = np.concatenate([self.up, [0.0]]) + np.concatenate([[0.0], self.down])
        speed = 1.2 * float(leave.max())
        step = np.diag(1.0 - leave / speed)
        lower = np.arange(size - 1)
        step[lower, lower + 1] = self.up / speed
        step[lower + 1, lower] = self.down / speed
        mean = np.minimum(speed * gap, _MOST_STEPS)
        most = int(mean.max(initial=0.0) + 6.0 * np.sqrt(mean.max(initial=0.0)) + 8.0)
        chances = np.empty((len(gap), most))
        chances[:, 0] = np.exp(-mean)
        powers = np.empty((most, size, size))
        powers[0] = np.eye(size)
        for m in range(1, most):
            chances[:, m] = chances[:, m - 1] * mean / m
            powers[m] = powers[m - 1] @ step
        self._kept[id(gap)] = (gap, (speed, chances, powers))
        return speed, chances, powers

    def moves(self, gap: FloatArray) -> FloatArray:
        """(n, S, S) chances of moves within each gap."""
        size = len(self.initial)
        _, chances, powers = self._chain(gap)
        return (chances @ powers.reshape(len(powers), -1)).reshape(len(gap), size, size)

    def improved(self, gap: FloatArray, pairs: FloatArray, first: FloatArray) -> Stepwise:
        """One EM step over the steps, those that stay included, whose speed is kept."""
        size = len(self.initial)
        speed, chances, powers = self._chain(gap)
        most = len(powers)
        by_steps = (chances.T @ pairs.reshape(len(gap), -1)).reshape(most, size, size)
        step = powers[1]
        # Σ over steps of (what led there) × (what follows), from the last step to the first
        after = np.zeros((size, size))
        total = np.zeros((size, size))
        for m in range(most - 1, 0, -1):
            after = by_steps[m] + after @ step.T
            total = after + step.T @ total
        steps = step * total
        made = np.maximum(steps.sum(axis=1), 1e-9)
        lower = np.arange(size - 1)
        climbs = np.stack([steps[lower, lower + 1], steps[lower + 1, lower]])
        # a twentieth of a step at the present speed, so that no rate becomes zero
        rates = speed * np.stack(
            [(climbs[0] + 0.05) / (made[:-1] + 0.1), (climbs[1] + 0.05) / (made[1:] + 0.1)]
        )
        rates = np.clip(rates, _SLOWEST, _FASTEST)
        initial = first.sum(axis=0) + 0.5
        return Stepwise(initial / initial.sum(), rates[0], rates[1], climbs, made / speed)

    def penalty(self, n_trajectories: int) -> float:
        """How far the likelihood of the steps found exceeds its average over rates.

        Beforehand a rate is exponential with mean one per median gap. A rate that stays at zero
        pays for all the time in which no step was made.
        """
        starts = 0.5 * (len(self.initial) - 1) * float(np.log(n_trajectories))
        if self.climbs is None or self.times is None:
            return starts
        n, time = self.climbs, np.stack([self.times[:-1], self.times[1:]])
        at_best = xlogy(n, n / np.maximum(time, 1e-12)) - n
        on_average = gammaln(n + 1.0) - (n + 1.0) * np.log1p(time)
        return starts + float((at_best - on_average).sum())

    def ordered(self, order: Any) -> Stepwise:
        """Levels that changed places during the fit keep their rates by rank."""
        return replace(self, initial=self.initial[order])
