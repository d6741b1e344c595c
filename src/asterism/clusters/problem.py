"""Evidence on a grid, as the arrays the kernels of the clusters read.

Every piece of evidence about one node is an event of that node: all regions that hold the node read
the same list. A joint measurement belongs to one cluster. What is known of exogenous nodes becomes
a shift of their children's configurations on every step, and a constant in the evidence.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import TrajectoryArrays
from asterism.clusters.regions import Regions
from asterism.engine.grid import Grid
from asterism.engine.joint_states import joint_states
from asterism.errors import DataError
from asterism.numerics.arrays import starts_of
from asterism.numerics.compiled import CompiledGraph, configuration_terms
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, is_exogenous
from asterism.timeline.timeline import (
    HELD,
    JOINT,
    KIND,
    OTHER,
    SET,
    joint_tables,
    known_states,
    on_grid,
    scaled_likelihoods,
    scales_of,
    spans_on_grid,
    timeline_of,
)


def trajectory_arrays(
    graph: CompiledGraph, regions: Regions, evidence: Evidence, grid: Grid
) -> TrajectoryArrays:
    """The timeline on a grid."""
    timeline = timeline_of(evidence)
    entry = on_grid(timeline, grid.point_of_event)
    own = (timeline.kind != JOINT) & ~is_exogenous(evidence, timeline.pair % graph.n_nodes)
    event, pair = entry[own], timeline.pair[own]
    holds = np.isin(event[:, KIND], (HELD, SET))
    values, taken_out = scaled_likelihoods(evidence.points)
    column, shift = _input_shift(graph, evidence, grid)
    n_pairs = evidence.n_trajectories * graph.n_nodes
    return TrajectoryArrays(
        step_start=grid.step_start.astype(np.int64),
        width=grid.width,
        event_start=starts_of(pair, n_pairs),
        event=np.ascontiguousarray(event[:, :4]),
        event_log=scales_of(event, evidence.points, taken_out),
        value=np.ascontiguousarray(values[:, 0]),
        span_start=starts_of(pair[holds], n_pairs),
        span=spans_on_grid(timeline.entry[own][holds], grid.point_of_event),
        **_joint_arrays(graph, regions, evidence, entry),
        input_column=column,
        input_shift=shift,
    )


def _joint_arrays(
    graph: CompiledGraph, regions: Regions, evidence: Evidence, entry: IntArray
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Joint measurements, each in the smallest cluster that holds its nodes."""
    rows, index = [], []
    table_start, logs = joint_tables(evidence)
    maps: dict[tuple[int, tuple[int, ...]], int] = {}
    index_start = 0
    of_nodes: dict[tuple[int, ...], int] = {}
    firsts = entry[(entry[:, KIND] == JOINT) & (entry[:, OTHER] == 0)]
    for point, _, number, _, _ in firsts:
        m = evidence.joint[number]
        inner = tuple(n for n in m.nodes if n not in evidence.exogenous)
        if not inner:
            continue
        if inner not in of_nodes:
            of_nodes[inner] = regions.holding(inner)
        cluster = of_nodes[inner]
        members = regions.clusters[cluster]
        shape = m.log_likelihood.shape
        strides = {n: math.prod(shape[a + 1 :]) for a, n in enumerate(m.nodes)}
        if (cluster, m.nodes) not in maps:
            digit = joint_states(graph, members).digit
            joint_state = sum(strides[n] * digit[:, members.index(n)] for n in inner)
            maps[cluster, m.nodes] = index_start
            index.append(np.asarray(joint_state, dtype=np.int64))
            index_start += len(digit)
        fixed = sum(
            strides[n] * int(known_states(evidence, m.trajectory, n, m.time))
            for n in m.nodes
            if n in evidence.exogenous
        )
        rows.append(
            (m.trajectory, point, cluster, maps[cluster, m.nodes], table_start[number] + fixed)
        )
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    return {
        "joint_start": starts_of(table[:, 0], evidence.n_trajectories),
        "joint": np.ascontiguousarray(table[:, 1:]),
        "joint_index": np.concatenate([np.zeros(0, dtype=np.int64), *index]),
        "joint_log": logs,
    }


def _input_shift(graph: CompiledGraph, evidence: Evidence, grid: Grid) -> tuple[IntArray, IntArray]:
    """Column of every node with exogenous parents, and what they add on every step."""
    column = np.full(graph.n_nodes, -1, dtype=np.int64)
    term_start, terms = configuration_terms(graph)
    edges = []
    for n in range(graph.n_nodes):
        for edge in range(int(graph.parent_start[n]), int(graph.parent_start[n + 1])):
            if int(graph.parents[edge]) in evidence.exogenous and n not in evidence.exogenous:
                column[n] = max(column[n], 0)
                edges.append((int(graph.parents[edge]), n, edge))
    with_inputs = np.flatnonzero(column >= 0)
    column[with_inputs] = np.arange(len(with_inputs))
    shift = np.zeros((int(grid.step_start[-1]), max(len(with_inputs), 1)), dtype=np.int64)
    for source in sorted({parent for parent, _, _ in edges}):
        state = _states_on_steps(evidence, grid, source)
        for parent, n, edge in edges:
            if parent == source:
                shift[:, column[n]] += terms[term_start[edge] : term_start[edge + 1]][state]
    return column, shift


def _states_on_steps(evidence: Evidence, grid: Grid, source: int) -> IntArray:
    """State of an exogenous node on every step."""
    spans = evidence.spans
    state = np.empty(int(grid.step_start[-1]), dtype=np.int64)
    for d in range(evidence.n_trajectories):
        mine = (spans.trajectory == d) & (spans.node == source)
        if not (spans.start[mine] <= evidence.start[d]).any():
            raise DataError(
                f"The state of exogenous node number {source} is not given in trajectory "
                f"{evidence.label(d)!r} at time {evidence.start[d]:g}; its path must be "
                "known from the start."
            )
        first, last = int(grid.step_start[d]), int(grid.step_start[d + 1])
        state[first:last] = known_states(evidence, d, source, grid.times(d)[:-1])
    return state


def known_indicator(
    evidence: Evidence, d: int, node: int, n_states: int, times: FloatArray
) -> FloatArray:
    """(times, S) 1 for the state of an exogenous node, else 0."""
    return np.eye(n_states)[known_states(evidence, d, node, times)]


def known_log_evidence(evidence: Evidence, log_likelihood: FloatArray) -> FloatArray:
    """(D,) log-likelihood of measurements that read exogenous nodes only: a constant."""
    total = np.zeros(evidence.n_trajectories)
    points = evidence.points
    for i in np.flatnonzero(is_exogenous(evidence, points.node)):
        d, n = int(points.trajectory[i]), int(points.node[i])
        state = int(known_states(evidence, d, n, points.time[i]))
        total[d] += log_likelihood[points.offset[i] + state]
    for m in evidence.joint:
        if all(n in evidence.exogenous for n in m.nodes):
            states = tuple(int(known_states(evidence, m.trajectory, n, m.time)) for n in m.nodes)
            total[m.trajectory] += m.log_likelihood[states]
    return total
