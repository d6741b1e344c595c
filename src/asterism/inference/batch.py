"""Trajectories solved together on one grid: the layer between arrays and results.

A :class:`Batch` owns the grid, the evidence laid out on it and the moments of its trajectories.
:func:`run` iterates them to a fixed point, in threads over trajectories; each trajectory's result
does not depend on which others are in the batch. :func:`expected_statistics` adds up over a
fixed partition of the trajectories, so that sums are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asterism.errors import DataError
from asterism.inference import mean_field, star
from asterism.inference.evidence import Evidence, FloatArray, IntArray
from asterism.inference.grid import Breakpoints, Grid, build_even_grid, build_grid, find_breakpoints
from asterism.inference.layout import build_problem
from asterism.inference.memory import require_memory
from asterism.inference.threads import chunks, map_chunks
from asterism.kernels import solve as kernels
from asterism.kernels.arrays import DWELL, TABLE, Problem
from asterism.kernels.statistics import statistics_range
from asterism.model.compiled import CompiledGraph, CompiledNetwork

_CHUNKS = 16


@dataclass(frozen=True)
class Parameters:
    """Rates and initial distribution, and the table that the method averages."""

    rates: FloatArray
    table: FloatArray
    initial: FloatArray
    geometric: bool

    @classmethod
    def of(cls, network: CompiledNetwork, method: str) -> Parameters:
        geometric = method == "mean_field"
        table = (mean_field if geometric else star).averaged_table(network)
        return cls(network.rates, table, network.initial, geometric)


@dataclass
class Batch:
    """One grid, and the state of the iteration on it."""

    evidence: Evidence
    breakpoints: Breakpoints
    grid: Grid
    graph: CompiledGraph
    problem: Problem
    moments: FloatArray

    def rebuilt(self, evidence: Evidence, index: IntArray) -> Batch:
        """A batch of the trajectories ``index``, whose evidence is given, on the same steps."""
        breakpoints = find_breakpoints(evidence)
        grid = self.grid.select(index)
        problem = build_problem(evidence, self.graph, breakpoints, grid)
        squares = int((self.graph.n_states**2).sum())
        moments = np.empty(squares * int(grid.step_start[-1]))
        return Batch(evidence, breakpoints, grid, self.graph, problem, moments)

    @property
    def n_trajectories(self) -> int:
        return self.evidence.n_trajectories


@dataclass(frozen=True)
class Outcome:
    """Per trajectory: how the iteration ended."""

    evidence: FloatArray
    data: FloatArray
    initial: FloatArray
    jumps: FloatArray
    residual: FloatArray
    n_sweeps: IntArray
    status: IntArray
    history: FloatArray
    """(D, 2, max_sweeps): F and residual after every sweep; NaN beyond the last one."""


def relaxation_rate(network: CompiledNetwork) -> float:
    """Typical rate at which a coupled node forgets; zero if no two nodes are coupled.

    The median over coupled nodes of their mean total rate: robust against a few very fast or very
    slow nodes, since each node's own propagation is exact whatever the step.
    """
    graph = network.graph
    n_parents = np.diff(graph.parent_start)
    n_children = np.diff(graph.child_start)
    coupled = np.flatnonzero((n_parents > 0) | (n_children > 0))
    rates = []
    for n in coupled:
        size = int(graph.n_states[n])
        block = network.rates[graph.table_start[n] : graph.table_start[n + 1]]
        total = -np.einsum("uxx->ux", block.reshape(-1, size, size)).mean() * size / (size - 1)
        if total > 0.0:
            rates.append(total)
    return float(np.median(rates)) if rates else 0.0


def make_batch(
    evidence: Evidence,
    graph: CompiledGraph,
    rate: float,
    step: float,
    refinement: IntArray | int = 1,
    time_step: float | None = None,
) -> Batch:
    """Lay evidence out on a new grid (see :mod:`asterism.inference.grid`)."""
    breakpoints = find_breakpoints(evidence)
    if time_step is not None:
        grid = build_even_grid(breakpoints, evidence.n_trajectories, time_step)
    else:
        grid = build_grid(breakpoints, evidence.n_trajectories, rate, step, refinement)
    squares = int((graph.n_states**2).sum())
    require_memory(
        8.0 * squares * int(grid.step_start[-1]),
        f"messages of {evidence.n_trajectories} trajectories with {int(grid.step_start[-1])} steps",
        "a larger time_step, a larger tolerance, or fewer trajectories at a time",
    )
    problem = build_problem(evidence, graph, breakpoints, grid)
    moments = np.empty(squares * int(grid.step_start[-1]))
    return Batch(evidence, breakpoints, grid, graph, problem, moments)


def run(
    batch: Batch,
    parameters: Parameters,
    *,
    restart: bool = True,
    max_sweeps: int = 200,
    tolerance: float = 1e-7,
    damping: float = 1.0,
    n_jobs: int = 1,
) -> Outcome:
    """Iterate every trajectory to its fixed point; ``restart=False`` starts from the moments."""
    n = batch.n_trajectories
    totals = np.zeros((n, kernels.N_TOTALS))
    integers = np.zeros((n, kernels.N_INTEGERS), dtype=np.int64)
    history = np.full((n, 2, max_sweeps), np.nan)

    def solve_chunk(first: int, last: int) -> None:
        kernels.iterate(
            batch.problem,
            parameters.rates,
            parameters.table,
            parameters.initial,
            parameters.geometric,
            batch.moments,
            np.arange(first, last, dtype=np.int64),
            restart,
            max_sweeps,
            tolerance,
            damping,
            totals,
            integers,
            history,
        )

    map_chunks(solve_chunk, chunks(n, _CHUNKS), n_jobs)
    require_possible(batch, integers)
    return Outcome(
        evidence=totals[:, kernels.EVIDENCE],
        data=totals[:, kernels.DATA],
        initial=totals[:, kernels.START],
        jumps=totals[:, kernels.JUMPS],
        residual=totals[:, kernels.RESIDUAL],
        n_sweeps=integers[:, kernels.SWEEPS],
        status=integers[:, kernels.STATUS],
        history=history,
    )


def require_possible(batch: Batch, integers: IntArray) -> None:
    """Raise, naming the place, if some trajectory's evidence left no state possible."""
    bad = np.flatnonzero(integers[:, kernels.STATUS] == kernels.IMPOSSIBLE)
    if not len(bad):
        return
    d = int(bad[0])
    labels = batch.evidence.labels
    label = labels[d] if labels else d
    time = batch.grid.times(d)[int(integers[d, kernels.BAD_POINT])]
    raise ImpossibleEvidence(d, label, int(integers[d, kernels.BAD_NODE]), float(time))


