"""Owns the files that a learner's ``save`` writes: the core of a results folder.

Names and columns are those of the full results folder, so whatever reads one reads the other.
Every file is written beside its place and renamed; ``run.json`` comes last and marks the end.
"""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import DataError, Setting
from asterism.model.network import Network

#: written by a search while it runs; they do not make a folder old
_SEARCH_FILES = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm")


def write_run(
    folder: Path,
    network: Network,
    edges: pd.DataFrame,
    families: pd.DataFrame,
    record: Mapping[str, Any],
    force: bool = False,
) -> Path:
    """Write network.json, edges.csv, families.csv and run.json; refuses to overwrite results."""
    _require_new(folder, force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").unlink(missing_ok=True)
        network.save(folder / "network.json")
        _write(folder / "edges.csv", _csv(edges))
        listed = families.assign(parents=[_joined(names) for names in families["parents"]])
        _write(folder / "families.csv", _csv(listed))
        _write(folder / "run.json", _json(_complete(record, network)))
    except OSError as error:
        raise DataError(f"Cannot write the results to {str(folder)!r}: {error}.") from None
    return folder


def _require_new(folder: Path, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file; name a folder for the results.")
    if folder.is_dir() and not force:
        held = sorted(p.name for p in folder.iterdir() if p.name not in _SEARCH_FILES)
        if held:
            raise DataError(
                f"The folder {str(folder)!r} already holds {', '.join(held[:3])}; name another "
                "folder, or overwrite it with ",
                Setting("force", True),
                ".",
            )


def _complete(record: Mapping[str, Any], network: Network) -> dict[str, Any]:
    from importlib import metadata

    from asterism import __version__

    versions = {name: metadata.version(name) for name in ("numpy", "numba", "scipy")}
    return {
        "format": "asterism-run",
        "format_version": 1,
        **record,
        "versions": {
            "asterism": __version__,
            **versions,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
        },
        "n_nodes": network.n_nodes,
        "n_edges": sum(map(len, network.parents.values())),
        "notices": [],
    }


def _joined(names: Iterable[str]) -> str:
    """Several names in one cell: "A;B", with a backslash before a semicolon in a name."""
    return ";".join(n.replace("\\", "\\\\").replace(";", "\\;") or "\\e" for n in names)


def _csv(table: pd.DataFrame) -> str:
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def _json(content: Any) -> str:
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Anything as JSON: objects that describe themselves by ``to_dict`` do so, others as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, pd.DataFrame):
        return {str(c): _plain(value[c].to_dict()) for c in value.columns}
    if hasattr(value, "predecessors"):
        return [[str(parent), str(child)] for parent, child in value.edges()]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    return repr(value)


def _write(path: Path, text: str) -> None:
    """Beside its place first, then renamed: nobody ever sees half a file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", errors="surrogatepass"))
        # mkstemp makes private files; a result should be as readable as any other new file
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
