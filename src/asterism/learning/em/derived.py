"""Owns the uncertainty of anything that follows from the parameters: delta method or simulation.

The estimate is a vector with a normal distribution around it (inverse observed information). A
quantity is a function of the vector. *Delta*: its derivative, by central differences, carries the
covariance over; intervals are symmetric on a scale on which the quantity is unbounded (ln for
positive numbers, logit for probabilities). *Simulate*: draw vectors, take quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from asterism.errors import ModelError
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.learning.em.uncertainty import Information
from asterism.timeline.evidence import FloatArray

_STEP = 1e-5
_N_DRAWS = 1000

Quantity = Callable[[Estimate], FloatArray]


@dataclass(frozen=True)
class Interval:
    """A quantity, its standard error, and the ends of its interval; all of one shape."""

    value: FloatArray
    se: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class Uncertainty:
    """The distribution of the parameters of a fit."""

    fit: Fit
    information: Information

    def covariance_of(self, quantity: Quantity) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        """Value, covariance, and which entries depend on what the data do not determine."""
        best = self.fit.outcome.best.estimate
        coordinates = self.fit.task.coordinates
        vector = coordinates.vector(best)
        covariance, unknown = self.information.covariance()
        value = np.asarray(quantity(best), dtype=np.float64).ravel()
        slope = np.zeros((len(value), len(vector)))
        for i in self.information.active:
            step = _STEP * max(abs(float(vector[i])), 1e-3)
            ends = []
            for sign in (1.0, -1.0):
                moved = vector.copy()
                moved[i] += sign * step
                ends.append(np.ravel(quantity(coordinates.estimate(moved, best))))
            slope[:, i] = (ends[0] - ends[1]) / (2.0 * step)
        touched: NDArray[Any] = np.asarray((np.abs(slope[:, unknown]) > 1e-12).any(axis=1))
        return value, slope @ covariance @ slope.T, touched

    def interval(
        self,
        quantity: Quantity,
        scale: str,
        level: float,
        method: str = "delta",
        seed: Any = 0,
    ) -> Interval:
        """``scale``: "log", "logit" or "identity"; ``method``: "delta" or "simulate"."""
        if method not in ("delta", "simulate"):
            raise ModelError(f'interval is {method!r}; valid are "delta" and "simulate".')
        shape = np.shape(quantity(self.fit.outcome.best.estimate))
        value, covariance, unknown = self.covariance_of(quantity)
        se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if method == "delta":
            lower, upper = limits(value, se, scale, float(norm.isf(0.5 * (1.0 - level))))
        else:
            lower, upper = self._simulated(quantity, level, seed)
        se = np.where(unknown, np.inf, se)
        lower = np.where(unknown, {"log": 0.0, "logit": 0.0}.get(scale, -np.inf), lower)
        upper = np.where(unknown, {"logit": 1.0}.get(scale, np.inf), upper)
        return Interval(*(part.reshape(shape) for part in (value, se, lower, upper)))

    def _simulated(
        self, quantity: Quantity, level: float, seed: Any
    ) -> tuple[FloatArray, FloatArray]:
        best = self.fit.outcome.best.estimate
        coordinates = self.fit.task.coordinates
        covariance, _ = self.information.covariance()
        values, vectors = np.linalg.eigh(covariance)
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        rng = np.random.default_rng(seed)
        draws = coordinates.vector(best) + rng.normal(size=(_N_DRAWS, len(half))) @ half.T
        is_root = coordinates.roots(best)
        draws[:, is_root] = np.abs(draws[:, is_root])
        found = np.array([np.ravel(quantity(coordinates.estimate(v, best))) for v in draws])
        tail = 0.5 * (1.0 - level)
        return np.quantile(found, tail, axis=0), np.quantile(found, 1.0 - tail, axis=0)


def limits(
    value: FloatArray, se: FloatArray, scale: str, width: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval that is symmetric on a scale; a value at a bound has no width there."""
    if scale == "identity":
        return value - width * se, value + width * se
    if scale == "log":
        inside = value > 0.0
        safe = np.where(inside, value, 1.0)
        factor = np.exp(np.minimum(width * se / safe, 700.0))
        return np.where(inside, value / factor, 0.0), np.where(inside, value * factor, width * se)
    inside = (value > 1e-12) & (value < 1.0 - 1e-12)
    p = np.where(inside, value, 0.5)
    centre, reach = np.log(p / (1.0 - p)), width * se / (p * (1.0 - p))
    low, high = (1.0 / (1.0 + np.exp(-np.clip(centre + s * reach, -700, 700))) for s in (-1, 1))
    return np.where(inside, low, value), np.where(inside, high, value)
