"""Owns learned emissions: their data, their coordinates, and the steps of EM that touch them.

Each learned emission is moved in its own coordinates: means as they are, scales and counts' means
as logarithms, rows of a confusion matrix as square roots that are normalised again. For each kind
the expected complete-data log-likelihood Q has a simple gradient and (diagonal) information:

    Gaussian     ∂Q/∂μ = Σ w (y−μ)/σ²      ∂Q/∂ln σ = Σ w ((y−μ)²/σ² − 1)
    Student t    the same with w times (ν+1) / (ν + (y−μ)²/σ²), but for the last −1
    Poisson      ∂Q/∂ln μ = Σ w (y−μ)
    Categorical  ∂Q/∂√p_r = 2 (C_r − p_r Σ C) / √p_r

where w are the posterior probabilities of the states. Where covariates act on the outcome
(``outcome_effects.py``), their effects follow these coordinates. By Fisher's identity these
gradients are those of the log evidence itself. Other emissions that can learn only take plain EM
steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.interventions import inside
from asterism.data.observations import Observations
from asterism.errors import AsterismError, DataError
from asterism.learning.em.outcome_effects import (
    OutcomeDesign,
    Shifted,
    Starts,
    free_entries,
    outcome_design,
)
from asterism.learning.em.rates_update import LARGEST_EFFECT
from asterism.model.emission_numeric import SMALLEST_SCALE
from asterism.model.emissions import (
    Categorical,
    Emission,
    Gaussian,
    Poisson,
    SilentStates,
    emission_for,
)
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.timeline.evidence import Evidence

_LARGEST_LOG_MOVE = 1.5
"""How far an extrapolated step takes a logarithm: a guard, not tuned."""
_CLIMBS, _HALVINGS = 5, 12
"""Steps of an M-step that has no closed form: enough to gain, EM repeats it anyway."""


@dataclass(frozen=True)
class LearnedNode:
    """The noisy measurements of one node whose emission is learned."""

    node: str
    states: tuple[Any, ...]
    """Those that can be measured: all but the silent ones."""
    values: NDArray[Any]
    place: IntArray
    """(n, S) where each measurement's likelihoods stand in the flat evidence."""
    start: Any
    """The emission with which learning starts."""
    design: OutcomeDesign | None = None
    """How covariates act on the measurements, if they do."""
    is_start: bool = False
    """Whether this is about the start: a factor of measurements that have likelihoods already."""

    @property
    def first(self) -> Any:
        """The start, with effects of covariates at zero."""
        if self.design is None:
            return self.start
        return Shifted(self.start, np.zeros(len(self.design.column)))


def started_emissions(
    network: Network, observations: Observations, emission: Any
) -> dict[str, Any]:
    """One emission per measured node, open parameters filled in from that node's own data."""
    result: dict[str, Any] = {}
    for node in network.nodes:
        record = observations.measurements.get(node)
        if record is None or node in network.exogenous or not record.noisy.any():
            continue
        found = emission_for(emission, node)
        if found.learn and record.likelihood is None:
            try:
                found = found.initialise(record.value[record.noisy], len(network.states[node]))
            except AsterismError as error:
                raise type(error)(f"Node {node!r}: {error}") from None
        result[node] = found
    return result


