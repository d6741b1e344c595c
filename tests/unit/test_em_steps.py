"""The steps of EM in numbers: closed forms, finite differences and a plain maximiser.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks them whether wrong code
would be noticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import asterism as am
from asterism.errors import ModelError
from asterism.learning.em import emission_fit
from asterism.learning.em.e_step import ExactStep, StepPlan, VariationalStep
from asterism.learning.em.emission_fit import LearnedNode
from asterism.learning.em.rates_update import (
    FASTEST,
    LARGEST_EFFECT,
    RateFormula,
    RateUpdate,
    complete_diagonals,
    fastest_rate,
    plain_formula,
    rate_update,
)
from asterism.model.emission_numeric import SMALLEST_SCALE
from asterism.timeline.build import build_evidence
from tests.reference.random_evidence import make_evidence, random_network

RNG = np.random.default_rng(3)
NETWORK = am.Network(
    {"A": [], "B": ["A"]},
    {
        "A": RNG.uniform(0.5, 2.0, (2, 2)) * (1 - np.eye(2)),
        "B": RNG.uniform(0.5, 2.0, (2, 3, 3)) * (1 - np.eye(3)),
    },
    {"A": ["0", "1"], "B": ["0", "1", "2"]},
)
GRAPH = NETWORK.compiled.graph
N_RATES = 4 + 18
N_DWELL = 2 + 6
MOVES = RNG.uniform(1.0, 9.0, N_RATES)
DWELL = RNG.uniform(1.0, 5.0, N_DWELL)
CURRENT = RNG.uniform(0.1, 1.0, N_RATES)


def allowed() -> np.ndarray:
    """All jumps but 0 > 2 of B."""
    tables = [~np.eye(2, dtype=bool), np.broadcast_to(~np.eye(3, dtype=bool), (2, 3, 3)).copy()]
    tables[1][:, 0, 2] = False
    return np.concatenate([t.ravel() for t in tables])


def update(prior: am.GammaPrior | None = None, mode: bool = False, **more: Any) -> RateUpdate:
    return rate_update(GRAPH, allowed(), prior, mode, more.pop("ceiling", np.inf), **more)


def dwell_of_rate(i: int) -> float:
    """The time of the state that the i-th entry of the flat table leaves, by counting."""
    if i < 4:
        return float(DWELL[i // 2])
    return float(DWELL[2 + (i - 4) // 3])


@pytest.mark.parametrize(
    ("prior", "mode", "a", "b"),
    [(None, False, 0.0, 0.0), (am.GammaPrior(3.0, 2.0), False, 3.0, 2.0),
     (am.GammaPrior(3.0, 2.0), True, 2.0, 2.0)],
)  # fmt: skip
def test_plain_rates_are_jumps_over_time(prior: Any, mode: bool, a: float, b: float) -> None:
    one = update(prior, mode)
    assert one.index.tolist() == np.flatnonzero(allowed()).tolist()
    rates, effects = one.improved(MOVES, DWELL, CURRENT, np.zeros(0))
    assert len(effects) == 0
    blocks = (rates[:4].reshape(1, 2, 2), rates[4:].reshape(2, 3, 3))
    for block in blocks:
        np.testing.assert_allclose(block.sum(axis=2), 0.0, atol=1e-12)
    for i in one.index.tolist():
        assert rates[i] == pytest.approx((MOVES[i] + a) / (dwell_of_rate(i) + b), rel=1e-12)
    assert rates[4 + 2] == CURRENT[4 + 2]  # not learned: stays
    expected = sum(a * np.log(rates[i]) - b * rates[i] for i in one.index.tolist())
    assert one.penalty(rates, effects) == pytest.approx(expected, rel=1e-12)


def test_no_rate_above_the_ceiling_and_none_without_time() -> None:
    one = update(ceiling=0.9)
    rates, _ = one.improved(MOVES, DWELL, CURRENT, np.zeros(0))
    free = MOVES[one.index] / np.array([dwell_of_rate(i) for i in one.index.tolist()])
    np.testing.assert_allclose(rates[one.index], np.minimum(free, 0.9))
    dwell = DWELL.copy()
    dwell[0] = 0.0
    rates, _ = update().improved(MOVES, 0.01 * dwell, CURRENT, np.zeros(0))
    assert rates[1] == CURRENT[1]
    assert rates[2] == pytest.approx(100.0 * MOVES[2] / DWELL[1])


def test_a_mode_needs_a_shape_of_one() -> None:
    assert update(am.GammaPrior(1.0, 2.0), True).added_transitions == 0.0
    with pytest.raises(ModelError, match="mode at rate zero"):
        update(am.GammaPrior(0.5, 2.0), True)


def linked(prior: am.GammaPrior | None = am.GammaPrior(2.0, 1.5)) -> RateUpdate:  # noqa: B008
    """Two rates share a baseline, one is fixed, and two effects act on all."""
    index = update().index
    base = np.arange(len(index)) - 2
    base[0], base[1], base[2] = 0, 0, -1
    base[3:] = np.arange(1, len(index) - 2)
    design = np.random.default_rng(5).normal(size=(len(index), 2))
    offset = np.zeros(len(index))
    offset[2] = np.log(0.7)
    n_base = int(base.max()) + 1
    formula = RateFormula(base, offset, design, n_base, np.zeros(2), np.full(n_base, np.nan))
    return update(prior, formula=formula)


def expected_log(
    one: RateUpdate, base: np.ndarray, effects: np.ndarray, share: float = 1.0
) -> float:
    """Σ M ln R − T R + Σ a ln B − b B, rate by rate; only a share of jumps and times was seen."""
    total = float(np.sum(one.added_transitions * np.log(base) - one.added_time * base))
    for k, i in enumerate(one.index.tolist()):
        rate = np.exp(one.formula.offset[k] + one.formula.design[k] @ effects)
        if one.formula.base[k] >= 0:
            rate *= base[one.formula.base[k]]
        total += share * (MOVES[i] * np.log(rate) - dwell_of_rate(i) * rate)
    return total


def test_effects_are_those_of_a_plain_maximiser() -> None:
    one = linked()
    assert (one.n_base, one.n_effects) == (one.formula.n_base, 2)
    rates, effects = one.improved(MOVES, DWELL, CURRENT, np.zeros(2))
    n = one.n_base
    best = minimize(
        lambda v: -expected_log(one, np.exp(v[:n]), v[n:]), np.zeros(n + 2), method="BFGS",
        options={"gtol": 1e-9},
    )  # fmt: skip
    np.testing.assert_allclose(effects, best.x[n:], atol=1e-5)
    np.testing.assert_allclose(one.baselines(rates, effects), np.exp(best.x[:n]), rtol=1e-4)
    found = expected_log(one, one.baselines(rates, effects), effects)
    assert found >= -best.fun - 1e-9
    # a shared baseline means one rate apart from effects; a fixed rate is its offset times effects
    own = rates[one.index] / np.exp(one.formula.design @ effects)
    assert own[0] == pytest.approx(own[1])
    assert own[2] == pytest.approx(0.7)
    # from a far start the same is found
    _, again = one.improved(MOVES, DWELL, CURRENT, np.array([2.0, -2.0]))
    np.testing.assert_allclose(again, effects, atol=1e-6)


@pytest.mark.parametrize(
    ("prior", "share"), [(am.GammaPrior(2.0, 1.5), 1.0), (None, 1.0), (None, 0.05)]
)
def test_profile_has_the_slopes_it_says(prior: am.GammaPrior | None, share: float) -> None:
    one, at, h = linked(prior), np.array([0.3, -0.2]), 1e-5
    moves, time = share * MOVES[one.index], share * DWELL[one.dwell_index]
    value, gradient, hessian = one._profile(moves, time, at)
    m, t = one.totals(share * MOVES, share * DWELL, at)
    assert value == pytest.approx(expected_log(one, m / t, at, share), rel=1e-10)
    for k in range(2):
        step = h * np.eye(2)[k]
        up, down = (one._profile(moves, time, at + s) for s in (step, -step))
        assert gradient[k] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6)
        np.testing.assert_allclose(hessian[k], -(up[1] - down[1]) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize(("at", "is_long"), [((0.2, -0.1), False), ((3.0, -4.0), True)])
def test_steps_are_those_of_newton_and_no_longer_than_two(
    at: tuple[float, float], is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, tried = linked(), []
    profile = RateUpdate._profile

    def noted(self: RateUpdate, moves: Any, time: Any, effects: np.ndarray) -> Any:
        tried.append(effects.copy())
        return profile(self, moves, time, effects)

    monkeypatch.setattr(RateUpdate, "_profile", noted)
    one.improved(MOVES, DWELL, CURRENT, np.array(at))
    _, gradient, hessian = profile(one, MOVES[one.index], DWELL[one.dwell_index], np.array(at))
    step = np.linalg.solve(hessian, gradient)
    longest = float(np.abs(step).max())
    assert (longest > 2.0) == is_long
    assert is_long or longest < 1.0
    np.testing.assert_allclose(tried[1] - tried[0], step * min(1.0, 2.0 / longest), rtol=1e-6)
    assert len(tried) < 15


def test_a_step_that_loses_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where effects are strong, a step of Newton's method can go too far."""
    one = linked(None)
    one = replace(one, formula=replace(one.formula, design=3.0 * one.formula.design))
    tried: list[tuple[np.ndarray, float]] = []
    profile = RateUpdate._profile

    def noted(self: RateUpdate, moves: Any, time: Any, effects: np.ndarray) -> Any:
        found = profile(self, moves, time, effects)
        tried.append((effects.copy(), found[0]))
        return found

    monkeypatch.setattr(RateUpdate, "_profile", noted)
    _, effects = one.improved(MOVES, DWELL, CURRENT, np.array([1.0, -1.0]))
    (at, value), (first, worse), (second, _) = tried[1:4]
    assert worse < value - 1e-6
    np.testing.assert_allclose(second - at, 0.5 * (first - at))
    best = profile(one, MOVES[one.index], DWELL[one.dwell_index], effects)[0]
    assert best == pytest.approx(max(v for _, v in tried), rel=1e-10)


