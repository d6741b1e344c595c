"""What the data say, as plain arrays: the common input of every inference method.

States and nodes are numbers, times are the user's. Four kinds of evidence: *points* (a likelihood
of each state of one node at one time; replicates at one time are separate rows and multiply),
*jumps* (a node entered a state exactly then), *spans* (a node's state is known throughout an
interval) and *joint measurements* (a likelihood of several nodes at once). Exogenous nodes have
a span over every moment and no rates: their jumps cost nothing and are not listed as jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Likelihoods of single nodes, sorted by (trajectory, node, time)."""

    trajectory: IntArray
    node: IntArray
    time: FloatArray
    offset: IntArray
    """Row i's values are ``log_likelihood[offset[i] : offset[i] + n_states[node[i]]]``."""
    log_likelihood: FloatArray
    """Flat; −inf where the measurement excludes the state; never all −inf in one row."""


@dataclass(frozen=True)
class Jumps:
    """Exactly timed transitions, sorted by (trajectory, node, time)."""

    trajectory: IntArray
    node: IntArray
    time: FloatArray
    to_state: IntArray
    from_state: IntArray
    """−1 where the state before the jump is not known."""


@dataclass(frozen=True)
class Spans:
    """Intervals of continuous observation, sorted by (trajectory, node, start), disjoint."""

    trajectory: IntArray
    node: IntArray
    start: FloatArray
    end: FloatArray
    state: IntArray


@dataclass(frozen=True)
class JointMeasurement:
    """A likelihood of several nodes at one time."""

    trajectory: int
    time: float
    nodes: tuple[int, ...]
    log_likelihood: FloatArray
    """One axis per node, in the order of ``nodes``."""


@dataclass(frozen=True)
class Evidence:
    """Everything inference needs to know about the data."""

    n_nodes: int
    start: FloatArray
    end: FloatArray
    """(D,) the span of time of each trajectory."""
    points: Points
    jumps: Jumps
    spans: Spans
    joint: tuple[JointMeasurement, ...] = ()
    exogenous: frozenset[int] = field(default_factory=frozenset)
    labels: tuple[object, ...] = ()
    """Trajectory labels, for messages and output."""
    memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What has been worked out from this evidence and will be asked for again; a copy made by
    ``dataclasses.replace`` starts without."""

    @property
    def n_trajectories(self) -> int:
        return len(self.start)
