"""The returned solution is a stationary point of F, taken from an independent functional.

Every start and every set of jump rates is feasible for ``tests/reference/star_functional.py``;
we perturb those of the solution in random directions and differentiate F numerically.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asterism.engine.refine import solve_on_grids
from asterism.engine.rule import Precision
from asterism.engine.rules.star import StarRule
from asterism.model.generators import random_rates
from asterism.star.problem import Parameters
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points
from tests.reference.star_functional import Functional

SIZES = [2, 3, 2]


def case() -> tuple[Any, Any]:
    """Three nodes on a cycle with noisy measurements."""
    rng = np.random.default_rng(17)
    network = random_rates({"a": ["c", "b"], "b": ["a"], "c": ["b"]}, SIZES, seed=17)
    return network, make_evidence(SIZES, [0.0], [1.2], random_points(rng, SIZES, 1.2))


def course(
    network: Any, evidence: Any, method: str, time_step: float
) -> tuple[np.ndarray, list[np.ndarray], list[list[np.ndarray]], float]:
    """Grid, marginals at the start, jump rates on every step, and F of the converged solution."""
    parameters = Parameters.of(network.compiled, method)
    rule = StarRule(network.compiled, parameters, Precision(1e-8, time_step, 500))
    solution = solve_on_grids(rule, evidence)
    batch = solution.batches[0]
    times = batch.grid.times(0)
    n_steps = len(times) - 1
    functional = Functional(network, evidence, 0, times, method)
    moments, begin = [], 0
    for size in SIZES:
        block = batch.moments[begin : begin + size * size * n_steps]
        moments.append(block.reshape(size, size, n_steps).transpose(2, 0, 1))
        begin += size * size * n_steps
    rates = []
    for k in range(n_steps):
        here = []
        for n, size in enumerate(SIZES):
            w = moments[n][k]
            ratio = w / np.diag(w)[:, None]  # star: ρ(y)/ρ(x); mean field: τ(x,y)/m(x)
            q = functional.rates[n] * ratio if method == "star" else ratio
            here.append(np.where(np.eye(size, dtype=bool), 0.0, q))
        rates.append(here)
    # marginals at time 0 by linear extrapolation of the first two steps' averages
    h = np.diff(times)
    first = []
    for w in moments:
        a, b = np.diag(w[0]) / h[0], np.diag(w[1]) / h[1]
        start = a - (b - a) * h[0] / (h[0] + h[1])
        first.append(start / start.sum())
    return times, first, rates, float(solution.outcome.evidence[0])


def derivative(functional: Functional, first: Any, rates: Any, seed: int) -> float:
    """dF along a random direction of all starts and all rates, smooth and rough in time."""
    rng = np.random.default_rng(seed)
    bend = [rng.normal(size=len(p)) for p in first]
    slow = [rng.normal(size=q.shape) for q in rates[0]]
    phase = rng.uniform(0.0, 6.0)

    def value(e: float) -> float:
        start = [p * np.exp(e * b) for p, b in zip(first, bend)]
        start = [p / p.sum() for p in start]
        changed = [
            [
                q * np.exp(e * s * np.sin(phase + 4.0 * functional.times[k]))
                for q, s in zip(here, slow)
            ]
            for k, here in enumerate(rates)
        ]
        return functional.evaluate(start, changed)["log_evidence"]

    step = 1e-3
    return (value(step) - value(-step)) / (2 * step)


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_perturbing_the_solution_does_not_change_the_energy(method: str) -> None:
    network, evidence = case()
    times, first, rates, found = course(network, evidence, method, 0.005)
    functional = Functional(network, evidence, 0, times, method)
    assert functional.evaluate(first, rates)["log_evidence"] == pytest.approx(found, abs=2e-4)
    slopes = [derivative(functional, first, rates, seed) for seed in range(4)]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-3)


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_the_remaining_slope_is_the_time_steps_and_nothing_else(method: str) -> None:
    """Shorter steps make it fall with their square."""
    network, evidence = case()
    largest = []
    for time_step in (0.1, 0.025):
        times, first, rates, _ = course(network, evidence, method, time_step)
        functional = Functional(network, evidence, 0, times, method)
        largest.append(max(abs(derivative(functional, first, rates, s)) for s in range(3)))
    assert largest[1] < largest[0] / 6


def test_other_courses_are_not_stationary() -> None:
    """The check can fail: speeding up one node's jumps by a tenth gives a slope."""
    network, evidence = case()
    times, first, rates, _ = course(network, evidence, "star", 0.05)
    functional = Functional(network, evidence, 0, times, "star")
    changed = [[1.1 * here[0], *here[1:]] for here in rates]
    slopes = [derivative(functional, first, changed, seed) for seed in range(3)]
    assert max(map(abs, slopes)) > 0.01
