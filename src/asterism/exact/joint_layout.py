"""Owns the layout of the joint chain: which nodes belong together, and where their evidence lies.

The network falls apart into components: nodes coupled by an edge or a joint measurement. Known
inputs (exogenous nodes) couple nothing. A component's joint states are one jump apart where one
node differs; the pattern says where the rate of each such jump stands.

Evidence becomes instants (every time at which something happens) with segments between them. It is
laid out once; rates, start probabilities and likelihoods may then change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from asterism.errors import Advice, DataError, Setting, TooLargeError
from asterism.exact._joint_chain import Pattern, Schedule
from asterism.model.compiled import CompiledGraph, configuration_terms
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    JointMeasurement,
    has_length,
    known_state,
)


@dataclass(frozen=True)
class Component:
    """A set of coupled nodes: pattern of the joint chain, instants, segments, evidence."""

    nodes: IntArray
    """Network numbers of the nodes, ascending."""
    pattern: Pattern
    table_index: IntArray
    """Where the component's rate tables stand in the network's flat tables."""
    initial_index: IntArray
    """Where its start probabilities stand in the network's."""
    diameter: int
    """The most jumps that one joint state is from another."""
    schedule: Schedule
    time: FloatArray
    """Time of every instant."""
    held: IntArray
    shift: IntArray
    """Kinds of segments; see ``Generators`` in ``_joint_chain.py``."""
    kind: IntArray
    """Number of the distinct (length, generator) after every instant; −1 at the last ones."""
    kind_length: FloatArray
    kind_generator: IntArray
    member_start: IntArray
    member: IntArray
    """The instants whose segments share a kind."""
    point_row: IntArray
    """Rows of ``evidence.points`` of these nodes, and below the instant of each."""
    point_instant: IntArray
    query_instant: IntArray
    """The instant of every query time."""

    @property
    def n_joint(self) -> int:
        """Number of joint states."""
        return len(self.pattern.state_of)


