"""How much measurements tell of what complete paths would, and how the star's scores follow it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.learning.search.score import Scorer
from asterism.learning.search.settings import FULL_SHARE, LEAST_TEMPERING, StructureSettings
from asterism.learning.search.single_nodes import fit_single_nodes, known_share

NETWORK = am.glauber({"A": []}, a=1.0)


def measured(gap: float, noise: float | None = None):
    """The single node after measurements at equal gaps."""
    n_points = 300
    paths = am.simulate(NETWORK, 1, duration=gap * n_points, seed=3)
    times = gap * np.arange(n_points + 1)
    emission = am.Exact() if noise is None else am.Gaussian((-1.0, 1.0), noise)
    seen = am.observe(paths, emission, times=times, seed=4)
    settings = StructureSettings(emission=emission, states=NETWORK.states, n_jobs=1)
    return fit_single_nodes(settings, seen, ("A",))


@pytest.mark.parametrize("gap", [0.1, 0.5, 1.5])
def test_share_of_a_node_seen_without_noise_is_that_of_fisher(gap):
    # a symmetric node that makes x jumps per gap: 4x / (e^4x - 1) of the information is seen
    found = measured(gap)
    x = gap * float(-np.diag(found.rates[0]).mean())
    assert found.known_share == pytest.approx(4.0 * x / np.expm1(4.0 * x), abs=0.06)


def test_noise_takes_information_away():
    assert measured(0.3, 0.9).known_share < 0.7 * measured(0.3, 0.05).known_share


def test_nodes_count_as_much_as_they_move():
    rates = (np.array([[-1.0, 1.0], [1.0, -1.0]]),) * 3
    dwell = np.array([10.0, 10.0, 5.0, 5.0, 1.0, 1.0])
    moves = np.array([0, 10.0, 10.0, 0, 0, 5.0, 5.0, 0, 0, 0, 0, 0])
    same = moves.copy()  # the first node falls back to what was seen,
    same[4:8] *= 1.1  # the second follows the rates, the third never moves
    assert known_share(rates, (moves, dwell), (same, dwell)) == pytest.approx(2 / 3)
    assert known_share(rates, (0.0 * moves, dwell), (0.0 * moves, dwell)) == 1.0


def test_scores_count_in_full_where_enough_is_known():
    auto = StructureSettings()
    assert auto.tempering_factor(FULL_SHARE) == auto.tempering_factor(1.0) == 1.0
    assert auto.tempering_factor(0.5 * FULL_SHARE) == pytest.approx(0.25)
    assert auto.tempering_factor(0.0) == LEAST_TEMPERING
    assert StructureSettings(accuracy=am.Accuracy(tempering=0.7)).tempering_factor(0.01) == 0.7


def test_the_default_prior_of_rates_depends_on_what_is_known():
    paths = am.simulate(am.glauber({"A": [], "B": ["A"]}), 3, duration=5.0, seed=1)
    assert am.StructureLearner(n_jobs=1, method="star").fit(paths).prior_.shape == 1.0
    asked = am.StructureLearner(prior=am.GammaPrior(2.0), n_jobs=1, method="star").fit(paths)
    assert asked.prior_.shape == 2.0
    default = am.StructureLearner().prior
    assert (default.shape, default.rate) == (5.0, "by node")


@pytest.mark.slow
def test_noise_takes_as_many_iterations_however_many_trajectories(monkeypatch):
    """Levels that are told and do not fit: rates run away, and nothing can be learned."""
    solve = Scorer.solve
    iterations: list[int] = []

    def counted(*arguments, **options):
        found = solve(*arguments, **options)
        if options.get("keep_moments", True):  # a graph, not the nodes by themselves
            iterations.append(found.n_iterations)
        return found

    monkeypatch.setattr(Scorer, "solve", counted)
    usual = []
    for n in (20, 160):
        rng = np.random.default_rng(2)
        table = pd.DataFrame(rng.normal(size=(6 * n, 4)), columns=list("ABCD"))
        table.insert(0, "trajectory", np.repeat(np.arange(n), 6))
        table.insert(1, "time", np.sort(rng.uniform(0.0, 6.0, (n, 6))).ravel())
        iterations.clear()
        learner = am.StructureLearner(
            am.Gaussian((-1.0, 1.0), 0.4), method="star", max_parents=1, n_jobs=1
        ).fit(am.Observations.from_frame(table))
        assert learner.converged_
        assert (learner.edges_["probability"] < 1.05 * learner.edges_["prior"]).all()
        usual.append(np.mean(iterations))
    assert usual[1] < 1.2 * usual[0]