def test_a_plain_formula_has_no_effects() -> None:
    plain = plain_formula(3)
    assert plain.is_plain
    assert (plain.design.shape, plain.start_effects.shape) == ((3, 0), (0,))
    assert plain.base.tolist() == [0, 1, 2]
    assert np.isnan(plain.start_base).all()
    for n_effects in (1, 2):
        assert not replace(plain, design=np.zeros((3, n_effects))).is_plain


def test_a_baseline_can_be_shared_without_effects() -> None:
    index = update().index
    n = len(index)
    base = np.maximum(np.arange(n) - 1, 0)
    formula = RateFormula(
        base, np.zeros(n), np.zeros((n, 0)), n - 1, np.zeros(0), np.full(n - 1, np.nan)
    )
    assert not formula.is_plain
    rates, _ = update(formula=formula).improved(MOVES, DWELL, CURRENT, np.zeros(0))
    i, j = index[:2].tolist()
    together = (MOVES[i] + MOVES[j]) / (dwell_of_rate(i) + dwell_of_rate(j))
    np.testing.assert_allclose(rates[[i, j]], together)
    k = int(index[5])
    assert rates[k] == pytest.approx(MOVES[k] / dwell_of_rate(k))


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (2.0, 0.0)])
def test_either_half_of_a_prior_counts(a: float, b: float) -> None:
    one = replace(update(), added_transitions=a, added_time=b)
    free = CURRENT[one.index]
    expected = float(np.sum(a * np.log(free) - b * free))
    assert one.penalty(CURRENT, np.zeros(0)) == pytest.approx(expected, rel=1e-12)


