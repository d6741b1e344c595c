"""Messages between clusters and separators along one trajectory, compiled.

A cluster C tells its separator s three things: λ_{C→s}(x, jump) and θ_{C→s}(x) on every step, and
κ_{C→s}(x) at the start. A region's chain multiplies (or adds) what the *others* said:

    cluster    rate (owned) or 1, times λ of the other side;   exit rates plus θ of the other side
    separator  λ of both sides;                                θ of both sides

An update of C → s compares what C says about the process on s with what the separator's own chain
says, q = M/T per state and jump:

    λ ← λ (q^C / q_s)^γ,    θ ← θ − Σ q_s ((q^C / q_s)^γ − 1),    κ ← κ (m^C / m_s)^γ.

θ follows λ, so that the separator's exit rates stay in balance with its rates however large the
change. γ is 3/4 or a half, a quarter, … of it, so that a power is a few square roots; where the
iteration settles steadily but slowly it is 5/4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import float64, int64
from numba.core import types

from asterism.clusters._cluster_layout import (
    REGIONS,
    ROOM,
    TRAJECTORIES,
)
from asterism.clusters._region_chain import (
    backward_pass,
    delete_held_jumps,
    fill_base,
    forward_pass,
)
from asterism.clusters._region_evidence import fill_held, sort_evidence
from asterism.numerics._bundle import Bundle
from asterism.numerics._jit import inner, unit

_LEAST_TIME = 1e-14  # share of a step below which a state's rates are not compared
_LEAST_RATE = 1e-16  # jumps per step below which two rates count as equal
_LEAST_START = 1e-12
_LARGEST_FACTOR = 20.0  # of one update, before the power
_LARGEST_MESSAGE = 1e100


class SeparatorMessages(NamedTuple):
    """What every side of every separator was told along one trajectory."""

    rate: np.ndarray
    """(2 Σ entries, steps) λ: per separator the first side's, then the second's."""
    diagonal: np.ndarray
    """(2 Σ states, steps) θ."""
    start: np.ndarray
    """(2 Σ states,) κ."""
    news: np.ndarray
    """(clusters,) what each cluster has not taken up yet, in expected jumps: changes of what it was
    told, of its parameters, and what damping held back. A cluster without news need not be solved
    again; inf before the first time."""


class Shared(NamedTuple):
    """A cluster's times and jumps summed onto a separator."""

    time: np.ndarray
    jumps: np.ndarray
    start: np.ndarray


_F1, _F2 = float64[::1], float64[:, ::1]
MESSAGES = Bundle(types.NamedTuple((_F2, _F2, _F1, _F1), SeparatorMessages))
SHARED = Bundle(types.NamedTuple((_F2, _F2, _F1), Shared))


@inner
def power(ratio, halvings):
    """ratio to the power 3/4 · 2^−halvings; −1 halvings: to the power 5/4."""
    root = math.sqrt(ratio)
    if halvings < 0:
        return ratio * math.sqrt(root)
    result = root * math.sqrt(root)
    for _ in range(halvings):
        result = math.sqrt(result)
    return result


@inner
def start_vector(regions, r, initial, out):
    """Π p0 of the region's nodes."""
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    for x in range(regions.n_joint[r]):
        value = 1.0
        for slot in range(n_nodes):
            digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
            value *= initial[regions.state_start[regions.node[node0 + slot]] + digit]
        out[x] = value


@inner
def fill_cluster(regions, c, problem, d, is_held, table, messages, work):
    """Rates of a cluster's chain: its own, and what the other sides of its separators said."""
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    n_joint = regions.n_joint[c]
    n_entries = n_joint * regions.per_row[c]
    fill_base(regions, c, problem, n_steps, is_held, table, work)
    for border in range(regions.border_start[c], regions.border_start[c + 1]):
        s = regions.border_separator[border]
        other = 1 - regions.border_side[border]
        size = regions.message_state_start[s + 1] - regions.message_state_start[s]
        n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
        row0 = 2 * regions.message_entry_start[s] + other * n_jumps
        state0 = 2 * regions.message_state_start[s] + other * size
        entry0 = regions.border_entry_start[border]
        for e in range(n_entries):
            to = regions.border_entry[entry0 + e]
            if to >= 0:
                said = messages.rate[row0 + to]
                own = work.rate[e]
                for k in range(n_steps):
                    own[k] *= said[k]
        for x in range(n_joint):
            to = regions.border_state[regions.border_state_start[border] + x]
            said = messages.diagonal[state0 + to]
            own = work.diagonal[x]
            for k in range(n_steps):
                own[k] += said[k]
            work.start[x] *= messages.start[state0 + to]


@inner
def fill_separator(regions, s, problem, d, table, messages, work):
    """Rates of a separator's chain: what both sides said."""
    r = regions.n_clusters + s
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    n_joint = regions.n_joint[r]
    n_entries = n_joint * regions.per_row[r]
    work.loaded[0] = -1.0
    row0 = 2 * regions.message_entry_start[s]
    state0 = 2 * regions.message_state_start[s]
    for e in range(n_entries):
        factor = table[regions.base_index[regions.entry_start[r] + e]]
        left = messages.rate[row0 + e]
        right = messages.rate[row0 + n_entries + e]
        own = work.rate[e]
        for k in range(n_steps):
            own[k] = factor * left[k] * right[k]
    for x in range(n_joint):
        left = messages.diagonal[state0 + x]
        right = messages.diagonal[state0 + n_joint + x]
        own = work.diagonal[x]
        for k in range(n_steps):
            own[k] = left[k] + right[k]
        work.start[x] *= messages.start[state0 + x] * messages.start[state0 + n_joint + x]


