"""Reading, viewing and writing observations."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.data.problems import DataWarning
from asterism.data.table_file import read_text_table
from asterism.errors import DataError


def wide() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "trajectory": [1, 1, 1, 2, 2],
            "time": [0.0, 1.0, 2.0, 0.5, 3.0],
            "A": [0.1, np.nan, 0.3, 1.0, 2.0],
            "B": ["off", "on", "on", None, "off"],
        }
    )


def test_wide_table_is_split_by_node_and_missing_cells_are_dropped():
    obs = am.Observations.from_frame(wide())
    assert obs.trajectories == (1, 2)
    assert obs.nodes == ("A", "B")
    assert obs.measurements["A"].time.tolist() == [0.0, 2.0, 0.5, 3.0]
    assert obs.measurements["A"].trajectory.tolist() == [0, 0, 1, 1]
    assert obs.measurements["B"].value.tolist() == ["off", "on", "on", "off"]
    assert obs.measurements["B"].row.tolist() == [2, 3, 4, 6]
    assert obs.start.tolist() == [0.0, 0.5]
    assert obs.end.tolist() == [2.0, 3.0]


def test_start_and_end_as_number_and_per_trajectory():
    obs = am.Observations.from_frame(wide(), start=-1.0, end={"2": 9.0})
    assert obs.start.tolist() == [-1.0, -1.0]
    assert obs.end.tolist() == [2.0, 9.0]


def test_trajectory_without_measurements_is_legal():
    obs = am.Observations.from_frame(wide(), start={7: 0.0}, end={7: 4.0})
    assert obs.trajectories == (1, 2, 7)
    assert (obs.start[2], obs.end[2]) == (0.0, 4.0)


def test_table_without_trajectory_column_is_one_trajectory():
    obs = am.Observations.from_frame(wide().iloc[:3].drop(columns="trajectory"))
    assert obs.n_trajectories == 1


@pytest.mark.smoke
def test_long_table_gives_the_same_as_the_wide_one():
    obs = am.Observations.from_frame(wide())
    again = am.Observations.from_frame(obs.to_frame("long"))
    pd.testing.assert_frame_equal(obs.to_frame(), again.to_frame())


def test_other_column_names():
    frame = wide().rename(columns={"trajectory": "patient", "time": "years"})
    obs = am.Observations.from_frame(frame, trajectory="patient", time="years")
    pd.testing.assert_frame_equal(obs.to_frame(), am.Observations.from_frame(wide()).to_frame())


def test_sort_keyword_sorts_rows_and_keeps_their_numbers():
    obs = am.Observations.from_frame(wide().iloc[[2, 0, 1, 4, 3]], sort=True)
    assert obs.measurements["B"].time.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert obs.measurements["B"].row.tolist() == [3, 4, 2, 5]


def test_replicates_at_one_time_survive_both_forms():
    frame = pd.DataFrame({"time": [0.0, 1.0, 1.0, 1.0], "A": [1.0, 2.0, 3.0, 2.0]})
    obs = am.Observations.from_frame(frame)
    assert len(obs.measurements["A"]) == 4
    for kind in ("wide", "long"):
        again = am.Observations.from_frame(obs.to_frame(kind))
        assert again.measurements["A"].value.tolist() == [1.0, 2.0, 3.0, 2.0]


@pytest.mark.parametrize("how", ["column", "mask", "first"])
def test_exact_rows(how: str):
    frame = wide()
    mask = np.array([True, False, False, True, False])
    if how == "column":
        frame["sure"] = mask
        obs = am.Observations.from_frame(frame, exact="sure")
    else:
        obs = am.Observations.from_frame(frame, exact=mask if how == "mask" else "first")
    assert obs.nodes == ("A", "B")
    assert obs.measurements["A"].exact.tolist() == [True, False, True, False]
    assert obs.measurements["B"].exact.tolist() == [True, False, False, False]


def test_likelihood_columns_of_a_long_table():
    frame = pd.DataFrame(
        {
            "trajectory": "x",
            "time": [0.0, 1.0, 0.0],
            "node": ["A", "A", "B"],
            "p_off": [0.2, 0.5, 0.1],
            "p_on": [0.8, 0.5, 0.3],
            "p_high": [np.nan, np.nan, 0.6],
        }
    )
    obs = am.Observations.from_frame(frame)
    assert obs.measurements["A"].states == ("off", "on")
    assert obs.measurements["B"].likelihood.tolist() == [[0.1, 0.3, 0.6]]
    again = am.Observations.from_frame(obs.to_frame("long"))
    assert np.array_equal(again.measurements["A"].likelihood, obs.measurements["A"].likelihood)
    with pytest.raises(DataError, match="kind='long'"):
        obs.to_frame("wide")


def test_from_likelihoods_skips_rows_of_nan():
    table = np.array([[0.2, 0.8], [np.nan, np.nan], [1.0, 0.0]])
    obs = am.Observations.from_likelihoods(
        times=[[0.0, 1.0, 2.0], [1.0]],
        likelihoods=[{"A": table}, {"A": table[:1], "B": table[2:]}],
        start=0.0,
        end=5.0,
    )
    assert obs.measurements["A"].time.tolist() == [0.0, 2.0, 1.0]
    assert obs.measurements["B"].trajectory.tolist() == [1]
    assert obs.end.tolist() == [5.0, 5.0]
    with pytest.raises(DataError, match="shape"):
        am.Observations.from_likelihoods([[0.0]], [{"A": table}])
    with pytest.raises(DataError, match="zero under every state"):
        am.Observations.from_likelihoods([[0.0]], [{"A": [[0.0, 0.0]]}])


def test_select_rename_scale_time():
    events = pd.DataFrame({"trajectory": [1, 2], "time": [1.5, 2.0], "node": "B", "to": "on"})
    intervals = pd.DataFrame(
        {"trajectory": [2], "node": ["C"], "start": [1.0], "end": [2.5], "state": ["x"]}
    )
    obs = am.Observations.from_frame(wide(), events=events, intervals=intervals)
    assert obs.nodes == ("A", "B", "C")
    one = obs.select([2])
    assert one.trajectories == (2,)
    assert one.measurements["A"].value.tolist() == [1.0, 2.0]
    assert one.events_frame()["time"].tolist() == [2.0]
    assert len(one.intervals) == 1
    turned = obs.select([2, 1])
    assert turned.measurements["A"].value.tolist() == [1.0, 2.0, 0.1, 0.3]
    assert turned.start.tolist() == [0.5, 0.0]
    named = obs.rename({"B": "beta"})
    assert named.nodes == ("A", "beta", "C")
    assert set(named.events.node) == {"beta"}
    slow = obs.scale_time(60.0)
    assert slow.end.tolist() == [120.0, 180.0]
    assert slow.events.time.tolist() == [90.0, 120.0]
    assert slow.intervals.end.tolist() == [150.0]
    assert slow.measurements["B"].time.tolist() == [0.0, 60.0, 120.0, 180.0]
    with pytest.raises(DataError, match="no trajectory 5"):
        obs.select([5])
    with pytest.raises(DataError, match="same name"):
        obs.rename({"A": "B"})


def test_nodes_left_out_take_their_interventions_along():
    held = pd.DataFrame({"trajectory": [1, 1], "node": ["A", "B"], "state": ["on", "on"]})
    obs = am.Observations.from_frame(wide()).with_interventions(held)
    assert set(obs.select(nodes=["B"]).interventions.node) == {"B"}
    assert set(obs.rename({"A": "alpha"}).interventions.node) == {"alpha", "B"}


def test_describe_and_repr():
    obs = am.Observations.from_frame(wide())
    table = obs.describe()
    assert table.loc["A", "points"] == 4
    assert table.loc["A", "missing"] == pytest.approx(0.2)
    assert table.loc["A", "typical_gap"] == pytest.approx(2.25)
    assert "2 trajectories" in repr(obs)
    assert "A, B" in repr(obs)


def test_csv_keeps_what_a_table_cannot_hold(tmp_path: Path):
    events = pd.DataFrame(
        {"trajectory": ["1"], "time": [1.5], "node": ["B"], "to": ["on"], "from": ["off"]}
    )
    intervals = pd.DataFrame(
        {"trajectory": [9], "node": ["B"], "start": [0.0], "end": [2.0], "state": ["off"]}
    )
    obs = am.Observations.from_frame(
        wide(),
        start=-1 / 3,
        end={1: 8.0, 9: 3.0},
        events=events,
        intervals=intervals,
        exact="first",
    )
    for kind in ("wide", "long"):
        obs.to_csv(tmp_path / "data.csv", kind)
        again = am.Observations.from_csv(tmp_path / "data.csv")
        assert again.trajectories == obs.trajectories == (1, 2, 9)
        assert np.array_equal(again.start, obs.start)
        assert np.array_equal(again.end, obs.end)
        pd.testing.assert_frame_equal(again.to_frame("long"), obs.to_frame("long"))
        pd.testing.assert_frame_equal(again.events_frame(), obs.events_frame())
        pd.testing.assert_frame_equal(again.intervals_frame(), obs.intervals_frame())
    obs.select([2]).to_csv(tmp_path / "data.csv")
    assert len(am.Observations.from_csv(tmp_path / "data.csv").events) == 0


def test_a_side_file_with_wrong_names_is_refused(tmp_path: Path):
    path, side = tmp_path / "x.csv", tmp_path / "x.meta.json"
    obs = am.Observations.from_frame(wide(), start={7: 0.0}, end={7: 4.0})
    obs.to_csv(path)
    assert am.Observations.from_csv(path).trajectories == (1, 2, 7)
    with path.open("a") as file:  # rows added later
        file.write("3,0.0,0.5,on\n")
    with pytest.raises(DataError, match=r"x\.meta\.json.* names trajectory 7, .*not '3'.*'2'"):
        am.Observations.from_csv(path)
    side.write_text(side.read_text().replace("7", "3"))
    assert am.Observations.from_csv(path).trajectories == (1, 2, 3)
    side.write_text(side.read_text().replace("2,", "20,", 1))
    with pytest.raises(DataError, match=r"names trajectory 20, .*not '2', which has rows"):
        am.Observations.check_csv(path)


@pytest.mark.parametrize("table", ["events", "intervals"])
def test_a_trajectory_that_only_events_or_intervals_name_is_pointed_out(table: str):
    rows = {
        "events": {"trajectory": [20], "time": [1.5], "node": ["B"], "to": ["on"]},
        "intervals": {
            "trajectory": [20], "node": ["B"], "start": [0.0], "end": [2.0], "state": ["off"]
        },
    }[table]  # fmt: skip
    side = {table: pd.DataFrame(rows)}
    with pytest.warns(DataWarning, match=r"trajectory 20: .*no such trajectory.*table's are 1, 2$"):
        found = am.Observations.from_frame(wide(), **side)
    assert found.trajectories == (1, 2, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        meant = am.Observations.from_frame(wide(), start={20: 0.0}, end={20: 4.0}, **side)
        alone = am.Observations.from_frame(None, start=0.0, end=4.0, **side)
    assert meant.trajectories == (1, 2, 20)
    assert alone.trajectories == (20,)


@pytest.mark.parametrize(
    "text",
    [
        "trajectory,time,A\n1,0,0.5\n1,1,NA\n1,2,1.5\n",
        "\ufefftrajectory;time;A\r\n1;0;0,5\r\n1;1;\r\n1;2;1,5\r\n",
        "trajectory\ttime\tA\n1\t0\t0.5\n1\t1\tnan\n1\t2\t1.5\n",
        "trajectory,time,A,\n1,0,0.5,\n\n1,1,,\n1,2,1.5,\n",
    ],
)
def test_spellings_of_csv(tmp_path: Path, text: str):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode("utf-8"))
    obs = am.Observations.from_csv(path)
    assert obs.trajectories == (1,)
    assert obs.measurements["A"].value.tolist() == [0.5, 1.5]
    assert obs.measurements["A"].time.tolist() == [0.0, 2.0]


def test_names_with_leading_zeros_stay_text(tmp_path: Path):
    path = tmp_path / "x.csv"
    path.write_text("trajectory,time,A\n007,0,1\n7,0,2\n")
    assert am.Observations.from_csv(path).trajectories == ("007", "7")


def test_missing_and_broken_files(tmp_path: Path):
    with pytest.raises(DataError, match="no file"):
        am.Observations.from_csv(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("\n")
    with pytest.raises(DataError, match="is empty"):
        am.Observations.from_csv(tmp_path / "empty.csv")
    (tmp_path / "ragged.csv").write_text("time,A\n0,1\n1\n")
    with pytest.raises(DataError, match="row 3: 1 cells"):
        read_text_table(tmp_path / "ragged.csv")


def test_labels_that_look_like_numbers():
    frame = pd.DataFrame({"time": [0, 1, 2], "S": ["1", "2", "dead"]})
    with pytest.raises(DataError, match="labels="):
        am.Observations.from_frame(frame)
    obs = am.Observations.from_frame(frame, labels=["S"])
    assert obs.measurements["S"].value.tolist() == ["1", "2", "dead"]


def test_all_missing_column_is_kept_with_a_warning():
    frame = wide().assign(C=np.nan)
    with pytest.warns(DataWarning, match="'C'.*all missing"):
        obs = am.Observations.from_frame(frame)
    assert obs.nodes == ("A", "B", "C")
    assert len(obs.measurements["C"]) == 0


def test_check_csv_returns_everything(tmp_path: Path):
    (tmp_path / "x.csv").write_text("trajectory,time,A\na,0,1\na,x,2\na,2,3\na,1,inf\n")
    obs, problems = am.Observations.check_csv(tmp_path / "x.csv")
    assert obs is None
    assert [(p.row, p.column) for p in problems] == [(3, "time"), (5, "time"), (5, "A")]


def test_paths_as_evidence():
    frame = pd.DataFrame(
        {
            "trajectory": 0,
            "time": [0.0, 0.0, 1.0, 2.5],
            "node": ["A", "B", "A", "B"],
            "state": ["x", "u", "y", "v"],
        }
    )
    obs = am.Observations.from_trajectories(am.Trajectories.from_frame(frame, end=4.0))
    assert obs.events_frame()[["node", "to", "from"]].to_numpy().tolist() == [
        ["A", "y", "x"],
        ["B", "v", "u"],
    ]
    assert obs.intervals_frame()[["node", "start", "end", "state"]].to_numpy().tolist() == [
        ["A", 0.0, 1.0, "x"],
        ["A", 1.0, 4.0, "y"],
        ["B", 0.0, 2.5, "u"],
        ["B", 2.5, 4.0, "v"],
    ]


def test_missing_integers_stay_missing() -> None:
    network = am.glauber("chain:3")
    paths = am.simulate(network, 4, duration=5.0, seed=1)
    seen = am.observe(paths, am.Exact(), n_observations=6, missing=0.4, seed=2)
    table = seen.to_frame()
    n_cells = int(table[list(network.nodes)].notna().sum().sum())
    assert n_cells == seen.n_measurements < table[list(network.nodes)].size
    assert set(table[list(network.nodes)].stack().dropna()) == {-1, 1}


def test_times_that_start_again_hint_at_several_trajectories() -> None:
    frame = pd.DataFrame({"time": [0.0, 1.0, 0.0], "donor": [1, 1, 2], "A": [0.1, 0.2, 0.3]})
    with pytest.raises(
        am.errors.DataError, match=r"name the column with trajectory= \('donor' would fit\)"
    ):
        am.Observations.from_frame(frame)