def test_effects_stay_within_their_limits() -> None:
    """All jumps at one level of a covariate: the best effect is infinite."""
    index = update().index
    design = np.zeros((len(index), 1))
    design[0] = 1.0
    n = len(index)
    formula = RateFormula(
        np.zeros(n, dtype=int), np.zeros(n), design, 1, np.zeros(1), np.full(1, np.nan)
    )
    moves = MOVES.copy()
    moves[index[1:]] = 0.0
    one = update(formula=formula)
    _, effects = one.improved(moves, DWELL, CURRENT, np.zeros(1))
    assert 5.0 < effects[0] <= LARGEST_EFFECT


def test_unseen_configurations_get_the_pooled_rates() -> None:
    dwell = DWELL.copy()
    dwell[2:5] = 0.0  # B under A = 0 was never seen
    moves = MOVES.copy()
    moves[4:13] = 0.0
    found = update().pooled_where_unseen(moves, dwell, CURRENT)
    seen = moves[13:].reshape(3, 3) / dwell[5:][:, None]
    block = found[4:13].reshape(3, 3)
    for x, y in ((0, 1), (1, 0), (1, 2), (2, 0), (2, 1)):
        assert block[x, y] == pytest.approx(seen[x, y])
    np.testing.assert_array_equal(found[13:][allowed()[13:]], CURRENT[13:][allowed()[13:]])
    np.testing.assert_allclose(block.sum(axis=1), 0.0, atol=1e-12)
    shorter = update().pooled_where_unseen(moves, 0.01 * dwell, CURRENT)
    assert shorter[4 + 3] == pytest.approx(100.0 * found[4 + 3])
    dwell[2:] = 0.0
    assert (update().pooled_where_unseen(moves, dwell, CURRENT)[4:][allowed()[4:]] == 0.0).all()


def test_with_a_prior_nothing_is_unseen() -> None:
    rates = CURRENT.copy()
    complete_diagonals(rates, GRAPH)
    found = update(am.GammaPrior(3.0, 20.0)).pooled_where_unseen(MOVES, DWELL, CURRENT)
    np.testing.assert_array_equal(found, rates)


def test_pooling_looks_at_its_own_node_only() -> None:
    """The first of two nodes was never seen in one state; the times of the second differ."""
    dwell, moves = DWELL.copy(), MOVES.copy()
    dwell[0] = 0.0
    moves[1] = 0.0
    found = update().pooled_where_unseen(moves, dwell, CURRENT)
    assert found[1] == 0.0
    np.testing.assert_array_equal(found[4:][allowed()[4:]], CURRENT[4:][allowed()[4:]])
    assert found[2] == CURRENT[2]


def test_the_fastest_rate_follows_the_shortest_gap() -> None:
    points = [(0, 0, 0.5, np.zeros(2)), (0, 1, 0.75, np.zeros(3)), (1, 0, 0.75, np.zeros(2))]
    assert fastest_rate(make_evidence([2, 3], [0.0, 0.0], [3.0, 2.0], points)) == FASTEST / 0.25
    spans = [(1, 0, 1.9, 2.0, 1)]
    found = fastest_rate(make_evidence([2, 3], [0.0, 0.0], [3.0, 2.0], points, spans=spans))
    assert found == pytest.approx(FASTEST / 0.1)
    assert fastest_rate(make_evidence([2], [0.0], [0.0])) == np.inf


