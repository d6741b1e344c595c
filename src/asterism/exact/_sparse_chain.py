"""Joint chains of many states: uniformised series in short steps, never a dense matrix.

With B = (Q + qI) h the step is exp(Q h) = e^{−qh} Σ B^i / i!, all terms positive. Expected
statistics need ∫ f(t,x) ρ(t,y) dt over a step for every possible jump x → y. With
v_i = f B^i / i! and u_j = B^j ρ / j! it is e^{−qh} h Σ_{ij} v_i(x) u_j(y) · i! j! / (i+j+1)!, and
summing over j first leaves one short product per entry of the sparse generator.
"""

from __future__ import annotations

import math

import numpy as np

from asterism.exact._joint_chain import (
    evidence_backward,
    kind_before,
    pass_instant,
    rescale,
    start_vector,
)
from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import add, copy, fill, scale, total

STEP_MASS = 6.0
"""The largest q h of one step."""


@inner
def n_steps(generators, g, length):
    """Number of equal steps into which a segment is cut."""
    return max(1, math.ceil(generators.bound[g] * length / STEP_MASS))


@inner
def most_terms(mass, diameter):
    """Terms that the series with q h = ``mass`` can need; see :func:`is_summed`."""
    terms = 1
    tail = mass
    while tail > 1e-18 or terms < mass:
        terms += 1
        tail *= mass / terms
    return terms + diameter + 2


@inner
def is_summed(j, diameter, term, summed):
    """Whether the series may stop after term j.

    Every entry must have converged by itself, and none may be zero only because the series has
    not yet reached it, which takes at most ``diameter`` terms.
    """
    for x in range(len(term)):
        if term[x] > 1e-17 * summed[x] or (summed[x] == 0.0 and j < diameter):
            return False
    return True


@inner
def apply_to_column(pattern, generators, g, column, factor, out):
    """out = (Q + qI) column · factor."""
    for x in range(len(column)):
        value = (generators.bound[g] + generators.diagonal[g, x]) * column[x]
        for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
            value += generators.value[g, e] * column[pattern.column[e]]
        out[x] = value * factor


@inner
def apply_to_row(pattern, generators, g, row, factor, out):
    """out = row (Q + qI) · factor."""
    for x in range(len(row)):
        out[x] = (generators.bound[g] + generators.diagonal[g, x]) * row[x] * factor
    for x in range(len(row)):
        f = row[x] * factor
        if f > 0.0:
            for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
                out[pattern.column[e]] += f * generators.value[g, e]


@inner
def column_terms(pattern, generators, g, step, diameter, column, terms):
    """terms[j] = B^j column / j!, their sum returned through ``column``; the number of terms."""
    copy(column, terms[0])
    count = 1
    while count < terms.shape[0]:
        term = terms[count]
        apply_to_column(pattern, generators, g, terms[count - 1], step / count, term)
        add(column, term)
        count += 1
        if is_summed(count - 1, diameter, term, column):
            break
    scale(column, math.exp(-generators.bound[g] * step))
    return count


@inner
def row_terms(pattern, generators, g, step, diameter, row, terms):
    """terms[i] = row B^i / i!, their sum returned through ``row``; the number of terms."""
    copy(row, terms[0])
    count = 1
    while count < terms.shape[0]:
        term = terms[count]
        apply_to_row(pattern, generators, g, terms[count - 1], step / count, term)
        add(row, term)
        count += 1
        if is_summed(count - 1, diameter, term, row):
            break
    scale(row, math.exp(-generators.bound[g] * step))
    return count


@inner(allocates=True)
def backward_boundaries(pattern, generators, g, length, diameter, column):
    """Backward vectors at the boundaries of the steps of a segment, the last one ``column``."""
    count = n_steps(generators, g, length)
    step = length / count
    terms = np.empty((most_terms(generators.bound[g] * step, diameter), len(column)))
    boundaries = np.empty((count + 1, len(column)))
    copy(column, boundaries[count])
    for s in range(count - 1, -1, -1):
        copy(boundaries[s + 1], boundaries[s])
        if s > 0:  # the vector at the very beginning is not asked for
            column_terms(pattern, generators, g, step, diameter, boundaries[s], terms)
            rescale(boundaries[s])
    return boundaries


@inner(allocates=True)
def _backward_segment(pattern, generators, g, length, diameter, column):
    """Carry ``column`` back over a segment, in place, keeping nothing in between."""
    count = n_steps(generators, g, length)
    step = length / count
    terms = np.empty((most_terms(generators.bound[g] * step, diameter), len(column)))
    for _ in range(count):
        column_terms(pattern, generators, g, step, diameter, column, terms)
        rescale(column)


