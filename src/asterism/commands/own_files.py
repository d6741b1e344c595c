"""The formats of our own that ``convert`` reads and writes: paths, likelihoods, networks, edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from asterism.data.files import read_json, write_table
from asterism.data.formats.registry import Content, FileFormat, ReadSettings
from asterism.data.numbers import read_numbers
from asterism.data.observations import Observations
from asterism.data.table_file import read_text_table
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.model.network import FORMAT as NETWORK_FORMAT
from asterism.model.network import Network
from asterism.results.edge_sets import edge_list

#: columns that name the ends of an edge
END_NAMES = ("parent", "child", "source", "target")


class PathsFile(FileFormat):
    """Complete paths, a row per state that is entered."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """By its columns."""
        return {"time", "node", "state"} <= header()

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The paths, with the side file if there is one."""
        return Content(paths=Trajectories.load(path))

    def write(self, content: Content, path: Path) -> None:
        """The paths, with a side file."""
        content.require("paths", "paths").save(path)


class LikelihoodsFile(FileFormat):
    """Likelihoods of the states, a row per measurement."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """By its columns."""
        names = header()
        return {"time", "node"} <= names and any(name.startswith("p_") for name in names)

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The measurements."""
        return Content(likelihoods=Observations.from_csv(path))

    def write(self, content: Content, path: Path) -> None:
        """A long table."""
        content.require("likelihoods", "likelihoods").to_csv(path, kind="long")


class NetworkFile(FileFormat):
    """A network with its rates, as JSON."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """By the name of the format, which the file holds."""
        content = read_json(path)
        return isinstance(content, dict) and content.get("format") == NETWORK_FORMAT

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The network."""
        return Content(network=Network.load(path))

    def write(self, content: Content, path: Path) -> None:
        """The network."""
        if content.network is None:
            raise DataError("There are no rates, so there is no network to write.")
        network = content.network
        made = network if isinstance(network, Network) else Network(*network)
        made.save(path)


class EdgesFile(FileFormat):
    """A table of edges, with whatever else is known of them."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """By the columns that name the ends."""
        names = header()
        return {"parent", "child"} <= names or {"source", "target"} <= names

    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The edges with their numbers; pairs that are not in the graph are left out."""
        table = read_text_table(path)
        try:
            edges = [(str(parent), str(child)) for parent, child in edge_list(table)]
        except DataError as error:
            raise DataError(f"{str(path)!r}: {error}") from None
        kept = np.ones(len(table), dtype=np.bool_)
        if "in_graph" in table.columns:  # a table of probabilities, of which only some are edges
            kept = ~table["in_graph"].str.lower().isin(["false", "no", "0"]).to_numpy()
        chosen = np.flatnonzero(kept)
        attributes: list[dict[str, float | str]] = [{} for _ in chosen]
        for name in [c for c in table.columns if c not in (*END_NAMES, "in_graph")]:
            texts = [str(table[name].iloc[i]).strip() for i in chosen]
            read = read_numbers(np.array(texts, dtype=object))
            holds_numbers = not read.is_text.any()
            for known, number, text in zip(attributes, read.value.tolist(), texts):
                if text:
                    known[str(name)] = number if holds_numbers else text
        ends = [end for edge in edges for end in edge]
        return Content(
            nodes=list(dict.fromkeys(ends)),
            edges=[edges[i] for i in chosen],
            attributes=attributes if any(attributes) else (),
            left_out=int((~kept).sum()),
        )

    def write(self, content: Content, path: Path) -> None:
        """A table parent,child and whatever else is known of the edges."""
        _, edges = content.require("graph", "edges")
        write_edges(edges, path, content.attributes)


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