def test_diagonals() -> None:
    rates = CURRENT.copy()
    complete_diagonals(rates, GRAPH)
    np.testing.assert_allclose(rates[:4].reshape(2, 2).sum(axis=1), 0.0, atol=1e-14)
    assert rates[0] == -CURRENT[1]


# ---- when Newton's method stops, with a profile that says what a function says -----------------


def climb(monkeypatch: pytest.MonkeyPatch, profile: Any) -> tuple[float, list[float]]:
    """Where one effect ends that starts at zero, and every place that was looked at."""
    index = update().index
    n = len(index)
    formula = RateFormula(
        np.zeros(n, dtype=int), np.zeros(n), np.ones((n, 1)), 1, np.zeros(1), np.full(1, np.nan)
    )
    looked: list[float] = []

    def fake(self: RateUpdate, moves: Any, time: Any, effects: np.ndarray) -> Any:
        looked.append(float(effects[0]))
        value, gradient, hessian = profile(looked[-1])
        return value, np.array([gradient]), np.array([[hessian]])

    monkeypatch.setattr(RateUpdate, "_profile", fake)
    found = update(formula=formula)._regression(MOVES, DWELL, np.zeros(1))
    return float(found[0]), looked


def test_thirty_steps_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    end, looked = climb(monkeypatch, lambda x: (x, 1.0, 10.0))
    assert end == pytest.approx(3.0)
    assert len(looked) == 31


def test_no_effect_beyond_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    for sign in (1.0, -1.0):
        end, looked = climb(monkeypatch, lambda x, s=sign: (s * x, s, 0.1))
        assert end == 15.0 * sign == LARGEST_EFFECT * sign
        assert looked[:3] == [0.0, 2.0 * sign, 4.0 * sign]


def test_a_step_is_halved_twenty_times(monkeypatch: pytest.MonkeyPatch) -> None:
    end, looked = climb(monkeypatch, lambda x: (0.0 if x == 0.0 else -1.0, 1.0, 1.0))
    assert end == 0.0
    np.testing.assert_allclose(looked[1:], 0.5 ** np.arange(20))


@pytest.mark.parametrize(
    ("value", "gain", "goes_on"),
    [(-1e6, 5e-9, False), (-1e6, 2e-8, True), (1e6, 5e-9, False), (0.1, 5e-15, False),
     (0.1, 2e-14, True)],
)  # fmt: skip
def test_steps_that_promise_too_little_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, value: float, gain: float, goes_on: bool
) -> None:
    _, looked = climb(monkeypatch, lambda x: (value, np.sqrt(gain), 1.0))
    assert (len(looked) > 1) == goes_on


@pytest.mark.parametrize(("loss", "taken"), [(5e-7, True), (2e-6, False)])
def test_a_loss_by_rounding_is_none(
    monkeypatch: pytest.MonkeyPatch, loss: float, taken: bool
) -> None:
    def profile(x: float) -> tuple[float, float, float]:
        there = abs(x - 1.0) < 1e-6
        return (-1e6 - loss, 0.0, 1.0) if there else (-1e6, 1.0, 1.0)

    _, looked = climb(monkeypatch, profile)
    assert (len(looked) == 2) == taken


def test_without_information_a_small_slope_goes_far_uphill(monkeypatch: pytest.MonkeyPatch) -> None:
    _, looked = climb(monkeypatch, lambda x: (x, 1e-12, 0.0))
    assert looked[1] == 2.0
    _, looked = climb(monkeypatch, lambda x: (x, 1.0, 4.0))
    assert looked[1] == pytest.approx(0.25, rel=1e-9)


def test_effects_of_rates_that_are_all_fixed() -> None:
    index = update().index
    n = len(index)
    rng = np.random.default_rng(8)
    offset, design = rng.normal(0.0, 0.3, n), rng.normal(size=(n, 2))
    formula = RateFormula(np.full(n, -1), offset, design, 0, np.zeros(2), np.zeros(0))
    one = update(formula=formula)
    at, h = np.array([0.2, -0.3]), 1e-5
    moves, time = MOVES[one.index], DWELL[one.dwell_index]
    value, gradient, hessian = one._profile(moves, time, at)
    logs = offset + design @ at
    assert value == pytest.approx(float(moves @ logs - time @ np.exp(logs)), rel=1e-12)
    for k in range(2):
        step = h * np.eye(2)[k]
        up, down = (one._profile(moves, time, at + s) for s in (step, -step))
        assert gradient[k] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6)
        np.testing.assert_allclose(hessian[k], -(up[1] - down[1]) / (2 * h), rtol=1e-6)


