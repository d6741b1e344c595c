"""The learner as a whole on complete paths: contract, symmetries, constraints, files."""

from __future__ import annotations

import json
import sys
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import asterism as am
from asterism.errors import DataError, ModelError, TooLargeError
from asterism.learning.search import complete
from asterism.learning.search.found import FamilyTable, SearchResult
from asterism.learning.search.settings import StructureSettings
from asterism.numerics.progress import ProgressMeter, Stage
from asterism.results import edge_sets
from tests.flat_settings import regrouped
from tests.paper_settings import paper_learner

NAMES = {str(i): name for i, name in enumerate(["dog", "ant", "Cat", "bee", "eel", "fox"])}


def example_network(seed: int = 4) -> am.Network:
    drawn = am.random_network(6, n_states=[2, 2, 3, 2, 2, 2], min_parents=1, seed=seed)
    return am.Network(
        {NAMES[n]: [NAMES[p] for p in above] for n, above in drawn.parents.items()},
        {NAMES[n]: table for n, table in drawn.rates.items()},
        {NAMES[n]: labels for n, labels in drawn.states.items()},
    )


@pytest.fixture(scope="module")
def paths() -> am.Trajectories:
    return am.simulate(example_network(), n_trajectories=6, duration=8.0, seed=1)


@pytest.fixture(scope="module")
def learner(paths: am.Trajectories) -> am.StructureLearner:
    return paper_learner(n_jobs=1).fit(paths)


def scaled(paths: am.Trajectories, factor: float) -> am.Trajectories:
    return replace(
        paths,
        start=paths.start * factor,
        end=paths.end * factor,
        jump_time=paths.jump_time * factor,
    )


# ---- the contract of an estimator -------------------------------------------------------------


def test_settings_are_stored_untouched_and_clone() -> None:
    prior, forbidden = am.GammaPrior(2.0, 3.0), [("a", "b")]
    learner = am.StructureLearner(
        max_parents=3, prior=prior, n_jobs=2, structure_prior=am.StructurePrior(forbidden=forbidden)
    )
    assert learner.prior is prior
    assert learner.structure_prior.forbidden is forbidden
    settings = learner.get_params()
    assert settings["max_parents"] == 3
    assert settings["structure_prior__forbidden"] is forbidden
    again = clone(learner)
    assert again is not learner
    assert again.get_params() == settings
    assert am.StructureLearner(**learner.get_params(deep=False)).get_params() == settings
    assert repr(learner) == (
        "StructureLearner(max_parents=3, prior=GammaPrior(shape=2.0, rate=3.0), "
        "n_jobs=2, structure_prior=StructurePrior(forbidden=[('a', 'b')]))"
    )


def test_defaults_of_learner_and_settings_agree() -> None:
    assert am.StructureLearner().search_settings() == StructureSettings()


def test_set_params() -> None:
    learner = am.StructureLearner().set_params(max_parents=1, search="screened")
    assert (learner.max_parents, learner.search) == (1, "screened")
    learner.set_params(sampling__minutes=5, search__candidates=3)
    assert learner.search == am.Search("screened", candidates=3)
    assert clone(learner).sampling.minutes == 5
    assert am.StructureLearner().sampling.minutes is None
    with pytest.raises(ModelError, match="search has no setting 'parents'"):
        learner.set_params(search__parents=1)
    with pytest.raises(ModelError, match=r"search=am\.Search\(candidates"):
        learner.set_params(n_candidates=1)
    with pytest.raises(ModelError, match="has no setting 'parents'; it has emission, max_parents"):
        learner.set_params(parents=1)


