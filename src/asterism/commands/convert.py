"""``asterism convert``: other tools' files in and out.

A file holds paths, likelihoods, a network or edges. The input's form is recognised by its content,
the output's by its ending; ``--from`` and ``--to`` overrule both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.commands import exits
from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.options import FORMATS
from asterism.commands.outputs import is_in_graph, print_json, require_file
from asterism.data.files import write_table
from asterism.data.formats.graphml import read_graphml, write_graphml
from asterism.data.formats.mat import read_mat, write_mat
from asterism.data.formats.pyagrum import COLUMNS as PYAGRUM_COLUMNS
from asterism.data.formats.pyagrum import read_pyagrum, write_pyagrum
from asterism.data.formats.pyctbn import read_pyctbn, write_pyctbn
from asterism.data.json_files import read_json
from asterism.data.observations import Observations
from asterism.data.table_file import read_header, read_text_table
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.model.network_file import FORMAT as NETWORK_FORMAT
from asterism.model.rates import SummaryRates
from asterism.results.edge_sets import edge_list

#: columns that name the ends of an edge
END_NAMES = ("parent", "child", "source", "target")


@dataclass(frozen=True)
class ConvertOptions:
    """The settings of ``asterism convert``; names are those of the flags."""

    source: Path
    target: Path
    from_format: str | None = None
    to_format: str | None = None
    nodes: Sequence[str] = ()
    index: int = 0
    network: Path | None = None
    force: bool = False
    as_json: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Content:
    """What a file holds; any of it may be absent."""

    paths: Trajectories | None = None
    likelihoods: Observations | None = None
    network: Network | None = None
    nodes: Sequence[str] = ()
    edges: Sequence[tuple[str, str]] | None = None
    attributes: Sequence[Mapping[str, float | str]] = ()
    """What else is known of each edge, such as its probability and effect."""
    left_out: int = 0
    """Pairs of a table of edges that are not in its graph."""

    @property
    def graph(self) -> tuple[list[str], list[tuple[str, str]]] | None:
        """Nodes and edges; None where the file holds neither a network nor edges."""
        if self.network is not None:
            pairs = [(p, c) for c in self.network.nodes for p in self.network.parents[c]]
            return list(self.network.nodes), pairs
        if self.edges is None:
            return None
        ends = [end for edge in self.edges for end in edge]
        return list(dict.fromkeys([*self.nodes, *ends])), list(self.edges)


def run(options: ConvertOptions) -> int:
    """Read, write, and say what was done."""
    console = Console(options.quiet)
    require_file(options.target, options.force)
    with console.listening():
        source_format = options.from_format or recognise(options.source)
        content = read(options.source, source_format, options.nodes, options.index)
        if options.network is not None:
            content = replace(content, network=Network.load(options.network))
        target_format = options.to_format or by_ending(options.target, content)
        options.target.parent.mkdir(parents=True, exist_ok=True)
        write(content, options.target, target_format)
        console.say(f"{options.source} ({source_format}) → {options.target} ({target_format})")
        if content.left_out:
            console.say(f"Left out because they are not in the graph: {content.left_out:,} pairs.")
    if options.as_json:
        print_json(
            {
                "command": "convert",
                "source": str(options.source),
                "from": source_format,
                "output": str(options.target),
                "to": target_format,
            }
        )
    return exits.OK


def recognise(path: Path) -> str:
    """The form of a file, from its ending and its beginning."""
    ending = path.suffix.lower()
    if ending in (".mat", ".graphml"):
        return ending[1:]
    if ending == ".json":
        return "network" if _is_network(path) else "pyctbn"
    header = set(read_header(path))
    if set(PYAGRUM_COLUMNS) <= header:
        return "pyagrum"
    if {"time", "node", "state"} <= header:
        return "paths"
    if {"time", "node"} <= header and any(name.startswith("p_") for name in header):
        return "likelihoods"
    if {"parent", "child"} <= header or {"source", "target"} <= header:
        return "edges"
    raise Refused(
        f"The form of {str(path)!r} is not recognised; say it with --from: {', '.join(FORMATS)}."
    )


def by_ending(path: Path, content: Content) -> str:
    """The form that an ending suggests for what there is to write."""
    ending = path.suffix.lower()
    if ending in (".mat", ".graphml"):
        return ending[1:]
    if ending == ".json":
        return "pyctbn" if content.network is None or content.paths is not None else "network"
    if ending == ".csv":
        if content.paths is not None:
            return "paths"
        return "likelihoods" if content.likelihoods is not None else "edges"
    raise Refused(f"The ending of {str(path)!r} says nothing; use --to: {', '.join(FORMATS)}.")


def read(path: Path, form: str, nodes: Sequence[str] = (), index: int = 0) -> Content:
    """The content of a file of a known form."""
    match form:
        case "paths":
            return Content(paths=Trajectories.load(path))
        case "pyagrum":
            return Content(paths=read_pyagrum(path))
        case "likelihoods":
            return Content(likelihoods=Observations.from_csv(path))
        case "mat":
            return Content(likelihoods=read_mat(path, nodes))
        case "network":
            return Content(network=Network.load(path))
        case "graphml":
            graph = read_graphml(path)
            return Content(nodes=graph.nodes, edges=graph.edges, attributes=graph.attributes)
        case "edges":
            return read_edge_table(path)
    found = read_pyctbn(path, index)
    network = None
    if found.rates is not None:
        network = Network(found.parents, found.rates, found.states)
    edges = [(p, child) for child, above in found.parents.items() for p in above]
    return Content(paths=found.paths, network=network, nodes=list(found.states), edges=edges)


def write(content: Content, path: Path, form: str) -> None:
    """Write what the form can hold, or say what is missing."""
    match form:
        case "paths" | "pyagrum":
            if content.paths is None:
                raise DataError(f"There are no complete paths to write as {form}.")
            if form == "paths":
                content.paths.save(path)
            else:
                write_pyagrum(content.paths, path)
        case "likelihoods" | "mat":
            if content.likelihoods is None:
                raise DataError(f"There are no likelihoods to write as {form}.")
            if form == "mat":
                write_mat(content.likelihoods, path)
            else:
                content.likelihoods.to_csv(path, kind="long")
        case "network":
            if content.network is None:
                raise DataError("There are no rates, so there is no network to write.")
            content.network.save(path)
        case "graphml" | "edges":
            if content.graph is None:
                raise DataError(f"There is no graph to write as {form}.")
            nodes, edges = content.graph
            if form == "graphml":
                write_graphml(nodes, edges, path, content.attributes)
            else:
                write_edges(edges, path, content.attributes)
        case _:
            _write_pyctbn(content, path)


def read_edge_table(path: Path) -> Content:
    """The edges of a table, with their numbers; pairs that are not in the graph are left out."""
    table = read_text_table(path)
    edges = [(str(parent), str(child)) for parent, child in edge_list(table)]
    kept = is_in_graph(table)
    chosen = np.flatnonzero(kept)
    attributes: list[dict[str, float | str]] = [{} for _ in chosen]
    for name in [c for c in table.columns if c not in (*END_NAMES, "in_graph")]:
        texts = [str(table[name].iloc[i]).strip() for i in chosen]
        numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").tolist()
        holds_numbers = all(x == x or not text for x, text in zip(numbers, texts))
        for known, number, text in zip(attributes, numbers, texts):
            if text:
                known[str(name)] = float(number) if holds_numbers else text
    ends = [end for edge in edges for end in edge]
    return Content(
        nodes=list(dict.fromkeys(ends)),
        edges=[edges[i] for i in chosen],
        attributes=attributes if any(attributes) else (),
        left_out=int((~kept).sum()),
    )


def write_edges(
    edges: Sequence[tuple[str, str]],
    path: Path,
    attributes: Sequence[Mapping[str, float | str]] = (),
) -> None:
    """A table parent,child and whatever else is known of the edges."""
    table = pd.DataFrame(list(edges), columns=["parent", "child"])
    for name in dict.fromkeys(name for one in attributes for name in one):
        table[name] = [one.get(name) for one in attributes]
    write_table(path, table)


def _write_pyctbn(content: Content, path: Path) -> None:
    network = content.network
    if network is None:
        write_pyctbn(path, content.paths)
        return
    rates: dict[str, Any] = {}
    for node, table in network.rates.items():
        if table is None or isinstance(table, SummaryRates):
            raise DataError(
                f"The rates of {node!r} are not a table, which is all that PyCTBN can hold."
            )
        rates[node] = table
    write_pyctbn(path, content.paths, network.states, network.parents, rates)


def _is_network(path: Path) -> bool:
    content = read_json(path)
    return isinstance(content, dict) and content.get("format") == NETWORK_FORMAT
