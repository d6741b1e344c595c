"""Trajectories solved together on one grid: the layer between arrays and results.

What every rule's batch has is in ``engine/batch.py``. :func:`run` iterates to a fixed point,
:func:`expected_statistics` counts. :func:`sweep` alone calls the compiled loop: iterating, counting
and reading are the same call, so that numba compiles it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.engine import batch as engine
from asterism.engine._outcome import IMPOSSIBLE
from asterism.engine.batch import Outcome
from asterism.engine.grid import Grid, make_grid
from asterism.errors import DataError, Sentence, Setting
from asterism.numerics._jit import addresses, is_ready
from asterism.numerics._matrix_step import general_moments, general_propagator
from asterism.numerics.compiled import CompiledGraph
from asterism.star import _solve as kernels
from asterism.star._averages import configuration_weights
from asterism.star._buffers import (
    DWELL,
    INITIAL,
    IS_EXOGENOUS,
    MARGINAL,
    MEMBER_NODE,
    MEMBERS,
    PARENTS,
    SPAN,
    SQUARES,
    STATES,
    TABLE,
    Problem,
    Work,
    make_work,
)
from asterism.star._fourth_order import corrections_of_many, fourth_order
from asterism.star._kept_messages import (
    AT_POINTS,
    MESSAGES,
    NOTHING,
    Messages,
    Reading,
    keep_marginals,
    keep_messages,
)
from asterism.star._links import ask_links
from asterism.star._many_states import pass_many_states
from asterism.star._messages import pass_messages
from asterism.star._node import (
    add_statistics,
    collect_pull,
    node_generator,
    propagate_block,
    step_moments,
    store_moments,
)
from asterism.star._stretches import compare
from asterism.star.problem import Layout, Parameters, lay_out_evidence
from asterism.timeline.evidence import Evidence, FloatArray, IntArray, subset
from asterism.timeline.timeline import timeline_of

Statistics = tuple[FloatArray, FloatArray]
"""Flat expected dwell times and transitions."""


@dataclass
class Batch(engine.Batch):
    """Trajectories on one grid, and their moments."""

    layout: Layout
    graph: CompiledGraph
    problem: Problem
    moments: NDArray[Any]
    """Double precision while they are iterated; much that is only kept may be in single."""

    def select(self, index: IntArray) -> Batch:
        """A batch of the trajectories ``index`` with their moments, in double precision."""
        evidence = subset(self.evidence, index)
        layout = lay_out_evidence(evidence, self.graph)
        grid = self.grid.select(index)
        problem = layout.on_grid(grid)
        squares = int((self.graph.n_states**2).sum())
        start = self.grid.step_start * squares
        moments = np.empty(squares * int(grid.step_start[-1]))
        for i, d in enumerate(index):
            own = slice(int(grid.step_start[i]) * squares, int(grid.step_start[i + 1]) * squares)
            moments[own] = self.moments[start[d] : start[d + 1]]
        chosen = Batch(evidence, grid, layout, self.graph, problem, moments)
        copy_links(self, chosen, index)
        return chosen


def copy_links(old: Batch, new: Batch, of_new: IntArray) -> None:
    """Carry the marginals at linked evidence over; ``of_new`` are the trajectories' old numbers."""
    if not len(new.problem.marginals):
        return
    start = old.problem.link_start
    pieces = []
    for d in of_new:
        first = int(old.problem.link[start[d], MEMBERS])
        last = int(old.problem.link[start[d + 1], MEMBERS])
        if last > first:
            offsets = old.problem.member[first:last, MARGINAL]
            sizes = old.problem.node[old.problem.member[first:last, MEMBER_NODE], STATES]
            pieces += [old.problem.marginals[o : o + s] for o, s in zip(offsets, sizes)]
    new.problem.marginals[:] = np.concatenate(pieces)


def prolong(coarse: Batch, fine: Batch, of_fine: IntArray, ratios: IntArray) -> None:
    """Start the fine moments from the coarse ones, spread over each coarse step by width."""
    squares = int(coarse.problem.node[-1, SQUARES])
    for d, (c, ratio) in enumerate(zip(of_fine, ratios)):
        first, last = coarse.grid.step_start[c : c + 2]
        begin, end = fine.grid.step_start[d : d + 2]
        block = coarse.moments[first * squares : last * squares].reshape(squares, last - first)
        means = np.repeat(block / coarse.grid.width[first:last], ratio, axis=1)
        spread = means * fine.grid.width[begin:end]
        fine.moments[begin * squares : end * squares] = spread.ravel()
    copy_links(coarse, fine, of_fine)


