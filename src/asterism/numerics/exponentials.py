"""Matrix exponentials of many small matrices at once, without a loop over them."""

from __future__ import annotations

import numpy as np

from asterism.numerics.arrays import FloatArray

#: norm down to which a matrix is halved; Taylor's series of this many terms is exact there to 1e-16
_SMALL = 0.5
_TERMS = 13


def exponentials(matrices: FloatArray) -> FloatArray:
    """exp of a stack of matrices (…, S, S).

    Each is halved until it is small, put into Taylor's series, and squared again as often.
    """
    stack = matrices.reshape(-1, *matrices.shape[-2:])
    size = np.abs(stack).sum(axis=-1).max(axis=-1, initial=0.0)
    halvings = np.ceil(np.log2(np.maximum(size / _SMALL, 1.0))).astype(np.int64)
    small = stack / (2.0**halvings)[:, None, None]
    term = small
    result: FloatArray = np.eye(stack.shape[-1]) + small
    for k in range(2, _TERMS + 1):
        term = term @ small / k
        result = result + term
    for k in range(int(halvings.max(initial=0))):
        rows = np.flatnonzero(halvings > k)
        result[rows] = result[rows] @ result[rows]
    whole: FloatArray = result.reshape(matrices.shape)
    return whole
