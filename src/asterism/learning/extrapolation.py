"""Fewer iterations of messages and rates: extrapolates each node's rates from two steps.

Near the solution the logarithms of a node's rates approach it geometrically. Two steps in a row
tell by which factor, and hence how far there is to go (Aitken's idea, for the vector of a node's
rates). Every third iteration starts from there; a plain step that follows corrects what the guess
got wrong, so that the solution is the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asterism.inference.evidence import FloatArray, IntArray
from asterism.kernels.arrays import CONFIGURATIONS, STATES, TABLE, Problem

_PERIOD = 3
_FARTHEST = 8.0  # times the last step
_LARGEST_STEP = 1.0  # of a logarithm


class Extrapolation:
    """The last two images of the rates, and where every rate stands in the flat table."""

    def __init__(self, problem: Problem, rates: FloatArray) -> None:
        node = problem.node
        sizes, n_configurations = node[:-1, STATES], node[:-1, CONFIGURATIONS]
        n_entries = n_configurations * sizes**2
        self._node: IntArray = np.repeat(np.arange(len(sizes)), n_entries)
        place = np.arange(len(rates)) - node[self._node, TABLE]
        size = sizes[self._node]
        row, column = place // size, place % size
        self._is_diagonal: NDArray[np.bool_] = row % size == column
        self._diagonal: IntArray = np.arange(len(rates)) - column + row % size
        self._logs: list[FloatArray] = [self._logarithms(rates)]

    def _logarithms(self, rates: FloatArray) -> FloatArray:
        return np.log(np.where(rates > 0.0, rates, 1.0))

    def improve(self, rates: FloatArray, table: FloatArray) -> bool:
        """Called after every update of ``rates``; whether it changed them, every third time."""
        self._logs.append(self._logarithms(rates))
        if len(self._logs) <= _PERIOD:
            return False
        before, last, now = self._logs[-3:]
        step, last_step = now - last, last - before
        change = step - last_step
        n_nodes = int(self._node[-1]) + 1
        along = np.bincount(self._node, weights=change * step, minlength=n_nodes)
        squared = np.bincount(self._node, weights=change * change, minlength=n_nodes)
        ahead = np.divide(-along, squared, out=np.zeros(n_nodes), where=squared > 0.0)
        ahead = np.clip(ahead, 0.0, _FARTHEST)[self._node]
        logs = now + np.clip(ahead * step, -_LARGEST_STEP, _LARGEST_STEP)
        is_rate = (rates > 0.0) & ~self._is_diagonal
        rates[is_rate] = np.exp(logs[is_rate])
        leave = np.bincount(self._diagonal[is_rate], weights=rates[is_rate], minlength=len(rates))
        rates[self._is_diagonal] = -leave[self._is_diagonal]
        if table is not rates:
            table[is_rate] = logs[is_rate]
            table[self._is_diagonal] = rates[self._is_diagonal]
        self._logs = [self._logarithms(rates)]
        return True
