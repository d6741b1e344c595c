"""Every score a search has computed, in an SQLite file: what an interrupted search resumes from.

One process writes, in batches, with write-ahead logging: a kill at any moment loses at most the
last batch. A search is deterministic, so that replaying it with the scores found here leads to
the same result, bit for bit, as if it had not been interrupted. The file remembers which data
and settings it belongs to and refuses others, naming the difference; a damaged file is set aside
and reported, never used.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from asterism.errors import AsterismError, DataError
from asterism.evidence.arrays import Evidence, FloatArray
from asterism.learning.search.settings import StructureSettings

FORMAT = "1"
_BATCH = 256
_SECONDS = 1.0
_NOT_COMPARED = frozenset({"n_jobs", "journal", "resume"})
"""Settings that do not change any score."""


class JournalWarning(UserWarning):
    """A journal was unreadable and has been set aside."""


def fingerprint(
    settings: StructureSettings, evidence: Evidence, nodes: Iterable[str]
) -> dict[str, str]:
    """What scores depend on: the data (as a hash) and every setting, by name."""
    digest = hashlib.sha256()
    for name in nodes:
        digest.update(name.encode("utf-8", "backslashreplace") + b"\0")
    for array in (evidence.start, evidence.end):
        digest.update(np.ascontiguousarray(array).tobytes())
    for part in (evidence.points, evidence.jumps, evidence.spans):
        for item in fields(part):
            digest.update(np.ascontiguousarray(getattr(part, item.name)).tobytes())
    for joint in evidence.joint:
        digest.update(repr((joint.trajectory, joint.time, joint.nodes)).encode())
        digest.update(np.ascontiguousarray(joint.log_likelihood).tobytes())
    named = {
        item.name: repr(getattr(settings, item.name))
        for item in fields(settings)
        if item.name not in _NOT_COMPARED
    }
    return {"format": FORMAT, "data": digest.hexdigest(), **named}


class Journal:
    """Scores by context (what they were computed around) and item (what was scored)."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._waiting: list[tuple[str, str, bytes]] = []
        self._last = time.monotonic()

    @classmethod
    def open(cls, path: str | Path, print_of: Mapping[str, str], resume: bool) -> Journal:
        """Open for writing; with ``resume`` what is there is kept and used."""
        place = Path(path)
        if place.exists() and not resume:
            _remove(place)
        if place.exists():
            problem = _damage(place)
            if problem is not None:
                aside = _set_aside(place)
                warnings.warn(
                    f"The journal {place.name} is damaged ({problem}); it was set aside as "
                    f"{aside.name} and the search starts anew.",
                    JournalWarning,
                    stacklevel=2,
                )
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            # results may arrive in another thread than the one that opened the file
            connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT)"
            )
            connection.execute(
                "CREATE TABLE IF NOT EXISTS scores (context TEXT, item TEXT, payload BLOB, "
                "PRIMARY KEY (context, item)) WITHOUT ROWID"
            )
            _match(connection, place, print_of)
        except sqlite3.Error as problem:
            raise _failure(place, problem) from None
        return cls(place, connection)

    def known(self, context: str) -> dict[str, FloatArray]:
        """All scores of one context."""
        rows = self._connection.execute(
            "SELECT item, payload FROM scores WHERE context = ?", (context,)
        )
        return {item: np.frombuffer(payload, dtype=np.float64).copy() for item, payload in rows}

    def add(self, context: str, item: str, scores: FloatArray) -> None:
        """Remember scores; written when a batch is full or a second has passed."""
        self._waiting.append((context, item, np.ascontiguousarray(scores, np.float64).tobytes()))
        if len(self._waiting) >= _BATCH or time.monotonic() - self._last > _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting, all or nothing."""
        if not self._waiting:
            return
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany(
                "INSERT OR REPLACE INTO scores VALUES (?, ?, ?)", self._waiting
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise _failure(self.path, problem) from None
        self._waiting.clear()
        self._last = time.monotonic()

    def close(self) -> None:
        """Write the rest and close; safe to call twice."""
        try:
            self.flush()
        finally:
            self._connection.close()


def context_of(*parts: Any) -> str:
    """A short, stable name for what scores are computed around."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _match(connection: sqlite3.Connection, place: Path, print_of: Mapping[str, str]) -> None:
    there = dict(connection.execute("SELECT name, value FROM meta"))
    if not there:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(print_of.items()))
        connection.execute("COMMIT")
        return
    differences = [
        f"{name} ({_short(there.get(name))} there, {_short(print_of.get(name))} here)"
        for name in sorted({*there, *print_of})
        if there.get(name) != print_of.get(name)
    ]
    if differences:
        connection.close()
        raise DataError(
            f"The journal {place.name} belongs to another search; different: "
            f"{'; '.join(differences)}. Use the same data and settings, or start anew."
        )


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return value if len(value) <= 40 else value[:37] + "…"


def _damage(place: Path) -> str | None:
    """What is wrong with an existing file, or None."""
    try:
        connection = sqlite3.connect(place)
        try:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
            connection.execute("SELECT count(*) FROM meta").fetchone()
            connection.execute("SELECT count(*) FROM scores").fetchone()
        finally:
            connection.close()
    except sqlite3.OperationalError as problem:
        if "no such table" in str(problem):
            # created, but killed before the first table: nothing to lose, nothing to trust
            return "it has no tables"
        return str(problem)
    except sqlite3.DatabaseError as problem:
        return str(problem)
    return None if verdict == "ok" else str(verdict)


def _companions(place: Path) -> list[Path]:
    return [place.with_name(place.name + end) for end in ("-wal", "-shm")]


def _remove(place: Path) -> None:
    for file in [place, *_companions(place)]:
        file.unlink(missing_ok=True)


def _set_aside(place: Path) -> Path:
    """Rename a damaged journal so that nothing reads it by accident."""
    number = 1
    while (aside := place.with_name(f"{place.name}.damaged-{number}")).exists():
        number += 1
    place.rename(aside)
    for file in _companions(place):
        file.unlink(missing_ok=True)
    return aside


def _failure(place: Path, problem: sqlite3.Error) -> AsterismError:
    text = str(problem)
    if "full" in text:
        return AsterismError(
            f"The disk is full: the journal {place.name} holds everything up to the last batch. "
            "Make room and resume."
        )
    return AsterismError(f"The journal {place.name} cannot be written ({text}).")
