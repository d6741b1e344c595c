"""Times in every form that people write them, as numbers in one unit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.data.clock import read_clock, unit_of_column
from asterism.errors import DataError


def cells(*values: object) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("values", "column", "wanted", "expected", "unit"),
    [
        (("0", "1.5"), "time", None, [0, 1.5], ""),
        (("0", "90"), "time_min", None, [0, 90], "min"),
        (("0", "90"), "time_min", "h", [0, 1.5], "h"),
        (("0", "90"), "time", "h", [0, 90], "h"),
        (("0h", "1.5 h", "2 hours"), "time", None, [0, 1.5, 2], "h"),
        (("0", "30 min", "2h"), "time", None, [0, 30, 120], "min"),
        (("30 min", "2h"), "time", "h", [0.5, 2], "h"),
        (("Day 0", "day 3", "D7"), "time", None, [0, 3, 7], "days"),
        (("day 0", "week 1"), "time", None, [0, 7], "days"),
        (("T0", "T5"), "time", None, [0, 5], ""),
        (("24 hpi", "48 hpi"), "time", None, [24, 48], "h"),
        (("0:30", "12:45:36"), "time", None, [0.5, 12.76], "h"),
        (("2024-03-01", "2024-03-04"), "date", None, [0, 3], "days"),
        (("01.03.2024", "04.03.2024"), "date", None, [0, 3], "days"),
        (("2024/03/01", "2024/03/04"), "date", None, [0, 3], "days"),
        (("2024-03-01", "2024-03-04"), "date", "h", [0, 72], "h"),
        (("2024-03-01 08:00", "2024-03-01T10:30:00"), "time", None, [0, 2.5], "h"),
        (("2024-03-01T00:00:00Z", "2024-03-01T00:05:00+00:00"), "t", None, [0, 5], "min"),
        ((pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-02")), "t", None, [0, 1], "days"),
        ((pd.Timedelta(hours=1), pd.Timedelta(hours=3)), "t", "h", [1, 3], "h"),
        (("1,5 h", "2 h"), "time", None, [1.5, 2], "h"),
    ],
)
def test_times_are_read(
    values: tuple[object, ...], column: str, wanted: str | None, expected: list[float], unit: str
) -> None:
    found = read_clock(cells(*values), column, wanted)
    np.testing.assert_allclose(found.time, expected)
    assert found.unit == unit


def test_what_is_no_time_is_left_open() -> None:
    for values in (("noon", "1"), ("3/4/2024", "3/5/2024"), ("2 apples", "3 apples")):
        assert np.isnan(read_clock(cells(*values), "time").time).any()
    # a number without a unit beside others that have one
    assert np.isnan(read_clock(cells("1h", "2h", "3"), "time").time[2])
    assert read_clock(cells("1h", "2h", "3"), "time_h").time[2] == 3.0


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Time (h)", "h"),
        ("time [min]", "min"),
        ("time_s", "s"),
        ("hours", "h"),
        ("hpi", "h"),
        ("h", "h"),
        ("t", ""),
        ("s", ""),
        ("time", ""),
        ("age", ""),
        ("visit_days", "days"),
    ],
)
def test_units_in_names_of_columns(name: str, unit: str) -> None:
    assert unit_of_column(name) == unit


def test_python_reads_times_codes_and_ends_too() -> None:
    frame = pd.DataFrame(
        {
            "trajectory": [1, 1, 2],
            "time": ["0 min", "30 min", "1 h"],
            "A": [0.5, -999, 0.7],
            "seen": ["1 h", "1 h", "2 h"],
        }
    )
    found = am.Observations.from_frame(
        frame, missing=[-999], unit="min", end_column="seen", nodes=["A"]
    )
    assert found.time_unit == "min"
    assert found.end.tolist() == [60.0, 120.0]
    assert found.measurements["A"].value.tolist() == [0.5, 0.7]
    with pytest.raises(DataError, match="unit 'fortnight' is unknown; valid are s, min, h"):
        am.Observations.from_frame(frame, unit="fortnight")


def test_the_unit_survives_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    frame = pd.DataFrame({"time_h": [0.0, 2.0], "A": [0.1, 0.2]})
    found = am.Observations.from_frame(frame, time="time_h")
    assert found.time_unit == "h"
    found.to_csv(tmp_path / "t.csv")
    again = am.Observations.from_csv(tmp_path / "t.csv")
    assert (again.time_unit, again.end.tolist()) == ("h", [2.0])
    assert found.scale_time(60.0).time_unit == ""


def test_sorting_never_mixes_trajectories() -> None:
    frame = pd.DataFrame({"time": [0.0, 1.0, 0.0, 1.0], "A": [0.1, 0.2, 0.3, 0.4]})
    for sort in (False, True):
        with pytest.raises(DataError, match="the times start again at 0"):
            am.Observations.from_frame(frame, sort=sort)
    shuffled = frame.assign(time=[0.0, 2.0, 1.0, 3.0])
    assert am.Observations.from_frame(shuffled, sort=True).n_measurements == 4
    with pytest.raises(DataError, match="sort=True"):
        am.Observations.from_frame(shuffled)
