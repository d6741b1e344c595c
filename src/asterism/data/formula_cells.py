"""Cells that a spreadsheet would run: written with an apostrophe in front, and read back without.

A cell that begins with =, +, −, @, a tab or a return is a formula to a spreadsheet, and a name in
somebody's data may be ``=cmd|…``. An apostrophe in front makes it text. Numbers stay as they are.
A text that begins with apostrophes and then such a character gets one more, so that reading takes
away exactly what writing added.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_RISKY = r"[=+\-@\t\r\u2212]"
_TO_ESCAPE = re.compile(rf"'*{_RISKY}")
_ESCAPED = re.compile(rf"'+{_RISKY}")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def escape_cell(value: Any) -> Any:
    """A text that a spreadsheet might run, as one that it shows; anything else as it is."""
    if isinstance(value, str) and _TO_ESCAPE.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def unescape_cell(text: str) -> str:
    """The inverse of :func:`escape_cell`."""
    return text[1:] if _ESCAPED.match(text) else text


def escaped(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names and texts that no spreadsheet runs."""
    safe = table.copy()
    safe.columns = pd.Index([escape_cell(name) for name in table.columns])
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            cells = [escape_cell(value) for value in table.iloc[:, place]]
            safe.isetitem(place, _objects(cells))
    return safe


def unescaped(table: pd.DataFrame) -> pd.DataFrame:
    """A table of texts as it was before it was written."""
    plain = table.copy()
    plain.columns = pd.Index([unescape_cell(str(name)) for name in table.columns])
    for place in range(table.shape[1]):
        cells = [
            unescape_cell(value) if isinstance(value, str) else value
            for value in table.iloc[:, place]
        ]
        plain.isetitem(place, _objects(cells))
    return plain


def _objects(cells: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
