"""An emission of a node some of whose states cannot be measured, such as being dead.

A measured value excludes the silent states; the other states explain it by an ordinary emission.
A silent state is seen only where the data say so for certain: a code, an event or an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import ModelError
from asterism.model.emissions import Emission, Values, emission_from_dict
from asterism.model.priors import state_number
from asterism.numerics.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class SilentStates(Emission):
    """``emission`` for all states but the ``silent`` ones, which emit nothing."""

    emission: Any
    silent: Sequence[Any]

    def __post_init__(self) -> None:
        given = (self.silent,) if isinstance(self.silent, str) else tuple(self.silent)
        if not given:
            raise ModelError("SilentStates needs at least one silent state.")
        object.__setattr__(self, "silent", given)

    @property
    def learn(self) -> bool:  # type: ignore[override]
        """Whether the inner emission is learned."""
        return bool(self.emission.learn)

    @property
    def n_states(self) -> int | None:
        inner = self.emission.n_states
        return None if inner is None else int(inner) + len(self.silent)

    def speaking(self, states: Sequence[Any]) -> IntArray:
        """Numbers of the states that can be measured."""
        quiet = {state_number("with silent states", label, states) for label in self.silent}
        return np.array([x for x in range(len(states)) if x not in quiet], dtype=np.int64)

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        heard = self.speaking(states)
        result = np.full((len(values), len(states)), -np.inf)
        result[:, heard] = self.emission.log_likelihood(values, [states[x] for x in heard])
        return result

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        """Silent states give NaN, or None where values are labels."""
        heard = self.speaking(states)
        number = np.full(len(states), -1, dtype=np.int64)
        number[heard] = np.arange(len(heard))
        inner = number[state_indices]
        drawn = self.emission.sample(np.maximum(inner, 0), rng, [states[x] for x in heard])
        missing: Any = None if drawn.dtype == object else np.nan
        values: NDArray[Any] = drawn.copy() if drawn.dtype == object else drawn.astype(np.float64)
        values[inner < 0] = missing
        return values

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> SilentStates:
        heard = self.speaking(states)
        inner = self.emission.m_step(values, weights[:, heard], [states[x] for x in heard])
        return replace(self, emission=inner)

    def initialise(self, values: Values, n_states: int) -> SilentStates:
        return replace(self, emission=self.emission.initialise(values, n_states - len(self.silent)))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SilentStates:
        """The inverse of :meth:`to_dict`; ``fields`` are without the kind."""
        return cls(emission_from_dict(fields["emission"]), fields["silent"])
