"""Owns the list of all parameters of a fit: names, estimates, intervals, covariance.

Rates, effects of covariates, start probabilities and emissions, in this order. Rates keep the
intervals of the rate table (which knows about rates at zero); all others come from the delta
method, except for probabilities estimated as zero or one, which have limits by the likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from asterism.learning.em.emission_fit import described, rows_of
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.learning.em.uncertainty import Uncertainty, limits, rate_table
from asterism.numerics.arrays import FloatArray, IntArray

_SELDOM = 0.05
"""A probability that explains fewer measurements or starts than this counts as zero."""


@dataclass(frozen=True)
class _Named:
    """One parameter: what it is called, and the scale of its interval."""

    kind: str
    name: str
    scale: str


def natural_values(fit: Fit, estimate: Estimate) -> FloatArray:
    """All parameters in the user's units, in the order of :func:`parameter_names`."""
    coordinates = fit.task.coordinates
    model = fit.model
    parts = [fit.base_rates(estimate)[model.possible]]
    scale = np.array([model.columns[e.column].scale for e in model.effects])
    n = len(scale)
    parts += [estimate.effects[:n] / scale if n else np.zeros(0), estimate.effects[n:]]
    parts += [estimate.initial[group] for group in coordinates.initial_groups]
    return np.concatenate([*parts, coordinates.emitted(estimate)["value"]])


def parameter_names(fit: Fit, rates: pd.DataFrame) -> list[_Named]:
    """What the parameters are called."""
    model, network = fit.model, fit.network
    result = []
    for node, given, before, after in zip(
        rates["node"], rates["configuration"], rates["from"], rates["to"]
    ):
        where = f" | {given}" if given else ""
        result.append(_Named("rate", f"{node}: {before}>{after}{where}", "log"))
    for e in model.effects:
        column = model.columns[e.column].name
        result.append(_Named("effect", f"{e.node}: {e.transitions} × {column}", "identity"))
    for factor in model.factors:
        name = f"{factor.node}: spread of {factor.rates} rates between trajectories"
        result.append(_Named("frailty", name, "log"))
    graph = fit.expanded.network.compiled.graph
    for group in fit.task.coordinates.initial_groups:
        n = int(np.searchsorted(graph.state_start, group[0], side="right")) - 1
        node = fit.expanded.network.nodes[n]
        result += [_Named("start", f"{node}: starts in {s}", "logit") for s in network.states[node]]
    for learned, emission in zip(fit.task.coordinates.nodes, fit.outcome.best.estimate.emissions):
        found = described(emission, learned)
        n_effects = 0 if learned.design is None else len(learned.design.column)
        own, effect = ("start", "start effect") if learned.is_start else (
            "emission", "outcome effect"
        )  # fmt: skip
        kinds = [own] * (len(found) - n_effects) + [effect] * n_effects
        result += [
            _Named(kind, f"{learned.node}: {name}", scale)
            for kind, name, scale in zip(kinds, found["name"], found["scale"])
        ]
    return result


def parameter_table(
    uncertainty: Uncertainty, level: float, spreads: pd.DataFrame | None = None
) -> pd.DataFrame:
    """kind, parameter, estimate, se, lower, upper, note; intervals of ``spreads`` as given."""
    table, _ = _both(uncertainty, level)
    if spreads is not None and len(spreads):
        rows = table.index[table["kind"] == "frailty"]
        table.loc[rows, ["lower", "upper"]] = spreads[["lower", "upper"]].to_numpy()
    return table


def covariance_table(uncertainty: Uncertainty, level: float) -> pd.DataFrame:
    """Covariance of all parameters, named as in the parameter table."""
    return _both(uncertainty, level)[1]


