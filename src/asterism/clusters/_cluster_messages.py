"""Messages between clusters and separators along one trajectory, compiled.

A cluster C tells its separator s three things: λ_{C→s}(x, jump) and θ_{C→s}(x) on every step, and
κ_{C→s}(x) at the start. A region's chain multiplies (or adds) what the *others* said:

    cluster    rate (owned) or 1, times λ of the other side;   exit rates plus θ of the other side
    separator  λ of both sides;                                θ of both sides

An update of C → s compares what C says about the process on s with what the separator's own chain
says, q = M/T per state and jump:

    λ ← λ (q^C / q_s)^γ,    θ ← θ − Σ q_s ((q^C / q_s)^γ − 1),    κ ← κ (m^C / m_s)^γ.

θ follows λ, so that the separator's exit rates stay in balance with its rates however large the
change. γ is 3/4 or a half, a quarter, … of it, so that a power is a few square roots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.clusters._region_chain import (
    FIRST_VALUE,
    KIND,
    LIKELIHOOD,
    POINT,
    backward_pass,
    column_terms,
    fill_base,
    fill_evidence,
    forward_pass,
    has_spans,
    hold,
    jump_table_index,
    load_step,
    parts_of,
    rescale,
    row_terms,
    series_length,
)
from asterism.numerics._jit import inner, kernel

_LEAST_TIME = 1e-14  # share of a step below which a state's rates are not compared
_LEAST_RATE = 1e-16  # jumps per step below which two rates count as equal
_LEAST_START = 1e-12
_LARGEST_FACTOR = 20.0  # of one update, before the power
_LARGEST_MESSAGE = 1e100
_LOOSEST = 1e-6  # precision of a series while the messages still move
_FINEST = 1e-14
_PATIENCE = 6  # sweeps without progress before damping further
_MOST_HALVINGS = 5
_LOST = 100.0  # a disagreement this much above the best so far: start again, damped more

UNSETTLED, SETTLED, FAILED = 0, 1, 2
STATUS, SWEEPS, HALVINGS, REGION, STEP, FAILURE = 0, 1, 2, 3, 4, 5
"""Columns of ``integers``: how a trajectory ended, and where it failed."""
N_INTEGERS = 6
EVIDENCE, RESIDUAL, FORBIDDEN = 0, 1, 2
"""Columns of ``numbers``; forbidden: expected jumps at rates of zero."""
N_NUMBERS = 3
UPDATE, CONCLUDE, READ = 0, 1, 2
"""What a sweep does."""


class Messages(NamedTuple):
    """What every side of every separator was told along one trajectory."""

    rate: np.ndarray
    """(2 Σ entries, steps) λ: per separator the first side's, then the second's."""
    diagonal: np.ndarray
    """(2 Σ states, steps) θ."""
    start: np.ndarray
    """(2 Σ states,) κ."""


class Shared(NamedTuple):
    """A cluster's times and jumps summed onto a separator."""

    time: np.ndarray
    jumps: np.ndarray
    start: np.ndarray


class Reading(NamedTuple):
    """Where joint probabilities of a cluster are wanted; cluster −1: nowhere."""

    cluster: int
    step: np.ndarray
    """Step of each time; the number of steps for the end."""
    inside: np.ndarray
    """Time since the beginning of that step."""
    probability: np.ndarray
    """(times, states) the answer."""


class Found(NamedTuple):
    """Expected statistics, added up over trajectories."""

    table: np.ndarray
    """As the network's flat rates: transitions, and times on the diagonal."""
    initial: np.ndarray
    points: np.ndarray
    """Probability of each state at every measurement."""
    is_zero: np.ndarray
    """Which entries of the table have a rate of zero, but not under every configuration."""


@inner
def power(ratio, halvings):
    """ratio to the power 3/4 · 2^−halvings."""
    root = math.sqrt(ratio)
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
def fill_cluster(regions, c, problem, d, table, messages, work):
    """Rates of a cluster's chain: its own, and what the other sides of its separators said."""
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    n_joint = regions.n_joint[c]
    n_entries = n_joint * regions.per_row[c]
    fill_base(regions, c, problem, d, table, work)
    for link in range(regions.link_start[c], regions.link_start[c + 1]):
        s = regions.link_separator[link]
        other = 1 - regions.link_side[link]
        size = regions.message_state_start[s + 1] - regions.message_state_start[s]
        n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
        row0 = 2 * regions.message_entry_start[s] + other * n_jumps
        state0 = 2 * regions.message_state_start[s] + other * size
        for e in range(n_entries):
            to = regions.link_entry[regions.link_entry_start[link] + e]
            if to >= 0:
                said = messages.rate[row0 + to]
                own = work.rate[e]
                for k in range(n_steps):
                    own[k] *= said[k]
        for x in range(n_joint):
            to = regions.link_state[regions.link_state_start[link] + x]
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


