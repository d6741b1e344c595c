"""Networks of nodes that jump beside nodes that move: made, saved, simulated, measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import asterism as am
from asterism.errors import ModelError

RATES = [[[0, 0.4], [0.8, 0]], [[0, 1.2], [0.1, 0]]]


def mixed() -> am.Network:
    """x -> s (rates), t -> s (states), s -> y (resting level)."""
    return am.Network(
        {"x": [], "t": [], "s": ["x", "t"], "y": ["s"]},
        {"t": [[0, 0.3], [0.5, 0]], "s": RATES},
        {"t": ["calm", "busy"], "s": ["off", "on"]},
        {"t": [1.0, 0.0], "s": [0.25, 0.75]},
        drifts={
            "x": am.Drift(0.5, 0.3, 0.5, start_mean=1.0, start_sd=0.1),
            "y": am.Drift(2.0, 0.05, shifts={"s": (0.0, 4.0)}, noise_sd=0.01),
        },
        slopes={"s": {"x": [[0, 1.0], [-1.0, 0]]}},
    )


def test_a_file_keeps_slopes(tmp_path: Path) -> None:
    network = mixed()
    network.save(tmp_path / "network.json")
    again = am.Network.load(tmp_path / "network.json")
    assert again == network
    assert again.slopes["s"]["x"].tolist() == [[0.0, 1.0], [-1.0, 0.0]]
    assert network.with_initial(None).slopes["s"]["x"].tolist() == [[0.0, 1.0], [-1.0, 0.0]]
    other = am.Network(
        network.parents,
        network.rates,
        network.states,
        network.initial,
        network.drifts,
        {"s": {"x": 0.5}},
    )
    assert other != network
    assert other.slopes["s"]["x"].tolist() == [[0.0, 0.5], [0.5, 0.0]]


@pytest.mark.parametrize(
    "slopes",
    [None, {"s": {}}, {"s": {"x": 1.0, "t": 1.0}}, {"s": {"x": np.nan}}, {"s": {"x": [1.0, 2.0]}}],
)
def test_slopes_must_fit_the_continuous_parents(slopes: object) -> None:
    one = mixed()
    with pytest.raises(ModelError, match="'s'"):
        am.Network(one.parents, one.rates, one.states, None, one.drifts, slopes)


def test_slopes_are_for_continuous_parents_only() -> None:
    with pytest.raises(ModelError, match="'b'"):
        am.Network(
            {"a": [], "b": ["a"]},
            {"a": [[0, 1], [1, 0]], "b": RATES},
            slopes={"b": {"a": 1.0}},
        )


def test_paths_start_and_jump_as_the_network_says() -> None:
    paths = am.simulate(mixed(), 4000, duration=0.2, seed=1)
    first, last = paths.values[:, 0], paths.values[:, -1]
    t, s = (mixed().nodes.index(n) for n in "ts")
    assert (first[:, t] == 0).all()
    assert first[:, s].mean() == pytest.approx(0.75, abs=5 * np.sqrt(0.19 / 4000))
    # x stays near 1, t calm: up at .4 e, down at .8 / e; t itself moves little
    calm = last[:, t] == 0
    up, down = 0.4 * np.e, 0.8 / np.e
    share = up / (up + down)
    for start in (0, 1):
        own = last[calm & (first[:, s] == start), s]
        expected = share + (start - share) * np.exp(-0.2 * (up + down))
        assert own.mean() == pytest.approx(expected, abs=0.01 + 4 * np.sqrt(0.2 / len(own)))


def test_the_level_of_a_child_follows_the_state_of_its_parent() -> None:
    paths = am.simulate(mixed(), 40, duration=40.0, seed=2)
    s, y = paths.values[:, 200:, 2], paths.values[:, 200:, 3]
    assert np.corrcoef(s.ravel(), y.ravel())[0, 1] > 0.7
    assert y.min() > -0.5
    assert y.max() < 2.5


def test_jumping_nodes_are_measured_by_their_emission() -> None:
    paths = am.simulate(mixed(), 5, duration=4.0, seed=3)
    plain = am.observe(paths, times=[1.0, 2.0], seed=4)
    assert set(plain.measurements["s"].value) <= {"off", "on"}
    noisy = am.observe(paths, {"s": am.Gaussian((-5.0, 5.0), 0.1)}, times=[1.0, 2.0], seed=4)
    at = np.searchsorted(paths.times, [1.0, 2.0], side="right") - 1
    states = paths.values[:, at, 2].ravel()
    assert (
        np.sign(noisy.measurements["s"].value.astype(float)).tolist() == (2 * states - 1).tolist()
    )
    assert set(noisy.measurements["t"].value) <= {"calm", "busy"}
    with pytest.raises(ModelError, match="'z'"):
        am.observe(paths, {"z": am.Exact()})
