"""What the user says about states and transitions, and what the data suggest about them.

Which transitions can happen (``--allowed``, ``--absorbing``, ``--progressive``) and how a measured
value is to be read (``--exact-entry``, ``--state-code``, ``--censored``), for ``fit`` and
``learn``. With several nodes the name of the node comes first: ``--absorbing disease:dead``. Hints
point out states never left, orders never reversed and odd codes: each is one sentence that names
the flag which would settle it, and decides nothing.

Rows that codes, sets or exact entries explain are not looked at when emissions are chosen. A state
that the data name only in such rows is silent: it is never measured with error, so the emission is
one of the other states only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from asterism.commands.emissions import Choice, choose_emissions
from asterism.commands.exits import Refused, in_flags
from asterism.commands.options import PanelOptions
from asterism.data.labels import by_number, canonical, encode, letters, plain, spelled
from asterism.data.measurements import NodeMeasurements
from asterism.data.numbers import read_numbers
from asterism.data.observations import Observations
from asterism.data.panel_records import changes, final_states, states_in_order
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, counted, quoted
from asterism.model.emissions import Categorical, Exact, SilentStates
from asterism.model.priors import Transitions, as_mask, state_number, transition_pairs
from asterism.model.template import about_final
from asterism.numerics.arrays import BoolArray


def read_values(options: PanelOptions, data: Observations) -> tuple[Observations, list[str]]:
    """The observations with codes, sets and entries read as the flags say, and sentences."""
    decisions: list[str] = []
    form = "VALUE=STATE, such as 999=dead"
    for node, table in _meanings(options.state_code, data, "--state-code", form).items():
        data = data.with_state_codes(node, table)
        said = ", ".join(f"{value} means {state}" for value, state in table.items())
        decisions.append(f"Codes of {node!r} (--state-code): {said}, for certain.")
    form = "VALUE=STATES, such as 99=1,2,3"
    for node, table in _meanings(options.censored, data, "--censored", form).items():
        sets = {v: [s.strip() for s in text.split(",") if s.strip()] for v, text in table.items()}
        data = data.with_state_sets(node, sets)
        said = "; ".join(f"{v} means one of {', '.join(s)}" for v, s in sets.items())
        decisions.append(f"Sets of states of {node!r} (--censored): {said}.")
    for text in options.exact_entry:
        node, state = node_of(text, data.measurements, "--exact-entry")
        _require_final(options, data, node, state)
        n_before = len(data.events)
        data = data.with_exact_entries(node, state)
        decisions.append(
            f"{node!r} enters {state!r} exactly at the time of its row (--exact-entry): "
            f"{counted(len(data.events) - n_before, 'event')}."
        )
    return data, decisions


def _meanings(
    texts: Sequence[str], data: Observations, flag: str, form: str
) -> dict[str, dict[str, str]]:
    """Per node what its values stand for."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        node, rest = node_of(text, data.measurements, flag)
        value, meaning = both_sides(rest, f"{flag} {text!r}", form)
        found.setdefault(node, {})[value] = meaning
    return found


def _require_final(options: PanelOptions, data: Observations, node: str, state: str) -> None:
    """Refuse exact entries into a state that can be left: two things may be meant by them."""
    table = changes(data, [node])
    mine = (table["node"] == node) & (table["before"] == letters(state))
    onwards, leaves = table["after"][mine].tolist(), "the table leaves it for"
    given = (allowed_transitions(options, data.measurements) or {}).get(node)
    if given is not None and letters(state) in map(letters, given.absorbing):
        return  # a table that leaves it is refused with the row
    if not onwards and given is not None:
        pairs = given.allowed or ()
        onwards = [after for before, after in pairs if letters(before) == letters(state)]
        leaves = "--allowed lets it go to"
    if onwards:
        raise Refused(
            f"--exact-entry {state}: {leaves} {', '.join(onwards[:4])}. It can mean two things. "
            "(1) A final state, such as death, whose date is known while the other states are "
            "seen now and then: then nothing may follow it; correct the rows or --allowed. "
            "(2) Every transition was seen when it happened: then the table holds complete paths; "
            "leave --exact-entry out and say --kind paths."
        )


def with_final_states(
    options: PanelOptions, data: Observations | Trajectories, exogenous: Sequence[str] = ()
) -> tuple[PanelOptions, list[str]]:
    """The options with states that the data show to be final as absorbing, and sentences.

    ``--allowed`` of a node says what can happen, so nothing is added to it.
    """
    if isinstance(data, Trajectories):
        data = Observations.from_trajectories(data)
    nodes, said = [node for node in data.nodes if node not in exogenous], []
    spoken_for = {node_of(text, nodes, "--allowed")[0] for text in options.allowed}
    known = {node_of(text, nodes, "--absorbing") for text in options.absorbing}
    more = []
    for node, states in final_states(data).items():
        for state, reason in states.items():
            if node not in nodes or node in spoken_for or (node, state) in known:
                continue
            more.append(f"{node}:{state}")
            if not options.progressive:
                said.append(in_flags(about_final(node, state, reason)))
    return replace(options, absorbing=(*options.absorbing, *more)), said


