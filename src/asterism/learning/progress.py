"""How a long computation says how far it is.

Whoever computes calls ``start``, ``advance`` and ``finish`` of a :class:`Progress`; by default
nobody listens. :class:`ProgressMeter` turns these calls into :class:`Stage` records, with the time
gone and an estimate of the time left, for whoever shows them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """What a computation calls; stages follow one another and do not nest."""

    def start(self, total: int, what: str) -> None:
        """A stage of ``total`` equal pieces begins."""

    def advance(self, n: int = 1) -> None:
        """``n`` more pieces are done; may be called from several threads."""

    def finish(self) -> None:
        """The stage is over."""


class Silent:
    """Nobody listens."""

    def start(self, total: int, what: str) -> None: ...

    def advance(self, n: int = 1) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True)
class Stage:
    """How far one stage of the work is."""

    what: str
    total: int
    done: int
    elapsed: float
    """Seconds since the stage began."""
    seconds_left: float | None
    """None while nothing is done, and so nothing can be said."""
    finished: bool = False


class ProgressMeter:
    """Hands a :class:`Stage` to ``show`` whenever something changes, at most every ``interval``.

    The time left supposes that the pieces still to do take as long as those done.
    """

    def __init__(
        self,
        show: Callable[[Stage], None],
        interval: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._what, self._total, self._done = "", 0, 0
        self._begin = self._shown = clock()

    def start(self, total: int, what: str) -> None:
        with self._lock:
            self._what, self._total, self._done = what, total, 0
            self._begin = self._clock()
            self._tell()

    def advance(self, n: int = 1) -> None:
        with self._lock:
            self._done += n
            if self._clock() - self._shown >= self._interval or self._done >= self._total:
                self._tell()

    def finish(self) -> None:
        with self._lock:
            self._tell(finished=True)

    def _tell(self, finished: bool = False) -> None:
        now = self._clock()
        elapsed = now - self._begin
        left: float | None = None
        if finished:
            left = 0.0
        elif self._done > 0:
            left = elapsed * max(self._total - self._done, 0) / self._done
        self._shown = now
        self._show(Stage(self._what, self._total, self._done, elapsed, left, finished))
