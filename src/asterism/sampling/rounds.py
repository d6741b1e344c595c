"""Owns how long paths of a known network are drawn: in rounds, until marginals are known.

After a burn-in every round ends with a look at R̂ and Monte Carlo errors, from which the length of
the next one follows. Between two looks at the clock chains go on for about a second. How the sweeps
are cut changes no draw.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.errors import AsterismError, Sentence, Setting
from asterism.numerics.progress import advance, stage
from asterism.numerics.resources import current_limit
from asterism.sampling.diagnose import Diagnosis, diagnose

#: "auto" stops at this Monte Carlo error of every marginal, and this R̂
ERROR_GOAL = 0.01
R_HAT_GOAL = 1.01
#: draws per chain at which "auto" gives up
MOST_DRAWS = 20_000
_FIRST_DRAWS = 500
_BURN_IN = 300
#: draws that are made whatever the limit of time: Monte Carlo errors need some
_FEWEST = 50
#: seconds between two looks at the clock
LOOK = 1.0


class Pace:
    """How many sweeps fit between two looks at the clock, by the time that the last ones took."""

    def __init__(self) -> None:
        self._per_sweep = 0.0

    def sweeps(self, most: int, unit: int = 1) -> int:
        """A number of sweeps that take about ``LOOK`` seconds, in units, at most so many."""
        if self._per_sweep <= 0.0:
            return min(unit, most)
        fits = int(LOOK / self._per_sweep) // unit * unit
        return max(min(unit, most), min(fits, most))

    def run(self, work: Callable[[int], Any], n_sweeps: int) -> Any:
        """``work(n_sweeps)``, timed."""
        begin = time.monotonic()
        result = work(n_sweeps)
        self._per_sweep = max((time.monotonic() - begin) / n_sweeps, 1e-9)
        return result


@dataclass(frozen=True)
class DrawPlan:
    """How long to draw; refuses numbers that cannot be."""

    n_chains: int
    n_draws: Any
    """Per chain; "auto" goes on until every marginal is known well, or to ``max_draws``."""
    burn_in: int | None
    max_draws: int

    def __post_init__(self) -> None:
        for name, least in (("n_chains", 2), ("max_draws", 4), ("burn_in", 0)):
            value = getattr(self, name)
            if value is None and name == "burn_in":
                continue
            if not isinstance(value, Integral) or value < least:
                raise AsterismError(
                    Setting(name), f" is {value!r}; it must be a whole number ≥ {least}."
                )
        if self.n_draws != "auto" and (not isinstance(self.n_draws, Integral) or self.n_draws < 4):
            raise AsterismError(
                Setting("n_draws"),
                f" is {self.n_draws!r}; valid are a whole number ≥ 4 and 'auto'.",
            )


class Drawn(NamedTuple):
    """How drawing ended."""

    n_draws: int
    """Per chain."""
    settled: bool
    stop_reason: str
    diagnosis: Diagnosis
    history: list[dict[str, float]]
    series: NDArray[Any]
    """(chains, draws, quantities) what was watched."""


def draw_in_rounds(
    plan: DrawPlan,
    go_on: Callable[[int, bool], Any],
    n_fitting: Callable[[], int],
    watched: Callable[[], NDArray[Any]],
) -> Drawn:
    """``go_on(sweeps, keep)`` with all chains until the plan is met.

    ``n_fitting()`` draws per chain fit into memory; ``watched()`` are all draws so far of what must
    be known well, (chains, draws, quantities).
    """
    pace, is_auto = Pace(), plan.n_draws == "auto"
    n_burned = _BURN_IN if plan.burn_in is None else plan.burn_in
    with stage(n_burned, "Burn-in of the chains"):
        _in_pieces(pace, n_burned, lambda n: go_on(n, False))
    limit = min(plan.max_draws if is_auto else int(plan.n_draws), n_fitting())
    goal = min(limit, _FIRST_DRAWS) if is_auto else limit
    done = 0
    history: list[dict[str, float]] = []
    while True:
        with stage(goal, "Drawing paths"):
            advance(done)
            done += _in_pieces(pace, goal - done, lambda n: go_on(n, True))
        series = watched()
        found = diagnose(series)
        history.append(
            {"draws": float(done), "largest_error": found.error, "worst_r_hat": found.r_hat}
        )
        settled = found.error <= ERROR_GOAL and found.r_hat <= R_HAT_GOAL
        out_of_time = done < goal
        if settled or done >= limit or out_of_time:
            break
        goal = _next_goal(done, found, limit)
    reason = _stop_sentence(found, plan.n_chains, done, is_auto, settled)
    if out_of_time and not settled:
        reason = f"{current_limit().sentence}. " + reason
    return Drawn(done, settled, reason, found, history, series)


def _in_pieces(pace: Pace, n_sweeps: int, go_on: Callable[[int], Any]) -> int:
    """Go on for so many sweeps, or until the call's time is over; returns how many were made."""
    done, limit = 0, current_limit()
    while done < n_sweeps and not (done >= _FEWEST and limit.stops()):
        piece = pace.sweeps(n_sweeps - done)
        pace.run(go_on, piece)
        advance(piece)
        done += piece
    return done


def _next_goal(n: int, found: Diagnosis, limit: int) -> int:
    """Draws per chain after the next round: errors shrink with the square root."""
    factor = (found.error / ERROR_GOAL) ** 2 * 1.1 if np.isfinite(found.error) else 3.0
    if found.r_hat > R_HAT_GOAL:
        factor = max(factor, 2.0)
    return min(limit, int(n * float(np.clip(factor, 1.2, 3.0))) + 1)


def _stop_sentence(
    found: Diagnosis, n_chains: int, n_draws: int, is_auto: bool, settled: bool
) -> str:
    """Why drawing ended, and how well marginals are known."""
    drawn = f"{n_draws:,} draws in each of {n_chains} chains"
    figures = (
        f"the largest Monte Carlo error of a marginal is {found.error:.2g} (goal {ERROR_GOAL}), "
        f"the largest R̂ {found.r_hat_words} (goal {R_HAT_GOAL})"
    )
    if settled:
        return f"{drawn} were enough: {figures}."
    if is_auto:
        remedy = Sentence("Raise ", Setting("max_draws"), ".")
        return Sentence(f"The limit of {drawn} was reached: {figures}. ", remedy)
    remedy = Sentence("Raise ", Setting("n_draws"), ", or use ", Setting("n_draws", "auto"), ".")
    return Sentence(f"{drawn} were made, as asked: {figures}. ", remedy)
