"""Star and mean-field inference of all trajectories: from evidence to a :class:`Posterior`."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from asterism.data.statistics import Statistics
from asterism.errors import AsterismError
from asterism.inference.batch import ImpossibleEvidence
from asterism.inference.courses import VariationalCourses
from asterism.inference.evidence import Evidence, FloatArray
from asterism.inference.parameters import Parameters
from asterism.inference.posterior import Posterior
from asterism.inference.refine import Solution, solve_on_grids
from asterism.kernels.solve import CONVERGED, GUARD, NOT_FINITE, SWEEP_LIMIT
from asterism.model.compiled import CompiledNetwork
from asterism.model.network import Network


def solve(
    network: Network,
    evidence: Evidence,
    method: str = "star",
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
) -> Posterior:
    """Posterior by ``method`` "star" or "mean_field".

    ``tolerance``: marginals absolutely, evidence and statistics relatively, against the solution
    in continuous time. ``time_step`` fixes equal steps instead, in the unit of the data.
    """
    if not tolerance > 0.0:
        raise AsterismError(f"tolerance is {tolerance}; it must be positive, e.g. 1e-3.")
    if time_step is not None and not time_step > 0.0:
        raise AsterismError(f"time_step is {time_step}; it must be positive, or None.")
    if max_sweeps < 1:
        raise AsterismError(f"max_sweeps is {max_sweeps}; it must be at least 1.")
    compiled = network.compiled
    parameters = Parameters.of(compiled, method)
    try:
        solution = solve_on_grids(
            evidence, compiled, parameters, tolerance, time_step, max_sweeps, n_jobs
        )
    except ImpossibleEvidence as problem:
        raise problem.named(network.nodes, method) from None
    is_lost = solution.outcome.status == NOT_FINITE
    if is_lost.any():
        d = int(is_lost.argmax())
        label = evidence.labels[d] if evidence.labels else d
        raise AsterismError(
            f"Trajectory {label}: the iteration left the range of finite numbers; the rates or "
            "likelihoods are too extreme for it. Try a smaller time_step, or method='exact'."
        )
    converged, reason = _verdict(solution, evidence, tolerance, max_sweeps)
    log_evidence_of = partial(
        _log_evidence_of, network, method, tolerance, time_step, max_sweeps, n_jobs
    )
    return Posterior(
        network=network,
        evidence=evidence,
        method=method,
        log_evidence_by_trajectory=solution.outcome.evidence,
        statistics=partial(
            Statistics.from_flat,
            network.nodes,
            network.parents,
            compiled.graph,
            solution.dwell,
            solution.transitions,
            network.states,
        ),
        courses=VariationalCourses(
            network,
            parameters,
            solution.batches,
            solution.place,
            tolerance,
            time_step,
            max_sweeps,
        ),
        log_evidence_of=log_evidence_of,
        converged=converged,
        stop_reason=reason,
        n_sweeps=int(solution.outcome.n_sweeps.max(initial=0)),
        history=partial(_history, solution),
        log_evidence_parts=partial(_parts, solution, compiled),
    )


def _log_evidence_of(
    network: Network,
    method: str,
    tolerance: float,
    time_step: float | None,
    max_sweeps: int,
    n_jobs: int,
    evidence: Evidence,
) -> FloatArray:
    compiled = network.compiled
    return solve_on_grids(
        evidence,
        compiled,
        Parameters.of(compiled, method),
        tolerance,
        time_step,
        max_sweeps,
        n_jobs,
    ).outcome.evidence


def _verdict(
    solution: Solution, evidence: Evidence, tolerance: float, max_sweeps: int
) -> tuple[bool, str]:
    """Whether everything settled, and a sentence that says why it stopped and what would help."""
    status = solution.outcome.status
    n = len(status)
    is_unsettled = status == SWEEP_LIMIT
    if is_unsettled.any():
        unsettled = int(is_unsettled.sum())
        largest = float(solution.outcome.residual[is_unsettled].max())
        return False, (
            f"{unsettled} of {n} trajectories had not settled after {max_sweeps} sweeps (largest "
            f"change in the last one {largest:.1e}): raise max_sweeps; if that does not help, the "
            "coupling is too strong for this method: use method='exact' if the network is small."
        )
    is_above = status == GUARD
    if is_above.any():
        bad = int(is_above.sum())
        return False, (
            f"{bad} of {n} trajectories settled at an evidence above its own upper limit, which "
            "only an unfinished iteration does: lower the tolerance, or use method='mean_field'."
        )
    if not solution.grid_error_is_small:
        return False, (
            "The messages settled, but the time steps are too long: estimated error "
            f"{solution.grid_error:.1e} against a tolerance of {tolerance:.0e}. Raise the "
            "tolerance, or give a smaller time_step."
        )
    assert (status == CONVERGED).all()
    sweeps = int(solution.outcome.n_sweeps.max(initial=0))
    if math.isnan(solution.grid_error):
        return True, f"Settled in at most {sweeps} sweeps, on the time steps that were asked for."
    return True, (
        f"Settled in at most {sweeps} sweeps; estimated error of the time steps "
        f"{solution.grid_error:.1e} (tolerance {tolerance:.0e})."
    )


def _history(solution: Solution) -> list[dict[str, float]]:
    """After every sweep on the final grids: total F and the largest change."""
    outcome = solution.outcome
    rows = []
    for sweep in range(int(outcome.n_sweeps.max(initial=0))):
        at = np.minimum(sweep, outcome.n_sweeps - 1)
        everyone = np.arange(len(at))
        active = outcome.n_sweeps > sweep
        residual = outcome.history[everyone, 1, at]
        rows.append(
            {
                "sweep": float(sweep + 1),
                "log_evidence": float(outcome.history[everyone, 0, at].sum()),
                "residual": float(residual[active].max()),
            }
        )
    return rows


def energy(
    compiled: CompiledNetwork, rates: FloatArray, dwell: FloatArray, transitions: FloatArray
) -> float:
    """E = Σ (M ln R − T R_exit): expected log density of the paths at these rates."""
    total = float(np.sum(transitions * np.log(np.where(transitions > 0.0, rates, 1.0))))
    graph = compiled.graph
    begin = 0
    for n in range(graph.n_nodes):
        size = int(graph.n_states[n])
        block = rates[graph.table_start[n] : graph.table_start[n + 1]].reshape(-1, size, size)
        exits = np.einsum("uxx->ux", block).ravel()
        total += float(exits @ dwell[begin : begin + len(exits)])
        begin += len(exits)
    return total


def _parts(solution: Solution, compiled: CompiledNetwork) -> dict[str, float]:
    """F cut into energy, entropy, data and initial terms."""
    total = float(solution.outcome.evidence.sum())
    data = float(solution.outcome.data.sum())
    initial = float(solution.outcome.initial.sum())
    of_paths = energy(compiled, compiled.rates, solution.dwell, solution.transitions)
    return {
        "energy": of_paths,
        "entropy": total - of_paths - data - initial,
        "data": data,
        "initial": initial,
        "log_evidence": total,
    }
