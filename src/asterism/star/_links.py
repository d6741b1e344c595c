"""Evidence that ties nodes together at one time: exactly timed jumps and joint measurements.

A joint measurement gives each node it reads the likelihood exp E[ln L | x], the others averaged
with their current marginals. A jump of n into y* multiplies by g(x) = exp E_n[ln R_n(x, y*)] and
gives each parent the factor exp Σ_x p(x) E_n[ln R_n(x, y*) | u_l], where p is the distribution of
the state that was left. A rate of zero enters as a very small one, so that iterations that start
from vague marginals can find their way to possible configurations.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64

from asterism.numerics._jit import inner, unit
from asterism.star._buffers import (
    FROM,
    IS_EXOGENOUS,
    IS_JUMP,
    IS_SUMMARY,
    LINK,
    LOG_TABLE,
    MARGINAL,
    MEMBER,
    MEMBER_NODE,
    MEMBERS,
    PARENTS,
    PROBLEM,
    STATES,
    TABLE,
    TO,
    WEIGHT,
)

# Lower limit of ln R: small enough to forbid a jump, large enough that vague first marginals can
# find their way to possible configurations.
LOWEST_LOG_RATE = -1000.0


@inner
def _weight(problem, member_begin, n_members, u, radix, skip_a, skip_b):
    """Probability of the members' joint state number ``u``, leaving out two of them."""
    weight = 1.0
    rest = u
    for member in range(n_members - 1, -1, -1):
        state = rest % radix[member]
        rest //= radix[member]
        if member != skip_a and member != skip_b:
            weight *= problem.marginals[problem.member[member_begin + member, MARGINAL] + state]
    return weight


@inner
def _digit(u, member, n_members, radix):
    """State of one member in the joint state number ``u``."""
    rest = u
    for other in range(n_members - 1, member, -1):
        rest //= radix[other]
    return rest % radix[member]


@inner
def _log_rate(rates, begin, size, configuration, x, y):
    rate = rates[begin + (configuration * size + x) * size + y]
    return math.log(rate) if rate > 0.0 else LOWEST_LOG_RATE


@inner(allocates=True)
def _members(problem, link):
    """First member, number of members, and the number of states of each."""
    begin = problem.link[link, MEMBERS]
    n_members = problem.link[link + 1, MEMBERS] - begin
    radix = np.empty(n_members, dtype=np.int64)
    for member in range(n_members):
        radix[member] = problem.node[problem.member[begin + member, MEMBER_NODE], STATES]
    return begin, n_members, radix


@inner
def _summary_value(problem, node, radix, u, n_parents):
    """Block of the node's table that belongs to its parents' joint state number ``u``."""
    if not problem.node[node, IS_SUMMARY]:
        return u
    total = 0
    rest = u
    for slot in range(n_parents - 1, -1, -1):
        state = rest % radix[slot + 1]
        rest //= radix[slot + 1]
        edge = problem.node[node, PARENTS] + slot
        total += problem.weights[problem.edge[edge, WEIGHT] + state]
    return total


@inner
def _soft_log_likelihood(problem, rates, link, slot, out):
    """ln of the factor that member ``slot`` of a link receives from the others."""
    begin, n_members, radix = _members(problem, link)
    size = radix[slot]
    out[:size] = 0.0
    if not problem.link[link, IS_JUMP]:
        table = problem.link[link, LOG_TABLE]
        n_joint = 1
        for member in range(n_members):
            n_joint *= radix[member]
        for u in range(n_joint):
            weight = _weight(problem, begin, n_members, u, radix, slot, slot)
            if weight > 0.0:
                value = max(problem.log_table[table + u], LOWEST_LOG_RATE)
                out[_digit(u, slot, n_members, radix)] += weight * value
        return
    node = problem.member[begin, MEMBER_NODE]
    own_size = radix[0]
    target = problem.link[link, TO]
    n_joint = 1
    for member in range(1, n_members):
        n_joint *= radix[member]
    table = problem.node[node, TABLE]
    departed = problem.member[begin, MARGINAL]
    for u in range(n_joint):
        configuration = _summary_value(problem, node, radix, u, n_members - 1)
        weight = _weight(problem, begin, n_members, u, radix, slot, 0)
        if weight == 0.0:
            continue
        if slot == 0:
            for x in range(own_size):
                if x != target:
                    out[x] += weight * _log_rate(rates, table, own_size, configuration, x, target)
        else:
            value = 0.0
            for x in range(own_size):
                p = problem.marginals[departed + x]
                if p > 0.0 and x != target:
                    value += p * _log_rate(rates, table, own_size, configuration, x, target)
            out[_digit(u, slot, n_members, radix)] += weight * value
    if slot == 0:
        out[target] = -math.inf
        if problem.link[link, FROM] >= 0:
            for x in range(own_size):
                if x != problem.link[link, FROM]:
                    out[x] = -math.inf


