"""The arrays that the compiled loops of star and mean field read: evidence and network on a grid.

Each trajectory's evidence is laid out on its grid: soft marks (likelihoods of states), hard ones
(known states), and links, the evidence that ties nodes together (exactly timed jumps, joint
measurements). :class:`Parameters` holds rates and start probabilities as a method uses them: the
star averages rates, mean field their logarithms. ``method.py`` has the mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.model.compiled import CompiledGraph, CompiledNetwork
from asterism.star._buffers import (
    CHILD,
    CHILDREN,
    CONFIGURATIONS,
    DWELL,
    FIRST,
    INITIAL,
    IS_EXOGENOUS,
    IS_SET,
    IS_SUMMARY,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    LINK,
    LOG_OF_ZERO_RATE,
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
from asterism.star._grid_steps import find_stretches
from asterism.star.grid import Breakpoints, Grid, find_breakpoints
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, held_and_set

_STRETCH_FIELDS = (
    "stretch_start",
    "stretch",
    "end_slope",
    "to_middle",
    "to_step",
    "quadrature",
)

#: under which name an :class:`Evidence` remembers how it is sorted
_SORTED = "sorted marks"
#: what is larger is sorted again instead: a copy of it would be most of the memory
_REMEMBERED_BYTES = 64 << 20


def node_array(graph: CompiledGraph, exogenous: frozenset[int]) -> IntArray:
    """``Problem.node``: what kernels know of each node (columns as in ``_buffers.py``)."""
    n_nodes = len(graph.n_states)
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
    span_is_set: NDArray[np.bool_]
    """Which spans are interventions."""
    is_shared: bool
    """Whether others use the same arrays; if not, the first problem may have them."""

    def on_grid(self, grid: Grid) -> Problem:
        """Everything that stays fixed while messages are iterated on this grid."""
        at, places = grid.point_of_breakpoint, self.breakpoints
        fields = dict(self.fields)
        # what is changed in place belongs to one problem only
        if self.is_shared:
            for name in ("mark", "likelihood", "mark_scale", "marginals"):
                fields[name] = fields[name].copy()
        fields["mark"][:, POINT] = at[self.breakpoint_of_mark]
        span = np.empty((len(self.span_state), 4), dtype=np.int64)
        span[:, FIRST] = at[places.of_span_starts]
        span[:, LAST] = at[places.of_span_ends]
        span[:, STATE] = self.span_state
        span[:, IS_SET] = self.span_is_set
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
    marks = known or _sort_marks(evidence, len(graph.n_states), places, link_of_jump, soft)
    is_remembered = not has_links and marks.likelihood.nbytes <= _REMEMBERED_BYTES
    if is_remembered:
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
    spans, is_set = held_and_set(evidence)
    is_shared = is_remembered or has_links
    return Layout(places, fields, marks.breakpoint_of_mark, spans.state, is_set, is_shared)


def _sort_marks(
    evidence: Evidence,
    n_nodes: int,
    places: Breakpoints,
    link_of_jump: IntArray,
    soft: SoftMarks,
) -> _Marks:
    points, jumps = evidence.points, evidence.jumps
    spans, _ = held_and_set(evidence)
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
    # of all that has the same time a jump comes first: measurements there see the new state
    order = np.lexsort((mark[:, KIND] != JUMP, place, pair))
    n_pairs = evidence.n_trajectories * n_nodes
    running = np.zeros((n_pairs + 1, 2), dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=n_pairs), out=running[1:, MARK])
    if len(spans.state):
        span_pair = spans.trajectory * n_nodes + spans.node
        np.cumsum(np.bincount(span_pair, minlength=n_pairs), out=running[1:, SPAN])
    return _Marks(places, running, mark[order], likelihood, scale[order], place[order])


class SoftMarks(NamedTuple):
    """Factors that the marginals of other nodes determine, one entry per node that gets one."""

    link: IntArray
    member: IntArray
    """Which member of the link the node is."""
    node: IntArray
    trajectory: IntArray
    breakpoint: IntArray


def _soft_marks(
    soft: list[tuple[int, int, int, int]], evidence: Evidence, breakpoints: Breakpoints
) -> SoftMarks:
    """``soft``: link, member, node, and the joint measurement, or −1 − the jump, it comes from."""
    table = np.array(soft, dtype=np.int64).reshape(-1, 4)
    origin = table[:, 3]
    trajectory = np.empty(len(origin), dtype=np.int64)
    place = np.empty(len(origin), dtype=np.int64)
    joint_trajectory = np.array([j.trajectory for j in evidence.joint], dtype=np.int64)
    of_joint = origin >= 0
    trajectory[of_joint] = joint_trajectory[origin[of_joint]]
    place[of_joint] = breakpoints.of_joint[origin[of_joint]]
    jump = -1 - origin[~of_joint]
    trajectory[~of_joint] = evidence.jumps.trajectory[jump]
    place[~of_joint] = breakpoints.of_jumps[jump]
    return SoftMarks(table[:, 0], table[:, 1], table[:, 2], trajectory, place)


def _state_at(evidence: Evidence, trajectory: int, node: int, time: float) -> int:
    """State of a continuously known node just before ``time`` (at the start: from there on)."""
    spans = evidence.spans
    mine = (spans.trajectory == trajectory) & (spans.node == node)
    before = mine & (spans.start < time) & (spans.end >= time)
    if not before.any():
        before = mine & (spans.start <= time) & (spans.end >= time)
    return int(spans.state[np.flatnonzero(before)[-1]])


def link_arrays(
    evidence: Evidence, graph: CompiledGraph, breakpoints: Breakpoints
) -> tuple[dict[str, Any], IntArray, SoftMarks]:
    """Link fields of the problem; the link of each jump; the soft marks."""
    if not len(evidence.jumps.time) and not evidence.joint:
        none = np.zeros(0, dtype=np.int64)
        return _no_links(evidence.n_trajectories), none, SoftMarks(none, none, none, none, none)
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
    return fields, link_of_jump, _soft_marks(soft, evidence, breakpoints)


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


class Parameters(NamedTuple):
    """Rates and start probabilities, and the table that the method averages."""

    rates: FloatArray
    table: FloatArray
    initial: FloatArray
    geometric: bool

    @classmethod
    def of(cls, network: CompiledNetwork, method: str) -> Parameters:
        """As a method reads them: for mean field the table holds logarithms."""
        geometric = method == "mean_field"
        table = (mean_field_table if geometric else star_table)(network)
        return cls(network.rates, table, network.initial, geometric)


def star_table(network: CompiledNetwork) -> FloatArray:
    """What the star averages over parents, on and off the diagonal: the intensities themselves."""
    return network.rates


def mean_field_table(network: CompiledNetwork) -> FloatArray:
    """What mean field averages over parents: exit rates, and logarithms off the diagonal."""
    return geometric_table(network.rates, network.graph)
