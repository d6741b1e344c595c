"""The structure score of all four graphs of two nodes, beside the evidence it stands for.

The evidence has the rates integrated out on the exact joint chain (tests/reference). The score is
an approximation of it; what is asked is that it ranks graphs as the evidence does.
benchmarks/two_node_evidence.py does the same for many data sets and writes down the differences.
"""

from __future__ import annotations

import itertools

import pytest

import asterism as am
from tests.reference.two_node_evidence import (
    GRAPHS,
    NOISE,
    PRIOR,
    TwoNodes,
    data,
    log_evidence,
    log_evidence_without_edges,
)

#: nats: what two graphs must differ by in the evidence before their order is asked for
CLEAR = 1.0


@pytest.mark.parametrize("truth", ["A to B", "both"])
def test_sampling_agrees_with_quadrature(truth: str) -> None:
    nodes = TwoNodes.of(data(truth, seed=0, n_trajectories=5))
    found, error = log_evidence(nodes, "none", n_samples=2000)
    assert error < 0.02
    assert found == pytest.approx(log_evidence_without_edges(nodes), abs=4 * error)


def test_the_joint_chain_of_the_reference_is_the_library_s() -> None:
    """At given rates, against exact inference."""
    obs = data("both", seed=0, n_trajectories=5)
    network = am.glauber(GRAPHS["both"], a=1.0, b=0.7)
    expected = am.infer(network, obs, NOISE, method="exact").log_evidence
    found = TwoNodes.of(obs).log_likelihood(network.joint_generator().toarray())
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("truth", ["A to B", "both"])
def test_graphs_in_the_order_of_their_evidence(truth: str, method: str) -> None:
    obs = data(truth, seed=0, n_trajectories=20)
    nodes = TwoNodes.of(obs)
    exact = {g: log_evidence(nodes, g, n_samples=500)[0] for g in GRAPHS}
    score = {
        g: am.structure_score(above, obs, NOISE, PRIOR, method, initial="uniform")
        for g, above in GRAPHS.items()
    }
    print({g: (round(exact[g], 2), round(score[g], 2)) for g in GRAPHS})
    clear = [(g, h) for g, h in itertools.permutations(GRAPHS, 2) if exact[g] > exact[h] + CLEAR]
    assert len(clear) >= 4
    assert all(score[g] > score[h] for g, h in clear)
    if method == "star":
        for g in GRAPHS:  # log Bayes factors against the graph without edges
            assert score[g] - score["none"] == pytest.approx(exact[g] - exact["none"], abs=0.6)
