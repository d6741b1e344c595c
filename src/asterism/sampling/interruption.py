"""Owns how Ctrl-C reaches a run of chains: between two batches of sweeps, never within one.

A chain that is stopped amid a sweep cannot go on: its paths would be half of one draw and half of
the next. So the first Ctrl-C waits until the present batch is done, about a second. The second one
does not wait; then the last checkpoint stays as it was.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interruption:
    """While it is open, Ctrl-C is remembered instead of obeyed; :meth:`obey` obeys it."""

    def __init__(self) -> None:
        self.asked = False
        self.at_once = False
        """A second Ctrl-C stopped the chains wherever they were."""
        self._usual: Any = None

    def __enter__(self) -> Self:
        # Python hears signals in its main thread only; a program that ignores Ctrl-C goes on so
        if threading.current_thread() is threading.main_thread():
            usual = signal.getsignal(signal.SIGINT)
            if callable(usual):
                self._usual = usual
                signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._usual)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.at_once = True
            self._usual(number, frame)
        self.asked = True

    def obey(self) -> None:
        """Called between two batches."""
        if self.asked:
            raise KeyboardInterrupt
