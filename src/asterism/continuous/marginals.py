"""What posteriors of networks with continuous nodes share: tables of numbers over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray
from numpy.typing import ArrayLike

from asterism.continuous.series import FloatArray
from asterism.data.observations import Observations
from asterism.inference.posterior import clock_of
from asterism.model.network import Network


class OverTime:
    """A network and data, and tables (trajectory, time, node, quantity) about them."""

    def __init__(self, network: Network, observations: Observations) -> None:
        self.network, self.observations = network, observations

    def _clock(self, times: ArrayLike | None) -> FloatArray:
        return clock_of(times, self.observations.start, self.observations.end)

    def _table(
        self, values: FloatArray, clock: FloatArray, nodes: Sequence[str], **last: Any
    ) -> xarray.DataArray:
        labels = list(map(str, self.observations.trajectories))
        return xarray.DataArray(
            values,
            dims=("trajectory", "time", "node", *last),
            coords={"trajectory": labels, "time": clock, "node": list(nodes), **last},
        )
