"""Other tools' files: what is read is what was meant, and what is written reads back."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

import asterism as am
from asterism.commands.convert import by_ending, recognise
from asterism.commands.exits import Refused
from asterism.data.formats.graphml import read_graphml
from asterism.data.formats.mat import read_mat, write_mat
from asterism.data.formats.pyagrum import read_pyagrum, write_pyagrum
from asterism.data.formats.pyctbn import read_pyctbn, write_pyctbn
from asterism.data.formats.registry import FORMATS, Content, ReadSettings
from asterism.errors import DataError
from tests.command_line import invoke

# A leaves off at 1.0 and on at 2.5; B stays; C goes x -> z at 1.5.
PYAGRUM = """IdSample,time,var,state
0,0,A,off
0,0,B,b0
0,0,C,x
0,1.0,A,off
0,1.5,C,x
0,2.5,A,on
0,4.0,A,off
0,4.0,B,b0
0,4.0,C,z
"""


@pytest.fixture(scope="module")
def network() -> am.Network:
    return am.random_network(n_nodes=4, n_states=[2, 3, 2, 2], max_parents=2, seed=3)


@pytest.fixture(scope="module")
def paths(network: am.Network) -> am.Trajectories:
    return am.simulate(network, n_trajectories=5, duration=4.0, seed=1)


def read(path: Path, form: str) -> Content:
    return FORMATS[form].load().read(path, ReadSettings())


def write(content: Content, path: Path, form: str) -> None:
    FORMATS[form].load().write(content, path)


def assert_same_paths(one: am.Trajectories, other: am.Trajectories) -> None:
    """By what they say, whatever the order of nodes and labels."""

    def content(p: am.Trajectories) -> list[tuple[str, ...]]:
        frame = p.to_frame()
        columns = ["trajectory", "time", "node", "state"]
        return sorted(tuple(map(str, row)) for row in frame[columns].itertuples(index=False))

    assert content(one) == content(other)
    np.testing.assert_array_equal(one.end, other.end)


def test_pyagrum_rows_name_the_state_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(PYAGRUM)
    paths = read_pyagrum(tmp_path / "t.csv")
    frame = paths.to_frame()
    jumps = frame[frame["time"] > 0][["time", "node", "state"]].values.tolist()
    assert jumps == [[1.0, "A", "on"], [1.5, "C", "z"], [2.5, "A", "off"]]
    assert paths.end.tolist() == [4.0]


def test_pyagrum_round_trip(paths: am.Trajectories, tmp_path: Path) -> None:
    write_pyagrum(paths, tmp_path / "t.csv")
    assert_same_paths(read_pyagrum(tmp_path / "t.csv"), paths)


def test_pyagrum_refuses_rows_that_name_the_state_entered(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(PYAGRUM.replace("0,1.0,A,off", "0,1.0,A,on"))
    with pytest.raises(DataError, match=r"row 5.*'A' starts in 'off' but leaves 'on'"):
        read_pyagrum(tmp_path / "t.csv")


def test_pyagrum_needs_rows_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(PYAGRUM.replace("0,4.0,C,z\n", ""))
    with pytest.raises(DataError, match="no row at the end"):
        read_pyagrum(tmp_path / "t.csv")


def test_pyctbn_round_trip(network: am.Network, paths: am.Trajectories, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    write_pyctbn(file, paths, network)
    found = read_pyctbn(file)
    assert found.paths is not None
    assert_same_paths(found.paths, paths)
    again = am.Network(*found.network)
    for node in network.nodes:
        assert again.parents[node] == network.parents[node]
        np.testing.assert_allclose(again.rates[node], network.rates[node])


def test_pyctbn_as_its_own_generator_writes_it(tmp_path: Path) -> None:
    """Configurations by name in any order, a row of −1 at the end, a single node under its name."""
    matrix = [{"0": -1.0, "1": 1.0}, {"0": 2.0, "1": -2.0}]
    fast = [{"0": -5.0, "1": 5.0}, {"0": 6.0, "1": -6.0}]
    content = {
        "variables": [{"Name": "X", "Value": 2}, {"Name": "Y", "Value": 2}],
        "dyn.str": [{"From": "X", "To": "Y"}],
        "dyn.cims": {"X": {"X": matrix}, "Y": {"X=1": fast, "X=0": matrix}},
        "samples": [
            [
                {"Time": 0, "X": 0, "Y": 1},
                {"Time": 0.5, "X": 1, "Y": 1},
                {"Time": 2.0, "X": -1, "Y": -1},
            ]
        ],
    }
    (tmp_path / "p.json").write_text(json.dumps([content]))
    found = read_pyctbn(tmp_path / "p.json")
    assert found.paths is not None
    assert found.network.rates["Y"][1, 1, 0] == 6.0
    assert found.network.rates["Y"][0, 0, 1] == 1.0
    assert found.paths.n_jumps == 1
    assert found.paths.end.tolist() == [2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON file"),
        ("[]", "no entry 0"),
        ('[{"a": 1}]', "not a PyCTBN file"),
        ('[{"variables": [{"Name": "X"}]}]', "not laid out"),
        ('[{"variables": [{"Name": "X", "Value": 2}], "samples": [[{"Time": 0, "X": 7}]]}]', "7"),
        ('[{"variables": [{"Name": "X", "Value": 2}], "dyn.cims": {"X": {}}}]', "configuration"),
    ],
)
def test_bad_pyctbn_files_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_pyctbn(tmp_path / "p.json")


def mat_file(path: Path, time_name: str = "time") -> list[np.ndarray]:
    """As MATLAB saves it: cells (states, times, nodes) with different numbers of times."""
    rng = np.random.default_rng(0)
    cubes = [rng.uniform(0.1, 1.0, (2, n, 3)) for n in (4, 6)]
    z, t = np.empty((2, 1), dtype=object), np.empty((2, 1), dtype=object)
    for d, cube in enumerate(cubes):
        z[d, 0], t[d, 0] = cube, 10.0 * np.arange(1, cube.shape[1] + 1)[:, None]
    savemat(str(path), {"Z": z, time_name: t})
    return cubes


@pytest.mark.parametrize("time_name", ["time", "TZ"])
def test_mat_cells_become_likelihoods(time_name: str, tmp_path: Path) -> None:
    cubes = mat_file(tmp_path / "DATA.mat", time_name)
    found = read_mat(tmp_path / "DATA.mat", ["SWI5", "CBF1", "GAL4"])
    record = found.measurements["CBF1"]
    assert record.likelihood is not None
    np.testing.assert_allclose(record.likelihood[record.trajectory == 1], cubes[1][:, :, 1].T)
    assert found.end.tolist() == [40.0, 60.0]


def test_mat_round_trip_through_a_table(tmp_path: Path) -> None:
    cubes = mat_file(tmp_path / "DATA.mat")
    read_mat(tmp_path / "DATA.mat").to_csv(tmp_path / "l.csv", kind="long")
    assert recognise(tmp_path / "l.csv") == "likelihoods"
    write_mat(am.Observations.from_csv(tmp_path / "l.csv"), tmp_path / "again.mat")
    again = read_mat(tmp_path / "again.mat").measurements["2"].likelihood
    assert again is not None
    np.testing.assert_allclose(again, np.vstack([c[:, :, 1].T for c in cubes]))


def test_mat_unmeasured_is_uninformative(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "trajectory": [0, 0],
            "time": [0.0, 1.0],
            "node": ["A", "B"],
            "p_0": [0.2, 0.3],
            "p_1": [0.8, 0.7],
        }
    )
    write_mat(am.Observations.from_frame(table), tmp_path / "d.mat")
    read_back = read_mat(tmp_path / "d.mat").measurements["1"].likelihood
    assert read_back is not None
    np.testing.assert_allclose(read_back, [[0.2, 0.8], [1.0, 1.0]])


def test_mat_refuses_values_and_foreign_files(tmp_path: Path) -> None:
    values = am.Observations.from_frame(pd.DataFrame({"time": [0.0, 1.0], "A": [0.1, 0.2]}))
    with pytest.raises(DataError, match="holds values"):
        write_mat(values, tmp_path / "d.mat")
    (tmp_path / "no.mat").write_bytes(b"nothing like it")
    with pytest.raises(DataError, match="not a MATLAB file"):
        read_mat(tmp_path / "no.mat")
    savemat(str(tmp_path / "x.mat"), {"x": np.zeros(3)})
    with pytest.raises(DataError, match="it holds x"):
        read_mat(tmp_path / "x.mat")
    mat_file(tmp_path / "DATA.mat")
    with pytest.raises(DataError, match="3 nodes, but 1 names"):
        read_mat(tmp_path / "DATA.mat", ["only"])


def test_graphml_names_come_from_cytoscape_attributes(tmp_path: Path) -> None:
    import networkx

    graph = networkx.DiGraph()
    graph.add_node("12", name="SWI5")
    graph.add_node("17", name="ASH1")
    graph.add_edge("12", "17")
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    assert read_graphml(tmp_path / "g.graphml").edges == [("SWI5", "ASH1")]
    networkx.write_graphml(graph.to_undirected(), tmp_path / "u.graphml")
    with pytest.raises(DataError, match="undirected"):
        read_graphml(tmp_path / "u.graphml")
    (tmp_path / "no.graphml").write_text("<a>")
    with pytest.raises(DataError, match="not a GraphML"):
        read_graphml(tmp_path / "no.graphml")


@pytest.mark.smoke
def test_graph_survives_graphml_and_edges(network: am.Network, tmp_path: Path) -> None:
    network.save(tmp_path / "n.json")
    assert recognise(tmp_path / "n.json") == "network"
    content = read(tmp_path / "n.json", "network")
    write(content, tmp_path / "g.graphml", "graphml")
    write(read(tmp_path / "g.graphml", "graphml"), tmp_path / "e.csv", "edges")
    assert recognise(tmp_path / "e.csv") == "edges"
    edges = read(tmp_path / "e.csv", "edges").edges
    assert set(edges or ()) == {(p, c) for c in network.nodes for p in network.parents[c]}


def test_what_cannot_be_written_is_said(network: am.Network, tmp_path: Path) -> None:
    network.save(tmp_path / "n.json")
    content = read(tmp_path / "n.json", "network")
    for form in ("paths", "pyagrum", "likelihoods", "mat"):
        with pytest.raises(DataError, match="There are no"):
            write(content, tmp_path / "out", form)
    with pytest.raises(Refused, match="does not name a format"):
        by_ending(tmp_path / "out.xyz", content)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Refused, match="not recognised"):
        recognise(tmp_path / "other.csv")
    assert not (tmp_path / "out").exists()


def test_edges_keep_their_probabilities_and_leave_out_what_is_none(tmp_path: Path) -> None:
    table = tmp_path / "edges.csv"
    table.write_text("parent,child,probability,in_graph\nA,B,0.9,True\nB,C,0.2,False\n")
    result = invoke("convert", table, tmp_path / "g.graphml")
    assert result.exit_code == 0, result.output
    assert "Left out because they are not in the graph: 1 pairs." in result.stderr
    graph = networkx.read_graphml(tmp_path / "g.graphml")
    assert set(graph.nodes) == {"A", "B", "C"}
    assert dict(graph.edges) == {("A", "B"): {"probability": 0.9}}
    again = invoke("convert", tmp_path / "g.graphml", tmp_path / "e.csv")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "e.csv").read_text() == "parent,child,probability\nA,B,0.9\n"
