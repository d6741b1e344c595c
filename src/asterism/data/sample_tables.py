"""Tables with one row per node and one column per sample, as expression data mostly come.

The time and the trajectory of a sample stand in its column's name ("alpha7", "t=30min_rep2",
"WT_2h_1", "0h_rep1"), in two header rows, or in a table of annotations with one row per sample.
What is found becomes a wide table: one row per sample, one column per node.

A number with a unit, or after a word for time, is the time. Where no name has one, the last number
of a name is, as long as the numbers of a trajectory do not merely count its samples. Everything
else in the name is the trajectory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from asterism.data.clock import SECONDS, UNITS, read_clock
from asterism.data.columns import cells, without_codes
from asterism.data.interventions import stimuli_by_time, stimulus_of
from asterism.data.numbers import MISSING_TEXT, as_number, read_numbers
from asterism.data.problems import TableProblem
from asterism.data.table_file import sheet_names, text_rows, unescape_cell
from asterism.errors import DataError, quoted
from asterism.numerics.arrays import FloatArray

#: names of the two columns in front of the nodes
TIME, TRAJECTORY = "time", "trajectory"
#: the trajectory where names say nothing but the time
ONLY = "1"
#: samples that a table needs before its header is taken for one of samples
_FEWEST_SAMPLES = 4
#: times of a trajectory below which a number in its names is hardly a time
_FEWEST_TIMES = 3
#: counts as large as this are no states and no levels of a few molecules
_LARGE_COUNT = 100
#: nodes from which on the sum of a sample's counts says how deep it was sequenced
_LIBRARY_NODES = 50

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
_WORD = "t|tp|time|timepoint|point"
_WITH_UNIT = re.compile(rf"(?:{_WORD}|x)?=?({_NUMBER})({_UNIT})")
_AFTER_WORD = re.compile(rf"(?:{_WORD})=?({_NUMBER})")
# s1 and w2 are rather names of samples than times
_FIRST_UNIT = "|".join(unit for unit in UNITS if len(unit) > 1 or unit in "hd")
_AFTER_UNIT = re.compile(rf"({_FIRST_UNIT})=?({_NUMBER})")
_ENDS_IN_NUMBER = re.compile(rf"(.*?[a-z=])({_NUMBER})", re.DOTALL)
_SEPARATORS = re.compile(r"[\s_|:;/()\[\]]+|-(?=\D)|(?<=\D)-|(?<=\d)-(?=\d)|\.(?!\d)|(?<!\d)\.")
_REPLICATE = re.compile(r"(?:biological_?|bio_?)?(?:rep|replicate|repl|r|br)=?(?:\d+|[a-f])")


class Sample(NamedTuple):
    """What is known of one column."""

    time: float
    unit: str
    """"" if nothing says it."""
    trajectory: str


@dataclass(frozen=True)
class SampleTable:
    """A table of samples, turned into a wide one."""

    frame: pd.DataFrame
    """time, trajectory, and one column per node."""
    decisions: list[str]
    lines: dict[str, int] = field(default_factory=dict)
    """Line of each node in the file."""
    samples: list[str] = field(default_factory=list)
    """Name of each row's sample, as in the header."""
    stimuli: pd.DataFrame | None = None
    """name, trajectory, start, end, where the annotations hold stimuli."""

    def placed(self, problem: TableProblem) -> TableProblem:
        """A problem of the wide table where it stands in the file: there rows are nodes."""
        if problem.column not in self.lines or problem.row is None:
            return problem
        return replace(
            problem, row=self.lines[problem.column], column=self.samples[problem.row - 2]
        )


# ---- names of samples ---------------------------------------------------------------------------


