"""Owns the checks of a chain that was read from a file.

Compiled loops take the numbers in a chain for places in arrays and do not look twice. A checkpoint
is a file, and a file may come from anybody: before a chain goes on, every number in it that says
where something is must be a possible one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asterism.sampling._along import N_KINDS
from asterism.sampling._graphs import DrawnModels
from asterism.sampling.model_setup import ModelSetup

#: arrays that grow while a chain runs
_GROWING = ("paths.time", "paths.state")


def is_sound_chain(setup: ModelSetup, fresh: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether a chain could have been written by a run with this setup; ``fresh`` is a new one."""
    return (
        has_form(fresh, arrays)
        and int(arrays["n_sweeps"]) >= 0
        and _are_families(setup, arrays)
        and _are_factors(setup, arrays)
        and _are_paths(setup, arrays)
    )


def has_form(fresh: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether these are the arrays of such a chain, without NaN."""
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
    return True


def _are_families(setup: ModelSetup, arrays: Mapping[str, Any]) -> bool:
    """The families are candidates of their nodes, or sets of parents that may be, ascending."""
    place, start, others = arrays["place"], setup.candidates.start, setup.others
    inside = place >= 0
    if not within(place[inside], start[:-1][inside], start[1:][inside]):
        return False
    if not inside.all() and not len(others.most):
        return False
    for n in np.flatnonzero(~inside):
        own = arrays["parents"][n]
        own = own[own != -1]
        if not within(own, 0, len(place)) or (np.diff(own) <= 0).any():
            return False
        may = others.may_be[n] | others.is_required[n]
        if len(own) > others.most[n] or not may[own].all():
            return False
    return True


def _are_factors(setup: ModelSetup, arrays: Mapping[str, Any]) -> bool:
    """Nodes with factors belong to a group, groups have a kind and a shape; or nobody has any."""
    kind, group = arrays["rates.kind"], arrays["rates.group"]
    n_shapes = 0 if setup.factors is None else len(setup.factors.shape)
    return (
        within(kind, 0, N_KINDS if n_shapes else 1)
        and within(group, -1, len(group))
        and bool(((kind > 0) == (group >= 0)).all())
        and within(arrays["rates.group_kind"], 0, N_KINDS)
        and within(arrays["rates.group_shape"], 0, max(1, n_shapes))
    )


def _are_paths(setup: ModelSetup, arrays: Mapping[str, Any]) -> bool:
    """Every state is one, and the jumps of every path lie in its trajectory, in order."""
    layout = setup.layout
    n_trajectories, size = len(layout.start), np.repeat(layout.n_states, len(layout.start))
    n_jumps, time = arrays["paths.n_jumps"], arrays["paths.time"]
    # single counts first: a sum of forged ones may pass the largest number and begin anew
    if not within(n_jumps, 0, len(time) + 1) or n_jumps.sum() != len(time):
        return False
    pair = np.repeat(np.arange(len(n_jumps)), n_jumps)
    trajectory = pair % max(1, n_trajectories)
    return (
        len(arrays["paths.state"]) == len(time)
        and within(arrays["paths.initial"], 0, size)
        and within(arrays["paths.state"], 0, size[pair])
        and bool((time >= layout.start[trajectory]).all())
        and bool((time <= layout.end[trajectory]).all())
        and bool((np.diff(time)[np.diff(pair) == 0] >= 0.0).all())
    )


def are_sound_draws(setup: Any, draws: DrawnModels) -> bool:
    """Whether kept draws of one chain are those of such a setup: as many of each, possible ones."""
    n = len(draws.n_jumps)
    if draws.n_jumps.ndim != 1 or draws.parents.dtype.kind != "i":
        return False
    if draws.parents.shape != (n, len(setup.names), setup.width):
        return False
    if any(getattr(draws, name).shape != (n, width) for name, width in setup.kept.items()):
        return False
    if draws.rates.ndim != 2 or len(draws.rates) != n:
        return False
    return within(draws.parents, -1, len(setup.names)) and all(
        bool(np.isfinite(value).all()) for value in draws
    )


def within(values: Any, least: Any, above: Any) -> bool:
    """Whether all values are at least ``least`` and below ``above``."""
    return bool(((values >= least) & (values < above)).all())
