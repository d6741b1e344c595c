"""Messages of clusters in numbers: three clusters of a chain against the plain loops.

Small enough to run with the compiler off; ``benchmarks/mutants.py`` asks it whether wrong code
would be noticed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import asterism as am
from asterism.clusters.batch import (
    ClusterBatch,
    run_clusters,
    set_cluster_likelihoods,
    start_messages,
)
from tests.cluster_cases import assert_same_evidence, started
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points

SIZES = [2, 2, 2, 2]
PARENTS = {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]}


def chain() -> tuple[am.Network, ClusterBatch]:
    """Four nodes in three clusters, and messages that were just started."""
    rng = np.random.default_rng(6)
    rates = {
        n: np.exp(rng.uniform(-1.0, 1.0, (2,) * (len(above) + 2))) * (1 - np.eye(2))
        for n, above in PARENTS.items()
    }
    initial = {n: rng.dirichlet(np.full(2, 2.0)) for n in PARENTS}
    network = am.Network(PARENTS, rates, {n: [0, 1] for n in PARENTS}, initial)
    evidence = make_evidence(SIZES, [0.0], [0.8], random_points(rng, SIZES, 0.8, 1))
    batch = started(network, evidence, 0.4)
    assert len(batch.model.regions.separators) == 2
    return network, batch


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_a_chain_of_three_clusters(n_sweeps: int) -> None:
    network, batch = chain()
    statistics, slow = assert_same_evidence(network, batch, n_sweeps)
    for n, name in enumerate(network.nodes):
        time, moves = slow.statistics(n)
        np.testing.assert_allclose(statistics.dwell_times[name], time, atol=3e-6)
        np.testing.assert_allclose(statistics.transitions[name], moves, atol=3e-6)


def test_only_clusters_with_news_are_solved_again() -> None:
    """After a change of one node's rates the result is that of a new start."""
    network, batch = chain()
    graph, rates, initial = network.compiled.graph, network.compiled.rates, network.compiled.initial
    outcome, found = run_clusters(batch, rates, initial, 1e-7, 100)
    assert outcome.n_sweeps[0] > 3
    again, same = run_clusters(batch, rates, initial, 1e-7, 100)
    assert again.n_sweeps[0] == 1
    np.testing.assert_allclose(same.table, found.table, atol=1e-7)

    faster = rates.copy()
    faster[graph.table_start[3] :] *= 1.01  # of D, the last in the chain
    told = [m.rate.copy() for m in batch.messages]
    run_clusters(batch, faster, initial, 1e-7, 1)
    is_moved = (batch.messages[0].rate != told[0]).any(axis=1)
    first, second = (
        is_moved[2 * a : 2 * b] for a, b in pairwise(batch.model.arrays.message_entry_start)
    )
    assert not first.any()  # nothing of A, B has changed yet
    assert second.any()
    warm, there = run_clusters(batch, faster, initial, 1e-7, 100)
    _, other = chain()
    cold, here = run_clusters(other, faster, initial, 1e-7, 100)
    assert warm.n_sweeps[0] < cold.n_sweeps[0]
    np.testing.assert_allclose(warm.evidence, cold.evidence, atol=1e-9)
    np.testing.assert_allclose(there.table, here.table, atol=1e-6)
    assert np.abs(there.table - found.table).max() > 1e-4

    likely = batch.evidence.points.log_likelihood * 1.5
    for one in (batch, other):
        set_cluster_likelihoods(one, likely)
    start_messages(other, faster)
    warm, there = run_clusters(batch, faster, initial, 1e-7, 100)
    cold, here = run_clusters(other, faster, initial, 1e-7, 100)
    np.testing.assert_allclose(warm.evidence, cold.evidence, atol=1e-9)
    # on a grid the fixed point depends a little on where the messages began
    np.testing.assert_allclose(there.points, here.points, atol=1e-5)
