"""Owns standard errors and intervals of learned rates: two kinds, and the table that shows them.

*Conditional*: given the expected statistics as if they had been counted, each rate has a Gamma
posterior (shape M + α, rate T + β; without a prior Jeffreys' M + ½, T). It ignores that the path
was not seen, and so is too narrow.
*Observed information*: the negative Hessian of the objective in its coordinates, all learned
parameters together, by central differences of its exact gradient. Intervals are symmetric in ln R,
except for a rate estimated as zero: there √R has a standard error and gives an upper limit. Where a
method's intervals are known to cover too rarely (star, mean field), none are given.

Of anything else that follows from the parameters: the estimate is a vector with a normal
distribution around it (inverse observed information), and a quantity is a function of the vector.
*Delta*: its derivative, by central differences, carries the covariance over; intervals are
symmetric on a scale on which the quantity is unbounded (ln for positive numbers, logit for
probabilities). *Simulate*: draw vectors, take quantiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import gamma, norm

from asterism.data.labels import RATE_LABELS, combinations, rate_labels
from asterism.errors import require_one_of
from asterism.inference.methods import METHODS
from asterism.learning.em.cluster_step import ClusterStep
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.learning.em.iterate import Point, Task
from asterism.learning.em.rates_update import RateUpdate
from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray
from asterism.numerics.progress import stage

_AT_ZERO = 0.05
"""A rate that explains fewer transitions than this counts as zero."""
_WIDTH = 0.05
"""Half the distance of a central difference, in complete-data standard errors."""
_WIDEST = 1e6
"""An interval whose ends are this factor squared apart says nothing."""
_FLAT = 1e-9
"""Eigenvalues of the scaled information below this: the data do not determine the direction."""


@dataclass(frozen=True)
class Information:
    """Observed information over the coordinates that have any."""

    active: IntArray
    """Numbers of the coordinates."""
    matrix: FloatArray
    score: FloatArray
    """Gradient at the estimate, of the active coordinates."""
    n_coordinates: int

    def standard_errors(self) -> FloatArray:
        """Of all coordinates; inf where the data say nothing."""
        covariance, unknown = self.covariance()
        known = np.zeros(self.n_coordinates, dtype=np.bool_)
        known[self.active] = ~unknown[self.active]
        return np.where(known, np.sqrt(np.maximum(np.diag(covariance), 0.0)), np.inf)

    def covariance(self) -> tuple[FloatArray, BoolArray]:
        """Covariance of all coordinates, and which of them the data do not determine.

        Coordinates that are not active are treated as known; their own uncertainty is reported
        where they are (a rate at zero), not spread over the others.
        """
        result = np.zeros((self.n_coordinates, self.n_coordinates))
        unknown = np.zeros(self.n_coordinates, dtype=np.bool_)
        if len(self.active) == 0:
            return result, unknown
        size = np.sqrt(np.maximum(np.abs(np.diag(self.matrix)), 1e-300))
        values, vectors = np.linalg.eigh(self.matrix / np.outer(size, size))
        flat = values < _FLAT
        inverse = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, values))
        result[np.ix_(self.active, self.active)] = (
            (vectors * inverse) @ vectors.T / np.outer(size, size)
        )
        unknown[self.active] = (vectors[:, flat] ** 2).sum(axis=1) > 1e-6
        return result, unknown


def observed_information(task: Task, best: Point) -> Information:
    """The Hessian by central differences: two E-steps per learned parameter.

    Complete paths need no E-step: they have the same statistics whatever the parameters are.
    """
    coordinates = task.coordinates
    vector = coordinates.vector(best.estimate)
    score, complete = coordinates.score_and_information(best.estimate, best.expected)
    is_active = (complete > 0.0) & ~coordinates.redundant(best.estimate)
    update, is_root = coordinates.update, coordinates.roots(best.estimate)
    n_rates = update.n_base
    base = update.baselines(best.estimate.rates, best.estimate.effects)
    at_ceiling = base >= update.ceiling
    is_active[:n_rates] &= ~at_ceiling & (vector[:n_rates] > 0.0)
    # an effect that explains hardly any transition or report has run away: the evidence is flat
    is_active &= ~coordinates.ratios(best.estimate) | (complete > _AT_ZERO)
    active = np.flatnonzero(is_active)
    matrix = np.zeros((len(active), len(active)))
    messages = task.step if isinstance(task.step, ClusterStep) else None
    if messages and len(active):
        task.evaluate(best.estimate)
        messages.keep()
    with stage(2 * len(active), "Intervals"):
        for column, i in enumerate(active):
            width = _WIDTH / np.sqrt(complete[i])
            gradients = []
            for sign in (1.0, -1.0):
                moved = vector.copy()
                moved[i] += sign * width
                if messages:
                    (messages.go_back if sign > 0.0 else messages.mirror)()
                there = coordinates.estimate(moved, best.estimate)
                expected = best.expected if task.is_complete else task.evaluate(there).expected
                gradient, _ = coordinates.score_and_information(there, expected)
                if moved[i] < 0.0 and is_root[i]:
                    gradient[i] *= -1.0  # the objective is even in a square root, its gradient odd
                gradients.append(gradient[active])
            matrix[:, column] = (gradients[1] - gradients[0]) / (2.0 * width)
    if messages:
        messages.release()
    return Information(active, 0.5 * (matrix + matrix.T), score[active], len(vector))


def has_trusted_intervals(fit: Fit) -> bool:
    """Whether intervals by the fit's method cover as often as they say."""
    is_coupled = bool(len(fit.task.coordinates.update.graph.parents))
    return METHODS[fit.method].has_intervals or not is_coupled


