"""What a command says while it runs, on stderr: a bar on a terminal, plain lines elsewhere.

Results go to files, or to stdout where a command was asked for them; ``carried_out`` prints them.
"""

from __future__ import annotations

import heapq
import json
import logging
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import click

from asterism.commands import exits
from asterism.commands.exits import in_flags
from asterism.numerics.progress import ProgressListener, ProgressMeter, Ranking, Stage
from asterism.numerics.resources import end_early

#: seconds between two lines about the same stage where there is no terminal
LINE_INTERVAL = 10.0

#: seconds that pass before a line says what is being done
BRIEF = 1.0

#: set to 1 by a program that starts a command and reads along
WATCHED = "ASTERISM_WATCHED"

#: where a command's context keeps the time at which it began
STARTED = "asterism.started"


def seconds_so_far() -> float:
    """Since the command began: libraries that it loaded first count for its limit of time."""
    context = click.get_current_context(silent=True)
    started = None if context is None else context.meta.get(STARTED)
    return 0.0 if started is None else time.monotonic() - float(started)


class Console:
    """Talks to stderr; ``quiet`` leaves out everything but warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._live: Any = None

    @property
    def on_terminal(self) -> bool:
        """Whether somebody watches who can be shown a bar."""
        try:
            return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        except (AttributeError, ValueError):  # there is no stderr
            return False

    def say(self, text: str) -> None:
        """A line, unless nobody wants to hear."""
        if not self.quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        """A warning, in the words of the running command."""
        words = in_flags(text).split()
        self._print(f"Warning: {' '.join(words)}")

    @property
    def is_watched(self) -> bool:
        """Whether a program reads along: lines that begin with { are then JSON."""
        return os.environ.get(WATCHED) == "1"

    def tell_program(self, **content: Any) -> None:
        """A line for the program that reads along."""
        self._print(json.dumps(content, ensure_ascii=False))

    def _print(self, text: str) -> None:
        # whether anybody listens must not decide whether results are written
        with suppress(OSError, ValueError):
            if self._live is not None:
                self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
            elif sys.stderr is not None:  # print would turn to stdout
                print(text, file=sys.stderr, flush=True)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Python's warnings and the log of asterism become lines of this console."""
        if self.is_watched:
            threading.Thread(target=_end_when_asked, daemon=True).start()
        handler = _LogLines(self)
        logger = logging.getLogger("asterism")
        logger.addHandler(handler)
        said: set[Any] = set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            text = message.args[0] if isinstance(message, Warning) and message.args else message
            if text not in said:
                said.add(text)
                self.warn(text if isinstance(text, str) else str(text))

        try:
            with warnings.catch_warnings():
                warnings.showwarning = show
                yield
        finally:
            logger.removeHandler(handler)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Work that cannot say how far it is: a line, or on a terminal the time it has taken.

        In a log, work that is over at once is not worth a line.
        """
        if self.is_watched:
            self.tell_program(stage=what, done=0, total=0)
            yield
            return
        if self.quiet or not self.on_terminal or self._live is not None:
            later = threading.Timer(BRIEF, self.say, [f"{what} …"])
            later.daemon = True
            later.start()
            try:
                yield
            finally:
                later.cancel()
            return
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
        with self._bars(*columns) as live:
            live.add_task(what, total=None)
            yield

    @contextmanager
    def progress(self) -> Iterator[ProgressListener]:
        """A listener for whoever computes."""
        if self.is_watched:
            told = _ForProgram(self)
            yield ProgressMeter(told, 0.5, show_ranking=told.show_ranking)
            return
        if self.quiet or not self.on_terminal:
            yield ProgressMeter(_PlainLines(self))
            return
        from rich import progress as rich

        columns = (
            *(rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn()),
            *(rich.MofNCompleteColumn(), rich.TimeElapsedColumn()),
            *(rich.TextColumn("left:"), rich.TimeRemainingColumn()),
        )
        with self._bars(*columns) as live:
            yield ProgressMeter(_Bar(live))

    @contextmanager
    def _bars(self, *columns: Any) -> Iterator[Any]:
        """Bars on the terminal, above which lines are printed while they last."""
        from rich.console import Console as Terminal
        from rich.progress import Progress

        with Progress(*columns, console=Terminal(stderr=True), transient=True) as live:
            self._live = live
            try:
                yield live
            finally:
                self._live = None


class Done(NamedTuple):
    """What a command came to: its summary for ``--json``, if there is one, and its exit code."""

    summary: Mapping[str, Any] | None = None
    code: int = exits.OK


def carried_out(name: str, run: Callable[[Any, Console], Done], options: Any) -> int:
    """Run a command with a console of its own, print its summary if asked, return its exit code."""
    console = Console(options.quiet)
    with console.listening():
        done = run(options, console)
    if options.as_json and done.summary is not None:
        print_json({"command": name, **done.summary})
    return done.code


def print_json(content: Mapping[str, Any]) -> None:
    """To stdout; numbers that JSON lacks become null or text."""
    from asterism.data.files import as_json

    text = json.dumps(as_json(content), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout (the results are written)") from None


class _Bar:
    """One bar, which each stage takes over from the one before."""

    def __init__(self, live: Any) -> None:
        self._live = live
        self._task: Any = None
        self._what = ""

    def __call__(self, stage: Stage) -> None:
        if self._task is None or stage.what != self._what or stage.done == 0:
            if self._task is not None:
                self._live.remove_task(self._task)
            self._task = self._live.add_task(stage.what, total=stage.total or None)
            self._what = stage.what
        self._live.update(self._task, completed=stage.done, total=stage.total or None)


class _PlainLines:
    """A line when a stage begins, and one every now and then while it lasts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._what = ""
        self._told = 0.0

    def __call__(self, stage: Stage) -> None:
        if stage.what != self._what:
            self._what, self._told = stage.what, 0.0
            self._console.say(f"{stage.what} …")
        elif stage.elapsed - self._told >= LINE_INTERVAL or stage.elapsed < self._told:
            self._told = stage.elapsed
            left = "" if stage.seconds_left is None else f", about {duration(stage.seconds_left)}"
            done = f"{stage.done:,} of {stage.total:,} ({stage.share:.0%})"
            if not stage.total:
                done = f"{stage.done:,}"
            self._console.say(f"{stage.what}: {done}{left and left + ' left'}")


class _ForProgram:
    """Stages, and the likeliest edges so far, as JSON."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: dict[str, Mapping[str, float]] = {}
        self._told = -math.inf

    def __call__(self, stage: Stage) -> None:
        self._console.tell_program(
            stage=stage.what, done=stage.done, total=stage.total, left=stage.seconds_left
        )
        if stage.finished:
            self._tell_ranking()

    def show_ranking(self, ranking: Ranking) -> None:
        self._known.update(ranking)
        if time.monotonic() - self._told > 1.0:
            self._tell_ranking()

    def _tell_ranking(self) -> None:
        if not self._known:
            return
        self._told = time.monotonic()
        edges = [(p, a, b) for b, own in self._known.items() for a, p in own.items() if p > 0.0]
        best = heapq.nsmallest(10, edges, key=lambda edge: (-edge[0], *edge[1:]))
        self._console.tell_program(ranking=[[a, b, round(float(p), 4)] for p, a, b in best])


def _end_when_asked() -> None:
    """A line from the program that reads along, or its end, asks for the best so far."""
    with suppress(OSError, ValueError):
        sys.stdin.readline()
        end_early()


class _LogLines(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.warn(record.getMessage() if record.args else record.msg)


def duration(seconds: float) -> str:
    """12 s, 3 min, 2 h 5 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
