"""What posteriors of networks with continuous nodes share: tables of numbers over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from asterism.continuous.series import FloatArray
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.model.network import Network

#: times of a table of marginals where none are asked for
_EVEN_TIMES = 101


class OverTime:
    """A network and data, and tables (trajectory, time, node, quantity) about them."""

    def __init__(self, network: Network, observations: Observations) -> None:
        self.network, self.observations = network, observations

    def _clock(self, times: ArrayLike | None) -> FloatArray:
        """By default 101 times from the earliest start to the latest end."""
        data = self.observations
        if times is None:
            return np.linspace(data.start.min(), data.end.max(), _EVEN_TIMES)
        clock = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if clock.ndim != 1 or not np.isfinite(clock).all():
            raise DataError("times must be a list of finite numbers.")
        return clock

    def _table(
        self, values: FloatArray, clock: FloatArray, nodes: Sequence[str], **last: Any
    ) -> xarray.DataArray:
        labels = list(map(str, self.observations.trajectories))
        return xarray.DataArray(
            values,
            dims=("trajectory", "time", "node", *last),
            coords={"trajectory": labels, "time": clock, "node": list(nodes), **last},
        )
