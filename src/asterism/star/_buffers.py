"""The bundle of plain arrays that the variational kernels pass among themselves.

D trajectories, N nodes; trajectory d has K_d steps and K_d + 1 grid points. Integers that belong
together are columns of one array, with named columns: few arrays keep compilation short.
``docs/derivations.md`` explains the quantities.

The buffers in which one thread updates a node, block of steps by block of steps.

Where the moments W of a trajectory lie, how they begin, and what makes them legal.

Moments are flat: for every trajectory and node S² rows, one after the other, one entry per step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64
from numba.core import types
from numpy.typing import NDArray

from asterism.numerics._bundle import Bundle
from asterism.numerics._jit import inlined, inner
from asterism.numerics._tile_products import room_for
from asterism.timeline.timeline import FIRST as FIRST
from asterism.timeline.timeline import IS_SET as IS_SET
from asterism.timeline.timeline import JUMP as JUMP
from asterism.timeline.timeline import LAST as LAST
from asterism.timeline.timeline import LIKELIHOOD as LIKELIHOOD
from asterism.timeline.timeline import STATE as STATE

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# kinds of marks: two of the timeline's, and
SOFT = 5
"""A factor that the current marginals of other nodes determine."""

# columns of Problem.node; a row N closes the running sums
STATES = 0
PARENTS = 1
"""First edge of the node in ``edge`` (edges are grouped by child)."""
CHILDREN = 2
"""First row of the node's children in ``edge`` (columns CHILD and SLOT are grouped by parent)."""
CONFIGURATIONS = 3
"""Parent configurations, or values of the summary."""
TABLE = 4
"""Offset of the node's (configurations, S, S) block in flat tables."""
DWELL = 5
"""Offset of the node's (configurations, S) block in flat dwell times."""
INITIAL = 6
"""Offset of the node in flat arrays with one entry per node and state."""
SQUARES = 7
"""Running sum of S²: node n's moments of trajectory d are the (S², K_d) block that starts at
``step_start[d] * node[N, SQUARES] + node[n, SQUARES] * K_d``."""
IS_SUMMARY = 8
IS_EXOGENOUS = 9

# columns of Problem.edge
PARENT = 0
WEIGHT = 1
"""Offset of the edge's summary weights."""
CHILD = 2
SLOT = 3
"""Position of the parent among that child's parents."""

# columns of Problem.pair, one row per (trajectory, node) = d·N + n
MARK = 0
SPAN = 1

# columns of Problem.mark, sorted by pair, then by grid point
POINT = 0
KIND = 1
VALUES = 2
"""Offset of a LIKELIHOOD mark's values."""
LINK = 3
MEMBER = 4
"""Which member of the link this node is."""

# ``Problem.span`` has columns FIRST, LAST, STATE and IS_SET; the first two are columns of
# ``Problem.stretch`` too: these steps are corrected together

# columns of Problem.link, sorted by trajectory
IS_JUMP = 0
TO = 1
FROM = 2
"""State before the jump, or −1."""
MEMBERS = 3
"""First row in ``member``; a jump's first member is the node that jumped, then its parents."""
LOG_TABLE = 4

# columns of Problem.member
MEMBER_NODE = 0
MARGINAL = 1
"""Offset of this member's distribution in ``marginals``."""

LOG_OF_ZERO_RATE = -1e12
"""Stands for ln 0 in averages of logarithms: any real weight on it makes a rate vanish."""


class Problem(NamedTuple):
    """Everything that stays fixed while messages are iterated (except ``marginals``)."""

    node: IntArray
    edge: IntArray
    weights: IntArray
    """What each state of a parent adds to a summary."""
    step_start: IntArray
    """(D+1,) first step of each trajectory in the flat arrays."""
    width: FloatArray
    """Length of every step."""
    pair: IntArray
    mark: IntArray
    likelihood: FloatArray
    """Values of likelihood marks, scaled so that the largest of each mark is one, and in a second
    column their logarithms (zero for a value of zero, whose state has no probability)."""
    mark_scale: FloatArray
    """Logarithm of what the scaling took out, per mark."""
    span: IntArray
    link_start: IntArray
    """(D+1,) first link of each trajectory."""
    link: IntArray
    member: IntArray
    marginals: FloatArray
    """Current distribution of each member at its link's time (for the node that jumped: of the
    state it left); updated in place."""
    log_table: FloatArray
    """Log-likelihood tables of joint measurements, C order over the members."""
    stretch_start: IntArray
    """(D+1,) first stretch of each trajectory (``_stretches.py``); all zero if there are
    none, and then the arrays below are empty."""
    stretch: IntArray
    end_slope: FloatArray
    """(stretches, 6) weights of the first three and, from the end, the last three generators in
    h²/12 G' at the two ends."""
    to_middle: FloatArray
    """(5, steps and more) weights of steps k−2 … k+2: from moments to h times the value in the
    middle."""
    to_step: FloatArray
    """(5, steps and more) the same from generators in the middle to those that propagate a step."""
    quadrature: FloatArray
    """(steps and more,) weights of values in the middle when they are summed over time."""


