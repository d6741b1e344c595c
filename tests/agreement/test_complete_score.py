"""Scores of complete paths: the kernel, blocks and the learner against a walk along every path."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.data._path_statistics import JumpArrays
from asterism.learning.search import complete
from asterism.learning.search._complete_score import family_statistics
from asterism.learning.search.complete import CompleteScorer
from asterism.learning.search.settings import numbered_prior
from asterism.learning.search.structure_prior import family_tuple
from tests.paper_settings import paper_learner
from tests.reference.complete_score import family_score
from tests.reference.gamma_terms import log_gamma_terms


def mixed_paths(seed: int = 0) -> am.Trajectories:
    """Nodes with 2, 3, 4 and 2 states; trajectories of unequal length, one without a jump."""
    net = am.random_network(4, n_states=[2, 3, 4, 2], max_parents=2, min_parents=1, seed=seed)
    paths = am.simulate(net, n_trajectories=5, duration=6.0, seed=seed)
    cut = [(0.0, 6.0), (0.0, 2.5), (0.0, 6.0), (0.0, 1e-6), (0.0, 4.0)]
    frame = paths.to_frame()
    ends = {label: end for label, (_, end) in zip(paths.labels, cut)}
    frame = frame[frame["time"] <= frame["trajectory"].map(ends)]
    return am.Trajectories.from_frame(frame, states=paths.states, end=ends)


@pytest.mark.parametrize("child", range(4))
def test_every_family_of_up_to_three_parents(child: int) -> None:
    paths = mixed_paths()
    families = numbered_prior(paths.nodes, 3).families(child)
    assert len(families) == 8
    scorer = CompleteScorer.prepare(paths, am.GammaPrior(2.5, 1.3))
    expected = [family_score(paths, child, family_tuple(f), 2.5, 1.3) for f in families]
    np.testing.assert_allclose(scorer.scores(child, families), expected, rtol=0, atol=1e-9)


def test_allowed_transitions_only() -> None:
    paths = mixed_paths()
    families = numbered_prior(paths.nodes, 2).families(2)
    allowed = np.ones((4, 4), dtype=bool)
    allowed[3, 0] = allowed[0, 2] = False
    scorer = CompleteScorer.prepare(paths, am.GammaPrior(5.0, 2.0), {paths.nodes[2]: allowed})
    expected = [family_score(paths, 2, family_tuple(f), 5.0, 2.0, allowed) for f in families]
    np.testing.assert_allclose(scorer.scores(2, families), expected, rtol=0, atol=1e-9)


def test_tables_are_the_paths_own_statistics() -> None:
    paths = mixed_paths(3)
    families = np.array([[0, 2], [1, -1], [-1, -1]])
    sizes = np.array([len(paths.states[n]) for n in paths.nodes])
    arrays = JumpArrays(*(getattr(paths, name) for name in JumpArrays._fields))
    start, table = family_statistics(3, families, sizes, arrays)
    for f, parents in enumerate([("0", "2"), ("1",), ()]):
        counted = paths.statistics({"3": parents})
        mine = table[start[f] : start[f + 1]]
        np.testing.assert_allclose(mine[:, 0], counted.dwell_times["3"].ravel(), atol=1e-12)
        np.testing.assert_array_equal(mine[:, 1:].ravel(), counted.transitions["3"].ravel())


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = am.random_network(14, max_parents=2, min_parents=1, seed=1)
    paths = am.simulate(net, n_trajectories=4, duration=5.0, seed=1)
    families = numbered_prior(paths.nodes, 2).families(5)
    scorer = CompleteScorer.prepare(paths, am.GammaPrior(5.0, 2.0))
    whole = scorer.scores(5, families)
    monkeypatch.setattr(complete, "BLOCK_BYTES", 1)
    assert len(families) > 64
    np.testing.assert_array_equal(scorer.scores(5, families), whole)


def test_learner_scores_and_rates() -> None:
    paths = mixed_paths(2)
    learner = paper_learner(max_parents=2, edge_log_odds=-0.7, n_jobs=1).fit(paths)
    shape, rate = learner.prior_.shape, learner.prior_.rate_value
    durations = float(paths.durations.sum())
    assert rate == pytest.approx(5.0 * 4 * durations / paths.n_jumps, rel=1e-12)
    number = {n: i for i, n in enumerate(paths.nodes)}
    for row in learner.family_scores_.itertuples(index=False):
        above = [number[p] for p in row.parents]
        expected = family_score(paths, number[row.node], above, shape, rate) - 0.7 * len(above)
        assert row.score == pytest.approx(expected, abs=1e-9)
    counted = paths.statistics(learner.network_)
    best = learner.family_scores_.groupby("node")["score"].max()
    for node in paths.nodes:
        moves, dwell = counted.transitions[node], counted.dwell_times[node]
        n_parents = len(learner.network_.parents[node])
        total = log_gamma_terms(moves, dwell, shape, rate) - 0.7 * n_parents
        assert best[node] == pytest.approx(total, abs=1e-9)
        rates = learner.network_.rates[node]
        off = ~np.eye(len(paths.states[node]), dtype=bool)
        expected_rates = (moves + shape) / (dwell[..., None] + rate)
        np.testing.assert_allclose(rates[..., off], expected_rates[..., off], rtol=1e-12)