@inner
def _link_expectation(problem, rates, link, room):
    """E[ln L] of a joint measurement, or G_e = Σ_x p(x) E_n[ln R_n(x, y*)] of a jump."""
    first = problem.link[link, MEMBERS]
    begin = problem.member[first, MARGINAL]
    _soft_log_likelihood(problem, rates, link, int(0), room)
    total = 0.0
    for x in range(problem.node[problem.member[first, MEMBER_NODE], STATES]):
        p = problem.marginals[begin + x]
        if p > 0.0 and room[x] > -math.inf:
            total += p * room[x]
    return total


@inner
def _add_jump_statistics(problem, link, transitions):
    """Add M_n^u(x, y*) += p(x) m_n^u(t_e) of one recorded jump to the flat transition table."""
    begin, n_members, radix = _members(problem, link)
    node = problem.member[begin, MEMBER_NODE]
    own_size = radix[0]
    target = problem.link[link, TO]
    n_joint = 1
    for member in range(1, n_members):
        n_joint *= radix[member]
    table = problem.node[node, TABLE]
    for u in range(n_joint):
        configuration = _summary_value(problem, node, radix, u, n_members - 1)
        weight = _weight(problem, begin, n_members, u, radix, 0, 0)
        for x in range(own_size):
            if x != target:
                p = problem.marginals[problem.member[begin, MARGINAL] + x]
                transitions[table + (configuration * own_size + x) * own_size + target] += (
                    p * weight
                )


@inner
def _link_totals(problem, rates, trajectory, room):
    """(correction of F, E[ln L] of joint measurements, Σ G_e of jumps) of one trajectory."""
    correction = 0.0
    joint = 0.0
    jumps = 0.0
    for link in range(problem.link_start[trajectory], problem.link_start[trajectory + 1]):
        expectation = _link_expectation(problem, rates, link, room)
        # every member beyond the first that received a factor counted the evidence once more
        for member in range(problem.link[link, MEMBERS] + 1, problem.link[link + 1, MEMBERS]):
            if problem.node[problem.member[member, MEMBER_NODE], IS_EXOGENOUS] == 0:
                correction -= expectation
        if problem.link[link, IS_JUMP] == 1:
            jumps += expectation
        else:
            joint += expectation
    return correction, joint, jumps


# what is asked of the links
SOFT_MARK = 0
TOTALS = 1
JUMP_STATISTICS = 2


@unit((PROBLEM, float64[::1], int64, int64, float64[::1]), allocates=True)
def ask_links(problem, rates, question, number, out):
    """What linked evidence says, to ``out``.

    SOFT_MARK: logarithms of the factors that mark ``number`` stands for. TOTALS: correction of F,
    E[ln L] of joint measurements and Σ G_e of jumps of trajectory ``number``; room for a node's
    states follows. JUMP_STATISTICS: its jumps are added to flat transitions.
    """
    if question == SOFT_MARK:
        link, member = problem.mark[number, LINK], problem.mark[number, MEMBER]
        _soft_log_likelihood(problem, rates, link, member, out)
    elif question == TOTALS:
        out[0], out[1], out[2] = _link_totals(problem, rates, number, out[3:])
    else:
        for link in range(problem.link_start[number], problem.link_start[number + 1]):
            if problem.link[link, IS_JUMP] == 1:
                _add_jump_statistics(problem, link, out)
