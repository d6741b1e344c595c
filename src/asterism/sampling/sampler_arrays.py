"""The plain arrays that the compiled parts of the sampler share.

D trajectories, N nodes. A *pair* is one node in one trajectory and has the number n·D + d, so that
the paths of one node lie side by side. Ragged things are flat with an array of offsets, closed by
their length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class SamplerLayout(NamedTuple):
    """What never changes while a chain runs."""

    n_states: IntArray
    """(N,)"""
    state_start: IntArray
    """(N+1,) offset of each node in flat arrays with one entry per node and state."""
    table_start: IntArray
    """(N+1,) offset of each node's block of rates; wide enough for its largest family."""
    config_start: IntArray
    """(N+1,) the same in arrays with one entry per node and configuration."""
    start: FloatArray
    end: FloatArray
    """(D,)"""
    is_given: BoolArray
    """(N,) exogenous nodes: their paths are never drawn, their jumps cost nothing."""


class Seen(NamedTuple):
    """The evidence, grouped by pair."""

    point_start: IntArray
    point_time: FloatArray
    point_offset: IntArray
    log_likelihood: FloatArray
    jump_start: IntArray
    jump_time: FloatArray
    jump_to: IntArray
    jump_from: IntArray
    span_start: IntArray
    span_begin: FloatArray
    span_end: FloatArray
    span_state: IntArray
    set_start: IntArray
    set_begin: FloatArray
    set_end: FloatArray
    set_state: IntArray
    """Interventions: while the experimenter holds a node, its own rates have no say."""
    joint_start: IntArray
    """(N·D+1,) rows of ``joint_index`` and ``joint_member`` that concern a pair."""
    joint_index: IntArray
    joint_member: IntArray
    """Which measurement, and which of its members this node is."""
    joint_time: FloatArray
    """(J,) of every measurement."""
    member_start: IntArray
    """(J+1,) the members of measurement i are ``member[member_start[i]:member_start[i+1]]``."""
    member: IntArray
    member_stride: IntArray
    joint_table: IntArray
    """(J,) offset of the measurement's table in ``joint_log``."""
    joint_log: FloatArray


class Families(NamedTuple):
    """The present graph. A node's configuration is the sum of one term per parent."""

    n_parents: IntArray
    """(N,)"""
    parents: IntArray
    """(N, K)"""
    term: IntArray
    """(N, K, largest S) what each state of a parent adds to the number of the configuration."""
    n_configs: IntArray
    """(N,)"""
    child_start: IntArray
    """(N+1,)"""
    child: IntArray
    child_slot: IntArray
    """Flat by parent: the child, and which of its parents this one is."""


class Rates(NamedTuple):
    """The present parameters of the dynamics."""

    rate: FloatArray
    """Flat tables (configuration, from, to); the diagonal holds the rate of leaving, ≥ 0."""
    log_rate: FloatArray
    """Logarithms of the same; −inf for a rate of zero; the diagonal is not used."""
    omega: FloatArray
    """Per configuration: the rate at which the grid of imagined jumps is laid."""
    initial: FloatArray
    """Flat start probabilities of every node."""
    kind: IntArray
    """(N,) which factors multiply a node's rates (``_factors.py``); 0: none."""
    group: IntArray
    """(N,) the number of the group of nodes with the same factors; −1: none."""
    group_kind: IntArray
    group_shape: IntArray
    """(N,) per group: its kind, and the number of the shape of its factors."""
    factor: FloatArray
    """Flat by pair, span and side: of leaving low and high states; empty if no node can have any.
    """
    duration: FloatArray
    """(1,) of the longest trajectory, which spans of the time since the start divide."""


class PathModel(NamedTuple):
    """Everything that a path depends on beside the other paths."""

    layout: SamplerLayout
    seen: Seen
    families: Families
    rates: Rates


class Paths(NamedTuple):
    """The present path of every pair: a start, then jumps in an arena of slots that can grow.

    Neighbouring trajectories form chunks, each with its own part of the arena.
    """

    initial: IntArray
    n_jumps: IntArray
    slot: IntArray
    """First jump of a pair in ``time`` and ``state``."""
    room: IntArray
    """How many jumps fit into the slot of a pair."""
    first: IntArray
    """(chunks+1,) the first trajectory of every chunk."""
    used: IntArray
    limit: IntArray
    """(chunks,) up to where a chunk's part of the arena is given away, and its end."""
    time: FloatArray
    state: NDArray[np.int16]
    """The state entered."""


