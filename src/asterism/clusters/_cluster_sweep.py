"""Sweeps over all clusters of one trajectory until they agree, then counting or reading; compiled.

A sweep passes over the clusters that have no news (``SeparatorMessages.news``), and counting keeps
what it found where no message has changed since: after a change of one node's rates only the
clusters around it are solved again.
Python calls ``solve_trajectory`` only. ``_cluster_messages.py`` says what one update does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64
from numba.core import types

from asterism.clusters._cluster_layout import (
    REGIONS,
    ROOM,
    TRAJECTORIES,
)
from asterism.clusters._cluster_messages import (
    solve_region,
    start_again,
    update_messages,
)
from asterism.clusters._region_chain import find_ending
from asterism.clusters._region_evidence import (
    count_columns,
    count_points,
    count_starts,
    fill_held,
)
from asterism.clusters._region_step import advance, load_column, load_transposed, parts_of
from asterism.engine._outcome import (
    CONVERGED,
    EVIDENCE,
    IMPOSSIBLE,
    RESIDUAL,
    STATUS,
    SWEEP_LIMIT,
    SWEEPS,
)
from asterism.numerics._bundle import Bundle, bundle
from asterism.numerics._jit import inner, kernel, unit

_LOOSEST = 1e-6  # precision of a series while the messages still move
_NO_NEWS = 0.25  # times the tolerance
_FINEST = 1e-14
_PATIENCE = 6  # sweeps without progress before damping further
_MOST_HALVINGS = 5
_STEADY = 0.1  # below this disagreement, falling in every sweep but by less than
_SLOW = 0.3  # this factor in two, the updates may go further than what is seen
_LOST = 100.0  # a disagreement this much above the best so far: start again, damped more

HALVINGS, REGION, STEP, FAILURE = 2, 3, 4, 5
"""Columns of the integers, behind those of every rule: how often damping was halved, and where a
trajectory failed."""
N_INTEGERS = 6
FORBIDDEN = 2
"""Column of the totals, likewise: expected jumps at rates of zero."""
N_TOTALS = 3
UPDATE, CONCLUDE, READING = 0, 1, 2
"""What a sweep does."""


class ClusterReading(NamedTuple):
    """Where joint probabilities of a cluster are wanted; cluster −1: nowhere."""

    cluster: int
    step: np.ndarray
    """Step of each time; the number of steps for the end."""
    inside: np.ndarray
    """Time since the beginning of that step."""
    probability: np.ndarray
    """(times, states) the answer."""
    ending: np.ndarray
    """(steps, states) for the backward vectors at the ends of the steps; empty: not wanted."""


class Found(NamedTuple):
    """What was counted last, by trajectory; it stays with the messages that it was counted for."""

    table: np.ndarray
    """(D, rates) as the network's flat rates: transitions, and times on the diagonal."""
    initial: np.ndarray
    """(D, states)"""
    points: np.ndarray
    """Probability of each state at every measurement."""
    value: np.ndarray
    """(D, regions) ln Z."""
    forbidden: np.ndarray
    """(D, clusters) expected jumps at rates of zero."""
    is_current: np.ndarray
    """(D, regions) whether the region's chain is still the one that was counted."""


_F1, _F2 = float64[::1], float64[:, ::1]
READING_BUNDLE = Bundle(types.NamedTuple((int64, int64[::1], _F1, _F2, _F2), ClusterReading))
FOUND = Bundle(types.NamedTuple((_F2, _F2, _F1, _F2, _F2, boolean[:, ::1]), Found))


