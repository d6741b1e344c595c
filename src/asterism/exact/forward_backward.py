"""Exact inference: one cluster of all coupled nodes, whose joint chain is followed exactly.

With α the forward and β the backward vector of a group's joint chain, Q its generator, and evidence
at event times t_k:

    between event times   α(t+h) = α(t) exp(Qh)      β(t) = exp(Qh) β(t+h)
    a measurement         α⁺ = α⁻ · L                β⁻ = L · β⁺
    a recorded jump       α⁺ = α⁻ J                  β⁻ = J β⁺,     J(x,x') = R_n^{u(x)}(x_n, y*)
    a held node           its off-diagonal entries are deleted, the diagonal stays

ln P(Y) is the log of α(T)·1 plus all scales taken out; P(x at t | Y) ∝ α(x) β(x); the expected
number of jumps x → y is ∫ α(x) Q(x,y) β(y) dt / P(Y) and the expected time in x the same with the
factor 1 in place of Q. Summed over joint states with the same own state and parent configuration
they are the statistics of the network's families. Nothing here is approximate, and no step is
shorter than the data ask: the integrals have closed forms, by matrices for few joint states
(``dense_steps.py``) and by series for many (``clusters/_region_step.py``).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from asterism.clusters import _whole_chain as whole_chain
from asterism.clusters._cluster_layout import (
    FIRST,
    IS_SET,
    LAST,
    STATE,
    RegionWork,
    TrajectoryArrays,
)
from asterism.clusters._region_chain import (
    backward_pass,
    forward_pass,
    series_ahead,
    series_back,
)
from asterism.clusters.batch import ClusterModel, refused
from asterism.clusters.problem import known_log_evidence, trajectory_arrays
from asterism.clusters.region_arrays import make_room
from asterism.engine.grid import Grid, build_even_grid
from asterism.engine.paths import Solved
from asterism.errors import Setting, TooLargeError
from asterism.exact.dense_steps import StepKinds, add_expected, step_matrices
from asterism.exact.groups import (
    JOINT_LIMIT,
    check_size,
    components,
    whole_regions,
)
from asterism.numerics.compiled import CompiledGraph
from asterism.numerics.resources import chunks, current_limit, map_chunks, require_memory
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, about
from asterism.timeline.timeline import put_likelihoods, timeline_of

_DENSE_MEMORY = 2**28
_PART_MASS = 6.0  # of one part of a step; see clusters/_region_step.py
_MOST_PARTS = 2_000_000
_MOST_TERMS = 50  # of the series of one part, and one more for every jump between two states
_SMALL_MATRICES = 8192  # entries of matrices whose exponentials take as long as making room
_WORK_PER_SECOND = 5e8
_SHARED = 12  # digits by which widths of steps are told apart

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GroupChain:
    """The joint chain of a group along all trajectories; rates and likelihoods may change."""

    model: ClusterModel
    """All groups of the network, each as one cluster."""
    region: int
    """Which of them this is."""
    evidence: Evidence
    """About this group only."""
    value_index: IntArray
    """Where its likelihoods stand among all."""
    grid: Grid
    """One step between neighbouring event times."""
    problem: TrajectoryArrays
    column: IntArray
    """Kind of generator of every step: which nodes are held, where exogenous parents stand."""
    column_step: IntArray
    """A step of each of these kinds."""
    held: IntArray
    """(columns, members) see ``RegionWork``."""
    kinds: StepKinds
    """Steps of equal width and column."""
    kind: IntArray
    """Which of these a step is."""
    is_held: bool
    """Whether any node is ever held."""

    @property
    def n_joint(self) -> int:
        """Number of joint states."""
        return int(self.model.arrays.n_joint[self.region])

    @property
    def members(self) -> tuple[int, ...]:
        """The nodes of the group."""
        return self.model.regions.clusters[self.region]


def whole_model(graph: CompiledGraph, evidence: Evidence, joint_limit: int) -> ClusterModel:
    """The groups of coupled nodes as clusters; refuses those that are too large."""
    groups = components(graph, evidence)
    check_size(graph, groups, joint_limit)
    return ClusterModel.of(graph, whole_regions(graph, groups))


def make_chain(model: ClusterModel, region: int, evidence: Evidence) -> GroupChain:
    """Lay out the evidence (that of the whole network) about a group."""
    members = np.array(model.regions.clusters[region])
    own, values = about(evidence, model.regions.clusters[region])
    grid = event_grid(own)
    problem = trajectory_arrays(model.graph, model.regions, own, grid)
    inputs = problem.input_column[members]
    column, step, held = _distinct(
        _held_on_steps(problem, members, len(model.arrays.block)),
        problem.input_shift[:, inputs[inputs >= 0]],
    )
    kinds, kind = _step_kinds(problem.width, column)
    return GroupChain(
        *(model, region, own, values, grid, problem, column, step, held, kinds, kind),
        is_held=bool((held != -1).any()),
    )


def event_grid(evidence: Evidence) -> Grid:
    """One step between neighbouring event times."""
    longest = float((evidence.end - evidence.start).max(initial=0.0))
    return build_even_grid(timeline_of(evidence), max(longest, 1e-300))


def _held_on_steps(problem: TrajectoryArrays, members: IntArray, n_nodes: int) -> IntArray:
    """(steps, members) the state in which each node is held; see ``RegionWork``."""
    change = np.zeros((int(problem.step_start[-1]) + 1, len(members)), dtype=np.int64)
    trajectory, node = np.divmod(
        np.repeat(np.arange(len(problem.span_start) - 1), np.diff(problem.span_start)), n_nodes
    )
    slot, span = np.searchsorted(members, node), problem.span
    value = np.where(span[:, IS_SET] == 1, -1, 1) * (span[:, STATE] + 1)
    begin = problem.step_start[trajectory]
    np.add.at(change, (begin + span[:, FIRST], slot), value)
    np.subtract.at(change, (begin + span[:, LAST], slot), value)
    held: IntArray = np.cumsum(change, axis=0)[:-1] - 1
    return held


def _distinct(held: IntArray, shift: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Kind of every step, a step of every kind, and what is held then."""
    if not len(held):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), held
    if not (held != -1).any() and not shift.any():
        return np.zeros(len(held), dtype=np.int64), np.zeros(1, dtype=np.int64), held[:1]
    _, step, column = np.unique(
        np.hstack([held, shift]), axis=0, return_index=True, return_inverse=True
    )
    return column.reshape(-1).astype(np.int64), step.astype(np.int64), held[step]


