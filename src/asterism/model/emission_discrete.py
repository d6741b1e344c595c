"""Emissions of labels, and ready-made likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asterism.errors import DataError, ModelError
from asterism.model.emissions import Emission, Values, as_floats, checked_weights, require_n_states
from asterism.model.names import checked_states, label_array, numbers_of
from asterism.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Categorical(Emission):
    """A reported label that may be wrong: ``confusion[x][r]`` is P(reported r | true state x).

    Reported labels are the node's own states, or ``labels`` where they differ. When learned,
    entries that start at 0 or 1 stay there.
    """

    confusion: Sequence[Sequence[float]]
    learn: bool = False
    labels: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        try:
            table = np.array(self.confusion, dtype=np.float64)
        except (TypeError, ValueError):
            table = np.zeros(0)
        if table.ndim != 2 or min(table.shape) < 2:
            raise ModelError(
                "The confusion matrix must have one row per true state and one column per "
                f"reported label, at least two of each, got {self.confusion!r}."
            )
        for row, entries in enumerate(table):
            finite = np.isfinite(entries).all() and (entries >= 0.0).all()
            if not finite or abs(entries.sum() - 1.0) > 1e-6:
                raise ModelError(
                    f"Row {row} of the confusion matrix must be probabilities that sum to one, "
                    f"got {entries.tolist()}."
                )
        sums = table.sum(axis=1, keepdims=True)
        table = np.where(np.abs(sums - 1.0) > 1e-15, table / sums, table)
        object.__setattr__(self, "confusion", tuple(tuple(map(float, row)) for row in table))
        if self.labels is not None:
            checked = checked_states("reported label", list(self.labels))
            if len(checked) != table.shape[1]:
                raise ModelError(
                    f"The confusion matrix has {table.shape[1]} columns but {len(checked)} labels."
                )
            object.__setattr__(self, "labels", checked)

    @property
    def n_states(self) -> int:
        return len(self.confusion)

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        require_n_states("Categorical", self.n_states, states)
        with np.errstate(divide="ignore"):
            logs = np.log(np.array(self.confusion))
        result: FloatArray = logs[:, self._columns(values, states)].T
        return result

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        require_n_states("Categorical", self.n_states, states)
        edges = np.cumsum(np.array(self.confusion), axis=1)
        # the last edge may round below one, and labels of probability zero must not be drawn
        edges /= edges[:, -1:]
        drawn = rng.random(len(state_indices))
        columns = (drawn[:, None] >= edges[state_indices]).sum(axis=1)
        reported: Values = label_array(self._reported(states))[columns]
        return reported

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> Categorical:
        old = np.array(self.confusion)
        columns = self._columns(values, states)
        w = checked_weights(columns, weights, self.n_states)
        counts = np.zeros_like(old)
        np.add.at(counts.T, columns, w)
        # a single entry is certain by construction; a large one beside tiny others is not
        free = (old > 0.0) & ((old > 0.0).sum(axis=1, keepdims=True) > 1)
        counts = np.where(free, counts, 0.0)
        total = counts.sum(axis=1, keepdims=True)
        fitted = np.where(free & (total > 0.0), counts / np.where(total > 0.0, total, 1.0), old)
        return replace(self, confusion=tuple(map(tuple, fitted)))

    def _reported(self, states: Sequence[Any] | None) -> Sequence[Any]:
        n_columns = len(self.confusion[0])
        if self.labels is not None:
            return self.labels
        if states is not None and len(states) == n_columns:
            return states
        return [str(i) for i in range(n_columns)]

    def _columns(self, values: Values, states: Sequence[Any] | None) -> IntArray:
        return _numbers_of(values, self._reported(states))


@dataclass(frozen=True)
class Exact(Emission):
    """Noiseless: the measured value is the label of the state itself."""

    learn = False
    n_states = None

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        seen = _numbers_of(values, states)
        return np.where(seen[:, None] == np.arange(len(states)), 0.0, -np.inf)

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        reported: Values = label_array(states)[state_indices]
        return reported


@dataclass(frozen=True)
class Likelihood(Emission):
    """The observations already hold P(y | state): values are rows with one number per state."""

    learn = False
    n_states = None

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        table = as_floats("Likelihood", values)
        if table.ndim != 2 or table.shape[1] != len(states):
            raise DataError(
                f"A ready-made likelihood needs one number per state, shape (n, {len(states)}), "
                f"got {table.shape}."
            )
        if (table < 0.0).any():
            raise DataError(f"A likelihood cannot be negative, got {table[table < 0.0][0]}.")
        with np.errstate(divide="ignore"):
            result: FloatArray = np.log(table)
        return result

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        raise ModelError(
            "Likelihood only reads ready-made likelihoods and cannot simulate measurements; "
            "use Gaussian, Poisson, Categorical, Exact or Threshold."
        )


def _numbers_of(values: Values, known: Sequence[Any]) -> IntArray:
    def complaint(label: Any) -> str:
        options = ", ".join(map(repr, known))
        return f"The measured label {label!r} is unknown; the labels are {options}."

    return numbers_of(known, values, complaint)
