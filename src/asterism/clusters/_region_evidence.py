"""Evidence in a region's chain: likelihoods, recorded jumps, held nodes, interventions; compiled.

Every region that holds a node reads all of the node's evidence. Only the region that owns a node
weighs its recorded jumps with a rate. While an experimenter holds a node, it has neither jumps nor
exit rates; where that begins, every state maps to the one that is set.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import (
    FIRST,
    FIRST_VALUE,
    HELD,
    IS_SET,
    JUMP,
    KIND,
    LAST,
    LIKELIHOOD,
    POINT,
    SECOND_VALUE,
    SET,
    STATE,
)
from asterism.numerics._jit import inner


@inner
def fill_held(regions, r, problem, d, work):
    """Which nodes are held on each step, where columns are steps; whether any is."""
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    n_network = len(regions.block)
    found = False
    for slot in range(n_nodes):
        pair = d * n_network + regions.node[node0 + slot]
        found = found or problem.span_start[pair] < problem.span_start[pair + 1]
    if not found:
        return False
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    held = work.held
    for k in range(n_steps):
        for slot in range(n_nodes):
            held[k, slot] = -1
    for slot in range(n_nodes):
        pair = d * n_network + regions.node[node0 + slot]
        for row in range(problem.span_start[pair], problem.span_start[pair + 1]):
            state = problem.span[row, STATE]
            value = -2 - state if problem.span[row, IS_SET] == 1 else state
            for k in range(problem.span[row, FIRST], problem.span[row, LAST]):
                held[k, slot] = value
    find_alive(regions, r, n_steps, work)
    return True


@inner
def find_alive(regions, r, n_columns, work):
    """Which states the held nodes of each column allow."""
    n_nodes = regions.node_start[r + 1] - regions.node_start[r]
    n_joint, first = regions.n_joint[r], regions.digit_start[r]
    digit, held, alive = regions.digit, work.held, work.alive
    for c in range(n_columns):
        for x in range(n_joint):
            alive[c, x] = 1.0
        for slot in range(n_nodes):
            state = held[c, slot]
            if state != -1:
                state = -2 - state if state < -1 else state
                for x in range(n_joint):
                    if digit[first + x * n_nodes + slot] != state:
                        alive[c, x] = 0.0


@inner
def hold(n_joint, work, k, vector):
    """Zero in the vector what contradicts the nodes that are held during step k."""
    alive = work.alive[work.column[k]]
    for x in range(n_joint):
        vector[x] *= alive[x]


@inner
def _rank(kind):
    """Order of events at one time."""
    if kind == SET:
        return 0
    return 1 if kind == JUMP else 2


@inner
def sort_evidence(regions, r, problem, d, work):
    """Put the region's events in the order of time.

    Returns the sum of the logarithms taken out of the likelihoods.
    """
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    n_network = len(regions.block)
    start = work.event_start
    taken_out = 0.0
    for k in range(n_steps + 2):
        start[k] = 0
    for slot in range(n_nodes):
        pair = d * n_network + regions.node[node0 + slot]
        for row in range(problem.event_start[pair], problem.event_start[pair + 1]):
            start[problem.event[row, POINT] + 1] += 1
            taken_out += problem.event_log[row]
    if r < regions.n_clusters:
        for row in range(problem.joint_start[d], problem.joint_start[d + 1]):
            if problem.joint[row, 1] == r:
                start[problem.joint[row, 0] + 1] += 1
                top = _largest_log(regions.n_joint[r], problem, row)
                taken_out += top if top > -np.inf else 0.0
    for k in range(n_steps + 1):
        start[k + 1] += start[k]
    # start[k] moves on as events are put in their places, and ends where the next one begins
    for rank in range(3):
        for slot in range(n_nodes):
            pair = d * n_network + regions.node[node0 + slot]
            for row in range(problem.event_start[pair], problem.event_start[pair + 1]):
                if _rank(problem.event[row, KIND]) == rank:
                    k = problem.event[row, POINT]
                    work.event_row[start[k]] = row
                    work.event_slot[start[k]] = slot
                    start[k] += 1
    if r < regions.n_clusters:
        for row in range(problem.joint_start[d], problem.joint_start[d + 1]):
            if problem.joint[row, 1] == r:
                k = problem.joint[row, 0]
                work.event_row[start[k]] = row
                work.event_slot[start[k]] = -1
                start[k] += 1
    for k in range(n_steps, -1, -1):
        start[k + 1] = start[k]
    start[0] = 0
    return taken_out


@inner
def _largest_log(n_joint, problem, row):
    index = problem.joint[row, 2]
    table = problem.joint[row, 3]
    values, place = problem.joint_log, problem.joint_index
    top = -np.inf
    for x in range(n_joint):
        top = max(top, values[table + place[index + x]])
    return top


@inner
def is_recorded(problem, work, at):
    """Whether an event is a recorded jump or an intervention, and no likelihood."""
    if work.event_slot[at] < 0:
        return False
    return problem.event[work.event_row[at], KIND] in (JUMP, SET)


@inner
def _weigh(regions, r, problem, work, at, vector):
    """Multiply by the likelihood of an event: a measurement, or a state that is known."""
    n_joint = regions.n_joint[r]
    row = work.event_row[at]
    slot = work.event_slot[at]
    if slot < 0:
        index = problem.joint[row, 2]
        table = problem.joint[row, 3]
        top = _largest_log(n_joint, problem, row)
        values, place = problem.joint_log, problem.joint_index
        for x in range(n_joint):
            value = values[table + place[index + x]]
            vector[x] *= math.exp(value - top) if top > -np.inf else 0.0
        return
    n_nodes = regions.node_start[r + 1] - regions.node_start[r]
    first = regions.digit_start[r] + slot
    a = problem.event[row, FIRST_VALUE]
    digit, likelihood = regions.digit, problem.value
    if problem.event[row, KIND] == HELD:
        for x in range(n_joint):
            if digit[first + x * n_nodes] != a:
                vector[x] = 0.0
    else:
        for x in range(n_joint):
            vector[x] *= likelihood[a + digit[first + x * n_nodes]]


@inner
def jump_target(regions, r, problem, work, at, x):
    """Joint state into which a recorded jump or an intervention leads from x."""
    slot = work.event_slot[at]
    to = problem.event[work.event_row[at], FIRST_VALUE]
    n_nodes = regions.node_start[r + 1] - regions.node_start[r]
    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
    return x + (to - digit) * regions.stride[regions.node_start[r] + slot]


@inner
def jump_table_index(regions, r, problem, d, work, at, k, x):
    """Where the rate of a recorded jump at grid point k out of joint state x stands.

    −1: x is not the state before; −2: possible, but no rate of this region belongs to it.
    """
    row = work.event_row[at]
    if problem.event[row, KIND] == SET:
        return -2
    slot = work.event_slot[at]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
    to = problem.event[row, FIRST_VALUE]
    before = problem.event[row, SECOND_VALUE]
    if digit == to or (before >= 0 and before != digit):
        return -1
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    for j in range(n_owned):
        if regions.owned_slot[owned0 + j] == slot:
            place = regions.exit_index[regions.exit_start[r] + x * n_owned + j] + to - digit
            node = regions.node[node0 + slot]
            column = problem.input_column[node]
            if column >= 0:
                # exogenous nodes that change at the same time do so after the jump
                step = problem.step_start[d] + max(k - 1, 0)
                place += regions.block[node] * problem.input_shift[step, column]
            return place
    return -2


@inner
def _jump_weight(regions, r, problem, d, table, work, at, k, x):
    place = jump_table_index(regions, r, problem, d, work, at, k, x)
    if place == -1:
        return 0.0
    return 1.0 if place == -2 else table[place]


@inner
def _jump_back(regions, r, problem, d, table, work, at, k, vector):
    """β⁻ = J β⁺ for a recorded jump."""
    n_joint = regions.n_joint[r]
    room = work.vector[5]
    for x in range(n_joint):
        weight = _jump_weight(regions, r, problem, d, table, work, at, k, x)
        target = jump_target(regions, r, problem, work, at, x)
        room[x] = weight * vector[target] if weight > 0.0 else 0.0
    for x in range(n_joint):
        vector[x] = room[x]


@inner
def evidence_back(regions, r, problem, d, table, work, k, after, vector):
    """Carry a backward vector through the events at grid point k, back to event ``after``."""
    for at in range(work.event_start[k + 1] - 1, after - 1, -1):
        if is_recorded(problem, work, at):
            _jump_back(regions, r, problem, d, table, work, at, k, vector)
        else:
            _weigh(regions, r, problem, work, at, vector)


@inner
def evidence_ahead(regions, r, problem, d, table, work, k, counted, vector):
    """Carry a forward vector through grid point k.

    Recorded jumps of owned nodes are added to ``counted``, a table like the network's rates, where
    they came from; it is empty where that is not wanted.
    """
    n_joint = regions.n_joint[r]
    for at in range(work.event_start[k], work.event_start[k + 1]):
        if not is_recorded(problem, work, at):
            _weigh(regions, r, problem, work, at, vector)
            continue
        if len(counted) > 0 and problem.event[work.event_row[at], KIND] == JUMP:
            later, backward = work.vector[4], work.backward[k]
            for x in range(n_joint):
                later[x] = backward[x]
            evidence_back(regions, r, problem, d, table, work, k, at + 1, later)
            _count_recorded(regions, r, problem, d, table, work, at, k, counted, vector, later)
        room = work.vector[5]
        for x in range(n_joint):
            room[x] = 0.0
        for x in range(n_joint):
            weight = _jump_weight(regions, r, problem, d, table, work, at, k, x) * vector[x]
            if weight > 0.0:
                room[jump_target(regions, r, problem, work, at, x)] += weight
        for x in range(n_joint):
            vector[x] = room[x]


@inner
def _count_recorded(regions, r, problem, d, table, work, at, k, counted, vector, later):
    """Count a recorded jump of an owned node where it came from."""
    n_joint = regions.n_joint[r]
    room = work.vector[5]
    total = 0.0
    for x in range(n_joint):
        weight = _jump_weight(regions, r, problem, d, table, work, at, k, x) * vector[x]
        target = jump_target(regions, r, problem, work, at, x)
        room[x] = weight * later[target] if weight > 0.0 else 0.0
        total += room[x]
    for x in range(n_joint):
        place = jump_table_index(regions, r, problem, d, work, at, k, x)
        if place >= 0 and room[x] > 0.0:
            counted[place] += room[x] / total


@inner
def count_points(regions, r, problem, d, work, slot, points):
    """Probability of each state of a node at its measurements, at the places of their values."""
    n_joint = regions.n_joint[r]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    node = regions.node[node0 + slot]
    size = regions.state_start[node + 1] - regions.state_start[node]
    pair = d * len(regions.block) + node
    digit, first = regions.digit, regions.digit_start[r] + slot
    for row in range(problem.event_start[pair], problem.event_start[pair + 1]):
        if problem.event[row, KIND] == LIKELIHOOD:
            at = problem.event[row, FIRST_VALUE]
            k = problem.event[row, POINT]
            forward, backward = work.forward[k], work.backward[k]
            for s in range(size):
                points[at + s] = 0.0
            norm = 0.0
            for x in range(n_joint):
                norm += forward[x] * backward[x]
            for x in range(n_joint):
                points[at + digit[first + x * n_nodes]] += forward[x] * backward[x] / norm


@inner
def count_starts(regions, r, work, initial):
    """Add the probabilities of the owned nodes' states at the start."""
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    for j in range(regions.owned_start[r], regions.owned_start[r + 1]):
        slot = regions.owned_slot[j]
        at = regions.state_start[regions.node[node0 + slot]]
        for x in range(regions.n_joint[r]):
            digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
            initial[at + digit] += work.first_time[x]


