"""Owns covariates that change how a state is measured, or where a trajectory starts.

    Gaussian     mean of state x         μ_x + Σ β z
    Poisson      mean of state x         μ_x exp(Σ β z)
    Categorical  report r of state x     ∝ p_xr exp(Σ β z)
    Start        state x at the start    ∝ p_x exp(Σ β z)

where z are the covariates of the measurement, from their reference and in units of their scale. A
reported state has no effect on the report that is right (or on the likeliest one, where there is no
right one): its β are log odds against that. What a measurement adds to the mean, or to the log
odds, is its *shift*; the derivatives of the expected log-likelihood Q in the β are sums of those in
the shifts, times z. The start is a factor of the first measurement of each trajectory; the
network's own start probabilities are then all equal, and their number is taken out of the factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from asterism.data.covariates import Covariates, values_at
from asterism.data.observations import Observations
from asterism.errors import ModelError
from asterism.learning.em.rate_model import (
    Column,
    Effect,
    as_effects,
    columns_of,
    require_covariates,
)
from asterism.model.emissions import Categorical, Gaussian, Poisson, SilentStates
from asterism.model.priors import state_number
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

OUTCOME, START = "outcome", "start"


@dataclass(frozen=True)
class Starts(Categorical):
    """Start probabilities, as the one row of a confusion matrix."""

    def __post_init__(self) -> None:
        """One row is enough, unlike for reports."""


#: per node: its effects, each with the columns of its covariate
Effects = dict[str, list[tuple[Effect, list[Column]]]]


@dataclass(frozen=True)
class OutcomeDesign:
    """How the effects of one node's covariates act on its measurements."""

    columns: tuple[Column, ...]
    z: FloatArray
    """(measurements, columns)"""
    column: IntArray
    """Per effect: its column."""
    acts: FloatArray
    """(effects, shifts) 1 where an effect acts; shifts are per state, or per state and report."""
    names: tuple[str, ...]

    @property
    def scale(self) -> FloatArray:
        """Per effect: how many of the covariate's units its column counts as one."""
        return np.array([self.columns[c].scale for c in self.column])

    def shift(self, effects: FloatArray) -> FloatArray:
        """(measurements, shifts)"""
        table = np.zeros((self.z.shape[1], self.acts.shape[1]))
        np.add.at(table, self.column, effects[:, None] * self.acts)
        return self.z @ table

    def by_effect(self, slope: FloatArray, curve: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives in the effects, first and second (diagonal), from those in the shifts."""
        first = np.sum((self.z.T @ slope)[self.column] * self.acts, axis=1)
        return first, np.sum(((self.z**2).T @ curve)[self.column] * self.acts, axis=1)

    def at(self, table: Covariates | None, trajectory: IntArray, time: FloatArray) -> OutcomeDesign:
        """The same effects for other measurements."""
        table = require_covariates(table, [c.covariate for c in self.columns])
        z = [c.standardised(values_at(table, c.covariate, trajectory, time)) for c in self.columns]
        return replace(self, z=np.stack(z, axis=1))


@dataclass(frozen=True)
class Shifted:
    """An emission and the effects of covariates on it."""

    base: Any
    effects: FloatArray

    def log_likelihood(
        self, values: NDArray[Any], states: Sequence[Any], design: OutcomeDesign
    ) -> FloatArray:
        """(n, S) log probability, or density, of each value under each state."""
        base, shift = self.base, design.shift(self.effects)
        if isinstance(base, Gaussian):
            means, scale = base._parameters()
            z = (values.astype(np.float64)[:, None] - means - shift) / scale
            result: FloatArray = -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2.0 * np.pi)
            return result
        if isinstance(base, Poisson):
            count = values.astype(np.float64)[:, None]
            means = np.asarray(base.means, dtype=np.float64) * np.exp(shift)
            return np.asarray(xlogy(count, means) - means - gammaln(count + 1.0))
        if isinstance(base, Starts):
            with np.errstate(divide="ignore"):
                return np.log(_reports(base, shift)[:, 0] * len(states))
        number = base._columns(values, states)
        with np.errstate(divide="ignore"):
            return np.log(_reports(base, shift)[np.arange(len(values)), :, number])

    def slopes(
        self,
        values: NDArray[Any],
        states: Sequence[Any],
        design: OutcomeDesign,
        weights: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """(n, shifts) derivatives of Q in the shifts: the first, and minus the second."""
        base, shift = self.base, design.shift(self.effects)
        if isinstance(base, Gaussian):
            means, scale = base._parameters()
            rest = values.astype(np.float64)[:, None] - means - shift
            return weights * rest / scale**2, weights / scale**2
        if isinstance(base, Poisson):
            means = np.asarray(base.means, dtype=np.float64) * np.exp(shift)
            return weights * (values.astype(np.float64)[:, None] - means), weights * means
        p = _reports(base, shift)
        if isinstance(base, Starts):
            return weights - p[:, 0], p[:, 0] * (1.0 - p[:, 0])
        seen = np.zeros_like(p)
        seen[np.arange(len(values)), :, base._columns(values, states)] = 1.0
        slope, curve = weights[:, :, None] * (seen - p), weights[:, :, None] * p * (1.0 - p)
        return slope.reshape(len(p), -1), curve.reshape(len(p), -1)


def free_entries(start: Categorical) -> BoolArray:
    """Entries of a confusion matrix that may change: those that start neither at 0 nor at 1."""
    table = np.array(start.confusion, dtype=np.float64)
    free: BoolArray = (table > 0.0) & (table < 1.0)
    return free


def _reports(base: Categorical, shift: FloatArray) -> FloatArray:
    """(n, S, reports) probabilities."""
    table = np.array(base.confusion, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(table) + shift.reshape(-1, *table.shape)
    # effects may run away where a report never happens: only ratios to the largest count
    odds = np.exp(logs - logs.max(axis=2, keepdims=True))
    result: FloatArray = odds / odds.sum(axis=2, keepdims=True)
    return result


def outcome_effects(
    nodes: Sequence[str],
    observations: Observations,
    covariates: Any,
    reference: Mapping[str, Any] | None = None,
    on: str = OUTCOME,
) -> Effects:
    """Per node its effects on the outcome, or the start, each with the columns of its covariate."""
    result: Effects = {}
    for effect in as_effects(covariates):
        if effect.on != on:
            continue
        if (effect.node is None and len(nodes) > 1) or effect.node not in (None, *nodes):
            raise ModelError(
                f"The effect of {effect.covariate!r} on the {on} must name its node; the nodes are "
                f"{', '.join(nodes)}."
            )
        table = require_covariates(observations.covariates, [effect.covariate])
        columns = columns_of(effect.covariate, table, (reference or {}).get(effect.covariate))
        result.setdefault(effect.node or nodes[0], []).append((effect, columns))
    return result


def not_learned(node: str) -> ModelError:
    """What to raise where covariates act on an outcome that they cannot act on."""
    return ModelError(
        f"Covariates act on the outcome of node {node!r}, whose emission is not learned; that is "
        "for Gaussian, Poisson and Categorical emissions that are."
    )


def outcome_design(
    node: str,
    effects: list[tuple[Effect, list[Column]]],
    emission: Any,
    states: Sequence[Any],
    measured: tuple[Covariates | None, IntArray, FloatArray],
) -> OutcomeDesign:
    """The effects on one node's outcome; ``measured`` are covariates, trajectories and times."""
    inner = emission.emission if isinstance(emission, SilentStates) else emission
    if type(inner).__name__ not in _WHAT or not inner.learn:
        raise not_learned(node)
    columns, column, acts, names = [], [], [], []
    for effect, own in effects:
        wanted = np.arange(len(states))
        if effect.states is not None:
            given = [effect.states] if isinstance(effect.states, str) else list(effect.states)
            wanted = np.array([state_number(node, s, states) for s in given])
        each, called = _shifts(inner, states, wanted)
        if effect.equal:
            each, called = each.sum(axis=0, keepdims=True), ["all states"]
        for part in own:
            columns.append(part)
            column += [len(columns) - 1] * len(each)
            acts.append(each)
            names += [f"{_WHAT[type(inner).__name__]} {name} × {part.name}" for name in called]
    design = OutcomeDesign(
        tuple(columns),
        np.zeros((0, len(columns))),
        np.array(column, dtype=np.int64),
        np.concatenate(acts),
        tuple(names),
    )
    return design.at(*measured)


_WHAT = {
    "Gaussian": "mean in",
    "Poisson": "log mean in",
    "Categorical": "log odds of",
    "Starts": "log odds to start in",
}


def _shifts(emission: Any, states: Sequence[Any], wanted: IntArray) -> tuple[FloatArray, list[str]]:
    """(effects, shifts) one effect per shift that a covariate can have, and their names."""
    if isinstance(emission, Starts):
        wanted = wanted[wanted > 0]
    if not isinstance(emission, Categorical) or isinstance(emission, Starts):
        return np.eye(len(states))[wanted], [str(states[x]) for x in wanted]
    table, free = np.array(emission.confusion, dtype=np.float64), free_entries(emission)
    labels = [str(s) for s in (emission.labels or states)]
    rows, names = [], []
    for x in wanted:
        right = labels.index(str(states[x])) if str(states[x]) in labels else -1
        if right < 0 or not free[x, right]:
            right = int(np.argmax(np.where(free[x], table[x], -1.0)))
        for r in np.flatnonzero(free[x]):
            if r != right:
                rows.append(x * table.shape[1] + r)
                names.append(f"{labels[r]} when {states[x]}")
    return np.eye(table.size)[rows], names