@unit(
    (REGIONS, int64, TRAJECTORIES, int64, _F1, _F1, MESSAGES, float64, _F1, ROOM), returns=float64
)
def solve_region(regions, r, problem, d, table, initial, messages, precision, counted, work):
    """Forward–backward of a cluster or a separator given the messages; ln Z.

    Recorded jumps are added to ``counted`` unless it is empty.
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    for k in range(n_steps):
        work.step[k] = first + k
    start_vector(regions, r, initial, work.start)
    is_held = fill_held(regions, r, problem, d, work)
    if r < regions.n_clusters:
        fill_cluster(regions, r, problem, d, is_held, table, messages, work)
    else:
        fill_separator(regions, r - regions.n_clusters, problem, d, table, messages, work)
    if is_held:
        delete_held_jumps(regions, r, n_steps, work)
    taken_out = sort_evidence(regions, r, problem, d, work)
    if not backward_pass(work.addresses, regions, r, problem, d, table, precision, is_held, work):
        return -np.inf
    clear_rows(work.time, regions.n_joint[r], n_steps)
    clear_rows(work.jumps, regions.n_joint[r] * regions.per_row[r], n_steps)
    return taken_out + forward_pass(
        work.addresses, regions, r, problem, d, table, precision, is_held, bool(True), counted, work
    )


@inner
def clear_rows(matrix, n_rows, n_columns):
    """Set the first columns of the first rows to zero."""
    for i in range(n_rows):
        row = matrix[i]
        for k in range(n_columns):
            row[k] = 0.0


@inner
def sum_onto(regions, c, border, n_steps, work, shared):
    """Add the cluster's times and jumps up over what the separator does not see."""
    s = regions.border_separator[border]
    size = regions.message_state_start[s + 1] - regions.message_state_start[s]
    n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
    for x in range(size):
        shared.start[x] = 0.0
    clear_rows(shared.time, size, n_steps)
    clear_rows(shared.jumps, n_jumps, n_steps)
    n_joint = regions.n_joint[c]
    for x in range(n_joint):
        to = regions.border_state[regions.border_state_start[border] + x]
        shared.start[to] += work.first_time[x]
        row = shared.time[to]
        own = work.time[x]
        for k in range(n_steps):
            row[k] += own[k]
    for e in range(n_joint * regions.per_row[c]):
        to = regions.border_entry[regions.border_entry_start[border] + e]
        if to >= 0:
            row = shared.jumps[to]
            own = work.jumps[e]
            for k in range(n_steps):
                row[k] += own[k]


@unit(
    (REGIONS, int64, int64, TRAJECTORIES, int64, int64, ROOM, SHARED, ROOM, MESSAGES),
    returns=float64,
)
def update_messages(regions, c, border, problem, d, halvings, cluster, shared, work, messages):
    """Tell the separator what the cluster knows; the largest disagreement before.

    ``cluster`` and ``work`` hold the solved chains of cluster and separator.

    Disagreement: jumps that one expects and the other does not, added up over the steps. It bounds
    by how much probabilities differ.
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    sum_onto(regions, c, border, n_steps, cluster, shared)
    s = regions.border_separator[border]
    side = regions.border_side[border]
    size = regions.message_state_start[s + 1] - regions.message_state_start[s]
    n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
    row0 = 2 * regions.message_entry_start[s] + side * n_jumps
    state0 = 2 * regions.message_state_start[s] + side * size
    per_row = n_jumps // size
    widths, rates = problem.width, work.rate
    their_jumps, my_jumps = shared.jumps, work.jumps
    worst = 0.0
    for x in range(size):
        theirs = shared.time[x]
        mine = work.time[x]
        told = messages.diagonal[state0 + x]
        for e in range(x * per_row, (x + 1) * per_row):
            said = messages.rate[row0 + e]
            moved = 0.0
            for k in range(n_steps):
                width = widths[first + k]
                least = _LEAST_TIME * width
                if theirs[k] > least and mine[k] > least and rates[e, k] > 0.0:
                    floor = _LEAST_RATE / width
                    wanted = max(their_jumps[e, k] / theirs[k], floor)
                    present = max(my_jumps[e, k] / mine[k], floor)
                    moved += abs(wanted - present) * theirs[k]
                    ratio = min(max(wanted / present, 1.0 / _LARGEST_FACTOR), _LARGEST_FACTOR)
                    factor = power(ratio, halvings)
                    said[k] = min(max(said[k] * factor, 1.0 / _LARGEST_MESSAGE), _LARGEST_MESSAGE)
                    told[k] -= present * (factor - 1.0)
            worst = moved if not moved <= worst else worst
        if shared.start[x] > _LEAST_START and work.first_time[x] > _LEAST_START:
            ratio = shared.start[x] / work.first_time[x]
            ratio = min(max(ratio, 1.0 / _LARGEST_FACTOR), _LARGEST_FACTOR)
            messages.start[state0 + x] *= power(ratio, halvings)
        worst = max(worst, abs(shared.start[x] - work.first_time[x]))
    return worst


@inner
def start_again(messages, first):
    """Set all messages of a trajectory to the first ones."""
    rate, diagonal = first
    for row in range(messages.rate.shape[0]):
        for k in range(messages.rate.shape[1]):
            messages.rate[row, k] = rate[row]
    for row in range(messages.diagonal.shape[0]):
        for k in range(messages.diagonal.shape[1]):
            messages.diagonal[row, k] = diagonal[row]
        messages.start[row] = 1.0
    for c in range(messages.news.shape[0]):
        messages.news[c] = np.inf
