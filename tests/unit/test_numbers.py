"""What a cell is read as: 200 spellings, the same in text files, workbooks and data frames."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

import asterism as am
from asterism.data.numbers import as_number, read_numbers
from asterism.errors import DataError
from tests.command_line import invoke

TEXT, EMPTY, ASKS, INFINITE = "text", "empty", "asks", "infinite"

#: each spelling and what it is beside the plain numbers 7, 8 and 9
SPELLINGS: dict[str, float | str] = {
    # signs
    **{"0": 0, "5": 5, "+5": 5, "-5": -5, "\N{MINUS SIGN}5": -5, "-0": 0, "+0.0": 0, "--5": TEXT},
    **{"+-5": TEXT, "5-": TEXT, "5+": TEXT, "- 5": TEXT, "(5)": TEXT, "\N{EN DASH}5": TEXT},
    **{"±5": TEXT, "~5": TEXT, "<5": TEXT, ">5": TEXT, "≤5": TEXT, "-": EMPTY, "+": TEXT},
    # decimals
    **{"1.5": 1.5, ".5": 0.5, "5.": 5, "-.5": -0.5, "+.25": 0.25, "0.1": 0.1, "007": 7, "01": 1},
    **{"1.50": 1.5, "00.5": 0.5, "1.2.3": TEXT, ".": EMPTY, "1..5": TEXT, "1. 5": TEXT},
    **{"123456789": 123456789, "0.056954922342826314": 0.056954922342826314, "-273.15": -273.15},
    **{"12345678901234567890": 12345678901234567890.0, "1·5": TEXT, "1٫5": TEXT, "1:5": TEXT},
    **{"4.9e-324": 5e-324, "1.7976931348623157e308": 1.7976931348623157e308, "3.14159": 3.14159},
    # exponents
    **{"1e5": 1e5, "1E5": 1e5, "1e+05": 1e5, "1e-5": 1e-5, "1.5e3": 1500, ".5e1": 5, "5.e1": 50},
    **{"-2.5E-02": -0.025, "1e0": 1, "1e": TEXT, "e5": TEXT, "1e5.5": TEXT, "1e 5": TEXT},
    **{"1e400": INFINITE, "-1e400": INFINITE, "1e-400": 0, "1d5": TEXT, "1D5": TEXT, "1^5": TEXT},
    **{"1x10^5": TEXT, "1*10^5": TEXT, "1·10⁵": TEXT, "10⁵": TEXT, "1ee5": TEXT, "1e5e": TEXT},
    # infinite and not a number
    **{"inf": INFINITE, "-inf": INFINITE, "+inf": INFINITE, "Inf": INFINITE, "INF": INFINITE},
    **{"infinity": INFINITE, "-Infinity": INFINITE, "infinite": TEXT, "∞": TEXT, "1.#INF": TEXT},
    **{"nan": EMPTY, "NaN": EMPTY, "-nan": EMPTY, "nan(1)": TEXT, "infin": TEXT},
    # not measured
    **{"NA": EMPTY, "n/a": EMPTY, "N.A.": EMPTY, "#N/A": EMPTY, "null": EMPTY, "NULL": EMPTY},
    **{"nd": EMPTY, "n.d.": EMPTY, "?": EMPTY, "missing": EMPTY, "not measured": EMPTY},
    **{"--": EMPTY, "#NV": EMPTY, "#VALUE!": EMPTY, "#DIV/0!": EMPTY, "<NA>": EMPTY},
    **{"\N{EN DASH}": EMPTY, "\N{EM DASH}": EMPTY, "none": TEXT, "unknown": TEXT, "x": TEXT},
    # thousands
    **{"1,234": ASKS, "12,345": ASKS, "123,456": ASKS, "-1,234": ASKS, "+1,000": ASKS},
    **{"1,234,567": 1234567, "12,345,678": 12345678, "1,234.5": 1234.5, "-1,234.50": -1234.5},
    **{"1,234,567.89": 1234567.89, "1,234.": 1234, "1.234,5": 1234.5, "1.234.567,89": 1234567.89},
    **{"1,23,456": TEXT, "1,234,56": TEXT, "12,34,567": TEXT, "1234,567,890": TEXT, "1,,234": TEXT},
    **{"1 234": TEXT, "1\N{NO-BREAK SPACE}234": TEXT, "1\N{NARROW NO-BREAK SPACE}234": TEXT},
    **{"1'234": TEXT, "1\N{RIGHT SINGLE QUOTATION MARK}234": TEXT, "1.234.567": TEXT, "1,": TEXT},
    # decimal commas
    **{"1,5": 1.5, "0,5": 0.5, ",5": 0.5, "-0,25": -0.25, "12,34": 12.34, "0,123": 0.123},
    **{"1234,567": 1234.567, "1,2345": 1.2345, "1,5e3": 1500, "1,234e5": 123400, "007,5": 7.5},
    **{"\N{MINUS SIGN}1,5": -1.5, "1,5,2": TEXT, "1.5,2": TEXT, "1,2,3": TEXT, "1;5": TEXT},
    **{"1, 5": TEXT, "1,5 ": 1.5, "0,0": 0, "01,234": 1.234, "1,234,5": TEXT, "a,5": TEXT},
    # units and words
    **{"5%": TEXT, "5 %": TEXT, "5mg": TEXT, "5 mg": TEXT, "5h": TEXT, "$5": TEXT, "5€": TEXT},
    **{"5k": TEXT, "5K": TEXT, "5M": TEXT, "#5": TEXT, "No. 5": TEXT, "5th": TEXT, "five": TEXT},
    **{"5*": TEXT, "5?": TEXT, "5 6": TEXT, "1/2": TEXT, "5j": TEXT, "5L": TEXT, "5f": TEXT},
    # underscores and the notations of programming languages
    **{"1_1": TEXT, "1_000": TEXT, "1_10": TEXT, "11_0": TEXT, "1_0.5": TEXT, "1e1_0": TEXT},
    **{"_1": TEXT, "1_": TEXT, "0x1F": TEXT, "0b101": TEXT, "0o17": TEXT, "1e0x2": TEXT},
    **{"True": TEXT, "false": TEXT, "1.0f": TEXT, "0x1p3": TEXT},
    # digits of other scripts
    **{"٣": TEXT, "３": TEXT, "१२": TEXT, "²": TEXT, "½": TEXT, "Ⅳ": TEXT, "1٣": TEXT, "①": TEXT},
    **{"１.５": TEXT, "-٣": TEXT, "𝟓": TEXT, "五": TEXT},
    # spaces around
    **{" 5": 5, "5 ": 5, "\N{NO-BREAK SPACE}5": 5, " 1.5 ": 1.5},
    # dates and times
    **{"2024-03-01": TEXT, "01.03.2024": TEXT, "3/1/2024": TEXT, "1.3.24": TEXT, "12:30": TEXT},
    **{"2024-03-01T12:00": TEXT, "Mar-24": TEXT, "1-Mar": TEXT, "20240301": 20240301},
}

#: where pandas.to_numeric reads a spelling otherwise, and what we do instead
UNLIKE_PANDAS = {"True": "a state, not 1", "false": "a state, not 0"}


def test_there_are_two_hundred() -> None:
    assert len(SPELLINGS) >= 200


def _in_frame(cells: list[str], _: Path) -> Any:
    frame = pd.DataFrame({"time": range(len(cells)), "A": cells})
    return am.Observations.check_frame(frame)


def _in_file(separator: str) -> Callable[[list[str], Path], Any]:
    def read(cells: list[str], folder: Path) -> Any:
        path = folder / "t.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerows([("time", "A"), *enumerate(cells)])
        return am.Observations.check_csv(path)

    return read


def _in_workbook(cells: list[str], folder: Path) -> Any:
    book = openpyxl.Workbook()
    for row in [("time", "A"), *enumerate(cells)]:
        book.active.append(row)
    for row in book.active.iter_rows(min_row=2, min_col=2, max_col=2):
        row[0].data_type = "s"  # also what looks like a formula or an error
    book.save(folder / "t.xlsx")
    return am.Observations.check_csv(folder / "t.xlsx")


READERS = {
    "data frame": _in_frame,
    "commas": _in_file(","),
    "semicolons": _in_file(";"),
    "tabs": _in_file("\t"),
    "workbook": _in_workbook,
}


def _meaning(found: Any) -> float | str:
    """What the first of four cells was read as."""
    observations, problems = found
    errors = [p for p in problems if p.severity == "error"]
    if observations is None:
        (error,) = errors
        for word, meaning in (("text", TEXT), ("may be", ASKS), ("finite", INFINITE)):
            if word in str(error):
                assert (error.row, error.column) == (2, "A")
                return meaning
        raise AssertionError(str(error))
    record = observations.measurements["A"]
    assert record.value[-3:].tolist() == [7, 8, 9]
    return EMPTY if len(record) == 3 else float(record.value[0])


@pytest.mark.parametrize("reader", READERS)
def test_spellings(reader: str, tmp_path: Path) -> None:
    wrong = {}
    for spelling, expected in SPELLINGS.items():
        found = _meaning(READERS[reader]([spelling, "7", "8", "9"], tmp_path))
        if found != expected:
            wrong[spelling] = (found, expected)
    assert wrong == {}


def test_where_pandas_has_a_number_it_is_ours() -> None:
    for spelling, ours in SPELLINGS.items():
        theirs = pd.to_numeric(pd.Series([spelling]), errors="coerce").iloc[0]
        if spelling in UNLIKE_PANDAS or math.isnan(theirs):
            continue
        if math.isinf(theirs):
            assert ours == INFINITE, spelling
        else:
            assert ours == pytest.approx(float(theirs), rel=1e-15), spelling


@pytest.mark.parametrize(("comma", "option"), [("thousands", "thousands"), ("decimal", "decimal")])
def test_commas_as_pandas_reads_them(comma: str, option: str, tmp_path: Path) -> None:
    """Every spelling with a comma that the column itself settles, or the setting."""
    compared = 0
    for spelling, ours in SPELLINGS.items():
        if "," not in spelling or ours == TEXT or "\N{MINUS SIGN}" in spelling:
            continue
        path = tmp_path / "t.csv"
        path.write_text(f"A;B\n{spelling};0\n7;0\n", encoding="utf-8")
        other = "." if option == "decimal" else None
        marks: dict[str, Any] = {option: ","} | ({"thousands": other} if other else {})
        theirs = pd.read_csv(path, sep=";", **marks)["A"]
        found = read_numbers(np.array([spelling, "7"], dtype=object), comma)
        if theirs.dtype.kind in "if" and found.comma == comma:
            assert found.value[0] == pytest.approx(float(theirs.iloc[0]), rel=1e-15), spelling
            compared += 1
    assert compared > 5


COLUMNS: list[tuple[list[str], list[float] | str]] = [
    (["1,234", "987", "2,500", "12,345", "120"], ASKS),
    (["1,234", "2,500", "1,000,000"], [1234, 2500, 1000000]),
    (["1,234", "2,500", "1.5"], [1234, 2500, 1.5]),
    (["1,234", "0,5", "12"], [1.234, 0.5, 12]),
    (["1,234", "2,50", "12"], [1.234, 2.5, 12]),
    (["1,234", "1234,5", "na"], [1.234, 1234.5]),
    (["1.234,5", "1.234", "2,5"], [1234.5, 1234, 2.5]),
    (["2,5", "1.5", "3,5"], "neither"),
    (["0,5", "1,234,567", "8"], "neither"),
    (["2,5", "1.234", "3,5"], "neither"),
    (["1,2", "1,2,3", "2,3"], ["1,2", "1,2,3", "2,3"]),
    (["1_1", "1_10", "11_0", "1_1"], ["1_1", "1_10", "11_0", "1_1"]),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("cells", "expected"), COLUMNS, ids=lambda value: str(value)[:20])
def test_all_cells_of_a_column_decide(
    cells: list[str], expected: Any, reader: str, tmp_path: Path
) -> None:
    observations, problems = READERS[reader](cells, tmp_path)
    if isinstance(expected, str):
        (error,) = [p for p in problems if p.severity == "error"]
        assert error.column == "A"
        assert ("comma='thousands'" in str(error)) == (expected == ASKS)
    else:
        assert observations.measurements["A"].value.tolist() == expected
        notes = [str(p) for p in problems if p.severity == "note"]
        assert len(notes) == (isinstance(expected[0], float | int)), "what a comma means is said"


@pytest.mark.parametrize(("comma", "first"), [("thousands", 1234.0), ("decimal", 1.234)])
def test_the_user_settles_what_the_column_leaves_open(
    comma: str, first: float, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time;A\n0;1,234\n1;987\n")
    found = am.Observations.from_csv(path, comma=comma)
    assert found.measurements["A"].value.tolist() == [first, 987.0]
    path.write_text("time;A\n0;0,25\n1;987\n")  # only one reading is possible
    found = am.Observations.from_csv(path, comma=comma)
    assert found.measurements["A"].value.tolist() == [0.25, 987.0]
    with pytest.raises(DataError, match="comma"):
        am.Observations.from_csv(path, comma="both")


def test_a_number_of_a_workbook_has_no_thousands(tmp_path: Path) -> None:
    """1.234 is stored as a number; only its neighbour is text with a comma."""
    book = openpyxl.Workbook()
    for row in [("time", "A"), (0, 1.234), (1, "1.234,5"), (2, 7)]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    found = am.Observations.from_csv(tmp_path / "t.xlsx")
    assert found.measurements["A"].value.tolist() == [1.234, 1234.5, 7.0]


def test_all_nodes_of_a_long_table_share_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time;node;value\n0;A;1,234\n0;B;0,5\n1;A;2,345\n1;B;0,7\n")
    found = am.Observations.from_csv(path)
    assert found.measurements["A"].value.tolist() == [1.234, 2.345]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["1_0", "2_0", "3_0"], None),
        (["٠", "١", "٢"], None),
        (["0", "0,5", "1,25"], [0, 0.5, 1.25]),
        (["0", "1,000", "2,000"], ASKS),
        (["0 h", "1,5 h", "2,25 h"], [0, 1.5, 2.25]),
        (["1,000 h", "2,000 h", "3,000 h"], ASKS),
        (["999 h", "1,000.5 h", "2,000 h"], [999, 1000.5, 2000]),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_times(times: list[str], expected: Any, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    frame = pd.DataFrame({"time": times, "A": [1, 2, 1]})
    if reader == "data frame":
        found, problems = am.Observations.check_frame(frame)
    else:
        if reader == "workbook":
            frame.to_excel(path, index=False)
        else:
            separator = {"commas": ",", "semicolons": ";", "tabs": "\t"}[reader]
            path = tmp_path / "t.csv"
            frame.to_csv(path, index=False, sep=separator)
        found, problems = am.Observations.check_csv(path)
    if isinstance(expected, list):
        assert found.measurements["A"].time.tolist() == expected
    else:
        errors = [str(p) for p in problems if p.severity == "error"]
        assert found is None
        assert any(("comma=" if expected == ASKS else "not a time") in e for e in errors)


def test_side_tables_read_numbers_alike() -> None:
    frame = pd.DataFrame({"trajectory": ["a", "a"], "time": [0, 3000], "A": [0, 1]})
    times = pd.DataFrame({"trajectory": ["a"], "time": ["1_0"], "node": ["A"], "to": ["1"]})
    with pytest.raises(DataError, match="'1_0' is not a time"):
        am.Observations.from_frame(frame, events=times)
    times["time"] = "1,500"
    with pytest.raises(DataError, match=r"table of events, row 2.*comma="):
        am.Observations.from_frame(frame, events=times)
    found = am.Observations.from_frame(frame, events=times, comma="thousands")
    assert found.events.time.tolist() == [1500.0]
    ages = pd.DataFrame({"trajectory": ["a"], "age": ["6_5"]})
    assert found.with_covariates(ages).covariates.values["age"].tolist() == ["6_5"]
    ages["age"] = "1,234"
    with pytest.raises(DataError, match="comma="):
        found.with_covariates(ages)
    held = pd.DataFrame({"trajectory": ["a"], "node": ["A"], "start": ["1_0"], "state": ["1"]})
    with pytest.raises(DataError, match="'1_0' is not a number"):
        found.with_interventions(held)
    held["start"] = "1,500"
    with pytest.raises(DataError, match=r"interventions, row 2.*comma="):
        found.with_interventions(held)
    assert found.with_interventions(held, comma="thousands").interventions.start.tolist() == [1500]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5.0),
        (np.float32(0.5), 0.5),
        (Decimal("1.5"), 1.5),
        (True, None),
        (np.True_, None),
        (b"5", None),
        (None, None),
        (pd.Timestamp("2024-01-01"), None),
        (10**400, None),
        (1 + 0j, None),
    ],
)
def test_values_that_are_no_text(value: object, number: float | None) -> None:
    assert as_number(value) == number


# ---- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
def test_labels_are_kept_letter_by_letter(reader: str, tmp_path: Path) -> None:
    cells = ["01", "1", "1.0", "+1", "1_0", "10", "01", "1"]
    frame = pd.DataFrame({"time": range(8), "A": cells})
    if reader == "data frame":
        found = am.Observations.from_frame(frame, labels=["A"])
    else:
        READERS[reader](cells, tmp_path)
        path = tmp_path / ("t.xlsx" if reader == "workbook" else "t.csv")
        found = am.Observations.from_csv(path, labels=["A"])
    assert found.measurements["A"].value.tolist() == cells
    learner = am.ParameterLearner({"A": []}, emission=am.Exact()).fit(found)
    assert list(learner.network_.states["A"]) == sorted(set(cells))


def test_learn_does_not_merge_labels(tmp_path: Path) -> None:
    """The command of the issue: 01 and 1 are two states."""
    path = tmp_path / "t.csv"
    rows = [f"{d},{t},{'01' if (t + d) % 3 else '1'}" for d in range(5) for t in range(6)]
    path.write_text("\n".join(["trajectory,time,X", *rows]))
    answer = json.loads(invoke("check", path, "--labels", "X", "--json").stdout)
    assert answer["nodes"][0]["values"] == "labels 01, 1"
    assert invoke("fit", path, "--labels", "X", "-o", tmp_path / "RUN").exit_code == 0
    network = am.Network.load(tmp_path / "RUN" / "network.json")
    assert set(network.states["X"]) == {"01", "1"}


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_check_asks_what_a_comma_is(separator: str, tmp_path: Path) -> None:
    """The command of the issue."""
    path = tmp_path / "th.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(("trajectory", "time", "X"))
        for time, cell in enumerate(["1,234", "987", "2,500", "12,345", "120"]):
            writer.writerow((1, time, cell))
    asked = invoke("check", path)
    assert asked.exit_code == 3
    assert "'1,234'" in asked.stdout
    assert "row 2" in asked.stdout
    assert "--comma thousands" in asked.stdout
    settled = invoke("check", path, "--comma", "thousands")
    assert settled.exit_code == 0
    assert "numbers 120 to 12345" in settled.stdout
    assert "'1,234' is read as 1234" in settled.stdout
    assert invoke("learn", path, "-o", tmp_path / "RUN").exit_code == 3
