"""What was measured of every node, standardised and laid out on one grid of times.

A continuous node has its own sorted measurement times; two measurements in a row of one trajectory
bound a *gap*. The *grid* holds all times at which any node was measured, trajectory by trajectory;
between two of them parents count as constant. Values are divided by the standard deviation of their
column and times by the median gap; ``Scale`` undoes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.interventions import known_targets
from asterism.errors import DataError

if TYPE_CHECKING:
    from asterism.data.observations import Observations

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class NodeSeries:
    """Measurements of one node: at most one per trajectory and time, sorted."""

    trajectory: IntArray
    time: FloatArray
    value: FloatArray
    """Standardised values, or numbers of states where ``states`` is given."""
    mean: float = 0.0
    sd: float = 1.0
    """``value`` × sd + mean is what the user wrote."""
    states: tuple[object, ...] | None = None
    """Labels of a node that jumps; None for a continuous node."""
    grid: IntArray | None = None
    """Position of each measurement on the grid."""

    @property
    def is_continuous(self) -> bool:
        """Whether the node moves continuously."""
        return self.states is None


@dataclass(frozen=True)
class Stimulus:
    """Spans during which something from outside acts."""

    name: str
    trajectory: IntArray
    start: FloatArray
    end: FloatArray
    targets: frozenset[str] | None = None
    """The nodes that it hits; None: that is learned."""


@dataclass(frozen=True)
class Series:
    """All nodes of a data set on one grid of times; times in units of ``time_unit``."""

    names: tuple[str, ...]
    nodes: tuple[NodeSeries, ...]
    grid_trajectory: IntArray
    grid_time: FloatArray
    time_unit: float
    n_trajectories: int
    trajectories: tuple[object, ...]
    stimuli: tuple[Stimulus, ...] = ()

    @property
    def continuous(self) -> list[int]:
        """Numbers of the continuous nodes."""
        return [i for i, node in enumerate(self.nodes) if node.is_continuous]

    @property
    def content(self) -> list[Any]:
        """All numbers in the data, to tell them from other data."""
        found: list[Any] = [self.grid_trajectory, self.grid_time, np.array(self.time_unit)]
        for node in self.nodes:
            found += [node.trajectory, node.time, node.value, np.array([node.mean, node.sd])]
            found.append(np.frombuffer(repr(node.states).encode(), np.uint8))
        for s in self.stimuli:
            found += [np.frombuffer(s.name.encode(), np.uint8), s.trajectory, s.start, s.end]
            if s.targets is not None:
                found.append(np.frombuffer(repr(sorted(s.targets)).encode(), np.uint8))
        return found

    def with_stimuli(self, stimuli: Sequence[Stimulus]) -> Series:
        """The same data with other stimuli, whose times are in the user's units."""
        scaled = tuple(
            replace(s, start=s.start / self.time_unit, end=s.end / self.time_unit) for s in stimuli
        )
        return replace(self, stimuli=scaled)

    def select(self, trajectories: Sequence[int] | IntArray) -> Series:
        """Some trajectories only, by number; the scale of values and times stays."""
        kept = np.asarray(trajectories, dtype=np.int64)
        new = np.full(self.n_trajectories, -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        nodes = []
        for node in self.nodes:
            inside = new[node.trajectory] >= 0
            order = np.argsort(new[node.trajectory[inside]], kind="stable")
            nodes.append(
                replace(
                    node,
                    trajectory=new[node.trajectory[inside]][order],
                    time=node.time[inside][order],
                    value=node.value[inside][order],
                )
            )
        stimuli = []
        for s in self.stimuli:
            inside = new[s.trajectory] >= 0
            stimuli.append(
                replace(
                    s,
                    trajectory=new[s.trajectory[inside]],
                    start=s.start[inside],
                    end=s.end[inside],
                )
            )
        labels = tuple(self.trajectories[i] for i in kept)
        return _on_one_grid(self.names, nodes, self.time_unit, labels, tuple(stimuli))


def series_from_observations(
    observations: Observations, continuous: Sequence[str] | None = None
) -> Series:
    """The measurements of all nodes; ``continuous`` names those that move continuously.

    By default these are all columns of numbers. Other nodes jump: their labels, or the rounded
    numbers that were measured, count as their states.
    """
    raw: dict[str, tuple[IntArray, FloatArray, NDArray[Any]]] = {}
    for name, record in observations.measurements.items():
        if record.likelihood is not None:
            raise DataError(f"Node {name!r} is given by likelihoods: it cannot be continuous.")
        raw[str(name)] = (record.trajectory, record.time, record.value)
    if continuous is None:
        continuous = [n for n, (_, _, value) in raw.items() if value.dtype != object]
    return _make_series(raw, set(continuous), observations.trajectories)


def stimuli_from_frame(frame: pd.DataFrame, trajectories: Sequence[object]) -> list[Stimulus]:
    """name, trajectory, start, end: an empty trajectory means all of them."""
    number = {label: i for i, label in enumerate(trajectories)}
    known = known_targets(frame)
    found: dict[str, list[tuple[int, float, float]]] = {}
    for name, label, start, end in zip(
        frame["name"], frame["trajectory"], frame["start"], frame["end"]
    ):
        if not pd.isna(label) and label not in number:
            raise DataError(f"Stimulus {name!r} names trajectory {label!r}, which has no data.")
        start = -np.inf if pd.isna(start) else float(start)
        end = np.inf if pd.isna(end) else float(end)
        if not end > start:
            raise DataError(f"Stimulus {name!r} ends at {end:g}, not after its start {start:g}.")
        hit = range(len(number)) if pd.isna(label) else [number[label]]
        found.setdefault(str(name), []).extend((d, start, end) for d in hit)
    stimuli = []
    for name, spans in found.items():
        targets = frozenset(known[name]) if name in known else None
        # a stimulus has a row for each of its known targets
        d, start, end = (np.array(x) for x in zip(*dict.fromkeys(spans)))
        times = start.astype(np.float64), end.astype(np.float64)
        stimuli.append(Stimulus(name, d.astype(np.int64), *times, targets))
    return stimuli


def _make_series(
    raw: Mapping[str, tuple[IntArray, FloatArray, NDArray[Any]]],
    continuous: set[str],
    trajectories: Sequence[object],
) -> Series:
    nodes: list[NodeSeries] = []
    for name, (d, t, value) in raw.items():
        if name in continuous:
            number = value.astype(np.float64)
            mean = float(number.mean()) if len(number) else 0.0
            sd = float(number.std()) if len(number) else 0.0
            if not sd > 1e-12 * max(1.0, abs(mean)):
                sd = 1.0  # a constant column: it has no scale of its own
            d, t, number = _without_replicates(d, t, (number - mean) / sd)
            nodes.append(NodeSeries(d, t, number, mean, sd))
        else:
            codes, labels = pd.factorize(value, sort=True)
            _, last = np.unique(np.stack([d, t]), axis=1, return_index=True)
            order = last[np.lexsort((t[last], d[last]))]
            nodes.append(
                NodeSeries(d[order], t[order], codes[order].astype(float), states=tuple(labels))
            )
    gaps = [np.diff(n.time)[np.diff(n.trajectory) == 0] for n in nodes if n.is_continuous]
    every = np.concatenate(gaps) if gaps else np.empty(0)
    if len(every) == 0:
        raise DataError("No continuous node was measured twice in one trajectory.")
    unit = float(np.median(every))
    scaled = [replace(n, time=n.time / unit) for n in nodes]
    return _on_one_grid(tuple(raw), scaled, unit, tuple(trajectories))


def _without_replicates(
    d: IntArray, t: FloatArray, value: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Sorted by trajectory and time; several measurements of one time become their mean."""
    order = np.lexsort((t, d))
    d, t, value = d[order], t[order], value[order]
    new = np.ones(len(d), dtype=np.bool_)
    new[1:] = (np.diff(d) != 0) | (np.diff(t) != 0)
    group = np.cumsum(new) - 1
    mean = np.bincount(group, value) / np.bincount(group) if len(d) else value
    return d[new], t[new], mean


def _on_one_grid(
    names: tuple[str, ...],
    nodes: Sequence[NodeSeries],
    unit: float,
    trajectories: tuple[object, ...],
    stimuli: tuple[Stimulus, ...] = (),
) -> Series:
    d = np.concatenate([n.trajectory for n in nodes])
    t = np.concatenate([n.time for n in nodes])
    order = np.lexsort((t, d))
    new = np.ones(len(d), dtype=np.bool_)
    new[1:] = (np.diff(d[order]) != 0) | (np.diff(t[order]) != 0)
    place = np.empty(len(d), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    bounds = np.cumsum([0, *(len(n.time) for n in nodes)])
    placed = tuple(replace(n, grid=place[a:b]) for n, a, b in zip(nodes, bounds[:-1], bounds[1:]))
    first = order[new]
    return Series(names, placed, d[first], t[first], unit, len(trajectories), trajectories, stimuli)
