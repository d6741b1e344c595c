"""Reads the table a command was given, after a look at its beginning.

The beginning is enough to refuse what is no table (an image, two gigabytes of zeros) at once and to
guess the columns; only then the file is read as a whole.

Guesses, from its header, what the columns of a table are; every guess is said, a flag wins.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asterism.data.columns import Problem
from asterism.data.csv_files import check_csv, read_meta, refuse_workbook
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, TooLargeError

#: a header, and so a line without any end, may be this long
LONGEST_HEADER = 4_000_000

#: cells are read as text first, which takes about this many bytes for one byte of the file
BYTES_PER_BYTE = 15


@dataclass(frozen=True)
class TableOptions:
    """How the user wants a table read; None and "auto" leave it to the guess."""

    data: Path
    trajectory: str | None = None
    time: str | None = None
    nodes: Sequence[str] = ()
    kind: str = "auto"
    start: float | None = None
    end: float | None = None
    sort: bool = False
    labels: Sequence[str] = ()
    ties: str = "error"
    exact: str | None = None


@dataclass(frozen=True)
class Table:
    """What was read, and what was decided on the way."""

    data: Observations | Trajectories | None
    """None where the table has errors."""
    columns: Columns
    decisions: tuple[str, ...]
    problems: tuple[Problem, ...]

    def require(self) -> Observations | Trajectories:
        """The data, or an error that names the first problems."""
        errors = [p for p in self.problems if p.severity == "error"]
        if self.data is None or errors:
            raise DataError(problem_text(errors))
        return self.data


def read_table(options: TableOptions) -> Table:
    """Guess, read, and collect every problem."""
    header = read_header(options.data)
    columns = guess_columns(header, options.kind, options.time, options.trajectory, options.nodes)
    require_size(options.data)
    try:
        if columns.kind == "paths":
            table = _read_paths(options, columns)
        else:
            table = _read_observations(options, columns)
    except csv.Error as error:
        raise DataError(f"{str(options.data)!r} is not a readable table: {error}.") from None
    except RecursionError:
        raise DataError(f"{str(options.data)!r} has a side file nested too deeply.") from None
    return replace(table, decisions=(*_said(columns, options), *table.decisions))


def read_header(path: Path) -> list[str]:
    """The names of the columns, from the beginning of the file alone."""
    with path.open("rb") as file:
        beginning = file.read(LONGEST_HEADER)
    if not beginning:
        raise DataError(f"{str(path)!r} is empty: it has 0 bytes.")
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{str(path)!r} is UTF-16 text; save it as CSV UTF-8.")
    refuse_workbook(path, beginning)
    if b"\0" in beginning:
        where = beginning.index(b"\0")
        raise DataError(f"{str(path)!r} is not a text file: byte {where} is zero.")
    lines = beginning.splitlines(keepends=True)
    line = next((line for line in lines if line.strip()), b"")
    if not line:
        raise DataError(f"{str(path)!r} is empty: it holds only blank lines.")
    if len(beginning) == LONGEST_HEADER and line is lines[-1]:
        raise DataError(
            f"{str(path)!r} is not a table: its first line is longer than "
            f"{LONGEST_HEADER:,} characters."
        )
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(path)!r} is not UTF-8 text (byte {error.start} of its header); save it as "
            "CSV UTF-8."
        ) from None
    separator = max(",;\t", key=text.count)
    try:
        cells = next(csv.reader(io.StringIO(text.strip("\r\n"), newline=""), delimiter=separator))
    except (csv.Error, StopIteration) as error:
        raise DataError(f"The header of {str(path)!r} cannot be read: {error}.") from None
    return [cell.strip() for cell in cells if cell.strip()]


def require_size(path: Path) -> None:
    """Refuse what would not fit into memory, with the numbers."""
    from asterism.numerics.resources import available_bytes

    size = path.stat().st_size
    needed, available = size * BYTES_PER_BYTE, available_bytes()
    if needed > 0.8 * available:
        raise TooLargeError(
            f"{str(path)!r} has {size / 1e9:.2f} GB; reading it would take about "
            f"{needed / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free. Keep fewer "
            "columns or trajectories."
        )


def file_hash(path: Path) -> str:
    """SHA-256 of the file, so that a run says what it was made from."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def only_nodes(observations: Observations, nodes: Sequence[str]) -> Observations:
    """The same observations without the measurements of other nodes."""
    kept = {node: observations.measurements[node] for node in nodes}
    return replace(observations, measurements=kept)


def only_paths(paths: Trajectories, nodes: Sequence[str]) -> Trajectories:
    """The same trajectories without the paths of other nodes."""
    frame = paths.to_frame()
    return Trajectories.from_frame(
        frame[frame["node"].isin(list(nodes))],
        states={node: paths.states[node] for node in nodes},
        end=dict(zip(paths.labels, paths.end.tolist())),
    )


def problem_text(problems: Sequence[Problem], shown: int = 5) -> str:
    """One paragraph: the first problems, and how many there are."""
    if len(problems) == 1:
        return f"{problems[0]}."
    lines = "\n".join(f"  {problem}" for problem in problems[:shown])
    more = f"\n  … and {len(problems) - shown} more; asterism check lists them all"
    count = f"the table has {len(problems)} problems:"
    return f"{count}\n{lines}{more if len(problems) > shown else ''}"


