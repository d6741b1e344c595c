"""Glauber and random networks, standard graphs, the Gamma prior."""

from __future__ import annotations

import itertools
import math

import networkx
import numpy as np
import pytest
from scipy.sparse.linalg import expm_multiply

from asterism.errors import ModelError, TooLargeError
from asterism.model.generators import (
    glauber,
    graph_from_spec,
    random_network,
    random_parents,
    random_rates,
)
from asterism.model.names import as_parents
from asterism.model.priors import GammaPrior
from asterism.model.rates import SummaryRates


@pytest.mark.parametrize("align", [True, False])
def test_glauber_rates_follow_the_formula(align: bool) -> None:
    net = glauber({"A": [], "B": ["A", "C"], "C": ["A"]}, a=3.0, b=0.7, align=align)
    assert net.states["B"] == (-1, 1)
    sign = -1 if align else 1
    for u, v, x in itertools.product(range(2), repeat=3):
        field = math.tanh(0.7 * (2 * u - 1 + 2 * v - 1))
        spin = 2 * x - 1
        expected = 1.5 * (1 + sign * spin * field)
        assert net.rates["B"][u, v, x, 1 - x] == pytest.approx(expected, rel=1e-14)
    assert net.rates["A"][0, 1] == 1.5


def test_an_aligning_spin_follows_its_parents() -> None:
    up = glauber("chain:2", b=1.0).rates["1"][1]
    assert up[0, 1] > up[1, 0]
    up = glauber("chain:2", b=1.0, align=False).rates["1"][1]
    assert up[0, 1] < up[1, 0]


def test_glauber_with_summaries_is_the_same_network() -> None:
    plain = glauber("full:4", a=2.0, b=0.3, summary=False)
    by_sum = glauber("full:4", a=2.0, b=0.3, summary=True)
    for node in plain.nodes:
        np.testing.assert_allclose(by_sum.rates[node].expand(), plain.rates[node], rtol=1e-15)
    assert abs(plain.joint_generator() - by_sum.joint_generator()).max() < 1e-14


def test_many_parents_get_summaries_unless_told_otherwise() -> None:
    assert isinstance(glauber("full:12").rates["0"], SummaryRates)
    assert isinstance(glauber("full:11").rates["0"], np.ndarray)
    assert glauber("full:300").rates["7"].n_summary == 300
    with pytest.raises(TooLargeError, match="SummaryRates"):
        glauber("full:25", summary=False)


