"""The file formats that ``asterism convert`` knows, one entry each.

An entry names the class that reads and writes the format; its module is loaded on first use. The
command, its help, its messages and the table in docs/reference/formats.md all read this registry.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asterism.errors import DataError

if TYPE_CHECKING:
    from asterism.data.observations import Observations
    from asterism.data.trajectories import Trajectories

#: what a file can hold -> how a message calls it
CONTENTS = {
    "paths": "complete paths",
    "likelihoods": "likelihoods",
    "network": "network with rates",
    "graph": "graph",
}


class NetworkTables(NamedTuple):
    """A network as plain tables."""

    parents: Mapping[str, Sequence[str]]
    rates: Mapping[str, Any]
    states: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Content:
    """What a file holds; any of it may be absent."""

    paths: Trajectories | None = None
    likelihoods: Observations | None = None
    network: Any = None
    """A ``Network``, or :class:`NetworkTables`."""
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
            nodes = list(self.network.states)
            return nodes, [(p, child) for child in nodes for p in self.network.parents[child]]
        if self.edges is None:
            return None
        ends = [end for edge in self.edges for end in edge]
        return list(dict.fromkeys([*self.nodes, *ends])), list(self.edges)

    def require(self, kind: str, form: str) -> Any:
        """One of the contents, or an error that says what is missing."""
        found = getattr(self, kind)
        if found is None:
            there_is = "There are" if kind in ("paths", "likelihoods") else "There is"
            raise DataError(f"{there_is} no {CONTENTS[kind]} to write as {form}.")
        return found


@dataclass(frozen=True)
class ReadSettings:
    """What the user says about a file that is read."""

    nodes: Sequence[str] = ()
    """Names of nodes, for files that have none."""
    index: int = 0
    """Which entry of a file with several."""


class FileFormat(ABC):
    """Base of the classes that read and write a format."""

    def recognises(self, path: Path, header: Callable[[], set[str]]) -> bool:
        """Whether a file with one of the endings has this format; ``header`` reads its columns."""
        return True

    @abstractmethod
    def read(self, path: Path, settings: ReadSettings) -> Content:
        """The content of a file."""

    @abstractmethod
    def write(self, content: Content, path: Path) -> None:
        """Write what the format can hold, or say what is missing."""


class FormatEntry(NamedTuple):
    """One format."""

    module: str
    """Where the class is, loaded on first use."""
    class_name: str
    endings: tuple[str, ...]
    holds: tuple[str, ...]
    """Of :data:`CONTENTS`."""

    def load(self) -> FileFormat:
        """The class that reads and writes it."""
        made: FileFormat = getattr(importlib.import_module(self.module), self.class_name)()
        return made


_OTHERS = "asterism.data.formats"
_OURS = "asterism.commands.own_files"

#: by name; of two formats with one ending that hold the same, the first is written
FORMATS = {
    "paths": FormatEntry(_OURS, "PathsFile", (".csv",), ("paths",)),
    "pyagrum": FormatEntry(f"{_OTHERS}.pyagrum", "PyagrumFile", (".csv",), ("paths",)),
    "pyctbn": FormatEntry(
        f"{_OTHERS}.pyctbn", "PyctbnFile", (".json",), ("paths", "network", "graph")
    ),
    "likelihoods": FormatEntry(_OURS, "LikelihoodsFile", (".csv",), ("likelihoods",)),
    "mat": FormatEntry(f"{_OTHERS}.mat", "MatFile", (".mat",), ("likelihoods",)),
    "network": FormatEntry(_OURS, "NetworkFile", (".json",), ("network", "graph")),
    "edges": FormatEntry(_OURS, "EdgesFile", (".csv",), ("graph",)),
    "graphml": FormatEntry(f"{_OTHERS}.graphml", "GraphmlFile", (".graphml",), ("graph",)),
}


def table_of_formats() -> str:
    """The formats as a Markdown table, as it stands in docs/reference/formats.md."""
    lines = ["| format | holds | ending |", "|---|---|---|"]
    for name, entry in FORMATS.items():
        holds = ", ".join(CONTENTS[kind] for kind in entry.holds)
        lines.append(f"| `{name}` | {holds} | {' '.join(entry.endings)} |")
    return "\n".join(lines)
