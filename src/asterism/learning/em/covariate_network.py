"""Owns how covariates and factors of trajectories enter inference: as nodes.

Covariates are one exogenous node whose states are their situations.

Every different combination of covariates that occurs is a state of that node; it is a parent of
each node whose rates a covariate changes, on the first axis of their tables. So every method of
inference takes covariates as it takes any known input, and their changes at known times cost
nothing. A factor by which trajectories differ (``frailty.py``) is a hidden node that never moves,
whose states are the points of the quadrature. These nodes have names that no column can have, and
nobody outside this folder sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.learning.em.rate_model import RateModel, in_periods, require_covariates
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray, IntArray

ADDED = "\x00"
"""With this begin the names of the nodes added here."""
SITUATION = f"{ADDED}covariates"
"""Name of the node that stands for the covariates."""


@dataclass(frozen=True)
class Expanded:
    """A network with its covariates as a node, and how its rates lie in the one without."""

    network: Network
    observations: Observations
    z: FloatArray
    """(situations, columns) standardised covariates."""
    place: IntArray
    """Per flat rate: its place in the network without covariates."""
    situation: IntArray
    """Per flat rate: the situation it is for, −1 where no covariate changes the node."""
    point: IntArray
    """(rates, factors) the point of each factor that it is for, −1 where that does not act."""
    n_rates: int
    """Flat rates of the network's own nodes; those of the nodes added come after them."""

    def z_of(self, index: IntArray) -> FloatArray:
        """(rates, columns) the covariates of some flat rates; zero where none changes them."""
        situation = self.situation[index]
        z = np.zeros((len(index), self.z.shape[1]))
        z[situation >= 0] = self.z[situation[situation >= 0]]
        return z


def expand(network: Network, observations: Observations, model: RateModel) -> Expanded:
    """The network and the data with these nodes; unchanged if there are none."""
    size = len(network.compiled.rates)
    if not model.columns and not model.factors:
        nothing = np.full(size, -1, dtype=np.int64)
        point = np.zeros((size, 0), dtype=np.int64)
        z = np.zeros((0, 0))
        return Expanded(network, observations, z, np.arange(size), nothing, point, size)
    parents: dict[str, list[str]] = {node: list(above) for node, above in network.parents.items()}
    rates: dict[str, Any] = dict(network.rates)
    states: dict[str, Any] = dict(network.states)
    initial: dict[str, Any] = dict(network.initial)
    z = np.zeros((0, len(model.columns)))
    added: dict[str, tuple[str, ...]] = {}
    if model.columns:
        z, record = situations(observations, model)
        if len(z) == 1:
            z = np.concatenate([z, z])  # a node needs two states
        added[SITUATION] = model.nodes
        parents[SITUATION], rates[SITUATION] = [], None
        states[SITUATION] = [str(c) for c in range(len(z))]
        measured = {**observations.measurements, SITUATION: record}
        observations = replace(observations, measurements=measured)
    for k, factor in enumerate(model.factors):
        name, count = f"{ADDED}factor {k}", len(factor.x)
        added[name] = (factor.node,)
        parents[name], rates[name] = [], np.zeros((count, count))
        states[name], initial[name] = [str(j) for j in range(count)], factor.weights
    for name, children in reversed(added.items()):
        for node in children:
            parents[node] = [name, *parents[node]]
            rates[node] = np.broadcast_to(rates[node], (len(states[name]), *np.shape(rates[node])))
    larger = Network(parents, rates, states, initial)
    n_rates = int(larger.compiled.graph.table_start[network.n_nodes])
    place, number = _layout(network, larger, added)
    return Expanded(
        larger,
        observations,
        z,
        place,
        number.pop(SITUATION, np.full(len(place), -1)),
        np.stack([*number.values()], axis=1) if number else np.zeros((len(place), 0), np.int64),
        n_rates,
    )


def situations(observations: Observations, model: RateModel) -> tuple[FloatArray, NodeMeasurements]:
    """The combinations of covariates that occur, and when each holds."""
    columns = model.columns
    if len(model.change_times):
        observations = in_periods(observations, model.change_times)
    table = require_covariates(observations.covariates, [c.covariate for c in columns])
    each = np.stack([c.standardised(table.values[c.covariate]) for c in columns], axis=1)
    d, t = table.trajectory, table.time
    # what lies before the start holds at the start; what comes after the end never matters
    inside = t <= observations.end[d]
    inside |= np.concatenate([[True], np.diff(d) != 0])[: len(d)]
    last = np.concatenate([(np.diff(d) != 0), [True]])
    following = np.where(last, np.inf, np.append(t[1:], np.inf))
    keep = np.flatnonzero(inside & (last | (following > observations.start[d])))
    z, number = np.unique(each[keep], axis=0, return_inverse=True)
    number = number.reshape(-1)
    same = np.concatenate([[False], (np.diff(number) == 0) & (np.diff(d[keep]) == 0)])[: len(keep)]
    rows = np.flatnonzero(~same)
    count = len(rows)
    record = NodeMeasurements(
        trajectory=d[keep][rows],
        time=np.clip(
            t[keep][rows], observations.start[d[keep][rows]], observations.end[d[keep][rows]]
        ),
        value=number[rows].astype(np.float64),
        exact=np.zeros(count, dtype=np.bool_),
        row=np.arange(count, dtype=np.int64),
    )
    return z, record


def _layout(
    network: Network, larger: Network, added: Mapping[str, tuple[str, ...]]
) -> tuple[IntArray, dict[str, IntArray]]:
    """Per flat rate: its place in the smaller network, and the state of each node added."""
    old, new = network.compiled.graph, larger.compiled.graph
    size = len(larger.compiled.rates)
    place = np.zeros(size, dtype=np.int64)
    number = {name: np.full(size, -1, dtype=np.int64) for name in added}
    for n, node in enumerate(network.nodes):
        first, last = int(new.table_start[n]), int(new.table_start[n + 1])
        width = int(old.table_start[n + 1] - old.table_start[n])
        inside = np.arange(last - first)
        place[first:last] = old.table_start[n] + inside % width
        above = [name for name, children in added.items() if node in children]
        sizes = [len(larger.states[name]) for name in above]
        for name, state in zip(above, np.unravel_index(inside // width, sizes) if above else ()):
            number[name][first:last] = state
    return place, number
