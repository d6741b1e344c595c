"""Owns the template that learning starts from: a network with rate one wherever a jump may happen.

Evidence can be checked against it, and a mask over its flat rates says which are learned. What the
user left open is read off the data: a node has the states that its emission has parameters for, or
the labels seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.data.labels import canonical, letters, plain
from asterism.data.observations import Observations
from asterism.data.panel_records import final_states
from asterism.data.problems import DataWarning
from asterism.errors import Advice, ModelError, Sentence, Setting, require_known
from asterism.model.emissions import (
    Categorical,
    Exact,
    Likelihood,
    SilentStates,
    Threshold,
    emission_for,
)
from asterism.model.names import as_parents, by_node, states_in
from asterism.model.network import Network
from asterism.model.priors import as_mask, names_transitions
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import BoolArray

#: more labels than this are rather measurements: one parent more would mean 50 · 50² rates
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
    masks = by_node("allowed_transitions", allowed_transitions, parents)
    named = {**states_in(graph), **by_node("states", states, parents)}
    require_known(outside, parents, Sentence(Setting("exogenous"), " names"))
    labels: dict[str, Sequence[Any]] = {}
    for node in parents:
        if given is not None and node not in named:
            labels[node] = given.states[node]
        elif node in named:
            labels[node] = list(named[node])
        else:
            labels[node] = _states_from_data(node, observations, emission, node in outside)
    rates: dict[str, Any] = {}
    final = final_states(observations)
    for node, above in parents.items():
        mask = as_mask(node, masks.get(node), labels[node])
        if node not in outside and not names_transitions(masks.get(node)):
            mask = _with_final(node, mask, labels[node], final.get(node, {}))
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


def _with_final(
    node: str, mask: BoolArray, labels: Sequence[Any], final: Mapping[str, str]
) -> BoolArray:
    """The mask without the exits of states that the data show to be final, with a warning."""
    mask = mask.copy()
    for x, label in enumerate(labels):
        reason = final.get(letters(label))
        if reason is not None and mask[x].any():
            mask[x] = False
            warnings.warn(about_final(node, label, reason), DataWarning, stacklevel=4)
    return mask


def about_final(node: str, state: Any, reason: str) -> Sentence:
    """Why a state is taken as absorbing, and how to say otherwise."""
    return Sentence(
        f"{node!r} never leaves {str(state)!r} and {reason}: it is taken as absorbing (",
        *(Setting("allowed_transitions"), " says otherwise)."),
    )


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


def _states_from_data(
    node: str, observations: Observations, emission: Any, is_exogenous: bool
) -> Sequence[Any]:
    """Names of a node's states where the user gives none."""
    record = observations.measurements.get(node)
    seen = _labels_of_known_paths(node, observations)
    if is_exogenous:
        values = [] if record is None else record.value.tolist()
        return _sorted_labels(node, _distinct(values, seen), "is exogenous")
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
        measured = []
        if isinstance(found, Exact) or found.labels is None:
            measured = record.value[~record.in_a_set].tolist()
        for among in () if record.among is None else record.among:
            seen += list(among or ())
        labels = _distinct(measured, seen)
        if isinstance(found, Categorical) and len(labels) != found.n_states:
            return [str(i) for i in range(found.n_states)]
        return _sorted_labels(node, labels, "is measured")
    if isinstance(found, Threshold):
        return ["0", "1"]
    if found is not None and not isinstance(found, Likelihood) and found.n_states is not None:
        return [str(i) for i in range(found.n_states)]
    if seen:
        return _sorted_labels(node, _distinct([], seen), "has a known path")
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


def _distinct(measured: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The labels of a column, letter by letter, and those of other tables that it does not have."""
    found: dict[str, Any] = {}
    for label in measured:
        found.setdefault(letters(label), plain(label))
    known = set(map(canonical, found.values()))
    for label in others:
        if canonical(label) not in known:
            known.add(canonical(label))
            found[canonical(label)] = label
    return list(found.values())


def _sorted_labels(node: str, found: list[Any], why: str) -> list[Any]:
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
