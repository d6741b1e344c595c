"""The structure score in numbers: each step of the iteration against a formula written out here.

Loops are handed sweeps that say what a list says, so that every decision of the iteration can be
asked for. That needs kernels that are ordinary functions: these tests run with the compiler off.
``test_without_the_compiler.py`` starts them so, and ``benchmarks/mutants.py`` asks them whether
wrong code would be noticed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from scipy.special import digamma, gammaln

from asterism.engine._outcome import EVIDENCE, RESIDUAL
from asterism.learning.search import _marginal as marginal
from asterism.learning.search import score
from asterism.learning.search._marginal import MarginalPrior, Rule, Sums
from asterism.learning.search.coupled import Ending
from asterism.learning.search.score import GraphSolution, RanAway, Scorer
from asterism.numerics.compiled import compile_graph
from asterism.star import _solve
from asterism.star._buffers import (
    CONFIGURATIONS,
    DWELL,
    LOG_OF_ZERO_RATE,
    SQUARES,
    STATES,
    TABLE,
    make_work,
)
from asterism.star._kept_messages import NOTHING
from asterism.star._solve import DEPTH, N_TOTALS, make_history
from asterism.star.batch import ImpossibleEvidence
from asterism.star.problem import Parameters, node_array
from asterism.timeline.evidence import JointMeasurement
from tests.reference.random_evidence import make_evidence
from tests.unit.test_marginal_kernel import GRAPH, SIZES, scorer

pytestmark = pytest.mark.skipif(
    not numba.config.DISABLE_JIT,  # type: ignore[attr-defined]
    reason="replaces what kernels call; test_without_the_compiler.py runs it",
)

SHAPE, RATE = 2.5, 1.3


def prior_of(
    allowed: Any, shape: float, rate: float, digamma: bool = False, node: int | None = None
) -> MarginalPrior:
    """The one place that knows how a prior is handed to loops; with ``node`` others differ."""
    rates = [np.full(s * s, rate if node in (None, n) else 99.0) for n, s in enumerate(SIZES)]
    return MarginalPrior(np.asarray(allowed), shape, np.concatenate(rates), digamma)


# ---- rates and energies ---------------------------------------------------------------------


class Tables:
    """Three nodes of 2, 3 and 2 states, the last given from outside, with random statistics."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.graph = compile_graph(SIZES, [list(p) for p in GRAPH])
        self.problem: Any = SimpleNamespace(node=node_array(self.graph, frozenset({2})))
        n = int(self.graph.table_start[-1])
        self.rates = rng.uniform(0.2, 3.0, n)
        self.table = rng.uniform(5.0, 6.0, n)
        self.moves = rng.uniform(0.1, 4.0, n)
        self.dwell = rng.uniform(0.1, 5.0, int((self.graph.n_configurations * SIZES).sum()))
        self.initial = np.concatenate([rng.dirichlet(np.ones(s)) for s in SIZES])
        self.allowed = np.ones(n, dtype=bool)
        #: node, configuration, from, to, place in the table, place among times
        self.entries = []
        place = time = 0
        for node, size in enumerate(SIZES):
            for u in range(int(self.graph.n_configurations[node])):
                for x in range(size):
                    for y in range(size):
                        self.entries.append((node, u, x, y, place, time))
                        place += 1
                    time += 1

    def parameters(self, geometric: bool = False) -> Parameters:
        return Parameters(self.rates, self.table, self.initial, geometric)

    def of(self, node: int) -> list[tuple[int, int, int, int, int, int]]:
        return [e for e in self.entries if e[0] == node]

    def forbid(self, node: int) -> None:
        """The first jump of a node, whatever its parents' states."""
        for _, _, x, y, i, _ in self.of(node):
            self.allowed[i] &= (x, y) != (0, 1)

    def updated(self, node: int, prior: MarginalPrior, geometric: bool = False) -> Any:
        """New rates of one node; energy, Gamma terms and largest change."""
        row = self.problem.node[node]
        begin, first = row[TABLE], row[DWELL]
        own = prior._replace(allowed=prior.allowed[begin:], rate=prior.rate[row[SQUARES] :])
        return marginal.update_family_rates(
            row[STATES],
            row[CONFIGURATIONS],
            (self.rates[begin:], self.table[begin:], geometric),
            (self.dwell[first:], self.moves[begin:]),
            own,
        )


@pytest.mark.parametrize("shape", [SHAPE, 0.5, 0.0])
@pytest.mark.parametrize("node", [0, 1])
def test_energy_and_gamma_terms_are_their_sums(node: int, shape: float) -> None:
    t = Tables()
    t.forbid(node)
    t.moves[t.of(node)[-2][4]] = 0.0
    prior = prior_of(t.allowed, shape, RATE if shape else 0.0, node=node)
    before = t.rates.copy()
    found = t.updated(node, prior)[:2]
    energy = terms = 0.0
    for _, _, x, y, i, k in t.of(node):
        if x == y:
            energy += t.dwell[k] * before[i]
        elif t.allowed[i]:
            energy += t.moves[i] * math.log(before[i])
            if shape:
                terms += shape * math.log(RATE) - gammaln(shape) + gammaln(t.moves[i] + shape)
                terms -= (t.moves[i] + shape) * math.log(t.dwell[k] + RATE)
    assert found == pytest.approx((energy, terms), rel=1e-12)


