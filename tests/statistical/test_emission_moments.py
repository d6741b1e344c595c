"""What emissions draw has the moments, and the frequencies, that their likelihood promises."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from scipy import integrate, stats

from asterism.model.emissions import Categorical, Exact, Gaussian, Poisson, Threshold

pytestmark = pytest.mark.slow

N_DRAWS = 20_000 if os.environ.get("ASTERISM_REDUCED") else 1_000_000
TWO = ("off", "on")


def draws(emission: object, state: int, states: tuple = TWO, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return emission.sample(np.full(N_DRAWS, state), rng, states)


def assert_moments(values: np.ndarray, mean: float, variance: float, fourth: float) -> None:
    """Mean and variance within four standard errors; ``fourth`` is the fourth central moment."""
    n = len(values)
    assert abs(values.mean() - mean) < 4 * math.sqrt(variance / n)
    assert abs(values.var() - variance) < 4 * math.sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize("state", [0, 1])
def test_gaussian(state: int) -> None:
    values = draws(Gaussian((-1, 3), (0.2, 1.5)), state)
    scale = (0.2, 1.5)[state]
    assert_moments(values, (-1, 3)[state], scale**2, 3 * scale**4)


@pytest.mark.parametrize("state", [0, 1])
def test_poisson(state: int) -> None:
    mean = (0.4, 25.0)[state]
    assert_moments(draws(Poisson((0.4, 25.0)), state), mean, mean, mean + 3 * mean**2)


@pytest.mark.parametrize("state", [0, 1])
def test_threshold(state: int) -> None:
    """Draws follow the likelihood times the normal density, whose moments are integrated here."""
    emission = Threshold(2.0, 0.5)

    def density(y: float) -> float:
        likelihood = math.exp(emission.log_likelihood(np.array([y]), TWO)[0, state])
        return 2.0 * likelihood * stats.norm.pdf(y, 2.0, 0.5)

    def moment(power: int, centre: float) -> float:
        return integrate.quad(lambda y: (y - centre) ** power * density(y), -3, 7)[0]

    assert moment(0, 0.0) == pytest.approx(1.0, abs=1e-9)
    mean = moment(1, 0.0)
    assert_moments(draws(emission, state), mean, moment(2, mean), moment(4, mean))


@pytest.mark.parametrize("state", [0, 1, 2])
def test_categorical(state: int) -> None:
    confusion = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]])
    values = draws(Categorical(confusion), state, states=("a", "b", "c"))
    for label, p in zip("abc", confusion[state]):
        share = np.mean(values == label)
        assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / N_DRAWS)


@pytest.mark.parametrize("state", [0, 1])
def test_exact(state: int) -> None:
    assert set(draws(Exact(), state)) == {TWO[state]}