@inner(allocates=True, fastmath={"contract", "reassoc"})
def _add_statistics(pattern, generators, g, step, v, u, ahead, table):
    """Add one step's expected dwell times and transitions.

    ``v``, ``u``: the terms of f and ρ; ``ahead``: f exp(Q h) ρ, the norm.
    """
    n_v, n_joint = v.shape
    n_u = u.shape[0]
    n_nodes = pattern.state_of.shape[1]
    # i! j! / (i+j+1)! for neighbouring i, j by ratios: exact enough and never overflows
    coefficient = np.empty((n_u, n_v))
    for j in range(n_u):
        coefficient[j, 0] = 1.0 / (j + 1.0)
        for i in range(1, n_v):
            coefficient[j, i] = coefficient[j, i - 1] * i / (i + j + 1.0)
    z = np.zeros((n_joint, n_v))
    by_state = np.empty((n_joint, n_v))
    for x in range(n_joint):
        for i in range(n_v):
            by_state[x, i] = v[i, x]
        for j in range(n_u):
            weight = u[j, x]
            if weight > 0.0:
                for i in range(n_v):
                    z[x, i] += coefficient[j, i] * weight
    factor = step * math.exp(-generators.bound[g] * step) / ahead
    shift = generators.shift[g]
    for x in range(n_joint):
        own = by_state[x]
        weight = 0.0
        for i in range(n_v):
            weight += own[i] * z[x, i]
        for i in range(n_nodes):
            if generators.held[g, i] >= -1:
                table[pattern.exit_table[x, i] + shift[i] * pattern.block[i]] += weight * factor
        for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
            rate = generators.value[g, e]
            if rate > 0.0:
                other = z[pattern.column[e]]
                weight = 0.0
                for i in range(n_v):
                    weight += own[i] * other[i]
                node = pattern.entry_node[e]
                at = pattern.entry_table[e] + shift[node] * pattern.block[node]
                table[at] += weight * factor * rate


@inner(allocates=True)
def _forward_segment(pattern, generators, g, length, diameter, forward, last_column, wanted, table):
    """Carry ``forward`` over a segment, in place, adding its expected statistics if ``wanted``.

    Returns the log of the scale taken out.
    """
    count = n_steps(generators, g, length)
    step = length / count
    size = most_terms(generators.bound[g] * step, diameter)
    n = len(forward)
    v = np.empty((size, n))
    taken_out = 0.0
    if not wanted:
        for _ in range(count):
            row_terms(pattern, generators, g, step, diameter, forward, v)
            taken_out += rescale(forward)
        return taken_out
    boundaries = backward_boundaries(pattern, generators, g, length, diameter, last_column)
    u = np.empty((size, n))
    column = np.empty(n)
    for s in range(count):
        copy(boundaries[s + 1], column)
        n_u = column_terms(pattern, generators, g, step, diameter, column, u)
        n_v = row_terms(pattern, generators, g, step, diameter, forward, v)
        ahead = 0.0
        for x in range(n):
            ahead += forward[x] * boundaries[s + 1, x]
        if ahead > 0.0:
            _add_statistics(pattern, generators, g, step, v[:n_v], u[:n_u], ahead, table)
        taken_out += rescale(forward)
    return taken_out


@inner(allocates=True)
def sparse_backward(chain, d, after):
    """Backward vectors just after every instant of trajectory d."""
    pattern, schedule, generators = chain.pattern, chain.schedule, chain.generators
    rates, log_likelihood = chain.rates, chain.log_likelihood
    diameter = chain.diameter
    n = pattern.state_of.shape[0]
    work = np.empty(n)
    begin = schedule.first[d]
    fill(after[schedule.first[d + 1] - 1 - begin], 1.0)
    for k in range(schedule.first[d + 1] - 1, begin, -1):
        column = after[k - 1 - begin]
        copy(after[k - begin], column)
        shift = generators.shift[kind_before(schedule, k, False)]
        evidence_backward(pattern, schedule, shift, rates, log_likelihood, k, column, work)
        g = schedule.generator[k - 1]
        _backward_segment(pattern, generators, g, schedule.length[k - 1], diameter, column)


@kernel
def sparse_pass(chain, first, last, log_evidence, marginals, wanted, table):
    """Forward–backward of trajectories ``first`` … ``last``−1, with statistics if ``wanted``.

    Returns the trajectory and instant at which the evidence became impossible, or −1, −1.
    """
    pattern, schedule, generators = chain.pattern, chain.schedule, chain.generators
    rates, log_likelihood = chain.rates, chain.log_likelihood
    diameter = chain.diameter
    n = pattern.state_of.shape[0]
    forward = np.empty(n)
    room = np.empty((3, n))
    incoming = np.empty(n)
    for d in range(first, last):
        begin = schedule.first[d]
        end = schedule.first[d + 1]
        after = np.empty((end - begin, n))
        sparse_backward(chain, d, after)
        log_evidence[d] = 0.0
        doubtful = -1
        start_vector(pattern, chain.initial, forward)
        for k in range(begin, end):
            gained, norm = pass_instant(
                chain, k, k == begin, forward, after[k - begin], marginals[k], table, room
            )
            log_evidence[d] += gained
            if log_evidence[d] == -np.inf:
                return d, k
            if doubtful < 0 and not norm > 0.0:
                doubtful = k  # go on forward, to find where the contradiction shows
            if k + 1 == end:
                log_evidence[d] += math.log(total(forward))
                break
            copy(after[k + 1 - begin], incoming)
            next_shift = generators.shift[kind_before(schedule, k + 1, False)]
            evidence_backward(
                pattern, schedule, next_shift, rates, log_likelihood, k + 1, incoming, room[0]
            )
            log_evidence[d] += _forward_segment(
                pattern,
                generators,
                schedule.generator[k],
                schedule.length[k],
                diameter,
                forward,
                incoming,
                wanted,
                table,
            )
        if doubtful >= 0:
            log_evidence[d] = -np.inf
            return d, doubtful
    return -1, -1
