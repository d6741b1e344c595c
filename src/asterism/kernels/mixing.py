"""Anderson mixing of moments and rates together: marginal dynamics in fewer sweeps.

The state of that iteration is every moment and the logarithm of every rate. From the last few
differences of its residual (what a sweep changed) and of its image (what a sweep gave) the next
state is image − Σ γ_i Δimage_i, with γ the least-squares fit of the residual by its differences.
The differences are kept in single precision: only the way to the fixed point depends on them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.kernels._jit import inner
from asterism.kernels.arrays import CONFIGURATIONS, SQUARES, STATES, TABLE
from asterism.kernels.solve import project_moments, solve_small

DEPTH = 4
_REORDER = {"contract", "reassoc", "nsz"}
_LARGEST_STEP = 2.0  # no mixed rate is further from its image than this factor's logarithm


class History(NamedTuple):
    """What is remembered of one part of the state."""

    before: NDArray[np.float64]
    """The state that the last sweep began with."""
    image: NDArray[np.float64]
    scale: NDArray[np.float32]
    """What makes a change dimensionless, so that the unit of time does not matter."""
    residual: NDArray[np.float32]
    image_steps: NDArray[np.float32]
    residual_steps: NDArray[np.float32]


@inner(allocates=True)
def make_history(size):
    """Room for a part of ``size`` numbers."""
    return History(
        np.zeros(size),
        np.zeros(size),
        np.ones(size, dtype=np.float32),
        np.zeros(size, dtype=np.float32),
        np.zeros((DEPTH, size), dtype=np.float32),
        np.zeros((DEPTH, size), dtype=np.float32),
    )


@inner
def scale_moments(problem, geometric, scale):
    """Times are measured in steps; mean field's off-diagonal moments are numbers already."""
    n_nodes = problem.node.shape[0] - 1
    squares = problem.node[n_nodes, SQUARES]
    for d in range(problem.step_start.shape[0] - 1):
        first = problem.step_start[d]
        steps = problem.step_start[d + 1] - first
        for node in range(n_nodes):
            size = problem.node[node, STATES]
            for row in range(size * size):
                if geometric and row // size != row % size:
                    continue
                begin = first * squares + (problem.node[node, SQUARES] + row) * steps
                for k in range(steps):
                    scale[begin + k] = 1.0 / problem.width[first + k]


@inner
def begin_sweep(history, state):
    """Keep the state that a sweep begins with."""
    for i in range(state.shape[0]):
        history.before[i] = state[i]


@inner(fastmath=_REORDER)
def remember(history, image, slot):
    """Store the newest differences in ``slot``; image and residual become the present ones."""
    image_step = history.image_steps[slot]
    residual_step = history.residual_steps[slot]
    for i in range(image.shape[0]):
        residual = (image[i] - history.before[i]) * history.scale[i]
        residual_step[i] = residual - history.residual[i]
        image_step[i] = image[i] - history.image[i]
        history.residual[i] = residual
        history.image[i] = image[i]


@inner(fastmath=_REORDER)
def add_products(history, slot, n_kept, gram, right):
    """Add the inner products that are new: those of the newest difference and of the residual."""
    newest = history.residual_steps[slot]
    for j in range(n_kept):
        step = history.residual_steps[j]
        with_newest = 0.0
        with_residual = 0.0
        for i in range(newest.shape[0]):
            with_newest += step[i] * newest[i]
            with_residual += step[i] * history.residual[i]
        gram[slot, j] += with_newest
        right[j] += with_residual


@inner(fastmath=_REORDER)
def step_back(history, state, n_kept, gamma):
    """state = image − Σ γ_i Δimage_i."""
    for j in range(n_kept):
        step = history.image_steps[j]
        for i in range(state.shape[0]):
            state[i] -= gamma[j] * step[i]


@inner(allocates=True)
def fit(gram, right, n_kept, gamma):
    """Least squares by the normal equations, slightly damped; False where nothing moved."""
    matrix = np.empty((n_kept, n_kept))
    trace = 0.0
    for i in range(n_kept):
        trace += gram[i, i]
        gamma[i] = right[i]
        for j in range(n_kept):
            matrix[i, j] = gram[i, j]
    if not trace > 0.0:
        return False
    for i in range(n_kept):
        matrix[i, i] += 1e-12 * trace
    solve_small(matrix, gamma, n_kept)
    return True


@inner
def logarithms(rates, logs):
    """ln |rate| of every entry; zero for rates of zero, which stay as they are."""
    for i in range(rates.shape[0]):
        size = abs(rates[i])
        logs[i] = math.log(size) if size > 0.0 else 0.0


@inner
def set_rates(problem, logs, image, exact_point, geometric, rates, table):
    """Rates from mixed logarithms; exit rates are sums again unless they are free."""
    for node in range(problem.node.shape[0] - 1):
        size = problem.node[node, STATES]
        for row in range(problem.node[node, CONFIGURATIONS] * size):
            begin = problem.node[node, TABLE] + row * size
            diagonal = begin + row % size
            leave = 0.0
            for entry in range(begin, begin + size):
                if rates[entry] == 0.0:
                    continue
                step = min(max(logs[entry] - image[entry], -_LARGEST_STEP), _LARGEST_STEP)
                size_of_rate = math.exp(image[entry] + step)
                if entry == diagonal:
                    rates[entry] = -size_of_rate
                else:
                    rates[entry] = size_of_rate
                    leave += size_of_rate
                    if geometric:
                        table[entry] = image[entry] + step
            if not exact_point:
                rates[diagonal] = -leave
            table[diagonal] = rates[diagonal]


@inner(allocates=True)
def mix(problem, moment_history, rate_history, moments, logs, n_before, gram):
    """Put ``moments`` and ``logs``, the images of a sweep, where the differences point.

    ``n_before`` differences were stored before this one. ``gram`` holds their inner products.
    """
    slot = n_before % DEPTH
    remember(moment_history, moments, slot)
    remember(rate_history, logs, slot)
    n_kept = min(n_before + 1, DEPTH)
    right = np.zeros(DEPTH)
    gamma = np.zeros(DEPTH)
    for j in range(DEPTH):
        gram[slot, j] = 0.0
    add_products(moment_history, slot, n_kept, gram, right)
    add_products(rate_history, slot, n_kept, gram, right)
    for j in range(DEPTH):
        gram[j, slot] = gram[slot, j]
    if fit(gram, right, n_kept, gamma):
        step_back(moment_history, moments, n_kept, gamma)
        step_back(rate_history, logs, n_kept, gamma)
        for d in range(problem.step_start.shape[0] - 1):
            project_moments(problem, d, moments)
