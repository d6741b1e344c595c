"""One folder, one writer: a lock file that names its owner.

The lock is the operating system's, on the file ``.asterism-lock``: it ends with its owner, however
that ends. The file says which process on which host holds it. A file whose lock is free belongs to
a process that was killed, and is taken over, unless it names another host: a network file system
may not pass locks on, so only a person can know.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from asterism.data.files import remove_leftovers
from asterism.errors import DataError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = ".asterism-lock"

_held: dict[Path, int] = {}
"""Folders that this process holds, with the thread that does."""
_guard = threading.Lock()


class FolderInUse(DataError):
    """Somebody else is writing to the folder or file."""


@contextmanager
def only_writer(folder: str | Path) -> Iterator[Path]:
    """Make the folder, be the only one that writes to it, and clean up after killed writers.

    Within one thread calls may be nested. A folder that was made here and is still empty in the
    end is removed again.
    """
    place = Path(folder)
    key = Path(os.path.abspath(place))
    me = threading.get_ident()
    with _guard:
        owner = _held.get(key)
        if owner is None:
            _held[key] = me
    if owner == me:
        yield place
        return
    if owner is not None:
        raise FolderInUse(f"{str(place)!r} is being written by another thread of this process.")
    try:
        yield from _locked(place)
    finally:
        with _guard:
            _held.pop(key, None)


def _locked(folder: Path) -> Iterator[Path]:
    made = _make_folder(folder)
    try:
        handle = take(folder / LOCK, folder)
    except BaseException:
        _remove_empty(made)
        raise
    try:
        remove_leftovers(folder)
        yield folder
    finally:
        release(folder / LOCK, handle)
        _remove_empty(made)


def _make_folder(folder: Path) -> list[Path]:
    """The folders that had to be made, the innermost first."""
    missing = []
    at = folder
    while not at.exists() and at != at.parent:
        missing.append(at)
        at = at.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror or error
        raise DataError(f"Cannot make the folder {str(folder)!r}: {problem}.") from None
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def lock_of(path: Path) -> Path:
    """The lock file of a single file."""
    return path.with_name(f"{LOCK}-{path.name}")


def release(path: Path, handle: int) -> None:
    """Give a lock back that :func:`take` took."""
    # unlinked while locked: another process that waits for this file notices that it is gone
    with suppress(OSError):
        path.unlink()
    os.close(handle)


def take(path: Path, what: Path) -> int:
    """An open handle of the lock file of ``what``, locked and with our name in it."""
    for _ in range(100):
        try:
            # never through a link: the folder may be somebody else's, and its link may point
            # at a file of ours
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:  # its owner has just removed the folder
            path.parent.mkdir(parents=True, exist_ok=True)
            continue
        except OSError as error:
            problem = error.strerror or error
            raise DataError(
                f"Cannot write to the folder {str(path.parent)!r}: {problem}."
            ) from None
        try:
            if not _lock(handle):
                raise _in_use(path, what, _owner(handle))
            if not _is_still(path, handle):  # its owner removed it between our two steps
                os.close(handle)
                continue
            owner = _owner(handle)
            if owner and owner.get("host") != socket.gethostname():
                raise _in_use(path, what, owner)
            _sign(handle)
        except BaseException:
            with suppress(OSError):
                os.close(handle)
            raise
        return handle
    raise DataError(f"The lock {str(path)!r} could not be taken; it keeps changing hands.")


def _lock(handle: int) -> bool:
    """Whether the lock is ours now; never waits."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _owner(handle: int) -> dict[str, object]:
    """What the file says; nothing where it is empty or damaged."""
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        content = json.loads(os.read(handle, 10_000))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _sign(handle: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    with suppress(OSError):  # a full disk: locked all the same, only without a name
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(owner).encode())


def _in_use(path: Path, what: Path, owner: dict[str, object]) -> FolderInUse:
    who = "another process"
    if owner:
        who = f"process {owner.get('process')} on {owner.get('host')} since {owner.get('since')}"
    text = f"{str(what)!r} is being written by {who}; wait for it, or name another place."
    if owner and owner.get("host") != socket.gethostname():
        text += f" If that process is gone, delete {str(path)!r}."
    return FolderInUse(text)
