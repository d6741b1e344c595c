"""StructureLearner with continuous nodes: edges, stimuli, what is known beforehand, refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError, DataError, ModelError
from tests.shared_data import DATA, needs


@cache
def table(push: float = 0.0, seed: int = 3) -> pd.DataFrame:
    """A raises B, B lowers C; something pushes A until 10, another way in every trajectory."""
    rng = np.random.default_rng(seed)
    rows, step = [], 0.05
    for d in range(6):
        x, strength = np.zeros(3), push * rng.normal()
        for i in range(400):
            if i % 20 == 0:
                rows.append([f"t{d}", i * step, *(10.0 + 2.0 * x)])
            drift = -0.3 * x + np.array([strength * (i * step < 10.0), 0.5 * x[0], -0.5 * x[1]])
            x = x + drift * step + 0.4 * np.sqrt(step) * rng.normal(size=3)
    return pd.DataFrame(rows, columns=["trajectory", "time", *"ABC"])


def learned(data: am.Observations, **settings: Any) -> am.StructureLearner:
    return am.StructureLearner(am.Continuous(), **settings).fit(data, progress=False)


@cache
def chain() -> am.StructureLearner:
    return learned(am.Observations.from_frame(table()))


@pytest.mark.smoke
def test_recovers_a_chain_and_says_what_edges_do() -> None:
    learner = chain()
    assert set(learner.graph_.edges) == {("A", "B"), ("B", "C")}
    edges = learner.edges_.set_index(["parent", "child"])
    assert edges.loc[("A", "B"), "effect"] == "raises"
    assert edges.loc[("B", "C"), "effect"] == "lowers"
    shift = edges.loc[("A", "B")]
    assert 0.0 < shift["shift_lower"] < shift["shift"] < shift["shift_upper"]
    assert edges["fold_change"].isna().all()
    nodes = learner.nodes_.set_index("node")
    assert (nodes["kind"] == "continuous").all()
    assert nodes.loc["B", "decay_time_lower"] < 1 / 0.3 < nodes.loc["B", "decay_time_upper"]
    assert learner.converged_
    assert learner.targets_.empty
    assert len(learner.sample_graphs(2)) == 2
    assert "A" in learner._repr_html_()


def test_every_allowed_pair_has_a_probability_above_zero() -> None:
    matrix = chain().edge_probabilities_.to_numpy()
    assert (matrix[~np.eye(3, dtype=bool)] > 0.0).all()


def test_what_is_known_beforehand_is_respected() -> None:
    data = am.Observations.from_frame(table())
    known = am.StructurePrior(required=[("C", "A")], forbidden=[("A", "B")], exogenous=())
    found = learned(data, structure_prior=known).edge_probabilities_
    assert found.loc["C", "A"] == pytest.approx(1.0)
    assert found.loc["A", "B"] == 0.0
    outside = am.StructurePrior(exogenous=["B"])
    found = learned(data, structure_prior=outside, max_parents=1).edge_probabilities_
    assert (found["B"] == 0.0).all()
    assert (found.sum() <= 1.0 + 1e-9).all()
    doubt = am.StructurePrior(probabilities={("A", "B"): 1e-9})
    found = learned(data, structure_prior=doubt).edge_probabilities_
    assert found.loc["A", "B"] < chain().edge_probabilities_.loc["A", "B"]


def test_prior_odds_count_in_the_choice_of_candidates() -> None:
    """Two parents with little evidence, both near certain beforehand, in a network too large for
    all pairs."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 20, 40))
    for i in range(1, 20):
        values[:, i] = 0.7 * values[:, i - 1] + 0.7 * values[:, i]
    names = [f"n{i:02d}" for i in range(40)]
    frame = pd.DataFrame(values.reshape(-1, 40), columns=names)
    frame.insert(0, "time", np.tile(np.arange(20.0), 2))
    frame.insert(0, "trajectory", np.repeat(["a", "b"], 20))
    data = am.Observations.from_frame(frame)
    plain = learned(data).edge_probabilities_["n00"].drop("n00")
    least = plain.nsmallest(2).index
    prior = am.StructurePrior(probabilities={(p, "n00"): 0.999 for p in least})
    told = learned(data, structure_prior=prior).edge_probabilities_["n00"]
    assert (told[least] > 0.9).all()


def test_an_unknown_stimulus_is_found_and_a_known_one_used() -> None:
    data = am.Observations.from_frame(table(0.7).assign(D=table(seed=4)["A"]))
    learner = learned(data)
    assert "until 10." in learner.stage_
    assert learner.history_[0]["switching_time"] == pytest.approx(10.0)
    told = data.with_stimuli(pd.DataFrame({"name": ["dose"], "trajectory": [None], "end": [10.0]}))
    learner = learned(told)
    hit = learner.targets_.set_index("node")["probability"]
    assert set(learner.targets_["stimulus"]) == {"dose"}
    assert hit["A"] > 0.9
    assert hit.idxmax() == "A"
    assert hit["D"] < 0.5  # B and C feel it through A, which is hard to tell apart
    assert {("A", "B"), ("B", "C")} <= set(learner.graph_.edges)


