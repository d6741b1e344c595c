"""Owns jumps of several nodes at one recorded time.

In continuous time two nodes never jump at once, and where one is a parent of the other the
likelihood depends on which came first. That is an error, unless the user said that the rows are
in order: then all but the last jump are moved back by a few units of rounding.
"""

from __future__ import annotations

import numpy as np

from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.inference.evidence import IntArray, Jumps, Spans
from asterism.model.network import Network

#: Times are moved by this many units in the last place, so that rescaling time keeps the order.
_STEP = 8


def separate_ties(
    network: Network, observations: Observations, jumps: Jumps, row: IntArray, spans: Spans
) -> tuple[Jumps, Spans]:
    """Order related jumps at one time by their rows, or refuse them."""
    order = np.lexsort((row, jumps.time, jumps.trajectory))
    tied = (np.diff(jumps.trajectory[order]) == 0) & (np.diff(jumps.time[order]) == 0)
    if not tied.any():
        return jumps, spans
    time, start, end = jumps.time.copy(), spans.start.copy(), spans.end.copy()
    breaks = np.flatnonzero(~tied) + 1
    for together in np.split(order, breaks):
        if len(together) < 2:
            continue
        pair = _related(network, [int(jumps.node[k]) for k in together])
        if pair is None:
            continue
        at = float(jumps.time[together[0]])
        d = int(jumps.trajectory[together[0]])
        if observations.ties != "order":
            raise DataError(
                f"trajectory {observations.trajectories[d]!r}: {pair[0]!r} and its child "
                f"{pair[1]!r} both jump at time {at:g}; say which came first by changing one time, "
                "or pass ties='order' if the rows are in order"
            )
        for back, k in enumerate(reversed(together)):
            moved = at - back * _STEP * abs(np.spacing(at))
            mine = (spans.trajectory == d) & (spans.node == jumps.node[k])
            time[k] = moved
            start[mine & (spans.start == at)] = moved
            end[mine & (spans.end == at)] = moved
    return (
        Jumps(jumps.trajectory, jumps.node, time, jumps.to_state, jumps.from_state),
        Spans(spans.trajectory, spans.node, start, end, spans.state),
    )


def _related(network: Network, nodes: list[int]) -> tuple[str, str] | None:
    """A parent and its child among the nodes, if there is such a pair."""
    names = [network.nodes[n] for n in nodes]
    for child in names:
        for parent in names:
            if parent in network.parents[child]:
                return parent, child
    return None
