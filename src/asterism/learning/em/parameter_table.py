"""Owns the list of all parameters of a fit: names, estimates, intervals, covariance.

Rates, effects of covariates, starting probabilities and emissions, in this order. Rates keep the
intervals of the rate table (which knows about rates at zero); all others come from the delta
method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from asterism.evidence.arrays import FloatArray
from asterism.learning.em.derived import Uncertainty, limits
from asterism.learning.em.emission_fit import LearnedNode
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit, base_rates
from asterism.learning.em.rates_update import LARGEST_EFFECT
from asterism.learning.em.uncertainty import rate_table
from asterism.model.emissions import Categorical, Gaussian, Poisson

#: probabilities closer than this to 0 or 1 are at their limit
_AT_LIMIT = 1e-6


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
    place = np.flatnonzero((model.base >= 0) | (model.fixed > 0.0))
    parts = [base_rates(model, coordinates.update, estimate)[place]]
    scale = np.array([model.columns[e.column].scale for e in model.effects])
    parts.append(estimate.effects / scale if len(scale) else np.zeros(0))
    parts += [estimate.initial[group] for group in coordinates.initial_groups]
    for node, emission in zip(coordinates.nodes, estimate.emissions):
        parts.append(np.array([value for _, value, _ in _emission_values(node, emission)]))
    return np.concatenate(parts)


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
    graph = fit.expanded.network.compiled.graph
    for group in fit.task.coordinates.initial_groups:
        n = int(np.searchsorted(graph.state_start, group[0], side="right")) - 1
        node = fit.expanded.network.nodes[n]
        result += [_Named("start", f"{node}: starts in {s}", "logit") for s in network.states[node]]
    for learned, emission in zip(fit.task.coordinates.nodes, fit.outcome.best.estimate.emissions):
        result += [
            _Named("emission", f"{learned.node}: {name}", scale)
            for name, _, scale in _emission_values(learned, emission)
        ]
    return result


def _emission_values(learned: LearnedNode, emission: Any) -> list[tuple[str, float, str]]:
    """Name, value and scale of each parameter of a learned emission."""
    states = learned.states
    if isinstance(emission, Gaussian):
        result = [
            (f"mean in {s}", float(m), "identity") for s, m in zip(states, emission.means or ())
        ]
        if isinstance(emission.scale, tuple):
            return result + [
                (f"scale in {s}", float(v), "log") for s, v in zip(states, emission.scale)
            ]
        return [*result, ("scale", float(np.ravel(emission.scale or 0.0)[0]), "log")]
    if isinstance(emission, Poisson):
        return [(f"mean in {s}", float(m), "log") for s, m in zip(states, emission.means or ())]
    if isinstance(emission, Categorical):
        start = np.array(learned.start.confusion, dtype=np.float64)
        free = (start > 0.0) & (start < 1.0)
        reported = emission.labels or states
        if len(reported) != start.shape[1]:
            reported = tuple(range(start.shape[1]))
        table = np.array(emission.confusion)
        return [
            (f"{states[x]} reported as {reported[r]}", float(table[x, r]), "logit")
            for x, r in zip(*np.nonzero(free))
        ]
    return []


def parameter_table(uncertainty: Uncertainty, level: float) -> pd.DataFrame:
    """kind, parameter, estimate, se, lower, upper, note."""
    table, _ = _both(uncertainty, level)
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
    notes = ["not identified: the evidence is flat in this direction" if u else "" for u in unknown]
    for i, named in enumerate(names):
        # at a limit the evidence has no curvature to read an interval from
        if named.kind == "emission" and named.scale == "logit" and _is_at_limit(value[i]):
            se[i], (lower[i], upper[i]) = np.inf, bounds["logit"]
            notes[i] = "at its limit: the data give no interval"
    n = len(rates)
    se[:n], lower[:n], upper[:n] = rates["se"], rates["lower"], rates["upper"]
    notes[:n] = list(rates["note"])
    first = fit.task.coordinates.effects.start
    for k, effect in enumerate(fit.outcome.best.estimate.effects):
        if first + k not in uncertainty.information.active or abs(effect) >= LARGEST_EFFECT:
            notes[n + k] = "not identified: too few transitions show it"
            se[n + k], lower[n + k], upper[n + k] = np.inf, -np.inf, np.inf
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


def _is_at_limit(probability: float) -> bool:
    return not _AT_LIMIT < probability < 1.0 - _AT_LIMIT