def test_a_rate_of_zero_that_no_jump_used_has_no_energy() -> None:
    t = Tables()
    i = t.of(0)[1][4]
    t.rates[i], t.moves[i] = 0.0, 0.0
    prior = prior_of(t.allowed, SHAPE, RATE)
    assert math.isfinite(t.updated(0, prior)[0])


@pytest.mark.parametrize("geometric", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("node", [0, 1])
def test_rates_become_posterior_means(node: int, exact: bool, geometric: bool) -> None:
    t = Tables()
    t.forbid(node)
    before = t.rates.copy()
    if not geometric:
        t.table = t.rates
    *_, found = t.updated(node, prior_of(t.allowed, SHAPE, RATE, exact, node), geometric)
    largest = 0.0
    leave: dict[tuple[int, int], float] = {}
    for _, u, x, y, i, k in t.of(node):
        if x == y:
            continue
        mean = (t.moves[i] + SHAPE) / (t.dwell[k] + RATE) if t.allowed[i] else 0.0
        leave[u, x] = leave.get((u, x), 0.0) + mean
        if not t.allowed[i]:
            assert t.rates[i] == 0.0
            assert not geometric or t.table[i] == LOG_OF_ZERO_RATE
            continue
        value = mean
        if exact:
            value = math.exp(digamma(t.moves[i] + SHAPE)) / (t.dwell[k] + RATE)
        assert t.rates[i] == pytest.approx(value, rel=1e-12)
        if geometric:
            assert t.table[i] == pytest.approx(math.log(value), rel=1e-12)
        largest = max(largest, abs(value - before[i]) / max(value, before[i]))
    assert found == pytest.approx(largest, rel=1e-12)
    for _, u, x, y, i, _ in t.of(node):
        if x == y:
            assert t.rates[i] == pytest.approx(-leave[u, x], rel=1e-12)
            assert t.table[i] == pytest.approx(-leave[u, x], rel=1e-12)
    others = [e[4] for e in t.entries if e[0] != node]
    np.testing.assert_array_equal(t.rates[others], before[others])


def test_without_a_prior_rates_without_time_stay_and_without_jumps_vanish() -> None:
    t = Tables()
    (_, _, _, _, still, k), (_, _, _, _, gone, _) = t.of(0)[1], t.of(0)[2]
    t.dwell[k] = 0.0
    t.moves[gone] = 0.0
    kept = t.rates[still]
    t.updated(0, prior_of(t.allowed, 0.0, 0.0, True), True)
    assert t.rates[still] == kept
    assert t.rates[still - 1] == -kept
    assert t.table[still] == pytest.approx(math.log(kept))
    assert t.rates[gone] == 0.0
    assert t.table[gone] == LOG_OF_ZERO_RATE
    assert t.rates[gone + 1] == 0.0


def test_times_below_one_are_times() -> None:
    t = Tables()
    t.dwell[:] = 0.25
    t.updated(1, prior_of(t.allowed, 0.0, 0.0))
    for _, _, x, y, i, _ in t.of(1):
        if x != y:
            assert t.rates[i] == pytest.approx(4.0 * t.moves[i])


def test_few_jumps_in_much_time() -> None:
    """Counts below one have a digamma function too, and rates below one change as others do."""
    t = Tables()
    t.dwell[:] = 40.0
    t.moves[:] = 0.2
    t.rates[:] = 0.001
    *_, found = t.updated(0, prior_of(t.allowed, 0.5, RATE, True))
    value = math.exp(digamma(0.7)) / (40.0 + RATE)
    assert t.rates[t.of(0)[1][4]] == pytest.approx(value, rel=1e-12)
    assert found == pytest.approx((value - 0.001) / value, rel=1e-12)


def test_digamma_to_its_last_digits() -> None:
    points = np.linspace(10.0, 12.0, 21)
    found = [marginal.digamma(z) for z in points.tolist()]
    np.testing.assert_allclose(found, digamma(points), rtol=0, atol=5e-14)


def test_starts_are_averages_with_one_trajectory_more() -> None:
    t = Tables()
    starts = np.arange(7.0) * 0.3
    before = t.initial.copy()
    moved = marginal.update_start(t.problem, t.initial, 1, starts, 6)
    expected = (starts[2:5] + 1.0 / 3.0) / 7.0
    np.testing.assert_allclose(t.initial[2:5], expected)
    assert moved == pytest.approx(np.abs(expected - before[2:5]).max())
    np.testing.assert_array_equal(t.initial[[0, 1, 5, 6]], before[[0, 1, 5, 6]])


@pytest.mark.parametrize("learn_initial", [False, True])
def test_all_nodes_but_the_exogenous_are_summed(learn_initial: bool) -> None:
    t, alone = Tables(), Tables()
    summary = np.full(marginal.N_SUMMARY, 7.0)
    starts = np.full(7, 3.0)
    prior = prior_of(t.allowed, SHAPE, RATE)
    sums = Sums(t.dwell, t.moves, np.zeros((4, N_TOTALS)), summary)
    marginal.update_all_rates(t.problem, t.parameters(), prior, learn_initial, starts, sums)
    energy = terms = change = 0.0
    for n in (0, 1):
        own = alone.updated(n, prior)
        energy, terms, change = energy + own[0], terms + own[1], max(change, own[2])
        if learn_initial:
            args = (alone.problem, alone.initial, n, starts, 4)
            change = max(change, marginal.update_start(*args))
    assert summary[marginal.ENERGY] == pytest.approx(energy)
    assert summary[marginal.GAMMA_TERMS] == pytest.approx(terms)
    assert summary[marginal.RATE_CHANGE] == pytest.approx(change)
    np.testing.assert_array_equal(t.rates, alone.rates)
    np.testing.assert_array_equal(t.initial, alone.initial)


def test_starts_that_move_count_as_a_change() -> None:
    t = Tables()
    prior = prior_of(t.allowed, SHAPE, RATE)
    summary = np.zeros(marginal.N_SUMMARY)
    sums = Sums(t.dwell, t.moves, np.zeros((1, N_TOTALS)), summary)
    args = (t.problem, t.parameters(), prior)
    marginal.update_all(*args, True, np.zeros(7), sums)
    marginal.update_all(*args, True, np.full(7, 50.0), sums)
    assert summary[marginal.RATE_CHANGE] > 20.0


# ---- mixing ---------------------------------------------------------------------------------


def test_logarithms_of_sizes() -> None:
    logs = np.full(4, 9.0)
    marginal.logarithms(np.array([-2.0, 0.0, 0.5, 1.0]), logs)
    np.testing.assert_allclose(logs, [math.log(2.0), 0.0, math.log(0.5), 0.0])


@pytest.mark.parametrize("geometric", [False, True])
@pytest.mark.parametrize("free_exits", [False, True])
def test_mixed_rates_stay_near_their_images(free_exits: bool, geometric: bool) -> None:
    t = Tables()
    rng = np.random.default_rng(1)
    image = rng.normal(size=len(t.rates))
    logs = image + rng.choice([-3.0, -1.5, 0.4, 1.5, 3.0], size=len(t.rates))
    t.rates[t.of(1)[1][4]] = 0.0
    before, table = t.rates.copy(), t.table.copy()
    marginal.set_rates(t.problem, logs, image, free_exits, t.parameters(geometric))
    size = np.exp(image + np.clip(logs - image, -2.0, 2.0))
    for node, u, x, y, i, _ in t.entries:
        row = [e for e in t.of(node) if e[1:3] == (u, x)]
        if x == y:
            leave = sum(size[e[4]] for e in row if e[3] != x and before[e[4]] != 0.0)
            expected = -size[i] if free_exits else -leave
            assert t.table[i] == t.rates[i]
        elif before[i] == 0.0:
            assert t.rates[i] == 0.0
            continue
        else:
            expected = size[i]
            filled = math.log(expected) if geometric else table[i]
            assert t.table[i] == pytest.approx(filled)
        assert t.rates[i] == pytest.approx(expected, rel=1e-12)


def test_mixing_is_a_least_squares_fit_of_the_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    """image − Σ γ Δimage over both histories; γ by numpy from all differences that are kept."""
    projected: list[int] = []
    monkeypatch.setattr(marginal, "project_moments", lambda _, d, __: projected.append(d))
    problem: Any = SimpleNamespace(step_start=np.array([0, 1, 2, 3]))
    rng = np.random.default_rng(2)
    histories = make_history(7), make_history(5)
    for history in histories:
        history.scale[:] = rng.uniform(0.5, 2.0, history.scale.shape)
    gram = np.zeros((DEPTH, DEPTH))
    images: list[np.ndarray] = []
    residuals: list[np.ndarray] = []
    scale = np.concatenate([h.scale for h in histories]).astype(float)
    for n in range(7):
        before, image = rng.normal(size=12), rng.normal(size=12)
        for history, part in zip(histories, (slice(0, 7), slice(7, 12))):
            history.before[:] = before[part]
        images.append(image)
        residuals.append((image - before) * scale)
        moments, logs = image[:7].copy(), image[7:].copy()
        if n == 0:
            marginal.remember(histories[0], moments, 0)
            marginal.remember(histories[1], logs, 0)
            continue
        projected.clear()
        marginal.mix(problem, *histories, moments, logs, n - 1, gram)
        kept = range(max(1, n + 1 - DEPTH), n + 1)
        by_residual = np.stack([residuals[k] - residuals[k - 1] for k in kept], axis=1)
        by_image = np.stack([images[k] - images[k - 1] for k in kept], axis=1)
        gamma = np.linalg.lstsq(by_residual, residuals[n], rcond=None)[0]
        expected = image - by_image @ gamma
        np.testing.assert_allclose(np.concatenate([moments, logs]), expected, atol=2e-5)
        assert projected == [0, 1, 2]


def test_where_nothing_moved_nothing_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginal, "project_moments", lambda *_: pytest.fail("projected"))
    histories = make_history(2), make_history(2)
    moments, logs = np.zeros(2), np.zeros(2)
    problem: Any = SimpleNamespace(step_start=np.array([0, 1]))
    marginal.mix(problem, *histories, moments, logs, 0, np.zeros((DEPTH, DEPTH)))
    assert not moments.any()
    assert not logs.any()


