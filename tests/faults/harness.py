"""Commands that are disturbed at a chosen step: killed, told to stop, or out of disk.

A command runs in a fork of this process, so nothing is imported or compiled again. Python tells an
audit hook of every file that is opened, renamed or removed; the hook counts those of the folder in
which the command writes, and disturbs the command at the step asked for. Steps of SQLite, which
Python does not see, are counted where scores are added to the journal; on a full disk they fail as
SQLite's do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))

#: how a step can be disturbed
KILL, INTERRUPT, TERMINATE, FULL = "killed", "interrupted", "terminated", "full disk"
SIGNALS = {KILL: signal.SIGKILL, INTERRUPT: signal.SIGINT, TERMINATE: signal.SIGTERM}

#: outcomes of all cases of this session by kind of attack; printed at its end (tests/conftest.py)
COUNTS: dict[str, Counter[str]] = {}

SECONDS = 120.0
_NAP = 0.005


def count(kind: str, outcome: str, n: int = 1) -> None:
    """Note the outcome of a case."""
    COUNTS.setdefault(kind, Counter())[outcome] += n


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    """Exit code; −N: signal N ended it."""
    said: str
    """stdout and stderr."""
    n_steps: int
    """Steps that were counted; 0 for a process that was killed."""


def steps_to_try(n_steps: int, most: int) -> list[int]:
    """Steps from 1 to n_steps: all of them, or evenly spread ones where only some are tried."""
    if n_steps <= most:
        return list(range(1, n_steps + 1))
    return sorted({1 + round(k * (n_steps - 1) / (most - 1)) for k in range(most)})


def in_fork(work: Callable[[], int], log: Path) -> int:
    """Start ``work`` in a fork whose output goes to a file; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # what a shell starts in the background ignores Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        code = work()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            print(f"ESCAPED {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait_for(pid: int) -> int:
    """The exit code of a fork; −N where a signal ended it. One that hangs is an error."""
    # naps are counted, not seconds: a machine that pauses both of us does not make it hang
    for _ in range(int(SECONDS / _NAP)):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_NAP)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"a command went on for more than {SECONDS:g} s")


def command(*arguments: Any) -> Callable[[], int]:
    """A command line as work for a fork."""
    from asterism.cli import main
    from asterism.commands.exits import exit_code

    def work() -> int:
        given = [str(a) for a in arguments]
        return exit_code(lambda: main.main(given, "asterism", standalone_mode=False))

    return work


def run(folder: Path, *arguments: Any, at: int = 0, how: str = KILL) -> Ended:
    """Run a command that writes below ``folder``; disturb it at step ``at`` (0: never)."""
    counted = folder.parent / ".steps"
    counted.unlink(missing_ok=True)
    log = folder.parent / ".said"

    def work() -> int:
        steps = _Steps(folder, at, how)
        steps.watch()
        code = command(*arguments)()
        steps.on = False
        counted.write_text(str(steps.n))
        return code

    code = wait_for(in_fork(work, log))
    n = int(counted.read_text()) if counted.exists() else 0
    return Ended(code, log.read_text(errors="replace"), n)


class _FullDatabase:
    """A connection to a database whose disk is full: SQLite says so when rows are written."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def executemany(self, *_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")


class _Steps:
    """Counts what is done to the files below a folder, and disturbs one step."""

    def __init__(self, folder: Path, at: int, how: str) -> None:
        self.folder = os.path.realpath(folder)
        self.at, self.how = at, how
        self.n = 0
        self.on = True
        self.full = False

    def watch(self) -> None:
        from asterism.learning.search.journal import Journal

        sys.addaudithook(self._hook)
        add = Journal.add

        def counted(journal: Any, *row: Any) -> Any:
            self._step(writes=False)
            if self.full:
                journal._connection = _FullDatabase(journal._connection)
            return add(journal, *row)

        Journal.add = counted  # type: ignore[method-assign]

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event not in ("open", "os.rename", "os.remove"):
            return
        path = arguments[-2] if event == "os.remove" else arguments[0]
        if event == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.fsdecode(path)
        if os.path.realpath(os.path.dirname(name)).startswith(self.folder):
            self._step(name, event == "open")

    def _step(self, name: str = "", writes: bool = True) -> None:
        self.n += 1
        if self.how == FULL:
            # a disk stays full: from then on nothing new can be written, removing still works
            self.full = self.full or self.n == self.at
            if self.full and writes:
                raise OSError(errno.ENOSPC, "No space left on device", name or None)
        elif self.n == self.at:
            os.kill(os.getpid(), SIGNALS[self.how])
