"""Recorded jumps, continuous observation and joint measurements under star and mean field.

Where a single node is hidden and everything it drives is seen throughout, both approximations are
exact; where nothing is hidden the evidence is the log density of the path.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.engine.rules.star import solve
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.model.generators import random_rates
from asterism.timeline.evidence import JointMeasurement
from tests.reference.joint_chain import ReferenceChain
from tests.reference.random_evidence import make_evidence

METHODS = ["star", "mean_field"]


def seen_child(seed: int, parents: dict[str, list[str]], sizes: list[int]) -> tuple[Any, Any]:
    """A simulated path of which only the first node is hidden, with noisy looks at it."""
    network = random_rates(parents, sizes, rate_range=(0.3, 4.0), seed=seed)
    rng = np.random.default_rng(seed)
    paths = am.simulate(network, 1, duration=3.0, seed=seed)
    whole = am.infer(network, paths, method="exact").evidence
    hidden = 0
    keep_jumps = whole.jumps.node != hidden
    keep_spans = whole.spans.node != hidden
    jumps = [
        (0, int(n), float(t), int(y), int(x))
        for n, t, y, x in zip(
            whole.jumps.node[keep_jumps],
            whole.jumps.time[keep_jumps],
            whole.jumps.to_state[keep_jumps],
            whole.jumps.from_state[keep_jumps],
        )
    ]
    assert len(jumps) > 1
    spans = [
        (0, int(n), float(a), float(b), int(x))
        for n, a, b, x in zip(
            whole.spans.node[keep_spans],
            whole.spans.start[keep_spans],
            whole.spans.end[keep_spans],
            whole.spans.state[keep_spans],
        )
    ]
    points = [(0, 0, float(t), np.log(rng.uniform(0.1, 1.0, sizes[0]))) for t in (0.8, 2.1)]
    return network, make_evidence(sizes, [0.0], [3.0], points, jumps, spans)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [1, 2, 4])
@pytest.mark.parametrize(
    ("parents", "sizes"),
    [
        ({"a": [], "b": ["a"]}, [2, 2]),
        ({"a": [], "b": ["a"]}, [3, 3]),
        ({"a": ["b"], "b": ["a"]}, [2, 3]),
        ({"a": ["c"], "b": ["a", "c"], "c": ["a"]}, [2, 2, 3]),
    ],
    ids=["pair", "three states", "feedback", "two children"],
)
def test_one_hidden_node_among_seen_ones_is_exact(
    parents: dict[str, list[str]], sizes: list[int], seed: int, method: str
) -> None:
    network, evidence = seen_child(seed, parents, sizes)
    times = [0.4, 1.0, 1.9, 2.9]
    expected = ReferenceChain(network, evidence).solve(0, times)
    found = solve(network, evidence, method=method, tolerance=1e-6)
    assert found.converged
    assert found.log_evidence == pytest.approx(expected["log_evidence"], abs=1e-5)
    marginals = found.courses.marginals(0, np.array(times))[0]
    np.testing.assert_allclose(marginals, [m[0] for m in expected["marginals"]], atol=1e-5)
    for n, node in enumerate(network.nodes):
        for field in ("dwell_times", "transitions"):
            np.testing.assert_allclose(
                getattr(found.statistics, field)[node], expected[field][n], atol=1e-4
            )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sizes", [[2, 2, 2], [2, 3, 4]], ids=str)
def test_nothing_hidden_gives_the_log_density_and_the_counts(sizes: list[int], method: str) -> None:
    parents = {"a": ["c"], "b": ["a"], "c": ["a", "b"]}
    network = random_rates(parents, sizes, seed=3)
    paths = am.simulate(network, 6, duration=2.5, seed=8)
    found = am.infer(network, paths, method=method)
    counts = paths.statistics(network)
    density = 0.0
    for n, node in enumerate(network.nodes):
        rates, moves = network.rates[node], counts.transitions[node]
        density += float((moves * np.log(np.where(moves > 0, rates, 1.0))).sum())
        density += float((counts.dwell_times[node] * np.einsum("...ii->...i", rates)).sum())
        density += float(np.log(network.initial[node][paths.initial[:, n]]).sum())
        np.testing.assert_allclose(
            found.statistics.dwell_times[node], counts.dwell_times[node], atol=1e-10
        )
        np.testing.assert_allclose(found.statistics.transitions[node], moves, atol=1e-10)
    assert found.converged
    assert found.log_evidence == pytest.approx(density, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_jump_from_an_unknown_state_of_a_lone_node(method: str) -> None:
    network = random_rates({"a": []}, [4], seed=0)
    points = [(0, 0, 0.3, np.log([0.1, 0.5, 0.7, 0.2]))]
    jumps = [(0, 0, 1.0, 2, -1), (0, 0, 1.7, 0, -1)]
    evidence = make_evidence([4], [0.0], [2.0], points, jumps)
    expected = ReferenceChain(network, evidence).solve(0)
    found = solve(network, evidence, method=method)
    assert found.log_evidence == pytest.approx(expected["log_evidence"], rel=1e-9)
    np.testing.assert_allclose(
        found.statistics.transitions["a"], expected["transitions"][0], atol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_joint_measurement_that_factorises_is_two_single_ones(method: str) -> None:
    network = random_rates({"a": [], "b": ["a"]}, [2, 3], seed=5)
    left, right = np.log([0.3, 0.9]), np.log([0.2, 0.5, 0.8])
    joint = [JointMeasurement(0, 0.7, (0, 1), left[:, None] + right[None, :])]
    together = make_evidence([2, 3], [0.0], [1.5], joint=joint)
    apart = make_evidence([2, 3], [0.0], [1.5], [(0, 0, 0.7, left), (0, 1, 0.7, right)])
    one = solve(network, together, method=method, tolerance=1e-6)
    other = solve(network, apart, method=method, tolerance=1e-6)
    assert one.converged
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    for node in network.nodes:
        np.testing.assert_allclose(
            one.statistics.transitions[node], other.statistics.transitions[node], atol=1e-6
        )
    parts = one.log_evidence_parts
    assert parts["data"] == pytest.approx(other.log_evidence_parts["data"], abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_joint_measurement_with_a_seen_partner_is_exact(method: str) -> None:
    """One of the two nodes is known throughout, so the other's likelihood is known too."""
    network = random_rates({"a": [], "b": []}, [3, 2], seed=6)
    joint = [JointMeasurement(0, 0.7, (1, 0), np.log([[0.2, 0.5, 0.9], [0.6, 0.1, 0.3]]))]
    evidence = make_evidence([3, 2], [0.0], [1.0], spans=[(0, 1, 0.0, 1.0, 1)], joint=joint)
    found = solve(network, evidence, method=method)
    expected = solve_exactly(network, evidence)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)


def test_mean_field_with_links_stays_below_the_exact_evidence() -> None:
    from tests.reference.random_evidence import random_evidence, random_network

    for seed in range(25):
        rng = np.random.default_rng(seed)
        network = random_network(rng, [2, 3, 2])
        evidence = random_evidence(rng, network, n_trajectories=1)
        found = solve(network, evidence, method="mean_field", tolerance=1e-4)
        exact = ReferenceChain(network, evidence).solve(0)["log_evidence"]
        assert found.converged, f"seed {seed}: {found.stop_reason}"
        assert found.log_evidence <= exact + 1e-3, f"seed {seed}"
