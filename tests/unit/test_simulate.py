"""Simulation and observation: what is promised about seeds, ends, forced moves and times."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from tests.reference.random_evidence import random_network


@pytest.fixture
def network() -> am.Network:
    return random_network(np.random.default_rng(0), [2, 3, 2])


def test_same_seed_same_paths_whatever_the_threads(network: am.Network) -> None:
    one = am.simulate(network, n_trajectories=50, duration=4.0, seed=3)
    two = am.simulate(network, n_trajectories=50, duration=4.0, seed=3, n_jobs=3)
    other = am.simulate(network, n_trajectories=50, duration=4.0, seed=4)
    assert np.array_equal(one.jump_time, two.jump_time)
    assert np.array_equal(one.jump_state, two.jump_state)
    assert np.array_equal(one.initial, two.initial)
    assert not np.array_equal(one.jump_time[:20], other.jump_time[:20])


def test_a_trajectory_does_not_depend_on_how_many_are_drawn(network: am.Network) -> None:
    few = am.simulate(network, n_trajectories=3, duration=4.0, seed=3)
    many = am.simulate(network, n_trajectories=90, duration=4.0, seed=3)
    assert np.array_equal(few.jump_time, many.jump_time[: few.n_jumps])


@pytest.mark.smoke
def test_paths_are_legal(network: am.Network) -> None:
    paths = am.simulate(network, n_trajectories=20, duration=5.0, seed=1)
    for d in range(20):
        own = slice(paths.jump_offset[d], paths.jump_offset[d + 1])
        times = paths.jump_time[own]
        assert np.all(np.diff(times) > 0)
        assert len(times) == 0 or (times[0] > 0 and times[-1] < 5.0)
        state = paths.initial[d].copy()
        for node, entered in zip(paths.jump_node[own], paths.jump_state[own]):
            assert state[node] != entered
            state[node] = entered
    assert np.all(paths.end == 5.0)


def test_by_number_of_transitions(network: am.Network) -> None:
    paths = am.simulate(network, n_trajectories=7, n_transitions=12, seed=1)
    assert np.all(np.diff(paths.jump_offset) == 12)
    np.testing.assert_array_equal(paths.end, paths.jump_time[paths.jump_offset[1:] - 1])


def test_an_absorbing_state_ends_quietly() -> None:
    network = am.Network({"a": []}, {"a": [[-2.0, 2.0], [0.0, 0.0]]}, initial={"a": [1, 0]})
    lasting = am.simulate(network, n_trajectories=30, duration=50.0, seed=0)
    assert lasting.n_jumps == 30
    assert np.all(lasting.end == 50.0)
    counted = am.simulate(network, n_trajectories=30, n_transitions=5, seed=0)
    np.testing.assert_array_equal(counted.end, counted.jump_time)


def test_rates_that_force_the_order() -> None:
    """b follows a: it can only rise after a has, so a's jump always comes first."""
    follow = np.zeros((2, 2, 2))
    follow[1, 0, 1] = 3.0
    network = am.Network(
        {"a": [], "b": ["a"]},
        {"a": [[-1.0, 1.0], [0.0, 0.0]], "b": follow},
        initial={"a": [1, 0], "b": [1, 0]},
    )
    paths = am.simulate(network, n_trajectories=40, n_transitions=2, seed=2)
    assert np.array_equal(paths.jump_node.reshape(40, 2), np.tile([0, 1], (40, 1)))


def test_initial_states_can_be_given(network: am.Network) -> None:
    named = am.simulate(network, 5, duration=0.0, seed=0, initial={"n1": "s2"})
    assert np.all(named.initial[:, 1] == 2)
    numbered = am.simulate(network, 2, duration=0.0, initial=[[1, 2, 0], [0, 1, 1]])
    np.testing.assert_array_equal(numbered.initial, [[1, 2, 0], [0, 1, 1]])
    with pytest.raises(DataError, match="n1"):
        am.simulate(network, 2, duration=1.0, initial=[0, 3, 0])


