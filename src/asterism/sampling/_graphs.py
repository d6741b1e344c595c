"""Compiled: draws of everything unknown but the paths: families, rates, starts, emissions.

The family of a node is drawn with its rates integrated out, then the rates given the family: one
block. Where the candidates are all families, it is drawn from all of them. In a large network the
candidates are the families that a search kept, and two moves take turns:

* a draw from the candidates, if the present family is one of them; otherwise it stays;
* :func:`_exchange_parent`: take one parent away, or none, and draw one more parent, or none, from
  all nodes that may be parents. With base B, present family F and options(F) ways to choose a base,

      P(B ∪ {m} | B, paths) ∝ P(B ∪ {m}) · score(B ∪ {m}) / options(B ∪ {m}) / chance(m)

  and the same for B alone with chance 1. Only some parents are compared: each m with probability
  chance(m), and the one that was taken away. Dividing by the chance corrects for that: a set in
  which the present parent always stands is drawn more often from families that hold rare parents.

Both are Gibbs steps, so neither can be refused, and no family that the prior allows is out of
reach. Where the shape of the rates' prior is unknown, it is drawn first, from a few values
(:func:`draw_shape`).

Counts of jumps are whole numbers, so their Gamma functions come from a table. All that
concerns one node's parameters uses that node's random numbers and paths only, so threads can share
the nodes (:func:`draw_nodes`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.numerics._bundle import bundle
from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import uniform
from asterism.numerics._step import copy
from asterism.sampling._emission_draws import draw_emission
from asterism.sampling._families import add_all_statistics, own_totals
from asterism.sampling._variates import draw_index, gamma
from asterism.sampling.sampler_arrays import (
    Choices,
    FloatArray,
    IntArray,
    PathModel,
    RatePrior,
    Trial,
)

#: Ω is this many times the largest rate of leaving: larger grids mix better and cost more
GRID_FACTOR = 2.0
#: and large enough for this many imagined jumps along a course of mean length: where jumps are
#: rarer, a path that says what the measurements say would hardly ever change
LEAST_POINTS = 1.0
#: below this probability a family's rates are not averaged
_NEGLIGIBLE = 1e-3


class Shapes(NamedTuple):
    """How much rates may differ: the shapes of their prior that are drawn from; one: it is known.

    The prior mean of a rate stays as it is; the shape α says how far rates scatter around it.
    """

    shape: FloatArray
    """(A,) all equally probable beforehand."""
    rate: FloatArray
    log_rate: FloatArray
    """(A, …) as in :class:`RatePrior`."""
    log_gamma: FloatArray
    """[a, m] ln Γ(α + m) − ln Γ(α) for m = 0, 1, …"""


class DrawnModels(NamedTuple):
    """What is kept of every draw."""

    edges: NDArray[np.float32]
    """(draws, edges) P(edge | paths), averaged over the sweeps of the draw."""
    parents: NDArray[np.int32]
    """(draws, N, K) the parents of every node, padded with −1."""
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
    elsewhere: FloatArray
    """(N,) how often the family was none of the candidates."""
    pairs: FloatArray
    """[child, parent] P(edge | paths); empty where the candidates are all families."""
    rates: FloatArray
    """Flat like the families' statistics: posterior means of the rates, weighed likewise."""
    statistics: FloatArray
    """The statistics themselves, weighed likewise."""
    weight: FloatArray
    """(families,) the weights in ``rates`` and ``statistics``."""
    factor: FloatArray
    """(N, kinds, shapes) P(kind and shape of a node's factors | paths); see ``_factors.py``."""
    residual: FloatArray
    """(N, D, cells of the time, low and high) jumps less those that the rates expect."""


