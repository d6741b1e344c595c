"""Owns the E-step: expected statistics under the current parameters, by each method.

Both kinds lay out the evidence once; between calls only rates, start probabilities and
likelihoods change. The variational step also keeps its messages, so that a call after a small
change of the parameters needs few sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from asterism.engine._outcome import CONVERGED
from asterism.engine.refine import solve_on_grids
from asterism.engine.rule import Precision
from asterism.engine.rules.star import StarRule
from asterism.exact.forward_backward import exact_expectations, prepare
from asterism.exact.groups import JOINT_LIMIT
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.compiled import CompiledGraph, CompiledNetwork, diagonal_index
from asterism.numerics.resources import chunks
from asterism.star import batch as variational
from asterism.star.point_values import point_marginals, set_log_likelihoods
from asterism.star.problem import Parameters
from asterism.timeline.evidence import Evidence, Points, with_log_likelihood

if TYPE_CHECKING:
    from asterism.star.uncoupled import Uncoupled

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
    """Whether probabilities at measurements and starts are wanted; they are zero if not."""

    def parts(self, solution: Any) -> list[tuple[Any, IntArray, IntArray]]:
        """Batches that share a grid: each with its trajectories and its values of the points."""
        batch_of = np.array([b for b, _ in solution.place], dtype=np.int64)
        points = self.evidence.points
        length = np.diff(np.append(points.offset, len(points.log_likelihood)))
        owner = np.repeat(batch_of[points.trajectory], length)
        return [
            (batch, np.flatnonzero(batch_of == b), np.flatnonzero(owner == b))
            for b, batch in enumerate(solution.batches)
        ]


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


class VariationalStep:
    """Messages of the star or mean-field approximation, on grids made for one set of parameters.

    The grids are as fine as ``tolerance`` asks at ``rates``; they stay when parameters change, so
    that the objective is one function of the parameters.
    """

    def __init__(self, plan: StepPlan) -> None:
        self._graph, self._method = plan.graph, plan.method
        self._n_jobs, self._with_points = plan.n_jobs, plan.with_points
        rates, initial, log_likelihood = plan.at
        watched, self._old_places, self._start_places = _with_start_points(
            plan.evidence, plan.graph
        )
        self._n_values = len(watched.points.log_likelihood)
        watched = with_log_likelihood(watched, self._spread(log_likelihood))
        network = CompiledNetwork(plan.graph, rates, initial)
        precision = Precision(plan.tolerance, plan.time_step, MAX_SWEEPS, plan.n_jobs)
        rule = StarRule(network, Parameters.of(network, plan.method), precision)
        solution = solve_on_grids(rule, watched)
        self._parts = [_Part.of(*part) for part in plan._replace(evidence=watched).parts(solution)]

    def __call__(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Expected:
        flat = self._spread(log_likelihood)
        parameters = Parameters.of(CompiledNetwork(self._graph, rates, initial), self._method)
        n_trajectories = sum(len(part.trajectories) for part in self._parts)
        log_evidence = np.zeros(n_trajectories)
        points = np.zeros(self._n_values)
        dwell, transitions = np.zeros(0), np.zeros(0)
        settled = True
        for part in self._parts:
            set_log_likelihoods(part.batch, flat[part.values])
            evidence, found, values, has_settled = self._solve(part, parameters)
            log_evidence[part.trajectories] = evidence
            if self._with_points:
                points[part.values] = values
            dwell = dwell + found[0] if len(dwell) else found[0]
            transitions = transitions + found[1] if len(transitions) else found[1]
            settled = settled and has_settled
        starts = np.zeros(len(initial))
        np.add.at(starts, self._start_places[0], points[self._start_places[1]])
        return Expected(
            log_evidence=log_evidence,
            dwell=dwell,
            transitions=transitions,
            initial=starts,
            points=points[self._old_places],
            settled=settled,
        )

    def _solve(
        self, part: _Part, parameters: Parameters
    ) -> tuple[FloatArray, variational.Statistics, FloatArray, bool]:
        """F, statistics and point probabilities of some trajectories; whether they settled."""
        points = np.zeros(len(part.values) if self._with_points else 0)
        if part.uncoupled is not None:
            quick = part.uncoupled.count(parameters, self._n_jobs, points)
            if quick is not None:
                return quick[1], variational.summed(quick[0])[:2], points, True
        outcome, found = variational.run(
            part.batch,
            parameters,
            restart=False,
            max_sweeps=MAX_SWEEPS,
            tolerance=SWEEP_TOLERANCE,
            n_jobs=self._n_jobs,
        )
        if self._with_points:
            points = point_marginals(part.batch, parameters, self._n_jobs)
        return outcome.evidence, found, points, bool((outcome.status == CONVERGED).all())

    def _spread(self, log_likelihood: FloatArray) -> FloatArray:
        """The log-likelihoods of the evidence, beside those of the points added at the start."""
        flat = np.zeros(self._n_values)
        flat[self._old_places] = log_likelihood
        return flat


@dataclass(frozen=True)
class _Part:
    """Trajectories that share a grid."""

    batch: variational.Batch
    trajectories: IntArray
    values: IntArray
    """Where the values of the batch's points stand among all."""
    uncoupled: Uncoupled | None
    """The same trajectories where no node has a parent."""

    @classmethod
    def of(cls, batch: variational.Batch, trajectories: IntArray, values: IntArray) -> _Part:
        if not variational.is_uncoupled(batch.problem):
            return cls(batch, trajectories, values, None)
        from asterism.star.uncoupled import Uncoupled

        pieces = chunks(batch.n_trajectories)
        return cls(batch, trajectories, values, Uncoupled.of(batch.problem, pieces))


def _with_start_points(
    evidence: Evidence, graph: CompiledGraph
) -> tuple[Evidence, IntArray, tuple[IntArray, IntArray]]:
    """Evidence with an uninformative point at the start of every trajectory and node.

    Also: where the values of the old points stand now, and for every value of the new ones the
    node and state it is about and where it stands.
    """
    points = evidence.points
    nodes = np.array(
        [n for n in range(graph.n_nodes) if n not in evidence.exogenous], dtype=np.int64
    )
    trajectory = np.repeat(np.arange(evidence.n_trajectories), len(nodes))
    node = np.concatenate([np.tile(nodes, evidence.n_trajectories), points.node])
    all_trajectories = np.concatenate([trajectory, points.trajectory])
    time = np.concatenate([evidence.start[trajectory], points.time])
    order = np.lexsort((time, node, all_trajectories))
    size = graph.n_states[node]
    offset = np.empty(len(node), dtype=np.int64)
    offset[order] = np.cumsum(size[order]) - size[order]
    n_new = len(trajectory)

    def values_of(rows: slice) -> tuple[IntArray, IntArray, IntArray]:
        """Row, state and new place of every value of some rows, in their order."""
        row = np.repeat(np.arange(len(node))[rows], size[rows])
        ends = np.cumsum(size[rows])
        state = np.arange(len(row)) - np.repeat(ends - size[rows], size[rows])
        return row, state, offset[row] + state

    row, state, place = values_of(slice(0, n_new))
    old_row, old_state, old_place = values_of(slice(n_new, None))
    by_value = np.empty(len(points.log_likelihood), dtype=np.int64)
    by_value[points.offset[old_row - n_new] + old_state] = old_place
    logs = np.zeros(int(size.sum()))
    logs[by_value] = points.log_likelihood
    watched = Points(all_trajectories[order], node[order], time[order], offset[order], logs)
    return (
        replace(evidence, points=watched),
        by_value,
        (graph.state_start[node[row]] + state, place),
    )