def _step_kinds(width: FloatArray, column: IntArray) -> tuple[StepKinds, IntArray]:
    """Number steps by (width to 13 digits, column), so that equal ones share work."""
    digits = 10.0 ** (_SHARED - np.floor(np.log10(np.maximum(width, 1e-290))))
    rounded = np.where(np.isfinite(digits), np.round(width * digits) / digits, width)
    order = np.lexsort((rounded, column))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (np.diff(rounded[order]) != 0.0) | (np.diff(column[order]) != 0)
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(is_new) - 1
    first = np.flatnonzero(is_new)
    kinds = StepKinds(
        rounded[order][first], column[order][first], np.append(first, len(order)), order
    )
    return kinds, kind


@dataclass(frozen=True)
class Prepared:
    """A graph and its evidence, laid out once; rates and likelihoods may change between passes."""

    graph: CompiledGraph
    evidence: Evidence
    chains: tuple[GroupChain, ...]


@dataclass(frozen=True)
class Expectations:
    """What one pass gives; ``table`` has the layout of the network's flat rates."""

    log_evidence: FloatArray
    """(D,) ln P(Y) of every trajectory."""
    table: FloatArray
    """Expected transitions off the diagonal, expected dwell times on it."""
    initial: FloatArray
    """Flat, per node and state: how many trajectories are expected to start in it."""
    point_probabilities: FloatArray
    """P(state | Y) at every measurement, in the layout of ``points.log_likelihood``."""


