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

from asterism.engine.grid import Grid
from asterism.numerics.arrays import starts_of
from asterism.numerics.compiled import CompiledGraph, CompiledNetwork
from asterism.star._buffers import (
    CHILD,
    CHILDREN,
    CONFIGURATIONS,
    DWELL,
    INITIAL,
    IS_EXOGENOUS,
    IS_SUMMARY,
    LINK,
    LOG_OF_ZERO_RATE,
    MEMBER,
    PARENT,
    PARENTS,
    POINT,
    SLOT,
    SOFT,
    SQUARES,
    STATES,
    TABLE,
    VALUES,
    WEIGHT,
    Problem,
)
from asterism.star._stretches import find_stretches
from asterism.timeline.evidence import Evidence, FloatArray, IntArray
from asterism.timeline.timeline import (
    EVENT,
    HELD,
    JOINT,
    JUMP,
    KIND,
    LIKELIHOOD,
    OTHER,
    SET,
    VALUE,
    Timeline,
    joint_tables,
    scaled_likelihoods,
    scales_of,
    spans_on_grid,
    timeline_of,
)

_STRETCH_FIELDS = (
    "stretch_start",
    "stretch",
    "end_slope",
    "to_middle",
    "to_step",
    "quadrature",
)

#: under which name an :class:`Evidence` remembers its marks
_SORTED = "marks of the star"
#: what is larger is made again instead: a copy of it would be most of the memory
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


@dataclass(frozen=True)
class Layout:
    """Evidence and network as arrays, before a grid says on which points the evidence falls."""

    timeline: Timeline
    fields: dict[str, Any]
    """Those of the problem that no grid changes."""
    event_of_mark: IntArray
    span: IntArray
    """Entries of the timeline that hold a node in a state."""
    is_shared: bool
    """Whether others use the same arrays; if not, the first problem may have them."""

    def on_grid(self, grid: Grid) -> Problem:
        """Everything that stays fixed while messages are iterated on this grid."""
        at = grid.point_of_event
        fields = dict(self.fields)
        # what is changed in place belongs to one problem only
        if self.is_shared:
            for name in ("mark", "likelihood", "mark_scale", "marginals"):
                fields[name] = fields[name].copy()
        fields["mark"][:, POINT] = at[self.event_of_mark]
        return Problem(
            step_start=grid.step_start,
            width=grid.width,
            span=spans_on_grid(self.span, at),
            **_stretch_fields(grid),
            **fields,
        )


def _stretch_fields(grid: Grid) -> dict[str, Any]:
    """Which steps are corrected to fourth order, and how; empty arrays where none are."""
    if grid.longest_smooth > 0.0:
        found = find_stretches(
            grid.step_start,
            grid.width,
            grid.event_trajectory,
            grid.point_of_event,
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


class _Marks(NamedTuple):
    """Evidence about single nodes, by trajectory, node and event time."""

    pair: IntArray
    mark: IntArray
    likelihood: FloatArray
    mark_scale: FloatArray
    event_of_mark: IntArray


def lay_out_evidence(evidence: Evidence, graph: CompiledGraph) -> Layout:
    """The timeline as marks, spans and links."""
    timeline = timeline_of(evidence)
    has_links = len(evidence.jumps.time) > 0 or len(evidence.joint) > 0
    # without links no graph matters, and whoever iterates asks again with the same evidence
    marks: _Marks | None = None if has_links else evidence.memory.get(_SORTED)
    links = _Links(timeline, evidence)
    if has_links:
        links.collect(evidence, graph)
    if marks is None:
        marks = _marks(evidence, timeline, links)
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
        **links.fields(evidence),
    }
    span = timeline.entry[np.isin(timeline.kind, (HELD, SET))]
    return Layout(timeline, fields, marks.event_of_mark, span, is_remembered or has_links)


