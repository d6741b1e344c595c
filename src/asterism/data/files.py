"""The one way to write a file: beside its place, then renamed, so that nobody ever sees half of it.

A process that is killed while it writes leaves a temporary file behind; whoever writes next to it
removes it. Whatever goes wrong names the file that could not be written. Tables are written so that
a spreadsheet does not run what is in their cells (:mod:`asterism.data.table_file`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

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

    Only who has the folder for himself may ask for all of them (``age`` 0): the temporary file of
    a process that is writing looks the same.
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
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
