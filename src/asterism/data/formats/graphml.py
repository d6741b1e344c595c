"""Graphs as GraphML, the form that Cytoscape, yEd, Gephi and networkx share, in and out."""

from __future__ import annotations

import io
from pathlib import Path

from asterism.data.files import write_text
from asterism.data.formats.registry import Content, FileFormat, ReadSettings
from asterism.errors import AsterismError, DataError

#: attributes in which programs keep a node's name while its id is a number
NAME_ATTRIBUTES = ("name", "label", "shared name")


def read_graphml(path: str | Path) -> Content:
    """Nodes and directed edges; names are a ``name`` or ``label`` that all nodes have, or ids.

    Edges that say that they are not in the graph (``in_graph``, in a results folder) are left out.
    """
    import networkx

    try:
        content = Path(path).read_bytes()
        if b"<!ENTITY" in content.replace(b"\0", b""):  # also in UTF-16
            raise DataError(f"{str(path)!r} defines XML entities, which no graph needs.")
        graph = networkx.read_graphml(io.BytesIO(content))
    except (AsterismError, MemoryError):
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
    return Content(nodes=list(name.values()), edges=list(found), attributes=list(found.values()))


class GraphmlFile(FileFormat):
    """A graph as GraphML, for ``convert``."""

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """Nodes, edges and what the edges carry."""
        return read_graphml(path)

    def write(self, content: Content, path: Path) -> None:
        """Nodes, edges and what the edges carry."""
        import networkx

        nodes, edges = content.require("graph", "graphml")
        graph = networkx.DiGraph()
        graph.add_nodes_from(nodes)
        for i, (parent, child) in enumerate(edges):
            graph.add_edge(parent, child, **(content.attributes[i] if content.attributes else {}))
        write_text(path, "\n".join(networkx.generate_graphml(graph)) + "\n")
