"""State probabilities over time, as the results folder stores them.

A dataset has one variable over (trajectory, time, node, state). Its times are the coordinate
``time`` when all trajectories share them, else the variable ``times`` (trajectory, time). Shorter
trajectories, and nodes with fewer states, are padded with NaN in the file; :class:`StoredCourses`
is the form without padding that the page and the figures read. Beside the courses stand the
measurements that belong to them, and what a measurement looks like in each state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.columns import exact_numbers
from asterism.data.labels import encode
from asterism.data.observations import Observations
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import xarray

    from asterism.inference.posterior import Posterior


DIMENSIONS = ("trajectory", "time", "node", "state")

#: probabilities that a results folder keeps: 40 MB before compression
LARGEST = 5_000_000

#: no trajectory is thinned below this many times, which still draw a smooth curve
FEWEST_TIMES = 25


@dataclass(frozen=True)
class StoredCourses:
    """Per trajectory its times (K,) and the probabilities (K, N, S), NaN beyond a node's states."""

    trajectories: tuple[Any, ...]
    nodes: tuple[str, ...]
    times: tuple[FloatArray, ...]
    probabilities: tuple[FloatArray, ...]

    @property
    def n_values(self) -> int:
        """How many probabilities there are."""
        return sum(block.size for block in self.probabilities)

    def of(self, trajectory: int, node: int, n_states: int) -> tuple[FloatArray, FloatArray]:
        """Times and probabilities (K, n_states) of one node in one trajectory, by position."""
        return self.times[trajectory], self.probabilities[trajectory][:, node, :n_states]


def from_dataset(data: xarray.Dataset | xarray.DataArray) -> StoredCourses:
    """Read a dataset, or the bare array of probabilities."""
    values, times = _parts(data)
    missing = [name for name in DIMENSIONS if name not in values.dims]
    if missing:
        raise DataError(
            f"The posterior has dimensions {', '.join(map(str, values.dims))}; "
            f"{', '.join(missing)} is missing."
        )
    block = values.transpose(*DIMENSIONS)
    array = np.asarray(block.values, dtype=np.float64)
    own_times, own_values = [], []
    for number in range(array.shape[0]):
        own = np.asarray(times[number] if times.ndim == 2 else times, dtype=np.float64)
        # a time counts where it is given and at least one node has probabilities
        real = np.isfinite(own) & np.isfinite(array[number]).any(axis=(1, 2))
        own_times.append(own[real])
        own_values.append(array[number][real])
    return StoredCourses(
        trajectories=tuple(block["trajectory"].values.tolist()),
        nodes=tuple(str(name) for name in block["node"].values.tolist()),
        times=tuple(own_times),
        probabilities=tuple(own_values),
    )


def to_dataset(
    courses: StoredCourses,
    notices: Sequence[str] = (),
    states: Mapping[str, Sequence[Any]] | None = None,
) -> xarray.Dataset:
    """The padded form that goes into a file; ``states`` are the names of each node's states."""
    import xarray

    longest = max((len(times) for times in courses.times), default=0)
    n_states = max((block.shape[2] for block in courses.probabilities), default=0)
    shape = (len(courses.trajectories), longest, len(courses.nodes), n_states)
    times = np.full(shape[:2], np.nan)
    values = np.full(shape, np.nan)
    for number, (own, block) in enumerate(zip(courses.times, courses.probabilities)):
        times[number, : len(own)] = own
        values[number, : len(own)] = block
    data = xarray.Dataset(
        {"probability": (DIMENSIONS, values), "times": (DIMENSIONS[:2], times)},
        coords={
            "trajectory": _labels(courses.trajectories),
            "node": list(courses.nodes),
            "state": np.arange(n_states),
            **_state_names(courses.nodes, n_states, states),
        },
        attrs={"description": "probability of each state of each node given all measurements"},
    )
    if notices:
        data.attrs["notice"] = " ".join(notices)
    return data


def gather(posterior: Posterior, n_extra: int = 50, max_values: int = LARGEST) -> xarray.Dataset:
    """The courses that a run keeps: at every measurement time and ``n_extra`` even ones.

    When all trajectories together would exceed ``max_values`` numbers, only the first ones are
    asked for, and the dataset's attribute ``notice`` says so.
    """
    times, blocks = posterior.courses_at(n_extra, max_values)
    network, labels = posterior.network, tuple(posterior.labels[: len(times)])
    notices = []
    if len(labels) < len(posterior.labels):
        notices.append(first_only(len(labels), len(posterior.labels)))
    courses = StoredCourses(labels, tuple(network.nodes), tuple(times), tuple(blocks))
    return to_dataset(courses, notices, network.states)


