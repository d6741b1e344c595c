"""Forty odd tables as people have them, each with what ``check`` and ``learn`` should make of it.

``python -m tests.odd_tables FOLDER`` writes them all, for a look or for another program.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

OK, USAGE, BAD = 0, 2, 3


@dataclass(frozen=True)
class OddTable:
    """A file, the flags it is read with, and what should come of it."""

    name: str
    write: Callable[[Path], None]
    code: int = OK
    """Exit code of ``check`` and of ``learn`` (which may also not converge)."""
    says: Sequence[str] = ()
    """What ``check`` must say."""
    flags: Sequence[str] = ()
    never: Sequence[str] = ()
    """What ``check`` must not say."""


def cells(trajectories: int = 3, times: int = 8) -> pd.DataFrame:
    """A plain, valid table."""
    rng = np.random.default_rng(7)
    rows = []
    for d in range(trajectories):
        for k in range(times):
            high = (k + d) // 3 % 2
            level = round(float(rng.normal(high, 0.1)), 3)
            rows.append((d + 1, float(k), level, ("off", "on")[(k + d) // 2 % 2]))
    return pd.DataFrame(rows, columns=["trajectory", "time", "A", "B"])


def text(frame: pd.DataFrame, **options: object) -> Callable[[Path], None]:
    content = frame.to_csv(index=False, **options)  # type: ignore[call-overload]
    return lambda path: path.write_bytes(content.encode()) and None


def raw(content: str | bytes, encoding: str = "utf-8") -> Callable[[Path], None]:
    data = content.encode(encoding) if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


def workbook(*sheets: tuple[str, pd.DataFrame]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with pd.ExcelWriter(path, engine="openpyxl") as book:
            for name, frame in sheets:
                frame.to_excel(book, sheet_name=name, index=False)

    return write


def with_times(make: Callable[[float], object], name: str = "time") -> pd.DataFrame:
    frame = cells()
    frame["time"] = [make(t) for t in frame["time"]]
    return frame.rename(columns={"time": name})


def renamed(**names: str) -> pd.DataFrame:
    return cells().rename(columns=names)


def missing(code: str) -> pd.DataFrame:
    frame = cells().astype({"A": object})
    frame.loc[[2, 9, 17], "A"] = code
    return frame


def changed(row: int, column: str, value: object) -> pd.DataFrame:
    frame = cells().astype(object)
    frame.loc[row, column] = value
    return frame


PLAIN = cells()
CSV = PLAIN.to_csv(index=False)
STACKED = PLAIN.drop(columns="trajectory").assign(batch=PLAIN["trajectory"])
PATHS = """trajectory,time,node,state,followed
1,0,A,off,9
1,0,B,off,9
1,2,A,on,9
1,3,B,on,9
1,6,A,off,9
2,0,A,on,7.5
2,0,B,off,7.5
2,1,B,on,7.5
2,4,A,off,7.5
"""
OPEN_PATHS = "\n".join(line.rpartition(",")[0] for line in PATHS.splitlines()) + "\n"
CLOSED_PATHS = OPEN_PATHS + "1,9,A,off\n2,7.5,A,off\n"
DAYS = "2024-03-{:02.0f}"

TABLES = [
    # ---- files
    OddTable("plain.csv", text(PLAIN), says=["No errors"]),
    OddTable("workbook.xlsx", workbook(("data", PLAIN)), says=["24 times"]),
    OddTable(
        "two_sheets.xlsx",
        workbook(("about", pd.DataFrame({"text": ["x"]})), ("data", PLAIN)),
        flags=["--sheet", "data"],
        says=["sheet 'data'", "'about', 'data'"],
    ),
    OddTable(
        "first_sheet_is_a_note.xlsx",
        workbook(("about", pd.DataFrame({"text": ["x"]})), ("data", PLAIN)),
        says=["sheet 'data' is read (--sheet)", "'about', 'data'"],
    ),
    OddTable(
        "wrong_sheet.xlsx",
        workbook(("data", PLAIN)),
        BAD,
        flags=["--sheet", "dta"],
        says=["no sheet 'dta'", "'data'"],
    ),
    OddTable("broken.xlsx", raw(b"PK\x03\x04" + b"\0" * 80), BAD, ["not a workbook"]),
    OddTable("old.xls", raw(b"\xd0\xcf\x11\xe0" + b"\0" * 80), BAD, ["old Excel"]),
    OddTable("packed.csv.gz", raw(gzip.compress(CSV.encode())), says=["24 times"]),
    OddTable("packed.csv.bz2", raw(bz2.compress(CSV.encode())), says=["24 times"]),
    OddTable("packed.csv.xz", raw(lzma.compress(CSV.encode())), says=["24 times"]),
    OddTable(
        "cut.csv.gz", raw(gzip.compress(CSV.encode())[:-20]), BAD, ["cannot be decompressed"]
    ),
    OddTable("utf16.csv", raw(CSV, "utf-16"), says=["24 times"]),
    OddTable(
        "latin1.csv", raw(CSV.replace("A,B", "Grün,B"), "latin-1"), BAD, ["save it as CSV UTF-8"]
    ),
    OddTable(
        "germany.csv", text(PLAIN, sep=";", decimal=","), says=["24 times", "numbers"]
    ),
    # ---- columns
    OddTable("unnamed_index.csv", raw(PLAIN.to_csv()), never=["'0'", "''"], says=["2 nodes"]),
    OddTable(
        "named_index.csv",
        text(PLAIN.reset_index()),
        says=["2 nodes", "'index' only counts the rows: it is left out"],
    ),
    OddTable(
        "title.csv",
        raw("# plate 7\n" + CSV),
        BAD,
        ["The first line of the file is '# plate 7'"],
    ),
    OddTable(
        "no_name.csv",
        raw(CSV.replace("A,B", ",B")),
        BAD,
        ["column 3 has no name"],
    ),
    OddTable("mouse.csv", text(renamed(trajectory="mouse")), says=["'mouse' names the traj"]),
    OddTable("well.csv", text(renamed(trajectory="Well")), says=["'Well' names the trajectory"]),
    OddTable(
        "biorep.csv",
        text(renamed(trajectory="biorep", time="time_min")),
        says=["'biorep' names the trajectory", "'time_min' is the time, in min"],
    ),
    OddTable(
        "replicate_id.csv",
        text(renamed(trajectory="Replicate ID", time="hpi")),
        says=["'Replicate ID' names the trajectory", "'hpi' is the time, in h"],
    ),
    OddTable(
        "sample.csv",
        text(renamed(trajectory="sample", time="time_h")),
        says=["'sample' names the trajectory", "Time 0 to 7 h"],
    ),
    OddTable(
        "hours_post_dose.csv",
        text(renamed(trajectory="Mouse ID", time="hours post dose")),
        says=["'Mouse ID' names the trajectory", "'hours post dose' is the time, in h"],
    ),
    OddTable("no_time.csv", text(renamed(time="moment")), BAD, ["--time COLUMN"]),
    # ---- times
    OddTable("hours.csv", text(with_times("{:g}h".format)), says=["Time 0 to 7 h"]),
    OddTable(
        "mixed_units.csv",
        text(with_times(lambda t: f"{t * 30:g} min" if t < 4 else f"{t / 2:g} h")),
        says=["Time 0 to 210 min"],
    ),
    OddTable(
        "to_hours.csv",
        text(with_times(lambda t: 30 * t, "time_min")),
        flags=["--unit", "h"],
        says=["Time 0 to 3.5 h", "converted"],
    ),
    OddTable("days.csv", text(with_times("Day {:g}".format)), says=["Time 0 to 7 days"]),
    OddTable("points.csv", text(with_times("T{:g}".format)), says=["Time 0 to 7 ("]),
    OddTable(
        "dates.csv",
        text(with_times(lambda t: DAYS.format(t + 1), "date")),
        says=["in days from 2024-03-01", "Time 0 to 7 days"],
    ),
    OddTable(
        "date_times.csv",
        text(with_times(lambda t: f"2024-03-01T{8 + t:02.0f}:30:00")),
        says=["in h from 2024-03-01 08:30:00", "Time 0 to 7 h"],
    ),
    OddTable(
        "american_dates.csv",
        text(with_times(lambda t: f"3/{t + 1:.0f}/2024")),
        BAD,
        ["is a date that cannot be read", "… and 19 more like this"],
    ),
    OddTable(
        "year_is_text.csv",
        text(with_times(lambda t: f"about {t:g}", "year")),
        BAD,
        ["the column 'year' holds text: is it the time?", "… and 19 more like this"],
    ),
    # ---- cells
    OddTable("missing_nd.csv", text(missing("n.d.")), says=["12% missing"]),
    OddTable("missing_dash.csv", text(missing("-")), says=["12% missing"]),
    OddTable(
        "missing_own.csv",
        text(missing("lost")),
        flags=["--missing", "lost,-999"],
        says=["12% missing"],
    ),
    OddTable("missing_unknown.csv", text(missing("lost")), BAD, ["'lost' is text", "--missing"]),
    OddTable(
        "plus_minus.csv",
        text(PLAIN.replace({"B": {"on": "+", "off": "-"}})),
        says=["labels +, -"],
    ),
    OddTable(
        "blank_line.csv",
        raw(changed(4, "A", "high").to_csv(index=False).replace("1,3.0", "\n1,3.0")),
        BAD,
        ["row 7", "'high'"],
    ),
    OddTable(
        "same_word_everywhere.csv",
        text(PLAIN.assign(**{f"G{i}": ["low", *PLAIN["A"][1:]] for i in range(9)})),
        BAD,
        ["… and 4 more like this", "in 9 columns; each cell holds 'low'"],
    ),
    OddTable("one_word.csv", text(changed(4, "A", "high")), BAD, ["row 6", "'high'"]),
    # ---- rows
    OddTable(
        "copied_rows.csv",
        text(pd.concat([PLAIN, PLAIN.iloc[3:5]])),
        flags=["--sort"],
        says=["rows 26, 27 repeat an earlier row"],
    ),
    OddTable(
        "stacked.csv",
        text(STACKED),
        BAD,
        ["start again", "--trajectory", "'batch' would fit"],
        never=["--sort"],
    ),
    OddTable("stacked_sorted.csv", text(STACKED), BAD, ["start again"], ["--sort"]),
    OddTable(
        "stacked_irregular.csv",
        text(PLAIN.drop(columns="trajectory").assign(time=PLAIN["time"] + PLAIN["trajectory"] / 9)),
        BAD,
        ["start again"],
        ["--sort"],
        ["--sort the"],
    ),
    OddTable("stacked_named.csv", text(STACKED), flags=["--trajectory", "batch"]),
    OddTable("reversed.csv", text(PLAIN.iloc[::-1]), BAD, ["--sort", "more like this"]),
    OddTable("reversed_sorted.csv", text(PLAIN.iloc[::-1]), flags=["--sort"]),
    OddTable(
        "clash.csv",
        text(pd.concat([PLAIN, pd.DataFrame([(3, 7.0, 0.1, "off"), (3, 7.0, 0.1, "on")],
                                            columns=PLAIN.columns)])),
        BAD,
        ["two different states at time 7", "--emission categorical"],
    ),
    OddTable(
        "coded_clash.csv",
        text(pd.concat([PLAIN.assign(B=(PLAIN["B"] == "on") * 1),
                        pd.DataFrame([(3, 7.0, 0.1, 0), (3, 7.0, 0.1, 1)],
                                     columns=PLAIN.columns)])),
        BAD,
        ["two different states at time 7"],
    ),
    OddTable(
        "one_time_each.csv",
        text(PLAIN.assign(trajectory=range(len(PLAIN)))),
        BAD,
        ["at a single time only"],
    ),
    OddTable("constant.csv", text(PLAIN.assign(A=1.0, B="on")), BAD, ["anything to learn"]),
    # ---- complete paths
    OddTable("paths.csv", raw(OPEN_PATHS), BAD, ["--end TIME", "--end-column"]),
    OddTable(
        "paths_stacked.csv",
        raw("\n".join(line.partition(",")[2] for line in OPEN_PATHS.splitlines())),
        BAD,
        ["start again", "--trajectory"],
        ["--end", "9"],
        ["sort"],
    ),
    OddTable(
        "paths_hours.csv",
        raw(OPEN_PATHS.replace("time", "time_h")),
        flags=["--end", "9"],
        says=["Time 0 to 9 h"],
    ),
    OddTable(
        "paths_ties.csv",
        raw(OPEN_PATHS.replace("1,3,B", "1,2,B")),
        BAD,
        ["both jump at time 2", "--ties order"],
        ["--end", "9"],
    ),
    OddTable("paths_end.csv", raw(OPEN_PATHS), flags=["--end", "9"], says=["5 jumps"]),
    OddTable(
        "paths_column.csv", raw(PATHS), flags=["--end-column", "followed"], says=["5 jumps"]
    ),
    OddTable("paths_closed.csv", raw(CLOSED_PATHS), says=["5 jumps", "Time 0 to 9"]),
]  # fmt: skip


def write_all(folder: Path) -> None:
    """Every table as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        table.write(folder / table.name)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
