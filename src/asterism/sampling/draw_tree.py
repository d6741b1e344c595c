"""Owns the draws as xarray: a tree with the group "posterior", as arviz and others read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.sampling.model_posterior import SampledModels

if TYPE_CHECKING:
    import xarray


def draw_tree(models: SampledModels, fields: dict[str, tuple[str, list[str]]]) -> xarray.DataTree:
    """(chain, draw, …) arrays. ``fields``: dimension -> (field of the draws, its labels)."""
    import xarray

    setup = models.setup
    states = [
        f"{name}[{x}]"
        for name, size in zip(setup.names, setup.layout.n_states.tolist())
        for x in range(size)
    ]
    parameters = [
        f"{setup.names[e.node]}[{i}]"
        for e in sorted(setup.emissions, key=lambda e: e.node)
        for i in range(int(np.diff(setup.emitted.start)[e.node]))
    ]
    every = {
        **fields,
        "state": ("initial", states),
        "parameter": ("emission", parameters),
    }
    variables: dict[str, Any] = {
        field: (("chain", "draw", dimension), models.series(field))
        for dimension, (field, labels) in every.items()
        if labels
    }
    variables["n_jumps"] = (("chain", "draw"), models.series("n_jumps"))
    coordinates: dict[str, Any] = {
        dimension: labels for dimension, (_, labels) in every.items() if labels
    }
    coordinates["chain"] = np.arange(models.n_chains)
    coordinates["draw"] = np.arange(models.n_draws)
    posterior = xarray.Dataset(variables, coordinates, attrs={"inference_library": "asterism"})
    return xarray.DataTree.from_dict({"posterior": posterior})
