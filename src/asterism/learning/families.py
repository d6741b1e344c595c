"""Owns the enumeration of candidate families: sets of parents of one node.

A family is a set, written as a row of ascending node numbers, padded with −1 behind. Rows come
smallest sets first, then in the order of the node numbers. Scores belong to sets, not to rows:
renumbering the nodes permutes the rows and changes nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from asterism.errors import ModelError

IntArray = NDArray[np.int64]

#: stands behind the last parent of a family
NO_PARENT = -1


def enumerate_families(
    candidates: Sequence[int] | IntArray,
    max_parents: int,
    required: Sequence[int] = (),
    min_parents: int = 0,
) -> IntArray:
    """(n_families, k) every set of up to ``max_parents`` candidates that holds all ``required``.

    ``required`` nodes need not be listed among the candidates. k is the size of the largest set,
    and at least 1, so that there is always a column. Sets of fewer than ``min_parents`` are left
    out, as far as there are larger ones.
    """
    fixed = np.unique(np.asarray(required, dtype=np.int64))
    free = np.setdiff1d(np.asarray(candidates, dtype=np.int64), fixed)
    if len(fixed) > max_parents:
        raise ModelError(
            f"{len(fixed)} required parents do not fit into max_parents={max_parents}."
        )
    least, extra = _numbers_of_free(len(free), len(fixed), min_parents, max_parents)
    chosen = _subsets(len(free), extra, least)
    rows = np.full((len(chosen), max(1, len(fixed) + extra)), NO_PARENT, dtype=np.int64)
    rows[:, : len(fixed)] = fixed
    if extra:
        names = np.append(free, NO_PARENT)  # position −1, "nobody", reads the last entry
        rows[:, len(fixed) : len(fixed) + extra] = names[chosen]
        if len(fixed):
            rows = _ascending(rows)
    return rows


def count_families(
    n_candidates: int, max_parents: int, n_required: int = 0, min_parents: int = 0
) -> int:
    """How many rows :func:`enumerate_families` gives; ``n_candidates`` includes the required."""
    free = n_candidates - n_required
    least, most = _numbers_of_free(free, n_required, min_parents, max_parents)
    return sum(math.comb(free, size) for size in range(least, most + 1))


def _numbers_of_free(
    n_free: int, n_required: int, min_parents: int, max_parents: int
) -> tuple[int, int]:
    """How few and how many parents a family may have besides the required ones."""
    most = min(max_parents - n_required, n_free)
    return max(0, min(min_parents - n_required, most)), most


def family_sizes(families: IntArray) -> IntArray:
    """(n_families,) number of parents."""
    sizes: IntArray = (families != NO_PARENT).sum(axis=1)
    return sizes


def family_rows(sets: Sequence[Sequence[int]]) -> IntArray:
    """Plain sets of node numbers as padded rows, in the order given."""
    width = max([1, *map(len, sets)])
    rows = np.full((len(sets), width), NO_PARENT, dtype=np.int64)
    for row, members in zip(rows, sets):
        row[: len(members)] = sorted(members)
    return rows


def family_tuple(row: IntArray) -> tuple[int, ...]:
    """One row as plain numbers, without padding."""
    return tuple(int(p) for p in row if p != NO_PARENT)


@lru_cache(maxsize=8)
def _subsets(n: int, largest: int, smallest: int = 0) -> IntArray:
    """(…, largest) subsets of 0 … n−1 with ``smallest`` … ``largest`` members, padded with −1."""
    blocks = []
    for size in range(smallest, largest + 1):
        block = np.full((math.comb(n, size), largest), NO_PARENT, dtype=np.int64)
        if size:
            flat = chain.from_iterable(combinations(range(n), size))
            block[:, :size] = np.fromiter(flat, np.int64, block.shape[0] * size).reshape(-1, size)
        blocks.append(block)
    rows = np.concatenate(blocks)
    rows.flags.writeable = False  # shared between callers
    return rows


def _ascending(rows: IntArray) -> IntArray:
    """Sort every row, padding last; then the rows, small sets first."""
    largest = np.iinfo(np.int64).max
    rows = np.sort(np.where(rows == NO_PARENT, largest, rows), axis=1)
    sizes = (rows != largest).sum(axis=1)
    order = np.lexsort((*rows.T[::-1], sizes))
    ordered: IntArray = np.where(rows == largest, NO_PARENT, rows)[order]
    return ordered
