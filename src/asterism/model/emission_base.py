"""What every emission can do, and the small tools they share.

An emission says how likely a measured value is under each state of a node. Emissions are values:
fitting one returns another. A value that no state explains gives a row of −inf, which the caller
turns into an error with :func:`require_possible`, because only the caller knows where it stood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from asterism.errors import Advice, DataError, ModelError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Values = NDArray[Any]


@runtime_checkable
class Emission(Protocol):
    """The contract of an emission; ``states`` are always the node's labels, in order."""

    @property
    def learn(self) -> bool:
        """Whether learning may change the parameters."""

    @property
    def n_states(self) -> int | None:
        """Number of states the parameters are for; None where any number will do."""

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        """(n, S) log probability, or density, of each value under each state; no NaN in or out."""

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        """One measured value for each state number."""

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> Emission:
        """The best parameters when value i came from state x with probability weights[i, x].

        Whether it is called at all is decided by ``learn``.
        """

    def initialise(self, values: Values, n_states: int) -> Emission:
        """A copy with parameters that were left open filled in from the data."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description, read back by ``emission_from_dict``."""


def as_floats(kind: str, values: Any) -> FloatArray:
    """Measured values as finite floats, or an error that quotes the first that is not one."""
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        numbers = np.empty(array.shape, dtype=np.float64)
        for place, value in zip(np.ndindex(array.shape), array.ravel().tolist()):
            try:
                numbers[place] = float(value)
            except (TypeError, ValueError):
                raise DataError(f"{kind} measures numbers, got {value!r}.") from None
        array = numbers
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise DataError(f"{kind} measures finite numbers, got {array[~np.isfinite(array)][0]}.")
    return array


def require_n_states(kind: str, has: int | None, states: Sequence[Any]) -> None:
    """The parameters must be for as many states as the node has."""
    if has is not None and has != len(states):
        raise ModelError(
            f"{kind} has parameters for {has} states, but the node has {len(states)}: "
            f"{', '.join(map(repr, states))}."
        )


def require_possible(log_likelihood: FloatArray, describe: Callable[[int], str]) -> None:
    """Raise for the first row in which every state is excluded; ``describe(row)`` names it."""
    impossible = ~(log_likelihood > -np.inf).any(axis=-1)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise DataError(f"{describe(row)} is impossible under every state of its node.")


def weighted_means(values: FloatArray, weights: FloatArray, otherwise: FloatArray) -> FloatArray:
    """(S,) weighted means; a state without any weight keeps what it had."""
    total = weights.sum(axis=0)
    known = total > 0.0
    means = weights.T @ values / np.where(known, total, 1.0)
    return np.where(known, means, otherwise)


def checked_weights(values: Values, weights: Any, n_states: int) -> FloatArray:
    """Posterior probabilities (n, S) that belong to the values."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (len(values), n_states):
        raise ModelError(
            f"Weights have shape {array.shape}, expected {(len(values), n_states)} "
            "(values, states)."
        )
    return array


def cluster_means(kind: str, values: FloatArray, n_clusters: int) -> FloatArray:
    """Ascending centres of k-means in one dimension, started at evenly spaced quantiles."""
    if len(values) == 0 or np.ptp(values) == 0.0:
        raise DataError(
            f"The starting means of {kind} cannot be found from "
            f"{len(values)} measured values without any variation; ",
            Advice("give means=.", "give them, as in --emission NODE=gaussian:-1,1:0.2."),
        )
    centres = np.quantile(values, (np.arange(n_clusters) + 0.5) / n_clusters)
    for _ in range(25):
        if (np.diff(centres) <= 0.0).any():
            # ties (many equal values) would leave empty clusters: start evenly spaced instead
            centres = np.linspace(values.min(), values.max(), n_clusters)
        nearest = np.argmin(np.abs(values[:, None] - centres), axis=1)
        count = np.bincount(nearest, minlength=n_clusters)
        total = np.bincount(nearest, weights=values, minlength=n_clusters)
        moved = np.where(count > 0, total / np.maximum(count, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.sort(centres)


def as_tuple(values: FloatArray) -> tuple[float, ...]:
    """Parameters as plain floats, so that emissions compare and print well."""
    return tuple(float(v) for v in values)


def finite_numbers(what: str, values: Any) -> tuple[float, ...]:
    """Parameters given by the user, or an error that says which are wrong."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise ModelError(f"{what} must be finite numbers, one per state, got {values!r}.")
    return as_tuple(array)
