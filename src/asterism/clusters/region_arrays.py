"""Regions and rates as the arrays the kernels read.

The base table holds the network's rates and behind them, per node, a square of ones: the factor of
a jump in a region that does not own the node. A jump that no configuration of the parents allows is
zero there as well. Other rates of zero are replaced by a tiny one, because messages carry ratios of
rates; a cluster without separators needs no such floor.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.clusters._cluster_layout import (
    MOST_PARTS,
    MOST_TERMS,
    RegionArrays,
    RegionWork,
    TrajectoryArrays,
)
from asterism.clusters.regions import Regions
from asterism.engine.joint_states import JointStates, joint_states
from asterism.numerics._jit import addresses
from asterism.numerics.arrays import Ragged, offsets
from asterism.numerics.compiled import CompiledGraph, configuration_terms
from asterism.timeline.evidence import FloatArray, IntArray

_FLOOR = 1e-12  # of a node's largest rate


class BaseTable(NamedTuple):
    """Rates as the regions use them."""

    table: FloatArray
    is_zero: NDArray[np.bool_]
    """Rates that were replaced by a tiny one."""


def base_table(
    graph: CompiledGraph, rates: FloatArray, has_borders: NDArray[np.bool_]
) -> BaseTable:
    """The base table at these rates; ``has_borders``: nodes whose owner has separators."""
    floored = rates.astype(np.float64, copy=True)
    is_zero = np.zeros(len(rates), dtype=np.bool_)
    squares = []
    for n in range(graph.n_nodes):
        size = int(graph.n_states[n])
        own = slice(int(graph.table_start[n]), int(graph.table_start[n + 1]))
        block = floored[own].reshape(-1, size, size)
        off = ~np.eye(size, dtype=bool)
        possible = (block > 0.0).any(axis=0) & off
        squares.append(possible.astype(np.float64).ravel())
        if has_borders[n] and possible.any():
            empty = (block <= 0.0) & possible
            if empty.any():
                block[empty] = _FLOOR * block.max()
                is_zero[own] = empty.ravel()
    return BaseTable(np.concatenate([floored, *squares]), is_zero)


def square_start(graph: CompiledGraph) -> IntArray:
    """Where each node's square of ones begins in the base table."""
    squares = graph.n_states**2
    return np.asarray(graph.table_start[-1] + np.cumsum(squares) - squares, dtype=np.int64)


def region_arrays(graph: CompiledGraph, regions: Regions) -> RegionArrays:
    """Everything the kernels need to know of the regions."""
    every = [*regions.clusters, *(s.nodes for s in regions.separators)]
    n_clusters = len(regions.clusters)
    squares = square_start(graph)
    terms = configuration_terms(graph)
    flat = {name: Ragged() for name in (
        "node", "stride", "digit", "column", "reverse", "slot", "base", "owned", "exit",
    )}  # fmt: skip
    per_row = []
    n_joint = []
    for r, nodes in enumerate(every):
        shape = joint_states(graph, nodes)
        width = shape.column.shape[1]
        n_joint.append(len(shape.digit))
        per_row.append(width)
        flat["node"].append(nodes)
        flat["stride"].append(shape.stride)
        flat["digit"].append(shape.digit)
        flat["column"].append(shape.column)
        flat["reverse"].append(_reverse(shape))
        flat["slot"].append(shape.slot)
        owned = [i for i, n in enumerate(nodes) if r < n_clusters and regions.owner[n] == r]
        rows = {i: _own_rows(graph, nodes, i, shape, terms) for i in owned}
        base = np.empty((len(shape.digit), width), dtype=np.int64)
        for i, n in enumerate(nodes):
            here = shape.slot == i
            own = np.broadcast_to(shape.digit[:, i : i + 1], here.shape)[here]
            to = shape.target[here]
            if i in rows:
                base[here] = np.broadcast_to(rows[i][:, None], here.shape)[here] + to
            else:
                base[here] = squares[n] + own * int(shape.sizes[i]) + to
        flat["base"].append(base)
        flat["owned"].append(owned)
        exits = [rows[i] + shape.digit[:, i] for i in owned]
        flat["exit"].append(np.array(exits, dtype=np.int64).T if owned else [])
    borders = _borders(graph, regions)
    separators = range(n_clusters, len(every))
    return RegionArrays(
        n_clusters=n_clusters,
        n_joint=np.array(n_joint, dtype=np.int64),
        per_row=np.array(per_row, dtype=np.int64),
        node_start=flat["node"].offsets,
        node=flat["node"].values,
        stride=flat["stride"].values,
        digit_start=flat["digit"].offsets,
        digit=flat["digit"].values,
        entry_start=flat["column"].offsets,
        column=flat["column"].values,
        reverse=flat["reverse"].values,
        entry_slot=flat["slot"].values,
        base_index=flat["base"].values,
        owned_start=flat["owned"].offsets,
        owned_slot=flat["owned"].values,
        exit_start=flat["exit"].offsets,
        exit_index=flat["exit"].values,
        block=(graph.n_states**2).astype(np.int64),
        table_start=graph.table_start.astype(np.int64),
        state_start=graph.state_start.astype(np.int64),
        **borders,
        message_state_start=offsets([n_joint[r] for r in separators]),
        message_entry_start=offsets([n_joint[r] * per_row[r] for r in separators]),
    )


