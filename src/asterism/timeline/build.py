"""Owns the step from what was measured to what inference reads: observations → evidence.

Labels become numbers and emissions turn values into log-likelihoods of the states. Nodes that share
an emission and states are evaluated together, in one call on all their values. Whatever cannot be
true under the network is refused with trajectory, time, node and value.

Data with known paths (jumps, intervals, exogenous nodes) also go through ``paths.py``, those with
interventions through ``interventions.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.labels import encode
from asterism.data.measurements import NodeMeasurements, objects
from asterism.data.observations import Observations
from asterism.errors import AsterismError, DataError, ModelError, quoted
from asterism.model.emissions import (
    Joint,
    Likelihood,
    Threshold,
    check_emissions,
    emission_for,
    split_emissions,
)
from asterism.model.network import Network
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    JointMeasurement,
    KnownPaths,
    KnownStates,
    Points,
    Spans,
    no_paths,
    no_spans,
)

#: Emissions are evaluated on batches of about this many values.
_CHUNK_ROWS = 16_384


@dataclass(frozen=True)
class PointTable:
    """Points, and how to say in words where each came from."""

    points: Points
    source: IntArray
    """Per point: its number in the order node by node; at or above the rows of ``records``, a
    state known from an interval of no length."""
    first_row: IntArray
    records: tuple[tuple[str, NodeMeasurements], ...]
    trajectories: tuple[object, ...]

    def describe(self, point: int) -> str:
        """Where a measurement stands, for messages."""
        return _describe(int(self.source[point]), self.first_row, self.records, self.trajectories)


def build_points(
    network: Network,
    observations: Observations,
    emission: Any,
    joint_columns: set[str],
    known: KnownStates,
) -> PointTable:
    """Likelihoods of all measurements of single nodes, and of states known at a single time."""
    records = tuple(
        (node, observations.measurements[node])
        for node in network.nodes
        if node not in network.exogenous
        and node not in joint_columns
        and node in observations.measurements
        and len(observations.measurements[node])
    )
    counts = np.array([len(r) for _, r in records], dtype=np.int64)
    first_row = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    numbers = np.array([network.node_index(n) for n, _ in records], dtype=np.int64)
    n_measured = int(first_row[-1])
    n_states = np.array([len(network.states[n]) for n in network.nodes], dtype=np.int64)

    trajectory = np.concatenate([*(r.trajectory for _, r in records), known.trajectory])
    time = np.concatenate([*(r.time for _, r in records), known.time])
    node = np.concatenate([np.repeat(numbers, counts), known.node])
    order = _sorted_by_trajectory(trajectory, node, time, len(known.node), network.n_nodes)
    size = n_states[node[order]]
    offset = np.cumsum(size) - size
    flat = np.empty(int(size.sum()))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = offset

    pinned = place[n_measured:]
    for x in range(int(n_states.max(initial=0))):
        fits = x < n_states[known.node]
        flat[pinned[fits] + x] = np.where(known.state[fits] == x, 0.0, -np.inf)
    for rows, logs in _likelihoods(network, observations, emission, records, first_row):
        impossible = _first_impossible(logs)
        if impossible is not None:
            row = rows.start + impossible if isinstance(rows, slice) else int(rows[impossible])
            where = _describe(row, first_row, records, observations.trajectories)
            raise DataError(f"{where} is impossible under every state")
        at = place[rows]
        for x in range(logs.shape[1]):
            flat[at + x] = logs[:, x]
    points = Points(trajectory[order], node[order], time[order], offset, flat)
    return PointTable(points, order, first_row, records, observations.trajectories)


def _sorted_by_trajectory(
    trajectory: IntArray, node: IntArray, time: FloatArray, n_extra: int, n_nodes: int
) -> IntArray:
    """The order by (trajectory, node, time) of rows that are sorted by (node, trajectory, time)."""
    if n_extra:
        return np.lexsort((time, node, trajectory)).astype(np.int64)
    if len(trajectory) and int(trajectory.max()) < 2**16:
        # numpy sorts 16-bit numbers by radix, many times faster
        return np.argsort(trajectory.astype(np.uint16), kind="stable").astype(np.int64)
    return np.argsort(trajectory, kind="stable").astype(np.int64)


def _likelihoods(
    network: Network,
    observations: Observations,
    emission: Any,
    records: tuple[tuple[str, NodeMeasurements], ...],
    first_row: IntArray,
) -> Iterator[tuple[IntArray | slice, FloatArray]]:
    """Pairs (row numbers, log-likelihoods (n, S)) that together cover every measurement."""
    groups: dict[tuple[int, tuple[Any, ...], bool], list[int]] = {}
    emissions: dict[int, Any] = {}
    for i, (node, record) in enumerate(records):
        states = network.states[node]
        has_exact = bool(record.exact.any())
        noisy = record.noisy
        if noisy.any():
            found = emission.get(node) if isinstance(emission, Mapping) else emission
            if id(found) not in emissions:
                found = emission_for(emission if found is None else found, node)
            found = _prepared(found, node, record, observations)
            if isinstance(found, Likelihood) or record.likelihood is not None:
                yield _given_likelihoods(found, node, record, states, int(first_row[i]))
                continue
            emissions[id(found)] = found
            groups.setdefault((id(found), states, record.value.dtype == object), []).append(i)
        if has_exact:
            rows = np.flatnonzero(record.exact)
            code = encode(record.value[rows], states)
            _require_known(code, rows + int(first_row[i]), first_row, records, observations, states)
            logs = np.where(code[:, None] == np.arange(len(states)), 0.0, -np.inf)
            yield rows + int(first_row[i]), logs
        if record.among is not None and record.in_a_set.any():
            yield _set_likelihoods(record, states, int(first_row[i]), node)
    for (key, states, _), members in groups.items():
        for chunk in _chunks(members, first_row):
            yield _evaluated(emissions[key], states, chunk, records, first_row, observations)


def _set_likelihoods(
    record: NodeMeasurements, states: tuple[Any, ...], first: int, node: str
) -> tuple[IntArray, FloatArray]:
    """Rows that only say that the state is one of several."""
    assert record.among is not None
    rows = np.flatnonzero(record.in_a_set & ~record.exact)
    known: dict[tuple[Any, ...], FloatArray] = {}
    for i in rows:
        among = record.among[i]
        if among not in known:
            code = encode(objects(among), states)
            if (code < 0).any():
                raise DataError(
                    f"node {node!r} is said to be in one of {list(among)}, but its states are "
                    f"{list(states)}"
                )
            known[among] = np.where(np.isin(np.arange(len(states)), code), 0.0, -np.inf)
    logs = np.array([known[record.among[i]] for i in rows])
    return rows + first, logs.reshape(len(rows), len(states))


def _chunks(members: list[int], first_row: IntArray) -> Iterator[list[int]]:
    """Records in batches whose likelihoods fit the processor's cache."""
    chunk: list[int] = []
    n_rows = 0
    for i in members:
        size = int(first_row[i + 1] - first_row[i])
        if chunk and n_rows + size > _CHUNK_ROWS:
            yield chunk
            chunk, n_rows = [], 0
        chunk.append(i)
        n_rows += size
    yield chunk


