"""Forward–backward of one region (cluster or separator) along one trajectory, compiled.

On step k the region's chain has the generator A: few off-diagonal entries per row, since one node
moves at a time, and a diagonal that need not balance them. With σ such that B = (A + σI) h ≥ 0,

    exp(A h) = e^{−σh} Σ B^i / i!,      v_i = f B^i / i!,      u_j = B^j ρ / j!,
    T(x)     = h e^{−σh} Σ_ij i! j! / (i+j+1)! v_i(x) u_j(x)        time in x,
    M(x→y)   = A(x,y) h e^{−σh} Σ_ij i! j! / (i+j+1)! v_i(x) u_j(y)  jumps from x to y,

both divided by f exp(A h) ρ. All terms are positive; matrices are never formed. Steps on which B is
large are cut into parts. Arrays are (entry or state, step): what runs over all steps at once is
contiguous.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asterism.numerics._jit import inner

MOST_TERMS = 40
"""Room for terms of a series; ``terms_for`` stays below."""
_LARGEST_MASS = 1.5  # of one part of a step
_MOST_PARTS = 100_000
PARTS_KEPT = 64

LIKELIHOOD, JUMP, HOLD = 0, 1, 2
"""Kinds of events."""
POINT, KIND, FIRST_VALUE, SECOND_VALUE = 0, 1, 2, 3
"""Columns of an event: grid point, kind; offset of its values, or state entered (and left)."""
POSSIBLE, IMPOSSIBLE, TOO_STIFF = -1, 0, 1


class RegionArrays(NamedTuple):
    """All regions, clusters first; ragged things flat with offsets."""

    n_clusters: int
    n_joint: np.ndarray
    per_row: np.ndarray
    """Jumps that leave a joint state: Σ (S − 1) over the region's nodes."""
    node_start: np.ndarray
    node: np.ndarray
    stride: np.ndarray
    digit_start: np.ndarray
    digit: np.ndarray
    """(J, nodes) state of each node in each joint state."""
    entry_start: np.ndarray
    column: np.ndarray
    """(J, per_row) joint state after the jump."""
    reverse: np.ndarray
    """(J, per_row) entry of the jump back."""
    entry_slot: np.ndarray
    """(J, per_row) which of the region's nodes jumps."""
    base_index: np.ndarray
    """(J, per_row) where the factor of the jump stands: a rate, or 1 (0 if impossible)."""
    owned_start: np.ndarray
    owned_slot: np.ndarray
    """The nodes whose rates the region owns, by their place in it."""
    exit_start: np.ndarray
    exit_index: np.ndarray
    """(J, owned) where the exit rate of an owned node stands."""
    block: np.ndarray
    """(nodes of the network,) S², the distance of neighbouring configurations in the table."""
    state_start: np.ndarray
    """(nodes of the network + 1,) where each node's initial probabilities stand."""
    link_start: np.ndarray
    """(clusters + 1,) the links of a cluster to its separators."""
    link_separator: np.ndarray
    link_side: np.ndarray
    link_state_start: np.ndarray
    link_state: np.ndarray
    """Per joint state of the cluster, that of the separator."""
    link_entry_start: np.ndarray
    link_entry: np.ndarray
    """Per entry of the cluster, that of the separator, or −1."""
    message_state_start: np.ndarray
    """(separators + 1,) Σ joint states of the separators before."""
    message_entry_start: np.ndarray


class TrajectoryArrays(NamedTuple):
    """Steps and evidence of all trajectories."""

    step_start: np.ndarray
    width: np.ndarray
    event_start: np.ndarray
    """(D·N + 1,) events by trajectory and node, in the order of time, jumps first."""
    event: np.ndarray
    event_log: np.ndarray
    """Logarithm taken out of an event's likelihoods."""
    value: np.ndarray
    """Likelihoods, each event's scaled to a largest value of 1."""
    span_start: np.ndarray
    """(D·N + 1,) spans on which a node is held, by trajectory and node."""
    span: np.ndarray
    """First step, step after the last, state."""
    joint_start: np.ndarray
    joint: np.ndarray
    """Joint measurements by trajectory: grid point, cluster, start of the index, of the table."""
    joint_index: np.ndarray
    joint_log: np.ndarray
    input_column: np.ndarray
    """(N,) column of ``input_shift``, or −1."""
    input_shift: np.ndarray
    """(steps, columns) what exogenous parents add to a node's configuration number."""


