"""How far a computation is: who is told, and the bars that show it.

A computation calls ``start``, ``advance`` and ``finish`` of a :class:`ProgressListener`; by default
nothing is shown. A total of zero says that nobody knows how much there is to do.
:class:`ProgressMeter` turns these calls into :class:`Stage` records, with the time gone and an
estimate of the time left. Loops deep inside tell the listener of the call that they are part of:
the call opens :func:`listening`, a loop opens a :func:`stage`.

In a notebook a bar is shown by itself, in a terminal when it is asked for. It appears only when the
work takes longer than a second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol


class ProgressListener(Protocol):
    """What a computation calls; stages follow one another and do not nest."""

    def start(self, total: int, what: str) -> None:
        """A stage of ``total`` equal pieces begins."""

    def advance(self, n: int = 1) -> None:
        """``n`` more pieces are done; may be called from several threads."""

    def finish(self) -> None:
        """The stage is over."""


class Silent:
    """Shows nothing."""

    def start(self, total: int, what: str) -> None:
        """Does nothing, as the others."""

    def advance(self, n: int = 1) -> None:
        """Does nothing."""

    def finish(self) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class Stage:
    """How far one stage of the work is."""

    what: str
    total: int
    done: int
    elapsed: float
    """Seconds since the stage began."""
    seconds_left: float | None
    """None as long as nothing is done, or where the total is not known."""
    finished: bool = False

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1; 0 where the total is not known."""
        return min(1.0, self.done / self.total) if self.total else 0.0


Ranking = Mapping[str, Mapping[str, float]]
"""Per child the probabilities of its parents."""


def tell_ranking(listener: ProgressListener, ranking: Callable[[], Ranking]) -> None:
    """What is known of the edges so far, if the listener shows that."""
    show = getattr(listener, "show_ranking", None)
    if show is not None:
        show(ranking())


class ProgressMeter:
    """Hands a :class:`Stage` to ``show`` whenever something changes, at most every ``interval``.

    The time left supposes that the pieces still to do take as long as those done.
    """

    def __init__(
        self,
        show: Callable[[Stage], None],
        interval: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
        show_ranking: Callable[[Ranking], None] | None = None,
    ) -> None:
        self._show = show
        self.show_ranking = show_ranking
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._what, self._total, self._done = "", 0, 0
        self._begin = self._shown = clock()

    def start(self, total: int, what: str) -> None:
        """A stage begins."""
        with self._lock:
            self._what, self._total, self._done = what, total, 0
            self._begin = self._clock()
            self._tell()

    def advance(self, n: int = 1) -> None:
        """More pieces are done."""
        with self._lock:
            self._done += n
            at_end = 0 < self._total <= self._done
            if self._clock() - self._shown >= self._interval or at_end:
                self._tell()

    def finish(self) -> None:
        """The stage is over."""
        with self._lock:
            self._tell(finished=True)

    def _tell(self, finished: bool = False) -> None:
        now = self._clock()
        elapsed = now - self._begin
        left: float | None = None
        if finished:
            left = 0.0
        elif self._done > 0 and self._total > 0:
            left = elapsed * max(self._total - self._done, 0) / self._done
        self._shown = now
        self._show(Stage(self._what, self._total, self._done, elapsed, left, finished))


