"""Every score a search has computed, in an SQLite file: what an interrupted search resumes from.

One process writes, in batches, with write-ahead logging: a kill at any time loses at most the
last batch; a second process is refused. A search is deterministic, so that replaying it with the
scores found here leads to the same result, bit for bit, as if it had not been interrupted.

Nothing in the file is believed unseen. Every row carries a checksum over its key and its content;
damaged rows are dropped, counted and computed again. The file remembers which data, settings and
scoring code it belongs to, and refuses others, naming the difference. A file that SQLite cannot
read is set aside.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from asterism.data.files import as_json
from asterism.errors import Advice, AsterismError, DataError
from asterism.learning.learner_settings import KINDS
from asterism.learning.search.settings import StructureSettings
from asterism.numerics.arrays import FloatArray
from asterism.results.lock import lock_of, release, take
from asterism.timeline.evidence import Evidence

FORMAT = "2"
#: context, item, payload and checksum
Row = tuple[str, str, bytes, bytes]
_ROW = "context TEXT, item TEXT, payload BLOB, checksum BLOB"
_BATCH = 256
_SECONDS = 1.0
_NOT_COMPARED = frozenset({"n_jobs", "journal", "resume", "sampling"})
"""Settings that do not change any score."""


class JournalWarning(UserWarning):
    """A journal, or a part of it, was damaged and is not used."""


@contextmanager
def opened(
    settings: StructureSettings, nodes: Iterable[str], content: Iterable[Any]
) -> Iterator[Journal | None]:
    """The journal of a search, None where none is asked for; ``content``: arrays of the data."""
    search = settings.search
    if search.journal is None:
        yield None
        return
    journal = Journal.open(search.journal, fingerprint(settings, nodes, content), search.resume)
    try:
        yield journal
    finally:
        journal.close()


def evidence_content(evidence: Evidence) -> Iterator[Any]:
    """All numbers in the data of nodes that jump."""
    yield from (evidence.start, evidence.end)
    for part in (evidence.points, evidence.jumps, evidence.spans, evidence.interventions):
        yield from (getattr(part, item.name) for item in fields(part))
    for joint in evidence.joint:
        yield np.frombuffer(repr((joint.trajectory, joint.time, joint.nodes)).encode(), np.uint8)
        yield joint.log_likelihood


def fingerprint(
    settings: StructureSettings, nodes: Iterable[str], content: Iterable[Any]
) -> dict[str, str]:
    """What scores depend on: the data (as a hash) and every setting, by name."""
    digest = hashlib.sha256()
    for name in nodes:
        digest.update(name.encode("utf-8", "backslashreplace") + b"\0")
    for array in content:
        digest.update(np.ascontiguousarray(array).tobytes())
    named = {name: _in_short(value) for name, value in _each_setting(settings)}
    return {"format": FORMAT, "program": program(), "data": digest.hexdigest(), **named}


def _each_setting(settings: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of all that scores depend on, those inside objects too."""
    for item in fields(settings):
        value = getattr(settings, item.name)
        if item.name in _NOT_COMPARED:
            continue
        if item.name in KINDS:
            yield from _each_setting(value)
        else:
            yield item.name, value


_COMPUTES_SCORES = (
    *("numerics", "model", "timeline", "star", "clusters", "engine", "exact", "continuous"),
    "learning",
)


def program() -> str:
    """The version that computes scores, down to every line of the code that takes part."""
    from asterism import __version__

    package = Path(__file__).resolve().parents[2]
    digest = hashlib.blake2b(digest_size=8)
    for folder in _COMPUTES_SCORES:
        for file in sorted((package / folder).rglob("*.py")):
            digest.update(f"{file.relative_to(package).as_posix()}\0".encode())
            digest.update(hashlib.blake2b(file.read_bytes()).digest())
    return f"asterism {__version__}, code {digest.hexdigest()}"


def _in_short(value: Any) -> str:
    """A setting in words; a long one by its beginning and a hash of all of it."""
    text = repr(value)
    if len(text) <= 200:
        return text
    whole = json.dumps(as_json(value), sort_keys=True)
    return f"{text[:30]}… {hashlib.sha256(whole.encode('utf-8', 'replace')).hexdigest()}"


