"""Messages between clusters in numbers: two trajectories, every kind of evidence, plain loops.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks it whether wrong code
would be noticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import asterism as am
import asterism.numerics._jit as jit
from asterism.clusters._cluster_messages import start_again
from asterism.clusters.batch import (
    ClusterModel,
    first_messages,
    make_cluster_batch,
    run_clusters,
    start_messages,
)
from asterism.clusters.regions import find_regions
from asterism.data.statistics import Statistics
from asterism.engine.grid import build_even_grid
from asterism.numerics.compiled import diagonal_index
from asterism.timeline.evidence import Spans
from asterism.timeline.timeline import timeline_of
from tests.reference.cluster_sweep import ReferenceClusters
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points

SIZES = [2, 2, 2, 2]
PARENTS = {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]}


@jit.kernel(cache=False)
def again(messages, first):  # type: ignore[no-untyped-def]
    start_again(messages, first)


def chain_of_four() -> am.Network:
    rng = np.random.default_rng(6)
    rates = {
        n: np.exp(rng.uniform(-1.0, 1.0, (2,) * (len(above) + 2))) * (1 - np.eye(2))
        for n, above in PARENTS.items()
    }
    initial = {n: rng.dirichlet(np.full(2, 2.0)) for n in PARENTS}
    return am.Network(PARENTS, rates, {n: [0, 1] for n in PARENTS}, initial)


def batch_of(network: am.Network, evidence: Any, step: float = 0.4) -> Any:
    graph = network.compiled.graph
    model = ClusterModel.of(graph, find_regions(graph, evidence, 1))
    assert len(model.regions.separators) == 2
    grid = build_even_grid(timeline_of(evidence), step)
    batch = make_cluster_batch(model, evidence, grid)
    start_messages(batch, network.compiled.rates)
    return batch


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_a_chain_of_three_clusters(n_sweeps: int) -> None:
    """Two trajectories of unequal length: evidence, disagreement, times and transitions."""
    network = chain_of_four()
    rng = np.random.default_rng(7)
    points = [
        *random_points(rng, SIZES, 0.8, 1),
        *((1, *p[1:]) for p in random_points(rng, SIZES, 0.5, 1)),
    ]
    evidence = make_evidence(SIZES, [0.0, 0.0], [0.8, 0.5], points)
    batch = batch_of(network, evidence)
    compiled = network.compiled
    outcome, found = run_clusters(batch, compiled.rates, compiled.initial, 1e-12, n_sweeps)
    slow = []
    for d in range(2):
        one = ReferenceClusters(network, evidence, batch.model.regions, batch.grid.times(d), d)
        for sweep in range(n_sweeps):
            one.sweep(sweep)
            # the first sweeps sum their series loosely
            assert outcome.history[d, sweep] == pytest.approx(one.worst, rel=2e-3)
        assert float(outcome.evidence[d]) == pytest.approx(one.evidence_value(), abs=3e-6)
        slow.append(one)
    assert_counted(network, found, slow)


def assert_counted(network: am.Network, found: Any, slow: list[ReferenceClusters]) -> None:
    compiled = network.compiled
    statistics = Statistics.from_flat(
        network.nodes, network.parents, compiled.graph,
        found.table[diagonal_index(compiled.graph)], found.table, network.states,
    )  # fmt: skip
    for n, name in enumerate(network.nodes):
        each = [one.statistics(n) for one in slow]
        np.testing.assert_allclose(statistics.dwell_times[name], sum(t for t, _ in each), atol=3e-6)
        np.testing.assert_allclose(statistics.transitions[name], sum(m for _, m in each), atol=3e-6)


def test_jumps_spans_and_held_nodes_in_messages() -> None:
    network = chain_of_four()
    evidence = make_evidence(
        SIZES, [0.0], [0.9],
        points=[(0, 3, 0.6, [-0.2, -1.4])],
        jumps=[(0, 1, 0.3, 1, 0)],
        spans=[(0, 2, 0.3, 0.6, 1)],
    )  # fmt: skip
    by_hand = Spans(*(np.array([v]) for v in (0, 0, 0.0, 0.3, 1)))
    evidence = replace(evidence, interventions=by_hand)
    batch = batch_of(network, evidence)
    compiled = network.compiled
    outcome, _ = run_clusters(batch, compiled.rates, compiled.initial, 1e-12, 2)
    one = ReferenceClusters(network, evidence, batch.model.regions, batch.grid.times(0))
    for sweep in range(2):
        one.sweep(sweep)
        assert outcome.history[0, sweep] == pytest.approx(one.worst, rel=2e-3)
    assert float(outcome.evidence[0]) == pytest.approx(one.evidence_value(), abs=3e-6)


def test_messages_start_again_from_the_first_ones() -> None:
    network = chain_of_four()
    evidence = make_evidence(SIZES, [0.0], [0.8], [(0, 3, 0.4, [-0.2, -1.4])])
    batch = batch_of(network, evidence)
    first = first_messages(batch.model, network.compiled.rates)
    messages = batch.messages[0]
    wanted = [np.array(part) for part in messages]
    for part in messages:
        part[...] = 7.0
    again(messages, first)
    for part, expected in zip(messages, wanted):
        np.testing.assert_array_equal(part, expected)
