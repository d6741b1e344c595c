"""Learned emissions on their way to the sampler and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from asterism.learning.em import emission_fit
from asterism.model.emissions import Categorical, Gaussian, Poisson
from asterism.model.network import Network
from asterism.sampling.model_posterior import SampledModels
from asterism.sampling.model_setup import LearnedEmission


def learned_emission(network: Network, node: emission_fit.LearnedNode) -> LearnedEmission:
    """The sampler's view of a learned emission."""
    values = (
        node.start._columns(node.values, node.states)
        if isinstance(node.start, Categorical)
        else node.values
    )
    return LearnedEmission(
        network.node_index(node.node),
        node.start,
        np.asarray(values, dtype=np.float64),
        node.place[:, 0],
    )


def mean_emissions(models: SampledModels, nodes: tuple[str, ...]) -> dict[str, Any]:
    """Per node the emission with the posterior means of its parameters."""
    setup = models.setup
    mean = models.series("emission").mean(axis=(0, 1))
    result: dict[str, Any] = {}
    for learned in setup.emissions:
        n, emission = learned.node, learned.emission
        own = mean[setup.emitted.start[n] : setup.emitted.start[n + 1]]
        size = int(setup.layout.n_states[n])
        if isinstance(emission, Gaussian):
            shared = not isinstance(emission.scale, tuple)
            scale: Any = float(own[size]) if shared else tuple(own[size:].tolist())
            result[nodes[n]] = replace(emission, means=tuple(own[:size].tolist()), scale=scale)
        elif isinstance(emission, Poisson):
            result[nodes[n]] = replace(emission, means=tuple(own.tolist()))
        else:
            table = own.reshape(size, -1)
            rows = tuple(map(tuple, (table / table.sum(axis=1, keepdims=True)).tolist()))
            result[nodes[n]] = replace(emission, confusion=rows)
    return result