class Work(NamedTuple):
    """Room for the passes of one region; (entries or states, steps) unless said otherwise."""

    rate: np.ndarray
    diagonal: np.ndarray
    time: np.ndarray
    jumps: np.ndarray
    forward: np.ndarray
    """(steps + 1, states) forward vector just after each grid point's evidence."""
    backward: np.ndarray
    """(steps + 1, states) backward vector just after each grid point's evidence."""
    ending: np.ndarray
    """(steps, states) backward vector at the end of each step, evidence there included."""
    endings: np.ndarray
    """(PARTS_KEPT, states) the same at the ends of the parts of one step."""
    likelihood: np.ndarray
    """(steps + 1, states)"""
    has: np.ndarray
    """(steps + 1,) 1: a likelihood, 2: a recorded jump, 3: both."""
    recorded: np.ndarray
    """(…, 4) recorded jumps: grid point, node of the region, state entered, state left or −1."""
    before: np.ndarray
    """(…, states) probability of each state just before each recorded jump, up to a factor."""
    start: np.ndarray
    """(states,) forward vector before the evidence at the start."""
    first_time: np.ndarray
    """(states,) probability of each state at the start."""
    u: np.ndarray
    """(terms, states)"""
    v: np.ndarray
    z: np.ndarray
    vector: np.ndarray
    """(6, states)"""
    local: np.ndarray
    """(entries,) this step's rates."""
    counts: np.ndarray
    """(4,) number of recorded jumps; where a pass failed: step, kind."""
    coefficient: np.ndarray
    """(terms, terms) i! j! / (i+j+1)!."""


@inner
def terms_for(mass, precision):
    """Terms of Σ massⁱ/i! after which the rest is below ``precision``."""
    n = 1
    tail = mass
    while tail > precision and n < MOST_TERMS - 8:
        n += 1
        tail *= mass / n
    return n + 1


@inner
def fill_base(regions, r, problem, d, table, work):
    """Rates of a region before any message: owned rates, 1 elsewhere; exit rates of owned nodes."""
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    begin = regions.entry_start[r]
    node0 = regions.node_start[r]
    owned0 = regions.owned_start[r]
    n_owned = regions.owned_start[r + 1] - owned0
    for e in range(n_joint * per_row):
        value = table[regions.base_index[begin + e]]
        row = work.rate[e]
        for k in range(n_steps):
            row[k] = value
    for x in range(n_joint):
        total = 0.0
        for j in range(n_owned):
            total += table[regions.exit_index[regions.exit_start[r] + x * n_owned + j]]
        row = work.diagonal[x]
        for k in range(n_steps):
            row[k] = total
    for j in range(n_owned):
        slot = regions.owned_slot[owned0 + j]
        node = regions.node[node0 + slot]
        column = problem.input_column[node]
        if column < 0:
            continue
        block = regions.block[node]
        for x in range(n_joint):
            at = regions.exit_index[regions.exit_start[r] + x * n_owned + j]
            for k in range(n_steps):
                moved = at + block * problem.input_shift[first + k, column]
                work.diagonal[x, k] += table[moved] - table[at]
            for e in range(x * per_row, (x + 1) * per_row):
                if regions.entry_slot[begin + e] == slot:
                    base = regions.base_index[begin + e]
                    for k in range(n_steps):
                        moved = base + block * problem.input_shift[first + k, column]
                        work.rate[e, k] = table[moved]


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
            if kind == JUMP:
                n_recorded = _record(work, n_recorded, k, slot, a, problem.event[row, SECOND_VALUE])
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
                    for k in range(problem.span[row, 0], problem.span[row, 1]):
                        work.rate[e, k] = 0.0
    if r < regions.n_clusters:
        taken_out += _joint_measurements(regions, r, problem, d, work)
    work.counts[0] = n_recorded
    return taken_out


@inner
def _record(work, n_recorded, k, slot, to, before):
    """Insert a recorded jump in the order of time."""
    at = n_recorded
    while at > 0 and work.recorded[at - 1, 0] > k:
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
            if problem.span[row, 0] <= k < problem.span[row, 1]:
                for x in range(regions.n_joint[r]):
                    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
                    if digit != problem.span[row, 2]:
                        vector[x] = 0.0