@inner
def sweep(regions, problem, d, parameters, messages, damping, works, outcome, answers):
    """Go through the clusters once: update messages, or count and add up F, or read one cluster.

    ``damping``: what to do (UPDATE, CONCLUDE or READING), how often γ was halved, how much news a
    cluster may leave for later, and whether to go through the clusters in their order. Returns the
    largest disagreement met; −1 where evidence is impossible (``outcome`` says where).
    """
    mode, halvings, ignored, is_forward = damping
    held_back = 0.25 if halvings < 0 else 1.0 - 0.75 * 0.5**halvings
    work, own, shared = works
    table, _, is_zero = parameters
    totals, integers, _ = outcome
    found, reading = answers
    nothing = found.table[d, :0]
    worst = 0.0
    total = 0.0
    totals[d, FORBIDDEN] = 0.0
    for place in range(regions.n_clusters):
        # to and fro: what is known at one end reaches the other within a sweep either way
        c = place if is_forward else regions.n_clusters - 1 - place
        if mode == READING and c != reading.cluster:
            continue
        if mode == UPDATE and regions.border_start[c] == regions.border_start[c + 1]:
            continue
        precision = _FINEST
        if mode == UPDATE:
            if messages.news[c] <= ignored:
                worst = max(worst, messages.news[c])
                continue
            precision = min(max(1e-3 * messages.news[c], _FINEST), _LOOSEST)
            messages.news[c] = precision
        if mode != CONCLUDE or not found.is_current[d, c]:
            counted = nothing
            if mode == CONCLUDE:
                counted = found.table[d]
                _clear_counts(regions, c, counted, found.initial[d])
            value = _solve(
                regions, c, problem, d, parameters, messages, precision, counted, work, integers
            )
            if value == -np.inf:
                return -1.0
            if mode == CONCLUDE:
                found.value[d, c] = value
                found.forbidden[d, c] = count(
                    work.addresses, regions, c, problem, d, is_zero, work, found
                )
                found.is_current[d, c] = True
        if mode == CONCLUDE:
            total += found.value[d, c]
            totals[d, FORBIDDEN] += found.forbidden[d, c]
        elif mode == READING:
            read(work.addresses, regions, problem, d, table, work, reading, _FINEST)
            return 0.0
        for border in range(regions.border_start[c], regions.border_start[c + 1]):
            if mode == CONCLUDE and regions.border_side[border] == 1:
                continue  # every separator once
            r = regions.n_clusters + regions.border_separator[border]
            if mode != CONCLUDE or not found.is_current[d, r]:
                value = _solve(
                    regions, r, problem, d, parameters, messages, precision, nothing, own, integers
                )
                if value == -np.inf:
                    return -1.0
                if mode == CONCLUDE:
                    found.value[d, r] = value
                    found.is_current[d, r] = True
            if mode == CONCLUDE:
                total -= found.value[d, r]
            else:
                change = update_messages(
                    work.addresses,
                    regions,
                    c,
                    border,
                    problem,
                    d,
                    halvings,
                    work,
                    shared,
                    own,
                    messages,
                )
                messages.news[regions.border_cluster[border]] += change
                found.is_current[d, r] = False
                found.is_current[d, regions.border_cluster[border]] = False
                messages.news[c] += held_back * change
                # a comparison with nan must not pass for agreement
                worst = change if not change <= worst else worst
    if mode == CONCLUDE:
        totals[d, EVIDENCE] = total
    return worst


@inner
def _solve(regions, r, problem, d, parameters, messages, precision, counted, work, integers):
    """:func:`solve_region`; notes where evidence is impossible."""
    table, initial, _ = parameters
    value = solve_region(
        work.addresses, regions, r, problem, d, table, initial, messages, precision, counted, work
    )  # fmt: skip
    if value == -np.inf:
        integers[d, STATUS] = IMPOSSIBLE
        integers[d, REGION] = r
        integers[d, STEP] = work.failure[0]
        integers[d, FAILURE] = work.failure[1]
    return value


@inner
def _clear_counts(regions, c, table, initial):
    """Forget what was counted of the nodes that a cluster owns."""
    for j in range(regions.owned_start[c], regions.owned_start[c + 1]):
        node = regions.node[regions.node_start[c] + regions.owned_slot[j]]
        for i in range(regions.table_start[node], regions.table_start[node + 1]):
            table[i] = 0.0
        for i in range(regions.state_start[node], regions.state_start[node + 1]):
            initial[i] = 0.0


@unit((REGIONS, int64, TRAJECTORIES, int64, boolean[::1], ROOM, FOUND), returns=float64)
def count(regions, c, problem, d, is_zero, work, found):
    """A cluster's expected statistics of the nodes it owns; jumps at rates of zero.

    ``is_zero``: which entries of the table have a rate of zero, but not under every configuration.
    """
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    is_held = fill_held(regions, c, problem, d, work)
    forbidden = count_columns(regions, c, problem, n_steps, is_held, is_zero, work, found.table[d])
    count_starts(regions, c, work, found.initial[d])
    for j in range(regions.owned_start[c], regions.owned_start[c + 1]):
        count_points(regions, c, problem, d, work, regions.owned_slot[j], found.points)
    return forbidden


