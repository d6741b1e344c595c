"""Learned emissions on their way to the sampler and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from asterism.learning.em import emission_fit
from asterism.model.emissions import Categorical
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
        if isinstance(emission, Categorical):
            table = own.reshape(size, -1)
            values, scale = table / table.sum(axis=1, keepdims=True), None
        else:
            values, scale = own[:size], own[size:] if len(own) > size else None
        result[nodes[n]] = emission_fit.with_parameters(emission, values, scale)
    return result