# ---- the loop, with sweeps that say what a list says -----------------------------------------


class Scripted:
    """Runs the loop; ``sweep`` gives (evidence, residual, energy, gamma terms, rate change)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n_trajectories: int = 2) -> None:
        self.patch, self.n = monkeypatch, n_trajectories
        self.calls: list[tuple[int, bool, float]] = []
        self.started: list[int] = []
        self.mixed: list[Any] = []
        self.updates: list[Any] = []
        self.iteration = -1
        self.bad: dict[tuple[int, int], int] = {}
        self.starts = np.array([0.25, 0.5])
        put = {
            "start_moments": lambda p, d, m: self.started.append(d),
            "prepare_trajectory": self.prepare,
            "sweep_trajectory": self.sweep,
            "add_statistics": self.count,
            "update_all": self.update,
            "moments_range": lambda p, d: (3 * d, 3 * d + 3),
            "scale_of_moments": self.scale,
            "begin_sweep": lambda h, m: self.mixed.append(("begin", self.iteration + 1)),
            "logarithms": lambda rates, logs: None,
            "remember": lambda h, s, slot: self.mixed.append(("remember", self.iteration, slot)),
            "mix": lambda p, a, b, m, logs, n, g: self.mixed.append(("mix", self.iteration, n)),
            "set_rates": lambda p, logs, image, free, par: self.mixed.append(("set", free)),
        }
        for name, fake in put.items():
            monkeypatch.setattr(marginal, name, fake)

    def prepare(self, problem: Any, d: int, work: Any) -> None:
        self.iteration += d == 0
        self.prepared = d

    def scale(self, problem: Any, geometric: bool, d: int, scale: np.ndarray) -> None:
        assert len(scale) == 3
        scale[:] = 10.0 + d

    def sweep(
        self,
        problem: Any,
        work: Any,
        parameters: Any,
        moments: Any,
        d: int,
        with_pull: bool,
        damping: float,
        totals: Any,
        nothing: Any,
    ) -> tuple[int, int]:
        assert self.prepared == d
        assert nothing.kind == NOTHING
        assert [a.shape for a in nothing.messages] == [(0,)] * 3 + [(0, 0)] * 2
        assert nothing.at_points.shape == (0,)
        self.calls.append((d, with_pull, damping))
        now = self.script(self.iteration)
        totals[d, EVIDENCE] = now[0] / self.n
        totals[d, RESIDUAL] = now[1] if d == 0 else 0.5 * now[1]
        bad = self.bad.get((self.iteration, d), -1)
        return bad, bad

    def count(self, table: Any, *given: Any) -> None:
        dwell, transitions = given[6:]
        dwell[0] += 1.0
        transitions[0] += 2.0

    def update(self, problem: Any, parameters: Any, prior: Any, learn_initial: bool,
               starts: Any, sums: Sums) -> None:  # fmt: skip
        self.updates.append((learn_initial, starts.tolist(), sums.dwell[0], sums.transitions[0]))
        _, _, energy, terms, change = self.script(self.iteration)
        sums.summary[marginal.ENERGY] = energy
        sums.summary[marginal.GAMMA_TERMS] = terms
        sums.summary[marginal.RATE_CHANGE] = change

    def run(self, script: Any, shape: float = SHAPE, **changes: Any) -> tuple[int, int, int, int]:
        self.script = script
        options = {"restart": True, "min_iterations": 4, "max_iterations": 40, "tolerance": 0.01,
                   "learn_initial": False, "accelerate": False, "ceiling": 1e6}  # fmt: skip
        rule = Rule(**{**options, **changes})
        self.summary = np.zeros(marginal.N_SUMMARY)
        sums = Sums(np.ones(1), np.ones(1), np.zeros((self.n, N_TOTALS)), self.summary)
        problem = SimpleNamespace(step_start=np.arange(self.n + 1))
        work = SimpleNamespace(starts=self.starts, addresses=None)
        parameters = Parameters(np.ones(4), np.ones(4), np.zeros(2), False)
        prior = prior_of(np.ones(4, dtype=bool), shape, RATE)
        return marginal.solve_marginal(
            problem, work, parameters, np.zeros(3 * self.n), prior, rule, sums
        )


def still(i: int) -> tuple[float, ...]:
    return -5.0, 0.0, 3.0, 2.0, 0.0


NO_ONE = (-1, -1)


@pytest.mark.parametrize(("least", "takes"), [(1, 2), (2, 2), (4, 4), (7, 7)])
def test_what_stands_still_has_converged(
    monkeypatch: pytest.MonkeyPatch, least: int, takes: int
) -> None:
    one = Scripted(monkeypatch)
    assert one.run(still, min_iterations=least) == (takes, marginal.CONVERGED, *NO_ONE)
    assert one.summary[marginal.TOTAL_EVIDENCE] == -5.0
    assert one.started == [0, 1]
    assert [c[:2] for c in one.calls[:4]] == [(0, False), (1, False), (0, True), (1, True)]
    # sums begin anew with every sweep
    assert one.updates == [(False, [0.5, 1.0], 2.0, 4.0)] * takes


def test_a_start_that_is_given_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Scripted(monkeypatch)
    one.run(still, restart=False, learn_initial=True)
    assert one.started == []
    assert all(with_pull for _, with_pull, _ in one.calls)
    assert all(u[0] for u in one.updates)


@pytest.mark.parametrize("which", [1, 4])
def test_messages_and_rates_must_both_stand_still(
    monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    def script(i: int) -> tuple[float, ...]:
        now = list(still(i))
        now[which] = 0.011 if i < 8 else 0.009
        return tuple(now)

    one = Scripted(monkeypatch)
    assert one.run(script) == (9, marginal.CONVERGED, *NO_ONE)
    assert one.summary[marginal.LARGEST_RESIDUAL] == (0.009 if which == 1 else 0.0)


@pytest.mark.parametrize(
    ("steps", "shape", "takes"),
    [
        ((1.0, 0.0, 0.0), SHAPE, 12),  # F moves
        ((0.015, 0.0, 0.0), SHAPE, 12),
        ((0.005, 0.0, 0.0), SHAPE, 4),  # by less than the tolerance
        ((1.0, 1.0, 0.0), SHAPE, 4),  # F − E does not
        ((1.0, 1.0, 0.0), 0.5, 4),
        ((1.0, 0.0, -1.0), SHAPE, 4),  # nor F plus the Gamma terms
        ((0.0, 1.0, 1.0), SHAPE, 4),
        ((0.0, 1.0, 0.0), SHAPE, 12),
        ((0.0, 1.0, 0.0), 0.0, 4),  # without a prior only F counts
        ((0.0, 0.0, 1.0), 0.0, 4),
        ((1.0, 1.0, 0.0), 0.0, 12),
        ((-1.0, 0.0, 0.0), SHAPE, 12),
    ],
)
def test_the_score_must_stand_still(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[float, ...], shape: float, takes: int
) -> None:
    def script(i: int) -> tuple[float, ...]:
        k = min(i, 10)
        return k * steps[0], 0.0, k * steps[1], k * steps[2], 0.0

    one = Scripted(monkeypatch)
    assert one.run(script, shape) == (takes, marginal.CONVERGED, *NO_ONE)


def test_numbers_that_end_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsettled(i: int) -> tuple[float, ...]:
        return 10.0, 1.0, 4.0, 6.0, 0.0  # a score of 12

    assert Scripted(monkeypatch).run(unsettled, max_iterations=9) == (
        9, marginal.ITERATION_LIMIT, *NO_ONE
    )  # fmt: skip
    lost = Scripted(monkeypatch).run(lambda i: (math.nan if i == 2 else 1.0, 1.0, 0.0, 0.0, 0.0))
    assert lost == (3, marginal.NOT_FINITE, *NO_ONE)
    assert Scripted(monkeypatch).run(unsettled, ceiling=11.0) == (
        marginal._LATE + 1, marginal.NOT_FINITE, *NO_ONE
    )  # fmt: skip
    assert marginal._LATE == 10
    assert Scripted(monkeypatch).run(unsettled, ceiling=12.0)[1] == marginal.ITERATION_LIMIT
    one = Scripted(monkeypatch)
    one.bad[3, 1] = 5
    assert one.run(unsettled) == (4, marginal.IMPOSSIBLE, 5, 1)
    one = Scripted(monkeypatch)
    one.bad[3, 0] = 0
    assert one.run(unsettled) == (4, marginal.IMPOSSIBLE, 0, 0)


def test_one_number_means_one_ending_everywhere() -> None:
    for name in ("CONVERGED", "IMPOSSIBLE", "NOT_FINITE"):
        assert getattr(marginal, name) == getattr(_solve, name)
    assert marginal.ITERATION_LIMIT == _solve.SWEEP_LIMIT


def damped(one: Scripted) -> list[float]:
    return [damping for d, _, damping in one.calls if d == 0]


def test_sweeps_are_damped_after_six_that_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Scripted(monkeypatch)
    one.run(lambda i: (0.0, 1.0, 0.0, 0.0, 0.0))
    levels = [1.0, 0.6, 0.36, 0.216, 0.1296, 0.1, 0.1]
    expected = [1.0] + [level for level in levels for _ in range(6)]
    np.testing.assert_allclose(damped(one), expected[:40])


@pytest.mark.parametrize(
    ("residual", "first_damped"),
    [
        (lambda i: 0.94**i, None),  # each falls far enough
        (lambda i: 0.96**i, None),  # every second one does
        (lambda i: 1.0 if i == 0 else 0.95, 7),  # just not far enough
        (lambda i: 1.0 if i == 0 else 0.94, 8),
        (lambda i: 1.0 if i != 6 else 0.5, 13),  # a fall sets the count back
        (lambda i: 1.0 + i, 7),
    ],
)
def test_when_a_sweep_brings_something(
    monkeypatch: pytest.MonkeyPatch, residual: Any, first_damped: int | None
) -> None:
    one = Scripted(monkeypatch)
    one.run(lambda i: (0.0, residual(i), 0.0, 0.0, 0.0), max_iterations=20)
    found = [i for i, damping in enumerate(damped(one)) if damping < 1.0]
    assert (found[0] if found else None) == first_damped


def test_after_damping_the_present_residual_is_the_one_to_beat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1, then 2 for long: damped at once for the 1, and again six sweeps later for the 2."""
    one = Scripted(monkeypatch)
    one.run(lambda i: (0.0, 1.0 if i == 0 else 2.0 * 0.9 ** max(i - 6, 0), 0.0, 0.0, 0.0))
    assert damped(one) == [1.0] * 7 + [0.6] * 33


