"""Owns the checks of a chain that was read from a file.

Compiled loops take the numbers in a chain for places in arrays and do not look twice. A checkpoint
is a file, and a file may come from anybody: before a chain goes on, every number in it that says
where something is must be a possible one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asterism.sampling._graphs import DrawnModels
from asterism.sampling.model_setup import ModelSetup

#: arrays that grow while a chain runs
_GROWING = ("paths.time", "paths.state")


def is_sound_chain(setup: ModelSetup, fresh: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether a chain could have been written by a run with this setup; ``fresh`` is a new one."""
    if set(fresh) != set(arrays):
        return False
    for name, value in arrays.items():
        like = np.asarray(fresh[name])
        if value.dtype != like.dtype or value.ndim != like.ndim:
            return False
        if name not in _GROWING and value.shape != like.shape:
            return False
        if value.dtype.kind == "f" and np.isnan(value).any():
            return False
    return (
        int(arrays["n_sweeps"]) >= 0 and _are_families(setup, arrays) and _are_paths(setup, arrays)
    )


def _are_families(setup: ModelSetup, arrays: Mapping[str, Any]) -> bool:
    """The families are candidates of their nodes, and children point back at them."""
    candidates, n_nodes = setup.candidates, len(setup.layout.n_states)
    place = arrays["place"]
    is_open = len(setup.others.most) > 0
    if not _within(
        place[place >= 0], *(s[place >= 0] for s in (candidates.start[:-1], candidates.start[1:]))
    ):
        return False
    if not is_open and (place < 0).any():
        return False
    n_parents, parents = arrays["families.n_parents"], arrays["families.parents"]
    width = parents.shape[1]
    if not _within(n_parents, 0, width + 1):
        return False
    used = np.arange(width) < n_parents[:, None]  # what lies behind is of an earlier family
    if not _within(parents[used], 0, n_nodes):
        return False
    inside = np.flatnonzero(place >= 0)
    like = candidates.parents.shape[1]
    for name in ("n_parents", "n_configs", "parents", "term"):
        own, given = arrays[f"families.{name}"][inside], getattr(candidates, name)[place[inside]]
        if own.ndim > 1:
            chosen = used[inside][:, :like]
            own, given = own[:, :like][chosen], given[chosen]
        if not np.array_equal(own, given):
            return False
    if is_open and not _are_open_families(setup, arrays, used):
        return False
    start, child = arrays["families.child_start"], arrays["families.child"]
    return (
        _are_offsets(start, len(child))
        and _within(child, 0, n_nodes)
        and _within(arrays["families.child_slot"], 0, max(1, width))
    )


def _are_open_families(setup: ModelSetup, arrays: Mapping[str, Any], used: Any) -> bool:
    """Parents that may be, in ascending order, with the configurations that they make."""
    sizes = setup.layout.n_states
    for n, parents in enumerate(arrays["families.parents"]):
        own = parents[used[n]]
        if setup.layout.is_given[n] or not len(own):
            continue
        may = setup.others.may_be[n] | setup.others.is_required[n]
        if not may[own].all() or (np.diff(own) <= 0).any():
            return False
        stride = np.append(np.cumprod(sizes[own][::-1])[::-1], 1)
        if arrays["families.n_configs"][n] != stride[0]:
            return False
        for p, parent in enumerate(own):
            states = np.arange(sizes[parent])
            if not np.array_equal(arrays["families.term"][n, p, states], stride[p + 1] * states):
                return False
    return True


def _are_paths(setup: ModelSetup, arrays: Mapping[str, Any]) -> bool:
    """Every path lies inside its slot, every slot inside the arena, every state is one."""
    layout = setup.layout
    paths = {name.partition(".")[2]: v for name, v in arrays.items() if name.startswith("paths.")}
    n_trajectories, size = len(layout.start), np.repeat(layout.n_states, len(layout.start))
    arena = len(paths["time"])
    slot, room, n_jumps = paths["slot"], paths["room"], paths["n_jumps"]
    if len(paths["state"]) != arena or not _are_offsets(paths["first"], n_trajectories):
        return False
    inside = (
        _within(paths["initial"], 0, size)
        and _within(slot, 0, arena + 1)
        and _within(room, 0, arena - slot + 1)
        and _within(n_jumps, 0, room + 1)
        and _within(paths["limit"], 0, arena + 1)
        and _within(paths["used"], 0, paths["limit"] + 1)
    )
    if not inside:
        return False
    taken = np.repeat(slot - np.cumsum(n_jumps) + n_jumps, n_jumps) + np.arange(int(n_jumps.sum()))
    pair = np.repeat(np.arange(len(slot)), n_jumps)
    trajectory = pair % max(1, n_trajectories)
    time = paths["time"][taken]
    return (
        _within(paths["state"][taken], 0, size[pair])
        and bool(
            (time >= layout.start[trajectory]).all() and (time <= layout.end[trajectory]).all()
        )
        and bool((np.diff(time)[np.diff(pair) == 0] >= 0.0).all())
    )


def are_sound_draws(setup: ModelSetup, draws: DrawnModels) -> bool:
    """Whether kept draws of one chain are those of such a setup: as many of each, possible ones."""
    n = len(draws.n_jumps)
    widths = {"edges": len(setup.edges), "initial": len(setup.initial),
              "emission": len(setup.emitted.parameter)}  # fmt: skip
    if draws.n_jumps.ndim != 1 or draws.parents.dtype.kind != "i":
        return False
    if draws.parents.shape != (n, len(setup.names), setup.width):
        return False
    if any(getattr(draws, name).shape != (n, width) for name, width in widths.items()):
        return False
    if draws.rates.ndim != 2 or len(draws.rates) != n:
        return False
    return _within(draws.parents, -1, len(setup.names)) and all(
        bool(np.isfinite(value).all()) for value in draws
    )


def _within(values: Any, least: Any, above: Any) -> bool:
    return bool(((values >= least) & (values < above)).all())


def _are_offsets(values: Any, last: int) -> bool:
    """From 0 upwards, never beyond the last place."""
    return bool(values[0] == 0 and (np.diff(values) >= 0).all() and values[-1] <= last)