class Journal:
    """Scores by context (what they were computed around) and item (what was scored)."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: int, rows: Sequence[Row]
    ) -> None:
        self.path = path
        self._lock: int | None = lock
        self._connection = connection
        self._known: dict[str, dict[str, FloatArray]] = {}
        for context, item, payload, _ in rows:
            scores = np.frombuffer(payload, dtype=np.float64).copy()
            self._known.setdefault(context, {})[item] = scores
        self._waiting: list[Row] = []
        self._last = time.monotonic()

    @classmethod
    def open(cls, path: str | Path, print_of: Mapping[str, str], resume: bool) -> Journal:
        """Open for writing; with ``resume`` what is there is kept and used."""
        place, lock = Path(path), None
        meta: dict[str, str] = {}
        rows: list[Row] = []
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            lock = take(lock_of(place), place)
            if place.exists() and not resume:
                for file in [place, *_companions(place)]:
                    file.unlink(missing_ok=True)
            elif place.exists():
                meta, rows = _what_is_whole(place)
            _require_same(place, meta, print_of)
            connection = _connect(place, {**print_of, _META_CHECKSUM: _meta_checksum(print_of)})
        except BaseException as problem:
            if lock is not None:
                release(lock_of(place), lock)
            if isinstance(problem, (sqlite3.Error, OSError)):
                raise _failure(place, problem) from None
            raise
        return cls(place, connection, lock, rows)

    def known(self, context: str) -> dict[str, FloatArray]:
        """All scores of one context that were there when the file was opened."""
        return self._known.get(context, {})

    def add(self, context: str, item: str, scores: FloatArray) -> None:
        """Remember scores; written when a batch is full or a second has passed."""
        payload = np.ascontiguousarray(scores, np.float64).tobytes()
        self._waiting.append((context, item, payload, _checksum(context, item, payload)))
        if len(self._waiting) >= _BATCH or time.monotonic() - self._last > _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting, all or nothing."""
        if not self._waiting:
            return
        try:
            _insert(self._connection, "scores", self._waiting)
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
            if self._lock is not None:
                release(lock_of(self.path), self._lock)
                self._lock = None


def context_of(*parts: Any) -> str:
    """A short, stable name for what scores are computed around."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _checksum(context: str, item: str, payload: bytes) -> bytes:
    """Over the key and the content of a row, each with its length."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (context.encode("utf-8", "replace"), item.encode("utf-8", "replace"), payload):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _is_whole(context: Any, item: Any, payload: Any, checksum: Any) -> bool:
    """Whether a row is as it was written; SQLite would take any type in any column."""
    return (
        isinstance(context, str)
        and isinstance(item, str)
        and isinstance(payload, bytes)
        and len(payload) % 8 == 0
        and checksum == _checksum(context, item, payload)
    )


def _connect(place: Path, meta: Mapping[str, str]) -> sqlite3.Connection:
    """A connection, with the tables there and the description written."""
    # results may arrive in another thread than the one that opened the file
    connection = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT)")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS scores ({_ROW}, PRIMARY KEY (context, item)) WITHOUT ROWID"
    )
    _insert(connection, "meta", list(meta.items()))
    return connection


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """All or nothing."""
    if rows:
        connection.execute("BEGIN")
        places = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", rows)
        connection.execute("COMMIT")


def _require_same(place: Path, there: Mapping[str, str], print_of: Mapping[str, str]) -> None:
    """Refuse a journal of other data, settings or code; a new one has no description yet."""
    differences = [
        f"{name} ({_short(there.get(name))} there, {_short(print_of.get(name))} here)"
        for name in sorted({*there, *print_of} - {_META_CHECKSUM})
        if there.get(name) != print_of.get(name)
    ]
    if not there or not differences:
        return
    if there.get("program") != print_of.get("program"):
        raise DataError(
            f"The journal {place.name} holds scores of another version of the program "
            f"({there.get('program', 'an older one')} there, {print_of.get('program')} here); "
            "go on with that version, or start again."
        )
    raise DataError(
        f"The journal {place.name} belongs to another search; different: "
        f"{'; '.join(differences)}. Use the same data and settings, or ",
        Advice("start again.", "start again with --force."),
    )


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return value if len(value) <= 40 else value[:37] + "…"


