"""Owns the table of factors by which trajectories differ: spreads, intervals, evidence, sentences.

Intervals are those of the profile likelihood: the spread is held at a value, all other parameters
are fitted again, and the interval holds the values at which twice the fall of ln P stays below the
quantile of χ². The same with a spread of zero is the likelihood-ratio test against no factor. Zero
is the end of the range, so half of the time chance alone gives a statistic of zero: the p-value is
half that of χ² with one degree of freedom.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import chi2, norm

from asterism.data.observations import Observations
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit, Settings, fit_parameters
from asterism.learning.em.frailty import LARGEST_SPREAD, factors, fold
from asterism.learning.em.iterate import maximise
from asterism.learning.em.rate_model import RateModel
from asterism.learning.em.uncertainty import Information
from asterism.model.template import Template
from asterism.numerics.progress import stage

COLUMNS = ("node", "rates", "sd", "lower", "upper", "factor", "factor_lower", "factor_upper",
           "statistic", "p_value", "sentence")  # fmt: skip

CHOSEN = 0.05
"""With frailty="auto" a factor is kept if its p-value is below this."""
_GAIN = 1e-4
"""Remaining gain in −2 ln P at which a fit with a held spread stops; χ²'s quantile is 3.84."""
_MOST_STEPS = 200
"""E-steps of such a fit at most: a guard, not tuned."""
_NARROWEST = 0.05
"""How far from the spread the search for an end begins at least; the end does not depend on it."""


def spread_table(fit: Fit, information: Information, level: float) -> pd.DataFrame:
    """One row per factor."""
    rows = []
    with stage(what="How trajectories differ"):
        for k, factor in enumerate(fit.model.factors):
            sd, low, high, statistic = _interval(fit, information, k, level)
            folds = [float(f) for f in fold(np.array([sd, low, high]))]
            about = factor.node if factor.rates == "all" else f"{factor.node} ({factor.rates})"
            p_value = 0.5 * float(chi2.sf(max(statistic, 0.0), 1))
            text = sentence(about, folds, p_value, level)
            ends = (sd, low, high, *folds)
            rows.append((factor.node, factor.rates, *ends, statistic, p_value, text))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def sentence(about: str, folds: list[float], p_value: float, level: float) -> str:
    """What a spread means."""
    typical, low, high = folds
    upper = f"{high:.3g}" if np.isfinite(high) else "any"
    found = f"{level:.0%} interval {low:.3g} to {upper}; likelihood-ratio test p = {p_value:.2g}"
    if p_value >= CHOSEN:
        return f"The data do not show that trajectories differ in how fast {about} moves ({found})."
    return f"Trajectories differ by a factor of {typical:.3g} in how fast {about} moves ({found})."


def with_chosen_factors(
    fit: Fit,
    template: Template,
    observations: Observations,
    emission: Any,
    settings: Settings,
    model: RateModel,
) -> Fit:
    """The fit with a factor for each node for which the evidence asks; ``fit`` if there is none."""
    kept = []
    network = template.network
    for node in (n for n in network.nodes if n not in network.exogenous):
        asked = factors(network, template.allowed, node)
        one = replace(model, factors=asked)
        found = fit_parameters(template, observations, emission, settings, one, fit)
        if 0.5 * chi2.sf(max(statistic_of(found, 0), 0.0), 1) < CHOSEN:
            kept.append((asked, found))
    if len(kept) < 2:
        return kept[0][1] if kept else fit
    every = replace(model, factors=tuple(factor for asked, _ in kept for factor in asked))
    return fit_parameters(template, observations, emission, settings, every, fit)


def statistic_of(fit: Fit, k: int) -> float:
    """Twice what ln P falls by without factor ``k``."""
    if len(fit.model.factors) == 1 and fit.plain is not None:
        return 2.0 * (fit.outcome.best.objective - fit.plain.outcome.best.objective)
    return 2.0 * (fit.outcome.best.objective - _held_at(fit, k, 0.0)[0])


def _held_at(fit: Fit, k: int, spread: float) -> tuple[float, Estimate]:
    """The best objective with one spread held, and where it is."""
    task, start = fit.task, fit.outcome.best.estimate
    update = task.coordinates.update
    assert update.formula.spreads is not None
    spreads = replace(update.formula.spreads, held=frozenset([k]))
    held = replace(update, formula=replace(update.formula, spreads=spreads))
    baselines = update.baselines(start.rates, start.effects)
    effects = start.effects.copy()
    effects[update.formula.n_covariate_effects + k] = spread
    first = replace(start, rates=held.with_rates(start.rates, baselines, effects), effects=effects)
    coordinates = replace(task.coordinates, update=held)
    found = maximise(replace(task, coordinates=coordinates), first, _GAIN, _MOST_STEPS).best
    return found.objective, found.estimate


def _interval(
    fit: Fit, information: Information, k: int, level: float
) -> tuple[float, float, float, float]:
    """The spread, the ends of its interval, and the statistic against zero."""
    best, coordinates = fit.outcome.best, fit.task.coordinates
    n = coordinates.update.formula.n_covariate_effects
    sd = float(best.estimate.effects[n + k])
    width = float(norm.isf(0.5 * (1.0 - level)))
    known: dict[float, float] = {}

    def excess(spread: float) -> float:
        """Signed root of the fall of 2 ln P, over what the interval allows; nearly straight."""
        if spread not in known:
            fall = best.objective - _held_at(fit, k, spread)[0]
            known[spread] = np.sqrt(2.0 * max(fall, 0.0)) - width
        return known[spread]

    statistic = statistic_of(fit, k)
    known[0.0] = np.sqrt(max(statistic, 0.0)) - width
    known[sd] = -width
    low = 0.0
    if known[0.0] > 0.0:
        low = float(brentq(excess, 0.0, sd, xtol=1e-3 * sd, rtol=1e-3))
    error = float(information.standard_errors()[coordinates.spreads.start + k])
    reach = width * error if np.isfinite(error) else 0.0
    last, high = sd, min(sd + max(reach, _NARROWEST), LARGEST_SPREAD)
    while excess(high) < 0.0:
        if high >= LARGEST_SPREAD:
            return sd, low, np.inf, statistic
        last, high = high, min(sd + 2.0 * (high - sd), LARGEST_SPREAD)
    return sd, low, float(brentq(excess, last, high, xtol=1e-3 * high, rtol=1e-3)), statistic
