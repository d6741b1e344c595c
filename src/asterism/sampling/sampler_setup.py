"""Owns the step from a compiled network and evidence to the arrays of the sampler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asterism.numerics.arrays import offsets
from asterism.numerics.compiled import CompiledGraph, configuration_terms
from asterism.sampling._gibbs import arranged
from asterism.sampling._graphs import GRID_FACTOR, LEAST_POINTS
from asterism.sampling.sampler_arrays import (
    Families,
    FloatArray,
    IntArray,
    Paths,
    Rates,
    SamplerLayout,
    Seen,
)
from asterism.timeline.evidence import Evidence, is_exogenous
from asterism.timeline.timeline import (
    EVENT,
    HELD,
    JOINT,
    JUMP,
    LIKELIHOOD,
    OTHER,
    SET,
    UNTIL,
    VALUE,
    joint_tables,
    timeline_of,
)


def layout_of(evidence: Evidence, n_states: IntArray, n_configs: IntArray) -> SamplerLayout:
    """The layout of nodes whose families have at most so many configurations."""
    return SamplerLayout(
        n_states=n_states,
        state_start=offsets(n_states),
        table_start=offsets(n_configs * n_states**2),
        config_start=offsets(n_configs),
        start=evidence.start,
        end=evidence.end,
        is_given=is_exogenous(evidence, np.arange(evidence.n_nodes)),
    )


def add_terms(n_states: IntArray, parents: Sequence[int], term: IntArray) -> int:
    """Fill in (parents, S) what their states add to a configuration, the first varying slowest.

    Returns the number of configurations.
    """
    n_configs = 1
    for p in range(len(parents) - 1, -1, -1):
        size = int(n_states[parents[p]])
        term[p, :size] = n_configs * np.arange(size)
        n_configs *= size
    return n_configs


def families_of(graph: CompiledGraph) -> Families:
    """The graph as present families."""
    n_parents = np.diff(graph.parent_start)
    width = max(1, int(n_parents.max(initial=0)))
    parents = np.zeros((graph.n_nodes, width), dtype=np.int64)
    term = np.zeros((graph.n_nodes, width, int(graph.n_states.max())), dtype=np.int64)
    term_start, terms = configuration_terms(graph)
    for n in range(graph.n_nodes):
        for p, edge in enumerate(range(int(graph.parent_start[n]), int(graph.parent_start[n + 1]))):
            parents[n, p] = graph.parents[edge]
            own = terms[term_start[edge] : term_start[edge + 1]]
            term[n, p, : len(own)] = own
    return Families(
        n_parents=n_parents,
        parents=parents,
        term=term,
        n_configs=graph.n_configurations.copy(),
        child_start=graph.child_start.copy(),
        child=graph.children.copy(),
        child_slot=graph.child_slot.copy(),
    )


def rates_of(
    layout: SamplerLayout, n_configs: IntArray, table: FloatArray, initial: FloatArray
) -> Rates:
    """Rates as the kernels read them, from flat tables whose diagonals may hold anything."""
    rate = table.copy()
    omega = np.zeros(int(layout.config_start[-1]))
    length = float(np.mean(layout.end - layout.start)) if len(layout.start) else 0.0
    least = LEAST_POINTS / length if length > 0.0 else 0.0
    for n in range(len(layout.n_states)):
        size = int(layout.n_states[n])
        first, count = int(layout.table_start[n]), int(n_configs[n])
        block = rate[first : first + count * size * size].reshape(count, size, size)
        own = np.arange(size)
        block[:, own, own] = 0.0
        leaving = block.sum(axis=2)
        block[:, own, own] = leaving
        at = int(layout.config_start[n])
        most = leaving.max(axis=1)
        omega[at : at + count] = np.where(most > 0.0, np.maximum(GRID_FACTOR * most, least), 0.0)
    with np.errstate(divide="ignore"):
        logs = np.log(rate)
    whole = float((layout.end - layout.start).max(initial=0.0))
    kind = np.zeros(len(layout.n_states), dtype=np.int64)
    return Rates(
        rate, logs, omega, initial.copy(), kind, kind - 1, kind.copy(), kind.copy(), np.zeros(0),
        np.array([whole]),
    )  # fmt: skip


def seen_of(evidence: Evidence, n_states: IntArray) -> Seen:
    """The evidence grouped by pair."""
    timeline = timeline_of(evidence)
    trajectory, node = np.divmod(timeline.pair, evidence.n_nodes)
    pair = node * evidence.n_trajectories + trajectory
    n_pairs = evidence.n_nodes * evidence.n_trajectories

    def by_pair(kind: int) -> tuple[IntArray, IntArray]:
        """Entries of a kind in the order of pairs and times, and where each pair's begin."""
        rows = np.flatnonzero(timeline.kind == kind)
        rows = rows[np.argsort(pair[rows], kind="stable")]
        first = np.searchsorted(pair[rows], np.arange(n_pairs + 1))
        return timeline.entry[rows], first.astype(np.int64)

    point, point_start = by_pair(LIKELIHOOD)
    jump, jump_start = by_pair(JUMP)
    span, span_start = by_pair(HELD)
    held, set_start = by_pair(SET)
    joint, joint_start = by_pair(JOINT)
    members = [node for m in evidence.joint for node in m.nodes]
    strides = [
        int(np.prod(n_states[list(m.nodes[k + 1 :])]))
        for m in evidence.joint
        for k in range(len(m.nodes))
    ]
    tables, logs = joint_tables(evidence)
    return Seen(
        point_start=point_start,
        point_time=timeline.time[point[:, EVENT]],
        point_offset=point[:, VALUE].copy(),
        log_likelihood=evidence.points.log_likelihood.copy(),
        jump_start=jump_start,
        jump_time=timeline.time[jump[:, EVENT]],
        jump_to=jump[:, VALUE].copy(),
        jump_from=jump[:, OTHER].copy(),
        span_start=span_start,
        span_begin=timeline.time[span[:, EVENT]],
        span_end=timeline.time[span[:, UNTIL]],
        span_state=span[:, VALUE].copy(),
        set_start=set_start,
        set_begin=timeline.time[held[:, EVENT]],
        set_end=timeline.time[held[:, UNTIL]],
        set_state=held[:, VALUE].copy(),
        joint_start=joint_start,
        joint_index=joint[:, VALUE].copy(),
        joint_member=joint[:, OTHER].copy(),
        joint_time=np.array([m.time for m in evidence.joint], dtype=np.float64),
        member_start=offsets([len(m.nodes) for m in evidence.joint]),
        member=np.array(members, dtype=np.int64),
        member_stride=np.array(strides, dtype=np.int64),
        joint_table=tables[:-1],
        joint_log=logs,
    )