@inner
def solve_region(regions, r, problem, d, parameters, messages, precision, work):
    """Forward–backward of a cluster or a separator given the messages; ln Z."""
    table, initial = parameters
    start_vector(regions, r, initial, work.start)
    if r < regions.n_clusters:
        fill_cluster(regions, r, problem, d, table, messages, work)
    else:
        fill_separator(regions, r - regions.n_clusters, problem, d, table, messages, work)
    taken_out = fill_evidence(regions, r, problem, d, work)
    is_held = has_spans(regions, r, problem, d)
    if not backward_pass(regions, r, problem, d, table, precision, is_held, work):
        return -np.inf
    return taken_out + forward_pass(regions, r, problem, d, table, precision, is_held, work)


@inner
def sum_onto(regions, c, link, n_steps, work, shared):
    """Add the cluster's times and jumps up over what the separator does not see."""
    s = regions.link_separator[link]
    size = regions.message_state_start[s + 1] - regions.message_state_start[s]
    n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
    for x in range(size):
        shared.start[x] = 0.0
        row = shared.time[x]
        for k in range(n_steps):
            row[k] = 0.0
    for e in range(n_jumps):
        row = shared.jumps[e]
        for k in range(n_steps):
            row[k] = 0.0
    n_joint = regions.n_joint[c]
    for x in range(n_joint):
        to = regions.link_state[regions.link_state_start[link] + x]
        shared.start[to] += work.first_time[x]
        row = shared.time[to]
        own = work.time[x]
        for k in range(n_steps):
            row[k] += own[k]
    for e in range(n_joint * regions.per_row[c]):
        to = regions.link_entry[regions.link_entry_start[link] + e]
        if to >= 0:
            row = shared.jumps[to]
            own = work.jumps[e]
            for k in range(n_steps):
                row[k] += own[k]