def test_a_baseline_without_time_has_no_part_in_the_slopes() -> None:
    one = linked(None)
    alone = int(np.flatnonzero(one.formula.base == 1)[0])
    moves, time = MOVES[one.index], DWELL[one.dwell_index].copy()
    moves = moves.copy()
    time[alone], moves[alone] = 0.0, 0.0
    at = np.array([0.3, -0.2])
    value, gradient, hessian = one._profile(moves, time, at)
    design = one.formula.design.copy()
    design[alone] = 0.0
    without = replace(one, formula=replace(one.formula, design=design))
    other = without._profile(moves, time, at)
    assert value == pytest.approx(other[0], rel=1e-12)
    np.testing.assert_allclose(gradient, other[1], rtol=1e-12)
    np.testing.assert_allclose(hessian, other[2], rtol=1e-12)


def test_factors_stay_in_the_range_of_numbers() -> None:
    one = linked()
    far = one.formula.factors(np.array([1e4, 0.0]))
    assert far.max() == np.exp(50.0)
    assert far.min() == np.exp(-50.0)
    value, gradient, _ = one._profile(MOVES[one.index], DWELL[one.dwell_index], np.full(2, 1e4))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


# ---- emissions --------------------------------------------------------------------------------

VALUES = np.array([0.2, 1.4, -0.5, 2.2, 1.0])
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(2), size=5)
KINDS: dict[str, tuple[Any, np.ndarray]] = {
    "Gaussian": (am.Gaussian((0.1, 1.5), 0.6, learn=True), VALUES),
    "Gaussian with two scales": (am.Gaussian((0.1, 1.5), (0.6, 0.9), learn=True), VALUES),
    "Poisson": (am.Poisson((0.7, 4.0), learn=True), np.array([0, 3, 5, 1, 7])),
    "Categorical": (
        am.Categorical(((0.8, 0.2), (0.3, 0.7)), learn=True), np.array([0, 1, 1, 0, 1]),
    ),
}  # fmt: skip


def learned(name: str) -> LearnedNode:
    emission, values = KINDS[name]
    return LearnedNode("A", (0, 1), values, np.arange(10).reshape(5, 2), emission)


@pytest.mark.parametrize("name", KINDS)
def test_emissions_have_the_slopes_they_say(name: str) -> None:
    """Gradient of Σ w ln P(y | x) by differences; in √p along what keeps the row's sum."""
    emission, node = KINDS[name][0], learned(name)

    def q(vector: np.ndarray) -> float:
        there = emission_fit.at_coordinates(emission, vector, node)
        return float(np.sum(WEIGHTS * there.log_likelihood(node.values, node.states)))

    at = emission_fit.coordinates(emission, node)
    np.testing.assert_allclose(
        emission_fit.at_coordinates(emission, at, node).log_likelihood(node.values, node.states),
        emission.log_likelihood(node.values, node.states),
        atol=1e-12,
    )
    gradient, information = emission_fit.score_and_information(emission, node, WEIGHTS)
    h = 1e-6
    slopes = [(q(at + h * e) - q(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)
    assert (information > 0.0).all()
    flat = emission_fit.write_log_likelihoods((node,), (emission,), np.full(12, 7.0))
    assert flat[10:].tolist() == [7.0, 7.0]
    np.testing.assert_allclose(
        flat[:10].reshape(5, 2), emission.log_likelihood(node.values, node.states)
    )


def test_information_of_each_kind() -> None:
    total = WEIGHTS.sum(axis=0)
    _, found = emission_fit.score_and_information(*_of("Gaussian"), WEIGHTS)
    np.testing.assert_allclose(found, [*(total / 0.36), 2 * total.sum()])
    _, found = emission_fit.score_and_information(*_of("Gaussian with two scales"), WEIGHTS)
    np.testing.assert_allclose(found, [*(total / np.array([0.36, 0.81])), *(2 * total)])
    _, found = emission_fit.score_and_information(*_of("Poisson"), WEIGHTS)
    np.testing.assert_allclose(found, total * np.array([0.7, 4.0]))
    _, found = emission_fit.score_and_information(*_of("Categorical"), WEIGHTS)
    np.testing.assert_allclose(found, 4 * np.repeat(total, 2))


def _of(name: str) -> tuple[Any, LearnedNode]:
    return KINDS[name][0], learned(name)


@pytest.mark.parametrize("name", KINDS)
def test_distance_and_trusted_range(name: str) -> None:
    emission, node = _of(name)
    at = emission_fit.coordinates(emission, node)
    found = emission_fit.described(emission, node)
    low, high = found["low"], found["high"]
    assert (low < at).all()
    assert (high > at).all()
    if name == "Categorical":
        np.testing.assert_allclose(low, 0.03 * at)
        assert (high == 1.0).all()
    elif name == "Poisson":
        np.testing.assert_allclose(high - at, 1.5)
        np.testing.assert_allclose(at - low, 1.5)
    else:
        np.testing.assert_allclose((high - at)[:2], emission.scale)
        np.testing.assert_allclose((high - at)[2:], 1.5)
    assert emission_fit.distance(emission, emission, node) == 0.0
    moved = at.copy()
    moved[0] += 0.05
    if name != "Categorical":
        other = emission_fit.at_coordinates(emission, moved, node)
        scale = 0.6 if "Gaussian" in name else 1.0
        assert emission_fit.distance(emission, other, node) == pytest.approx(0.05 / scale)


def test_entries_of_a_confusion_matrix_that_start_at_zero_stay() -> None:
    emission = am.Categorical(((1.0, 0.0, 0.0), (0.2, 0.7, 0.1), (0.0, 0.4, 0.6)), learn=True)
    node = LearnedNode("A", (0, 1, 2), np.array([0, 1, 2]), np.zeros((3, 3), dtype=int), emission)
    at = emission_fit.coordinates(emission, node)
    np.testing.assert_allclose(at**2, [0.2, 0.7, 0.1, 0.4, 0.6])
    there = emission_fit.at_coordinates(emission, np.array([1.0, 1.0, 1.0, 1.0, 3.0]), node)
    np.testing.assert_allclose(
        there.confusion, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0.1, 0.9]], atol=1e-12
    )
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    slopes, information = emission_fit.score_and_information(emission, node, weights)
    rows, columns = [1, 1, 1, 2, 2], [0, 1, 2, 1, 2]
    # measurement y was y itself: what state x explains of it is weights[y, x]
    count = np.array([weights[y, x] for x, y in zip(rows, columns)])
    total = np.array([count[:3].sum()] * 3 + [count[3:].sum()] * 2)
    np.testing.assert_allclose(information, 4.0 * total)
    np.testing.assert_allclose(slopes, 2.0 * (count - total * at**2) / at)
    assert [one.tolist() for one in _rows(emission, node)] == [[0, 1, 2], [3, 4]]
    turned = am.Categorical(((0.0, 0.6, 0.4), (1.0, 0.0, 0.0), (0.2, 0.7, 0.1)), learn=True)
    other = replace(node, start=turned)
    assert [one.tolist() for one in _rows(turned, other)] == [[0, 1], [2, 3, 4]]
    assert emission_fit.root_score(
        np.array([2.0, 1.0]), np.array([4.0, 4.0]), np.array([0.25, 0.0])
    ).tolist() == [2.0 * (2.0 - 1.0) / 0.5, 0.0]