@inner
def count_columns(regions, r, problem, n_columns, is_held, is_zero, work, table):
    """Add expected times and jumps of the owned nodes to a table like the network's rates.

    Returns the expected jumps at rates of zero. No time is counted while an experimenter holds a
    node.
    """
    forbidden = 0.0
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    held, step, time, jumps = work.held, work.step, work.time, work.jumps
    shifts = problem.input_shift
    for j in range(n_owned):
        slot = regions.owned_slot[owned0 + j]
        node = regions.node[regions.node_start[r] + slot]
        inputs = problem.input_column[node]
        block = regions.block[node]
        for x in range(n_joint):
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
            for c in range(n_columns):
                if is_held and held[c, slot] < -1:
                    continue
                shift = shifts[step[c], inputs] * block if inputs >= 0 else 0
                table[at + shift] += time[x, c]
            for e in range(x * per_row, (x + 1) * per_row):
                if regions.entry_slot[regions.entry_start[r] + e] == slot:
                    base = regions.base_index[regions.entry_start[r] + e]
                    for c in range(n_columns):
                        shift = shifts[step[c], inputs] * block if inputs >= 0 else 0
                        table[base + shift] += jumps[e, c]
                        if is_zero[base + shift]:
                            forbidden += jumps[e, c]
    return forbidden
