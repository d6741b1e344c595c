"""Edges that one unmeasured cause explains as well carry a caveat; true loops do not."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import ModelError
from asterism.learning.search.unmeasured import UnmeasuredCause, tied_groups
from asterism.sampling import model_posterior
from tests.command_line import invoke

NOISE = am.Gaussian((0.0, 1.0), 0.25)


def driven(parents: dict[str, list[str]], seen: str, seed: int) -> am.Observations:
    """Each node follows the mean of its parents, strongly."""
    rates = {}
    for node, above in parents.items():
        table = np.zeros((*(2,) * len(above), 2, 2))
        for place in np.ndindex(*(2,) * len(above)):
            pull = 6.0 ** (2.0 * np.mean(place) - 1.0) if above else 1.0
            up, down = 0.5 * pull, 0.5 / pull
            table[place] = [[-up, up], [down, -down]]
        rates[node] = table
    paths = am.simulate(am.Network(parents, rates), 24, duration=10.0, seed=seed)
    return am.observe(paths, NOISE, 16, seed=seed + 50).select(nodes=list(seen))


def learned(seen: am.Observations) -> am.StructureLearner:
    return am.StructureLearner(NOISE, 2, method="star").fit(seen)


def test_groups_are_components_dense_parts_and_pairs() -> None:
    small = networkx.DiGraph([("A", "B"), ("B", "C"), ("E", "F"), ("F", "E"), ("G", "H")])
    assert [group.nodes for group in tied_groups(small)] == [("A", "B", "C"), ("E", "F")]
    long = networkx.DiGraph([(a, b) for a, b in zip("ABCDEFG", "BCDEFGH")] + [("C", "A")])
    groups = dict(tied_groups(long))
    assert groups["A", "B", "C"] == 0
    assert all(2 < len(group) <= 5 for group in groups)
    star = networkx.DiGraph([("M", n) for n in "ABCDEFG"] + [("A", "B"), ("B", "C")])
    (largest, *_) = tied_groups(star)
    assert {"M", "A", "B", "C"} < set(largest.nodes)
    assert len(largest.nodes) == 5
    assert largest.among == 8


def test_a_hidden_cause_is_named_and_changes_no_probability(tmp_path: Path) -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"], "D": ["H"]}, "ABCD", 0)
    learner = learned(seen)
    before = learner.edges_["probability"].copy()
    causes = learner.unmeasured_causes(seen)
    assert causes[0].nodes == ("A", "B", "C", "D")
    assert causes[0].gain > 3.0
    edges = learner.edges_
    assert (edges.loc[edges["in_graph"], "caveat"] == "could be one unmeasured cause").all()
    assert (edges.loc[~edges["in_graph"], "caveat"] == "").all()
    pd.testing.assert_series_equal(edges["probability"], before)
    seen.to_frame().to_csv(tmp_path / "data.csv", index=False)
    flags = ("--method", "star", "--emission", "gaussian:0,1:0.25", "-o", tmp_path / "RUN")
    result = invoke("learn", tmp_path / "data.csv", *flags)
    assert "ne unmeasured cause explains A, B, C, D better" in result.output
    assert "unmeasured cause" in (tmp_path / "RUN" / "edges.csv").read_text()
    assert "unmeasured cause" in (tmp_path / "RUN" / "report.html").read_text()


@pytest.mark.parametrize(
    "parents",
    [
        {"A": ["C"], "B": ["A"], "C": ["B"]},
        {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]},
    ],
    ids=["loop", "chain"],
)
def test_true_loops_and_chains_carry_no_caveat(parents: dict[str, list[str]]) -> None:
    seen = driven(parents, "".join(parents), 2)
    learner = learned(seen)
    causes = learner.unmeasured_causes(seen)
    assert causes
    assert not any(cause.is_likely for cause in causes)
    assert (learner.edges_["caveat"] == "").all()


def test_labels_seen_without_error_are_compared_too() -> None:
    parents: dict[str, list[str]] = {"A": [], "B": ["A"], "C": ["B"]}
    paths = am.simulate(am.glauber(parents, b=1.5), 40, duration=10.0, seed=3)
    seen = am.observe(paths, am.Exact(), 12, seed=4)
    learner = am.StructureLearner({n: am.Exact() for n in parents}, 1, method="star").fit(seen)
    assert [cause.nodes for cause in learner.unmeasured_causes(seen)] == [("A", "B", "C")]


def test_groups_that_are_not_compared_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    parents: dict[str, list[str]] = {"A": [], "B": ["A"], "C": ["B"]}
    learner = learned(driven(parents, "ABC", 2))
    seen = driven(parents, "ABC", 2)
    assert learner.unmeasured_causes(seen)
    assert "other group" not in learner.checks_left_out_
    monkeypatch.setattr("asterism.learning.search.unmeasured.MOST_GROUPS", 0)
    assert learner.unmeasured_causes(seen) == []
    assert "1 other group of nodes" in learner.checks_left_out_


def test_more_graphs_to_choose_from_ask_for_a_larger_margin() -> None:
    edges = (("A", "B"), ("B", "C"), ("C", "D"))
    chain = UnmeasuredCause(tuple("ABCD"), edges, -13.0)
    assert chain.is_likely
    assert not UnmeasuredCause(tuple("ABC"), edges[:2], -13.0).is_likely
    assert "more than 14" in chain.sentence


def drawn(seen: am.Observations, hidden: int, **more: object) -> am.StructureLearner:
    return am.StructureLearner(
        NOISE,
        2,
        method="sample",
        search=am.Search(hidden=hidden),
        sampling=am.Sampling(max_draws=400),
        n_jobs=1,
        **more,  # type: ignore[arg-type]
    ).fit(seen)


@pytest.mark.slow
def test_a_hidden_node_takes_the_place_of_false_edges() -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"], "D": ["H"]}, "ABCD", 0)
    without, learner = drawn(seen, 0), drawn(seen, 1)
    assert learner.hidden_ == {"hidden1": ("A", "B", "C", "D")}
    chance = learner.edge_probabilities_
    assert (chance.loc["hidden1", list("ABCD")] > 0.5).sum() >= 3

    def among(one: am.StructureLearner) -> float:
        return float(one.edge_probabilities_.loc[list("ABCD"), list("ABCD")].to_numpy().sum())

    assert among(learner) < 0.5 * among(without)
    nodes = learner.nodes_.set_index("node")["stands_for"]
    assert nodes["hidden1"] == "A, B, C, D"
    assert nodes["A"] == ""
    assert all("hidden1" not in cause.nodes for cause in learner.unmeasured_causes(seen))
    again = drawn(seen, 1)
    pd.testing.assert_frame_equal(again.edge_probabilities_, chance)


def test_without_anything_in_common_no_hidden_node_is_added() -> None:
    seen = driven({"A": [], "B": [], "hidden1": []}, "AB", 5)
    learner = drawn(seen, 2)
    assert learner.hidden_ == {}
    assert "No hidden node was added" in learner.stage_
    assert list(learner.network_.nodes) == ["A", "B"]


def test_fewer_groups_than_asked_for_and_names_that_are_taken() -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"]}, "ABC", 0)
    learner = drawn(seen.rename({"A": "hidden1"}), 2)
    assert list(learner.hidden_) == ["hidden2"]
    assert "Only 1 of 2 hidden nodes was added" in learner.stage_


class Killed(BaseException):
    """Nothing may catch it, as nothing can catch a kill."""


def test_a_run_with_hidden_nodes_that_was_killed_ends_as_if_undisturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"]}, "ABC", 0)
    # the first of several checkpoints
    monkeypatch.setattr(model_posterior, "_FIRST_JUDGED", 60)

    def learner(folder: str, resume: bool = False) -> am.StructureLearner:
        return am.StructureLearner(
            NOISE,
            2,
            method="sample",
            search=am.Search(hidden=1, journal=tmp_path / folder / "journal.db", resume=resume),
            sampling=am.Sampling(chains=2, max_draws=200),
            n_jobs=1,
        )

    original = model_posterior._write_checkpoint

    def write_and_die(*arguments: object) -> None:
        original(*arguments)  # type: ignore[arg-type]
        raise Killed

    whole = learner("whole").fit(seen)
    assert whole.hidden_
    with monkeypatch.context() as patched:
        patched.setattr(model_posterior, "_write_checkpoint", write_and_die)
        with pytest.raises(Killed):
            learner("killed").fit(seen)
    again = learner("killed", resume=True).fit(seen)
    assert again.hidden_ == whole.hidden_
    pd.testing.assert_frame_equal(again.edges_, whole.edges_)


def test_where_hidden_nodes_cannot_be() -> None:
    parents: dict[str, list[str]] = {"A": [], "B": ["A"]}
    paths = am.simulate(am.glauber(parents, b=1.0), 5, duration=5.0, seed=0)
    search = am.Search(hidden=1)
    with pytest.raises(ModelError, match="complete paths"):
        am.StructureLearner(search=search).fit(paths)
    seen = am.observe(paths, NOISE, 5, seed=1)
    with pytest.raises(ModelError, match="needs draws"):
        am.StructureLearner(NOISE, method="star", search=search).fit(seen)
    with pytest.raises(ModelError, match="move continuously"):
        am.StructureLearner(am.Continuous(), search=search).fit(seen)
    with pytest.raises(ModelError, match="name the node in the graph"):
        am.structure_score(parents, seen, NOISE, search=search)
    with pytest.raises(ModelError, match="hidden must be a whole number ≥ 0, got -1"):
        am.StructureLearner(NOISE, search=am.Search(hidden=-1)).fit(seen)


@pytest.mark.slow
def test_the_command_writes_hidden_nodes_and_goes_on(tmp_path: Path) -> None:
    seen = driven({"H": [], "A": ["H"], "B": ["H"], "C": ["H"], "D": ["H"]}, "ABCD", 0)
    seen.to_frame().to_csv(tmp_path / "data.csv", index=False)
    folder = tmp_path / "RUN"
    flags = ("--emission", "gaussian:0,1:0.25", "--hidden", 1, "--null", 0, "-o", folder)
    result = invoke("learn", tmp_path / "data.csv", *flags)
    assert "hidden1 was not measured" in result.output
    edges = pd.read_csv(folder / "edges.csv")
    assert (edges.loc[edges["parent"] == "hidden1", "probability"] > 0.5).sum() >= 3
    assert "hidden1" in am.load(folder).network.nodes
    graph = networkx.read_graphml(folder / "graph.graphml")
    assert graph.nodes["hidden1"]["stands_for"] == "A, B, C, D"
    assert "stands_for" not in graph.nodes["A"]
    assert graph.out_degree("hidden1") >= 3
    assert "hidden1 was not measured" in (folder / "report.html").read_text()
    invoke("learn", tmp_path / "data.csv", *flags, "--resume")
    pd.testing.assert_frame_equal(pd.read_csv(folder / "edges.csv"), edges)
