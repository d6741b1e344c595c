"""A network as plain arrays: what the kernels read.

Nodes are numbers here, in the order of ``Network.nodes``. Ragged things are stored flat with an
array of offsets. The table of node n has ``n_configurations[n]`` blocks of S×S, one per parent
configuration, in C order (the first parent varies slowest), diagonal included. For a node whose
rates depend on a summary of its parents the blocks are the values of the summary instead, and
``weights`` holds what each parent state adds to it.

The number of a node's configuration is the sum of one term per parent: state × stride for an
ordinary table, the weight for a summary. Both are the same table of terms per edge and state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from asterism.numerics.arrays import FloatArray, IntArray

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class CompiledGraph:
    """Who depends on whom, and how large every table is; no rates."""

    n_states: IntArray
    """(N,) number of states of each node."""
    parent_start: IntArray
    """(N+1,) the parents of n are ``parents[parent_start[n]:parent_start[n+1]]``."""
    parents: IntArray
    """(E,) parent node of every edge, grouped by child, in the order of the table's axes."""
    child_start: IntArray
    """(N+1,) the children of n are ``children[child_start[n]:child_start[n+1]]``."""
    children: IntArray
    """(E,) child node of every edge, grouped by parent, ascending."""
    child_slot: IntArray
    """(E,) position of the parent among that child's parents."""
    n_configurations: IntArray
    """(N,) parent configurations, or summary values, of each node."""
    table_start: IntArray
    """(N+1,) offset of each node's (n_configurations, S, S) block in a flat table."""
    state_start: IntArray
    """(N+1,) offset of each node in a flat array with one entry per node and state."""
    is_summary: NDArray[np.bool_]
    """(N,) whether the node's rates depend on a summary of its parents."""
    weight_start: IntArray
    """(E+1,) offset of each edge's summary weights; empty for edges into ordinary nodes."""
    weights: IntArray
    """What each state of that parent adds to the summary (all ≥ 0)."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.n_states)

    @cached_property
    def dwell_start(self) -> IntArray:
        """(N+1,) offset of each node's (n_configurations, S) block in flat dwell times."""
        return np.concatenate([[0], np.cumsum(self.n_configurations * self.n_states)])

    def place(self, node: int) -> slice:
        """Where a node's blocks stand in a flat table."""
        return slice(int(self.table_start[node]), int(self.table_start[node + 1]))

    def blocks(self, flat: NDArray[Scalar], node: int) -> NDArray[Scalar]:
        """(n_configurations, S, S) view of a node's part of a flat table."""
        size = int(self.n_states[node])
        return flat[self.place(node)].reshape(-1, size, size)


@dataclass(frozen=True)
class CompiledNetwork:
    """A graph with its rates and start probabilities."""

    graph: CompiledGraph
    rates: FloatArray
    """Flat tables of intensities; every row of every block sums to zero."""
    initial: FloatArray
    """Flat start probabilities, indexed by ``graph.state_start``."""

    @cached_property
    def relaxation_rate(self) -> float:
        """Typical rate at which a coupled node forgets; zero if no two nodes are coupled.

        The median over coupled nodes of their mean total rate: robust against a few very fast or
        very slow nodes, since each node's own propagation is exact whatever the step.
        """
        graph = self.graph
        n_parents = np.diff(graph.parent_start)
        n_children = np.diff(graph.child_start)
        coupled = (n_parents > 0) | (n_children > 0)
        rates = []
        for size in np.unique(graph.n_states[coupled]):
            chosen = np.flatnonzero(coupled & (graph.n_states == size))
            n_blocks = graph.n_configurations[chosen]
            node_of_block = np.repeat(np.arange(len(chosen)), n_blocks)
            block = np.arange(len(node_of_block)) - np.repeat(
                np.cumsum(n_blocks) - n_blocks, n_blocks
            )
            first = graph.table_start[chosen][node_of_block] + block * size * size
            exits = -sum(self.rates[first + x * (size + 1)] for x in range(int(size))) / size
            mean = np.bincount(node_of_block, weights=exits) / n_blocks
            rates.append(mean * size / (size - 1))
        every = np.concatenate([*rates, np.zeros(0)])
        positive = every[every > 0.0]
        return float(np.median(positive)) if len(positive) else 0.0