@inner
def update_messages(regions, link, problem, d, halvings, shared, work, messages):
    """Tell the separator what the cluster knows; the largest disagreement before.

    Disagreement: jumps that one expects and the other does not, added up over the steps. It bounds
    by how much probabilities differ.
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    s = regions.link_separator[link]
    side = regions.link_side[link]
    size = regions.message_state_start[s + 1] - regions.message_state_start[s]
    n_jumps = regions.message_entry_start[s + 1] - regions.message_entry_start[s]
    row0 = 2 * regions.message_entry_start[s] + side * n_jumps
    state0 = 2 * regions.message_state_start[s] + side * size
    per_row = n_jumps // size
    worst = 0.0
    for x in range(size):
        theirs = shared.time[x]
        mine = work.time[x]
        told = messages.diagonal[state0 + x]
        for e in range(x * per_row, (x + 1) * per_row):
            said = messages.rate[row0 + e]
            moved = 0.0
            for k in range(n_steps):
                width = problem.width[first + k]
                least = _LEAST_TIME * width
                if theirs[k] > least and mine[k] > least and work.rate[e, k] > 0.0:
                    floor = _LEAST_RATE / width
                    wanted = max(shared.jumps[e, k] / theirs[k], floor)
                    present = max(work.jumps[e, k] / mine[k], floor)
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
def sweep(regions, problem, d, parameters, messages, damping, works, outcome, answers):
    """Go through the clusters once: update messages, or count and add up F, or read one cluster.

    ``damping``: what to do (UPDATE, CONCLUDE or READ), how often γ was halved, the precision of
    the series, and whether to go through the clusters in their order. Returns the largest
    disagreement met; −1 where evidence is impossible (``outcome`` says where).
    """
    mode, halvings, precision, is_forward = damping
    work, own, shared = works
    integers, numbers, _ = outcome
    found, reading = answers
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    worst = 0.0
    total = 0.0
    numbers[d, FORBIDDEN] = 0.0
    for place in range(regions.n_clusters):
        # to and fro: what is known at one end reaches the other within a sweep either way
        c = place if is_forward else regions.n_clusters - 1 - place
        if mode == READ and c != reading.cluster:
            continue
        if mode == UPDATE and regions.link_start[c] == regions.link_start[c + 1]:
            continue
        value = solve_region(regions, c, problem, d, parameters, messages, precision, work)
        if value == -np.inf:
            _note_failure(integers, d, c, work)
            return -1.0
        total += value
        if mode == CONCLUDE:
            numbers[d, FORBIDDEN] += _count(regions, c, problem, d, work, found)
        elif mode == READ:
            read(regions, problem, d, work, reading, precision)
            return 0.0
        for link in range(regions.link_start[c], regions.link_start[c + 1]):
            if mode == CONCLUDE and regions.link_side[link] == 1:
                continue  # every separator once
            r = regions.n_clusters + regions.link_separator[link]
            value = solve_region(regions, r, problem, d, parameters, messages, precision, own)
            if value == -np.inf:
                _note_failure(integers, d, r, own)
                return -1.0
            total -= value
            if mode == UPDATE:
                sum_onto(regions, c, link, n_steps, work, shared)
                change = update_messages(regions, link, problem, d, halvings, shared, own, messages)
                # a comparison with nan must not pass for agreement
                worst = change if not change <= worst else worst
    if mode == CONCLUDE:
        numbers[d, EVIDENCE] = total
    return worst


@inner
def _note_failure(integers, d, r, work):
    integers[d, STATUS] = FAILED
    integers[d, REGION] = r
    integers[d, STEP] = work.counts[1]
    integers[d, FAILURE] = work.counts[2]


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


@inner
def _count(regions, c, problem, d, work, found):
    """Add a cluster's expected statistics of the nodes it owns; jumps at rates of zero."""
    forbidden = 0.0
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[c]
    per_row = regions.per_row[c]
    node0 = regions.node_start[c]
    n_nodes = regions.node_start[c + 1] - node0
    owned0 = regions.owned_start[c]
    n_owned = regions.owned_start[c + 1] - owned0
    n_network = len(regions.block)
    for j in range(n_owned):
        slot = regions.owned_slot[owned0 + j]
        node = regions.node[node0 + slot]
        column = problem.input_column[node]
        block = regions.block[node]
        for x in range(n_joint):
            digit = regions.digit[regions.digit_start[c] + x * n_nodes + slot]
            found.initial[regions.state_start[node] + digit] += work.first_time[x]
            at = regions.exit_index[regions.exit_start[c] + x * n_owned + j]
            for k in range(n_steps):
                shift = problem.input_shift[first + k, column] * block if column >= 0 else 0
                found.table[at + shift] += work.time[x, k]
            for e in range(x * per_row, (x + 1) * per_row):
                if regions.entry_slot[regions.entry_start[c] + e] == slot:
                    base = regions.base_index[regions.entry_start[c] + e]
                    for k in range(n_steps):
                        shift = problem.input_shift[first + k, column] * block if column >= 0 else 0
                        found.table[base + shift] += work.jumps[e, k]
                        if found.is_zero[base + shift]:
                            forbidden += work.jumps[e, k]
        pair = d * n_network + node
        for row in range(problem.event_start[pair], problem.event_start[pair + 1]):
            if problem.event[row, KIND] == LIKELIHOOD:
                at = problem.event[row, FIRST_VALUE]
                k = problem.event[row, POINT]
                norm = 0.0
                for x in range(n_joint):
                    norm += work.forward[k, x] * work.backward[k, x]
                for x in range(n_joint):
                    digit = regions.digit[regions.digit_start[c] + x * n_nodes + slot]
                    found.points[at + digit] += work.forward[k, x] * work.backward[k, x] / norm
    for row in range(work.counts[0]):
        _count_recorded(regions, c, problem, d, row, work, found)
    return forbidden


@inner
def _count_recorded(regions, c, problem, d, row, work, found):
    """Count a recorded jump of an owned node where it came from."""
    total = 0.0
    for x in range(regions.n_joint[c]):
        total += work.before[row, x]
    for x in range(regions.n_joint[c]):
        at = jump_table_index(regions, c, problem, d, work, row, x)
        if at >= 0 and work.before[row, x] > 0.0:
            found.table[at] += work.before[row, x] / total