class SamplerWork(NamedTuple):
    """Room for the path of one pair while it is drawn."""

    time: FloatArray
    config: IntArray
    jump: IntArray
    """Per grid point: the recorded jump that must happen there, or −1; −2 − x where the
    experimenter sets the state x."""
    low: FloatArray
    high: FloatArray
    """Per grid point: the factors on the rates of leaving low and high states."""
    log_weight: FloatArray
    filtered: FloatArray
    """Per grid point and state."""
    state: IntArray
    """Per grid point: the state drawn."""
    place: IntArray
    until: IntArray
    """Per parent that is followed: its next jump, and the end of its jumps, in the arena."""
    next_time: FloatArray
    now: IntArray
    """When its next jump is, and its present state."""
    totals: FloatArray
    proposed: FloatArray
    """For the parameters of one emission."""


class Candidates(NamedTuple):
    """Families that may be chosen, grouped by child; field names as in :class:`Families`."""

    start: IntArray
    """(N+1,) the families of node n are rows ``start[n]:start[n+1]``."""
    n_parents: IntArray
    parents: IntArray
    term: IntArray
    n_configs: IntArray
    log_prior: FloatArray
    edge: IntArray
    """(families, K) the number of the edge from each parent."""
    table_start: IntArray
    """(families+1,) offset of each family's statistics in a flat table of all families."""


class AllParents(NamedTuple):
    """Families beyond the candidates: every set of allowed parents, with its prior.

    ln P(family) = ``by_number[child, number of parents]`` + Σ ``log_odds[child, parent]``. All
    arrays are empty where the candidates are all families.
    """

    most: IntArray
    """(N,) the largest number of parents."""
    may_be: BoolArray
    """[child, parent]"""
    is_required: BoolArray
    log_odds: FloatArray
    by_number: FloatArray
    """(N, K+1) −inf for a number that is not allowed."""
    chance: FloatArray
    """[child, parent] how probable it is that a parent is among those compared in a sweep."""
    edge: IntArray
    """[child, parent] the number of the edge whose draws are kept, or −1."""


class Trial(NamedTuple):
    """Room for the families that one thread compares."""

    family: Candidates
    """One row."""
    table: FloatArray
    """Its statistics."""
    weight: FloatArray
    """(N+1,) of every parent that may be added to a base; the last is that of the base alone."""


class RatePrior(NamedTuple):
    """Gamma prior of the rates, and which jumps are possible."""

    shape: FloatArray
    """(1,)"""
    rate: FloatArray
    """Flat (S, S) blocks, one per node."""
    log_rate: FloatArray
    allowed: BoolArray
    """Flat likewise."""
    allowed_start: IntArray
    learn_initial: bool
    """Whether start probabilities are drawn (Dirichlet, 1 per state)."""


class Streams(NamedTuple):
    """Random numbers of one chain, so that draws do not depend on who draws which."""

    paths: NDArray[np.uint64]
    """(D, 4) one stream per trajectory."""
    nodes: NDArray[np.uint64]
    """(N + 2, 4) one per node, for its family, rates, start and emission; of the shape; of factors.
    """


class Emitted(NamedTuple):
    """Learned emissions: kinds, present parameters, priors, and the measured values."""

    kind: IntArray
    """(N,) one of the constants in ``_emissions.py``; 0 where nothing is learned."""
    start: IntArray
    """(N+1,) offset of each node's parameters."""
    parameter: FloatArray
    prior: FloatArray
    """(N, 4) see ``_emissions.py``."""
    order: IntArray
    """Flat by node and state: states from the lowest to the highest mean; −1: no order is kept."""
    value: FloatArray
    """Per point: what was measured, or its label's number."""
    is_read: BoolArray
    """Per point: whether its likelihood comes from the emission, and not from an exact state."""


class Choices(NamedTuple):
    """What a chain over models may choose from, and how probable it is beforehand."""

    candidates: Candidates
    others: AllParents
    prior: RatePrior
    emitted: Emitted
