"""Bars that show how far ``fit`` is: in a notebook by itself, in a terminal when asked for.

A bar appears only when the work takes longer than a second.
"""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asterism.learning.tasks import Stage

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
    left = "" if stage.seconds_left is None else f", about {stage.seconds_left:.0f} s left"
    return f"{stage.what}: {stage.done:,} of {stage.total:,}{left}"


def bar_html(stage: Stage) -> str:
    """The same with a bar before it."""
    value = stage.total if stage.finished else min(stage.done, stage.total)
    text = escape(bar_text(stage))
    return (
        f'<div><progress value="{value}" max="{max(stage.total, 1)}" style="width:16em" '
        f'aria-label="{text}"></progress> {text}</div>'
    )