def _state_names(
    nodes: Sequence[str], n_states: int, states: Mapping[str, Sequence[Any]] | None
) -> dict[str, Any]:
    """Names of the states as coordinates: of all nodes, and for "state" where all agree."""
    if states is None or not nodes:
        return {}
    names = np.full((len(nodes), n_states), "", dtype=object)
    for n, node in enumerate(nodes):
        names[n, : len(states[node])] = [str(state) for state in states[node]]
    found: dict[str, Any] = {"state_name": (("node", "state"), names.astype(str))}
    first = tuple(states[nodes[0]])
    if len(first) == n_states and all(tuple(states[node]) == first for node in nodes):
        found["state"] = _labels(first)
    return found


def first_only(n_kept: int, n_all: int) -> str:
    """The notice of courses that were left out."""
    return f"State probabilities are kept for the first {n_kept:,} of {n_all:,} trajectories."


def of_nodes(courses: StoredCourses, columns: list[int]) -> StoredCourses:
    """The courses of some of the nodes, by position."""
    return replace(
        courses,
        nodes=tuple(courses.nodes[i] for i in columns),
        probabilities=tuple(block[:, columns] for block in courses.probabilities),
    )


def thinned(courses: StoredCourses, max_values: int) -> StoredCourses:
    """At most about ``max_values`` numbers: fewer times first, then fewer trajectories."""
    if courses.n_values > max_values:
        share = max_values / courses.n_values
        kept = [
            _spread(len(own), max(FEWEST_TIMES, int(len(own) * share))) for own in courses.times
        ]
        courses = replace(
            courses,
            times=tuple(own[rows] for own, rows in zip(courses.times, kept)),
            probabilities=tuple(p[rows] for p, rows in zip(courses.probabilities, kept)),
        )
    reach = np.cumsum([block.size for block in courses.probabilities])
    n_kept = max(1, int(np.searchsorted(reach, max_values, side="right")))
    return replace(
        courses,
        trajectories=courses.trajectories[:n_kept],
        times=courses.times[:n_kept],
        probabilities=courses.probabilities[:n_kept],
    )


def _parts(data: xarray.Dataset | xarray.DataArray) -> tuple[Any, NDArray[Any]]:
    """The array of probabilities and its times, (time,) or (trajectory, time)."""
    import xarray

    if isinstance(data, xarray.DataArray):
        values, holder = data, data.coords
    else:
        found = [v for v in data.data_vars.values() if set(DIMENSIONS) <= set(v.dims)]
        if len(found) != 1:
            raise DataError(
                "The posterior must hold one variable over trajectory, time, node and state; "
                f"it holds {', '.join(map(str, data.data_vars)) or 'none'}."
            )
        values, holder = found[0], data.variables  # type: ignore[assignment]
    if "times" in holder:
        return values, np.asarray(holder["times"].values)
    return values, np.asarray(values["time"].values)


def _spread(n: int, n_kept: int) -> IntArray:
    """Positions of ``n_kept`` of n entries, evenly spread, both ends among them."""
    if n_kept >= n:
        return np.arange(n)
    return np.unique(np.round(np.linspace(0, n - 1, n_kept)).astype(np.int64))


def _labels(labels: Sequence[Any]) -> NDArray[Any]:
    """Trajectory labels as integers or text, the two kinds that a netCDF file can hold."""
    if all(isinstance(label, int) for label in labels):
        return np.asarray(labels, dtype=np.int64)
    return np.asarray([str(label) for label in labels])


# ---- measurements beside the course they belong to --------------------------------------------


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

    def with_probabilities(
        self, courses: StoredCourses, node: str, n_states: int
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) all measurements of a node, and (n, S) the probabilities of its states then."""
        column = courses.nodes.index(node)
        values, weights = [np.zeros(0)], [np.zeros((0, n_states))]
        for number, label in enumerate(courses.trajectories):
            own = self.of(label, node)
            grid, block = courses.of(number, column, n_states)
            if len(own.times) and len(grid):
                values.append(own.values)
                weights.append(np.stack([np.interp(own.times, grid, p) for p in block.T], axis=1))
        return np.concatenate(values), np.concatenate(weights)


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


def levels(seen: Measurements, courses: StoredCourses, node: str, n_states: int) -> Levels | None:
    """What a measurement of the node looks like in each state; None for measured labels.

    Taken from the measurements themselves, each shared out among the states by their posterior
    probabilities, so that it holds whatever the emission was.
    """
    if node in seen.nodes_with_states:
        return None
    y, w = seen.with_probabilities(courses, node, n_states)
    if not len(y):
        return None
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
    return exact_numbers(column).to_numpy(dtype=np.float64), False