def _rows(emission: Any, node: LearnedNode) -> list[Any]:
    return emission_fit.rows_of(emission_fit.described(emission, node))


@pytest.mark.parametrize("name", KINDS)
def test_another_start_is_of_the_same_kind_and_near(name: str) -> None:
    emission, node = _of(name)
    other = emission_fit.jittered(emission, node, np.random.default_rng(0))
    assert type(other) is type(emission)
    at, there = (emission_fit.coordinates(e, node) for e in (emission, other))
    assert not np.allclose(at, there)
    rng = np.random.default_rng(0)
    if name == "Poisson":
        np.testing.assert_allclose(there, at + 0.5 * rng.normal(size=2))
    elif "Gaussian" in name:
        np.testing.assert_allclose(there[:2], np.sort(at[:2] + 0.5 * 0.7 * rng.normal(size=2)))
        np.testing.assert_allclose(there[2:], at[2:] + 0.3 * rng.normal(size=len(at) - 2))
    else:
        factor = np.exp(0.5 * rng.normal(size=4)).reshape(2, 2)
        rows = (at.reshape(2, 2) * factor) ** 2
        np.testing.assert_allclose(
            other.confusion, rows / rows.sum(axis=1, keepdims=True), atol=1e-12
        )


def test_a_scale_does_not_vanish() -> None:
    emission, node = _of("Gaussian")
    tiny = emission_fit.at_coordinates(emission, np.array([0.0, 1.0, -50.0]), node)
    assert tiny.scale == pytest.approx(SMALLEST_SCALE * VALUES.std())
    assert tiny.scale < 0.1 * VALUES.std()
    assert isinstance(tiny.scale, float)
    same = replace(node, values=np.full(5, 0.5))
    tiny = emission_fit.at_coordinates(emission, np.array([0.0, 1.0, -5.0]), same)
    assert tiny.scale == pytest.approx(np.exp(-5.0))


