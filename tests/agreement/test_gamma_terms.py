"""The closed form of the rates' integral against numerical quadrature over the rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from asterism.errors import ModelError
from asterism.learning.search.score import posterior_mean_rates
from tests.reference.gamma_terms import log_gamma_terms


def log_integral(m: float, t: float, shape: float, rate: float) -> float:
    """ln ∫ Gamma(q; α, β) q^m e^(−qt) dq, the integrand scaled to 1 at its peak in ln q."""
    peak = math.log((m + shape) / (t + rate))

    def log_density(z: float) -> float:  # over z = ln q
        q = math.exp(z)
        prior = shape * math.log(rate) - math.lgamma(shape) + shape * z - rate * q
        return prior + m * z - t * q

    top = log_density(peak)
    width = 1.0 / math.sqrt(m + shape)
    value, _ = quad(
        lambda z: math.exp(log_density(z) - top),
        peak - 60 * width,
        peak + 12 * width,
        points=[peak - 5 * width, peak, peak + 5 * width],
        epsabs=0,
        epsrel=1e-12,
        limit=400,
    )
    return top + math.log(value)


@pytest.mark.parametrize(("shape", "rate"), [(5.0, 10.0), (1.0, 0.3), (5.0, 600.0), (0.5, 2.0)])
def test_terms_equal_the_integral_over_the_rates(shape: float, rate: float) -> None:
    rng = np.random.default_rng(3)
    moves = rng.gamma(1.0, 8.0, size=(4, 3, 3))
    moves[0, 0, 1] = 0.0
    dwell = rng.gamma(1.0, 6.0, size=(4, 3))
    dwell[1, 2] = 0.0
    expected = sum(
        log_integral(moves[u, x, y], dwell[u, x], shape, rate)
        for u in range(4)
        for x in range(3)
        for y in range(3)
        if x != y
    )
    assert log_gamma_terms(moves, dwell, shape, rate) == pytest.approx(expected, abs=1e-8)


def test_each_term_alone() -> None:
    for m, t in [(0.0, 0.0), (0.0, 7.5), (3.0, 0.2), (2.5, 40.0), (900.0, 850.0)]:
        moves, dwell = np.array([[0.0, m], [0.0, 0.0]]), np.array([t, 0.0])
        allowed = [[False, True], [False, False]]
        found = log_gamma_terms(moves, dwell, 5.0, 10.0, allowed)
        assert found == pytest.approx(log_integral(m, t, 5.0, 10.0), abs=1e-8)


def test_without_data_the_prior_integrates_to_one() -> None:
    assert log_gamma_terms(np.zeros((8, 2, 2)), np.zeros((8, 2)), 5.0, 3.0) == pytest.approx(0.0)


def test_posterior_means() -> None:
    moves = np.array([[0.0, 3.0, 1.0], [2.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    dwell = np.array([4.0, 2.0, 0.0])
    allowed = [[False, True, True], [True, True, False], [False, False, False]]
    found = posterior_mean_rates(moves, dwell, 5.0, 10.0, allowed)
    expected = [[0, 8 / 14, 6 / 14], [7 / 12, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    rng = np.random.default_rng(0)
    many, time = rng.uniform(size=(2, 4, 3, 3)), rng.uniform(size=(2, 4, 3))
    found = posterior_mean_rates(many, time, 0.5, 0.25)
    for u, v, x, y in np.ndindex(2, 4, 3, 3):
        mean = (many[u, v, x, y] + 0.5) / (time[u, v, x] + 0.25) if x != y else 0.0
        assert found[u, v, x, y] == pytest.approx(mean, rel=1e-14)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ModelError, match=r"allowed transitions have shape \(3, 3\)"):
        posterior_mean_rates(np.zeros((2, 2)), np.zeros(2), 5.0, 1.0, np.ones((3, 3)))