def with_unit(name: str) -> Sample | None:
    """A sample whose name holds a time with a unit, or after a word for time."""
    tokens = _tokens(name)
    for i, token in enumerate(tokens):
        lower = token.lower()
        pair = lower + (tokens[i + 1].lower() if i + 1 < len(tokens) else "")
        for text, used in ((lower, 1), (pair, 2)):
            if used == 2 and i + 1 == len(tokens):
                continue
            if found := _WITH_UNIT.fullmatch(text):
                time, unit = found[1], UNITS[found[2]]
            elif found := _AFTER_WORD.fullmatch(text):
                time, unit = found[1], ""
            elif found := _AFTER_UNIT.fullmatch(text):
                time, unit = found[2], UNITS[found[1]]
            else:
                continue
            return Sample(float(time), unit, _named([*tokens[:i], *tokens[i + used :]]))
    return None


def with_number(name: str) -> Sample | None:
    """A sample whose name ends in a number: alpha7, cdc15_10, or a number alone."""
    tokens = _tokens(name)
    for i in range(len(tokens) - 1, -1, -1):
        rest = [*tokens[:i], *tokens[i + 1 :]]
        if _REPLICATE.fullmatch(tokens[i].lower()):
            continue
        number = as_number(tokens[i].lower().removeprefix("x"))
        if number is not None:
            return Sample(number, "", _named(rest))
        if found := _ENDS_IN_NUMBER.fullmatch(tokens[i].lower()):
            series = tokens[i][: len(found[1])].rstrip("=")
            return Sample(float(found[2]), "", _named([*tokens[:i], series, *tokens[i + 1 :]]))
    return None


def _tokens(name: str) -> list[str]:
    return [token for token in _SEPARATORS.split(name.strip()) if token]


def _named(tokens: Sequence[str]) -> str:
    return "_".join(tokens) or ONLY


def read_names(names: Sequence[str]) -> dict[int, Sample] | None:
    """The samples among the columns, by their place; None where the header holds no samples."""
    for read in (with_unit, with_number):
        found = {i: s for i, name in enumerate(names) if (s := read(name)) is not None}
        if read is with_number:
            found = _without_counters(found)
        by_trajectory = Counter(sample.trajectory for sample in found.values())
        n_times = len({sample.time for sample in found.values()})
        if (
            len(found) >= _FEWEST_SAMPLES
            and 2 * len(found) >= len(names)
            and n_times >= _FEWEST_TIMES
            and len(found) >= 2 * len(by_trajectory)
        ):
            return _in_one_unit(found)
    return None


def _without_counters(found: Mapping[int, Sample]) -> dict[int, Sample]:
    """Without trajectories whose numbers are too few, or merely 1, 2, 3, …"""
    times: dict[str, list[float]] = {}
    for sample in found.values():
        times.setdefault(sample.trajectory, []).append(sample.time)
    bad = set()
    for name, own in times.items():
        each = np.unique(own)
        counts = len(each) > 1 and bool(np.all(np.diff(each) == 1.0)) and each[0] in (0.0, 1.0)
        if len(each) < _FEWEST_TIMES or (counts and name != ONLY):
            bad.add(name)
    return {i: sample for i, sample in found.items() if sample.trajectory not in bad}


def _in_one_unit(found: Mapping[int, Sample]) -> dict[int, Sample]:
    """All times in the commonest unit of the names."""
    units = Counter(sample.unit for sample in found.values() if sample.unit)
    if len(units) < 2:
        return dict(found)
    usual = units.most_common(1)[0][0]
    factor = {unit: SECONDS[unit] / SECONDS[usual] for unit in units}
    return {
        i: s._replace(time=s.time * factor.get(s.unit, 1.0), unit=usual) for i, s in found.items()
    }


# ---- tables -------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """The cells of a file below its header."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    has_two_headers: bool


