"""How objects show themselves in notebooks: a small card of facts and a table, as HTML.

Used by the ``_repr_html_`` of networks, observations, paths, posteriors, learners and runs. It
imports nothing of the package, so that every layer may use it. Names only ever enter as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

#: rows that a card shows of a table
MOST_ROWS = 12

_CARD = (
    "border:1px solid #8a94a055;border-radius:8px;padding:0.6em 0.9em;display:inline-block;"
    "max-width:100%;overflow-x:auto;font-family:system-ui,sans-serif;line-height:1.45"
)
_CELL = "text-align:left;padding:0.15em 1.2em 0.15em 0;vertical-align:top"
_SOFT = "opacity:0.7;font-size:0.9em"


def card(
    title: str,
    facts: Iterable[tuple[str, Any]] = (),
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[Any]] = (),
    n_rows: int | None = None,
    warning: str = "",
) -> str:
    """A title, facts as "name value", and a table, cut after a few rows with a note.

    ``n_rows`` is how many rows there are where ``rows`` holds only the first of them.
    """
    parts = [f'<div style="{_CARD}"><strong>{escape(title)}</strong>']
    said = [f"{escape(name)} {escape(str(value))}" for name, value in facts]
    if said:
        parts.append(f'<div style="{_SOFT}">{" · ".join(said)}</div>')
    if warning:
        parts.append(f'<div style="color:#b35900"><strong>{escape(warning)}</strong></div>')
    if rows:
        parts.append(_table(columns, rows, len(rows) if n_rows is None else n_rows))
    return "".join([*parts, "</div>"])


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], n_rows: int) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in columns)
    shown = rows[:MOST_ROWS]
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape(str(v))}</td>' for v in row) + "</tr>"
        for row in shown
    )
    left = n_rows - len(shown)
    note = f'<div style="{_SOFT}">and {left:,} more</div>' if left > 0 else ""
    style = "border-collapse:collapse;margin-top:0.4em;font-variant-numeric:tabular-nums"
    return (
        f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}'
    )
