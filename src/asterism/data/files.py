"""How files are written, and JSON read: one way each.

A file is written beside its place, then renamed, so that nobody ever sees half of it. A process
that is killed while it writes leaves a temporary file behind; whoever writes next to it removes it.
Whatever goes wrong names the file that could not be written. Tables are written so that a
spreadsheet does not run what is in their cells (``table_file.py``).

JSON that is not a plain, sensible document is refused in one sentence. Refused besides broken
syntax: names given twice (which of the two would count?), nesting deeper than any of our files, and
numbers too long to be meant.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.data.labels import canonical
from asterism.errors import AsterismError, DataError, quoted

#: how the name of a temporary file begins; its ending is that of the file it becomes
TEMPORARY = ".asterism-part-"

#: seconds after which a temporary file that nobody guards is taken for a leftover
STALE = 3600.0


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file in the same folder, then give it its name."""
    remove_leftovers(path.parent, STALE)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        # a disk that is full may say so only now
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; a result should be as readable as any other new file
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _about(error, path) from None
        raise


def _about(error: OSError, path: Path) -> OSError:
    """The same error with the name of the file that was to be written."""
    if error.errno is None:
        return OSError(f"{error}: {path}")
    return OSError(error.errno, error.strerror, str(path))


def write_bytes(path: str | Path, content: bytes) -> None:
    """Atomically."""
    write_atomically(Path(path), lambda temporary: temporary.write_bytes(content))


def write_text(path: str | Path, text: str) -> None:
    """Atomically, as UTF-8 with the line ends as they are."""
    write_bytes(path, text.encode("utf-8", errors="surrogatepass"))


def write_table(path: str | Path, table: pd.DataFrame) -> None:
    """A table as CSV, atomically, safe to open in a spreadsheet."""
    from asterism.data.table_file import escaped

    write_text(path, escaped(table).to_csv(index=False, lineterminator="\n"))


def remove_leftovers(folder: Path, age: float = 0.0) -> list[str]:
    """Remove what killed processes left half-written; returns the names.

    Only a process that has the folder to itself may ask for all of them (``age`` 0): the temporary
    file of a process that is writing looks the same.
    """
    removed = []
    oldest = time.time() - age
    with suppress(OSError):
        for path in folder.glob(f"{TEMPORARY}*"):
            with suppress(OSError):
                if path.stat().st_mtime <= oldest:
                    path.unlink()
                    removed.append(path.name)
    return removed


def sha256(path: Path) -> str:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- JSON -------------------------------------------------------------------------------------


#: digits of a whole number; a double has 309 at most
MAX_DIGITS = 400
#: lists within lists
MAX_DEPTH = 100


def read_json(
    path: str | Path, what: str = "JSON file", error: type[AsterismError] = DataError
) -> Any:
    """The content of a file, or a sentence that says why it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise error(f"There is no {what} {str(path)!r}.") from None
    except UnicodeDecodeError as problem:
        raise error(f"Cannot read the {what} {str(path)!r}: {problem}.") from None
    except OSError as problem:
        raise error(
            f"Cannot read the {what} {str(path)!r}: {problem.strerror or problem}."
        ) from None
    try:
        return parse_json(text)
    except ValueError as problem:
        raise error(f"{str(path)!r} is not a {what}: {problem}.") from None


def parse_json(text: str) -> Any:
    """The content of a text; raises ValueError with what is wrong."""
    try:
        content = json.loads(
            text, object_pairs_hook=_each_name_once, parse_int=_whole, parse_constant=_no_constant
        )
        _require_shallow(content)
        if "\\ud" in text.lower():  # half of a character, which no file or screen can hold
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as problem:
        raise ValueError(f"not JSON ({problem})") from None
    except UnicodeEncodeError:
        raise ValueError("a text holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    return content


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:80]!r} is given twice in one place")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _require_shallow(content: Any) -> None:
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise RecursionError


def as_json(value: Any) -> Any:
    """Anything as JSON: objects that describe themselves by ``to_dict`` do so, others as text.

    JSON knows neither infinity nor NaN: the first becomes text and the second null.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, pd.DataFrame):
        return {str(c): as_json(value[c].to_dict()) for c in value.columns}
    if hasattr(value, "predecessors"):
        return [[str(parent), str(child)] for parent, child in value.edges()]
    if hasattr(value, "to_dict") and not isinstance(value, type):
        try:
            return as_json(value.to_dict())
        except AsterismError:  # an emission of the user's own need not be writable
            return repr(value)
    return repr(value)


