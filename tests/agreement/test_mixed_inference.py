"""Sampled paths of mixed and quadratic networks against numerical integration over both nodes."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from tests.reference.mixed_network import jump_moves, normal, own_moves, smoothed

#: short enough for both: errors of the sampler's steps are below its Monte Carlo error
STEP = 0.02
TIMES = np.array([0.5, 1.0, 1.9, 3.0])
RATES, SLOPES = [[0.0, 0.6], [0.9, 0.0]], [[0.0, 1.2], [-0.8, 0.0]]


def table(**columns: list[float | None]) -> am.Observations:
    import pandas as pd

    frame = pd.DataFrame({"trajectory": 0, "time": TIMES, **columns})
    ends = pd.DataFrame({"trajectory": [0, 0], "time": [0.0, 4.0]})
    return am.Observations.from_frame(pd.concat([frame, ends]).sort_values("time"))


def loop() -> am.Network:
    """x steers the rates of s, and s the resting level of x."""
    return am.Network(
        {"s": ["x"], "x": ["s"]},
        {"s": RATES},
        initial={"s": [0.8, 0.2]},
        drifts={"x": am.Drift(0.9, 0.8, 0.1, shifts={"s": (-0.7, 0.9)}, noise_sd=0.4)},
        slopes={"s": {"x": SLOPES}},
    )


@pytest.mark.slow
def test_a_loop_of_both_kinds_as_by_numerical_integration() -> None:
    network, levels = loop(), am.Gaussian((0.0, 1.0), 0.6)
    x_seen, s_seen = [0.9, None, -0.3, None], [0.9, 0.2, None, None]
    found = am.infer(
        network,
        table(x=x_seen, s=s_seen),
        {"s": levels},
        method="sample",
        time_step=STEP,
        n_draws=4000,
        seed=3,
    )
    drift, values = network.drifts["x"], np.linspace(-4.0, 4.5, 141)
    first = np.array([own_moves(values, drift, push, STEP) for push in drift.shifts["s"]])
    second = jump_moves(values, RATES, SLOPES, STEP)
    start = normal(values, 0.0, 1.0)[:, None] * np.array([0.8, 0.2])
    seen = {}
    for t, x, s in zip(TIMES, x_seen, s_seen):
        likelihood = np.ones((len(values), 2))
        if x is not None:
            likelihood *= normal(x, values, 0.4)[:, None]
        if s is not None:
            likelihood *= normal(s, np.array([0.0, 1.0]), 0.6)
        seen[round(t / STEP)] = likelihood
    both = smoothed(first, second, start, seen, STEP, 200)
    asked = np.array([0.0, 0.5, 1.4, 3.0, 4.0])
    at = np.round(asked / STEP).astype(int)
    mean = (both.sum(axis=2) @ values)[at]
    sd = np.sqrt((both.sum(axis=2) @ values**2)[at] - mean**2)
    got = found.marginals(asked).sel(trajectory="0", node="x")
    assert got.sel(quantity="mean").to_numpy() == pytest.approx(mean, abs=0.03)
    assert got.sel(quantity="sd").to_numpy() == pytest.approx(sd, abs=0.03)
    share = found.probabilities(asked).sel(trajectory="0", node="s").to_numpy()
    assert share == pytest.approx(both.sum(axis=1)[at], abs=0.02)
    assert found.converged
    # what was measured of one node says something of the other: this is no product of both
    alone = am.infer(
        network, table(x=x_seen, s=[None] * 4), {"s": levels}, method="sample", time_step=STEP
    )
    other = alone.probabilities(asked).sel(trajectory="0", node="s").to_numpy()
    assert np.abs(other - share).max() > 0.05


def test_a_quadratic_child_as_by_numerical_integration() -> None:
    step = 0.04
    drifts = {
        "x": am.Drift(0.8, 0.9, 0.2, noise_sd=0.8),
        "y": am.Drift(1.0, 0.5, linear={"x": 1.0}, quadratic={"x": 0.4}, noise_sd=0.2),
    }
    network = am.Network({"x": [], "y": ["x"]}, drifts=drifts)
    x_seen, y_seen = [None, 0.5, None, None], [0.3, 0.8, 1.6, 0.4]
    found = am.infer(
        network,
        table(x=x_seen, y=y_seen),
        method="sample",
        time_step=step,
        n_draws="auto",
        seed=5,
    )
    values, others = np.linspace(-3.3, 3.3, 53), np.linspace(-3.0, 4.5, 81)
    first = np.tile(own_moves(values, drifts["x"], 0.0, step), (len(others), 1, 1))
    second = np.array([own_moves(others, drifts["y"], x + 0.4 * x * x, step) for x in values])
    start = normal(values, 0.0, 1.0)[:, None] * normal(others, 0.0, 1.0)
    seen = {}
    for t, x, y in zip(TIMES, x_seen, y_seen):
        likelihood = np.ones((len(values), 1)) * normal(y, others, 0.2)
        if x is not None:
            likelihood *= normal(x, values, 0.8)[:, None]
        seen[round(t / step)] = likelihood
    both = smoothed(first, second, start, seen, step, 100)
    asked = np.array([0.0, 0.5, 1.4, 2.5, 4.0])
    assert found.converged
    at = np.round(asked / step).astype(int)
    for node, axis, grid in (("x", 2, values), ("y", 1, others)):
        mean = (both.sum(axis=axis) @ grid)[at]
        sd = np.sqrt((both.sum(axis=axis) @ grid**2)[at] - mean**2)
        got = found.marginals(asked).sel(trajectory="0", node=node)
        assert got.sel(quantity="mean").to_numpy() == pytest.approx(mean, abs=0.04)
        assert got.sel(quantity="sd").to_numpy() == pytest.approx(sd, abs=0.04)


def test_same_seed_same_answer_whatever_the_threads() -> None:
    network = loop()
    seen = am.observe(am.simulate(network, 3, duration=4.0, seed=1), n_observations=4, seed=2)
    options = {"method": "sample", "n_draws": 20, "burn_in": 5, "n_chains": 2}
    with pytest.warns(match="draws"):  # too few to be sure
        one, two, other = (
            am.infer(network, seen, am.Exact(), n_jobs=jobs, seed=seed, **options).marginals()
            for jobs, seed in ((1, 0), (2, 0), (1, 1))
        )
    assert one.equals(two)
    assert not one.equals(other)


def test_what_sampling_cannot_do_is_said() -> None:
    network = loop()
    seen = am.observe(am.simulate(network, 1, duration=4.0, seed=1), n_observations=4, seed=2)
    with pytest.raises(ModelError, match="sample"):
        am.infer(network, seen, am.Exact(), method="clusters")
    known = am.Network(
        {"s": [], "x": ["s"]}, {"s": None}, {"s": ["0", "1"]}, drifts=dict(network.drifts)
    )
    with pytest.raises(ModelError, match="exogenous"):
        am.infer(known, seen, am.Exact())
    stuck = am.Network(
        {"s": [], "x": ["s"]},
        {"s": [[0.0, 1.0], [0.0, 0.0]]},
        initial={"s": [0.0, 1.0]},
        drifts=dict(network.drifts),
    )
    with pytest.raises(ModelError, match="No path"):
        am.infer(stuck, table(s=["0", "0", "1", "1"]), am.Exact(), method="sample")
    bent = am.Network(
        {"x": [], "y": ["x"]},
        drifts={"x": am.Drift(1.0, 1.0), "y": am.Drift(1.0, 1.0, quadratic={"x": 0.1})},
    )
    with pytest.raises(DataError, match="jumping"):
        am.infer(
            bent, table(x=[0.1, 0.2, 0.1, 0.3]), method="sample", n_draws="auto"
        ).probabilities()


def test_emissions_may_name_continuous_nodes_too() -> None:
    network, seen, levels = loop(), table(x=[0.9, None, -0.3, None]), am.Gaussian((0.0, 1.0), 0.6)
    plain, named = (
        am.infer(network, seen, emission, method="sample", n_draws=50).marginals(TIMES)
        for emission in ({"s": levels}, {"s": levels, "x": am.Continuous()})
    )
    np.testing.assert_array_equal(plain, named)
    with pytest.raises(ModelError, match="'x'"):
        am.infer(network, seen, {"s": levels, "x": levels}, method="sample")
