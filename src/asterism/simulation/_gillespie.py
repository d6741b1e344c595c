"""Simulation of a network, jump by jump, at a cost per jump that does not grow with its size.

A sum tree over the nodes' exit rates finds the next node in log N steps; after a jump only the
node and its children get new rates. Every node keeps the number of its current parent
configuration (or summary value), which a parent's jump moves by a difference read from a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.numerics._random_stream import choose, exponential, new_stream, uniform
from asterism.numerics._step import doubled, total


class SimulatedNetwork(NamedTuple):
    """The arrays of a network that simulation reads; see ``numerics/compiled.py``."""

    n_states: np.ndarray
    state_start: np.ndarray
    table_start: np.ndarray
    rates: np.ndarray
    initial: np.ndarray
    parent_start: np.ndarray
    parents: np.ndarray
    child_start: np.ndarray
    children: np.ndarray
    child_slot: np.ndarray
    shift_start: np.ndarray
    """(E+1,) per edge, offset into ``shift``."""
    shift: np.ndarray
    """What a state of the edge's parent adds to the child's configuration number."""
    frozen: np.ndarray
    """(N,) nodes without rates of their own: they move only where a forced path says so."""


class ForcedMoves(NamedTuple):
    """Given paths of the frozen nodes: moves sorted by time within each trajectory."""

    start: np.ndarray
    time: np.ndarray
    node: np.ndarray
    state: np.ndarray


@inner
def _set_rate(tree, n_leaves, node, rate):
    """Change one leaf and the sums above it; sums are never updated by differences."""
    i = n_leaves + node
    tree[i] = rate
    i >>= 1
    while i >= 1:
        tree[i] = tree[2 * i] + tree[2 * i + 1]
        i >>= 1


@inner
def _find_node(tree, n_leaves, stream):
    """The node that jumps next, drawn in proportion to the exit rates."""
    target = uniform(stream) * tree[1]
    i = 1
    while i < n_leaves:
        left = tree[2 * i]
        if target < left or tree[2 * i + 1] <= 0.0:
            i = 2 * i
        else:
            target -= left
            i = 2 * i + 1
    return i - n_leaves


@inner
def _row_start(net, node, configuration, state):
    size = net.n_states[node]
    return net.table_start[node] + (configuration * size + state) * size


@inner
def _exit_rate(net, node, configuration, state):
    if net.frozen[node]:
        return 0.0
    return -net.rates[_row_start(net, node, configuration, state) + state]


@inner
def _draw_target(net, node, configuration, state, stream):
    size = net.n_states[node]
    first = _row_start(net, node, configuration, state)
    target = -net.rates[first + state] * uniform(stream)
    last = state
    for y in range(size):
        rate = net.rates[first + y]
        if y != state and rate > 0.0:
            last = y
            target -= rate
            if target < 0.0:
                break
    return last


@inner
def _move(net, node, new_state, states, configuration, tree, n_leaves):
    """Put ``node`` into ``new_state`` and refresh its own and its children's exit rates."""
    old_state = states[node]
    states[node] = new_state
    _set_rate(tree, n_leaves, node, _exit_rate(net, node, configuration[node], new_state))
    for e in range(net.child_start[node], net.child_start[node + 1]):
        child = net.children[e]
        at = net.shift_start[net.parent_start[child] + net.child_slot[e]]
        configuration[child] += net.shift[at + new_state] - net.shift[at + old_state]
        rate = _exit_rate(net, child, configuration[child], states[child])
        _set_rate(tree, n_leaves, child, rate)


@inner
def _prepare(net, states, configuration, tree, n_leaves):
    n_nodes = len(net.n_states)
    for n in range(n_nodes):
        configuration[n] = 0
        for e in range(net.parent_start[n], net.parent_start[n + 1]):
            configuration[n] += net.shift[net.shift_start[e] + states[net.parents[e]]]
        tree[n_leaves + n] = _exit_rate(net, n, configuration[n], states[n])
    for i in range(n_leaves - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]


@kernel
def simulate_range(net, forced, key, first, last, initial, duration, n_transitions, limit):
    """Paths ``first`` … ``last``−1, from time 0.

    ``initial`` has a row per path of the range; entries of −1 are filled with draws. A negative
    ``duration`` means: stop after ``n_transitions`` jumps. Returns the end of every path, the
    offsets of its jumps, their times, nodes and states, and whether the range stayed within
    ``limit`` jumps.
    """
    n_nodes = len(net.n_states)
    n_leaves = 1
    while n_leaves < n_nodes:
        n_leaves *= 2
    tree = np.zeros(2 * n_leaves)
    configuration = np.zeros(n_nodes, np.int64)
    states = np.zeros(n_nodes, np.int64)
    n_paths = last - first
    end = np.zeros(n_paths)
    offset = np.zeros(n_paths + 1, np.int64)
    times = np.empty(1024)
    nodes = np.empty(1024, np.int64)
    entered = np.empty(1024, np.int64)
    used = 0
    for path in range(n_paths):
        stream = new_stream(key, first + path)
        for n in range(n_nodes):
            if initial[path, n] < 0:
                at = net.state_start[n]
                probabilities = net.initial[at : at + net.n_states[n]]
                initial[path, n] = choose(stream, probabilities, total(probabilities))
            states[n] = initial[path, n]
        _prepare(net, states, configuration, tree, n_leaves)
        now = 0.0
        own_jumps = 0
        next_forced = forced.start[first + path]
        last_forced = forced.start[first + path + 1]
        while duration >= 0.0 or own_jumps < n_transitions:
            when = np.inf
            if tree[1] > 0.0:
                when = now + exponential(stream, tree[1])
            is_forced = next_forced < last_forced and forced.time[next_forced] <= when
            if is_forced:
                when = forced.time[next_forced]
            if when == np.inf or (duration >= 0.0 and when >= duration):
                break
            if used >= limit:
                return end, offset, times[:used], nodes[:used], entered[:used], False
            if used == len(times):
                times = doubled(times)
                nodes = doubled(nodes)
                entered = doubled(entered)
            now = when
            if is_forced:
                node = forced.node[next_forced]
                state = forced.state[next_forced]
                next_forced += 1
            else:
                node = _find_node(tree, n_leaves, stream)
                state = _draw_target(net, node, configuration[node], states[node], stream)
                own_jumps += 1
            times[used] = now
            nodes[used] = node
            entered[used] = state
            used += 1
            _move(net, node, state, states, configuration, tree, n_leaves)
        end[path] = duration if duration >= 0.0 else now
        offset[path + 1] = used
    return end, offset, times[:used], nodes[:used], entered[:used], True
