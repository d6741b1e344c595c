"""Writing a file so that nobody ever sees half of it: beside its place first, then renamed.

Several names in one cell of a table: "A;B", with a backslash before a semicolon in a name.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from asterism.errors import DataError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file in the same folder, then give it its name."""
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent
        )
    except OSError as error:
        raise DataError(f"Cannot write to the folder {str(path.parent)!r}: {error}.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        # mkstemp makes private files; a result should be as readable as any other new file
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Atomically, as UTF-8 with plain line ends."""
    data = text.encode("utf-8", errors="surrogatepass")
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


_PIECE = re.compile(r"((?:[^;\\]|\\.)*)(;|$)", re.DOTALL)


def join_names(names: Iterable[str]) -> str:
    """No names give the empty text, and only no names do: an empty name is written as ``\\e``."""
    escaped = (name.replace("\\", "\\\\").replace(";", "\\;") or "\\e" for name in names)
    return ";".join(escaped)


def split_names(text: str) -> tuple[str, ...]:
    """The inverse of :func:`join_names`."""
    if text == "":
        return ()
    names = []
    for match in _PIECE.finditer(text):
        piece = match.group(1)
        names.append("" if piece == "\\e" else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))
        if match.group(2) == "":
            break
    return tuple(names)
