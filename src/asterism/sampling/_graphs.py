"""Compiled: draws of everything unknown but the paths: families, rates, starts, emissions.

The family of a node is drawn with its rates integrated out, then the rates given the family: one
block. Counts of jumps are whole numbers, so their Gamma functions come from a table. All that
concerns one node's parameters uses that node's random numbers and paths only, so threads can share
the nodes (:func:`draw_nodes`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._jit import inner, kernel
from asterism.sampling._emission_draws import draw_emission
from asterism.sampling._families import add_all_statistics, own_totals
from asterism.sampling._variates import draw_index, gamma
from asterism.sampling.sampler_arrays import FloatArray, IntArray

#: Ω is this many times the largest rate of leaving: larger grids mix better and cost more
GRID_FACTOR = 2.0
#: and large enough for this many imagined jumps along a course of mean length: where jumps are
#: rarer, a path that says what the measurements say would hardly ever change
LEAST_POINTS = 1.0
#: below this probability a family's rates are not averaged
_NEGLIGIBLE = 1e-3


class DrawnModels(NamedTuple):
    """What is kept of every draw."""

    edges: NDArray[np.float32]
    """(draws, edges) P(edge | paths), averaged over the sweeps of the draw."""
    family: NDArray[np.int32]
    """(draws, N) the family of every node, as a row of the candidates."""
    rates: FloatArray
    """(draws, table) or (draws, 0)."""
    initial: FloatArray
    emission: FloatArray
    n_jumps: FloatArray
    """(draws,) jumps of all nodes in all trajectories."""


class DrawAverages(NamedTuple):
    """Sums over sweeps, to be divided by their number or weight."""

    family: FloatArray
    """(families,) P(family | paths)."""
    rates: FloatArray
    """Flat like the families' statistics: posterior means of the rates, weighed likewise."""
    statistics: FloatArray
    """The statistics themselves, weighed likewise."""
    weight: FloatArray
    """(families,) the weights in ``rates`` and ``statistics``."""


@inner
def log_score(table, first, n_configs, size, n, prior, log_gamma):
    """ln of the evidence of complete paths for one family of node n, its rates integrated out."""
    total = 0.0
    allowed = prior.allowed_start[n]
    for cell in range(n_configs * size):
        x = cell % size
        at = first + cell * size
        time = table[at + x]
        if time <= 0.0:
            # without time there are no jumps
            continue
        for y in range(size):
            place = allowed + x * size + y
            if y != x and prior.allowed[place]:
                count = table[at + y]
                log_time = math.log(prior.rate[place] + time)
                number = int(count)
                if number < len(log_gamma):
                    total += log_gamma[number]
                else:
                    total += math.lgamma(prior.shape + count) - math.lgamma(prior.shape)
                total += prior.shape * (prior.log_rate[place] - log_time) - count * log_time
    return total


@inner
def _adopt(n, f, families, candidates):
    families.n_parents[n] = candidates.n_parents[f]
    families.n_configs[n] = candidates.n_configs[f]
    for p in range(candidates.n_parents[f]):
        families.parents[n, p] = candidates.parents[f, p]
        for x in range(candidates.term.shape[2]):
            families.term[n, p, x] = candidates.term[f, p, x]


@inner
def _draw_rates(n, layout, rates, prior, table, first, n_configs, stream):
    """Rates of one node from their Gamma posterior; ``table[first:]`` are its statistics."""
    size = layout.n_states[n]
    allowed = prior.allowed_start[n]
    at = layout.table_start[n]
    length = 0.0
    for d in range(len(layout.start)):
        length += layout.end[d] - layout.start[d]
    least = LEAST_POINTS * len(layout.start) / length if length > 0.0 else 0.0
    for config in range(n_configs):
        most = 0.0
        for x in range(size):
            row = (config * size + x) * size
            leaving = 0.0
            for y in range(size):
                if y == x:
                    continue
                rate = 0.0
                if prior.allowed[allowed + x * size + y]:
                    rate = gamma(stream, prior.shape + table[first + row + y])
                    rate /= prior.rate[allowed + x * size + y] + table[first + row + x]
                rates.rate[at + row + y] = rate
                rates.log_rate[at + row + y] = math.log(rate) if rate > 0.0 else -math.inf
                leaving += rate
            rates.rate[at + row + x] = leaving
            most = max(most, leaving)
        omega = max(GRID_FACTOR * most, least) if most > 0.0 else 0.0
        rates.omega[layout.config_start[n] + config] = omega


@inner
def _draw_start(n, model, paths, stream):
    """Start probabilities of one node from their Dirichlet posterior.

    A node that is held from the start on says nothing about how it starts by itself.
    """
    layout, seen, _, rates = model
    n_trajectories = len(layout.start)
    first = layout.state_start[n]
    size = layout.n_states[n]
    for x in range(size):
        rates.initial[first + x] = 1.0
    for d in range(n_trajectories):
        pair = n * n_trajectories + d
        by_hand = seen.set_start[pair]
        if by_hand < seen.set_start[pair + 1] and seen.set_begin[by_hand] <= layout.start[d]:
            continue
        rates.initial[first + paths.initial[pair]] += 1.0
    total = 0.0
    for x in range(size):
        rates.initial[first + x] = gamma(stream, rates.initial[first + x])
        total += rates.initial[first + x]
    for x in range(size):
        rates.initial[first + x] /= total