def make_room(
    arrays: RegionArrays,
    chosen: range,
    n_columns: int,
    problem: TrajectoryArrays,
    n_terms: int = MOST_TERMS,
    n_parts: int = MOST_PARTS,
    *,
    units: tuple[Any, ...],
) -> RegionWork:
    """Room for the passes of the chosen regions, one after the other, in one thread.

    ``units``: the kernels that will be called by address.
    """
    joint = max([1, *(int(arrays.n_joint[r]) for r in chosen)])
    entries = max([1, *(int(arrays.n_joint[r] * arrays.per_row[r]) for r in chosen)])
    nodes = max([1, *(int(np.diff(arrays.node_start)[r]) for r in chosen)])
    n_steps = int(np.diff(problem.step_start).max(initial=1))
    n_network = len(arrays.block)
    n_events = int(np.diff(problem.event_start[::n_network]).max(initial=0))
    n_events += int(np.diff(problem.joint_start).max(initial=0))
    return RegionWork(
        column=np.arange(n_steps, dtype=np.int64),
        step=np.zeros(n_columns, dtype=np.int64),
        held=np.full((n_columns, nodes), -1, dtype=np.int64),
        alive=np.ones((n_columns, joint)),
        rate=np.zeros((entries, n_columns)),
        diagonal=np.zeros((joint, n_columns)),
        time=np.zeros((joint, n_columns)),
        jumps=np.zeros((entries, n_columns)),
        forward=np.zeros((n_steps + 1, joint)),
        backward=np.zeros((n_steps + 1, joint)),
        endings=np.zeros((2 * (math.isqrt(n_parts) + 1), joint)),
        event_start=np.zeros(n_steps + 2, dtype=np.int64),
        event_row=np.zeros(n_events, dtype=np.int64),
        event_slot=np.zeros(n_events, dtype=np.int64),
        start=np.zeros(joint),
        first_time=np.zeros(joint),
        u=np.zeros((n_terms, joint)),
        v=np.zeros((n_terms, joint)),
        z=np.zeros((joint, n_terms)),
        by_state=np.zeros((joint, n_terms)),
        vector=np.zeros((6, joint)),
        local=np.zeros(entries),
        back=np.zeros(entries),
        loaded=np.full(3, -1.0),
        failure=np.zeros(2, dtype=np.int64),
        coefficient=_coefficients(n_terms),
        power=np.zeros((0, joint, joint)),
        power_log=np.zeros(0),
        power_kind=np.zeros(0, dtype=np.int64),
        left=np.zeros((0, joint)),
        right=np.zeros((0, joint)),
        addresses=addresses(*units),
    )


