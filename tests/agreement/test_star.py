"""The star approximation against independent versions of itself, and against the exact chain."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.engine.grid import build_even_grid
from asterism.engine.rules.star import solve
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.star.batch import make_batch, run
from asterism.star.problem import Parameters
from asterism.timeline.evidence import Evidence
from asterism.timeline.timeline import timeline_of
from tests.reference.random_evidence import make_evidence, random_evidence, random_network
from tests.reference.spin_cases import (
    RING,
    TREE,
    alternating_to_aligned,
    noisy_spins,
    random_points,
)
from tests.reference.star_ode import StarODE
from tests.reference.star_sweep import ReferenceSweep


def assert_as_the_plain_sweep(network: am.Network, evidence: object, method: str) -> None:
    """F, statistics and step marginals equal those of the plain sweep on the same steps."""
    found = solve(network, evidence, method=method, time_step=0.7, tolerance=1e-8, max_sweeps=500)
    assert found.converged
    rate = network.compiled.relaxation_rate
    grid = build_even_grid(timeline_of(evidence), 0.7, rate)
    dwell = [0.0] * network.n_nodes
    moves = [0.0] * network.n_nodes
    for d in range(evidence.n_trajectories):
        kinks = np.flatnonzero(grid.is_event_time(d))
        plain = ReferenceSweep(
            network, evidence, d, grid.times(d), method, kinks, grid.longest_smooth
        )
        expected = plain.solve(tolerance=1e-10)
        assert found.log_evidence_by_trajectory.iloc[d] == pytest.approx(expected, abs=1e-8)
        for n in plain.hidden:
            more = plain.statistics(n)
            dwell[n] = dwell[n] + more[0]
            moves[n] = moves[n] + more[1]
    for n, node in enumerate(network.nodes):
        if node not in network.exogenous:
            np.testing.assert_allclose(found.statistics.dwell_times[node], dwell[n], atol=1e-8)
            np.testing.assert_allclose(found.statistics.transitions[node], moves[n], atol=1e-8)


@pytest.mark.parametrize("sizes", [[3], [2, 3], [2, 2, 2], [3, 2, 2]], ids=str)
def test_every_kind_of_evidence_as_in_the_plain_sweep(sizes: list[int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    network = random_network(rng, sizes)
    assert_as_the_plain_sweep(network, random_evidence(rng, network), "star")


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_uneven_steps_as_in_the_plain_sweep(method: str) -> None:
    """Steps are denser next to evidence without noise; the corrections take that into account."""
    rng = np.random.default_rng(3)
    network = random_network(rng, [2, 3])
    points = [(0, 0, 0.4, np.array([0.0, -np.inf])), (0, 1, 1.5, np.log([0.2, 0.5, 0.3]))]
    evidence = make_evidence([2, 3], [0.0], [2.0], points)
    found = solve(network, evidence, method=method, tolerance=1e-2, max_sweeps=500)
    grid = found.courses.solution.batches[0].grid  # type: ignore[attr-defined]
    assert len(found.courses.solution.batches[0].problem.stretch) >= 2  # type: ignore[attr-defined]
    assert np.ptp(np.diff(grid.times(0))) > 0.01
    kinks = np.flatnonzero(grid.is_event_time(0))
    plain = ReferenceSweep(network, evidence, 0, grid.times(0), method, kinks, grid.longest_smooth)
    assert found.log_evidence == pytest.approx(plain.solve(tolerance=1e-10), rel=1e-6)


def test_known_inputs_as_in_the_plain_sweep() -> None:
    rng = np.random.default_rng(5)
    network = random_network(rng, [2, 3, 2], exogenous=(0,))
    assert_as_the_plain_sweep(network, random_evidence(rng, network), "star")


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("graph", [TREE, RING], ids=["tree", "ring"])
def test_without_coupling_everything_is_exact(graph: dict[int, list[int]], method: str) -> None:
    network, evidence = noisy_spins(graph, b=0.0)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, method=method)
    # how a node's time and jumps divide over its parents' states is subject to the time steps
    fine = solve(network, evidence, method=method, tolerance=1e-6)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    for n, node in enumerate(network.nodes):
        above = tuple(range(len(graph[n])))
        for field in ("dwell_times", "transitions"):
            exact = getattr(expected.statistics, field)[node]
            total = getattr(found.statistics, field)[node].sum(axis=above)
            np.testing.assert_allclose(total, exact.sum(axis=above), atol=1e-8)
            np.testing.assert_allclose(getattr(fine.statistics, field)[node], exact, atol=1e-6)


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("time_step", [0.02, 0.5, 1e6])
def test_a_lone_node_is_exact_at_any_step(size: int, time_step: float, method: str) -> None:
    rng = np.random.default_rng(size)
    rates = np.exp(rng.uniform(np.log(0.1), np.log(20.0), size=(size, size)))
    network = am.Network({"a": []}, {"a": rates * (1 - np.eye(size))})
    exact_zero = np.where(np.arange(size) == 0, 0.0, -np.inf)
    points = [*random_points(rng, [size], 4.0, 3), (0, 0, 0.0, exact_zero)]
    evidence = make_evidence([size], [0.0], [5.0], points)
    expected = solve_exactly(network, evidence)
    found = solve(network, evidence, method=method, time_step=time_step)
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-9)
    for field in ("dwell_times", "transitions"):
        np.testing.assert_allclose(
            getattr(found.statistics, field)["a"],
            getattr(expected.statistics, field)["a"],
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize(
    ("graph", "b", "excess"),
    [
        (TREE, 0.0, 0.0),
        (TREE, 0.6, 0.1153),
        (TREE, 1.0, 0.1549),
        (RING, 0.6, 0.4460),
        (RING, 1.0, 0.4879),
    ],
)
def test_excess_over_the_exact_evidence_of_aligning_spins(
    graph: dict[int, list[int]], b: float, excess: float
) -> None:
    network, evidence = alternating_to_aligned(graph, b)
    found = solve(network, evidence, tolerance=1e-5)
    assert found.converged
    exact = solve_exactly(network, evidence).log_evidence
    assert found.log_evidence - exact == pytest.approx(excess, abs=2e-4)


@pytest.mark.parametrize(("graph", "share"), [(TREE, 0.015), (RING, 0.05)], ids=["tree", "ring"])
def test_close_to_the_exact_evidence_at_moderate_coupling(
    graph: dict[int, list[int]], share: float
) -> None:
    network, evidence = alternating_to_aligned(graph, 0.4)
    exact = solve_exactly(network, evidence).log_evidence
    found = solve(network, evidence).log_evidence
    assert abs(found - exact) < share * abs(exact)


def smooth_cases() -> list[tuple[am.Network, Evidence, float]]:
    """Noiseless ends of a tree, and noisy measurements of three nodes; each with a step."""
    rng = np.random.default_rng(2)
    network = random_network(rng, [2, 3, 3])
    points = [(0, n, t, np.log(rng.uniform(0.05, 1.0, s))) for n, s in [(0, 2), (1, 3), (2, 3)]
              for t in (0.5, 1.5)]  # fmt: skip
    noisy = make_evidence([2, 3, 3], [0.0], [2.0], points)
    return [(*alternating_to_aligned(TREE, 0.6), 1 / 40), (network, noisy, 1 / 64)]


def orders(values: list[float]) -> np.ndarray:
    changes = np.diff(values)
    return np.log2(np.abs(changes[:-1] / changes[1:]))


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_the_scheme_is_of_fourth_order(method: str) -> None:
    for network, evidence, step in smooth_cases():
        values = [
            solve(
                network, evidence, method=method, tolerance=1e-9, time_step=step / 2**i
            ).log_evidence
            for i in range(4)
        ]
        found = orders(values)
        assert np.all(found > 3.0)
        assert found[-1] > 3.6


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_without_corrections_it_is_of_second_order(method: str) -> None:
    """The plain scheme, on which learning rests: F is stationary on the grid itself."""
    for network, evidence, step in smooth_cases():
        parameters = Parameters.of(network.compiled, method)
        values = []
        for i in range(4):
            batch = make_batch(evidence, network.compiled.graph, 1.0, 1.0, time_step=step / 2**i)
            values.append(float(run(batch, parameters, tolerance=1e-12)[0].evidence[0]))
        np.testing.assert_allclose(orders(values), 2.0, atol=0.15)


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_the_tolerance_is_kept(method: str, tolerance: float) -> None:
    for network, evidence in (
        noisy_spins(TREE, 0.8, n_trajectories=3),
        noisy_spins(RING, 0.5, n_trajectories=3, seed=4),
        alternating_to_aligned(RING, 0.6),
    ):
        found = solve(network, evidence, method=method, tolerance=tolerance)
        fine = solve(network, evidence, method=method, tolerance=1e-6)
        assert found.converged
        assert found.log_evidence == pytest.approx(fine.log_evidence, rel=tolerance)
        times = np.linspace(0.0, float(evidence.end.max()), 41)
        np.testing.assert_allclose(
            found.marginals(times).values, fine.marginals(times).values, atol=1.5 * tolerance
        )
        for node in network.nodes:
            for field in ("dwell_times", "transitions"):
                expected = getattr(fine.statistics, field)[node]
                np.testing.assert_allclose(
                    getattr(found.statistics, field)[node],
                    expected,
                    rtol=2 * tolerance,
                    atol=0.02 * tolerance * expected.max(),
                )


def assert_solves_the_equations(network: am.Network, evidence: Evidence, tolerance: float) -> None:
    """Marginals of one trajectory beside the printed equations, in an ODE solver's hands."""
    equations = StarODE(network, evidence, rtol=tolerance / 10)
    times = np.linspace(evidence.start[0], evidence.end[0], 33)
    expected = equations.at(equations.solve(n_sweeps=16), times)
    found = solve(network, evidence, tolerance=tolerance).marginals(times).values[0]
    np.testing.assert_allclose(found, expected, atol=10 * tolerance)


@pytest.mark.parametrize("graph", [TREE, RING], ids=["tree", "ring"])
def test_marginals_of_the_differential_equations(graph: dict[int, list[int]]) -> None:
    network, evidence = noisy_spins(graph, 0.6, n_trajectories=1, duration=2.0)
    assert_solves_the_equations(network, evidence, tolerance=1e-5)


def test_three_states_in_the_differential_equations() -> None:
    network = random_network(np.random.default_rng(3), [3, 3, 3])
    points = random_points(np.random.default_rng(1), [3, 3, 3], 1.5)
    evidence = make_evidence([3, 3, 3], [0.0], [1.5], points)
    assert_solves_the_equations(network, evidence, tolerance=1e-6)


def test_energy_bound_and_parts_add_up() -> None:
    for b in (0.4, 1.0, 1.4):
        network, evidence = noisy_spins(RING, b, n_trajectories=4)
        parts = solve(network, evidence).log_evidence_parts
        assert parts["energy"] + parts["entropy"] <= 1e-9
        total = sum(parts[k] for k in ("energy", "entropy", "data", "initial"))
        assert total == pytest.approx(parts["log_evidence"], abs=1e-9)
