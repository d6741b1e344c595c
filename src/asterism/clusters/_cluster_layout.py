"""The arrays that the compiled loops of the clusters read and write, and what their codes mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64
from numba.core import types

from asterism.numerics._bundle import Bundle
from asterism.timeline.timeline import FIRST as FIRST
from asterism.timeline.timeline import HELD as HELD
from asterism.timeline.timeline import IS_SET as IS_SET
from asterism.timeline.timeline import JUMP as JUMP
from asterism.timeline.timeline import LAST as LAST
from asterism.timeline.timeline import LIKELIHOOD as LIKELIHOOD
from asterism.timeline.timeline import SET as SET
from asterism.timeline.timeline import STATE as STATE

MOST_TERMS = 40
"""Room for terms of a series of a cluster; ``terms_for`` stays below."""
MOST_PARTS = 70_000
"""Parts into which a step of a cluster may be cut."""

POINT, KIND, FIRST_VALUE, SECOND_VALUE = 0, 1, 2, 3
"""Columns of an event, those of an entry of the timeline: grid point, kind; offset of its values,
or state entered (and left)."""
IMPOSSIBLE, TOO_STIFF = 0, 1
"""How a pass ended."""


class RegionArrays(NamedTuple):
    """All regions, clusters first; ragged things flat with offsets."""

    n_clusters: int
    n_joint: np.ndarray
    per_row: np.ndarray
    """Jumps that leave a joint state: Σ (S − 1) over the region's nodes."""
    node_start: np.ndarray
    node: np.ndarray
    stride: np.ndarray
    digit_start: np.ndarray
    digit: np.ndarray
    """(J, nodes) state of each node in each joint state."""
    entry_start: np.ndarray
    column: np.ndarray
    """(J, per_row) joint state after the jump."""
    reverse: np.ndarray
    """(J, per_row) entry of the jump back."""
    entry_slot: np.ndarray
    """(J, per_row) which of the region's nodes jumps."""
    base_index: np.ndarray
    """(J, per_row) where the factor of the jump stands: a rate, or 1 (0 if impossible)."""
    owned_start: np.ndarray
    owned_slot: np.ndarray
    """The nodes whose rates the region owns, by their place in it."""
    exit_start: np.ndarray
    exit_index: np.ndarray
    """(J, owned) where the exit rate of an owned node stands."""
    block: np.ndarray
    """(nodes of the network,) S², the distance of neighbouring configurations in the table."""
    table_start: np.ndarray
    """(nodes of the network + 1,) where each node's rates stand."""
    state_start: np.ndarray
    """(nodes of the network + 1,) where each node's start probabilities stand."""
    border_start: np.ndarray
    """(clusters + 1,) first border of each cluster: where it meets a separator."""
    border_separator: np.ndarray
    border_side: np.ndarray
    border_cluster: np.ndarray
    """The cluster on the other side."""
    border_state_start: np.ndarray
    border_state: np.ndarray
    """Per joint state of the cluster, that of the separator."""
    border_entry_start: np.ndarray
    border_entry: np.ndarray
    """Per entry of the cluster, that of the separator, or −1."""
    message_state_start: np.ndarray
    """(separators + 1,) Σ joint states of the separators before."""
    message_entry_start: np.ndarray


class TrajectoryArrays(NamedTuple):
    """Steps and evidence of all trajectories."""

    step_start: np.ndarray
    width: np.ndarray
    event_start: np.ndarray
    """(D·N + 1,) events by trajectory and node, in the order of time, jumps first."""
    event: np.ndarray
    event_log: np.ndarray
    """Logarithm taken out of an event's likelihoods."""
    value: np.ndarray
    """Likelihoods, each event's scaled to a largest value of 1."""
    span_start: np.ndarray
    """(D·N + 1,) spans on which a node is held, by trajectory and node."""
    span: np.ndarray
    """Columns FIRST, LAST, STATE, IS_SET."""
    joint_start: np.ndarray
    joint: np.ndarray
    """Joint measurements by trajectory: grid point, cluster, start of the index, of the table."""
    joint_index: np.ndarray
    joint_log: np.ndarray
    input_column: np.ndarray
    """(N,) column of ``input_shift``, or −1."""
    input_shift: np.ndarray
    """(steps, columns) what exogenous parents add to a node's configuration number."""


