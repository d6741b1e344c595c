"""Groups of coupled nodes: what exact inference follows as one joint chain.

Nodes are coupled by an edge or by a joint measurement. Exogenous nodes couple nothing: their paths
are known. Groups are independent: each is a cluster of its own, and nothing is to be agreed on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import numpy as np

from asterism.clusters.regions import Regions
from asterism.errors import Advice, Setting, TooLargeError
from asterism.numerics.compiled import CompiledGraph
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


def whole_regions(graph: CompiledGraph, groups: list[list[int]]) -> Regions:
    """Every group as one cluster; there are no separators."""
    owner = {n: c for c, group in enumerate(groups) for n in group}
    return Regions(
        tuple(tuple(group) for group in groups),
        (),
        tuple(owner.get(n, -1) for n in range(graph.n_nodes)),
    )


def evidence_about(evidence: Evidence, group: Sequence[int]) -> tuple[Evidence, IntArray]:
    """What is known about a group; where its likelihoods stand among all.

    The paths of exogenous nodes stay: they may be parents of the group.
    """
    is_member = np.zeros(evidence.n_nodes, dtype=np.bool_)
    is_member[list(group)] = True
    matters = is_member.copy()
    matters[list(evidence.exogenous)] = True
    points = evidence.points
    rows = np.flatnonzero(is_member[points.node])
    lengths = np.diff(points.offset, append=len(points.log_likelihood))
    values = np.flatnonzero(np.repeat(is_member[points.node], lengths))

    def some(table: Table) -> Table:
        return rows_of(table, np.flatnonzero(matters[table.node]))

    own = replace(
        evidence,
        points=Points(
            points.trajectory[rows],
            points.node[rows],
            points.time[rows],
            np.cumsum(lengths[rows]) - lengths[rows],
            points.log_likelihood[values],
        ),
        jumps=some(evidence.jumps),
        spans=some(evidence.spans),
        interventions=some(evidence.interventions),
        joint=tuple(m for m in evidence.joint if not set(group).isdisjoint(m.nodes)),
    )
    return own, values
