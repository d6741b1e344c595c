"""``asterism convert``: other tools' files in and out.

A file holds paths, likelihoods, a network or edges. The input's form is recognised by its content,
the output's by its ending; ``--from`` and ``--to`` overrule both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from asterism.commands import exits
from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.input_table import read_header
from asterism.commands.options import FORMATS
from asterism.commands.outputs import print_json, read_edges, require_file
from asterism.data.csv_files import read_text_table, write_atomically
from asterism.data.formats.graphml import read_graphml, write_graphml
from asterism.data.formats.mat import read_mat, write_mat
from asterism.data.formats.pyagrum import COLUMNS as PYAGRUM_COLUMNS
from asterism.data.formats.pyagrum import read_pyagrum, write_pyagrum
from asterism.data.formats.pyctbn import read_pyctbn, write_pyctbn
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.model.network_file import FORMAT as NETWORK_FORMAT
from asterism.model.rates import SummaryRates
from asterism.results.edge_sets import EDGE_COLUMNS


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
    attributes: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """What is known about each edge besides its ends: probability, Bayes factor, …"""

    @property
    def graph(self) -> tuple[list[str], list[tuple[str, str]]] | None:
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
            return Content(edges=read_edges(path), attributes=_edge_attributes(path))
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


def _edge_attributes(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The other columns of a table of edges; numbers where a column holds nothing else."""
    if path.suffix.lower() in (".graphml", ".json"):
        return {}
    table = read_text_table(path)
    ends = next((e for e in EDGE_COLUMNS if set(e) <= set(table.columns)), None)
    if ends is None:
        return {}
    columns: dict[str, list[Any]] = {}
    for name in [c for c in table.columns if c not in ends]:
        texts = [str(text).strip() for text in table[name]]
        numbers = pd.to_numeric(pd.Series(texts), errors="coerce")
        numeric = bool((numbers.notna() | (pd.Series(texts) == "")).all())
        columns[str(name)] = numbers.tolist() if numeric else texts
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for i, (parent, child) in enumerate(zip(table[ends[0]], table[ends[1]])):
        row = {name: values[i] for name, values in columns.items()}
        row = {name: value for name, value in row.items() if value == value and value != ""}
        found[str(parent), str(child)] = row
    return found


def write_edges(
    edges: Sequence[tuple[str, str]],
    path: Path,
    attributes: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> None:
    """A table parent,child and whatever else is known about each edge."""
    known = attributes or {}
    rows = [{"parent": p, "child": c, **known.get((p, c), {})} for p, c in edges]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pd.DataFrame(rows, columns=names or ["parent", "child"])
    write_atomically(path, table.to_csv(index=False, lineterminator="\n"))


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
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is not a JSON file: {error}.") from None
    return isinstance(content, dict) and content.get("format") == NETWORK_FORMAT