class RegionWork(NamedTuple):
    """Room for the passes of one region.

    Rates stand in *columns*. A column is one step; in a region without separators, where no message
    changes from step to step, it is one kind of step: which nodes are held and where the exogenous
    parents stand. (…, columns) unless said otherwise.
    """

    column: np.ndarray
    """(steps,) the column of each step of the present trajectory."""
    step: np.ndarray
    """(columns,) a step, counted over all trajectories, that the column stands for."""
    held: np.ndarray
    """(columns, nodes) state in which a node is held, −1 if it is not; −2 − x where the
    experimenter holds it in state x."""
    alive: np.ndarray
    """(columns, states) 0 for states that the held nodes rule out, else 1."""
    rate: np.ndarray
    """(entries, columns)"""
    diagonal: np.ndarray
    """(states, columns)"""
    time: np.ndarray
    """(states, columns) expected time in each state."""
    jumps: np.ndarray
    """(entries, columns) expected number of each jump."""
    forward: np.ndarray
    """(steps + 1, states) forward vector just after each grid point's evidence."""
    backward: np.ndarray
    """(steps + 1, states) backward vector just after each grid point's evidence."""
    endings: np.ndarray
    """(2 n, states) backward vectors at the ends of n parts of a step, then at the ends of blocks
    of n parts: n² parts fit."""
    event_start: np.ndarray
    """(steps + 2,) where the events at each grid point begin in the two lists below."""
    event_row: np.ndarray
    """Row of the event, in the order of time; at one time interventions come first, then recorded
    jumps, then likelihoods."""
    event_slot: np.ndarray
    """Which of the region's nodes the event is about; −1: a joint measurement."""
    start: np.ndarray
    """(states,) forward vector before the evidence at the start."""
    first_time: np.ndarray
    """(states,) probability of each state at the start."""
    u: np.ndarray
    """(terms, states)"""
    v: np.ndarray
    z: np.ndarray
    """(states, terms)"""
    by_state: np.ndarray
    """(states, terms) ``v`` again."""
    vector: np.ndarray
    """(6, states)"""
    local: np.ndarray
    """(entries,) rates of the column at work."""
    back: np.ndarray
    """(entries,) those of the jumps back."""
    loaded: np.ndarray
    """(3,) which column ``local`` holds, its σ, and the largest row sum of A + σI."""
    failure: np.ndarray
    """(2,) where a pass failed: step, kind."""
    coefficient: np.ndarray
    """(terms, terms) i! j! / (i+j+1)!."""
    power: np.ndarray
    """(kinds, states, states) exp(A h) up to a factor, one for all steps that share width and
    column; none at all: steps are taken by series."""
    power_log: np.ndarray
    """(kinds,) the logarithm of that factor."""
    power_kind: np.ndarray
    """(steps of all trajectories,) which matrix carries over the step."""
    left: np.ndarray
    """(steps of all trajectories, states) where matrices are used: forward vectors f at the
    beginnings of the steps, and"""
    right: np.ndarray
    """backward vectors ρ at their ends, scaled so that f exp(A h) ρ = 1."""
    addresses: np.ndarray
    """Where the kernels lie that are called by address."""


_I1, _I2 = int64[::1], int64[:, ::1]
_F1, _F2, _F3 = float64[::1], float64[:, ::1], float64[:, :, ::1]
REGIONS = Bundle(types.NamedTuple((int64, *[_I1] * (len(RegionArrays._fields) - 1)), RegionArrays))
"""The regions as numba sees them; so are the next two."""
TRAJECTORIES = Bundle(
    types.NamedTuple(
        (_I1, _F1, _I1, _I2, _F1, _F1, _I1, _I2, _I1, _I2, _I1, _F1, _I1, _I2), TrajectoryArrays
    )
)
ROOM = Bundle(
    types.NamedTuple(
        (
            *(_I1, _I1, _I2, _F2, _F2, _F2, _F2, _F2, _F2, _F2, _F2, _I1, _I1, _I1, _F1, _F1),
            *(_F2, _F2, _F2, _F2, _F2, _F1, _F1, _F1, _I1, _F2, _F3, _F1, _I1, _F2, _F2, _I1),
        ),
        RegionWork,
    )
)
