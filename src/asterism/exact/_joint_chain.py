"""The joint Markov chain of a few coupled nodes: what it consists of, and its generators.

A joint state numbers all combinations of the nodes' states in C order. Generators are stored
sparsely, one set of values per *kind* of segment of time: which nodes are held in a known state
(their jumps are deleted, the diagonal stays) and where the known inputs stand. The second half says
what evidence at one instant does to the vectors: first recorded jumps, then likelihoods, as paths
are right-continuous. ``_dense_chain.py`` and ``_sparse_chain.py`` propagate in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asterism.numerics._jit import inner, kernel
from asterism.numerics._step import copy, fill, largest, multiply, scale


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
    """One generator per kind of segment."""

    held: np.ndarray
    """(G, k) the state in which a node is known to stay, so that its jumps are deleted; or −1;
    −2 − x where the experimenter holds it in x: then its exit rate is deleted too."""
    shift: np.ndarray
    """(G, k) what the known inputs add to the node's configuration number."""
    value: np.ndarray
    """(G, nnz) off-diagonal entries."""
    diagonal: np.ndarray
    """(G, J); −``bound`` for joint states that contradict a held node."""
    bound: np.ndarray
    """(G,) the largest exit rate of the joint states that are possible."""


class Schedule(NamedTuple):
    """The instants of every trajectory, the segments between them, and the evidence at them.

    ``x_start[k]:x_start[k+1]`` are the rows of kind x at instant k.
    """

    first: np.ndarray
    """(D+1,) first instant of each trajectory; the last instant ends it."""
    length: np.ndarray
    """Time from an instant to the next one; 0 at the last."""
    generator: np.ndarray
    """Kind of the segment that follows; at the last instant, of the one before."""
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
    set_start: np.ndarray
    set_node: np.ndarray
    set_state: np.ndarray
    """The experimenter takes hold of a node: whatever its state was, it is now this one."""
    joint_start: np.ndarray
    joint_map: np.ndarray
    """Row of ``joint_index``."""
    joint_offset: np.ndarray
    joint_index: np.ndarray
    """(n_maps, J) where in the measurement's table a joint state reads its likelihood."""
    joint_log: np.ndarray
    """Flat log-likelihoods of the joint measurements."""


class Chain(NamedTuple):
    """A joint chain with its evidence: what every pass over it reads."""

    pattern: Pattern
    schedule: Schedule
    generators: Generators
    rates: np.ndarray
    """Flat tables of intensities of the network."""
    initial: np.ndarray
    """Flat start probabilities of the component's nodes."""
    log_likelihood: np.ndarray
    """Flat log-likelihoods of the points."""
    diameter: int
    """Jumps from any joint state to any other at most."""


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
                state = held[i]
                if state <= -2:
                    state = -2 - state
                else:
                    diagonal += rates[pattern.exit_table[x, i] + shift[i] * pattern.block[i]]
                if state >= 0 and state != pattern.state_of[x, i]:
                    possible = False
            generators.diagonal[g, x] = diagonal if possible else -np.inf
            if possible:
                bound = max(bound, -diagonal)
            for e in range(pattern.row_start[x], pattern.row_start[x + 1]):
                i = pattern.entry_node[e]
                rate = 0.0
                if possible and held[i] == -1:
                    rate = rates[pattern.entry_table[e] + shift[i] * pattern.block[i]]
                generators.value[g, e] = rate
        generators.bound[g] = bound
        for x in range(n_joint):
            generators.diagonal[g, x] = max(generators.diagonal[g, x], -bound)


@inner
def start_vector(pattern, initial, vector):
    """Product of the nodes' start probabilities; ``initial`` is flat over the component."""
    n_joint, n_nodes = pattern.state_of.shape
    for x in range(n_joint):
        p = 1.0
        for i in range(n_nodes):
            p *= initial[pattern.marginal_start[i] + pattern.state_of[x, i]]
        vector[x] = p


@inner
def kind_before(schedule, k, is_first):
    """The kind of segment in which a jump recorded at instant k happens: the one before it."""
    return schedule.generator[k] if is_first else schedule.generator[k - 1]


