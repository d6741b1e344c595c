"""The joint Markov chain of a few coupled nodes: what it consists of, and its generators.

A joint state numbers all combinations of the nodes' states in C order. Generators are stored
sparsely, one set of values per *kind* of stretch of time: which nodes are held in a known state
(their jumps are deleted, the diagonal stays) and where the known inputs stand. ``joint_evidence``
says what evidence does at one moment, ``dense_chain`` and ``sparse_chain`` propagate in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asterism.kernels._jit import kernel


class Pattern(NamedTuple):
    """Which joint states are one jump apart, and where the rates of these jumps stand."""

    n_states: np.ndarray
    """(k,) states of each node of the component."""
    stride: np.ndarray
    """(k,) what one state of the node adds to the joint number."""
    state_of: np.ndarray
    """(J, k) state of every node in every joint state."""
    row_start: np.ndarray
    """(J+1,) entries of joint state x are ``row_start[x]:row_start[x+1]``."""
    column: np.ndarray
    """(nnz,) the joint state after the jump."""
    entry_node: np.ndarray
    """(nnz,) the node of the component that jumps."""
    entry_table: np.ndarray
    """(nnz,) index of the rate in the network's flat tables, inputs in state 0."""
    exit_table: np.ndarray
    """(J, k) likewise for each node's diagonal entry."""
    block: np.ndarray
    """(k,) S², the distance of neighbouring configurations in the tables."""
    marginal_start: np.ndarray
    """(k+1,) offset of every node in a flat list of node marginals."""


class Generators(NamedTuple):
    """One generator per kind of stretch."""

    held: np.ndarray
    """(G, k) the state in which a node is known to stay, so that its jumps are deleted; or −1."""
    shift: np.ndarray
    """(G, k) what the known inputs add to the node's configuration number."""
    value: np.ndarray
    """(G, nnz) off-diagonal entries."""
    diagonal: np.ndarray
    """(G, J); −``bound`` for joint states that contradict a held node."""
    bound: np.ndarray
    """(G,) the largest exit rate of the joint states that are possible."""


class Schedule(NamedTuple):
    """The moments of every trajectory, the stretches between them, and the evidence at them.

    ``x_start[k]:x_start[k+1]`` are the rows of kind x at moment k.
    """

    first: np.ndarray
    """(D+1,) first moment of each trajectory; the last moment ends it."""
    length: np.ndarray
    """Time from a moment to the next one; 0 at the last."""
    generator: np.ndarray
    """Kind of the stretch that follows; at the last moment, of the one before."""
    jump_start: np.ndarray
    jump_node: np.ndarray
    jump_to: np.ndarray
    jump_from: np.ndarray
    hold_start: np.ndarray
    hold_node: np.ndarray
    hold_state: np.ndarray
    point_start: np.ndarray
    point_node: np.ndarray
    point_offset: np.ndarray
    joint_start: np.ndarray
    joint_map: np.ndarray
    """Row of ``joint_index``."""
    joint_offset: np.ndarray
    joint_index: np.ndarray
    """(n_maps, J) where in the measurement's table a joint state reads its likelihood."""
    joint_log: np.ndarray
    """Flat log-likelihoods of the joint measurements."""


@kernel
def fill_generators(pattern, generators, rates):
    """Read the current rates into every generator."""
    n_joint, n_nodes = pattern.state_of.shape
    for g in range(len(generators.bound)):
        held = generators.held[g]
        shift = generators.shift[g]
        bound = 0.0
        for x in range(n_joint):
            diagonal = 0.0
            possible = True
            for i in range(n_nodes):
                diagonal += rates[pattern.exit_table[x, i] + shift[i] * pattern.block[i]]
                if held[i] >= 0 and held[i] != pattern.state_of[x, i]:
                    possible = False
            generators.diagonal[g, x] = diagonal if possible else -np.inf
            if possible:
                bound = max(bound, -diagonal)
            for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
                i = pattern.entry_node[e]
                rate = 0.0
                if possible and held[i] < 0:
                    rate = rates[pattern.entry_table[e] + shift[i] * pattern.block[i]]
                generators.value[g, e] = rate
        generators.bound[g] = bound
        for x in range(n_joint):
            generators.diagonal[g, x] = max(generators.diagonal[g, x], -bound)


@kernel
def start_vector(pattern, initial, vector):
    """Product of the nodes' initial probabilities; ``initial`` is flat over the component."""
    n_joint, n_nodes = pattern.state_of.shape
    for x in range(n_joint):
        p = 1.0
        for i in range(n_nodes):
            p *= initial[pattern.marginal_start[i] + pattern.state_of[x, i]]
        vector[x] = p


@kernel
def kind_before(schedule, k, is_first):
    """The kind of stretch in which a jump recorded at moment k happens: the one before it."""
    return schedule.generator[k] if is_first else schedule.generator[k - 1]