def _marks(evidence: Evidence, timeline: Timeline, links: _Links) -> _Marks:
    """Likelihoods and jumps of the timeline, and the factors that links give to other nodes."""
    kind = timeline.kind
    own = np.flatnonzero((kind == LIKELIHOOD) | (kind == JUMP))
    entry = timeline.entry[own]
    is_jump = entry[:, KIND] == JUMP
    values, taken_out = scaled_likelihoods(evidence.points)
    n_own, n_marks = len(own), len(own) + len(links.soft)
    soft = np.array(links.soft, dtype=np.int64).reshape(-1, 4)
    mark = np.full((n_marks, 5), -1, dtype=np.int64)
    mark[:n_own, KIND] = entry[:, KIND]
    mark[:n_own, VALUES] = np.where(is_jump, -1, entry[:, VALUE])
    mark[:n_own, LINK] = links.of_entry[own]
    mark[:n_own, MEMBER] = np.where(is_jump, 0, -1)
    mark[n_own:, KIND] = SOFT
    mark[n_own:, LINK] = soft[:, 0]
    mark[n_own:, MEMBER] = soft[:, 1]
    scale = np.zeros(n_marks)
    scale[:n_own] = scales_of(entry, evidence.points, taken_out)
    pair, event = timeline.pair[own], entry[:, EVENT]
    n_pairs = len(timeline.start) - 1
    if len(soft):
        pair, event = np.concatenate([pair, soft[:, 2]]), np.concatenate([event, soft[:, 3]])
        # of all that has the same time a jump comes first: measurements there see the new state
        order = np.lexsort((mark[:, KIND] != JUMP, event, pair))
        pair, event, mark, scale = pair[order], event[order], mark[order], scale[order]
    holds = np.isin(kind, (HELD, SET))
    running = np.column_stack([starts_of(p, n_pairs) for p in (pair, timeline.pair[holds])])
    return _Marks(running, mark, values, scale, event)


def _state_before(timeline: Timeline, pair: int, event: int) -> int:
    """State of an exogenous node just before an event time (at the start: from there on)."""
    entry = timeline.entry[timeline.start[pair] : timeline.start[pair + 1]]
    held = entry[entry[:, KIND] == HELD]
    before = held[held[:, EVENT] < event]
    return int((before[-1] if len(before) else held[0])[VALUE])


class _Links:
    """Jumps and joint measurements: one link each, in the order of the timeline.

    A jump's first member is the node that jumped, then its parents; the members of a joint
    measurement are the nodes that it reads.
    """

    def __init__(self, timeline: Timeline, evidence: Evidence) -> None:
        self.timeline = timeline
        self.table_start, self.log_table = joint_tables(evidence)
        self.of_entry = np.full(len(timeline.entry), -1, dtype=np.int64)
        self.trajectory: list[int] = []
        self.rows: list[tuple[int, int, int, int, int]] = []
        """Columns of ``Problem.link``."""
        self.members: list[tuple[int, int]] = []
        """Columns of ``Problem.member``."""
        self.soft: list[tuple[int, int, int, int]] = []
        """Members that get a factor: link, which member, trajectory and node, event time."""
        self.marginals: list[FloatArray] = []

    def collect(self, evidence: Evidence, graph: CompiledGraph) -> None:
        """Make a link of every jump and of every first member of a joint measurement."""
        timeline = self.timeline
        entry, kind = timeline.entry, timeline.kind
        n_marginals = 0
        for row in np.flatnonzero((kind == JUMP) | ((kind == JOINT) & (entry[:, OTHER] == 0))):
            trajectory, node = divmod(int(timeline.pair[row]), timeline.n_nodes)
            event, _, value, other, _ = (int(i) for i in entry[row])
            is_jump = kind[row] == JUMP
            link = self.of_entry[row] = len(self.rows)
            self.trajectory.append(trajectory)
            to, left = (value, other) if is_jump else (-1, -1)
            table = -1 if is_jump else int(self.table_start[value])
            self.rows.append((int(is_jump), to, left, len(self.members), table))
            if is_jump:
                parents = graph.parents[graph.parent_start[node] : graph.parent_start[node + 1]]
                nodes = [node, *(int(p) for p in parents)]
            else:
                nodes = list(evidence.joint[value].nodes)
            for member, n in enumerate(nodes):
                pair = trajectory * timeline.n_nodes + n
                size = int(graph.n_states[n])
                marginal = np.full(size, 1.0 / size)
                if n in evidence.exogenous:
                    marginal[:] = 0.0
                    marginal[_state_before(timeline, pair, event)] = 1.0
                elif is_jump and member == 0:
                    marginal = _departed(size, to, left)
                else:
                    self.soft.append((int(link), member, pair, event))
                self.members.append((n, n_marginals))
                self.marginals.append(marginal)
                n_marginals += size
        self.rows.append((0, 0, 0, len(self.members), -1))

    def fields(self, evidence: Evidence) -> dict[str, Any]:
        """Those of the problem that hold links."""
        trajectory = np.array(self.trajectory, dtype=np.int64)
        rows = self.rows or [(0, 0, 0, 0, 0)]
        return {
            "link_start": starts_of(trajectory, evidence.n_trajectories),
            "link": np.array(rows, dtype=np.int64),
            "member": np.array(self.members, dtype=np.int64).reshape(-1, 2),
            "marginals": np.concatenate([np.zeros(0), *self.marginals]),
            "log_table": self.log_table,
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
        """As a method reads them: the star averages rates over parents, mean field logarithms."""
        geometric = method == "mean_field"
        rates = network.rates
        table = geometric_table(rates, network.graph) if geometric else rates
        return cls(rates, table, network.initial, geometric)
