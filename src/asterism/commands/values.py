"""What the value of a flag may be, and how it is read. Only click is imported here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

READABLE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(path_type=Path)
OLD_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

#: numbers that must be at least zero, or above zero
AMOUNT = click.FloatRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)

#: what ``convert`` reads and writes
FORMATS = ("paths", "pyagrum", "pyctbn", "likelihoods", "mat", "network", "edges", "graphml")


def names(_: click.Context, __: click.Parameter, value: Any) -> tuple[str, ...]:
    """``A,B`` and repeated flags alike."""
    given = [value] if isinstance(value, str) else list(value or ())
    return tuple(part.strip() for text in given for part in str(text).split(",") if part.strip())


def edges(_: click.Context, parameter: click.Parameter, value: Any) -> tuple[tuple[str, str], ...]:
    """``A->B``; ``A→B`` is understood too."""
    given = [value] if isinstance(value, str) else list(value or ())
    found = []
    for text in given:
        parent, arrow, child = str(text).replace("→", "->").partition("->")
        if not arrow or not parent.strip() or not child.strip():
            raise click.BadParameter(f"{text!r} is no edge; write PARENT->CHILD.", param=parameter)
        found.append((parent.strip(), child.strip()))
    return tuple(found)


def prior(_: click.Context, parameter: click.Parameter, value: str) -> tuple[float, float | str]:
    """``SHAPE`` or ``SHAPE,RATE``; the rate may be ``auto``."""
    shape, _comma, rate = str(value).partition(",")
    try:
        found = float(shape), None if rate.strip() in ("", "auto") else float(rate)
    except ValueError:
        found = math.nan, None
    if not all(number is None or 0.0 < number < math.inf for number in found):
        raise click.BadParameter(
            f"{value!r} is no prior; write SHAPE or SHAPE,RATE with positive numbers, such as 5 "
            "or 5,10.",
            param=parameter,
        )
    return found[0], "auto" if found[1] is None else found[1]


def jobs(_: click.Context, parameter: click.Parameter, value: int) -> int:
    """1, 2, … or -1."""
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value} is not 1, 2, … or -1 for all cores.", param=parameter)
    return value
