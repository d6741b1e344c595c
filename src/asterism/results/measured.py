"""Measurements beside the course they belong to, and what a measurement looks like in each state.

Used where courses are drawn: on the report page and in figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.columns import encode
from asterism.data.observations import Observations
from asterism.model.network import Network
from asterism.results.courses import Courses

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """The measurements of one node in one trajectory, by time."""

    times: FloatArray
    values: FloatArray
    """Numbers as measured, or state numbers where states were measured."""


@dataclass(frozen=True)
class Levels:
    """Mean and spread of a node's measurements in each of its states."""

    mean: FloatArray
    spread: FloatArray

    def quantile(self, weights: FloatArray, share: float) -> FloatArray:
        """(K,) values below which ``share`` of the measurements fall, given (K, S) probabilities.

        Between two levels the measurements have two humps, and a band of so many standard
        deviations would reach far beyond both.
        """
        from scipy.special import ndtr

        low = np.full(len(weights), float((self.mean - 6 * self.spread).min()))
        high = np.full(len(weights), float((self.mean + 6 * self.spread).max()))
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = (weights * ndtr((middle[:, None] - self.mean) / self.spread)).sum(axis=1)
            low = np.where(below < share, middle, low)
            high = np.where(below < share, high, middle)
        return np.asarray(0.5 * (low + high))


@dataclass(frozen=True)
class Measurements:
    """All measurements, by trajectory label (as text) and node."""

    series: dict[tuple[str, str], Measured]
    nodes_with_states: frozenset[str]
    """Nodes whose measured values are their states' labels."""

    def of(self, trajectory: Any, node: str) -> Measured:
        """Empty where nothing was measured."""
        nothing = np.zeros(0)
        return self.series.get((str(trajectory), node), Measured(nothing, nothing))


def measured_table(observations: Observations) -> pd.DataFrame | None:
    """Measurements as results keep them (trajectory, time, node, value); None if there are none.

    Of likelihoods, the likeliest state counts as measured; where there are two, nothing does.
    """
    if not observations.n_measurements:
        return None
    kept = {}
    for node, record in observations.measurements.items():
        if record.likelihood is not None:
            states = record.states or tuple(map(str, range(record.likelihood.shape[1])))
            likeliest = np.array(states, dtype=object)[record.likelihood.argmax(axis=1)]
            highest = record.likelihood.max(axis=1, keepdims=True)
            tells = (record.likelihood == highest).sum(axis=1) == 1
            record = replace(record, value=likeliest, likelihood=None, states=None)
            record = record.take(np.flatnonzero(tells))
        kept[node] = record
    return replace(observations, measurements=kept).to_frame("long")


def measurements(
    table: pd.DataFrame | None, network: Network, trajectories: Sequence[Any]
) -> Measurements:
    """Read the long table (trajectory, time, node, value); values that are missing are left out."""
    if table is None:
        return Measurements({}, frozenset())
    wanted = {str(label) for label in trajectories}
    trajectory = table["trajectory"].map(str).to_numpy(dtype=object)
    node = table["node"].to_numpy(dtype=object)
    keep = np.array([t in wanted and n in network.states for t, n in zip(trajectory, node)], bool)
    rows = table[keep].assign(trajectory=trajectory[keep])
    found: dict[tuple[str, str], Measured] = {}
    labelled: set[str] = set()
    for name, of_node in rows.groupby("node", sort=False):
        values, are_states = _as_numbers(of_node["value"], network.states[str(name)])
        if are_states:
            labelled.add(str(name))
        times = of_node["time"].to_numpy(dtype=np.float64)
        codes, labels = pd.factorize(of_node["trajectory"].to_numpy(dtype=object))
        order = np.lexsort((times, codes))
        order = order[np.isfinite(values[order])]
        starts = np.searchsorted(codes[order], np.arange(len(labels) + 1))
        for number, label in enumerate(labels):
            own = order[starts[number] : starts[number + 1]]
            found[str(label), str(name)] = Measured(times[own], values[own])
    return Measurements(found, frozenset(labelled))


def levels(seen: Measurements, courses: Courses, node: str, n_states: int) -> Levels | None:
    """What a measurement of the node looks like in each state; None for measured labels.

    Taken from the measurements themselves, each shared out among the states by their posterior
    probabilities, so that it holds whatever the emission was.
    """
    if node in seen.nodes_with_states:
        return None
    column = courses.nodes.index(node)
    values, weights = [], []
    for number, label in enumerate(courses.trajectories):
        own = seen.of(label, node)
        grid, block = courses.of(number, column, n_states)
        if len(own.times) and len(grid):
            values.append(own.values)
            weights.append(
                np.stack([np.interp(own.times, grid, block[:, s]) for s in range(n_states)], axis=1)
            )
    if not values:
        return None
    y, w = np.concatenate(values), np.concatenate(weights)
    total = w.sum(axis=0)
    # a state that was never occupied has no measurements: give it those of all
    share = np.where(total > 1e-6, w / np.maximum(total, 1e-300), 1.0 / len(y))
    mean = share.T @ y
    spread = np.sqrt((share * (y[:, None] - mean) ** 2).sum(axis=0))
    return Levels(mean, np.maximum(spread, 1e-6 + 1e-3 * float(np.ptp(y))))


def _as_numbers(column: pd.Series, states: Sequence[Any]) -> tuple[FloatArray, bool]:
    """Values as numbers, and whether these are state numbers rather than quantities."""
    numbers = encode(column.to_numpy(dtype=object), states)
    if np.all(numbers >= 0):
        return numbers.astype(np.float64), True
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64), False