@pytest.mark.parametrize(
    ("name", "now"),
    {
        "edge_prior": r"structure_prior=am\.StructurePrior\(probabilities=",
        "exogenous": r"structure_prior=am\.StructurePrior\(exogenous=",
        "n_candidates": r"search=am\.Search\(candidates=",
        "journal": r"search=am\.Search\(journal=",
        "max_draws": r"sampling=am\.Sampling\(max_draws=",
        "time_step": r"accuracy=am\.Accuracy\(time_step=",
        "max_seconds": "minutes=",
    }.items(),
)
def test_a_name_that_went_is_refused_with_the_new_one(name: str, now: str) -> None:
    with pytest.raises(TypeError, match=f"no argument {name}; say {now}"):
        am.StructureLearner(**{name: 1})


@pytest.mark.parametrize(
    ("name", "now"),
    {
        "tolerance": "stop_gain=",
        "grid_tolerance": r"accuracy=am\.Accuracy\(tolerance=",
        "joint_limit": r"accuracy=am\.Accuracy\(joint_limit=",
        "max_seconds": "minutes=",
    }.items(),
)
def test_a_name_that_fits_lost_is_refused_with_the_new_one(name: str, now: str) -> None:
    with pytest.raises(TypeError, match=f"no argument {name}; say {now}"):
        am.ParameterLearner({"A": []}, **{name: 1})


def test_a_function_of_child_and_parents_is_a_structure_prior() -> None:
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, b=0.4)
    paths = am.simulate(network, 10, 5.0, seed=0)

    def learned(prior: Any) -> pd.DataFrame:
        found = (
            am.StructureLearner(max_parents=2, structure_prior=prior, method="star")
            .fit(paths)
            .edges_
        )
        return found.sort_values(["parent", "child"])[["probability", "prior"]]

    def few(child: str, parents: tuple[str, ...]) -> float:
        return -1.5 * len(parents) + (2.0 if child == "B" and "C" in parents else 0.0)

    odds = {(p, c): -1.5 for p in "ABC" for c in "ABC" if p != c} | {("C", "B"): 0.5}
    np.testing.assert_allclose(learned(few), learned(am.StructurePrior(odds)), atol=1e-12)
    np.testing.assert_allclose(learned(lambda *_: 3.0), learned("uniform"), atol=1e-12)
    with pytest.raises(ModelError, match="must be a finite number"):
        learned(lambda *_: -np.inf)
    with pytest.raises(ModelError, match="'spars'"):
        learned("spars")


@pytest.mark.parametrize("name", ["graph_", "edge_probabilities_", "family_scores_"])
def test_nothing_before_fit(name: str) -> None:
    with pytest.raises(NotFittedError, match="call fit"):
        getattr(am.StructureLearner(), name)
    assert not hasattr(am.StructureLearner(), "network_")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "stars"}, "method is 'stars'; valid are 'auto', 'star', 'mean_field'"),
        ({"search": "all"}, "search is 'all'"),
        ({"ties": "first"}, "ties is 'first'"),
        ({"prior": None}, "prior must be a GammaPrior"),
        ({"n_candidates": 0}, "n_candidates must be a whole number"),
        ({"n_init": 1.5}, "n_init must be a whole number"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"time_step": -1.0}, "time_step must be positive"),
        ({"initial": "random"}, "initial is 'random'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
    ],
)
def test_bad_settings(paths: am.Trajectories, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ModelError, ValueError), match=message):
        paper_learner(**settings).fit(paths)


def test_other_data_are_refused() -> None:
    with pytest.raises(DataError, match="from Observations or Trajectories, not from DataFrame"):
        am.StructureLearner().fit(pd.DataFrame({"a": [1]}))


# ---- what is found ----------------------------------------------------------------------------