def learned_nodes(
    network: Network,
    observations: Observations,
    emissions: dict[str, Any],
    evidence: Evidence,
    outcome: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[LearnedNode, ...]:
    """The nodes whose emission is learned, with their data laid out; ``outcome``: effects on it."""
    points = evidence.points
    result = []
    for node, emission in emissions.items():
        record = observations.measurements[node]
        if not emission.learn or record.likelihood is not None:
            continue
        rows = np.flatnonzero(points.node == network.node_index(node))
        # states known at one time only are points too; they stand behind measurements of that time
        intervals = observations.intervals
        instant = (intervals.node == node) & (intervals.start == intervals.end)
        trajectory = np.concatenate([record.trajectory, intervals.trajectory[instant]])
        time = np.concatenate([record.time, intervals.start[instant]])
        position = np.empty(len(time), dtype=np.int64)
        position[np.lexsort((time, trajectory))] = np.arange(len(time))
        held = inside(observations.interventions, node, record.trajectory, record.time)
        noisy = np.flatnonzero(record.noisy & ~held)
        states, heard, inner = network.states[node], np.arange(len(network.states[node])), emission
        if isinstance(emission, SilentStates):
            # what excludes the silent states does not change while the inner emission is learned
            heard, inner = emission.speaking(states), emission.emission
        place = points.offset[rows[position[noisy]]][:, None] + heard
        named = tuple(states[x] for x in heard)
        design = None
        if node in outcome:
            when = (observations.covariates, record.trajectory[noisy], record.time[noisy])
            design = outcome_design(node, outcome[node], inner, named, when)
        result.append(LearnedNode(node, named, record.value[noisy], place, inner, design))
    return tuple(result)


def learned_starts(
    network: Network, observations: Observations, evidence: Evidence, effects: Mapping[str, Any]
) -> tuple[LearnedNode, ...]:
    """The nodes whose start depends on covariates; trajectories must be measured at their start."""
    points, result = evidence.points, []
    for node, own in effects.items():
        n, states = network.node_index(node), network.states[node]
        rows = np.flatnonzero(
            (points.node == n) & (points.time == evidence.start[points.trajectory])
        )
        d, first = np.unique(points.trajectory[rows], return_index=True)
        if len(d) < evidence.n_trajectories:
            label = observations.trajectories[
                int(np.setdiff1d(np.arange(len(evidence.start)), d)[0])
            ]
            raise DataError(
                f"Covariates act on the start of node {node!r}, which trajectory {label!r} does "
                "not measure at its start."
            )
        place = points.offset[rows[first]][:, None] + np.arange(len(states))
        even = Starts((tuple(np.full(len(states), 1.0 / len(states))),), learn=True)
        when = (observations.covariates, d, evidence.start)
        design = outcome_design(node, own, even, states, when)
        values = np.zeros(len(d))
        result.append(LearnedNode(node, tuple(states), values, place, even, design, is_start=True))
    return tuple(result)


def with_silence(old: Any, learned: Any) -> Any:
    """A learned emission, again with the silent states of the one it was learned for."""
    learned = learned.base if isinstance(learned, Shifted) else learned
    return replace(old, emission=learned) if isinstance(old, SilentStates) else learned


def write_log_likelihoods(
    nodes: Sequence[LearnedNode], emissions: Sequence[Any], flat: FloatArray
) -> FloatArray:
    """A copy of the flat log-likelihoods with those of the learned nodes brought up to date."""
    result = flat.copy()
    for learned, emission in zip(nodes, emissions):
        if not learned.is_start:
            result[learned.place] = _log_likelihood(emission, learned)
    for learned, emission in zip(nodes, emissions):
        if learned.is_start:
            result[learned.place] += _log_likelihood(emission, learned)
    return result


def _log_likelihood(emission: Any, learned: LearnedNode) -> FloatArray:
    if isinstance(emission, Shifted) and learned.design is not None:
        return emission.log_likelihood(learned.values, learned.states, learned.design)
    found: FloatArray = emission.log_likelihood(learned.values, learned.states)
    return found


def m_step(emission: Any, learned: LearnedNode, weights: FloatArray) -> Any:
    """The emission that explains the weighted measurements best, or at least better.

    With covariates it is climbed for, each coordinate in units of its own information.
    """
    if not isinstance(emission, Shifted):
        return emission.m_step(learned.values, weights, learned.states)
    inside = weights > 0.0

    def fit(one: Any) -> float:
        return float(weights[inside] @ _log_likelihood(one, learned)[inside])

    value = fit(emission)
    for _ in range(_CLIMBS):
        own = described(emission, learned)
        score, information = score_and_information(emission, learned, weights)
        step = score / np.where(information > 0.0, information, np.inf)
        for _ in range(_HALVINGS):
            moved = np.clip(own["at"] + step, own["low"], own["high"])
            trial = at_coordinates(emission, moved, learned)
            found = fit(trial)
            if found > value:
                emission, value = trial, found
                break
            step = 0.5 * step
        else:
            break
    return emission


#: What is said of a parameter: its name, its value in the user's units and the scale on which its
#: interval is symmetric; its coordinate (the value, its logarithm or square root) and how far an
#: extrapolated step may take that; of probabilities, with which they sum to one (−1 for others);
#: whether it is an effect on odds or counts, which runs away where nothing is seen; and the number
#: of the learned node, where there are several.
PARAMETER = np.dtype(
    [
        *(("name", object), ("value", float), ("scale", object)),
        *(("at", float), ("low", float), ("high", float), ("row", int), ("is_ratio", bool)),
        ("node", int),
    ]
)


def described(emission: Any, learned: LearnedNode) -> NDArray[Any]:
    """Every free parameter as a :data:`PARAMETER`; none of kinds that this file does not know."""
    states = learned.states
    if isinstance(emission, Shifted) and learned.design is not None:
        base, unit = emission.base, learned.design.scale
        effects = _parameters(learned.design.names, emission.effects / unit, "identity")
        effects["at"], effects["is_ratio"] = emission.effects, not isinstance(base, Gaussian)
        reach = 1.0 if not isinstance(base, Gaussian) else float(np.max(np.asarray(base.scale)))
        return np.concatenate(
            [described(base, learned), _within(effects, _LARGEST_LOG_MOVE * reach)]
        )
    means = [f"mean in {s}" for s in states]
    if isinstance(emission, Gaussian):
        scale = np.atleast_1d(np.asarray(emission.scale, dtype=np.float64))
        names = [f"scale in {s}" for s in states] if len(scale) > 1 else ["scale"]
        own = _within(_parameters(means, emission.means, "identity"), scale)
        return np.concatenate([own, _parameters(names, scale, "log")])
    if isinstance(emission, Poisson):
        return _parameters(means, emission.means, "log")
    if not isinstance(emission, Categorical):
        return np.zeros(0, PARAMETER)
    free, table = free_entries(learned.start), np.array(emission.confusion, dtype=np.float64)
    row, column = np.nonzero(free)
    reported: Sequence[Any] = emission.labels or states
    if len(reported) != free.shape[1]:
        reported = range(free.shape[1])
    names = [f"{states[x]} reported as {reported[int(r)]}" for x, r in zip(row, column)]
    if isinstance(emission, Starts):
        names = [f"starts in {s}" for s in states]
    own = _parameters(names, table[free], "logit")
    own["row"], own["low"], own["high"] = row, 0.03 * own["at"], 1.0
    return own


def _parameters(names: Sequence[str], values: Any, scale: str) -> NDArray[Any]:
    own = np.zeros(len(names), PARAMETER)
    own["name"], own["value"], own["scale"], own["row"] = names, values, scale, -1
    own["at"] = values
    if scale != "identity":
        own["at"] = np.log(np.maximum(values, 1e-300)) if scale == "log" else np.sqrt(values)
    return _within(own, _LARGEST_LOG_MOVE)


def _within(own: NDArray[Any], reach: Any) -> NDArray[Any]:
    own["low"], own["high"] = own["at"] - reach, own["at"] + reach
    return own


def rows_of(described: NDArray[Any]) -> list[IntArray]:
    """Where the probabilities of each row stand, which sum to one."""
    return [np.flatnonzero(described["row"] == x) for x in np.unique(described["row"]) if x >= 0]


def coordinates(emission: Any, learned: LearnedNode) -> FloatArray:
    """The free parameters as unbounded numbers."""
    found: FloatArray = described(emission, learned)["at"]
    return found


def distance(one: Emission, other: Emission, learned: LearnedNode) -> float:
    """The largest difference of two emissions of a kind; means of a Gaussian in its scales.

    Of kinds that this file does not know, the largest difference in the logarithm of a likelihood.
    """
    before, after = coordinates(one, learned), coordinates(other, learned)
    if not len(before):
        before, after = (e.log_likelihood(learned.values, learned.states) for e in (one, other))
        possible = np.isfinite(before) & np.isfinite(after)
        return float(np.abs(after[possible] - before[possible]).max(initial=0.0))
    apart = np.abs(after - before)
    if isinstance(one, Gaussian):
        apart[: len(learned.states)] /= np.asarray(one.scale, dtype=np.float64)
    return float(apart.max())


def at_coordinates(emission: Any, vector: FloatArray, learned: LearnedNode) -> Any:
    """The emission of the same kind at other coordinates."""
    if isinstance(emission, Shifted):
        size = len(vector) - len(emission.effects)
        base, effects = at_coordinates(emission.base, vector[:size], learned), vector[size:]
        if not isinstance(emission.base, Gaussian):
            effects = np.clip(effects, -LARGEST_EFFECT, LARGEST_EFFECT)
        return Shifted(base, effects)
    if isinstance(emission, Gaussian):
        size = len(learned.states)
        spread = float(np.std(learned.values.astype(np.float64)))
        scale = np.exp(vector[size:])
        if spread > 0.0:
            scale = np.maximum(scale, SMALLEST_SCALE * spread)
        return with_parameters(emission, vector[:size], scale)
    if isinstance(emission, Poisson):
        return with_parameters(emission, np.exp(vector))
    if isinstance(emission, Categorical):
        free, table = free_entries(learned.start), np.array(emission.confusion, dtype=np.float64)
        table[free] = vector**2
        total = np.where(free.any(axis=1), np.sum(table * free, axis=1), 1.0)[:, None]
        table = np.where(free, table / total, table)
        return with_parameters(emission, table)
    return emission


def with_parameters(emission: Any, values: FloatArray, scale: FloatArray | None = None) -> Any:
    """The emission with other means, and scales if it has some, or with other confusions."""
    if isinstance(emission, Categorical):
        return replace(emission, confusion=tuple(map(tuple, values.tolist())))
    changed: dict[str, Any] = {"means": tuple(values.tolist())}
    if scale is not None:
        is_own = isinstance(emission.scale, tuple)
        changed["scale"] = tuple(scale.tolist()) if is_own else float(scale[0])
    return replace(emission, **changed)


def score_and_information(
    emission: Any, learned: LearnedNode, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and diagonal information of Q in the coordinates."""
    if isinstance(emission, Shifted) and learned.design is not None:
        slope, curve = emission.slopes(learned.values, learned.states, learned.design, weights)
        shift = learned.design.shift(emission.effects)
        own = _without_effects(emission.base, learned, weights, slope, curve, shift)
        ours = learned.design.by_effect(slope, curve)
        return np.concatenate([own[0], ours[0]]), np.concatenate([own[1], ours[1]])
    return _plain_score(emission, learned, weights, 0.0)


def _without_effects(
    base: Any,
    learned: LearnedNode,
    weights: FloatArray,
    slope: FloatArray,
    curve: FloatArray,
    shift: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Gradient and information in the coordinates of the emission at the covariates' reference."""
    if isinstance(base, Gaussian):
        return _plain_score(base, learned, weights, shift)
    if isinstance(base, Poisson):
        return slope.sum(axis=0), curve.sum(axis=0)
    free, table = free_entries(learned.start), np.array(base.confusion, dtype=np.float64)
    root = np.sqrt(np.where(table > 0.0, table, 1.0))
    first = np.where(table > 0.0, 2.0 * slope.sum(axis=0).reshape(table.shape) / root, 0.0)
    total = weights.sum() if learned.is_start else weights.sum(axis=0)[:, None]
    rows = np.broadcast_to(total, table.shape)
    return first[free], 4.0 * rows[free]


def _plain_score(
    emission: Any, learned: LearnedNode, weights: FloatArray, shift: Any
) -> tuple[FloatArray, FloatArray]:
    """Gradient and information where measurements are ``shift`` above the means of their states."""
    total = weights.sum(axis=0)
    if isinstance(emission, Gaussian):
        means = np.asarray(emission.means, dtype=np.float64)
        scale = np.broadcast_to(np.asarray(emission.scale, dtype=np.float64), means.shape)
        z = (learned.values.astype(np.float64)[:, None] - shift - means) / scale
        heavy = emission.precision(z)
        by_mean = np.sum(weights * heavy * z, axis=0) / scale
        by_scale = np.sum(weights * (heavy * z**2 - 1.0), axis=0)
        about_scale = 2.0 * total
        if not isinstance(emission.scale, tuple):
            by_scale, about_scale = by_scale.sum(keepdims=True), about_scale.sum(keepdims=True)
        return (
            np.concatenate([by_mean, by_scale]),
            np.concatenate([total / scale**2, about_scale]),
        )
    if isinstance(emission, Poisson):
        means = np.asarray(emission.means, dtype=np.float64)
        counts = learned.values.astype(np.float64)
        return weights.T @ counts - total * means, total * means
    if isinstance(emission, Categorical):
        free, table = free_entries(learned.start), np.array(emission.confusion, dtype=np.float64)
        count = np.zeros_like(table)
        np.add.at(count.T, emission._columns(learned.values, learned.states), weights)
        count = np.where(free, count, 0.0)
        rows = np.broadcast_to(count.sum(axis=1, keepdims=True), table.shape)
        return root_score(count[free], rows[free], table[free]), 4.0 * rows[free]
    return np.zeros(0), np.zeros(0)


def root_score(count: FloatArray, total: FloatArray, value: FloatArray) -> FloatArray:
    """2 (count − total·value) / √value, the gradient in √value; 0 where the value is zero."""
    positive = value > 0.0
    root = np.sqrt(np.where(positive, value, 1.0))
    result: FloatArray = np.where(positive, 2.0 * (count - total * value) / root, 0.0)
    return result


def jittered(emission: Any, learned: LearnedNode, rng: np.random.Generator) -> Any:
    """A different start of the same kind, within what the data make plausible."""
    if isinstance(emission, Shifted):
        moved = emission.effects + 0.3 * rng.normal(size=len(emission.effects))
        return Shifted(jittered(emission.base, learned, rng), moved)
    vector = coordinates(emission, learned)
    if isinstance(emission, Gaussian):
        size = len(learned.states)
        distance = float(np.ptp(vector[:size])) / size
        vector[:size] = np.sort(vector[:size] + 0.5 * distance * rng.normal(size=size))
        vector[size:] += 0.3 * rng.normal(size=len(vector) - size)
    elif isinstance(emission, Poisson):
        vector = vector + 0.5 * rng.normal(size=len(vector))
    elif isinstance(emission, Categorical):
        vector = vector * np.exp(0.5 * rng.normal(size=len(vector)))
    return at_coordinates(emission, vector, learned)