def test_exogenous_nodes_stay_or_follow_their_path() -> None:
    switch = np.zeros((2, 2, 2))
    switch[1, 0, 1] = 1e4  # b rises only while the drug is given, and then at once
    network = am.Network(
        {"drug": [], "b": ["drug"]},
        {"drug": None, "b": switch},
        {"drug": ["no", "yes"], "b": ["low", "high"]},
        {"drug": [1, 0], "b": [1, 0]},
    )
    assert am.simulate(network, 10, duration=5.0, seed=0).n_jumps == 0
    given = am.Trajectories(
        nodes=("drug",),
        states={"drug": ("no", "yes")},
        labels=("plan",),
        start=np.zeros(1),
        end=np.full(1, 5.0),
        initial=np.zeros((1, 1), dtype=np.int64),
        jump_offset=np.array([0, 1]),
        jump_time=np.array([2.0]),
        jump_node=np.zeros(1, dtype=np.int64),
        jump_state=np.ones(1, dtype=np.int64),
    )
    paths = am.simulate(network, 10, duration=5.0, seed=0, paths=given)
    assert paths.n_jumps == 20
    times = paths.jump_time.reshape(10, 2)
    assert np.all(times[:, 0] == 2.0)
    assert np.all((times[:, 1] > 2.0) & (times[:, 1] < 2.01))
    with pytest.raises(ModelError, match="'b'"):
        am.simulate(network, 2, duration=1.0, paths=am.simulate(network, 1, duration=1.0))


def test_summary_rates_are_followed() -> None:
    """With 20 parents that are all on, only the last block of the table is ever used."""
    parents = {f"p{i}": [] for i in range(20)}
    still = {p: np.zeros((2, 2)) for p in parents}
    table = np.zeros((21, 2, 2))
    table[20, 0, 1] = table[20, 1, 0] = 1.0
    network = am.Network(
        {**parents, "child": list(parents)},
        {**still, "child": am.SummaryRates([[0, 1]] * 20, table)},
    )
    on = dict.fromkeys(parents, "1")
    assert am.simulate(network, 5, n_transitions=7, seed=0, initial=on).n_jumps == 35
    assert am.simulate(network, 5, n_transitions=7, initial={**on, "p3": "0"}).n_jumps == 0


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"duration": 1.0, "n_transitions": 3},
        {"duration": -1.0},
        {"duration": float("nan")},
        {"n_trajectories": 0, "duration": 1.0},
    ],
)
def test_bad_requests_are_refused(network: am.Network, bad: dict[str, float]) -> None:
    with pytest.raises(DataError):
        am.simulate(network, **bad)


EMISSION = {"n0": am.Gaussian((-1, 1), 0.2), "n1": am.Exact(), "n2": am.Poisson((1.0, 9.0))}


def test_observe_keeps_span_times_and_states(network: am.Network) -> None:
    paths = am.simulate(network, n_trajectories=9, duration=3.0, seed=1)
    seen = am.observe(paths, EMISSION, n_observations=6, seed=2)
    np.testing.assert_array_equal(seen.start, paths.start)
    np.testing.assert_array_equal(seen.end, paths.end)
    record = seen.measurements["n1"]
    assert len(record) == 54
    np.testing.assert_array_equal(record.time, seen.measurements["n0"].time)
    for d, t, value in zip(record.trajectory, record.time, record.value):
        state = paths.state_at(np.array([t]))[d, 0, 1]
        assert value == network.states["n1"][state]
    again = am.observe(paths, EMISSION, n_observations=6, seed=2)
    np.testing.assert_array_equal(again.measurements["n0"].value, seen.measurements["n0"].value)


def test_observe_per_node_missing_interval_and_times(network: am.Network) -> None:
    paths = am.simulate(network, n_trajectories=200, duration=1.0, seed=1)
    own = am.observe(paths, EMISSION, n_observations=4, per_node=True, seed=0)
    assert not np.array_equal(own.measurements["n0"].time, own.measurements["n1"].time)
    thin = am.observe(paths, EMISSION, n_observations=10, missing=0.3, seed=0)
    assert 0.66 < len(thin.measurements["n0"]) / 2000 < 0.74
    regular = am.observe(paths, EMISSION, interval=0.1, seed=0)
    np.testing.assert_allclose(regular.measurements["n0"].time[:11], np.arange(11) / 10)
    fixed = am.observe(paths, EMISSION, times=[0.0, 1.0], seed=0)
    np.testing.assert_array_equal(fixed.measurements["n2"].time[:4], [0, 1, 0, 1])
    with pytest.raises(DataError, match="missing"):
        am.observe(paths, EMISSION, missing=1.5)
    with pytest.raises(ModelError, match="nobody"):
        am.observe(paths, {"nobody": am.Exact()})


def test_known_nodes_are_seen_throughout(network: am.Network) -> None:
    paths = am.simulate(network, n_trajectories=3, duration=2.0, seed=1)
    seen = am.observe(paths, am.Exact(), n_observations=3, seed=0, known=["n2"])
    assert set(seen.measurements) == {"n0", "n1"}
    assert set(seen.intervals.node) == {"n2"}
    assert len(seen.events) == int((paths.jump_node == 2).sum())