@pytest.mark.smoke
def test_tables_agree_with_one_another(learner: am.StructureLearner) -> None:
    families = learner.family_scores_
    for node, mine in families.groupby("node"):
        assert mine["probability"].sum() == pytest.approx(1.0, abs=1e-10)
        weights = np.exp(mine["score"] - mine["score"].max())
        np.testing.assert_allclose(mine["probability"], weights / weights.sum(), atol=1e-12)
        assert (np.diff(mine["score"]) <= 0).all()
        assert set(mine["parents"].iloc[0]) == set(learner.network_.parents[str(node)])
        for parent in learner.network_.nodes:
            total = mine["probability"][[parent in p for p in mine["parents"]]].sum()
            found = learner.edge_probabilities_.loc[parent, node]
            assert found == pytest.approx(total, abs=1e-12)
    table = learner.edge_probabilities_
    assert np.diag(table).tolist() == [0.0] * 6
    assert ((table >= 0) & (table <= 1)).all(axis=None)
    for row in learner.edges_.itertuples(index=False):
        assert row.probability == table.loc[row.parent, row.child]
        assert row.in_graph == learner.graph_.has_edge(row.parent, row.child)
    assert len(learner.edges_) == (table.to_numpy() >= 1e-6).sum()
    assert learner.graph_.edges == learner.network_.graph.edges
    for parent, child, probability in learner.graph_.edges(data="probability"):
        assert probability == table.loc[parent, child]


def test_how_it_went_is_said(learner: am.StructureLearner) -> None:
    assert learner.converged_ is True
    assert "every family was scored exactly" in learner.stop_reason_
    assert learner.history_[0]["n_families"] == len(learner.family_scores_) == 6 * (1 + 5 + 10)


def test_initial_probabilities(paths: am.Trajectories) -> None:
    learned = paper_learner(n_jobs=1).fit(paths).network_.initial["Cat"]
    counts = np.bincount(paths.initial[:, paths.nodes.index("Cat")], minlength=3)
    np.testing.assert_allclose(learned, (counts + 1 / 3) / 7)
    flat = paper_learner(initial="uniform", n_jobs=1).fit(paths).network_
    np.testing.assert_allclose(flat.initial["Cat"], np.full(3, 1 / 3))
    given = paper_learner(initial={"ant": [0.2, 0.8]}, n_jobs=1).fit(paths).network_
    np.testing.assert_allclose(given.initial["ant"], [0.2, 0.8])


def test_sampled_graphs_follow_the_family_posteriors(paths: am.Trajectories) -> None:
    learner = paper_learner(n_jobs=1).fit(paths.select(paths.labels[:2]))
    graphs = learner.sample_graphs(4000, seed=5)
    assert all(list(g.nodes) == list(paths.nodes) for g in graphs[:3])
    drawn = Counter(edge for graph in graphs for edge in graph.edges)
    share = pd.DataFrame(
        [[drawn[parent, child] / len(graphs) for child in paths.nodes] for parent in paths.nodes],
        index=paths.nodes,
        columns=paths.nodes,
    )
    expected = learner.edge_probabilities_
    assert ((expected > 0.1) & (expected < 0.9)).to_numpy().sum() > 3
    assert np.abs(share - expected).to_numpy().max() < 4.5 * 0.5 / np.sqrt(len(graphs))
    one, other = learner.sample_graphs(20), learner.sample_graphs(20)
    assert [set(g.edges) for g in one] == [set(g.edges) for g in other]
    assert learner.sample_graphs(0) == []
    with pytest.raises(ModelError, match="not be negative"):
        learner.sample_graphs(-1)


# ---- symmetries -------------------------------------------------------------------------------


def test_order_of_columns_does_not_matter(
    paths: am.Trajectories, learner: am.StructureLearner
) -> None:
    nodes = tuple(np.random.default_rng(2).permutation(paths.nodes))
    labels = {n: tuple(reversed(paths.states[n])) for n in nodes}
    assert nodes != paths.nodes
    other = paper_learner(n_jobs=1).fit(paths.reordered(nodes, labels))
    assert other.network_.nodes == nodes
    found = other.edge_probabilities_.loc[list(paths.nodes), list(paths.nodes)]
    np.testing.assert_allclose(found, learner.edge_probabilities_, atol=1e-10)
    assert set(other.graph_.edges) == set(learner.graph_.edges)
    pd.testing.assert_frame_equal(other.edges_, learner.edges_, rtol=1e-9)


