"""The bundles of plain arrays that the variational kernels pass among themselves.

Named tuples only: numba reads their fields without cost. D trajectories, N nodes; trajectory d
has K_d steps and K_d + 1 grid points. ``docs/derivations.md`` explains the quantities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LIKELIHOOD = 0
JUMP = 1
SOFT = 2
"""Kinds of marks: a fixed likelihood, the node's own jump, a factor that other nodes determine."""


class GraphArrays(NamedTuple):
    """The fields of ``CompiledGraph`` (see there) that kernels need, and where moments lie."""

    n_states: IntArray
    parent_start: IntArray
    parents: IntArray
    child_start: IntArray
    children: IntArray
    child_slot: IntArray
    n_configurations: IntArray
    table_start: IntArray
    dwell_start: IntArray
    """(N+1,) offset of each node's (n_configurations, S) block in a flat table of dwell times."""
    state_start: IntArray
    square_start: IntArray
    """(N+1,) running sum of S²: node n's moments of trajectory d start at
    ``step_start[d] * square_start[N] + square_start[n] * K_d``, as an (S², K_d) block."""
    is_summary: BoolArray
    weight_start: IntArray
    weights: IntArray
    is_exogenous: BoolArray


class GridArrays(NamedTuple):
    """Time steps of all trajectories."""

    step_start: IntArray
    """(D+1,) first step of each trajectory in the flat arrays."""
    width: FloatArray
    """Length of every step."""


class MarkArrays(NamedTuple):
    """Evidence on the grid; the marks of (d, n) are ``start[d*N+n] : start[d*N+n+1]``, by point."""

    start: IntArray
    point: IntArray
    """Grid point, counted within the trajectory."""
    kind: IntArray
    offset: IntArray
    """Where the S values of a LIKELIHOOD mark lie in ``likelihood``."""
    link: IntArray
    """For JUMP and SOFT marks: the link that determines their values, else −1."""
    slot: IntArray
    """Which member of that link this node is."""
    likelihood: FloatArray
    """Scaled so that each mark's largest value is one."""
    log_scale: FloatArray
    """What the scaling took out, per mark."""
    span_start: IntArray
    """Like ``start``, for intervals of continuous observation."""
    span_first: IntArray
    span_last: IntArray
    """Steps first ≤ k < last are known to be in ``span_state``."""
    span_state: IntArray


class LinkArrays(NamedTuple):
    """Evidence that ties several nodes together at one time.

    A jump links the node that jumped (member 0) to its parents (members 1, 2, …); a joint
    measurement links the nodes it reads. ``marginals`` holds each member's current distribution
    at that time (for the node that jumped: of the state it left) and is updated in place.
    """

    trajectory_start: IntArray
    """(D+1,) the links of trajectory d."""
    is_jump: BoolArray
    to_state: IntArray
    from_state: IntArray
    member_start: IntArray
    member_node: IntArray
    member_offset: IntArray
    """Where each member's distribution lies in ``marginals``."""
    marginals: FloatArray
    table_start: IntArray
    log_table: FloatArray
    """Log-likelihood tables of joint measurements, C order over the members."""


class Problem(NamedTuple):
    """Everything that stays fixed while messages are iterated."""

    graph: GraphArrays
    grid: GridArrays
    marks: MarkArrays
    links: LinkArrays
