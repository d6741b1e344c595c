"""Owns :class:`Observations`: everything that was measured, as the user wrote it.

Different nodes may be measured at different times, several times at once, or never. Times have
the user's unit; states and values the user's labels. A network and an emission turn
observations into evidence (``timeline/build.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from asterism.data import interventions as set_by_hand
from asterism.data import measurements as tables
from asterism.data.columns import as_pandas, without_columns
from asterism.data.covariates import Covariates, read_covariates, values_at
from asterism.data.given_likelihoods import read_likelihoods
from asterism.data.known_paths import TimeBound
from asterism.data.labels import canonical, positions
from asterism.data.measurements import (
    Events,
    Intervals,
    NodeMeasurements,
    no_intervals,
    objects,
    wide_keys,
)
from asterism.data.panel_records import exact_entries, observation_types, state_codes, state_sets
from asterism.data.problems import Problems, TableProblem
from asterism.data.read_table import gather_files, read_frames, write_observations
from asterism.data.table_rows import Reading, table_format
from asterism.data.trajectories import Trajectories, path_events, path_intervals
from asterism.errors import DataError, Setting, counted, first_few
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics.arrays import FloatArray, IntArray


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
    covariates: Covariates | None = None
    """What else is known about the trajectories; see :meth:`with_covariates`."""

    interventions: Intervals = field(default_factory=no_intervals)
    """Times during which the experimenter held a node; see :meth:`with_interventions`."""
    stimuli: pd.DataFrame | None = None
    """When something from outside acted; see :meth:`with_stimuli`."""
    time_unit: str = ""
    """Unit of all times, such as "h"; "" if nothing says it."""

    # ------------------------------------------------------------------ construction
    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame | None = None,
        start: TimeBound = None,
        end: TimeBound = None,
        events: pd.DataFrame | None = None,
        intervals: pd.DataFrame | None = None,
        exact: Any = None,
        *,
        ties: str = "error",
        covariates: Sequence[str] = (),
        ignore: Sequence[str] = (),
        **reading: Unpack[Reading],
    ) -> Observations:
        """Read a wide table (trajectory, time, one column per node) or a long one.

        A long table has the columns trajectory, time, node and value, or one column
        ``p_<state>`` per state instead of value. ``events`` has trajectory, time, node, to and
        optionally from; ``intervals`` trajectory, node, start, end, state. ``exact`` marks rows
        that report the state itself: the name of a boolean column, a mask, or "first".
        ``covariates`` lists columns that are covariates, ``ignore`` columns to leave out.
        ``ties``: "error", or "order" when rows of jumps at one time are in the order in which
        they happened.

        Other arguments, all optional (``Reading``): the names of columns ``trajectory``, ``time``,
        ``node``, ``value`` and ``end_column`` (the end of each trajectory's follow-up);
        ``kind`` ("wide", "long"); ``nodes`` that are read; ``labels``, columns whose cells are
        names even if they look like numbers; ``sort`` rows by time; ``missing``, further codes for
        "not measured"; ``unit`` of time, such as "h": times may be numbers, durations ("2h",
        "30 min", "Day 3") or dates; ``comma``, what commas in numbers are where a column leaves it
        open: "decimal" (1,234 is 1.234) or "thousands" (1,234 is 1234).
        """
        whole = frame = as_pandas(frame)
        if frame is not None and (covariates or ignore):
            frame = without_columns(frame, [*covariates, *ignore])
        found, told = cls.check_frame(
            *(frame, start, end, events, intervals), exact=exact, ties=ties, **reading
        )
        problems = Problems(told)
        problems.raise_errors()
        problems.warn()
        assert found is not None
        if not covariates or whole is None:
            return found
        form = table_format(**reading)
        return found.with_covariates(
            whole, covariates, trajectory=form.trajectory, time=form.time, comma=form.comma
        )

    @classmethod
    def check_frame(
        cls,
        frame: pd.DataFrame | None = None,
        start: TimeBound = None,
        end: TimeBound = None,
        events: pd.DataFrame | None = None,
        intervals: pd.DataFrame | None = None,
        **options: Any,
    ) -> tuple[Observations | None, list[TableProblem]]:
        """As :meth:`from_frame`, but returns every problem instead of raising on errors."""
        frame, events, intervals = map(as_pandas, (frame, events, intervals))
        ties = options.pop("ties", "error")
        form = table_format(**options)
        parts, problems = read_frames(frame, form, (start, end), events, intervals, ties)
        return None if parts is None else cls(**parts._asdict(), ties=ties), problems.found

    @classmethod
    def from_likelihoods(
        cls,
        times: Sequence[ArrayLike],
        likelihoods: Sequence[Mapping[str, ArrayLike]],
        start: TimeBound = None,
        end: TimeBound = None,
        *,
        trajectories: Sequence[object] | None = None,
        states: Mapping[str, Sequence[object]] | None = None,
    ) -> Observations:
        """Measurements given as P(y | state), one (I, S) array per trajectory and node.

        ``times[d]`` holds the I times of trajectory d. A row of nan is not measured. Columns
        follow the order of the network's states unless ``states`` names them.
        """
        return cls(
            **read_likelihoods(times, likelihoods, (start, end), trajectories, states)._asdict()
        )

    @classmethod
    def from_trajectories(
        cls, paths: Trajectories, nodes: Iterable[str] | None = None
    ) -> Observations:
        """Paths known throughout, as intervals and events of the given nodes (default: all)."""
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
            covariates=paths.covariates,
            time_unit=paths.time_unit,
        )

    @classmethod
    def from_csv(cls, path: str | Path, **options: Any) -> Observations:
        """Read a table and its side files; ``options`` are those of :meth:`from_frame`."""
        frame, settings, names = gather_files(path, options)
        return cls.from_frame(frame, **settings)._written_as(names)

    @classmethod
    def check_csv(
        cls, path: str | Path, **options: Any
    ) -> tuple[Observations | None, list[TableProblem]]:
        """As :meth:`from_csv`, but returns every problem instead of raising on errors."""
        frame, settings, names = gather_files(path, options)
        found, problems = cls.check_frame(frame, **settings)
        return (None if found is None else found._written_as(names)), problems

    # ------------------------------------------------------------------ views
    @property
    def nodes(self) -> tuple[str, ...]:
        """Measured nodes in the order of the table, then those of events and intervals only."""
        extra = [*self.events.node, *self.intervals.node]
        return tuple(dict.fromkeys([*self.measurements, *extra]))

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return len(self.trajectories)

    @property
    def n_measurements(self) -> int:
        """Number of measurements of all nodes."""
        return sum(len(m) for m in self.measurements.values())

    @property
    def shape(self) -> tuple[int]:
        """(number of trajectories,): what scikit-learn splits."""
        return (self.n_trajectories,)

    def __len__(self) -> int:
        return self.n_trajectories

    def __getitem__(self, which: Any) -> Observations:
        """Trajectories by position: a number, a slice, positions, or a mask."""
        index = np.arange(self.n_trajectories)[which]
        return self._taken(np.atleast_1d(index).astype(np.int64))

    def __iter__(self) -> Iterator[Observations]:
        """One after the other, each as observations of one trajectory."""
        return (self[i] for i in range(self.n_trajectories))

    def to_frame(self, kind: str = "wide") -> pd.DataFrame:
        """The measurements as a wide or a long table."""
        if kind not in ("wide", "long"):
            raise DataError(Setting("kind", kind), " is unknown; use 'wide' or 'long'")
        return tables.wide_frame(self) if kind == "wide" else tables.long_frame(self)

    def events_frame(self) -> pd.DataFrame:
        """The events: trajectory, time, node, to, from."""
        return tables.known_frame(self, self.events)

    def intervals_frame(self) -> pd.DataFrame:
        """The intervals: trajectory, node, start, end, state."""
        return tables.known_frame(self, self.intervals)

    def to_csv(self, path: str | Path, kind: str = "wide") -> None:
        """Write the table, and beside it start, end, events and intervals."""
        write_observations(self, path, kind)

    def describe(self) -> pd.DataFrame:
        """Per node: points, share of missing cells, time span and typical gap."""
        return tables.describe(self)

    def _repr_html_(self) -> str:
        facts = [(f"{name}s", f"{n:,}") for name, n in self._known()]
        if self.n_trajectories:
            facts.insert(0, ("time", f"{self.start.min():g} to {self.end.max():g}"))
        rows = [
            (node, f"{len(self.measurements[node].time) if node in self.measurements else 0:,}")
            for node in self.nodes[:MOST_ROWS]
        ]
        title = f"Observations: {self._size()}, {counted(self.n_measurements, 'measurement')}"
        return card(title, facts, ("node", "measurements"), rows, len(self.nodes))

    def __repr__(self) -> str:
        parts = [
            counted(n, name) for name, n in [("measurement", self.n_measurements), *self._known()]
        ]
        shown = first_few(self.nodes)
        span = ""
        if self.n_trajectories:
            span = f", time {self.start.min():g} to {self.end.max():g} {self.time_unit}".rstrip()
        return f"<Observations: {self._size()} ({shown}), {', '.join(parts)}{span}>"

    def _known(self) -> list[tuple[str, int]]:
        """What else is known beside measurements, and how much of it."""
        tables = ("event", self.events), ("interval", self.intervals)
        listed = [*tables, ("intervention", self.interventions)]
        return [(name, len(table)) for name, table in listed if len(table)]

    def _size(self) -> str:
        nodes = counted(len(self.nodes), "node")
        return f"{counted(self.n_trajectories, 'trajectory')}, {nodes}"

    # ------------------------------------------------------------------ derived observations
    def select(
        self,
        trajectories: Iterable[object] | None = None,
        nodes: Iterable[str] | None = None,
    ) -> Observations:
        """Only some trajectories, by name and in the given order, or only some nodes."""
        chosen = self
        if nodes is not None:
            names = {str(node): str(node) for node in nodes}
            positions(self.nodes, names, "node")
            chosen = self._with_nodes(names)
        if trajectories is None:
            return chosen
        return chosen._taken(positions(self.trajectories, trajectories, "trajectory"))

    def _with_nodes(self, names: Mapping[str, str]) -> Observations:
        """Only these nodes, under the names that they get."""
        measured = {new: self.measurements.get(node) for node, new in names.items()}
        return replace(
            self,
            measurements={n: record for n, record in measured.items() if record is not None},
            events=self.events.of_nodes(names),
            intervals=self.intervals.of_nodes(names),
            interventions=self.interventions.of_nodes(names),
        )

    def _taken(self, index: IntArray) -> Observations:
        """Trajectories by position, in the given order."""
        if len(np.unique(index)) != len(index):
            raise DataError("a trajectory was selected twice")
        new = np.full(self.n_trajectories, -1, dtype=np.int64)
        new[index] = np.arange(len(index))
        names = tuple(self.trajectories[i] for i in index)
        told = self.stimuli
        return replace(
            self._with_records(lambda table: table.renumbered(new)),
            trajectories=names,
            start=self.start[index],
            end=self.end[index],
            stimuli=None if told is None else told[told["trajectory"].isin(names)],
        )

    def _with_records(self, change: Callable[[Any], Any]) -> Observations:
        """The same change of every table of records."""
        return replace(
            self,
            measurements={node: change(record) for node, record in self.measurements.items()},
            events=change(self.events),
            intervals=change(self.intervals),
            interventions=change(self.interventions),
            covariates=None if self.covariates is None else change(self.covariates),
        )

    def with_interventions(self, frame: pd.DataFrame, comma: str | None = None) -> Observations:
        """The same observations, of which some nodes were held by the experimenter.

        ``frame`` has the columns trajectory, node, start, end, state; an empty start or end is that
        of the trajectory. Inside, the node's own rates have no part in its state; its children feel
        it; at the end it is free again. Measurements of the node inside say nothing about it.
        ``comma`` is as for :meth:`from_frame`.
        """
        found = set_by_hand.read_interventions(
            as_pandas(frame), self.trajectories, self.start, self.end, self.nodes, comma
        )
        return replace(self, interventions=found)

    def with_stimuli(self, frame: pd.DataFrame | str, comma: str | None = None) -> Observations:
        """The same observations, during which something from outside acted on some nodes.

        ``frame`` has the columns name, trajectory, start, end: a drug, a change of medium. An empty
        trajectory means all of them, an empty start or end that of the trajectory. Which nodes a
        stimulus acts on is learned (``StructureLearner.targets_``); where you know it, a column
        ``node`` says it, in one row per node. A table without rows says that nothing acted.

        Instead of a table, the name of a column that was read as a node: it says at every time
        whether the stimulus is on (a number above zero, or "on", "yes", "true"), or by what name,
        and is a node no longer. ``comma`` is as for :meth:`from_frame`.
        """
        data = self
        if isinstance(frame, str):
            positions(tuple(self.measurements), [frame], "node")
            record = self.measurements[frame]
            data = self.select(nodes=[node for node in self.nodes if node != frame])
            frame = data.stimuli_in_column(frame, record, self.trajectories)
        found = set_by_hand.read_stimuli(
            as_pandas(frame), data.trajectories, data.start, data.end, data.nodes, comma
        )
        return replace(data, stimuli=found)

    def stimuli_in_column(
        self, name: str, record: NodeMeasurements, trajectories: Sequence[object]
    ) -> pd.DataFrame:
        """name, trajectory, start, end, read from a column that the table has beside its nodes."""
        measured = [(self.trajectories[d], time) for d, time in wide_keys(self)]
        return set_by_hand.stimuli_in_column(name, record, trajectories, measured)

    def stimuli_as_nodes(self) -> Observations:
        """The same observations with every stimulus as a node that is "off" or "on".

        That is how nodes that jump feel a stimulus: as an exogenous parent, whose path is known.
        """
        if self.stimuli is None or not len(self.stimuli):
            return self
        if taken := [n for n in dict.fromkeys(self.stimuli["name"]) if n in self.nodes]:
            raise DataError(
                f"the stimulus {taken[0]!r} has the name of a node; give it another name"
            )
        more = set_by_hand.stimulus_paths(self.stimuli, self.trajectories, self.start, self.end)
        return replace(self, intervals=self.intervals.joined(**more.columns()), stimuli=None)

    def rename(self, nodes: Mapping[str, str]) -> Observations:
        """Other names for some nodes."""
        names = {n: nodes.get(n, n) for n in self.nodes}
        if len(set(names.values())) != len(names):
            raise DataError("renaming would give two nodes the same name")
        told = self.stimuli
        if told is not None and set_by_hand.TARGET in told:
            told = told.replace({set_by_hand.TARGET: names})
        return replace(self._with_nodes(names), stimuli=told)

    def scale_time(self, factor: float) -> Observations:
        """The same observations with all times multiplied, e.g. 60 for minutes from hours."""
        if not (np.isfinite(factor) and factor > 0):
            raise DataError(f"time can only be scaled by a positive number, not {factor!r}")
        told = self.stimuli
        if told is not None:
            told = told.assign(start=told["start"] * factor, end=told["end"] * factor)
        return replace(
            self._with_records(lambda table: table.scaled(factor)),
            time_unit="",
            start=self.start * factor,
            end=self.end * factor,
            stimuli=told,
        )

    def with_covariates(
        self,
        frame: pd.DataFrame,
        names: Sequence[str] | None = None,
        *,
        trajectory: str = "trajectory",
        time: str = "time",
        categories: Sequence[str] = (),
        comma: str | None = None,
    ) -> Observations:
        """The same observations, with covariates of their trajectories.

        ``frame`` has the columns trajectory and, where covariates change, time; every other column
        (or those in ``names``) is a covariate. A value holds until the next row of its
        trajectory. Columns of text, and those in ``categories``, are categories.
        """
        found = read_covariates(
            as_pandas(frame),
            self.trajectories,
            self.start,
            trajectory=trajectory,
            time=time,
            names=names,
            categories=categories,
            comma=comma,
        )
        return replace(
            self, covariates=found if self.covariates is None else self.covariates.merged(found)
        )

    def with_exact_entries(self, node: str, states: Iterable[object] | object) -> Observations:
        """Rows that report one of the states say exactly when it was entered, like a death."""
        kept, events = exact_entries(node, self._record(node), self.events, _several(states))
        return replace(self, measurements={**self.measurements, node: kept}, events=events)

    def with_observation_types(
        self,
        node: str,
        frame: pd.DataFrame,
        column: str = "obstype",
        *,
        trajectory: str = "trajectory",
        time: str = "time",
        comma: str | None = None,
    ) -> Observations:
        """Rows read as a column of their table says; an empty cell is 1.

        1: the state at a visit. 2: a transition at its exact time, with no change since the row
        before. 3: an exact entry, such as a death, from a state that is not known.
        """
        record = self._record(node)
        told = frame.assign(**{column: frame[column].where(frame[column].astype(str) != "", 1)})
        table = read_covariates(
            *(told.fillna({column: 1}), self.trajectories, self.start),
            trajectory=trajectory,
            time=time,
            names=[column],
            comma=comma,
        )
        kind = values_at(table, column, record.trajectory, record.time)
        if kind.dtype == object:
            raise DataError(f"Column {column!r} holds observation types: 1, 2 or 3.")
        kept, events, intervals = observation_types(node, record, self.events, self.intervals, kind)
        measurements = {**self.measurements, node: kept}
        return replace(self, measurements=measurements, events=events, intervals=intervals)

    def with_state_codes(self, node: str, codes: Mapping[Any, Any]) -> Observations:
        """Values that stand for a state known for certain: {999: "dead"}."""
        record = state_codes(node, self._record(node), codes)
        return replace(self, measurements={**self.measurements, node: record})

    def with_state_sets(self, node: str, codes: Mapping[Any, Iterable[Any]]) -> Observations:
        """Values that only say the state is one of several: {99: [1, 2, 3]}."""
        record = state_sets(node, self._record(node), codes)
        return replace(self, measurements={**self.measurements, node: record})

    def _written_as(self, names: Sequence[Any]) -> Observations:
        """Trajectories in the order, and with the type of name, that they were written with."""
        by_text = {canonical(x): x for x in names}
        named = tuple(by_text.get(canonical(x), x) for x in self.trajectories)
        told = self.stimuli
        if told is not None:
            new = dict(zip(self.trajectories, named))
            told = told.assign(trajectory=objects(new[x] for x in told["trajectory"]))
        renamed = replace(self, trajectories=named, stimuli=told)
        return renamed.select(names) if names and set(names) == set(named) else renamed

    def _record(self, node: str) -> NodeMeasurements:
        if node not in self.measurements:
            raise DataError(
                f"there is no measured node {node!r}; the nodes are {list(self.measurements)}"
            )
        return self.measurements[node]


def _several(states: Any) -> list[Any]:
    if isinstance(states, str) or not isinstance(states, Iterable):
        return [states]
    return list(states)