@kernel
def list_children(families):
    """Bring the lists of children up to date with the parents."""
    n_nodes = len(families.n_parents)
    families.child_start[:] = 0
    for n in range(n_nodes):
        for p in range(families.n_parents[n]):
            families.child_start[families.parents[n, p] + 1] += 1
    for n in range(n_nodes):
        families.child_start[n + 1] += families.child_start[n]
    # fill from the back, moving every start down by one node, then undo that
    for n in range(n_nodes - 1, -1, -1):
        for p in range(families.n_parents[n] - 1, -1, -1):
            parent = families.parents[n, p]
            families.child_start[parent + 1] -= 1
            at = families.child_start[parent + 1]
            families.child[at] = n
            families.child_slot[at] = p
    for n in range(n_nodes):
        families.child_start[n] = families.child_start[n + 1]
    families.child_start[n_nodes] = 0
    for n in range(n_nodes):
        families.child_start[n_nodes] += families.n_parents[n]


@inner
def _add_averages(n, choices, size, room, averages):
    """Add P(family | paths), and what the rates would be on average, of one node's families."""
    candidates, prior, _ = choices
    allowed, table = prior.allowed_start[n], room.table
    for f in range(candidates.start[n], candidates.start[n + 1]):
        weight = room.probability[f]
        averages.family[f] += weight
        if weight < _NEGLIGIBLE:
            continue
        averages.weight[f] += weight
        for cell in range(candidates.n_configs[f] * size):
            x = cell % size
            at = candidates.table_start[f] + cell * size
            for y in range(size):
                averages.statistics[at + y] += weight * table[at + y]
                place = allowed + x * size + y
                if y != x and prior.allowed[place]:
                    mean = (prior.shape + table[at + y]) / (prior.rate[place] + table[at + x])
                    averages.rates[at + y] += weight * mean


class Room(NamedTuple):
    """Arrays that a chain over models needs while it draws."""

    table: FloatArray
    """Statistics of all candidate families."""
    probability: FloatArray
    """(families,) P(family | paths)."""
    log_gamma: FloatArray
    """ln Γ(α + m) − ln Γ(α) for m = 0, 1, …"""
    place: NDArray[np.int64]
    """(N,) the present family of every node, as a row of the candidates."""
    hold: NDArray[np.bool_]
    """(1,) whether the graph is held fixed."""
    kept: IntArray
    """(2,) the draw to which the present sweep belongs, or −1; and sweeps per draw."""


@inner
def _draw_family(n, model, choices, paths, work, stream, room):
    """Family and rates of one node given all paths; fills ``room.table``, ``room.probability``.

    With ``room.hold`` the family stays as it is, and only its rates are drawn.
    """
    layout, _, families, rates = model
    candidates, prior, _ = choices
    size = layout.n_states[n]
    first, last = candidates.start[n], candidates.start[n + 1]
    room.table[candidates.table_start[first] : candidates.table_start[last]] = 0.0
    own = own_totals(n, model, paths)
    for f in range(first, last):
        at = candidates.table_start[f]
        add_all_statistics(n, own, candidates, f, model, paths, work, room.table, at)
        room.probability[f] = candidates.log_prior[f] + log_score(
            room.table, at, candidates.n_configs[f], size, n, prior, room.log_gamma
        )
    chosen = draw_index(stream, room.probability, first, last)
    if not room.hold[0]:
        room.place[n] = chosen
        _adopt(n, chosen, families, candidates)
    f = room.place[n]
    _draw_rates(
        n, layout, rates, prior, room.table, candidates.table_start[f], candidates.n_configs[f],
        stream,
    )  # fmt: skip


@kernel
def draw_nodes(first, last, model, choices, paths, work, node_streams, room, averages, edges):
    """Family, rates, start and emission of some nodes, given all paths."""
    layout = model.layout
    candidates, prior, emitted = choices
    kept, keep_every = room.kept[0], room.kept[1]
    for n in range(first, last):
        if layout.is_given[n]:
            continue
        stream = node_streams[n]
        _draw_family(n, model, choices, paths, work, stream, room)
        if prior.learn_initial:
            _draw_start(n, model, paths, stream)
        if emitted.kind[n] > 0:
            draw_emission(n, layout, model.seen, emitted, paths, stream, work.totals, work.proposed)
        if kept < 0:
            continue
        _add_averages(n, choices, layout.n_states[n], room, averages)
        for f in range(candidates.start[n], candidates.start[n + 1]):
            for p in range(candidates.n_parents[f]):
                edges[kept, candidates.edge[f, p]] += room.probability[f] / keep_every


@kernel
def keep_present(kept, model, emitted, paths, room, drawn):
    """Write the present parameters down as draw ``kept``."""
    drawn.family[kept] = room.place
    if drawn.rates.shape[1] > 0:
        drawn.rates[kept] = model.rates.rate
    drawn.initial[kept] = model.rates.initial
    drawn.emission[kept] = emitted.parameter
    drawn.n_jumps[kept] = paths.n_jumps.sum()
