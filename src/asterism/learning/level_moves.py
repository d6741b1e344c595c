"""Owns how the level of a node alone may move between two measurements, and what that costs.

:class:`Redrawn`: a level stays for a while and is then drawn anew from its long-run distribution.
:class:`Stepwise`: a level climbs and falls to its neighbours only, at rates of its own.
:class:`Pushed`: levels are drawn anew, from other weights and at another rate while something acts
on the node. All are fitted by ``climb_levels``, which reads them as arrays, and say what their
fitted numbers cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

#: most steps that a gap between two measurements can hold; longer gaps are cut to this
_MOST_STEPS = 80.0
#: rates stay within these, in median gaps
_SLOWEST, _FASTEST = 1e-3, 30.0
#: all three, for the compiled steps
STEP_BOUNDS = (_MOST_STEPS, _SLOWEST, _FASTEST)


class MoveArrays(NamedTuple):
    """Moves as compiled loops read them."""

    gaps: FloatArray
    """(U,) all lengths of gaps."""
    which: IntArray
    """(n,) whose the gap before each row is."""
    group: IntArray
    """(U,) which moves hold within it."""
    initial: FloatArray
    """[group, level]"""
    rates: FloatArray
    """[group, 0] of drawing anew; or rates of climbing and of falling."""
    redrawn: bool

    @classmethod
    def of(cls, gap: FloatArray, initial: Any, rates: Any, redrawn: bool) -> MoveArrays:
        """The same moves within all gaps."""
        gaps, which = np.unique(gap, return_inverse=True)
        group = np.zeros(len(gaps), dtype=np.int64)
        return cls(gaps, which, group, np.array(initial), np.array(rates), redrawn)

    def chances(self) -> FloatArray:
        """(U, S, S) chances of moves within each length of gap."""
        from asterism.learning._level_pass import moves_within

        room = self.room()
        own = (self.gaps, self.group, self.initial, self.rates, self.redrawn)
        moves_within(*own, _MOST_STEPS, *room)
        return room[0]

    def room(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For the chances of moves in each gap, of so many steps in it, and where they lead."""
        size = self.initial.shape[1]
        most = 1 if self.redrawn else int(_MOST_STEPS + 6.0 * np.sqrt(_MOST_STEPS) + 8.0)
        shapes = ((len(self.gaps), size, size), (len(self.gaps), most), (most, size, size))
        moves, chances, powers = (np.empty(shape) for shape in shapes)
        return moves, chances, powers


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

    def arrays(self, gap: FloatArray) -> MoveArrays:
        """For the compiled loops."""
        return MoveArrays.of(gap, [self.weights], [[self.rate]], True)

    def fitted(self, own: MoveArrays, found: FloatArray, group: int = 0) -> Redrawn:
        """What the compiled loop made of it."""
        return Redrawn(own.initial[group], float(own.rates[group, 0]), float(found[group, 0]))

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
class Pushed:
    """Levels are redrawn from other weights, at another rate, while something acts on the node."""

    off: Redrawn
    on: Redrawn
    is_on: BoolArray
    """Per row, whether it acted for most of the gap before it."""

    @property
    def initial(self) -> FloatArray:
        """Where trajectories begin."""
        return self.on.weights if self.is_on[0] else self.off.weights

    def arrays(self, gap: FloatArray) -> MoveArrays:
        """For the compiled loops."""
        off, on = self.off.arrays(gap), self.on.arrays(gap)
        n = len(off.gaps)
        return MoveArrays(
            np.tile(off.gaps, 2),
            off.which + n * self.is_on,
            np.repeat([0, 1], n),
            np.concatenate([off.initial, on.initial]),
            np.concatenate([off.rates, on.rates]),
            True,
        )

    def fitted(self, own: MoveArrays, found: FloatArray) -> Pushed:
        """What the compiled loop made of it."""
        off, on = (part.fitted(own, found, g) for g, part in enumerate((self.off, self.on)))
        return Pushed(off, on, self.is_on)

    def penalty(self, n_trajectories: int) -> float:
        """That of both."""
        return self.on.penalty(n_trajectories) + self.off.penalty(n_trajectories)

    def ordered(self, order: Any) -> Pushed:
        """With the levels renumbered."""
        return replace(self, on=self.on.ordered(order), off=self.off.ordered(order))


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

    @classmethod
    def like(cls, other: Redrawn) -> Stepwise:
        """With the same long-run distribution and about the same speed."""
        weights = np.maximum(other.weights, 1e-3)
        rate = float(np.clip(other.rate, 10.0 * _SLOWEST, 0.3 * _FASTEST))
        ratio = np.sqrt(weights[1:] / weights[:-1])
        return cls(other.weights, rate * np.minimum(ratio, 5.0), rate * np.minimum(1 / ratio, 5.0))

    def arrays(self, gap: FloatArray) -> MoveArrays:
        """For the compiled loops."""
        return MoveArrays.of(gap, [self.initial], [self.up, self.down], False)

    def fitted(self, own: MoveArrays, found: FloatArray) -> Stepwise:
        """What the compiled loop made of it."""
        climbs = np.ascontiguousarray(found[:2, :-1])
        return Stepwise(own.initial[0], own.rates[0], own.rates[1], climbs, found[2])

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