def build_component(
    graph: CompiledGraph,
    evidence: Evidence,
    group: list[int],
    query_trajectory: IntArray,
    query_time: FloatArray,
) -> Component:
    """Lay out one component; queries are extra instants at which nothing is measured."""
    nodes = np.array(group, dtype=np.int64)
    local = np.full(graph.n_nodes, -1, dtype=np.int64)
    local[nodes] = np.arange(len(nodes))
    pattern, table_index, incoming = joint_pattern(graph, nodes, local)
    initial_index = np.concatenate(
        [np.arange(graph.state_start[n], graph.state_start[n + 1]) for n in nodes]
    )
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    own_point = np.flatnonzero(local[points.node] >= 0)
    own_jump = np.flatnonzero(local[jumps.node] >= 0)
    inputs = sorted({parent for parent, _, _ in incoming})
    is_input = np.isin(spans.node, inputs)
    relevant = is_input | ((local[spans.node] >= 0) & has_length(evidence))
    own_span = np.flatnonzero(relevant & (spans.start <= evidence.end[spans.trajectory]))
    span_trajectory = spans.trajectory[own_span]
    span_start = np.maximum(spans.start[own_span], evidence.start[span_trajectory])
    span_end = np.minimum(spans.end[own_span], evidence.end[span_trajectory])
    by_hand = evidence.interventions
    own_set = np.flatnonzero(local[by_hand.node] >= 0)
    set_trajectory = by_hand.trajectory[own_set]
    own_joint = [m for m in evidence.joint if any(local[n] >= 0 for n in m.nodes)]

    everyone = np.arange(evidence.n_trajectories)
    pieces: list[tuple[IntArray, FloatArray]] = [
        (everyone, evidence.start),
        (everyone, evidence.end),
        (points.trajectory[own_point], points.time[own_point]),
        (jumps.trajectory[own_jump], jumps.time[own_jump]),
        (span_trajectory, span_start),
        (span_trajectory, span_end),
        (np.array([m.trajectory for m in own_joint], dtype=np.int64),
         np.array([m.time for m in own_joint], dtype=np.float64)),
        (query_trajectory, query_time),
        (set_trajectory, by_hand.start[own_set]),
        (set_trajectory, np.minimum(by_hand.end[own_set], evidence.end[set_trajectory])),
    ]  # fmt: skip
    trajectory = np.concatenate([t for t, _ in pieces])
    time = np.concatenate([t for _, t in pieces])
    order = np.lexsort((time, trajectory))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (np.diff(trajectory[order]) != 0) | (np.diff(time[order]) != 0)
    instant = np.empty(len(order), dtype=np.int64)
    instant[order] = np.cumsum(is_new) - 1
    cuts = np.cumsum([len(t) for t, _ in pieces])[:-1]
    _, _, at_point, at_jump, at_span, at_span_end, at_joint, at_query, at_set, at_set_end = (
        np.split(instant, cuts)
    )
    instant_trajectory = trajectory[order][is_new]
    instant_time = time[order][is_new]
    n_instants = len(instant_time)
    first = np.searchsorted(instant_trajectory, np.arange(evidence.n_trajectories + 1))

    is_own = local[spans.node[own_span]] >= 0
    held = _held(n_instants, local, spans.node, spans.state, own_span, at_span, at_span_end, is_own)
    for row, begin, stop in zip(own_set, at_set, at_set_end):
        held[begin:stop, local[by_hand.node[row]]] = -2 - by_hand.state[row]
    shift = _input_shift(
        n_instants, len(nodes), incoming, evidence, own_span, at_span, first, instant_time
    )
    length = np.zeros(n_instants)
    length[:-1] = np.diff(instant_time)
    length[first[1:] - 1] = 0.0
    kinds, generator = np.unique(np.hstack([held, shift]), axis=0, return_inverse=True)
    generator = generator.reshape(-1).astype(np.int64)
    kind, kind_length, kind_generator = _segment_kinds(length, generator, first)
    by_kind = np.argsort(kind, kind="stable")[np.count_nonzero(kind < 0) :]
    member_start = np.searchsorted(kind[by_kind], np.arange(len(kind_length) + 1))

    point_order = np.argsort(at_point, kind="stable")
    jump_order = np.argsort(at_jump, kind="stable")
    hold = np.flatnonzero(is_own)[np.argsort(at_span[is_own], kind="stable")]
    joint_order = np.argsort(at_joint, kind="stable")
    set_order = np.argsort(at_set, kind="stable")
    joint_map, joint_offset, joint_index, joint_log = _joint_tables(
        evidence, [own_joint[i] for i in joint_order], local, pattern
    )
    point_row = own_point[point_order]
    instants = np.arange(n_instants + 1)
    schedule = Schedule(
        first=first.astype(np.int64),
        length=length,
        generator=generator,
        jump_start=np.searchsorted(at_jump[jump_order], instants),
        jump_node=local[jumps.node[own_jump[jump_order]]],
        jump_to=jumps.to_state[own_jump[jump_order]],
        jump_from=jumps.from_state[own_jump[jump_order]],
        hold_start=np.searchsorted(at_span[hold], instants),
        hold_node=local[spans.node[own_span[hold]]],
        hold_state=spans.state[own_span[hold]],
        point_start=np.searchsorted(at_point[point_order], instants),
        point_node=local[points.node[point_row]],
        point_offset=points.offset[point_row],
        set_start=np.searchsorted(at_set[set_order], instants),
        set_node=local[by_hand.node[own_set[set_order]]],
        set_state=by_hand.state[own_set[set_order]],
        joint_start=np.searchsorted(at_joint[joint_order], instants),
        joint_map=joint_map,
        joint_offset=joint_offset,
        joint_index=joint_index,
        joint_log=joint_log,
    )
    return Component(
        nodes=nodes,
        pattern=pattern,
        table_index=table_index,
        initial_index=initial_index,
        diameter=int(np.sum(graph.n_states[nodes] - 1)),
        schedule=schedule,
        time=instant_time,
        held=np.ascontiguousarray(kinds[:, : len(nodes)]),
        shift=np.ascontiguousarray(kinds[:, len(nodes) :]),
        kind=kind,
        kind_length=kind_length,
        kind_generator=kind_generator,
        member_start=member_start,
        member=by_kind,
        point_row=point_row,
        point_instant=at_point[point_order],
        query_instant=at_query,
    )


