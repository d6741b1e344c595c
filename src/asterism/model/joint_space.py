"""The network as one large Markov chain over all combinations of node states.

Joint states are numbered in C order: the last node varies fastest. Only one node jumps at a time,
so a row of the generator has at most Σ (S_n − 1) off-diagonal entries and is stored sparsely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.errors import Setting, TooLargeError
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


#: joint states above which the generator (about 60 MB for 18 nodes of two states) is refused unless
#: the caller asks for more
JOINT_LIMIT = 2**18


def require_joint_fits(n_joint: int, limit: int) -> None:
    """Refuse a joint space that is too large, before anything is allocated."""
    if n_joint > limit:
        shown = f"{n_joint:,}" if n_joint < 10**15 else f"about 10^{int(math.log10(n_joint))}"
        raise TooLargeError(
            f"The joint chain has {shown} states, more than the limit of {limit:,}; use ",
            Setting("method", "star"),
            ", which never builds it.",
        )


def joint_states(n_states: Sequence[int]) -> IntArray:
    """(n_joint, N) state number of every node in every joint state."""
    grids = np.indices(tuple(n_states), dtype=np.int64)
    return np.ascontiguousarray(grids.reshape(len(n_states), -1).T)


def joint_generator(
    n_states: Sequence[int],
    parents: Sequence[Sequence[int]],
    rates: Sequence[Any],
) -> csr_matrix:
    """Sparse generator; ``rates[n]`` is a full table, a SummaryRates, or None (never jumps)."""
    from scipy.sparse import coo_matrix

    n_joint = math.prod(n_states)
    joint = np.arange(n_joint, dtype=np.int64)
    strides = [math.prod(n_states[n + 1 :]) for n in range(len(n_states))]
    digits = [(joint // strides[n]) % n_states[n] for n in range(len(n_states))]
    rows: list[IntArray] = []
    columns: list[IntArray] = []
    values: list[FloatArray] = []
    diagonal = np.zeros(n_joint)
    for n, table in enumerate(rates):
        if table is None:
            continue
        own = digits[n]
        above = [digits[m] for m in parents[n]]
        if isinstance(table, SummaryRates):
            from_here = table.table[np.broadcast_to(table.block_of(above), own.shape), own]
        else:
            from_here = table[(*above, own)]
        for target in range(n_states[n]):
            rate = from_here[:, target]
            jumps = (own != target) & (rate > 0.0)
            rows.append(joint[jumps])
            columns.append(joint[jumps] + (target - own[jumps]) * strides[n])
            values.append(rate[jumps])
            diagonal -= np.where(jumps, rate, 0.0)
    rows.append(joint)
    columns.append(joint)
    values.append(diagonal)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    generator = coo_matrix(entries, shape=(n_joint, n_joint)).tocsr()
    generator.sort_indices()
    return generator
