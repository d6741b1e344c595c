"""Marginals at any time, forecasts and values at measurements, from solved star and mean field."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from asterism.engine.refine import Solution, solve_on_grids
from asterism.engine.rule import Precision
from asterism.engine.rules.star import StarRule
from asterism.engine.solve import MarginalsOverTime
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.star._buffers import KIND, LIKELIHOOD
from asterism.star.batch import (
    Batch,
    expected_statistics,
    make_batch,
    run,
)
from asterism.star.point_values import flat_marginals, point_marginals, set_log_likelihoods
from asterism.star.problem import Parameters
from asterism.timeline.evidence import Evidence
from tests.reference.joint_chain import ReferenceChain
from tests.reference.random_evidence import make_evidence, random_evidence, random_network

METHODS = ["star", "mean_field"]
EVERYTHING = ("points", "jumps", "spans", "joint")


def solved(
    network: Network,
    evidence: Evidence,
    method: str = "star",
    step: float = 0.5,
    time_step: float | None = None,
) -> tuple[Batch, Parameters]:
    compiled = network.compiled
    parameters = Parameters.of(compiled, method)
    rate = compiled.relaxation_rate
    batch = make_batch(evidence, compiled.graph, rate, step, time_step=time_step)
    run(batch, parameters, tolerance=1e-10)
    return batch, parameters


def courses(
    network: Network, evidence: Evidence, method: str = "star", step: float = 0.5
) -> MarginalsOverTime:
    batch, parameters = solved(network, evidence, method, step)
    place = [(0, d) for d in range(evidence.n_trajectories)]
    rule = StarRule(network.compiled, parameters, Precision(tolerance=1e-5))
    solution = Solution([batch], place, None, (), 0.0, True)
    solve = partial(solve_on_grids, rule)
    return MarginalsOverTime(network, evidence, rule, solution, solve)


def interesting_times(evidence: Evidence, d: int) -> np.ndarray:
    """Some of everywhere: inside, at every piece of evidence, and past the end."""
    found = [np.linspace(evidence.start[d], evidence.end[d], 17), evidence.end[d] + [0.1, 3.0]]
    found += [p.time[p.trajectory == d] for p in (evidence.points, evidence.jumps)]
    found.append(evidence.spans.start[evidence.spans.trajectory == d])
    return np.concatenate(found)


def coupled_pair(strength: float = 2.0) -> Network:
    """A switches by itself; B follows it."""
    a = np.array([[-0.7, 0.7], [0.5, -0.5]])
    b = np.array([[[-0.2, 0.2], [strength, -strength]], [[-strength, strength], [0.2, -0.2]]])
    states = {"A": ["off", "on"], "B": ["off", "on"]}
    return Network({"A": [], "B": ["A"]}, {"A": a, "B": b}, states)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kinds", [("points",), ("points", "jumps"), ("points", "spans")])
def test_a_lone_nodes_marginals_and_forecasts_are_exact(
    method: str, size: int, kinds: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(size + 10 * len(kinds))
    network = random_network(rng, [size], n_parents=0)
    evidence = random_evidence(rng, network, kinds)
    mine = courses(network, evidence, method)
    reference = ReferenceChain(network, evidence)
    for d in range(evidence.n_trajectories):
        times = interesting_times(evidence, d)
        expected = reference.solve(d, list(times))["marginals"]
        (found,) = mine.marginals(d, times)
        np.testing.assert_allclose(found, [p[0] for p in expected], atol=1e-11)


def test_a_hidden_parent_of_a_continuously_seen_child_is_exact() -> None:
    network = coupled_pair()
    spans = [(0, 1, 0.0, 0.8, 0), (0, 1, 0.8, 2.0, 1), (0, 1, 2.0, 3.0, 0)]
    jumps = [(0, 1, 0.8, 1, 0), (0, 1, 2.0, 0, 1)]
    evidence = make_evidence([2, 2], [0.0], [3.0], jumps=jumps, spans=spans)
    times = np.array([0.0, 0.4, 0.8, 1.1, 2.0, 2.7, 3.0])
    expected = ReferenceChain(network, evidence).solve(0, list(times))["marginals"]
    found = courses(network, evidence, step=0.01).marginals(0, times)
    for n in range(2):
        np.testing.assert_allclose(found[n], [p[n] for p in expected], atol=2e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exogenous", [(), (0,)])
def test_marginals_integrate_to_the_expected_dwell_times(
    method: str, exogenous: tuple[int, ...]
) -> None:
    """Whatever the evidence: ∫ m dt is the dwell time of the sweep, up to the order of the scheme.

    Moments hold for a constant generator on every step, marginals between grid points for one with
    a slope: the difference is of second order and far below the error of either.
    """
    coarse, fine = (gap_to_dwell_times(method, exogenous, step) for step in (0.05, 0.025))
    assert fine < 2e-5
    assert fine < 0.35 * coarse


def gap_to_dwell_times(method: str, exogenous: tuple[int, ...], step: float) -> float:
    rng = np.random.default_rng(5)
    network = random_network(rng, [2, 3, 2], exogenous=exogenous)
    evidence = random_evidence(rng, network, EVERYTHING, n_trajectories=1)
    batch, parameters = solved(network, evidence, method, step=step)
    dwell, _ = expected_statistics(batch, parameters)
    node, weight = np.polynomial.legendre.leggauss(10)
    points = batch.grid.times(0)
    width = np.diff(points)
    times = (points[:-1, None] + 0.5 * width[:, None] * (node + 1.0)).ravel()
    found = flat_marginals(batch, 0, parameters, times)
    np.testing.assert_allclose(found.sum(axis=1), 3.0, atol=1e-12)
    integral = (0.5 * width[:, None] * weight).ravel() @ found
    graph = network.compiled.graph
    begin = 0
    gap = 0.0
    for n in range(3):
        count = int(graph.n_configurations[n] * graph.n_states[n])
        total = dwell[begin : begin + count].reshape(-1, graph.n_states[n]).sum(axis=0)
        begin += count
        own = integral[graph.state_start[n] : graph.state_start[n + 1]]
        if n not in exogenous:
            gap = max(gap, float(np.abs(own - total).max()))
        assert own.sum() == pytest.approx(evidence.end[0] - evidence.start[0], abs=1e-10)
    return gap


def test_known_states_hold_and_jumps_take_effect_at_once() -> None:
    network = random_network(np.random.default_rng(3), [3, 2, 2], exogenous=(2,))
    evidence = make_evidence(
        [3, 2, 2],
        [0.0],
        [4.0],
        points=[(0, 1, 1.5, [-0.3, -2.0])],
        jumps=[(0, 0, 2.5, 1, -1)],
        spans=[(0, 0, 1.0, 2.0, 2), (0, 2, 0.0, 3.0, 1), (0, 2, 3.0, 4.0, 0)],
        exogenous=(2,),
    )
    mine = courses(network, evidence)
    seen = mine.marginals(0, np.array([1.0, 1.3, 1.999, 2.5]))[0]
    np.testing.assert_array_equal(seen[:3], [[0, 0, 1]] * 3)
    np.testing.assert_allclose(seen[3], [0, 1, 0], atol=1e-14)
    before, after = mine.marginals(0, np.array([2.5 - 1e-9, 2.5 + 1e-9]))[0]
    assert before[1] < 1e-6
    assert after[1] > 1.0 - 1e-6
    # a measurement does not make m jump
    around = mine.marginals(0, np.array([1.5 - 1e-10, 1.5, 1.5 + 1e-10]))[1]
    assert np.ptp(around, axis=0).max() < 1e-8
    known = mine.marginals(0, np.array([-1.0, 0.0, 2.999, 3.0, 4.0, 9.0]))[2]
    np.testing.assert_array_equal(known.argmax(axis=1), [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(known.max(axis=1), 1.0)


def test_a_watched_interval_of_a_single_step() -> None:
    network = random_network(np.random.default_rng(2), [3])
    evidence = make_evidence([3], [0.0], [2.0], spans=[(0, 0, 0.5, 1.0, 2)])
    (found,) = courses(network, evidence).marginals(0, np.array([0.5, 0.7, 1.0]))
    np.testing.assert_allclose(found, [[0, 0, 1]] * 3, atol=1e-14)


def test_before_the_start_the_marginals_at_the_start_are_repeated() -> None:
    rng = np.random.default_rng(8)
    network = random_network(rng, [2, 2])
    evidence = random_evidence(rng, network, ("points",))
    early, start = courses(network, evidence).marginals(1, evidence.start[1] + [-5.0, 0.0])[1]
    np.testing.assert_array_equal(early, start)


@pytest.mark.parametrize("method", METHODS)
def test_a_forecast_continues_the_trajectory(method: str) -> None:
    """Star: the same as if the trajectory had gone on without data."""
    network = coupled_pair()
    points = [(0, 0, 0.0, [0.0, -np.inf]), (0, 1, 1.0, [-1.0, 0.0])]
    short = make_evidence([2, 2], [0.0], [1.0], points)
    long = make_evidence([2, 2], [0.0], [3.0], points)
    times = np.array([3.0, 0.7, 1.0 + 1e-9, 1.0, 2.2])
    found = courses(network, short, method, 0.02).marginals(0, times)
    for p in found:
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(p[2], p[3], atol=1e-7)
    # how far it goes makes no difference
    near = courses(network, short, method, 0.02).marginals(0, times[-1:])
    for p, q in zip(found, near):
        np.testing.assert_allclose(p[-1:], q, atol=2e-5)
    if method == "star":
        expected = courses(network, long, method, 0.02).marginals(0, times)
        for p, q in zip(found, expected):
            np.testing.assert_allclose(p, q, atol=3e-5)


def test_a_trajectory_without_duration() -> None:
    network = random_network(np.random.default_rng(1), [2, 3])
    evidence = make_evidence([2, 3], [1.0], [1.0], [(0, 1, 1.0, np.log([0.2, 0.3, 0.5]))])
    found = courses(network, evidence).marginals(0, np.array([0.0, 1.0, 1.5]))
    prior = network.initial["n1"] * [0.2, 0.3, 0.5]
    np.testing.assert_allclose(found[1][:2], [prior / prior.sum()] * 2, atol=1e-13)
    np.testing.assert_allclose(found[0][1], network.initial["n0"], atol=1e-13)


@pytest.mark.parametrize("exogenous", [(), (1,)])
def test_values_at_measurements_are_the_marginals_there(exogenous: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    network = random_network(rng, [2, 3, 2], exogenous=exogenous)
    evidence = random_evidence(rng, network, EVERYTHING, n_trajectories=20)
    batch, parameters = solved(network, evidence)
    moments, linked = batch.moments.copy(), batch.problem.marginals.copy()
    found = point_marginals(batch, parameters)
    np.testing.assert_array_equal(point_marginals(batch, parameters, n_jobs=2), found)
    start = network.compiled.graph.state_start
    points = evidence.points
    for d in range(20):
        rows = np.flatnonzero(points.trajectory == d)
        at = flat_marginals(batch, d, parameters, points.time[rows])
        for p, i in zip(at, rows):
            n = points.node[i]
            own = found[points.offset[i] : points.offset[i] + start[n + 1] - start[n]]
            np.testing.assert_allclose(own, p[start[n] : start[n + 1]], atol=1e-11)
    # reading changes nothing
    np.testing.assert_array_equal(batch.moments, moments)
    np.testing.assert_array_equal(batch.problem.marginals, linked)


def test_new_likelihoods_are_those_of_a_batch_built_with_them() -> None:
    rng = np.random.default_rng(4)
    network = random_network(rng, [3, 2])
    evidence = random_evidence(rng, network, EVERYTHING, n_trajectories=5)
    new = evidence.points.log_likelihood + rng.normal(size=len(evidence.points.log_likelihood))
    batch, parameters = solved(network, evidence, time_step=0.1)
    old = evidence.points.log_likelihood.copy()
    set_log_likelihoods(batch, new)
    np.testing.assert_array_equal(evidence.points.log_likelihood, old)
    fresh, _ = solved(network, batch.evidence, time_step=0.1)
    for name in ("likelihood", "mark_scale", "mark"):
        found, expected = getattr(batch.problem, name), getattr(fresh.problem, name)
        np.testing.assert_allclose(found, expected, atol=1e-14)
    # marks of other kinds stand between those of points, or their order would not be tested
    is_point = batch.problem.mark[:, KIND] == LIKELIHOOD
    assert not is_point[: is_point.sum()].all()
    again, _ = run(batch, parameters, restart=False, tolerance=1e-10)
    anew, _ = run(fresh, parameters, tolerance=1e-10)
    np.testing.assert_allclose(again.evidence, anew.evidence, atol=1e-8)


@pytest.mark.parametrize("value", [-np.inf, np.nan, np.inf])
def test_impossible_new_likelihoods_are_refused(value: float) -> None:
    network = random_network(np.random.default_rng(0), [2])
    evidence = make_evidence([2], [0.0], [1.0], [(0, 0, 0.25, [0.0, -1.0])])
    batch, _ = solved(network, evidence)
    with pytest.raises(DataError, match=r"patient 0.*0\.25"):
        set_log_likelihoods(batch, np.array([value, value]))
    with pytest.raises(DataError, match="shape"):
        set_log_likelihoods(batch, np.zeros(3))
    np.testing.assert_array_equal(batch.problem.likelihood[:, 0], [1.0, np.exp(-1.0)])


@pytest.mark.parametrize("method", METHODS)
def test_marginals_between_grid_points_are_as_accurate_as_at_them(method: str) -> None:
    rng = np.random.default_rng(8)
    network = random_network(rng, [2, 2, 3, 2])
    evidence = random_evidence(rng, network, ("points",), n_trajectories=1)
    fine, parameters = solved(network, evidence, method, step=0.004)
    coarse, _ = solved(network, evidence, method, step=0.1)
    points = coarse.grid.times(0)
    worst = []
    for times in (points, 0.5 * (points[1:] + points[:-1])):
        found, expected = (flat_marginals(b, 0, parameters, times) for b in (coarse, fine))
        worst.append(float(np.abs(found - expected).max()))
    assert worst[0] < 1e-3
    assert worst[1] < 2.0 * worst[0]
