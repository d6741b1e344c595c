"""Simulated paths of networks with continuous nodes, and noisy measurements of them.

Paths are kept on a fine, even grid of times; at the grid they are exact for linear networks. A
measurement between two grid points is drawn from the Brownian bridge between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asterism.continuous.network import jumping
from asterism.continuous.series import FloatArray, IntArray
from asterism.continuous.simulate import default_step, simulate
from asterism.data.measurements import objects
from asterism.errors import DataError, ModelError, Setting, TooLargeError
from asterism.model.emissions import Emission
from asterism.model.network import Network

#: grid points of a path at least, for pictures
_LEAST_POINTS = 200
#: numbers (8 bytes each) that a simulation may hold
_MOST_NUMBERS = 200_000_000


@dataclass(frozen=True)
class ContinuousPaths:
    """Paths of all nodes on one grid of times: what ``am.simulate`` gives for continuous nodes."""

    network: Network
    times: FloatArray
    values: FloatArray
    """(D, T, N) in the order of ``network.nodes``; of jumping nodes the numbers of their states."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return self.network.nodes

    @property
    def n_trajectories(self) -> int:
        """How many paths there are."""
        return len(self.values)

    @property
    def labels(self) -> tuple[int, ...]:
        """Names of the trajectories."""
        return tuple(range(self.n_trajectories))

    @property
    def start(self) -> FloatArray:
        """(D,) when each trajectory begins."""
        return np.full(self.n_trajectories, self.times[0])

    @property
    def end(self) -> FloatArray:
        """(D,) when each trajectory ends."""
        return np.full(self.n_trajectories, self.times[-1])

    @property
    def durations(self) -> FloatArray:
        """(D,) end minus start."""
        result: FloatArray = self.end - self.start
        return result

    def to_frame(self) -> pd.DataFrame:
        """A wide table: trajectory, time and one column per node, at the times of the grid."""
        n, length, _ = self.values.shape
        frame = pd.DataFrame(
            {"trajectory": np.repeat(np.arange(n), length), "time": np.tile(self.times, n)}
        )
        for i, node in enumerate(self.nodes):
            frame[node] = self._labelled(node, self.values[:, :, i].ravel())
        return frame

    def _labelled(self, node: str, values: FloatArray | IntArray) -> Any:
        if node in self.network.drifts:
            return values
        states = self.network.states[node]
        return objects(states[int(s)] for s in values)

    def measured(
        self,
        node: str,
        trajectory: IntArray,
        time: FloatArray,
        rng: np.random.Generator,
        emission: Emission | None = None,
    ) -> Any:
        """Noisy values of one node; of a jumping one its states, or what an emission gives."""
        path = self.values[:, :, self.nodes.index(node)]
        if node not in self.network.drifts:
            place = np.searchsorted(self.times, time, side="right") - 1
            states = path[trajectory, place].astype(np.int64)
            if emission is None:
                return self._labelled(node, states)
            return np.asarray(emission.sample(states, rng, self.network.states[node]))
        drift = self.network.drifts[node]
        after = np.clip(np.searchsorted(self.times, time), 1, len(self.times) - 1)
        step = self.times[after] - self.times[after - 1]
        share = np.clip((time - self.times[after - 1]) / step, 0.0, 1.0)
        middle = (1.0 - share) * path[trajectory, after - 1] + share * path[trajectory, after]
        bridge = drift.diffusion * np.sqrt(step * share * (1.0 - share))
        return middle + np.hypot(bridge, drift.noise_sd) * rng.normal(size=len(time))


def simulate_paths(
    net: Network, n_trajectories: int, duration: float | None, seed: Any
) -> ContinuousPaths:
    """Draw paths of a network with continuous nodes from time 0 until ``duration``."""
    if duration is None or not duration > 0.0:
        raise DataError("Continuous nodes are simulated for a ", Setting("duration"), " above 0.")
    n_points = max(_LEAST_POINTS, int(np.ceil(duration / default_step(net)))) + 1
    size = float(n_points) * n_trajectories * len(net.nodes)
    if size > _MOST_NUMBERS:
        raise TooLargeError(
            f"The paths would hold {size:.3g} numbers, above the limit of {_MOST_NUMBERS:,}: ask "
            "for a shorter duration or fewer trajectories."
        )
    times = np.linspace(0.0, duration, n_points)
    drawn = np.random.default_rng(seed).integers(2**31)
    with np.errstate(over="ignore", invalid="ignore"):
        values = simulate(net, times, n_trajectories, int(drawn))
    if not np.isfinite(values).all():
        raise ModelError(
            "The paths grow beyond all bounds: some nodes raise each other more than they decay."
        )
    drawn_nodes = [*net.drifts, *jumping(net)]
    order = [drawn_nodes.index(node) for node in net.nodes]
    return ContinuousPaths(net, times, values[:, :, order])