@inner
def log_score(table, first, n_configs, size, n, prior, log_gamma):
    """ln of the evidence of complete paths for one family of node n, its rates integrated out."""
    total = 0.0
    allowed = prior.allowed_start[n]
    may_jump, rate, log_rate, shape = prior.allowed, prior.rate, prior.log_rate, prior.shape[0]
    for cell in range(n_configs * size):
        x = cell % size
        at = first + cell * size
        time = table[at + x]
        if time <= 0.0:
            # without time there are no jumps
            continue
        for y in range(size):
            place = allowed + x * size + y
            if y != x and may_jump[place]:
                count = table[at + y]
                log_time = math.log(rate[place] + time)
                number = int(count)
                if number < len(log_gamma):
                    total += log_gamma[number]
                else:
                    total += math.lgamma(shape + count) - math.lgamma(shape)
                total += shape * (log_rate[place] - log_time) - count * log_time
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
                    rate = gamma(stream, prior.shape[0] + table[first + row + y])
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
    candidates, prior = choices.candidates, choices.prior
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
                    mean = prior.shape[0] + table[at + y]
                    mean /= prior.rate[place] + table[at + x]
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
    """(N,) the present family of every node, as a row of the candidates; −1 if it is none."""
    hold: NDArray[np.bool_]
    """(1,) whether the graph is held fixed."""
    kept: IntArray
    """(3,) the draw to which the present sweep belongs, or −1; sweeps per draw; the sweep."""


@inner
def _draw_candidate(n, model, choices, paths, work, stream, room):
    """Family and rates of one node given all paths; fills ``room.table``, ``room.probability``.

    With ``room.hold`` the family stays as it is, and only its rates are drawn.
    """
    layout, _, families, rates = model
    candidates, prior = choices.candidates, choices.prior
    size = layout.n_states[n]
    first, last = candidates.start[n], candidates.start[n + 1]
    for i in range(candidates.table_start[first], candidates.table_start[last]):
        room.table[i] = 0.0
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
def draw_shape(model, choices, shapes, paths, work, room, stream):
    """The shape of the rates' prior given families and paths, rates integrated out.

    Brings ``choices.prior`` and ``room`` up to date with it.
    """
    layout, _, families, _ = model
    prior, n_shapes, largest = choices.prior, len(shapes.shape), 0
    for n in range(len(layout.n_states)):
        largest = max(largest, families.n_configs[n] * layout.n_states[n] ** 2)
    table, score, first = np.zeros(largest), np.zeros(n_shapes), int(0)
    for n in range(len(layout.n_states)):
        if layout.is_given[n]:
            continue
        table[:] = 0.0
        own = own_totals(n, model, paths)
        add_all_statistics(n, own, families, n, model, paths, work, table, first)
        for a in range(n_shapes):
            other = RatePrior(
                shapes.shape[a : a + 1], shapes.rate[a], shapes.log_rate[a], prior.allowed,
                prior.allowed_start, prior.learn_initial,
            )  # fmt: skip
            score[a] += log_score(
                table, first, families.n_configs[n], layout.n_states[n], n, other,
                shapes.log_gamma[a],
            )  # fmt: skip
    set_shape(draw_index(stream, score, 0, n_shapes), shapes, prior, room)


@kernel
def set_shape(a, shapes, prior, room):
    """Let the rates' prior have another shape and the same means."""
    prior.shape[0] = shapes.shape[a]
    copy(shapes.rate[a], prior.rate)
    copy(shapes.log_rate[a], prior.log_rate)
    copy(shapes.log_gamma[a], room.log_gamma)


@inner
def _put_parent(family, slot, parent, stride, size):
    """Let ``parent`` stand in one place of a family that is tried out."""
    family.parents[0, slot] = parent
    for x in range(size):
        family.term[0, slot, x] = stride * x


@inner
def _log_weight(n, others, family, model, choices, paths, work, own, room, trial):
    """ln of prior and evidence of the family that is tried out, over its ways to choose a base."""
    layout = model.layout
    number = family.n_parents[0]
    log_prior = others.by_number[n, number]
    if log_prior == -math.inf:
        return -math.inf
    n_free = 0
    for p in range(number):
        parent = family.parents[0, p]
        log_prior += others.log_odds[n, parent]
        n_free += 0 if others.is_required[n, parent] else 1
    options = n_free + (1 if number < others.most[n] else 0)
    size = layout.n_states[n]
    for i in range(family.n_configs[0] * size * size):
        trial.table[i] = 0.0
    first = int(0)
    add_all_statistics(n, own, family, first, model, paths, work, trial.table, first)
    configs = family.n_configs[0]
    score = log_score(trial.table, first, configs, size, n, choices.prior, room.log_gamma)
    return log_prior + score - math.log(options)


