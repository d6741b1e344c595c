"""Observations and paths survive every form they can be written in."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asterism as am

pytestmark = pytest.mark.filterwarnings("ignore:.*all missing")

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)
LABELS = st.sampled_from(["off", "on", "very high", "ä;b,c"])


@st.composite
def observations(draw: st.DrawFn) -> am.Observations:
    names = draw(
        st.one_of(
            st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
            st.lists(
                st.sampled_from(["p", "q 1", "07", "x,"]), min_size=1, max_size=3, unique=True
            ),
        )
    )
    rows = []
    for name in names:
        times = sorted(draw(st.lists(NUMBERS, min_size=1, max_size=5)))
        rows += [
            {
                "trajectory": name,
                "time": time,
                "A": draw(st.one_of(st.none(), NUMBERS)),
                "B": draw(st.one_of(st.none(), LABELS)),
                "C": draw(NUMBERS),
                "sure": draw(st.booleans()),
            }
            for time in times
        ]
    frame = pd.DataFrame(rows)
    frame["A"] = frame["A"].astype(float)
    start = draw(st.one_of(st.none(), st.just(-2e6)))
    end = {names[0]: 3e6} if draw(st.booleans()) else None
    exact = draw(st.sampled_from([None, "sure"]))
    if exact is None:
        frame = frame.drop(columns="sure")
    return am.Observations.from_frame(frame, start=start, end=end, exact=exact, labels=["B"])


def assert_same(one: am.Observations, other: am.Observations) -> None:
    assert one.trajectories == other.trajectories
    assert np.array_equal(one.start, other.start)
    assert np.array_equal(one.end, other.end)
    for node in set(one.measurements) | set(other.measurements):
        a, b = one.measurements[node], other.measurements[node]
        left = sorted(zip(a.trajectory, a.time, a.exact, map(repr, a.value.tolist())))
        right = sorted(zip(b.trajectory, b.time, b.exact, map(repr, b.value.tolist())))
        assert left == right, node


@settings(max_examples=60, deadline=None)
@given(observations(), st.sampled_from(["wide", "long"]))
def test_frames_round_trip(obs: am.Observations, kind: str) -> None:
    frame = obs.to_frame(kind)
    again = am.Observations.from_frame(
        frame,
        start=dict(zip(obs.trajectories, obs.start)),
        end=dict(zip(obs.trajectories, obs.end)),
        exact="exact" if "exact" in frame else None,
        nodes=list(obs.measurements),
        labels=["B"],
    )
    assert_same(obs, again.select(obs.trajectories))


@settings(max_examples=60, deadline=None)
@given(observations(), st.sampled_from(["wide", "long"]))
def test_files_round_trip(obs: am.Observations, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        obs.to_csv(path, kind)
        assert_same(obs, am.Observations.from_csv(path))


@settings(max_examples=40, deadline=None)
@given(observations(), st.randoms(use_true_random=False))
def test_selecting_in_any_order_and_back_changes_nothing(obs: am.Observations, random) -> None:
    shuffled = list(obs.trajectories)
    random.shuffle(shuffled)
    assert_same(obs, obs.select(shuffled).select(obs.trajectories))


@st.composite
def paths(draw: st.DrawFn) -> am.Trajectories:
    states = {"A": ("x", "y"), "B": (0, 1, 2)}
    rows, ends = [], {}
    for name in range(draw(st.integers(1, 3))):
        start = draw(NUMBERS)
        current = {n: draw(st.sampled_from(s)) for n, s in states.items()}
        rows += [(name, start, n, s) for n, s in current.items()]
        gaps = draw(st.lists(st.floats(0.01, 10.0), max_size=6))
        times = start + np.cumsum(gaps)
        for time in times:
            node = draw(st.sampled_from(["A", "B"]))
            others = [s for s in states[node] if s != current[node]]
            current[node] = draw(st.sampled_from(others))
            rows.append((name, time, node, current[node]))
        ends[name] = start + sum(gaps) + draw(st.floats(1.0, 5.0))
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "node", "state"])
    return am.Trajectories.from_frame(frame, states=states, end=ends)


@settings(max_examples=60, deadline=None)
@given(paths())
def test_paths_round_trip_and_their_statistics_add_up(original: am.Trajectories) -> None:
    with tempfile.TemporaryDirectory() as folder:
        original.save(Path(folder) / "paths.csv")
        again = am.Trajectories.load(Path(folder) / "paths.csv")
    pd.testing.assert_frame_equal(again.to_frame(), original.to_frame())
    assert np.array_equal(again.end, original.end)
    statistics = again.statistics({"A": ["B"], "B": ["A"]})
    for node in ("A", "B"):
        np.testing.assert_allclose(
            statistics.dwell_times[node].sum(), original.durations.sum(), rtol=1e-9, atol=1e-8
        )
    assert sum(m.sum() for m in statistics.transitions.values()) == original.n_jumps
    final = original.state_at(original.end[:, None])[:, 0]
    for d in range(original.n_trajectories):
        mine = original.to_frame().query("trajectory == @d").groupby("node").last()["state"]
        for n, node in enumerate(original.nodes):
            assert original.states[node][final[d, n]] == mine[node]
    known = am.Observations.from_trajectories(original)
    length = known.intervals.end - known.intervals.start
    np.testing.assert_allclose(length.sum(), 2 * original.durations.sum(), rtol=1e-9, atol=1e-8)
