"""Evidence on a grid, as the arrays the kernels of the clusters read.

Every piece of evidence about one node is an event of that node: all regions that hold the node read
the same list. A joint measurement belongs to one cluster. What is known of exogenous nodes becomes
a shift of their children's configurations on every step, and a constant in the evidence.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import HOLD, JUMP, LIKELIHOOD, SET, TrajectoryArrays
from asterism.clusters.region_arrays import region_shape
from asterism.clusters.regions import Regions
from asterism.errors import DataError
from asterism.model.compiled import CompiledGraph, configuration_terms
from asterism.star.grid import Breakpoints, Grid
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    Points,
    has_length,
    held_and_set,
    known_state,
)


def trajectory_arrays(
    graph: CompiledGraph, regions: Regions, evidence: Evidence, places: Breakpoints, grid: Grid
) -> TrajectoryArrays:
    """Lay the evidence out on the grid."""
    points, jumps = evidence.points, evidence.jumps
    spans, is_set = held_and_set(evidence)
    exogenous: IntArray = np.array(sorted(evidence.exogenous), dtype=np.int64)
    at = grid.point_of_breakpoint
    likelihood, log_scale = scaled_values(graph, points)
    own_point = np.flatnonzero(~np.isin(points.node, exogenous))
    matters = is_set.copy()
    matters[~is_set] = has_length(evidence) & ~np.isin(evidence.spans.node, exogenous)
    own_span = np.flatnonzero(matters)
    n_jumps, n_points, n_holds = len(jumps.node), len(own_point), len(own_span)
    event = np.full((n_jumps + n_points + n_holds, 4), -1, dtype=np.int64)
    event[:, 0] = np.concatenate(
        [at[places.of_jumps], at[places.of_points[own_point]], at[places.of_span_starts[own_span]]]
    )
    event[: n_jumps + n_points, 1] = np.repeat([JUMP, LIKELIHOOD], [n_jumps, n_points])
    event[n_jumps + n_points :, 1] = np.where(is_set[own_span], SET, HOLD)
    event[:, 2] = np.concatenate([jumps.to_state, points.offset[own_point], spans.state[own_span]])
    event[:n_jumps, 3] = jumps.from_state
    event_log = np.zeros(len(event))
    event_log[n_jumps : n_jumps + n_points] = log_scale[own_point]
    trajectory = np.concatenate(
        [jumps.trajectory, points.trajectory[own_point], spans.trajectory[own_span]]
    )
    node = np.concatenate([jumps.node, points.node[own_point], spans.node[own_span]])
    pair = trajectory * graph.n_nodes + node
    order = np.lexsort((~np.isin(event[:, 1], (JUMP, SET)), event[:, 0], pair))
    n_pairs = evidence.n_trajectories * graph.n_nodes
    span = np.column_stack(
        [at[places.of_span_starts[own_span]], at[places.of_span_ends[own_span]],
         spans.state[own_span], is_set[own_span]]
    ).astype(np.int64)  # fmt: skip
    span_pair = spans.trajectory[own_span] * graph.n_nodes + spans.node[own_span]
    by_pair = np.argsort(span_pair, kind="stable")
    column, shift = _input_shift(graph, evidence, grid)
    return TrajectoryArrays(
        step_start=grid.step_start.astype(np.int64),
        width=grid.width,
        event_start=_starts(pair, n_pairs),
        event=np.ascontiguousarray(event[order]),
        event_log=event_log[order],
        value=likelihood,
        span_start=_starts(span_pair, n_pairs),
        span=np.ascontiguousarray(span[by_pair]),
        **_joint_arrays(graph, regions, evidence, at[places.of_joint]),
        input_column=column,
        input_shift=shift,
    )


def scaled_values(graph: CompiledGraph, points: Points) -> tuple[FloatArray, FloatArray]:
    """Likelihoods in the layout of the points, each row scaled to 1, and the logarithms taken out.

    Rows may use only a part of the values: those of one trajectory among all.
    """
    values = np.zeros(len(points.log_likelihood))
    log_scale = np.zeros(len(points.offset))
    sizes = graph.n_states[points.node]
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        at = points.offset[rows][:, None] + np.arange(size)
        logs = points.log_likelihood[at]
        log_scale[rows] = logs.max(axis=1)
        values[at] = np.exp(logs - log_scale[rows][:, None])
    return values, log_scale


def _starts(pair: IntArray, n_pairs: int) -> IntArray:
    found = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=n_pairs), out=found[1:])
    return found


def _joint_arrays(
    graph: CompiledGraph, regions: Regions, evidence: Evidence, points: IntArray
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Joint measurements, each in the smallest cluster that holds its nodes."""
    rows, index, logs = [], [], []
    maps: dict[tuple[int, tuple[int, ...]], int] = {}
    index_start = table_start = 0
    of_nodes: dict[tuple[int, ...], int] = {}
    order = sorted(range(len(evidence.joint)), key=lambda i: evidence.joint[i].trajectory)
    for i in order:
        m = evidence.joint[i]
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
            digit = region_shape(graph, members).digit
            number = sum(strides[n] * digit[:, members.index(n)] for n in inner)
            maps[cluster, m.nodes] = index_start
            index.append(np.asarray(number, dtype=np.int64))
            index_start += len(digit)
        fixed = sum(
            strides[n] * known_state(evidence, m.trajectory, n, m.time)
            for n in m.nodes
            if n in evidence.exogenous
        )
        rows.append((m.trajectory, points[i], cluster, maps[cluster, m.nodes], table_start + fixed))
        logs.append(np.asarray(m.log_likelihood, dtype=np.float64).ravel())
        table_start += m.log_likelihood.size
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 5)
    return {
        "joint_start": _starts(table[:, 0], evidence.n_trajectories),
        "joint": np.ascontiguousarray(table[:, 1:]),
        "joint_index": np.concatenate([np.zeros(0, dtype=np.int64), *index]),
        "joint_log": np.concatenate([np.zeros(0), *logs]),
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
        mine = np.flatnonzero((spans.trajectory == d) & (spans.node == source))
        if not len(mine) or spans.start[mine[0]] > evidence.start[d]:
            label = evidence.labels[d] if evidence.labels else d
            raise DataError(
                f"The state of exogenous node number {source} is not given in trajectory "
                f"{label!r} at time {evidence.start[d]:g}; its path must be known from the start."
            )
        first, last = int(grid.step_start[d]), int(grid.step_start[d + 1])
        begins = grid.times(d)[:-1]
        place = np.searchsorted(spans.start[mine], begins, side="right") - 1
        state[first:last] = spans.state[mine[place]]
    return state


def known_log_evidence(evidence: Evidence, log_likelihood: FloatArray) -> FloatArray:
    """(D,) log-likelihood of measurements that read exogenous nodes only: a constant."""
    total = np.zeros(evidence.n_trajectories)
    points = evidence.points
    for i in np.flatnonzero(np.isin(points.node, list(evidence.exogenous))):
        d, n = int(points.trajectory[i]), int(points.node[i])
        state = known_state(evidence, d, n, float(points.time[i]))
        total[d] += log_likelihood[points.offset[i] + state]
    for m in evidence.joint:
        if all(n in evidence.exogenous for n in m.nodes):
            states = tuple(known_state(evidence, m.trajectory, n, m.time) for n in m.nodes)
            total[m.trajectory] += m.log_likelihood[states]
    return total
