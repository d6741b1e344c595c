"""Joint paths drawn from solved clusters.

Time is cut into short parts. In every part the clusters are asked one after the other: each draws
the states at the end of the part of those of its nodes that no cluster before it has drawn, given
the states at the beginning, the states already drawn, and, through its backward vector, all later
evidence. So nodes keep their dependence, and exact measurements, recorded jumps and known spans
hold in every path. A node that changed jumps once, at a random time within the part; a second jump
within one part is missed, which parts this short make rare.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from asterism.clusters._cluster_layout import JUMP, SET
from asterism.clusters.batch import ClusterBatch, ClusterReader
from asterism.clusters.region_arrays import region_shape
from asterism.errors import Sentence, Setting
from asterism.numerics.resources import require_memory
from asterism.timeline.evidence import Evidence, FloatArray, IntArray
from asterism.timeline.timeline import known_states

_JUMPS_PER_PART = 0.05
_MOST_PARTS = 200


class _Opened(NamedTuple):
    """A cluster's chain along one trajectory."""

    nodes: IntArray
    stride: IntArray
    digit: IntArray
    generator: FloatArray
    """(steps, J, J)"""
    ending: FloatArray
    """(steps, J) backward vector at the end of each step."""
    first: FloatArray


Pieces = list[tuple[IntArray, FloatArray, IntArray, IntArray]]
"""Of some jumps each: the draw, the time, the node and the state entered."""
Drawn = tuple[IntArray, FloatArray, IntArray]
"""(draws, N) states at the start; times of all jumps; of every jump draw, node and state."""


def joined_pieces(start: IntArray, pieces: Pieces) -> Drawn:
    """The paths that begin in these states and make these jumps."""
    nothing: IntArray = np.zeros(0, dtype=np.int64)
    who, when, node, entered = (
        (np.concatenate([nothing, *column]) for column in zip(*pieces, strict=True))
        if pieces
        else (nothing,) * 4
    )
    record = np.column_stack([who, node, entered]).astype(np.int64)
    return start, when.astype(np.float64), record


def draw_from_clusters(
    batch: ClusterBatch,
    d: int,
    parameters: tuple[FloatArray, FloatArray],
    n: int,
    rng: np.random.Generator,
) -> Drawn:
    """``n`` joint paths of one trajectory; ``parameters``: rates and start probabilities."""
    opened = _open_all(batch, d, parameters)
    n_nodes = batch.model.graph.n_nodes
    state = np.full((n, n_nodes), -1, dtype=np.int64)
    for cluster in opened:
        _draw(cluster, np.broadcast_to(cluster.first, (n, len(cluster.first))), state, rng)
    times = batch.grid.times(d)
    for node in batch.evidence.exogenous:
        state[:, node] = known_states(batch.evidence, d, node, times[0])
    start = state.copy()
    pieces: Pieces = []
    for k in range(len(times) - 1):
        _jump_as_recorded(batch, d, k, state, float(times[k]), pieces)
        width = float(times[k + 1] - times[k])
        parts = _n_parts(opened, k, width)
        ready = [_propagated(cluster, k, width / parts, parts) for cluster in opened]
        for part in range(parts):
            before = state.copy()
            hidden = np.unique(np.concatenate([c.nodes for c in opened]))
            state[:, hidden] = -1
            for cluster, (step, later) in zip(opened, ready):
                now = before[:, cluster.nodes] @ cluster.stride
                _draw(cluster, step[now] * later[part + 1], state, rng)
            who, moved = (index.astype(np.int64) for index in np.nonzero(state != before))
            when = times[k] + (part + rng.uniform(size=len(who))) * width / parts
            pieces.append((who, when, moved, state[who, moved]))
    _jump_as_recorded(batch, d, len(times) - 1, state, float(times[-1]), pieces)
    pieces += known_jumps(batch.evidence, d, n)
    return joined_pieces(start, pieces)