def prepare(graph: CompiledGraph, evidence: Evidence, joint_limit: int = JOINT_LIMIT) -> Prepared:
    """Everything that does not depend on rates, start probabilities or likelihoods."""
    model = whole_model(graph, evidence, joint_limit)
    chains = (make_chain(model, r, evidence) for r in range(len(model.regions.clusters)))
    return Prepared(graph, evidence, tuple(chains))


def exact_expectations(
    prepared: Prepared,
    rates: FloatArray,
    initial: FloatArray,
    log_likelihood: FloatArray | None = None,
    n_jobs: int = 1,
    statistics: bool = True,
) -> Expectations:
    """One forward–backward pass over all trajectories.

    ``rates`` and ``initial`` are flat as in ``CompiledNetwork``; ``log_likelihood`` replaces the
    values of ``evidence.points`` (same layout). Without ``statistics`` the table stays empty and
    the pass is cheaper. Impossible data raise :class:`DataError`.
    """
    evidence = prepared.evidence
    if log_likelihood is None:
        log_likelihood = evidence.points.log_likelihood
    log_evidence = known_log_evidence(evidence, log_likelihood)
    table = np.zeros(len(rates))
    start = np.zeros(len(initial))
    points = np.zeros(len(log_likelihood))
    for chain in prepared.chains:
        set_likelihoods(chain, log_likelihood[chain.value_index])
        solved = SolvedChain(chain, rates, initial)
        part = solved.expectations(n_jobs, statistics)
        log_evidence += part.log_evidence
        table += part.table
        start += part.initial
        points[chain.value_index] = part.point_probabilities
    _add_known_paths(prepared.graph, evidence, table, start)
    return Expectations(log_evidence, table, start, points)


def set_likelihoods(chain: GroupChain, log_likelihood: FloatArray) -> None:
    """Replace the likelihoods of a group's measurements, in place."""
    points = replace(chain.evidence.points, log_likelihood=log_likelihood)
    put_likelihoods(points, chain.problem.event, chain.problem.value, chain.problem.event_log)


