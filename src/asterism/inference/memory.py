"""Ask before allocating: large requests are refused with the figure and a way out."""

from __future__ import annotations

import os

from asterism.errors import TooLargeError

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
            f"available; {remedy} would fit"
        )
