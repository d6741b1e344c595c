"""Joint chains of many states: uniformised series in short steps, never a dense matrix.

With B = (Q + qI) h the step is exp(Q h) = e^{−qh} Σ B^i / i!, all terms positive. Expected
statistics need ∫ f(t,x) ρ(t,y) dt over a step for every possible jump x → y. With
v_i = f B^i / i! and u_j = B^j ρ / j! it is e^{−qh} h Σ_{ij} v_i(x) u_j(y) · i! j! / (i+j+1)!, and
summing over j first leaves one short product per entry of the sparse generator.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.kernels._jit import kernel
from asterism.kernels.joint_chain import (
    count_recorded_jumps,
    evidence_backward,
    evidence_forward,
    kind_before,
    node_marginals,
    rescale,
    start_vector,
)

STEP_MASS = 6.0
"""The largest q h of one step."""


@kernel
def n_steps(generators, g, length):
    """Number of equal steps into which a stretch is cut."""
    return max(1, int(math.ceil(generators.bound[g] * length / STEP_MASS)))


@kernel
def n_terms(mass, diameter):
    """Terms of the series with q h = ``mass``, past the shortest way between any two states."""
    terms = 1
    tail = mass
    while tail > 1e-18 * math.exp(min(mass, 30.0)) or terms < mass:
        terms += 1
        tail *= mass / terms
    return terms + diameter + 1


@kernel
def apply_to_column(pattern, generators, g, column, factor, out):
    """out = (Q + qI) column · factor."""
    for x in range(len(column)):
        total = (generators.bound[g] + generators.diagonal[g, x]) * column[x]
        for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
            total += generators.value[g, e] * column[pattern.column[e]]
        out[x] = total * factor


@kernel
def apply_to_row(pattern, generators, g, row, factor, out):
    """out = row (Q + qI) · factor."""
    for x in range(len(row)):
        out[x] = (generators.bound[g] + generators.diagonal[g, x]) * row[x] * factor
    for x in range(len(row)):
        f = row[x] * factor
        if f > 0.0:
            for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
                out[pattern.column[e]] += f * generators.value[g, e]


@kernel
def column_terms(pattern, generators, g, step, column, terms):
    """terms[j] = B^j column / j!, their sum returned through ``column``."""
    terms[0] = column
    for j in range(1, terms.shape[0]):
        apply_to_column(pattern, generators, g, terms[j - 1], step / j, terms[j])
        column += terms[j]
    column *= math.exp(-generators.bound[g] * step)


@kernel
def row_terms(pattern, generators, g, step, row, terms):
    """terms[i] = row B^i / i!, their sum returned through ``row``."""
    terms[0] = row
    for i in range(1, terms.shape[0]):
        apply_to_row(pattern, generators, g, terms[i - 1], step / i, terms[i])
        row += terms[i]
    row *= math.exp(-generators.bound[g] * step)


@kernel
def backward_boundaries(pattern, generators, g, length, diameter, column):
    """Backward vectors at the boundaries of the steps of a stretch, the last one ``column``."""
    count = n_steps(generators, g, length)
    step = length / count
    terms = np.empty((n_terms(generators.bound[g] * step, diameter), len(column)))
    boundaries = np.empty((count + 1, len(column)))
    boundaries[count] = column
    for s in range(count - 1, -1, -1):
        boundaries[s] = boundaries[s + 1]
        column_terms(pattern, generators, g, step, boundaries[s], terms)
        rescale(boundaries[s])
    return boundaries


@kernel
def _backward_stretch(pattern, generators, g, length, diameter, column):
    """Carry ``column`` back over a stretch, in place, keeping nothing in between."""
    count = n_steps(generators, g, length)
    step = length / count
    terms = np.empty((n_terms(generators.bound[g] * step, diameter), len(column)))
    for _ in range(count):
        column_terms(pattern, generators, g, step, column, terms)
        rescale(column)


@kernel
def _add_statistics(pattern, generators, g, step, v, u, ahead, table):
    """Add one step's expected dwell times and transitions.

    ``v``, ``u``: the terms of f and ρ; ``ahead``: f exp(Q h) ρ, the norm.
    """
    n_series, n_joint = v.shape
    n_nodes = pattern.state_of.shape[1]
    # i! j! / (i+j+1)! for neighbouring i, j by ratios: exact enough and never overflows
    coefficient = np.empty((n_series, n_series))
    for i in range(n_series):
        coefficient[i, 0] = 1.0 / (i + 1.0)
        for j in range(1, n_series):
            coefficient[i, j] = coefficient[i, j - 1] * j / (i + j + 1.0)
    z = np.zeros((n_joint, n_series))
    by_state = np.empty((n_joint, n_series))
    for x in range(n_joint):
        for i in range(n_series):
            by_state[x, i] = v[i, x]
        for j in range(n_series):
            weight = u[j, x]
            if weight > 0.0:
                for i in range(n_series):
                    z[x, i] += coefficient[j, i] * weight
    factor = step * math.exp(-generators.bound[g] * step) / ahead
    shift = generators.shift[g]
    for x in range(n_joint):
        own = by_state[x]
        total = 0.0
        for i in range(n_series):
            total += own[i] * z[x, i]
        for i in range(n_nodes):
            table[pattern.exit_table[x, i] + shift[i] * pattern.block[i]] += total * factor
        for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
            rate = generators.value[g, e]
            if rate > 0.0:
                other = z[pattern.column[e]]
                total = 0.0
                for i in range(n_series):
                    total += own[i] * other[i]
                node = pattern.entry_node[e]
                at = pattern.entry_table[e] + shift[node] * pattern.block[node]
                table[at] += total * factor * rate


@kernel
def _forward_stretch(pattern, generators, g, length, diameter, forward, last_column, table):
    """Carry ``forward`` over a stretch, in place, adding its expected statistics.

    Returns the log of the scale taken out, or −inf where f and ρ never meet.
    """
    boundaries = backward_boundaries(pattern, generators, g, length, diameter, last_column)
    count = boundaries.shape[0] - 1
    step = length / count
    size = n_terms(generators.bound[g] * step, diameter)
    v = np.empty((size, len(forward)))
    u = np.empty((size, len(forward)))
    column = np.empty(len(forward))
    scale = 0.0
    for s in range(count):
        column[:] = boundaries[s + 1]
        column_terms(pattern, generators, g, step, column, u)
        row_terms(pattern, generators, g, step, forward, v)
        ahead = 0.0
        for x in range(len(forward)):
            ahead += forward[x] * boundaries[s + 1, x]
        if not ahead > 0.0:
            return -np.inf
        _add_statistics(pattern, generators, g, step, v, u, ahead, table)
        scale += rescale(forward)
    return scale


@kernel
def sparse_backward(pattern, schedule, generators, rates, log_likelihood, diameter, d, after):
    """Backward vectors just after every moment of trajectory d."""
    n = pattern.state_of.shape[0]
    work = np.empty(n)
    begin = schedule.first[d]
    after[schedule.first[d + 1] - 1 - begin] = 1.0
    for k in range(schedule.first[d + 1] - 1, begin, -1):
        column = after[k - 1 - begin]
        column[:] = after[k - begin]
        shift = generators.shift[kind_before(schedule, k, False)]
        evidence_backward(pattern, schedule, shift, rates, log_likelihood, k, column, work)
        g = schedule.generator[k - 1]
        _backward_stretch(pattern, generators, g, schedule.length[k - 1], diameter, column)


@kernel
def sparse_pass(
    pattern,
    schedule,
    generators,
    rates,
    initial,
    log_likelihood,
    diameter,
    first,
    last,
    log_evidence,
    marginals,
    table,
):
    """Forward–backward of trajectories ``first`` … ``last``−1, with expected statistics.

    Returns the trajectory and moment at which the evidence became impossible, or −1, −1.
    """
    n = pattern.state_of.shape[0]
    forward = np.empty(n)
    work = np.empty(n)
    later = np.empty(n)
    before = np.empty(n)
    incoming = np.empty(n)
    for d in range(first, last):
        begin = schedule.first[d]
        end = schedule.first[d + 1]
        after = np.empty((end - begin, n))
        sparse_backward(pattern, schedule, generators, rates, log_likelihood, diameter, d, after)
        log_evidence[d] = 0.0
        start_vector(pattern, initial, forward)
        for k in range(begin, end):
            shift = generators.shift[kind_before(schedule, k, k == begin)]
            before[:] = forward
            log_evidence[d] += evidence_forward(
                pattern, schedule, shift, rates, log_likelihood, k, forward, work
            )
            norm = node_marginals(pattern, forward, after[k - begin], marginals[k])
            if log_evidence[d] == -np.inf or not norm > 0.0:
                log_evidence[d] = -np.inf
                return d, k
            count_recorded_jumps(
                pattern,
                schedule,
                shift,
                rates,
                log_likelihood,
                k,
                before,
                after[k - begin],
                table,
                work,
                later,
            )
            if k + 1 == end:
                log_evidence[d] += math.log(forward.sum())
                break
            incoming[:] = after[k + 1 - begin]
            next_shift = generators.shift[kind_before(schedule, k + 1, False)]
            evidence_backward(
                pattern, schedule, next_shift, rates, log_likelihood, k + 1, incoming, work
            )
            log_evidence[d] += _forward_stretch(
                pattern,
                generators,
                schedule.generator[k],
                schedule.length[k],
                diameter,
                forward,
                incoming,
                table,
            )
            if log_evidence[d] == -np.inf:
                return d, k + 1
    return -1, -1
