"""From evidence to a :class:`Posterior`, for every deterministic rule.

The rule solves; here stand the sentence that says why it stopped, its history, marginals at any
time and forecasts past the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.engine._outcome import SWEEP_LIMIT
from asterism.engine.batch import Outcome
from asterism.engine.paths import PathCollector
from asterism.engine.refine import Solution, solve_on_grids
from asterism.engine.rule import Rule
from asterism.errors import Sentence, Setting, counted
from asterism.inference.posterior import Convergence, Posterior, statistics_of
from asterism.model.network import Network
from asterism.numerics.resources import current_limit
from asterism.timeline.evidence import Evidence, FloatArray


def solve_by(
    rule: Rule,
    network: Network,
    evidence: Evidence,
    solve: Callable[[Evidence], Solution] | None = None,
    courses: Callable[..., MarginalsOverTime] | None = None,
) -> Posterior:
    """The posterior of evidence by one rule.

    ``solve`` solves other evidence in the same way; by default the rule does, as it stands.
    """
    solve = solve or partial(solve_on_grids, rule)
    solution = solve_on_grids(rule, evidence)
    rule.require_answer(solution.outcome, evidence)
    converged, reason = _verdict(solution, rule)

    def statistics() -> Statistics:
        return statistics_of(network, *rule.dwell_and_transitions(solution))

    def log_evidence_of(other: Evidence) -> FloatArray:
        found: FloatArray = solve(other).outcome.evidence
        return found

    return Posterior(
        network=network,
        evidence=evidence,
        method=rule.name,
        log_evidence_by_trajectory=solution.outcome.evidence,
        statistics=statistics,
        courses=(courses or MarginalsOverTime)(network, evidence, rule, solution, solve),
        log_evidence_of=log_evidence_of,
        convergence=Convergence(
            converged,
            reason,
            int(solution.outcome.n_sweeps.max(initial=0)),
            partial(history, solution.outcome),
        ),
        log_evidence_parts=partial(rule.evidence_parts, solution),
    )


def _verdict(solution: Solution, rule: Rule) -> tuple[bool, str]:
    """Whether everything settled, and a sentence that says why it stopped and what would help."""
    outcome, precision = solution.outcome, rule.precision
    is_unsettled = outcome.status == SWEEP_LIMIT
    n, n_unsettled = len(is_unsettled), int(is_unsettled.sum())
    limit = current_limit()
    if limit.was_felt:
        return False, (
            f"{limit.sentence}: {n_unsettled} of {n} trajectories had not converged, "
            "and the time steps were not all refined as far as the tolerance asks. The result is "
            "the best so far: allow more time, or raise the tolerance."
        )
    if n_unsettled:
        largest = float(outcome.residual[is_unsettled].max())
        return False, Sentence(
            f"{n_unsettled} of {n} trajectories had not converged after "
            f"{counted(precision.max_sweeps, 'sweep')} ({rule.residual_is.format(largest)}): "
            "raise ",
            *(Setting("max_sweeps"), *rule.remedies),
        )
    if complaint := rule.complaint(outcome):
        return False, complaint
    n_sweeps = int(outcome.n_sweeps.max(initial=0))
    error, tolerance = solution.grid_error, precision.tolerance
    if n_sweeps == 0:
        return True, "Exact: one cluster holds every group of coupled nodes."
    within = f"Converged within {counted(n_sweeps, 'sweep')}"
    if math.isnan(error):
        return True, f"{within}, on the time steps that were asked for."
    if not solution.grid_error_is_small:
        return False, Sentence(
            "The messages converged, but the time steps are too long: estimated error "
            f"{error:.1e} against a tolerance of {tolerance:.0e}. Raise the ",
            *(Setting("tolerance"), ", or give a smaller ", Setting("time_step"), "."),
        )
    return True, (
        f"{within}; estimated error of the time steps {error:.1e} (tolerance {tolerance:.0e})."
    )


def history(outcome: Outcome) -> list[dict[str, float]]:
    """After every sweep on the final grids: total F, where it is known, and the largest residual.

    F of a trajectory that has converged counts as it is; its residual does not count any more.
    """
    n = len(outcome.n_sweeps)
    values = outcome.history.reshape(n, -1, outcome.history.shape[-1])
    rows = []
    for k in range(int(outcome.n_sweeps.max(initial=0))):
        row = {"sweep": float(k + 1)}
        if values.shape[1] == 2:
            at = np.minimum(k, outcome.n_sweeps - 1)
            row["log_evidence"] = float(values[np.arange(n), 0, at].sum())
        row["residual"] = float(values[outcome.n_sweeps > k, -1, k].max())
        rows.append(row)
    return rows


class MarginalsOverTime:
    """Marginals at any time and drawn paths, from solved batches."""

    def __init__(
        self,
        network: Network,
        evidence: Evidence,
        rule: Rule,
        solution: Solution,
        solve: Callable[[Evidence], Solution],
    ) -> None:
        """``solve`` solves other evidence in the same way; for forecasts."""
        self._network = network
        self._evidence = evidence
        self._rule = rule
        self.solution = solution
        self._solve = solve

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n); before the start those at the start, past the end a forecast."""
        b, index = self.solution.place[trajectory]
        batch = self.solution.batches[b]
        clock = self._clock(trajectory, times)
        if (clock > self._evidence.end[trajectory]).any():
            return self._rule.forecast(batch, index, clock, self._solve)
        return self._rule.marginals(batch, index, clock)

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """``n`` paths of every trajectory, labelled (trajectory, draw)."""
        evidence = self._evidence
        collector = PathCollector(self._network, evidence)
        for d, (b, index) in enumerate(self.solution.place):
            paths = self._rule.draw(self.solution.batches[b], index, n, kind, rng)
            collector.add(d, paths)
        return collector.trajectories()

    def _clock(self, trajectory: int, times: FloatArray) -> FloatArray:
        """The times, none before the start."""
        clock = np.asarray(times, dtype=np.float64)
        return np.asarray(np.maximum(clock, self._evidence.start[trajectory]))
