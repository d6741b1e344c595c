"""The results folder: what is written reads back, nothing is overwritten by accident."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asterism as am
from asterism.errors import DataError
from asterism.report.page import write_report
from asterism.results import courses
from asterism.results.courses import gather, measured_table
from asterism.results.folder import load, save_run
from asterism.results.manifest import versions
from asterism.results.run import Run, join_names, split_names
from tests.example_runs import example_network, example_run, with_rate_intervals

ODD = {"NA": [], "007": ["NA"], "a;b\\": ["007", "NA"], 'q"u,o\n': ["a;b\\"], "Ünï 基因\x01": []}


@pytest.mark.smoke
def test_everything_reads_back(tmp_path: Path) -> None:
    run = example_run()
    assert save_run(run, tmp_path / "run", page=write_report) == tmp_path / "run"
    back = load(tmp_path / "run")
    assert back.network == run.network
    pd.testing.assert_frame_equal(back.edge_table, run.edge_table, check_dtype=False)
    assert back.families is not None
    assert run.families is not None
    assert back.families["parents"].tolist() == run.families["parents"].tolist()
    assert back.families["score"].tolist() == run.families["score"].tolist()
    assert back.truth == run.truth
    assert back.observations is not None
    assert run.observations is not None
    assert back.observations["trajectory"].tolist() == run.observations["trajectory"].tolist()
    assert back.observations["value"].tolist() == run.observations["value"].tolist()
    assert back.history is not None
    assert run.history is not None
    np.testing.assert_allclose(back.history, run.history)
    assert back.posterior is not None
    assert run.posterior is not None
    one, other = courses.from_dataset(back.posterior), courses.from_dataset(run.posterior)
    assert one.trajectories == other.trajectories
    assert one.nodes == other.nodes
    for a, b in zip(one.probabilities, other.probabilities):
        np.testing.assert_array_equal(a, b)


def test_folder_holds_the_promised_files(tmp_path: Path) -> None:
    save_run(example_run(), tmp_path / "run", page=write_report)
    held = {path.name for path in (tmp_path / "run").iterdir()}
    assert held == {
        "network.json", "edges.csv", "families.csv", "posterior.nc", "graph.graphml", "run.json",
        "report.html", "observations.csv", "history.csv", "truth.csv", "graph_style.xml",
    }  # fmt: skip
    first = (tmp_path / "run" / "edges.csv").read_text().splitlines()[0]
    assert first == "parent,child,probability,in_graph"
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {"asterism", "numpy", "numba", "python"} <= set(record["versions"])
    assert record["converged"] is True
    assert record["seed"] == 0
    assert record["settings"]["max_parents"] == 2


def test_odd_names_survive_every_file(tmp_path: Path) -> None:
    run = example_run(ODD, n_trajectories=2)
    save_run(run, tmp_path / "run", page=write_report)
    back = load(tmp_path / "run")
    assert back.network.nodes == tuple(ODD)
    assert back.edge_table["parent"].tolist() == run.edge_table["parent"].tolist()
    assert back.families is not None
    assert back.families["parents"].tolist() == [tuple(p) for p in ODD.values()]
    assert back.observations is not None
    assert set(back.observations["node"]) == set(ODD)
    graph = nx.read_graphml(tmp_path / "run" / "graph.graphml")
    inside = [edge for *edge, held in graph.edges(data="in_graph") if held]
    assert len(inside) == 4


def test_graphml_holds_the_graph_and_likely_edges_with_probabilities(tmp_path: Path) -> None:
    run = example_run()
    save_run(run, tmp_path / "run")
    graph = nx.read_graphml(tmp_path / "run" / "graph.graphml")
    inside = {(p, c) for p, c, held in graph.edges(data="in_graph") if held}
    assert inside == set(run.network.graph.edges)
    top = run.edge_table.head(10)
    assert set(graph.edges) == inside | set(zip(top["parent"], top["child"]))
    for parent, child, probability in run.edge_table.iloc[:, :3].itertuples(index=False):
        if graph.has_edge(parent, child):
            assert graph.edges[parent, child]["probability"] == pytest.approx(probability)
        if (parent, child) in inside:
            assert graph.edges[parent, child]["effect"] in ("raises", "lowers", "mixed", "none")


def test_the_style_for_cytoscape_uses_what_the_graph_holds(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    save_run(with_rate_intervals(example_run()), tmp_path / "run")
    graph = nx.read_graphml(tmp_path / "run" / "graph.graphml")
    held = {name for *_, data in graph.edges(data=True) for name in data}
    style = ElementTree.parse(tmp_path / "run" / "graph_style.xml").getroot()
    used = {e.get("attributeName") for e in style.iter() if e.get("attributeName")}
    assert used - {"name"} <= held
    shapes = {e.get("attributeValue"): e.get("value") for e in style.iter("discreteMappingEntry")}
    assert {"raises", "lowers", "true", "false"} <= set(shapes)


def test_existing_results_are_refused_without_force(tmp_path: Path) -> None:
    save_run(example_run(), tmp_path / "run")
    with pytest.raises(DataError, match=r"already holds edges\.csv"):
        save_run(example_run(seed=1), tmp_path / "run")
    assert load(tmp_path / "run").network == example_run().network
    other = Run(example_run(seed=1).network)
    save_run(other, tmp_path / "run", force=True)
    back = load(tmp_path / "run")
    assert back.network == other.network
    assert back.families is None
    assert not (tmp_path / "run" / "posterior.nc").exists()
    assert not (tmp_path / "run" / "report.html").exists()


def test_journal_of_the_search_does_not_make_a_folder_old(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "journal.sqlite").write_text("kept")
    save_run(example_run(), folder)
    assert (folder / "journal.sqlite").read_text() == "kept"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(DataError, match="is a file"):
        save_run(example_run(), tmp_path / "run", page=write_report)


def test_failed_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_run(example_run(), tmp_path / "run")
    before = (tmp_path / "run" / "edges.csv").read_bytes()

    def half_way(path: Path, content: bytes) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half_way)
    with pytest.raises(OSError, match=r"No space.*network\.json"):
        save_run(example_run(seed=1), tmp_path / "run", force=True)
    assert (tmp_path / "run" / "edges.csv").read_bytes() == before
    assert not [p for p in (tmp_path / "run").iterdir() if p.name.startswith(".")]
    # the mark of a finished run is gone, so nobody mistakes the mixture for one
    assert not (tmp_path / "run" / "run.json").exists()


def test_folder_with_only_a_network_loads(tmp_path: Path) -> None:
    network = example_run().network
    network.save(tmp_path / "network.json")
    run = load(tmp_path)
    assert run.network == network
    assert not run.learned
    assert len(run.edge_table) == 9
    assert (run.edge_table["probability"] == 1.0).all()


def test_public_load_is_this_one() -> None:
    assert am.load is load


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.csv", "parent,child\nSWI5,CBF1\n", "no column 'probability'"),
        ("edges.csv", "parent,child,probability,in_graph\nSWI5,CBF1,high,True\n", "high"),
        ("edges.csv", "parent,child,probability,in_graph\nSWI5,XYZ,0.5,True\n", "'XYZ'"),
        ("edges.csv", "parent,child,probability,in_graph\nSWI5,CBF1,nan,True\n", "between 0 and 1"),
        ("edges.csv", "", "edges.csv"),
        ("run.json", "{", "run.json"),
        ("posterior.nc", "text", "posterior.nc"),
        ("network.json", "{}", "network"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    save_run(example_run(), tmp_path / "run")
    (tmp_path / "run" / name).write_text(content)
    with pytest.raises(
        DataError, match=rf"{name}.*is not the file that the run wrote|{name}.*is not a"
    ):
        load(tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "run", verify=False)


def test_not_a_results_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no network\.json"):
        load(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "absent")


def test_record_may_hold_anything(tmp_path: Path) -> None:
    run = example_run()
    run.run["settings"] = {
        "prior": object, "limit": float("inf"), "seen": np.float64("nan"), "array": np.arange(2),
    }  # fmt: skip
    save_run(run, tmp_path / "run")
    kept = load(tmp_path / "run").run["settings"]
    assert kept["limit"] == "inf"
    assert kept["seen"] is None
    assert kept["array"] == [0, 1]


def test_unknown_names_in_the_parts_of_a_run_are_refused() -> None:
    network = example_run().network
    with pytest.raises(DataError, match="truth names 'X'"):
        Run(network, truth=[("X", "SWI5")])
    bad = pd.DataFrame([("Y", (), 0.0, 1.0)], columns=["node", "parents", "score", "probability"])
    with pytest.raises(DataError, match="families names 'Y'"):
        Run(network, families=bad)


def test_run_from_a_fitted_learner() -> None:
    made = example_run()

    class Learner:
        network_ = made.network
        edges_ = made.edge_table.sample(frac=1.0, random_state=0)
        family_scores_ = made.families
        converged_, stop_reason_ = False, "Stopped at the limit of 3 sweeps."
        history_ = ({"score": -3.0}, {"score": -2.0})

        def get_params(self, deep: bool = True) -> dict[str, object]:
            return {"max_parents": 2, "random_state": 7}

    run = Run.from_learner(Learner(), truth=made.network, run={"data_hash": "abc"})
    pd.testing.assert_frame_equal(run.edge_table, made.edge_table)
    assert run.learned
    assert run.run["seed"] == 7
    assert run.run["converged"] is False
    assert run.run["data_hash"] == "abc"
    assert run.scores() == made.scores()
    assert run.history is not None
    assert run.history["score"].tolist() == [-3.0, -2.0]


def test_square_table_of_probabilities() -> None:
    run = example_run()
    table = run.edge_probabilities
    for parent, child, probability in run.edge_table.iloc[:, :3].itertuples(index=False):
        assert table.loc[parent, child] == probability
    assert np.trace(table) == 0.0


def test_courses_are_gathered_from_a_posterior(tmp_path: Path) -> None:
    network = example_network({"A": [], "B": ["A"]}, states=("off", "on"))
    paths = am.simulate(network, n_trajectories=3, duration=4.0, seed=1)
    emission = am.Gaussian(means=(-1, 1), scale=0.5)
    observed = am.observe(paths, emission, n_observations=5, seed=2)
    posterior = am.infer(network, observed, emission, method="exact")
    found = courses.from_dataset(gather(posterior, n_extra=7))
    assert len(found.trajectories) == 3
    for number, (times, block) in enumerate(zip(found.times, found.probabilities)):
        assert len(times) >= 10
        np.testing.assert_allclose(block.sum(axis=2), 1.0, atol=1e-10)
        same = posterior.marginals(times).values[number]
        np.testing.assert_allclose(block, same, atol=1e-12)
    few = gather(posterior, n_extra=7, max_values=60)
    assert len(courses.from_dataset(few).trajectories) < 3
    run = Run(network, posterior=few)
    save_run(run, tmp_path / "run")
    back = load(tmp_path / "run")
    assert back.posterior is not None
    assert courses.from_dataset(back.posterior).n_values == courses.from_dataset(few).n_values
    assert back.run["notices"] == [back.posterior.attrs["notice"]]
    assert "first" in back.run["notices"][0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=6), max_size=5))
def test_name_lists_read_back(names: list[str]) -> None:
    assert split_names(join_names(names)) == tuple(names)


def test_versions_name_what_numbers_depend_on() -> None:
    assert versions()["asterism"] == am.__version__


def test_of_likelihoods_the_likeliest_state_counts_as_measured() -> None:
    table = pd.DataFrame(
        {
            "time": [0.0, 1.0, 2.0, 0.0],
            "node": ["a", "a", "a", "b"],
            "p_lo": [0.9, 0.2, 0.5, np.nan],
            "p_hi": [0.1, 0.7, 0.5, np.nan],
            "value": [np.nan, np.nan, np.nan, 3.5],
        }
    )
    seen = am.Observations.from_frame(table, kind="long")
    kept = measured_table(seen)
    assert kept is not None
    assert kept[["node", "time", "value"]].to_numpy().tolist() == [
        ["a", 0.0, "lo"],
        ["a", 1.0, "hi"],
        ["b", 0.0, 3.5],
    ]


def test_results_are_written_when_a_cluster_is_gone(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    with dask.config.set(scheduler="dask.distributed"):  # as a client leaves it that died
        save_run(example_run(), tmp_path / "RUN", page=write_report)
        assert load(tmp_path / "RUN").posterior is not None


def test_tables_of_a_fit_are_verified_and_replaced_like_all_files(tmp_path: Path) -> None:
    run = example_run()
    run.tables["survival"] = pd.DataFrame({"from": ["off"], "time": [1.0], "survival": [0.5]})
    save_run(run, tmp_path / "run")
    table = tmp_path / "run" / "survival.csv"
    assert load(tmp_path / "run").tables["survival"]["survival"].tolist() == [0.5]
    written = table.read_text()
    table.write_text(written.replace("0.5", "0.6"))
    with pytest.raises(DataError, match="not the file that the run wrote"):
        load(tmp_path / "run")
    # an older version listed neither this table nor its hash: its folders still load
    record_file = tmp_path / "run" / "run.json"
    record = json.loads(record_file.read_text())
    del record["files"]["survival.csv"]
    write_record_as(record_file, record)
    assert load(tmp_path / "run").tables["survival"]["survival"].tolist() == [0.6]
    save_run(example_run(), tmp_path / "run", force=True)
    assert not table.exists()


def write_record_as(path: Path, record: dict[str, object]) -> None:
    """With the checksum that belongs to this content."""
    content = {name: value for name, value in record.items() if name != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    path.write_text(json.dumps({**content, "checksum": checksum}))
