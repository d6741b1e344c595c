"""Paths from the approximate posterior, for imputation and for pictures of uncertainty.

``kind="marginal"`` draws every node on its own from its averaged chain, conditioned on all data
through the backward message: means over draws reproduce the marginals, transitions and dwell times
of the approximation, but nodes are independent of each other within a draw.

``kind="network"`` lets every node jump at the rate that belongs to the sampled states of its
parents, times ρ(y)/ρ(x), which leads it to what was measured later: dependence between nodes is
kept, marginals are only approximate. Noiseless measurements, recorded jumps and continuous
observation hold in every path of either kind; where sampled parents forbid a jump that such data
require, the averaged rates decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, TooLargeError
from asterism.model.network import Network
from asterism.star._independent_paths import DRAW, ENTERED, NODE, draw_independent, virtual_events
from asterism.star._kept_messages import Messages
from asterism.star._network_paths import draw_network
from asterism.star.batch import Batch
from asterism.star.problem import Parameters
from asterism.timeline.evidence import FloatArray, IntArray

_MOST_EVENTS = 2e9


@dataclass(frozen=True)
class DrawnPaths:
    """Paths of one trajectory."""

    start: IntArray
    """(draws, N) states at the start."""
    time: FloatArray
    record: IntArray
    """Of every jump the draw, the node and the state entered."""


def draw(
    batch: Batch,
    index: int,
    parameters: Parameters,
    messages: Messages,
    n: int,
    kind: str,
    key: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> DrawnPaths:
    """``n`` paths of one trajectory from its messages; the same for the same two-word ``key``."""
    grid = batch.grid
    times = grid.times(index)
    width = grid.width[grid.step_start[index] : grid.step_start[index + 1]]
    summed, busiest = virtual_events(batch.problem, messages, width)
    events = n * (summed if kind == "marginal" else busiest * batch.evidence.n_nodes)
    if events > _MOST_EVENTS:
        raise TooLargeError(
            f"Drawing {n} paths would take {events:.2g} elementary steps, above the limit of "
            f"{_MOST_EVENTS:.2g}, because rates are large for the duration: ask for fewer paths."
        )
    if kind == "marginal":
        found = draw_independent(batch.problem, messages, parameters.initial, times, width, n, key)
    elif kind == "network":
        found = draw_network(
            batch.problem, parameters.rates, messages, parameters.initial, times, width, n, key
        )
    else:
        raise AsterismError(f"kind {kind!r} is not known; valid are marginal, network.")
    return DrawnPaths(*found)


@dataclass
class PathCollector:
    """Gathers the paths of one trajectory after the other."""

    network: Network
    labels: list[object] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    parts: list[DrawnPaths] = field(default_factory=list)

    def add(self, label: object, start: float, end: float, paths: DrawnPaths) -> None:
        """Append all draws of one trajectory."""
        self.labels.append(label)
        self.start.append(start)
        self.end.append(end)
        self.parts.append(paths)

    def trajectories(self) -> Trajectories:
        """All paths, labelled (trajectory, draw)."""
        counts = np.array([len(p.start) for p in self.parts])
        before = np.cumsum(counts) - counts
        path = np.concatenate([b + p.record[:, DRAW] for b, p in zip(before, self.parts)])
        time = np.concatenate([p.time for p in self.parts])
        record = np.concatenate([p.record for p in self.parts])
        # stable: jumps of one node stay in their order even where rounding makes times equal
        order = np.lexsort((time, path))
        return Trajectories(
            nodes=self.network.nodes,
            states={node: tuple(self.network.states[node]) for node in self.network.nodes},
            labels=tuple(
                (label, draw) for label, count in zip(self.labels, counts) for draw in range(count)
            ),
            start=np.repeat(np.array(self.start), counts),
            end=np.repeat(np.array(self.end), counts),
            initial=np.concatenate([p.start for p in self.parts]),
            jump_offset=np.searchsorted(path[order], np.arange(counts.sum() + 1)),
            jump_time=time[order],
            jump_node=np.ascontiguousarray(record[order, NODE]),
            jump_state=np.ascontiguousarray(record[order, ENTERED]),
        )
