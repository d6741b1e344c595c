"""Owns :class:`Observations`: everything that was measured, as the user wrote it.

Different nodes may be measured at different times, several times at once, or never. Times have
the user's unit; states and values the user's labels. A network and an emission turn
observations into evidence (``evidence/build.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from asterism.data.columns import Problem
from asterism.data.given_likelihoods import read_likelihoods
from asterism.data.known_paths import TimeLimit
from asterism.data.measurements import Events, Intervals, NodeMeasurements, objects
from asterism.data.read_table import TableFormat, read_frames
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """Measurements, events and intervals of one or more trajectories."""

    trajectories: tuple[object, ...]
    """Names of the trajectories."""
    start: FloatArray
    end: FloatArray
    """(D,) the time each trajectory was followed."""
    measurements: dict[str, NodeMeasurements]
    events: Events
    intervals: Intervals
    ties: str = "error"
    """Related nodes that jump at one recorded time: "error", or "order" = in the order of rows."""

    # ------------------------------------------------------------------ construction
    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame | None = None,
        start: TimeLimit = None,
        end: TimeLimit = None,
        events: pd.DataFrame | None = None,
        intervals: pd.DataFrame | None = None,
        exact: Any = None,
        *,
        kind: str = "auto",
        trajectory: str = "trajectory",
        time: str = "time",
        node: str = "node",
        value: str = "value",
        nodes: Sequence[str] | None = None,
        labels: Collection[str] | bool = (),
        sort: bool = False,
        ties: str = "error",
    ) -> Observations:
        """Read a wide table (trajectory, time, one column per node) or a long one.

        A long table has the columns trajectory, time, node and value, or one column
        ``p_<state>`` per state instead of value. ``events`` has trajectory, time, node, to and
        optionally from; ``intervals`` trajectory, node, start, end, state. ``exact`` marks rows
        that report the state itself: the name of a boolean column, a mask, or "first".
        ``labels`` lists columns whose cells are names even if they look like numbers.
        """
        form = TableFormat(kind, trajectory, time, node, value, nodes, labels, exact, sort)
        parts, problems = read_frames(frame, form, (start, end), events, intervals, ties)
        problems.raise_errors()
        problems.warn()
        assert parts is not None
        return cls(*parts, ties)

    @classmethod
    def check_frame(
        cls,
        frame: pd.DataFrame | None = None,
        start: TimeLimit = None,
        end: TimeLimit = None,
        events: pd.DataFrame | None = None,
        intervals: pd.DataFrame | None = None,
        **options: Any,
    ) -> tuple[Observations | None, list[Problem]]:
        """As :meth:`from_frame`, but returns every problem instead of raising on errors."""
        ties = options.pop("ties", "error")
        form = TableFormat(**options)
        parts, problems = read_frames(frame, form, (start, end), events, intervals, ties)
        return None if parts is None else cls(*parts, ties), problems.found

    @classmethod
    def from_likelihoods(
        cls,
        times: Sequence[ArrayLike],
        likelihoods: Sequence[Mapping[str, ArrayLike]],
        start: TimeLimit = None,
        end: TimeLimit = None,
        *,
        trajectories: Sequence[object] | None = None,
        states: Mapping[str, Sequence[object]] | None = None,
    ) -> Observations:
        """Measurements given as P(y | state), one (I, S) array per trajectory and node.

        ``times[d]`` holds the I times of trajectory d. A row of nan is not measured. Columns
        follow the order of the network's states unless ``states`` names them.
        """
        return cls(*read_likelihoods(times, likelihoods, (start, end), trajectories, states))

    @classmethod
    def from_trajectories(
        cls, paths: Trajectories, nodes: Iterable[str] | None = None
    ) -> Observations:
        """Paths known throughout, as intervals and events of the given nodes (default: all)."""
        from asterism.data.full_paths import path_events, path_intervals

        wanted = tuple(paths.nodes if nodes is None else nodes)
        unknown = [n for n in wanted if n not in paths.nodes]
        if unknown:
            raise DataError(f"the paths have no node {unknown[0]!r}; they have {paths.nodes}")
        return cls(
            tuple(paths.labels),
            paths.start.copy(),
            paths.end.copy(),
            {},
            path_events(paths, wanted),
            path_intervals(paths, wanted),
        )

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> Observations:
        """Read a table and its side files; ``options`` are those of :meth:`from_frame`."""
        from asterism.data.csv_files import read_observations

        return read_observations(path, **options)

    # ------------------------------------------------------------------ views
    @property
    def nodes(self) -> tuple[str, ...]:
        """Measured nodes in the order of the table, then those of events and intervals only."""
        extra = [*self.events.node, *self.intervals.node]
        return tuple(dict.fromkeys([*self.measurements, *extra]))

    @property
    def n_trajectories(self) -> int:
        return len(self.trajectories)

    @property
    def n_measurements(self) -> int:
        return sum(len(m) for m in self.measurements.values())

    def to_frame(self, kind: str = "wide") -> pd.DataFrame:
        """The measurements as a wide or a long table."""
        from asterism.data.frames import long_frame, wide_frame

        if kind not in ("wide", "long"):
            raise DataError(f"kind={kind!r} is unknown; use 'wide' or 'long'")
        return wide_frame(self) if kind == "wide" else long_frame(self)

    def events_frame(self) -> pd.DataFrame:
        """The events: trajectory, time, node, to, from."""
        from asterism.data.frames import events_frame

        return events_frame(self)

    def intervals_frame(self) -> pd.DataFrame:
        """The intervals: trajectory, node, start, end, state."""
        from asterism.data.frames import intervals_frame

        return intervals_frame(self)

    def to_csv(self, path: str | Path, kind: str = "wide") -> None:
        """Write the table, and beside it start, end, events and intervals."""
        from asterism.data.csv_files import write_observations

        write_observations(self, path, kind)

    def describe(self) -> pd.DataFrame:
        """Per node: points, share of missing cells, time span and typical gap."""
        from asterism.data.frames import describe

        return describe(self)

    def __repr__(self) -> str:
        parts = [f"{self.n_measurements} measurements"]
        if len(self.events):
            parts.append(f"{len(self.events)} events")
        if len(self.intervals):
            parts.append(f"{len(self.intervals)} intervals")
        shown = ", ".join(self.nodes[:6]) + (", …" if len(self.nodes) > 6 else "")
        span = ""
        if self.n_trajectories:
            span = f", time {self.start.min():g} to {self.end.max():g}"
        return (
            f"<Observations: {self.n_trajectories} trajectories, {len(self.nodes)} nodes "
            f"({shown}), {', '.join(parts)}{span}>"
        )

    # ------------------------------------------------------------------ derived observations
    def select(self, trajectories: Iterable[object]) -> Observations:
        """Only some trajectories, by name, in the given order."""
        wanted = list(trajectories)
        position = {name: i for i, name in enumerate(self.trajectories)}
        for name in wanted:
            if name not in position:
                raise DataError(
                    f"there is no trajectory {name!r}; the first ones are "
                    f"{list(self.trajectories[:5])}"
                )
        if len(set(wanted)) != len(wanted):
            raise DataError("a trajectory was selected twice")
        index = np.array([position[name] for name in wanted], dtype=np.int64)
        new = np.full(self.n_trajectories, -1, dtype=np.int64)
        new[index] = np.arange(len(index))
        events, intervals = self.events, self.intervals
        e, i = new[events.trajectory] >= 0, new[intervals.trajectory] >= 0
        return replace(
            self,
            trajectories=tuple(wanted),
            start=self.start[index],
            end=self.end[index],
            measurements={n: _renumbered(m, new) for n, m in self.measurements.items()},
            events=Events(
                new[events.trajectory[e]],
                events.time[e],
                events.node[e],
                events.to[e],
                events.previous[e],
                events.row[e],
            ),
            intervals=Intervals(
                new[intervals.trajectory[i]],
                intervals.node[i],
                intervals.start[i],
                intervals.end[i],
                intervals.state[i],
                intervals.row[i],
            ),
        )

    def rename(self, nodes: Mapping[str, str]) -> Observations:
        """Other names for some nodes."""
        new = [nodes.get(n, n) for n in self.nodes]
        if len(set(new)) != len(new):
            raise DataError("renaming would give two nodes the same name")
        return replace(
            self,
            measurements={nodes.get(n, n): m for n, m in self.measurements.items()},
            events=replace(self.events, node=objects(nodes.get(n, n) for n in self.events.node)),
            intervals=replace(
                self.intervals, node=objects(nodes.get(n, n) for n in self.intervals.node)
            ),
        )

    def scale_time(self, factor: float) -> Observations:
        """The same observations with all times multiplied, e.g. 60 for minutes from hours."""
        if not (np.isfinite(factor) and factor > 0):
            raise DataError(f"time can only be scaled by a positive number, not {factor!r}")
        return replace(
            self,
            start=self.start * factor,
            end=self.end * factor,
            measurements={
                n: replace(m, time=m.time * factor) for n, m in self.measurements.items()
            },
            events=replace(self.events, time=self.events.time * factor),
            intervals=replace(
                self.intervals,
                start=self.intervals.start * factor,
                end=self.intervals.end * factor,
            ),
        )


def _renumbered(record: NodeMeasurements, new: NDArray[np.int64]) -> NodeMeasurements:
    number = new[record.trajectory]
    keep = np.flatnonzero(number >= 0)
    keep = keep[np.argsort(number[keep], kind="stable")]
    return record.take(keep, number[keep])