def rate_table(fit: Fit, information: Information, level: float) -> pd.DataFrame:
    """One row per allowed rate; the columns are described at ``ParameterLearner``."""
    model, best, update = fit.model, fit.outcome.best, fit.task.coordinates.update
    place = np.flatnonzero(model.possible)
    number = model.base[place]
    held = number < 0
    rate = fit.base_rates(best.estimate)[place]
    origin = fit.expanded.place[update.index]
    seen = best.expected.transitions[update.index]
    spent = best.expected.dwell[update.dwell_index]
    moves, time = (
        np.bincount(origin, x, len(model.base)).astype(np.float64)[place] for x in (seen, spent)
    )
    tail = 0.5 * (1.0 - level)
    prior = fit.prior
    m, t = update.totals(best.expected.transitions, best.expected.dwell, best.estimate.effects)
    shape = np.append(m, 0.0)[number] + (
        0.5 if prior is None else prior.shape - update.added_transitions
    )
    per_time = np.append(t, 0.0)[number]
    known = (per_time > 0.0) & ~held
    scale = 1.0 / np.where(known, per_time, 1.0)
    error = np.append(information.standard_errors()[: update.n_base], 0.0)[number]
    group_moves = np.append(update.per_base(seen), np.inf)[number]
    width, is_zero = float(norm.isf(tail)), group_moves < _AT_ZERO
    # an interval that would span so many powers of ten says nothing
    says_nothing = 2.0 * width * error / np.sqrt(np.maximum(rate, 1e-300)) > np.log(_WIDEST)
    error = np.where(~is_zero & says_nothing, np.inf, error)
    absolute, lower, upper = _intervals(rate, is_zero, error, width)
    table = labels_of_rates(fit.network, place)
    notes = _notes(update, rate, time, group_moves, error)
    if not has_trusted_intervals(fit):
        absolute, lower, upper = (np.full_like(rate, end) for end in (np.inf, 0.0, np.inf))
        notes = [
            note or f"no interval: with {fit.method!r} they cover too rarely" for note in notes
        ]
    return table.assign(
        rate=rate,
        expected_transitions=moves,
        expected_time=time,
        conditional_mean=np.where(known, shape * scale, np.where(held, rate, np.inf)),
        conditional_lower=np.where(
            known, gamma.ppf(tail, shape, scale=scale), np.where(held, rate, 0.0)
        ),
        conditional_upper=np.where(
            known, gamma.isf(tail, shape, scale=scale), np.where(held, rate, np.inf)
        ),
        se=absolute,
        lower=np.where(held, rate, lower),
        upper=np.where(held, rate, upper),
        note=["fixed" if fixed else note for fixed, note in zip(held, notes)],
    )