@inner
def has_spans(regions, r, problem, d):
    n_network = len(regions.block)
    for at in range(regions.node_start[r], regions.node_start[r + 1]):
        pair = d * n_network + regions.node[at]
        if problem.span_start[pair] < problem.span_start[pair + 1]:
            return True
    return False


@inner
def load_step(n_joint, per_row, work, k, alive):
    """Copy step k's rates to contiguous room; σ, and the largest row sum of A + σI.

    ``alive``: zero for states that cannot be; their diagonal does not matter.
    """
    lowest = np.inf
    for x in range(n_joint):
        if alive[x] > 0.0:
            lowest = min(lowest, work.diagonal[x, k])
    sigma = -lowest
    bound = 0.0
    diagonal = work.vector[0]
    for x in range(n_joint):
        diagonal[x] = max(work.diagonal[x, k] + sigma, 0.0) if alive[x] > 0.0 else 0.0
        total = diagonal[x]
        for e in range(x * per_row, (x + 1) * per_row):
            work.local[e] = work.rate[e, k]
            total += work.local[e]
        bound = max(bound, total)
    return sigma, bound


@inner
def column_terms(regions, r, work, step, n_terms, start, terms, total):
    """terms[j] = B^j start / j! for j < n_terms; their sum in ``total``."""
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    begin = regions.entry_start[r]
    diagonal = work.vector[0]
    for x in range(n_joint):
        terms[0, x] = start[x]
        total[x] = start[x]
    if n_joint == 4 and per_row == 2:
        _column_terms_of_a_pair(work, step, n_terms, terms, total)
        return
    if n_joint == 2:
        _terms_of_two_states(work, step, n_terms, work.local[0], work.local[1], terms, total)
        return
    for j in range(1, n_terms):
        factor = step / j
        for x in range(n_joint):
            value = diagonal[x] * terms[j - 1, x]
            for e in range(x * per_row, (x + 1) * per_row):
                value += work.local[e] * terms[j - 1, regions.column[begin + e]]
            value *= factor
            terms[j, x] = value
            total[x] += value


@inner
def row_terms(regions, r, work, step, n_terms, start, terms, total):
    """terms[i] = start B^i / i! for i < n_terms; their sum in ``total``."""
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    begin = regions.entry_start[r]
    diagonal = work.vector[0]
    for x in range(n_joint):
        terms[0, x] = start[x]
        total[x] = start[x]
    if n_joint == 4 and per_row == 2:
        _row_terms_of_a_pair(work, step, n_terms, terms, total)
        return
    if n_joint == 2:
        _terms_of_two_states(work, step, n_terms, work.local[1], work.local[0], terms, total)
        return
    for j in range(1, n_terms):
        factor = step / j
        for x in range(n_joint):
            value = diagonal[x] * terms[j - 1, x]
            for e in range(x * per_row, (x + 1) * per_row):
                back = work.local[regions.reverse[begin + e]]
                value += back * terms[j - 1, regions.column[begin + e]]
            value *= factor
            terms[j, x] = value
            total[x] += value


@inner
def _terms_of_two_states(work, step, n_terms, from_first, from_second, terms, total):
    """One node of two states: terms of a column, or of a row with the two rates exchanged."""
    b0, b1 = work.vector[0][0] * step, work.vector[0][1] * step
    a01, a10 = from_first * step, from_second * step
    t0, t1 = terms[0, 0], terms[0, 1]
    s0, s1 = t0, t1
    for j in range(1, n_terms):
        over = 1.0 / j
        t0, t1 = (b0 * t0 + a01 * t1) * over, (b1 * t1 + a10 * t0) * over
        terms[j, 0], terms[j, 1] = t0, t1
        s0 += t0
        s1 += t1
    total[0], total[1] = s0, s1


