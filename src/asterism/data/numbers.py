"""Decides what a cell of a table is: empty, a number, or text.

This is the one place where text becomes a number, whether it comes from a file, a workbook, a data
frame or a flag.

A number is what a person reads as one: a sign (+, - or the minus sign U+2212), the digits 0 to 9
with at most one decimal mark, and perhaps an exponent. Python's ``float`` takes more: ``1_000`` is
a label, and so are digits of other scripts. ``inf`` and ``infinity`` are numbers that are not
finite, which whoever needs a finite number refuses.

A comma may be a decimal mark (1,5) or separate thousands (12,345). Which of them it is, all cells
of a column decide together (:func:`read_numbers`): a cell that only one reading explains settles
it. Where both readings explain every cell, the column is *unclear* and the user has to say it.
Points separate thousands only where a cell shows it: 1.234,5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.numerics.arrays import BoolArray, FloatArray

#: How an empty cell may be spelled in a text file, in small letters.
MISSING_TEXT = frozenset(
    {"", "na", "n/a", "n.a.", "#n/a", "#na", "nan", "-nan", "<na>", "null", "nd", "n.d.", "n/d"}
    | {"missing", "not measured", ".", "?", "--", "#nv", "#value!", "#div/0!", "#ref!", "#num!"}
)

#: Says "not measured" too, unless the column holds "+" and so means plus and minus.
DASHES = frozenset({"-", "\N{EN DASH}", "\N{EM DASH}"})

#: The two meanings of a comma that a user can name.
COMMAS = ("decimal", "thousands")

_SIGN = "[-+\N{MINUS SIGN}]?"
_EXPONENT = "(?:[eE][-+]?[0-9]+)?"
_PLAIN = re.compile(rf"{_SIGN}(?:[0-9]+\.?[0-9]*|\.[0-9]+){_EXPONENT}")
_INFINITE = re.compile(rf"{_SIGN}inf(?:inity)?", re.IGNORECASE)
_THOUSANDS = re.compile(rf"{_SIGN}[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?")
_DECIMAL = re.compile(rf"{_SIGN}[0-9]*,[0-9]+{_EXPONENT}")
_GROUPS = rf"{_SIGN}[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+"
_GROUPED_DECIMAL = re.compile(rf"{_GROUPS},[0-9]+")
_POINT_GROUPS = re.compile(_GROUPS)
_DIGITS_AND_COMMAS = re.compile(rf"{_SIGN}[0-9.,]*,[0-9.,]*{_EXPONENT}")


class StoredNumber(str):
    """The text of a cell that a workbook stores as a number: its point is a decimal mark."""


class ReadNumbers(NamedTuple):
    """The cells of one column as numbers."""

    value: FloatArray
    """NaN where a cell is empty or text."""
    is_text: BoolArray
    comma: str = ""
    """What its commas are: "" (there are none), "decimal", "thousands"; "unclear" where both
    readings explain all cells, "mixed" where neither does."""
    first: int = -1
    """Where the first cell with a comma stands."""


def is_missing(value: object) -> bool:
    """Whether a cell says "not measured"."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return isinstance(value, str) and value.strip().lower() in MISSING_TEXT


def as_number(value: object) -> float | None:
    """The number that one value is or spells, without any comma; None where it is none."""
    if isinstance(value, str):
        text = value.strip()
        if _PLAIN.fullmatch(text) or _INFINITE.fullmatch(text):
            return _float(text)
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | Decimal):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        return float(value)
    return None


def possible_numbers(text: str) -> set[float]:
    """Every number that a text may spell, whatever its commas are."""
    plain = as_number(text)
    found = set() if plain is None else {plain}
    for comma in COMMAS:
        if (number := _with_comma(text.strip(), comma)) is not None:
            found.add(number)
    return found


def read_numbers(cells: NDArray[Any], comma: str | None = None) -> ReadNumbers:
    """All cells of a column as numbers; ``comma`` is what commas are where the cells leave it open.

    A column whose commas are unclear or mixed has to be refused by the caller; its numbers with a
    comma are read somehow, so that it can be told from a column of text.
    """
    if cells.dtype.kind == "f":
        return ReadNumbers(cells.astype(np.float64), np.zeros(len(cells), dtype=np.bool_))
    quick = plain_numbers(cells)
    if quick is not None:
        return ReadNumbers(quick, np.zeros(len(cells), dtype=np.bool_))
    value = np.full(len(cells), np.nan)
    is_text = np.zeros(len(cells), dtype=np.bool_)
    with_comma, pointed = [], []
    for i, cell in enumerate(cells):
        number = as_number(cell)
        if number is not None:
            value[i] = number
            if isinstance(cell, str) and "." in cell and not isinstance(cell, StoredNumber):
                pointed.append(i)
        elif not is_missing(cell):
            is_text[i] = True
            if isinstance(cell, str) and _DIGITS_AND_COMMAS.fullmatch(cell.strip()):
                with_comma.append(i)
    if not with_comma:
        return ReadNumbers(value, is_text)
    texts = [str(cells[i]).strip() for i in with_comma]
    meaning = _meaning(texts, [str(cells[i]).strip() for i in pointed])
    if meaning == "unclear" and comma is not None:
        meaning = comma
    if meaning == "text":
        return ReadNumbers(value, is_text)
    for i, text in zip(with_comma, texts):
        known = possible_numbers(text)
        number = _with_comma(text, meaning)
        value[i] = number if number is not None else min(known)
    is_text[with_comma] = False
    if meaning == "decimal":
        for i in pointed:  # only there where the points separate thousands
            value[i] = _float(str(cells[i]).strip().replace(".", ""))
    return ReadNumbers(value, is_text, meaning, with_comma[0])


def plain_numbers(cells: NDArray[Any]) -> FloatArray | None:
    """All cells at once where each is an ordinary number or empty; None where a look is needed."""
    if not set(map(type, cells)) <= {str, StoredNumber, float, int}:
        return None
    text = "".join(cell for cell in cells if isinstance(cell, str))
    if not text.isascii() or "_" in text:
        return None
    with suppress(ValueError, OverflowError):
        return cells.astype(np.float64)
    return None


def _meaning(with_comma: Iterable[str], pointed: Iterable[str]) -> str:
    """What the commas of a column are; "text" where a cell with a comma is no number at all."""
    thousands = decimal = True
    grouped = False
    for text in with_comma:
        grouped_here = _GROUPED_DECIMAL.fullmatch(text) is not None
        as_thousands = _THOUSANDS.fullmatch(text) is not None
        as_decimal = grouped_here or _DECIMAL.fullmatch(text) is not None
        if not as_thousands and not as_decimal:
            return "text"
        thousands, decimal = thousands and as_thousands, decimal and as_decimal
        grouped = grouped or grouped_here
    for text in pointed:  # a decimal point beside decimal commas, unless points separate thousands
        decimal = decimal and grouped and _POINT_GROUPS.fullmatch(text) is not None
    if thousands and decimal:
        return "unclear"
    return "thousands" if thousands else "decimal" if decimal else "mixed"


def _with_comma(text: str, comma: str) -> float | None:
    """The number that a text with a comma spells under one reading."""
    if comma == "thousands" and _THOUSANDS.fullmatch(text):
        return _float(text.replace(",", ""))
    if comma == "decimal" and _GROUPED_DECIMAL.fullmatch(text):
        return _float(text.replace(".", "").replace(",", "."))
    if comma == "decimal" and _DECIMAL.fullmatch(text):
        return _float(text.replace(",", "."))
    return None


def _float(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-"))