def test_ties_of_scores_do_not_depend_on_the_order_of_columns() -> None:
    """Two nodes with the same path are equally good parents: names decide, not columns."""
    frame = am.simulate(am.glauber({"p": [], "c": ["p"]}, b=1.5), 8, 10.0, seed=3).to_frame()
    twin = frame[frame["node"] == "p"].assign(node="a twin")
    both = pd.concat([frame, twin], ignore_index=True)
    chosen = []
    for order in (["p", "c", "a twin"], ["a twin", "c", "p"]):
        states = dict.fromkeys(order, (-1, 1))
        paths = am.Trajectories.from_frame(both, states=states, end=10.0, sort=True)
        learner = paper_learner(max_parents=1, ties="order", n_jobs=1).fit(paths)
        chosen.append(learner.network_.parents["c"])
        ranks = learner.family_scores_.query("node == 'c'")["parents"].tolist()
        assert ranks == [("a twin",), ("p",), ()]
    assert chosen == [("a twin",), ("a twin",)]


def test_unit_of_time_does_not_matter(paths: am.Trajectories, learner: am.StructureLearner) -> None:
    minutes = paper_learner(n_jobs=1).fit(scaled(paths, 60.0))
    np.testing.assert_allclose(
        minutes.edge_probabilities_, learner.edge_probabilities_, atol=1e-6, rtol=0
    )
    assert minutes.network_.parents == learner.network_.parents
    assert minutes.prior_.rate_value == pytest.approx(60.0 * learner.prior_.rate_value)
    given = paper_learner(prior=am.GammaPrior(5, 10), n_jobs=1).fit(paths)
    assert given.prior_ == am.GammaPrior(5, 10)
    assert not np.allclose(given.edge_probabilities_, learner.edge_probabilities_, atol=1e-6)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_number_of_threads_changes_no_bit(paths: am.Trajectories, search: str) -> None:
    one, two = (paper_learner(n_jobs=n, search=search, n_candidates=3).fit(paths) for n in (1, 2))
    pd.testing.assert_frame_equal(one.family_scores_, two.family_scores_, check_exact=True)
    assert one.network_ == two.network_


# ---- constraints ------------------------------------------------------------------------------


def test_required_forbidden_and_limits(
    paths: am.Trajectories, learner: am.StructureLearner
) -> None:
    surest = learner.edges_.iloc[0]
    absent = learner.edge_probabilities_.stack().drop([(n, n) for n in paths.nodes]).idxmin()
    bound = paper_learner(
        required=[absent],
        forbidden=[(surest.parent, surest.child)],
        max_parents={absent[1]: 1, "fox": 0},
        n_jobs=1,
    ).fit(paths)
    assert bound.edge_probabilities_.loc[absent] == pytest.approx(1.0, abs=1e-12)
    assert bound.edge_probabilities_.loc[surest.parent, surest.child] == 0.0
    assert bound.network_.parents[absent[1]] == (absent[0],)
    assert bound.edge_probabilities_["fox"].tolist() == [0.0] * 6
    with pytest.raises(ModelError, match="both required and forbidden"):
        paper_learner(required=[absent], forbidden=[absent]).fit(paths)


def test_log_odds_move_probabilities(paths: am.Trajectories) -> None:
    few = paths.select(paths.labels[:2])
    flat = paper_learner(max_parents=1, n_jobs=1).fit(few).family_scores_
    sparse = paper_learner(max_parents=1, edge_log_odds=-3.0, n_jobs=1).fit(few)
    for node, mine in flat.groupby("node"):
        weight = mine["probability"] * np.exp([-3.0 * len(p) for p in mine["parents"]])
        expected = dict(zip(mine["parents"], weight / weight.sum()))
        found = sparse.family_scores_[sparse.family_scores_["node"] == node]
        for parents, probability in zip(found["parents"], found["probability"]):
            assert probability == pytest.approx(expected[parents], abs=1e-12)


