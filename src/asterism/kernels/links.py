"""Evidence that ties nodes together at one moment: exactly timed jumps and joint measurements.

A joint measurement gives each node it reads the likelihood exp E[ln L | x], the others averaged
with their current marginals. A jump of n into y* multiplies by g(x) = exp E_n[ln R_n(x, y*)] and
gives each parent the factor exp Σ_x p(x) E_n[ln R_n(x, y*) | u_l], where p is the distribution of
the state that was left. A rate of zero enters as a very small one, so that iterations that start
from vague marginals can find their way to possible configurations.
"""

from __future__ import annotations

import math

from asterism.kernels._jit import kernel

LOG_OF_ZERO_RATE = -1000.0


@kernel
def _weight(links, member_begin, n_members, u, radix, skip_a, skip_b):
    """Probability of the members' joint state number ``u``, leaving out two of them."""
    weight = 1.0
    rest = u
    for member in range(n_members - 1, -1, -1):
        state = rest % radix[member]
        rest //= radix[member]
        if member != skip_a and member != skip_b:
            weight *= links.marginals[links.member_offset[member_begin + member] + state]
    return weight


@kernel
def _digit(u, member, n_members, radix):
    """State of one member in the joint state number ``u``."""
    rest = u
    for other in range(n_members - 1, member, -1):
        rest //= radix[other]
    return rest % radix[member]


@kernel
def _log_rate(rates, begin, size, configuration, x, y):
    rate = rates[begin + (configuration * size + x) * size + y]
    return math.log(rate) if rate > 0.0 else LOG_OF_ZERO_RATE


@kernel
def _members(graph, links, link):
    begin = links.member_start[link]
    n_members = links.member_start[link + 1] - begin
    radix = graph.n_states[links.member_node[begin : begin + n_members]]
    return begin, n_members, radix


@kernel
def _summary_value(graph, node, radix, u, n_parents):
    """Block of the node's table that belongs to its parents' joint state number ``u``."""
    if not graph.is_summary[node]:
        return u
    total = 0
    rest = u
    for slot in range(n_parents - 1, -1, -1):
        state = rest % radix[slot + 1]
        rest //= radix[slot + 1]
        edge = graph.parent_start[node] + slot
        total += graph.weights[graph.weight_start[edge] + state]
    return total


@kernel
def soft_log_likelihood(graph, links, rates, link, slot, out):
    """ln of the factor that member ``slot`` of a link receives from the others."""
    begin, n_members, radix = _members(graph, links, link)
    size = radix[slot]
    out[:size] = 0.0
    if not links.is_jump[link]:
        table = links.table_start[link]
        n_joint = 1
        for member in range(n_members):
            n_joint *= radix[member]
        for u in range(n_joint):
            weight = _weight(links, begin, n_members, u, radix, slot, slot)
            if weight > 0.0:
                value = max(links.log_table[table + u], LOG_OF_ZERO_RATE)
                out[_digit(u, slot, n_members, radix)] += weight * value
        return
    node = links.member_node[begin]
    own_size = radix[0]
    target = links.to_state[link]
    n_joint = 1
    for member in range(1, n_members):
        n_joint *= radix[member]
    table = graph.table_start[node]
    departed = links.member_offset[begin]
    for u in range(n_joint):
        configuration = _summary_value(graph, node, radix, u, n_members - 1)
        weight = _weight(links, begin, n_members, u, radix, slot, 0)
        if weight == 0.0:
            continue
        if slot == 0:
            for x in range(own_size):
                if x != target:
                    out[x] += weight * _log_rate(rates, table, own_size, configuration, x, target)
        else:
            value = 0.0
            for x in range(own_size):
                p = links.marginals[departed + x]
                if p > 0.0 and x != target:
                    value += p * _log_rate(rates, table, own_size, configuration, x, target)
            out[_digit(u, slot, n_members, radix)] += weight * value
    if slot == 0:
        out[target] = -math.inf
        if links.from_state[link] >= 0:
            for x in range(own_size):
                if x != links.from_state[link]:
                    out[x] = -math.inf


@kernel
def link_expectation(graph, links, rates, link):
    """E[ln L] of a joint measurement, or G_e = Σ_x p(x) E_n[ln R_n(x, y*)] of a jump."""
    begin, n_members, radix = _members(graph, links, link)
    total = 0.0
    if not links.is_jump[link]:
        table = links.table_start[link]
        n_joint = 1
        for member in range(n_members):
            n_joint *= radix[member]
        for u in range(n_joint):
            weight = _weight(links, begin, n_members, u, radix, -1, -1)
            if weight > 0.0:
                total += weight * max(links.log_table[table + u], LOG_OF_ZERO_RATE)
        return total
    node = links.member_node[begin]
    own_size = radix[0]
    target = links.to_state[link]
    n_joint = 1
    for member in range(1, n_members):
        n_joint *= radix[member]
    for u in range(n_joint):
        configuration = _summary_value(graph, node, radix, u, n_members - 1)
        weight = _weight(links, begin, n_members, u, radix, 0, 0)
        for x in range(own_size):
            p = links.marginals[links.member_offset[begin] + x]
            if p > 0.0 and weight > 0.0 and x != target:
                total += (
                    p
                    * weight
                    * _log_rate(rates, graph.table_start[node], own_size, configuration, x, target)
                )
    return total


@kernel
def add_jump_statistics(graph, links, link, transitions):
    """Add M_n^u(x, y*) += p(x) m_n^u(t_e) of one recorded jump to the flat transition table."""
    begin, n_members, radix = _members(graph, links, link)
    node = links.member_node[begin]
    own_size = radix[0]
    target = links.to_state[link]
    n_joint = 1
    for member in range(1, n_members):
        n_joint *= radix[member]
    table = graph.table_start[node]
    for u in range(n_joint):
        configuration = _summary_value(graph, node, radix, u, n_members - 1)
        weight = _weight(links, begin, n_members, u, radix, 0, 0)
        for x in range(own_size):
            if x != target:
                p = links.marginals[links.member_offset[begin] + x]
                transitions[table + (configuration * own_size + x) * own_size + target] += p * weight
