"""What ``learn`` claims and does not claim: sentences, priors, graphs, permuted data."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.commands.chance import chance_of, orders_of, reordered
from asterism.commands.console import Console
from asterism.data.formats.graphml import read_graphml
from asterism.errors import AsterismError
from tests.command_line import invoke
from tests.flat_settings import regrouped


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete paths, learned in no time: five nodes without edges, and a chain of three."""
    folder = tmp_path_factory.mktemp("data")
    empty = am.glauber({n: [] for n in "ABCDE"}, a=1.0)
    am.simulate(empty, n_trajectories=12, duration=10.0, seed=3).save(folder / "empty.csv")
    chain = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=1.0)
    am.simulate(chain, n_trajectories=20, duration=10.0, seed=1).save(folder / "chain.csv")
    return folder


def learned(data: Path, folder: Path, *flags: object) -> tuple[str, pd.DataFrame]:
    result = invoke("learn", data, "-o", folder, *flags)
    assert result.exit_code == 0, result.output
    return result.output, pd.read_csv(folder / "edges.csv")


def test_nothing_is_said_to_be_nothing(files: Path, tmp_path: Path) -> None:
    words, edges = learned(files / "empty.csv", tmp_path / "run")
    said = " ".join(words.split())
    assert "No edge reaches a probability of 0.5" in said
    assert "before the data" in said
    expected = edges["probability"].head(10).sum()
    assert "No single edge is certain; the ten most probable contain" in said
    assert f"about {expected:.1f} true ones" in said
    assert (edges["effect"].head(10) != "").all()
    assert "Few edges are expected: an edge has a probability of" in said
    assert not edges["in_graph"].any()
    network = am.Network.load(tmp_path / "run" / "network.json")
    assert network.graph.number_of_edges() == 0
    drawn = networkx.read_graphml(tmp_path / "run" / "graph.graphml")
    assert drawn.number_of_edges() == len(edges.head(10))
    row = edges.iloc[0]
    held = drawn.edges[row["parent"], row["child"]]
    assert held["in_graph"] is False
    for name in ("probability", "prior", "bayes_factor", "effect", "fold_change_lower", "error"):
        assert held[name] == (row[name] if name == "effect" else pytest.approx(row[name]))
    assert read_graphml(tmp_path / "run" / "graph.graphml").edges == []


def test_the_graph_is_one_everywhere(files: Path, tmp_path: Path) -> None:
    words, edges = learned(files / "chain.csv", tmp_path / "run")
    inside = set(edges[edges["in_graph"]][["parent", "child"]].itertuples(index=False, name=None))
    assert inside == {("A", "B"), ("B", "C")}
    assert (edges["in_graph"] == (edges["probability"] >= 0.5)).all()
    network = am.Network.load(tmp_path / "run" / "network.json")
    assert set(network.graph.edges) == inside
    assert set(am.load(tmp_path / "run").graph.edges) == inside
    assert "The data raised the odds of each by a factor of" in " ".join(words.split())
    assert {"prior", "bayes_factor", "effect", "fold_change", "error"} <= set(edges.columns)
    _, all_edges = learned(files / "chain.csv", tmp_path / "low", "--threshold", 0.001)
    assert all_edges["in_graph"].sum() > 2
    _, best = learned(files / "chain.csv", tmp_path / "map", "--graph", "map")
    assert set(best[best["in_graph"]][["parent", "child"]].itertuples(index=False, name=None)) == (
        inside
    )


def test_soft_prior_edges_from_a_file(files: Path, tmp_path: Path) -> None:
    table = pd.DataFrame({"parent": ["A"], "child": ["C"], "probability": [0.9]})
    table.to_csv(tmp_path / "prior.csv", index=False)
    _, plain = learned(files / "empty.csv", tmp_path / "plain")
    _, told = learned(
        files / "empty.csv", tmp_path / "told", "--edge-prior", tmp_path / "prior.csv"
    )

    def row(edges: pd.DataFrame) -> pd.Series:
        return edges[(edges["parent"] == "A") & (edges["child"] == "C")].iloc[0]

    assert row(told)["prior"] > 0.8 > row(plain)["prior"]
    assert row(told)["probability"] > row(plain)["probability"]
    (tmp_path / "bad.csv").write_text("parent,child,probability\nA,C,often\n")
    bad = invoke(
        *("learn", files / "empty.csv", "-o", tmp_path / "bad"),
        *("--edge-prior", tmp_path / "bad.csv"),
    )
    assert bad.exit_code == 3
    assert "column 'probability': 'often' is not a number" in " ".join(bad.output.split())