def read_grid(path: Path, sheet: str | None = None) -> Grid:
    """The header, from two rows where there are two, and all other rows."""
    numbered = text_rows(path, sheet)
    if len(numbered) < 2:
        raise DataError(f"{str(path)!r} has no rows below its header.")
    rows = [[unescape_cell(cell.strip()) for cell in row] for _, row in numbered]
    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    while width > 1 and not any(row[width - 1] for row in rows):
        width -= 1
    rows = [row[:width] for row in rows]
    lines = [line for line, _ in numbered]
    if _is_second_header(rows):
        return Grid(_joined(rows[0], rows[1]), rows[2:], lines[2:], True)
    return Grid(rows[0], rows[1:], lines[1:], False)


_HEADER_WORDS = frozenset({"time", "t", "hour", "hours", "replicate", "rep", "condition", "sample"})


def _is_second_header(rows: list[list[str]]) -> bool:
    """Whether the second row belongs to the header: words above numbers, or times by name."""
    if len(rows) < 3:
        return False
    second, below = rows[1][1:], rows[2][1:]
    numbers = [as_number(cell) is not None for cell in below if cell]
    if not numbers or not all(numbers):
        return False
    words = [cell for cell in second if cell and as_number(cell) is None]
    words = [cell for cell in words if cell.lower() not in MISSING_TEXT]
    if 2 * len(words) > len([cell for cell in second if cell]):
        return True
    first = re.sub(r"\W.*", "", rows[1][0].strip().lower())
    return first in _HEADER_WORDS and len(set(rows[0])) < len(rows[0])


def _joined(first: list[str], second: list[str]) -> list[str]:
    """Names of two rows as one; a name that stands for several columns stands in the first."""
    word = re.sub(r"[\(\[].*", "", second[0]).strip().lower()
    unit = re.search(r"[\(\[]\s*([a-z]+)\s*[\)\]]", second[0].lower())
    ending = UNITS.get(unit[1], "") if unit else ""
    names, before = [], ""
    for place, (above, own) in enumerate(zip(first, second)):
        before = above or before
        if place == 0:
            names.append(above or own)
            continue
        if as_number(own) is not None:
            own = f"{own}{ending}" if ending else f"t{own}" if word in _HEADER_WORDS else own
        names.append("_".join(filter(None, (before, own))))
    return names


def sample_table(
    grid: Grid, samples: Mapping[int, Sample], told_by: str, keep_counts: bool, missing: Any = ()
) -> SampleTable:
    """The wide table of a grid whose columns are samples; ``told_by`` says what named them."""
    others = [i for i in range(len(grid.header)) if i not in samples]
    if not others:
        raise DataError("The table has one row per node, but no column that names the nodes.")
    names, place, said = _node_names(grid, others)
    columns = sorted(samples, key=lambda i: (samples[i].trajectory, samples[i].time, i))
    trajectories = _replicates([samples[i] for i in columns])
    cells = np.array([grid.rows[r] for r in names], dtype=object).reshape(len(names), -1)
    block = pd.DataFrame(cells[:, columns].T.copy(), columns=list(names.values()))
    values = _numbers(without_codes(block, missing))
    decisions = [_how(grid, samples, told_by, place), *said]
    if values is not None:
        block, words = _scaled(values, keep_counts)
        decisions += words
    left_out = [grid.header[i] for i in others if i != place]
    if left_out:
        decisions.append(f"Columns that are no samples are left out: {quoted(left_out)}.")
    taken = set(block.columns)
    unit = next((s.unit for s in samples.values() if s.unit), "")
    named = f"{TIME} ({unit})" if unit else TIME
    time, trajectory = (_free(name, taken) for name in (named, TRAJECTORY))
    front = {time: [samples[i].time for i in columns], trajectory: trajectories}
    frame = pd.concat([pd.DataFrame(front, index=block.index), block], axis=1)
    return SampleTable(
        frame,
        decisions,
        {name: grid.lines[r] for r, name in names.items()},
        [grid.header[i] for i in columns],
    )