@inner
def _column_terms_of_a_pair(work, step, n_terms, terms, total):
    """Two nodes of two states: states 00, 01, 10, 11, per row the jump of the first, the second."""
    b = work.vector[0]
    a = work.local
    b0, b1, b2, b3 = b[0] * step, b[1] * step, b[2] * step, b[3] * step
    a02, a01, a13, a10 = a[0] * step, a[1] * step, a[2] * step, a[3] * step
    a20, a23, a31, a32 = a[4] * step, a[5] * step, a[6] * step, a[7] * step
    t0, t1, t2, t3 = terms[0, 0], terms[0, 1], terms[0, 2], terms[0, 3]
    s0, s1, s2, s3 = t0, t1, t2, t3
    for j in range(1, n_terms):
        over = 1.0 / j
        n0 = (b0 * t0 + a01 * t1 + a02 * t2) * over
        n1 = (b1 * t1 + a10 * t0 + a13 * t3) * over
        n2 = (b2 * t2 + a20 * t0 + a23 * t3) * over
        n3 = (b3 * t3 + a31 * t1 + a32 * t2) * over
        t0, t1, t2, t3 = n0, n1, n2, n3
        terms[j, 0], terms[j, 1], terms[j, 2], terms[j, 3] = t0, t1, t2, t3
        s0 += t0
        s1 += t1
        s2 += t2
        s3 += t3
    total[0], total[1], total[2], total[3] = s0, s1, s2, s3


@inner
def _row_terms_of_a_pair(work, step, n_terms, terms, total):
    b = work.vector[0]
    a = work.local
    b0, b1, b2, b3 = b[0] * step, b[1] * step, b[2] * step, b[3] * step
    a02, a01, a13, a10 = a[0] * step, a[1] * step, a[2] * step, a[3] * step
    a20, a23, a31, a32 = a[4] * step, a[5] * step, a[6] * step, a[7] * step
    t0, t1, t2, t3 = terms[0, 0], terms[0, 1], terms[0, 2], terms[0, 3]
    s0, s1, s2, s3 = t0, t1, t2, t3
    for j in range(1, n_terms):
        over = 1.0 / j
        n0 = (b0 * t0 + a10 * t1 + a20 * t2) * over
        n1 = (b1 * t1 + a01 * t0 + a31 * t3) * over
        n2 = (b2 * t2 + a02 * t0 + a32 * t3) * over
        n3 = (b3 * t3 + a13 * t1 + a23 * t2) * over
        t0, t1, t2, t3 = n0, n1, n2, n3
        terms[j, 0], terms[j, 1], terms[j, 2], terms[j, 3] = t0, t1, t2, t3
        s0 += t0
        s1 += t1
        s2 += t2
        s3 += t3
    total[0], total[1], total[2], total[3] = s0, s1, s2, s3


@inner
def rescale(n_joint, vector):
    """Divide by the largest entry and return it; zero where the vector vanishes."""
    top = 0.0
    for x in range(n_joint):
        top = max(top, vector[x])
    if top > 0.0 and top < np.inf:
        for x in range(n_joint):
            vector[x] /= top
        return top
    return 0.0


@inner
def parts_of(mass):
    return max(1, math.ceil(mass / _LARGEST_MASS))