def test_old_priors_are_a_flag_away(files: Path, tmp_path: Path) -> None:
    _, sparse = learned(files / "empty.csv", tmp_path / "sparse")
    words, flat = learned(
        *(files / "empty.csv", tmp_path / "flat", "--family-prior", "uniform", "--prior", 5)
    )
    assert flat["prior"].iloc[0] > 2 * sparse["prior"].iloc[0]
    assert "Every set of parents is equally likely: an edge has" in " ".join(words.split())
    record = json.loads((tmp_path / "flat" / "run.json").read_text())
    assert record["prior"]["shape"] == 5.0


def test_permuted_data_keep_what_each_node_does_alone() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "trajectory": np.repeat([1, 2, 3], 4),
            "time": np.tile([0.0, 1.0, 2.0, 4.0], 3),
            "a": rng.normal(size=12),
            "b": rng.normal(size=12),
        }
    )
    obs = am.Observations.from_frame(frame)
    permuted = reordered(obs, orders_of(obs, np.random.default_rng(1)))
    for node in "ab":
        before, after = obs.measurements[node], permuted.measurements[node]
        assert sorted(before.value.tolist()) == sorted(after.value.tolist())
        blocks = {tuple(before.value[i : i + 4]) for i in (0, 4, 8)}
        assert {tuple(after.value[i : i + 4]) for i in (0, 4, 8)} == blocks
        assert (np.diff(after.trajectory) >= 0).all()
    moved = [permuted.measurements[n].value.tolist() for n in "ab"]
    assert moved != [obs.measurements[n].value.tolist() for n in "ab"]
    single = am.Observations.from_frame(frame[frame["trajectory"] == 1])
    shifted = reordered(single, orders_of(single, np.random.default_rng(2)))
    assert shifted.measurements["a"].value.tolist() != single.measurements["a"].value.tolist()
    assert sorted(shifted.measurements["a"].value) == sorted(single.measurements["a"].value)


