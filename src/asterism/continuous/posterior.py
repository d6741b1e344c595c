"""Inference in networks with continuous nodes: by Kalman smoothing, or by sampling.

Linear networks whose nodes are all continuous have an exact answer; others are sampled
(``mixed.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray
from numpy.typing import ArrayLike

from asterism.continuous.kalman import SmoothedPath, smooth
from asterism.continuous.marginals import OverTime
from asterism.continuous.mixed import MixedPosterior, solve_mixed
from asterism.continuous.network import is_linear
from asterism.continuous.series import FloatArray
from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError, first_few
from asterism.model.network import Network


class ContinuousPosterior(OverTime):
    """Evidence, and mean and standard deviation of every node over time, given the data."""

    method = "exact"
    converged = True
    stop_reason = "The network is linear and all its nodes are continuous: the answer is exact."

    def __init__(self, network: Network, observations: Observations) -> None:
        super().__init__(network, observations)
        self.log_evidence_by_trajectory = pd.Series(
            [self._smoothed(d).log_evidence for d in range(observations.n_trajectories)],
            index=pd.Index(list(observations.trajectories), name="trajectory"),
            name="log_evidence",
        )
        self.log_evidence = float(self.log_evidence_by_trajectory.sum())

    def marginals(self, times: ArrayLike | None = None) -> xarray.DataArray:
        """(trajectory, time, node, quantity): "mean" and "sd" of every node.

        ``times``: any from a trajectory's start on, also past its end (a forecast). By default 101
        from the earliest start to the latest end.
        """
        data, clock = self.observations, self._clock(times)
        if (clock[:, None] < data.start).any():
            raise DataError("Times before the start of a trajectory were asked for.")
        values = np.empty((data.n_trajectories, len(clock), len(self.network.nodes), 2))
        for d in range(data.n_trajectories):
            found = self._smoothed(d, clock)
            place = np.searchsorted(found.times, clock, side="right") - 1
            values[d, :, :, 0] = found.mean[place]
            spread = np.diagonal(found.covariance[place], axis1=1, axis2=2)
            values[d, :, :, 1] = np.sqrt(np.maximum(spread, 0.0))
        table = self._table(values, clock, self.network.nodes, quantity=["mean", "sd"])
        return table.rename("value")

    def _smoothed(self, d: int, more: FloatArray | None = None) -> SmoothedPath:
        """One trajectory; several measurements of a node at one time get rows of their own."""
        times, rows = [np.array([self.observations.start[d]])], []
        for n, node in enumerate(self.network.nodes):
            record = self.observations.measurements.get(node)
            if record is None:
                continue
            own = np.flatnonzero(record.trajectory == d)
            at = record.time[own]
            again = np.array([int((at[:i] == t).sum()) for i, t in enumerate(at)], dtype=np.int64)
            rows += [(t, k, n, float(record.value[i])) for t, k, i in zip(at, again, own)]
            times.append(at)
        asked = [] if more is None else [more]
        keys = {(float(t), 0) for t in np.concatenate([*times, *asked])}
        keys |= {(float(t), int(k)) for t, k, _, _ in rows}
        place = {key: i for i, key in enumerate(sorted(keys))}
        values = np.full((len(place), len(self.network.nodes)), np.nan)
        for t, k, n, value in rows:
            values[place[float(t), int(k)], n] = value
        return smooth(self.network, np.array([t for t, _ in place]), values)

    def __repr__(self) -> str:
        return f"ContinuousPosterior: log evidence {self.log_evidence:.6g}, exact"


def solve(
    network: Network, observations: Any, emission: Any, method: str, **options: Any
) -> ContinuousPosterior | MixedPosterior:
    """The posterior; called by ``am.infer``."""
    if not isinstance(observations, Observations):
        raise DataError("Continuous nodes are inferred from measurements: give Observations.")
    if network.exogenous:
        raise ModelError(
            f"Node {first_few(sorted(network.exogenous))} is exogenous: its path cannot be told "
            "beside continuous nodes; give it rates."
        )
    unknown = [n for n in observations.nodes if n not in network.nodes]
    if unknown:
        raise DataError(f"The data have node {unknown[0]!r}, which the network does not have.")
    for what in ("events", "intervals", "interventions"):
        if len(getattr(observations, what)):
            raise DataError(f"The data have {what}; continuous nodes have only measurements.")
    for node, record in observations.measurements.items():
        if node in network.drifts and (record.likelihood is not None or record.holds_labels):
            raise DataError(f"Node {node!r} moves continuously, but its values are no numbers.")
    if is_linear(network):
        return ContinuousPosterior(network, observations)
    if method not in ("star", "sample"):  # the first is what infer takes without being asked
        raise ModelError(
            f"Method {method!r} is for nodes that jump; networks of both kinds, or with quadratic "
            "weights, are inferred by 'sample'."
        )
    return solve_mixed(network, observations, emission, **options)
