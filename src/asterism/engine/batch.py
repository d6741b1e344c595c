"""What every batch of trajectories has, whatever the rule: a grid, threads, room, how each ended.

A rule adds its own arrays (``star/batch.py``, ``clusters/batch.py``). Trajectories are independent:
threads share them in chunks that do not depend on how many threads there are, and sums over the
chunks are taken in their order, so every number is the same to the last bit for any ``n_jobs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from asterism.engine._outcome import EVIDENCE, RESIDUAL, STATUS, SWEEPS
from asterism.engine.grid import Grid
from asterism.errors import Sentence, Setting
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import chunks, map_chunks, require_memory
from asterism.timeline.evidence import Evidence

Result = TypeVar("Result")


class Outcome(NamedTuple):
    """Per trajectory: how the iteration ended. Compiled loops write it."""

    totals: FloatArray
    integers: IntArray
    history: FloatArray
    """(D, …, sweeps): F, if the rule knows it, and the residual after every sweep; NaN beyond the
    last one."""

    @classmethod
    def empty(cls, n_totals: int, n_integers: int, history: tuple[int, ...]) -> Outcome:
        """Room for these numbers of columns, and a history of this shape."""
        n = history[0]
        integers = np.zeros((n, n_integers), dtype=np.int64)
        return cls(np.zeros((n, n_totals)), integers, np.full(history, np.nan))

    @property
    def evidence(self) -> FloatArray:
        """ln P(Y), or what the rule puts in its place."""
        return self.totals[:, EVIDENCE]

    @property
    def residual(self) -> FloatArray:
        """What the last sweep changed."""
        return self.totals[:, RESIDUAL]

    @property
    def n_sweeps(self) -> IntArray:
        """How many sweeps were made."""
        return self.integers[:, SWEEPS]

    @property
    def status(self) -> IntArray:
        """One of the codes of ``_outcome.py``."""
        return self.integers[:, STATUS]

    def select(self, index: IntArray) -> Outcome:
        """Some trajectories, or all in another order."""
        return Outcome(self.totals[index], self.integers[index], self.history[index])


@dataclass
class Batch:
    """Trajectories on one grid."""

    evidence: Evidence
    grid: Grid

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return self.evidence.n_trajectories

    def share(self, work: Callable[[int, int], Result], n_jobs: int) -> list[Result]:
        """``work(first, last)`` of every chunk of trajectories, in threads."""
        return map_chunks(work, chunks(self.n_trajectories), n_jobs)


def require_room(evidence: Evidence, grid: Grid, numbers_per_step: float, *remedies: Any) -> None:
    """Refuse messages that do not fit into memory; ``remedies`` help beside longer steps."""
    n_steps = int(grid.step_start[-1])
    require_memory(
        8.0 * numbers_per_step * n_steps,
        f"messages of {evidence.n_trajectories} trajectories with {n_steps} steps",
        Sentence("a larger ", Setting("time_step"), ", a larger ", Setting("tolerance"), *remedies),
    )


def total(parts: Sequence[tuple[FloatArray, ...]]) -> tuple[FloatArray, ...]:
    """Sums in the order of the parts: the same to the last bit whoever computed them."""
    sums = tuple(array.copy() for array in parts[0])
    for part in parts[1:]:
        for array, more in zip(sums, part):
            array += more
    return sums


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcomes of several batches, one after the other."""
    totals, integers, history = zip(*outcomes)
    columns = (totals, integers, equally_wide(history))
    return Outcome(*(np.concatenate(parts) for parts in columns))


def equally_wide(parts: Sequence[Any]) -> Sequence[Any]:
    """Histories padded with NaN: where time runs short, batches are allowed fewer sweeps."""
    widths = [part.shape[-1] for part in parts]
    if parts[0].ndim < 2 or len(set(widths)) == 1:
        return parts
    return [
        np.pad(p, [*[(0, 0)] * (p.ndim - 1), (0, max(widths) - w)], constant_values=np.nan)
        for p, w in zip(parts, widths)
    ]
