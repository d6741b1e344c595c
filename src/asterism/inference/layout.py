"""Evidence and network as the arrays the variational kernels read, on a given grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.inference.grid import Breakpoints, Grid
from asterism.kernels.arrays import JUMP, LIKELIHOOD, SOFT, Problem
from asterism.model.compiled import CompiledGraph

LOG_OF_ZERO_RATE = -1e12
"""Stands for ln 0 in averages of logarithms: any real weight on it makes a rate vanish."""


def node_array(graph: CompiledGraph, exogenous: frozenset[int]) -> IntArray:
    """``Problem.node``: what kernels know of each node (columns as in ``kernels.arrays``)."""
    n_nodes = graph.n_nodes
    running = np.zeros((3, n_nodes + 1), dtype=np.int64)
    np.cumsum(graph.n_configurations * graph.n_states, out=running[0, 1:])
    np.cumsum(graph.n_states**2, out=running[1, 1:])
    is_exogenous = np.zeros(n_nodes, dtype=np.int64)
    is_exogenous[sorted(exogenous)] = 1
    return np.ascontiguousarray(
        np.column_stack(
            [
                np.append(graph.n_states, 0),
                graph.parent_start,
                graph.child_start,
                np.append(graph.n_configurations, 0),
                graph.table_start,
                running[0],
                graph.state_start,
                running[1],
                np.append(graph.is_summary.astype(np.int64), 0),
                np.append(is_exogenous, 0),
            ]
        )
    )


def edge_array(graph: CompiledGraph) -> IntArray:
    """``Problem.edge``; one more row closes the offsets of the weights."""
    return np.ascontiguousarray(
        np.column_stack(
            [
                np.append(graph.parents, -1),
                graph.weight_start,
                np.append(graph.children, -1),
                np.append(graph.child_slot, -1),
            ]
        )
    )


def geometric_table(rates: FloatArray, graph: CompiledGraph) -> FloatArray:
    """Rates with their off-diagonal entries replaced by logarithms (what mean field averages)."""
    table = rates.copy()
    for size in np.unique(graph.n_states):
        for n in np.flatnonzero(graph.n_states == size):
            block = table[graph.table_start[n] : graph.table_start[n + 1]].reshape(-1, size, size)
            off = ~np.eye(size, dtype=bool)
            values = block[:, off]
            with np.errstate(divide="ignore"):
                block[:, off] = np.where(values > 0.0, np.log(values), LOG_OF_ZERO_RATE)
    return table


def _scaled_likelihoods(evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Each point's likelihoods divided by their largest, and the logarithm of that."""
    points = evidence.points
    if not len(points.offset):
        return np.zeros(0), np.zeros(0)
    largest = np.maximum.reduceat(points.log_likelihood, points.offset)
    lengths = np.diff(np.append(points.offset, len(points.log_likelihood)))
    return np.exp(points.log_likelihood - np.repeat(largest, lengths)), largest


def _state_at(evidence: Evidence, trajectory: int, node: int, time: float) -> int:
    """State of a continuously known node just before ``time`` (at the start: from there on)."""
    spans = evidence.spans
    mine = (spans.trajectory == trajectory) & (spans.node == node)
    before = mine & (spans.start < time) & (spans.end >= time)
    if not before.any():
        before = mine & (spans.start <= time) & (spans.end >= time)
    return int(spans.state[np.flatnonzero(before)[-1]])


def _link_arrays(
    evidence: Evidence, graph: CompiledGraph
) -> tuple[dict[str, Any], IntArray, list[tuple[int, int, int, int]]]:
    """Link fields of the problem; the link of each jump; soft marks (link, slot, node, origin).

    The origin is the number of the joint measurement, or −1 − the number of the jump.
    """
    if not len(evidence.jumps.time) and not evidence.joint:
        return _no_links(evidence.n_trajectories), np.zeros(0, dtype=np.int64), []
    jumps = evidence.jumps
    specs: list[tuple[int, int, int]] = []  # trajectory, jump or −1, joint or −1
    specs += [(int(d), i, -1) for i, d in enumerate(jumps.trajectory)]
    specs += [(j.trajectory, -1, i) for i, j in enumerate(evidence.joint)]
    specs.sort(key=lambda s: s[0])
    link_of_jump = np.full(len(jumps.time), -1, dtype=np.int64)
    member_start, member_node, member_offset = [0], [], []
    marginals: list[FloatArray] = []
    tables: list[FloatArray] = []
    table_start = [0]
    soft: list[tuple[int, int, int, int]] = []
    n_marginals = 0
    for link, (trajectory, jump, joint) in enumerate(specs):
        if jump >= 0:
            node = int(jumps.node[jump])
            link_of_jump[jump] = link
            parents = graph.parents[graph.parent_start[node] : graph.parent_start[node + 1]]
            members = [node, *(int(p) for p in parents)]
            time = float(jumps.time[jump])
            tables.append(np.zeros(0))
        else:
            measurement = evidence.joint[joint]
            members = list(measurement.nodes)
            time = measurement.time
            tables.append(np.ascontiguousarray(measurement.log_likelihood).ravel())
        for slot, member in enumerate(members):
            size = int(graph.n_states[member])
            marginal = np.full(size, 1.0 / size)
            if member in evidence.exogenous:
                marginal[:] = 0.0
                marginal[_state_at(evidence, trajectory, member, time)] = 1.0
            elif jump >= 0 and slot == 0:
                marginal = _departed(size, int(jumps.to_state[jump]), int(jumps.from_state[jump]))
            else:
                soft.append((link, slot, member, joint if joint >= 0 else -1 - jump))
            member_node.append(member)
            member_offset.append(n_marginals)
            marginals.append(marginal)
            n_marginals += size
        member_start.append(len(member_node))
        table_start.append(table_start[-1] + len(tables[-1]))
    n_links = np.bincount([s[0] for s in specs], minlength=evidence.n_trajectories)
    to_state = [int(jumps.to_state[s[1]]) if s[1] >= 0 else -1 for s in specs]
    from_state = [int(jumps.from_state[s[1]]) if s[1] >= 0 else -1 for s in specs]
    rows = [[int(s[1] >= 0) for s in specs], to_state, from_state]
    closed = [np.array([*row, 0], dtype=np.int64) for row in rows]
    fields = {
        "link_start": np.concatenate([[0], np.cumsum(n_links)]).astype(np.int64),
        "link": np.ascontiguousarray(
            np.column_stack([*closed, np.array(member_start), np.array(table_start)])
        ).astype(np.int64),
        "member": np.array([member_node, member_offset], dtype=np.int64).T.copy().reshape(-1, 2),
        "marginals": np.concatenate([*marginals, np.zeros(0)]),
        "log_table": np.concatenate([*tables, np.zeros(0)]),
    }
    return fields, link_of_jump, soft


