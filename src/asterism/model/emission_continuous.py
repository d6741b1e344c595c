"""A node that moves continuously, instead of jumping between states: concentrations, temperatures.

It has no states, so whatever asks for the likelihood of a state is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from asterism.errors import ModelError
from asterism.model.emissions import Emission, Values
from asterism.numerics.arrays import FloatArray, IntArray

#: methods of StructureLearner that learn continuous nodes
LEARNED_BY = ("star", "auto", "sample")


@dataclass(frozen=True)
class Continuous(Emission):
    """The measured node moves continuously around a resting level that its parents set.

    Only :class:`~asterism.StructureLearner` takes it. Noise and resting level are learned.
    """

    graph_learner = "asterism.learning.search.continuous_search"

    @property
    def n_states(self) -> int | None:
        """Refused: there are none."""
        _refuse()

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        """Refused: there are no states."""
        _refuse()

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        """Refused: there are no states."""
        _refuse()

    def initialise(self, values: Values, n_states: int) -> Emission:
        """Refused: there are no states."""
        _refuse()


def _refuse() -> NoReturn:
    raise ModelError(
        "Continuous nodes have no states: only StructureLearner learns from them, where every "
        "measured node has am.Continuous() or an emission of its own states."
    )