@inner
def _exchange_parent(n, may_move, model, choices, paths, work, stream, room, trial):
    """Take one parent away, or none, and draw one more, or none, if that may be; then the rates.

    ``trial.weight`` holds what each parent's probability was; those of the base are not in it. The
    base is what stands behind the first place of ``trial.family``. Returns its number of parents.
    """
    layout, _, families, rates = model
    others, family, weight = choices.others, trial.family, trial.weight
    n_nodes, size = len(layout.n_states), layout.n_states[n]
    own = own_totals(n, model, paths)
    number = families.n_parents[n]
    n_free = 0
    for p in range(number):
        n_free += 0 if others.is_required[n, families.parents[n, p]] else 1
    options = n_free + (1 if number < others.most[n] else 0)
    for m in range(n_nodes + 1):
        weight[m] = 0.0
    taken, n_base = -1, 0
    if may_move and options > 0 and not room.hold[0]:
        pick = min(int(uniform(stream) * options), options - 1)
        stride = 1
        for p in range(number):
            parent = families.parents[n, p]
            if not others.is_required[n, parent]:
                pick -= 1
                if pick == -1:
                    taken = parent
                    continue
            n_base += 1
            _put_parent(family, n_base, parent, stride, layout.n_states[parent])
            stride *= layout.n_states[parent]
        # the base alone: its parents stand from the second place on, so they move down for once
        for p in range(n_base):
            parent = family.parents[0, p + 1]
            _put_parent(family, p, parent, family.term[0, p + 1, 1], layout.n_states[parent])
        family.n_parents[0], family.n_configs[0] = n_base, stride
        weight[n_nodes] = _log_weight(
            n, others, family, model, choices, paths, work, own, room, trial
        )
        for p in range(n_base, 0, -1):
            parent = family.parents[0, p - 1]
            _put_parent(family, p, parent, family.term[0, p - 1, 1], layout.n_states[parent])
        family.n_parents[0] = n_base + 1
        for m in range(n_nodes):
            weight[m] = -math.inf
            if not others.may_be[n, m]:
                continue
            chance = others.chance[n, m]
            compared = chance >= 1.0 or uniform(stream) < chance or m == taken
            for p in range(n_base):
                compared = compared and family.parents[0, p + 1] != m
            if not compared:
                continue
            _put_parent(family, 0, m, stride, layout.n_states[m])
            family.n_configs[0] = stride * layout.n_states[m]
            weight[m] = _log_weight(
                n, others, family, model, choices, paths, work, own, room, trial
            ) - math.log(chance)
        chosen = draw_index(stream, weight, 0, n_nodes + 1)
        _rebuild(n, chosen, n_base, layout, families, trial)
        room.place[n] = _row_of(n, families, choices.candidates)
    else:
        # nothing can be exchanged, or nothing may: the present family counts as the base
        n_base = number
        for p in range(number):
            family.parents[0, p + 1] = families.parents[n, p]
    for i in range(families.n_configs[n] * size * size):
        trial.table[i] = 0.0
    first, configs = int(0), families.n_configs[n]
    add_all_statistics(n, own, families, n, model, paths, work, trial.table, first)
    _draw_rates(n, layout, rates, choices.prior, trial.table, first, configs, stream)
    return n_base


@inner
def _rebuild(n, chosen, n_base, layout, families, trial):
    """Base and chosen parent become the family of node n: ascending, the first varies slowest."""
    number = 0
    for p in range(n_base):
        families.parents[n, number] = trial.family.parents[0, p + 1]
        number += 1
    if chosen < len(layout.n_states):
        families.parents[n, number] = chosen
        number += 1
    own = families.parents[n]
    for i in range(1, number):
        parent = own[i]
        j = i
        while j > 0 and own[j - 1] > parent:
            own[j] = own[j - 1]
            j -= 1
        own[j] = parent
    stride = 1
    for p in range(number - 1, -1, -1):
        for x in range(layout.n_states[own[p]]):
            families.term[n, p, x] = stride * x
        stride *= layout.n_states[own[p]]
    families.n_parents[n] = number
    families.n_configs[n] = stride