def _no_links(n_trajectories: int) -> dict[str, Any]:
    return {
        "link_start": np.zeros(n_trajectories + 1, dtype=np.int64),
        "link": np.zeros((1, 5), dtype=np.int64),
        "member": np.zeros((0, 2), dtype=np.int64),
        "marginals": np.zeros(0),
        "log_table": np.zeros(0),
    }


def _departed(size: int, to_state: int, from_state: int) -> FloatArray:
    """First guess of the state that a jump left."""
    marginal = np.zeros(size)
    if from_state >= 0:
        marginal[from_state] = 1.0
    else:
        marginal[:] = 1.0 / (size - 1)
        marginal[to_state] = 0.0
    return marginal


def build_problem(
    evidence: Evidence, graph: CompiledGraph, breakpoints: Breakpoints, grid: Grid
) -> Problem:
    """Everything that stays fixed while messages are iterated on this grid."""
    n_nodes = graph.n_nodes
    n_pairs = evidence.n_trajectories * n_nodes
    at = grid.point_of_breakpoint
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    link_fields, link_of_jump, soft = _link_arrays(evidence, graph)
    likelihood, log_scale = _scaled_likelihoods(evidence)

    def soft_trajectory(origin: int) -> int:
        return (
            evidence.joint[origin].trajectory if origin >= 0 else int(jumps.trajectory[-1 - origin])
        )

    def soft_point(origin: int) -> int:
        place = breakpoints.of_joint[origin] if origin >= 0 else breakpoints.of_jumps[-1 - origin]
        return int(at[place])

    n_points, n_jumps, n_soft = len(points.time), len(jumps.time), len(soft)
    pair = np.concatenate(
        [
            points.trajectory * n_nodes + points.node,
            jumps.trajectory * n_nodes + jumps.node,
            np.array([soft_trajectory(s[3]) * n_nodes + s[2] for s in soft], dtype=np.int64),
        ]
    )
    point = np.concatenate(
        [
            at[breakpoints.of_points],
            at[breakpoints.of_jumps],
            np.array([soft_point(s[3]) for s in soft], dtype=np.int64),
        ]
    )
    kind = np.repeat([LIKELIHOOD, JUMP, SOFT], [n_points, n_jumps, n_soft])
    offset = np.concatenate([points.offset, np.full(n_jumps + n_soft, -1)])
    link = np.concatenate(
        [np.full(n_points, -1), link_of_jump, np.array([s[0] for s in soft], dtype=np.int64)]
    )
    slot = np.concatenate(
        [np.full(n_points, -1), np.zeros(n_jumps), np.array([s[1] for s in soft], dtype=np.int64)]
    )
    # at one moment a jump comes first: measurements there see the new state
    order = np.lexsort((kind != JUMP, point, pair))
    span_pair = spans.trajectory * n_nodes + spans.node
    per_pair = [np.bincount(p, minlength=n_pairs) for p in (pair, span_pair)]
    columns = [point, kind, offset, link, slot]
    return Problem(
        node=node_array(graph, evidence.exogenous),
        edge=edge_array(graph),
        weights=graph.weights,
        step_start=grid.step_start,
        width=grid.width,
        pair=np.ascontiguousarray(
            np.column_stack([np.append(0, np.cumsum(counts)) for counts in per_pair])
        ).astype(np.int64),
        mark=np.ascontiguousarray(np.column_stack([c[order] for c in columns])).astype(np.int64),
        likelihood=likelihood,
        mark_scale=np.concatenate([log_scale, np.zeros(n_jumps + n_soft)])[order],
        span=np.ascontiguousarray(
            np.column_stack(
                [at[breakpoints.of_span_starts], at[breakpoints.of_span_ends], spans.state]
            )
        ).astype(np.int64),
        **link_fields,
    )