def _evaluated(
    emission: Any,
    states: tuple[Any, ...],
    members: list[int],
    records: tuple[tuple[str, NodeMeasurements], ...],
    first_row: IntArray,
    observations: Observations,
) -> tuple[IntArray | slice, FloatArray]:
    """One call of an emission on all values of some nodes that are not exact."""
    mine = [records[i][1] for i in members]
    values = np.concatenate([r.value for r in mine])
    number = np.concatenate([r.trajectory for r in mine])
    noisy = np.concatenate([r.noisy for r in mine])
    rows: IntArray | slice = slice(int(first_row[members[0]]), int(first_row[members[-1] + 1]))
    if not noisy.all() or members[-1] - members[0] + 1 != len(members):
        rows = np.concatenate([np.arange(first_row[i], first_row[i + 1]) for i in members])[noisy]
        values, number = values[noisy], number[noisy]
    extra: dict[str, Any] = {}
    if getattr(emission, "per_trajectory", False):
        extra["groups"] = [observations.trajectories[int(d)] for d in number]
    try:
        logs = emission.log_likelihood(values, states, **extra)
    except DataError:
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        _locate(emission, values, states, numbers, first_row, records, observations)
        raise
    return rows, np.asarray(logs, dtype=np.float64)


def _prepared(
    emission: Any, node: str, record: NodeMeasurements, observations: Observations
) -> Any:
    """A threshold takes its middle and width from the node's own data."""
    if not isinstance(emission, Threshold) or emission.is_fitted or record.likelihood is not None:
        return emission
    rows = np.flatnonzero(record.noisy)
    groups = None
    if emission.per_trajectory:
        groups = [observations.trajectories[int(d)] for d in record.trajectory[rows]]
    try:
        return emission.fitted(record.value[rows], groups)
    except AsterismError as error:
        raise type(error)(f"node {node!r}: {error}") from None