def test_learned_nodes_know_where_their_likelihoods_lie() -> None:
    """Out of order in time, a state known for a moment, a held node, a silent state."""
    rows = pd.DataFrame(
        {"trajectory": ["p", "p", "p", "q"], "time": [1.0, 2.0, 3.0, 2.0],
         "A": [0.2, 0.4, 0.6, 0.8], "B": [1.0, 2.0, np.nan, 0.5]}
    )  # fmt: skip
    moment = {"trajectory": ["p"], "node": ["A"], "start": [1.5], "end": [1.5], "state": ["0"]}
    seen = am.Observations.from_frame(
        rows, start=0.0, end=5.0, intervals=pd.DataFrame(moment)
    ).with_interventions(
        pd.DataFrame(
            [("p", "A", 2.5, 3.5, "1")], columns=["trajectory", "node", "start", "end", "state"]
        )
    )
    emissions = {
        "A": am.Gaussian((0.1, 1.5), 0.6, learn=True),
        "B": am.Gaussian((0.0, 1.0, 2.0), 0.4, learn=True),
    }
    evidence = build_evidence(NETWORK, seen, emissions)
    nodes = emission_fit.learned_nodes(NETWORK, seen, emissions, evidence)
    assert [one.node for one in nodes] == ["A", "B"]
    flat = evidence.points.log_likelihood
    for one in nodes:
        expected = emissions[one.node].log_likelihood(one.values, one.states)
        np.testing.assert_allclose(flat[one.place], expected)
    assert nodes[0].values.tolist() == [0.2, 0.4, 0.8]
    assert nodes[1].values.tolist() == [1.0, 2.0, 0.5]
    assert emission_fit.distance(emissions["A"], emissions["A"], nodes[0]) == 0.0


def test_emissions_start_from_their_own_data() -> None:
    """Not where nothing noisy was measured, nor for nodes that are given from outside."""
    flip = 1.0 - np.eye(2)
    network = am.Network(
        {"drug": [], "A": ["drug"], "B": [], "C": []},
        {"drug": None, "A": np.stack([flip, flip]), "B": flip, "C": flip},
        {"drug": [0, 1], "A": [0, 1], "B": [0, 1], "C": [0, 1]},
    )
    frame = pd.DataFrame({"time": [0.0, 1.0, 2.0, 3.0], "drug": [0, 0, 1, 1],
                          "A": [0.1, 1.2, 0.3, 0.9], "B": [0.0, 1.0, 0.0, 1.0]})  # fmt: skip
    noisy = am.Observations.from_frame(frame)
    open_ = am.Gaussian(learn=True)
    found = emission_fit.started_emissions(network, noisy, {"A": open_, "B": am.Exact()})
    assert set(found) == {"A", "B"}
    assert found["A"].means == open_.initialise(frame["A"].to_numpy(), 2).means
    exact = am.Observations.from_frame(frame.drop(columns="A"), exact=[True] * 4)
    assert emission_fit.started_emissions(network, exact, am.Exact()) == {}
    given_already = am.Observations.from_likelihoods([[0.0]], [{"A": [[0.2, 0.8]]}])
    assert emission_fit.started_emissions(network, given_already, {"A": open_}) == {"A": open_}
    fixed = am.Gaussian((0.0, 1.0), 0.5)
    evidence = build_evidence(network, noisy, {"A": fixed, "B": am.Exact()})
    given = {"A": fixed, "B": am.Exact()}
    assert emission_fit.learned_nodes(network, noisy, given, evidence) == ()


class Odd(am.Exact):
    """A kind that the fit does not know."""

    def __init__(self, low: float) -> None:
        self.low = low

    def log_likelihood(self, values: Any, states: Any) -> np.ndarray:
        found = np.full((len(values), len(states)), -np.inf)
        found[:, 0] = self.low
        return found


def test_distance_of_kinds_that_are_not_known() -> None:
    node = LearnedNode("A", (0, 1), VALUES, np.arange(10).reshape(5, 2), Odd(-1.0))
    assert emission_fit.distance(Odd(-1.0), Odd(-1.25), node) == 0.25
    assert len(emission_fit.coordinates(Odd(-1.0), node)) == 0
    slopes = emission_fit.score_and_information(Odd(-1.0), node, WEIGHTS)
    assert [len(part) for part in slopes] == [0, 0]
    assert emission_fit.at_coordinates(node.start, np.zeros(0), node) is node.start
    assert emission_fit.distance(Odd(-1.0), Odd(-1.0), node) == 0.0


# ---- expected statistics ------------------------------------------------------------------------


def small_case() -> tuple[am.Network, am.Observations, am.Gaussian]:
    network = random_network(np.random.default_rng(2), [2, 2], 1)
    noise = am.Gaussian((0, 1), 0.7)
    labels = dict.fromkeys(network.nodes, (0, 1))
    network = am.Network(network.parents, network.rates, labels, network.initial)
    paths = am.simulate(network, 2, duration=0.8, seed=0)
    return network, am.observe(paths, noise, n_observations=2, seed=1), noise


def test_one_part_that_did_not_settle_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    network, seen, noise = small_case()
    evidence, compiled = build_evidence(network, seen, noise), network.compiled
    logs = evidence.points.log_likelihood
    at = (compiled.rates, compiled.initial, logs)
    step = VariationalStep(StepPlan(compiled.graph, evidence, at, tolerance=1e-2, time_step=0.1))
    solve, said = step._solve, iter([False, True])
    step._parts = step._parts * 2
    monkeypatch.setattr(step, "_solve", lambda *given: (*solve(*given)[:3], next(said)))
    assert not step(compiled.rates, compiled.initial, logs).settled