def compile_graph(
    n_states: list[int],
    parents: list[list[int]],
    weights: dict[int, list[list[int]]] | None = None,
    n_summary: dict[int, int] | None = None,
) -> CompiledGraph:
    """Build the arrays from plain lists.

    ``weights[n]`` lists, per parent of n, what each of its states adds to the summary, and
    ``n_summary[n]`` the number of summary values; nodes absent there have ordinary tables.
    """
    weights = weights or {}
    n_summary = n_summary or {}
    n_nodes = len(n_states)
    states = np.asarray(n_states, dtype=np.int64)
    parent_start = np.zeros(n_nodes + 1, dtype=np.int64)
    np.cumsum([len(p) for p in parents], out=parent_start[1:])
    flat_parents = np.array([m for p in parents for m in p], dtype=np.int64)
    child_of_edge = np.repeat(np.arange(n_nodes), np.diff(parent_start))
    slot_of_edge = np.arange(len(flat_parents)) - parent_start[child_of_edge]
    by_parent = np.lexsort((child_of_edge, flat_parents))
    child_start = np.zeros(n_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(flat_parents, minlength=n_nodes), out=child_start[1:])
    n_configurations = np.array(
        [
            n_summary[n] if n in n_summary else int(np.prod(states[p]))
            for n, p in enumerate(parents)
        ],
        dtype=np.int64,
    )
    table_start = np.zeros(n_nodes + 1, dtype=np.int64)
    np.cumsum(n_configurations * states**2, out=table_start[1:])
    state_start = np.zeros(n_nodes + 1, dtype=np.int64)
    np.cumsum(states, out=state_start[1:])
    edge_weights = [
        weights[int(c)][int(s)] if int(c) in weights else []
        for c, s in zip(child_of_edge, slot_of_edge)
    ]
    weight_start = np.zeros(len(flat_parents) + 1, dtype=np.int64)
    np.cumsum([len(w) for w in edge_weights], out=weight_start[1:])
    return CompiledGraph(
        n_states=states,
        parent_start=parent_start,
        parents=flat_parents,
        child_start=child_start,
        children=child_of_edge[by_parent].astype(np.int64),
        child_slot=slot_of_edge[by_parent].astype(np.int64),
        n_configurations=n_configurations,
        table_start=table_start,
        state_start=state_start,
        is_summary=np.array([n in n_summary for n in range(n_nodes)], dtype=np.bool_),
        weight_start=weight_start,
        weights=np.array([w for ws in edge_weights for w in ws], dtype=np.int64),
    )


def configuration_terms(graph: CompiledGraph) -> tuple[IntArray, IntArray]:
    """(E+1,) offsets per edge, and flat: what each state of the edge's parent adds."""
    start = np.zeros(len(graph.parents) + 1, dtype=np.int64)
    np.cumsum(graph.n_states[graph.parents], out=start[1:])
    terms = np.zeros(int(start[-1]), dtype=np.int64)
    for node in range(graph.n_nodes):
        first, last = int(graph.parent_start[node]), int(graph.parent_start[node + 1])
        stride = 1
        for edge in range(last - 1, first - 1, -1):
            size = int(graph.n_states[graph.parents[edge]])
            if graph.is_summary[node]:
                at = int(graph.weight_start[edge])
                terms[start[edge] : start[edge + 1]] = graph.weights[at : at + size]
            else:
                terms[start[edge] : start[edge + 1]] = stride * np.arange(size)
                stride *= size
    return start, terms


def diagonal_index(graph: CompiledGraph) -> IntArray:
    """Where the diagonals stand in a flat table, in the order of flat dwell times."""
    return diagonals(graph.table_start, graph.n_configurations, graph.n_states)


def diagonals(table_start: IntArray, n_configurations: IntArray, n_states: IntArray) -> IntArray:
    """The same where tables begin at ``table_start``, perhaps with room behind each."""
    parts = [
        (base + np.arange(u * s)[:, None] * s + np.tile(np.arange(s), u)[:, None]).ravel()
        for base, u, s in zip(table_start[:-1], n_configurations, n_states)
    ]
    return np.concatenate(parts).astype(np.int64)
