"""The soft threshold: two states, told apart by whether a value lies above or below average.

The model of the paper's gene expression data. It needs no calibration: what is "high" for a node
follows from the node's own values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from asterism.errors import Advice, DataError, ModelError
from asterism.model.emissions import Emission, Values, as_floats, finite_numbers, require_n_states
from asterism.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Threshold(Emission):
    """Two states told apart by a soft threshold: Φ((y − mean)/scale) for the upper, 1 − Φ for the
    lower.

    Where ``mean`` and ``scale`` are None, ``fitted`` takes them from the data: the average and
    (population) standard deviation of the node's values, or of each group of them; with
    ``per_trajectory=True`` callers pass trajectories as the groups. Fitted per group, both are
    dictionaries.

    These are not densities of y. Times a normal density with the same mean and scale they are,
    and ``sample`` draws from those: the larger (upper) or smaller (lower) of two normal numbers.
    """

    mean: float | Mapping[Any, float] | None = None
    scale: float | Mapping[Any, float] | None = None
    per_trajectory: bool = False

    learn = False
    n_states = 2

    def __post_init__(self) -> None:
        for name in ("mean", "scale"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                checked = dict(
                    zip(value, finite_numbers(f"Threshold {name}", list(value.values())))
                )
                object.__setattr__(self, name, checked)
            elif value is not None:
                object.__setattr__(self, name, finite_numbers(f"Threshold {name}", [value])[0])
        scales: Any = self.scale.values() if isinstance(self.scale, dict) else [self.scale]
        if any(s is not None and s <= 0.0 for s in scales):
            raise ModelError(f"The scale of Threshold must be positive, got {self.scale}.")

    @property
    def is_fitted(self) -> bool:
        """Whether mean and scale of the values are known."""
        return self.mean is not None and self.scale is not None

    def fitted(self, values: Values, groups: Any = None) -> Threshold:
        """A copy with mean and scale from the values of one node, or from each group of them."""
        if self.is_fitted:
            return self
        y = as_floats("Threshold", values)
        if groups is None:
            mean, scale = self._mean_and_scale(y, "The values")
            return replace(self, mean=mean, scale=scale)
        labels = list(groups)
        members: dict[Any, list[int]] = {}
        for place, label in enumerate(labels):
            members.setdefault(label, []).append(place)
        found = {
            g: self._mean_and_scale(y[m], f"The values of group {g!r}") for g, m in members.items()
        }
        means = {g: both[0] for g, both in found.items()}
        return replace(self, mean=means, scale={g: both[1] for g, both in found.items()})

    def log_likelihood(
        self, values: Values, states: Sequence[Any], groups: Any = None
    ) -> FloatArray:
        require_n_states("Threshold", 2, states)
        y = as_floats("Threshold", values)
        z = (y - self._per_value(self.mean, len(y), groups)) / self._per_value(
            self.scale, len(y), groups
        )
        result: FloatArray = np.stack([log_ndtr(-z), log_ndtr(z)], axis=1)
        return result

    def sample(
        self, state_indices: IntArray, rng: np.random.Generator, states: Any, groups: Any = None
    ) -> FloatArray:
        require_n_states("Threshold", 2, states)
        n = len(state_indices)
        pairs = np.sort(rng.normal(size=(n, 2)), axis=1)
        z = np.take_along_axis(pairs, np.asarray(state_indices)[:, None], axis=1)[:, 0]
        mean = self._per_value(self.mean, n, groups)
        result: FloatArray = mean + self._per_value(self.scale, n, groups) * z
        return result

    def initialise(self, values: Values, n_states: int) -> Threshold:
        return self.fitted(values)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Threshold:
        listed: dict[str, Any] = {
            name: dict(value) if name in ("mean", "scale") and isinstance(value, list) else value
            for name, value in fields.items()
        }
        return cls(**listed)

    def _mean_and_scale(self, y: FloatArray, what: str) -> tuple[float, float]:
        mean: Any = float(y.mean()) if self.mean is None and len(y) else self.mean
        scale: Any = float(y.std()) if self.scale is None and len(y) else self.scale
        if not isinstance(mean, float) or not isinstance(scale, float) or scale <= 0.0:
            raise DataError(
                f"{what} do not vary, so Threshold cannot take its mean and scale from them; ",
                Advice("give mean= and scale=.", "give them, as in --emission NODE=threshold:0:1."),
            )
        return mean, scale

    def _per_value(self, parameter: Any, n: int, groups: Any) -> FloatArray:
        if parameter is None:
            raise ModelError("Threshold has no mean or scale yet: call fitted(values) first.")
        if not isinstance(parameter, dict):
            return np.full(n, parameter)
        labels = list(groups) if groups is not None else []
        if len(labels) != n or not set(labels) <= set(parameter):
            raise ModelError(
                f"Threshold was fitted per group ({', '.join(map(repr, parameter))}): "
                "say which of these groups each value belongs to."
            )
        return np.array([parameter[g] for g in labels])
