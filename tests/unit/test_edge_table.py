"""What the table of edges says: priors, Bayes factors, effects, tempering, and one graph."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import ModelError
from asterism.learning.search.settings import StructureSettings, numbered_prior
from tests.command_line import invoke
from tests.flat_settings import regrouped

NODES = ("A", "B", "C", "D", "E")


def enumerated(prior, child):
    """Prior probability of every edge, by listing all families."""
    rows = prior.families(child)
    weights = np.exp(prior.log_prior(child, rows))
    return np.array(
        [weights[(rows == p).any(axis=1)].sum() / weights.sum() for p in range(len(NODES))]
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edge": "sparse"},
        {"edge": "sparse", "max_parents": 3, "min_parents": 1},
        {"edge": "by_size", "required": [("B", "A")], "max_parents": 3},
        {"edge": {("B", "A"): 3.0, ("C", "A"): -40.0}, "forbidden": [("D", "A")]},
        {"edge": "sparse", "probabilities": {("B", "A"): 0.9, ("E", "A"): 0.001}},
        {"max_parents": 0},
    ],
)
def test_prior_probabilities_agree_with_a_list_of_all_families(options):
    options = dict(options)
    max_parents = options.pop("max_parents", None)
    known = am.StructurePrior(**{"edge": "uniform", **options})
    prior = numbered_prior(NODES, max_parents, known)
    for child in range(2):
        np.testing.assert_allclose(
            prior.edge_probabilities(child), enumerated(prior, child), atol=1e-12
        )


def test_sparse_expects_less_than_one_parent_per_node_and_half_of_that_from_paths():
    settings = StructureSettings()
    for n in (3, 10, 40):
        nodes = tuple(f"N{i}" for i in range(n))
        measured = settings.numbered_prior(nodes).edge_probabilities(0).sum()
        paths = settings.numbered_prior(nodes, from_paths=True).edge_probabilities(0).sum()
        assert 0.45 < measured < 0.9
        assert 0.25 < paths < 0.65 * measured


def test_edge_prior_refuses_what_is_no_probability():
    table = pd.DataFrame({"parent": ["B"], "child": ["A"], "probability": [0.7]})
    prior = numbered_prior(NODES, None, am.StructurePrior(probabilities=table))
    assert prior.pair_log_odds[0][1] == pytest.approx(np.log(0.7 / 0.3))
    for given, words in (
        ({("B", "A"): 1.0}, "must be a probability between 0 and 1"),
        ({("B", "A"): "often"}, "must be a probability"),
        ({("X", "A"): 0.5}, "edge_prior names 'X'"),
        ({("A", "A"): 0.5}, "self-loop"),
        (table.drop(columns="probability"), "no column 'probability'"),
        (pd.concat([table, table]), "twice"),
        (0.3, "edge_prior must be"),
    ):
        with pytest.raises(ModelError, match=words):
            numbered_prior(NODES, None, am.StructurePrior(probabilities=given))


@pytest.fixture(scope="module")
def paths():
    parents = {"a": [], "b": ["a"], "c": ["b"], "d": []}
    return am.simulate(am.glauber(parents, b=1.2), n_trajectories=30, duration=10.0, seed=3)


def test_tables_of_large_networks_keep_the_likeliest_of_each_child_and_say_what_is_left_out(
    paths, monkeypatch
):
    from asterism.learning.search import edge_table
    from asterism.results import summary
    from asterism.results.run import Run

    monkeypatch.setattr(edge_table, "MOST_LISTED_NODES", 3)
    monkeypatch.setattr(edge_table, "LARGE_FLOOR", 0.999)
    monkeypatch.setattr(edge_table, "LIKELIEST", 2)
    monkeypatch.setattr(summary, "MOST_LISTED_NODES", 3)
    learner = am.StructureLearner(max_parents=1, n_jobs=1, threshold=1.0).fit(paths)
    square = learner.edge_probabilities_
    for child, rows in learner.edges_.groupby("child"):
        likeliest = set(square[child].drop(child).nlargest(2).index)
        assert likeliest <= set(rows["parent"])
        assert len(rows) < 3
    said = " ".join(summary.sentences(Run.from_learner(learner)))
    assert f"leaves out {12 - len(learner.edges_)} pairs" in said


@pytest.fixture(scope="module")
def learned(paths):
    return am.StructureLearner(n_jobs=1, method="star").fit(paths)


def test_bayes_factors_are_odds_over_odds(learned):
    edges = learned.edges_
    inside = edges[edges["probability"].between(1e-6, 1 - 1e-6)]
    odds = inside["probability"] / (1 - inside["probability"])
    before = inside["prior"] / (1 - inside["prior"])
    np.testing.assert_allclose(inside["bayes_factor"], odds / before, rtol=1e-6)
    assert np.isfinite(edges["bayes_factor"]).all()
    assert (edges["error"] == 0.0).all()


def test_required_edges_gain_nothing_from_the_data(paths):
    found = (
        am.StructureLearner(
            n_jobs=1, structure_prior=am.StructurePrior(required=[("d", "a")]), method="star"
        )
        .fit(paths)
        .edges_
    )
    row = found[(found["parent"] == "d") & (found["child"] == "a")].iloc[0]
    assert (row["probability"], row["prior"], row["bayes_factor"]) == (1.0, 1.0, 1.0)


def test_the_graph_is_the_probable_edges(paths, learned):
    edges = learned.edges_
    assert (edges["in_graph"] == (edges["probability"] >= 0.5)).all()
    assert sorted(learned.graph_.edges) == [("a", "b"), ("b", "c")]
    everything = am.StructureLearner(threshold=0.01, n_jobs=1, method="star").fit(paths)
    assert (everything.edges_["in_graph"] == (everything.edges_["probability"] >= 0.01)).all()
    assert everything.graph_.number_of_edges() > 2
    assert set(everything.network_.graph.edges) == set(everything.graph_.edges)
    best = am.StructureLearner(graph="map", n_jobs=1, method="star").fit(paths)
    top = best.family_scores_.groupby("node", sort=False).first()["parents"]
    assert {n: tuple(best.network_.parents[n]) for n in "abcd"} == dict(top)
    for options, words in (
        ({"graph": "best"}, "graph is 'best'; valid are 'probable', 'map'"),
        ({"threshold": 0.0}, "threshold must lie above 0"),
        ({"tempering": 2.0}, "tempering must be"),
    ):
        with pytest.raises(ModelError, match=words):
            am.StructureLearner(**regrouped(**options)).fit(paths)


def test_effects_point_the_right_way(learned):
    inside = learned.edges_[learned.edges_["in_graph"]]
    assert (inside["effect"] == "raises").all()
    assert (inside["fold_change_lower"] > 1.0).all()
    assert (inside["fold_change_lower"] < inside["fold_change"]).all()
    assert (inside["fold_change"] < inside["fold_change_upper"]).all()
    # spins that align: up and down rates e^{±b}, twice over, as tanh
    exact = ((1 + np.tanh(1.2)) / (1 - np.tanh(1.2))) ** 2
    assert ((inside["fold_change_lower"] < exact) & (exact < inside["fold_change_upper"])).any()
    outside = learned.edges_[~learned.edges_["in_graph"]]
    # every edge that a drawing can show has its sign, also below twice its prior
    assert (outside["probability"] < 2 * outside["prior"]).any()
    assert (outside["effect"] != "").all()
    assert outside["fold_change"].notna().all()


@pytest.mark.parametrize("method", ["paths", "star", "sample"])
def test_edges_below_the_threshold_have_the_effects_of_the_family_that_holds_them(method):
    paths = am.simulate(
        am.glauber({"a": [], "b": ["a"], "c": ["b"], "d": []}, b=1.2), 10, duration=6.0, seed=3
    )
    data = paths
    settings: dict = {"n_jobs": 1}
    if method != "paths":
        emission = am.Gaussian(means=(-1, 1), scale=0.4)
        data = am.observe(paths, emission, n_observations=10, seed=1)
        settings |= {"emission": emission, "states": dict.fromkeys("abcd", (-1, 1))}
        settings |= {"method": method, "sampling": am.Sampling(max_draws=600)}
    shown = am.StructureLearner(**settings).fit(data).edges_
    hidden = am.StructureLearner(threshold=0.9999999999, **settings).fit(data).edges_
    assert shown["in_graph"].any()
    assert not hidden["in_graph"].any()
    both = shown.merge(hidden, on=["parent", "child"], suffixes=("", "_hidden"))
    both = both[both["in_graph"]]
    assert (both["effect"] == both["effect_hidden"]).all()
    # the star solves the rest of the graph anew; other families are the same by chance only
    alone = both[~both["child"].duplicated(keep=False)]
    tolerance = 0.5 if method == "star" else 1e-6
    np.testing.assert_allclose(
        np.log(alone["fold_change"]), np.log(alone["fold_change_hidden"]), atol=tolerance
    )
    assert (hidden["effect"].iloc[:10] != "").all()
    assert np.isfinite(hidden["fold_change_lower"].iloc[:10]).all()


def test_tempering_pulls_towards_the_prior(paths, learned):
    half = am.StructureLearner(n_jobs=1, accuracy=am.Accuracy(tempering=0.5), method="star").fit(
        paths
    )
    both = learned.edges_.merge(half.edges_, on=["parent", "child"], suffixes=("", "_half"))
    gain, gain_half = np.log(both["bayes_factor"]), np.log(both["bayes_factor_half"])
    assert (np.abs(gain_half) <= np.abs(gain) + 1e-9).all()
    assert half.tempering_ == 0.5
    assert learned.tempering_ == 1.0
    np.testing.assert_allclose(
        both["error_half"], np.abs(both["probability"] - both["probability_half"]), atol=1e-12
    )
    assert half.family_scores_.groupby("node")["probability"].sum().to_numpy() == pytest.approx(1.0)


def test_the_table_survives_a_folder(learned, tmp_path):
    learned.save(tmp_path / "run")
    again = am.load(tmp_path / "run").edges
    pd.testing.assert_frame_equal(again, learned.edges_, check_dtype=False)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["tempering"] == 1.0


def test_every_pair_of_columns_is_there(learned):
    wanted = ["parent", "child", "probability", "in_graph", "prior", "bayes_factor", "effect"]
    wanted += ["fold_change", "fold_change_lower", "fold_change_upper", "error", "caveat"]
    assert learned.edges_.columns.tolist() == wanted
    pairs = set(itertools.permutations("abcd", 2))
    assert set(zip(learned.edges_["parent"], learned.edges_["child"])) <= pairs


def test_convert_keeps_what_is_known_about_edges(learned, tmp_path):
    learned.save(tmp_path / "run")
    table, graph = tmp_path / "run" / "edges.csv", tmp_path / "edges.graphml"
    assert invoke("convert", table, graph).exit_code == 0
    assert invoke("convert", graph, tmp_path / "again.csv").exit_code == 0
    before, after = pd.read_csv(table), pd.read_csv(tmp_path / "again.csv")
    both = before.merge(after, on=["parent", "child"], suffixes=("", "_again"))
    assert len(both) == len(after) > 0
    for name in ("probability", "prior", "bayes_factor", "fold_change", "error"):
        np.testing.assert_allclose(both[name], both[f"{name}_again"])
    assert (both["effect"].fillna("") == both["effect_again"].fillna("")).all()
