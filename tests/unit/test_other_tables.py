"""Tables of other programs: workbooks with formulas, merged cells and dates; polars and pyarrow."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError

ROWS = {
    "trajectory": ["a", "a", "b", "b"],
    "time": [0.0, 1.5, 0.0, 2.0],
    "A": [1.0, None, 2.0, 0.5],
    "B": ["low", "high", None, "low"],
}


def workbook(path: Path, rows: list[list[Any]], merged: tuple[str, ...] = ()) -> Path:
    """A workbook as programs write it that do not compute: without results of formulas."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["patient", "time", "A", "B"], *rows]:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(path)
    return path


def with_results(path: Path) -> Path:
    """The same workbook as a spreadsheet program saves it: with the result 3 of every formula."""
    import re
    import zipfile

    saved = path.with_name("saved.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(saved, "w") as new:
        for part in old.namelist():
            content = old.read(part)
            if part.startswith("xl/worksheets/"):
                content = re.sub(rb"</f>\s*<v\s*/>", b"</f><v>3</v>", content)
                content = re.sub(rb"</f>\s*<v></v>", b"</f><v>3</v>", content)
            new.writestr(part, content)
    return saved


def test_a_formula_without_its_result_is_not_a_missing_value(tmp_path: Path) -> None:
    rows = [["p", 0, 1.5, "=C2*2"], ["p", 1, 2.5, 2.0], ["p", 2, 0.5, 3.0]]
    path = workbook(tmp_path / "data.xlsx", rows)
    with pytest.raises(DataError, match="D2") as found:
        am.Observations.from_csv(path, trajectory="patient")
    assert "formula" in str(found.value)
    read = am.Observations.from_csv(with_results(path), trajectory="patient")
    assert read.to_frame()["B"].tolist() == [3.0, 2.0, 3.0]


def test_merged_cells_are_named_row_by_row(tmp_path: Path) -> None:
    rows = [["p", 0, 1.5, 1], [None, 1, 2.5, 2], ["q", 0, 1, 2], ["q", 1, 2, 2]]
    path = workbook(tmp_path / "data.xlsx", rows, ("A2:A3",))
    with pytest.raises(DataError, match="row 3") as found:
        am.Observations.from_csv(path, trajectory="patient")
    assert "row 2" not in str(found.value)


def test_dates_of_a_workbook_are_days(tmp_path: Path) -> None:
    days = [datetime.datetime(2020, 1, d) for d in (1, 3, 9)]
    rows = [["p", day, value, 1] for day, value in zip(days, (1.5, 2.5, 0.5))]
    numbers = [["p", 43831 + n, value, 1] for n, value in zip((0, 2, 8), (1.5, 2.5, 0.5))]
    read, plain = (
        am.Observations.from_csv(workbook(tmp_path / f"{i}.xlsx", own), trajectory="patient")
        for i, own in enumerate((rows, numbers))
    )
    assert read.time_unit == "days"
    assert read.to_frame()["time"].tolist() == [0.0, 2.0, 8.0]
    # the same days as numbers: nothing says what they count, but the steps are the same
    assert (plain.to_frame()["time"] - 43831).tolist() == [0.0, 2.0, 8.0]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_tables_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    make = module.DataFrame if library == "polars" else module.table
    there = am.Observations.from_frame(make(ROWS))
    here = am.Observations.from_frame(pd.DataFrame(ROWS))
    pd.testing.assert_frame_equal(there.to_frame(), here.to_frame())
    held = {"trajectory": ["a"], "node": ["B"], "start": [0.5], "end": [1.0], "state": ["low"]}
    assert len(there.with_interventions(make(held)).interventions) == 1
    acting = {"name": ["drug"], "trajectory": ["b"], "start": [0.5], "end": [1.0]}
    assert there.with_stimuli(make(acting)).stimuli is not None
    paths = {"trajectory": [1, 1, 1], "time": [0.0, 0.0, 1.0], "node": ["x", "y", "x"],
             "state": ["off", "on", "on"]}  # fmt: skip
    both = [am.Trajectories.from_frame(t, end=2.0) for t in (make(paths), pd.DataFrame(paths))]
    pd.testing.assert_frame_equal(both[0].to_frame(), both[1].to_frame())