# ---- reading --------------------------------------------------------------------------------


def _read_observations(options: TableOptions, columns: Columns) -> Table:
    settings: dict[str, Any] = {
        "time": columns.time,
        "trajectory": columns.trajectory or "trajectory",
        "sort": options.sort,
    }
    if options.ties != "error":  # else what the side file says
        settings["ties"] = options.ties
    if options.labels:
        settings["labels"] = tuple(options.labels)
    if options.kind != "auto":
        settings["kind"] = columns.kind
    if columns.kind == "long":
        settings["node"] = columns.node
        if columns.value is not None:
            settings["value"] = columns.value
    for name in ("start", "end", "exact"):
        if getattr(options, name) is not None:
            settings[name] = getattr(options, name)
    decisions: tuple[str, ...] = ()
    if options.nodes:
        if columns.kind == "wide":
            settings["nodes"] = list(options.nodes)
        decisions = (f"Nodes: {listed(options.nodes)}, as asked.",)
    observations, problems = check_csv(options.data, **settings)
    if observations is not None and options.nodes:
        _require_nodes(options.nodes, list(observations.measurements))
        observations = only_nodes(observations, options.nodes)
    return Table(observations, columns, decisions, tuple(problems))


def _read_paths(options: TableOptions, columns: Columns) -> Table:
    from asterism.data.csv_files import read_text_table
    from asterism.data.path_tables import FORMAT

    if read_meta(options.data, FORMAT) is not None and not options.sort and options.end is None:
        paths = Trajectories.load(options.data)
    else:
        paths = Trajectories.from_frame(
            read_text_table(options.data),
            end=options.end,
            trajectory=columns.trajectory or "trajectory",
            time=columns.time,
            node=columns.node or "node",
            state=columns.value or "state",
            sort=options.sort,
        )
    decisions = []
    if options.nodes:
        _require_nodes(options.nodes, paths.nodes)
        paths = only_paths(paths, options.nodes)
        decisions.append(f"Nodes: {listed(options.nodes)}, as asked.")
    still = [node for node in paths.nodes if len(paths.states[node]) < 2]
    if still and len(still) < len(paths.nodes):
        paths = only_paths(paths, [node for node in paths.nodes if node not in still])
        decisions.append(f"Left out, as they are in one state throughout: {listed(still)}.")
    return Table(paths, columns, tuple(decisions), ())


def _require_nodes(asked: Sequence[str], nodes: Sequence[str]) -> None:
    unknown = [node for node in asked if node not in nodes]
    if unknown:
        raise DataError(f"There is no node {unknown[0]!r}; the nodes are {listed(nodes)}.")


def _said(columns: Columns, options: TableOptions) -> list[str]:
    kinds = {
        "wide": "one column per node",
        "long": "one row per measurement",
        "paths": "complete paths, each row a state that is entered",
    }
    trajectory = (
        f"column {columns.trajectory!r} names the trajectory (--trajectory)"
        if columns.trajectory is not None
        else "there is one trajectory, as no column names it (--trajectory COLUMN)"
    )
    others = "; the other columns are nodes (--nodes)"
    return [
        f"Table: {kinds[columns.kind]} (--kind); column {columns.time!r} is the time (--time); "
        f"{trajectory}{others if columns.kind == 'wide' and not options.nodes else ''}.",
    ]


# fmt: off
TIME = (
    "time", "t", "times", "timepoint", "time_point", "hours", "hour", "hrs", "h", "minutes",
    "minute", "mins", "min", "seconds", "second", "secs", "sec", "s", "days", "day", "weeks",
    "week", "months", "month", "years", "year", "age", "date", "datetime", "timestamp",
)
TRAJECTORY = (
    "trajectory", "trajectories", "replicate", "rep", "series", "experiment", "run", "cell",
    "cell_id", "patient", "patient_id", "subject", "subject_id", "individual", "id", "sample",
    "sample_id", "ptnum", "unit", "trial", "animal", "culture",
)
NODE = ("node", "gene", "variable", "var")
VALUE = ("value", "measurement", "expression", "level")
# fmt: on


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
    time = time or _first(free, TIME)
    if time is None:
        raise DataError(
            f"No column looks like the time; the columns are {listed(header)}. "
            "Name it with --time COLUMN."
        )
    free = [name for name in free if name != time]
    trajectory = trajectory or _first(free, TRAJECTORY)
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


def _first(header: Sequence[str], known: Sequence[str]) -> str | None:
    """The column whose name comes first among the known ones."""
    by_name: dict[str, str] = {}
    for name in header:
        by_name.setdefault(_normal(name), name)
    return next((by_name[name] for name in known if name in by_name), None)


def _normal(name: str) -> str:
    """ "Time (h)" and "Patient ID" as time and patient_id."""
    without_unit = re.sub(r"[\(\[].*?[\)\]]", "", name).strip().lower()
    return re.sub(r"[\s\-.]+", "_", without_unit)
