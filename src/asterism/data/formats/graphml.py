"""Graphs as GraphML, the form that Cytoscape, yEd, Gephi and networkx share, in and out."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asterism.data.files import write_text
from asterism.data.formats.registry import Content, FileFormat, ReadSettings
from asterism.errors import AsterismError, DataError

#: attributes in which programs keep a node's name while its id is a number
NAME_ATTRIBUTES = ("name", "label", "shared name")


@dataclass(frozen=True)
class Graphml:
    """A directed graph by names."""

    nodes: list[str]
    edges: list[tuple[str, str]]
    attributes: list[dict[str, float | str]]
    """What each edge carries, such as its probability."""


def read_graphml(path: str | Path) -> Graphml:
    """Nodes and directed edges; names are a ``name`` or ``label`` that all nodes have, or ids.

    Edges that say that they are not in the graph (``in_graph``, in a results folder) are left out.
    """
    import networkx

    try:
        content = Path(path).read_bytes()
        if b"<!ENTITY" in content.replace(b"\0", b""):  # also in UTF-16
            raise DataError(f"{str(path)!r} defines XML entities, which no graph needs.")
        graph = networkx.read_graphml(io.BytesIO(content))
    except AsterismError:
        raise
    except MemoryError:
        raise
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
    found: dict[tuple[str, str], dict[str, float | str]] = {}
    for parent, child, data in graph.edges(data=True):
        if data.get("in_graph") is False:
            continue
        known: dict[str, float | str] = {
            str(key): value if isinstance(value, str | bool) else float(value)
            for key, value in data.items()
            if isinstance(value, str | int | float)
        }
        found.setdefault((name[parent], name[child]), known)
    return Graphml(list(name.values()), list(found), list(found.values()))


def write_graphml(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    path: str | Path,
    attributes: Sequence[Mapping[str, float | str]] = (),
) -> None:
    """Write a directed graph; ``attributes`` are those of each edge."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(nodes)
    for i, (parent, child) in enumerate(edges):
        graph.add_edge(parent, child, **(attributes[i] if attributes else {}))
    text = "\n".join(networkx.generate_graphml(graph)) + "\n"
    write_text(path, text)


class GraphmlFile(FileFormat):
    """A graph as GraphML, for ``convert``."""

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """Nodes, edges and what the edges carry."""
        graph = read_graphml(path)
        return Content(nodes=graph.nodes, edges=graph.edges, attributes=graph.attributes)

    def write(self, content: Content, path: Path) -> None:
        """Nodes, edges and what the edges carry."""
        nodes, edges = content.require("graph", "graphml")
        write_graphml(nodes, edges, path, content.attributes)