def test_what_paths_cannot_do_is_refused(files: Path, tmp_path: Path) -> None:
    (tmp_path / "held.csv").write_text("trajectory,node,start,end,state\n0,A,0,1,1\n")
    held = invoke(
        *("learn", files / "chain.csv", "-o", tmp_path / "a"),
        *("--interventions", tmp_path / "held.csv"),
    )
    assert held.exit_code == 2
    null = invoke("learn", files / "chain.csv", "-o", tmp_path / "b", "--null", 1)
    assert null.exit_code == 3
    assert "--null permutes measurements" in " ".join(null.output.split())
    for flags in (("--states", "1"), ("--states", "few"), ("--threshold", "0")):
        assert invoke("learn", files / "chain.csv", "-o", tmp_path / "c", *flags).exit_code == 2


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes that flip a few times, one following the other."""
    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.0)
    noise = am.Gaussian((-1.0, 1.0), 0.4)
    seen = am.observe(am.simulate(network, 6, duration=5.0, seed=3), noise, 6, seed=4)
    path = tmp_path_factory.mktemp("measured") / "table.csv"
    seen.to_frame().to_csv(path, index=False)
    return path


def test_a_small_network_is_sampled_by_default(measured: Path, tmp_path: Path) -> None:
    flags = ("--emission", "gaussian:-1,1:0.4", "--jobs", 1)
    words, edges = learned(measured, tmp_path / "run", *flags)
    said = " ".join(words.split())
    assert "The star's search was followed by sampling" in said
    assert "(--method, --minutes)" in said
    assert "averages over graphs, rates and paths drawn from their posterior" in said
    assert (edges["error"] > 0.0).any()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["settings"]["method"] == "sample"
    assert record["command"]["method"] == "auto"
    assert record["chains"]["chains"] == 4
    assert record["converged"] is True
    # the same as from Python, whose defaults are those of the command line
    obs = am.Observations.from_frame(pd.read_csv(measured))
    python = am.StructureLearner(am.Gaussian((-1.0, 1.0), 0.4)).fit(obs)
    assert python.method_ == "sample"
    pairs = ["parent", "child"]
    both = python.edges_.set_index(pairs)["probability"], edges.set_index(pairs)["probability"]
    pd.testing.assert_series_equal(*both, rtol=1e-9)
    # finished: nothing to go on with, and the folder is an ordinary one
    assert not (tmp_path / "run" / "sampling.npz").exists()
    again = invoke("learn", measured, "-o", tmp_path / "run", "--resume", *flags)
    assert again.exit_code == 2
    assert "finished already" in " ".join(again.output.split())


def test_sampling_goes_by_the_size_of_the_data_not_by_the_clock(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asterism.learning.search import staged

    frame = pd.read_csv(measured)
    obs = am.Observations.from_frame(frame)
    settings = {"emission": am.Gaussian((-1.0, 1.0), 0.4), "n_jobs": 1}
    first = am.StructureLearner(method="auto", **regrouped(**settings)).fit(obs)
    second = am.StructureLearner(method="auto", **regrouped(**{**settings, "n_jobs": 2})).fit(obs)
    pd.testing.assert_frame_equal(first.edges_, second.edges_)
    assert first.method_ == "sample"
    roomy = am.StructureLearner(minutes=30.0, **regrouped(**settings)).fit(obs)
    pd.testing.assert_frame_equal(first.edges_, roomy.edges_)
    monkeypatch.setattr(staged, "MOST_SECONDS", 1e-3)
    large = am.StructureLearner(method="auto", **regrouped(**settings)).fit(obs)
    assert large.method_ == "star"
    assert "a network of this size" in large.stage_
    late = am.StructureLearner(method="auto", **regrouped(max_seconds=3.0, **settings)).fit(obs)
    assert "no time left for sampling" in late.stage_
    monkeypatch.undo()
    monkeypatch.setattr(staged, "SECONDS", 1e-3)
    short = am.StructureLearner(method="auto", **regrouped(**settings)).fit(obs)
    assert short.n_sweeps_ < staged.FEWEST_SWEEPS <= first.n_sweeps_
    monkeypatch.undo()

    def refuses(*_: object) -> None:
        raise AsterismError("Such data cannot be drawn.")

    monkeypatch.setattr(staged, "sample_from", refuses)
    kept = am.StructureLearner(method="auto", **regrouped(**settings)).fit(obs)
    assert "Such data cannot be drawn." in kept.stage_
    pd.testing.assert_frame_equal(kept.edges_, large.edges_)


def test_what_chance_gives_is_said_without_a_flag(measured: Path, tmp_path: Path) -> None:
    """By the seed alone, on the page and beside every edge; --null 0 leaves it out."""
    flags = ("--emission", "gaussian:-1,1:0.4", "--jobs", 1, "--method", "star", "--seed", 4)
    words, edges = learned(measured, tmp_path / "a", *flags)
    _, again = learned(measured, tmp_path / "b", *flags)
    assert edges["by_chance"].tolist() == again["by_chance"].tolist()
    assert edges["by_chance"].between(0.0, len(edges)).all()
    record = json.loads((tmp_path / "a" / "run.json").read_text())["null"]
    assert record["permutations"] == len(record["largest"]) == 10
    assert "Permuting cannot exclude a cause that was not measured" in " ".join(words.split())
    page = (tmp_path / "a" / "report.html").read_text()
    assert "By chance" in page
    assert "Permuting cannot exclude" in page
    _, without = learned(measured, tmp_path / "c", *flags, "--null", 0)
    assert "by_chance" not in without.columns
    assert "By chance" not in (tmp_path / "c" / "report.html").read_text()


def test_chance_keeps_pairs_apart_and_tells_an_edge_from_none() -> None:
    network = am.glauber({"A": [], "B": ["A"], "C": [], "D": []}, a=1.0, b=1.5)
    seen = am.observe(am.simulate(network, 40, duration=10.0, seed=3), am.Exact(), 20, seed=4)
    learner = am.StructureLearner(am.Exact(), max_parents=1, method="star", n_jobs=1).fit(seen)
    chance = chance_of(learner, seen, None, 0, Console(quiet=True))
    assert chance is not None
    assert 0.0 < chance.by_chance["A", "B"] < 0.5  # not seen once, which is not never
    others = [n for pair, n in chance.by_chance.items() if "C" in pair or "D" in pair]
    assert len(others) == 10
    assert np.mean(others) > 2.0  # of twelve pairs, about half do as well as one without an edge
    assert chance_of(learner, seen.select(nodes=["A"]), None, 0, Console(quiet=True)) is None