def test_mixing_begins_again_once_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Scripted(monkeypatch)
    one.run(lambda i: (0.0, 1.0, 0.0, 0.0, 0.0), accelerate=True, max_iterations=16)
    expected: list[Any] = []
    n = -1
    for i in range(16):
        if 1 <= i <= 12:
            expected.append(("begin", i))
        if i == 6:
            n = -1  # six sweeps brought nothing: what is remembered is dropped
        elif 1 <= i < 12:
            if n < 0:
                expected += [("remember", i, 0)] * 2
            else:
                expected += [("mix", i, n), ("set", False)]
            n += 1
    assert one.mixed == expected
    np.testing.assert_allclose(damped(one), [1.0] * 13 + [0.6] * 3)


def test_without_acceleration_nothing_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Scripted(monkeypatch)
    one.run(lambda i: (0.0, 1.0, 0.0, 0.0, 0.0))
    assert one.mixed == []


@pytest.mark.parametrize("accelerate", [False, True])
def test_room_for_mixing_is_made_where_it_is_used(
    monkeypatch: pytest.MonkeyPatch, accelerate: bool
) -> None:
    made = []

    def making(size: int) -> Any:
        made.append(make_history(size))
        return made[-1]

    one = Scripted(monkeypatch)
    monkeypatch.setattr(marginal, "make_history", making)
    one.run(still, accelerate=accelerate)
    assert [len(h.before) for h in made] == ([6, 4] if accelerate else [0, 0])
    if accelerate:
        assert made[0].scale.tolist() == [10.0] * 3 + [11.0] * 3


