"""Hard and contradictory cases: a clear error or an honest verdict, and never a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.engine.rules.star import solve
from asterism.errors import AsterismError, DataError
from asterism.exact.exact_posterior import solve as solve_exactly
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import RING, alternating_to_aligned, noisy_spins

METHODS = ["star", "mean_field"]
LOW, HIGH = [0.0, -np.inf], [-np.inf, 0.0]

PAIR = am.Network(
    {"a": [], "b": ["a"]},
    {"a": [[-1, 1], [2, -2]], "b": [[[-1, 1], [1, -1]], [[-3, 3], [0.2, -0.2]]]},
)


def is_sound(posterior: am.Posterior) -> None:
    """Finite numbers, marginals that sum to one, and a reason whenever something did not settle."""
    assert np.isfinite(posterior.log_evidence)
    assert np.all(np.isfinite(list(posterior.log_evidence_parts.values())))
    marginals = posterior.marginals()
    assert np.all(np.isfinite(marginals.values))
    np.testing.assert_allclose(marginals.sum("state").values, 1.0, atol=1e-10)
    for node in posterior.network.nodes:
        for values in (
            posterior.statistics.dwell_times[node],
            posterior.statistics.transitions[node],
        ):
            assert np.all(np.isfinite(values))
            assert np.all(values >= 0.0)
    if not posterior.converged:
        assert "converged" in posterior.stop_reason or "time steps" in posterior.stop_reason


def solved_or_refused(network: Any, evidence: Any, method: str) -> am.Posterior | None:
    try:
        posterior = solve(network, evidence, method=method)
    except AsterismError:
        return None
    is_sound(posterior)
    return posterior


@pytest.mark.parametrize("method", METHODS)
def test_contradictory_noiseless_measurements_name_their_place(method: str) -> None:
    points = [(1, 0, 0.5, LOW), (1, 0, 0.5, HIGH)]
    evidence = make_evidence([2, 2], [0.0, 0.0], [1.0, 1.0], points)
    with pytest.raises(DataError, match=r"patient 1: what was measured of node a.*time 0\.5"):
        solve(PAIR, evidence, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_an_absorbing_state_that_must_be_left(method: str) -> None:
    rates = {"a": [[-1, 1], [0, 0]], "b": PAIR.rates["b"]}
    network = am.Network({"a": [], "b": ["a"]}, rates)
    evidence = make_evidence([2, 2], [0.0], [1.0], [(0, 0, 0.2, HIGH), (0, 0, 0.8, LOW)])
    with pytest.raises(DataError, match="node a"):
        solve(network, evidence, method=method)


def test_an_absorbing_state_that_another_node_unlocks() -> None:
    """b leaves its state only while a is low, and a was not low at either end: star finds a way."""
    rates = {"a": [[-1, 1], [1, -1]], "b": [[[-1, 1], [1, -1]], [[0, 0], [0, 0]]]}
    network = am.Network({"a": [], "b": ["a"]}, rates)
    points = [(0, 1, 0.2, HIGH), (0, 1, 0.8, LOW), (0, 0, 0.0, HIGH), (0, 0, 1.0, HIGH)]
    evidence = make_evidence([2, 2], [0.0], [1.0], points)
    star = solve(network, evidence)
    is_sound(star)
    assert star.converged
    with pytest.raises(DataError, match=r"node b.*mean field.*method='star'"):
        solve(network, evidence, method="mean_field")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_data", [False, True])
def test_zero_rates(method: str, with_data: bool) -> None:
    rates = {"a": [[-1, 1], [1, -1]], "b": [[[0, 0], [1, -1]], [[-2, 2], [0, 0]]]}
    network = am.Network({"a": [], "b": ["a"]}, rates)
    points = [(0, 1, 0.0, LOW), (0, 1, 1.3, np.log([0.3, 0.7])), (0, 0, 0.5, np.log([0.2, 0.8]))]
    evidence = make_evidence([2, 2], [0.0], [2.0], points if with_data else [])
    posterior = solve(network, evidence, method=method)
    is_sound(posterior)
    assert posterior.converged
    if method == "mean_field":
        assert posterior.log_evidence <= solve_exactly(network, evidence).log_evidence + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_no_rates_at_all(method: str) -> None:
    zero = np.zeros((2, 2, 2))
    network = am.Network({"a": ["b"], "b": ["a"]}, {"a": zero, "b": zero})
    evidence = make_evidence([2, 2], [0.0], [9.0], [(0, 0, 1.0, [0.0, -3.0]), (0, 1, 1.0, LOW)])
    posterior = solve(network, evidence, method=method)
    is_sound(posterior)
    exact = solve_exactly(network, evidence).log_evidence
    assert posterior.log_evidence == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_likelihoods_of_1e_minus_300(method: str) -> None:
    tiny = np.log(1e-300)
    points = [
        (0, 0, 0.3, [tiny, tiny]),
        (0, 1, 0.5, [tiny, 0.0]),
        (0, 1, 0.7, [0.0, tiny]),
        (0, 0, 0.9, [tiny - 1.0, tiny]),
    ]
    evidence = make_evidence([2, 2], [0.0], [1.0], points)
    posterior = solve(PAIR, evidence, method=method)
    is_sound(posterior)
    exact = solve_exactly(PAIR, evidence).log_evidence
    assert exact == pytest.approx(2 * tiny, abs=20)
    assert posterior.log_evidence == pytest.approx(exact, abs=1.0)


@pytest.mark.parametrize("method", METHODS)
def test_likelihoods_beyond_the_range_of_numbers(method: str) -> None:
    points = [(0, 0, 0.3, [-7000.0, -6990.0]), (0, 1, 0.5, [-600.0, 0.0]), (0, 1, 0.5, [0.0, -650])]
    posterior = solve(PAIR, make_evidence([2, 2], [0.0], [1.0], points), method=method)
    is_sound(posterior)
    assert posterior.log_evidence == pytest.approx(-7590.0, abs=5.0)


@pytest.mark.parametrize("method", METHODS)
def test_very_strong_coupling_on_a_ring(method: str) -> None:
    cases = [alternating_to_aligned(RING, 3.0)]
    cases += [noisy_spins(RING, 3.0, n_trajectories=4, seed=s) for s in range(3)]
    for network, evidence in cases:
        posterior = solve(network, evidence, method=method)
        is_sound(posterior)
        assert posterior.converged, posterior.stop_reason
        parts = posterior.log_evidence_parts
        assert parts["log_evidence"] <= parts["data"] + parts["initial"] + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_too_few_sweeps_are_not_called_converged(method: str) -> None:
    network, evidence = noisy_spins(RING, 1.5, n_trajectories=3)
    posterior = solve(network, evidence, method=method, max_sweeps=2)
    is_sound(posterior)
    assert not posterior.converged
    assert "3 of 3 trajectories" in posterior.stop_reason
    assert "max_sweeps" in posterior.stop_reason


@pytest.mark.parametrize("method", METHODS)
def test_a_million_time_units_with_rates_of_a_millionth(method: str) -> None:
    rng = np.random.default_rng(0)
    slow = am.glauber(RING, a=1e-6, b=0.5)
    quick = am.glauber(RING, a=1.0, b=0.5)
    rows = [
        (0, n, float(t), np.log(rng.uniform(0.05, 1.0, 2)))
        for n in range(8)
        for t in rng.uniform(0.0, 1.0, 4)
    ]
    scaled = [(d, n, 1e6 * t, values) for d, n, t, values in rows]
    one = solve(slow, make_evidence([2] * 8, [0.0], [1e6], scaled), method=method)
    other = solve(quick, make_evidence([2] * 8, [0.0], [1.0], rows), method=method)
    is_sound(one)
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_rates_twelve_orders_apart(method: str) -> None:
    rates = {
        "a": [[[-1e-6, 1e-6], [1e6, -1e6]], [[-2, 2], [1e-6, -1e-6]]],
        "b": [[[-1e6, 1e6], [2e-6, -2e-6]], [[-3, 3], [1, -1]]],
    }
    network = am.Network({"a": ["b"], "b": ["a"]}, rates)
    points = [(0, 0, 1.0, [0.0, -3.0]), (0, 1, 1.0, LOW), (0, 1, 9.0, HIGH)]
    whole = solved_or_refused(network, make_evidence([2, 2], [0.0], [10.0], points), method)
    assert whole is not None
    assert whole.log_evidence < -10.0  # the data are very improbable at these rates
    seen_once = make_evidence([2, 2], [0.0], [10.0], points[:1])
    assert solved_or_refused(network, seen_once, method) is not None


@pytest.mark.parametrize("method", METHODS)
def test_nothing_measured_at_all(method: str) -> None:
    posterior = solve(PAIR, make_evidence([2, 2], [0.0, 0.0], [3.0, 0.0]), method=method)
    is_sound(posterior)
    assert posterior.log_evidence <= 1e-6
    if method == "star":  # exact without data
        assert posterior.log_evidence == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tolerance", 0.0), ("tolerance", float("nan")), ("time_step", -1.0), ("max_sweeps", 0)],
)
def test_settings_that_make_no_sense(setting: str, value: Any) -> None:
    with pytest.raises(AsterismError, match=setting):
        solve(PAIR, make_evidence([2, 2], [0.0], [1.0]), **{setting: value})