@unit((REGIONS, TRAJECTORIES, int64, _F1, ROOM, READING_BUNDLE, float64))
def read(regions, problem, d, table, work, reading, precision):
    """Joint probabilities of a solved cluster at the times wanted."""
    c = reading.cluster
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[c]
    left = work.vector[1]
    right = work.vector[4]
    is_held = fill_held(regions, c, problem, d, work)
    for k in range(len(reading.ending)):
        find_ending(regions, c, problem, d, table, is_held, work, k, reading.ending[k])
    for i in range(len(reading.step)):
        k = reading.step[i]
        forward, backward = work.forward[k], work.backward[k]
        for x in range(n_joint):
            left[x] = forward[x]
            right[x] = backward[x]
        if k < n_steps and reading.inside[i] > 0.0:
            find_ending(regions, c, problem, d, table, is_held, work, k, right)
            _, bound = load_column(n_joint, regions.per_row[c], work, work.column[k], is_held)
            load_transposed(regions, c, work)
            for side in range(2):
                length = (
                    reading.inside[i] if side == 0 else problem.width[first + k] - reading.inside[i]
                )
                vector = left if side == 0 else right
                n_parts = parts_of(bound * length, precision)
                step = length / n_parts
                rates = work.back if side == 0 else work.local
                advance(regions, c, work, rates, step, n_parts, precision, vector, bool(False))
        norm = 0.0
        for x in range(n_joint):
            norm += left[x] * right[x]
        for x in range(n_joint):
            reading.probability[i, x] = left[x] * right[x] / norm


@kernel
def solve_trajectory(
    regions, problem, d, parameters, messages, first, settings, works, outcome, answers
):
    """Iterate trajectory d until it settles, and count; or read.

    ``parameters``: base table, start probabilities, which rates are zero. ``first``: λ and θ to
    start again from if the iteration leaves the range of numbers. ``settings``: tolerance, largest
    number of sweeps. ``outcome``: see ``engine/batch.py``; its history is the largest disagreement.
    ``answers``: what is expected, and a reading: if it names a cluster, nothing else is done.
    """
    regions, problem, messages = bundle(regions), bundle(problem), bundle(messages)
    works = (bundle(works[0]), bundle(works[1]), bundle(works[2]))
    answers = (bundle(answers[0]), bundle(answers[1]))
    tolerance, max_sweeps = settings
    totals, integers, history = outcome
    found, reading = answers
    integers[d, STATUS] = SWEEP_LIMIT
    halvings = integers[d, HALVINGS]
    mode = UPDATE
    if reading.cluster >= 0:
        mode = READING
    elif len(regions.message_state_start) == 1:
        integers[d, STATUS] = CONVERGED
        mode = CONCLUDE
    best = np.inf
    worst = 1.0
    since = 0
    n_sweeps = 0
    is_fresh = False
    before = np.inf  # disagreement of the last two sweeps
    last = np.inf
    may_hurry = True
    while True:
        damping = (mode, halvings, _NO_NEWS * tolerance, n_sweeps % 2 == 0)
        worst = sweep(regions, problem, d, parameters, messages, damping, works, outcome, answers)
        if mode != UPDATE:
            break
        history[d, n_sweeps] = worst
        n_sweeps += 1
        totals[d, RESIDUAL] = worst
        is_lost = integers[d, STATUS] == IMPOSSIBLE
        if is_lost and (is_fresh or halvings == _MOST_HALVINGS):
            break  # from the first messages everything possible is possible: the evidence is not
        if is_lost or not worst < _LOST * min(best, 1.0):
            integers[d, STATUS] = SWEEP_LIMIT
            start_again(messages, first)
            for r in range(found.is_current.shape[1]):
                found.is_current[d, r] = False
            halvings = min(halvings + 1, _MOST_HALVINGS)
            best = np.inf
            worst = 1.0
            since = 0
            is_fresh = True
        else:
            is_fresh = False
            since += 1
            if worst <= tolerance:
                integers[d, STATUS] = CONVERGED
                mode = CONCLUDE
            elif worst < 0.8 * best:
                best = worst
                since = 0
            elif since >= _PATIENCE and halvings < _MOST_HALVINGS:
                halvings += 1
                best = worst
                since = 0
            is_steady = n_sweeps > _PATIENCE and worst < _STEADY and worst < last < before
            if halvings < 0 and not worst < before:
                halvings = 0
                may_hurry = False
            elif halvings == 0 and may_hurry and is_steady and _SLOW * before < worst:
                halvings = -1
        before = last
        last = worst
        if n_sweeps >= max_sweeps:
            mode = CONCLUDE
    integers[d, SWEEPS] = n_sweeps
    integers[d, HALVINGS] = halvings
