"""Anderson mixing: where the last few differences of an iteration say that its fixed point lies.

From the last differences of the residual (what a sweep changed) and of the image (what a sweep
gave) the next state is image − Σ γ_i Δimage_i, with γ the least-squares fit of the residual by its
differences. These are kept in single precision: only the way to the fixed point depends on them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.kernels._jit import inner

DEPTH = 4
_REORDER = {"contract", "reassoc", "nsz"}


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


@inner
def solve_small(matrix, right, n):
    """Gaussian elimination in place for a small, positive definite system."""
    for i in range(n):
        for j in range(i + 1, n):
            factor = matrix[j, i] / matrix[i, i]
            for k in range(i, n):
                matrix[j, k] -= factor * matrix[i, k]
            right[j] -= factor * right[i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]


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


@inner(allocates=True)
def mix_alone(history, image, n_before, gram):
    """Put ``image``, what a sweep gave, where the differences point; False if it stays.

    ``n_before`` differences were stored before this one (−1: not even a sweep to differ from).
    ``gram`` holds their inner products.
    """
    slot = max(n_before, 0) % DEPTH
    remember(history, image, slot)
    if n_before < 0:
        return False
    n_kept = min(n_before + 1, DEPTH)
    right = np.zeros(DEPTH)
    gamma = np.zeros(DEPTH)
    for j in range(DEPTH):
        gram[slot, j] = 0.0
    add_products(history, slot, n_kept, gram, right)
    for j in range(DEPTH):
        gram[j, slot] = gram[slot, j]
    if not fit(gram, right, n_kept, gamma):
        return False
    step_back(history, image, n_kept, gamma)
    return True
