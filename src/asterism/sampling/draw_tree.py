"""Owns draws as xarray: a tree with the groups that arviz and others read.

"posterior" holds what was drawn, (chain, draw, …); "sample_stats" what tells how the chains went;
"observed_data" the measurements, one row each; "log_likelihood" what each of them says about each
draw, where paths were kept. Every dimension says by coordinates what its entries
are: node, configuration, transition, parent, child.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.data.observations import Observations
from asterism.sampling.model_posterior import SampledModels
from asterism.sampling.model_setup import Drawn

if TYPE_CHECKING:
    import xarray


def draw_tree(
    models: SampledModels, drawn: Mapping[str, Drawn], observations: Observations | None = None
) -> xarray.DataTree:
    """The draws of models as a tree. ``drawn``: dimension -> what runs along it."""
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for dimension, one in {**drawn, **models.setup.drawn}.items():
        if one.labels:
            series = models.series(one.field)[:, :, one.entries]
            variables[one.field] = (("chain", "draw", dimension), series)
            coordinates[dimension] = one.labels
            coordinates |= {name: (dimension, values) for name, values in one.coordinates.items()}
    n_jumps = {"n_jumps": (("chain", "draw"), models.series("n_jumps"))}
    return tree_of(variables, coordinates, n_jumps, observations)


def tree_of(
    variables: Mapping[str, Any],
    coordinates: Mapping[str, Any],
    statistics: Mapping[str, Any],
    observations: Observations | None,
    log_likelihood: Mapping[str, Any] | None = None,
) -> xarray.DataTree:
    """The groups as one tree; chains and draws are numbered."""
    import xarray

    def numbered(content: Mapping[str, Any], along: Mapping[str, Any]) -> xarray.Dataset:
        made = xarray.Dataset(dict(content), dict(along), {"inference_library": "asterism"})
        return made.assign_coords({name: np.arange(made.sizes[name]) for name in ("chain", "draw")})

    groups = {
        "posterior": numbered(variables, coordinates),
        "sample_stats": numbered(statistics, {}),
    }
    if log_likelihood:
        group = numbered(log_likelihood, {})
        groups["log_likelihood"] = group.set_coords(["trajectory", "time", "node"])
    if observations is not None and observations.n_measurements:
        groups["observed_data"] = _observed(observations)
    return xarray.DataTree.from_dict(groups)


def _observed(observations: Observations) -> xarray.Dataset:
    """The measurements: value, or the likelihood of every state, with trajectory, time and node."""
    import xarray

    table = observations.to_frame("long")
    keys = ("trajectory", "time", "node")
    return xarray.Dataset(
        {
            str(name): ("measurement", _plain(table[name]))
            for name in table.columns
            if name not in keys
        },
        {name: ("measurement", _plain(table[name])) for name in keys if name in table.columns},
    )


def _plain(column: Any) -> Any:
    """Numbers as they are, anything else as text."""
    return column.to_numpy() if column.dtype.kind in "fiub" else column.astype(str).to_numpy(str)