@inner
def has_likelihood(schedule, k):
    return (
        schedule.hold_start[k] < schedule.hold_start[k + 1]
        or schedule.point_start[k] < schedule.point_start[k + 1]
        or schedule.joint_start[k] < schedule.joint_start[k + 1]
    )


@inner
def joint_likelihood(pattern, schedule, log_likelihood, k, out):
    """Likelihood of every joint state at instant k, scaled to a largest value of 1.

    Returns the log of the scale; −inf where nothing is possible.
    """
    n_joint = pattern.state_of.shape[0]
    fill(out, 0.0)
    for r in range(schedule.point_start[k], schedule.point_start[k + 1]):
        i = schedule.point_node[r]
        at = schedule.point_offset[r]
        for x in range(n_joint):
            out[x] += log_likelihood[at + pattern.state_of[x, i]]
    for r in range(schedule.joint_start[k], schedule.joint_start[k + 1]):
        index = schedule.joint_index[schedule.joint_map[r]]
        at = schedule.joint_offset[r]
        for x in range(n_joint):
            out[x] += schedule.joint_log[at + index[x]]
    for r in range(schedule.hold_start[k], schedule.hold_start[k + 1]):
        i = schedule.hold_node[r]
        for x in range(n_joint):
            if pattern.state_of[x, i] != schedule.hold_state[r]:
                out[x] = -np.inf
    top = largest(out)
    if top == -np.inf:
        fill(out, 0.0)
        return top
    for x in range(n_joint):
        out[x] = np.exp(out[x] - top)
    return top


@inner
def jump_rate(pattern, schedule, shift, rates, r, x):
    """Rate of recorded jump r out of joint state x; zero where x cannot be the state before."""
    i = schedule.jump_node[r]
    own = pattern.state_of[x, i]
    to = schedule.jump_to[r]
    if own == to or (schedule.jump_from[r] >= 0 and schedule.jump_from[r] != own):
        return 0.0
    return rates[pattern.exit_table[x, i] + to - own + shift[i] * pattern.block[i]]


@inner
def jump_target(pattern, schedule, r, x):
    i = schedule.jump_node[r]
    return x + (schedule.jump_to[r] - pattern.state_of[x, i]) * pattern.stride[i]


@inner
def jump_forward(pattern, schedule, shift, rates, r, vector, work):
    """α⁺ = α J."""
    fill(work, 0.0)
    for x in range(len(vector)):
        if vector[x] > 0.0:
            work[jump_target(pattern, schedule, r, x)] += vector[x] * jump_rate(
                pattern, schedule, shift, rates, r, x
            )
    copy(work, vector)


@inner
def jump_backward(pattern, schedule, shift, rates, r, vector, work):
    """β⁻ = J β⁺."""
    for x in range(len(vector)):
        rate = jump_rate(pattern, schedule, shift, rates, r, x)
        work[x] = rate * vector[jump_target(pattern, schedule, r, x)] if rate > 0.0 else 0.0
    copy(work, vector)


@inner
def set_target(pattern, schedule, r, x):
    i = schedule.set_node[r]
    return x + (schedule.set_state[r] - pattern.state_of[x, i]) * pattern.stride[i]


@inner
def set_forward(pattern, schedule, k, vector, work):
    """α⁺ of the nodes that the experimenter takes hold of at instant k."""
    for r in range(schedule.set_start[k], schedule.set_start[k + 1]):
        fill(work, 0.0)
        for x in range(len(vector)):
            work[set_target(pattern, schedule, r, x)] += vector[x]
        copy(work, vector)


@inner
def set_backward(pattern, schedule, k, vector, work):
    """β⁻ of the same."""
    for r in range(schedule.set_start[k], schedule.set_start[k + 1]):
        for x in range(len(vector)):
            work[x] = vector[set_target(pattern, schedule, r, x)]
        copy(work, vector)


@inner
def rescale(vector):
    """Divide by the largest entry; the log of it, −inf where the vector vanishes."""
    top = largest(vector)
    if not top > 0.0:
        return -np.inf
    scale(vector, 1.0 / top)
    return np.log(top)