def _held(
    n_instants: int,
    local: IntArray,
    span_node: IntArray,
    span_state: IntArray,
    own_span: IntArray,
    at_start: IntArray,
    at_end: IntArray,
    is_own: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> IntArray:
    """(n_instants, k) the state in which each node is held after each instant, or −1."""
    change = np.zeros((n_instants + 1, int(local.max()) + 1), dtype=np.int64)
    column = local[span_node[own_span[is_own]]]
    value = span_state[own_span[is_own]] + 1
    np.add.at(change, (at_start[is_own], column), value)
    np.subtract.at(change, (at_end[is_own], column), value)
    held: IntArray = np.cumsum(change, axis=0)[:-1] - 1
    return held


def _input_shift(
    n_instants: int,
    n_nodes: int,
    incoming: list[tuple[int, int, IntArray]],
    evidence: Evidence,
    own_span: IntArray,
    at_start: IntArray,
    first: IntArray,
    time: FloatArray,
) -> IntArray:
    """(n_instants, k) what the inputs add to each node's configuration after each instant."""
    shift = np.zeros((n_instants, n_nodes), dtype=np.int64)
    for source in sorted({source for source, _, _ in incoming}):
        mine = evidence.spans.node[own_span] == source
        state = np.full(n_instants, -1, dtype=np.int64)
        state[at_start[mine]] = evidence.spans.state[own_span[mine]]
        # an input keeps its last known state until it is known to change
        known = np.maximum.accumulate(np.where(state >= 0, np.arange(n_instants), -1))
        owner = np.repeat(first[:-1], np.diff(first))
        missing = np.flatnonzero(known < owner)
        if len(missing):
            at = int(missing[0])
            trajectory = int(np.searchsorted(first, at, side="right")) - 1
            label = evidence.labels[trajectory] if evidence.labels else trajectory
            raise DataError(
                f"The state of exogenous node number {source} is not given in trajectory "
                f"{label!r} at time {time[at]:g}; its path must be known from the start."
            )
        for parent, child, terms in incoming:
            if parent == source:
                shift[:, child] += terms[state[known]]
    return shift


def _segment_kinds(
    length: FloatArray, generator: IntArray, first: IntArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Number segments by (length to 13 digits, generator), so that equal ones share work."""
    inner = np.ones(len(length), dtype=np.bool_)
    inner[first[1:] - 1] = False
    used = length[inner]
    digits = 10.0 ** (12 - np.floor(np.log10(np.maximum(used, 1e-290))))
    rounded = np.where(np.isfinite(digits), np.round(used * digits) / digits, used)
    pairs, number = np.unique(
        np.column_stack([rounded, generator[inner]]), axis=0, return_inverse=True
    )
    kind = np.full(len(length), -1, dtype=np.int64)
    kind[inner] = number.reshape(-1)
    return kind, np.ascontiguousarray(pairs[:, 0]), pairs[:, 1].astype(np.int64)


def _joint_tables(
    evidence: Evidence, measurements: list[JointMeasurement], local: IntArray, pattern: Pattern
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Maps from joint states to the entries of joint measurements, and the flat tables."""
    maps: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    rows: list[IntArray] = []
    number, offset, tables = [], [], []
    base = 0
    for m in measurements:
        shape = m.log_likelihood.shape
        strides = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
        key = (m.nodes, shape)
        if key not in maps:
            maps[key] = len(rows)
            rows.append(
                sum(
                    (s * pattern.state_of[:, local[n]] for n, s in zip(m.nodes, strides)
                     if local[n] >= 0),
                    np.zeros(len(pattern.state_of), dtype=np.int64),
                )
            )  # fmt: skip
        fixed = sum(
            s * known_state(evidence, m.trajectory, n, m.time)
            for n, s in zip(m.nodes, strides)
            if local[n] < 0
        )
        number.append(maps[key])
        offset.append(base + fixed)
        tables.append(np.asarray(m.log_likelihood, dtype=np.float64).ravel())
        base += m.log_likelihood.size
    return (
        np.array(number, dtype=np.int64),
        np.array(offset, dtype=np.int64),
        np.array(rows, dtype=np.int64).reshape(len(rows), len(pattern.state_of)),
        np.concatenate([np.zeros(0), *tables]),
    )


JOINT_LIMIT = 4096


def components(graph: CompiledGraph, evidence: Evidence) -> list[list[int]]:
    """Nodes coupled by edges or joint measurements; exogenous nodes belong to none."""
    root = list(range(graph.n_nodes))

    def find(n: int) -> int:
        while root[n] != n:
            root[n] = root[root[n]]
            n = root[n]
        return n

    def couple(a: int, b: int) -> None:
        low, high = sorted((find(a), find(b)))
        root[high] = low

    for node in range(graph.n_nodes):
        for parent in graph.parents[graph.parent_start[node] : graph.parent_start[node + 1]]:
            if parent not in evidence.exogenous and node not in evidence.exogenous:
                couple(node, int(parent))
    for group in {m.nodes for m in evidence.joint}:
        inner = [n for n in group if n not in evidence.exogenous]
        for a, b in pairwise(inner):
            couple(a, b)
    groups: dict[int, list[int]] = {}
    for node in range(graph.n_nodes):
        if node not in evidence.exogenous:
            groups.setdefault(find(node), []).append(node)
    return list(groups.values())


def check_size(graph: CompiledGraph, groups: list[list[int]], joint_limit: int) -> None:
    """Refuse before anything large is built."""
    for group in groups:
        size = math.prod(int(graph.n_states[n]) for n in group)
        if size > joint_limit:
            number = f"{size:,}" if size < 10**12 else f"about 10^{len(str(size)) - 1}"
            raise TooLargeError(
                f"Exact inference needs a joint chain of {number} states ({len(group)} coupled "
                f"nodes), above the limit of {joint_limit:,}: use ",
                *(Setting("method", "star"), Advice(", or raise joint_limit.", ".")),
            )


def joint_pattern(
    graph: CompiledGraph, nodes: IntArray, local: IntArray
) -> tuple[Pattern, IntArray, list[tuple[int, int, IntArray]]]:
    """Pattern, table index, and per edge from an input: (input, local child, terms)."""
    sizes = graph.n_states[nodes]
    n_joint = int(np.prod(sizes))
    stride = np.array([np.prod(sizes[i + 1 :]) for i in range(len(nodes))], dtype=np.int64)
    joint = np.arange(n_joint)
    state_of = (joint[:, None] // stride) % sizes
    term_start, terms = configuration_terms(graph)
    incoming: list[tuple[int, int, IntArray]] = []
    exit_table = np.empty((n_joint, len(nodes)), dtype=np.int64)
    rows, columns, entry_nodes, entry_tables, tables = [], [], [], [], []
    base = 0
    for i, node in enumerate(nodes):
        configuration = np.zeros(n_joint, dtype=np.int64)
        for edge in range(int(graph.parent_start[node]), int(graph.parent_start[node + 1])):
            parent = int(graph.parents[edge])
            own_terms = terms[term_start[edge] : term_start[edge + 1]]
            if local[parent] >= 0:
                configuration += own_terms[state_of[:, local[parent]]]
            else:
                incoming.append((parent, i, own_terms))
        size = int(sizes[i])
        own = state_of[:, i]
        row_start = base + (configuration * size + own) * size
        exit_table[:, i] = row_start + own
        for target in range(size):
            leaves = np.flatnonzero(own != target)
            rows.append(leaves)
            columns.append(leaves + (target - own[leaves]) * stride[i])
            entry_nodes.append(np.full(len(leaves), i, dtype=np.int64))
            entry_tables.append(row_start[leaves] + target)
        tables.append(np.arange(graph.table_start[node], graph.table_start[node + 1]))
        base += len(tables[-1])
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    pattern = Pattern(
        n_states=sizes,
        stride=stride,
        state_of=np.ascontiguousarray(state_of),
        row_start=np.searchsorted(row[order], np.arange(n_joint + 1)),
        column=np.concatenate(columns)[order],
        entry_node=np.concatenate(entry_nodes)[order],
        entry_table=np.concatenate(entry_tables)[order],
        exit_table=exit_table,
        block=sizes**2,
        marginal_start=np.concatenate([[0], np.cumsum(sizes)]),
    )
    return pattern, np.concatenate(tables), incoming