def _open_all(
    batch: ClusterBatch, d: int, parameters: tuple[FloatArray, FloatArray]
) -> list[_Opened]:
    """The chains of all clusters."""
    model = batch.model
    n_steps = int(np.diff(batch.grid.step_start)[d])
    require_memory(
        8.0 * n_steps * float((model.arrays.n_joint[: model.arrays.n_clusters] ** 2).sum()),
        f"the chains of {model.arrays.n_clusters} clusters on {n_steps} steps",
        Sentence("a larger ", Setting("time_step"), " or ", Setting("tolerance")),
    )
    found = []
    reader = ClusterReader(batch, *parameters)
    for c, members in enumerate(model.regions.clusters):
        work, ending = reader.chain(d, c)
        shape = region_shape(model.graph, members)
        n_joint, per_row = shape.column.shape
        generator = np.zeros((n_steps, n_joint, n_joint))
        row = np.repeat(np.arange(n_joint), per_row)
        generator[:, row, shape.column.ravel()] = work.rate[: n_joint * per_row, :n_steps].T
        own = np.arange(n_joint)
        generator[:, own, own] = work.diagonal[:n_joint, :n_steps].T
        found.append(
            _Opened(
                np.array(members, dtype=np.int64),
                shape.stride,
                shape.digit,
                generator,
                ending,
                work.first_time[:n_joint].copy(),
            )
        )
    return found


def _n_parts(opened: list[_Opened], k: int, width: float) -> int:
    """Parts in which a node's posterior rarely jumps."""
    worst = 0.0
    for cluster in opened:
        own = np.diagonal(cluster.generator[k])
        off = cluster.generator[k].sum(axis=1) - own
        worst = max(worst, float(np.max(off)))
    return int(min(max(1, math.ceil(worst * width / _JUMPS_PER_PART)), _MOST_PARTS))


def _propagated(
    cluster: _Opened, k: int, length: float, parts: int
) -> tuple[FloatArray, FloatArray]:
    """Transition matrix of one part, and (parts + 1, J) backward vectors at the parts' ends."""
    generator = cluster.generator[k]
    step: FloatArray = expm((generator - np.eye(len(generator)) * generator.max()) * length)
    later = np.empty((parts + 1, len(step)))
    later[parts] = cluster.ending[k]
    for part in range(parts - 1, -1, -1):
        later[part] = step @ later[part + 1]
        later[part] /= max(float(later[part].max()), 1e-300)
    return np.maximum(step, 0.0), later


def _draw(
    cluster: _Opened, weight: NDArray[np.float64], state: IntArray, rng: np.random.Generator
) -> None:
    """Draw the states of the cluster's nodes that are still −1, given the others."""
    known = state[:, cluster.nodes]
    fits = ((known[:, None, :] == cluster.digit) | (known[:, None, :] < 0)).all(axis=2)
    allowed = weight * fits
    total = allowed.sum(axis=1)
    # neighbours may disagree in rare states; then the cluster decides for its new nodes alone
    allowed = np.where(total[:, None] > 0.0, allowed, np.where(weight > 0.0, weight, 0.0))
    running = np.cumsum(allowed, axis=1)
    target = rng.uniform(size=len(state)) * running[:, -1]
    chosen = np.minimum((running <= target[:, None]).sum(axis=1), running.shape[1] - 1)
    new = np.where(known < 0, cluster.digit[chosen], known)
    state[:, cluster.nodes] = new


def _jump_as_recorded(
    batch: ClusterBatch,
    d: int,
    k: int,
    state: IntArray,
    time: float,
    pieces: Pieces,
) -> None:
    """Carry out the jumps recorded at grid point k, and interventions that begin there."""
    n_nodes = batch.model.graph.n_nodes
    first, last = batch.problem.event_start[[d * n_nodes, (d + 1) * n_nodes]]
    events = batch.problem.event[first:last]
    node = np.searchsorted(
        batch.problem.event_start[d * n_nodes : (d + 1) * n_nodes + 1],
        np.arange(first, last),
        side="right",
    ) - 1  # fmt: skip
    for row in np.flatnonzero(np.isin(events[:, 1], (JUMP, SET)) & (events[:, 0] == k)):
        to, n = int(events[row, 2]), int(node[row])
        draws = np.flatnonzero(state[:, n] != to)
        state[:, n] = to
        pieces.append(
            (draws, np.full(len(draws), time), np.full(len(draws), n), np.full(len(draws), to))
        )


def known_jumps(evidence: Evidence, d: int, n: int) -> Pieces:
    """Paths of the exogenous nodes, the same in every draw."""
    spans = evidence.spans
    found = []
    for node in sorted(evidence.exogenous):
        mine = np.flatnonzero((spans.node == node) & (spans.trajectory == d))
        moved = mine[1:][np.diff(spans.state[mine]) != 0]
        moved = moved[spans.start[moved] > evidence.start[d]]
        found.append(
            (
                np.repeat(np.arange(n), len(moved)),
                np.tile(spans.start[moved], n),
                np.full(n * len(moved), node),
                np.tile(spans.state[moved], n),
            )
        )
    return found