@inner
def _row_of(n, families, candidates):
    """The candidate that is node n's present family, or −1."""
    number = families.n_parents[n]
    for f in range(candidates.start[n], candidates.start[n + 1]):
        same = candidates.n_parents[f] == number
        for p in range(number):
            same = same and candidates.parents[f, p] == families.parents[n, p]
        if same:
            return f
    return -1


@inner
def _add_edge(n, parent, probability, others, keep_every, averages, own_edges):
    """Count the probability of one edge in the averages and, where it is kept, in the draw."""
    averages.pairs[n, parent] += probability
    number = others.edge[n, parent]
    if number >= 0:
        own_edges[number] += probability / keep_every


@kernel
def draw_nodes(
    first, last, model, choices, paths, work, trial, node_streams, room, averages, edges
):
    """Family, rates, start and emission of some nodes, given all paths."""
    layout, seen, families, rates = model
    candidates, others, prior, emitted = choices
    _draw_nodes(
        first,
        last,
        PathModel(bundle(layout), bundle(seen), bundle(families), bundle(rates)),
        Choices(bundle(candidates), bundle(others), bundle(prior), bundle(emitted)),
        bundle(paths),
        bundle(work),
        Trial(bundle(trial.family), trial.table, trial.weight),
        node_streams,
        bundle(room),
        bundle(averages),
        edges,
    )


@inner
def _draw_nodes(
    first, last, model, choices, paths, work, trial, node_streams, room, averages, edges
):
    layout = model.layout
    candidates, others, prior, emitted = choices
    is_open = len(others.most) > 0
    kept, keep_every = room.kept[0], room.kept[1]
    for n in range(first, last):
        if layout.is_given[n]:
            continue
        stream = node_streams[n]
        n_base = -1
        exchanges = (room.kept[2] + n) % 2 == 0
        if is_open and (exchanges or room.place[n] < 0):
            n_base = _exchange_parent(
                n, exchanges, model, choices, paths, work, stream, room, trial
            )
        else:
            _draw_candidate(n, model, choices, paths, work, stream, room)
        if prior.learn_initial:
            _draw_start(n, model, paths, stream)
        if emitted.kind[n] > 0:
            draw_emission(n, layout, model.seen, emitted, paths, stream, work.totals, work.proposed)
        if kept < 0:
            continue
        if n_base >= 0:
            if not exchanges:
                averages.elsewhere[n] += 1.0
            for p in range(n_base):
                _add_edge(n, trial.family.parents[0, p + 1], 1.0, others, keep_every, averages,
                          edges[kept])  # fmt: skip
            for m in range(len(layout.n_states)):
                if trial.weight[m] > 0.0:
                    _add_edge(n, m, trial.weight[m], others, keep_every, averages, edges[kept])
            continue
        _add_averages(n, choices, layout.n_states[n], room, averages)
        for f in range(candidates.start[n], candidates.start[n + 1]):
            for p in range(candidates.n_parents[f]):
                if is_open:
                    _add_edge(n, candidates.parents[f, p], room.probability[f], others, keep_every,
                              averages, edges[kept])  # fmt: skip
                else:
                    edges[kept, candidates.edge[f, p]] += room.probability[f] / keep_every


@kernel
def keep_present(kept, model, emitted, paths, drawn):
    """Write the present parameters down as draw ``kept``."""
    families = model.families
    drawn.parents[kept] = -1
    for n in range(len(families.n_parents)):
        for p in range(families.n_parents[n]):
            drawn.parents[kept, n, p] = families.parents[n, p]
    if drawn.rates.shape[1] > 0:
        drawn.rates[kept] = model.rates.rate
    drawn.initial[kept] = model.rates.initial
    drawn.emission[kept] = emitted.parameter
    drawn.n_jumps[kept] = paths.n_jumps.sum()
