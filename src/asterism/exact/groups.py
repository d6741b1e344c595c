"""Groups of coupled nodes: what exact inference follows as one joint chain.

Nodes are coupled by an edge or by a joint measurement. Exogenous nodes couple nothing: their paths
are known. Groups are independent, so each is a network of its own, with the evidence about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import networkx as nx
import numpy as np

from asterism.clusters._cluster_layout import RegionArrays
from asterism.clusters.region_arrays import region_arrays
from asterism.clusters.regions import Regions
from asterism.errors import Advice, Setting, TooLargeError
from asterism.model.compiled import CompiledGraph, compile_graph
from asterism.timeline.evidence import Evidence, IntArray, Points, Table, rows_of

JOINT_LIMIT = 4096


def components(graph: CompiledGraph, evidence: Evidence) -> list[list[int]]:
    """Nodes coupled by edges or joint measurements; exogenous nodes belong to none."""
    coupled: nx.Graph[int] = nx.Graph()
    coupled.add_nodes_from(range(graph.n_nodes))
    child = np.repeat(np.arange(graph.n_nodes), np.diff(graph.parent_start))
    coupled.add_edges_from(zip(graph.parents.tolist(), child.tolist()))
    for nodes in {m.nodes for m in evidence.joint}:
        inner = [n for n in nodes if n not in evidence.exogenous]
        nx.add_path(coupled, inner)
    coupled.remove_nodes_from(evidence.exogenous)
    return sorted(sorted(group) for group in nx.connected_components(coupled))


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


@dataclass(frozen=True)
class Group:
    """A group of coupled nodes and the exogenous nodes that matter to it, as a network."""

    nodes: IntArray
    """Numbers of its nodes in the whole network, ascending, exogenous ones included."""
    members: IntArray
    """Which of these are coupled: the nodes of the joint chain."""
    graph: CompiledGraph
    regions: Regions
    arrays: RegionArrays
    """One region of all members, without separators."""
    table_index: IntArray
    """Where its rates stand in the network's flat tables."""
    state_index: IntArray
    """Where its start probabilities stand in the network's."""

    @property
    def n_joint(self) -> int:
        """Number of joint states."""
        return int(self.arrays.n_joint[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """States of each member."""
        return tuple(int(size) for size in self.graph.n_states[self.members])


def make_group(graph: CompiledGraph, evidence: Evidence, members: list[int]) -> Group:
    """The network of some coupled nodes."""
    parents_of = {
        n: graph.parents[graph.parent_start[n] : graph.parent_start[n + 1]].tolist()
        for n in members
    }
    read = {n for m in evidence.joint if not set(members).isdisjoint(m.nodes) for n in m.nodes}
    nodes = sorted({*members, *(p for parents in parents_of.values() for p in parents), *read})
    local = {n: i for i, n in enumerate(nodes)}
    edges = {n: range(int(graph.parent_start[n]), int(graph.parent_start[n + 1])) for n in members}
    summaries = [n for n in members if graph.is_summary[n]]
    own = compile_graph(
        [int(graph.n_states[n]) for n in nodes],
        [[local[p] for p in parents_of.get(n, [])] for n in nodes],
        {
            local[n]: [
                graph.weights[graph.weight_start[e] : graph.weight_start[e + 1]].tolist()
                for e in edges[n]
            ]
            for n in summaries
        },
        {local[n]: int(graph.n_configurations[n]) for n in summaries},
    )
    inside = tuple(local[n] for n in members)
    regions = Regions((inside,), (), tuple(0 if i in inside else -1 for i in range(len(nodes))))
    return Group(
        nodes=np.array(nodes, dtype=np.int64),
        members=np.array(inside, dtype=np.int64),
        graph=own,
        regions=regions,
        arrays=region_arrays(own, regions),
        table_index=_ranges(graph.table_start, nodes),
        state_index=_ranges(graph.state_start, nodes),
    )


def _ranges(start: IntArray, nodes: list[int]) -> IntArray:
    return np.concatenate([np.arange(start[n], start[n + 1]) for n in nodes])


def evidence_about(group: Group, evidence: Evidence) -> tuple[Evidence, IntArray]:
    """What is known about a group, its nodes renumbered; where its likelihoods stand among all."""
    local = np.full(evidence.n_nodes, -1, dtype=np.int64)
    local[group.nodes] = np.arange(len(group.nodes))
    is_member = np.zeros(evidence.n_nodes, dtype=np.bool_)
    is_member[group.nodes[group.members]] = True
    points = evidence.points
    rows = np.flatnonzero(is_member[points.node])
    sizes = group.graph.n_states[local[points.node[rows]]]
    offset = np.cumsum(sizes) - sizes
    values = np.repeat(points.offset[rows] - offset, sizes) + np.arange(int(sizes.sum()))
    members = set(group.nodes[group.members].tolist())

    def some(table: Table) -> Table:
        """The rows about nodes of the group."""
        found = rows_of(table, np.flatnonzero(local[table.node] >= 0))
        return replace(found, node=local[found.node])

    own = replace(
        evidence,
        n_nodes=len(group.nodes),
        points=Points(
            points.trajectory[rows],
            local[points.node[rows]],
            points.time[rows],
            offset,
            points.log_likelihood[values],
        ),
        jumps=some(evidence.jumps),
        spans=some(evidence.spans),
        interventions=some(evidence.interventions),
        joint=tuple(
            replace(m, nodes=tuple(int(local[n]) for n in m.nodes))
            for m in evidence.joint
            if not members.isdisjoint(m.nodes)
        ),
        exogenous=frozenset(int(local[n]) for n in evidence.exogenous if local[n] >= 0),
    )
    return own, values