_META_CHECKSUM = "checksum"


def _meta_checksum(content: Mapping[str, str]) -> str:
    text = json.dumps(dict(content), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _is_signed(meta: Mapping[Any, Any]) -> bool:
    """Whether the description is as it was written; the first format had no checksum."""
    if not all(isinstance(text, str) for item in meta.items() for text in item):
        return False
    content = {name: value for name, value in meta.items() if name != _META_CHECKSUM}
    if _META_CHECKSUM not in meta:
        return not content or content.get("format") == "1"
    return bool(meta[_META_CHECKSUM] == _meta_checksum(content))


class _Damaged(Exception):
    """What is wrong with a file as a whole."""


def _what_is_whole(place: Path) -> tuple[dict[str, str], list[Row]]:
    """Description and rows of an existing file; where any is damaged, the file is set aside."""
    try:
        meta, rows, n_damaged = _inspect(place)
        if not n_damaged:
            return meta, rows
        aside = _set_aside(place)
        connection = _connect(place, meta)
        _insert(connection, "scores", rows)
        connection.close()
        text = (
            f"{n_damaged} of {n_damaged + len(rows)} scores in the journal {place.name} are "
            "damaged; they are left out and computed again (the damaged file is kept as "
            f"{aside.name})."
        )
    except _Damaged as problem:
        meta, rows, aside = {}, [], _set_aside(place)
        text = (
            f"The journal {place.name} is damaged ({problem}); it was set aside as {aside.name} "
            "and the search starts again."
        )
    warnings.warn(text, JournalWarning, stacklevel=3)
    return meta, rows


def _inspect(place: Path) -> tuple[dict[str, str], list[Row], int]:
    """The description, whole rows, and the number of damaged ones; raises :class:`_Damaged`."""
    try:
        with closing(sqlite3.connect(place, timeout=0)) as connection:
            # a flipped bit may leave text that is no UTF-8
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            verdict = str(connection.execute("PRAGMA quick_check").fetchone()[0])
            if verdict != "ok":
                raise _Damaged(verdict.splitlines()[0])
            kinds = {kind for (kind,) in connection.execute("SELECT type FROM sqlite_master")}
            if kinds - {"table", "index"}:  # a view or a trigger may compute rows for ever
                raise _Damaged("it holds more than tables")
            meta = dict(connection.execute("SELECT name, value FROM meta"))
            if not _is_signed(meta):
                raise _Damaged("its description of data and settings was changed")
            if meta.get("format", FORMAT) != FORMAT:
                return meta, [], 0  # refused by its fingerprint
            rows = list(connection.execute("SELECT context, item, payload, checksum FROM scores"))
    except (sqlite3.Error, OverflowError, ValueError) as problem:
        # created, but killed before the first table: nothing to lose, nothing to trust
        empty = "no such table" in str(problem)
        raise _Damaged("it has no tables" if empty else str(problem)) from None
    whole = [row for row in rows if _is_whole(*row)]
    return meta, whole, len(rows) - len(whole)


def n_scores(place: Path) -> int:
    """How many scores a journal holds; 0 where it is none."""
    with suppress(_Damaged):
        return len(_inspect(place)[1]) if place.is_file() else 0
    return 0


def _companions(place: Path) -> list[Path]:
    return [place.with_name(place.name + end) for end in ("-wal", "-shm")]


def _set_aside(place: Path) -> Path:
    """Rename a damaged journal so that nothing reads it by accident."""
    number = 1
    while (aside := place.with_name(f"{place.name}.damaged-{number}")).exists():
        number += 1
    place.rename(aside)
    for file in _companions(place):
        file.unlink(missing_ok=True)
    return aside


def _failure(place: Path, problem: sqlite3.Error | OSError) -> AsterismError:
    text = str(getattr(problem, "strerror", None) or problem)
    if "full" in text or "No space" in text:
        return AsterismError(
            f"The disk is full: the journal {str(place)!r} holds everything up to the last batch. "
            "Make room and ",
            Advice("resume.", "go on with --resume."),
        )
    if "locked" in text:
        return DataError(f"The journal {str(place)!r} is being written by another process.")
    return AsterismError(f"The journal {str(place)!r} cannot be used ({text}).")
