"""Owns the E-step by clusters, and the choice of a method where the user leaves it open.

The grids are as fine as the tolerance asks at the first parameters and stay when these change, so
that the objective is one function of the parameters. Messages stay as well: after a small change of
the parameters few sweeps are needed.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_sweep import SETTLED
from asterism.clusters.batch_of_clusters import (
    ClusterBatch,
    ClusterModel,
    run_clusters,
    set_cluster_likelihoods,
)
from asterism.clusters.refine_clusters import (
    ClusterParameters,
    Precision,
    require_possible_clusters,
    solve_on_cluster_grids,
)
from asterism.clusters.regions import find_regions
from asterism.errors import TooLargeError
from asterism.evidence.arrays import Evidence, FloatArray, IntArray, with_log_likelihood
from asterism.exact.joint_layout import components
from asterism.learning.em.e_step import Expected
from asterism.model.compiled import CompiledGraph, CompiledNetwork, diagonal_index

#: joint states up to which exact inference is chosen: there an E-step takes a third of the time of
#: one by clusters, and twice as many states take it about twice as long (cluster_limit.csv)
EXACT_STATES = 256
_MAX_SWEEPS = 200
_SWEEP_TOLERANCE = 1e-7


class NoClusters(TooLargeError):
    """A family is too large for clusters; sampling is what remains."""


class ClusterStep:
    """Forward–backward on clusters that agree on what they share."""

    def __init__(
        self,
        graph: CompiledGraph,
        evidence: Evidence,
        at: tuple[FloatArray, FloatArray, FloatArray],
        tolerance: float,
        time_step: float | None,
        n_jobs: int,
    ) -> None:
        """``at``: rates, start probabilities and log-likelihoods for which grids are made."""
        rates, initial, log_likelihood = at
        self._n_jobs = n_jobs
        self._diagonal = diagonal_index(graph)
        model = ClusterModel.of(graph, find_regions(graph, evidence))
        relaxation = CompiledNetwork(graph, rates, initial).relaxation_rate
        solution = solve_on_cluster_grids(
            model,
            with_log_likelihood(evidence, log_likelihood),
            ClusterParameters(rates, initial, relaxation),
            Precision(tolerance, time_step, _MAX_SWEEPS, n_jobs),
        )
        batch_of: IntArray = np.array([b for b, _ in solution.place], dtype=np.int64)
        points = evidence.points
        lengths = np.diff(np.append(points.offset, len(points.log_likelihood)))
        owner = np.repeat(batch_of[points.trajectory], lengths)
        self._parts: list[tuple[ClusterBatch, IntArray, IntArray]] = [
            (batch, np.flatnonzero(batch_of == b), np.flatnonzero(owner == b))
            for b, batch in enumerate(solution.batches)
        ]

    def __call__(
        self, rates: FloatArray, initial: FloatArray, log_likelihood: FloatArray
    ) -> Expected:
        n_trajectories = sum(len(chosen) for _, chosen, _ in self._parts)
        log_evidence = np.zeros(n_trajectories)
        points = np.zeros(len(log_likelihood))
        table, starts = np.zeros(len(rates)), np.zeros(len(initial))
        settled = True
        for batch, trajectories, values in self._parts:
            set_cluster_likelihoods(batch, log_likelihood[values])
            outcome, found = run_clusters(
                batch, rates, initial, _SWEEP_TOLERANCE, _MAX_SWEEPS, self._n_jobs
            )
            require_possible_clusters(batch, outcome)
            log_evidence[trajectories] = outcome.evidence
            points[values] = found.points
            table += found.table
            starts += found.initial
            settled = settled and bool((outcome.status == SETTLED).all())
        return Expected(
            log_evidence=log_evidence,
            dwell=table[self._diagonal],
            transitions=table,
            initial=starts,
            points=points,
            settled=settled,
        )


def chosen_method(graph: CompiledGraph, evidence: Evidence) -> str:
    """What "auto" means here: exact where that is quick, else clusters.

    Raises :class:`NoClusters` where a family is too large for clusters.
    """
    groups = components(graph, evidence)
    largest = max((math.prod(int(graph.n_states[n]) for n in g) for g in groups), default=1)
    if largest <= EXACT_STATES:
        return "exact"
    try:
        find_regions(graph, evidence)
    except TooLargeError as problem:
        raise NoClusters(str(problem)) from None
    return "clusters"
