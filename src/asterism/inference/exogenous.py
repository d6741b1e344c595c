"""Owns the paths of exogenous nodes: given from outside, known at every moment.

Whatever is said about such a node (a measurement, an event, the start of an interval) sets its
state from then on; the first statement holds backwards to the start of the trajectory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asterism.data.labels import encode
from asterism.data.measurements import objects
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.inference.evidence import Spans
from asterism.model.network import Network


def exogenous_spans(network: Network, observations: Observations) -> Spans:
    """Spans that cover every trajectory for every exogenous node."""
    none = np.empty(0, dtype=np.int64)
    pieces = [Spans(none, none, np.empty(0), np.empty(0), none)]
    pieces += [_path(network, observations, n) for n in network.nodes if n in network.exogenous]
    return Spans(
        np.concatenate([p.trajectory for p in pieces]),
        np.concatenate([p.node for p in pieces]),
        np.concatenate([p.start for p in pieces]),
        np.concatenate([p.end for p in pieces]),
        np.concatenate([p.state for p in pieces]),
    )


def _path(network: Network, observations: Observations, node: str) -> Spans:
    d, time, label = _statements(observations, node)
    states = network.states[node]
    state = encode(label, states)
    if (state < 0).any():
        i = int(np.argmin(state))
        raise DataError(
            f"trajectory {observations.trajectories[int(d[i])]!r}, time {time[i]:g}: exogenous "
            f"node {node!r} has no state {label[i]!r}; its states are {list(states)}"
        )
    absent = np.setdiff1d(np.arange(observations.n_trajectories), d)
    if len(absent):
        raise DataError(
            f"trajectory {observations.trajectories[int(absent[0])]!r}: nothing is said about the "
            f"exogenous node {node!r}, whose path must be given"
            + (f" ({len(absent)} such trajectories)" if len(absent) > 1 else "")
        )
    order = np.lexsort((time, d))
    d, time, state = d[order], time[order], state[order]
    at_once = (np.diff(d) == 0) & (np.diff(time) == 0) & (np.diff(state) != 0)
    if at_once.any():
        i = int(np.argmax(at_once))
        raise DataError(
            f"trajectory {observations.trajectories[int(d[i])]!r}, time {time[i]:g}: the exogenous "
            f"node {node!r} is said to be in {states[state[i]]!r} and in {states[state[i + 1]]!r}"
        )
    fresh = np.concatenate([[True], (np.diff(d) != 0) | (np.diff(state) != 0)])
    d, time, state = d[fresh], time[fresh], state[fresh]
    first = np.concatenate([[True], np.diff(d) != 0])
    start = np.where(first, observations.start[d], time)
    end = observations.end[d]
    end[:-1] = np.where(first[1:], end[:-1], start[1:])
    # A change at the very end has no duration; a trajectory without duration still has a state.
    keep = first | (end > start)
    return Spans(
        d[keep],
        np.full(int(keep.sum()), network.node_index(node), dtype=np.int64),
        start[keep],
        end[keep],
        state[keep],
    )


def _statements(
    observations: Observations, node: str
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.object_]]:
    """Trajectory, time and state label of everything that is said about a node."""
    events, intervals = observations.events, observations.intervals
    e = np.flatnonzero(events.node == node)
    i = np.flatnonzero(intervals.node == node)
    d = [events.trajectory[e], intervals.trajectory[i]]
    time = [events.time[e], intervals.start[i]]
    label = [*events.to[e], *intervals.state[i]]
    record = observations.measurements.get(node)
    if record is not None:
        if record.likelihood is not None:
            raise DataError(f"the exogenous node {node!r} needs states, not likelihoods")
        d.append(record.trajectory)
        time.append(record.time)
        label += record.value.tolist()
    return np.concatenate(d), np.concatenate(time), objects(label)