def require_version(
    version: object, newest: int, where: str, error: type[AsterismError] = DataError
) -> int:
    """The version of a file's format, which must be one that this release can read."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise error(f"{where} has no valid format version, got {version!r}.")
    if version > newest:
        raise error(
            f"{where} has format version {version}, but this release reads versions up to "
            f"{newest}; update asterism to open it."
        )
    return version


# ---- side files: what a table cannot hold ------------------------------------------------------


def side_file(path: str | Path, ending: str) -> Path:
    """``data.csv`` or ``data.csv.gz`` -> ``data.<ending>`` in the same folder."""
    path = Path(path)
    name = path.name
    if path.suffix.lower() in (".gz", ".bz2", ".xz"):
        name = path.stem
    stem = name[: -len(Path(name).suffix)] if Path(name).suffix else name
    return path.with_name(f"{stem}.{ending}")


def read_meta(path: str | Path, expected: str) -> dict[str, Any] | None:
    """The side file of a table, or None; a file written by a newer version is refused."""
    side = side_file(path, "meta.json")
    if not side.exists():
        return None
    meta = read_json(side, "side file")
    if not isinstance(meta, dict) or meta.get("format") != expected:
        raise DataError(f"{str(side)!r} is not a side file of format {expected!r}; move it away")
    require_version(meta.get("version", 1), 1, repr(str(side)))
    if isinstance(meta.get("trajectories"), list):  # a sampled path is named (trajectory, draw)
        names = meta["trajectories"]
        meta["trajectories"] = [tuple(x) if isinstance(x, list) else x for x in names]
    for name, (is_right, what, needed_in) in _FIELDS.items():
        if (name in meta or expected in needed_in) and not is_right(meta.get(name)):
            raise DataError(
                f"The side file {str(side)!r} is damaged: {name!r} must be {what}; restore it, or "
                "move it away."
            )
    n = len(meta["trajectories"])
    if any(len(meta[name]) != n for name in ("start", "end") if name in meta):
        raise DataError(
            f"The side file {str(side)!r} is damaged: it names {n} trajectories, but not as many "
            "starts and ends; restore it, or move it away."
        )
    return meta


def check_names(
    path: str | Path, names: list[Any], column: pd.Series, more: list[pd.Series | None]
) -> None:
    """Refuse a side file whose trajectories are not those of its table.

    A trajectory without rows is legal, and so are rows that were added later; both at once mean
    that the two files do not belong together, or that a name was changed in one of them.
    """
    rows = {canonical(name): name for name in column.unique() if str(name).strip()}
    also = {canonical(name) for one in more if one is not None for name in one.unique()}
    strangers = [name for name in names if canonical(name) not in rows.keys() | also]
    listed = {canonical(name) for name in names}
    unlisted = [name for text, name in rows.items() if text not in listed]
    if strangers and unlisted:
        known = quoted(rows.values())
        raise DataError(
            f"The side file {str(side_file(path, 'meta.json'))!r} names trajectory "
            f"{strangers[0]!r}, of which the table has no row, and not {unlisted[0]!r}, which has "
            f"rows (the table's are {known}); correct the names, or move the side file away."
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, str | int | float) for part in parts)


def _are_different(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list) and all(map(is_right, v)) and len(set(v)) == len(v)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < math.inf for x in value
    )


#: what each field of a side file must be, in words, and the formats that must have it
_TABLE, _PATHS = "asterism-observations", "asterism-trajectories"
_FIELDS: dict[str, tuple[Callable[[Any], bool], str, tuple[str, ...]]] = {
    "kind": (lambda v: v in ("wide", "long"), "'wide' or 'long'", (_TABLE,)),
    "exact": (lambda v: v is None or _is_text(v), "the name of a column, or null", (_TABLE,)),
    "nodes": (_are_different(_is_text), "a list of different names", (_TABLE, _PATHS)),
    "labels": (_are_different(_is_text), "a list of different names", (_TABLE,)),
    "trajectories": (_are_different(_is_name), "a list of different names", (_TABLE, _PATHS)),
    "start": (_are_numbers, "a list of numbers", (_TABLE,)),
    "end": (_are_numbers, "a list of numbers", (_TABLE, _PATHS)),
    "ties": (lambda v: v in ("error", "order"), "'error' or 'order'", ()),
    "time_unit": (lambda v: v is None or _is_text(v), "the name of a unit", ()),
    "states": (
        lambda v: isinstance(v, dict) and all(map(_are_different(_is_name), v.values())),
        "lists of different names",
        (_PATHS,),
    ),
}
