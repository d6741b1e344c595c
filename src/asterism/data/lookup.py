"""Owns the search for "the last entry before this time in the same group".

Groups are numbers (a trajectory, or a trajectory and a node together). One sort answers all
questions at once, with no loop over groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def last_before(
    entry_group: IntArray,
    entry_time: FloatArray,
    query_group: IntArray,
    query_time: FloatArray,
    *,
    strict: bool = False,
) -> IntArray:
    """Index of the last entry of the query's group at or before its time; −1 if there is none.

    Entries must be sorted by (group, time). With ``strict`` only entries before the time count.
    """
    n_entries, n_queries = len(entry_group), len(query_group)
    if n_entries == 0 or n_queries == 0:
        return np.full(n_queries, -1, dtype=np.int64)
    group = np.concatenate([entry_group, query_group])
    time = np.concatenate([entry_time, query_time])
    is_entry = np.zeros(n_entries + n_queries, dtype=np.bool_)
    is_entry[:n_entries] = True
    rank = is_entry if strict else ~is_entry
    order = np.lexsort((rank, time, group))
    seen = np.cumsum(is_entry[order]) - 1
    place = np.empty(n_entries + n_queries, dtype=np.int64)
    place[order] = seen
    found = place[n_entries:]
    valid = (found >= 0) & (entry_group[np.maximum(found, 0)] == query_group)
    return np.where(valid, found, -1).astype(np.int64)
