"""Simulated paths of a network, and noisy measurements of paths.

:func:`simulate` draws complete jump paths; :func:`observe` looks at paths now and then through an
emission. Each path has its own stream of random numbers, so the same seed gives the same paths
whatever the number of threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asterism.continuous.paths import ContinuousPaths, simulate_paths
from asterism.data.measurements import NodeMeasurements, no_events, no_intervals
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories, path_events, path_intervals
from asterism.errors import DataError, ModelError, Setting, TooLargeError
from asterism.model.emissions import Joint, check_emissions, emission_for
from asterism.model.network import Network
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray
from asterism.numerics.compiled import configuration_terms
from asterism.numerics.progress import ProgressListener, listening
from asterism.numerics.resources import TimeLimit, chunks, map_chunks, minutes_limit
from asterism.simulation._gillespie import ForcedMoves, SimulatedNetwork, simulate_range

JUMP_LIMIT = 200_000_000
"""Jumps (24 bytes each) after which a simulation is refused."""
_PROBE = 200_000  # jumps of a first path that show how many to expect
_USUAL_PACE = 2e6  # jumps in a second
_SLOWEST_PACE = 1e5  # believed, so that a compilation does not end everything


def simulate(
    net: Network,
    n_trajectories: int = 1,
    duration: float | None = None,
    n_transitions: int | None = None,
    seed: Any = None,
    initial: Mapping[Any, Any] | ArrayLike | None = None,
    n_jobs: int = 1,
    paths: Trajectories | None = None,
    minutes: float | None = None,
    progress: ProgressListener | bool | None = None,
) -> Trajectories:
    """Draw paths from time 0 until ``duration``, or until ``n_transitions`` jumps have happened.

    ``initial``: {node: state} for all paths, or state numbers (N,) or (n_trajectories, N); nodes
    not named are drawn. ``paths`` gives the paths of exogenous nodes (one trajectory for all, or
    one each); without it they keep the state in which they start. Where every rate is zero a path
    stays as it is until ``duration``, or ends with its last jump. A first path shows how many jumps
    to expect: too many are refused at once. After ``minutes`` the paths drawn so far are
    returned, with a warning. ``progress``: as for :func:`infer`.

    Of continuous nodes the paths are values on a fine grid of times (``ContinuousPaths``), which
    :func:`observe` measures; ``initial`` and ``paths`` are for nodes that jump.
    """
    if net.drifts:
        found: Any = simulate_paths(net, n_trajectories, duration, seed)
        return found  # type: ignore[no-any-return]
    _check_request(n_trajectories, duration, n_transitions)
    compiled = net.compiled
    graph = compiled.graph
    shift_start, shift = configuration_terms(graph)
    arrays = SimulatedNetwork(
        n_states=graph.n_states,
        state_start=graph.state_start,
        table_start=graph.table_start,
        rates=compiled.rates,
        initial=compiled.initial,
        parent_start=graph.parent_start,
        parents=graph.parents,
        child_start=graph.child_start,
        children=graph.children,
        child_slot=graph.child_slot,
        shift_start=shift_start,
        shift=shift,
        frozen=np.array([node in net.exogenous for node in net.nodes], dtype=np.bool_),
    )
    prescribed = _prescribed_states(net, initial, n_trajectories)
    forced = _forced_moves(net, paths, n_trajectories, prescribed)
    key = np.random.SeedSequence(_entropy(seed)).generate_state(2, np.uint64)

    def piece(first: int, last: int, limit: int = JUMP_LIMIT) -> Any:
        return simulate_range(
            arrays,
            forced,
            key,
            first,
            last,
            prescribed[first:last],
            -1.0 if duration is None else float(duration),
            0 if n_transitions is None else int(n_transitions),
            limit,
        )

    with minutes_limit(minutes) as limit, listening(progress, "Simulation"):
        pace = _require_few_jumps(piece, prescribed, n_trajectories, duration, n_transitions)
        pieces = chunks(n_trajectories, at_most=64, at_least_each=8)
        if limit.seconds < float("inf"):
            parts = _in_time(piece, pieces, limit, pace)
            n_trajectories = sum(len(part[0]) for part in parts)
            prescribed = prescribed[:n_trajectories]
        else:
            parts = map_chunks(piece, pieces, n_jobs)
    if not all(part[-1] for part in parts):
        raise TooLargeError(
            f"The simulation passed {JUMP_LIMIT:,} jumps; ask for a shorter duration, fewer "
            "trajectories, or a number of transitions."
        )
    counts = np.concatenate([np.diff(offset) for _, offset, *_ in parts])
    return Trajectories(
        nodes=net.nodes,
        states={node: tuple(net.states[node]) for node in net.nodes},
        labels=tuple(range(n_trajectories)),
        start=np.zeros(n_trajectories),
        end=np.concatenate([part[0] for part in parts]),
        initial=prescribed,
        jump_offset=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        jump_time=np.concatenate([part[2] for part in parts]),
        jump_node=np.concatenate([part[3] for part in parts]),
        jump_state=np.concatenate([part[4] for part in parts]),
    )


def _require_few_jumps(
    piece: Callable[..., Any],
    prescribed: IntArray,
    n_trajectories: int,
    duration: float | None,
    n_transitions: int | None,
) -> float:
    """Draw the beginning of one path; refuse what would take too many. Returns jumps per second."""
    if n_transitions is not None:
        expected = float(n_transitions) * n_trajectories
        if expected <= JUMP_LIMIT:
            return _USUAL_PACE
    else:
        start = prescribed[:1].copy()
        begin = time.monotonic()
        end, _, times, *_, finished = piece(0, 1, _PROBE)
        seconds = time.monotonic() - begin
        prescribed[:1] = start  # drawn again, from the same stream
        reached = float(end[0]) if finished else float(times[-1])
        if finished or reached <= 0.0:
            expected = float(len(times)) * n_trajectories if finished else float("inf")
        else:
            expected = len(times) * (float(duration or 0.0) / reached) * n_trajectories
        # one path that ended says little about the others
        if expected <= (10 * JUMP_LIMIT if finished else JUMP_LIMIT):
            return max(_SLOWEST_PACE, len(times) / max(seconds, 1e-9))
    amount = f"about {expected:.1e}" if np.isfinite(expected) else "endlessly many"
    raise TooLargeError(
        f"The simulation would take {amount} jumps, and the limit is {JUMP_LIMIT:,}; "
        "ask for a shorter duration, fewer trajectories, or a number of transitions."
    )


def _in_time(
    piece: Callable[..., Any], pieces: list[tuple[int, int]], limit: TimeLimit, pace: float
) -> list[Any]:
    """The pieces for which there is time; the last one may be cut between two paths."""
    parts: list[Any] = []
    for first, last in pieces:
        if parts and limit.stops():
            break
        part = piece(first, last, int(min(JUMP_LIMIT, max(1.0, limit.left * pace))))
        if not part[-1]:
            limit.was_felt = True
            n_whole = int(np.flatnonzero(part[1])[-1]) if part[1].any() else 0
            n_jumps = int(part[1][n_whole])
            cut = (part[0][:n_whole], part[1][: n_whole + 1], *(p[:n_jumps] for p in part[2:5]))
            parts.append((*cut, True))
            break
        parts.append(part)
    if limit.was_felt:
        n_done, n_asked = sum(len(part[0]) for part in parts), pieces[-1][1]
        if n_done == 0:
            raise TooLargeError(
                f"{limit.seconds:g} s are not enough for a single path; allow more time (",
                *(Setting("minutes"), "), or ask for a shorter ", Setting("duration"), "."),
            )
        warnings.warn(f"{limit.sentence}: {n_done} of {n_asked} paths were drawn.", stacklevel=3)
    return parts


def _check_request(n_trajectories: int, duration: float | None, n_transitions: int | None) -> None:
    if n_trajectories < 1:
        raise DataError(Setting("n_trajectories"), f" is {n_trajectories}; at least 1 is needed.")
    if (duration is None) == (n_transitions is None):
        raise DataError("Give either ", Setting("duration"), " or ", Setting("n_transitions"), ".")
    if duration is not None and not (np.isfinite(duration) and duration >= 0):
        raise DataError(
            Setting("duration"), f" is {duration!r}; it must be a finite number, not negative."
        )
    if n_transitions is not None and n_transitions < 0:
        raise DataError(Setting("n_transitions"), f" is {n_transitions}; it must not be negative.")


def _entropy(seed: Any) -> Any:
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    return seed


def _prescribed_states(net: Network, initial: Any, n_trajectories: int) -> IntArray:
    """(D, N) state numbers at the start; −1 where they are to be drawn."""
    states = np.full((n_trajectories, net.n_nodes), -1, dtype=np.int64)
    if isinstance(initial, Mapping):
        for node, state in initial.items():
            states[:, net.node_index(node)] = net.state_index(node, state)
    elif initial is not None:
        given = np.asarray(initial)
        if given.dtype.kind not in "iu" or given.shape not in (states.shape, states.shape[1:]):
            raise DataError(
                f"initial has shape {given.shape} and type {given.dtype}; give {{node: state}}, or "
                f"state numbers of shape ({net.n_nodes},) or ({n_trajectories}, {net.n_nodes})."
            )
        bad = (given < 0) | (given >= net.compiled.graph.n_states)
        if bad.any():
            where = int(np.argwhere(bad)[0][-1])
            raise DataError(
                f"initial puts node {net.nodes[where]!r} into state number {given[bad][0]}, but it "
                f"has {net.compiled.graph.n_states[where]} states."
            )
        states[:] = given
    return states


def _forced_moves(
    net: Network, paths: Trajectories | None, n_trajectories: int, prescribed: IntArray
) -> ForcedMoves:
    """The given paths of exogenous nodes as moves; their first states go into ``prescribed``."""
    empty = np.zeros(0, dtype=np.int64)
    if paths is None:
        return ForcedMoves(np.zeros(n_trajectories + 1, dtype=np.int64), np.zeros(0), empty, empty)
    if paths.n_trajectories not in (1, n_trajectories):
        raise DataError(
            f"paths has {paths.n_trajectories} trajectories; give one, or one for each of the "
            f"{n_trajectories}."
        )
    for node in paths.nodes:
        if node not in net.exogenous:
            raise ModelError(
                f"paths gives node {node!r}, which has rates of its own; exogenous nodes are "
                f"{sorted(net.exogenous) or 'none'}."
            )
    number = np.array([net.node_index(node) for node in paths.nodes], dtype=np.int64)
    translate = {
        i: net.state_indices(node, list(paths.states[node])) for i, node in enumerate(paths.nodes)
    }
    owner = np.repeat(np.arange(paths.n_trajectories), np.diff(paths.jump_offset))
    state = np.zeros(len(paths.jump_time), dtype=np.int64)
    for i, node_states in translate.items():
        prescribed[:, number[i]] = node_states[paths.initial[:, i]]
        mine = paths.jump_node == i
        state[mine] = node_states[paths.jump_state[mine]]
    time = paths.jump_time - paths.start[owner]
    moved = number[paths.jump_node] if len(number) else empty
    if paths.n_trajectories == n_trajectories:
        return ForcedMoves(paths.jump_offset, time, moved, state)
    start = len(time) * np.arange(n_trajectories + 1)
    copies = [np.tile(column, n_trajectories) for column in (time, moved, state)]
    return ForcedMoves(start, *copies)


def observe(
    paths: Trajectories | ContinuousPaths,
    emission: Any = None,
    n_observations: int = 10,
    times: ArrayLike | None = None,
    interval: float | None = None,
    missing: float = 0.0,
    seed: Any = None,
    per_node: bool = False,
    known: Iterable[str] = (),
) -> Observations:
    """Measure paths now and then.

    By default every trajectory is measured at ``n_observations`` uniform random times of its own;
    ``times`` gives them, (T,) for all or (D, T), or ``interval`` their distance from the start on.
    All nodes are measured at the same times unless ``per_node`` draws times for each. ``missing``
    is the probability that a value is left out. ``emission`` may be a dictionary, and then only
    its nodes are measured. The paths of the nodes in ``known`` are seen throughout. Start and end
    of the trajectories are kept. Continuous nodes need no emission: their noise is the network's;
    beside them, ``emission`` is for nodes that jump, whose states are seen without one.
    """
    if not 0.0 <= missing < 1.0:
        raise DataError(
            Setting("missing"), f" is {missing!r}; it is a probability and must be below 1."
        )
    if (times is not None) + (interval is not None) > 1:
        raise DataError("Give either times or interval to observe, not both.")
    rng = np.random.default_rng(seed)
    events, intervals = no_events(), no_intervals()
    if isinstance(paths, ContinuousPaths):
        when = (n_observations, times, interval)
        records = _measured_paths(paths, emission, when, missing, per_node, rng)
    else:
        known, records = tuple(known), {}
        if known:
            events, intervals = path_events(paths, known), path_intervals(paths, known)
        measured = _measured_nodes(paths, emission, known)
        clock = _observation_times(paths, n_observations, times, interval, rng)
        for node in measured:
            if per_node and node != measured[0]:
                clock = _observation_times(paths, n_observations, times, interval, rng)
            if per_node or node == measured[0]:
                inside = np.isfinite(clock)
                states = paths.state_at(np.where(inside, clock, paths.start[:, None]))
                trajectory = np.repeat(np.arange(paths.n_trajectories), inside.sum(axis=1))
            own = states[:, :, paths.nodes.index(node)][inside]
            values = np.asarray(emission_for(emission, node).sample(own, rng, paths.states[node]))
            kept = np.ones(len(own), np.bool_)
            if missing > 0.0:
                kept = rng.random(len(own)) >= missing
            records[node] = _record(trajectory, clock[inside], values, kept)
    return Observations(
        trajectories=tuple(paths.labels),
        start=paths.start.copy(),
        end=paths.end.copy(),
        measurements=records,
        events=events,
        intervals=intervals,
    )


def _record(
    trajectory: IntArray, time: FloatArray, values: Any, kept: BoolArray
) -> NodeMeasurements:
    """The measurements of one node that are not missing."""
    return NodeMeasurements(
        trajectory=trajectory[kept].astype(np.int64),
        time=time[kept],
        value=values[kept],
        exact=np.zeros(int(kept.sum()), dtype=np.bool_),
        row=np.flatnonzero(kept),
    )


def _measured_paths(
    paths: ContinuousPaths,
    emission: Any,
    when: tuple[int, ArrayLike | None, float | None],
    missing: float,
    per_node: bool,
    rng: np.random.Generator,
) -> dict[str, NodeMeasurements]:
    """Noisy values of continuous nodes; jumping ones by their emission, else as they are."""
    if isinstance(emission, Mapping):
        check_emissions(emission, paths.nodes)
    records: dict[str, NodeMeasurements] = {}
    clock = _observation_times(paths, *when, rng)
    for node in paths.nodes:
        if per_node and records:
            clock = _observation_times(paths, *when, rng)
        inside = np.isfinite(clock)
        trajectory = np.repeat(np.arange(paths.n_trajectories), inside.sum(axis=1))
        kept = rng.random(len(trajectory)) >= missing
        own = None
        if node not in paths.network.drifts and emission is not None:
            named = not isinstance(emission, Mapping) or node in map(str, emission)
            own = emission_for(emission, node) if named else None
        values = paths.measured(node, trajectory, clock[inside], rng, own)
        records[node] = _record(trajectory, clock[inside], values, kept)
    return records


def _measured_nodes(paths: Trajectories, emission: Any, known: tuple[str, ...]) -> list[str]:
    if isinstance(emission, Mapping):
        for name, one in emission.items():
            if isinstance(one, Joint):
                raise ModelError(
                    f"The joint measurement {str(name)!r} cannot be simulated; observe single "
                    "nodes, or add its column to a table."
                )
        unknown = [str(n) for n in emission if str(n) not in paths.nodes]
        if unknown:
            raise ModelError(
                f"There is an emission for {unknown[0]!r}, but the paths have the nodes "
                f"{', '.join(paths.nodes)}."
            )
        names = {str(n) for n in emission}
        return [n for n in paths.nodes if n in names]
    return [n for n in paths.nodes if n not in known]


def _observation_times(
    paths: Trajectories | ContinuousPaths,
    n_observations: int,
    times: ArrayLike | None,
    interval: float | None,
    rng: np.random.Generator,
) -> FloatArray:
    """(D, T) ascending times; NaN fills the rows of shorter trajectories."""
    shape = (paths.n_trajectories, n_observations)
    if times is not None:
        given = np.asarray(times, dtype=np.float64)
        if given.ndim not in (1, 2) or (given.ndim == 2 and len(given) != shape[0]):
            raise DataError(
                f"times have shape {given.shape}; give (T,) or ({paths.n_trajectories}, T)."
            )
        if not np.isfinite(given).all():
            raise DataError("times contain a value that is not a finite number.")
        return np.sort(np.broadcast_to(given, (shape[0], given.shape[-1])), axis=1)
    if interval is not None:
        if not interval > 0:
            raise DataError(Setting("interval"), f" is {interval!r}; it must be positive.")
        # a hair of tolerance, so that 10 steps of 0.1 reach 1.0
        count = np.floor(paths.durations / interval * (1 + 1e-12)).astype(np.int64) + 1
        steps = np.arange(int(count.max()))
        grid = np.minimum(paths.start[:, None] + steps * interval, paths.end[:, None])
        return np.where(steps < count[:, None], grid, np.nan)
    if n_observations < 0:
        raise DataError(
            Setting("n_observations"), f" is {n_observations}; it must not be negative."
        )
    drawn = paths.start[:, None] + rng.random(shape) * paths.durations[:, None]
    return np.sort(drawn, axis=1)