@inner
def read(regions, problem, d, work, reading, precision):
    """Joint probabilities of a solved cluster at the times wanted."""
    c = reading.cluster
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[c]
    alive = work.vector[3]
    left = work.vector[1]
    right = work.vector[4]
    summed = work.vector[2]
    is_held = has_spans(regions, c, problem, d)
    for i in range(len(reading.step)):
        k = reading.step[i]
        for x in range(n_joint):
            left[x] = work.forward[k, x]
            right[x] = work.backward[k, x]
            alive[x] = 1.0
        if k < n_steps and reading.inside[i] > 0.0:
            if is_held:
                hold(regions, c, problem, d, k, alive)
            for x in range(n_joint):
                right[x] = work.ending[k, x]
            _, bound = load_step(n_joint, regions.per_row[c], work, k, alive)
            for side in range(2):
                length = (
                    reading.inside[i] if side == 0 else problem.width[first + k] - reading.inside[i]
                )
                vector = left if side == 0 else right
                n_parts = parts_of(bound * length)
                step = length / n_parts
                for _ in range(n_parts):
                    n_terms = series_length(regions, c, n_joint, bound * step, precision, vector)
                    if side == 0:
                        row_terms(regions, c, work, step, n_terms, vector, work.v, summed)
                    else:
                        column_terms(regions, c, work, step, n_terms, vector, work.u, summed)
                    for x in range(n_joint):
                        vector[x] = summed[x]
                    rescale(n_joint, vector)
        norm = 0.0
        for x in range(n_joint):
            norm += left[x] * right[x]
        for x in range(n_joint):
            reading.probability[i, x] = left[x] * right[x] / norm


@kernel
def solve_trajectory(
    regions, problem, d, parameters, messages, first, settings, works, outcome, answers
):
    """The one door to the kernels: iterate trajectory d until it settles, and count; or read.

    ``parameters``: base table and initial probabilities. ``first``: λ and θ to start again from if
    the iteration leaves the range of numbers. ``settings``: tolerance, largest number of sweeps.
    ``outcome``: integers, numbers, and the largest disagreement of every sweep. ``answers``: what
    is expected, and a reading: if it names a cluster, nothing else is done.
    """
    tolerance, max_sweeps = settings
    integers, numbers, history = outcome
    integers[d, STATUS] = UNSETTLED
    halvings = integers[d, HALVINGS]
    mode = UPDATE
    if answers[1].cluster >= 0:
        mode = READ
    elif len(regions.message_state_start) == 1:
        integers[d, STATUS] = SETTLED
        mode = CONCLUDE
    best = np.inf
    worst = 1.0
    since = 0
    n_sweeps = 0
    is_fresh = False
    while True:
        precision = _FINEST
        if mode == UPDATE:
            precision = min(max(1e-3 * worst, _FINEST), _LOOSEST)
        damping = (mode, halvings, precision, n_sweeps % 2 == 0)
        worst = sweep(regions, problem, d, parameters, messages, damping, works, outcome, answers)
        if mode != UPDATE:
            break
        history[d, n_sweeps] = worst
        n_sweeps += 1
        numbers[d, RESIDUAL] = worst
        is_lost = integers[d, STATUS] == FAILED
        if is_lost and (is_fresh or halvings == _MOST_HALVINGS):
            break  # from the first messages everything possible is possible: the evidence is not
        if is_lost or not worst < _LOST * min(best, 1.0):
            integers[d, STATUS] = UNSETTLED
            start_again(messages, first)
            halvings = min(halvings + 1, _MOST_HALVINGS)
            best = np.inf
            worst = 1.0
            since = 0
            is_fresh = True
        else:
            is_fresh = False
            since += 1
            if worst <= tolerance:
                integers[d, STATUS] = SETTLED
                mode = CONCLUDE
            elif worst < 0.8 * best:
                best = worst
                since = 0
            elif since >= _PATIENCE and halvings < _MOST_HALVINGS:
                halvings += 1
                best = worst
                since = 0
        if n_sweeps >= max_sweeps:
            mode = CONCLUDE
    integers[d, SWEEPS] = n_sweeps
    integers[d, HALVINGS] = halvings
