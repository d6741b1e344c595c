"""Star and mean field: the mathematics, and the way from evidence to a :class:`Posterior`.

**The star.** Every node n keeps a forward message f_n and a backward message ρ_n; its marginal is
m_n = f_n ρ_n. Around it stand its parents, seen through their marginals. One update of node n, all
others fixed:

1. average its rates over the parents:  A(x,y) = E_n[R(x,y)],  E_n[g] = Σ_u m^u g(u),
   with m^u the product of the parents' marginals;
2. collect what its children say:  ψ(x') = Σ_children j Σ_{x,y} w_j(x,y) E_j[R_j(x,y) | x'],
   where w_j(x,y) = f_j(x) ρ_j(y) and E_j[· | x'] fixes n at x' among the parents of j; ψ joins the
   diagonal of A;
3. run ρ backward by dρ/dt = −A ρ and f forward by df/dt = Aᵀ f, multiplying both by the
   likelihoods of the measurements where there are any;
4. store W = ∫ f(x) ρ(y) dt of every time step for the neighbours' next updates.

Sweeping over the nodes until nothing changes gives a stationary point of the star's variational
energy F, which approximates ln P(Y); it is not a bound. There, F = Σ_n (ln Z_n − ∫ Σ_x m_n ψ_n dt).

**Mean field** (Cohn, El-Hay, Friedman and Kupferman 2010) makes two changes. Off the diagonal the
rates are averaged geometrically, A(x,y) = exp E_n[ln R(x,y)]: with independent nodes the energy
holds expectations of ln R. And a child's pull uses its expected transitions τ_j = w_j A_j,
ψ(x') = Σ_j { Σ_x m_j(x) E_j[R_j(x,x) | x'] + Σ_{x≠y} τ_j(x,y) E_j[ln R_j(x,y) | x'] }. The
neighbours' τ is stored, not w. Each update then maximises F exactly over its node, F rises from
sweep to sweep, and it never exceeds ln P(Y). A transition that one possible configuration forbids
has geometric average zero: mean field cannot use it.

**Where to read on.** The loop over sweeps is ``_solve.py``; steps 1 and 2 are ``_averages.py``,
step 3 ``_messages.py``, step 4 ``_node.py``. ``grid.py`` and ``refine.py`` choose time steps,
``problem.py`` lays out the arrays, ``batch.py`` calls the compiled loop.

**Past the end** of a trajectory ρ = 1: the forecast starts from the marginals at the end, taken as
independent, and follows the averaged rates, dm/dt = m E[R]; for mean field too, whose own solution
without data would depend on how far the forecast goes. Paths: ``paths_drawn.py``.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, Sentence, Setting, counted
from asterism.inference.posterior import Convergence, Posterior
from asterism.model.compiled import CompiledNetwork
from asterism.model.network import Network
from asterism.numerics.resources import current_limit
from asterism.star._buffers import INITIAL, STATES
from asterism.star._solve import CONVERGED, GUARD, NOT_FINITE, SWEEP_LIMIT
from asterism.star.batch import Batch, ImpossibleEvidence
from asterism.star.grid import verdict_on_steps
from asterism.star.paths_drawn import PathCollector, draw
from asterism.star.point_values import flat_marginals, messages_of
from asterism.star.problem import Parameters
from asterism.star.refine import Solution, solve_on_grids
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    Jumps,
    Points,
    Spans,
    refuse_interventions,
)


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
        raise AsterismError(
            Setting("tolerance"), f" is {tolerance}; it must be positive, e.g. 1e-3."
        )
    if time_step is not None and not time_step > 0.0:
        raise AsterismError(Setting("time_step"), f" is {time_step}; it must be positive.")
    if max_sweeps < 1:
        raise AsterismError(Setting("max_sweeps"), f" is {max_sweeps}; it must be at least 1.")
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
            "likelihoods are too extreme for it. Try a smaller ",
            *(Setting("time_step"), ", or ", Setting("method", "exact"), "."),
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
        convergence=Convergence(
            converged,
            reason,
            int(solution.outcome.n_sweeps.max(initial=0)),
            partial(_history, solution),
        ),
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
    limits = (tolerance, time_step, max_sweeps, n_jobs)
    parameters = Parameters.of(compiled, method)
    return solve_on_grids(evidence, compiled, parameters, *limits).outcome.evidence


def _verdict(
    solution: Solution, evidence: Evidence, tolerance: float, max_sweeps: int
) -> tuple[bool, str]:
    """Whether everything settled, and a sentence that says why it stopped and what would help."""
    status = solution.outcome.status
    n = len(status)
    is_unsettled = status == SWEEP_LIMIT
    limit = current_limit()
    if limit.was_felt:
        return False, (
            f"{limit.sentence}: {int(is_unsettled.sum())} of {n} trajectories had not converged, "
            "and the time steps were not all refined as far as the tolerance asks. The result is "
            "the best so far: allow more time, or raise the tolerance."
        )
    if is_unsettled.any():
        unsettled = int(is_unsettled.sum())
        largest = float(solution.outcome.residual[is_unsettled].max())
        return False, Sentence(
            f"{unsettled} of {n} trajectories had not converged after "
            f"{counted(max_sweeps, 'sweep')} (largest change in the last one {largest:.1e}): ",
            "raise ",
            *(Setting("max_sweeps"), "; if that does not help, use ", Setting("method", "exact")),
            " if the network is small: the coupling is too strong for this method.",
        )
    is_above = status == GUARD
    if is_above.any():
        bad = int(is_above.sum())
        return False, Sentence(
            f"{bad} of {n} trajectories ended with an evidence above its own upper limit, which "
            "only an unfinished iteration does: lower the ",
            *(Setting("tolerance"), ", or use ", Setting("method", "mean_field"), "."),
        )
    assert (status == CONVERGED).all()
    sweeps = int(solution.outcome.n_sweeps.max(initial=0))
    is_small = solution.grid_error_is_small
    return verdict_on_steps(sweeps, solution.grid_error, tolerance, is_small)


def _history(solution: Solution) -> list[dict[str, float]]:
    """After every sweep on the final grids: total F and the largest change."""
    outcome = solution.outcome
    rows = []
    for k in range(int(outcome.n_sweeps.max(initial=0))):
        at = np.minimum(k, outcome.n_sweeps - 1)
        everyone = np.arange(len(at))
        active = outcome.n_sweeps > k
        residual = outcome.history[everyone, 1, at]
        rows.append(
            {
                "sweep": float(k + 1),
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
    """F cut into energy, entropy, data and start terms."""
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


class VariationalCourses:
    """Marginals and paths from solved batches."""

    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        batches: list[Batch],
        place: list[tuple[int, int]],
        tolerance: float = 1e-3,
        time_step: float | None = None,
        max_sweeps: int = 200,
    ) -> None:
        """``place``: batch and number within it of each trajectory. The rest is for forecasts."""
        self._network = network
        self._parameters = parameters
        self._batches = batches
        self._place = place
        self._tolerance = tolerance
        self._time_step = time_step
        self._max_sweeps = max_sweeps

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n); before the start those at the start, past the end a forecast."""
        b, index = self._place[trajectory]
        batch = self._batches[b]
        end = float(batch.evidence.end[index])
        clock = np.maximum(np.asarray(times, dtype=np.float64), batch.evidence.start[index])
        later = np.flatnonzero(clock > end)
        # the end is asked for as well: forecasts begin there
        asked = np.append(np.minimum(clock, end), end)
        found = flat_marginals(batch, index, self._parameters, asked)
        values, at_end = found[:-1], found[-1]
        if len(later):
            values[later] = self._forecast(batch.evidence, index, at_end, clock[later])
        node = batch.problem.node
        return [values[:, i : i + s] for i, s in zip(node[:-1, INITIAL], node[:-1, STATES])]

    def _forecast(
        self, evidence: Evidence, index: int, initial: FloatArray, times: FloatArray
    ) -> FloatArray:
        """Marginals past the end of a trajectory that ends with marginals ``initial``."""
        network = CompiledNetwork(self._network.compiled.graph, self._parameters.rates, initial)
        future = _without_data(evidence, index, float(times.max()), network, initial)
        rates = self._parameters.rates
        parameters = Parameters(rates, table=rates, initial=initial, geometric=False)
        solution = solve_on_grids(
            future,
            network,
            parameters,
            self._tolerance,
            self._time_step,
            self._max_sweeps,
            n_jobs=1,
        )
        if solution.outcome.status[0] != CONVERGED:
            warnings.warn(
                Sentence(
                    f"The forecast of trajectory {future.labels[0]!r} to time {times.max():g} had "
                    f"not converged after {self._max_sweeps} sweeps: ask for earlier times, or ",
                    *("raise ", Setting("max_sweeps"), "."),
                ),
                stacklevel=4,
            )
        b, i = solution.place[0]
        return flat_marginals(solution.batches[b], i, parameters, times)

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """``n`` paths of every trajectory (see :mod:`asterism.star.paths_drawn`)."""
        for batch in self._batches:
            refuse_interventions(batch.evidence, "Drawing paths")
        keys = rng.integers(2**64, size=(len(self._place), 2), dtype=np.uint64)
        collector = PathCollector(self._network)
        for d, (b, index) in enumerate(self._place):
            batch = self._batches[b]
            labels = batch.evidence.labels
            messages = messages_of(batch, index, self._parameters)
            paths = draw(batch, index, self._parameters, messages, n, kind, keys[d])
            collector.add(
                labels[index] if labels else d,
                float(batch.evidence.start[index]),
                float(batch.evidence.end[index]),
                paths,
            )
        return collector.trajectories()


def _without_data(
    evidence: Evidence, index: int, end: float, network: CompiledNetwork, initial: FloatArray
) -> Evidence:
    """One trajectory that goes on after its end; exogenous nodes stay in their last state."""
    start = float(evidence.end[index])
    known: IntArray = np.array(sorted(evidence.exogenous), dtype=np.int64)
    graph = network.graph
    state = [
        int(np.argmax(initial[graph.state_start[n] : graph.state_start[n + 1]])) for n in known
    ]
    no_int, no_float = np.zeros(0, dtype=np.int64), np.zeros(0)
    n = len(known)
    return Evidence(
        n_nodes=evidence.n_nodes,
        start=np.array([start]),
        end=np.array([end]),
        points=Points(no_int, no_int, no_float, no_int, no_float),
        jumps=Jumps(no_int, no_int, no_float, no_int, no_int),
        spans=Spans(
            np.zeros(n, dtype=np.int64),
            known,
            np.full(n, start),
            np.full(n, end),
            np.array(state, dtype=np.int64),
        ),
        exogenous=evidence.exogenous,
        labels=(evidence.labels[index] if evidence.labels else index,),
    )
