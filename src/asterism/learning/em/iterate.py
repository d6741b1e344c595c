"""Owns the iteration of EM: plain steps first, then quasi-Newton steps that EM keeps honest.

One E-step gives the objective, the M-step's answer, and by Fisher's identity the exact gradient.
Plain EM converges at the rate of the missing information, which is slow where measurements are
rare. So after a few plain steps we move along H·gradient, where H is the limited-memory BFGS
approximation of the inverse observed information, built on the complete-data information (with an
empty memory this is the EM step to first order). A move that does not raise the objective is taken
back and replaced by a plain EM step, which cannot fail with exact inference and mean field.

The star's F is no bound: without a prior it can rise without end as rates grow, until its messages
no longer converge. Estimates at which they do not are never accepted, and after a few of them the
iteration stops and says so.

H also says how much is still to gain: gradientᵀ·H·gradient is the extrapolated remaining rise of
2 ln P. We stop when that stays below the tolerance, never because the last step was short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asterism.errors import DataError, Sentence, Setting, counted
from asterism.learning.em import emission_fit
from asterism.learning.em.e_step import Expected, Step
from asterism.learning.em.estimate import Coordinates, Estimate
from asterism.numerics.arrays import FloatArray
from asterism.numerics.progress import advance
from asterism.numerics.resources import current_limit

# plain steps before quasi-Newton ones, and the pairs that these remember: not tuned
PLAIN_STEPS = 3
MEMORY = 40
# of a sum of some thousand terms, relative; and curvature that is rounding
_ROUNDING = 1e-12
_CURVATURE = 1e-10
_QUIET = 2  # E-steps in a row that must promise no more gain
_UNSETTLED = 3  # steps that led to where messages do not converge, then EM stops


@dataclass(frozen=True)
class Task:
    """An objective to maximise: E-step, coordinates and the likelihoods that do not change."""

    coordinates: Coordinates
    step: Step
    log_likelihood: FloatArray
    resolution: float = _ROUNDING
    """Relative changes of the objective below this mean nothing."""
    is_complete: bool = False
    """Whether all paths are known: then expected statistics do not depend on the parameters."""

    def evaluate(self, estimate: Estimate) -> Point:
        """One E-step."""
        nodes = self.coordinates.nodes
        logs = self.log_likelihood
        if nodes:
            logs = emission_fit.write_log_likelihoods(nodes, estimate.emissions, logs)
        expected = self.step(estimate.rates, estimate.initial, logs)
        advance()
        log_evidence = float(np.sum(expected.log_evidence))
        penalty = self.coordinates.update.penalty(estimate.rates, estimate.effects)
        objective = log_evidence + penalty
        return Point(estimate, expected, log_evidence, objective)


@dataclass(frozen=True)
class Point:
    """An estimate and what the E-step says about it."""

    estimate: Estimate
    expected: Expected
    log_evidence: float
    objective: float


@dataclass(frozen=True)
class EmOutcome:
    """Where the iteration ended, and how."""

    best: Point
    converged: bool
    stop_reason: str
    remaining_gain: float
    history: list[dict[str, float | int | str]]

    @property
    def ran_away(self) -> bool:
        """Whether it stopped because messages no longer converged."""
        return self.stop_reason is _RAN_AWAY

    @property
    def n_iterations(self) -> int:
        """Number of E-steps."""
        return len(self.history)


class _Memory:
    """The last changes of coordinates and gradient; applies the inverse information they imply."""

    def __init__(self) -> None:
        self._pairs: list[tuple[FloatArray, FloatArray, float]] = []

    def add(self, move: FloatArray, fall: FloatArray) -> None:
        """``fall`` is the gradient before minus the gradient after the move."""
        curvature = float(move @ fall)
        lengths = float(np.linalg.norm(move) * np.linalg.norm(fall))
        # where nothing moves any more the curvature is too small to divide by
        if curvature > max(_CURVATURE * lengths, np.finfo(np.float64).tiny):
            self._pairs = [*self._pairs[1 - MEMORY :], (move, fall, 1.0 / curvature)]

    def clear(self) -> None:
        self._pairs = []

    def apply(self, gradient: FloatArray, scale: FloatArray) -> FloatArray:
        """The two-loop recursion, on a diagonal start ``scale``."""
        q = gradient.copy()
        factors = []
        for move, fall, weight in reversed(self._pairs):
            factor = weight * float(move @ q)
            factors.append(factor)
            q = q - factor * fall
        direction = scale * q
        for (move, fall, weight), factor in zip(self._pairs, reversed(factors)):
            direction = direction + (factor - weight * float(fall @ direction)) * move
        return direction


def maximise(task: Task, start: Estimate, tolerance: float, max_iterations: int) -> EmOutcome:
    """Raise the objective from ``start`` until at most ``tolerance`` remains to gain in 2 ln P."""
    coordinates = task.coordinates
    memory = _Memory()
    best = task.evaluate(start)
    history: list[dict[str, float | int | str]] = []
    n_plain, n_quiet, n_stuck, n_refused, n_unsettled = PLAIN_STEPS, 0, 0, 0, 0
    remaining = np.inf
    step_kind = "start"
    vector = coordinates.vector(best.estimate)
    score, information = coordinates.score_and_information(best.estimate, best.expected)
    while True:
        image = coordinates.improved(best.estimate, best.expected)
        # information so small that its inverse overflows is none
        informed = information > np.finfo(np.float64).tiny
        scale = np.where(informed, 1.0 / np.where(informed, information, 1.0), 0.0)
        direction = memory.apply(score, scale)
        remaining = max(float(score @ direction), float(score @ (scale * score)))
        history.append(_row(len(history), best, remaining, step_kind))
        n_quiet = n_quiet + 1 if remaining < tolerance else 0
        settled, converged, reason = best.expected.settled, False, ""
        if n_quiet >= _QUIET and n_stuck == 0:
            converged, reason = settled, _about_convergence(settled, remaining, tolerance)
        elif n_unsettled >= _UNSETTLED:
            reason = _RAN_AWAY
        elif n_stuck >= _QUIET:
            converged = remaining < 1e3 * tolerance and settled
            reason = _about_the_end_of_gains(converged, remaining)
        elif current_limit().stops():
            reason = (
                f"{current_limit().sentence} and {counted(len(history), 'E-step')}, with about "
                f"{remaining:.2g} left to gain in -2 ln P. The result is the best so far: allow "
                "more time."
            )
        elif len(history) >= max_iterations:
            reason = Sentence(
                f"Stopped after {counted(max_iterations, 'E-step')} with about {remaining:.2g} "
                "left to gain in -2 ln P. Raise ",
                *(Setting("max_iterations"), ", or give a prior: some rates may not be "),
                "identified.",
            )
        if reason:
            return EmOutcome(best, converged, reason, remaining, history)
        plain = n_plain > 0 or not float(score @ direction) > 0.0
        if plain:
            trial = image
        else:
            trial = coordinates.moved(best.estimate, vector, direction, image)
        found = _evaluated(task, trial, required=plain)
        n_plain = max(n_plain - 1, 0)
        slack = task.resolution * max(1.0, abs(best.objective))
        unsettled = found is not None and best.expected.settled and not found.expected.settled
        n_unsettled += int(unsettled)
        if found is None or unsettled or (not plain and found.objective < best.objective - slack):
            history.append(_row(len(history), best, remaining, "refused"))
            n_quiet = 0
            n_refused += 1
            n_plain = 1
            if n_refused > 1:
                memory.clear()
                n_plain = PLAIN_STEPS
            continue
        n_refused = 0
        step_kind = "em" if plain else "accelerated"
        n_stuck = n_stuck + 1 if found.objective <= best.objective + slack and plain else 0
        new_vector = coordinates.vector(found.estimate)
        new_score, information = coordinates.score_and_information(found.estimate, found.expected)
        memory.add(new_vector - vector, score - new_score)
        best, vector, score = found, new_vector, new_score


def _evaluated(task: Task, trial: Estimate, required: bool) -> Point | None:
    """The trial's point; None if an extrapolated trial makes the data impossible."""
    if required:
        return task.evaluate(trial)
    try:
        found = task.evaluate(trial)
    except DataError:
        return None
    return found if np.isfinite(found.objective) else None


