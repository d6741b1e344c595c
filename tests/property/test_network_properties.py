"""Any network: rows sum to zero, files and graphs round-trip, views agree with each other."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from asterism.model.generators import glauber, random_network
from asterism.model.network import Network
from asterism.model.rates import SummaryRates


@st.composite
def networks(draw: st.DrawFn) -> Network:
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=5))
    net = random_network(
        len(sizes),
        sizes,
        max_parents=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 10_000)),
        rate_range=(1e-6, draw(st.sampled_from([1.0, 1e9]))),
    )
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return net.with_initial(
        {node: rng.dirichlet(np.ones(size)) for node, size in zip(net.nodes, sizes)}
    )


@st.composite
def summaries(draw: st.DrawFn) -> SummaryRates:
    weights = draw(st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=3), max_size=3))
    span = sum(max(w) - min(w) for w in weights)
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return SummaryRates(weights, rng.exponential(size=(span + 1, 2, 2)) * (1 - np.eye(2)))


@settings(max_examples=60, deadline=None)
@given(networks())
def test_every_row_sums_to_zero(net: Network) -> None:
    for node in net.nodes:
        rates = net.rates[node]
        exits = -np.diagonal(rates, axis1=-2, axis2=-1)
        assert (abs(rates.sum(axis=-1)) <= 1e-12 * exits).all()
    generator = net.joint_generator()
    scale = -generator.diagonal().min()
    assert abs(np.asarray(generator.sum(axis=1))).max() <= 1e-12 * scale
    assert (generator - np.diag(generator.diagonal())).min() >= 0


@settings(max_examples=60, deadline=None)
@given(networks())
def test_files_and_graphs_round_trip(net: Network) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.json"
        net.save(path)
        assert Network.load(path) == net
    assert Network(net.graph, net.rates, initial=net.initial) == net


@settings(max_examples=60, deadline=None)
@given(networks())
def test_compiled_tables_hold_the_same_rates(net: Network) -> None:
    compiled = net.compiled
    for number, node in enumerate(net.nodes):
        start, end = compiled.graph.table_start[number : number + 2]
        np.testing.assert_array_equal(compiled.rates[start:end], np.ravel(net.rates[node]))
        start, end = compiled.graph.state_start[number : number + 2]
        np.testing.assert_array_equal(compiled.initial[start:end], net.initial[node])
        assert abs(net.initial[node].sum() - 1.0) < 1e-12


@settings(max_examples=60, deadline=None)
@given(summaries())
def test_a_summary_expands_to_the_same_chain(rates: SummaryRates) -> None:
    names = [f"p{i}" for i in range(len(rates.weights))]
    single = {
        name: np.ones((len(w), len(w))) * (1 - np.eye(len(w)))
        for name, w in zip(names, rates.weights)
    }
    parents = {"child": names, **{name: [] for name in names}}
    by_sum = Network(parents, {"child": rates, **single})
    plain = Network(parents, {"child": rates.expand(), **single})
    assert abs(by_sum.joint_generator() - plain.joint_generator()).max() < 1e-12
    assert Network.from_dict(by_sum.to_dict()) == by_sum


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.floats(-2, 2), st.booleans())
def test_glauber_spins_have_a_symmetric_chain(n_nodes: int, b: float, align: bool) -> None:
    """Turning all spins round leaves the rates as they are."""
    generator = glauber(f"ring:{n_nodes}", a=1.0, b=b, align=align).joint_generator().toarray()
    np.testing.assert_allclose(generator, generator[::-1, ::-1], atol=1e-12)