def test_order_and_names_of_columns_do_not_matter() -> None:
    frame = table()
    other = learned(am.Observations.from_frame(frame[["trajectory", "time", *"CAB"]]))
    pd.testing.assert_frame_equal(other.edges_, chain().edges_)
    assert list(other.edge_probabilities_.columns) == list("CAB")
    new = {"A": "z", "B": "y", "C": "x"}
    renamed = learned(am.Observations.from_frame(frame.rename(columns=new)))
    before = chain().edge_probabilities_.rename(index=new, columns=new)
    after = renamed.edge_probabilities_
    pd.testing.assert_frame_equal(after, before.loc[after.index, after.columns], rtol=1e-6)


def test_labels_have_parents_unless_set_from_outside() -> None:
    frame = table().assign(L=np.where(table()["A"] > 10.0, "high", "low"))
    data = am.Observations.from_frame(frame)
    by_node = {**dict.fromkeys("ABC", am.Continuous()), "L": am.Exact()}
    for emission in (am.Continuous(), by_node):
        learner = am.StructureLearner(emission, n_jobs=1).fit(data, progress=False)
        assert learner.not_scored_ == []
        assert learner.edge_probabilities_["L"].drop("L").gt(0.0).all()
        assert (learner.edge_probabilities_.loc["L", list("ABC")] > 0.0).all()
    outside = am.StructurePrior(exogenous=["L"])
    given = am.StructureLearner(by_node, structure_prior=outside).fit(data, progress=False)
    assert (given.edge_probabilities_["L"] == 0.0).all()


def test_beside_stimuli_labels_are_parents_only_and_edges_into_them_unknown() -> None:
    frame = table().assign(L=np.where(table()["A"] > 10.0, "high", "low"))
    told = pd.DataFrame({"name": ["dose"], "trajectory": [None], "end": [10.0]})
    learner = am.StructureLearner({**dict.fromkeys("ABC", am.Continuous()), "L": am.Exact()})
    learner.fit(am.Observations.from_frame(frame).with_stimuli(told), progress=False)
    assert learner.not_scored_ == ["L"]
    assert learner.edge_probabilities_["L"].drop("L").isna().all()
    assert (learner.edge_probabilities_.loc["L", list("ABC")] > 0.0).all()


def test_stimuli_survive_selection_and_bad_rows_are_named() -> None:
    data = am.Observations.from_frame(table())
    rows = {"name": ["a", "b"], "trajectory": ["t1", "t2"], "start": [np.nan, 2], "end": [5, None]}
    told = data.with_stimuli(pd.DataFrame(rows))
    assert told.stimuli is not None
    assert told.stimuli["start"].tolist() == [0.0, 2.0]
    assert told.stimuli["end"].tolist() == [5.0, 19.0]
    for kept in (told[1], told.select(["t1"]), told.select(["t1"], nodes=["A"])):
        assert kept.stimuli is not None
        assert kept.stimuli["name"].tolist() == ["a"]
    scaled = told.scale_time(2.0).stimuli
    assert scaled is not None
    assert scaled["end"].tolist() == [10.0, 38.0]
    rows["trajectory"][1] = "nobody"
    with pytest.raises(DataError, match="nobody"):
        data.with_stimuli(pd.DataFrame(rows))
    late = pd.DataFrame({"name": ["a"], "trajectory": ["t1"], "start": [99.0], "end": [None]})
    with pytest.raises(DataError, match="nothing lies"):
        data.with_stimuli(late)


def test_what_continuous_nodes_cannot_do_is_said() -> None:
    data = am.Observations.from_frame(table())
    network = am.random_network(3, seed=0)
    with pytest.raises(ModelError, match="closed form"):
        learned(data, method="clusters")
    mixed = {"A": am.Continuous(), "B": am.Continuous(), "C": am.Gaussian(learn=True)}
    with pytest.raises(ModelError, match="'C'"):
        am.StructureLearner(mixed).fit(data)
    graph: dict[str, list[str]] = {"A": [], "B": ["A"], "C": []}
    with pytest.raises(AsterismError, match="no states"):
        am.ParameterLearner(graph, am.Continuous()).fit(data)
    named = data.rename(dict(zip("ABC", network.nodes)))
    with pytest.raises(AsterismError, match="no states"):
        am.infer(network, named, am.Continuous())
    with pytest.raises(AsterismError, match="no states"):
        am.structure_score(graph, data, am.Continuous())
    with pytest.raises(ModelError, match="continuously"):
        _ = chain().network_.compiled


