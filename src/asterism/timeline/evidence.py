"""What the data say, as plain arrays: the common input of every inference method.

States and nodes are numbers, times are the user's. Four kinds of evidence: *points* (a likelihood
of each state of one node at one time; replicates at one time are separate rows and multiply),
*jumps* (a node entered a state exactly then), *spans* (a node's state is known throughout an
interval) and *joint measurements* (a likelihood of several nodes at once). Exogenous nodes have
spans over all times and no rates: their jumps cost nothing and are not listed as jumps.

Also here: parts of the evidence, such as some trajectories, or only what each shows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asterism.errors import AsterismError, DataError, ModelError, Setting

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Likelihoods of single nodes, sorted by (trajectory, node, time)."""

    trajectory: IntArray
    node: IntArray
    time: FloatArray
    offset: IntArray
    """Row i's values are ``log_likelihood[offset[i] : offset[i] + n_states[node[i]]]``; the values
    of all rows stand one after the other, in the order of the rows."""
    log_likelihood: FloatArray
    """Flat; −inf where the measurement excludes the state; never all −inf in one row."""


@dataclass(frozen=True)
class Jumps:
    """Exactly timed transitions, sorted by (trajectory, node, time)."""

    trajectory: IntArray
    node: IntArray
    time: FloatArray
    to_state: IntArray
    from_state: IntArray
    """−1 where the state before the jump is not known."""


@dataclass(frozen=True)
class Spans:
    """Intervals of continuous observation, sorted by (trajectory, node, start), disjoint."""

    trajectory: IntArray
    node: IntArray
    start: FloatArray
    end: FloatArray
    state: IntArray


def no_points() -> Points:
    """An empty table."""
    none = np.empty(0, dtype=np.int64)
    return Points(none, none, np.empty(0), none, np.empty(0))


def no_spans() -> Spans:
    """An empty table."""
    none = np.empty(0, dtype=np.int64)
    return Spans(none, none, np.empty(0), np.empty(0), none)


@dataclass(frozen=True)
class KnownStates:
    """States known at a single time: intervals of no length."""

    trajectory: IntArray
    node: IntArray
    time: FloatArray
    state: IntArray


@dataclass(frozen=True)
class KnownPaths:
    """What is known of paths exactly, as inference reads it (see ``paths.py``)."""

    jumps: Jumps
    spans: Spans
    known_at_a_time: KnownStates


def no_paths() -> KnownPaths:
    """Nothing is known of any path."""
    none, never = np.empty(0, dtype=np.int64), np.empty(0)
    return KnownPaths(
        Jumps(none, none, never, none, none), no_spans(), KnownStates(none, none, never, none)
    )


@dataclass(frozen=True)
class JointMeasurement:
    """A likelihood of several nodes at one time."""

    trajectory: int
    time: float
    nodes: tuple[int, ...]
    log_likelihood: FloatArray
    """One axis per node, in the order of ``nodes``."""


