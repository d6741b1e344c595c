"""Owns the E-step: expected statistics under the current parameters, by each method.

All lay out the evidence once; between calls only rates, start probabilities and likelihoods
change. Steps on grids also keep their messages, so that a call after a small change of the
parameters needs few sweeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from asterism.engine._outcome import CONVERGED
from asterism.engine.refine import solve_on_grids
from asterism.engine.rule import Precision, Rule
from asterism.engine.rules.star import StarRule
from asterism.exact.forward_backward import exact_expectations, prepare
from asterism.exact.groups import JOINT_LIMIT
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.compiled import CompiledGraph, CompiledNetwork, diagonal_index
from asterism.numerics.resources import chunks
from asterism.star.batch import Batch, Counts, is_uncoupled, run, summed
from asterism.star.point_values import point_marginals, set_log_likelihoods
from asterism.star.problem import Parameters
from asterism.timeline.evidence import Evidence, with_log_likelihood

if TYPE_CHECKING:
    from asterism.star.uncoupled import Uncoupled

#: guards, not tuned: gradients are differences of two solutions, so messages settle far below them
MAX_SWEEPS = 200
SWEEP_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Expected:
    """What an E-step finds; all arrays flat, as in the compiled network and the evidence."""

    log_evidence: FloatArray
    """(D,) ln P(Y), or F, of every trajectory."""
    dwell: FloatArray
    transitions: FloatArray
    initial: FloatArray
    """Per node and state: how many trajectories are expected to start in it."""
    points: FloatArray
    """Probability of each state at every measurement."""
    settled: bool = True
    """False where messages had not converged."""


class Step(Protocol):
    """An E-step."""

    def __call__(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Expected: ...


class StepPlan(NamedTuple):
    """What an E-step is made of; each method takes what it needs."""

    graph: CompiledGraph
    evidence: Evidence
    at: tuple[FloatArray, FloatArray, FloatArray]
    """Rates, start probabilities and log-likelihoods for which grids are made."""
    method: str = "star"
    tolerance: float = 1e-3
    time_step: float | None = None
    n_jobs: int = 1
    joint_limit: int = JOINT_LIMIT
    with_points: bool = True
    """Whether probabilities at measurements are wanted; they are zero if not."""


class Part(NamedTuple):
    """Trajectories that share a grid."""

    batch: Any
    trajectories: IntArray
    values: IntArray
    """Where the values of the batch's points stand among all."""


class StepOnGrids(ABC):
    """An E-step on grids as fine as ``tolerance`` asks at one set of parameters.

    The grids stay when parameters change, so that the objective is one function of the parameters.
    """

    def __init__(self, plan: StepPlan, rule: Rule) -> None:
        solution = solve_on_grids(rule, with_log_likelihood(plan.evidence, plan.at[2]))
        batch_of = np.array([b for b, _ in solution.place], dtype=np.int64)
        points = plan.evidence.points
        length = np.diff(np.append(points.offset, len(points.log_likelihood)))
        owner = np.repeat(batch_of[points.trajectory], length)
        self._n_jobs, self._tolerance = plan.n_jobs, plan.tolerance
        self._parts = [
            Part(batch, np.flatnonzero(batch_of == b), np.flatnonzero(owner == b))
            for b, batch in enumerate(solution.batches)
        ]

    def __call__(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Expected:
        log_evidence = np.zeros(sum(len(part.trajectories) for part in self._parts))
        points = np.zeros(len(log_likelihood))
        counted: list[Counts] = []
        settled = True
        solve = self._solver(rates, initial, log_likelihood)
        for batch, trajectories, at in self._parts:
            log_evidence[trajectories], counts, values, has_settled = solve(
                batch, log_likelihood[at]
            )
            if len(values):
                points[at] = values
            counted.append(counts)
            settled = settled and has_settled
        dwell, transitions, starts = summed(counted)
        return Expected(log_evidence, dwell, transitions, starts, points, settled)

    @abstractmethod
    def _solver(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Callable[[Any, FloatArray], Solved]:
        """What solves a batch with its log-likelihoods under these parameters."""


class Solved(NamedTuple):
    """What is found in one batch."""

    log_evidence: FloatArray
    counts: Counts
    points: FloatArray
    """Probabilities of states at measurements; none if they are not wanted."""
    settled: bool


class ExactStep:
    """Forward–backward on the joint chain."""

    def __init__(self, plan: StepPlan) -> None:
        self._prepared = prepare(plan.graph, plan.evidence, plan.joint_limit)
        self._diagonal = diagonal_index(plan.graph)
        self._n_jobs = plan.n_jobs

    def __call__(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Expected:
        found = exact_expectations(self._prepared, rates, initial, log_likelihood, self._n_jobs)
        return Expected(
            log_evidence=found.log_evidence,
            dwell=found.table[self._diagonal],
            transitions=found.table,
            initial=found.initial,
            points=found.point_probabilities,
        )


class VariationalStep(StepOnGrids):
    """Messages of the star or mean-field approximation."""

    def __init__(self, plan: StepPlan) -> None:
        self._graph, self._method, self._with_points = plan.graph, plan.method, plan.with_points
        precision = Precision(plan.tolerance, plan.time_step, MAX_SWEEPS, plan.n_jobs)
        network = CompiledNetwork(plan.graph, *plan.at[:2])
        super().__init__(plan, StarRule(network, Parameters.of(network, plan.method), precision))
        self._uncoupled = {id(batch): _uncoupled(batch) for batch, _, _ in self._parts}

    def _solver(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Callable[[Any, FloatArray], Solved]:
        parameters = Parameters.of(CompiledNetwork(self._graph, rates, initial), self._method)
        return lambda batch, logs: self._solve(batch, logs, parameters)

    def _solve(self, batch: Batch, logs: FloatArray, parameters: Parameters) -> Solved:
        set_log_likelihoods(batch, logs)
        points = np.zeros(len(logs) if self._with_points else 0)
        uncoupled = self._uncoupled[id(batch)]
        quick = None if uncoupled is None else uncoupled.count(parameters, self._n_jobs, points)
        if quick is not None:
            return Solved(quick[1], summed(quick[0]), points, True)
        outcome, counts = run(
            batch,
            parameters,
            restart=False,
            max_sweeps=MAX_SWEEPS,
            tolerance=SWEEP_TOLERANCE,
            n_jobs=self._n_jobs,
        )
        if self._with_points:
            points = point_marginals(batch, parameters, self._n_jobs)
        settled = bool((outcome.status == CONVERGED).all())
        return Solved(outcome.evidence, counts, points, settled)


def _uncoupled(batch: Batch) -> Uncoupled | None:
    """The same trajectories where no node has a parent."""
    if not is_uncoupled(batch.problem):
        return None
    from asterism.star.uncoupled import Uncoupled

    return Uncoupled.of(batch.problem, chunks(batch.n_trajectories))
