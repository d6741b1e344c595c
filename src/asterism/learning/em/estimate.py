"""Owns the quantities that EM moves, as one object and as one vector.

An :class:`Estimate` holds flat rates, flat initial probabilities and the learned emissions.
:class:`Coordinates` turns it into a vector, and gives the gradient and the complete-data
information there. Rates and probabilities enter as square roots, s = √R: their complete-data
information 4T does not depend on s, and a best value of zero is an ordinary stationary point
instead of a place at infinity, as it would be for ln R. The gradient of the log evidence is that
of its expected complete-data form (Fisher's identity):

    ∂/∂√R = 2 (M + a − (T + b) R) / √R          ∂/∂√p = 2 (C − p ΣC) / √p

It holds for mean field and star as well, because their F is stationary in the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.evidence.arrays import FloatArray, IntArray
from asterism.learning.em import emission_fit
from asterism.learning.em.e_step import Expected
from asterism.learning.em.emission_fit import LearnedNode, root_score
from asterism.learning.em.rates_update import RateUpdate

BoolArray = NDArray[np.bool_]

_SHRINK, _GROW = 0.03, 2.0
"""One extrapolated step may take a square root to between these multiples of itself."""


@dataclass(frozen=True)
class Estimate:
    """One set of parameters."""

    rates: FloatArray
    initial: FloatArray
    emissions: tuple[Any, ...]
    """In the order of the learned nodes."""


@dataclass(frozen=True)
class Coordinates:
    """How estimates and vectors correspond."""

    update: RateUpdate
    initial_groups: tuple[IntArray, ...]
    """Places in the flat initial probabilities, one group per node whose start is learned."""
    nodes: tuple[LearnedNode, ...]

    def vector(self, estimate: Estimate) -> FloatArray:
        """The estimate as a vector."""
        initial = [estimate.initial[g] for g in self.initial_groups]
        emissions = [emission_fit.coordinates(e, n) for e, n in zip(estimate.emissions, self.nodes)]
        roots = np.sqrt(np.concatenate([estimate.rates[self.update.index], *initial]))
        return np.concatenate([roots, *emissions])

    def estimate(self, vector: FloatArray, like: Estimate) -> Estimate:
        """The estimate at a vector; what the vector does not cover is taken from ``like``."""
        n_rates = len(self.update.index)
        free = np.minimum(vector[:n_rates] ** 2, self.update.ceiling)
        initial = like.initial.copy()
        at = n_rates
        for group in self.initial_groups:
            weight = vector[at : at + len(group)] ** 2
            initial[group] = weight / weight.sum()
            at += len(group)
        emissions = []
        for node, emission in zip(self.nodes, like.emissions):
            size = len(emission_fit.coordinates(emission, node))
            emissions.append(emission_fit.at_coordinates(emission, vector[at : at + size], node))
            at += size
        return Estimate(self.update.with_rates(like.rates, free), initial, tuple(emissions))

    def moved(
        self, estimate: Estimate, vector: FloatArray, direction: FloatArray, image: Estimate
    ) -> Estimate:
        """A step along the direction, not farther than extrapolation can be trusted.

        Square roots stay positive; what the vector does not cover comes from the M-step's answer
        ``image``.
        """
        n_roots = len(self.update.index) + sum(map(len, self.initial_groups))
        target = vector + direction
        roots, aim = vector[:n_roots], self.vector(image)[:n_roots]
        low, high = _SHRINK * roots, _GROW * np.maximum(roots, aim)
        target[:n_roots] = np.clip(target[:n_roots], low, high)
        at = n_roots
        for emission, node in zip(estimate.emissions, self.nodes):
            size = len(emission_fit.coordinates(emission, node))
            inside = slice(at, at + size)
            low, high = emission_fit.trusted_range(emission, vector[inside], node)
            target[inside] = np.clip(target[inside], low, high)
            at += size
        return self.estimate(target, image)

    def improved(self, estimate: Estimate, expected: Expected) -> Estimate:
        """The M-step: the parameters that fit the expected statistics best."""
        rates = self.update.rates(expected.transitions, expected.dwell, estimate.rates)
        initial = estimate.initial.copy()
        for group in self.initial_groups:
            count = np.maximum(expected.initial[group], 0.0)
            if count.sum() > 0.0:
                initial[group] = count / count.sum()
        emissions = tuple(
            e.m_step(n.values, expected.points[n.place], n.states)
            for e, n in zip(estimate.emissions, self.nodes)
        )
        return Estimate(rates, initial, emissions)

    def score_and_information(
        self, estimate: Estimate, expected: Expected
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient of the objective, and diagonal complete-data information."""
        m, t = self.update.totals(expected.transitions, expected.dwell)
        rates = estimate.rates[self.update.index]
        score, information = [root_score(m, t, rates)], [4.0 * t]
        for group in self.initial_groups:
            count = expected.initial[group]
            total = np.full(len(group), count.sum())
            score.append(root_score(count, total, estimate.initial[group]))
            information.append(4.0 * total)
        for emission, node in zip(estimate.emissions, self.nodes):
            s, i = emission_fit.score_and_information(emission, node, expected.points[node.place])
            score.append(s)
            information.append(i)
        return np.concatenate(score), np.concatenate(information)

    def redundant(self, estimate: Estimate) -> BoolArray:
        """Coordinates that others determine: of each set of probabilities the largest."""
        parts = [np.zeros(len(self.update.index), dtype=np.bool_)]
        for group in self.initial_groups:
            part = np.zeros(len(group), dtype=np.bool_)
            part[int(np.argmax(estimate.initial[group]))] = True
            parts.append(part)
        parts += [
            emission_fit.reference_coordinates(e, n) for e, n in zip(estimate.emissions, self.nodes)
        ]
        return np.concatenate(parts)
