"""Owns text files: sniffing how a table is written, and the side files that complete it.

Beside ``NAME.csv`` may lie ``NAME.meta.json`` (start, end, order of nodes: what a table cannot
hold), ``NAME.events.csv`` and ``NAME.intervals.csv``; reading picks them up by themselves.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from asterism.data.columns import plain
from asterism.data.files import write_table, write_text
from asterism.data.formula_cells import unescape_cell
from asterism.data.json_files import read_json
from asterism.errors import DataError

if TYPE_CHECKING:
    from asterism.data.columns import Problem
    from asterism.data.observations import Observations

FORMAT = "asterism-observations"
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")


def read_text_table(path: str | Path) -> pd.DataFrame:
    """A table of text cells, separated by commas, semicolons or tabs; BOM and CRLF are fine.

    In files separated by semicolons or tabs, numbers may be written with a decimal comma.
    Duplicate column names are kept, so that they can be reported.
    """
    try:
        content = Path(path).read_bytes()
        refuse_workbook(path, content)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not a UTF-8 text file (byte {error.start}); save it as CSV UTF-8"
        ) from None
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise DataError(f"{str(path)!r} is empty")
    header = next(line for line in lines if line.strip())
    separator = max(",;\t", key=header.count)
    table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    names = [unescape_cell(name.strip()) for name in table[0]]
    while names and not names[-1]:
        names.pop()  # a trailing separator makes an empty last column
    for number, row in enumerate(table[1:], start=2):
        if any("\n" in cell or "\r" in cell for cell in row):
            raise DataError(
                f"{str(path)!r}, row {number}: a cell in quotes runs over several lines; "
                "is a quotation mark not closed?"
            )
        if any(cell.strip() for cell in row[len(names) :]) or len(row) < len(names):
            raise DataError(
                f"{str(path)!r}, row {number}: {len(row)} cells, but the header has {len(names)}"
            )
    body = [[unescape_cell(cell.strip()) for cell in row[: len(names)]] for row in table[1:]]
    if separator != "," and any(_DECIMAL_COMMA.fullmatch(c) for row in body for c in row):
        body = [
            [c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c) else c for c in row] for row in body
        ]
    frame = pd.DataFrame(body, columns=range(len(names)), dtype=object)
    frame.columns = pd.Index(names)
    return frame


def refuse_workbook(path: str | Path, beginning: bytes) -> None:
    """Say what a workbook is before it is called unreadable text."""
    if beginning.startswith(b"PK\x03\x04"):  # as all zip archives do
        raise DataError(
            f"{str(path)!r} is no text but a zip archive, as workbooks of Excel are; save the "
            "sheet as CSV UTF-8."
        )


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
        if not all(_DECIMAL_COMMA.fullmatch(c) for c in with_comma):
            continue
        if all(_THOUSANDS.fullmatch(c) for c in with_comma):
            raise DataError(
                f"column {name!r}: {with_comma[0]!r} may be a thousand or a decimal; write it "
                "without a comma, or list the column in labels= if it holds names of states"
            )
        frame.isetitem(place, [c.replace(",", ".") for c in cells])
    return frame


def side_file(path: str | Path, ending: str) -> Path:
    """``data.csv`` -> ``data.<ending>`` in the same folder."""
    path = Path(path)
    stem = path.name[: -len(path.suffix)] if path.suffix else path.name
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
    return meta


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
            "exact": meta["exact"],
            "nodes": meta["nodes"] or None,
            "labels": tuple(meta["labels"]),
            "ties": meta.get("ties", "error"),
        }
    for table in ("events", "intervals"):
        side = side_file(path, f"{table}.csv")
        if side.exists():
            settings[table] = read_text_table(side)
    frame, settings = read_text_table(path), {**settings, **options}
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
