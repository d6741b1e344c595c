"""Owns which model EM learns, and where it starts.

The model is a template network (every allowed transition at rate one, so that evidence can be
checked against it) and a mask over the network's flat rates. What the user left open is read off
the data: a node has the states that its emission has parameters for, or the labels seen.

EM starts from crude rates in the data's own unit of time. Each measurement is read as its most
likely state; changes between neighbours are counted and divided by the time spent, the same for
every configuration of the parents. Noise makes such rates too large and rare measurements too
small; EM corrects that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.columns import canonical, plain
from asterism.data.observations import Observations
from asterism.errors import Advice, DataError, ModelError, Setting
from asterism.evidence.arrays import Evidence, FloatArray, IntArray
from asterism.learning.em.emission_fit import jittered
from asterism.learning.em.estimate import Coordinates, Estimate
from asterism.learning.em.rates_update import RateUpdate
from asterism.model.compiled import CompiledGraph
from asterism.model.emissions import (
    Categorical,
    Exact,
    Likelihood,
    SilentStates,
    Threshold,
    emission_for,
)
from asterism.model.names import as_parents
from asterism.model.network import Network
from asterism.model.priors import as_mask
from asterism.model.rates import SummaryRates

BoolArray = NDArray[np.bool_]
MAX_LABELS = 50

#: what to do where the states of a node cannot be told
_GIVE_STATES = Advice(
    'give states={node: labels}, or count them with Gaussian(levels="auto", learn=True)',
    "choose another --emission, or leave it out of --nodes",
)


@dataclass(frozen=True)
class Template:
    """A network with rate one wherever a transition is allowed."""

    network: Network
    allowed: BoolArray
    """Over the flat rates: the off-diagonal entries that are learned."""


def build_template(
    graph: Any,
    observations: Observations,
    emission: Any,
    states: Mapping[Any, Sequence[Any]] | None,
    exogenous: Sequence[Any],
    allowed_transitions: Mapping[Any, Any] | None,
    initial: Any,
) -> Template:
    """Check what the user asked for and fill in what the data say."""
    parents = as_parents(graph)
    given = graph if isinstance(graph, Network) else None
    outside = {str(n) for n in exogenous} | (set(given.exogenous) if given else set())
    masks = _checked_names("allowed_transitions", allowed_transitions, parents)
    named = _checked_names("states", states, parents)
    if hasattr(graph, "predecessors"):
        for node, attributes in graph.nodes(data=True):
            if attributes.get("states") is not None:
                named.setdefault(str(node), attributes["states"])
    for node in outside:
        if node not in parents:
            raise ModelError(
                Setting("exogenous"),
                f" names {node!r}, which is not a node; the nodes are "
                f"{', '.join(map(repr, parents))}.",
            )
    labels: dict[str, Sequence[Any]] = {}
    for node in parents:
        if given is not None and node not in named:
            labels[node] = given.states[node]
        elif node in named:
            labels[node] = list(named[node])
        else:
            labels[node] = _states_from_data(node, observations, emission, node in outside)
    rates: dict[str, Any] = {}
    for node, above in parents.items():
        mask = as_mask(node, masks.get(node), labels[node])
        structure = given.rates[node] if given is not None else None
        if node in outside:
            rates[node] = None
        elif isinstance(structure, SummaryRates):
            blocks = np.broadcast_to(mask, (structure.n_summary, *mask.shape))
            rates[node] = structure.with_table(blocks.astype(np.float64))
        else:
            shape = (*(len(labels[p]) for p in above), *mask.shape)
            rates[node] = np.broadcast_to(mask.astype(np.float64), shape)
    network = Network(parents, rates, labels, _initial(initial, given))
    flat = network.compiled.rates
    return Template(network=network, allowed=flat > 0.0)


def _initial(initial: Any, given: Network | None) -> Mapping[Any, Any] | None:
    if isinstance(initial, Mapping):
        return initial
    if isinstance(initial, str) and initial in ("learn", "uniform"):
        return None
    if isinstance(initial, str) and initial == "fixed":
        if given is None:
            raise ModelError(
                'initial="fixed" takes the distribution of the network given as graph; '
                "give a Network, or {node: probabilities}."
            )
        return given.initial
    raise ModelError(
        Setting("initial"),
        f' is {initial!r}; valid are "learn", "uniform", "fixed" (with a Network as graph) '
        "or {node: probabilities}.",
    )


def _checked_names(what: str, given: Any, nodes: Mapping[str, Any]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ModelError(f"{what} must be a dictionary by node, got {type(given).__name__}.")
    for node in given:
        if str(node) not in nodes:
            raise ModelError(
                f"{what} names {str(node)!r}, which is not a node; the nodes are "
                f"{', '.join(map(repr, nodes))}."
            )
    return {str(node): value for node, value in given.items()}


def _states_from_data(
    node: str, observations: Observations, emission: Any, is_exogenous: bool
) -> Sequence[Any]:
    """Names of a node's states where the user gives none."""
    record = observations.measurements.get(node)
    seen = _labels_of_known_paths(node, observations)
    if is_exogenous:
        if record is not None:
            seen += [plain(v) for v in record.value.tolist()]
        return _sorted_labels(node, seen, "is exogenous")
    found = emission_for(emission, node) if record is not None else None
    if record is not None and record.likelihood is not None:
        if record.states is not None:
            return record.states
        return [str(i) for i in range(record.likelihood.shape[1])]
    if isinstance(found, SilentStates):
        seen += [plain(v) for v in found.silent]
        inner = found.emission.n_states
        if record is not None and not isinstance(found.emission, Exact | Categorical) and inner:
            return [*(str(i) for i in range(inner)), *found.silent]
        found = found.emission
    if isinstance(found, Exact | Categorical) and record is not None:
        if isinstance(found, Exact) or found.labels is None:
            seen += [plain(v) for v in record.value[~record.in_a_set].tolist()]
        for among in () if record.among is None else record.among:
            seen += list(among or ())
        labels = _distinct(seen)
        if isinstance(found, Categorical) and len(labels) != found.n_states:
            return [str(i) for i in range(found.n_states)]
        return _sorted_labels(node, labels, "is measured")
    if isinstance(found, Threshold):
        return ["0", "1"]
    if found is not None and not isinstance(found, Likelihood) and found.n_states is not None:
        return [str(i) for i in range(found.n_states)]
    if seen:
        return _sorted_labels(node, seen, "has a known path")
    raise ModelError(
        f"The states of node {node!r} cannot be read off the data or its emission; ",
        _GIVE_STATES,
        ".",
    )


