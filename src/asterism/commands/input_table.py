"""Reads the table a command was given, after a look at its beginning.

The beginning is enough to refuse what is no table (an image, two gigabytes of zeros) at once and to
guess the columns; only then the file is read as a whole.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asterism.commands.exits import in_flags
from asterism.commands.options import TableOptions
from asterism.data.clock import UNITS
from asterism.data.columns import cells, missing, without_codes
from asterism.data.counting_tables import CountingColumns, read_counting, require_counting
from asterism.data.files import read_meta, sha256
from asterism.data.labels import letters
from asterism.data.measurements import wide_keys
from asterism.data.observations import Observations
from asterism.data.panel_records import changes
from asterism.data.path_tables import FORMAT, open_ended
from asterism.data.problems import (
    DataWarning,
    Problems,
    TableError,
    TableProblem,
    as_error,
    line_numbers,
    listed,
)
from asterism.data.sample_tables import (
    SampleTable,
    annotated,
    annotations_beside,
    read_grid,
    read_names,
    sample_table,
)
from asterism.data.table_file import (
    BYTES_PER_BYTE,
    first_rows,
    read_header,
    read_text_table,
    sheet_names,
    too_large,
)
from asterism.data.table_reader import TableReader
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, counted, quoted, require_known
from asterism.numerics.resources import available_bytes


@dataclass(frozen=True)
class Table:
    """What was read, and what was decided on the way."""

    data: Observations | Trajectories | None
    """None where the table has errors."""
    columns: Columns
    decisions: tuple[str, ...]
    problems: tuple[TableProblem, ...]
    transitions: tuple[tuple[str, str], ...] = ()
    """Transitions that a counting table shows to be possible."""
    stays: pd.DataFrame | None = None
    """Of a counting table: one row per stay, its start in numbers."""

    @property
    def errors(self) -> list[TableProblem]:
        """What keeps the table from being used."""
        return [p for p in self.problems if p.severity == "error"]

    def require(self) -> Observations | Trajectories:
        """The data, or an error that names the first problems."""
        if self.data is None or self.errors:
            raise as_error(self.errors)
        return self.data


def read_table(options: TableOptions) -> Table:
    """Guess, read, and collect every problem."""
    options = with_sheet(options)
    header = require_readable(options)
    samples = _samples_if_told(options)
    if samples is not None:
        return _read_samples(options, samples)
    try:
        columns = _guessed(options, header)
    except DataError as error:
        samples = _samples_if_found(options)
        if samples is not None:
            return _read_samples(options, samples)
        sheets = sheet_names(options.data) if options.sheet is None else []
        if len(sheets) < 2:
            raise
        raise DataError(
            error.sentence,
            f" This is the first sheet of the workbook; its sheets are {quoted(sheets)} (--sheet).",
        ) from None
    _require_columns(options.end_column, header, "--end-column names")
    try:
        if columns.kind == COUNTING:
            table = _read_counting(options, columns)
        elif columns.kind == "paths":
            table = _read_paths(options, columns)
        else:
            table = _read_observations(options, columns)
    except csv.Error as error:
        raise DataError(f"{str(options.data)!r} is not a readable table: {error}.") from None
    except RecursionError:
        raise DataError(f"{str(options.data)!r} has a side file nested too deeply.") from None
    except TableError as error:
        table = Table(None, columns, (), error.problems)
    said_of_cells = (p for p in table.problems if p.severity == "note")
    notes = [in_flags(line) for line in listed(said_of_cells, shown=2)]
    unit = table.data.time_unit if table.data is not None else ""
    said = _said(columns, options, unit)
    return _chosen(replace(table, decisions=(*said, *notes, *table.decisions)), options.top)


def with_sheet(options: TableOptions) -> TableOptions:
    """The first sheet of a workbook that looks like a table, where none is named."""
    if options.sheet is not None or options.samples is not None:
        return options
    sheets = sheet_names(options.data)
    for number, name in enumerate(sheets if len(sheets) > 1 else ()):
        trial = replace(options, sheet=name)
        try:
            header = read_header(trial.data, name)
            with suppress(DataError):
                _guessed(trial, header)
                return trial if number else options
            if _samples_if_found(trial) is not None:
                return trial if number else options
        except DataError:  # an empty sheet, or a legend
            continue
    return options


_PERIOD = re.compile(r"[0-9]{4} ?[-–/] ?[0-9]{2,4}")


def _guessed(options: TableOptions, header: Sequence[str]) -> Columns:
    """What the columns are; periods and ages at a first visit are not the time."""
    header, time = [name for name in header if name != options.end_column], options.time
    if time is None:
        wanted = _all_known([n for n in header if n not in options.nodes], TIME, _UNIT)
        doubtful = [name for name in wanted if _normal(name) in _DOUBTFUL]
        if doubtful:
            rows = first_rows(options.data, options.sheet)
            wrong = {name for name in doubtful if _holds_periods(_column(rows, name))}
            names = options.trajectory or _first(header, TRAJECTORY, _NUMBERING)
            still = {name for name in doubtful if names and _stands_still(rows, name, names)}
            if len(wrong | still) < len(wanted):
                wrong |= still
            header = [name for name in header if name not in wrong]
            if len(wrong) == len(wanted):
                raise DataError(
                    f"No column looks like the time: column {doubtful[0]!r} holds no single times. "
                    "Name the column with --time COLUMN."
                )
    return guess_columns(header, options.kind, time, options.trajectory, options.nodes)


def _column(rows: Sequence[Sequence[str]], name: str) -> list[str]:
    """The cells of a column in the first rows, below its name."""
    place = [cell.strip() for cell in rows[0]].index(name)
    return [row[place].strip() if len(row) > place else "" for row in rows[1:]]


def _holds_periods(column: Sequence[str]) -> bool:
    """Whether most cells are spans of years, such as 1995-1998."""
    given = [cell for cell in column if cell]
    return 2 * sum(_PERIOD.fullmatch(cell) is not None for cell in given) > len(given)


def _stands_still(rows: Sequence[Sequence[str]], name: str, trajectory: str) -> bool:
    """Whether a column has one value per trajectory, as the age at the first visit has."""
    pairs = [pair for pair in zip(_column(rows, trajectory), _column(rows, name)) if all(pair)]
    return len({d for d, _ in pairs}) == len(set(pairs)) < len(pairs)


# ---- one row per node, samples in columns ---------------------------------------------------


def _samples_if_told(options: TableOptions) -> SampleTable | None:
    """The table of samples where a flag says that it is one."""
    if options.samples is not None:
        path, sheet = Path(options.samples), None
        if not path.is_file():
            path, sheet = options.data, options.samples
            if sheet not in sheet_names(path):
                raise DataError(
                    f"--samples {options.samples!r} is neither a file nor a sheet of the table."
                )
        found = _annotated(options, options.samples, path, sheet)
        if found is None:
            raise DataError(
                f"No column of --samples {options.samples!r} names the samples of the table: its "
                "names must be columns, or the first cells of rows, of the table."
            )
        return found
    if options.kind != "rows":
        return None
    found = _samples_if_found(options)
    if found is None:
        raise DataError(
            "The names of the columns do not say the times of the samples (as 0h_rep1 or t=30min "
            "do): annotate the samples in a table with --samples FILE."
        )
    return found


def _samples_if_found(options: TableOptions) -> SampleTable | None:
    """The table of samples, if annotations lie beside it or its header looks like one."""
    if options.kind not in ("auto", "rows") or options.time or options.trajectory:
        return None
    for name, path, sheet in annotations_beside(options.data, options.sheet):
        found = _annotated(options, name, path, sheet)
        if found is not None:
            return found
    grid = read_grid(options.data, options.sheet)
    samples = read_names(grid.header)
    if samples is None:
        return None
    how = "Times and trajectories come from the names of the columns"
    return sample_table(grid, samples, how, options.counts == "keep", options.missing)


def _annotated(
    options: TableOptions, name: str, path: Path, sheet: str | None
) -> SampleTable | None:
    """The table of samples by a table of annotations; None where that is about something else."""
    notes = read_text_table(path, sheet)

    def first(names: Sequence[str], known: Sequence[str] | None) -> str | None:
        return _first(names, TIME, _UNIT) if known is None else _first(names, known, _NUMBERING)

    found = annotated(read_grid(options.data, options.sheet), notes, first)
    if found is None:
        return None
    samples, grid, stimuli = found
    how = f"Times and trajectories come from {name} (--samples)"
    table = sample_table(grid, samples, how, options.counts == "keep", options.missing)
    return replace(table, stimuli=stimuli)


def _read_samples(options: TableOptions, samples: SampleTable) -> Table:
    frame = samples.frame
    time, trajectory = (str(name) for name in frame.columns[:2])
    settings = _settings(options, ("start", "end", "unit", "comma"))
    settings |= {"time": time, "trajectory": trajectory, "kind": "wide", "sort": True}
    if options.nodes:
        _require_nodes(options.nodes, [str(name) for name in frame.columns[2:]])
        settings["nodes"] = list(options.nodes)
    data, problems = Observations.check_frame(frame, **settings)
    decisions = list(samples.decisions)
    if data is not None and samples.stimuli is not None:
        data = data.with_stimuli(samples.stimuli)
        names = quoted(list(dict.fromkeys(samples.stimuli["name"])))
        decisions.append(f"Stimuli of the samples: {names}; whom they act on is learned.")
    placed = tuple(map(samples.placed, problems))
    notes = listed((p for p in placed if p.severity == "note"), shown=2)
    decisions += [in_flags(line) for line in notes]
    columns = Columns("rows", time, trajectory)
    return _chosen(Table(data, columns, tuple(decisions), placed), options.top)


# ---- too many nodes -------------------------------------------------------------------------

#: nodes up to which a table is never too wide
_FEW_NODES = 30


def _chosen(table: Table, top: int | None) -> Table:
    """Only the most variable nodes, if asked; a warning where nodes are too many for the times."""
    data = table.data
    if not isinstance(data, Observations):
        return table
    decisions, problems = table.decisions, table.problems
    if top is not None and top < len(data.measurements):
        kept = _most_variable(data, top)
        said = f"The {top} most variable of {len(data.measurements):,} nodes are used (--top)."
        data, decisions = only_nodes(data, kept), (*decisions, said)
    n_nodes, n_times = len(data.measurements), len(wide_keys(data))
    if n_nodes > max(_FEW_NODES, n_times):
        wide = (
            f"{n_nodes:,} nodes were measured at only {counted(n_times, 'time')}: most edges "
            "cannot be told from chance, and learning takes long. Use the most variable nodes "
            f"(--top {max(10, min(_FEW_NODES, n_times))}), or name those that matter (--nodes)."
        )
        problems = (*problems, TableProblem(wide, severity="warning", kind="too many nodes"))
    return replace(table, data=data, decisions=decisions, problems=problems)


def _most_variable(data: Observations, top: int) -> list[str]:
    """The nodes whose numbers vary most, in the order of the table; nodes of labels stay."""
    spread = {
        node: float(np.var(record.value.astype(np.float64))) if len(record) > 1 else 0.0
        for node, record in data.measurements.items()
        if not record.holds_labels and record.likelihood is None
    }
    order = sorted(spread, key=lambda node: -spread[node])
    kept = {*order[:top], *(node for node in data.measurements if node not in spread)}
    return [node for node in data.measurements if node in kept]


def require_readable(options: TableOptions) -> list[str]:
    """The header; refuses what is no table, or would not fit into memory, before more is read."""
    header = read_header(options.data, options.sheet)
    size, available = options.data.stat().st_size, available_bytes()
    if size * BYTES_PER_BYTE > 0.8 * available:
        raise too_large(options.data, size, available)
    return header


def file_hash(path: Path) -> str:
    """SHA-256 of the file, so that a run says what it was made from."""
    return f"sha256:{sha256(path)}"


def only_nodes(observations: Observations, nodes: Sequence[str]) -> Observations:
    """The same observations without the measurements of other nodes."""
    kept = {node: observations.measurements[node] for node in nodes}
    return replace(observations, measurements=kept)


def with_interventions(data: Observations, held: pd.DataFrame) -> tuple[Observations, str]:
    """The observations with what the experimenter set, and a sentence about it."""
    data = data.with_interventions(held)
    nodes = ", ".join(dict.fromkeys(map(str, data.interventions.node)))
    count = counted(len(data.interventions), "time")
    return data, f"Set by the experimenter (--interventions): {count}, of {nodes}."


def with_stimuli(
    data: Observations, options: TableOptions, columns: Columns, told: str
) -> Observations:
    """The observations with the stimuli of a file, or of a column of the table."""
    if Path(told).is_file():
        return data.with_stimuli(read_numbers(Path(told), ("start", "end"), options.comma))
    if told in data.measurements:
        return data.with_stimuli(told)
    header = [] if columns.kind == "rows" else read_header(options.data, options.sheet)
    if told not in header:
        raise DataError(
            f"--stimuli {told!r} is neither a file nor a column of the table; its columns are "
            f"{quoted(header)}."
        )
    settings = _reading(options, columns) | {"kind": "wide", "nodes": [told], "sort": True}
    found, problems = Observations.check_csv(options.data, **settings)
    if found is None:
        raise as_error(problems)
    record = found.measurements[told]
    return data.with_stimuli(data.stimuli_in_column(told, record, found.trajectories))


def read_numbers(path: Path, columns: Sequence[str], comma: str | None = None) -> Any:
    """A small table in which some columns hold numbers; cells of the others stay text."""
    table = TableReader(read_text_table(path), Problems(), comma=comma)
    for name in filter(table.has, columns):
        table.frame[name] = table.numbers(name)
        if table.problems.errors:
            raise DataError(f"{str(path)!r}: ", as_error(table.problems.errors).sentence, ".")
    return table.frame


# ---- reading --------------------------------------------------------------------------------


def _read_observations(options: TableOptions, columns: Columns) -> Table:
    settings = _reading(options, columns)
    if options.kind != "auto":
        settings["kind"] = columns.kind
    if columns.kind == "long":
        settings["node"] = columns.node
        if columns.value is not None:
            settings["value"] = columns.value
    decisions: tuple[str, ...] = ()
    if options.nodes:
        if columns.kind == "wide":
            settings["nodes"] = list(options.nodes)
        decisions = (f"Nodes: {quoted(options.nodes)}, as asked.",)
    observations, problems = Observations.check_csv(options.data, **settings)
    if observations is not None and options.nodes:
        _require_nodes(options.nodes, list(observations.measurements))
        observations = only_nodes(observations, options.nodes)
    elif observations is not None:
        counter = next(iter(observations.measurements), "")
        if _only_counts(counter, observations):
            others = [node for node in observations.measurements if node != counter]
            observations = only_nodes(observations, others)
            decisions = (f"Column {counter!r} only counts the rows: it is left out (--nodes).",)
    return Table(observations, columns, decisions, tuple(problems))


def _reading(options: TableOptions, columns: Columns) -> dict[str, Any]:
    """How measurements are read, whatever the kind of the table."""
    known = ("start", "end", "exact", "end_column", "unit", "sheet", "comma")
    names = {"time": columns.time, "trajectory": columns.trajectory or "trajectory"}
    return _settings(options, known) | names


def _settings(options: TableOptions, names: Sequence[str]) -> dict[str, Any]:
    """What the flags say about reading, without what they leave open."""
    given = {name: getattr(options, name) for name in names}
    settings = {name: value for name, value in given.items() if value is not None}
    settings["sort"] = options.sort
    if options.ties != "error":  # else what the side file says
        settings["ties"] = options.ties
    for name in ("labels", "missing"):
        if getattr(options, name):
            settings[name] = tuple(getattr(options, name))
    return settings


def _only_counts(node: str, observations: Observations) -> bool:
    """Whether a node is a column called index or row that holds 0, 1, 2, … or 1, 2, 3, …"""
    if _normal(node) not in COUNTER or observations.measurements[node].holds_labels:
        return False
    record = observations.measurements[node]
    value = record.value[np.argsort(record.row)]
    return len(value) > 1 and any(np.array_equal(value, np.arange(len(value)) + k) for k in (0, 1))


def _read_paths(options: TableOptions, columns: Columns) -> Table:
    has_side_file = read_meta(options.data, FORMAT) is not None
    if has_side_file and not options.sort and options.end is None and options.end_column is None:
        paths = Trajectories.load(options.data)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # refused below
            paths = Trajectories.from_frame(
                _path_rows(read_text_table(options.data, options.sheet), options, columns),
                end=options.end,
                end_column=options.end_column,
                missing=options.missing,
                unit=options.unit,
                trajectory=columns.trajectory or "trajectory",
                time=columns.time,
                node=columns.node or "node",
                state=columns.value or "state",
                sort=options.sort,
                comma=options.comma,
            )
        if options.end is None and options.end_column is None:
            _require_ends(paths)
    decisions = []
    if options.nodes and columns.node is None:
        decisions.append(f"Nodes: {quoted(options.nodes)}, as asked.")
    elif options.nodes:
        _require_nodes(options.nodes, paths.nodes)
        paths = paths.select(nodes=options.nodes)
        decisions.append(f"Nodes: {quoted(options.nodes)}, as asked.")
    still = [node for node in paths.nodes if len(paths.states[node]) < 2]
    if still and len(still) < len(paths.nodes):
        paths = paths.select(nodes=[node for node in paths.nodes if node not in still])
        decisions.append(f"Left out because the state never changes: {quoted(still)}.")
    return Table(paths, columns, tuple(decisions), ())


def _read_counting(options: TableOptions, columns: Columns) -> Table:
    frame = read_text_table(options.data, options.sheet)
    which = require_counting(list(frame.columns))
    found = read_counting(frame, columns.trajectory, which, options.unit, options.comma)
    listing = "It is stacked and lists" if found.is_stacked else "It shows"
    n = len(found.transitions)
    stacked = f" {listing} {n} different transitions; no other can happen (--allowed)."
    said = (
        f"Each row is a stay from {which.start!r} to {which.stop!r} in the state {which.origin!r}; "
        f"{which.target!r} is the state it led to, as node 'state'.{stacked}"
    )
    return Table(found.paths, columns, (said,), (), found.transitions, found.stays)


def _path_rows(frame: pd.DataFrame, options: TableOptions, columns: Columns) -> pd.DataFrame:
    """Rows trajectory, time, node, state; a table with a column per node is turned into them.

    There an empty cell says nothing about its node.
    """
    if columns.node is not None:
        return frame
    taken = columns.taken | {options.end_column}
    free = [name for name in frame.columns if name not in taken]
    nodes = list(options.nodes) or free
    _require_nodes(nodes, free)
    common = frame[[name for name in frame.columns if name in taken]]
    table = pd.concat([common.assign(node=node, state=frame[node]) for node in nodes])
    given = ~missing(cells(without_codes(table, options.missing)["state"]))
    lines = np.tile(line_numbers(frame), len(nodes))[given]
    table = table[given]
    table.attrs["lines"] = lines
    return table


def _require_ends(paths: Trajectories) -> None:
    """Refuse paths whose last row is a jump: how long they were followed is not known.

    After a state that no path leaves, such as death, it does not matter: the path ends there.
    """
    table = changes(Observations.from_trajectories(paths))
    left = {*zip(table["node"], table["before"])}

    number = {label: d for d, label in enumerate(paths.labels)}

    def goes_on(label: object) -> bool:
        """Whether other paths leave the state that this one enters last."""
        first, last = paths.jump_offset[number[label] :][:2]
        if first == last:
            return True
        node = paths.nodes[paths.jump_node[last - 1]]
        return (node, letters(paths.states[node][paths.jump_state[last - 1]])) in left

    which = [label for label in open_ended(vars(paths)) if goes_on(label)]
    if which:
        raise DataError(
            f"The table does not say how long the paths were followed: the last row of "
            f"{'trajectory' if len(which) == 1 else 'trajectories'} {quoted(which, 5)} is a jump. "
            "Give the end with --end TIME, or name the column that holds it with --end-column "
            "COLUMN."
        )


def _require_nodes(asked: Sequence[str], nodes: Sequence[str]) -> None:
    require_known(asked, nodes, "--nodes names", error=DataError)


def _require_columns(named: str | None, header: Sequence[str], says: str) -> None:
    require_known([] if named is None else [named], header, says, "column", DataError)


def _said(columns: Columns, options: TableOptions, unit: str) -> list[str]:
    kinds = {
        "wide": "one column per node",
        "long": "one row per measurement",
        "paths": "complete paths, each row a state that is entered",
        COUNTING: "a counting table, each row a stay in a state",
    }
    trajectory = (
        f"column {columns.trajectory!r} names the trajectory (--trajectory)"
        if columns.trajectory is not None
        else "no column names the trajectory, so there is only one (--trajectory COLUMN)"
    )
    in_unit = f", in {unit} (--time, --unit)" if unit else " (--time)"
    sheets = sheet_names(options.data)
    book = []
    if len(sheets) > 1:
        read = (
            f"sheet {options.sheet!r}" if options.sheet else "the first sheet that holds anything"
        )
        book = [f"Workbook: {read} is read (--sheet); its sheets are {quoted(sheets)}."]
    others = "; the other columns are nodes (--nodes)"
    return [
        *book,
        f"Table: {kinds[columns.kind]} (--kind); column {columns.time!r} is the time{in_unit}; "
        f"{trajectory}{others if columns.kind == 'wide' and not options.nodes else ''}.",
    ]


# ---- guesses from the header; every guess is said, and a flag wins ----------------------------


# fmt: off
TIME = (
    "time", "t", "times", "timepoint", "time_point", "tp", "elapsed", "elapsed_time",
    "hours", "hour", "hrs", "h", "hpi", "minutes", "minute", "mins", "min", "seconds", "second",
    "secs", "sec", "s", "days", "day", "dpi", "weeks", "week", "months", "month", "years", "year",
    "date", "datetime", "date_time", "timestamp", "visit_date", "sampling_date", "sample_date",
    "date_of_visit", "age",
)
TRAJECTORY = (
    "trajectory", "trajectories", "replicate", "rep", "biorep", "bio_rep", "biological_replicate",
    "series", "experiment", "run", "cell", "patient", "subject", "participant", "person", "donor",
    "individual", "mouse", "rat", "animal", "fish", "embryo", "plant", "well", "culture", "colony",
    "clone", "id", "sample", "specimen", "ptnum", "unit", "trial",
)
COUNTING = "counting"
COUNTER = ("index", "row", "rows", "row_number", "rownum", "row_id", "level_0", "nr", "no")
NODE = ("node", "gene", "variable", "var")
VALUE = ("value", "measurement", "expression", "level")
# fmt: on

#: what may follow the name of a trajectory column: patient_id, Mouse No.
_NUMBERING = re.compile(r"_(id|ids|no|nr|num|number|name|label|index)$")
#: and the name of a time column: time_min, hours post dose, days since admission
_UNIT = re.compile(rf"_({'|'.join(UNITS)})$|_(post|after|since|from|past)(_.*)?$")


@dataclass(frozen=True)
class Columns:
    """Which column is what; ``kind`` is "wide", "long", "rows", "paths" or "counting"."""

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
    counting = CountingColumns.of(header)
    if kind == COUNTING or (kind == "auto" and counting is not None and not nodes):
        counting = counting or require_counting(header)
        known = set(vars(counting).values())
        names = trajectory or _first([n for n in header if n not in known], TRAJECTORY, _NUMBERING)
        return Columns(COUNTING, counting.start, names, counting.origin, counting.target)
    free = [name for name in header if name not in nodes]
    for flag, given in (("--time", time), ("--trajectory", trajectory)):
        _require_columns(given, header, f"{flag} names")
    time = time or _first(free, TIME, _UNIT)
    if time is None and len(header) == 1:
        raise DataError(
            f"The first line of the file is {header[0]!r}. It must hold the names of the columns, "
            "one of them the time: delete a title or comment above them."
        )
    if time is None:
        raise DataError(
            f"No column looks like the time; the columns are {quoted(header)}. "
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
    if node is None and kind == "paths":
        return Columns(kind, time, trajectory)
    if node is None:
        raise DataError(
            f"A table of kind {kind!r} needs a column 'node'; the columns are {quoted(header)}."
        )
    return Columns(kind, time, trajectory, node, "state" if kind == "paths" else value)


#: names of a column that may hold a time, and may as well hold a period such as 1995-1998
_DOUBTFUL = ("year", "years", "age", "date")


def _all_known(header: Sequence[str], known: Sequence[str], ending: re.Pattern[str]) -> list[str]:
    """All columns whose name is known, with or without an ending."""
    return [n for n in header if {_normal(n), ending.sub("", _normal(n))} & {*known}]


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