def test_priors_of_numbers_of_parents_move_probabilities(paths: am.Trajectories) -> None:
    few = paths.select(paths.labels[:2])
    flat = paper_learner(max_parents=2, n_jobs=1).fit(few).family_scores_
    told = paper_learner(max_parents=2, min_parents=1, family_prior="by_size", n_jobs=1)
    found = told.fit(few).family_scores_
    families_of_size = np.array([np.inf, 5.0, 10.0])
    for node, mine in flat.groupby("node"):
        weight = mine["probability"] / families_of_size[[len(p) for p in mine["parents"]]]
        expected = dict(zip(mine["parents"], weight / weight.sum()))
        ours = found[found["node"] == node]
        assert set(ours["parents"]) == set(expected) - {()}
        for parents, probability in zip(ours["parents"], ours["probability"]):
            assert probability == pytest.approx(expected[parents], abs=1e-12)
    score = am.structure_score(
        told.graph_,
        few,
        prior=am.GammaPrior(5),
        structure_prior=am.StructurePrior(min_parents=1, edge="by_size"),
    )
    best = found.groupby("node")["score"].max().sum()
    assert score == pytest.approx(best, rel=1e-12)
    with pytest.raises(ModelError, match=r"'flat'; valid are .*'uniform', 'by_size'"):
        paper_learner(family_prior="flat").fit(few)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_every_node_gets_its_fewest_parents(search: str) -> None:
    # nothing depends on anything: left alone, the search finds no edge
    network = am.glauber({n: [] for n in "abcd"})
    noise = am.Gaussian((-1, 1), 0.2)
    seen = am.observe(
        am.simulate(network, 6, duration=4.0, seed=3), noise, n_observations=6, seed=4
    )
    options = {"max_parents": 2, "search": search, "n_jobs": 1}
    assert paper_learner(noise, edge_log_odds=-9.0, **options).fit(seen).graph_.size() == 0
    learner = paper_learner(noise, edge_log_odds=-9.0, min_parents={"a": 1, "b": 2}, **options).fit(
        seen
    )
    assert [learner.graph_.in_degree(n) for n in "abcd"] == [1, 2, 0, 0]
    assert learner.edge_probabilities_["a"].sum() >= 1.0 - 1e-12
    assert learner.converged_


def test_screening_keeps_as_many_candidates_as_a_node_needs(paths: am.Trajectories) -> None:
    noise = am.Gaussian((-1, 1), 0.3)
    network = am.glauber("cycle:5")
    seen = am.observe(
        am.simulate(network, 6, duration=4.0, seed=3), noise, n_observations=6, seed=4
    )
    options = {"min_parents": 2, "n_candidates": 1, "search": "screened", "n_jobs": 1}
    for learner in (
        paper_learner(noise, **options).fit(seen),
        paper_learner(**options).fit(paths),
    ):
        assert {len(parents) for parents in learner.family_scores_["parents"]} == {2}


def test_exogenous_nodes_have_no_parents_and_no_rates(paths: am.Trajectories) -> None:
    learner = paper_learner(exogenous=["ant"], n_jobs=1).fit(paths)
    assert learner.network_.exogenous == {"ant"}
    assert learner.network_.parents["ant"] == ()
    assert learner.edge_probabilities_["ant"].tolist() == [0.0] * 6
    free = paper_learner(prior=learner.prior_, n_jobs=1).fit(paths)
    others = [n for n in paths.nodes if n != "ant"]
    np.testing.assert_array_equal(
        learner.edge_probabilities_[others], free.edge_probabilities_[others]
    )


