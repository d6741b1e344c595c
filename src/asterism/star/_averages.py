"""What a node feels of its parents and of its children, on a block of time steps.

Three averages over parent configurations, all with time innermost: the probability of every
configuration (or summary value), the averaged table of a node, and ψ, the pull of a node's
children on it. They are the same for star and mean field; only the table that is averaged differs
(rates, or logarithms of rates off the diagonal).

The most common family has loops of its own: two states, and at most two parents of two states each.
Instead of a row of weights per configuration, two rows say how probable state 1 of either parent
is, and everything is a sum of four products. A missing parent counts as always being in state 0.

Rows of the flat moments are cut to the block before they are looped over: an index that starts at
zero is what lets the compiler use vector instructions.
"""

from __future__ import annotations

from numba import float64, int64

from asterism.numerics._jit import inlined, unit
from asterism.star._buffers import (
    CONFIGURATIONS,
    IS_SUMMARY,
    PARENT,
    PARENTS,
    PROBLEM,
    STATES,
    TABLE,
    WEIGHT,
    WORK,
    moments_begin,
)


@inlined
def multiply_in_parent(
    weights, n_weights, moments, begin, steps, size, first, count, inverse_width, skipped
):
    """Refine configuration weights by one more parent, in place (from the last row backwards)."""
    inverse = inverse_width[first : first + count]
    for u in range(n_weights - 1, -1, -1):
        old = weights[u]
        for x in range(size - 1, -1, -1):
            new = weights[u * size + x]
            if skipped:
                for k in range(count):
                    new[k] = old[k]
                continue
            row = begin + (x * size + x) * steps + first
            time = moments[row : row + count]
            if u * size + x == u:
                for k in range(count):
                    old[k] *= time[k] * inverse[k]
            else:
                for k in range(count):
                    new[k] = old[k] * (time[k] * inverse[k])


@inlined
def _convolve_in_parent(weights, scratch, reach, moments, begin, steps, shifts, count, inverse):
    """Add one more parent to the distribution of the summary; returns the new largest value.

    The parent's moments on these steps begin at ``begin``.
    """
    size = shifts.shape[0]
    top = reach
    for x in range(size):
        top = max(top, reach + shifts[x])
    for s in range(top + 1):
        for k in range(count):
            scratch[s, k] = 0.0
    for x in range(size):
        row = begin + (x * size + x) * steps
        time = moments[row : row + count]
        for s in range(reach + 1):
            old = weights[s]
            new = scratch[s + shifts[x]]
            for k in range(count):
                new[k] += old[k] * (time[k] * inverse[k])
    for s in range(top + 1):
        for k in range(count):
            weights[s, k] = scratch[s, k]
    return top


@unit((PROBLEM, WORK, float64[::1], int64, int64, int64, int64, int64))
def configuration_weights(problem, work, moments, trajectory, node, skip, first, count):
    """Probability of each parent configuration of ``node`` on steps first … first+count−1.

    It goes to the first of ``work.configurations``.
    The parent in slot ``skip``, if there is one, is left out: its factor is one for each of its
    states (for a summary: it adds nothing), which gives the average conditional on its state.
    """
    inverse_width = work.inverse_width
    weights, scratch = work.configurations[0], work.configurations[1]
    begin = problem.node[node, PARENTS]
    n_parents = problem.node[node + 1, PARENTS] - begin
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    for k in range(count):
        weights[0, k] = 1.0
    if problem.node[node, IS_SUMMARY]:
        for s in range(1, problem.node[node, CONFIGURATIONS]):
            for k in range(count):
                weights[s, k] = 0.0
        reach = int(0)  # not a written number: see ``inner``
        for slot in range(n_parents):
            if slot == skip:
                continue
            edge = begin + slot
            parent = problem.edge[edge, PARENT]
            shifts = problem.weights[problem.edge[edge, WEIGHT] : problem.edge[edge + 1, WEIGHT]]
            row = moments_begin(problem, trajectory, parent) + first
            inverse = inverse_width[first : first + count]
            reach = _convolve_in_parent(
                weights, scratch, reach, moments, row, steps, shifts, count, inverse
            )
        return
    n_weights = int(1)
    for slot in range(n_parents):
        parent = problem.edge[begin + slot, PARENT]
        size = problem.node[parent, STATES]
        multiply_in_parent(
            weights,
            n_weights,
            moments,
            moments_begin(problem, trajectory, parent),
            steps,
            size,
            first,
            count,
            inverse_width,
            slot == skip,
        )
        n_weights *= size


