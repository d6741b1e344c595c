"""Several names in one cell of a table: "A;B", with a backslash before a semicolon in a name."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(r"((?:[^;\\]|\\.)*)(;|$)", re.DOTALL)


def join_names(names: Iterable[str]) -> str:
    """No names give the empty text, and only no names do: an empty name is written as ``\\e``."""
    escaped = (name.replace("\\", "\\\\").replace(";", "\\;") or "\\e" for name in names)
    return ";".join(escaped)


def split_names(text: str) -> tuple[str, ...]:
    """The inverse of :func:`join_names`."""
    if text == "":
        return ()
    names = []
    for match in _PIECE.finditer(text):
        piece = match.group(1)
        names.append("" if piece == "\\e" else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))
        if match.group(2) == "":
            break
    return tuple(names)
