"""Owns what must hold before structure is learned from fully known paths.

Every node needs two states; no jump may contradict the allowed transitions; and two nodes that
may influence each other must not jump at one recorded time, unless the rows are in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, ModelError
from asterism.learning.gamma_terms import allowed_off_diagonal
from asterism.learning.structure_prior import StructurePrior


def check_paths(
    paths: Trajectories,
    constraints: StructurePrior,
    allowed_transitions: Mapping[str, Any] | None,
    ties: str,
) -> dict[str, NDArray[np.bool_]]:
    """Raise for the first contradiction; returns the allowed transitions of the nodes named."""
    for node in paths.nodes:
        if len(paths.states[node]) < 2:
            raise DataError(
                f"node {node!r} never leaves the state {paths.states[node][0]!r}, so nothing can "
                "be learned about it; leave it out, or name its other states with states="
            )
    allowed = _allowed(paths, constraints, allowed_transitions)
    _check_jumps(paths, allowed)
    if ties == "error":
        _check_ties(paths, constraints)
    return allowed


def _allowed(
    paths: Trajectories, constraints: StructurePrior, given: Mapping[str, Any] | None
) -> dict[str, NDArray[np.bool_]]:
    result = {}
    for name, mask in (given or {}).items():
        node = str(name)
        if node not in paths.nodes:
            raise ModelError(
                f"allowed_transitions names {node!r}, which is not a node; the nodes are "
                f"{', '.join(paths.nodes[:8])}."
            )
        if paths.nodes.index(node) in constraints.exogenous:
            raise ModelError(f"allowed_transitions names {node!r}, which is exogenous.")
        result[node] = allowed_off_diagonal(len(paths.states[node]), mask)
    return result


def _before(paths: Trajectories) -> NDArray[np.int64]:
    """(J,) the state that every jump leaves."""
    n_nodes = len(paths.nodes)
    d = np.repeat(np.arange(paths.n_trajectories), np.diff(paths.jump_offset))
    key = d * n_nodes + paths.jump_node
    order = np.argsort(key, kind="stable")
    previous = np.empty(len(key), dtype=np.int64)
    first = np.concatenate([[True], np.diff(key[order]) != 0])[: len(key)]
    entered = paths.jump_state[order]
    previous[order] = np.where(
        first, paths.initial[d, paths.jump_node][order], np.concatenate([[0], entered])[:-1]
    )
    return previous


def _check_jumps(paths: Trajectories, allowed: Mapping[str, NDArray[np.bool_]]) -> None:
    before = _before(paths) if allowed else np.empty(0, dtype=np.int64)
    for node, mask in allowed.items():
        mine = np.flatnonzero(paths.jump_node == paths.nodes.index(node))
        bad = mine[~mask[before[mine], paths.jump_state[mine]]]
        if len(bad):
            k = int(bad[0])
            labels = paths.states[node]
            raise DataError(
                f"trajectory {_trajectory(paths, k)!r}, time {paths.jump_time[k]:g}: node {node!r} "
                f"jumps from {labels[before[k]]!r} to {labels[paths.jump_state[k]]!r}, which "
                "allowed_transitions exclude"
            )


def _check_ties(paths: Trajectories, constraints: StructurePrior) -> None:
    d = np.repeat(np.arange(paths.n_trajectories), np.diff(paths.jump_offset))
    tied = np.flatnonzero((np.diff(d) == 0) & (np.diff(paths.jump_time) == 0))
    for k in tied:
        together = np.flatnonzero((d == d[k]) & (paths.jump_time == paths.jump_time[k]))
        nodes = [int(n) for n in paths.jump_node[together]]
        for one in nodes:
            for other in nodes:
                if one == other or not constraints.may_have(one, other):
                    continue
                raise DataError(
                    f"trajectory {_trajectory(paths, int(k))!r}: {paths.nodes[other]!r} and "
                    f"{paths.nodes[one]!r} both jump at time {paths.jump_time[k]:g}, and which "
                    "came first matters; change one time, or pass ties='order' if the rows are "
                    "in order"
                )


def _trajectory(paths: Trajectories, jump: int) -> object:
    return paths.labels[int(np.searchsorted(paths.jump_offset, jump, side="right")) - 1]