def _given_likelihoods(
    emission: Any,
    node: str,
    record: NodeMeasurements,
    states: tuple[Any, ...],
    first: int,
) -> tuple[IntArray, FloatArray]:
    if record.likelihood is None:
        raise ModelError(
            f"node {node!r} has the emission Likelihood(), but its measurements are values, not "
            "likelihoods; give another emission, or a table with columns p_<state>"
        )
    if not isinstance(emission, Likelihood):
        raise ModelError(
            f"the measurements of node {node!r} are likelihoods already; use Likelihood() for it"
        )
    table = record.likelihood
    if table.shape[1] != len(states):
        raise DataError(
            f"node {node!r}: likelihoods of {table.shape[1]} states, but the network has "
            f"{len(states)}: {', '.join(map(repr, states))}"
        )
    if record.states is not None:
        code = encode(np.array(record.states, dtype=object), states)
        positions = [str(i) for i in range(len(states))]
        if (np.sort(code) == np.arange(len(states))).all():
            table = table[:, np.argsort(code)]
        elif [str(s) for s in record.states] != positions:
            raise DataError(
                f"node {node!r}: likelihoods are given for the states {list(record.states)}, but "
                f"the network has {list(states)}"
            )
    rows = first + np.arange(len(record), dtype=np.int64)
    return rows, emission.log_likelihood(table, states)


def _first_impossible(logs: FloatArray) -> int | None:
    best = logs[:, 0]
    for x in range(1, logs.shape[1]):
        best = np.maximum(best, logs[:, x])
    bad = ~(best > -np.inf)  # also catches nan
    return int(np.argmax(bad)) if bad.any() else None


def _require_known(
    code: IntArray,
    rows: IntArray,
    first_row: IntArray,
    records: tuple[tuple[str, NodeMeasurements], ...],
    observations: Observations,
    states: tuple[Any, ...],
) -> None:
    if (code < 0).any():
        where = _describe(int(rows[np.argmin(code)]), first_row, records, observations.trajectories)
        raise DataError(f"{where} is marked exact but is none of the states {list(states)}")


def _locate(
    emission: Any,
    values: NDArray[Any],
    states: tuple[Any, ...],
    rows: IntArray,
    first_row: IntArray,
    records: tuple[tuple[str, NodeMeasurements], ...],
    observations: Observations,
) -> None:
    """Find which measurement an emission refused, and say where it stands."""
    seen: set[Any] = set()
    for i, value in enumerate(values.tolist()):
        if value in seen:
            continue
        seen.add(value)
        try:
            emission.log_likelihood(values[i : i + 1], states)
        except DataError as error:
            where = _describe(int(rows[i]), first_row, records, observations.trajectories)
            raise DataError(f"{where} cannot be read: {error}") from None
        except AsterismError:
            return


def _describe(
    row: int,
    first_row: IntArray,
    records: tuple[tuple[str, NodeMeasurements], ...],
    trajectories: tuple[object, ...],
) -> str:
    if row >= first_row[-1]:
        return "an interval of no length"
    i = int(np.searchsorted(first_row, row, side="right")) - 1
    node, record = records[i]
    k = row - int(first_row[i])
    value = record.value[k] if record.likelihood is None else record.likelihood[k].tolist()
    shown = value.item() if isinstance(value, np.generic) else value
    return (
        f"trajectory {trajectories[int(record.trajectory[k])]!r}, time {record.time[k]:g}, node "
        f"{node!r} (row {record.row[k]}): the measurement {shown!r}"
    )