def test_allowed_transitions(paths: am.Trajectories) -> None:
    ladder = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    with pytest.raises(DataError, match=r"node 'Cat' jumps from .* which allowed_transi"):
        paper_learner(allowed_transitions={"Cat": ladder}).fit(paths)
    with pytest.raises(ModelError, match="allowed_transitions names 'cow'"):
        paper_learner(allowed_transitions={"cow": ladder}).fit(paths)
    with pytest.raises(ModelError, match=r"shape \(3, 3\), expected \(2, 2\)"):
        paper_learner(allowed_transitions={"ant": ladder}).fit(paths)
    rates = {"a": 2.0 * ladder, "b": np.ones((3, 2, 2)) - np.eye(2)}
    net = am.Network({"a": [], "b": ["a"]}, rates)
    climbs = am.simulate(net, 5, 10.0, seed=0)
    learner = paper_learner(allowed_transitions={"a": ladder}, n_jobs=1).fit(climbs)
    table = np.asarray(learner.network_.rates["a"])
    assert (table[..., 0, 2] == 0.0).all()
    assert (table[..., 2, 0] == 0.0).all()
    assert (table[..., 0, 1] > 0.0).all()


def test_screening_finds_what_the_exhaustive_search_finds() -> None:
    net = am.random_network(12, min_parents=1, seed=0)
    paths = am.simulate(net, 20, 20.0, seed=0)
    full = paper_learner(search="exhaustive", n_jobs=1).fit(paths)
    few = paper_learner(search="screened", n_candidates=5, n_jobs=1).fit(paths)
    assert len(few.family_scores_) == 12 * (1 + 5 + 10)
    assert "screened" in few.stop_reason_
    same = sum(full.network_.parents[n] == few.network_.parents[n] for n in net.nodes)
    assert same >= 11


def test_auto_screens_only_beyond_the_limit(
    paths: am.Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "EXHAUSTIVE_LIMIT", 6 * 16 - 1)
    learner = paper_learner(n_candidates=2, n_jobs=1).fit(paths)
    assert "screened" in learner.stop_reason_


def test_hopeless_families_are_dropped_without_changing_probabilities(
    paths: am.Trajectories, learner: am.StructureLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "KEEP_ALL", 10)
    monkeypatch.setattr(complete, "HOPELESS", 25.0)
    pruned = paper_learner(n_jobs=1).fit(paths)
    assert len(pruned.family_scores_) < len(learner.family_scores_)
    assert pruned.history_ == learner.history_
    np.testing.assert_allclose(
        pruned.edge_probabilities_, learner.edge_probabilities_, atol=100 * np.exp(-25.0)
    )


# ---- data that cannot be learned from ---------------------------------------------------------


