"""The sampler of the exact posterior over graphs against what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from tests.reference.structure_posterior import Measured, as_families, sample_graphs
from tests.reference.two_node_evidence import GRAPHS, NOISE, TwoNodes, data, log_evidence


@pytest.mark.slow
def test_paths_at_fixed_rates_have_the_statistics_of_the_exact_chain() -> None:
    # a cycle, a node without parents and one with two
    graph = {"A": [], "B": ["A", "C"], "C": ["B"]}
    network = am.glauber(graph, a=1.0, b=0.8)
    noise = am.Gaussian((-1, 1), 0.8)
    seen = am.observe(am.simulate(network, 2, duration=4.0, seed=3), noise, 4, seed=4)
    exact = am.infer(network, seen, noise, method="exact").statistics
    rates = np.ones((3, 4, 2))
    for n, name in enumerate(network.nodes):
        flips = np.asarray(network.rates[name])
        for u in range(4):
            at = {0: (), 1: (u & 1,), 2: (u & 1, u >> 1)}[len(graph[name])]
            rates[n, u] = flips[at][[0, 1], [1, 0]]
    sampled = sample_graphs(
        Measured.of(seen, network.nodes, noise), 2, as_families(network.parents, network.nodes),
        sweeps=60_000, burn_in=200, seed=1, learn_start=False, rates=rates,
    )  # fmt: skip
    for n, name in enumerate(network.nodes):
        # sums over the parents: transitions and times by the node's own state
        moves = np.asarray(exact.transitions[name]).reshape(-1, 2, 2).sum(axis=0)
        times = np.asarray(exact.dwell_times[name]).reshape(-1, 2).sum(axis=0)
        np.testing.assert_allclose(
            sampled.transitions[n].sum(axis=0), moves[[0, 1], [1, 0]], atol=0.03
        )
        np.testing.assert_allclose(sampled.dwell[n].sum(axis=0), times, atol=0.05)
    both = np.asarray(exact.dwell_times["B"]).transpose(1, 0, 2).reshape(4, 2)
    np.testing.assert_allclose(sampled.dwell[1], both, atol=0.05)


@pytest.mark.parametrize(("truth", "seed"), [("A to B", 0), ("both", 3)])
@pytest.mark.slow
def test_edge_probabilities_are_those_of_the_integrated_evidence(truth: str, seed: int) -> None:
    obs = data(truth, seed, n_trajectories=5)
    nodes = TwoNodes.of(obs)
    logs = np.array([log_evidence(nodes, graph, n_samples=1500)[0] for graph in GRAPHS])
    none, forward, backward, both = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    assert none < 0.9  # or there would be nothing to compare
    measured = Measured.of(obs, ("A", "B"), NOISE)
    for start in ("none", "both"):
        found = sample_graphs(
            measured, 1, as_families(GRAPHS[start], ("A", "B")), sweeps=20_000, learn_start=False
        ).edges
        assert found[0, 1] == pytest.approx(forward + both, abs=0.02)
        assert found[1, 0] == pytest.approx(backward + both, abs=0.02)
