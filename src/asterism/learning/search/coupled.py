"""One coupled solve of a large graph, its trajectories shared among threads.

The same iteration as ``solve_marginal`` in ``_marginal.py``, with the loop over sweeps here: each
sweep runs in threads over a fixed partition of the trajectories, and statistics are summed in the
order of the partition, so that the result does not depend on the number of threads.

Every third update of the rates is extrapolated, node by node, by the same step as in local solves
(``extrapolate`` in ``_local.py``). Mixing, as small networks do it, needs eight more copies of
the moments, and mixing the rates alone can fail (``benchmarks/fixed_points.py``).

Where no node has a parent, statistics follow without moments (``star/uncoupled.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from asterism.engine._outcome import EVIDENCE, IMPOSSIBLE, RESIDUAL
from asterism.learning.search import _marginal as marginal
from asterism.learning.search._local import extrapolate_all
from asterism.learning.search._marginal import MarginalPrior, Rule, Sums, update_all_rates
from asterism.numerics._step import has_settled
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import chunks, current_limit, map_chunks
from asterism.star._buffers import TABLE, Problem, make_work
from asterism.star._solve import BAD_NODE
from asterism.star.batch import (
    Control,
    Counts,
    addresses_to_sweep,
    is_uncoupled,
    make_counts,
    new_outcome,
    summed,
    sweep,
)
from asterism.star.problem import Parameters

_QUIET = 3e-7  # change of the score, per measurement, that no longer matters
_LEAST_DAMPING = 0.1  # not tuned: a guard
_FAR = 0.01  # change per iteration that is far from a solution
_PATIENCE = 40  # iterations far from it, and without coming closer, that end it
_PERIOD = 3  # updates of the rates of which the last is extrapolated
_RESTLESS = 0.02  # change of the logarithm of a rate that matters


@dataclass(frozen=True)
class Ending:
    """How the iteration ended, with the last sweep's statistics."""

    dwell: FloatArray
    transitions: FloatArray
    summary: FloatArray
    n_iterations: int
    status: int
    bad: IntArray
    """Node and trajectory of impossible evidence."""
    restless: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Nodes whose rates went on changing, if the iteration did not converge."""


def solve_in_threads(
    problem: Problem,
    parameters: Parameters,
    moments: FloatArray,
    prior: MarginalPrior,
    rule: Rule,
    n_jobs: int,
    keep_moments: bool = True,
) -> Ending:
    """Iterate to self-consistency; arguments as in ``solve_marginal``.

    Without ``keep_moments`` these may be left as they are, which saves a sweep.
    """
    n_trajectories = len(problem.step_start) - 1
    pieces = chunks(n_trajectories)
    record = new_outcome(n_trajectories, 1)
    totals = record.totals
    summary = np.zeros(marginal.N_SUMMARY)
    bad = np.full(2, -1, dtype=np.int64)
    damping, best, stalled, previous = 1.0, np.inf, 0, np.inf
    n_quiet = 0
    # what much data say may move by more; the score itself depends on the unit of time
    scale = max(1.0, float(len(problem.mark)))
    dwell = transitions = np.zeros(0)

    units = addresses_to_sweep(problem)
    works = {piece: make_work(problem, units, piece) for piece in pieces}
    uncoupled = None
    if is_uncoupled(problem):
        from asterism.star.uncoupled import Uncoupled

        uncoupled = Uncoupled.of(problem, pieces)
    restart = rule.restart

    def sweep_and_count(first: int, last: int) -> Counts:
        counts = make_counts(problem)
        sweep(
            problem,
            parameters,
            moments,
            (first, last),
            record,
            control=Control(restart=restart, damping=damping),
            counts=counts,
            work=works[first, last],
        )
        return counts

    extrapolation = Extrapolation(problem, parameters)
    # with the exact stationary point exit rates are not sums of rates
    extrapolating = not prior.digamma
    extrapolated = False
    closest, n_farther = np.inf, 0
    rates_when_closest = parameters.rates.copy()
    status = marginal.ITERATION_LIMIT
    iteration = 0
    while iteration < rule.max_iterations:
        iteration += 1
        quick = None if uncoupled is None else uncoupled.count(parameters, n_jobs)
        if quick is None:
            parts = map_chunks(sweep_and_count, pieces, n_jobs)
            restart = False
        else:
            parts, totals[:, EVIDENCE] = quick
        impossible = np.flatnonzero(record.status == IMPOSSIBLE)
        if len(impossible):
            bad[:] = record.integers[impossible[0], BAD_NODE], impossible[0]
            status = marginal.IMPOSSIBLE
            break
        dwell, transitions, starts = summed(parts)
        sums = Sums(dwell, transitions, totals, summary)
        update_all_rates(problem, parameters, prior, rule.learn_initial, starts, sums)
        evidence = float(totals[:, EVIDENCE].sum())
        residual = float(totals[:, RESIDUAL].max())
        if quick is not None:
            residual = float(summary[marginal.RATE_CHANGE])
        summary[marginal.TOTAL_EVIDENCE] = evidence
        summary[marginal.LARGEST_RESIDUAL] = residual
        if not np.isfinite(evidence):
            status = marginal.NOT_FINITE
            break
        # without a prior only F is free of the unit of time
        score = evidence
        if prior.shape > 0.0:
            score += summary[marginal.GAMMA_TERMS] - summary[marginal.ENERGY]
        moved = abs(score - previous)
        previous = score
        change = max(residual, float(summary[marginal.RATE_CHANGE]))
        n_quiet = n_quiet + 1 if moved <= _QUIET * scale else 0
        if iteration >= rule.min_iterations and (
            has_settled(change, moved, rule.tolerance, scale)
            # one node of thousands may go on for long without any effect on the rest
            or (n_quiet >= 3 and rule.tolerance > _QUIET)
        ):
            status = marginal.CONVERGED
            break
        if change < closest:
            closest, n_farther = change, 0
            rates_when_closest[:] = parameters.rates
        elif change > _FAR:
            n_farther += 1
            if n_farther > _PATIENCE:
                break
        # an extrapolation may raise the residual of the iteration after it
        if residual < 0.95 * best:
            best, stalled = residual, 0
        elif not extrapolated:
            stalled += 1 if residual < 2.0 * best else 2
        if stalled >= 6:
            if damping > _LEAST_DAMPING:
                n_farther = 0
            damping, stalled, best = max(_LEAST_DAMPING, 0.7 * damping), 0, residual
        if current_limit().stops():
            status = marginal.OUT_OF_TIME
            break
        extrapolated = extrapolating and extrapolation.improve()
    if uncoupled is not None and keep_moments:
        restart, damping = rule.restart, 1.0
        map_chunks(sweep_and_count, pieces, n_jobs)
    restless = np.zeros(0, dtype=np.int64)
    if status == marginal.ITERATION_LIMIT:
        restless = _restless_nodes(problem, rates_when_closest, parameters.rates)
    return Ending(dwell, transitions, summary, iteration, status, bad, restless)


def _restless_nodes(problem: Problem, before: FloatArray, now: FloatArray) -> IntArray:
    """Nodes whose rates moved most, if they moved by an amount that matters at all."""
    is_rate = (before > 0.0) & (now > 0.0)
    moved = np.zeros(len(now))
    moved[is_rate] = np.abs(np.log(now[is_rate] / before[is_rate]))
    per_node = np.maximum.reduceat(moved, problem.node[:-1, TABLE])
    return np.flatnonzero(per_node >= max(_RESTLESS, 0.3 * float(per_node.max(initial=0.0))))


class Extrapolation:
    """Extrapolates the rates of every node at every third update, in place."""

    def __init__(self, problem: Problem, parameters: Parameters) -> None:
        self._nodes, self._parameters = problem.node, parameters
        self._logs = np.log(np.where(parameters.rates > 0.0, parameters.rates, 1.0))
        self._steps = np.zeros_like(self._logs)
        self._n_updates = 0

    def improve(self) -> bool:
        """Called after every update of the rates; whether it changed them."""
        self._n_updates = self._n_updates % _PERIOD + 1
        jump = self._n_updates == _PERIOD
        extrapolate_all(self._nodes, self._parameters, self._logs, self._steps, jump)
        return jump
