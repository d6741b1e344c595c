"""Groups of coupled nodes: what exact inference follows as one joint chain.

Nodes are coupled by an edge or by a joint measurement. Exogenous nodes couple nothing: their paths
are known. Groups are independent: each is a cluster of its own, and nothing is to be agreed on.
"""

from __future__ import annotations

import math

import networkx as nx
import numpy as np

from asterism.clusters.regions import Regions
from asterism.errors import Advice, Setting, TooLargeError
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.evidence import Evidence

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