def largest_change(coarse: Batch, fine: Batch, of_fine: IntArray, ratios: IntArray) -> FloatArray:
    """Per trajectory, the largest difference between two grids in a coarse step's marginals."""
    change = np.zeros(len(of_fine))
    old, new = coarse.problem, fine.problem
    nodes = old.node[:-1]
    diagonal = [s + x * (n + 1) for n, s in nodes[:, [STATES, SQUARES]] for x in range(n)]
    starts = np.empty((len(of_fine), 4), dtype=np.int64)
    starts[:, 0] = old.step_start[of_fine]
    starts[:, 1] = old.step_start[of_fine + 1] - starts[:, 0]
    starts[:, 2] = new.step_start[:-1]
    starts[:, 3] = old.node[-1, SQUARES]
    bands = [p.to_middle if len(p.stretch) else p.to_middle[:, :0] for p in (old, new)]
    if len(starts):
        compare(
            np.array(diagonal, dtype=np.int64),
            *(starts, old.width, np.ascontiguousarray(bands[0]), coarse.moments),
            *(np.ascontiguousarray(bands[1]), fine.moments, ratios, change),
        )
    return change


def make_batch(
    evidence: Evidence,
    graph: CompiledGraph,
    rate: float,
    step: float,
    time_step: float | None = None,
    copies: int = 1,
    *,
    is_corrected: bool = False,
) -> Batch:
    """Lay evidence out on a new grid (see :mod:`asterism.engine.grid`).

    ``is_corrected``: smooth steps are of fourth order; without it F is stationary on the grid
    itself, as learning wants it.
    """
    timeline = timeline_of(evidence)
    grid = make_grid(timeline, rate, step, time_step=time_step, is_corrected=is_corrected)
    return batch_on(grid, evidence, graph, copies=copies)


def batch_on(
    grid: Grid,
    evidence: Evidence,
    graph: CompiledGraph,
    layout: Layout | None = None,
    copies: int = 1,
) -> Batch:
    """Lay evidence out on a grid; ``copies``: how often messages will be in memory at a time."""
    if layout is None:
        layout = lay_out_evidence(evidence, graph)
    else:
        layout = replace(layout, is_shared=True)
    squares = int((graph.n_states**2).sum())
    engine.require_room(
        evidence, grid, float(copies * squares), ", or fewer trajectories at a time"
    )
    moments = np.empty(squares * int(grid.step_start[-1]))
    return Batch(evidence, grid, layout, graph, layout.on_grid(grid), moments)


def run(
    batch: Batch,
    parameters: Parameters,
    *,
    restart: bool = True,
    max_sweeps: int = 200,
    tolerance: float = 1e-7,
    damping: float = 1.0,
    n_jobs: int = 1,
) -> tuple[Outcome, Counts]:
    """Iterate every trajectory to its fixed point, and count; how it ended, what is expected.

    ``restart=False`` starts from the moments that the batch holds.
    """
    outcome = new_outcome(batch.n_trajectories, max_sweeps)

    def solve_chunk(first: int, last: int) -> Counts:
        counts = make_counts(batch.problem)
        sweep(
            batch.problem,
            parameters,
            batch.moments,
            (first, last),
            outcome,
            control=Control(bool(restart), float(tolerance), float(damping)),
            counts=counts,
        )
        return counts

    parts = batch.share(solve_chunk, n_jobs)
    require_possible(batch, outcome)
    return outcome, summed(parts)


def require_possible(batch: Batch, outcome: Outcome) -> None:
    """Raise, naming the place, if some trajectory's evidence left no state possible."""
    is_impossible = outcome.status == IMPOSSIBLE
    if not is_impossible.any():
        return
    d, integers = int(is_impossible.argmax()), outcome.integers
    label = batch.evidence.label(d)
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
            "probability zero (or one too small for a computer's numbers) under ",
            under,
            ".",
        )

    def named(self, nodes: Sequence[str], method: str = "star") -> ImpossibleEvidence:
        """The same with the node's name, and what the method has to do with it."""
        name = nodes[self.node]
        if method != "mean_field":
            return ImpossibleEvidence(self.trajectory, self.label, self.node, self.time, name)
        under = Sentence(
            "mean field, which never uses a transition that some possible state of the parents "
            "forbids: use ",
            *(Setting("method", "star"), " or ", Setting("method", "exact")),
            ", or check the measurements and rates of zero",
        )
        return ImpossibleEvidence(self.trajectory, self.label, self.node, self.time, name, under)


