"""Owns tables of observations in files, and the side files that complete them.

Beside ``NAME.csv`` may lie ``NAME.meta.json`` (start, end, order of nodes: what a table cannot
hold), ``NAME.events.csv`` and ``NAME.intervals.csv``; reading picks them up by themselves.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from asterism.data.columns import plain
from asterism.data.files import write_table, write_text
from asterism.data.json_files import read_json
from asterism.data.table_file import DECIMAL_COMMA, read_text_table
from asterism.errors import DataError, Setting

if TYPE_CHECKING:
    from asterism.data.observations import Observations
    from asterism.data.problems import Problem

FORMAT = "asterism-observations"
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")


def _with_points(frame: pd.DataFrame, names: set[str]) -> pd.DataFrame:
    """Decimal commas as points, in columns that hold no text with other commas.

    Columns called ``names`` hold no numbers and stay as they are. 1,200 may be a thousand: it is
    refused unless a neighbour settles it.
    """
    frame = frame.copy()
    for place, name in enumerate(frame.columns):
        cells = frame.iloc[:, place]
        with_comma = [c for c in cells if "," in c]
        if name in names or not with_comma:
            continue
        if not all(DECIMAL_COMMA.fullmatch(c) for c in with_comma):
            continue
        if all(_THOUSANDS.fullmatch(c) for c in with_comma):
            raise DataError(
                f"column {name!r}: {with_comma[0]!r} may be a thousand or a decimal; write it "
                "without a comma, or name the column with ",
                *(Setting("labels", ...), " if it holds names of states"),
            )
        frame.isetitem(place, [c.replace(",", ".") for c in cells])
    return frame


def side_file(path: str | Path, ending: str) -> Path:
    """``data.csv`` or ``data.csv.gz`` -> ``data.<ending>`` in the same folder."""
    path = Path(path)
    name = path.name
    if path.suffix.lower() in (".gz", ".bz2", ".xz"):
        name = path.stem
    stem = name[: -len(Path(name).suffix)] if Path(name).suffix else name
    return path.with_name(f"{stem}.{ending}")


def read_meta(path: str | Path, expected: str) -> dict[str, Any] | None:
    """The side file of a table, or None; a file written by a newer version is refused."""
    side = side_file(path, "meta.json")
    if not side.exists():
        return None
    meta = read_json(side, "side file")
    if not isinstance(meta, dict) or meta.get("format") != expected:
        raise DataError(f"{str(side)!r} is not a side file of format {expected!r}; move it away")
    version = meta.get("version", 0)
    if not isinstance(version, int) or version > 1:
        raise DataError(
            f"{str(side)!r} has version {meta['version']}; this program reads version 1: upgrade it"
        )
    if isinstance(meta.get("trajectories"), list):  # a sampled path is named (trajectory, draw)
        names = meta["trajectories"]
        meta["trajectories"] = [tuple(x) if isinstance(x, list) else x for x in names]
    for name, (is_right, what) in _FIELDS.items():
        if (name in meta or (name, expected) in _NEEDED) and not is_right(meta.get(name)):
            raise DataError(
                f"The side file {str(side)!r} is damaged: {name!r} must be {what}; restore it, or "
                "move it away."
            )
    n = len(meta["trajectories"])
    if any(len(meta[name]) != n for name in ("start", "end") if name in meta):
        raise DataError(
            f"The side file {str(side)!r} is damaged: it names {n} trajectories, but not as many "
            "starts and ends; restore it, or move it away."
        )
    return meta


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(part, str | int | float) for part in value)
    return isinstance(value, str | int | float)


def _are_different(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list) and all(map(is_right, v)) and len(set(v)) == len(v)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < math.inf for x in value
    )


#: what each field of a side file must be, and in words
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "kind": (lambda v: v in ("wide", "long"), "'wide' or 'long'"),
    "exact": (lambda v: v is None or _is_text(v), "the name of a column, or null"),
    "nodes": (_are_different(_is_text), "a list of different names"),
    "labels": (_are_different(_is_text), "a list of different names"),
    "trajectories": (_are_different(_is_name), "a list of different names"),
    "start": (_are_numbers, "a list of numbers"),
    "end": (_are_numbers, "a list of numbers"),
    "ties": (lambda v: v in ("error", "order"), "'error' or 'order'"),
    "time_unit": (lambda v: v is None or _is_text(v), "the name of a unit"),
    "states": (
        lambda v: isinstance(v, dict) and all(map(_are_different(_is_name), v.values())),
        "lists of different names",
    ),
}
_PATHS = "asterism-trajectories"
_NEEDED = {
    *((name, FORMAT) for name in ("kind", "exact", "nodes", "labels", "trajectories", "start")),
    *(("end", FORMAT), ("end", _PATHS), ("nodes", _PATHS), ("states", _PATHS)),
    ("trajectories", _PATHS),
}


def write_observations(observations: Observations, path: str | Path, kind: str = "wide") -> None:
    """Write a table and its side files."""
    from asterism.data.frames import exact_column

    meta = {
        "format": FORMAT,
        "version": 1,
        "kind": kind,
        "exact": exact_column(observations),
        "nodes": list(observations.measurements),
        "labels": [n for n, m in observations.measurements.items() if m.holds_labels],
        "trajectories": [plain(x) for x in observations.trajectories],
        "start": observations.start.tolist(),
        "end": observations.end.tolist(),
        "ties": observations.ties,
        "time_unit": observations.time_unit,
    }
    tables = {Path(path): observations.to_frame(kind)}
    for ending, table in (
        ("events.csv", observations.events_frame()),
        ("intervals.csv", observations.intervals_frame()),
    ):
        side = side_file(path, ending)
        if len(table):
            tables[side] = table
        else:
            side.unlink(missing_ok=True)  # or an old table would be read back
    # a side file of an older table must not outlive it, whenever we are stopped
    side_file(path, "meta.json").unlink(missing_ok=True)
    for target, table in tables.items():
        write_table(target, table)
    write_text(side_file(path, "meta.json"), json.dumps(meta, indent=1))


def read_observations(path: str | Path, **options: Any) -> Observations:
    """Read a table with its side files; ``options`` as in ``Observations.from_frame`` win."""
    from asterism.data.observations import Observations

    frame, settings, names = _gather(path, options)
    return _renamed(Observations.from_frame(frame, **settings), names)


def check_csv(path: str | Path, **options: Any) -> tuple[Observations | None, list[Problem]]:
    """Read a table with its side files and return every problem instead of raising."""
    from asterism.data.observations import Observations

    frame, settings, names = _gather(path, options)
    observations, problems = Observations.check_frame(frame, **settings)
    return (None if observations is None else _renamed(observations, names)), problems


def _gather(
    path: str | Path, options: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any], list[Any]]:
    settings: dict[str, Any] = {}
    names: list[Any] = []
    meta = read_meta(path, FORMAT)
    if meta is not None:
        names = list(meta["trajectories"])
        settings = {
            "start": dict(zip(names, meta["start"])),
            "end": dict(zip(names, meta["end"])),
            "kind": meta["kind"],
            "exact": meta.get("exact"),
            "nodes": meta["nodes"] or None,
            "labels": tuple(meta["labels"]),
            "ties": meta.get("ties", "error"),
            "unit": meta.get("time_unit") or None,
        }
    for table in ("events", "intervals"):
        side = side_file(path, f"{table}.csv")
        if side.exists():
            settings[table] = read_text_table(side)
    settings = {**settings, **options}
    frame = read_text_table(path, settings.pop("sheet", None))
    labels = settings.get("labels") or ()
    if meta is None and labels is not True:  # a side file says that we wrote points
        no_numbers = {settings.get("trajectory", "trajectory"), settings.get("node", "node")}
        frame = _with_points(frame, no_numbers | set(labels))
    return frame, settings, names


def _renamed(observations: Observations, names: list[Any]) -> Observations:
    """Trajectories in the order, and with the type of name, that they were written with."""
    from dataclasses import replace

    from asterism.data.columns import canonical

    by_text = {canonical(x): x for x in names}
    renamed = replace(
        observations,
        trajectories=tuple(by_text.get(canonical(x), x) for x in observations.trajectories),
    )
    if names and set(names) == set(renamed.trajectories):
        return renamed.select(names)
    return renamed
