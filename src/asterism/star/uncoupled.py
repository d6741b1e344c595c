"""Nodes that nothing couples: expected statistics by sums over gaps, without moments.

Where no node has a parent, rates do not change in time, and one step per gap between measurements
is exact. ``_gap_sums.py`` says how; ``is_uncoupled`` in ``batch.py`` where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asterism.numerics.resources import map_chunks
from asterism.star._buffers import Problem
from asterism.star._gap_sums import count_uncoupled
from asterism.star.batch import Counts, make_counts
from asterism.star.problem import Parameters
from asterism.timeline.evidence import FloatArray, IntArray

# transitions that the fastest state would make in a gap, up to which series are short
_MOST_IN_A_GAP = 300.0
_MANY_ON_AVERAGE = 30.0

_NO_POINTS = np.zeros(0)


class Gaps(NamedTuple):
    """The steps of some trajectories."""

    which: tuple[int, int]
    widths: FloatArray
    """The different ones, ascending."""
    slot: IntArray
    """Which of them each step has."""


@dataclass(frozen=True)
class Uncoupled:
    """A problem without edges, cut into pieces of trajectories that threads may share."""

    problem: Problem
    gaps: list[Gaps]
    longest: float
    average: float

    @classmethod
    def of(cls, problem: Problem, pieces: list[tuple[int, int]]) -> Uncoupled:
        """Find the different gaps of every piece."""
        gaps = []
        for first, last in pieces:
            own = problem.width[problem.step_start[first] : problem.step_start[last]]
            widths, slot = np.unique(own, return_inverse=True)
            gaps.append(Gaps((first, last), widths, slot.astype(np.int64).ravel()))
        width = problem.width[: problem.step_start[-1]]
        average = float(width.mean()) if len(width) else 0.0
        return cls(problem, gaps, float(width.max(initial=0.0)), average)

    def count(
        self, parameters: Parameters, n_jobs: int, points: FloatArray = _NO_POINTS
    ) -> tuple[list[Counts], FloatArray] | None:
        """Statistics per piece, and F per trajectory; None where a sweep has to do it.

        ``points``, if not empty, receives the probability of each state at every measurement.
        """
        fastest = float(np.abs(parameters.rates).max(initial=0.0))
        if not (
            fastest * self.longest <= _MOST_IN_A_GAP and fastest * self.average <= _MANY_ON_AVERAGE
        ):
            return None
        evidence = np.zeros(len(self.problem.step_start) - 1)

        def count_piece(first: int, last: int) -> Counts | None:
            counts = make_counts(self.problem)
            for gaps in self.gaps[first:last]:
                for node in range(len(self.problem.node) - 1):
                    if not count_uncoupled(
                        self.problem, parameters, node, gaps, counts, evidence, points
                    ):
                        return None
            return counts

        each = [(i, i + 1) for i in range(len(self.gaps))]
        parts = [p for p in map_chunks(count_piece, each, n_jobs) if p is not None]
        return (parts, evidence) if len(parts) == len(each) else None