def places_for_first_jumps(layout: SamplerLayout, seen: Seen) -> Paths:
    """Known paths of given nodes; for all others, times at which a first path may jump.

    These are the recorded jumps, and between two pieces of a node's own evidence as many times as
    it may need to get from one state to another. What the path really is there, is still to be
    drawn.
    """
    n_trajectories = len(layout.start)
    n_pairs = n_trajectories * len(layout.n_states)
    initial = np.zeros(n_pairs, dtype=np.int64)
    times: list[FloatArray] = []
    states: list[IntArray] = []
    for pair in range(n_pairs):
        n, d = divmod(pair, n_trajectories)
        spans = slice(int(seen.span_start[pair]), int(seen.span_start[pair + 1]))
        begin, end, state = seen.span_begin[spans], seen.span_end[spans], seen.span_state[spans]
        if layout.is_given[n]:
            moved = np.flatnonzero((np.diff(state) != 0) & (begin[1:] > layout.start[d])) + 1
            before = state[begin <= layout.start[d]]
            initial[pair] = before[-1] if len(before) else state[0]
            times.append(begin[moved])
            states.append(state[moved])
            continue
        jumps = seen.jump_time[seen.jump_start[pair] : seen.jump_start[pair + 1]]
        points = seen.point_time[seen.point_start[pair] : seen.point_start[pair + 1]]
        by_hand = slice(int(seen.set_start[pair]), int(seen.set_start[pair + 1]))
        begin = np.concatenate([begin, seen.set_begin[by_hand]])
        end = np.concatenate([end, seen.set_end[by_hand]])[np.argsort(begin, kind="stable")]
        begin = np.sort(begin)
        edges = np.unique([layout.start[d], layout.end[d], *jumps, *points, *begin, *end])
        n_between = int(layout.n_states[n]) - 1
        share = np.arange(1, n_between + 1) / (n_between + 1)
        between = (edges[:-1, None] + np.diff(edges)[:, None] * share).ravel()
        inside = np.searchsorted(begin, between, side="right") - 1
        if len(begin):
            between = between[(inside < 0) | (between >= end[np.maximum(inside, 0)])]
        times.append(np.unique([*jumps, *between]))
        states.append(np.arange(len(times[-1])) % int(layout.n_states[n]))
    return arranged_paths(
        initial,
        np.array([len(t) for t in times], dtype=np.int64),
        np.concatenate([np.zeros(0), *times]),
        np.concatenate([np.zeros(0), *states]).astype(np.int16),
        n_trajectories,
    )


def arranged_paths(
    initial: IntArray,
    n_jumps: IntArray,
    time: FloatArray,
    state: NDArray[np.int16],
    n_trajectories: int,
) -> Paths:
    """Paths whose jumps follow each other, pair by pair, in an arena where they can grow."""
    slot = offsets(n_jumps)
    whole = np.array([0, n_trajectories], dtype=np.int64)
    packed = Paths(initial, n_jumps, slot[:-1], n_jumps, whole, slot[-1:], slot[-1:], time, state)
    return arranged(packed, whole, -1, 0)  # type: ignore[no-any-return]
