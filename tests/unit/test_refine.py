"""Error control in groups, in single precision, and where steps lie."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import cumulative_simpson

import asterism as am
from asterism.engine import refine
from asterism.engine._grid_steps import lay_out
from asterism.engine.rules.star import StarRule


@pytest.fixture(scope="module")
def problem() -> tuple[am.Network, am.Observations, am.Gaussian]:
    network = am.glauber("ring:4", a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.3)
    paths = am.simulate(network, 7, duration=6.0, seed=3)
    return network, am.observe(paths, noise, n_observations=6, seed=4), noise


def test_groups_and_single_precision_change_nothing_that_matters(
    problem: tuple[am.Network, am.Observations, am.Gaussian], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = am.infer(*problem)
    monkeypatch.setattr(StarRule, "group_bytes", 12_000.0)
    monkeypatch.setattr(refine, "_FEW_BYTES", 0.0)
    grouped = am.infer(*problem)
    batches = grouped.courses.solution.batches  # type: ignore[attr-defined]
    assert len(batches) > 2
    assert all(batch.moments.dtype == np.float32 for batch in batches)
    assert grouped.converged
    # each trajectory is solved as before up to rounding; what is kept for courses is rounded more
    np.testing.assert_allclose(
        grouped.log_evidence_by_trajectory, plain.log_evidence_by_trajectory, rtol=1e-10
    )
    times = np.linspace(0.0, 7.0, 29)
    np.testing.assert_allclose(
        grouped.marginals(times).values, plain.marginals(times).values, atol=1e-6
    )
    for node in problem[0].nodes:
        np.testing.assert_allclose(
            grouped.statistics.transitions[node], plain.statistics.transitions[node], rtol=1e-9
        )


def test_halving_for_the_statistics_goes_on_from_single_precision(
    problem: tuple[am.Network, am.Observations, am.Gaussian], monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = am.infer(*problem, tolerance=1e-5)
    monkeypatch.setattr(refine, "_FEW_BYTES", 0.0)
    real = refine._relative_change
    answers = iter([1.0])
    monkeypatch.setattr(refine, "_relative_change", lambda a, b: next(answers, real(a, b)))
    found = am.infer(*problem)
    assert found.converged
    assert found.log_evidence == pytest.approx(fine.log_evidence, rel=1e-4)


def test_steps_lie_where_the_density_says() -> None:
    """Every grid point of a gap is where the integral of the density of steps reaches its share."""
    rng = np.random.default_rng(0)
    n = 40
    gap = np.exp(rng.uniform(-3, 6, n))
    time = np.concatenate([[0.0], np.cumsum(gap)])
    sharpness = rng.uniform(size=n + 1) * rng.integers(0, 2, n + 1)
    rate, step = 1.7, 0.3
    trajectory = np.zeros(n + 1, dtype=np.int64)
    factors = np.ones(1, dtype=np.int64)
    start, width, point_time, point = lay_out(
        trajectory, time, sharpness, factors, rate, step, False, 1
    )
    assert start[-1] == point[-1] == len(width)
    np.testing.assert_array_equal(point_time[point], time)
    np.testing.assert_allclose(np.diff(point_time), width, rtol=1e-6)
    for i in range(n):
        length = rate * gap[i]
        # long gaps: 30 relaxation times' worth of steps, most of them within 8 of either end
        base, decay = (30.0 / length, 8.0) if length > 30.0 else (1.0, 1.0)
        left = 1.0 - base + 2.0 * sharpness[i]
        right = 1.0 - base + 2.0 * sharpness[i + 1]
        t = np.linspace(0.0, length, 20_001)
        density = base + left * np.exp(-t / decay) + right * np.exp((t - length) / decay)
        reached = cumulative_simpson(density, x=t, initial=0.0)
        cuts = int(point[i + 1] - point[i])
        assert cuts == max(1, int(np.ceil(reached[-1] / step - 1e-9)))
        found = rate * (point_time[point[i] : point[i + 1] + 1] - time[i])
        shares = np.linspace(0.0, 1.0, cuts + 1)
        np.testing.assert_allclose(np.interp(found, t, reached) / reached[-1], shares, atol=1e-6)
