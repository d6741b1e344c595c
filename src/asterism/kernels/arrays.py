"""The bundle of plain arrays that the variational kernels pass among themselves.

D trajectories, N nodes; trajectory d has K_d steps and K_d + 1 grid points. Integers that belong
together are columns of one array, with named columns: few arrays keep compilation short.
``docs/derivations.md`` explains the quantities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# kinds of marks
LIKELIHOOD = 0
"""A fixed likelihood of each state."""
JUMP = 1
"""The node's own exactly timed jump."""
SOFT = 2
"""A factor that the current marginals of other nodes determine."""

# columns of Problem.node; a row N closes the running sums
STATES = 0
PARENTS = 1
"""First edge of the node in ``edge`` (edges are grouped by child)."""
CHILDREN = 2
"""First row of the node's children in ``edge`` (columns CHILD and SLOT are grouped by parent)."""
CONFIGURATIONS = 3
"""Parent configurations, or values of the summary."""
TABLE = 4
"""Offset of the node's (configurations, S, S) block in flat tables."""
DWELL = 5
"""Offset of the node's (configurations, S) block in flat dwell times."""
INITIAL = 6
"""Offset of the node in flat arrays with one entry per node and state."""
SQUARES = 7
"""Running sum of S²: node n's moments of trajectory d are the (S², K_d) block that starts at
``step_start[d] * node[N, SQUARES] + node[n, SQUARES] * K_d``."""
IS_SUMMARY = 8
IS_EXOGENOUS = 9

# columns of Problem.edge
PARENT = 0
WEIGHT = 1
"""Offset of the edge's summary weights."""
CHILD = 2
SLOT = 3
"""Position of the parent among that child's parents."""

# columns of Problem.pair, one row per (trajectory, node) = d·N + n
MARK = 0
SPAN = 1

# columns of Problem.mark, sorted by pair, then by grid point
POINT = 0
KIND = 1
VALUES = 2
"""Offset of a LIKELIHOOD mark's values."""
LINK = 3
MEMBER = 4
"""Which member of the link this node is."""

# columns of Problem.span: steps FIRST ≤ k < LAST are known to be in STATE; the first two are
# columns of Problem.stretch too: these steps are corrected together
FIRST = 0
LAST = 1
STATE = 2

# columns of Problem.link, sorted by trajectory
IS_JUMP = 0
TO = 1
FROM = 2
"""State before the jump, or −1."""
MEMBERS = 3
"""First row in ``member``; a jump's first member is the node that jumped, then its parents."""
LOG_TABLE = 4

# columns of Problem.member
MEMBER_NODE = 0
MARGINAL = 1
"""Offset of this member's distribution in ``marginals``."""


class Problem(NamedTuple):
    """Everything that stays fixed while messages are iterated (except ``marginals``)."""

    node: IntArray
    edge: IntArray
    weights: IntArray
    """What each state of a parent adds to a summary."""
    step_start: IntArray
    """(D+1,) first step of each trajectory in the flat arrays."""
    width: FloatArray
    """Length of every step."""
    pair: IntArray
    mark: IntArray
    likelihood: FloatArray
    """Values of likelihood marks, scaled so that the largest of each mark is one, and in a second
    column their logarithms (zero for a value of zero, whose state has no probability)."""
    mark_scale: FloatArray
    """Logarithm of what the scaling took out, per mark."""
    span: IntArray
    link_start: IntArray
    """(D+1,) first link of each trajectory."""
    link: IntArray
    member: IntArray
    marginals: FloatArray
    """Current distribution of each member at its link's time (for the node that jumped: of the
    state it left); updated in place."""
    log_table: FloatArray
    """Log-likelihood tables of joint measurements, C order over the members."""
    stretch_start: IntArray
    """(D+1,) first stretch of each trajectory (see ``stretches``); all zero if there are none, and
    then the arrays below are empty."""
    stretch: IntArray
    edge_slope: FloatArray
    """(stretches, 6) weights of the first three and, from the end, the last three generators in
    h²/12 G' at the two edges."""
    to_middle: FloatArray
    """(5, steps and more) weights of steps k−2 … k+2: from moments to h times the value in the
    middle."""
    to_step: FloatArray
    """(5, steps and more) the same from generators in the middle to those that propagate a step."""
    quadrature: FloatArray
    """(steps and more,) weights of values in the middle when they are summed over time."""
