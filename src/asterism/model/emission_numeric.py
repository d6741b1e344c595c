"""Emissions of numbers with one mean per state: Gaussian, Student t and Poisson.

Everything is computed in logs, so that a measurement far out in a tail stays finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.special import gammaln, xlogy

from asterism.errors import Advice, DataError, ModelError
from asterism.model.emissions import (
    Emission,
    Values,
    as_floats,
    as_tuple,
    checked_weights,
    cluster_means,
    finite_numbers,
    require_n_states,
    weighted_means,
)
from asterism.numerics.arrays import FloatArray, IntArray

#: the scale that stands for one per state, learned
PER_STATE: Literal["per-state"] = "per-state"

#: a learned scale never falls below this share of the data's spread, or densities would explode
SMALLEST_SCALE = 1e-6


@dataclass(frozen=True)
class Gaussian(Emission):
    """Normal noise around one mean per state; ``scale`` is the standard deviation.

    ``scale`` is one number for all states or one per state. With ``learn=True``, means and scale
    may be left out: they then start from clusters of the data; the scale "per-state" is one for
    each of them. ``levels`` then says how many states
    there are: a number, or "auto" to let the learner count them, node by node.
    """

    means: Sequence[float] | None = None
    scale: float | Sequence[float] | Literal["per-state"] | None = None
    learn: bool = False
    levels: int | Literal["auto"] | None = None

    def __post_init__(self) -> None:
        means = self.means
        scale: Any = self.scale
        if (means is None or scale is None or isinstance(scale, str)) and not self.learn:
            raise ModelError(
                f"{self._name} needs means and a scale",
                Advice(" unless learn=True.", ", as in gaussian:-1,1:0.2."),
            )
        if means is not None:
            means = finite_numbers(f"{self._name} means", means)
            object.__setattr__(self, "means", means)
        object.__setattr__(self, "levels", _checked_levels(self._name, self.levels, means))
        if scale is None or scale == PER_STATE:
            return
        if isinstance(scale, str):
            raise ModelError(f"The scale of Gaussian is {scale!r}; it is a number or {PER_STATE}.")
        per_state = np.ndim(scale) > 0
        scales = finite_numbers(f"{self._name} scale", scale if per_state else [scale])
        if min(scales) <= 0.0:
            raise ModelError(f"The scale of {self._name} must be positive, got {scale}.")
        if per_state and means is not None and len(scales) != len(means):
            raise ModelError(
                f"{self._name} has {len(means)} means but {len(scales)} scales; "
                "give one scale, or one per state."
            )
        object.__setattr__(self, "scale", scales if per_state else scales[0])

    @property
    def n_states(self) -> int | None:
        if self.means is not None:
            return len(self.means)
        if isinstance(self.levels, int):
            return self.levels
        return len(self.scale) if isinstance(self.scale, tuple) else None

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        means, scale = self._parameters()
        require_n_states(self._name, self.n_states, states)
        y = as_floats(self._name, values)
        with np.errstate(over="ignore"):
            return self._log_density((y[:, None] - means) / scale) - np.log(scale)

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> FloatArray:
        means, scale = self._parameters()
        require_n_states(self._name, self.n_states, states)
        drawn: FloatArray = means[state_indices] + scale[state_indices] * self._deviations(
            rng, len(state_indices)
        )
        return drawn

    # ---- the distribution of (value − mean) / scale ----

    def _log_density(self, z: FloatArray) -> FloatArray:
        result: FloatArray = -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)
        return result

    def _deviations(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.normal(size=n)

    def precision(self, z: FloatArray) -> FloatArray:
        """The weight of a measurement that deviates by z scales; 1 for normal noise."""
        return np.ones_like(z)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> Self:
        means, scale = self._parameters()
        y = as_floats(self._name, values)
        w = checked_weights(y, weights, len(means))
        if w.sum() <= 0.0:
            return self
        # outliers of heavy tails weigh less (EM for a normal of unknown precision)
        heavy = w * self.precision((y[:, None] - means) / scale)
        means = weighted_means(y, heavy, means)
        squares = (y[:, None] - means) ** 2
        floor = SMALLEST_SCALE * float(np.std(y))
        if isinstance(self.scale, tuple):
            total = w.sum(axis=0)
            variance = (heavy * squares).sum(axis=0) / np.where(total > 0.0, total, 1.0)
            fitted = np.where(total > 0.0, np.sqrt(variance), scale)
            # without any spread there is nothing to learn a scale from: keep the old one
            fitted = np.maximum(fitted, floor) if floor > 0.0 else scale
            return replace(self, means=as_tuple(means), scale=as_tuple(fitted))
        shared = max(math.sqrt(float((heavy * squares).sum() / w.sum())), floor)
        return replace(self, means=as_tuple(means), scale=shared if floor > 0.0 else self.scale)

    def initialise(self, values: Values, n_states: int) -> Self:
        if self.means is not None and self.scale is not None and self.scale != PER_STATE:
            return self
        y = as_floats(self._name, values)
        if self.means is None:
            means = cluster_means(self._name, y, n_states)
        else:
            means = np.array(self.means)
        scale: Any = self.scale
        if scale is None or scale == PER_STATE:
            within = np.abs(y[:, None] - means).min(axis=1)
            # clusters of equal values have no width; EM needs some to move at all
            scale = max(float(np.sqrt(np.mean(within**2))), 0.05 * float(np.std(y)))
            if scale == 0.0:
                raise DataError(
                    f"The starting scale of {self._name} cannot be found; ",
                    Advice("give scale=.", "give it, as in --emission NODE=gaussian:-1,1:0.2."),
                )
        if self.scale == PER_STATE:
            scale = (float(scale),) * len(means)
        return replace(self, means=as_tuple(means), scale=scale, levels=None)

    def _parameters(self) -> tuple[FloatArray, FloatArray]:
        if self.means is None or self.scale is None or isinstance(self.scale, str):
            raise ModelError(
                f"{self._name} has no means or scale yet: initialise it from data first."
            )
        means = np.array(self.means)
        return means, np.broadcast_to(np.asarray(self.scale, dtype=np.float64), means.shape)


@dataclass(frozen=True, init=False)
class StudentT(Gaussian):
    """Noise with outliers: Student's t with ``df`` degrees of freedom around one mean per state.

    ``scale`` is that of the t distribution; the other arguments are those of :class:`Gaussian`.
    The fewer degrees of freedom, the heavier the tails; ``df`` itself is not learned.
    """

    df: float = 4.0

    def __init__(
        self,
        means: Sequence[float] | None = None,
        scale: float | Sequence[float] | None = None,
        df: float = 4.0,
        learn: bool = False,
        levels: int | Literal["auto"] | None = None,
    ) -> None:
        df = finite_numbers("StudentT degrees of freedom", [df])[0]
        if df <= 0.0:
            raise ModelError(f"The degrees of freedom of StudentT must be positive, got {df:g}.")
        given = {"means": means, "scale": scale, "df": df, "learn": learn, "levels": levels}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def _log_density(self, z: FloatArray) -> FloatArray:
        half = 0.5 * (self.df + 1.0)
        constant = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * math.log(self.df * math.pi)
        # through the square of a hypotenuse: z² would overflow
        result: FloatArray = constant - 2.0 * half * np.log(np.hypot(1.0, z / math.sqrt(self.df)))
        return result

    def _deviations(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.standard_t(self.df, size=n)

    def precision(self, z: FloatArray) -> FloatArray:
        weight: FloatArray = (self.df + 1.0) / (self.df + z**2)
        return weight


@dataclass(frozen=True)
class Poisson(Emission):
    """Counts with one mean per state; with ``learn=True`` the means may be left out.

    ``levels`` then says how many states there are, as for :class:`Gaussian`.
    """

    means: Sequence[float] | None = None
    learn: bool = False
    levels: int | Literal["auto"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _checked_levels("Poisson", self.levels, self.means))
        if self.means is None:
            if not self.learn:
                raise ModelError(
                    "Poisson needs means", Advice(" unless learn=True.", ", as in poisson:1,10.")
                )
            return
        means = finite_numbers("Poisson means", self.means)
        if min(means) < 0.0:
            raise ModelError(f"The means of Poisson must not be negative, got {list(means)}.")
        object.__setattr__(self, "means", means)

    @property
    def n_states(self) -> int | None:
        if self.means is not None:
            return len(self.means)
        return self.levels if isinstance(self.levels, int) else None

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        means = self._parameters()
        require_n_states("Poisson", self.n_states, states)
        counts = _counts(values)[:, None]
        result: FloatArray = xlogy(counts, means) - means - gammaln(counts + 1.0)
        return result

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> FloatArray:
        means = self._parameters()
        require_n_states("Poisson", self.n_states, states)
        return rng.poisson(means[state_indices]).astype(np.float64)

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> Poisson:
        means = self._parameters()
        counts = _counts(values)
        w = checked_weights(counts, weights, len(means))
        if w.sum() <= 0.0:
            return self
        # a mean of exactly zero would forbid every later count
        floor = SMALLEST_SCALE * float(counts.mean())
        return replace(self, means=as_tuple(np.maximum(weighted_means(counts, w, means), floor)))

    def initialise(self, values: Values, n_states: int) -> Poisson:
        if self.means is not None:
            return self
        counts = _counts(values)
        means = cluster_means("Poisson", counts, n_states)
        started = as_tuple(np.maximum(means, 0.05 * float(counts.mean())))
        return replace(self, means=started, levels=None)

    def _parameters(self) -> FloatArray:
        if self.means is None:
            raise ModelError("Poisson has no means yet: initialise it from data first.")
        return np.array(self.means)


def _checked_levels(kind: str, levels: Any, means: Any) -> int | Literal["auto"] | None:
    """A number of levels ≥ 2, "auto", or None; means that are given settle the question."""
    if levels is None or (isinstance(levels, str) and levels == "auto"):
        return None if means is not None or levels is None else "auto"
    if isinstance(levels, bool) or not isinstance(levels, int | np.integer) or levels < 2:
        raise ModelError(f'levels of {kind} must be a whole number ≥ 2 or "auto", got {levels!r}.')
    if means is not None and len(means) != levels:
        raise ModelError(f"{kind} has {len(means)} means but levels={levels}; drop one of the two.")
    return None if means is not None else int(levels)


def _counts(values: Values) -> FloatArray:
    counts = as_floats("Poisson", values)
    bad = (counts < 0.0) | (counts != np.floor(counts))
    if bad.any():
        raise DataError(f"Poisson measures counts 0, 1, 2, …, got {counts[bad][0]}.")
    return counts
