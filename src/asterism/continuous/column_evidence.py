"""How well a column alone is described as one node that moves continuously.

Used to decide between jumping and moving: all priors are proper, the evidence is that of all rows
and in the user's units. Decay, stationary variance and noise are fitted, and each costs half the
log of the number of rows, as every fitted number of the jumping models does
(``learning/levels.py``); everything else is summed out. A column without negative values may move
on a logarithmic scale too: the noise of concentrations grows with their level, which levels with
noise of their own would explain better than any process with one noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from asterism.continuous._column import log_likelihood
from asterism.continuous.series import BoolArray, FloatArray, IntArray, Stimulus

#: variance of the effect of a stimulus on the resting level, in variances of the column
_STIMULUS_VARIANCE = 1.0
#: variances of the resting level between trajectories that are tried, in variances of the column
_SHIFT_VARIANCES = (0.1, 0.5)
#: what is added before logarithms are taken, in standard deviations of the column: near zero noise
#: no longer shrinks with the level
_LOG_OFFSET = 0.3
#: where the fit starts: decay per median gap; stationary variance and noise, as parts of all
_STARTS = ((0.3, 1.0, 0.05), (0.05, 1.0, 0.02), (1.5, 0.5, 0.5))
#: bounds of the logs of the three
_LOWEST = np.log([1e-3, 1e-4, 1e-7])
_HIGHEST = np.log([30.0, 100.0, 10.0])


class Column(NamedTuple):
    """The rows of one node in order of trajectory and time, in the user's units."""

    trajectory: IntArray
    time: FloatArray
    value: FloatArray

    @property
    def is_first(self) -> BoolArray:
        """Rows that begin a trajectory."""
        first = np.ones(len(self.time), dtype=np.bool_)
        first[1:] = np.diff(self.trajectory) != 0
        return first


def column_evidence(column: Column, stimuli: Sequence[Stimulus] = ()) -> float:
    """ln evidence of "moves continuously"; with stimuli, hit by each or by none, equally often."""
    sd = float(column.value.std())
    if not sd > 0.0:
        return -np.inf
    plain = _on_one_scale(column, stimuli)
    if column.value.min() < 0.0:
        return plain
    shifted = column.value + _LOG_OFFSET * sd
    logs = _on_one_scale(column._replace(value=np.log(shifted)), stimuli)
    # either scale is as probable beforehand
    return float(np.logaddexp(plain, logs - np.log(shifted).sum()) - np.log(2.0))


def _on_one_scale(column: Column, stimuli: Sequence[Stimulus]) -> float:
    """ln evidence of moving continuously on the scale of the values as they are."""
    sd = float(column.value.std())
    is_first = column.is_first
    gap = np.concatenate([[0.0], np.diff(column.time)])
    gap[is_first] = 0.0
    inside = gap[gap > 0.0]
    unit = float(np.median(inside)) if len(inside) else 1.0
    value = (column.value - column.value.mean()) / sd
    nothing = np.zeros((len(gap), 2))
    scores = [_best(gap / unit, is_first, nothing, value, 0.0)]
    for stimulus in stimuli:
        on = time_on(column, stimulus) / unit
        scores.append(_best(gap / unit, is_first, on, value, _STIMULUS_VARIANCE))
    evidence = float(np.logaddexp.reduce(scores)) - float(np.log(len(scores)))
    if is_first.sum() > 1:
        # a resting level of its own for every trajectory, as a stimulus that is always on gives it
        always = np.stack([gap / unit, np.zeros(len(gap))], axis=1)
        own = [_best(gap / unit, is_first, always, value, rho) for rho in _SHIFT_VARIANCES]
        cost = 0.5 * float(np.log(is_first.sum()))
        evidence = float(np.logaddexp(evidence, max(own) - cost))
    return evidence - 1.5 * float(np.log(len(value))) - len(value) * float(np.log(sd))


def time_on(column: Column, stimulus: Stimulus) -> FloatArray:
    """(n, 2) how long a stimulus was on since the row before, and how long before the row it ended.

    Of several spans within one gap only their total time and the end of the last are kept.
    """
    out = np.zeros((len(column.time), 2))
    later = np.flatnonzero(~column.is_first)
    for d, start, end in zip(stimulus.trajectory, stimulus.start, stimulus.end):
        rows = later[column.trajectory[later] == d]
        a = np.maximum(column.time[rows - 1], start)
        b = np.minimum(column.time[rows], end)
        hit = b > a
        out[rows[hit], 0] += (b - a)[hit]
        out[rows[hit], 1] = (column.time[rows] - b)[hit]
    return out


def _best(
    gap: FloatArray, is_first: BoolArray, on: FloatArray, value: FloatArray, rho: float
) -> float:
    """The largest likelihood over decay, stationary variance and noise."""

    def loss(logs: FloatArray) -> float:
        lam, spread, noise = np.exp(np.clip(logs, _LOWEST, _HIGHEST))
        outside = np.abs(logs - np.clip(logs, _LOWEST, _HIGHEST)).sum()
        fit = log_likelihood(lam, spread, noise, rho, gap, is_first, on, value)
        return float(outside - fit)

    found = [
        minimize(loss, np.log(start), method="Nelder-Mead", options={"xatol": 0.02, "fatol": 0.02})
        for start in _STARTS
    ]
    return -float(min(result.fun for result in found))
