"""Messages of clusters in numbers: three clusters of a chain against the plain loops.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks it whether wrong code
would be noticed.
"""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.clusters.batch_of_clusters import (
    ClusterModel,
    make_cluster_batch,
    run_clusters,
    start_messages,
)
from asterism.clusters.regions import find_regions
from asterism.data.statistics import Statistics
from asterism.model.compiled import diagonal_index
from asterism.star.grid import build_even_grid, find_breakpoints
from tests.reference.cluster_sweep import ReferenceClusters
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points

SIZES = [2, 2, 2, 2]
PARENTS = {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]}


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_a_chain_of_three_clusters(n_sweeps: int) -> None:
    rng = np.random.default_rng(6)
    rates = {
        n: np.exp(rng.uniform(-1.0, 1.0, (2,) * (len(above) + 2))) * (1 - np.eye(2))
        for n, above in PARENTS.items()
    }
    initial = {n: rng.dirichlet(np.full(2, 2.0)) for n in PARENTS}
    network = am.Network(PARENTS, rates, {n: [0, 1] for n in PARENTS}, initial)
    evidence = make_evidence(SIZES, [0.0], [0.8], random_points(rng, SIZES, 0.8, 1))
    compiled = network.compiled
    model = ClusterModel.of(compiled.graph, find_regions(compiled.graph, evidence, 1))
    assert len(model.regions.separators) == 2
    breakpoints = find_breakpoints(evidence)
    batch = make_cluster_batch(model, evidence, breakpoints, build_even_grid(breakpoints, 1, 0.4))
    start_messages(batch, compiled.rates)
    outcome, found = run_clusters(batch, compiled.rates, compiled.initial, 1e-12, n_sweeps)
    slow = ReferenceClusters(network, evidence, model.regions, batch.grid.times(0))
    for sweep in range(n_sweeps):
        slow.sweep(sweep)
    assert float(outcome.evidence[0]) == pytest.approx(slow.evidence_value(), abs=3e-6)
    statistics = Statistics.from_flat(
        network.nodes, network.parents, compiled.graph,
        found.table[diagonal_index(compiled.graph)], found.table, network.states,
    )  # fmt: skip
    for n, name in enumerate(network.nodes):
        time, moves = slow.statistics(n)
        np.testing.assert_allclose(statistics.dwell_times[name], time, atol=3e-6)
        np.testing.assert_allclose(statistics.transitions[name], moves, atol=3e-6)