def test_buffers_are_as_long_as_the_longest_trajectory() -> None:
    problem = scorer("star").problem_of(GRAPH)
    for starts, longest in (([0, 2, 7, 8], 5), ([0, 5], 5), ([0, 0], 1)):
        work = make_work(problem._replace(step_start=np.array(starts)), np.zeros(32, np.int64))
        assert len(work.clamp) == longest


# ---- what surrounds the loop ------------------------------------------------------------------


def test_where_rates_start() -> None:
    fast = scorer("star")
    rng = np.random.default_rng(7)
    single = tuple(rng.uniform(0.5, 2.0, (s, s)) for s in SIZES)
    allowed = tuple(rng.random((s, s)) < 0.5 for s in SIZES)
    fast = replace(fast, single_rates=single, allowed=allowed)
    graph = compile_graph(SIZES, [list(p) for p in GRAPH])
    rates, may = fast._start_rates(GRAPH, graph, None)
    expected, masks = [], []
    for n in range(3):
        count = int(np.prod([SIZES[p] for p in GRAPH[n]]))
        for u in range(count):
            apart = math.exp(0.05 * (-1.0 + 2.0 * u / (count - 1)))
            expected.append(apart * single[n].ravel())
            masks.append(allowed[n].ravel())
    np.testing.assert_allclose(rates, np.concatenate(expected), rtol=1e-14)
    np.testing.assert_array_equal(may, np.concatenate(masks))
    alone = compile_graph(SIZES, [[], [], []])
    rates, _ = fast._start_rates(((), (), ()), alone, None)
    np.testing.assert_array_equal(rates, np.concatenate([s.ravel() for s in single]))


