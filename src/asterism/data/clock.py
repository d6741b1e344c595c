"""Owns the reading of times: numbers, durations with a unit, numbered days, clock times and dates.

Whatever a time column holds, the result is numbers in one unit. The unit is the one the user asks
for, or that of the cells ("2h", "30 min", "Day 3"), or that of the column's name ("time_min"); for
dates it is guessed from the typical gap. How cells other than numbers were read is said in a note.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.numbers import ReadNumbers, is_missing, read_numbers
from asterism.errors import DataError, Sentence, Setting
from asterism.numerics.arrays import BoolArray, FloatArray

#: seconds of each unit, by the name that is used in sentences and on axes
SECONDS = {
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "days": 86400.0,
    "weeks": 7 * 86400.0,
    "months": 30.4375 * 86400.0,
    "years": 365.25 * 86400.0,
}

# fmt: off
_SPELLINGS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "mins", "minute", "minutes", "mpi"),
    "h": ("h", "hr", "hrs", "hour", "hours", "hpi"),
    "days": ("d", "day", "days", "dpi"),
    "weeks": ("w", "wk", "wks", "week", "weeks"),
    "months": ("mo", "month", "months"),
    "years": ("y", "yr", "yrs", "year", "years"),
}
# fmt: on
UNITS = {spelling: unit for unit, known in _SPELLINGS.items() for spelling in known}

#: words before a number that name no unit: T3, visit 2
_NO_UNIT = frozenset({"t", "tp", "time", "timepoint", "point", "visit"})

_NUMBER = r"[-+−]?[0-9][0-9.,]*"
_WITH_UNIT = re.compile(rf"({_NUMBER})\s*([a-z]+)\.?")
_NUMBERED = re.compile(rf"([a-z]+)[\s_.]*({_NUMBER})")
_CLOCK = re.compile(r"(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_ISO_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?")
_OTHER_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})|(\d{4})/(\d{1,2})/(\d{1,2})")
_ANY_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b")


class ReadTimes(NamedTuple):
    """The times of a column."""

    time: FloatArray
    """NaN where a cell is empty or cannot be read."""
    unit: str
    """"" if nothing says what it is."""
    note: Sentence | None
    """How cells that are not plain numbers were read."""
    number: ReadNumbers | None = None
    """The numbers in the cells, which say what commas are."""
    spelled: NDArray[Any] | None = None
    """The same as text."""


def known_unit(text: str) -> str:
    """The unit of a spelling, such as "h" for "hours"; refuses what is none."""
    unit = UNITS.get(text.strip().lower())
    if unit is None:
        raise DataError(Setting("unit"), f" {text!r} is unknown; valid are {', '.join(SECONDS)}.")
    return unit


def per_unit(unit: str | None) -> str:
    """What a rate is: "per h", "per day", or "per unit of time" where the unit is not known."""
    if not unit:
        return "per unit of time"
    return f"per {unit[:-1] if unit in ('days', 'weeks', 'months', 'years') else unit}"


def time_label(unit: str | None) -> str:
    """What an axis of times is called."""
    return f"time ({unit})" if unit else "time"


def amount_of(number: float, unit: str) -> str:
    """ "0.5 h", "1 day", "2 days"."""
    one = per_unit(unit).removeprefix("per ") if unit and number == 1 else unit
    return f"{number:g} {one}".strip()


def unit_of_column(name: str) -> str:
    """The unit in a column's name: "Time (h)", "time_min", "hours post dose"; "" if none."""
    words = re.findall(r"[a-z]+", name.lower())
    if not words:
        return ""
    in_brackets = re.search(r"[(\[]\s*([A-Za-z]+)\.?\s*[)\]]", name)
    last = in_brackets[1].lower() if in_brackets else words[-1]
    if not in_brackets and {"post", "after", "since", "from", "past"} & {*words[1:2]}:
        last = words[0]
    if len(words) == 1 and len(last) == 1:
        return UNITS.get(last, "") if last in ("h", "d") else ""
    return UNITS.get(last, "")


def read_clock(
    cells: NDArray[Any], column: str, wanted: str | None = None, comma: str | None = None
) -> ReadTimes:
    """The cells of a time column as numbers in one unit; ``comma`` as for ``read_numbers``."""
    read = read_numbers(cells, comma)
    parsed, is_text = read.value, read.is_text
    named = unit_of_column(column)
    target = None if wanted is None else known_unit(wanted)
    if not is_text.any():
        unit = target or named
        if target and named and target != named:
            note = Sentence(
                f"Column {column!r}: times in {named} are converted to {target} (",
                *(Setting("unit"), ")."),
            )
            return ReadTimes(parsed * (SECONDS[named] / SECONDS[target]), unit, note, read, cells)
        return ReadTimes(parsed, unit, None, read, cells)
    durations = _durations(cells, is_text, column, named, target, comma)
    if durations is not None:
        return durations
    dates = _dates(cells, parsed, is_text, column, target)
    return dates or ReadTimes(parsed, target or named, None, read, cells)


