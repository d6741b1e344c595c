"""Paths from star and mean-field posteriors: what every single path must honour, and means."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.data.trajectories import Trajectories
from asterism.engine.rules.star import solve
from asterism.errors import TooLargeError
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.inference.posterior import KINDS, Posterior
from asterism.model.network import Network
from asterism.timeline.evidence import Evidence
from tests.reference.joint_chain import ReferenceChain
from tests.reference.random_evidence import make_evidence, random_evidence, random_network


def following_pair(speed: float) -> Network:
    """A switches slowly by itself; B follows it fast."""
    a = np.array([[-0.7, 0.7], [0.5, -0.5]])
    b = np.array([[[-0.2, 0.2], [speed, -speed]], [[-speed, speed], [0.2, -0.2]]])
    states = {"A": ["off", "on"], "B": ["off", "on"]}
    return Network({"A": [], "B": ["A"]}, {"A": a, "B": b}, states)


def known_everything() -> tuple[Network, Evidence]:
    """Exact points, a jump from an unknown state, a watched interval, an exogenous input."""
    network = random_network(np.random.default_rng(3), [3, 2, 2], exogenous=(2,))
    never = -np.inf
    evidence = make_evidence(
        [3, 2, 2],
        [0.0, 1.0],
        [4.0, 2.0],
        points=[
            (0, 0, 0.0, [never, 0.0, never]),
            (0, 1, 1.5, [0.0, never]),
            (0, 1, 4.0, [never, 0.0]),
            (1, 0, 1.5, [-1.0, -2.0, -0.5]),
        ],
        jumps=[(0, 0, 2.5, 1, -1), (0, 0, 1.5, 0, 2)],
        spans=[
            (0, 0, 1.0, 1.5, 2),
            (0, 0, 1.5, 2.0, 0),
            (0, 2, 0.0, 3.0, 1),
            (0, 2, 3.0, 4.0, 0),
            (1, 2, 1.0, 2.0, 1),
        ],
        exogenous=(2,),
    )
    return network, evidence


def same_paths(one: Trajectories, other: Trajectories) -> bool:
    fields = ("initial", "jump_offset", "jump_time", "jump_node", "jump_state")
    return all(np.array_equal(getattr(one, f), getattr(other, f)) for f in fields)


def assert_well_formed(paths: Trajectories) -> None:
    """Times inside and ascending; every jump changes the state of its node."""
    for d in range(paths.n_trajectories):
        jumps = slice(paths.jump_offset[d], paths.jump_offset[d + 1])
        time = paths.jump_time[jumps]
        assert np.all(np.diff(time) >= 0.0)
        assert np.all((time >= paths.start[d]) & (time <= paths.end[d]))
        state = paths.initial[d].copy()
        for n, x in zip(paths.jump_node[jumps], paths.jump_state[jumps]):
            assert state[n] != x
            state[n] = x


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_path_honours_what_is_known(method: str, kind: str) -> None:
    network, evidence = known_everything()
    posterior = solve(network, evidence, method=method)
    paths = posterior.sample(200, kind=kind, seed=1)
    assert paths.labels[:2] == (("patient 0", 0), ("patient 0", 1))
    assert paths.labels[-1] == ("patient 1", 199)
    assert_well_formed(paths)
    first = paths.select([label for label in paths.labels if label[0] == "patient 0"])
    at = first.state_at(np.array([0.0, 1.0, 1.2, 1.499, 1.5, 1.999, 2.499999, 2.5]))[:, :, 0]
    np.testing.assert_array_equal(at[:, [0, 1, 2, 3, 4, 5, 7]], [[1, 2, 2, 2, 0, 0, 1]] * 200)
    assert np.all(at[:, 6] != 1)
    seen = first.state_at(np.array([1.5, 4.0]))[:, :, 1]
    np.testing.assert_array_equal(seen, [[0, 1]] * 200)
    known = first.state_at(np.array([0.0, 2.999, 3.0, 4.0]))[:, :, 2]
    np.testing.assert_array_equal(known, [[1, 1, 0, 0]] * 200)
    # nothing else happens to a watched or an exogenous node
    watched = (first.jump_node == 0) & (first.jump_time > 1.0) & (first.jump_time < 2.0)
    np.testing.assert_array_equal(first.jump_time[watched], 1.5)
    np.testing.assert_array_equal(first.jump_time[first.jump_node == 2], 3.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_paths(kind: str) -> None:
    network, evidence = known_everything()
    posterior = solve(network, evidence)
    paths = posterior.sample(3, kind=kind, seed=7)
    assert same_paths(paths, posterior.sample(3, kind=kind, seed=7))
    assert not same_paths(paths, posterior.sample(3, kind=kind, seed=8))
    assert same_paths(paths, solve(network, evidence, n_jobs=2).sample(3, kind=kind, seed=7))


def test_independent_draws_do_not_depend_on_how_many_there_are() -> None:
    network, evidence = known_everything()
    posterior = solve(network, evidence)
    few = posterior.sample(2, seed=5)
    many = posterior.sample(9, seed=5).select(few.labels)
    assert same_paths(few, many)


def statistics_by_batch(posterior: Posterior, kind: str, n_batches: int, each: int) -> np.ndarray:
    """(batches, values) transitions and dwell times of every node, whatever its parents do."""
    alone: dict[str, list[str]] = {node: [] for node in posterior.network.nodes}
    rows = []
    for k in range(n_batches):
        found = posterior.sample(each, kind=kind, seed=k).statistics(alone)
        parts = [found.transitions[n].ravel() for n in alone]
        parts += [found.dwell_times[n].ravel() for n in alone]
        rows.append(np.concatenate(parts) / each)
    return np.array(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3])
def test_a_lone_node_is_drawn_exactly(kind: str, size: int) -> None:
    """Marginals at some times, transitions and dwell times, within four standard errors."""
    rng = np.random.default_rng(20 + size)
    network = random_network(rng, [size], n_parents=0)
    evidence = random_evidence(rng, network, ("points", "jumps"), n_trajectories=1)
    posterior = solve(network, evidence)
    times = np.linspace(evidence.start[0], evidence.end[0], 5)
    exact = ReferenceChain(network, evidence).solve(0, list(times))
    n = 4000
    states = posterior.sample(n, kind=kind, seed=2).state_at(times)[:, :, 0]
    for k, expected in enumerate(exact["marginals"]):
        share = np.bincount(states[:, k], minlength=size) / n
        spread = np.sqrt(expected[0] * (1 - expected[0]) / n)
        assert np.all(np.abs(share - expected[0]) < 4 * spread + 1e-9)
    found = statistics_by_batch(posterior, kind, 20, 200)
    expected = np.concatenate([exact["transitions"][0].ravel(), exact["dwell_times"][0].ravel()])
    error = found.std(axis=0, ddof=1) / np.sqrt(20)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4.5 * error + 1e-9)


def correlation(paths: Trajectories, time: float) -> float:
    states = paths.state_at(np.array([time]))[:, 0]
    return float(np.corrcoef(states.T)[0, 1])


def test_network_draws_keep_the_dependence_that_independent_ones_lose() -> None:
    network = following_pair(8.0)
    points = [(0, n, 0.0, [0.0, -np.inf]) for n in range(2)]
    points += [(0, 0, 2.0, [-3.0, 0.0]), (0, 1, 2.0, [-1.0, 0.0])]
    evidence = make_evidence([2, 2], [0.0], [2.0], points)
    posterior = solve(network, evidence)
    exact = correlation(solve_exactly(network, evidence).sample(4000, seed=1), 1.0)
    together = correlation(posterior.sample(4000, kind="network", seed=1), 1.0)
    apart = correlation(posterior.sample(4000, kind="marginal", seed=1), 1.0)
    assert exact > 0.7
    assert abs(together - exact) < 0.08
    assert abs(apart) < 0.08


def test_parents_that_forbid_a_required_jump_are_overruled() -> None:
    """B can move only while A is on; both are seen without noise, A off most of the time."""
    a = np.array([[-0.05, 0.05], [20.0, -20.0]])
    b = np.zeros((2, 3, 3))
    b[1] = [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]]
    states = {"A": ["off", "on"], "B": [0, 1, 2]}
    network = Network({"A": [], "B": ["A"]}, {"A": a, "B": b}, states)
    never = -np.inf
    points = [(0, 1, 0.0, [0.0, never, never]), (0, 1, 1.0, [never, never, 0.0])]
    evidence = make_evidence([2, 3], [0.0], [1.0], points)
    paths = solve(network, evidence).sample(300, kind="network", seed=0)
    assert_well_formed(paths)
    np.testing.assert_array_equal(paths.state_at(np.array([1.0]))[:, 0, 1], 2)


@pytest.mark.parametrize("kind", KINDS)
def test_stiff_rates(kind: str) -> None:
    """One state is left a hundred thousand times faster than the other; noiseless ends."""
    rates = np.array([[-0.5, 0.5], [1e5, -1e5]])
    network = Network({"A": []}, {"A": rates}, {"A": ["off", "on"]})
    points = [(0, 0, 0.0, [0.0, -np.inf]), (0, 0, 2.0, [-np.inf, 0.0])]
    evidence = make_evidence([2], [0.0], [2.0], points)
    paths = solve(network, evidence).sample(100, kind=kind, seed=4)
    assert_well_formed(paths)
    np.testing.assert_array_equal(paths.state_at(np.array([2.0]))[:, 0, 0], 1)
    # the last visit to "on" must have begun just before the end
    last = paths.jump_time[paths.jump_offset[1:] - 1]
    assert last.min() > 2.0 - 3e-4
    assert 1.5 < paths.n_jumps / 100 < 4.5


def test_hopelessly_many_events_are_refused() -> None:
    rates = np.array([[-1e9, 1e9], [1e9, -1e9]])
    network = Network({"A": []}, {"A": rates}, {"A": ["off", "on"]})
    evidence = make_evidence([2], [0.0], [10.0], [(0, 0, 5.0, [0.0, -1.0])])
    with pytest.raises(TooLargeError, match="fewer paths"):
        solve(network, evidence).sample(1, seed=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trajectory_without_duration_has_a_state_and_no_jumps(kind: str) -> None:
    network = random_network(np.random.default_rng(1), [2, 3])
    evidence = make_evidence([2, 3], [1.0], [1.0], [(0, 1, 1.0, [-np.inf, 0.0, -np.inf])])
    paths = solve(network, evidence).sample(4000, kind=kind, seed=0)
    assert paths.n_jumps == 0
    np.testing.assert_array_equal(paths.initial[:, 1], 1)
    p = network.initial["n0"][1]
    assert abs(paths.initial[:, 0].mean() - p) < 4 * np.sqrt(p * (1 - p) / 4000)
