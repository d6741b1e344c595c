"""Network: what it accepts, what it refuses and in which words, and its views."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import networkx
import numpy as np
import pytest

from asterism.errors import DataError, ModelError, TooLargeError
from asterism.model.network import Network
from asterism.model.rates import SummaryRates

SINGLE = [[0.0, 1.0], [2.0, 0.0]]
BELOW = [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 5.0], [0.5, 0.0]]]


def pair(**changes: object) -> Network:
    settings: dict = {
        "parents": {"A": [], "B": ["A"]},
        "rates": {"A": SINGLE, "B": BELOW},
        "states": {"A": ["off", "on"], "B": [-1, 1]},
    }
    return Network(**{**settings, **changes})


def three() -> Network:
    """Different numbers of states, a cycle, an exogenous node and summary rates."""
    rng = np.random.default_rng(3)
    return Network(
        parents={"A": ["C"], "B": ["A", "C"], "C": ["B", "E"], "E": []},
        rates={
            "A": rng.uniform(0.1, 2, (3, 2, 2)) * (1 - np.eye(2)),
            "B": SummaryRates(
                {"C": [1, 0, 4], "A": [-2, 3]}, rng.uniform(0.1, 2, (10, 2, 2)) * (1 - np.eye(2))
            ),
            "C": rng.uniform(0.1, 2, (2, 2, 3, 3)) * (1 - np.eye(3)),
            "E": None,
        },
        states={"E": ["day", "night"]},
        initial={"C": [0.2, 0.3, 0.5]},
    )


def reference_generator(net: Network) -> np.ndarray:
    """One joint state and one jump at a time, with dictionaries."""
    sizes = [len(net.states[n]) for n in net.nodes]
    joint = list(itertools.product(*map(range, sizes)))
    place = {state: i for i, state in enumerate(joint)}
    generator = np.zeros((len(joint), len(joint)))
    for state in joint:
        now = dict(zip(net.nodes, state))
        for k, node in enumerate(net.nodes):
            rates = net.rates[node]
            if rates is None:
                continue
            if isinstance(rates, SummaryRates):
                total = sum(w[now[p]] for p, w in zip(rates.parents or (), rates.weights)) - sum(
                    min(w) for w in rates.weights
                )
                block = rates.table[total]
            else:
                block = rates[tuple(now[p] for p in net.parents[node])]
            for target in range(sizes[k]):
                if target != state[k]:
                    after = (*state[:k], target, *state[k + 1 :])
                    generator[place[state], place[after]] += block[state[k], target]
    return generator - np.diag(generator.sum(axis=1))


def test_diagonals_are_filled_in_and_given_ones_are_accepted() -> None:
    net = pair()
    np.testing.assert_array_equal(net.rates["A"], [[-1, 1], [2, -2]])
    np.testing.assert_array_equal(net.rates["B"][1], [[-5, 5], [0.5, -0.5]])
    assert pair(rates={"A": [[-1, 1], [2, -2]], "B": BELOW}) == net
    assert pair(rates={"A": [[np.nan, 1], [2, np.nan]], "B": BELOW}) == net


def test_attributes() -> None:
    net = pair()
    assert net.nodes == ("A", "B")
    assert net.parents == {"A": (), "B": ("A",)}
    assert net.states == {"A": ("off", "on"), "B": (-1, 1)}
    np.testing.assert_array_equal(net.initial["A"], [0.5, 0.5])
    with pytest.raises(ValueError, match="read-only"):
        net.rates["A"][0, 0] = 1.0


def test_states_default_to_numbers_as_text() -> None:
    assert three().states["C"] == ("0", "1", "2")
    assert three().states["B"] == ("0", "1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parents": {"A": ["X"], "B": ["A"]}}, "'X' of node 'A' is not a node"),
        ({"parents": {"A": ["A"], "B": ["A"]}}, "'A' is its own parent"),
        ({"parents": {"A": [], "B": ["A", "A"]}}, "'B' lists the parent 'A' twice"),
        ({"parents": {"A": "B", "B": ["A"]}}, "must be a list"),
        ({"parents": {}}, "at least one node"),
        ({"rates": {"A": SINGLE}}, "'B' has no rates"),
        ({"rates": {"A": SINGLE, "B": SINGLE}}, r"expected \(2, 2, 2\)"),
        ({"rates": {"A": SINGLE, "B": BELOW, "X": SINGLE}}, "'X', which is not a node"),
        ({"rates": {"A": [[0, -1], [1, 0]], "B": BELOW}}, "'A'.* not negative"),
        ({"rates": {"A": [[0, np.inf], [1, 0]], "B": BELOW}}, "'A'.* finite"),
        ({"rates": {"A": [[0, np.nan], [1, 0]], "B": BELOW}}, "'A'.* finite"),
        ({"rates": {"A": [[-1, 1], [2, -3]], "B": BELOW}}, r"'A', row \(1,\).* -3"),
        ({"rates": {"A": [["a", 1], [2, 0]], "B": BELOW}}, "'A' must be an array of numbers"),
        ({"rates": {"A": [[0, 1], [2]], "B": BELOW}, "states": None}, "'A' must be an array"),
        ({"rates": {"A": SINGLE, "B": None}}, "'B'.*cannot have parents"),
        ({"rates": {"A": None, "B": BELOW}, "states": None}, "'A'.*states must be given"),
        ({"states": {"A": ["off"]}}, "at least two states"),
        ({"states": {"A": ["1", 1.0]}}, "same label: '1' and 1.0"),
        ({"states": {"A": "ab"}}, "list of labels"),
        ({"initial": {"A": [0.5, 0.6]}}, "'A' must be probabilities"),
        ({"initial": {"A": [-0.5, 1.5]}}, "'A' must be probabilities"),
        ({"initial": {"A": [1.0]}}, "2 entries"),
        ({"initial": {"X": [1.0]}}, "'X', which is not a node"),
    ],
)
def test_refusals_say_what_and_where(changes: dict, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        pair(**changes)


def test_a_table_beyond_the_limit_is_refused_with_its_size() -> None:
    parents = {str(i): [] for i in range(19)} | {"child": [str(i) for i in range(19)]}
    rates = dict.fromkeys(parents, SINGLE) | {"child": np.zeros((2,) * 21)}
    with pytest.raises(TooLargeError, match=r"2,097,152 entries.*SummaryRates"):
        Network(parents, rates)


@pytest.mark.parametrize("label", [1, "1", 1.0, "1.0", " 1", "+1", np.int64(1), np.float64(1)])
def test_labels_may_be_spelled_in_any_way(label: object) -> None:
    assert pair().state_index("B", label) == 1
    assert pair(states={"B": ["0", "1"]}).state_index("B", label) == 1


def test_unknown_labels_and_nodes_name_the_valid_ones() -> None:
    with pytest.raises(DataError, match="'A' has no state 'ON'; its states are 'off', 'on'"):
        pair().state_index("A", "ON")
    with pytest.raises(DataError, match="no state 2; its states are -1, 1"):
        pair().state_indices("B", [1, 2, -1])
    with pytest.raises(ModelError, match="no node 'Q'; the nodes are A, B"):
        pair().state_index("Q", "on")


def test_many_labels_at_once() -> None:
    np.testing.assert_array_equal(pair().state_indices("B", [1.0, -1.0, 1.0]), [1, 0, 1])
    mixed = np.array(["-1", 1, 1.0], dtype=object)
    np.testing.assert_array_equal(pair().state_indices("B", mixed), [0, 1, 1])
    assert pair().state_indices("A", []).shape == (0,)


def test_joint_generator_agrees_with_the_plain_construction() -> None:
    for net in (pair(), three()):
        generator = net.joint_generator()
        assert generator.format == "csr"
        np.testing.assert_allclose(generator.toarray(), reference_generator(net), atol=1e-14)
        assert abs(generator.sum(axis=1)).max() < 1e-12


def test_joint_states_are_in_c_order() -> None:
    net = three()
    expected = list(itertools.product(range(2), range(2), range(3), range(2)))
    np.testing.assert_array_equal(net.joint_states(), expected)
    assert net.n_joint_states == len(expected)


def test_joint_generator_refuses_with_the_number() -> None:
    with pytest.raises(TooLargeError, match="24 states, more than the limit of 23"):
        three().joint_generator(limit=23)
    many = {str(i): [] for i in range(2000)}
    with pytest.raises(TooLargeError, match=r"about 10\^602 states"):
        Network(many, dict.fromkeys(many, SINGLE)).joint_generator()


def test_compiled_arrays() -> None:
    net = three()
    compiled = net.compiled
    graph = compiled.graph
    assert graph.n_states.tolist() == [2, 2, 3, 2]
    assert graph.n_configurations.tolist() == [3, 10, 4, 1]
    assert graph.is_summary.tolist() == [False, True, False, False]
    start, end = graph.table_start[1:3]
    np.testing.assert_array_equal(compiled.rates[start:end], net.rates["B"].table.ravel())
    assert not compiled.rates[graph.table_start[3] :].any()
    np.testing.assert_array_equal(compiled.initial[4:7], [0.2, 0.3, 0.5])
    # the weights are moved to start at zero and follow the order of the parents A, C
    edges = slice(graph.parent_start[1], graph.parent_start[2])
    assert graph.parents[edges].tolist() == [0, 2]
    assert graph.weights.tolist() == [0, 5, 1, 0, 4]


def test_graph_goes_out_and_comes_back() -> None:
    net = three()
    graph = net.graph
    assert isinstance(graph, networkx.DiGraph)
    assert set(graph.edges) == {("C", "A"), ("A", "B"), ("C", "B"), ("B", "C"), ("E", "C")}
    assert graph.nodes["E"]["states"] == ("day", "night")
    assert Network(graph, net.rates, initial=net.initial) == net
    with pytest.raises(ModelError, match="Cannot read a graph"):
        Network(networkx.Graph(), net.rates)


def test_copies_with_other_rates_or_initial() -> None:
    net = pair()
    other = net.with_rates({"A": [[0, 7], [7, 0]]})
    assert other.rates["A"][0, 1] == 7
    assert other.states == net.states
    assert other != net
    moved = net.with_initial({"B": [0.1, 0.9]})
    np.testing.assert_array_equal(moved.initial["B"], [0.1, 0.9])
    assert moved != net
    assert moved.with_initial(None) == net
    assert three().exogenous == frozenset({"E"})


def test_equality_sees_every_part() -> None:
    assert pair() == pair()
    assert three() == three()
    assert pair() != pair(states={"A": ["off", "ON"], "B": [-1, 1]})
    assert pair() != pair(parents={"A": [], "B": ["A"]}, rates={"A": BELOW[1], "B": BELOW})
    assert pair() != "pair"


def test_save_and_load(tmp_path) -> None:
    for number, net in enumerate((pair(), three())):
        path = tmp_path / f"{number}.json"
        net.save(path)
        assert Network.load(path) == net
    content = json.loads((tmp_path / "0.json").read_text())
    assert content["format"] == "asterism-network"
    assert content["version"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.json", "1.json"]


def test_loading_refuses_other_files(tmp_path) -> None:
    def load(content: object) -> None:
        (tmp_path / "x.json").write_text(
            content if isinstance(content, str) else json.dumps(content)
        )
        Network.load(tmp_path / "x.json")

    good = pair().to_dict()
    with pytest.raises(ModelError, match=r"version 3.*up to 2; update"):
        load({**good, "version": 3})
    with pytest.raises(ModelError, match="no valid format version"):
        load({**good, "version": "one"})
    with pytest.raises(ModelError, match="not a network file"):
        load({"format": "something else"})
    with pytest.raises(ModelError, match="not JSON"):
        load("parents")
    with pytest.raises(ModelError, match="list 'nodes'"):
        load({**good, "nodes": [{"name": "A"}]})
    with pytest.raises(ModelError, match="two nodes named 'A'"):
        load({**good, "nodes": [good["nodes"][0]] * 2})
    with pytest.raises(ModelError, match="no network file"):
        Network.load(tmp_path / "absent.json")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "network.json"
    pair().save(path)
    before = path.read_text()

    def fails(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="disk full"):
        three().save(path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["network.json"]


def test_repr_is_a_short_table() -> None:
    text = repr(three())
    assert text.splitlines()[0] == "Network: 4 nodes, 5 edges"
    assert "states day, night" in text
    assert "(exogenous)" in text
    assert "(summary rates)" in text
    many = {str(i): [] for i in range(500)}
    assert len(repr(Network(many, dict.fromkeys(many, SINGLE))).splitlines()) < 30


class TestSummaryRates:
    def test_expand_agrees_with_the_definition(self) -> None:
        table = np.arange(5 * 4.0).reshape(5, 2, 2) * (1 - np.eye(2))
        rates = SummaryRates([[3, 5], [-1, 0, 1]], table)
        assert rates.shift == 2
        full = rates.expand()
        assert full.shape == (2, 3, 2, 2)
        for u, v in itertools.product(range(2), range(3)):
            total = [3, 5][u] + [-1, 0, 1][v]
            np.testing.assert_array_equal(full[u, v], rates.table[total - 2])

    def test_network_with_expanded_rates_is_the_same_chain(self) -> None:
        net = three()
        rates = net.rates["B"]
        assert isinstance(rates, SummaryRates)
        plain = net.with_rates({"B": rates.expand()})
        difference = plain.joint_generator() - net.joint_generator()
        assert abs(difference).max() < 1e-14

    @pytest.mark.parametrize(
        ("weights", "n_blocks", "words"),
        [
            ([[0, 1], [0, 1]], 4, "values 0 to 2: expected 3 blocks"),
            ([[0, 0.5]], 2, "whole numbers"),
            ([[0]], 1, "one integer for each"),
        ],
    )
    def test_refusals(self, weights: list, n_blocks: int, words: str) -> None:
        with pytest.raises(ModelError, match=words):
            SummaryRates(weights, np.zeros((n_blocks, 2, 2)))

    def test_wrong_parents_or_sizes(self) -> None:
        table = np.zeros((2, 2, 2))
        with pytest.raises(ModelError, match=r"'B' have weights for \['X'\].*\['A'\]"):
            pair(rates={"A": SINGLE, "B": SummaryRates({"X": [0, 1]}, table)})
        with pytest.raises(ModelError, match="3 weights for parent 'A', which has 2 states"):
            pair(rates={"A": SINGLE, "B": SummaryRates({"A": [0, 1, 1]}, table)})
        with pytest.raises(ModelError, match="for 3 states, expected 2"):
            pair(rates={"A": SINGLE, "B": SummaryRates({"A": [0, 1]}, np.zeros((2, 3, 3)))})
        with pytest.raises(ModelError, match="expected \\(n_s, S, S\\)"):
            SummaryRates([[0, 1]], np.zeros((2, 2)))
