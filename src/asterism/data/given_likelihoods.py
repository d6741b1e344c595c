"""Owns measurements that arrive as likelihoods: arrays of P(y | state) instead of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asterism.data.measurements import NodeMeasurements, objects
from asterism.data.tables import check_likelihoods
from asterism.data.validate import Problems
from asterism.errors import DataError

FloatArray = NDArray[np.float64]


def likelihood_record(
    node: str,
    names: Sequence[object],
    clock: Sequence[FloatArray],
    likelihoods: Sequence[Mapping[str, ArrayLike]],
    states: Sequence[object] | None,
    problems: Problems,
) -> NodeMeasurements:
    """All rows of one node; a row of nan is not measured."""
    trajectory, time, blocks = [], [], []
    for d, table in enumerate(likelihoods):
        if node not in table:
            continue
        block = np.asarray(table[node], dtype=np.float64)
        if block.ndim != 2 or len(block) != len(clock[d]):
            raise DataError(
                f"trajectory {names[d]!r}, node {node!r}: the likelihoods have shape {block.shape} "
                f"but there are {len(clock[d])} times; give one row per time, one column per state"
            )
        keep = ~np.isnan(block).all(axis=1)
        trajectory.append(np.full(int(keep.sum()), d, dtype=np.int64))
        time.append(clock[d][keep])
        blocks.append(block[keep])
    width = {b.shape[1] for b in blocks} | ({len(states)} if states is not None else set())
    if len(width) != 1:
        raise DataError(
            f"node {node!r}: the likelihoods have {sorted(width)} states; make them agree"
        )
    number, matrix = np.concatenate(trajectory), np.concatenate(blocks)
    check_likelihoods(
        node,
        matrix,
        np.arange(len(number), dtype=np.int64),
        objects(names[int(d)] for d in number),
        problems,
    )
    return NodeMeasurements(
        number,
        np.concatenate(time),
        np.full(len(number), np.nan),
        np.zeros(len(number), dtype=np.bool_),
        np.arange(len(number), dtype=np.int64),
        likelihood=matrix,
        states=None if states is None else tuple(states),
    )