def fake_solution(parents: Any, rates: np.ndarray, moments: np.ndarray, **more: Any) -> Any:
    nothing = np.zeros(0)
    given = {"marginals": nothing, "dwell": nothing, "transitions": nothing,
             "initial": np.zeros(7), "n_iterations": 1, "converged": True}  # fmt: skip
    return GraphSolution(parents, 0.0, 0.0, rates, moments, **{**given, **more})


def test_families_that_stay_keep_their_rates() -> None:
    fast = scorer("star")
    earlier = ((2,), (0,), (1,))
    before = fake_solution(earlier, np.arange(100.0, 138.0), np.zeros(0))
    graph = compile_graph(SIZES, [list(p) for p in GRAPH])
    rates, _ = fast._start_rates(GRAPH, graph, before)
    # node 0 had two configurations and has six now; the others stay
    np.testing.assert_array_equal(rates[24:], np.arange(108.0, 138.0))
    np.testing.assert_array_equal(rates[:24], fast._start_rates(GRAPH, graph, None)[0][:24])


def test_nodes_that_start_again_take_moments_and_rates_from_before() -> None:
    fast = scorer("star")
    steps = np.diff(fast.base.problem.step_start)
    assert len(set(steps.tolist())) == 2
    squares = [s * s for s in SIZES]
    n = int(steps.sum()) * sum(squares)
    failed = fake_solution(GRAPH, np.arange(24.0 + 18.0 + 12.0), np.full(n, -1.0))
    initial = np.arange(7.0)
    before = fake_solution(((), (2,), ()), np.arange(-26.0, 0.0), np.arange(n), initial=initial)
    found = fast.resumed(failed, before, {2, 1})
    place = 0
    for k in steps.tolist():
        for node, square in enumerate(squares):
            own = slice(place, place + square * k)
            expected = np.arange(own.start, own.stop) if node else np.full(square * k, -1.0)
            np.testing.assert_array_equal(found.moments[own], expected)
            place = own.stop
    assert place == n
    assert found.parents == ((1, 2), (2,), ())
    np.testing.assert_array_equal(found.rates[:24], np.arange(24.0))
    np.testing.assert_array_equal(found.rates[24:], before.rates[4:])
    assert found.initial is initial