@inner
def series_length(regions, r, n_joint, mass, precision, vector):
    """Terms for one part; more where states are empty that several jumps can reach."""
    n_terms = terms_for(mass, precision)
    for x in range(n_joint):
        if vector[x] == 0.0:
            reach = regions.node_start[r + 1] - regions.node_start[r]
            return min(n_terms + reach, MOST_TERMS)
    return n_terms


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

    −1: x is not the state before; −2: possible, but the rate belongs to another region.
    """
    slot = work.recorded[row, 1]
    node0 = regions.node_start[r]
    n_nodes = regions.node_start[r + 1] - node0
    digit = regions.digit[regions.digit_start[r] + x * n_nodes + slot]
    to = work.recorded[row, 2]
    before = work.recorded[row, 3]
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


@inner
def backward_pass(regions, r, problem, d, table, precision, is_held, work):
    """Backward vectors of the region; False where they vanish (``work.counts`` says where)."""
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    vector = work.vector[1]
    summed = work.vector[2]
    alive = work.vector[3]
    for x in range(n_joint):
        vector[x] = 1.0
        alive[x] = 1.0
        work.backward[n_steps, x] = 1.0
    for k in range(n_steps - 1, -1, -1):
        evidence_back(regions, r, problem, d, table, work, k + 1, vector)
        if is_held:
            hold(regions, r, problem, d, k, vector)
            for x in range(n_joint):
                alive[x] = 1.0
            hold(regions, r, problem, d, k, alive)
        if rescale(n_joint, vector) == 0.0:
            work.counts[1] = k + 1
            work.counts[2] = IMPOSSIBLE
            return False
        for x in range(n_joint):
            work.ending[k, x] = vector[x]
        width = problem.width[first + k]
        _, bound = load_step(n_joint, per_row, work, k, alive)
        n_parts = parts_of(bound * width)
        if not bound * width < _MOST_PARTS:
            work.counts[1] = k
            work.counts[2] = TOO_STIFF
            return False
        step = width / n_parts
        for _ in range(n_parts):
            n_terms = series_length(regions, r, n_joint, bound * step, precision, vector)
            column_terms(regions, r, work, step, n_terms, vector, work.u, summed)
            for x in range(n_joint):
                vector[x] = summed[x]
            rescale(n_joint, vector)
        for x in range(n_joint):
            work.backward[k, x] = vector[x]
    evidence_back(regions, r, problem, d, table, work, 0, vector)
    for x in range(n_joint):
        work.first_time[x] = vector[x]
    return True


@inner
def forward_pass(regions, r, problem, d, table, precision, is_held, work):
    """Forward vectors, times and jumps; ln Z of the region, without what evidence took out.

    −inf where the evidence is impossible (``work.counts`` says where).
    """
    first = problem.step_start[d]
    n_steps = problem.step_start[d + 1] - first
    n_joint = regions.n_joint[r]
    per_row = regions.per_row[r]
    vector = work.vector[1]
    summed = work.vector[2]
    alive = work.vector[3]
    total = 0.0
    norm = 0.0
    for x in range(n_joint):
        alive[x] = 1.0
        vector[x] = work.start[x]
        work.first_time[x] *= work.start[x]
        norm += work.first_time[x]
    for x in range(n_joint):
        work.first_time[x] /= norm if norm > 0.0 else 1.0
    for k in range(n_steps + 1):
        evidence_ahead(regions, r, problem, d, table, work, k, vector)
        if is_held and k < n_steps:
            hold(regions, r, problem, d, k, vector)
            for x in range(n_joint):
                alive[x] = 1.0
            hold(regions, r, problem, d, k, alive)
        top = rescale(n_joint, vector)
        if top == 0.0:
            work.counts[1] = k
            work.counts[2] = IMPOSSIBLE
            return -np.inf
        total += math.log(top)
        for x in range(n_joint):
            work.forward[k, x] = vector[x]
        if k == n_steps:
            break
        width = problem.width[first + k]
        sigma, bound = load_step(n_joint, per_row, work, k, alive)
        n_parts = parts_of(bound * width)
        step = width / n_parts
        total -= sigma * width
        for x in range(n_joint):
            work.time[x, k] = 0.0
        for e in range(n_joint * per_row):
            work.jumps[e, k] = 0.0
        for part in range(n_parts):
            if part % PARTS_KEPT == 0:
                _part_endings(regions, r, k, n_parts, part, bound, step, precision, work)
            ending = work.endings[part % PARTS_KEPT]
            n_terms = series_length(regions, r, n_joint, bound * step, precision, ending)
            n_terms = max(
                n_terms, series_length(regions, r, n_joint, bound * step, precision, vector)
            )
            column_terms(regions, r, work, step, n_terms, ending, work.u, summed)
            row_terms(regions, r, work, step, n_terms, vector, work.v, summed)
            ahead = 0.0
            for x in range(n_joint):
                ahead += summed[x] * ending[x]
            if not ahead > 0.0:
                work.counts[1] = k
                work.counts[2] = IMPOSSIBLE
                return -np.inf
            _integrate(regions, r, n_joint, per_row, n_terms, step / ahead, k, work)
            for x in range(n_joint):
                vector[x] = summed[x]
            total += math.log(rescale(n_joint, vector))
    norm = 0.0
    for x in range(n_joint):
        norm += vector[x]
    return total + math.log(norm)


@inner
def _part_endings(regions, r, k, n_parts, part, bound, step, precision, work):
    """Backward vectors at the ends of the parts of step k from ``part`` on, as many as are kept."""
    n_joint = regions.n_joint[r]
    vector = work.vector[4]
    summed = work.vector[2]
    for x in range(n_joint):
        vector[x] = work.ending[k, x]
    for i in range(n_parts - 1, part - 1, -1):
        if i < part + PARTS_KEPT:
            for x in range(n_joint):
                work.endings[i - part, x] = vector[x]
        if i > part:
            n_terms = series_length(regions, r, n_joint, bound * step, precision, vector)
            column_terms(regions, r, work, step, n_terms, vector, work.u, summed)
            for x in range(n_joint):
                vector[x] = summed[x]
            rescale(n_joint, vector)


@inner
def _integrate(regions, r, n_joint, per_row, n_terms, factor, k, work):
    """Add ∫ f(x) ρ(y) dt of one part to the times and jumps of step k."""
    u, v, z = work.u, work.v, work.z
    begin = regions.entry_start[r]
    if n_joint == 2:
        _integrate_two_states(n_terms, factor, k, work)
        return
    if n_joint == 4 and per_row == 2:
        _integrate_a_pair(n_terms, factor, k, work)
        return
    for i in range(n_terms):
        for x in range(n_joint):
            z[i, x] = work.coefficient[i, 0] * u[0, x]
        for j in range(1, n_terms - i):
            c = work.coefficient[i, j]
            for x in range(n_joint):
                z[i, x] += c * u[j, x]
    for x in range(n_joint):
        value = 0.0
        for i in range(n_terms):
            value += v[i, x] * z[i, x]
        work.time[x, k] += value * factor
        for e in range(x * per_row, (x + 1) * per_row):
            if work.local[e] > 0.0:
                y = regions.column[begin + e]
                value = 0.0
                for i in range(n_terms):
                    value += v[i, x] * z[i, y]
                work.jumps[e, k] += value * factor * work.local[e]


@inner
def _integrate_two_states(n_terms, factor, k, work):
    u, v = work.u, work.v
    t0 = t1 = m01 = m10 = 0.0
    for i in range(n_terms):
        z0 = z1 = 0.0
        for j in range(n_terms - i):
            c = work.coefficient[i, j]
            z0 += c * u[j, 0]
            z1 += c * u[j, 1]
        v0, v1 = v[i, 0], v[i, 1]
        t0 += v0 * z0
        t1 += v1 * z1
        m01 += v0 * z1
        m10 += v1 * z0
    work.time[0, k] += t0 * factor
    work.time[1, k] += t1 * factor
    work.jumps[0, k] += m01 * factor * work.local[0]
    work.jumps[1, k] += m10 * factor * work.local[1]


@inner
def _integrate_a_pair(n_terms, factor, k, work):
    u, v, a = work.u, work.v, work.local
    t0 = t1 = t2 = t3 = 0.0
    m02 = m01 = m13 = m10 = m20 = m23 = m31 = m32 = 0.0
    for i in range(n_terms):
        z0 = z1 = z2 = z3 = 0.0
        for j in range(n_terms - i):
            c = work.coefficient[i, j]
            z0 += c * u[j, 0]
            z1 += c * u[j, 1]
            z2 += c * u[j, 2]
            z3 += c * u[j, 3]
        v0, v1, v2, v3 = v[i, 0], v[i, 1], v[i, 2], v[i, 3]
        t0 += v0 * z0
        t1 += v1 * z1
        t2 += v2 * z2
        t3 += v3 * z3
        m02 += v0 * z2
        m01 += v0 * z1
        m13 += v1 * z3
        m10 += v1 * z0
        m20 += v2 * z0
        m23 += v2 * z3
        m31 += v3 * z1
        m32 += v3 * z2
    work.time[0, k] += t0 * factor
    work.time[1, k] += t1 * factor
    work.time[2, k] += t2 * factor
    work.time[3, k] += t3 * factor
    work.jumps[0, k] += m02 * factor * a[0]
    work.jumps[1, k] += m01 * factor * a[1]
    work.jumps[2, k] += m13 * factor * a[2]
    work.jumps[3, k] += m10 * factor * a[3]
    work.jumps[4, k] += m20 * factor * a[4]
    work.jumps[5, k] += m23 * factor * a[5]
    work.jumps[6, k] += m31 * factor * a[6]
    work.jumps[7, k] += m32 * factor * a[7]