@inlined
def average_table(table, size, n_weights, weights, count, out):
    """out(x,y) = Σ_u weights(u) table(u,x,y) for each step of the block."""
    rows = size * size
    for row in range(rows):
        value = table[row]
        for k in range(count):
            out[row, k] = weights[0, k] * value
    for u in range(1, n_weights):
        block = u * rows
        for row in range(rows):
            value = table[block + row]
            for k in range(count):
                out[row, k] += weights[u, k] * value


@inlined
def _probability_of_parent(
    problem, moments, trajectory, node, slot, first, count, inverse_width, out
):
    """m(1) of a two-state parent; zero where the slot is empty."""
    edge = problem.node[node, PARENTS] + slot
    if edge < problem.node[node + 1, PARENTS]:
        steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
        row = moments_begin(problem, trajectory, problem.edge[edge, PARENT]) + 3 * steps + first
        probability_of_state_one(moments[row : row + count], inverse_width, first, count, out)
    else:
        for k in range(count):
            out[k] = 0.0


@inlined
def average_over_parents(problem, work, moments, table, trajectory, node, first, count, out):
    """out(x,y) = E_n[table(x,y)] on steps first … first+count−1."""
    inverse_width = work.inverse_width
    weights = work.configurations[0]
    if is_two_state_family(problem, node):
        for slot in range(2):
            _probability_of_parent(
                problem,
                moments,
                trajectory,
                node,
                slot,
                first,
                count,
                inverse_width,
                weights[slot],
            )
        average_two_state_table(problem, table, node, weights[0], weights[1], count, out)
        return
    no_parent_fixed = problem.node[node + 1, PARENTS] - problem.node[node, PARENTS]
    configuration_weights(
        work.addresses, problem, work, moments, trajectory, node, no_parent_fixed, first, count
    )
    average_table(
        table[problem.node[node, TABLE] :],
        problem.node[node, STATES],
        problem.node[node, CONFIGURATIONS],
        weights,
        count,
        out,
    )


@inlined
def _contract(moments, row, steps, table, block, rows, count, out):
    """out = Σ_{x,y} W(x,y) table(x,y) for each step; W's first row begins at ``row``."""
    value = table[block]
    here = moments[row : row + count]
    for k in range(count):
        out[k] = here[k] * value
    for i in range(1, rows):
        value = table[block + i]
        here = moments[row + i * steps : row + i * steps + count]
        for k in range(count):
            out[k] += here[k] * value


@inlined
def add_pull_of_child(problem, work, moments, table, trajectory, child, slot, first, count, pull):
    """Add h ψ of one child to ``pull``: Σ_{x,y} W_child(x,y) E_child[table(x,y) | x']."""
    inverse_width = work.inverse_width
    weights, scratch = work.configurations[0], work.configurations[1]
    steps = problem.step_start[trajectory + 1] - problem.step_start[trajectory]
    row = moments_begin(problem, trajectory, child) + first
    if is_two_state_family(problem, child):
        _probability_of_parent(
            problem,
            moments,
            trajectory,
            child,
            1 - slot,
            first,
            count,
            inverse_width,
            weights[0],
        )
        add_pull_of_two_state_child(
            problem, table, child, slot, moments, row, steps, count, weights[0], pull
        )
        return
    configuration_weights(
        work.addresses, problem, work, moments, trajectory, child, slot, first, count
    )
    child_size = problem.node[child, STATES]
    rows = child_size * child_size
    begin = problem.node[child, TABLE]
    edge = problem.node[child, PARENTS] + slot
    node = problem.edge[edge, PARENT]
    size = problem.node[node, STATES]
    n_configurations = problem.node[child, CONFIGURATIONS]
    if problem.node[child, IS_SUMMARY]:
        shifts = problem.weights[problem.edge[edge, WEIGHT] : problem.edge[edge + 1, WEIGHT]]
        for s in range(n_configurations):
            _contract(moments, row, steps, table, begin + s * rows, rows, count, scratch[s])
        for x in range(size):
            for s in range(n_configurations - shifts[x]):
                for k in range(count):
                    pull[x, k] += weights[s, k] * scratch[s + shifts[x], k]
        return
    stride = 1
    for later in range(edge + 1, problem.node[child + 1, PARENTS]):
        stride *= problem.node[problem.edge[later, PARENT], STATES]
    for u in range(n_configurations):
        _contract(moments, row, steps, table, begin + u * rows, rows, count, scratch[0])
        x = (u // stride) % size
        for k in range(count):
            pull[x, k] += weights[u, k] * scratch[0, k]


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
