"""Marginal dynamics of the kernel against a plain version, on the same time steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma as scipy_digamma

import asterism.numerics._jit as jit
from asterism.learning.search import _marginal as marginal
from asterism.learning.search import score
from asterism.learning.search.score import GridPlan, Scorer, SingleStart, make_scorer
from tests.reference.marginal_dynamics import MarginalDynamics, with_exit_rates
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points

SIZES = [2, 3, 2]
#: a cycle, and a node with two parents; by number
GRAPH = ((1, 2), (0,), (1,))
NAMES = "abc"


def evidence() -> Any:
    """Two trajectories of unequal length, two noisy measurements of every node in each."""
    rng = np.random.default_rng(8)
    points = [
        *random_points(rng, SIZES, 0.8),
        *((1, *p[1:]) for p in random_points(rng, SIZES, 0.5)),
    ]
    return make_evidence(SIZES, [0.0, 0.0], [0.8, 0.5], points)


def initial() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.dirichlet(np.ones(s)) for s in SIZES]


#: β of every transition
RATES = np.linspace(1.0, 2.2, sum(s * s for s in SIZES))


def scorer(
    method: str, digamma: bool = False, time_step: float = 0.3, rate: Any = RATES, **options: Any
) -> Scorer:
    free = [~np.eye(s, dtype=bool) for s in SIZES]
    alone = [with_exit_rates(np.full((s, s), 0.8)) for s in SIZES]
    return make_scorer(
        evidence(),
        SingleStart(SIZES, free, np.concatenate(initial()), alone),
        (2.0, rate),
        GridPlan(relaxation_rate=1.0, step=1.0, time_step=time_step),
        method,
        digamma=digamma,
        tolerance=1e-11,
        **options,
    )


def plain(fast: Scorer, method: str, digamma: bool, tolerance: float = 1e-10) -> MarginalDynamics:
    solved = MarginalDynamics(
        {NAMES[n]: [NAMES[p] for p in GRAPH[n]] for n in range(3)},
        dict(zip(NAMES, SIZES)),
        dict(zip(NAMES, initial())),
        evidence(),
        [fast.base.grid.times(d) for d in range(2)],
        (fast.shape, fast.rate_by_node()),
        method,
        digamma,
    )
    solved.solve(tolerance)
    return solved


@pytest.mark.parametrize("digamma", [False, True], ids=["means", "digamma"])
@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_score_rates_and_statistics_of_the_plain_version(method: str, digamma: bool) -> None:
    fast = scorer(method, digamma)
    found = fast.solve(GRAPH)
    expected = plain(fast, method, digamma)
    assert found.converged
    assert found.score == pytest.approx(expected.score(), abs=1e-8)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    tables = [expected.model.rates[n].ravel() for n in NAMES]
    np.testing.assert_allclose(found.rates, np.concatenate(tables), atol=1e-8)
    dwell = [d.ravel() for d, _ in expected.statistics]
    np.testing.assert_allclose(found.dwell, np.concatenate(dwell), atol=1e-8)
    moves = [m.ravel() for _, m in expected.statistics]
    np.testing.assert_allclose(found.transitions, np.concatenate(moves), atol=1e-8)


@pytest.mark.parametrize(("method", "digamma"), [("star", False), ("mean_field", True)])
def test_score_is_entropy_data_and_initial_terms_with_the_gamma_terms(
    method: str, digamma: bool
) -> None:
    """Each evaluated by its own formula; what is left falls with the square of the step."""
    apart = []
    for time_step in (0.1, 0.025):
        fast = scorer(method, digamma, time_step, rate=1.5)
        direct = plain(fast, method, digamma, 1e-7).score_from_its_parts()
        apart.append(abs(fast.solve(GRAPH).score - direct))
    assert apart[1] < 2e-3
    assert apart[1] < apart[0] / 6


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_mixing_and_warm_starts_lead_to_the_same_fixed_point(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = scorer(method)
    cold = fast.solve(GRAPH)
    warm = fast.solve(GRAPH, fast.solve(((2,), (0,), ())))
    monkeypatch.setattr(score, "_MIXING_BYTES", 0)
    unmixed = fast.solve(GRAPH)
    assert unmixed.converged
    assert unmixed.n_iterations > cold.n_iterations
    for other in (warm, unmixed):
        assert other.score == pytest.approx(cold.score, abs=1e-9)
        np.testing.assert_allclose(other.rates, cold.rates, atol=1e-9)


def test_reaching_the_limit_is_not_convergence() -> None:
    assert not scorer("star", max_iterations=5).solve(GRAPH).converged


def test_forbidden_transitions_have_no_rates_and_no_terms() -> None:
    allowed = [~np.eye(s, dtype=bool) for s in SIZES]
    allowed[1][0, 2] = False
    fast = replace(scorer("star"), allowed=tuple(allowed))
    found = fast.solve(((), (0,), ()))
    table = found.rates[4 : 4 + 18].reshape(2, 3, 3)
    assert np.all(table[:, 0, 2] == 0.0)
    np.testing.assert_allclose(table[:, 0, 0], -table[:, 0, 1])
    moves = found.transitions[4 : 4 + 18].reshape(2, 3, 3)
    assert np.all(moves[:, 0, 2] == 0.0)


def test_every_entry_of_the_summary_has_its_own_place() -> None:
    names = ("TOTAL_EVIDENCE", "ENERGY", "GAMMA_TERMS", "LARGEST_RESIDUAL", "RATE_CHANGE")
    assert sorted(getattr(marginal, name) for name in names) == list(range(marginal.N_SUMMARY))


def test_digamma_function() -> None:
    @jit.kernel(cache=False)
    def values(points, out):  # type: ignore[no-untyped-def]
        for i in range(len(points)):
            out[i] = marginal.digamma(points[i])

    points = np.concatenate([np.geomspace(1e-6, 1e6, 60), np.arange(1.0, 30.0) / 2])
    out = np.empty_like(points)
    values(points, out)
    np.testing.assert_allclose(out, scipy_digamma(points), rtol=1e-13, atol=1e-13)