class SolvedChain:
    """A group's chain at some rates and start probabilities (those of the whole network)."""

    def __init__(self, chain: GroupChain, rates: FloatArray, initial: FloatArray) -> None:
        self.chain = chain
        self.parameters = (
            np.ascontiguousarray(rates, dtype=np.float64),
            np.ascontiguousarray(initial, dtype=np.float64),
        )
        arrays, region = chain.model.arrays, chain.region
        self._arrays = (arrays, region)
        self._base = make_room(
            arrays,
            range(region, region + 1),
            len(chain.column_step),
            chain.problem,
            n_terms=1,
            n_parts=1,
            units=(),
        )
        self._base.step[:] = chain.column_step
        self._base.held[:] = chain.held
        whole_chain.fill_columns(
            *(*self._arrays, chain.problem, chain.is_held, self.parameters[0], self._base)
        )
        possible = np.where(self._base.alive > 0.0, -self._base.diagonal.T, 0.0)
        bound = possible.max(axis=1, initial=0.0)
        self.is_dense = _prefers_dense(chain, bound)
        mass = (bound[chain.column] * chain.problem.width).max(initial=0.0)
        self.n_parts = int(np.ceil(mass / _PART_MASS)) + 1

    def room(self, shared: dict[str, FloatArray]) -> RegionWork:
        """Room for one thread, at the rates of this chain."""
        base, chain = self._base, self.chain
        arrays, region = self._arrays
        work = make_room(
            arrays,
            range(region, region + 1),
            len(base.step),
            chain.problem,
            n_terms=_MOST_TERMS + int(arrays.per_row[region]),
            n_parts=1 if self.is_dense else self.n_parts,
            units=(backward_pass, forward_pass)
            if self.is_dense
            else (backward_pass, forward_pass, series_back, series_ahead),
        )
        return work._replace(
            step=base.step,
            held=base.held,
            alive=base.alive,
            rate=base.rate,
            diagonal=base.diagonal,
            power_kind=chain.kind,
            **shared,
        )

    def powers(self, n_jobs: int) -> dict[str, FloatArray]:
        """The matrices of all kinds of steps; none where steps are taken by series."""
        chain, n = self.chain, self.chain.n_joint
        if not self.is_dense:
            return {}
        shared = {
            "power": np.empty((len(chain.kinds.width), n, n)),
            "power_log": np.empty(len(chain.kinds.width)),
        }

        def fill(first: int, last: int) -> None:
            kinds = chain.kinds.some(first, last)
            power, logs = step_matrices(*self._arrays, kinds, self._base)
            shared["power"][first:last], shared["power_log"][first:last] = power, logs

        map_chunks(fill, self._chunks_of_kinds(), n_jobs)
        return shared

    def _chunks_of_kinds(self) -> list[tuple[int, int]]:
        """Kinds of steps that are worth a thread and room of its own."""
        each = max(16, _SMALL_MATRICES // self.chain.n_joint**2)
        return chunks(len(self.chain.kinds.width), at_least_each=each)

    def expectations(self, n_jobs: int = 1, statistics: bool = True) -> Expectations:
        """Evidence and expected statistics of this group."""
        chain, arrays = self.chain, self._arrays
        evidence, problem = chain.evidence, chain.problem
        n, n_steps = chain.n_joint, int(problem.step_start[-1])
        log_evidence = np.zeros(evidence.n_trajectories)
        points = np.zeros(len(evidence.points.log_likelihood))
        shared = self.powers(n_jobs)
        if self.is_dense and statistics:
            require_memory(
                16.0 * n * n_steps, f"{n:,} joint states at {n_steps:,} times", "fewer trajectories"
            )
            shared |= {"left": np.zeros((n_steps, n)), "right": np.zeros((n_steps, n))}
        is_zero = np.zeros(len(self.parameters[0]), dtype=np.bool_)

        def one_pass(first: int, last: int) -> tuple[FloatArray, FloatArray]:
            work = self.room(shared)
            table, start = np.zeros(len(is_zero)), np.zeros(len(self.parameters[1]))
            failed = whole_chain.pass_trajectories(
                *(*arrays, problem, chain.column, (first, last), self.parameters, chain.is_held),
                *(statistics, work, log_evidence, (table, start, points)),
            )
            if failed >= 0:
                _raise_impossible(chain, failed, work)
            if statistics and not self.is_dense:
                whole_chain.count_all(*arrays, problem, chain.is_held, is_zero, work, table)
            return table, start

        def integrals(first: int, last: int) -> tuple[FloatArray, FloatArray]:
            work = self.room(shared)
            table = np.zeros(len(is_zero))
            add_expected(*arrays, chain.kinds.some(first, last), work)
            whole_chain.count_all(*arrays, problem, chain.is_held, is_zero, work, table)
            return table, np.zeros(len(self.parameters[1]))

        each = 16 if self.is_dense else 1
        pieces = chunks(evidence.n_trajectories, at_least_each=each)
        parts = map_chunks(one_pass, pieces, n_jobs)
        if self.is_dense and statistics:
            parts += map_chunks(integrals, self._chunks_of_kinds(), n_jobs)
        return Expectations(
            log_evidence,
            np.sum([table for table, _ in parts], axis=0),
            np.sum([start for _, start in parts], axis=0),
            points,
        )

    @cached_property
    def _room_for_paths(self) -> RegionWork:
        return self.room(self.powers(1))

    def along(self, d: int) -> Solved:
        """The chain along one trajectory, for drawing paths."""
        chain, base, work = self.chain, self._base, self._room_for_paths
        own = slice(*chain.problem.step_start[d : d + 2])
        ending = np.zeros((chain.n_joint, len(chain.column[own])))
        whole_chain.fill_endings(
            *(*self._arrays, chain.problem, d, chain.column, self.parameters, chain.is_held),
            *(work, ending),
        )
        diagonal = np.where(base.alive.T > 0.0, base.diagonal, np.inf)
        first = work.first_time.copy()
        return Solved(base.rate, diagonal, ending, first, chain.column[own])

    def joint_probabilities(self, times: FloatArray) -> FloatArray:
        """(times, joint states) of the only trajectory, at event times, just after the evidence."""
        chain = self.chain
        work = self.room(self.powers(1))
        failed = whole_chain.pass_trajectories(
            *(*self._arrays, chain.problem, chain.column, (0, 1), self.parameters),
            *(chain.is_held, False, work, np.zeros(1)),
            (np.zeros(0), np.zeros(len(self.parameters[1])), np.zeros(len(chain.value_index))),
        )
        if failed >= 0:
            _raise_impossible(chain, failed, work)
        at = chain.grid.point_of_event[np.searchsorted(timeline_of(chain.evidence).time, times)]
        probability = work.forward[at] * work.backward[at]
        return np.asarray(probability / probability.sum(axis=1, keepdims=True))


def _prefers_dense(chain: GroupChain, bound: FloatArray) -> bool:
    """Choose by estimated work: J³ per distinct step, against q·h·J per step."""
    n = chain.n_joint
    mass = bound[chain.kinds.column] * chain.kinds.width
    count = np.diff(chain.kinds.member_start)
    per_row = int(chain.model.arrays.per_row[chain.region])
    squarings = np.log2(np.maximum(mass, 1.0)) + 16.0 + per_row
    dense_work = 4.0 * n**3 * float(np.sum(squarings))
    parts = np.maximum(np.ceil(mass / _PART_MASS), 1.0)
    series_work = (30.0**2 + 30.0 * 4.0 * per_row) * n * float(np.sum(count * parts))
    if n <= 8 or (dense_work <= series_work and len(mass) * n * n * 8 <= _DENSE_MEMORY):
        _require_time(n, float(dense_work))
        return True
    if parts.max(initial=0.0) > _MOST_PARTS:
        _refuse_parts(n, float(parts.max()))
    _require_time(n, series_work)
    return False


def _refuse_parts(n_joint: int, n_parts: float) -> NoReturn:
    raise TooLargeError(
        f"Exact inference on {n_joint:,} joint states would need {n_parts:.3g} steps for the "
        "longest gap, as some rates are very large for it: use ",
        *(Setting("method", "star"), "."),
    )


def _require_time(n_joint: int, work: float) -> None:
    """Exact inference has no best so far: what would take too long is refused, or announced."""
    limit = current_limit()
    seconds = work / _WORK_PER_SECOND
    if seconds > limit.seconds:
        raise TooLargeError(
            f"Exact inference on {n_joint:,} joint states would take about {seconds:.2g} seconds, "
            f"more than the time limit of {limit.seconds:g} s: allow more (",
            *(Setting("minutes"), "), or use ", Setting("method", "star"), "."),
        )
    if seconds > 60.0:
        log.warning(
            "Exact inference on %s joint states will take about %.0f minutes.",
            f"{n_joint:,}",
            max(1.0, seconds / 60.0),
        )


def _raise_impossible(chain: GroupChain, d: int, work: RegionWork) -> NoReturn:
    step, kind = (int(i) for i in work.failure)
    where = f"at about time {chain.grid.times(d)[step]:g}"
    raise refused(chain.evidence.label(d), where, kind)


def _add_known_paths(
    graph: CompiledGraph, evidence: Evidence, table: FloatArray, start: FloatArray
) -> None:
    """Dwell times, jumps and starting states of the known inputs, which are simply counted."""
    spans = evidence.spans
    for node in sorted(evidence.exogenous):
        mine = np.flatnonzero(spans.node == node)
        d, state = spans.trajectory[mine], spans.state[mine]
        begin = np.maximum(spans.start[mine], evidence.start[d])
        dwell = np.maximum(np.minimum(spans.end[mine], evidence.end[d]) - begin, 0.0)
        base, size = int(graph.table_start[node]), int(graph.n_states[node])
        np.add.at(table, base + state * size + state, dwell)
        moved = np.flatnonzero((np.diff(d) == 0) & (np.diff(state) != 0))
        np.add.at(table, base + state[moved] * size + state[moved + 1], 1.0)
        is_first: NDArray[np.bool_] = np.ones(len(mine), dtype=np.bool_)
        is_first[1:] = np.diff(d) != 0
        np.add.at(start, int(graph.state_start[node]) + state[is_first], 1.0)