def allowed_transitions(options: PanelOptions, nodes: Iterable[str]) -> dict[str, Any] | None:
    """What a learner takes as ``allowed_transitions``; None where nothing was said."""
    nodes = list(nodes)
    result: dict[str, Transitions] = {}
    if options.progressive:
        result = {node: Transitions(progressive=True) for node in nodes}
    for text in options.allowed:
        node, rest = node_of(text, nodes, "--allowed")
        old = result.get(node, Transitions())
        result[node] = replace(old, allowed=[*(old.allowed or ()), *transition_pairs(rest)])
    for text in options.absorbing:
        node, state = node_of(text, nodes, "--absorbing")
        old = result.get(node, Transitions())
        result[node] = replace(old, absorbing=(*old.absorbing, state))
    return dict(result) or None


def node_of(text: str, nodes: Iterable[str], flag: str) -> tuple[str, str]:
    """The node that a value names before a colon; the only node if there is one."""
    nodes = list(nodes)
    name, colon, rest = text.partition(":")
    if colon and name.strip() in nodes:
        return name.strip(), rest.strip()
    if len(nodes) == 1:
        return nodes[0], text.strip()
    raise Refused(
        f"{flag} {text!r} needs the name of its node, as NODE:…; the nodes are {quoted(nodes)}."
    )


def both_sides(text: str, given: str, form: str) -> tuple[str, str]:
    """What stands on both sides of the equals sign; ``form`` says what is expected."""
    left, sign, right = (part.strip() for part in text.partition("="))
    if not (sign and left and right):
        raise Refused(f"{given} is not {form}.")
    return left, right


# ---- hints: what the data suggest, and which flag would settle it ----------------------------


#: entries after which "never left" is worth a sentence
FEWEST_ENTRIES = 3

#: moves forward, and none back, after which an order is worth a sentence
FEWEST_MOVES = 10

#: a value that occurs this often, this many times the range of all others away, looks like a code
FEWEST_CODES = 3
#: states of a node whose order is looked at
MOST_ORDERED = 12
FAR = 2.0


def hints(data: Observations, options: PanelOptions) -> list[str]:
    """One sentence per oddity of the measured nodes."""
    found: list[str] = []
    for node, record in data.measurements.items():
        if record.likelihood is not None or not len(record):
            continue
        odd = odd_codes(record)
        found += [_about_code(node, value, count, low, high) for value, count, low, high in odd]
        if not odd:
            found += _about_order(node, data, record, options)
    return found


def odd_codes(record: NodeMeasurements) -> list[tuple[str, int, float, float]]:
    """Values that repeat and stand far outside the others: value, count, range of the others."""
    rows = record.noisy
    read = read_numbers(record.value[rows])
    numbers = read.value
    if len(numbers) == 0 or read.is_text.any():
        return []
    values, counts = np.unique(numbers, return_counts=True)
    result = []
    for end in (0, -1):
        others = np.delete(values, end)
        if len(others) < 2 or counts[end] < FEWEST_CODES:
            continue
        low, high = float(others.min()), float(others.max())
        away = max(low - values[end], values[end] - high)
        looks_like_code = set(canonical(abs(values[end])).strip("0.")) == {"9"}
        if away > (FAR if looks_like_code else 10.0 * FAR) * (high - low) and away > 1.0:
            result.append((canonical(values[end]), int(counts[end]), low, high))
    return result


def _about_code(node: str, value: str, count: int, low: float, high: float) -> str:
    return (
        f"{node!r} is {value} in {count} rows and from {low:g} to {high:g} in all others. If "
        f"{value} is a code, say so: --state-code {value}=STATE (a state known for certain, such "
        f"as dead), "
        f"--censored {value}=STATES (one of several states), or --missing={value} (not measured)."
    )


def _about_order(
    node: str, data: Observations, record: NodeMeasurements, options: PanelOptions
) -> list[str]:
    values = record.value[~record.in_a_set]
    if values.dtype.kind == "f" and len(np.unique(values)) > MOST_ORDERED:
        return []
    trajectory, _, value = states_in_order(node, data)
    label = spelled(value).tolist()
    states = sorted(set(label), key=by_number)
    if not 2 <= len(states) <= MOST_ORDERED:
        return []
    number = {state: i for i, state in enumerate(states)}
    code = np.array([number[v] for v in label])
    same = trajectory[1:] == trajectory[:-1]
    before, after = code[:-1][same], code[1:][same]
    moves = np.zeros((len(states), len(states)), dtype=np.int64)
    np.add.at(moves, (before, after), 1)
    np.fill_diagonal(moves, 0)
    given = (allowed_transitions(options, [*data.measurements]) or {}).get(node)
    try:
        allowed = as_mask(node, given, states)
    except Exception:  # named in full when the fit checks it
        return []
    prefix = f"{node}:" if len(data.measurements) > 1 else ""
    back, forward = int(np.tril(moves).sum()), int(np.triu(moves).sum())
    if len(states) > 2 and back == 0 and forward >= FEWEST_MOVES and np.tril(allowed).any():
        order = " → ".join(states)
        return [
            f"{node!r} only ever moves forward in the order {order} ({forward} moves, none back), "
            "yet moves back are allowed: --progressive rules them out."
        ]
    result = []
    for x, state in enumerate(states):
        entries = int(moves[:, x].sum())
        if entries >= FEWEST_ENTRIES and moves[x].sum() == 0 and allowed[x].any():
            result.append(
                f"{node!r} enters {state!r} {entries} times and never leaves it, yet it may: "
                f"--absorbing {prefix}{state} keeps it there (and --exact-entry {prefix}{state} "
                "says that its times are exact)."
            )
    return result


