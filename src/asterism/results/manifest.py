"""``run.json``: what a run recorded, with versions, sizes and the hash of every other file.

It carries a checksum of its content. Reading a folder compares all of them, so
that half a table or a flipped bit is named instead of believed. The journal of a search is not
listed: it has checksums of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from asterism.data.files import as_json, read_json, require_version, sha256, write_text
from asterism.errors import Advice, DataError
from asterism.results.run import FIT_TABLES, Run

RECORD = "run.json"
PAGE = "report.html"

#: a style of Cytoscape 3 (File > Import > Styles from File), with the colours of Okabe and Ito
STYLE = "graph_style.xml"
#: files that belong to a run, besides run.json
FILES = (
    *("network.json", "edges.csv", "families.csv", "posterior.nc", "graph.graphml"),
    *(STYLE, "observations.csv", "history.csv", "truth.csv", "rates.csv"),
    *(f"{name}.csv" for name in FIT_TABLES),
    PAGE,
)
#: written by older versions, which did not list them
ONCE_UNLISTED = ("edge_ratios.csv", "survival.csv")

FORMAT = "asterism-run"
FORMAT_VERSION = 2


class ChangedFile(DataError):
    """A file of a results folder is not the one that its run wrote."""


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write run.json with the list of the files that lie there now: the end of a run."""
    files = {
        name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
        for name in FILES
        if (folder / name).is_file()
    }
    _write(folder, {**record, "files": files})


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    signed = {**content, "checksum": _checksum(content)}
    text = json.dumps(signed, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(folder / RECORD, text + "\n")


def replace_file(folder: Path, name: str, new: Path) -> None:
    """Give a file of a finished run a new content, which lies in the same folder already.

    run.json first lists the new content beside the old one, so that the run fits whenever this is
    cut short.
    """
    try:
        record = read_record(folder, verify=False)
        if isinstance(record.get("files"), dict):
            entry: dict[str, Any] = {"size": new.stat().st_size, "sha256": sha256(new)}
            old = record["files"].get(name)
            if _is_entry(old):
                entry["before"] = {key: old[key] for key in ("size", "sha256")}
            _write(folder, {**record, "files": {**record["files"], name: entry}})
        os.replace(new, folder / name)
    finally:
        new.unlink(missing_ok=True)


def read_record(folder: Path, verify: bool = True) -> dict[str, Any]:
    """The content of run.json; nothing where there is none."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    record = read_json(path, "record of a run")
    if not isinstance(record, dict):
        raise DataError(f"{str(path)!r} holds no settings.")
    version = require_version(record.get("format_version", 1), FORMAT_VERSION, repr(str(path)))
    if verify and (version > 1 or "files" in record or "checksum" in record):
        if record.get("checksum") != _checksum(record):
            raise _changed(path, "its content does not fit its checksum")
        _require_well_formed(path, record)
    return record


def verify_files(folder: Path, record: Mapping[str, Any], names: Iterable[str] = FILES) -> bool:
    """Compare the files with the list; False where there is no list, as in older runs."""
    if "files" not in record:
        return False
    for name in names:
        path, entry = folder / name, record["files"].get(name)
        if entry is None:
            if path.is_file() and name not in ONCE_UNLISTED:
                raise _changed(path, "the run did not write it")
            continue
        if not path.is_file():
            if name == PAGE:  # made from the others, and so never missed
                continue
            raise _changed(path, "it is missing")
        size = path.stat().st_size
        before = entry.get("before")  # the page may have been about to be renewed
        if before and name == PAGE and (size, sha256(path)) == (before["size"], before["sha256"]):
            continue
        if size != entry["size"]:
            raise _changed(path, f"it has {size:,} bytes, {entry['size']:,} were written")
        if sha256(path) != entry["sha256"]:
            raise _changed(path, "its content was changed")
    return True


def _require_well_formed(path: Path, record: Mapping[str, Any]) -> None:
    files = record.get("files")
    good = isinstance(files, dict) and all(
        _is_entry(entry) and _is_entry(entry.get("before", entry)) for entry in files.values()
    )
    if not good:
        raise _changed(path, "it does not list the files of the run")


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and {"size", "sha256"} <= set(entry)


def _checksum(record: Mapping[str, Any]) -> str:
    """Of everything but the checksum itself, however it is spaced and ordered."""
    content = {name: value for name, value in record.items() if name != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _changed(path: Path, how: str) -> ChangedFile:
    return ChangedFile(
        f"{str(path)!r} is not the file that the run wrote: {how}. Restore it, or read it as it is "
        "with ",
        Advice("verify=False.", "--unverified."),
    )


# ---- the content of run.json ------------------------------------------------------------------


def complete_record(run: Run, notices: list[str]) -> dict[str, Any]:
    """Everything that run.json says, but for the list of files."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "converged": None,
        "stop_reason": None,
        "seed": None,
        "data_hash": None,
        "settings": {},
        **run.run,
        "format_version": FORMAT_VERSION,
        "versions": {**versions(), **run.run.get("versions", {})},
        "n_nodes": len(run.network.nodes),
        "n_edges": int(sum(map(len, run.network.parents.values()))),
        "notices": notices,
    }
    plain: dict[str, Any] = as_json(record)
    return plain


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    from asterism import __version__

    return {
        "asterism": __version__,
        **{name: metadata.version(name) for name in ("numpy", "numba", "scipy")},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
