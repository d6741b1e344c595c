"""Parents that a search did not score: their edges have probabilities from screening."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.learning.search.found import FamilyTable, Unscored
from asterism.learning.search.settings import numbered_prior

NODES = ("A", "B", "C", "D", "E")
CHILD = 4


def table_and_truth(
    edge: str | float = -1.0,
) -> tuple[FamilyTable, dict[frozenset[int], float]]:
    """Families of A and B scored; C and D only screened; and all weights, listed by hand."""
    prior = numbered_prior(NODES, 2, am.StructurePrior(edge))
    gains = np.array([9.0, 9.0, 0.7, -1.3])  # of A and B other numbers count: those of families
    scores = {(): 0.0, (0,): 1.2, (1,): -0.4, (0, 1): 0.9}
    rows = prior.families(CHILD, among=[0, 1])
    log_prior = prior.log_prior(CHILD, rows)
    evidence = np.array([scores[tuple(int(p) for p in row if p >= 0)] for row in rows])
    table = FamilyTable(rows, evidence + log_prior)
    table = table.tempered_by(0.5, log_prior)
    table = table.with_unscored(Unscored.of(prior, CHILD, np.arange(4), gains))
    every = prior.families(CHILD)
    weights = {}
    for row, own in zip(every, prior.log_prior(CHILD, every)):
        family = frozenset(int(p) for p in row if p >= 0)
        if family == {2, 3}:  # two unscored parents at once are left out
            continue
        known = tuple(sorted(family & {0, 1}))
        gain = scores[known] + sum(gains[p] for p in family - {0, 1})
        weights[family] = np.exp(own + 0.5 * gain)
    total = sum(weights.values())
    return table, {family: w / total for family, w in weights.items()}


@pytest.mark.parametrize("edge", [-1.0, "by_size"])
def test_families_with_an_unscored_parent_enter_the_sum(edge: str | float) -> None:
    table, truth = table_and_truth(edge)
    expected = [sum(p for family, p in truth.items() if m in family) for m in range(5)]
    np.testing.assert_allclose(table.edge_probabilities(5), expected, rtol=1e-6)
    outside = sum(p for family, p in truth.items() if family & {2, 3})
    assert table.outside == pytest.approx(outside, rel=1e-6)
    assert table.probabilities.sum() == pytest.approx(1.0 - outside, rel=1e-6)


def test_drawn_families_have_these_probabilities() -> None:
    table, truth = table_and_truth()
    drawn = table.draw(20_000, np.random.default_rng(0))
    for family, probability in truth.items():
        share = sum(frozenset(one) == family for one in drawn) / len(drawn)
        assert share == pytest.approx(probability, abs=0.015)


def test_of_very_many_parents_the_mean_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from asterism.learning.search import found

    prior = numbered_prior([f"N{i}" for i in range(40)], 1, am.StructurePrior(-2.0))
    gains = np.random.default_rng(1).normal(size=39)
    gains[0] = 5.0
    table = FamilyTable.from_pairs([((), 0.0), ((0,), 0.5)])
    full = table.with_unscored(Unscored.of(prior, 39, np.arange(39), gains))
    monkeypatch.setattr(found, "MOST_REMEMBERED", 10)
    compact = table.with_unscored(Unscored.of(prior, 39, np.arange(39), gains))
    assert compact.outside == pytest.approx(full.outside)
    a, b = full.edge_probabilities(40), compact.edge_probabilities(40)
    best = np.argsort(-gains)[:9]
    np.testing.assert_allclose(a[best], b[best])
    assert (b[:39] > 0.0).all()
    assert len(np.unique(b[:39])) < 13


@pytest.fixture(scope="module")
def screened() -> tuple[am.StructureLearner, am.StructureLearner]:
    """The same data with two candidates per node, and with all."""
    names = [f"N{i}" for i in range(7)]
    net = am.glauber({n: names[i - 1 : i] if i else [] for i, n in enumerate(names)}, b=0.9)
    noise = am.Gaussian((-1.0, 1.0), 0.5)
    obs = am.observe(am.simulate(net, 15, duration=8.0, seed=1), noise, 12, seed=2)
    known = am.StructurePrior(forbidden=[("N0", "N6")])
    few, every = (
        am.StructureLearner(
            noise, method="star", n_jobs=1, structure_prior=known, search=am.Search("screened", n)
        ).fit(obs)
        for n in (2, 6)
    )
    return few, every


def test_no_allowed_pair_is_impossible(
    screened: tuple[am.StructureLearner, am.StructureLearner],
) -> None:
    few, every = screened
    chance = few.edge_probabilities_.to_numpy()
    assert few.edge_probabilities_.loc["N0", "N6"] == 0.0
    assert (chance > 0.0).sum() == 7 * 6 - 1
    assert len(few.edges_) == 7 * 6 - 1
    assert few.edges_["bayes_factor"].between(1e-12, 1e12).all()
    # what was only screened is about as probable as if it had been scored
    assert np.abs(chance - every.edge_probabilities_.to_numpy()).max() < 0.1
    graphs = few.sample_graphs(200, seed=3)
    seen = {edge for graph in graphs for edge in graph.edges}
    scored = {
        (p, c) for c, own in zip(*few.family_scores_[["node", "parents"]].T.values) for p in own
    }
    assert seen - scored
    assert ("N0", "N6") not in seen


def test_the_search_says_how_much_lies_outside(
    screened: tuple[am.StructureLearner, am.StructureLearner],
) -> None:
    few, every = screened
    outside = 1.0 - few.family_scores_.groupby("node")["probability"].sum()
    assert (outside > 0.0).all()
    assert outside.max() < 0.9
    assert f"{outside.mean():.1%}" in few.stage_
    assert every.stage_ == ""
