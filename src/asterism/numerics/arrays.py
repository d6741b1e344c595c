"""The kinds of arrays that signatures name, and tables of rates as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[Any]


def offsets(lengths: Sequence[int] | IntArray) -> IntArray:
    """Where pieces of these lengths begin that stand one after the other, closed by their sum."""
    found = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def starts_of(group: IntArray, n_groups: int) -> IntArray:
    """(groups + 1,) where the rows of each group begin; ``group``: of every row, ascending."""
    return offsets(np.bincount(group, minlength=n_groups))


class Ragged(list[Any]):
    """Pieces of whole numbers of different lengths, to stand one after the other."""

    @property
    def values(self) -> IntArray:
        """All of them."""
        pieces = (np.asarray(piece, dtype=np.int64).ravel() for piece in self)
        return np.concatenate([np.zeros(0, dtype=np.int64), *pieces])

    @property
    def offsets(self) -> IntArray:
        """Where each piece begins, closed by the end of the last."""
        return offsets([np.size(piece) for piece in self])


def with_exits(rates: FloatArray) -> FloatArray:
    """A copy of rates (…, S, S) whose diagonals make every row sum to zero."""
    result, every = rates.copy(), np.arange(rates.shape[-1])
    result[..., every, every] = 0.0
    result[..., every, every] = -result.sum(axis=-1)
    return result
