"""Exact inference on the joint chain: forward–backward over all joint states.

With α the forward and β the backward vector of a component's joint chain, Q its generator, and
evidence at instants t_k:

    between instants   α(t+h) = α(t) exp(Qh)          β(t) = exp(Qh) β(t+h)
    a measurement     α⁺ = α⁻ · L                    β⁻ = L · β⁺
    a recorded jump   α⁺ = α⁻ J                      β⁻ = J β⁺,     J(x,x') = R_n^{u(x)}(x_n, y*)
    a held node       its off-diagonal entries are deleted, the diagonal stays

ln P(Y) is the log of α(T)·1 plus all scales taken out; P(x at t | Y) ∝ α(x) β(x); the expected
number of jumps x → y is ∫ α(x) Q(x,y) β(y) dt / P(Y) and the expected time in x the same with the
factor 1 in place of Q. Summed over joint states with the same own state and parent configuration
they are the statistics of the network's families. Nothing here is approximate: the integrals have
closed forms (``exact/_dense_chain.py`` for few joint states, ``exact/_sparse_chain.py`` for
many). Components of the network, coupled by neither an edge nor a joint measurement, are
independent and treated one by one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asterism.errors import DataError, Setting, TooLargeError
from asterism.exact import _dense_chain as dense_chain
from asterism.exact import _joint_chain as joint_chain
from asterism.exact import _sparse_chain as sparse_chain
from asterism.exact.joint_layout import (
    JOINT_LIMIT,
    Component,
    build_component,
    check_size,
    components,
)
from asterism.model.compiled import CompiledGraph
from asterism.numerics.resources import chunks, current_limit, map_chunks
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, known_state

_DENSE_MEMORY = 2**28
_SPARSE_STEPS = 2_000_000
_WORK_PER_SECOND = 5e8

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A graph and its evidence, laid out once; rates and likelihoods may change between passes."""

    graph: CompiledGraph
    evidence: Evidence
    components: tuple[Component, ...]
    known_trajectory: IntArray
    known_index: IntArray
    """Measurements of known inputs: a constant, read at this index of the likelihoods."""
    known_joint: FloatArray
    """(D,) log-likelihood of joint measurements that read known inputs only."""
    n_queries: int


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
    query_marginals: FloatArray
    """(n_queries, Σ states) P(state | Y) at the query times; empty without queries."""


def prepare(
    graph: CompiledGraph,
    evidence: Evidence,
    joint_limit: int = JOINT_LIMIT,
    queries: tuple[IntArray, FloatArray] | None = None,
) -> Prepared:
    """Everything that does not depend on rates, start probabilities or likelihoods.

    ``queries``: trajectory numbers and times at which marginals are wanted.
    """
    groups = components(graph, evidence)
    check_size(graph, groups, joint_limit)
    if queries is None:
        queries = (np.zeros(0, dtype=np.int64), np.zeros(0))
    points = evidence.points
    known = np.flatnonzero(np.isin(points.node, list(evidence.exogenous)))
    index = [
        points.offset[i] + known_state(evidence, points.trajectory[i], points.node[i], t)
        for i, t in zip(known, points.time[known])
    ]
    known_joint = np.zeros(evidence.n_trajectories)
    for m in evidence.joint:
        if all(n in evidence.exogenous for n in m.nodes):
            states = tuple(known_state(evidence, m.trajectory, n, m.time) for n in m.nodes)
            known_joint[m.trajectory] += m.log_likelihood[states]
    return Prepared(
        graph=graph,
        evidence=evidence,
        components=tuple(build_component(graph, evidence, g, *queries) for g in groups),
        known_trajectory=points.trajectory[known],
        known_index=np.array(index, dtype=np.int64),
        known_joint=known_joint,
        n_queries=len(queries[0]),
    )


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
    graph, evidence = prepared.graph, prepared.evidence
    if log_likelihood is None:
        log_likelihood = evidence.points.log_likelihood
    log_evidence = prepared.known_joint.copy()
    np.add.at(log_evidence, prepared.known_trajectory, log_likelihood[prepared.known_index])
    table = np.zeros(len(rates))
    start = np.zeros(len(initial))
    point_probabilities = np.zeros(len(log_likelihood))
    query_marginals = np.zeros((prepared.n_queries, len(initial)))
    for component in prepared.components:
        part = _solve_component(
            component, evidence, rates, initial, log_likelihood, n_jobs, statistics
        )
        log_evidence += part.log_evidence
        table[component.table_index] += part.table
        first = component.schedule.first[:-1]
        start[component.initial_index] = part.marginals[first].sum(axis=0)
        query_marginals[:, component.initial_index] = part.marginals[component.query_instant]
        _read_points(component, evidence, part.marginals, graph, point_probabilities)
    _add_known_paths(graph, evidence, table, start)
    return Expectations(log_evidence, table, start, point_probabilities, query_marginals)


@dataclass(frozen=True)
class _Solved:
    log_evidence: FloatArray
    table: FloatArray
    marginals: FloatArray
    """(instants, Σ states of the component)."""


def current_generators(component: Component, rates: FloatArray) -> joint_chain.Generators:
    """The component's generators at these (its own) rates."""
    n_kinds = len(component.held)
    generators = joint_chain.Generators(
        held=component.held,
        shift=component.shift,
        value=np.empty((n_kinds, len(component.pattern.column))),
        diagonal=np.empty((n_kinds, component.n_joint)),
        bound=np.empty(n_kinds),
    )
    joint_chain.fill_generators(component.pattern, generators, rates)
    return generators


