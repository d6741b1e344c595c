"""What a computation may take: memory, threads and time.

Memory is asked for before it is allocated. Large requests are refused with the figure and a way
out.

Threads run one kernel over a fixed list of chunks. The chunks depend on the amount of work only,
never on the number of threads, and results come back in order: sums over them are the same to the
last bit whatever ``n_jobs``.

Time: ``minutes`` of ``infer``, ``simulate`` and the learners opens a limit around the whole
call. Loops deep inside ask :func:`current_limit` whether it has passed, stop at the next place
where the result is whole, and note that they did: the result then says so. Compiled loops that may
run for long read a flag that a timer sets. Compiling a kernel cannot be interrupted: the first run
after an installation may pass a limit by as long as that takes.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import pairwise
from numbers import Integral
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from asterism.errors import AsterismError, Setting, TooLargeError
from asterism.numerics.progress import stage

_SHARE = 0.8
_SMALL = 64e6  # bytes that need no asking


def available_bytes() -> float:
    """Physical memory of the machine that is free or can be freed now (infinite if unknown)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as info:
            for line in info:
                if line.startswith("MemAvailable:"):
                    return 1024.0 * float(line.split()[1])
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def require_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise :class:`TooLargeError` if ``n_bytes`` would not fit comfortably."""
    if n_bytes <= _SMALL:
        return
    available = available_bytes()
    if n_bytes > _SHARE * available:
        raise TooLargeError(
            f"{what} would need {n_bytes / 1e9:.1f} GB, but only {available / 1e9:.1f} GB are "
            "available; ",
            remedy,
            " would fit",
        )


Result = TypeVar("Result")


def n_threads(n_jobs: int) -> int:
    """Threads meant by ``n_jobs``: −1 is one per core."""
    if n_jobs == -1:
        return max(1, os.cpu_count() or 1)
    given: object = n_jobs
    if not isinstance(given, Integral) or n_jobs < 1:
        raise AsterismError(
            Setting("n_jobs"), f" is {n_jobs!r}; valid are 1, 2, … or -1 for all cores."
        )
    return int(n_jobs)


def chunks(n_items: int, at_most: int = 16, at_least_each: int = 1) -> list[tuple[int, int]]:
    """Cut ``range(n_items)`` into neighbouring pieces of about equal size."""
    count = max(1, min(at_most, n_items // max(1, at_least_each)))
    return list(pairwise(n_items * i // count for i in range(count + 1)))


def map_chunks(
    work: Callable[[int, int], Result], pieces: list[tuple[int, int]], n_jobs: int
) -> list[Result]:
    """``work(first, last)`` of every piece, in order."""
    threads = min(n_threads(n_jobs), len(pieces))
    with stage(len(pieces)) as advance:

        def one(piece: tuple[int, int]) -> Result:
            result = work(*piece)
            advance(1)
            return result

        if threads <= 1:
            return [one(piece) for piece in pieces]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(one, pieces))


class TimeLimit:
    """Seconds from now on; infinitely many if None.

    ``used`` of them have passed already. ``reserve`` seconds at the end are kept for what makes a
    result whole: searches stop before them, :func:`time_to_finish` may use half of them, and
    writing the other half.
    """

    def __init__(
        self, seconds: float | None = None, reserve: float = 0.0, used: float = 0.0
    ) -> None:
        if seconds is not None and not (
            isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0.0
        ):
            raise AsterismError(
                Setting("minutes"), f" is {seconds!r}; it must be a positive number."
            )
        self.seconds = math.inf if seconds is None else float(seconds)
        self.reserve = reserve
        self._end = time.monotonic() + self.seconds - used - reserve
        self._flag = np.zeros(1, dtype=np.bool_)
        self.was_felt = False
        """Whether something was cut short because of it."""
        self.asked = False
        """Whether it ended because somebody asked for the best so far."""

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self.seconds < math.inf and self.left == 0.0

    def stops(self) -> bool:
        """Whether to stop now; notes that something was cut short if so."""
        if self.passed:
            self.was_felt = True
        return self.passed

    @property
    def flag(self) -> NDArray[np.bool_]:
        """(1,) whether the time is over: what compiled loops read between two iterations."""
        if self.passed:
            self._flag[0] = True
        return self._flag

    @contextmanager
    def timed(self, outer: TimeLimit) -> Iterator[TimeLimit]:
        """Set the flag when the time is over, or that of an outer limit."""
        if outer._end < self._end:
            self._end, self.reserve = outer._end, outer.reserve
        timer = threading.Timer(min(self.left, threading.TIMEOUT_MAX), self._flag.fill, (True,))
        timer.daemon = True
        timer.start()
        _in_force.append(self)
        try:
            yield self
        finally:
            _in_force.remove(self)
            timer.cancel()

    @property
    def sentence(self) -> str:
        """The beginning of a reason to stop."""
        if self.asked:
            return "Stopped when asked to"
        return f"Stopped after the time limit of {self.seconds:g} s"


#: the limits of all computations of this process
_in_force: list[TimeLimit] = []


def end_early() -> None:
    """Let every limit in force pass now: somebody asks for the best so far."""
    for limit in tuple(_in_force):
        limit._end, limit.asked = min(limit._end, time.monotonic()), True
        limit._flag.fill(True)


_current: ContextVar[TimeLimit | None] = ContextVar("time_limit", default=None)


def current_limit() -> TimeLimit:
    """The limit of the computation that we are a part of; without one, time is endless."""
    return _current.get() or TimeLimit()


def minutes_limit(
    minutes: float | None, reserve: float = 0.0, used: float = 0.0
) -> AbstractContextManager[TimeLimit]:
    """:func:`time_limit` as a user gives it.

    A ``reserve`` grows to a tenth of the limit and shrinks to half of it.
    """
    if minutes is None:
        return time_limit(None)
    TimeLimit(minutes)  # refuses what is no positive number
    if reserve:
        reserve = min(max(reserve, 6.0 * minutes), 30.0 * minutes)
    return time_limit(60.0 * minutes, reserve, used)


@contextmanager
def time_to_finish() -> Iterator[TimeLimit]:
    """Half of the limit's reserve, else a tenth of it and at least a second, to end a result."""
    limit = current_limit()
    if limit.seconds == math.inf:
        yield limit
        return
    more = 0.5 * limit.reserve if limit.reserve else max(1.0, 0.1 * limit.seconds)
    left = max(limit._end + more - time.monotonic(), 1e-3)
    with TimeLimit(left).timed(TimeLimit()) as extended:
        token = _current.set(extended)
        try:
            yield extended
        finally:
            _current.reset(token)


@contextmanager
def without_limit() -> Iterator[None]:
    """No limit inside, whatever is in force outside: for what must be whole to go on from."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def time_limit(
    seconds: float | None, reserve: float = 0.0, used: float = 0.0
) -> Iterator[TimeLimit]:
    """Limit what happens inside; an outer limit stays in force."""
    if seconds is None:
        yield current_limit()
        return
    limit = TimeLimit(seconds, reserve, used)
    with limit.timed(current_limit()):
        token = _current.set(limit)
        try:
            yield limit
        finally:
            _current.reset(token)