_I1, _I2 = int64[::1], int64[:, ::1]
_F1, _F2, _F3, _F4 = float64[::1], float64[:, ::1], float64[:, :, ::1], float64[:, :, :, ::1]
PROBLEM = Bundle(
    types.NamedTuple(
        (
            *(_I2, _I2, _I1, _I1, _F1, _I2, _I2, _F2, _F1, _I2),
            *(_I1, _I2, _I2, _F1, _F1, _I1, _I2, _F2, _F2, _F2, _F1),
        ),
        Problem,
    )
)
"""The problem as numba sees it."""

# messages are rescaled when they leave this range
LARGE = 1e30
SMALL = 1e-30

BLOCK = 256
# rows that begin at multiples of a large power of two would compete for the same lines of the cache
STRIDE = BLOCK + 8

# loops over steps go through so many at a time, and the rest one by one, which is slow
VECTORS = 16


class Work(NamedTuple):
    """Buffers of one thread."""

    steps: FloatArray
    """(blocks, rows, BLOCK): what is kept of every step of the node at hand. With S states the
    rows are: generator (S²), propagator (S²), coefficients (3), log scale (1), ψ (S), forward
    message at the start of the step (S), backward message at its end (S), and where there are
    stretches the generator in the middle of the step, before its correction (S²)."""
    flat_steps: FloatArray
    """The same numbers in one row: two entries before and behind a row of steps can be read."""
    is_closed: IntArray
    """Per block, whether the closed form of two states applied."""
    width: FloatArray
    """Step widths of the trajectory at hand, with room to count up to whole vectors."""
    inverse_width: FloatArray
    clamp: NDArray[np.int64]
    """Known state on each step, or −1; valid only while a node with spans is at hand."""
    configurations: FloatArray
    """(2, configurations, BLOCK): weights, and room to compute them."""
    matrices: FloatArray
    """(4, S², BLOCK): room for single rows; the last holds fresh moments."""
    flat_matrices: FloatArray
    """The same numbers in one row."""
    tile: FloatArray
    """Room for the propagators and moments of more than two states."""
    marks: FloatArray
    """(marks, 2S + 1): values of the node's marks, the logarithm of their scale, and for fixed
    marks the logarithms of the values."""
    message: FloatArray
    """(3, S): the running message, one more vector, and ρ at the start of the trajectory."""
    ends: FloatArray
    """(stretches, 2, S, S): what multiplies messages at both ends of a stretch."""
    starts: FloatArray
    """Marginals at the start of the trajectory at hand, one entry per node and state."""
    addresses: IntArray
    """Where the kernels lie that are not a part of those that sweep."""


WORK = Bundle(
    types.NamedTuple(
        (_F3, _F1, _I1, _F1, _F1, _I1, _F3, _F3, _F1, _F1, _F2, _F2, _F4, _F1, _I1), Work
    )
)
"""The buffers as numba sees them."""


@inlined
def rescaled(message, size):
    """Bring a message back to order one; returns the logarithm taken out (−inf if all zero)."""
    largest = 0.0
    for x in range(size):
        largest = max(largest, message[x])
    if largest == 0.0:
        return -math.inf
    for x in range(size):
        message[x] /= largest
    return math.log(largest)


@inlined
def scale_row(size):
    """Row of ``Work.steps`` that holds the logarithm taken out of the propagator."""
    return 2 * size * size + 3


@inlined
def pull_row(size):
    """First row of ψ."""
    return scale_row(size) + 1


@inlined
def forward_row(size):
    """First row of the forward message."""
    return pull_row(size) + size


@inlined
def backward_row(size):
    """First row of the backward message."""
    return forward_row(size) + size


@inlined
def middle_row(size):
    """First row of the generator in the middle of the step."""
    return backward_row(size) + size


@inlined
def is_corrected(problem):
    """Whether some steps are of fourth order (see ``_stretches.py``)."""
    return problem.stretch.shape[0] > 0


@inlined
def generator_row(problem, size):
    """First row of the generator as it is averaged, before any correction."""
    return middle_row(size) if is_corrected(problem) else 0


