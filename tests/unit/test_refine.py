"""Error control in groups, in single precision, and the placing of steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import asterism as am
from asterism.inference import refine
from asterism.kernels.placing import place_steps


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
    monkeypatch.setattr(refine, "_GROUP_BYTES", 20_000.0)
    monkeypatch.setattr(refine, "_FEW_BYTES", 0.0)
    grouped = am.infer(*problem)
    batches = grouped.courses._batches  # type: ignore[attr-defined]
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


def test_steps_stand_where_the_density_says() -> None:
    rng = np.random.default_rng(0)
    n = 40
    length = rng.choice([1e-3, 0.5, 3.0, 200.0], n)
    base, decay = rng.uniform(0.1, 1.0, n), rng.choice([1.0, 8.0], n)
    left, right = rng.uniform(0.0, 3.0, n), rng.uniform(0.0, 3.0, n)

    def reached(i: int, tau: float) -> float:
        return float(
            quad(
                lambda t: (
                    base[i]
                    + left[i] * np.exp(-t / decay[i])
                    + right[i] * np.exp((t - length[i]) / decay[i])
                ),
                0.0,
                tau,
                points=[min(tau, 3 * decay[i]), max(0.0, tau - 3 * decay[i])],
                limit=200,
            )[0]
        )

    target = np.array([rng.uniform(0.01, 0.99) * reached(i, length[i]) for i in range(n)])
    placed = place_steps(target, length, base, decay, left, right)
    for i in range(n):
        expected = brentq(lambda t, i=i: reached(i, t) - target[i], 0.0, length[i], xtol=1e-12)
        assert placed[i] == pytest.approx(expected, rel=1e-6, abs=1e-9 * length[i])
