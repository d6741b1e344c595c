"""Guesses, from the header of a table, what its columns are; every guess is said, a flag wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from asterism.data.clock import UNITS
from asterism.errors import DataError

# fmt: off
TIME = (
    "time", "t", "times", "timepoint", "time_point", "tp", "elapsed", "elapsed_time",
    "hours", "hour", "hrs", "h", "hpi", "minutes", "minute", "mins", "min", "seconds", "second",
    "secs", "sec", "s", "days", "day", "dpi", "weeks", "week", "months", "month", "years", "year",
    "age", "date", "datetime", "date_time", "timestamp", "visit_date", "sampling_date",
)
TRAJECTORY = (
    "trajectory", "trajectories", "replicate", "rep", "biorep", "bio_rep", "biological_replicate",
    "series", "experiment", "run", "cell", "patient", "subject", "participant", "person", "donor",
    "individual", "mouse", "rat", "animal", "fish", "embryo", "plant", "well", "culture", "colony",
    "clone", "id", "sample", "specimen", "ptnum", "unit", "trial",
)
NODE = ("node", "gene", "variable", "var")
VALUE = ("value", "measurement", "expression", "level")
# fmt: on

#: what may follow the name of a trajectory column: patient_id, Mouse No.
_NUMBERING = re.compile(r"_(id|ids|no|nr|num|number|name|label|index)$")
_UNIT = re.compile(rf"_({'|'.join(UNITS)})$")


@dataclass(frozen=True)
class Columns:
    """Which column is what; ``kind`` is "wide", "long" or "paths"."""

    kind: str
    time: str
    trajectory: str | None
    node: str | None = None
    value: str | None = None

    @property
    def taken(self) -> set[str]:
        """Columns that are not nodes of a wide table."""
        return {name for name in (self.time, self.trajectory) if name is not None}


def guess_columns(
    header: Sequence[str],
    kind: str = "auto",
    time: str | None = None,
    trajectory: str | None = None,
    nodes: Sequence[str] = (),
) -> Columns:
    """What the user named, and the likeliest column for the rest."""
    free = [name for name in header if name not in nodes]
    for flag, given in (("--time", time), ("--trajectory", trajectory)):
        if given is not None and given not in header:
            raise DataError(f"{flag} {given!r} names no column; the columns are {listed(header)}.")
    time = time or _first(free, TIME, _UNIT)
    if time is None:
        raise DataError(
            f"No column looks like the time; the columns are {listed(header)}. "
            "Name it with --time COLUMN."
        )
    free = [name for name in free if name != time]
    trajectory = trajectory or _first(free, TRAJECTORY, _NUMBERING)
    free = [name for name in free if name != trajectory]
    node, value = _first(free, NODE), _first(free, VALUE)
    has_state = "state" in free and value is None
    likelihoods = any(name.startswith("p_") for name in free)
    if kind == "auto":
        if node is not None and has_state and len(free) == 2:
            kind = "paths"
        elif node is not None and (value is not None or likelihoods):
            kind = "long"
        else:
            kind = "wide"
    if kind == "wide":
        return Columns("wide", time, trajectory)
    if node is None:
        raise DataError(
            f"A table of kind {kind!r} needs a column 'node'; the columns are {listed(header)}."
        )
    return Columns(kind, time, trajectory, node, "state" if kind == "paths" else value)


def listed(names: Sequence[object], shown: int = 12) -> str:
    """The first few names, and how many more."""
    text = ", ".join(repr(str(name)) for name in names[:shown])
    return text + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _first(
    header: Sequence[str], known: Sequence[str], ending: re.Pattern[str] | None = None
) -> str | None:
    """The column whose name comes first among the known ones, with or without an ending."""
    by_name: dict[str, str] = {}
    for name in header:
        by_name.setdefault(_normal(name), name)
    if ending is not None:
        for name in header:
            by_name.setdefault(ending.sub("", _normal(name)), name)
    return next((by_name[name] for name in known if name in by_name), None)


def _normal(name: str) -> str:
    """ "Time (h)" and "Patient ID" as time and patient_id."""
    without_unit = re.sub(r"[\(\[].*?[\)\]]", "", name).strip().lower()
    return re.sub(r"[\s\-.]+", "_", without_unit).strip("_")