def _both(uncertainty: Uncertainty, level: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    fit = uncertainty.fit
    rates = rate_table(fit, uncertainty.information, level)
    names = parameter_names(fit, rates)
    value, covariance, unknown = uncertainty.covariance_of(lambda e: natural_values(fit, e))
    se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    width = float(norm.isf(0.5 * (1.0 - level)))
    lower, upper = np.empty(len(value)), np.empty(len(value))
    for i, named in enumerate(names):
        low, high = limits(value[i : i + 1], se[i : i + 1], named.scale, width)
        lower[i], upper[i] = low[0], high[0]
    bounds = {"log": (0.0, np.inf), "logit": (0.0, 1.0), "identity": (-np.inf, np.inf)}
    for i in map(int, np.flatnonzero(unknown)):
        se[i], (lower[i], upper[i]) = np.inf, bounds[names[i].scale]
    notes = ["not identified: the data cannot tell it" if u else "" for u in unknown]
    for i, least, most in _probabilities_at_limits(uncertainty, len(rates), value, width):
        if not unknown[i]:
            se[i], lower[i], upper[i] = (most - least) / width**2, least, most
            notes[i] = f"at {'one: lower' if least > 0.0 else 'zero: upper'} is a limit"
    n = len(rates)
    se[:n], lower[:n], upper[:n] = rates["se"], rates["lower"], rates["upper"]
    notes[:n] = list(rates["note"])
    for i in _lost(uncertainty, n):
        what = "transitions" if names[i].kind == "effect" else "measurements"
        notes[i] = f"not identified: the data hold too few {what} to tell"
        se[i], (lower[i], upper[i]) = np.inf, bounds[names[i].scale]
    table = pd.DataFrame(
        {
            "kind": [p.kind for p in names],
            "parameter": [p.name for p in names],
            "estimate": value,
            "se": se,
            "lower": lower,
            "upper": upper,
            "note": notes,
        }
    )
    labels = [p.name for p in names]
    return table, pd.DataFrame(covariance, index=labels, columns=labels)


def effect_table(uncertainty: Uncertainty, level: float) -> pd.DataFrame:
    """One row per effect: node, transitions, covariate, effect, its interval and hazard ratio."""
    fit = uncertainty.fit
    table = parameter_table(uncertainty, level)
    rows = table[table["kind"] == "effect"].reset_index(drop=True)
    effects = fit.model.effects
    with np.errstate(over="ignore"):
        ratios = {
            "hazard_ratio": np.exp(rows["estimate"]),
            "hazard_ratio_lower": np.exp(rows["lower"]),
            "hazard_ratio_upper": np.exp(rows["upper"]),
        }
    return pd.DataFrame(
        {
            "node": [e.node for e in effects],
            "transitions": [e.transitions for e in effects],
            "covariate": [fit.model.columns[e.column].name for e in effects],
            "effect": rows["estimate"],
            "se": rows["se"],
            "lower": rows["lower"],
            "upper": rows["upper"],
            **ratios,
            "note": rows["note"],
        }
    )


def _lost(uncertainty: Uncertainty, n_rates: int) -> list[int]:
    """Numbers of effects, means and scales that explain next to nothing in the data."""
    coordinates, best = uncertainty.fit.task.coordinates, uncertainty.fit.outcome.best.estimate
    lost = ~coordinates.roots(best)
    lost[uncertainty.information.active] = False
    # the table has the effects before the start probabilities, a vector has them after
    effects = coordinates.effects
    n_starts = coordinates.n_roots - coordinates.update.n_base
    place = np.flatnonzero(lost[effects.start :])
    number = n_rates + place + np.where(place < effects.stop - effects.start, 0, n_starts)
    result: list[int] = number.tolist()
    return result


def _probabilities_at_limits(
    uncertainty: Uncertainty, n_rates: int, value: FloatArray, width: float
) -> list[tuple[int, float, float]]:
    """Number, lower and upper end of every probability that is estimated as zero or one.

    There the evidence falls in a straight line, ln P(p) ≈ ln P(0) − g·p, and the likelihood ratio
    excludes what lies above width² / 2g. In √p that line is a parabola of information 2g, so the
    limit is (width · standard error of √p)², as for rates at zero. One minus the others' largest
    limit bounds a probability of one from below.
    """
    fit = uncertainty.fit
    best, coordinates = fit.outcome.best, fit.task.coordinates
    _, complete = coordinates.score_and_information(best.estimate, best.expected)
    error = uncertainty.information.standard_errors()
    result = []
    for numbers, places in _probability_groups(fit, n_rates):
        p = value[numbers]
        seldom = p * complete[places] / 4.0 < _SELDOM  # complete is 4 × how often the state is seen
        if not seldom.any():
            continue
        highest = 0.0
        for i, root, se in zip(numbers[seldom], np.sqrt(p[seldom]), error[places[seldom]]):
            high = min(1.0, float(root + width * se) ** 2)
            highest = max(highest, high)
            result.append((int(i), 0.0, high))
        if (~seldom).sum() == 1 and 1.0 - highest > 0.0:
            result.append((int(numbers[~seldom][0]), 1.0 - highest, 1.0))
    return result


def _probability_groups(fit: Fit, n_rates: int) -> list[tuple[IntArray, IntArray]]:
    """Probabilities that sum to one: their numbers in the table, and their coordinates."""
    coordinates = fit.task.coordinates
    groups = []
    number, place = n_rates + coordinates.update.n_effects, coordinates.update.n_base
    for group in coordinates.initial_groups:
        inside = np.arange(len(group))
        groups.append((number + inside, place + inside))
        number, place = number + len(group), place + len(group)
    for inside in rows_of(coordinates.emitted(fit.outcome.best.estimate)):
        groups.append((number + inside, coordinates.effects.stop + inside))
    return groups