@dataclass(frozen=True)
class Evidence:
    """Everything inference needs to know about the data."""

    n_nodes: int
    start: FloatArray
    end: FloatArray
    """(D,) the span of time of each trajectory."""
    points: Points
    jumps: Jumps
    spans: Spans
    joint: tuple[JointMeasurement, ...] = ()
    exogenous: frozenset[int] = field(default_factory=frozenset)
    labels: tuple[object, ...] = ()
    """Trajectory labels, for messages and output."""
    interventions: Spans = field(default_factory=no_spans)
    """Intervals in which the experimenter held a node in a state, sorted and disjoint like spans.

    At ``start`` every state maps to the set one with factor 1; inside the node has neither exit nor
    jump factors, and no statistics of its own; at ``end`` it is free again. Points of the node
    inside have the same likelihood for every state. A method that cannot take them must refuse:
    :func:`refuse_interventions`."""
    memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What has been worked out from this evidence and will be asked for again; a copy made by
    ``dataclasses.replace`` starts without."""

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return len(self.start)

    def label(self, trajectory: int) -> object:
        """What a trajectory is called; without labels, its number."""
        return self.labels[trajectory] if self.labels else trajectory


def messages_too_extreme(evidence: Evidence, trajectory: int) -> AsterismError:
    """What to raise where messages cannot be read from a solved trajectory."""
    return AsterismError(
        f"Trajectory {evidence.label(trajectory)}: its messages left the range of finite numbers; "
        "the rates or likelihoods are too extreme. Try a smaller ",
        *(Setting("time_step"), "."),
    )


def refuse_interventions(evidence: Evidence, who: str) -> None:
    """For methods that do not know interventions."""
    if len(evidence.interventions.node):
        raise ModelError(f"{who} cannot take interventions yet; infer can, by any method.")


Table = TypeVar("Table", Jumps, Spans, KnownStates)


def rows_of(table: Table, rows: Any) -> Table:
    """Some rows of a table."""
    return type(table)(**{name: column[rows] for name, column in vars(table).items()})


def in_order(table: Table) -> Table:
    """The rows by trajectory, node and time (or start)."""
    columns = vars(table)
    time = columns["time" if "time" in columns else "start"]
    return rows_of(table, np.lexsort((time, table.node, table.trajectory)))


def joined(*tables: Table) -> Table:
    """The rows of several tables, one after the other."""
    columns = {name: [vars(table)[name] for table in tables] for name in vars(tables[0])}
    return type(tables[0])(**{name: np.concatenate(parts) for name, parts in columns.items()})


def subset(evidence: Evidence, trajectories: IntArray) -> Evidence:
    """Evidence of the listed trajectories, which must be ascending."""
    new_number = np.full(evidence.n_trajectories, -1, dtype=np.int64)
    new_number[trajectories] = np.arange(len(trajectories))

    def own(table: Table) -> Table:
        """The rows of these trajectories."""
        found = rows_of(table, np.flatnonzero(new_number[table.trajectory] >= 0))
        return replace(found, trajectory=new_number[found.trajectory])

    points = evidence.points
    rows = np.flatnonzero(new_number[points.trajectory] >= 0)
    lengths = np.diff(points.offset, append=len(points.log_likelihood))[rows]
    kept = _packed(points, rows, lengths)
    return replace(
        evidence,
        interventions=own(evidence.interventions),
        start=evidence.start[trajectories],
        end=evidence.end[trajectories],
        points=replace(kept, trajectory=new_number[kept.trajectory]),
        jumps=own(evidence.jumps),
        spans=own(evidence.spans),
        joint=tuple(
            replace(j, trajectory=int(new_number[j.trajectory]))
            for j in evidence.joint
            if new_number[j.trajectory] >= 0
        ),
        labels=tuple(evidence.labels[d] for d in trajectories) if evidence.labels else (),
    )


def about(evidence: Evidence, nodes: Sequence[int]) -> tuple[Evidence, IntArray]:
    """What is known about some nodes; where their likelihoods stand among all.

    The paths of exogenous nodes stay: they may be parents of these.
    """
    points = evidence.points
    is_own = np.isin(points.node, nodes)
    lengths = np.diff(points.offset, append=len(points.log_likelihood))
    matters = [*nodes, *evidence.exogenous]

    def some(table: Table) -> Table:
        return rows_of(table, np.flatnonzero(np.isin(table.node, matters)))

    own = replace(
        evidence,
        points=_packed(points, np.flatnonzero(is_own), lengths[is_own]),
        jumps=some(evidence.jumps),
        spans=some(evidence.spans),
        interventions=some(evidence.interventions),
        joint=tuple(m for m in evidence.joint if not set(nodes).isdisjoint(m.nodes)),
    )
    return own, np.flatnonzero(np.repeat(is_own, lengths))


def _packed(points: Points, rows: IntArray, lengths: IntArray) -> Points:
    """Some measurements in this order, their values (``lengths`` of them) one after the other."""
    offset = np.cumsum(lengths) - lengths
    gather = np.repeat(points.offset[rows] - offset, lengths) + np.arange(lengths.sum())
    return Points(
        trajectory=points.trajectory[rows],
        node=points.node[rows],
        time=points.time[rows],
        offset=offset.astype(np.int64),
        log_likelihood=points.log_likelihood[gather],
    )


def owner_of_values(points: Points) -> IntArray:
    """Trajectory of every value of the points."""
    lengths = np.diff(points.offset, append=len(points.log_likelihood))
    return np.asarray(np.repeat(points.trajectory, lengths), dtype=np.int64)


def with_log_likelihood(evidence: Evidence, log_likelihood: FloatArray) -> Evidence:
    """The same measurements with other log-likelihoods, in the layout of the points."""
    return replace(evidence, points=replace(evidence.points, log_likelihood=log_likelihood))


def first_times(evidence: Evidence) -> FloatArray:
    """(D,) when each trajectory is measured for the first time; +inf if never.

    The beginning of a continuous observation counts as a measurement; known inputs do not.
    """
    first = np.full(evidence.n_trajectories, np.inf)
    points, spans = evidence.points, evidence.spans
    np.minimum.at(first, points.trajectory, points.time)
    own = ~is_exogenous(evidence, spans.node)
    np.minimum.at(first, spans.trajectory[own], spans.start[own])
    for measurement in evidence.joint:
        first[measurement.trajectory] = min(first[measurement.trajectory], measurement.time)
    clipped: FloatArray = np.maximum(first, evidence.start)
    return clipped


def first_measurements(evidence: Evidence, n_states: IntArray) -> Evidence:
    """Only the measurements at each trajectory's first measurement time, which also ends it.

    A node that is seen continuously from then on enters with its state at that time.
    """
    first = first_times(evidence)
    points, spans = evidence.points, evidence.spans
    keep = points.time <= first[points.trajectory]
    exogenous = is_exogenous(evidence, spans.node)
    seen = ~exogenous & (spans.start <= first[spans.trajectory]) & has_length(evidence)
    indicators = [
        np.where(np.arange(n_states[n]) == x, 0.0, -np.inf)
        for n, x in zip(spans.node[seen], spans.state[seen])
    ]
    sizes = np.array([len(i) for i in indicators], dtype=np.int64)
    offsets = len(points.log_likelihood) + np.cumsum(sizes) - sizes
    trajectory = np.concatenate([points.trajectory[keep], spans.trajectory[seen]])
    node = np.concatenate([points.node[keep], spans.node[seen]])
    end = np.where(np.isfinite(first), first, evidence.start)
    both = Points(
        trajectory=trajectory,
        node=node,
        time=end[trajectory],
        offset=np.concatenate([points.offset[keep], offsets]),
        log_likelihood=np.concatenate([points.log_likelihood, *indicators]),
    )
    order = np.lexsort((node, trajectory))
    return replace(
        evidence,
        end=end,
        points=_packed(both, order, n_states[node[order]]),
        jumps=no_paths().jumps,
        spans=_clipped(spans, exogenous, end),
        interventions=_clipped(
            evidence.interventions, np.ones(len(evidence.interventions.node), dtype=np.bool_), end
        ),
        joint=tuple(m for m in evidence.joint if m.time <= first[m.trajectory]),
    )


def has_length(evidence: Evidence) -> NDArray[np.bool_]:
    """Spans that say something: not empty, unless the whole trajectory has no length."""
    spans = evidence.spans
    begin, end = evidence.start[spans.trajectory], evidence.end[spans.trajectory]
    found: NDArray[np.bool_] = (spans.end > spans.start) & (spans.end > begin) | (begin == end)
    return found


def start_log_evidence(
    evidence: Evidence, initial: FloatArray, state_start: IntArray
) -> FloatArray:
    """(D,) Σ_n ln Σ_x p0_n(x) L_n(x) of measurements made at the start of every trajectory."""
    points = evidence.points
    total = np.zeros(evidence.n_trajectories)
    for node in np.unique(points.node):
        rows = np.flatnonzero(points.node == node)
        prior = initial[state_start[node] : state_start[node + 1]]
        logs = np.zeros((evidence.n_trajectories, len(prior)))
        values = points.log_likelihood[points.offset[rows][:, None] + np.arange(len(prior))]
        np.add.at(logs, points.trajectory[rows], values)
        top = np.max(logs, axis=1, keepdims=True)
        top[~np.isfinite(top)] = 0.0
        with np.errstate(divide="ignore"):
            total += np.log(np.exp(logs - top) @ prior) + top[:, 0]
    return total


def _clipped(spans: Spans, keep: NDArray[np.bool_], end: FloatArray) -> Spans:
    kept = rows_of(spans, keep & (spans.start <= end[spans.trajectory]))
    return replace(kept, end=np.minimum(kept.end, end[kept.trajectory]))


def is_exogenous(evidence: Evidence, node: IntArray) -> NDArray[np.bool_]:
    """Which of these nodes are given from outside."""
    return np.isin(node, list(evidence.exogenous))


def require_time(evidence: Evidence) -> None:
    """Rates can be learned only from trajectories that last."""
    if not np.any(evidence.end > evidence.start):
        raise DataError(
            "Every trajectory has measurements at a single time only, and says nothing about what "
            "changes: give at least one trajectory two times (do the rows of one trajectory share "
            "its name in the trajectory column?), or say with start and end when each was watched."
        )
