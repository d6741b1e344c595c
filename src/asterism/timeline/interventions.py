"""Owns interventions on the way from observations to evidence: nodes that the experimenter held.

While a node is held its measurements tell nothing that was not known: each gets the likelihood of
the state that was set, whatever the state, so that no method needs a rule of its own for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asterism.data.measurements import Events, Intervals
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.timeline.evidence import FloatArray, Spans, in_order
from asterism.timeline.paths import numbers_of_nodes, numbers_of_states

if TYPE_CHECKING:
    from asterism.timeline.build import PointTable


def build_interventions(network: Network, observations: Observations) -> Spans:
    """Interventions in numbers, sorted by trajectory, node and start."""
    given = observations.interventions
    node = numbers_of_nodes(network, given.node)
    for i, name in enumerate(given.node):
        if name in network.exogenous:
            raise DataError(
                f"interventions, row {given.row[i]}: {name!r} is exogenous, so its path is given "
                "anyway; drop one of the two"
            )
    state = numbers_of_states(network, observations, node, given.state, given.trajectory)
    spans = in_order(Spans(given.trajectory, node, given.start, given.end, state))
    _check_against_paths(observations, spans, network)
    return spans


def without_own_measurements(
    network: Network, observations: Observations, table: PointTable, by_hand: Spans
) -> None:
    """Make measurements of held nodes equally likely in every state, in place."""
    points = table.points
    for d, n, start, end, x in zip(
        by_hand.trajectory, by_hand.node, by_hand.start, by_hand.end, by_hand.state
    ):
        mine = (points.trajectory == d) & (points.node == n)
        size = len(network.states[network.nodes[int(n)]])
        for row in np.flatnonzero(mine & (points.time >= start) & (points.time <= end)):
            values = points.log_likelihood[points.offset[row] : points.offset[row] + size]
            # what does not fit the state that was set was not measured on this node's scale
            values[:] = values[x] if np.isfinite(values[x]) else 0.0


def _check_against_paths(observations: Observations, spans: Spans, network: Network) -> None:
    """A held node cannot be seen to jump or to stay as well."""
    events, intervals = observations.events, observations.intervals
    known: tuple[tuple[str, Events | Intervals, FloatArray, FloatArray], ...] = (
        ("event", events, events.time, events.time),
        ("interval", intervals, intervals.start, intervals.end),
    )
    for what, table, start, end in known:
        for d, n, begin, stop in zip(spans.trajectory, spans.node, spans.start, spans.end):
            name = network.nodes[int(n)]
            clash = (table.trajectory == d) & (table.node == name) & (start < stop) & (end > begin)
            if clash.any():
                raise DataError(
                    f"trajectory {observations.trajectories[int(d)]!r}: {name!r} is held from "
                    f"{begin:g} to {stop:g}, while row {table.row[int(np.argmax(clash))]} of the "
                    f"{what}s speaks of it; drop one of the two"
                )
