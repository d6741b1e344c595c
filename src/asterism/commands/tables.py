"""Reads the table a command was given, after a look at its beginning.

The beginning is enough to refuse what is no table (an image, two gigabytes of zeros) at once and to
guess the columns; only then the file is read as a whole.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asterism.commands.column_guess import Columns, guess_columns, listed
from asterism.data.csv_files import check_csv, read_meta, refuse_workbook
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.data.validate import Problem
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
    from asterism.inference.memory import available_bytes

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