def test_the_network_has_drifts_and_is_saved(tmp_path: Path) -> None:
    network = chain().network_
    assert network.parents == {"A": (), "B": ("A",), "C": ("B",)}
    raised, lowered = network.drifts["B"], network.drifts["C"]
    # as simulated: decay .3, weights .5 and −.5; values were 10 + 2 x
    assert raised.linear["A"] / raised.decay == pytest.approx(0.5 / 0.3, rel=0.35)
    assert lowered.linear["B"] / lowered.decay == pytest.approx(-0.5 / 0.3, rel=0.35)
    assert raised.diffusion == pytest.approx(2 * 0.4, rel=0.4)
    nodes = chain().nodes_.set_index("node")
    assert 1.0 / raised.decay == pytest.approx(nodes.loc["B", "decay_time"], rel=0.3)
    network.save(tmp_path / "network.json")
    assert am.Network.load(tmp_path / "network.json") == network
    run = am.load(chain().save(tmp_path / "run"))
    assert run.network == network
    pd.testing.assert_frame_equal(
        run.tables["nodes"]["decay_time"].to_frame(), chain().nodes_["decay_time"].to_frame()
    )
    pd.testing.assert_frame_equal(
        run.edge_table[["parent", "child", "shift"]],
        chain().edges_[["parent", "child", "shift"]],
        check_dtype=False,
    )
    found = am.compare([run, run], ["one", "two"]).edges
    assert set(found.loc[found["in_graph"], "change"]) == {"kept"}


@pytest.mark.slow
def test_draws_graphs_the_same_for_any_number_of_jobs() -> None:
    data = am.Observations.from_frame(table())
    sampling = am.Sampling(chains=2, max_draws=200)
    one, two = (learned(data, method="sample", n_jobs=n, sampling=sampling) for n in (1, 2))
    assert one.method_ == "sample"
    pd.testing.assert_frame_equal(one.edges_, two.edges_)
    assert set(one.graph_.edges) == {("A", "B"), ("B", "C")}
    assert one.edges_["error"].between(0.0, 0.3).all()
    assert "200 sweeps in each of 2 chains" in one.stop_reason_
    tree = one.to_arviz()
    assert tree["posterior"]["edges"].shape == (2, 200, 6)
    assert len(one.sample_graphs(3)) == 3
    closed = chain().edge_probabilities_
    assert np.abs(one.edge_probabilities_ - closed).to_numpy().max() < 0.5


def test_where_much_is_missing_both_answers_are_averaged() -> None:
    frame, rng = table(), np.random.default_rng(0)
    for column in "ABC":
        frame.loc[rng.random(len(frame)) < 0.4, column] = np.nan
    data = am.Observations.from_frame(frame)
    closed, both = learned(data, method="star"), learned(data)
    drawn = learned(data, method="sample", sampling=am.Sampling(max_draws=400))
    assert closed.method_ == "closed form"
    assert "are missing" in both.stage_
    expected = (closed.edge_probabilities_ + drawn.edge_probabilities_) / 2
    # draws of 400 and of at least 400 sweeps, with other beginnings
    assert np.abs(both.edge_probabilities_ - expected).to_numpy().max() < 0.1


def test_evidence_decides_the_kind() -> None:
    learner = am.StructureLearner().fit(am.Observations.from_frame(table()), progress=False)
    nodes = learner.nodes_.set_index("node")
    assert (nodes["kind"] == "continuous").all()
    assert (nodes["log_evidence_continuous"] > nodes["log_evidence_jumps"]).all()
    assert set(learner.graph_.edges) == {("A", "B"), ("B", "C")}


def test_columns_that_jump_are_learned_as_such() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for d in range(4):
        state = np.zeros(2)
        for t in range(30):
            state = np.where(rng.random(2) < 0.15, 1 - state, state)
            rows.append([d, float(t), *(3.0 * state + 0.2 * rng.normal(size=2))])
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "A", "B"])
    learner = am.StructureLearner().fit(am.Observations.from_frame(frame), progress=False)
    nodes = learner.nodes_.set_index("node")
    assert (nodes["kind"] == "jumps").all()
    assert nodes["levels"].tolist() == [2, 2]
    assert learner.network_.n_nodes == 2


@needs("dream4/insilico_size10_1_timeseries.csv")
def test_ranks_the_edges_of_dream4() -> None:
    from sklearn.metrics import average_precision_score

    for name in ("size10_1", "size10_2"):
        frame = pd.read_csv(DATA / "dream4" / f"insilico_{name}_timeseries.csv")
        data = am.Observations.from_frame(frame.rename(columns={"series": "trajectory"}))
        truth = pd.read_csv(DATA / "dream4" / f"insilico_{name}_goldstandard_edges.csv")
        found = learned(data).edge_probabilities_
        edges = set(zip(truth["source"], truth["target"]))
        pairs = [(p, c) for p in found.index for c in found.columns if p != c]
        score = average_precision_score([x in edges for x in pairs], [found.loc[x] for x in pairs])
        assert score >= 0.6
