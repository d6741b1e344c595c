"""The averages of ``averages.py`` for the most common family: two states, at most two parents.

A two-state node whose parents, two at most, have two states each. Instead of a row of weights per
configuration, two rows say how probable state 1 of either parent is, and everything is a sum of
four products. A parent that is missing counts as always being in state 0.
"""

from __future__ import annotations

from asterism.kernels._jit import inlined
from asterism.kernels.arrays import CONFIGURATIONS, IS_SUMMARY, PARENTS, STATES, TABLE


@inlined
def is_two_state_family(problem, node):
    """Whether the node and its parents, two at most, all have two states."""
    n_parents = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    return (
        problem.node[node, STATES] == 2
        and n_parents <= 2
        and problem.node[node, CONFIGURATIONS] == 1 << n_parents
        and problem.node[node, IS_SUMMARY] == 0
    )


@inlined
def _strides(problem, node, first_parent):
    """Offsets, in the node's table, of state 1 of the parent in that slot and of the other parent.

    Blocks of a parent that is missing are those of its state 0.
    """
    n_parents = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    if n_parents == 2:
        return (8, 4) if first_parent == 0 else (4, 8)
    return (4 * n_parents, 0)


@inlined
def probability_of_state_one(time, inverse_width, first, count, out):
    """m(1) of each step from the time that a parent spends in state 1."""
    inverse = inverse_width[first : first + count]
    for k in range(count):
        out[k] = min(time[k] * inverse[k], 1.0)


@inlined
def average_two_state_table(problem, table, node, p, q, count, out):
    """out(x,y) = Σ_u m^u table(u,x,y); ``p`` and ``q``: the parents' probabilities of state 1."""
    begin = problem.node[node, TABLE]
    one, other = _strides(problem, node, 0)
    for row in range(4):
        v00 = table[begin + row]
        v01 = table[begin + row + other]
        v10 = table[begin + row + one]
        v11 = table[begin + row + one + other]
        here = out[row]
        for k in range(count):
            low = (1.0 - q[k]) * v00 + q[k] * v01
            high = (1.0 - q[k]) * v10 + q[k] * v11
            here[k] = (1.0 - p[k]) * low + p[k] * high


@inlined
def add_pull_of_two_state_child(problem, table, child, slot, moments, row, steps, count, q, pull):
    """Add h ψ(x') of one child, whose moments on these steps begin at ``row``.

    ``q`` is its other parent's probability of state 1.
    """
    begin = problem.node[child, TABLE]
    one, other = _strides(problem, child, slot)
    w0 = moments[row : row + count]
    w1 = moments[row + steps : row + steps + count]
    w2 = moments[row + 2 * steps : row + 2 * steps + count]
    w3 = moments[row + 3 * steps : row + 3 * steps + count]
    for x in range(2):
        a = begin + x * one
        b = a + other
        a0, a1, a2, a3 = table[a], table[a + 1], table[a + 2], table[a + 3]
        b0, b1, b2, b3 = table[b], table[b + 1], table[b + 2], table[b + 3]
        here = pull[x]
        for k in range(count):
            low = w0[k] * a0 + w1[k] * a1 + w2[k] * a2 + w3[k] * a3
            high = w0[k] * b0 + w1[k] * b1 + w2[k] * b2 + w3[k] * b3
            here[k] += (1.0 - q[k]) * low + q[k] * high
