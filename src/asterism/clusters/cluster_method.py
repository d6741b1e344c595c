"""Clusters: every family as one joint chain, and neighbours that agree on what they share.

The star treats a node and its parents as independent at every time. Here a node stays together
with its parents in a cluster C, whose joint chain is followed exactly. Two clusters that share
nodes are joined by a separator s, and both must see the same process there, at the same rates q:

1. a cluster's chain uses the true rates of the nodes it owns; its other nodes jump at the rates
   that the neighbours tell it through the separators;
2. forward–backward on the cluster gives times T and jumps M; summed onto a separator they say at
   which rates q = M/T the shared nodes move, given everything the cluster knows;
3. the separator has a chain of its own; where its rates differ, the message is corrected;
4. sweeping over the clusters until nothing changes gives

    F = Σ_C ln Z_C − Σ_s ln Z_s ≈ ln P(Y),

every node counted once. F is no bound. One cluster that holds all nodes is exact inference; else a
separator's process is only nearly Markov, which is the whole approximation. ``regions.py`` chooses
the clusters, ``_region_chain.py`` is forward–backward, ``_cluster_messages.py`` the updates,
``_cluster_sweep.py`` the iteration and ``refine_clusters.py`` the time steps.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from asterism.clusters import _cluster_sweep as _sweep
from asterism.clusters.batch_of_clusters import ClusterModel
from asterism.clusters.cluster_posterior import ClusterCourses
from asterism.clusters.refine_clusters import (
    ClusterParameters,
    ClusterSolution,
    Precision,
    solve_on_cluster_grids,
)
from asterism.clusters.regions import STATE_LIMIT, find_regions
from asterism.data.statistics import Statistics
from asterism.errors import AsterismError, Sentence, Setting
from asterism.inference.posterior import Convergence, Posterior
from asterism.model.compiled import diagonal_index
from asterism.model.network import Network
from asterism.star.grid import verdict_on_steps
from asterism.timeline.evidence import Evidence, FloatArray


def solve(
    network: Network,
    evidence: Evidence,
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
    cluster_size: int | None = None,
    state_limit: int = STATE_LIMIT,
) -> Posterior:
    """Posterior by clusters; refuses families of more than ``state_limit`` joint states.

    ``tolerance``: marginals absolutely, evidence and statistics relatively, against the same
    approximation in continuous time. ``cluster_size``: see :func:`find_regions`.
    """
    if not tolerance > 0.0:
        raise AsterismError(
            Setting("tolerance"), f" is {tolerance}; it must be positive, e.g. 1e-3."
        )
    if time_step is not None and not time_step > 0.0:
        raise AsterismError(Setting("time_step"), f" is {time_step}; it must be positive.")
    if max_sweeps < 1:
        raise AsterismError(Setting("max_sweeps"), f" is {max_sweeps}; it must be at least 1.")
    compiled = network.compiled
    parameters = ClusterParameters(compiled.rates, compiled.initial, compiled.relaxation_rate)
    precision = Precision(tolerance, time_step, max_sweeps, n_jobs)

    def solved(other: Evidence) -> ClusterSolution:
        regions = find_regions(compiled.graph, other, cluster_size, state_limit, network.nodes)
        model = ClusterModel.of(compiled.graph, regions)
        return solve_on_cluster_grids(model, other, parameters, precision)

    def log_evidence_of(other: Evidence) -> FloatArray:
        return solved(other).outcome.evidence

    solution = solved(evidence)
    converged, reason = _verdict(solution, precision)
    table = solution.statistics.table
    return Posterior(
        network=network,
        evidence=evidence,
        method="clusters",
        log_evidence_by_trajectory=solution.outcome.evidence,
        statistics=partial(
            Statistics.from_flat,
            network.nodes,
            network.parents,
            compiled.graph,
            table[diagonal_index(compiled.graph)],
            table,
            network.states,
        ),
        courses=ClusterCourses(network, evidence, solution, parameters, solved),
        log_evidence_of=log_evidence_of,
        convergence=Convergence(
            converged,
            reason,
            int(solution.outcome.n_sweeps.max(initial=0)),
            partial(_history, solution),
        ),
    )


def _verdict(solution: ClusterSolution, precision: Precision) -> tuple[bool, str]:
    """Whether everything settled, and a sentence that says why it stopped and what would help."""
    outcome = solution.outcome
    is_unsettled = outcome.status != _sweep.SETTLED
    if is_unsettled.any():
        largest = float(outcome.residual[is_unsettled].max())
        return False, Sentence(
            f"{int(is_unsettled.sum())} of {len(outcome.status)} trajectories had not converged "
            f"after {precision.max_sweeps} sweeps (largest disagreement of two clusters "
            f"{largest:.1e} expected jumps): raise ",
            *(Setting("max_sweeps"), ", try another ", Setting("cluster_size"), ", or use "),
            *(Setting("method", "exact"), " if the network is small."),
        )
    sweeps = int(outcome.n_sweeps.max(initial=0))
    if sweeps == 0:
        return True, "Exact: one cluster holds every group of coupled nodes."
    is_small = not solution.grid_error > precision.tolerance
    return verdict_on_steps(sweeps, solution.grid_error, precision.tolerance, is_small)


def _history(solution: ClusterSolution) -> list[dict[str, float]]:
    """After every sweep on the final grids: the largest disagreement of two clusters."""
    outcome = solution.outcome
    rows = []
    for sweep in range(int(outcome.n_sweeps.max(initial=0))):
        active = outcome.n_sweeps > sweep
        residual = float(np.max(outcome.history[active, sweep]))
        rows.append({"sweep": float(sweep + 1), "residual": residual})
    return rows
