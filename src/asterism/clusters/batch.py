"""Trajectories on one grid, their messages, and the iteration that makes them agree.

What every rule's batch has is in ``engine/batch.py``; a :class:`ClusterBatch` adds the evidence on
the grid and the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from asterism.clusters import _cluster_sweep as _sweep
from asterism.clusters._cluster_layout import (
    TOO_STIFF,
    RegionArrays,
    RegionWork,
    TrajectoryArrays,
)
from asterism.clusters._cluster_messages import (
    SeparatorMessages,
    Shared,
    solve_region,
    update_messages,
)
from asterism.clusters._cluster_sweep import ClusterReading, Found, count, read
from asterism.clusters._region_chain import (
    backward_pass,
    forward_pass,
    series_ahead,
    series_back,
)
from asterism.clusters.problem import known_log_evidence, trajectory_arrays
from asterism.clusters.region_arrays import BaseTable, base_table, make_room, region_arrays
from asterism.clusters.regions import Regions
from asterism.engine._outcome import IMPOSSIBLE
from asterism.engine.batch import Batch, Outcome, require_room
from asterism.engine.grid import Grid
from asterism.errors import AsterismError, DataError, Setting, TooLargeError
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    messages_too_extreme,
    owner_of_values,
    subset,
    with_log_likelihood,
)
from asterism.timeline.timeline import put_likelihoods

_TO_SOLVE = (backward_pass, forward_pass, series_back, series_ahead, solve_region)
_TO_SWEEP = (*_TO_SOLVE, update_messages, count)
_TO_READ = (*_TO_SOLVE, read)
NO_READING = ClusterReading(
    -1, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
)


@dataclass(frozen=True)
class ClusterModel:
    """Regions of a graph, as lists and as arrays."""

    graph: CompiledGraph
    regions: Regions
    arrays: RegionArrays

    @classmethod
    def of(cls, graph: CompiledGraph, regions: Regions) -> ClusterModel:
        """The model of a graph and its regions."""
        return cls(graph, regions, region_arrays(graph, regions))

    @property
    def has_borders(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,) whether the cluster that owns a node has separators."""
        degree = np.diff(self.arrays.border_start)
        owner = np.array(self.regions.owner, dtype=np.int64)
        return np.asarray((owner >= 0) & (degree[np.maximum(owner, 0)] > 0))

    def table(self, rates: FloatArray) -> BaseTable:
        """The rates as the chains read them."""
        return base_table(self.graph, rates, self.has_borders)

    @property
    def numbers_per_step(self) -> int:
        """Numbers that messages hold per step of a trajectory."""
        return 2 * int(self.arrays.message_entry_start[-1] + self.arrays.message_state_start[-1])


@dataclass(frozen=True)
class ClusterStatistics:
    """Expected statistics, summed over the batch."""

    table: FloatArray
    initial: FloatArray
    points: FloatArray


@dataclass
class ClusterBatch(Batch):
    """Trajectories on one grid, and their messages."""

    model: ClusterModel
    problem: TrajectoryArrays
    messages: list[SeparatorMessages]
    halvings: IntArray
    known: FloatArray
    """(D,) constant part of the evidence."""
    found: Found
    """What was counted last."""
    parameters: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)
    """Rates and start probabilities that the messages were last sent for."""


def make_cluster_batch(model: ClusterModel, evidence: Evidence, grid: Grid) -> ClusterBatch:
    """Lay evidence out on a grid; messages still have to be started."""
    n_steps = np.diff(grid.step_start)
    fewer = (", fewer trajectories at a time, or ", Setting("method", "star"))
    require_room(evidence, grid, model.numbers_per_step, *fewer)
    arrays = model.arrays
    entries, states = int(arrays.message_entry_start[-1]), int(arrays.message_state_start[-1])
    messages = [
        SeparatorMessages(
            np.empty((2 * entries, int(k))),
            np.empty((2 * states, int(k))),
            np.empty(2 * states),
            np.full(arrays.n_clusters, np.inf),
        )
        for k in n_steps
    ]
    return ClusterBatch(
        evidence,
        grid,
        model,
        trajectory_arrays(model.graph, model.regions, evidence, grid),
        messages,
        np.zeros(evidence.n_trajectories, dtype=np.int64),
        known_log_evidence(evidence, evidence.points.log_likelihood),
        _nothing_found(model, evidence),
    )


