"""What a node feels of its parents and of its children, on a block of time steps.

Three averages over parent configurations, all with time innermost: the probability of every
configuration (or summary value), the averaged table of a node, and ψ, the pull of a node's
children on it. They are the same for star and mean field; only the table that is averaged
differs (rates, or logarithms of rates off the diagonal).
"""

from __future__ import annotations

from asterism.kernels._jit import inner
from asterism.kernels.arrays import (
    CONFIGURATIONS,
    IS_SUMMARY,
    PARENT,
    PARENTS,
    SQUARES,
    STATES,
    TABLE,
    WEIGHT,
)


@inner
def node_moments(problem, moments, trajectory, node):
    """The (S², K) block of a node's moments in one trajectory; a view."""
    first = problem.step_start[trajectory]
    steps = problem.step_start[trajectory + 1] - first
    n_nodes = problem.node.shape[0] - 1
    size = problem.node[node, STATES]
    begin = first * problem.node[n_nodes, SQUARES] + problem.node[node, SQUARES] * steps
    return moments[begin : begin + size * size * steps].reshape(size * size, steps)


@inner
def multiply_in_parent(weights, n_weights, own, size, first, count, inverse_width, skipped):
    """Refine configuration weights by one more parent, in place (from the last row backwards)."""
    for u in range(n_weights - 1, -1, -1):
        for x in range(size - 1, -1, -1):
            row = u * size + x
            if skipped:
                for k in range(count):
                    weights[row, k] = weights[u, k]
            else:
                diagonal = x * size + x
                for k in range(count):
                    weights[row, k] = (
                        weights[u, k] * own[diagonal, first + k] * inverse_width[first + k]
                    )


@inner
def _convolve_in_parent(weights, reach, own, size, shifts, first, count, inverse_width, scratch):
    """Add one more parent to the distribution of the summary; returns the new largest value."""
    top = reach
    for x in range(size):
        top = max(top, reach + shifts[x])
    for s in range(top + 1):
        for k in range(count):
            scratch[s, k] = 0.0
    for s in range(reach + 1):
        for x in range(size):
            diagonal = x * size + x
            row = s + shifts[x]
            for k in range(count):
                scratch[row, k] += (
                    weights[s, k] * own[diagonal, first + k] * inverse_width[first + k]
                )
    for s in range(top + 1):
        for k in range(count):
            weights[s, k] = scratch[s, k]
    return top


@inner
def configuration_weights(
    problem, moments, trajectory, node, skip, first, count, inverse_width, weights, scratch
):
    """Probability of each parent configuration of ``node`` on steps first … first+count−1.

    The parent in slot ``skip``, if there is one, is left out: its factor is one for each of its
    states (for a summary: it adds nothing), which gives the average conditional on its state.
    """
    begin = problem.node[node, PARENTS]
    n_parents = problem.node[node + 1, PARENTS] - begin
    for k in range(count):
        weights[0, k] = 1.0
    if problem.node[node, IS_SUMMARY]:
        for s in range(1, problem.node[node, CONFIGURATIONS]):
            for k in range(count):
                weights[s, k] = 0.0
        reach = 0
        for slot in range(n_parents):
            if slot == skip:
                continue
            edge = begin + slot
            parent = problem.edge[edge, PARENT]
            shifts = problem.weights[problem.edge[edge, WEIGHT] : problem.edge[edge + 1, WEIGHT]]
            own = node_moments(problem, moments, trajectory, parent)
            reach = _convolve_in_parent(
                weights,
                reach,
                own,
                problem.node[parent, STATES],
                shifts,
                first,
                count,
                inverse_width,
                scratch,
            )
        return
    n_weights = 1
    for slot in range(n_parents):
        parent = problem.edge[begin + slot, PARENT]
        size = problem.node[parent, STATES]
        own = node_moments(problem, moments, trajectory, parent)
        multiply_in_parent(weights, n_weights, own, size, first, count, inverse_width, slot == skip)
        n_weights *= size


@inner
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


@inner
def _contract(own, table, block, rows, first, count, out):
    """out = Σ_{x,y} own(x,y) table(x,y) for each step."""
    if rows == 4:
        a = table[block]
        b = table[block + 1]
        c = table[block + 2]
        d = table[block + 3]
        for k in range(count):
            t = first + k
            out[k] = own[0, t] * a + own[1, t] * b + own[2, t] * c + own[3, t] * d
        return
    value = table[block]
    for k in range(count):
        out[k] = own[0, first + k] * value
    for row in range(1, rows):
        value = table[block + row]
        for k in range(count):
            out[k] += own[row, first + k] * value


@inner
def add_pull_of_child(
    problem,
    moments,
    table,
    trajectory,
    child,
    slot,
    first,
    count,
    inverse_width,
    weights,
    scratch,
    pull,
):
    """Add h ψ of one child to ``pull``: Σ_{x,y} W_child(x,y) E_child[table(x,y) | x']."""
    configuration_weights(
        problem, moments, trajectory, child, slot, first, count, inverse_width, weights, scratch
    )
    own = node_moments(problem, moments, trajectory, child)
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
            _contract(own, table, begin + s * rows, rows, first, count, scratch[s])
        for x in range(size):
            for s in range(n_configurations - shifts[x]):
                for k in range(count):
                    pull[x, k] += weights[s, k] * scratch[s + shifts[x], k]
        return
    stride = 1
    for later in range(edge + 1, problem.node[child + 1, PARENTS]):
        stride *= problem.node[problem.edge[later, PARENT], STATES]
    for u in range(n_configurations):
        _contract(own, table, begin + u * rows, rows, first, count, scratch[0])
        x = (u // stride) % size
        for k in range(count):
            pull[x, k] += weights[u, k] * scratch[0, k]