class LongPart:
    """Passes on the stages of one part of a computation, once that part takes long.

    Edges found so far are not passed on: they are those of the part.
    """

    #: seconds that a part may take before its stages are shown
    BRIEF = 2.0

    def __init__(
        self,
        listener: ProgressListener,
        part: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener, self._part, self._clock = listener, part, clock
        self._begin = clock()
        self._lock = threading.Lock()
        self._total, self._what, self._done = 0, "", 0
        self._is_shown = False
        self.was_shown = False

    def start(self, total: int, what: str) -> None:
        """A stage of the part begins."""
        with self._lock:
            self._total, self._what, self._done = total, what, 0
            self._is_shown = False
            self._pass_on(0)

    def advance(self, n: int = 1) -> None:
        """More pieces of the stage are done."""
        with self._lock:
            self._done += n
            self._pass_on(n)

    def finish(self) -> None:
        """The stage is over."""
        with self._lock:
            if self._is_shown:
                self._listener.finish()

    def _pass_on(self, n: int) -> None:
        if self._is_shown:
            self._listener.advance(n)
        elif self._clock() - self._begin >= self.BRIEF:
            self._is_shown = self.was_shown = True
            self._listener.start(self._total, f"{self._part}: {self._what}")
            self._listener.advance(self._done)


#: seconds before a bar appears
BRIEF = 1.0


class NotebookBar:
    """One bar below the cell, which each stage takes over from the one before."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, stage: Stage) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            if stage.elapsed < BRIEF:
                return
            self._handle = display(HTML(bar_html(stage)), display_id=True)
        else:
            self._handle.update(HTML(bar_html(stage)))


class TextBar:
    """One line on stderr, written again and again."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, stage: Stage) -> None:
        if not self._width and stage.elapsed < BRIEF:
            return
        text = bar_text(stage)
        end = "\n" if stage.finished else ""
        print(f"\r{text:<{self._width}}", end=end, file=sys.stderr, flush=True)
        self._width = 0 if stage.finished else len(text)


def bar_text(stage: Stage) -> str:
    """Scoring: 120 of 232, about 4 s left."""
    if stage.finished:
        return f"{stage.what}: done in {stage.elapsed:.0f} s"
    if not stage.total:
        return f"{stage.what}: {stage.done:,}, {stage.elapsed:.0f} s"
    left = "" if stage.seconds_left is None else f", about {stage.seconds_left:.0f} s left"
    return f"{stage.what}: {stage.done:,} of {stage.total:,} ({stage.share:.0%}){left}"


def bar_html(stage: Stage) -> str:
    """The same with a bar before it."""
    value = stage.total if stage.finished else min(stage.done, stage.total)
    text = escape(bar_text(stage))
    known = f'value="{value}" max="{stage.total}" ' if stage.total else ""
    return f'<div><progress {known}style="width:16em" aria-label="{text}"></progress> {text}</div>'


# ---- who is told ------------------------------------------------------------------------------


def listener_for(progress: ProgressListener | bool | None) -> ProgressListener:
    """The listener that ``progress=`` asks for.

    None: a bar in notebooks only. True: a bar everywhere. False: none. Any other object is the
    listener itself.
    """
    if progress is False or (progress is None and not in_notebook()):
        return Silent()
    if progress is None or progress is True:
        return ProgressMeter(NotebookBar() if in_notebook() else TextBar(), interval=0.2)
    return progress


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, and not just a terminal with IPython."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


_SILENT = Silent()
#: the listener of the call that runs, what that call does, and the listener of its present stage
_listener: ContextVar[ProgressListener | None] = ContextVar("listener", default=None)
_task: ContextVar[str] = ContextVar("task", default="")
_stage: ContextVar[ProgressListener | None] = ContextVar("stage", default=None)


@contextmanager
def listening(progress: ProgressListener | bool | None, what: str = "") -> Iterator[None]:
    """What is computed inside, here called ``what``, tells this listener how far it is.

    Inside a call that has a listener, None leaves it in place.
    """
    outer = _listener.get()
    chosen = outer if progress is None and outer is not None else listener_for(progress)
    tokens = _listener.set(chosen), _task.set(what or _task.get())
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _task.reset(tokens[1])


@contextmanager
def stage(total: int = 0, what: str = "") -> Iterator[Callable[[int], None]]:
    """One stage of the present call; gives the function that says how many more pieces are done.

    Stages do not nest: a stage within a stage shows nothing.
    """
    listener = _SILENT if _stage.get() is not None else _listener.get() or _SILENT
    token = _stage.set(listener)
    listener.start(total, what or _task.get())
    try:
        yield listener.advance
    finally:
        _stage.reset(token)
    listener.finish()


def advance(n: int = 1) -> None:
    """``n`` more pieces of the present stage are done."""
    (_stage.get() or _SILENT).advance(n)


def in_percent(advance: Callable[[int], None]) -> Callable[[float], None]:
    """A function that is told the share done, for a stage of 100 pieces."""
    told = 0

    def tell(share: float) -> None:
        nonlocal told
        now = min(100, int(100 * share))
        advance(max(0, now - told))
        told = max(told, now)

    return tell
