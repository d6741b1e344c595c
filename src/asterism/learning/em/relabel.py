"""Owns the cure for label switching: states of a learned emission come in the order of their means.

Exchanging two states everywhere (means, rates, start probabilities, the children's tables)
changes no likelihood. If learning has moved the means past each other, the states are exchanged
back, except where something else says which state is which: a known state, a fixed start, or
forbidden transitions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asterism.learning.em.emission_fit import LearnedNode, with_parameters
from asterism.learning.em.estimate import Coordinates, Estimate
from asterism.model.emissions import Gaussian, Poisson
from asterism.model.network import Network
from asterism.numerics.arrays import IntArray
from asterism.timeline.evidence import Evidence


def in_order_of_means(
    estimate: Estimate, coordinates: Coordinates, network: Network, evidence: Evidence
) -> Estimate:
    """The same estimate, its states renamed so that means are ordered as at the start."""
    result = estimate
    for place, learned in enumerate(coordinates.nodes):
        emission = result.emissions[place]
        if not isinstance(emission, Gaussian | Poisson) or emission.means is None:
            continue
        means = np.asarray(emission.means)
        order = np.empty(len(means), dtype=np.int64)
        order[np.argsort(np.asarray(learned.start.means), kind="stable")] = np.argsort(means)
        if (order == np.arange(len(means))).all():
            continue
        n = network.node_index(learned.node)
        if _is_anonymous(n, coordinates, network, evidence, learned):
            result = _renamed(result, place, n, order, network)
    return result


def _is_anonymous(
    n: int, coordinates: Coordinates, network: Network, evidence: Evidence, learned: LearnedNode
) -> bool:
    graph = coordinates.update.graph
    n_points = int(np.sum(evidence.points.node == n))
    labelled = n in evidence.jumps.node or n in evidence.spans.node
    labelled = (
        labelled or n_points != len(learned.values) or any(n in m.nodes for m in evidence.joint)
    )
    silent = len(learned.states) != len(network.states[learned.node])
    block = graph.place(n)
    size = int(graph.n_states[n])
    n_free = int(np.sum((coordinates.update.index >= block.start)
                        & (coordinates.update.index < block.stop)))  # fmt: skip
    restricted = n_free < int(graph.n_configurations[n]) * size * (size - 1)
    children = graph.children[graph.child_start[n] : graph.child_start[n + 1]]
    initial = network.initial[learned.node]
    learned_start = any(graph.state_start[n] in group for group in coordinates.initial_groups)
    fixed = not learned_start and np.ptp(initial) > 0.0
    return not (silent or labelled or restricted or bool(graph.is_summary[children].any()) or fixed)


def _renamed(estimate: Estimate, place: int, n: int, order: IntArray, network: Network) -> Estimate:
    """New state i is old state ``order[i]``."""
    graph = network.compiled.graph
    rates, initial = estimate.rates.copy(), estimate.initial.copy()
    first = int(graph.state_start[n])
    initial[first : first + len(order)] = estimate.initial[first + order]
    table = graph.blocks(rates, n)
    table[...] = table[:, order][:, :, order]
    for c in graph.children[graph.child_start[n] : graph.child_start[n + 1]]:
        inside = graph.place(c)
        above = graph.parents[graph.parent_start[c] : graph.parent_start[c + 1]]
        shape = (*graph.n_states[above], -1)
        axis = int(np.flatnonzero(above == n)[0])
        rates[inside] = np.take(rates[inside].reshape(shape), order, axis=axis).ravel()
    emission = estimate.emissions[place]
    each = getattr(emission, "scale", None)
    scale = np.asarray(each)[order] if isinstance(each, tuple) else None
    emissions = list(estimate.emissions)
    emissions[place] = with_parameters(emission, np.asarray(emission.means)[order], scale)
    return replace(estimate, rates=rates, initial=initial, emissions=tuple(emissions))