@inner
def evidence_forward(pattern, schedule, shift, rates, log_likelihood, k, vector, work):
    """Carry a forward vector through instant k; log of the factor taken out."""
    taken_out = 0.0
    set_forward(pattern, schedule, k, vector, work)
    for r in range(schedule.jump_start[k], schedule.jump_start[k + 1]):
        jump_forward(pattern, schedule, shift, rates, r, vector, work)
    if has_likelihood(schedule, k):
        taken_out += joint_likelihood(pattern, schedule, log_likelihood, k, work)
        multiply(vector, work)
    return taken_out + rescale(vector)


@inner
def evidence_backward(pattern, schedule, shift, rates, log_likelihood, k, vector, work):
    """Carry a backward vector through instant k, dropping its scale."""
    if has_likelihood(schedule, k):
        joint_likelihood(pattern, schedule, log_likelihood, k, work)
        multiply(vector, work)
    for r in range(schedule.jump_start[k + 1] - 1, schedule.jump_start[k] - 1, -1):
        jump_backward(pattern, schedule, shift, rates, r, vector, work)
    set_backward(pattern, schedule, k, vector, work)
    rescale(vector)


@inner(allocates=True)
def count_recorded_jumps(chain, shift, k, before, after, table, work, later):
    """Add the recorded jumps at instant k to the expected transitions in ``table``.

    ``before`` is the forward vector just before the instant, ``after`` the backward one just after.
    """
    pattern, schedule = chain.pattern, chain.schedule
    rates, log_likelihood = chain.rates, chain.log_likelihood
    first = schedule.jump_start[k]
    last = schedule.jump_start[k + 1]
    if first == last:
        return
    earlier = before.copy()
    set_forward(pattern, schedule, k, earlier, work)
    for r in range(first, last):
        copy(after, later)
        if has_likelihood(schedule, k):
            joint_likelihood(pattern, schedule, log_likelihood, k, work)
            multiply(later, work)
        for s in range(last - 1, r, -1):
            jump_backward(pattern, schedule, shift, rates, s, later, work)
        i = schedule.jump_node[r]
        total = 0.0
        for x in range(len(later)):
            work[x] = earlier[x] * jump_rate(pattern, schedule, shift, rates, r, x)
            if work[x] > 0.0:
                work[x] *= later[jump_target(pattern, schedule, r, x)]
            total += work[x]
        for x in range(len(later)):
            if work[x] > 0.0 and total > 0.0:
                step = schedule.jump_to[r] - pattern.state_of[x, i]
                at = pattern.exit_table[x, i] + step + shift[i] * pattern.block[i]
                table[at] += work[x] / total
        jump_forward(pattern, schedule, shift, rates, r, earlier, work)
        rescale(earlier)


@inner
def node_marginals(pattern, forward, backward, out):
    """Marginals of every node from the two vectors just after an instant; their joint norm."""
    n_joint, n_nodes = pattern.state_of.shape
    fill(out, 0.0)
    total = 0.0
    for x in range(n_joint):
        p = forward[x] * backward[x]
        total += p
        for i in range(n_nodes):
            out[pattern.marginal_start[i] + pattern.state_of[x, i]] += p
    for i in range(n_nodes):  # each node by its own sum: exact to the last digit
        first = pattern.marginal_start[i]
        last = pattern.marginal_start[i + 1]
        norm = 0.0
        for s in range(first, last):
            norm += out[s]
        if norm > 0.0:
            for s in range(first, last):
                out[s] /= norm
    return total


@inner(allocates=True)
def pass_instant(chain, k, is_first, forward, after, marginals, table, room):
    """Carry the forward vector through instant k; what it gains in ln P, and the joint norm there.

    Marginals at the instant and jumps recorded at it are taken down; ``after`` is the backward
    vector just after it, ``room`` three more vectors.
    """
    shift = chain.generators.shift[kind_before(chain.schedule, k, is_first)]
    before = room[0]
    copy(forward, before)
    gained = evidence_forward(
        chain.pattern, chain.schedule, shift, chain.rates, chain.log_likelihood, k, forward, room[1]
    )
    norm = node_marginals(chain.pattern, forward, after, marginals)
    if gained > -np.inf:
        count_recorded_jumps(chain, shift, k, before, after, table, room[1], room[2])
    return gained, norm
