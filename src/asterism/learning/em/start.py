"""Owns where EM starts: from crude rates in the data's own unit of time.

Each measurement is read as its most likely state. Changes between neighbouring measurements are
counted and divided by the time spent, the same for every configuration of the parents. Noise makes
such rates too large, rare measurements too small; EM corrects that.
"""

from __future__ import annotations

import numpy as np

from asterism.learning.em.emission_fit import jittered
from asterism.learning.em.estimate import Coordinates, Estimate
from asterism.learning.em.rates_update import RateUpdate
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.evidence import Evidence

_BORROWED = 0.5
"""Imagined changes per transition, at the pooled rate, so that no allowed rate starts at zero."""


def crude_start(
    graph: CompiledGraph,
    evidence: Evidence,
    coordinates: Coordinates,
    initial: FloatArray,
    rng: np.random.Generator,
) -> Estimate:
    """Rates from the changes seen; the start probabilities as given."""
    update = coordinates.update
    counts = [_changes(graph, evidence, n) for n in range(graph.n_nodes)]
    total_time = sum(float(time.sum()) for _, time, _ in counts)
    total_changes = sum(float(changes.sum()) for changes, _, _ in counts)
    lasting = float((evidence.end - evidence.start).sum())
    if total_time > 0.0:
        pooled = max(total_changes, 1.0) / total_time
    else:
        pooled = 1.0 * evidence.n_trajectories / lasting if lasting > 0.0 else 1.0
    rates = np.zeros(int(graph.table_start[-1]))
    for n, (changes, time, is_seen) in enumerate(counts):
        size = int(graph.n_states[n])
        each = (changes + _BORROWED) / (time[:, None] + _BORROWED / pooled)
        block = np.broadcast_to(each, (int(graph.n_configurations[n]), size, size)).copy()
        if not is_seen:  # nothing would tell a hidden node from its mirror image
            block *= np.exp(0.3 * rng.normal(size=block.shape))
        rates[graph.place(n)] = block.ravel()
    effects = update.formula.start_effects
    each = np.minimum(rates[update.index], update.ceiling)
    if not update.formula.is_plain:  # a baseline starts at the average of its rates
        count = np.maximum(update.per_base(np.ones(len(each))), 1.0)
        each = update.per_base(each / update.formula.factors(effects)) / count
    wanted = update.formula.start_base
    each = np.where(np.isfinite(wanted), np.nan_to_num(wanted), each)
    emissions = tuple(node.first for node in coordinates.nodes)
    flat = update.with_rates(np.zeros_like(rates), each, effects)
    return Estimate(flat, initial, emissions, effects)


def other_start(first: Estimate, coordinates: Coordinates, rng: np.random.Generator) -> Estimate:
    """A start somewhere else, for restarts."""
    update: RateUpdate = coordinates.update
    free = update.baselines(first.rates, first.effects)
    free = free * np.exp(0.7 * rng.normal(size=len(free)))
    initial = first.initial.copy()
    for group in coordinates.initial_groups:
        initial[group] = rng.dirichlet(np.full(len(group), 2.0))
    emissions = tuple(jittered(e, node, rng) for e, node in zip(first.emissions, coordinates.nodes))
    effects = first.effects
    if len(effects):
        effects = effects + 0.3 * rng.normal(size=len(effects))
    rates = update.with_rates(first.rates, np.minimum(free, update.ceiling), effects)
    return Estimate(rates, initial, emissions, effects)


def _changes(
    graph: CompiledGraph, evidence: Evidence, node: int
) -> tuple[FloatArray, FloatArray, bool]:
    """Changes (S, S) and times (S,) between neighbouring records, and whether there are any."""
    size = int(graph.n_states[node])
    trajectory, time, state = _states_in_order(evidence, node, size)
    changes, spent = np.zeros((size, size)), np.zeros(size)
    if node in evidence.exogenous or len(time) == 0:
        return changes, spent, node in evidence.exogenous
    same = trajectory[1:] == trajectory[:-1]
    before, after = state[:-1][same], state[1:][same]
    gap = (time[1:] - time[:-1])[same]
    np.add.at(spent, before, 0.5 * gap)
    np.add.at(spent, after, 0.5 * gap)
    moved = before != after
    np.add.at(changes, (before[moved], after[moved]), 1.0)
    return changes, spent, True


def _states_in_order(
    evidence: Evidence, node: int, size: int
) -> tuple[IntArray, FloatArray, IntArray]:
    """Everything said about a node, read as states, sorted by trajectory and time."""
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    p = np.flatnonzero(points.node == node)
    j = np.flatnonzero(jumps.node == node)
    s = np.flatnonzero(spans.node == node)
    logs = points.log_likelihood[points.offset[p][:, None] + np.arange(size)]
    trajectory = np.concatenate(
        [points.trajectory[p], jumps.trajectory[j], spans.trajectory[s], spans.trajectory[s]]
    )
    time = np.concatenate([points.time[p], jumps.time[j], spans.start[s], spans.end[s]])
    state = np.concatenate([logs.argmax(axis=1), jumps.to_state[j], spans.state[s], spans.state[s]])
    order = np.lexsort((time, trajectory))
    return trajectory[order], time[order], state[order].astype(np.int64)
