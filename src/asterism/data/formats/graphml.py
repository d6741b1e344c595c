"""Graphs as GraphML, the form that Cytoscape, yEd, Gephi and networkx share, in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asterism.data.csv_files import write_atomically
from asterism.errors import DataError

#: attributes in which programs keep a node's name while its id is a number
NAME_ATTRIBUTES = ("name", "label", "shared name")


@dataclass(frozen=True)
class Graphml:
    """A directed graph by names."""

    nodes: list[str]
    edges: list[tuple[str, str]]
    attributes: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """What the file says about each edge, such as its probability."""


def read_graphml(path: str | Path) -> Graphml:
    """Nodes and directed edges; names are a ``name`` or ``label`` that all nodes have, or ids."""
    import networkx

    try:
        graph = networkx.read_graphml(str(path))
    except Exception as error:  # the XML parser and networkx raise many kinds
        raise DataError(f"{str(path)!r} is not a GraphML file: {error}.") from None
    if not graph.is_directed():
        raise DataError(f"The graph of {str(path)!r} is undirected; edges need a direction.")
    name = {node: str(node) for node in graph.nodes}
    for attribute in NAME_ATTRIBUTES:
        values = [graph.nodes[node].get(attribute) for node in graph.nodes]
        if values and all(values) and len(set(map(str, values))) == len(values):
            name = {node: str(value) for node, value in zip(graph.nodes, values)}
            break
    edges = list(dict.fromkeys((name[p], name[c]) for p, c, *_ in graph.edges()))
    attributes = {(name[p], name[c]): dict(more) for p, c, more in graph.edges(data=True)}
    return Graphml(list(name.values()), edges, attributes)


def write_graphml(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    path: str | Path,
    attributes: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> None:
    """Write a directed graph; ``attributes`` are those of its edges."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(nodes)
    known = attributes or {}
    graph.add_edges_from((p, c, dict(known.get((p, c), {}))) for p, c in edges)
    text = "\n".join(networkx.generate_graphml(graph)) + "\n"
    write_atomically(Path(path), text)
