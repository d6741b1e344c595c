"""What a node feels of its parents and of its children, on a block of time steps.

Three averages over parent configurations, all with time innermost: the probability of every
configuration (or summary value), the averaged table of a node, and ψ, the pull of a node's
children on it. They are the same for star and mean field; only the table that is averaged
differs (rates, or logarithms of rates off the diagonal).
"""

from __future__ import annotations

from asterism.kernels._jit import kernel


@kernel
def node_moments(graph, grid, moments, trajectory, node):
    """The (S², K) block of a node's moments in one trajectory; a view."""
    first = grid.step_start[trajectory]
    steps = grid.step_start[trajectory + 1] - first
    n_nodes = graph.n_states.shape[0]
    size = graph.n_states[node]
    begin = first * graph.square_start[n_nodes] + graph.square_start[node] * steps
    return moments[begin : begin + size * size * steps].reshape(size * size, steps)


@kernel
def _multiply_in_parent(weights, n_weights, own, size, first, count, inverse_width, skipped):
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


@kernel
def _convolve_in_parent(
    weights, reach, own, size, shifts, first, count, inverse_width, scratch
):
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
                scratch[row, k] += weights[s, k] * own[diagonal, first + k] * inverse_width[first + k]
    for s in range(top + 1):
        for k in range(count):
            weights[s, k] = scratch[s, k]
    return top


@kernel
def configuration_weights(
    graph, grid, moments, trajectory, node, skip, first, count, inverse_width, weights, scratch
):
    """Probability of each parent configuration of ``node`` on steps first … first+count−1.

    With ``skip`` ≥ 0 that parent is left out: its factor is one for each of its states (for a
    summary: it adds nothing), which gives the average conditional on its state.
    """
    begin = graph.parent_start[node]
    n_parents = graph.parent_start[node + 1] - begin
    for k in range(count):
        weights[0, k] = 1.0
    if graph.is_summary[node]:
        for s in range(1, graph.n_configurations[node]):
            for k in range(count):
                weights[s, k] = 0.0
        reach = 0
        for slot in range(n_parents):
            if slot == skip:
                continue
            edge = begin + slot
            parent = graph.parents[edge]
            shifts = graph.weights[graph.weight_start[edge] : graph.weight_start[edge + 1]]
            own = node_moments(graph, grid, moments, trajectory, parent)
            reach = _convolve_in_parent(
                weights, reach, own, graph.n_states[parent], shifts, first, count, inverse_width,
                scratch,
            )
        return
    n_weights = 1
    for slot in range(n_parents):
        parent = graph.parents[begin + slot]
        size = graph.n_states[parent]
        own = node_moments(graph, grid, moments, trajectory, parent)
        _multiply_in_parent(
            weights, n_weights, own, size, first, count, inverse_width, slot == skip
        )
        n_weights *= size


@kernel
def average_table(table, begin, size, n_weights, weights, count, out):
    """out(x,y) = Σ_u weights(u) table(u,x,y) for each step of the block."""
    rows = size * size
    for row in range(rows):
        value = table[begin + row]
        for k in range(count):
            out[row, k] = weights[0, k] * value
    for u in range(1, n_weights):
        block = begin + u * rows
        for row in range(rows):
            value = table[block + row]
            for k in range(count):
                out[row, k] += weights[u, k] * value


@kernel
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


@kernel
def add_pull_of_child(
    graph, grid, moments, table, trajectory, child, slot, first, count, inverse_width, weights,
    scratch, pull,
):
    """Add h ψ of one child to ``pull``: Σ_{x,y} W_child(x,y) E_child[table(x,y) | x']."""
    configuration_weights(
        graph, grid, moments, trajectory, child, slot, first, count, inverse_width, weights, scratch
    )
    own = node_moments(graph, grid, moments, trajectory, child)
    child_size = graph.n_states[child]
    rows = child_size * child_size
    begin = graph.table_start[child]
    edge = graph.parent_start[child] + slot
    node = graph.parents[edge]
    size = graph.n_states[node]
    n_configurations = graph.n_configurations[child]
    if graph.is_summary[child]:
        shifts = graph.weights[graph.weight_start[edge] : graph.weight_start[edge + 1]]
        for s in range(n_configurations):
            _contract(own, table, begin + s * rows, rows, first, count, scratch[s])
        for x in range(size):
            for s in range(n_configurations - shifts[x]):
                for k in range(count):
                    pull[x, k] += weights[s, k] * scratch[s + shifts[x], k]
        return
    stride = 1
    for later in range(edge + 1, graph.parent_start[child + 1]):
        stride *= graph.n_states[graph.parents[later]]
    for u in range(n_configurations):
        _contract(own, table, begin + u * rows, rows, first, count, scratch[0])
        x = (u // stride) % size
        for k in range(count):
            pull[x, k] += weights[u, k] * scratch[0, k]