# ---- the order of states, and data that contradict what is said to be possible ----------------


def restrict(
    options: PanelOptions, data: Observations, emission: Any, states: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, list[Any]], list[str]]:
    """States in the order that was given, and sentences; refuses data that cannot be.

    ``states``: the names that are known already, of hidden states for example.
    """
    result = {node: list(names) for node, names in states.items()}
    said = []
    for text in options.order:
        node, rest = node_of(text, data.nodes, "--order")
        result[node] = _in_order(node, rest, result.get(node) or _seen(node, data))
    allowed = allowed_transitions(options, data.nodes) or {}
    for node, given in allowed.items():
        names = result.get(node) or _seen(node, data)
        if options.progressive:
            order = " → ".join(map(str, names))
            said.append(f"{node!r} moves only forward (--progressive), in the order {order}.")
        one = emission.get(node) if isinstance(emission, Mapping) else emission
        if one is None or isinstance(one, Exact):
            _refuse_contradictions(node, data, as_mask(node, given, names), names, options)
    return result, said


def _seen(node: str, data: Observations) -> list[Any]:
    values = [*data.events.to[data.events.node == node]]
    if node in data.measurements:
        record = data.measurements[node]
        values += record.value[~record.in_a_set].tolist()
        for among in () if record.among is None else record.among:
            values += list(among or ())
    return sorted({letters(v): plain(v) for v in values}.values(), key=by_number)


def _in_order(node: str, text: str, names: Sequence[Any]) -> list[Any]:
    wanted = [part.strip() for part in text.replace(">", ",").split(",") if part.strip()]
    place = encode(wanted, names).tolist()
    if -1 in place:
        raise Refused(
            f"--order names {wanted[place.index(-1)]!r}, which is not a state of {node!r}; its "
            f"states are {quoted(names)}."
        )
    if sorted(place) != list(range(len(names))):
        raise Refused(
            f"--order must name every state of {node!r} once; its states are {quoted(names)}."
        )
    return [names[i] for i in place]


def _refuse_contradictions(
    node: str,
    data: Observations,
    mask: BoolArray,
    names: Sequence[Any],
    options: PanelOptions,
) -> None:
    """States seen without error, one after the other, that no allowed transitions can connect.

    Between two measurements other states may have been passed, in complete paths none.
    """
    trajectory, time, value = states_in_order(node, data)
    label = spelled(value).tolist()
    number = {letters(name): i for i, name in enumerate(names)}
    code = np.array([number.get(v, -1) for v in label])
    reach = np.eye(len(names), dtype=np.bool_) | mask
    for _ in names if node in data.measurements else ():
        reach = (reach.astype(np.int64) @ reach) > 0
    same = (trajectory[1:] == trajectory[:-1]) & (code[1:] >= 0) & (code[:-1] >= 0)
    bad = np.flatnonzero(same & ~reach[code[:-1], code[1:]])
    if not len(bad):
        return
    k = int(bad[0])
    flags = [
        flag
        for flag, given in (
            ("--progressive", options.progressive),
            ("--allowed", options.allowed),
            ("--absorbing", options.absorbing),
        )
        if given
    ]
    more = f" (the first of {len(bad)} such moves)" if len(bad) > 1 else ""
    misread = (
        "; --emission categorical lets states be misreported" if node in data.measurements else ""
    )
    order = " → ".join(map(str, names))
    kept = f" (the order is {order}; --order gives another)" if options.progressive else ""
    raise DataError(
        f"{node!r} goes from {label[k]} to {label[k + 1]} in trajectory "
        f"{data.trajectories[int(trajectory[k])]!r} between {time[k]:.6g} and {time[k + 1]:.6g}"
        f"{more}, which {' and '.join(flags)} rule{'s' * (len(flags) == 1)} out{kept}. Allow it, "
        f"or correct the rows{misread}."
    )


# ---- emissions where codes, sets or exact entries have already explained some values ----------


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
        decisions.append(f"{node!r}: {quoted(certain)} is always known for certain.")
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