def _solve_component(
    component: Component,
    evidence: Evidence,
    rates: FloatArray,
    initial: FloatArray,
    log_likelihood: FloatArray,
    n_jobs: int,
    statistics: bool,
) -> _Solved:
    own_rates = np.ascontiguousarray(rates[component.table_index], dtype=np.float64)
    own_initial = np.ascontiguousarray(initial[component.initial_index], dtype=np.float64)
    generators = current_generators(component, own_rates)
    log_evidence = np.zeros(evidence.n_trajectories)
    marginals = np.zeros((len(component.time), len(own_initial)))
    chain = joint_chain.Chain(
        component.pattern,
        component.schedule,
        generators,
        own_rates,
        own_initial,
        log_likelihood,
        component.diameter,
    )
    if _prefers_dense(component, generators):
        solve = _dense
    else:
        solve = _sparse
    table = solve(component, chain, log_evidence, marginals, evidence, n_jobs,
                  statistics)  # fmt: skip
    return _Solved(log_evidence, table, marginals)


def _prefers_dense(component: Component, generators: joint_chain.Generators) -> bool:
    """Choose by estimated work: J³ per distinct segment, against q·h·J per segment."""
    n = component.n_joint
    mass = generators.bound[component.kind_generator] * component.kind_length
    count = np.diff(component.member_start)
    squarings = np.log2(np.maximum(mass, 1.0)) + 16.0 + component.diameter
    dense_work = 4.0 * n**3 * float(np.sum(squarings))
    per_row = len(component.pattern.column) / n
    steps = np.ceil(mass / sparse_chain.STEP_MASS)
    sparse_work = (30.0**2 + 30.0 * 4.0 * per_row) * n * float(np.sum(count * np.maximum(steps, 1)))
    if n <= 8 or (dense_work <= sparse_work and len(mass) * n * n * 8 <= _DENSE_MEMORY):
        _require_time(n, float(dense_work))
        return True
    if len(mass) and steps.max() > _SPARSE_STEPS:
        raise TooLargeError(
            f"Exact inference on {n:,} joint states would need {steps.max():.3g} steps for the "
            "longest gap, as some rates are very large for it: use ",
            *(Setting("method", "star"), "."),
        )
    _require_time(n, sparse_work)
    return False


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


def _dense(
    component: Component,
    chain: joint_chain.Chain,
    log_evidence: FloatArray,
    marginals: FloatArray,
    evidence: Evidence,
    n_jobs: int,
    wanted: bool,
) -> FloatArray:
    n, n_kinds, n_instants = component.n_joint, len(component.kind_length), len(component.time)
    power = np.empty((n_kinds, n, n))
    scale = np.empty(n_kinds)
    segments = dense_chain.Segments(
        component.kind_length, component.kind_generator, component.member_start, component.member
    )
    found = dense_chain.Propagators(component.kind, power, scale)

    def propagators(first: int, last: int) -> None:
        dense_chain.fill_propagators(
            *(chain.pattern, chain.generators, chain.diameter),
            *(segments.length, segments.generator, first, last, power, scale),
        )

    left = np.zeros((n_instants, n))
    right = np.zeros((n_instants, n))

    def one_pass(first: int, last: int) -> FloatArray:
        own = np.zeros(len(component.table_index))
        failed, instant = dense_chain.dense_pass(
            chain, found, first, last, log_evidence, marginals, left, right, own
        )
        _raise_if_impossible(component, evidence, failed, instant)
        return own

    def statistics(first: int, last: int) -> FloatArray:
        own = np.zeros(len(component.table_index))
        dense_chain.dense_statistics(chain, segments, first, last, left, right, own)
        return own

    by_kind = chunks(n_kinds, at_least_each=16)
    map_chunks(propagators, by_kind, n_jobs)
    parts = map_chunks(one_pass, chunks(evidence.n_trajectories, at_least_each=16), n_jobs)
    if wanted:
        parts += map_chunks(statistics, by_kind, n_jobs)
    return _total(parts)


def _sparse(
    component: Component,
    chain: joint_chain.Chain,
    log_evidence: FloatArray,
    marginals: FloatArray,
    evidence: Evidence,
    n_jobs: int,
    wanted: bool,
) -> FloatArray:
    def one_pass(first: int, last: int) -> FloatArray:
        own = np.zeros(len(component.table_index))
        failed, instant = sparse_chain.sparse_pass(
            chain, first, last, log_evidence, marginals, wanted, own
        )
        _raise_if_impossible(component, evidence, failed, instant)
        return own

    return _total(map_chunks(one_pass, chunks(evidence.n_trajectories), n_jobs))


def _total(parts: list[FloatArray]) -> FloatArray:
    total: FloatArray = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _raise_if_impossible(component: Component, evidence: Evidence, d: int, instant: int) -> None:
    if d >= 0:
        label = evidence.labels[d] if evidence.labels else d
        raise DataError(
            f"The data of trajectory {label!r} are impossible under this network: nothing can "
            f"lead to what was seen at about time {component.time[instant]:g}. Look for "
            "contradictory exact measurements, transitions whose rate is zero, or initial "
            "probabilities of zero."
        )


def _read_points(
    component: Component,
    evidence: Evidence,
    marginals: FloatArray,
    graph: CompiledGraph,
    out: FloatArray,
) -> None:
    """Copy the marginals at every measurement to the measurement's place."""
    rows = component.point_row
    node = evidence.points.node[rows]
    for i, n in enumerate(component.nodes):
        mine = node == n
        size = int(graph.n_states[n])
        at = evidence.points.offset[rows[mine]][:, None] + np.arange(size)
        first = int(component.pattern.marginal_start[i])
        out[at] = marginals[component.point_instant[mine], first : first + size]


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