def test_a_score_has_a_ceiling() -> None:
    points = [(0, 0, 0.1, np.log([0.2, 0.5])), (0, 1, 0.2, np.log([0.3, 0.1, 0.4])),
              (0, 0, 0.3, np.log([0.9, 0.7])), (0, 1, 0.4, np.log([2.0, 5.0, 3.0]))]  # fmt: skip
    joint = [JointMeasurement(0, 0.5, (0, 2), np.log([[0.1, 0.6], [0.2, 0.3]]))]
    fast = scorer("star")
    seen = make_evidence(SIZES, [0.0], [0.8], points, joint=joint)
    expected = sum(math.log(v) for v in (0.5, 0.4, 0.9, 5.0, 0.6)) + 4 + 1000.0
    assert replace(fast, evidence=seen).ceiling == pytest.approx(expected, rel=1e-12)
    nothing = make_evidence(SIZES, [0.0], [0.8])
    assert replace(fast, evidence=nothing).ceiling == 1000.0
    jump = make_evidence(SIZES, [0.0], [0.8], points, jumps=[(0, 0, 0.5, 1, -1)])
    assert replace(fast, evidence=jump).ceiling == np.inf


def ending(status: int = marginal.CONVERGED, bad: Any = (-1, -1), **more: Any) -> Ending:
    summary = np.zeros(marginal.N_SUMMARY)
    summary[marginal.TOTAL_EVIDENCE] = 10.0
    summary[marginal.ENERGY] = 3.0
    summary[marginal.GAMMA_TERMS] = 0.5
    return Ending(np.ones(2), np.ones(3), summary, 17, status, np.array(bad), **more)


def test_what_ends_a_solve_is_said() -> None:
    fast = scorer("star")
    fast._require_success(ending())
    fast._require_success(ending(marginal.ITERATION_LIMIT))
    with pytest.raises(RanAway, match="range of finite numbers"):
        fast._require_success(ending(marginal.NOT_FINITE))
    for evidence in (fast.evidence, replace(fast.evidence, labels=())):
        late = replace(evidence, start=np.array([0.0, 0.25]))
        with pytest.raises(ImpossibleEvidence) as refused:
            replace(fast, evidence=late)._require_success(ending(marginal.IMPOSSIBLE, (2, 1)))
        error = refused.value
        assert (error.node, error.trajectory, error.time) == (2, 1, 0.25)
        assert error.label == ("patient 1" if evidence.labels else 1)


def test_a_solve_says_what_its_end_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def in_threads(
        problem: Any, start: Any, moments: Any, prior: Any, rule: Any, jobs: int, keep: bool
    ) -> Ending:
        asked.append((rule, jobs, keep, moments, start))
        return ending(restless=np.array([2, 0]))

    monkeypatch.setattr(score, "solve_in_threads", in_threads)
    fast = scorer("star")
    found = fast.solve(GRAPH, n_jobs=3)
    assert (found.score, found.log_evidence) == (7.5, 10.0)
    assert (found.n_iterations, found.converged, found.restless) == (17, True, (2, 0))
    assert found.moments is asked[0][3]
    rule, jobs, keep = asked[0][:3]
    assert (rule.tolerance, rule.restart, rule.accelerate) == (1e-3, True, False)
    assert (rule.min_iterations, rule.max_iterations) == (4, 500)
    assert rule.ceiling == fast.ceiling
    assert (jobs, keep) == (3, True)
    again = fast.solve(GRAPH, found, n_jobs=2, precise=True, keep_moments=False)
    assert len(again.moments) == 0
    assert (asked[1][0].tolerance, asked[1][0].restart) == (1e-5, False)
    assert asked[1][1:3] == (2, False)
    assert asked[1][3] is not found.moments
    fast.solve(GRAPH, found, n_jobs=2, overwrite=True)
    assert asked[2][3] is found.moments
    replace(fast, tolerance=0.5).solve(GRAPH, n_jobs=2, precise=True)
    assert asked[3][0].tolerance == 0.5
    # where nothing is coupled one job does it, as precisely as was asked for
    fast.solve(((), (), ()))
    assert (asked[4][0].tolerance, asked[4][1]) == (1e-11, 1)
    monkeypatch.setattr(score, "solve_in_threads", lambda *_: ending(marginal.ITERATION_LIMIT))
    assert not fast.solve(GRAPH, n_jobs=1).converged