def _intervals(
    rate: FloatArray, is_zero: BoolArray, error: FloatArray, width: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Standard error, lower and upper end, from the standard errors of √R."""
    root = np.sqrt(rate)
    known = np.isfinite(error)
    spread = np.where(known, error, 0.0)
    inside = known & ~is_zero & (root > 0.0)
    absolute = np.where(inside, 2.0 * root * spread, spread**2)
    lower, upper = limits(np.where(inside, rate, 0.0), absolute, "log", width)
    upper = np.where(inside, upper, (root + width * spread) ** 2)
    return np.where(known, absolute, np.inf), lower, np.where(known, upper, np.inf)


def _notes(
    update: RateUpdate, rate: FloatArray, time: FloatArray, moves: FloatArray, error: FloatArray
) -> list[str]:
    total = max(float(time.max(initial=0.0)), 1e-300)
    notes = []
    for r, t, m, e in zip(rate, time, moves, error):
        if t <= 1e-9 * total:
            notes.append("not identified: this situation never occurs in the data")
        elif r >= update.ceiling:
            notes.append("at the upper limit: too fast for the data to tell")
        elif m < _AT_ZERO:
            notes.append("at zero: upper is a limit")
        elif not np.isfinite(e):
            notes.append("not identified: the data cannot tell it")
        else:
            notes.append("")
    return notes


def labels_of_rates(network: Network, places: IntArray) -> pd.DataFrame:
    """Node, configuration of its parents, from and to, of rates at flat places."""
    start = network.compiled.graph.table_start
    number = np.searchsorted(start, places, side="right") - 1
    labels = [rate_labels(n, configurations(network, n), network.states[n]) for n in network.nodes]
    rows = [labels[n][place - start[n]] for n, place in zip(number, places)]
    return pd.DataFrame(rows, columns=list(RATE_LABELS), dtype=object)


def configurations(network: Network, node: str) -> list[str]:
    """What to call every configuration of a node's parents."""
    rates, above = network.rates[node], network.parents[node]
    if isinstance(rates, SummaryRates):
        return [f"summary={rates.shift + s}" for s in range(rates.n_summary)]
    return combinations(network.states, above)


# ---- anything that follows from the parameters ------------------------------------------------


#: relative, of a central difference in closed form; and draws behind simulated quantiles. Not tuned
_STEP = 1e-5
_N_DRAWS = 1000

#: a function of the parameters
Quantity = Callable[[Estimate], FloatArray]


@dataclass(frozen=True)
class Interval:
    """A quantity, its standard error, and the ends of its interval; all of one shape."""

    value: FloatArray
    se: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class Uncertainty:
    """The distribution of the parameters of a fit."""

    fit: Fit
    information: Information

    def covariance_of(self, quantity: Quantity) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        """Value, covariance, and which entries depend on what the data do not determine."""
        best = self.fit.outcome.best.estimate
        coordinates = self.fit.task.coordinates
        vector = coordinates.vector(best)
        covariance, unknown = self.information.covariance()
        value = np.asarray(quantity(best), dtype=np.float64).ravel()
        slope = np.zeros((len(value), len(vector)))
        for i in self.information.active:
            step = _STEP * max(abs(float(vector[i])), 1e-3)
            ends = []
            for sign in (1.0, -1.0):
                moved = vector.copy()
                moved[i] += sign * step
                ends.append(np.ravel(quantity(coordinates.estimate(moved, best))))
            slope[:, i] = (ends[0] - ends[1]) / (2.0 * step)
        touched: NDArray[Any] = np.asarray((np.abs(slope[:, unknown]) > 1e-12).any(axis=1))
        return value, slope @ covariance @ slope.T, touched

    def interval(
        self,
        quantity: Quantity,
        scale: str,
        level: float,
        method: str = "delta",
        seed: Any = 0,
    ) -> Interval:
        """``scale``: "log", "logit" or "identity"; ``method``: "delta" or "simulate"."""
        require_one_of("interval", method, ("delta", "simulate"))
        shape = np.shape(quantity(self.fit.outcome.best.estimate))
        value, covariance, unknown = self.covariance_of(quantity)
        se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if method == "delta":
            lower, upper = limits(value, se, scale, float(norm.isf(0.5 * (1.0 - level))))
        else:
            lower, upper = self._simulated(quantity, level, seed)
        se = np.where(unknown, np.inf, se)
        lower = np.where(unknown, {"log": 0.0, "logit": 0.0}.get(scale, -np.inf), lower)
        upper = np.where(unknown, {"logit": 1.0}.get(scale, np.inf), upper)
        return Interval(*(part.reshape(shape) for part in (value, se, lower, upper)))

    def _simulated(
        self, quantity: Quantity, level: float, seed: Any
    ) -> tuple[FloatArray, FloatArray]:
        best = self.fit.outcome.best.estimate
        coordinates = self.fit.task.coordinates
        covariance, _ = self.information.covariance()
        values, vectors = np.linalg.eigh(covariance)
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        rng = np.random.default_rng(seed)
        draws = coordinates.vector(best) + rng.normal(size=(_N_DRAWS, len(half))) @ half.T
        is_root = coordinates.roots(best)
        draws[:, is_root] = np.abs(draws[:, is_root])
        found = np.array([np.ravel(quantity(coordinates.estimate(v, best))) for v in draws])
        tail = 0.5 * (1.0 - level)
        return np.quantile(found, tail, axis=0), np.quantile(found, 1.0 - tail, axis=0)


def limits(
    value: FloatArray, se: FloatArray, scale: str, width: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval that is symmetric on a scale; a value at a bound has no width there."""
    if scale == "identity":
        return value - width * se, value + width * se
    if scale == "log":
        inside = value > 0.0
        safe = np.where(inside, value, 1.0)
        factor = np.exp(np.minimum(width * se / safe, 700.0))
        return np.where(inside, value / factor, 0.0), np.where(inside, value * factor, width * se)
    inside = (value > 1e-12) & (value < 1.0 - 1e-12)
    p = np.where(inside, value, 0.5)
    centre, reach = np.log(p / (1.0 - p)), width * se / (p * (1.0 - p))
    low, high = (1.0 / (1.0 + np.exp(-np.clip(centre + s * reach, -700, 700))) for s in (-1, 1))
    return np.where(inside, low, value), np.where(inside, high, value)
