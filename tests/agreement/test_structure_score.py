"""The structure score where it is known exactly: when every path is seen throughout."""

from __future__ import annotations

import itertools
from typing import Any

import networkx
import numpy as np
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from tests.flat_settings import regrouped
from tests.paper_settings import paper_learner
from tests.reference.complete_score import family_score
from tests.reference.gamma_terms import log_gamma_terms

PRIOR = am.GammaPrior(5.0, 2.0)


def paths(seed: int = 3) -> am.Trajectories:
    """Three nodes with two and three states on a cycle."""
    net = am.random_network(3, n_states=[2, 3, 2], max_parents=2, min_parents=1, seed=seed)
    return am.simulate(net, n_trajectories=6, duration=4.0, seed=seed)


def every_graph(nodes: tuple[str, ...], most: int = 2) -> list[dict[str, list[str]]]:
    families = [
        [list(f) for k in range(most + 1) for f in itertools.combinations(
            [m for m in nodes if m != n], k)]
        for n in nodes
    ]  # fmt: skip
    return [dict(zip(nodes, chosen)) for chosen in itertools.product(*families)]


GRAPHS = every_graph(("0", "1", "2"))[::5]


@pytest.mark.parametrize("digamma", [False, True], ids=["means", "digamma"])
@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_continuous_observation_gives_the_exact_score_up_to_a_constant(
    method: str, digamma: bool
) -> None:
    complete = paths()
    seen = am.Observations.from_trajectories(complete)
    options: dict[str, Any] = {"states": complete.states, "accuracy": am.Accuracy(digamma=digamma)}
    apart = [
        am.structure_score(graph, seen, None, PRIOR, method, **options)
        - am.structure_score(graph, complete, prior=PRIOR)
        for graph in GRAPHS
    ]
    assert len(apart) == 13
    # what remains is the probability of the starts, the same for all graphs
    np.testing.assert_allclose(apart, apart[0], rtol=0, atol=1e-7)


def test_learner_on_continuous_observation_finds_the_exact_posterior() -> None:
    complete = paths(5)
    seen = am.Observations.from_trajectories(complete)
    options: dict[str, Any] = {"prior": PRIOR, "states": complete.states, "n_jobs": 1}
    exact = paper_learner(**options).fit(complete)
    found = paper_learner(search="exhaustive", **options).fit(seen)
    assert found.converged_
    assert set(found.graph_.edges) == set(exact.graph_.edges)
    np.testing.assert_allclose(
        found.edge_probabilities_.to_numpy(), exact.edge_probabilities_.to_numpy(), atol=1e-6
    )
    for node in complete.nodes:
        np.testing.assert_allclose(
            found.network_.rates[node], exact.network_.rates[node], rtol=1e-6, atol=1e-9
        )


def test_automatic_prior_of_continuous_observation_is_that_of_complete_paths() -> None:
    complete = paths(5)
    seen = am.Observations.from_trajectories(complete)
    options: dict[str, Any] = {"states": complete.states, "n_jobs": 1}
    exact = paper_learner(**options).fit(complete)
    found = paper_learner(max_parents=0, **options).fit(seen)
    assert found.prior_.rate_value == pytest.approx(exact.prior_.rate_value, rel=1e-6)


def test_every_learner_finds_the_same_automatic_prior() -> None:
    """Also where a state is never left and a node runs away from the others."""
    slow, fast = [[0.0, 0.5], [0.5, 0.0]], [[0.0, 60.0], [60.0, 0.0]]
    stops = [[0.0, 0.7], [0.0, 0.0]]
    network = am.Network(
        {"A": [], "B": [], "C": [], "D": []}, {"A": slow, "B": slow, "C": stops, "D": fast}
    )
    complete = am.simulate(network, 4, duration=3.0, seed=3)
    seen = am.Observations.from_trajectories(complete)
    options: dict[str, Any] = {
        "prior": am.GammaPrior(5.0),
        "allowed_transitions": {"C": [[0, 1], [0, 0]]},
        "states": complete.states,
        "n_jobs": 1,
    }
    exact = am.StructureLearner(**regrouped(**options)).fit(complete).prior_.rate_value
    searched = (
        am.StructureLearner(max_parents=0, method="star", **regrouped(**options))
        .fit(seen)
        .prior_.rate_value
    )
    graph = {node: [] for node in complete.nodes}
    fitted = am.ParameterLearner(graph, method="exact", **options).fit(seen).prior_
    assert fitted is not None
    assert exact > 5.0, "the fast node counts, which waits for 1/60 only"
    assert searched == pytest.approx(exact, rel=1e-6)
    assert fitted.rate_value == pytest.approx(exact, rel=1e-6)


