"""The order of states, and data that contradict the transitions said to be possible.

Loaded only where flags say something about order or transitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.commands.exits import Refused
from asterism.commands.input_table import listed
from asterism.commands.options import PanelOptions
from asterism.commands.panel import (
    allowed_transitions,
    node_of,
    states_in_order,
)
from asterism.data.labels import by_number, encode, letters, plain
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.model.emissions import Exact
from asterism.model.priors import as_mask


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
            f"states are {listed(names)}."
        )
    if sorted(place) != list(range(len(names))):
        raise Refused(
            f"--order must name every state of {node!r} once; its states are {listed(names)}."
        )
    return [names[i] for i in place]


def _refuse_contradictions(
    node: str,
    data: Observations,
    mask: NDArray[np.bool_],
    names: Sequence[Any],
    options: PanelOptions,
) -> None:
    """States seen without error, one after the other, that no allowed transitions can connect.

    Between two measurements other states may have been passed, in complete paths none.
    """
    trajectory, time, label = states_in_order(node, data)
    number = {letters(name): i for i, name in enumerate(names)}
    code = np.array([number.get(v, -1) for v in label.tolist()])
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
