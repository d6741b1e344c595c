"""How long a computation may take: whoever starts it sets a limit, whoever loops asks for it.

``max_seconds`` of ``infer``, ``simulate`` and the learners opens a limit around the whole call.
Loops deep inside ask :func:`current_limit` whether it has passed, stop at the next place where the
result is whole, and note that they did: the result then says so. The clock is asked between pieces
of work, so a limit may be passed by the length of one piece; the first compilation counts too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from asterism.errors import AsterismError, Setting


class TimeLimit:
    """Seconds from now on; infinitely many if None."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not (
            isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0.0
        ):
            raise AsterismError(
                Setting("max_seconds"), f" is {seconds!r}; it must be a positive number."
            )
        self.seconds = math.inf if seconds is None else float(seconds)
        self._end = time.monotonic() + self.seconds
        self.was_felt = False
        """Whether something was cut short because of it."""

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.seconds < math.inf and self.left == 0.0

    def stops(self) -> bool:
        """Whether to stop now; notes that something was cut short if so."""
        if self.passed:
            self.was_felt = True
        return self.passed

    @property
    def sentence(self) -> str:
        """The beginning of a reason to stop."""
        return f"Stopped after the time limit of {self.seconds:g} s"


_current: ContextVar[TimeLimit | None] = ContextVar("time_limit", default=None)


def current_limit() -> TimeLimit:
    """The limit of the computation that we are a part of; without one, time is endless."""
    return _current.get() or TimeLimit()


@contextmanager
def time_limit(max_seconds: float | None) -> Iterator[TimeLimit]:
    """Limit what happens inside; an outer limit stays in force where none is given."""
    if max_seconds is None:
        yield current_limit()
        return
    limit = TimeLimit(max_seconds)
    token = _current.set(limit)
    try:
        yield limit
    finally:
        _current.reset(token)