def select_clusters(batch: ClusterBatch, index: IntArray) -> ClusterBatch:
    """Some trajectories of a solved batch (ascending), with their messages and what was counted."""
    evidence = subset(batch.evidence, index)
    chosen = make_cluster_batch(batch.model, evidence, batch.grid.select(index))
    chosen.messages = [batch.messages[d] for d in index]
    chosen.halvings[:] = batch.halvings[index]
    chosen.parameters = batch.parameters
    own = np.isin(owner_of_values(batch.evidence.points), index)
    columns = {k: v[own] if k == "points" else v[index] for k, v in batch.found._asdict().items()}
    chosen.found = Found(**columns)
    return chosen


def _nothing_found(model: ClusterModel, evidence: Evidence) -> Found:
    n, graph = evidence.n_trajectories, model.graph
    n_regions = len(model.arrays.n_joint)
    return Found(
        table=np.zeros((n, int(graph.table_start[-1]))),
        initial=np.zeros((n, int(graph.state_start[-1]))),
        points=np.zeros(len(evidence.points.log_likelihood)),
        value=np.zeros((n, n_regions)),
        forbidden=np.zeros((n, model.arrays.n_clusters)),
        is_current=np.zeros((n, n_regions), dtype=np.bool_),
    )


def start_messages(batch: ClusterBatch, rates: FloatArray) -> None:
    """First messages: from the side of a node's owner its rates, averaged over its parents."""
    first_rate, first_diagonal = first_messages(batch.model, rates)
    for m in batch.messages:
        m.rate[:] = first_rate[:, None]
        m.diagonal[:] = first_diagonal[:, None]
        m.start[:] = 1.0
        m.news[:] = np.inf
    batch.halvings[:] = 0