def make_work(problem: Any, addresses: IntArray, which: tuple[int, int] | None = None) -> Work:
    """Buffers of one thread for the trajectories ``which[0]`` … ``which[1]``−1, or all of them.

    ``addresses``: where the kernels lie that its sweeps call.
    """
    chosen = slice(*which) if which else slice(None)
    max_steps = max(1, int(np.diff(problem.step_start)[chosen].max(initial=1)))
    size = int(problem.node[:-1, STATES].max(initial=0))
    n_configurations = int(problem.node[:-1, CONFIGURATIONS].max(initial=1))
    n_marks = int(np.diff(problem.pair[:, MARK]).max(initial=1))
    n_stretches = int(np.diff(problem.stretch_start).max(initial=0))
    blocks = -(-max_steps // BLOCK)
    rows = size * size
    # as in ``middle_row``
    n_rows = 2 * rows + 4 + 3 * size + (rows if n_stretches > 0 else 0)
    steps = np.zeros((blocks, n_rows, STRIDE))
    matrices = np.zeros((4, max(rows, 4), STRIDE))  # some are room for single rows
    return Work(
        steps,
        steps.reshape(-1),
        np.zeros(blocks, dtype=np.int64),
        np.zeros(blocks * BLOCK),
        np.zeros(blocks * BLOCK),
        np.zeros(max_steps, dtype=np.int64),
        np.zeros((2, n_configurations + 1, STRIDE)),
        matrices,
        matrices.reshape(-1),
        np.zeros(room_for(size) if size > 2 else 0),
        np.zeros((n_marks, 2 * size + 1)),
        np.zeros((3, size)),
        np.zeros((n_stretches, 2, size, size)),
        np.zeros(int(problem.node[-1, INITIAL])),
        addresses,
    )


@inlined
def prepare_trajectory(problem, trajectory, work):
    """Fill the step widths of this trajectory and their reciprocals."""
    first = problem.step_start[trajectory]
    for k in range(problem.step_start[trajectory + 1] - first):
        work.width[k] = problem.width[first + k]
        work.inverse_width[k] = 1.0 / problem.width[first + k]


@inlined
def whole_vectors(count):
    """Up to so many steps of a block can be computed at no cost, though only ``count`` are used."""
    return (count + VECTORS - 1) // VECTORS * VECTORS


@inlined
def moments_begin(problem, trajectory, node):
    """Where a node's moments begin: S² rows, one after the other, each K steps long."""
    first = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first
    n_nodes = problem.node.shape[0] - 1
    return first * problem.node[n_nodes, SQUARES] + problem.node[node, SQUARES] * steps


@inner
def moments_range(problem, trajectory):
    """First and past-the-last entry of a trajectory's moments."""
    squares = problem.node[problem.node.shape[0] - 1, SQUARES]
    return problem.step_start[trajectory] * squares, problem.step_start[trajectory + 1] * squares


@inner
def start_moments(problem, trajectory, moments):
    """Uninformed moments: uniform marginals; known states where they are known throughout."""
    n_nodes = problem.node.shape[0] - 1
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(n_nodes):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for row in range(size * size):
            for k in range(steps):
                moments[begin + row * steps + k] = problem.width[first_step + k] / size
        pair = trajectory * n_nodes + node
        for i in range(problem.pair[pair, SPAN], problem.pair[pair + 1, SPAN]):
            state = problem.span[i, STATE]
            for k in range(problem.span[i, FIRST], problem.span[i, LAST]):
                for row in range(size * size):
                    moments[begin + row * steps + k] = 0.0
                known = begin + (state * size + state) * steps
                moments[known + k] = problem.width[first_step + k]


@inner
def project_moments(problem, trajectory, moments):
    """Make mixed moments legal: no negative entry, each step's diagonal sums to its width."""
    first_step = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first_step
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        begin = moments_begin(problem, trajectory, node)
        for i in range(begin, begin + size * size * steps):
            moments[i] = max(moments[i], 0.0)
        for k in range(steps):
            total = 0.0
            for x in range(size):
                total += moments[begin + (x * size + x) * steps + k]
            width = problem.width[first_step + k]
            for x in range(size):
                diagonal = begin + (x * size + x) * steps + k
                if total > 0.0:
                    moments[diagonal] *= width / total
                else:
                    moments[diagonal] = width / size


@inner
def scale_of_moments(problem, geometric, trajectory, scale):
    """What makes a trajectory's changes dimensionless: times are measured in steps.

    Mean field's off-diagonal moments are numbers of transitions already.
    """
    first = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for row in range(size * size):
            begin = (problem.node[node, SQUARES] + row) * steps
            is_number = geometric and row // size != row % size
            for k in range(steps):
                scale[begin + k] = 1.0 if is_number else 1.0 / problem.width[first + k]
