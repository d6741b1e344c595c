"""What a deterministic method must say about itself, so that the engine can do the rest.

A rule says how trajectories are solved on a given grid, how its batches are read, and how exact its
first steps should be. To add a method, derive from :class:`Rule` in a file of ``rules/`` that opens
with the mathematics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.engine.batch import Outcome
from asterism.engine.grid import Grid, make_grid
from asterism.errors import AsterismError, Setting
from asterism.timeline.evidence import Evidence, FloatArray, IntArray
from asterism.timeline.timeline import timeline_of


@dataclass(frozen=True)
class Precision:
    """How exactly, and how long."""

    tolerance: float = 1e-3
    """Marginals absolutely, evidence and statistics relatively."""
    time_step: float | None = None
    """Equal steps instead, in the unit of the data."""
    max_sweeps: int = 200
    n_jobs: int = 1

    def check(self) -> None:
        """Refuse what makes no sense."""
        if not self.tolerance > 0.0:
            raise AsterismError(
                Setting("tolerance"), f" is {self.tolerance}; it must be positive, e.g. 1e-3."
            )
        if self.time_step is not None and not self.time_step > 0.0:
            raise AsterismError(Setting("time_step"), f" is {self.time_step}; it must be positive.")
        if self.max_sweeps < 1:
            raise AsterismError(
                Setting("max_sweeps"), f" is {self.max_sweeps}; it must be at least 1."
            )


class Rule(ABC):
    """A deterministic method.

    A batch is a :class:`~asterism.engine.batch.Batch` with arrays of the rule's own. Statistics are
    a tuple of arrays that add up over trajectories.
    """

    name: str
    precision: Precision
    relaxation_rate: float
    first_step: float
    """Length of the first steps in relaxation times, for the tolerance."""
    finest: int
    """Parts into which a first step may be cut."""
    largest_cut: int
    """Parts into which a step may be cut at once."""
    group_bytes: float
    """Messages on the first grid up to which trajectories are refined together."""
    numbers_per_step: int
    """Numbers that messages hold per step of a trajectory."""
    usual_pace: float
    """Numbers updated in a second, before anything was measured."""
    is_exact_on_any_grid: bool
    is_smooth: bool = False
    """Whether smooth steps are of fourth order."""
    residual_is: str
    """What the residual of the iteration is, for a sentence: "largest change … {:.1e}"."""
    remedies: tuple[Any, ...]
    """What helps against an iteration that does not converge."""

    def grid(self, evidence: Evidence, factors: IntArray) -> Grid:
        """First steps, cut into ``factors`` parts."""
        return make_grid(
            timeline_of(evidence),
            self.relaxation_rate,
            self.first_step,
            factors,
            self.precision.time_step,
            is_corrected=self.is_smooth,
        )

    @abstractmethod
    def make_batch(self, evidence: Evidence, grid: Grid, same: Any) -> Any:
        """``same``: a batch of the same trajectories on other steps, or None."""

    @abstractmethod
    def prolong(self, coarse: Any, fine: Any, of_fine: IntArray, ratios: IntArray) -> None:
        """Start on finer steps from the messages of the coarser ones."""

    @abstractmethod
    def run(
        self, batch: Any, max_sweeps: int, restart: bool
    ) -> tuple[Outcome, tuple[FloatArray, ...]]:
        """Iterate to the fixed point, and count. Raises where the evidence is impossible."""

    @abstractmethod
    def select(self, batch: Any, index: IntArray) -> tuple[Any, tuple[FloatArray, ...]]:
        """Some trajectories of a solved batch, and their statistics."""

    @abstractmethod
    def largest_change(
        self, coarse: Any, fine: Any, of_fine: IntArray, ratios: IntArray
    ) -> FloatArray:
        """Per trajectory, the largest difference of a marginal between two grids."""

    def order(self, batch: Any) -> IntArray:
        """Per trajectory, with which power of the step its error surely falls."""
        return np.full(batch.n_trajectories, 2)

    def stored_bytes(self, batch: Any) -> int:
        """Bytes of messages that single precision would halve."""
        return 0

    def in_precision(self, batch: Any, kind: Any) -> Any:
        """The same with messages in single or double precision, if the rule can."""
        return batch

    def require_answer(self, outcome: Outcome, evidence: Evidence) -> None:
        """Raise where the iteration left no answer."""
        return

    def complaint(self, outcome: Outcome) -> str | None:
        """Another reason not to trust a converged outcome."""
        return None

    @abstractmethod
    def dwell_and_transitions(self, solution: Any) -> tuple[FloatArray, FloatArray]:
        """Flat expected dwell times and transitions."""

    def evidence_parts(self, solution: Any) -> Mapping[str, float]:
        """The terms of F, where the rule knows them."""
        return {}

    @abstractmethod
    def marginals(self, batch: Any, index: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n), at times between start and end."""

    @abstractmethod
    def forecast(
        self, batch: Any, index: int, times: FloatArray, solve: Callable[[Evidence], Any]
    ) -> list[FloatArray]:
        """The same where some times are past the end; ``solve`` solves other evidence."""

    @abstractmethod
    def draw(self, batch: Any, index: int, n: int, kind: str, rng: np.random.Generator) -> Any:
        """``n`` paths of one trajectory: :class:`~asterism.engine.paths.DrawnPaths`."""