@pytest.mark.parametrize(
    ("graph", "b", "expected"),
    [
        ("tree", 0.0, -11.0904),
        ("tree", 0.6, -9.1703),
        ("tree", 1.0, -8.3154),
        ("ring", 0.6, -7.6840),
        ("ring", 1.0, -6.8588),
    ],
)
def test_known_end_point_probabilities(graph: str, b: float, expected: float) -> None:
    """Eight aligning spins seen without noise at 0 and 1, uniform start, a = 8."""
    above = {"tree": "plain-tree:8", "ring": "ring:8"}[graph]
    net = glauber(above, a=8.0, b=b)
    start = np.zeros(net.n_joint_states)
    states = net.joint_states()
    start[(states == np.array([0, 1] * 4)).all(axis=1)] = 1.0 / net.n_joint_states
    end = expm_multiply(net.joint_generator().T, start)
    assert math.log(end[(states == 1).all(axis=1)][0]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("setting", [{"a": 0.0}, {"a": math.nan}, {"b": math.inf}])
def test_glauber_refuses_bad_parameters(setting: dict) -> None:
    with pytest.raises(ModelError, match="must be"):
        glauber("ring:4", **setting)


def test_standard_graphs() -> None:
    tree = graph_from_spec("tree:14")
    assert tree["0"] == ("13",)
    assert all(tree[str(i)] == (str((i - 1) // 2),) for i in range(1, 14))
    assert graph_from_spec("plain-tree:14") == {**tree, "0": ()}
    assert graph_from_spec("chain:3") == {"0": (), "1": ("0",), "2": ("1",)}
    assert graph_from_spec("cycle:3") == {"0": ("2",), "1": ("0",), "2": ("1",)}
    assert set(graph_from_spec("ring:8")["0"]) == {"1", "7"}
    assert graph_from_spec("ring:2") == {"0": ("1",), "1": ("0",)}
    assert graph_from_spec("empty:2") == {"0": (), "1": ()}
    assert set(graph_from_spec("full:3")["1"]) == {"0", "2"}


@pytest.mark.parametrize("spec", ["tree", "tree:", "tree:x", "tree:1", "bush:4", "ring:-3", ""])
def test_unknown_graph_names_list_the_known_ones(spec: str) -> None:
    with pytest.raises(ModelError, match="plain-tree:N"):
        graph_from_spec(spec)


def test_graphs_of_every_form() -> None:
    parents = {"A": ("C",), "B": ("A", "C"), "C": ()}
    net = random_rates(parents)
    assert as_parents(parents) == as_parents(net) == as_parents(net.graph) == parents
    assert as_parents(networkx.DiGraph([(1, 2)])) == {"1": (), "2": ("1",)}
    with pytest.raises(ModelError, match="parallel edges"):
        as_parents(networkx.MultiDiGraph([(1, 2)]))


def test_random_network_is_a_function_of_its_seed() -> None:
    assert random_network(seed=5) == random_network(seed=5)
    assert random_network(seed=5) != random_network(seed=6)


def test_random_network_keeps_its_bounds() -> None:
    net = random_network(8, [2, 3, 2, 4, 2, 3, 2, 2], max_parents=3, min_parents=1, seed=1)
    assert [len(net.states[n]) for n in net.nodes] == [2, 3, 2, 4, 2, 3, 2, 2]
    for node in net.nodes:
        assert 1 <= len(net.parents[node]) <= 3
        off = net.rates[node][net.rates[node] > 0]
        assert off.min() >= 0.25
        assert off.max() <= 4.0
    narrow = random_network(3, rate_range=(1.0, 1.0))
    assert set(np.unique(np.abs(narrow.rates["0"]))) == {1.0}
    assert random_network(1).parents == {"0": ()}


def test_log_uniform_rates_are_as_often_below_as_above_one() -> None:
    net = random_network(60, 3, seed=2)
    rates = np.concatenate([net.rates[n][net.rates[n] > 0] for n in net.nodes])
    share = (rates < 1.0).mean()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(len(rates))


def test_random_parents_are_uniform() -> None:
    counts = np.zeros(4)
    chosen = np.zeros(5)
    n_draws = 1500
    for seed in range(n_draws):
        parents = random_parents(5, 0, 3, seed)
        counts[len(parents["2"])] += 1
        for name in parents["2"]:
            chosen[int(name)] += 1
    assert chosen[2] == 0
    deviation = 4 * math.sqrt(n_draws * 0.25 * 0.75)
    assert (abs(counts - n_draws / 4) < deviation).all()
    assert (abs(chosen[[0, 1, 3, 4]] - n_draws * 1.5 / 4) < 4 * math.sqrt(n_draws * 0.25)).all()


@pytest.mark.parametrize(
    "setting",
    [
        {"n_nodes": 0},
        {"n_states": 1},
        {"n_states": [2, 2]},
        {"max_parents": -1},
        {"min_parents": 3, "max_parents": 2},
        {"rate_range": (0.0, 1.0)},
        {"rate_range": (2.0, 1.0)},
    ],
)
def test_random_network_refuses_bad_settings(setting: dict) -> None:
    with pytest.raises(ModelError, match="got"):
        random_network(**setting)


class TestGammaPrior:
    def test_defaults_and_resolution(self) -> None:
        prior = GammaPrior()
        assert prior.shape == 5.0
        assert prior.is_auto
        with pytest.raises(ModelError, match="auto"):
            _ = prior.rate_value
        resolved = prior.resolved(2.0)
        assert resolved == GammaPrior(5.0, 2.0)
        assert resolved.resolved(9.0).rate_value == 2.0
        for p in (prior, resolved):
            assert GammaPrior.from_dict(p.to_dict()) == p

    @pytest.mark.parametrize(
        "setting", [{"shape": 0}, {"shape": "many"}, {"rate": -1.0}, {"rate": "automatic"}]
    )
    def test_refusals(self, setting: dict) -> None:
        with pytest.raises(ModelError, match="positive number"):
            GammaPrior(**setting)