def test_both_steps_find_the_statistics_of_inference() -> None:
    network, seen, noise = small_case()
    evidence = build_evidence(network, seen, noise)
    compiled = network.compiled
    flat = evidence.points.log_likelihood
    plan = StepPlan(compiled.graph, evidence, (compiled.rates, compiled.initial, flat))
    steps = {"exact": ExactStep(plan)(*plan.at)}
    star = VariationalStep(plan)
    steps["star"] = star(compiled.rates, compiled.initial, flat)
    for method, found in steps.items():
        posterior = am.infer(network, seen, noise, method=method)
        np.testing.assert_allclose(
            found.log_evidence, posterior.log_evidence_by_trajectory, atol=1e-6
        )
        dwell = [np.asarray(posterior.statistics.dwell_times[n]).ravel() for n in network.nodes]
        np.testing.assert_allclose(found.dwell, np.concatenate(dwell), atol=1e-6)
        moves = [np.asarray(posterior.statistics.transitions[n]) for n in network.nodes]
        off = np.concatenate([m.ravel() for m in moves])
        kept = np.concatenate([np.broadcast_to(~np.eye(2, dtype=bool), m.shape).ravel()
                               for m in moves])  # fmt: skip
        np.testing.assert_allclose(found.transitions[kept], off[kept], atol=1e-6)
        start = posterior.marginals([0.0])
        by_node = [start.sel(node=n).values[:, 0, :2].sum(axis=0) for n in network.nodes]
        np.testing.assert_allclose(found.initial, np.concatenate(by_node), atol=1e-5)
        points = evidence.points
        for k, place in enumerate(points.offset.tolist()):
            node = network.nodes[int(points.node[k])]
            at = posterior.marginals([float(points.time[k])]).sel(node=node).values
            own = at[int(points.trajectory[k]), 0, :2]
            np.testing.assert_allclose(found.points[place : place + 2], own, atol=1e-4)
        assert found.settled
    # other likelihoods, the same grids: nothing measured means nothing learned
    silent = star(compiled.rates, compiled.initial, 0.0 * flat)
    np.testing.assert_allclose(silent.log_evidence, 0.0, atol=1e-3)
    assert replace(silent, settled=False).settled is False


def test_a_step_forgets_where_it_came_from() -> None:
    """Messages are kept between calls, and sweeps go on until that no longer shows."""
    network, seen, noise = small_case()
    evidence, compiled = build_evidence(network, seen, noise), network.compiled
    logs = evidence.points.log_likelihood
    at = (compiled.rates, compiled.initial, logs)
    plan = StepPlan(compiled.graph, evidence, at, tolerance=1e-2, time_step=0.2)
    fresh, used = (VariationalStep(plan) for _ in range(2))
    used(3.0 * compiled.rates, compiled.initial, -logs)
    one, other = (s(compiled.rates, compiled.initial, logs) for s in (fresh, used))
    assert one.settled
    assert other.settled
    np.testing.assert_allclose(other.dwell, one.dwell, atol=1e-7)
    np.testing.assert_allclose(other.log_evidence, one.log_evidence, atol=1e-7)


def test_without_points_the_statistics_are_the_same() -> None:
    network, seen, noise = small_case()
    evidence, compiled = build_evidence(network, seen, noise), network.compiled
    logs = evidence.points.log_likelihood
    at = (compiled.rates, compiled.initial, logs)
    plan = StepPlan(compiled.graph, evidence, at, tolerance=1e-2, time_step=0.2)
    full, lean = (VariationalStep(plan._replace(with_points=given)) for given in (True, False))
    one, other = (s(compiled.rates, compiled.initial, logs) for s in (full, lean))
    np.testing.assert_array_equal(one.transitions, other.transitions)
    assert one.points.any()
    assert not other.points.any()
    np.testing.assert_array_equal(one.initial, other.initial)


def test_nodes_without_parents_need_no_messages() -> None:
    network = am.Network(
        {"A": [], "B": []},
        {"A": [[0.0, 0.6], [1.5, 0.0]], "B": [[0.0, 2.0], [0.4, 0.0]]},
        {"A": (0, 1), "B": (0, 1)},
    )
    noise = am.Gaussian((0, 1), 0.7)
    seen = am.observe(am.simulate(network, 2, duration=0.8, seed=0), noise, n_observations=2)
    evidence, compiled = build_evidence(network, seen, noise), network.compiled
    logs = evidence.points.log_likelihood
    at = (compiled.rates, compiled.initial, logs)
    plan = StepPlan(compiled.graph, evidence, at)
    exact, star = ExactStep(plan)(*at), VariationalStep(plan)(*at)
    assert star.settled
    for name in ("log_evidence", "dwell", "initial", "points"):
        np.testing.assert_allclose(getattr(star, name), getattr(exact, name), atol=1e-6)
    off = compiled.rates > 0.0
    np.testing.assert_allclose(star.transitions[off], exact.transitions[off], atol=1e-6)
