"""The kinds of arrays that signatures name, and tables of rates as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[Any]


def with_exits(rates: FloatArray) -> FloatArray:
    """A copy of rates (…, S, S) whose diagonals make every row sum to zero."""
    result, every = rates.copy(), np.arange(rates.shape[-1])
    result[..., every, every] = 0.0
    result[..., every, every] = -result.sum(axis=-1)
    return result
