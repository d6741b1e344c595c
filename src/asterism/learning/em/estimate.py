"""Owns the quantities that EM moves, as one object and as one vector.

An :class:`Estimate` holds flat rates, flat start probabilities, the learned emissions and the
effects of covariates. The vector is: baselines of rates, start probabilities, effects,
emissions. :class:`Coordinates` turns it into a vector, and gives the gradient and the complete-data
information there. Rates and probabilities enter as square roots, s = √R: their complete-data
information 4T does not depend on s, and a best value of zero is an ordinary stationary point
instead of a place at infinity, as it would be for ln R. The gradient of the log evidence is that
of its expected complete-data form (Fisher's identity):

    ∂/∂√R = 2 (M + a − (T + b) R) / √R          ∂/∂√p = 2 (C − p ΣC) / √p

It holds for mean field and star as well, because their F is stationary in the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.learning.em import emission_fit
from asterism.learning.em.e_step import Expected
from asterism.learning.em.emission_fit import LearnedNode, root_score
from asterism.learning.em.frailty import LARGEST_SPREAD
from asterism.learning.em.rates_update import LARGEST_EFFECT, RateUpdate
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

_SHRINK, _GROW = 0.03, 2.0
"""One extrapolated step may take a square root to between these multiples of itself."""
_LARGEST_MOVE = 1.0
"""And the effect of a standardised covariate this far."""


@dataclass(frozen=True)
class Estimate:
    """One set of parameters."""

    rates: FloatArray
    initial: FloatArray
    emissions: tuple[Any, ...]
    """In the order of the learned nodes."""
    effects: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Of covariates, standardised, and the spreads of factors; the flat rates hold what they do."""
    emitted: Any = field(default=None, init=False, repr=False, compare=False)
    """The parameters of the emissions, once :meth:`Coordinates.emitted` has described them."""


