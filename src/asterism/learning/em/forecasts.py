"""Owns tables of states that a fitted network implies for data: at measured times, and later on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.inference.posterior import Posterior
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray


def most_likely_when_measured(
    network: Network, posterior: Posterior, observations: Observations
) -> pd.DataFrame:
    """trajectory, time, and each node's most probable state whenever anything was measured."""
    parts = []
    for d, label in enumerate(observations.trajectories):
        clock = _measured_times(observations, d)
        columns: dict[str, Any] = {"trajectory": [label] * len(clock), "time": clock}
        for node, p in zip(network.nodes, posterior.courses.marginals(d, clock)):
            labels = network.states[node]
            columns[node] = [labels[i] for i in p.argmax(axis=1)]
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _measured_times(observations: Observations, trajectory: int) -> FloatArray:
    """All times of one trajectory at which anything is known, ascending."""
    events, intervals = observations.events, observations.intervals
    times = [m.time[m.trajectory == trajectory] for m in observations.measurements.values()]
    times.append(events.time[events.trajectory == trajectory])
    mine = intervals.trajectory == trajectory
    times += [intervals.start[mine], intervals.end[mine]]
    result: FloatArray = np.unique(np.concatenate(times))
    return result


def forecast_table(
    network: Network, posterior: Posterior, observations: Observations, horizons: Any
) -> pd.DataFrame:
    """trajectory, horizon, time, node, state, probability, from each trajectory's end on."""
    ahead = np.atleast_1d(np.asarray(horizons, dtype=np.float64))
    if ahead.ndim != 1 or not np.isfinite(ahead).all() or (ahead < 0.0).any():
        raise DataError("horizons must be finite numbers that are not negative.")
    rows: list[tuple[Any, ...]] = []
    for d, label in enumerate(observations.trajectories):
        clock = observations.end[d] + ahead
        for node, p in zip(network.nodes, posterior.courses.marginals(d, clock)):
            for k, (h, t) in enumerate(zip(ahead, clock)):
                rows += [
                    (label, h, t, node, s, float(v)) for s, v in zip(network.states[node], p[k])
                ]
    names = ["trajectory", "horizon", "time", "node", "state", "probability"]
    return pd.DataFrame(rows, columns=names)