def build_joint(
    network: Network, observations: Observations, joint: Mapping[str, Joint]
) -> tuple[JointMeasurement, ...]:
    """Measurements that read several nodes at once, sorted by (trajectory, time) per column."""
    result: list[JointMeasurement] = []
    for column, emission in joint.items():
        record = observations.measurements.get(column)
        if record is None:
            continue
        numbers = tuple(network.node_index(n) for n in emission.nodes)
        shape = [len(network.states[n]) for n in emission.nodes]
        tables: dict[Any, FloatArray] = {}
        for d, time, value in zip(record.trajectory, record.time, record.value.tolist()):
            if value not in tables:
                try:
                    tables[value] = emission.table(value, shape)
                except AsterismError as error:
                    raise type(error)(
                        f"trajectory {observations.trajectories[int(d)]!r}, time {time:g}: {error}"
                    ) from None
            result.append(JointMeasurement(int(d), float(time), numbers, tables[value]))
    return tuple(result)


def build_evidence(network: Network, observations: Observations, emission: Any) -> Evidence:
    """Everything the observations say about the network's nodes.

    ``emission`` is one emission for all nodes, a dictionary by node, or a list of these; joint
    measurements stand in the dictionary or list and are found by the name of their column.
    """
    if observations.stimuli is not None and network.exogenous.intersection(
        observations.stimuli["name"]
    ):
        observations = observations.stimuli_as_nodes()
    single, joint = split_emissions(emission, observations)
    _check_nodes(network, observations, joint)
    check_emissions(single, network.nodes)
    paths = _known_paths(network, observations)
    points = build_points(network, observations, single, set(joint), paths.known_at_a_time)
    _check_against_paths(network, observations, points, paths)
    by_hand = _interventions(network, observations, points)
    return Evidence(
        n_nodes=network.n_nodes,
        start=observations.start.astype(np.float64),
        end=observations.end.astype(np.float64),
        points=points.points,
        jumps=paths.jumps,
        spans=paths.spans,
        joint=build_joint(network, observations, joint),
        exogenous=frozenset(network.node_index(n) for n in network.exogenous),
        labels=observations.trajectories,
        interventions=by_hand,
    )


def _known_paths(network: Network, observations: Observations) -> KnownPaths:
    """What is known of paths exactly; most data have nothing of that sort."""
    if not (len(observations.events) or len(observations.intervals) or network.exogenous):
        return no_paths()
    from asterism.timeline.paths import build_paths

    return build_paths(network, observations)


def _check_against_paths(
    network: Network, observations: Observations, points: PointTable, paths: KnownPaths
) -> None:
    """No measurement may exclude the state that its node is known to be in."""
    if len(paths.jumps.node) or len(paths.spans.node):
        from asterism.timeline.paths import check_against_points

        check_against_points(network, observations, points, paths)


def _interventions(network: Network, observations: Observations, points: PointTable) -> Spans:
    """Interventions in numbers; what was measured meanwhile is made to say nothing, in place."""
    if not len(observations.interventions):
        return no_spans()
    from asterism.timeline.interventions import build_interventions, without_own_measurements

    by_hand = build_interventions(network, observations)
    without_own_measurements(network, observations, points, by_hand)
    return by_hand


def _check_nodes(network: Network, observations: Observations, joint: Mapping[str, Joint]) -> None:
    known = set(network.nodes)
    for column, measurement in joint.items():
        if column in known:
            raise ModelError(
                f"the joint measurement {column!r} has the name of a node; name it otherwise"
            )
        if extra := [n for n in measurement.nodes if n not in known]:
            raise ModelError(
                f"the joint measurement {column!r} reads {extra[0]!r}, which is not a node"
            )
    strangers = [n for n in observations.nodes if n not in known and n not in joint]
    if strangers:
        shown = quoted(strangers, 5)
        nodes = quoted(network.nodes)
        raise DataError(
            f"the observations have {shown}, which the network does not; its nodes are {nodes}"
        )
