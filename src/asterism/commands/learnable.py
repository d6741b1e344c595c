"""Whether ``learn`` can use a table: asked by ``learn`` itself, and by ``check`` beforehand.

Both commands come through here, so that ``check`` refuses whatever ``learn`` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asterism.commands.choose_emission import choose_emissions
from asterism.commands.exits import Refused
from asterism.commands.guess_columns import listed
from asterism.commands.input_table import Table, only_nodes
from asterism.commands.panel_emissions import panel_emissions
from asterism.commands.panel_flags import PanelOptions, read_values
from asterism.data.columns import label_codes
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.model.emissions import Exact

#: said where a table is well-formed and yet holds nothing
NOTHING = "No column of the table holds anything to learn from."


@dataclass(frozen=True)
class Learnable:
    """The data as ``learn`` uses them, or what keeps it from doing so."""

    data: Observations | Trajectories | None
    emission: Any = None
    states: dict[str, list[str]] | None = None
    decisions: list[str] = field(default_factory=list)
    levels: dict[str, Any] = field(default_factory=dict)
    """Of the nodes whose levels were counted, how."""
    errors: list[str] = field(default_factory=list)

    def require(self) -> Observations | Trajectories:
        """The data, or an error that says everything that is wrong."""
        if self.data is None or self.errors:
            raise DataError("\n  ".join(self.errors))
        return self.data


def make_learnable(
    table: Table,
    emission: Sequence[str] = (),
    n_states: int | str = 2,
    keep: Sequence[str] = (),
    exogenous: Sequence[str] = (),
    panel: PanelOptions | None = None,
) -> Learnable:
    """Choose emissions, and find what would stop the search before it starts."""
    data = table.require()
    if isinstance(data, Trajectories):
        if emission:
            raise Refused("Complete paths are seen without error: --emission has no meaning here.")
        return Learnable(data, errors=_errors(data, exogenous))
    data, read = read_values(panel or PanelOptions(), data)
    choose = panel_emissions if read else choose_emissions
    choice = choose(data, emission, n_states, keep=keep)
    if not choice.nodes and not {*data.events.node, *data.intervals.node}:
        return Learnable(None, decisions=choice.decisions, errors=[NOTHING])
    used = only_nodes(data, choice.nodes)
    errors = _errors(used, exogenous)
    for node, record in used.measurements.items():
        clash = _clash(node, record, isinstance(choice.emission[node], Exact))
        errors += [clash] if clash else []
    return Learnable(
        used,
        choice.emission,
        choice.states or None,
        [*read, *choice.decisions],
        choice.levels,
        errors,
    )


def _errors(data: Observations | Trajectories, exogenous: Sequence[str]) -> list[str]:
    nodes = list(data.nodes)
    errors = [
        f"--exogenous names {name!r}, which is not a node; the nodes are {listed(nodes)}."
        for name in exogenous
        if name not in nodes
    ]
    if isinstance(data, Trajectories):
        errors += [
            f"Node {node!r} never leaves its state, so nothing can be learned about it; leave it "
            "out of --nodes."
            for node in nodes
            if len(data.states[node]) < 2
        ]
    if not np.any(data.end > data.start):
        errors.append(
            "Every trajectory has rows at a single time only, so nothing can be learned about what "
            "changes; do the rows of one trajectory share its name (--trajectory)?"
        )
    return errors


def _clash(node: str, record: NodeMeasurements, seen_exactly: bool) -> str | None:
    """Two exact states of one node at one time, which no path can explain."""
    if record.likelihood is not None or len(record) < 2:
        return None
    exact = np.flatnonzero(record.exact | seen_exactly)
    if len(exact) < 2:
        return None
    state = label_codes(record.value[exact])
    together = (np.diff(record.trajectory[exact]) == 0) & (np.diff(record.time[exact]) == 0)
    clash = np.flatnonzero(together & (np.diff(state) != 0))
    if not len(clash):
        return None
    first, second = exact[clash[0]], exact[clash[0] + 1]
    more = f", and {len(clash) - 1:,} more such pairs" if len(clash) > 1 else ""
    return (
        f"Node {node!r} has two different states at time {record.time[first]:g} of one trajectory "
        f"(rows {record.row[first]} and {record.row[second]}{more}), but states are seen without "
        "error; correct one, or allow errors with --emission categorical."
    )