def _how(grid: Grid, samples: Mapping[int, Sample], told_by: str, place: int) -> str:
    example = next(iter(sorted(samples)))
    one = samples[example]
    unit = f" {one.unit}" if one.unit else ""
    two = "; the first two rows are its header" if grid.has_two_headers else ""
    return (
        f"Table: one row per node, named by column {grid.header[place]!r}, and "
        f"{len(samples)} samples in columns{two} (--kind wide undoes this). {told_by}: "
        f"{grid.header[example]!r} is time {one.time:g}{unit} of trajectory {one.trajectory!r}."
    )


def _node_names(grid: Grid, others: Sequence[int]) -> tuple[dict[int, str], int, list[str]]:
    """Row: name of its node, the column that holds it, and what had to be said about names."""

    def distinct(i: int) -> int:
        return len({row[i] for row in grid.rows if row[i]})

    words = [i for i in others if not all(as_number(row[i]) is not None for row in grid.rows)]
    candidates = words or list(others)
    place = next((i for i in candidates if distinct(i) == len(grid.rows)), None)
    if place is None:
        place = max(candidates, key=lambda i: (distinct(i), -i))
    named: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for r, row in enumerate(grid.rows):
        if row[place]:
            seen[row[place]] += 1
            again = seen[row[place]]
            named[r] = row[place] if again == 1 else f"{row[place]} ({again})"
    said = []
    if len(named) < len(grid.rows):
        said.append(f"{len(grid.rows) - len(named):,} rows without a name are left out.")
    if twice := [name for name, n in seen.items() if n > 1]:
        said.append(f"Names that occur more than once are numbered: {quoted(twice)}.")
    return named, place, said


def _replicates(samples: Sequence[Sample]) -> list[str]:
    """The trajectory of each sample; further ones at the same time begin a trajectory each."""
    seen: Counter[tuple[str, float]] = Counter()
    result = []
    for sample in samples:
        key = (sample.trajectory, sample.time)
        seen[key] += 1
        result.append(sample.trajectory if seen[key] == 1 else f"{sample.trajectory} ({seen[key]})")
    return result


def _numbers(block: pd.DataFrame) -> pd.DataFrame | None:
    """All cells as numbers at once; None where some are none, which the reader of cells says."""
    read = read_numbers(cells(pd.Series(block.to_numpy(dtype=object).ravel(), dtype=object)))
    if read.comma or read.is_text.any() or np.isinf(read.value).any():
        return None
    return pd.DataFrame(read.value.reshape(block.shape), block.index, block.columns)


def _scaled(values: pd.DataFrame, keep_counts: bool) -> tuple[pd.DataFrame, list[str]]:
    """Counts by the depth of their sample and on a log scale, unless they are to be kept."""
    table: FloatArray = values.to_numpy()
    known = table[np.isfinite(table)]
    whole = bool(len(known)) and bool(np.all(known == np.floor(known))) and known.min() >= 0.0
    if not whole or known.max() < _LARGE_COUNT:
        return values, []
    if keep_counts:
        return values, ["The numbers are counts and stay as they are (--counts keep)."]
    how = "log2(1 + count) is used"
    if table.shape[1] >= _LIBRARY_NODES:
        depth = np.nansum(table, axis=1, keepdims=True)
        table = table / np.where(depth > 0.0, depth / np.median(depth), 1.0)
        how = "each sample is divided by its sum, relative to the median sample, and " + how
    scaled = pd.DataFrame(np.log2(1.0 + table), index=values.index, columns=values.columns)
    return scaled, [f"The numbers are counts: {how} (--counts keep leaves them as they are)."]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


# ---- annotations of samples ---------------------------------------------------------------------

#: columns of annotations that together tell trajectories apart, where none is called so
CONDITIONS = ("condition", "treatment", "genotype", "strain", "group", "series", "experiment")
REPLICATES = ("replicate", "rep", "biorep", "biological_replicate", "patient", "subject", "donor")
STIMULUS = ("stimulus", "stimuli", "stimulation")


