"""Kernels on fully known jump paths: sufficient statistics, and states at given times.

Paths are flat arrays as in ``data/trajectories.py``. An edge's ``step`` values say what each
state of that parent adds to the child's configuration number: stride × state for an ordinary
table, the weight for a summary. One pass over the jumps touches only the node that jumped and
its children, so the cost does not grow with the number of nodes that stay put.
"""

from __future__ import annotations

from typing import NamedTuple

from asterism.numerics._jit import kernel
from asterism.numerics.arrays import FloatArray, IntArray


class JumpArrays(NamedTuple):
    """The paths of all trajectories, flat; see ``Trajectories``."""

    start: FloatArray
    end: FloatArray
    initial: IntArray
    jump_offset: IntArray
    jump_time: FloatArray
    jump_node: IntArray
    jump_state: IntArray


class CountedGraph(NamedTuple):
    """Where each family's counts lie; see ``CompiledGraph``."""

    n_states: IntArray
    parent_start: IntArray
    parents: IntArray
    child_start: IntArray
    children: IntArray
    child_edge: IntArray
    step_start: IntArray
    step: IntArray
    table_start: IntArray
    dwell_start: IntArray


@kernel
def path_statistics(paths, graph, state, configuration, since, dwell, transitions):
    """Add dwell times and transition counts of all trajectories to ``dwell``, ``transitions``.

    ``state``, ``configuration`` and ``since`` are work arrays with one entry per node.
    """
    n_states, table_start, dwell_start = graph.n_states, graph.table_start, graph.dwell_start
    step, step_start = graph.step, graph.step_start
    n_nodes = len(n_states)
    for d in range(len(paths.start)):
        for n in range(n_nodes):
            state[n] = paths.initial[d, n]
            since[n] = paths.start[d]
        for n in range(n_nodes):
            configuration[n] = 0
            for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
                configuration[n] += step[step_start[e] + state[graph.parents[e]]]
        for k in range(paths.jump_offset[d], paths.jump_offset[d + 1]):
            n, new, t = paths.jump_node[k], paths.jump_state[k], paths.jump_time[k]
            old, size = state[n], n_states[n]
            dwell[dwell_start[n] + configuration[n] * size + old] += t - since[n]
            transitions[table_start[n] + (configuration[n] * size + old) * size + new] += 1.0
            since[n] = t
            state[n] = new
            for i in range(graph.child_start[n], graph.child_start[n + 1]):
                c, e = graph.children[i], graph.child_edge[i]
                dwell[dwell_start[c] + configuration[c] * n_states[c] + state[c]] += t - since[c]
                since[c] = t
                configuration[c] += step[step_start[e] + new] - step[step_start[e] + old]
        for n in range(n_nodes):
            stay = paths.end[d] - since[n]
            dwell[dwell_start[n] + configuration[n] * n_states[n] + state[n]] += stay


@kernel
def states_at(initial, jump_offset, jump_time, jump_node, jump_state, times, order, state, result):
    """Write the state of every node at every time into ``result`` (D, T, N).

    ``order`` (D, T) sorts the ``times`` (D, T) of each trajectory. Paths are right-continuous:
    at the time of a jump the new state holds.
    """
    n_trajectories, n_times = times.shape
    n_nodes = initial.shape[1]
    for d in range(n_trajectories):
        for n in range(n_nodes):
            state[n] = initial[d, n]
        k = jump_offset[d]
        for i in range(n_times):
            j = order[d, i]
            while k < jump_offset[d + 1] and jump_time[k] <= times[d, j]:
                state[jump_node[k]] = jump_state[k]
                k += 1
            for n in range(n_nodes):
                result[d, j, n] = state[n]
