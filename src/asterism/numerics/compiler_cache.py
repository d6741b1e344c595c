"""Where machine code is kept between runs, and what happens if it cannot be.

Every compiled file has a folder of its own, whose name ends with a hash of the names and contents
of the file and of all compiled files that it imports. numba by itself looks only at the time stamp
of the file that holds a function, and does not see that a kernel it calls in another file has
changed.

The folders lie in the folder that the environment variable NUMBA_CACHE_DIR names, or else in the
first of these that can be written to: the package, the user's cache folder, a private temporary
folder. A settings file of numba in the working directory does not count: who can write to a folder
of compiled code can have code run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent

#: seconds after which code of an earlier state of a file is deleted: another installation that
#: shares the folder may still use it
_FORGOTTEN = 30 * 24 * 3600.0

#: an import of a compiled file, whole or by its folder
_IMPORT = re.compile(
    r"^\s*from asterism((?:\.\w+)*\._[a-z]\w*) import"
    r"|^\s*from asterism((?:\.\w+)*) import (_[a-z]\w*)"
    r"|^\s*import asterism((?:\.\w+)*\._[a-z]\w*)",
    re.MULTILINE,
)


def files_behind(path: Path, package: Path) -> set[Path]:
    """A compiled file and all compiled files that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here in found or not here.is_file():
            continue
        found.add(here)
        for whole, folder, name, plain in _IMPORT.findall(here.read_text(encoding="utf-8")):
            module = whole or plain or f"{folder}.{name}"
            waiting.append(package.joinpath(*module.strip(".").split(".")).with_suffix(".py"))
    return found


def stamp_of(path: Path, package: Path = _PACKAGE) -> str:
    """One word for the state of a compiled file and of all that it calls: names and contents."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted({*files_behind(path, package), _PACKAGE / "numerics" / "_jit.py"}):
        digest.update(f"{file.name}\0".encode())
        digest.update(hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def folder_of(function: Callable[..., Any]) -> Path:
    """The folder for the machine code of a function, as its file is now."""
    return _folder_of_file(function.__code__.co_filename)


@cache
def _folder_of_file(filename: str) -> Path:
    path = Path(filename).resolve()
    inside = path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else Path(path.name)
    name = ".".join(inside.with_suffix("").parts)
    return _base() / f"{name}-{stamp_of(path)}"


@cache
def _base() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given).absolute() / "asterism"
    home = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return first_writable((_PACKAGE / "__pycache__", Path(home).expanduser() / "asterism"))


def first_writable(folders: Iterable[Path]) -> Path:
    """The first folder that can be written to, or a private temporary one.

    Code is loaded from there again, so that the temporary folder must be the user's own. Where
    somebody else has made it, the next best is a folder for this process alone.
    """
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
        except OSError:
            continue
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"asterism-cache-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        is_own = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        is_own = is_own and status.st_uid == user
    except OSError:
        is_own = False
    return folder if is_own else Path(tempfile.mkdtemp(prefix="asterism-cache-"))


def forget_old_code(folder: Path) -> None:
    """Before code of a changed file is kept: delete that of states long ago."""
    if folder.exists():
        return
    for other in folder.parent.glob(f"{folder.name.rpartition('-')[0]}-*"):
        try:
            is_old = time.time() - other.stat().st_mtime > _FORGOTTEN
        except OSError:  # another process was faster
            continue
        if is_old:
            shutil.rmtree(other, ignore_errors=True)


class CompilerCacheWarning(UserWarning):
    """Compiled code cannot be kept or read: every run compiles again."""


def say_it_fails(folder: Path, error: Exception) -> None:
    """Warn that this run compiles without the cache, with the way out."""
    warnings.warn(
        f"The cache of compiled code in {folder} cannot be used ({type(error).__name__}: {error}). "
        "This run compiles without it, which takes longer. Delete that folder to empty the cache, "
        "or name another one in the environment variable NUMBA_CACHE_DIR.",
        CompilerCacheWarning,
        stacklevel=2,
    )