@dataclass(frozen=True)
class Coordinates:
    """How estimates and vectors correspond."""

    update: RateUpdate
    initial_groups: tuple[IntArray, ...]
    """Places in the flat start probabilities, one group per node whose start is learned."""
    nodes: tuple[LearnedNode, ...]

    @property
    def n_roots(self) -> int:
        """Coordinates that are square roots: baselines and start probabilities."""
        return self.update.n_base + sum(map(len, self.initial_groups))

    @property
    def effects(self) -> slice:
        """Where the effects stand in a vector."""
        return slice(self.n_roots, self.n_roots + self.update.n_effects)

    @property
    def spreads(self) -> slice:
        """Where the spreads of factors stand: at the end of the effects."""
        return slice(
            self.n_roots + self.update.formula.n_covariate_effects,
            self.n_roots + self.update.n_effects,
        )

    def emitted(self, estimate: Estimate) -> NDArray[Any]:
        """The parameters of the learned emissions, which stand at the end of a vector."""
        if estimate.emitted is None:
            parts, n_rows = [np.zeros(0, emission_fit.PARAMETER)], 0
            for n, (emission, node) in enumerate(zip(estimate.emissions, self.nodes)):
                own = emission_fit.described(emission, node)
                own["node"] = n
                own["row"][own["row"] >= 0] += n_rows
                n_rows = max(n_rows, int(own["row"].max(initial=-1)) + 1)
                parts.append(own)
            object.__setattr__(estimate, "emitted", np.concatenate(parts))
        found: NDArray[Any] = estimate.emitted
        return found

    def vector(self, estimate: Estimate) -> FloatArray:
        """The estimate as a vector."""
        initial = [estimate.initial[g] for g in self.initial_groups]
        base = self.update.baselines(estimate.rates, estimate.effects)
        roots = np.sqrt(np.concatenate([base, *initial]))
        return np.concatenate([roots, estimate.effects, self.emitted(estimate)["at"]])

    def estimate(self, vector: FloatArray, like: Estimate) -> Estimate:
        """The estimate at a vector; what the vector does not cover is taken from ``like``."""
        n_rates = self.update.n_base
        free = np.minimum(vector[:n_rates] ** 2, self.update.ceiling)
        initial = like.initial.copy()
        at = n_rates
        for group in self.initial_groups:
            weight = vector[at : at + len(group)] ** 2
            initial[group] = weight / weight.sum()
            at += len(group)
        effects = np.clip(vector[self.effects], -LARGEST_EFFECT, LARGEST_EFFECT)
        n = self.update.formula.n_covariate_effects
        effects[n:] = np.minimum(np.abs(effects[n:]), LARGEST_SPREAD)
        sizes = np.bincount(self.emitted(like)["node"], minlength=len(self.nodes))
        pieces = np.split(vector[self.effects.stop :], np.cumsum(sizes)[:-1])
        moved = zip(like.emissions, pieces, self.nodes)
        emissions = [emission_fit.at_coordinates(e, own, node) for e, own, node in moved]
        rates = self.update.with_rates(like.rates, free, effects)
        return Estimate(rates, initial, tuple(emissions), effects)

    def moved(
        self, estimate: Estimate, vector: FloatArray, direction: FloatArray, image: Estimate
    ) -> Estimate:
        """A step along the direction, not farther than extrapolation can be trusted.

        Square roots stay positive; what the vector does not cover comes from the M-step's answer
        ``image``.
        """
        n_roots = self.n_roots
        target = vector + direction
        roots, aim = vector[:n_roots], self.vector(image)[:n_roots]
        low, high = _SHRINK * roots, _GROW * np.maximum(roots, aim)
        target[:n_roots] = np.clip(target[:n_roots], low, high)
        now = vector[self.effects]
        target[self.effects] = np.clip(
            target[self.effects], now - _LARGEST_MOVE, now + _LARGEST_MOVE
        )
        spread, reach = vector[self.spreads], self.vector(image)[self.spreads]
        target[self.spreads] = np.clip(
            target[self.spreads], _SHRINK * spread, _GROW * np.maximum(spread, reach)
        )
        emitted = self.emitted(estimate)
        inside = slice(self.effects.stop, None)
        target[inside] = np.clip(target[inside], emitted["low"], emitted["high"])
        return self.estimate(target, image)

    def improved(self, estimate: Estimate, expected: Expected) -> Estimate:
        """The M-step: the parameters that fit the expected statistics best."""
        rates, effects = self.update.improved(
            expected.transitions, expected.dwell, estimate.rates, estimate.effects
        )
        initial = estimate.initial.copy()
        for group in self.initial_groups:
            count = np.maximum(expected.initial[group], 0.0)
            if count.sum() > 0.0:
                initial[group] = count / count.sum()
        emissions = tuple(
            emission_fit.m_step(e, n, expected.points[n.place])
            for e, n in zip(estimate.emissions, self.nodes)
        )
        return Estimate(rates, initial, emissions, effects)

    def score_and_information(
        self, estimate: Estimate, expected: Expected
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient of the objective, and diagonal complete-data information.

        An effect that has run away to its limit is held there: both are zero.
        """
        update = self.update
        m, t = update.totals(expected.transitions, expected.dwell, estimate.effects)
        rates = update.baselines(estimate.rates, estimate.effects)
        score, information = [root_score(m, t, rates)], [4.0 * t]
        for group in self.initial_groups:
            count = expected.initial[group]
            total = np.full(len(group), count.sum())
            score.append(root_score(count, total, estimate.initial[group]))
            information.append(4.0 * total)
        if update.n_effects:
            seen = expected.transitions[update.index]
            usual = expected.dwell[update.dwell_index] * estimate.rates[update.index]
            slopes = update.formula.slopes(estimate.effects)
            score.append(slopes.T @ (seen - usual))
            information.append((slopes**2).T @ usual)
        for emission, node in zip(estimate.emissions, self.nodes):
            s, i = emission_fit.score_and_information(emission, node, expected.points[node.place])
            score.append(s)
            information.append(i)
        gradient, complete = np.concatenate(score), np.concatenate(information)
        vector = self.vector(estimate)
        held = self.ratios(estimate) & (np.abs(vector) >= LARGEST_EFFECT) & (gradient * vector >= 0)
        return np.where(held, 0.0, gradient), np.where(held, 0.0, complete)

    def roots(self, estimate: Estimate) -> BoolArray:
        """Coordinates that are square roots, and spreads: the objective is even in them."""
        spreads = np.arange(self.update.n_effects) >= self.update.formula.n_covariate_effects
        own = self.emitted(estimate)["row"] >= 0
        return np.concatenate([np.ones(self.n_roots, dtype=np.bool_), spreads, own])

    def ratios(self, estimate: Estimate) -> BoolArray:
        """Effects on rates, odds and counts, and spreads: those that can run away."""
        effects = np.arange(self.effects.stop) >= self.n_roots
        return np.concatenate([effects, self.emitted(estimate)["is_ratio"]])

    def redundant(self, estimate: Estimate) -> BoolArray:
        """Coordinates that others determine: of each set of probabilities the largest."""
        emitted = self.emitted(estimate)
        result = np.zeros(self.effects.stop + len(emitted), dtype=np.bool_)
        at = self.update.n_base
        for group in self.initial_groups:
            result[at + int(np.argmax(estimate.initial[group]))] = True
            at += len(group)
        for inside in emission_fit.rows_of(emitted):
            largest = inside[int(np.argmax(emitted["value"][inside]))]
            result[self.effects.stop + int(largest)] = True
        return result
