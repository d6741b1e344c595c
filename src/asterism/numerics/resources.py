"""Ask before allocating: large requests are refused with the figure and a way out.

Runs one kernel over a fixed list of chunks, on one or several threads.

The chunks depend on the amount of work only, never on the number of threads, and results come
back in order: sums over them are the same to the last bit whatever ``n_jobs``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from numbers import Integral
from typing import TypeVar

from asterism.errors import AsterismError, Setting, TooLargeError

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
    if threads <= 1:
        return [work(first, last) for first, last in pieces]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda piece: work(*piece), pieces))