def table(rows: list[tuple[float, str, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["time", "node", "state"]).assign(trajectory=7)


def test_jumps_at_one_time_are_refused_unless_ordered() -> None:
    frame = table([(0, "a", 0), (0, "b", 0), (1.5, "a", 1), (1.5, "b", 1), (2, "a", 0)])
    paths = am.Trajectories.from_frame(frame, end=3.0)
    with pytest.raises(DataError, match=r"trajectory 7: 'b' and 'a' both jump at time 1\.5"):
        paper_learner().fit(paths)
    paper_learner(ties="order", n_jobs=1).fit(paths)
    paper_learner(forbidden=[("a", "b"), ("b", "a")], n_jobs=1).fit(paths)


def test_a_node_that_never_changes() -> None:
    frame = table([(0, "a", 0), (0, "b", 0), (1, "a", 1)])
    paths = am.Trajectories.from_frame(frame, end=3.0)
    with pytest.raises(DataError, match="node 'b' never leaves the state 0"):
        paper_learner().fit(paths)
    learner = paper_learner(states={"b": [0, 1]}, n_jobs=1).fit(paths)
    assert learner.network_.states["b"] == (0, 1)
    assert np.isfinite(learner.family_scores_["score"]).all()
    with pytest.raises(DataError, match="states= names 'h', which has no path"):
        paper_learner(states={"h": [0, 1]}).fit(paths)


def test_paths_without_duration_or_jumps() -> None:
    frame = table([(0, "a", 0), (0, "b", 0)])
    states = {"a": [0, 1], "b": [0, 1]}
    with pytest.raises(DataError, match="no duration"):
        paper_learner().fit(am.Trajectories.from_frame(frame, states=states))
    still = am.Trajectories.from_frame(frame, states=states, end=4.0)
    learner = paper_learner(n_jobs=1).fit(still)
    assert learner.prior_.rate_value == pytest.approx(5 * 8.0)
    assert np.isfinite(learner.edge_probabilities_).all(axis=None)


# ---- measurements go to the search ------------------------------------------------------------


def test_observations_are_handed_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    net = am.glauber({"a": [], "b": ["a"]})
    frame = pd.DataFrame({"time": [0.0, 1.0], "a": [0.1, 0.9], "b": [1.0, -1.0]})
    observations = am.Observations.from_frame(frame)
    seen: list[Any] = []

    def search(settings: StructureSettings, data: Any, progress: Any) -> SearchResult:
        seen.extend([settings, data, progress])
        return SearchResult(
            nodes=("a", "b"),
            states={"a": (-1, 1), "b": (-1, 1)},
            tables=[
                FamilyTable.from_pairs([((), 0.0)]),
                FamilyTable.from_pairs([((), -1.0), ((0,), 2.0)]),
            ],
            graph=[(), (0,)],
            network=net,
            emission={"a": am.Exact(), "b": am.Exact()},
            prior_rate=7.0,
            converged=False,
            stop_reason="Stopped early.",
            history=[{"sweep": 1}],
            n_sweeps=1,
        )

    module = types.ModuleType("asterism.learning.search.task")
    module.learn_from_observations = search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "asterism.learning.search.task", module)
    learner = paper_learner(emission=am.Gaussian((-1, 1), 0.2), max_parents=1)
    assert learner.fit(observations) is learner
    assert seen[0].max_parents == 1
    assert seen[0].emission == am.Gaussian((-1, 1), 0.2)
    assert seen[1] is observations
    assert learner.network_ is net
    assert learner.prior_ == am.GammaPrior(5.0, 7.0)
    assert not learner.converged_
    assert learner.edge_probabilities_.loc["a", "b"] == pytest.approx(1 / (1 + np.exp(-3.0)))


def test_results_that_do_not_belong_together() -> None:
    with pytest.raises(ModelError, match="not even that without parents"):
        FamilyTable.from_pairs([])
    with pytest.raises(ModelError, match="not finite"):
        FamilyTable.from_pairs([((), float("nan"))])
    net = am.glauber({"a": []})
    with pytest.raises(ModelError, match="do not belong together"):
        SearchResult(("a",), dict(net.states), [], [()], net, {}, 1.0, True, "")


def test_no_square_table_of_very_many_nodes(
    learner: am.StructureLearner, paths: am.Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_sets, "SQUARE_TABLE_LIMIT", 5)
    fresh = paper_learner(n_jobs=1).fit(paths)
    with pytest.raises(TooLargeError, match="use the long table edges_"):
        _ = fresh.edge_probabilities_
    pd.testing.assert_frame_equal(fresh.edges_, learner.edges_)


# ---- files and progress -----------------------------------------------------------------------


def test_saved_results_read_back(tmp_path: Path) -> None:
    odd = {"NA": [], "007": ["NA"], "a;b\\": ["007", "NA"]}
    paths = am.simulate(am.glauber(odd, b=1.0), 4, 6.0, seed=2)
    learner = paper_learner(prior=am.GammaPrior(2.0), required=[("NA", "a;b\\")], n_jobs=1)
    learner.fit(paths)
    folder = learner.save(tmp_path / "new" / "run")
    back = am.load(folder)
    assert back.network == learner.network_
    pd.testing.assert_frame_equal(back.edge_table, learner.edges_, check_dtype=False)
    assert back.families is not None
    assert back.families["parents"].tolist() == learner.family_scores_["parents"].tolist()
    np.testing.assert_array_equal(back.families["score"], learner.family_scores_["score"])
    assert back.history is not None
    assert back.run["stop_reason"] == learner.stop_reason_
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["settings"]["prior"] == {"shape": 2.0, "rate": "auto"}
    assert record["prior"]["rate"] == learner.prior_.rate_value
    assert record["versions"]["asterism"] == am.__version__
    assert sorted(p.name for p in folder.iterdir()) == [
        "edges.csv",
        "families.csv",
        "graph.graphml",
        "graph_style.xml",
        "history.csv",
        "network.json",
        "rates.csv",
        "run.json",
    ]
    with pytest.raises(DataError, match=r"already holds edges\.csv"):
        learner.save(folder)
    learner.save(folder, force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        learner.save(tmp_path / "file")


def test_progress_tells_the_time_left() -> None:
    now = [0.0]
    stages: list[Stage] = []
    meter = ProgressMeter(stages.append, interval=0.5, clock=lambda: now[0])
    meter.start(4, "work")
    now[0] = 0.2
    meter.advance()  # too soon after the last report
    now[0] = 2.0
    meter.advance(1)
    now[0] = 3.0
    meter.finish()
    assert [(s.done, s.elapsed, s.seconds_left, s.finished) for s in stages] == [
        (0, 0.0, None, False),
        (2, 2.0, 2.0, False),
        (2, 3.0, 0.0, True),
    ]


def test_fit_reports_every_node(paths: am.Trajectories) -> None:
    stages: list[Stage] = []
    paper_learner(n_jobs=2).fit(paths, progress=ProgressMeter(stages.append, interval=0.0))
    assert [s.done for s in stages] == [0, 1, 2, 3, 4, 5, 6, 6]
    assert stages[-1].finished
    assert {s.total for s in stages} == {6}


def test_an_exogenous_node_that_is_none_is_named() -> None:
    network = am.glauber("chain:3")
    seen = am.observe(am.simulate(network, 3, duration=4.0, seed=1), am.Exact(), 5, seed=2)
    with pytest.raises(ModelError, match="exogenous names 'Q', which is not a node; the nodes are"):
        paper_learner(exogenous=["Q"]).fit(seen)


def test_a_graph_whose_iteration_runs_away_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of many graphs without a finite score ends neither the search nor its honesty."""
    from asterism.learning.search import score

    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.0)
    noise = am.Gaussian((-1.0, 1.0), 0.4)
    seen = am.observe(am.simulate(network, 4, duration=4.0, seed=1), noise, 5, seed=2)
    settings = {"search": "exhaustive", "n_jobs": 1, "tempering": 1.0, "method": "star"}
    plain = am.StructureLearner(noise, **regrouped(**settings)).fit(seen)
    original = score.Scorer.solve

    def solve(
        scorer: score.Scorer, parents: score.Parents, *rest: Any, **more: Any
    ) -> score.GraphSolution:
        if parents[0] == (1,):
            raise score.RanAway("away")
        found = original(scorer, parents, *rest, **more)
        assert found.score < scorer.ceiling < 1e4
        return found

    monkeypatch.setattr(score.Scorer, "solve", solve)
    learner = am.StructureLearner(noise, **regrouped(**settings)).fit(seen)
    assert 0.0 < learner.edge_probabilities_.loc["B", "A"] < 1e-9
    assert learner.edge_probabilities_.loc["A", "B"] == pytest.approx(
        plain.edge_probabilities_.loc["A", "B"], abs=0.05
    )
    assert not learner.converged_
    assert "did not converge" in learner.stop_reason_


def test_an_interrupted_fit_leaves_no_old_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.0)
    paths = am.simulate(network, 3, duration=3.0, seed=0)
    learner = am.StructureLearner(max_parents=1).fit(paths)
    fit = am.ParameterLearner(network.graph).fit(paths)
    assert len(learner.edges_)
    assert fit.network_

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asterism.learning.search.complete.learn_from_trajectories", interrupted)
    monkeypatch.setattr("asterism.learning.em.parameter_learner.fit_parameters", interrupted)
    for one, attribute in ((learner, "edges_"), (fit, "network_")):
        with pytest.raises(KeyboardInterrupt):
            one.fit(paths)  # type: ignore[attr-defined]
        with pytest.raises((NotFittedError, AttributeError)):
            getattr(one, attribute)
