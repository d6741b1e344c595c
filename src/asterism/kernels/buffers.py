"""The buffers in which one thread updates a node, block of steps by block of steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.kernels._jit import inlined, inner
from asterism.kernels.arrays import CONFIGURATIONS, INITIAL, MARK, STATES

BLOCK = 256
# rows that begin at multiples of a large power of two would compete for the same lines of the cache
STRIDE = BLOCK + 8

# loops over steps go through so many at a time, and the rest one by one, which is slow
VECTORS = 16

FloatArray = NDArray[np.float64]


class Work(NamedTuple):
    """Buffers of one thread."""

    steps: FloatArray
    """(blocks, rows, BLOCK): what is kept of every step of the node at hand. With S states the
    rows are: generator (S²), propagator (S²), coefficients (3), log scale (1), ψ (S), forward
    message at the start of the step (S), backward message at its end (S), and where there are
    stretches the generator in the middle of the step, before its correction (S²)."""
    flat_steps: FloatArray
    """The same numbers in one row: two entries before and behind a row of steps can be read."""
    is_closed: NDArray[np.bool_]
    """Per block, whether the closed form of two states applied."""
    width: FloatArray
    """Step widths of the trajectory at hand, with room to count up to whole vectors."""
    inverse_width: FloatArray
    clamp: NDArray[np.int64]
    """Known state on each step, or −1; valid only while a node with spans is at hand."""
    configurations: FloatArray
    """(2, configurations, BLOCK): weights, and room to compute them."""
    matrices: FloatArray
    """(9, S², BLOCK): room for matrix functions; the last holds fresh moments."""
    flat_matrices: FloatArray
    """The same numbers in one row."""
    marks: FloatArray
    """(marks, 2S + 1): values of the node's marks, the logarithm of their scale, and for fixed
    marks the logarithms of the values."""
    message: FloatArray
    """(2, S): the running message and one more vector."""
    edges: FloatArray
    """(stretches, 2, S, S): what multiplies messages at both edges of a stretch."""
    starts: FloatArray
    """Marginals at the start of the trajectory at hand, one entry per node and state."""


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
    """Whether some steps are of fourth order (see ``stretches``)."""
    return problem.stretch.shape[0] > 0


@inlined
def generator_row(problem, size):
    """First row of the generator as it is averaged, before any correction."""
    return middle_row(size) if is_corrected(problem) else 0


@inner(allocates=True)
def make_work(problem, max_steps):
    """Allocate the buffers for trajectories of up to ``max_steps`` steps."""
    size = 0
    n_configurations = 1
    for n in range(problem.node.shape[0] - 1):
        size = max(size, problem.node[n, STATES])
        n_configurations = max(n_configurations, problem.node[n, CONFIGURATIONS])
    n_marks = 1
    for i in range(problem.pair.shape[0] - 1):
        n_marks = max(n_marks, problem.pair[i + 1, MARK] - problem.pair[i, MARK])
    n_stretches = 0
    for d in range(problem.stretch_start.shape[0] - 1):
        n_stretches = max(n_stretches, problem.stretch_start[d + 1] - problem.stretch_start[d])
    blocks = (max_steps + BLOCK - 1) // BLOCK
    rows = size * size
    n_rows = middle_row(size)
    if n_stretches > 0:
        n_rows += rows
    flat_steps = np.zeros(blocks * n_rows * STRIDE)
    rows = max(rows, 4)  # some are room for single rows
    flat_matrices = np.zeros(9 * rows * STRIDE)
    return Work(
        flat_steps.reshape(blocks, n_rows, STRIDE),
        flat_steps,
        np.zeros(blocks, dtype=np.bool_),
        np.zeros(blocks * BLOCK),
        np.zeros(blocks * BLOCK),
        np.zeros(max_steps, dtype=np.int64),
        np.zeros((2, n_configurations + 1, STRIDE)),
        flat_matrices.reshape(9, rows, STRIDE),
        flat_matrices,
        np.zeros((n_marks, 2 * size + 1)),
        np.zeros((2, size)),
        np.zeros((n_stretches, 2, size, size)),
        np.zeros(problem.node[problem.node.shape[0] - 1, INITIAL]),
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