def _labels_of_known_paths(node: str, observations: Observations) -> list[Any]:
    events, intervals = observations.events, observations.intervals
    mine = events.node == node
    labels = [*events.to[mine], *(p for p in events.previous[mine] if p is not None)]
    labels += [*intervals.state[intervals.node == node]]
    return [plain(label) for label in labels]


def _distinct(labels: Sequence[Any]) -> list[Any]:
    by_text: dict[str, Any] = {}
    for label in labels:
        by_text.setdefault(canonical(label), label)
    return list(by_text.values())


def _sorted_labels(node: str, labels: Sequence[Any], why: str) -> list[Any]:
    found = _distinct(labels)
    if not 2 <= len(found) <= MAX_LABELS:
        raise ModelError(
            f"Node {node!r} {why} in {len(found)} different states; 2 to {MAX_LABELS} are "
            "possible: ",
            _GIVE_STATES,
            ".",
        )
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=canonical)


_BORROWED = 0.5
"""Imagined changes per transition, at the pooled rate, so that no allowed rate starts at zero."""


def require_time(evidence: Evidence) -> None:
    """Rates can be learned only from trajectories that last."""
    if not np.any(evidence.end > evidence.start):
        raise DataError(
            "Every trajectory has measurements at a single time only, and says nothing about what "
            "changes: give at least one trajectory two times (do the rows of one trajectory share "
            "its name in the trajectory column?), or say with start and end when each was watched."
        )


def crude_start(
    graph: CompiledGraph,
    evidence: Evidence,
    coordinates: Coordinates,
    initial: FloatArray,
    rng: np.random.Generator,
) -> Estimate:
    """Rates from the changes seen; the initial distribution as given."""
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
        inside = slice(int(graph.table_start[n]), int(graph.table_start[n + 1]))
        block = np.broadcast_to(each, (int(graph.n_configurations[n]), size, size)).copy()
        if not is_seen:  # a hidden node and its mirror image would be told apart by nothing
            block *= np.exp(0.3 * rng.normal(size=block.shape))
        rates[inside] = block.ravel()
    effects = update.link.start_effects
    each = np.minimum(rates[update.index], update.ceiling)
    if not update.link.is_plain:  # a baseline starts at the average of its rates
        count = np.maximum(update.per_base(np.ones(len(each))), 1.0)
        each = update.per_base(each / update.factors(effects)) / count
    wanted = update.link.start_base
    each = np.where(np.isfinite(wanted), np.nan_to_num(wanted), each)
    emissions = tuple(node.start for node in coordinates.nodes)
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
    """Changes (S, S) and times (S,) between neighbouring readings, and whether there are any."""
    size = int(graph.n_states[node])
    trajectory, time, state = _readings(evidence, node, size)
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


def _readings(evidence: Evidence, node: int, size: int) -> tuple[IntArray, FloatArray, IntArray]:
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
