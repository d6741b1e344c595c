"""Which nodes must be treated together, and the pattern of their joint chain.

The network falls apart into components: nodes coupled by an edge or a joint measurement. Known
inputs (exogenous nodes) couple nothing. A component's joint states are one jump apart where one
node differs; the pattern says where the rate of each such jump stands.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from asterism.errors import TooLargeError
from asterism.inference.configurations import configuration_terms
from asterism.inference.evidence import Evidence, IntArray
from asterism.kernels.joint_chain import Pattern
from asterism.model.compiled import CompiledGraph

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
                f"nodes), above the limit of {joint_limit:,}: use method='star', or raise "
                "joint_limit."
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
