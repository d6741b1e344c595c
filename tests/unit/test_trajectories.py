"""Jump paths: tables, states at times, and statistics against a slow count."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.data.counting_tables import CountingColumns, read_counting
from asterism.data.problems import DataWarning
from asterism.errors import DataError


def random_paths(seed: int = 0, n_trajectories: int = 4) -> am.Trajectories:
    """Arbitrary paths of three nodes, one of them with three states."""
    rng = np.random.default_rng(seed)
    states = {"A": ("off", "on"), "B": ("low", "mid", "high"), "C": (-1, 1)}
    rows = []
    for d in range(n_trajectories):
        current = {n: s[rng.integers(len(s))] for n, s in states.items()}
        rows += [(f"t{d}", 0.5 * d, n, s) for n, s in current.items()]
        for time in np.sort(0.5 * d + rng.uniform(0, 10, size=12)):
            node = str(rng.choice(list(states)))
            current[node] = next(s for s in states[node] if s != current[node])
            rows.append((f"t{d}", time, node, current[node]))
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "node", "state"])
    return am.Trajectories.from_frame(frame, states=states, end=20.0)


def slow_statistics(paths: am.Trajectories, parents: dict[str, list[str]], node: str):
    """Dwell times and transitions of one family, walking through every segment."""
    frame = paths.to_frame()
    shape = [len(paths.states[p]) for p in parents[node]]
    size = len(paths.states[node])
    dwell, moves = np.zeros((*shape, size)), np.zeros((*shape, size, size))
    for d, label in enumerate(paths.labels):
        mine = frame[frame.trajectory == label].sort_values("time", kind="stable")
        now: dict[str, int] = {}
        clock = paths.start[d]
        for row in [*mine.itertuples(), None]:
            time = paths.end[d] if row is None else row.time
            u = tuple(now[p] for p in parents[node]) if len(now) == 3 else None
            if u is not None:
                dwell[(*u, now[node])] += time - clock
            clock = time
            if row is None:
                break
            new = paths.states[row.node].index(row.state)
            if row.node == node and u is not None:
                moves[(*u, now[node], new)] += 1
            now[row.node] = new
    return dwell, moves


PARENTS = {"A": ["C", "B"], "B": ["C", "A"], "C": []}


@pytest.mark.parametrize("node", ["A", "B", "C"])
def test_statistics_agree_with_a_slow_count(node: str):
    paths = random_paths()
    found = paths.statistics(PARENTS)
    dwell, moves = slow_statistics(paths, PARENTS, node)
    np.testing.assert_allclose(found.dwell_times[node], dwell, atol=1e-12)
    np.testing.assert_array_equal(found.transitions[node], moves)
    assert moves.sum() > 0
    np.testing.assert_allclose(found.dwell_times[node].sum(), paths.durations.sum())


def test_statistics_take_the_networks_order_of_nodes_and_states():
    paths = random_paths()
    rates = {
        "C": np.zeros((2, 2)),
        "B": np.zeros((2, 2, 3, 3)),
        "A": np.zeros((2, 2, 2)),
    }
    states = {"C": [1, -1], "B": ["high", "low", "mid"], "A": ["off", "on"]}
    network = am.Network({"C": [], "B": ["A", "C"], "A": ["C"]}, rates, states=states)
    found = paths.statistics(network)
    plain = paths.statistics(PARENTS)
    expected = plain.dwell_times["B"].transpose(1, 0, 2)[:, ::-1][..., [2, 0, 1]]
    np.testing.assert_allclose(found.dwell_times["B"], expected)
    moves = plain.transitions["B"].transpose(1, 0, 2, 3)[:, ::-1][..., [2, 0, 1], :][..., [2, 0, 1]]
    np.testing.assert_allclose(found.transitions["B"], moves)


def test_statistics_of_a_summary_are_sums_over_configurations():
    paths = random_paths()
    summary = am.SummaryRates(
        weights={"A": [0, 1], "C": [0, 1]}, table=np.ones((3, 3, 3)) * (1 - np.eye(3))
    )
    rates = {"A": np.ones((2, 2)) - np.eye(2), "C": np.ones((2, 2)) - np.eye(2), "B": summary}
    network = am.Network({"A": [], "C": [], "B": ["A", "C"]}, rates, states=paths.states)
    found = paths.statistics(network)
    plain = paths.statistics({"B": ["A", "C"]})
    expected_dwell, expected_moves = np.zeros((3, 3)), np.zeros((3, 3, 3))
    for a, c in product(range(2), repeat=2):
        expected_dwell[a + c] += plain.dwell_times["B"][a, c]
        expected_moves[a + c] += plain.transitions["B"][a, c]
    np.testing.assert_allclose(found.dwell_times["B"], expected_dwell)
    np.testing.assert_allclose(found.transitions["B"], expected_moves)


def test_statistics_add_up_over_trajectories():
    paths = random_paths()
    parts = [paths.select([label]).statistics(PARENTS) for label in paths.labels]
    total, whole = sum(parts[1:], parts[0]), paths.statistics(PARENTS)
    for node in paths.nodes:
        np.testing.assert_allclose(total.dwell_times[node], whole.dwell_times[node])
        np.testing.assert_allclose(total.transitions[node], whole.transitions[node])
    with pytest.raises(DataError, match="different graphs"):
        whole + paths.statistics({})


def test_statistics_frame():
    table = random_paths().statistics(PARENTS).to_frame()
    assert len(table) == 6 * 2 + 4 * 6 + 2
    some = table[(table.node == "B") & (table.configuration == "C=1, A=off")]
    assert len(some) == 6
    assert set(some["from"]) == {"low", "mid", "high"}


def test_state_at_is_right_continuous_and_takes_times_per_trajectory():
    frame = pd.DataFrame(
        {
            "trajectory": [0, 0, 1],
            "time": [0.0, 1.0, 0.5],
            "node": "A",
            "state": ["x", "y", "y"],
        }
    )
    paths = am.Trajectories.from_frame(frame, end=2.0)
    assert paths.state_at([[2.0, 0.0, 1.0, 0.999], [0.5, 2.0, 1.0, 1.0]])[:, :, 0].tolist() == [
        [1, 0, 1, 0],
        [1, 1, 1, 1],
    ]
    with pytest.raises(DataError, match="outside trajectory 1"):
        paths.state_at([0.25])
    assert paths.state_at([0.25], outside="missing")[:, 0, 0].tolist() == [0, -1]
    with pytest.raises(DataError, match="shape"):
        paths.state_at(np.zeros((3, 2)))


def test_frame_round_trip_and_files(tmp_path: Path):
    paths = random_paths()
    end = dict(zip(paths.labels, paths.end))
    again = am.Trajectories.from_frame(paths.to_frame(), states=paths.states, end=end)
    paths.save(tmp_path / "paths.csv")
    loaded = am.Trajectories.load(tmp_path / "paths.csv")
    for other in (again, loaded):
        assert other.nodes == paths.nodes
        assert other.states == paths.states
        assert other.labels == paths.labels
        for name in ("start", "end", "initial", "jump_offset", "jump_time", "jump_node"):
            assert np.array_equal(getattr(other, name), getattr(paths, name)), name
        assert np.array_equal(other.jump_state, paths.jump_state)


def test_some_nodes_have_the_rows_that_they_had() -> None:
    paths = random_paths()
    chosen = paths.select(["t2", "t0"], nodes=["C", "A"])
    assert chosen.nodes == ("C", "A")
    assert chosen.labels == ("t2", "t0")
    whole, part = paths.to_frame(), chosen.to_frame()
    for label in chosen.labels:
        for node in chosen.nodes:
            own, same = (f[(f.trajectory == label) & (f.node == node)] for f in (part, whole))
            assert own[["time", "state"]].values.tolist() == same[["time", "state"]].values.tolist()
    assert chosen.select() is chosen
    with pytest.raises(DataError, match="there is no node 'X'"):
        paths.select(nodes=["X"])


def test_states_default_to_sorted_labels_and_a_repeated_state_marks_the_end():
    frame = pd.DataFrame({"time": [0.0, 1.0, 3.0], "node": "A", "state": ["y", "x", "x"]})
    paths = am.Trajectories.from_frame(frame)
    assert paths.states == {"A": ("x", "y")}
    assert paths.n_jumps == 1
    assert paths.end.tolist() == [3.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0.0, "A", "x"), (1.0, "B", "u")], "'B' starts at 1, after the trajectory's start"),
        ([(0.0, "A", "x"), (2.0, "A", "y"), (1.0, "A", "x")], "row 4.*sort=True"),
        ([(0.0, "A", "x"), (1.0, "A", "y"), (1.0, "A", "x")], "two different states at time 1"),
        ([(0.0, "A", None)], "row 2.*'state'.*empty"),
        ([(np.inf, "A", "x")], "not finite"),
        ([(0.0, "A", "x"), (7.0, "A", "y")], "negative duration"),
        ([], "empty"),
    ],
)
def test_bad_tables_of_paths(rows: list[tuple[object, ...]], message: str):
    frame = pd.DataFrame(rows, columns=["time", "node", "state"])
    with pytest.raises(DataError, match=message):
        am.Trajectories.from_frame(frame, end=5.0)


def test_a_node_missing_in_one_trajectory_and_an_unknown_state():
    frame = pd.DataFrame(
        {"trajectory": [0, 0, 1], "time": 0.0, "node": ["A", "B", "A"], "state": "x"}
    )
    with pytest.raises(DataError, match=r"trajectory 1.*'B' has no row"):
        am.Trajectories.from_frame(frame)
    with pytest.raises(DataError, match=r"no state .x.; its states are \['u', 'v'\]"):
        am.Trajectories.from_frame(frame.iloc[:1], states={"A": ["u", "v"]})


def test_paths_of_unknown_length_are_not_taken_silently() -> None:
    rows = [(0.0, "A", "off"), (2.0, "A", "on")]
    frame = pd.DataFrame(rows, columns=["time_h", "node", "state"])
    with pytest.warns(DataWarning, match="does not say how long 1 trajectory was followed"):
        paths = am.Trajectories.from_frame(frame, time="time_h")
    assert paths.time_unit == "h"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert am.Trajectories.from_frame(frame, time="time_h", end=3.0).end.tolist() == [3.0]


def test_the_unit_of_time_stays_with_the_paths(tmp_path: Path) -> None:
    frame = pd.DataFrame({"time_h": [0.0, 2.0], "node": "A", "state": ["off", "on"]})
    paths = am.Trajectories.from_frame(frame, time="time_h", end=3.0)
    paths.save(tmp_path / "paths.csv")
    assert am.Trajectories.load(tmp_path / "paths.csv").time_unit == "h"
    assert paths.select([0]).time_unit == "h"


def test_a_path_that_goes_back_in_time_names_both_rows():
    frame = pd.DataFrame({"time": [0.0, 2.0, 1.0], "node": "A", "state": ["x", "y", "x"]})
    with pytest.raises(DataError, match=r"row 4.*'time'.*after time 2 of row 3"):
        am.Trajectories.from_frame(frame)


def test_a_counting_table_whose_commas_are_unclear_is_refused_with_the_row():
    columns = ["id", "from", "to", "start", "stop", "status"]
    frame = pd.DataFrame([(1, "a", "b", "0", "1,500", 1)], columns=columns)
    which = CountingColumns.of(columns)
    assert which is not None
    with pytest.raises(DataError, match=r"row 2.*'1,500' may be 1500 or 1\.5"):
        read_counting(frame, "id", which)
    assert read_counting(frame, "id", which, comma="decimal").paths.end.tolist() == [1.5]
