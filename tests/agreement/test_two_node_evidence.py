"""The structure score of all four graphs of two nodes, beside the evidence it stands for.

The evidence has the rates integrated out on the exact joint chain (tests/reference). The score is
an approximation of it; what is asked is that it ranks graphs as the evidence does.
benchmarks/two_node_evidence.py does the same for many data sets and writes down the differences.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.model_chains import run_model_chain, start_model_chain
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup
from asterism.timeline.build import build_evidence
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


TABLE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "two_node_evidence.csv"


@pytest.mark.parametrize("n_trajectories", [5, 20])
@pytest.mark.parametrize("truth", list(GRAPHS))
def test_sampled_graphs_have_the_evidence_of_the_table(truth: str, n_trajectories: int) -> None:
    """Graphs are drawn as often as the stored evidence of each says."""
    table = pd.read_csv(TABLE, keep_default_na=False)
    own = table[
        (table.truth == truth) & (table.trajectories == n_trajectories) & (table.seed == 0)
    ].set_index("graph")
    obs = data(truth, seed=0, n_trajectories=n_trajectories)
    flips = [[-1.0, 1.0], [1.0, -1.0]]
    states = am.glauber(GRAPHS["none"], a=1.0, b=1.0).states
    empty = am.Network({"A": [], "B": []}, {"A": flips, "B": flips}, states)
    setup = model_setup(
        build_evidence(empty, obs, NOISE),
        [2, 2],
        candidates_of([2, 2], [np.array([[-1], [1]]), np.array([[-1], [0]])], [np.zeros(2)] * 2),
        PriorChoice(
            PRIOR.shape, PRIOR.rate_value, [~np.eye(2, dtype=bool)] * 2, False,
            empty.compiled.initial,
        ),
        ("A", "B"),
    )  # fmt: skip
    series = []
    for number in range(2):
        place = setup.candidates.start[:-1] + number
        chain = start_model_chain(setup, 1, number, place)
        run_model_chain(setup, chain, 200, 0, False)
        drawn = run_model_chain(setup, chain, 4000, 1, False)
        series.append((drawn.parents >= 0).sum(axis=2))
    families = np.stack(series)
    graphs = np.stack(
        [
            (families[..., 0] == bool(above["A"])) & (families[..., 1] == bool(above["B"]))
            for above in GRAPHS.values()
        ],
        axis=-1,
    )
    exact = np.exp(own.exact[list(GRAPHS)] - own.exact.max()).to_numpy()
    exact = exact / exact.sum()
    error = np.hypot(monte_carlo_error(graphs), exact * own.exact_se[list(GRAPHS)].to_numpy())
    assert np.all(np.abs(graphs.mean(axis=(0, 1)) - exact) <= 4.0 * error + 1e-3)