def annotations_beside(path: Path, sheet: str | None) -> list[tuple[str, Path, str | None]]:
    """Where annotations of samples may lie: (name, file, sheet) of other sheets and side files."""
    found: list[tuple[str, Path, str | None]] = []
    names = sheet_names(path)
    found += [(f"sheet {name!r}", path, name) for name in names if name != (sheet or names[0])]
    stem = path.name.split(".")[0]
    for ending in (".samples.csv", "_samples.csv", ".samples.tsv", "_samples.tsv"):
        side = path.with_name(stem + ending)
        if side.is_file():
            found.append((side.name, side, None))
    return found


Find = Callable[[Sequence[str], Sequence[str] | None], str | None]
"""The first known name among columns; of times where no names are given."""


def annotated(
    grid: Grid, notes: pd.DataFrame, first: Find
) -> tuple[dict[int, Sample], Grid, pd.DataFrame | None] | None:
    """Samples of a grid by a table of annotations, and their stimuli; None if it is none.

    A grid with one row per sample is turned first.
    """
    names = [str(name) for name in notes.columns]
    in_header = {name: i for i, name in enumerate(grid.header)}
    rows_of = {row[0]: i for i, row in enumerate(grid.rows)}
    best, turned = None, False
    for column in names:
        cells = [str(cell).strip() for cell in notes[column]]
        for where, is_row in ((in_header, False), (rows_of, True)):
            share = sum(cell in where for cell in cells)
            if 2 * share > len(cells) and share >= _FEWEST_SAMPLES and best is None:
                best, turned = column, is_row
    if best is None:
        return None
    free = [name for name in names if name != best]
    time = first(free, None)
    if time is None:
        raise DataError(
            "The annotations of samples have no column of times; their columns are "
            f"{quoted(names)}."
        )
    read = read_clock(notes[time].to_numpy(dtype=object), time, None, None)
    unknown = [c for c, t in zip(notes[best], read.time) if not np.isfinite(t)]
    if len(unknown) == len(notes):
        raise DataError(
            f"Column {time!r} of the annotations holds no times, such as {notes[time].iloc[0]!r}."
        )
    own = first(free, ("trajectory", "trajectories"))
    parts = [own] if own is not None else _separating(free, first)
    if turned:
        grid = _turned(grid)
        in_header = {name: i for i, name in enumerate(grid.header)}
    samples = {}
    for i, cell in enumerate(notes[best]):
        if str(cell).strip() in in_header and np.isfinite(read.time[i]):
            words = [str(notes[name].iloc[i]).strip() for name in parts]
            samples[in_header[str(cell).strip()]] = Sample(
                float(read.time[i]), read.unit, _named([word for word in words if word])
            )
    stimulus = first(free, STIMULUS)
    told = None if stimulus is None else _stimuli(notes, best, stimulus, samples, in_header)
    return samples, grid, told


def _separating(free: Sequence[str], first: Find) -> list[str]:
    found = [first(free, CONDITIONS), first(free, REPLICATES)]
    return [name for name in found if name is not None]


def _turned(grid: Grid) -> Grid:
    """Rows as columns: samples in rows become samples in columns."""
    table = [grid.header, *grid.rows]
    flipped = [list(row) for row in zip(*table)]
    header = ["node", *flipped[0][1:]]
    return Grid(header, flipped[1:], list(range(1, len(flipped))), False)


def _stimuli(
    notes: pd.DataFrame,
    sample: str,
    stimulus: str,
    samples: Mapping[int, Sample],
    in_header: Mapping[str, int],
) -> pd.DataFrame | None:
    """The stimuli of the annotations, by the samples that they name; None where there are none."""
    says: dict[str, dict[float, str]] = {}
    for cell, name in zip(notes[sample], notes[stimulus]):
        found = samples.get(in_header.get(str(cell).strip(), -1))
        if found is not None:
            says.setdefault(found.trajectory, {})[found.time] = stimulus_of(stimulus, str(name))
    table = stimuli_by_time(says)
    return table if len(table) else None