@cache
def _coefficients(n_terms: int) -> FloatArray:
    """i! j! / (i+j+1)!, by ratios of neighbours: exact enough, and never too large."""
    i, j = np.arange(float(n_terms))[:, None], np.arange(1.0, n_terms)
    ratio = np.hstack([1.0 / (i + 1.0), j / (i + j + 1.0)])
    return np.asarray(np.cumprod(ratio, axis=1))


def _own_rows(
    graph: CompiledGraph,
    nodes: tuple[int, ...],
    i: int,
    shape: JointStates,
    terms: tuple[IntArray, IntArray],
) -> IntArray:
    """(J,) where the row of rates of node ``nodes[i]`` begins in each joint state, inputs at 0."""
    node = nodes[i]
    configuration = np.zeros(len(shape.digit), dtype=np.int64)
    for edge in range(int(graph.parent_start[node]), int(graph.parent_start[node + 1])):
        parent = int(graph.parents[edge])
        if parent in nodes:
            own = terms[1][terms[0][edge] : terms[0][edge + 1]]
            configuration += own[shape.digit[:, nodes.index(parent)]]
    size = int(shape.sizes[i])
    rows = graph.table_start[node] + (configuration * size + shape.digit[:, i]) * size
    return np.asarray(rows, dtype=np.int64)


def _reverse(shape: JointStates) -> IntArray:
    """(J, per_row) number of the entry that jumps back."""
    width = shape.column.shape[1]
    own = np.take_along_axis(shape.digit, shape.slot, axis=1)
    first = offsets(shape.sizes - 1)[:-1]
    # in the row after the jump, the state left has this rank among the others of its node
    rank = own - (own > shape.target)
    return np.asarray(shape.column * width + first[shape.slot] + rank, dtype=np.int64)


def _borders(graph: CompiledGraph, regions: Regions) -> dict[str, IntArray]:
    """Per cluster and separator: which state and jump of the one is which of the other."""
    by_cluster: list[list[tuple[int, int]]] = [[] for _ in regions.clusters]
    for s, separator in enumerate(regions.separators):
        for side, c in enumerate(separator.clusters):
            by_cluster[c].append((s, side))
    state, entry = Ragged(), Ragged()
    maps: dict[Any, tuple[IntArray, IntArray]] = {}
    for c, borders in enumerate(by_cluster):
        nodes = regions.clusters[c]
        for s, _ in borders:
            shared = regions.separators[s].nodes
            places = tuple(nodes.index(n) for n in shared)
            shape = joint_states(graph, nodes)
            key = (tuple(shape.sizes.tolist()), places)
            if key not in maps:
                maps[key] = _maps(shape, places, joint_states(graph, shared))
            state.append(maps[key][0])
            entry.append(maps[key][1])
    flat = [pair for borders in by_cluster for pair in borders]
    return {
        "border_start": offsets([len(borders) for borders in by_cluster]),
        "border_separator": np.array([s for s, _ in flat], dtype=np.int64),
        "border_side": np.array([side for _, side in flat], dtype=np.int64),
        "border_cluster": np.array(
            [regions.separators[s].clusters[1 - side] for s, side in flat], dtype=np.int64
        ),
        "border_state_start": state.offsets,
        "border_state": state.values,
        "border_entry_start": entry.offsets,
        "border_entry": entry.values,
    }


def _maps(
    shape: JointStates, places: tuple[int, ...], small: JointStates
) -> tuple[IntArray, IntArray]:
    state = shape.digit[:, list(places)] @ small.stride
    first = offsets(small.sizes - 1)[:-1]
    entry = np.full(shape.column.shape, -1, dtype=np.int64)
    own = np.take_along_axis(shape.digit, shape.slot, axis=1)
    rank = shape.target - (shape.target > own)
    for i, place in enumerate(places):
        here = shape.slot == place
        number = state[:, None] * small.column.shape[1] + first[i] + rank
        entry[here] = number[here]
    return np.asarray(state, dtype=np.int64), entry
