"""Joint states of a set of nodes, and the jumps that leave each."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from asterism.numerics.arrays import IntArray
from asterism.numerics.compiled import CompiledGraph


class JointStates(NamedTuple):
    """Joint states and jumps of a set of nodes."""

    sizes: IntArray
    stride: IntArray
    digit: IntArray
    slot: IntArray
    """(J, per_row) node that jumps."""
    target: IntArray
    """(J, per_row) state it enters."""
    column: IntArray


def joint_states(graph: CompiledGraph, nodes: tuple[int, ...]) -> JointStates:
    """All joint states of the nodes in C order, and the jumps that leave each."""
    return _joint_states_of(tuple(graph.n_states[list(nodes)].tolist()))


@lru_cache(maxsize=256)
def _joint_states_of(n_states: tuple[int, ...]) -> JointStates:
    sizes = np.array(n_states, dtype=np.int64)
    stride = np.array([np.prod(sizes[i + 1 :]) for i in range(len(sizes))], dtype=np.int64)
    joint = np.arange(int(np.prod(sizes)))
    digit = (joint[:, None] // stride) % sizes
    slot, target = [], []
    for i, size in enumerate(sizes):
        for rank in range(int(size) - 1):
            slot.append(np.full(len(joint), i))
            target.append(rank + (rank >= digit[:, i]))
    slots, targets = np.array(slot).T, np.array(target).T
    moved = targets - np.take_along_axis(digit, slots, axis=1)
    return JointStates(sizes, stride, digit, slots, targets, joint[:, None] + moved * stride[slots])
