"""Owns the quantities that EM moves, as one object and as one vector.

An :class:`Estimate` holds flat rates, flat initial probabilities and the learned emissions.
:class:`Coordinates` turns it into a vector without bounds (ln R, ln p, and what
``emission_fit`` says), and gives the gradient and the complete-data information there. The
gradient of the log evidence is that of its expected complete-data form (Fisher's identity):

    ∂/∂ln R = M + a − (T + b) R          ∂/∂ln p0(x) = C(x) − p0(x) Σ C

It holds for mean field and star as well, because their F is stationary in the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.inference.evidence import FloatArray, IntArray
from asterism.learning import emission_fit
from asterism.learning.em_steps import Expected
from asterism.learning.emission_fit import LOG_FLOOR, LearnedNode
from asterism.learning.rates_update import RateUpdate
from asterism.model.emissions import Gaussian

BoolArray = NDArray[np.bool_]
_LARGEST_LOG_MOVE = 2.0
_SMALLEST = float(np.exp(LOG_FLOOR))


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
        rates = np.maximum(estimate.rates[self.update.index], _SMALLEST)
        initial = [np.maximum(estimate.initial[g], _SMALLEST) for g in self.initial_groups]
        emissions = [emission_fit.coordinates(e, n) for e, n in zip(estimate.emissions, self.nodes)]
        return np.concatenate([np.log(rates), *(np.log(p) for p in initial), *emissions])

    def estimate(self, vector: FloatArray, like: Estimate) -> Estimate:
        """The estimate at a vector; what the vector does not cover is taken from ``like``."""
        n_rates = len(self.update.index)
        logs = np.minimum(vector[:n_rates], np.log(self.update.ceiling))
        free = np.where(logs > LOG_FLOOR + 1.0, np.exp(logs), 0.0)
        initial = like.initial.copy()
        at = n_rates
        for group in self.initial_groups:
            initial[group] = _softmax(vector[at : at + len(group)])
            at += len(group)
        emissions = []
        for node, emission in zip(self.nodes, like.emissions):
            size = len(emission_fit.coordinates(emission, node))
            emissions.append(emission_fit.at_coordinates(emission, vector[at : at + size], node))
            at += size
        return Estimate(self.update.with_rates(like.rates, free), initial, tuple(emissions))

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
        by_rate = t * estimate.rates[self.update.index]
        score, information = [m - by_rate], [by_rate]
        for group in self.initial_groups:
            count = expected.initial[group]
            fitted = count.sum() * estimate.initial[group]
            score.append(count - fitted)
            information.append(fitted)
        for emission, node in zip(estimate.emissions, self.nodes):
            s, i = emission_fit.score_and_information(emission, node, expected.points[node.place])
            score.append(s)
            information.append(i)
        return np.concatenate(score), np.concatenate(information)

    def largest_move(self, estimate: Estimate) -> FloatArray:
        """How far one extrapolated step may go: a factor of e², or a scale for Gaussian means."""
        fixed = len(self.update.index) + sum(map(len, self.initial_groups))
        parts = [np.full(fixed, _LARGEST_LOG_MOVE)]
        for emission, node in zip(estimate.emissions, self.nodes):
            part = np.full(len(emission_fit.coordinates(emission, node)), _LARGEST_LOG_MOVE)
            if isinstance(emission, Gaussian):
                part[: len(node.states)] = emission.scale
            parts.append(part)
        return np.concatenate(parts)

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


def _softmax(logs: FloatArray) -> FloatArray:
    shifted = logs - logs.max()
    weights = np.where(shifted > LOG_FLOOR + 1.0, np.exp(shifted), 0.0)
    result: FloatArray = weights / weights.sum()
    return result
