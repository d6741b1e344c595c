"""Graphs in every form a user may hold: parent lists, networkx graphs, networks, short names.

Inside the library a graph is ``{node: parents in order}``; the order of the dictionary is the order
of the nodes. Cycles are legal; a node that is its own parent is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from asterism.errors import ModelError, Setting

Parents = dict[str, tuple[str, ...]]


def as_parents(graph: Any) -> Parents:
    """The parents of every node of a Network, a networkx.DiGraph, a mapping, or a short name.

    A mapping is ``{node: list of parents}``; short names are those of :func:`graph_from_spec`.
    """
    if isinstance(graph, str):
        return graph_from_spec(graph)
    if hasattr(graph, "predecessors"):
        if graph.is_multigraph():
            raise ModelError("A graph with parallel edges has no network; give a DiGraph.")
        return checked_parents({n: list(graph.predecessors(n)) for n in graph.nodes})
    if isinstance(graph, Mapping):
        return checked_parents(graph)
    if isinstance(getattr(graph, "parents", None), dict):
        return dict(graph.parents)
    raise ModelError(
        f"Cannot read a graph from {type(graph).__name__}; give {{node: [parents]}}, "
        "a networkx.DiGraph, a Network, or a name such as 'tree:14'."
    )


def checked_parents(parents: Mapping[Any, Sequence[Any]]) -> Parents:
    """Node names as text, every parent a node, no self-loops, no parent twice."""
    if not parents:
        raise ModelError("A network needs at least one node.")
    result: Parents = {}
    for node, above in parents.items():
        if isinstance(above, str):
            raise ModelError(
                f"The parents of node {str(node)!r} must be a list of names, got {above!r}."
            )
        if str(node) in result:
            raise ModelError(f"Two nodes have the same name {str(node)!r}.")
        result[str(node)] = tuple(str(p) for p in above)
    for node, names in result.items():
        for parent in names:
            if parent not in result:
                raise ModelError(
                    f"Parent {parent!r} of node {node!r} is not a node; "
                    f"the nodes are {_some(list(result))}."
                )
            if parent == node:
                raise ModelError(f"Node {node!r} is its own parent; self-loops are not allowed.")
        if len(set(names)) < len(names):
            twice = next(p for p in names if names.count(p) > 1)
            raise ModelError(f"Node {node!r} lists the parent {twice!r} twice.")
    return result


def graph_from_spec(spec: str) -> Parents:
    """A standard graph by name: ``"tree:14"``, ``"plain-tree:14"``, ``"ring:8"``, ``"chain:5"``…

    - ``tree``: binary tree in which the last leaf is the root's parent, so that every node has
      exactly one parent (feedback);
    - ``plain-tree``: the same tree, its root without parents;
    - ``chain``: 0 → 1 → 2 → …;
    - ``ring``: undirected, every node has both its neighbours as parents;
    - ``cycle``: directed, 0 → 1 → … → 0;
    - ``empty``: no edges;
    - ``full``: every node has all others as parents.
    """
    kind, _, size = spec.partition(":")
    builders: dict[str, Callable[[int], list[list[int]]]] = {
        "tree": lambda n: [[n - 1 if i == 0 else (i - 1) // 2] for i in range(n)],
        "plain-tree": lambda n: [[] if i == 0 else [(i - 1) // 2] for i in range(n)],
        "chain": lambda n: [[] if i == 0 else [i - 1] for i in range(n)],
        "ring": lambda n: [list(dict.fromkeys([(i - 1) % n, (i + 1) % n])) for i in range(n)],
        "cycle": lambda n: [[(i - 1) % n] for i in range(n)],
        "empty": lambda n: [[] for _ in range(n)],
        "full": lambda n: [[m for m in range(n) if m != i] for i in range(n)],
    }
    smallest = {"tree": 2, "ring": 2, "cycle": 2}.get(kind, 1)
    if kind not in builders or not size.isdigit() or int(size) < smallest:
        names = ", ".join(f"{name}:N" for name in builders)
        raise ModelError(
            f"Unknown graph {spec!r}; the names are {names} (trees with feedback, rings and "
            "cycles from two nodes)."
        )
    return {str(i): tuple(map(str, above)) for i, above in enumerate(builders[kind](int(size)))}


def random_parents(
    n_nodes: int, min_parents: int = 0, max_parents: int = 2, seed: Any = 0
) -> Parents:
    """A random graph: each node draws its number of parents, then that many others, uniformly.

    Numbers of parents are uniform on min_parents … max_parents, cut at n_nodes − 1.
    """
    if n_nodes < 1:
        raise ModelError(f"A network needs at least one node, got n_nodes={n_nodes}.")
    if not 0 <= min_parents <= max_parents:
        raise ModelError(
            "Numbers of parents must satisfy 0 <= ",
            Setting("min_parents"),
            " <= ",
            Setting("max_parents"),
            f", got {min_parents} and {max_parents}.",
        )
    rng = np.random.default_rng(seed)
    most = min(max_parents, n_nodes - 1)
    least = min(min_parents, n_nodes - 1)
    result: Parents = {}
    for node in range(n_nodes):
        count = int(rng.integers(least, most + 1))
        others = rng.choice(max(n_nodes - 1, 1), size=count, replace=False)
        chosen = sorted(int(m) + (int(m) >= node) for m in others)
        result[str(node)] = tuple(map(str, chosen))
    return result


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
