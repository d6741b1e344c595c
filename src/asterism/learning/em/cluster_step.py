"""Owns the E-step by clusters, and the choice of a method where the user leaves it open.

The grids are as fine as the tolerance asks at the first parameters and stay when these change, so
that the objective is one function of the parameters. Messages stay as well: after a small change of
the parameters few sweeps are needed. For differences between both sides of an estimate its own
messages are kept: one side starts from them, the other from the mirror image of the first's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asterism.clusters._cluster_messages import SeparatorMessages
from asterism.clusters._cluster_sweep import Found
from asterism.clusters.batch import ClusterBatch, run_clusters, set_cluster_likelihoods
from asterism.clusters.regions import find_regions
from asterism.engine._outcome import CONVERGED
from asterism.engine.rule import Precision
from asterism.engine.rules.clusters import ClusterRule, require_possible
from asterism.errors import TooLargeError
from asterism.exact.groups import components
from asterism.learning.em.e_step import Solved, StepOnGrids, StepPlan
from asterism.numerics.arrays import FloatArray
from asterism.numerics.compiled import CompiledGraph, CompiledNetwork, diagonal_index
from asterism.numerics.resources import available_bytes
from asterism.star.batch import Counts
from asterism.timeline.evidence import Evidence

#: joint states up to which exact inference is chosen: there an E-step takes a third of the time of
#: one by clusters, and twice as many states take it about twice as long (cluster_limit.csv)
EXACT_STATES = 256
_MAX_SWEEPS = 200
_LOOSEST, _TIGHTEST = 1e-1, 1e-3  # how far messages settle, in tolerances of the grid
_SETTLED = 1e-3  # and in expected jumps that the last change of the parameters moves


class NoClusters(TooLargeError):
    """A family is too large for clusters; sampling is what remains."""


class ClusterStep(StepOnGrids):
    """Forward–backward on clusters that agree on what they share."""

    def __init__(self, plan: StepPlan) -> None:
        graph, evidence = plan.graph, plan.evidence
        self._kept: list[_Kept] = []
        self._last: tuple[FloatArray, FloatArray] | None = None
        self._duration = float((evidence.end - evidence.start).max(initial=0.0))
        self._diagonal = diagonal_index(graph)
        rule = ClusterRule(
            CompiledNetwork(graph, *plan.at[:2]),
            find_regions(graph, evidence),
            Precision(plan.tolerance, plan.time_step, _MAX_SWEEPS, plan.n_jobs),
        )
        super().__init__(plan, rule)

    def _solver(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Callable[[Any, FloatArray], Solved]:
        tolerance = self._sweep_tolerance(rates, log_likelihood)

        def solve(batch: ClusterBatch, logs: FloatArray) -> Solved:
            set_cluster_likelihoods(batch, logs)
            outcome, found = run_clusters(
                batch, rates, initial, tolerance, _MAX_SWEEPS, self._n_jobs
            )
            require_possible(batch, outcome)
            counts = Counts(found.table[self._diagonal], found.table, found.initial)
            settled = bool((outcome.status == CONVERGED).all())
            return Solved(outcome.evidence, counts, found.points, settled)

        return solve

    def _sweep_tolerance(self, rates: FloatArray, log_likelihood: FloatArray) -> float:
        """As exact as the step is small: long steps are far from the maximum, and need it least."""
        if self._kept:
            return _LOOSEST * self._tolerance
        before, self._last = self._last, (rates.copy(), log_likelihood.copy())
        if before is None or not np.array_equal(before[1], log_likelihood):
            return _TIGHTEST * self._tolerance
        moved = float(np.abs(rates - before[0]).max(initial=0.0)) * self._duration
        lowest, highest = _TIGHTEST * self._tolerance, _LOOSEST * self._tolerance
        return min(max(_SETTLED * moved, lowest), highest)

    def keep(self) -> None:
        """Keep the messages as they are now; small differences from here need not be as exact.

        Where a copy would not fit into memory nothing is kept, and differences take longer.
        """
        n_bytes = sum(
            part.nbytes for batch, _, _ in self._parts for m in batch.messages for part in m
        )
        if n_bytes > 0.5 * available_bytes():
            return
        self._kept = [_Kept.of(batch) for batch, _, _ in self._parts]

    def go_back(self) -> None:
        """Take the messages that were kept."""
        for (batch, _, _), kept in zip(self._parts, self._kept):
            for m, old in zip(batch.messages, kept.messages):
                for new, before in zip(m, old):
                    new[...] = before
            batch.parameters = kept.parameters
            batch.found = kept.found_again()

    def release(self) -> None:
        """Take the messages that were kept, and keep them no longer."""
        self.go_back()
        self._kept = []

    def mirror(self) -> None:
        """Put the messages as far on the other side of those kept as they are on this one."""
        for (batch, _, _), kept in zip(self._parts, self._kept):
            for m, old in zip(batch.messages, kept.messages):
                m.rate[...] = old.rate * (old.rate / m.rate)
                m.diagonal[...] = 2.0 * old.diagonal - m.diagonal
                m.start[...] = old.start * (old.start / m.start)
            # what was not counted anew has the messages that were kept
            is_current = batch.found.value == kept.found.value
            batch.found = kept.found_again()
            batch.found.is_current[...] &= is_current


class _Kept(NamedTuple):
    """Messages of a batch, what they were sent for, and what was counted."""

    messages: list[SeparatorMessages]
    parameters: tuple[FloatArray, FloatArray] | None
    found: Found

    @classmethod
    def of(cls, batch: ClusterBatch) -> _Kept:
        messages = [SeparatorMessages(*(part.copy() for part in m)) for m in batch.messages]
        return cls(messages, batch.parameters, Found(*(part.copy() for part in batch.found)))

    def found_again(self) -> Found:
        return Found(*(part.copy() for part in self.found))


def chosen_method(graph: CompiledGraph, evidence: Evidence) -> str:
    """What "auto" means here: exact where that is quick, else clusters.

    Raises :class:`NoClusters` where a family is too large for clusters.
    """
    groups = components(graph, evidence)
    largest = max((math.prod(int(graph.n_states[n]) for n in g) for g in groups), default=1)
    if largest <= EXACT_STATES:
        return "exact"
    try:
        find_regions(graph, evidence)
    except TooLargeError as problem:
        raise NoClusters(str(problem)) from None
    return "clusters"