def test_score_of_a_graph_on_complete_paths_is_the_sum_over_families() -> None:
    complete = paths()
    graph = {"0": ["1"], "1": ["0", "2"], "2": []}
    parents = [[1], [0, 2], []]
    expected = sum(family_score(complete, n, parents[n], 5.0, 2.0) for n in range(3))
    found = am.structure_score(graph, complete, prior=PRIOR)
    assert found == pytest.approx(expected, abs=1e-9)
    assert am.structure_score(networkx.DiGraph([("1", "0"), ("0", "1"), ("2", "1")]), complete,
                              prior=PRIOR) == pytest.approx(found, abs=1e-9)  # fmt: skip
    with_odds = am.structure_score(
        graph, complete, prior=PRIOR, structure_prior=am.StructurePrior(edge=-0.5)
    )
    assert with_odds == pytest.approx(found - 1.5, abs=1e-9)
    counted = complete.statistics(graph)
    terms = sum(
        log_gamma_terms(counted.transitions[n], counted.dwell_times[n], 5.0, 2.0)
        for n in complete.nodes
    )
    assert found == pytest.approx(terms, abs=1e-9)


def test_the_best_graph_of_complete_paths_has_the_best_score() -> None:
    complete = paths(8)
    learner = paper_learner(n_jobs=1).fit(complete)
    five = am.GammaPrior(5.0)
    best = am.structure_score(learner.graph_, complete, prior=five)
    assert best == pytest.approx(learner.history_[-1]["score"], abs=1e-9)
    assert best >= max(am.structure_score(g, complete, prior=five) for g in GRAPHS)


def test_graphs_that_do_not_belong_to_the_paths() -> None:
    complete = paths()
    with pytest.raises(DataError, match="'9', which has no path"):
        am.structure_score({"9": []}, complete)
    with pytest.raises(ModelError, match="'0' is exogenous"):
        am.structure_score(
            {"0": ["1"], "1": []}, complete, structure_prior=am.StructurePrior(exogenous=["0"])
        )


def test_learner_and_function_give_a_graph_the_same_score() -> None:
    net = am.glauber("chain:3")
    emission = am.Gaussian((-1, 1), 0.4)
    obs = am.observe(am.simulate(net, 8, duration=5.0, seed=1), emission, seed=2)
    learner = paper_learner(emission, max_parents=1, edge_log_odds=-0.3, n_jobs=1).fit(obs)
    total = am.structure_score(
        learner.graph_,
        obs,
        emission,
        am.GammaPrior(5.0),
        max_parents=1,
        structure_prior=am.StructurePrior(edge=-0.3),
    )
    assert total == pytest.approx(learner.history_[-1]["score"], abs=1e-5)
    best = learner.family_scores_.groupby("node")["score"].max()
    assert np.isfinite(best).all()


def test_learner_and_function_assume_the_same_prior_of_rates() -> None:
    complete = paths(6)
    learner = am.StructureLearner(graph="map", n_jobs=1, method="star").fit(complete)
    with_prior = am.structure_score(learner.graph_, complete, structure_prior="sparse")
    assert with_prior == pytest.approx(learner.history_[-1]["score"], abs=1e-9)
    n_edges = learner.graph_.number_of_edges()
    without = am.structure_score(learner.graph_, complete)
    n_nodes = len(complete.nodes)
    assert with_prior == pytest.approx(without - n_edges * np.log(2.0 * n_nodes), abs=1e-9)
