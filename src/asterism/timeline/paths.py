"""Owns what is known of paths exactly: jumps, intervals of known state, exogenous nodes.

Events and intervals become jumps and disjoint spans; spans that meet in different states imply a
jump. Checks that need the network are here: states that cannot be left, related nodes that jump
at one time, measurements that contradict a known state.

Exogenous nodes are given from outside and known at all times. Whatever is said about such a node
(a measurement, an event, the start of an interval) sets its state from then on; the first statement
holds backwards to the start of the trajectory.

In continuous time two nodes never jump at once, and where one is a parent of the other the
likelihood depends on which came first. Such a tie is an error, unless the user said that the rows
are in order: then all but the last jump are moved back by a few units of rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.labels import encode
from asterism.data.measurements import last_before, objects
from asterism.data.observations import Observations
from asterism.errors import DataError, Setting
from asterism.model.network import Network
from asterism.timeline.evidence import (
    IntArray,
    Jumps,
    KnownPaths,
    KnownStates,
    Spans,
    in_order,
    joined,
    no_spans,
    rows_of,
)

if TYPE_CHECKING:
    from asterism.timeline.build import PointTable


def build_paths(network: Network, observations: Observations) -> KnownPaths:
    """Jumps, spans and known states from the events, intervals and exogenous nodes."""
    intervals, events = observations.intervals, observations.events
    node = numbers_of_nodes(network, intervals.node)
    state = numbers_of_states(network, observations, node, intervals.state, intervals.trajectory)
    given = np.isin(node, [network.node_index(n) for n in network.exogenous])
    watched = Spans(intervals.trajectory, node, intervals.start, intervals.end, state)
    is_short = watched.start == watched.end
    short = rows_of(watched, ~given & is_short)
    known = KnownStates(short.trajectory, short.node, short.start, short.state)
    spans = _merged(rows_of(watched, ~given & ~is_short))
    event_node = numbers_of_nodes(network, events.node)
    to = numbers_of_states(network, observations, event_node, events.to, events.trajectory)
    has_previous = np.array([p is not None for p in events.previous], dtype=np.bool_)
    previous = np.full(len(events), -1, dtype=np.int64)
    previous[has_previous] = numbers_of_states(
        network,
        observations,
        event_node[has_previous],
        events.previous[has_previous],
        events.trajectory[has_previous],
    )
    own = ~np.isin(event_node, [network.node_index(n) for n in network.exogenous])
    recorded = rows_of(Jumps(events.trajectory, event_node, events.time, to, previous), own)
    jumps, row = _with_implied(recorded, events.row[own], spans, network.n_nodes)
    _check_jumps(network, observations, jumps)
    jumps, spans = separate_ties(network, observations, jumps, row, spans)
    every = joined(spans, exogenous_spans(network, observations))
    return KnownPaths(jumps, in_order(every), known)


def numbers_of_nodes(network: Network, names: NDArray[Any]) -> IntArray:
    """Node numbers; every name is known to be a node."""
    return encode_names(names, network.nodes)


def encode_names(names: NDArray[Any], known: tuple[str, ...]) -> IntArray:
    """Places of names among those known."""
    number = {name: i for i, name in enumerate(known)}
    return np.array([number[n] for n in names], dtype=np.int64)


def numbers_of_states(
    network: Network,
    observations: Observations,
    node: IntArray,
    labels: NDArray[Any],
    trajectory: IntArray,
) -> IntArray:
    """State numbers of labels that belong to different nodes."""
    result = np.empty(len(node), dtype=np.int64)
    order = np.argsort(node, kind="stable")
    cuts = np.flatnonzero(np.diff(node[order])) + 1
    for rows in np.split(order, cuts) if len(order) else []:
        name = network.nodes[int(node[rows[0]])]
        result[rows] = encode(labels[rows], network.states[name])
        if (result[rows] < 0).any():
            bad = rows[int(np.argmin(result[rows]))]
            raise DataError(
                f"trajectory {observations.trajectories[int(trajectory[bad])]!r}: node {name!r} "
                f"has no state {labels[bad]!r}; its states are {list(network.states[name])}"
            )
    return result


def _merged(spans: Spans) -> Spans:
    """Sorted, with overlapping or touching spans of one state joined."""
    order = np.lexsort((spans.end, spans.start, spans.node, spans.trajectory))
    spans = rows_of(spans, order)
    if len(order) < 2:
        return spans
    d, n, start, end, state = vars(spans).values()
    other = (np.diff(d) != 0) | (np.diff(n) != 0) | (np.diff(state) != 0)
    run = np.concatenate([[0], np.cumsum(other)])
    # The largest end so far within a run: cumulative maximum of ranks, lifted above earlier runs.
    values, rank = np.unique(end, return_inverse=True)
    reach = values[np.maximum.accumulate(rank + run * len(values)) - run * len(values)]
    fresh = np.concatenate([[True], other | (start[1:] > reach[:-1])])
    first = np.flatnonzero(fresh)
    last = np.concatenate([first[1:], [len(order)]]) - 1
    return Spans(d[first], n[first], start[first], reach[last], state[first])


def _group(trajectory: IntArray, node: IntArray, n_nodes: int) -> IntArray:
    return trajectory * n_nodes + node


def _with_implied(
    recorded: Jumps, row: IntArray, spans: Spans, n_nodes: int
) -> tuple[Jumps, IntArray]:
    """All jumps, sorted; where a span ends at a jump, the state before it is known."""
    meets = np.flatnonzero(
        (np.diff(spans.trajectory) == 0)
        & (np.diff(spans.node) == 0)
        & (spans.start[1:] == spans.end[:-1])
    )
    group = _group(recorded.trajectory, recorded.node, n_nodes)
    order = np.lexsort((recorded.time, group))
    at = spans.start[meets + 1]
    found = last_before(
        group[order], recorded.time[order], _group(spans.trajectory, spans.node, n_nodes)[meets], at
    )
    missing = np.ones(len(meets), dtype=np.bool_)
    if len(order):
        missing = (found < 0) | (recorded.time[order][np.maximum(found, 0)] != at)
    new = meets[missing]
    before, after = rows_of(spans, new), rows_of(spans, new + 1)
    implied = Jumps(before.trajectory, before.node, after.start, after.state, before.state)
    jumps = joined(recorded, implied)
    rows = np.concatenate([row, int(row.max(initial=0)) + 1 + np.arange(len(new))]).astype(np.int64)
    order = np.lexsort((jumps.time, jumps.node, jumps.trajectory))
    jumps, rows = rows_of(jumps, order), rows[order]
    last = last_before(
        _group(spans.trajectory, spans.node, n_nodes),
        spans.start,
        _group(jumps.trajectory, jumps.node, n_nodes),
        jumps.time,
        strict=True,
    )
    if len(spans.node) == 0:
        return jumps, rows
    ends_here = (last >= 0) & (spans.end[np.maximum(last, 0)] == jumps.time)
    previous = np.where(ends_here, spans.state[np.maximum(last, 0)], jumps.from_state)
    return replace(jumps, from_state=previous.astype(np.int64)), rows


def _check_jumps(network: Network, observations: Observations, jumps: Jumps) -> None:
    at_start = jumps.time <= observations.start[jumps.trajectory]
    if at_start.any():
        k = int(np.argmax(at_start))
        raise DataError(
            f"{_jump_text(network, observations, jumps, k)} at the very start of its trajectory; "
            "let the trajectory start earlier (",
            Setting("start", ...),
            "), or report the state instead",
        )
    same = (jumps.to_state == jumps.from_state).nonzero()[0]
    if len(same):
        raise DataError(
            f"{_jump_text(network, observations, jumps, int(same[0]))}, the state it was in before"
        )
    if len(jumps.node) == 0:
        return
    final = np.flatnonzero(_enters_absorbing(network, jumps))
    if len(final) == 0:
        return
    group = _group(jumps.trajectory, jumps.node, network.n_nodes)
    found = last_before(group[final], jumps.time[final], group, jumps.time, strict=True)
    if (found >= 0).any():
        k = int(np.argmax(found >= 0))
        before = int(final[found[k]])
        raise DataError(
            f"{_jump_text(network, observations, jumps, k)} after "
            f"{_state(network, jumps, before)!r}, which cannot be left"
        )


def _enters_absorbing(network: Network, jumps: Jumps) -> NDArray[np.bool_]:
    """Which jumps enter a state that has no exit under any configuration of the parents."""
    graph, rates = network.compiled.graph, network.compiled.rates
    width = int(graph.n_states.max())
    closed = np.zeros((network.n_nodes, width), dtype=np.bool_)
    for n in np.unique(jumps.node):
        size = int(graph.n_states[n])
        table = rates[graph.table_start[n] : graph.table_start[n + 1]].reshape(-1, size, size)
        closed[n, :size] = (np.diagonal(table, axis1=1, axis2=2) == 0).all(axis=0)
    result: NDArray[np.bool_] = closed[jumps.node, jumps.to_state]
    return result


def check_against_points(
    network: Network, observations: Observations, table: PointTable, paths: KnownPaths
) -> None:
    """No measurement may exclude the state that its node is known to be in."""
    jumps, spans, points = paths.jumps, paths.spans, table.points
    touched = np.zeros(network.n_nodes, dtype=np.bool_)
    touched[jumps.node] = True
    touched[spans.node] = True
    rows = np.flatnonzero(touched[points.node])
    if len(rows) == 0:
        return
    group = _group(points.trajectory[rows], points.node[rows], network.n_nodes)
    time = points.time[rows]
    state = np.full(len(rows), -1, dtype=np.int64)
    span = last_before(
        _group(spans.trajectory, spans.node, network.n_nodes), spans.start, group, time
    )
    if len(spans.node):
        inside = (span >= 0) & (time <= spans.end[np.maximum(span, 0)])
        state[inside] = spans.state[span[inside]]
    jump_group = _group(jumps.trajectory, jumps.node, network.n_nodes)
    jump = last_before(jump_group, jumps.time, group, time)
    if len(jumps.node):
        now = (jump >= 0) & (jumps.time[np.maximum(jump, 0)] == time)
        state[now] = jumps.to_state[jump[now]]
        late = (jump >= 0) & ~now & (table.source[rows] < table.first_row[-1])
        late[late] = _enters_absorbing(network, jumps)[jump[late]]
        for k in map(int, np.flatnonzero(late)):  # rows that say "still dead" are fine
            first = points.offset[rows[k]]
            own = points.log_likelihood[
                first : first + network.compiled.graph.n_states[points.node[rows[k]]]
            ]
            late[k] = np.flatnonzero(own > -np.inf).tolist() != [jumps.to_state[jump[k]]]
        if late.any():
            i = int(np.argmax(late))
            raise DataError(
                f"{table.describe(int(rows[i]))} comes after the node entered "
                f"{_state(network, jumps, int(jump[i]))!r} at {jumps.time[jump[i]]:g}, which "
                "cannot be left: end the trajectory there"
            )
    known = np.flatnonzero(state >= 0)
    logs = points.log_likelihood[points.offset[rows[known]] + state[known]]
    if (logs == -np.inf).any():
        i = int(known[np.argmax(logs == -np.inf)])
        name = network.nodes[int(points.node[rows[i]])]
        raise DataError(
            f"{table.describe(int(rows[i]))} contradicts what is known of {name!r}: then it was in "
            f"{network.states[name][int(state[i])]!r}"
        )


def _state(network: Network, jumps: Jumps, k: int) -> object:
    label: object = network.states[network.nodes[int(jumps.node[k])]][int(jumps.to_state[k])]
    return label


def _jump_text(network: Network, observations: Observations, jumps: Jumps, k: int) -> str:
    return (
        f"trajectory {observations.trajectories[int(jumps.trajectory[k])]!r}, time "
        f"{jumps.time[k]:g}: node {network.nodes[int(jumps.node[k])]!r} enters "
        f"{_state(network, jumps, k)!r}"
    )


def exogenous_spans(network: Network, observations: Observations) -> Spans:
    """Spans that cover every trajectory for every exogenous node."""
    paths = [_path(network, observations, n) for n in network.nodes if n in network.exogenous]
    return joined(no_spans(), *paths)


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
    number = np.full(len(d), network.node_index(node), dtype=np.int64)
    return rows_of(Spans(d, number, start, end, state), keep)


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
                "or use ",
                Setting("ties", "order"),
                " if the rows are in order",
            )
        for back, k in enumerate(reversed(together)):
            moved = at - back * _STEP * abs(np.spacing(at))
            mine = (spans.trajectory == d) & (spans.node == jumps.node[k])
            time[k] = moved
            start[mine & (spans.start == at)] = moved
            end[mine & (spans.end == at)] = moved
    return replace(jumps, time=time), replace(spans, start=start, end=end)


def _related(network: Network, nodes: list[int]) -> tuple[str, str] | None:
    """A parent and its child among the nodes, if there is such a pair."""
    names = [network.nodes[n] for n in nodes]
    for child in names:
        for parent in names:
            if parent in network.parents[child]:
                return parent, child
    return None
