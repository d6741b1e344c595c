"""Rates through a summary of many parents: convolution against enumerated tables."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.engine.refine import solve_on_grids
from asterism.engine.rule import Precision
from asterism.engine.rules.star import StarRule, solve
from asterism.star.problem import Parameters
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import NOISY, random_points

METHODS = ["star", "mean_field"]
SIZES = [2, 3, 2, 2, 3]


def two_ways() -> tuple[am.Network, am.Network, am.SummaryRates]:
    """Node s sums four parents with unequal weights, gaps included; its state drives one back."""
    rng = np.random.default_rng(4)

    def table(*shape: int) -> np.ndarray:
        return rng.uniform(0.2, 2.0, size=shape) * (1 - np.eye(shape[-1]))

    names = [*"abcd", "s"]
    weights = {"a": (0, 1), "b": (1, 0, 3), "c": (-1, 1), "d": (2, 0)}
    n_values = 1 + sum(max(w) - min(w) for w in weights.values())
    summary = am.SummaryRates(weights, table(n_values, 3, 3))
    parents = {"a": [], "b": ["a"], "c": ["s"], "d": [], "s": list("abcd")}

    rates = {"a": table(2, 2), "b": table(2, 3, 3), "c": table(3, 2, 2), "d": table(2, 2)}
    states = {n: list(range(size)) for n, size in zip(names, SIZES)}
    return (
        am.Network(parents, {**rates, "s": summary}, states),
        am.Network(parents, {**rates, "s": summary.expand()}, states),
        summary,
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_as_the_enumerated_table(method: str) -> None:
    short, long, summary = two_ways()
    points = random_points(np.random.default_rng(0), SIZES, 2.0)
    jumps = [(0, 4, 1.1, 2, -1)]
    evidence = make_evidence(SIZES, [0.0], [2.0], points, jumps)
    settings = {"method": method, "time_step": 0.1, "tolerance": 1e-7}
    one, other = solve(short, evidence, **settings), solve(long, evidence, **settings)
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)
    blocks = summary.block_of(list(np.indices((2, 3, 2, 2), dtype=np.int64)))
    for field in ("dwell_times", "transitions"):
        for node in "abcd":
            np.testing.assert_allclose(
                getattr(one.statistics, field)[node],
                getattr(other.statistics, field)[node],
                atol=1e-9,
            )
        expected = np.zeros_like(getattr(one.statistics, field)["s"])
        np.add.at(expected, blocks, getattr(other.statistics, field)["s"])
        np.testing.assert_allclose(getattr(one.statistics, field)["s"], expected, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_messages_to_the_parents_are_the_same(method: str) -> None:
    """ψ enters every parent's moments; they agree step by step, not only in the sums."""
    short, long, _ = two_ways()
    evidence = make_evidence(SIZES, [0.0], [2.0], random_points(np.random.default_rng(1), SIZES, 2))
    moments = []
    for network in (short, long):
        parameters = Parameters.of(network.compiled, method)
        rule = StarRule(network.compiled, parameters, Precision(1e-7, 0.1))
        solved = solve_on_grids(rule, evidence)
        moments.append(solved.batches[0].moments)
    np.testing.assert_allclose(moments[0], moments[1], atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_glauber_with_and_without_summaries(method: str) -> None:
    ring = {n: [(n + k) % 9 for k in (1, 2, 3, 5)] for n in range(9)}
    networks = [am.glauber(ring, a=1.0, b=0.3, summary=s) for s in (False, True)]
    paths = am.simulate(networks[0], 2, duration=3.0, seed=0)
    values = am.observe(paths, NOISY, n_observations=4, seed=1)
    found = [am.infer(n, values, NOISY, method=method, time_step=0.25) for n in networks]
    assert found[0].log_evidence == pytest.approx(found[1].log_evidence, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_thirty_parents(method: str) -> None:
    graph = {**{n: [] for n in range(30)}, 30: list(range(30))}
    network = am.glauber(graph, a=1.0, b=0.1)
    assert isinstance(network.rates["30"], am.SummaryRates)
    paths = am.simulate(network, 3, duration=4.0, seed=0)
    values = am.observe(paths, NOISY, n_observations=5, seed=1)
    found = am.infer(network, values, NOISY, method=method)
    assert found.converged
    assert np.isfinite(found.log_evidence)
    assert found.statistics.dwell_times["30"].shape == (31, 2)
    assert found.statistics.dwell_times["30"].sum() == pytest.approx(12.0, rel=1e-9)
