"""Chooses emissions where codes, sets or exact entries have already explained some values.

Those rows are not looked at. A state that the data name only in such rows is silent: it is never
measured with error, so the emission is one of the other states only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asterism.commands.emissions import Choice, choose_emissions
from asterism.commands.input_table import listed
from asterism.data.labels import by_number, plain
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.model.emissions import Categorical, Exact, SilentStates


def panel_emissions(
    data: Observations,
    asked: Sequence[str],
    n_states: Any,
    keep: Sequence[str] = (),
    known_states: Mapping[str, Sequence[Any]] | None = None,
    learned: Mapping[str, Any] | None = None,
    misread: Mapping[str, str] | None = None,
) -> Choice:
    """As ``choose_emissions``; ``misread`` lists the errors of a confusion matrix by node."""
    heard = without_coded(data)
    choice = choose_emissions(
        heard, asked, n_states, keep=keep, known_states=known_states, learned=learned
    )
    emission: dict[str, Any] = dict(choice.emission)
    states: dict[str, list[Any]] = {node: list(names) for node, names in choice.states.items()}
    decisions = list(choice.decisions)
    for node, pairs in (misread or {}).items():
        emission[node] = _confusion(node, pairs, heard.measurements[node])
    for node, one in list(emission.items()):
        certain = _certain_states(node, data, heard)
        if isinstance(one, Exact) or not certain or (known_states and node in known_states):
            continue
        emission[node] = SilentStates(one, tuple(certain))
        decisions.append(f"{node!r}: {listed(certain)} is always known for certain.")
        if node in states:
            states[node] = [*states[node], *certain]
        elif isinstance(one, Categorical):
            seen = {plain(v) for v in heard.measurements[node].value.tolist()}
            states[node] = sorted([*seen, *certain], key=by_number)
    nodes = list(dict.fromkeys([*choice.nodes, *(n for n in data.nodes if n not in heard.nodes)]))
    return Choice(emission, states, nodes, decisions, choice.levels)


def without_coded(data: Observations) -> Observations:
    """Only the rows that an emission reads."""
    return replace(
        data,
        measurements={
            node: _as_numbers(record.take(np.flatnonzero(record.noisy)))
            for node, record in data.measurements.items()
            if record.noisy.any()
        },
    )


def _confusion(node: str, pairs: str, record: NodeMeasurements) -> Categorical:
    """A confusion matrix in which only the named errors can happen."""
    from asterism.model.priors import state_number, transition_pairs

    labels = sorted({plain(v) for v in record.value.tolist()}, key=by_number)
    table = np.eye(len(labels))
    for true, reported in transition_pairs(pairs):
        x, r = (state_number(node, s, labels) for s in (true, reported))
        table[x, r], table[x, x] = 0.1, table[x, x] - 0.1
    return Categorical(table.tolist(), learn=True)


def _certain_states(node: str, data: Observations, heard: Observations) -> list[Any]:
    """States that the data name only where they are certain: events and codes."""
    record = data.measurements[node]
    seen = {str(plain(v)) for v in heard.measurements[node].value.tolist()}
    named = [*record.value[record.exact].tolist(), *data.events.to[data.events.node == node]]
    found = dict.fromkeys(plain(v) for v in named)
    return [state for state in found if str(state) not in seen]


def _as_numbers(record: NodeMeasurements) -> NodeMeasurements:
    """Numbers as numbers again, where codes had made a column one of texts and numbers."""
    if any(isinstance(value, str) for value in record.value.tolist()):
        return record
    return replace(record, value=record.value.astype(np.float64))
