"""Evidence and network as the arrays the variational kernels read, on a given grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.inference.grid import Breakpoints, Grid, find_breakpoints
from asterism.inference.link_layout import SoftMarks, link_arrays
from asterism.kernels.arrays import (
    CHILD,
    CHILDREN,
    CONFIGURATIONS,
    DWELL,
    FIRST,
    INITIAL,
    IS_EXOGENOUS,
    IS_SUMMARY,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    LINK,
    MARK,
    MEMBER,
    PARENT,
    PARENTS,
    POINT,
    SLOT,
    SOFT,
    SPAN,
    SQUARES,
    STATE,
    STATES,
    TABLE,
    VALUES,
    WEIGHT,
    Problem,
)
from asterism.kernels.stretches import find_stretches
from asterism.model.compiled import CompiledGraph

_STRETCH_FIELDS = (
    "stretch_start",
    "stretch",
    "edge_slope",
    "to_middle",
    "to_step",
    "quadrature",
)

#: under which name an :class:`Evidence` remembers how it is sorted
_SORTED = "sorted marks"

LOG_OF_ZERO_RATE = -1e12
"""Stands for ln 0 in averages of logarithms: any real weight on it makes a rate vanish."""


def node_array(graph: CompiledGraph, exogenous: frozenset[int]) -> IntArray:
    """``Problem.node``: what kernels know of each node (columns as in ``kernels.arrays``)."""
    n_nodes = graph.n_nodes
    node = np.zeros((n_nodes + 1, 10), dtype=np.int64)
    node[:-1, STATES] = graph.n_states
    node[:, PARENTS] = graph.parent_start
    node[:, CHILDREN] = graph.child_start
    node[:-1, CONFIGURATIONS] = graph.n_configurations
    node[:, TABLE] = graph.table_start
    node[1:, DWELL] = (graph.n_configurations * graph.n_states).cumsum()
    node[:, INITIAL] = graph.state_start
    node[1:, SQUARES] = (graph.n_states * graph.n_states).cumsum()
    node[:-1, IS_SUMMARY] = graph.is_summary
    if exogenous:
        node[sorted(exogenous), IS_EXOGENOUS] = 1
    return node


def edge_array(graph: CompiledGraph) -> IntArray:
    """``Problem.edge``; one more row closes the offsets of the weights."""
    edge = np.full((len(graph.parents) + 1, 4), -1, dtype=np.int64)
    edge[:-1, PARENT] = graph.parents
    edge[:, WEIGHT] = graph.weight_start
    edge[:-1, CHILD] = graph.children
    edge[:-1, SLOT] = graph.child_slot
    return edge


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


def scaled_likelihoods(
    log_likelihood: FloatArray, offset: IntArray
) -> tuple[FloatArray, FloatArray]:
    """``Problem.likelihood`` of points that begin at ``offset``, and the logarithms taken out."""
    if not len(offset):
        return np.zeros((0, 2)), np.zeros(0)
    largest = np.maximum.reduceat(log_likelihood, offset)
    lengths = np.empty_like(offset)
    np.subtract(offset[1:], offset[:-1], out=lengths[:-1])
    lengths[-1] = len(log_likelihood) - offset[-1]
    scaled = np.empty((len(log_likelihood), 2))
    logs = np.subtract(log_likelihood, largest.repeat(lengths), out=scaled[:, 1])
    np.exp(logs, out=scaled[:, 0])
    logs[logs == -np.inf] = 0.0
    return scaled, largest


@dataclass(frozen=True)
class Layout:
    """Evidence and network as arrays, before a grid says on which points the evidence falls."""

    breakpoints: Breakpoints
    fields: dict[str, Any]
    """Those of the problem that no grid changes."""
    breakpoint_of_mark: IntArray
    span_state: IntArray

    def on_grid(self, grid: Grid) -> Problem:
        """Everything that stays fixed while messages are iterated on this grid."""
        at, places = grid.point_of_breakpoint, self.breakpoints
        fields = dict(self.fields)
        # what is changed in place belongs to one problem only
        for name in ("mark", "likelihood", "mark_scale", "marginals"):
            fields[name] = fields[name].copy()
        fields["mark"][:, POINT] = at[self.breakpoint_of_mark]
        span = np.empty((len(self.span_state), 3), dtype=np.int64)
        span[:, FIRST] = at[places.of_span_starts]
        span[:, LAST] = at[places.of_span_ends]
        span[:, STATE] = self.span_state
        return Problem(
            step_start=grid.step_start,
            width=grid.width,
            span=span,
            **_stretch_fields(grid),
            **fields,
        )


def _stretch_fields(grid: Grid) -> dict[str, Any]:
    """Which steps are corrected to fourth order, and how; empty arrays where none are."""
    if grid.longest_smooth > 0.0:
        found = find_stretches(
            grid.step_start,
            grid.width,
            grid.breakpoint_trajectory,
            grid.point_of_breakpoint,
            grid.longest_smooth,
        )
        if len(found[1]):
            return dict(zip(_STRETCH_FIELDS, found))
    nothing = (
        np.zeros(len(grid.step_start), dtype=np.int64),
        np.zeros((0, 2), dtype=np.int64),
        np.zeros((0, 6)),
        np.zeros((5, 0)),
        np.zeros((5, 0)),
        np.zeros(0),
    )
    return dict(zip(_STRETCH_FIELDS, nothing))


@dataclass(frozen=True)
class _Marks:
    """Evidence sorted by trajectory, node and time."""

    breakpoints: Breakpoints
    pair: IntArray
    mark: IntArray
    likelihood: FloatArray
    mark_scale: FloatArray
    breakpoint_of_mark: IntArray


def lay_out_evidence(
    evidence: Evidence, graph: CompiledGraph, breakpoints: Breakpoints | None = None
) -> Layout:
    """Sort the evidence by trajectory, node and time."""
    has_links = len(evidence.jumps.time) > 0 or len(evidence.joint) > 0
    # without links no graph matters, and whoever iterates asks again with the same evidence
    known: _Marks | None = None if has_links else evidence.memory.get(_SORTED)
    places = breakpoints or (known.breakpoints if known else find_breakpoints(evidence))
    link_fields, link_of_jump, soft = link_arrays(evidence, graph, places)
    marks = known or _sort_marks(evidence, graph.n_nodes, places, link_of_jump, soft)
    if not has_links:
        evidence.memory[_SORTED] = marks
    fields = {
        "node": node_array(graph, evidence.exogenous),
        "edge": edge_array(graph),
        "weights": graph.weights,
        "pair": marks.pair,
        "mark": marks.mark,
        "likelihood": marks.likelihood,
        "mark_scale": marks.mark_scale,
        **link_fields,
    }
    return Layout(places, fields, marks.breakpoint_of_mark, evidence.spans.state)


def _sort_marks(
    evidence: Evidence,
    n_nodes: int,
    places: Breakpoints,
    link_of_jump: IntArray,
    soft: SoftMarks,
) -> _Marks:
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    likelihood, log_scale = scaled_likelihoods(points.log_likelihood, points.offset)
    n_points, n_jumps, n_soft = len(points.time), len(jumps.time), len(soft.link)
    n_marks = n_points + n_jumps + n_soft
    own, linked = slice(0, n_points), slice(n_points, n_points + n_jumps)
    others = slice(n_points + n_jumps, n_marks)
    pair = np.empty(n_marks, dtype=np.int64)
    place = np.empty(n_marks, dtype=np.int64)
    mark = np.full((n_marks, 5), -1, dtype=np.int64)
    scale = np.zeros(n_marks)
    pair[own] = points.trajectory * n_nodes + points.node
    place[own] = places.of_points
    mark[own, KIND] = LIKELIHOOD
    mark[own, VALUES] = points.offset
    scale[own] = log_scale
    pair[linked] = jumps.trajectory * n_nodes + jumps.node
    place[linked] = places.of_jumps
    mark[linked, KIND] = JUMP
    mark[linked, LINK] = link_of_jump
    mark[linked, MEMBER] = 0
    pair[others] = soft.trajectory * n_nodes + soft.node
    place[others] = soft.breakpoint
    mark[others, KIND] = SOFT
    mark[others, LINK] = soft.link
    mark[others, MEMBER] = soft.member
    # at one moment a jump comes first: measurements there see the new state
    order = np.lexsort((mark[:, KIND] != JUMP, place, pair))
    n_pairs = evidence.n_trajectories * n_nodes
    running = np.zeros((n_pairs + 1, 2), dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=n_pairs), out=running[1:, MARK])
    if len(spans.state):
        span_pair = spans.trajectory * n_nodes + spans.node
        np.cumsum(np.bincount(span_pair, minlength=n_pairs), out=running[1:, SPAN])
    return _Marks(places, running, mark[order], likelihood, scale[order], place[order])
