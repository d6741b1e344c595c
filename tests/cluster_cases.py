"""Clusters solved both ways, by the compiled loops and by the plain ones of tests/reference."""

from __future__ import annotations

from asterism.clusters.batch import (
    ClusterBatch,
    ClusterModel,
    make_cluster_batch,
    run_clusters,
    start_messages,
)
from asterism.clusters.regions import find_regions
from asterism.data.statistics import Statistics
from asterism.engine.grid import build_even_grid
from asterism.model.network import Network
from asterism.numerics.compiled import diagonal_index
from asterism.timeline.evidence import Evidence
from asterism.timeline.timeline import timeline_of
from tests.reference.cluster_sweep import ReferenceClusters


def started(network: Network, evidence: Evidence, step: float) -> ClusterBatch:
    """Clusters of one family each on even steps, their messages just started."""
    compiled = network.compiled
    model = ClusterModel.of(compiled.graph, find_regions(compiled.graph, evidence, 1))
    batch = make_cluster_batch(model, evidence, build_even_grid(timeline_of(evidence), step))
    start_messages(batch, compiled.rates)
    return batch


def assert_same_evidence(
    network: Network, batch: ClusterBatch, n_sweeps: int
) -> tuple[Statistics, ReferenceClusters]:
    """As many sweeps both ways; the statistics of the compiled loops, and the plain clusters."""
    compiled = network.compiled
    outcome, found = run_clusters(batch, compiled.rates, compiled.initial, 1e-12, n_sweeps)
    slow = ReferenceClusters(network, batch.evidence, batch.model.regions, batch.grid.times(0))
    for sweep in range(n_sweeps):
        slow.sweep(sweep)
    assert abs(float(outcome.evidence[0]) - slow.evidence_value()) < 3e-6
    statistics = Statistics.from_flat(
        network.nodes, network.parents, compiled.graph,
        found.table[diagonal_index(compiled.graph)], found.table, network.states,
    )  # fmt: skip
    return statistics, slow
