"""Evidence in a region's chain: likelihoods, recorded jumps, held nodes, interventions; compiled.

Every region that holds a node reads all of the node's evidence. Only the region that owns a node
weighs its recorded jumps with a rate. While an experimenter holds a node, it has neither jumps nor
exit rates; where that begins, every state maps to the one that is set.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.clusters._cluster_layout import (
    BY_HAND,
    FIRST_STEP,
    FIRST_VALUE,
    HELD_STATE,
    HOLD,
    JUMP,
    KIND,
    POINT,
    SECOND_VALUE,
    SET,
    STEP_AFTER,
)
from asterism.numerics._jit import inner


@inner
def fill_evidence(regions, r, problem, d, work):
    """Likelihoods and recorded jumps at the grid points, and the jumps of held nodes deleted.

    Returns the sum of the logarithms taken out of the likelihoods.
    """
    n_steps = problem.step_start[d + 1] - problem.step_start[d]
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    digit0 = regions.digit_start[r]
    n_network = len(regions.block)
    taken_out = 0.0
    n_recorded = 0
    for k in range(n_steps + 1):
        work.has[k] = 0
    for slot in range(n_nodes):
        pair = d * n_network + regions.node[node0 + slot]
        for row in range(problem.event_start[pair], problem.event_start[pair + 1]):
            k = problem.event[row, POINT]
            kind = problem.event[row, KIND]
            a = problem.event[row, FIRST_VALUE]
            if kind in (JUMP, SET):
                left = BY_HAND if kind == SET else problem.event[row, SECOND_VALUE]
                n_recorded = _record(work, n_recorded, k, slot, a, left)
                work.has[k] |= 2
                continue
            if work.has[k] & 1 == 0:
                work.has[k] |= 1
                for x in range(n_joint):
                    work.likelihood[k, x] = 1.0
            if kind == HOLD:
                for x in range(n_joint):
                    if regions.digit[digit0 + x * n_nodes + slot] != a:
                        work.likelihood[k, x] = 0.0
            else:
                taken_out += problem.event_log[row]
                for x in range(n_joint):
                    value = problem.value[a + regions.digit[digit0 + x * n_nodes + slot]]
                    work.likelihood[k, x] *= value
        for row in range(problem.span_start[pair], problem.span_start[pair + 1]):
            for e in range(n_joint * per_row):
                if regions.entry_slot[regions.entry_start[r] + e] == slot:
                    for k in range(problem.span[row, FIRST_STEP], problem.span[row, STEP_AFTER]):
                        work.rate[e, k] = 0.0
    if r < regions.n_clusters:
        taken_out += _joint_measurements(regions, r, problem, d, work)
    work.counts[0] = n_recorded
    return taken_out


@inner
def _record(work, n_recorded, k, slot, to, before):
    """Insert a recorded jump in the order of time; at one time interventions come first."""
    at = n_recorded
    while at > 0 and (
        work.recorded[at - 1, 0] > k or (work.recorded[at - 1, 0] == k and before == BY_HAND)
    ):
        for c in range(4):
            work.recorded[at, c] = work.recorded[at - 1, c]
        at -= 1
    work.recorded[at, 0] = k
    work.recorded[at, 1] = slot
    work.recorded[at, 2] = to
    work.recorded[at, 3] = before
    return n_recorded + 1


@inner
def _joint_measurements(regions, r, problem, d, work):
    """Multiply the likelihoods of the joint measurements of this cluster; logarithm taken out."""
    n_joint = regions.n_joint[r]
    taken_out = 0.0
    for row in range(problem.joint_start[d], problem.joint_start[d + 1]):
        if problem.joint[row, 1] != r:
            continue
        k = problem.joint[row, 0]
        index = problem.joint[row, 2]
        table = problem.joint[row, 3]
        top = -np.inf
        for x in range(n_joint):
            top = max(top, problem.joint_log[table + problem.joint_index[index + x]])
        if work.has[k] & 1 == 0:
            work.has[k] |= 1
            for x in range(n_joint):
                work.likelihood[k, x] = 1.0
        for x in range(n_joint):
            value = problem.joint_log[table + problem.joint_index[index + x]]
            work.likelihood[k, x] *= math.exp(value - top) if top > -np.inf else 0.0
        taken_out += top if top > -np.inf else 0.0
    return taken_out


@inner
def hold(regions, r, problem, d, k, vector):
    """Zero in the vector what contradicts the nodes that are held during step k."""
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    n_network = len(regions.block)
    for slot in range(n_nodes):
        pair = d * n_network + regions.node[node0 + slot]
        for row in range(problem.span_start[pair], problem.span_start[pair + 1]):
            if problem.span[row, FIRST_STEP] <= k < problem.span[row, STEP_AFTER]:
                for x in range(regions.n_joint[r]):
                    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
                    if digit != problem.span[row, HELD_STATE]:
                        vector[x] = 0.0


@inner
def find_alive(regions, r, problem, d, k, alive):
    """1 for the states that the nodes held during step k allow, 0 for the others."""
    for x in range(regions.n_joint[r]):
        alive[x] = 1.0
    hold(regions, r, problem, d, k, alive)


@inner
def has_spans(regions, r, problem, d):
    n_network = len(regions.block)
    for at in range(regions.node_start[r], regions.node_start[r + 1]):
        pair = d * n_network + regions.node[at]
        if problem.span_start[pair] < problem.span_start[pair + 1]:
            return True
    return False


@inner
def jump_back(regions, r, problem, d, table, work, row, vector, room):
    """β⁻ = J β⁺ for a recorded jump."""
    n_joint = regions.n_joint[r]
    for x in range(n_joint):
        weight = jump_weight(regions, r, problem, d, table, work, row, x)
        target = jump_target(regions, r, work, row, x)
        room[x] = weight * vector[target] if weight > 0.0 else 0.0
    for x in range(n_joint):
        vector[x] = room[x]


@inner
def jump_target(regions, r, work, row, x):
    slot = work.recorded[row, 1]
    n_nodes = regions.node_start[r + 1] - regions.node_start[r]
    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
    return x + (work.recorded[row, 2] - digit) * regions.stride[regions.node_start[r] + slot]


@inner
def jump_table_index(regions, r, problem, d, work, row, x):
    """Where the rate of a recorded jump out of joint state x stands.

    −1: x is not the state before; −2: possible, but no rate of this region belongs to it.
    """
    slot = work.recorded[row, 1]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
    to = work.recorded[row, 2]
    before = work.recorded[row, 3]
    if before == BY_HAND:
        return -2
    if digit == to or (before >= 0 and before != digit):
        return -1
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    for j in range(n_owned):
        if regions.owned_slot[owned0 + j] == slot:
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j] + to - digit
            node = regions.node[node0 + slot]
            column = problem.input_column[node]
            if column >= 0:
                # exogenous nodes that change at the same time do so after the jump
                step = problem.step_start[d] + max(work.recorded[row, 0] - 1, 0)
                at += regions.block[node] * problem.input_shift[step, column]
            return at
    return -2


@inner
def jump_weight(regions, r, problem, d, table, work, row, x):
    at = jump_table_index(regions, r, problem, d, work, row, x)
    if at == -1:
        return 0.0
    return 1.0 if at == -2 else table[at]


@inner
def evidence_back(regions, r, problem, d, table, work, k, vector):
    """Carry a backward vector through grid point k."""
    n_joint = regions.n_joint[r]
    if work.has[k] & 1:
        for x in range(n_joint):
            vector[x] *= work.likelihood[k, x]
    if work.has[k] & 2:
        for row in range(work.counts[0] - 1, -1, -1):
            if work.recorded[row, 0] == k:
                jump_back(regions, r, problem, d, table, work, row, vector, work.vector[5])


@inner
def evidence_ahead(regions, r, problem, d, table, work, k, vector):
    """Carry a forward vector through grid point k."""
    n_joint = regions.n_joint[r]
    room = work.vector[5]
    if work.has[k] & 2:
        for row in range(work.counts[0]):
            if work.recorded[row, 0] != k:
                continue
            later = work.vector[4]
            for x in range(n_joint):
                later[x] = work.backward[k, x]
                if work.has[k] & 1:
                    later[x] *= work.likelihood[k, x]
            for other in range(work.counts[0] - 1, row, -1):
                if work.recorded[other, 0] == k:
                    jump_back(regions, r, problem, d, table, work, other, later, room)
            for x in range(n_joint):
                room[x] = 0.0
            for x in range(n_joint):
                weight = jump_weight(regions, r, problem, d, table, work, row, x) * vector[x]
                target = jump_target(regions, r, work, row, x)
                work.before[row, x] = weight * later[target] if weight > 0.0 else 0.0
                if weight > 0.0:
                    room[target] += weight
            for x in range(n_joint):
                vector[x] = room[x]
    if work.has[k] & 1:
        for x in range(n_joint):
            vector[x] *= work.likelihood[k, x]
