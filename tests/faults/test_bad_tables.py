"""Malformed tables: every problem is named with trajectory, row, column and value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError


def good() -> dict[str, list[object]]:
    return {
        "trajectory": ["p", "p", "p", "q"],
        "time": [0.0, 1.0, 2.0, 0.0],
        "A": [0.1, 0.2, 0.3, 0.4],
        "B": [1, 0, 1, 1],
    }


def changed(column: str, row: int, value: object) -> pd.DataFrame:
    table = good()
    table[column][row] = value
    return pd.DataFrame(table)


@pytest.mark.parametrize(
    ("frame", "options", "expected"),
    [
        (changed("time", 1, 5.0), {}, ("p", 4, "time", "sort=True")),
        (changed("time", 1, np.nan), {}, ("p", 3, "time", "the time is missing")),
        (changed("time", 1, np.inf), {}, ("p", 3, "time", "not finite")),
        (changed("time", 3, "noon"), {}, ("q", 5, "time", "'noon' is not a time")),
        (
            changed("time", 3, "3.11.2026 9:30"),
            {},
            ("q", 5, "time", "is a date that cannot be read"),
        ),
        (
            changed("time", 1, pd.Timestamp(2026, 1, 2)),
            {},
            ("p", 3, "time", "is a date that cannot be read"),
        ),
        (changed("time", 1, pd.Timedelta(days=2)), {}, ("p", 3, "time", "is not a time")),
        (changed("A", 2, "high"), {}, ("p", 4, "A", "'high' is text in a column of numbers")),
        (changed("A", 2, np.inf), {}, ("p", 4, "A", "not a finite number")),
        (changed("trajectory", 2, None), {}, (None, 4, "trajectory", "trajectory is missing")),
        (pd.DataFrame(good()), {"end": 1.5}, ("p", 4, "A", "outside the trajectory")),
        (pd.DataFrame(good()), {"start": {"p": 0.5}}, ("p", 2, "A", "outside the trajectory")),
        (pd.DataFrame(good()), {"end": {"q": -1.0}}, ("q", None, None, "negative duration")),
        (pd.DataFrame(good()), {"end": {"q": np.nan}}, ("q", None, None, "not a finite number")),
        (pd.DataFrame(good()), {"end": {"r": 3.0}}, ("r", None, None, "give both")),
        (pd.DataFrame(good()).iloc[:0], {}, (None, None, None, "empty")),
        (pd.DataFrame(good()).drop(columns="time"), {}, (None, None, None, "no time column")),
        (pd.DataFrame(good())[["trajectory", "time"]], {}, (None, None, None, "no column of")),
        (
            pd.DataFrame(good()),
            {"trajectory": "replicat", "sort": True},
            (None, None, None, "no column 'replicat' that names trajectories; the columns are"),
        ),
        (pd.DataFrame(good()), {"exact": "sure"}, (None, None, None, "names no column")),
        (pd.DataFrame(good()), {"exact": [True]}, (None, None, None, "4 rows")),
        (pd.DataFrame(good()), {"exact": "A"}, ("any", None, "A", "not a flag")),
        (pd.DataFrame(good()), {"nodes": ["A", "Z"]}, (None, None, "Z", "no such column")),
        (pd.DataFrame(good()), {"kind": "tall"}, (None, None, None, "'wide' or 'long'")),
        (pd.DataFrame(good()), {"ties": "random"}, (None, None, None, "'error' or 'order'")),
    ],
)
def test_the_problem_is_named_with_its_place(frame, options, expected):
    trajectory, row, column, message = expected
    observations, problems = am.Observations.check_frame(frame, **options)
    assert observations is None
    first = problems[0]
    assert message in str(first)
    if trajectory != "any":
        assert (first.trajectory, first.row, first.column) == (trajectory, row, column)
    with pytest.raises(DataError, match=r".") as caught:
        am.Observations.from_frame(frame, **options)
    assert message in str(caught.value)


def test_all_problems_are_collected_and_the_first_few_shown():
    frame = pd.DataFrame(
        {
            "time": [0.0, "x", "y", "z", 1.0, np.inf, 0.5, "u", "v", "w", "n"],
            "A": [1, 2, 3, 4, "t", 6, 7, 8, 9, 10, 11],
        }
    )
    _, problems = am.Observations.check_frame(frame)
    assert sorted(p.row for p in problems) == [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    with pytest.raises(DataError, match=r"10 problems") as caught:
        am.Observations.from_frame(frame)
    said = str(caught.value)
    assert "… and 2 more like this (the last in row 12)" in said
    assert "the column 'time' holds text: is it the time?" in said


def test_duplicated_column_names():
    frame = pd.DataFrame([[0.0, 1.0, 2.0]], columns=["time", "A", "A"])
    with pytest.raises(DataError, match="column 'A': the column name occurs more than once"):
        am.Observations.from_frame(frame)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"node": ["A"]}, "p_<state>"),
        ({"node": [None], "value": [1.0]}, "the node is missing"),
        ({"node": ["A"], "p_x": [-1.0], "p_y": [1.0]}, "negative"),
        ({"node": ["A"], "p_x": [0.0], "p_y": [0.0]}, "zero under every state"),
        ({"node": ["A"], "p_x": ["a"], "p_y": [0.1]}, "'a' is not a probability"),
    ],
)
def test_long_tables(columns, message):
    frame = pd.DataFrame({"time": [0.0], **columns})
    with pytest.raises(DataError) as caught:
        am.Observations.from_frame(frame, kind="long")
    assert message in str(caught.value)


def events(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["time", "node", "to", "from"])


def intervals(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["node", "start", "end", "state"])


@pytest.mark.parametrize(
    ("event", "interval", "message"),
    [
        (
            None,
            intervals(("A", 0, 2, "x"), ("A", 1, 3, "y")),
            "row 3.*'y' from 1.*row 2 says 'x'",
        ),
        (
            None,
            intervals(("A", 0, 9, "x"), ("A", 1, 2, "x"), ("A", 3, 4, "y")),
            "row 4.*row 2 says 'x' until 9",
        ),
        (None, intervals(("A", 2, 1, "x")), "negative duration"),
        (None, intervals(("A", 0, None, "x")), "row 2.*'end'.*missing"),
        (None, intervals((None, 0, 1, "x")), "'node'.*empty"),
        (events((1, "A", "y", None)), intervals(("A", 0, 2, "x")), "known to stay in 'x'"),
        (events((2, "A", "y", "z")), intervals(("A", 0, 2, "x")), "not from the state before: 'x'"),
        (events((2, "A", "x", None)), intervals(("A", 0, 2, "x")), "already is in 'x'"),
        (events((2, "A", "y", None)), intervals(("A", 2, 3, "x")), "known to be in 'x'"),
        (events((2, "A", "x", "x")), None, "from 'x' into itself"),
        (events((2, "A", "x", None), (2, "A", "y", None)), None, "row 3.*twice at time 2"),
        (events((2, "A", None, None)), None, "'to'.*empty"),
        (events((2, "A", "x", None)).rename(columns={"from": "source"}), None, "unknown column"),
        (events((2, "A", "x", None)).drop(columns="to"), None, r"needs the column\(s\) to"),
        (events((12, "A", "x", None)), None, "outside the trajectory"),
    ],
)
def test_events_and_intervals_that_contradict(event, interval, message):
    with pytest.raises(DataError, match=message):
        am.Observations.from_frame(None, start=0.0, end=10.0, events=event, intervals=interval)


def test_consistent_events_and_intervals_are_accepted():
    obs = am.Observations.from_frame(
        None,
        start=0.0,
        end=10.0,
        events=events((2, "A", "y", "x"), (2, "B", "y", None), (5, "A", "x", None)),
        intervals=intervals(("A", 0, 2, "x"), ("A", 1, 2, "x"), ("A", 2, 4, "y"), ("B", 0, 1, "u")),
    )
    assert len(obs.events) == 3


def test_nothing_at_all():
    with pytest.raises(DataError, match="nothing to read"):
        am.Observations.from_frame(None)
