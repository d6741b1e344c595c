"""Owns the limit of complete knowledge: jump paths written as intervals and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.measurements import Events, Intervals, objects

if TYPE_CHECKING:
    from asterism.data.trajectories import Trajectories


def path_events(paths: Trajectories, nodes: Sequence[str]) -> Events:
    """Every jump of the nodes, with the state before it."""
    d, node, time, state, _, previous = _stays(paths, nodes)
    jump = np.flatnonzero(previous >= 0)
    jump = jump[np.lexsort((time[jump], d[jump]))]
    names = paths.state_names()
    return Events(
        d[jump],
        time[jump],
        objects(paths.nodes)[node[jump]],
        names[node[jump], state[jump]],
        names[node[jump], previous[jump]],
        np.arange(len(jump), dtype=np.int64),
    )


def path_intervals(paths: Trajectories, nodes: Sequence[str]) -> Intervals:
    """Every stay of the nodes; stays of no length only where a whole trajectory has none."""
    d, node, begin, state, end, _ = _stays(paths, nodes)
    keep = np.flatnonzero((end > begin) | (paths.end[d] == paths.start[d]))
    return Intervals(
        d[keep],
        objects(paths.nodes)[node[keep]],
        begin[keep],
        end[keep],
        paths.state_names()[node[keep], state[keep]],
        np.arange(len(keep), dtype=np.int64),
    )


def _stays(paths: Trajectories, nodes: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """Trajectory, node, start, state, end and previous state (−1 at the start) of every stay."""
    n_trajectories, n_nodes = paths.initial.shape
    everyone = np.repeat(np.arange(n_trajectories), n_nodes)
    d = np.concatenate(
        [everyone, np.repeat(np.arange(n_trajectories), np.diff(paths.jump_offset))]
    ).astype(np.int64)
    node = np.concatenate([np.tile(np.arange(n_nodes), n_trajectories), paths.jump_node])
    begin = np.concatenate([np.repeat(paths.start, n_nodes), paths.jump_time])
    state = np.concatenate([paths.initial.ravel(), paths.jump_state])
    is_jump = np.arange(len(d)) >= len(everyone)
    wanted = np.flatnonzero(np.isin(node, [paths.nodes.index(n) for n in nodes]))
    order = wanted[np.lexsort((is_jump[wanted], begin[wanted], node[wanted], d[wanted]))]
    d, node, begin, state = d[order], node[order], begin[order], state[order]
    is_jump = is_jump[order]
    previous = np.where(is_jump, np.concatenate([[-1], state[:-1]]), -1)
    end = paths.end[d]
    followed = np.flatnonzero(is_jump[1:])
    end[followed] = begin[followed + 1]
    return d, node.astype(np.int64), begin, state.astype(np.int64), end, previous.astype(np.int64)