def test_a_coupled_solve_is_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def in_one(
        problem: Any, work: Any, start: Any, moments: Any, prior: Any, rule: Any, sums: Any
    ) -> tuple[int, int, int, int]:
        asked.append((rule, start, sums, prior))
        return 3, marginal.IMPOSSIBLE, 2, 1

    monkeypatch.setattr(marginal, "solve_marginal", in_one)
    with pytest.raises(ImpossibleEvidence) as refused:
        scorer("star").solve(GRAPH)
    assert (refused.value.node, refused.value.trajectory) == (2, 1)
    rule, start, sums, prior = asked[0]
    assert (rule.accelerate, rule.restart, rule.tolerance) == (True, True, 1e-11)
    assert start.table is start.rates
    assert [len(a) for a in sums] == [12 + 6 + 6, 24 + 18 + 12, 2, marginal.N_SUMMARY]
    assert prior.shape == 2.0
    with pytest.raises(ImpossibleEvidence):
        scorer("mean_field").solve(GRAPH)
    start = asked[1][1]
    assert start.geometric
    off = start.rates > 0.0
    np.testing.assert_allclose(start.table[off], np.log(start.rates[off]))


def test_when_sweeps_are_accelerated() -> None:
    fast = scorer("star")

    def with_bytes(n: int) -> Scorer:
        return replace(fast, base=replace(fast.base, moments=SimpleNamespace(nbytes=n)))

    assert fast._accelerate
    assert with_bytes(32 * 2**20)._accelerate
    assert not with_bytes(32 * 2**20 + 1)._accelerate
    assert replace(fast, shape=0.5)._accelerate
    assert not replace(fast, shape=0.0)._accelerate
    assert not replace(fast, learn_initial=True)._accelerate


def test_what_a_scorer_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def batch(evidence: Any, graph: Any, rate: float, step: float, **options: Any) -> str:
        made.append((len(graph.parents), rate, step, options))
        return "batch"

    monkeypatch.setattr(score, "make_batch", batch)
    alone = score.SingleStart(SIZES, ["a"], np.zeros(7), ["r"])
    one = score.make_scorer("e", alone, (2.0, 3.0), score.GridPlan(0.4, 0.7), "mean_field")  # type: ignore[arg-type]
    assert made == [(0, 0.4, 0.7, {"time_step": None, "copies": 3})]
    assert (one.shape, one.geometric, one.digamma) == (2.0, True, False)
    assert one.rate.tolist() == [3.0] * (4 + 9 + 4)
    blocks = replace(one, rate=np.arange(17.0)).rate_by_node()
    assert [b.shape for b in blocks] == [(2, 2), (3, 3), (2, 2)]
    assert (blocks[1][0, 0], blocks[2][1, 1]) == (4.0, 16.0)
    assert (one.tolerance, one.max_iterations, one.learn_initial) == (3e-7, 500, False)
    assert one.n_states == (2, 3, 2)
    other = score.make_scorer("e", alone, (2.0, 3.0), score.GridPlan(0.4, 0.7), "star")  # type: ignore[arg-type]
    assert not other.geometric


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_what_local_solves_read(method: str) -> None:
    fast = scorer(method)
    rates = np.random.default_rng(0).uniform(0.5, 2.0, 24 + 18 + 12)
    solution = fake_solution(GRAPH, rates, np.zeros(3))
    shared = fast.shared_input(solution)
    assert shared.geometric == (method == "mean_field")
    assert shared.moments is solution.moments
    assert (shared.shape, shared.digamma) == (2.0, False)
    assert int(shared.problem.node[-1, 4]) == len(rates)
    if method == "star":
        assert shared.table is rates
    else:
        block = shared.table[24:42].reshape(2, 3, 3)
        given = rates[24:42].reshape(2, 3, 3)
        off = ~np.eye(3, dtype=bool)
        np.testing.assert_allclose(block[:, off], np.log(given[:, off]))
        np.testing.assert_array_equal(block[:, ~off], given[:, ~off])


def test_a_jump_is_linked_to_the_parents_of_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = scorer("star")
    seen = make_evidence(SIZES, [0.0], [0.8], jumps=[(0, 1, 0.5, 1, 0)])
    alone = score.SingleStart(SIZES, fast.allowed, fast.initial, fast.single_rates)
    one = score.make_scorer(seen, alone, (2.0, 1.5), score.GridPlan(1.0, 1.0, 0.3), "star")
    assert [len(one.problem_of(g).member) for g in (((), (), ()), GRAPH)] == [1, 2]
    begun: list[np.ndarray] = []

    def solve(problem: Any, *given: Any) -> tuple[int, int, int, int]:
        begun.append(problem.marginals.copy())
        return 1, marginal.CONVERGED, -1, -1

    monkeypatch.setattr(marginal, "solve_marginal", solve)
    n = len(one.problem_of(GRAPH).marginals)
    start = fake_solution(GRAPH, np.ones(54), one.base.moments, marginals=np.full(n, 0.125))
    one.solve(GRAPH, replace(start, initial=one.initial))
    one.solve(GRAPH, replace(start, initial=one.initial, marginals=np.full(n + 1, 0.125)))
    one.solve(GRAPH)
    assert (begun[0] == 0.125).all()
    np.testing.assert_array_equal(begun[1], begun[2])
    plain = fast.problem_of(GRAPH)
    assert plain.mark is fast.base.problem.mark
    assert plain.edge.shape[0] == 5
