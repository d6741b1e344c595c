"""Graphs scored by clusters: against exact inference, and where the star overrates a pair."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.learning.search import edge_families
from asterism.learning.search.cluster_scores import graph_scorer
from asterism.learning.search.edge_families import EdgeFamily
from asterism.learning.search.score import posterior_mean_rates
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import prepare
from asterism.learning.tasks import Silent
from tests.paper_settings import paper_learner
from tests.reference.gamma_terms import log_gamma_terms

NOISE = am.Gaussian((0.0, 1.0), 0.5)
PRIOR = am.GammaPrior(5.0, 5.0)
STATES = {n: [0, 1] for n in "ABC"}


def seen(seed: int, n_trajectories: int = 6) -> am.Observations:
    """B follows A, and C follows B."""
    lead = np.array([[0, 0.4], [0.4, 0]])
    follow = np.array([[[0, 0.05], [4.0, 0]], [[0, 4.0], [0.05, 0]]])
    net = am.Network(
        {"A": [], "B": ["A"], "C": ["B"]}, {"A": lead, "B": follow, "C": follow}, STATES
    )
    paths = am.simulate(net, n_trajectories, duration=8.0, seed=seed)
    return am.observe(paths, NOISE, n_observations=8, seed=seed + 1)


def exact_score(graph: dict[str, list[str]], obs: am.Observations) -> float:
    """F − E + Gamma terms at self-consistent posterior rates, by exact inference."""
    rates = {n: np.ones((2,) * (len(p) + 2)) * (1 - np.eye(2)) for n, p in graph.items()}
    score, before = np.inf, 0.0
    while abs(score - before) > 1e-3:
        before = score
        found = am.infer(am.Network(graph, rates, STATES), obs, NOISE, method="exact")
        score = found.log_evidence
        for n in graph:
            moves = found.statistics.transitions[n]
            time = found.statistics.dwell_times[n]
            old = rates[n]
            with np.errstate(divide="ignore", invalid="ignore"):
                energy = np.where(old > 0, moves * np.log(old), 0.0) - time[..., None] * old
            score += log_gamma_terms(moves, time, 5.0, 5.0) - float(energy.sum())
            rates[n] = posterior_mean_rates(moves, time, 5.0, 5.0)
    return float(score)


def test_scores_by_clusters_are_close_to_those_of_exact_inference() -> None:
    """The star is off by much more where two nodes lead each other."""
    obs = seen(1)
    single = {"A": [], "B": ["A"], "C": ["B"]}
    pair = {"A": ["B"], "B": ["A"], "C": ["B"]}
    exact = {name: exact_score(g, obs) for name, g in (("single", single), ("pair", pair))}
    score = {
        (method, name): am.structure_score(
            g,
            obs,
            NOISE,
            PRIOR,
            method=method,
            initial="uniform",
            accuracy=am.Accuracy(tolerance=1e-4),
        )
        for method in ("star", "clusters")
        for name, g in (("single", single), ("pair", pair))
    }
    for name in exact:
        assert score["clusters", name] == pytest.approx(exact[name], abs=0.05)
    star = score["star", "pair"] - score["star", "single"]
    assert star - (exact["pair"] - exact["single"]) > 1.0


def test_clusters_take_back_what_the_star_overrates() -> None:
    """By how much A gains from being led by B, which follows A: less by clusters."""
    obs = seen(1)
    gain = {}
    for method in ("star", "clusters"):
        learner = paper_learner(
            NOISE, 1, PRIOR, method, required=[("A", "B"), ("B", "C")], n_jobs=1
        ).fit(obs)
        assert learner.converged_
        own = learner.family_scores_[learner.family_scores_.node == "A"]
        scores = dict(zip(own.parents, own.score))
        gain[method] = scores["B",] - scores[()]
    assert gain["star"] - gain["clusters"] > 1.0


def test_threads_do_not_change_what_clusters_settle() -> None:
    obs = seen(2)
    one, two = (
        am.StructureLearner(NOISE, max_parents=1, method="clusters", n_jobs=n).fit(obs)
        for n in (1, 2)
    )
    assert one.family_scores_.equals(two.family_scores_)


def test_what_edges_outside_the_graph_do_is_known_without_the_stars_moments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clusters have none: where not every edge gets a coupled solve, the star begins anew."""
    network = am.glauber("tree:3", a=1.0, b=0.8)
    noise = am.Gaussian((-1, 1), 0.3)
    seen = am.observe(
        am.simulate(network, 8, duration=6.0, seed=3), noise, n_observations=10, seed=4
    )
    search = prepare(StructureSettings(emission=noise, method="star"), seen, Silent())
    scorer = graph_scorer(search)
    wanted = [EdgeFamily(0, 1, (0,)), EdgeFamily(1, 2, (1,))]
    solution = scorer.solve(((), (), ()))
    coupled = edge_families.solved_statistics(scorer, solution, wanted, None)
    monkeypatch.setattr(edge_families, "_MOST_COUPLED", 0)
    local = edge_families.solved_statistics(scorer, solution, wanted, None)
    off = ~np.eye(2, dtype=bool)
    for edge in wanted:
        (moves, times), (local_moves, local_times) = coupled[edge], local[edge]
        np.testing.assert_allclose(local_moves[:, off], moves[:, off], rtol=0.1)
        np.testing.assert_allclose(local_times, times, rtol=0.1)