class ImpossibleEvidence(DataError):
    """Some measurement contradicts the others, or the rates, whatever the hidden path.

    ``under`` names what it is impossible under, with what could help.
    """

    def __init__(
        self,
        trajectory: int,
        label: object,
        node: int,
        time: float,
        name: object | None = None,
        under: str = "the model: check the measurements, rates of zero, and the initial "
        "distribution",
    ) -> None:
        self.trajectory, self.label, self.node, self.time = trajectory, label, node, time
        which = f"node {name}" if name is not None else f"node number {node}"
        super().__init__(
            f"Trajectory {label}: what was measured of {which} at or after time {time:g} has "
            f"probability zero (or one too small for a computer's numbers) under {under}."
        )

    def named(self, nodes: Sequence[str], method: str = "star") -> ImpossibleEvidence:
        """The same with the node's name, and what the method has to do with it."""
        name = nodes[self.node]
        if method != "mean_field":
            return ImpossibleEvidence(self.trajectory, self.label, self.node, self.time, name)
        under = (
            "mean field, which never uses a transition that some possible state of the parents "
            "forbids: use method='star' or 'exact', or check the measurements and rates of zero"
        )
        return ImpossibleEvidence(self.trajectory, self.label, self.node, self.time, name, under)


def expected_statistics(
    batch: Batch, parameters: Parameters, n_jobs: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Flat expected dwell times and transitions, summed over the batch."""
    last_row = batch.problem.node[-1]

    def add_chunk(first: int, last: int) -> tuple[FloatArray, FloatArray]:
        dwell = np.zeros(int(last_row[DWELL]))
        transitions = np.zeros(int(last_row[TABLE]))
        statistics_range(
            batch.problem,
            parameters.rates,
            parameters.geometric,
            batch.moments,
            np.arange(first, last, dtype=np.int64),
            dwell,
            transitions,
        )
        return dwell, transitions

    parts = map_chunks(add_chunk, chunks(batch.n_trajectories, _CHUNKS), n_jobs)
    return sum_in_order([p[0] for p in parts]), sum_in_order([p[1] for p in parts])


def sum_in_order(parts: list[FloatArray]) -> FloatArray:
    """Sum arrays one after the other: the same to the last bit whoever computed them."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
