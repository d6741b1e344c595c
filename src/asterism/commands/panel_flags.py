"""Flags about states and transitions, shared by ``fit`` and ``learn``, and what they mean.

Which transitions can happen (``--allowed``, ``--absorbing``, ``--progressive``) and how a measured
value is to be read (``--exact-entry``, ``--state-code``, ``--censored``). With several nodes the
name of the node comes first: ``--absorbing disease:dead``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from asterism.commands.exits import Refused
from asterism.commands.options import Decorator, several, switch

if TYPE_CHECKING:
    from asterism.data.observations import Observations


@dataclass(frozen=True)
class PanelOptions:
    """What the user says about states; names are those of the flags."""

    allowed: Sequence[str] = ()
    absorbing: Sequence[str] = ()
    progressive: bool = False
    exact_entry: Sequence[str] = ()
    state_code: Sequence[str] = ()
    censored: Sequence[str] = ()


#: in the order in which help lists them
panel_options: Decorator = several(
    click.option(
        "--allowed",
        multiple=True,
        metavar="[NODE:]1>2,2>3",
        help="Only these transitions can happen; in quotes, or the shell takes > for itself.",
    ),
    click.option(
        "--absorbing", multiple=True, metavar="[NODE:]STATE", help="State that is never left."
    ),
    switch("--progressive", help="Only later states can be entered; the last is never left."),
    click.option(
        "--exact-entry",
        multiple=True,
        metavar="[NODE:]STATE",
        help="State whose rows say exactly when it was entered, such as death.",
    ),
    click.option(
        "--state-code",
        multiple=True,
        metavar="[NODE:]VALUE=STATE",
        help="Value that stands for a state known for certain, such as 999=dead.",
    ),
    click.option(
        "--censored",
        multiple=True,
        metavar="[NODE:]VALUE=1,2,3",
        help="Value that only says the state is one of several, such as 99=1,2,3.",
    ),
)

PANEL_FLAGS = tuple(PanelOptions.__dataclass_fields__)


def split_panel(options: dict[str, Any]) -> tuple[PanelOptions, dict[str, Any]]:
    """These settings, and the others."""
    own = {name: options[name] for name in PANEL_FLAGS}
    return PanelOptions(**own), {k: v for k, v in options.items() if k not in own}


def read_values(options: PanelOptions, data: Observations) -> tuple[Observations, list[str]]:
    """The observations with codes, sets and entries read as the flags say, and sentences."""
    decisions: list[str] = []
    codes: dict[str, dict[str, str]] = {}
    for text in options.state_code:
        node, rest = node_of(text, data.measurements, "--state-code")
        value, sign, state = (part.strip() for part in rest.partition("="))
        if not (sign and value and state):
            raise Refused(f"--state-code {text!r} is not VALUE=STATE, such as 999=dead.")
        codes.setdefault(node, {})[value] = state
    for node, table in codes.items():
        data = data.with_state_codes(node, table)
        said = ", ".join(f"{value} means {state}" for value, state in table.items())
        decisions.append(f"Codes of {node!r} (--state-code): {said}, for certain.")
    sets: dict[str, dict[str, list[str]]] = {}
    for text in options.censored:
        node, rest = node_of(text, data.measurements, "--censored")
        value, sign, states = (part.strip() for part in rest.partition("="))
        members = [s.strip() for s in states.split(",") if s.strip()]
        if not (sign and value and members):
            raise Refused(f"--censored {text!r} is not VALUE=STATES, such as 99=1,2,3.")
        sets.setdefault(node, {})[value] = members
    for node, members_of in sets.items():
        data = data.with_state_sets(node, members_of)
        said = "; ".join(f"{v} means one of {', '.join(s)}" for v, s in members_of.items())
        decisions.append(f"Sets of states of {node!r} (--censored): {said}.")
    for text in options.exact_entry:
        node, state = node_of(text, data.measurements, "--exact-entry")
        n_before = len(data.events)
        data = data.with_exact_entries(node, state)
        decisions.append(
            f"{node!r} enters {state!r} exactly at the time of its row (--exact-entry): "
            f"{len(data.events) - n_before} events."
        )
    return data, decisions


def allowed_transitions(options: PanelOptions, nodes: Iterable[str]) -> dict[str, Any] | None:
    """What a learner takes as ``allowed_transitions``; None where nothing was said."""
    from asterism.model.restrictions import Transitions, transition_pairs

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
    listed = ", ".join(nodes[:8])
    raise Refused(f"{flag} {text!r} needs the name of its node, as NODE:…; the nodes are {listed}.")
