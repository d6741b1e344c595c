"""How users write graphs and states: many forms in, one form inside.

Graphs may be parent lists, networkx graphs, networks or short names. Inside the library a graph is
``{node: parents in order}``; the order of the dictionary is the order of the nodes. Cycles are
legal; a node that is its own parent is not. A state written 1 in a network comes back from a CSV
file as 1, 1.0 or "1", depending on the other values in its column. Labels are therefore compared by
their text, and where that differs by the number that they spell, never by their type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.labels import encode, letters
from asterism.data.measurements import objects
from asterism.errors import DataError, ModelError, Setting, quoted, require_known
from asterism.numerics.arrays import IntArray

Parents = dict[str, tuple[str, ...]]

#: edges of a graph made by name or at random: about a gigabyte of lists
LARGEST_GRAPH = 10_000_000


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


def by_node(what: str, given: Any, nodes: Collection[str]) -> dict[str, Any]:
    """What a user says node by node, by the names of nodes; nothing for None."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ModelError(f"{what} must be a dictionary by node, got {type(given).__name__}.")
    require_known(given, nodes, f"{what} names")
    return {str(node): value for node, value in given.items()}


def states_in(graph: Any) -> dict[str, Any]:
    """The states that the nodes of a networkx graph carry; nothing for other graphs."""
    if not hasattr(graph, "predecessors"):
        return {}
    given = {str(node): known.get("states") for node, known in graph.nodes(data=True)}
    return {node: states for node, states in given.items() if states is not None}


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
                    f"the nodes are {quoted(list(result))}."
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
    is_number = size.isdecimal() and len(size) <= 20
    if kind not in builders or not is_number or int(size) < smallest:
        names = ", ".join(f"{name}:N" for name in builders)
        raise ModelError(
            f"Unknown graph {spec[:40]!r}; the names are {names} (trees with feedback, rings and "
            "cycles from two nodes)."
        )
    _require_size(int(size), int(size) - 1 if kind == "full" else 1)
    return {str(i): tuple(map(str, above)) for i, above in enumerate(builders[kind](int(size)))}


def _require_size(n_nodes: int, n_parents: int) -> None:
    """Refuse to make up a graph that nobody could use, before it fills the memory."""
    if n_nodes * max(1, n_parents) > LARGEST_GRAPH:
        raise ModelError(
            f"A graph of {n_nodes:,} nodes with {n_parents:,} parents each has more than "
            f"{LARGEST_GRAPH:,} edges, the limit; ask for fewer nodes."
        )


def random_parents(
    n_nodes: int, min_parents: int = 0, max_parents: int = 2, seed: Any = 0
) -> Parents:
    """A random graph: each node draws its number of parents, then that many others, uniformly.

    Numbers of parents are uniform on min_parents … max_parents, cut at n_nodes − 1.
    """
    if n_nodes < 1:
        raise ModelError(f"A network needs at least one node, got n_nodes={n_nodes}.")
    _require_size(n_nodes, 1)
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


Label = Any


def plain(label: Label) -> Label:
    """The label as a plain Python value, so that it can be written to JSON."""
    return label.item() if isinstance(label, np.generic) else label


def checked_states(node: str, states: Sequence[Label]) -> tuple[Label, ...]:
    """The labels of a node's states, at least two and all different."""
    if isinstance(states, str):
        raise ModelError(f"The states of node {node!r} must be a list of labels, got {states!r}.")
    labels = tuple(plain(s) for s in states)
    if len(labels) < 2:
        raise ModelError(f"Node {node!r} needs at least two states, got {list(labels)}.")
    for label in labels:
        if not isinstance(label, (str, int, float)) or label != label or label == "":
            raise ModelError(
                f"The states of node {node!r} must be non-empty text or numbers, got {label!r}."
            )
    seen: dict[str, Label] = {}
    for label in labels:
        if letters(label) in seen:
            raise ModelError(
                f"Two states of node {node!r} have the same label: "
                f"{seen[letters(label)]!r} and {label!r}."
            )
        seen[letters(label)] = label
    return labels


def state_index(node: str, states: Sequence[Label], label: Label) -> int:
    """The number of the state called ``label``, however it is spelled."""
    return int(state_indices(node, states, [label])[0])


def state_indices(node: str, states: Sequence[Label], labels: Any) -> IntArray:
    """The numbers of many states at once; each distinct label is looked up once."""
    return numbers_of(states, labels, lambda label: unknown_state(node, states, label))


def numbers_of(known: Sequence[Label], labels: Any, complaint: Callable[[Label], str]) -> IntArray:
    """The position of each label among the known ones; ``complaint`` words the error."""
    values = np.asarray(labels)
    found = encode(values.ravel(), known)
    if (found < 0).any():
        raise DataError(complaint(plain(values.ravel()[int(np.argmin(found))])))
    return found.reshape(values.shape)


def label_array(labels: Sequence[Label]) -> NDArray[Any]:
    """Labels as an array to index with state numbers: numeric where all of them are numbers."""
    if all(isinstance(label, (int, float)) and not isinstance(label, bool) for label in labels):
        return np.array(labels)
    return objects(labels)


def unknown_state(node: str, states: Sequence[Label], label: Label) -> str:
    """The sentence that says which labels would have been right."""
    valid = ", ".join(repr(s) for s in states)
    return f"Node {node!r} has no state {plain(label)!r}; its states are {valid}."