def first_messages(model: ClusterModel, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """λ and θ of every side of every separator, the same on all steps."""
    graph, regions, arrays = model.graph, model.regions, model.arrays
    entries, states = arrays.message_entry_start, arrays.message_state_start
    rate = np.ones(2 * int(entries[-1]))
    diagonal = np.zeros(2 * int(states[-1]))
    toward = _sides_of_owners(regions)
    mean: dict[int, FloatArray] = {}
    for s, separator in enumerate(regions.separators):
        r = arrays.n_clusters + s
        n_joint, width = int(arrays.n_joint[r]), int(arrays.per_row[r])
        begin = int(arrays.entry_start[r])
        n_nodes = len(separator.nodes)
        digit = arrays.digit[arrays.digit_start[r] : arrays.digit_start[r + 1]]
        digit = digit.reshape(n_joint, n_nodes)
        column = arrays.column[begin : begin + n_joint * width].reshape(n_joint, width)
        slot = arrays.entry_slot[begin : begin + n_joint * width].reshape(n_joint, width)
        for i, n in enumerate(separator.nodes):
            if n not in mean:
                size = int(graph.n_states[n])
                block = rates[graph.table_start[n] : graph.table_start[n + 1]]
                mean[n] = block.reshape(-1, size, size).mean(axis=0)
            side = toward[s, n]
            own = rate[2 * entries[s] + side * n_joint * width :][: n_joint * width]
            own = own.reshape(n_joint, width)
            here = slot == i
            before = np.broadcast_to(digit[:, i : i + 1], here.shape)[here]
            value = mean[n][before, digit[column[here], i]]
            own[here] = np.where(value > 0.0, value, 1.0)
            theta = diagonal[2 * states[s] + side * n_joint :][:n_joint]
            theta += mean[n][digit[:, i], digit[:, i]]
    return rate, diagonal


def _sides_of_owners(regions: Regions) -> dict[tuple[int, int], int]:
    """(separator, node) → the side on which the node's owner stands in the node's tree."""
    near: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for s, separator in enumerate(regions.separators):
        a, b = separator.clusters
        for n in separator.nodes:
            near.setdefault(n, {}).setdefault(a, []).append((s, b))
            near[n].setdefault(b, []).append((s, a))
    found = {}
    for n, borders in near.items():
        front = [regions.owner[n]]
        seen = {regions.owner[n]}
        while front:
            c = front.pop()
            for s, other in borders.get(c, []):
                if other not in seen:
                    seen.add(other)
                    front.append(other)
                    found[s, n] = regions.separators[s].clusters.index(c)
    return found


def make_work(
    arrays: RegionArrays, problem: TrajectoryArrays, units: tuple[Any, ...] = _TO_SWEEP
) -> tuple[RegionWork, RegionWork, Shared]:
    """Room for one thread: of clusters, of separators, and what they share."""
    n_steps = int(np.diff(problem.step_start).max(initial=1))
    work = make_room(arrays, range(arrays.n_clusters), n_steps, problem, units=units)
    own = make_room(
        arrays, range(arrays.n_clusters, len(arrays.n_joint)), n_steps, problem, units=units
    )
    shared = Shared(
        np.zeros_like(own.time), np.zeros_like(own.jumps), np.zeros_like(own.first_time)
    )
    return work, own, shared


def run_clusters(
    batch: ClusterBatch,
    rates: FloatArray,
    initial: FloatArray,
    tolerance: float,
    max_sweeps: int,
    n_jobs: int = 1,
) -> tuple[Outcome, ClusterStatistics]:
    """Iterate every trajectory from its present messages until they settle, and count."""
    model = batch.model
    n = batch.n_trajectories
    table = model.table(rates)
    has_messages = bool(len(model.arrays.message_state_start) > 1)
    outcome = _new_outcome(n, max_sweeps if has_messages else 1)
    outcome.integers[:, _sweep.HALVINGS] = batch.halvings
    first_ones = first_messages(model, rates)
    _announce(batch, rates, initial)

    def solve_some(first: int, last: int) -> None:
        works = make_work(model.arrays, batch.problem)
        for d in range(first, last):
            settings = (tolerance, float(max_sweeps))
            _solve_one(batch, d, table, initial, first_ones, settings, works, outcome)

    batch.share(solve_some, n_jobs)
    batch.halvings[:] = outcome.integers[:, _sweep.HALVINGS]
    outcome.evidence[:] += batch.known
    found = batch.found
    statistics = ClusterStatistics(
        found.table.sum(axis=0), found.initial.sum(axis=0), found.points.copy()
    )
    return outcome, statistics


def _solve_one(
    batch: ClusterBatch,
    d: int,
    table: BaseTable,
    initial: FloatArray,
    first: tuple[FloatArray, FloatArray],
    settings: tuple[float, float],
    works: tuple[RegionWork, RegionWork, Shared],
    outcome: Outcome,
    reading: ClusterReading = NO_READING,
) -> None:
    """Iterate or read one trajectory; ``settings``: tolerance, largest number of sweeps."""
    _sweep.solve_trajectory(
        *(batch.model.arrays, batch.problem, d, (table.table, initial, table.is_zero)),
        *(batch.messages[d], first, settings, works, outcome, (batch.found, reading)),
    )


def _new_outcome(n_trajectories: int, max_sweeps: int) -> Outcome:
    return Outcome.empty(_sweep.N_TOTALS, _sweep.N_INTEGERS, (n_trajectories, max_sweeps))


def _announce(batch: ClusterBatch, rates: FloatArray, initial: FloatArray) -> None:
    """Tell the clusters how much the parameters of their nodes have changed.

    A rate that changes by δ moves at most δ times the duration expected jumps.
    """
    before, batch.parameters = batch.parameters, (rates.copy(), initial.copy())
    if before is None or ((before[0] == 0.0) != (rates == 0.0)).any():
        for m in batch.messages:
            m.news[:] = np.inf
        batch.found.is_current[:] = False
        return
    model = batch.model
    change = np.array(
        [
            [np.abs(new[a:b] - old[a:b]).max(initial=0.0) for a, b in pairwise(start)]
            for new, old, start in (
                (rates, before[0], model.graph.table_start),
                (initial, before[1], model.graph.state_start),
            )
        ]
    )
    arrays = model.arrays
    inside = arrays.node[: arrays.node_start[arrays.n_clusters]]
    cluster = np.repeat(
        np.arange(arrays.n_clusters), np.diff(arrays.node_start)[: arrays.n_clusters]
    )
    faster, elsewhere = np.zeros((2, arrays.n_clusters))
    np.maximum.at(faster, cluster, change[0, inside])
    np.maximum.at(elsewhere, cluster, change[1, inside])
    batch.found.is_current[:, : arrays.n_clusters][:, faster > 0.0] = False
    if elsewhere.any():
        batch.found.is_current[:] = False
    duration = batch.evidence.end - batch.evidence.start
    for d, m in enumerate(batch.messages):
        m.news[:] += faster * duration[d] + elsewhere


class ClusterReader:
    """Reads single clusters of a solved batch; what all readings share is made once."""

    def __init__(self, batch: ClusterBatch, rates: FloatArray, initial: FloatArray) -> None:
        self.batch = batch
        self._table = batch.model.table(rates)
        self._initial = initial
        self._first = first_messages(batch.model, rates)
        self._works = make_work(batch.model.arrays, batch.problem, _TO_READ)

    def probabilities(self, d: int, cluster: int, times: FloatArray) -> FloatArray:
        """(times, joint states) probabilities of a cluster.

        ``times`` lie between the trajectory's start and end; at evidence the state just after
        counts.
        """
        step, inside = self.batch.grid.locate(d, times)
        probability = np.zeros((len(times), int(self.batch.model.arrays.n_joint[cluster])))
        reading = NO_READING._replace(cluster=cluster, step=step)
        self._read(d, reading._replace(inside=inside, probability=probability))
        return probability

    def chain(self, d: int, cluster: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """A cluster's rates and diagonals, backward vectors at the ends of steps, and its start.

        (jumps or states, steps); the diagonal of states that cannot be is +inf.
        """
        arrays, work = self.batch.model.arrays, self._works[0]
        n, k = int(arrays.n_joint[cluster]), int(np.diff(self.batch.grid.step_start)[d])
        ending = np.zeros((k, n))
        work.alive[:] = 1.0
        self._read(d, NO_READING._replace(cluster=cluster, ending=ending))
        return (
            work.rate[: n * int(arrays.per_row[cluster]), :k].copy(),
            np.where(work.alive[:k, :n].T > 0.0, work.diagonal[:n, :k], np.inf),
            np.ascontiguousarray(ending.T),
            work.first_time[:n].copy(),
        )

    def _read(self, d: int, reading: ClusterReading) -> None:
        outcome = _new_outcome(self.batch.n_trajectories, 1)
        _solve_one(
            *(self.batch, d, self._table, self._initial, self._first),
            *((0.0, 0.0), self._works, outcome, reading),
        )
        if outcome.status[d] == IMPOSSIBLE:
            raise messages_too_extreme(self.batch.evidence, d)


def set_cluster_likelihoods(batch: ClusterBatch, log_likelihood: FloatArray) -> None:
    """Replace the likelihoods of a batch's measurements, in place; messages stay."""
    if not np.array_equal(log_likelihood, batch.evidence.points.log_likelihood):
        batch.parameters = None
    batch.evidence = with_log_likelihood(batch.evidence, log_likelihood)
    problem = batch.problem
    put_likelihoods(batch.evidence.points, problem.event, problem.value, problem.event_log)
    batch.known = known_log_evidence(batch.evidence, log_likelihood)


def refused(label: object, where: str, kind: int) -> AsterismError:
    """What to raise where a chain ended: its steps are too stiff, or the evidence is impossible."""
    if kind == TOO_STIFF:
        return TooLargeError(
            f"Trajectory {label!r}: {where} some rates are too large for the time between two "
            "measurements; use ",
            *(Setting("method", "star"), "."),
        )
    return DataError(
        f"The data of trajectory {label!r} are impossible under this network: nothing can lead to "
        f"what was seen {where}. Look for contradictory exact measurements, transitions whose rate "
        "is zero, or initial probabilities of zero."
    )
