"""Owns the arrays by which paths are counted per parent configuration.

Built from a compiled network where there is one, or from plain lists of parents. Every edge
carries what each state of the parent adds to the child's configuration number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import DataError

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class PathGraph:
    """Who depends on whom, laid out for ``data/_path_statistics.py``."""

    nodes: tuple[str, ...]
    states: dict[str, tuple[Any, ...]]
    parents_by_name: dict[str, tuple[str, ...]]
    n_states: IntArray
    n_configurations: IntArray
    table_start: IntArray
    is_summary: NDArray[np.bool_]
    parent_start: IntArray
    parents: IntArray
    child_start: IntArray
    children: IntArray
    child_edge: IntArray
    """Edge number (position in ``parents``) of each entry of ``children``."""
    step_start: IntArray
    step: IntArray


def path_graph(
    network: Any, nodes: Sequence[str], states: Mapping[str, Sequence[Any]]
) -> PathGraph:
    """Arrays of a network (anything with ``nodes``, ``states``, ``parents``, ``compiled``), or of
    {node: parents} over the nodes of the paths."""
    summary: dict[int, tuple[list[list[int]], int]] = {}
    if hasattr(network, "compiled"):
        names = tuple(network.nodes)
        labels = {n: tuple(network.states[n]) for n in names}
        above = {n: tuple(network.parents[n]) for n in names}
        summary = _summaries(network.compiled.graph)
    else:
        names = tuple(str(n) for n in nodes)
        labels = {n: tuple(states[n]) for n in names}
        above = {n: tuple(network.get(n, ())) for n in names}
        for n in network:
            if n not in labels:
                raise DataError(f"the paths have no node {n!r}; they have {list(names)}")
    number = {n: i for i, n in enumerate(names)}
    for n, ps in above.items():
        for p in ps:
            if p not in number or p == n:
                raise DataError(f"{p!r} cannot be a parent of {n!r}; the nodes are {list(names)}")
    return _build(names, labels, above, number, summary)


def _summaries(graph: Any) -> dict[int, tuple[list[list[int]], int]]:
    found = {}
    for n in np.flatnonzero(graph.is_summary):
        edges = range(int(graph.parent_start[n]), int(graph.parent_start[n + 1]))
        weights = [
            graph.weights[graph.weight_start[e] : graph.weight_start[e + 1]].tolist() for e in edges
        ]
        found[int(n)] = (weights, int(graph.n_configurations[n]))
    return found


def _build(
    names: tuple[str, ...],
    labels: dict[str, tuple[Any, ...]],
    above: dict[str, tuple[str, ...]],
    number: dict[str, int],
    summary: dict[int, tuple[list[list[int]], int]],
) -> PathGraph:
    size = [len(labels[n]) for n in names]
    parents: list[int] = []
    parent_start = [0]
    steps: list[list[int]] = []
    n_configurations: list[int] = []
    for n, name in enumerate(names):
        mine = [number[p] for p in above[name]]
        if n in summary:
            weights, n_values = summary[n]
        else:
            weights, n_values = [], 1
            for p in reversed(mine):  # the last parent varies fastest
                weights.insert(0, [n_values * x for x in range(size[p])])
                n_values *= size[p]
        parents += mine
        parent_start.append(len(parents))
        steps += weights
        n_configurations.append(n_values)
    n_states = np.array(size, dtype=np.int64)
    configurations = np.array(n_configurations, dtype=np.int64)
    flat = np.array(parents, dtype=np.int64)
    child = np.repeat(np.arange(len(names)), np.diff(parent_start))
    by_parent = np.argsort(flat, kind="stable")
    return PathGraph(
        nodes=names,
        states=labels,
        parents_by_name=above,
        n_states=n_states,
        n_configurations=configurations,
        table_start=_offsets(configurations * n_states**2),
        is_summary=np.array([n in summary for n in range(len(names))], dtype=np.bool_),
        parent_start=np.array(parent_start, dtype=np.int64),
        parents=flat,
        child_start=_offsets(np.bincount(flat, minlength=len(names))),
        children=child[by_parent].astype(np.int64),
        child_edge=by_parent.astype(np.int64),
        step_start=_offsets(np.array([len(s) for s in steps], dtype=np.int64)),
        step=np.array([x for s in steps for x in s], dtype=np.int64),
    )


def _offsets(counts: NDArray[Any]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