def expected_statistics(batch: Batch, parameters: Parameters, n_jobs: int = 1) -> Statistics:
    """Flat expected dwell times and transitions, summed over a solved batch: no sweep at all."""
    return run(batch, parameters, restart=False, max_sweeps=0, n_jobs=n_jobs)[1][:2]


def summed(parts: list[Counts]) -> Counts:
    """The statistics of all pieces together; the same to the last bit whoever computed them."""
    return Counts(*engine.total(parts))


class Counts(NamedTuple):
    """Expected statistics, summed over trajectories."""

    dwell: FloatArray
    transitions: FloatArray
    starts: FloatArray


class Control(NamedTuple):
    """How to iterate."""

    restart: bool = False
    """Begin from uninformed moments, not from those that there are."""
    tolerance: float = 0.0
    damping: float = 1.0


_NO_POINTS = np.zeros(0)
_NO_STATES = np.zeros((0, 0), dtype=np.int32)
_NO_COUNTS = Counts(_NO_POINTS, _NO_POINTS, _NO_POINTS)


_NO_MESSAGES = Messages(_NO_POINTS, _NO_POINTS, _NO_POINTS, _NO_STATES, _NO_STATES)
NO_READING = Reading(NOTHING, _NO_MESSAGES, _NO_POINTS)
AS_IT_IS = Control()


def new_outcome(n_trajectories: int, max_sweeps: int) -> Outcome:
    """Room for these numbers of trajectories and sweeps; the history holds F and the residual."""
    return Outcome.empty(kernels.N_TOTALS, kernels.N_INTEGERS, (n_trajectories, 2, max_sweeps))


def make_counts(problem: Problem) -> Counts:
    """Zeros for the statistics of a problem."""
    last = problem.node[-1]
    return Counts(
        np.zeros(int(last[DWELL])), np.zeros(int(last[TABLE])), np.zeros(int(last[INITIAL]))
    )


def is_uncoupled(problem: Problem) -> bool:
    """Whether ``uncoupled.py`` applies, and is worth it: two states have a closed form."""
    nodes = problem.node
    return not (
        nodes[-1, PARENTS] > 0
        or (nodes[:-1, STATES] == 2).all()
        or nodes[:-1, IS_EXOGENOUS].any()
        or problem.pair[-1, SPAN] > 0
        or len(problem.link) > 1
        or len(problem.stretch) > 0
    )


def addresses_for(problem: Problem, *units: Any) -> IntArray:
    """The table of addresses with the kernels in it that a problem's evidence and states need."""
    needed = [*units, collect_pull, pass_messages, propagate_block, step_moments]
    needed.append(configuration_weights)
    has_many_states = (problem.node[:-1, STATES] > 2).any()
    if len(problem.stretch):
        needed += [fourth_order, corrections_of_many] if has_many_states else [fourth_order]
    if has_many_states:
        needed += [pass_many_states, general_propagator, general_moments]
    if len(problem.link) > 1:
        needed.append(ask_links)
    return addresses(*needed)  # type: ignore[no-any-return]


def addresses_to_sweep(problem: Problem, reading: int = NOTHING) -> IntArray:
    """The same with all that a sweep needs."""
    of_reading = {MESSAGES: (keep_messages,), AT_POINTS: (keep_marginals,)}.get(reading, ())
    return addresses_for(problem, node_generator, store_moments, add_statistics, *of_reading)


def sweep(
    problem: Problem,
    parameters: Parameters,
    moments: FloatArray,
    which: tuple[int, int],
    outcome: Outcome,
    *,
    control: Control = AS_IT_IS,
    counts: Counts = _NO_COUNTS,
    reading: Reading = NO_READING,
    work: Work | None = None,
) -> None:
    """Sweep trajectories ``which[0]`` … ``which[1]``−1 as often as ``outcome`` has room for.

    ``work``: buffers for these trajectories, for callers that sweep thousands of times.
    """
    chosen = np.arange(*which, dtype=np.int64)
    asked = (control, outcome, counts, reading)
    if work is None:
        if not is_ready(node_generator):
            # the first sweep of a process compiles on nothing what calls the units, and then these:
            # some of them may meanwhile come from another process (learning/compile_ahead.py)
            nothing = make_work(problem, addresses(), (0, 0))
            kernels.iterate(problem, parameters, moments, chosen[:0], *asked, nothing)
        work = make_work(problem, addresses_to_sweep(problem, reading.kind), which)
    kernels.iterate(problem, parameters, moments, chosen, *asked, work)