def _row(number: int, point: Point, remaining: float, kind: str) -> dict[str, float | int | str]:
    return {
        "iteration": number,
        "log_evidence": point.log_evidence,
        "objective": point.objective,
        "remaining_gain": remaining,
        "step": kind,
    }


def _about_convergence(settled: bool, remaining: float, tolerance: float) -> str:
    if settled:
        return (
            f"Converged: the extrapolated remaining gain in -2 ln P is {remaining:.2g}, below "
            f"{tolerance:g}."
        )
    return Sentence(
        "The rates have converged, but the messages of some trajectories have not: use a smaller ",
        *(Setting("time_step"), ", or ", Setting("method", "mean_field"), "."),
    )


def _about_the_end_of_gains(converged: bool, remaining: float) -> str:
    if converged:
        return (
            "Converged: further gains are below rounding (extrapolated remaining gain in -2 ln P "
            f"{remaining:.2g})."
        )
    return Sentence(
        f"Stopped: EM steps no longer raise the objective, though {remaining:.2g} seems left to "
        "gain in -2 ln P. Try other starts (",
        *(Setting("n_init"), "), a prior, or ", Setting("method", "exact"), "."),
    )


_RAN_AWAY = Sentence(
    "Stopped: the approximation's objective keeps rising towards rates at which its messages no "
    "longer converge, so it has no trustworthy maximum here. A stronger prior may help; use ",
    *(Setting("method", "exact"), " or ", Setting("method", "mean_field"), "."),
)