def is_date(value: Any) -> bool:
    """Whether a cell is a date or the text of one."""
    if isinstance(value, str):
        return _ANY_DATE.match(value.strip()) is not None
    return hasattr(value, "isoformat") and hasattr(value, "year")


# ---- durations ------------------------------------------------------------------------------


def _durations(
    cells: NDArray[Any],
    is_text: BoolArray,
    column: str,
    named: str,
    target: str | None,
    comma: str | None,
) -> ReadTimes | None:
    """Cells such as "2h" and "Day 3"; None unless most are like that."""
    found = {int(i): _duration(cells[i]) for i in np.flatnonzero(is_text)}
    spelled = cells.copy()
    for i, one in found.items():
        spelled[i] = None if one is None else one[0]
    number = read_numbers(spelled, comma)
    parsed = np.where(is_text, np.nan, number.value)
    read = {
        i: (float(number.value[i]), one[1])
        for i, one in found.items()
        if one is not None and not number.is_text[i]
    }
    n_plain = int((np.isfinite(parsed) & (parsed != 0.0)).sum())
    if len(read) <= (len(found) + n_plain) / 2:
        return None
    units = {unit for _, unit in read.values() if unit}
    common = target or min(units, key=SECONDS.__getitem__, default=named)
    time = np.full(len(cells), np.nan)
    for i in np.flatnonzero(np.isfinite(parsed)).tolist():
        # a number without a unit beside others with one: that of the column's name, if any
        time[i] = _in(common, parsed[i], named)
    for i, (amount, unit) in read.items():
        time[i] = _in(common, amount, unit or named)
    shown_row = max(read, key=lambda i: time[i])
    example, shown = str(cells[shown_row]).strip(), f"{time[shown_row]:g}"
    meaning = f" {common}" if common else ""
    note = Sentence(
        f"Column {column!r} holds times such as {example!r}, which is read as {shown}{meaning} (",
        *(Setting("unit"), ")."),
    )
    return ReadTimes(time, common, note, number, spelled)


def _in(target: str, number: float, unit: str) -> float:
    if number == 0.0 or not target or unit == target:
        return float(number)
    return number * SECONDS[unit] / SECONDS[target] if unit else math.nan


def _duration(cell: Any) -> tuple[str | float, str] | None:
    """Number, perhaps as text, and unit ("" if none) of a cell; None for anything else."""
    if hasattr(cell, "total_seconds"):
        return float(cell.total_seconds()), "s"
    text = str(cell).strip().lower()
    if found := _WITH_UNIT.fullmatch(text):
        unit = UNITS.get(found[2])
        return None if unit is None else (found[1], unit)
    if found := _NUMBERED.fullmatch(text):
        if found[1] in _NO_UNIT:
            return found[2], ""
        unit = UNITS.get(found[1])
        return None if unit is None else (found[2], unit)
    if found := _CLOCK.fullmatch(text):
        return int(found[1]) + int(found[2]) / 60 + float(found[3] or 0) / 3600, "h"
    return None


# ---- dates ----------------------------------------------------------------------------------


def _dates(
    cells: NDArray[Any],
    parsed: FloatArray,
    is_text: BoolArray,
    column: str,
    target: str | None,
) -> ReadTimes | None:
    """Dates as time since the first of them; None unless most cells are dates."""
    seconds = np.array([_seconds(v) if t else math.nan for v, t in zip(cells, is_text)])
    known = np.isfinite(seconds)
    n_given = int(is_text.sum() + np.isfinite(parsed).sum())
    if known.sum() <= n_given / 2:
        return None
    first = float(seconds[known].min())
    unit = target or _unit_of_gaps(seconds[known])
    begin = pd.Timestamp(first, unit="s")
    origin = begin.strftime("%Y-%m-%d" if begin == begin.normalize() else "%Y-%m-%d %H:%M:%S")
    note = Sentence(
        f"Column {column!r} holds dates: time is counted in {unit} from {origin} (",
        *(Setting("unit"), ")."),
    )
    return ReadTimes((seconds - first) / SECONDS[unit], unit, note)


def _seconds(value: Any) -> float:
    """Seconds since 1970 of a date, NaN where it is none; times without a zone count as UTC."""
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        text = value.strip()
        if other := _OTHER_DATE.fullmatch(text):
            day, month, year = other.group(1, 2, 3) if other[1] else other.group(6, 5, 4)
            text = f"{year}-{int(month):02d}-{int(day):02d}"
        elif not _ISO_DATE.fullmatch(text):
            return math.nan
        value = text
    elif not is_date(value):
        return math.nan
    try:
        stamp = pd.to_datetime(value, utc=True)
        return math.nan if stamp is pd.NaT else float(stamp.timestamp())
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _unit_of_gaps(seconds: FloatArray) -> str:
    """The largest unit up to days of which a typical gap has at least one."""
    gaps = np.diff(np.unique(seconds))
    typical = float(np.median(gaps)) if len(gaps) else SECONDS["days"]
    return next((unit for unit in ("days", "h", "min") if typical >= SECONDS[unit]), "s")
