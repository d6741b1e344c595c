"""Networks of nodes that move continuously, beside nodes that jump, with known numbers.

    dx = [baseline − decay · x + Σ linear · x_parent + Σ quadratic · x_parent² + shift of the states
          of jumping parents] dt + diffusion dW

A jumping node's rates depend on the states of its jumping parents and are multiplied by
e^(Σ slope · x) of its continuous parents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from asterism.continuous.series import FloatArray
from asterism.errors import ModelError
from asterism.model.drift import Drift
from asterism.model.network import Network
from asterism.model.rates import SummaryRates


@dataclass(frozen=True)
class JumpRates:
    """Rates of a jumping node: ``rates`` (*jumping parents, S, S) × e^(slope · x)."""

    rates: ArrayLike
    slopes: Mapping[str, ArrayLike] = field(default_factory=dict)
    """Continuous parent -> slope of all transitions, or (S, S)."""
    parents: Sequence[str] = ()
    """Jumping parents, in the order of the axes of ``rates``."""
    initial: ArrayLike | None = None
    """Start probabilities; None: all states alike."""


@dataclass(frozen=True)
class DriftNetwork:
    """Continuous nodes and, optionally, jumping ones; loops are allowed."""

    drifts: Mapping[str, Drift]
    jumps: Mapping[str, JumpRates] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, drift in self.drifts.items():
            for parent in (*drift.linear, *drift.quadratic):
                self._check(parent, name, self.drifts, "continuous")
            for parent, shifts in drift.shifts.items():
                self._check(parent, name, self.jumps, "jumping")
                if len(shifts) != self.n_states(parent):
                    raise ModelError(f"Node {name!r}: {parent!r} has another number of states.")
        for name, jump in self.jumps.items():
            for parent in jump.slopes:
                self._check(parent, name, self.drifts, "continuous")
            for parent in jump.parents:
                self._check(parent, name, self.jumps, "jumping")
            rates, size = self.rates(name), self.n_states(name)
            expected = (*(self.n_states(p) for p in jump.parents), size, size)
            if rates.shape != expected or (rates < 0.0).any():
                raise ModelError(f"Node {name!r}: rates must be a table of {expected} numbers ≥ 0.")

    @classmethod
    def of(cls, network: Network) -> DriftNetwork:
        """The nodes of a network; a node set from outside keeps the state it starts in."""
        jumps = {}
        for node in network.nodes:
            if node not in network.drifts:
                rates = network.rates[node]
                size = len(network.states[node])
                if isinstance(rates, SummaryRates):
                    rates = rates.expand()
                jumps[node] = JumpRates(
                    np.zeros((size, size)) if rates is None else rates,
                    network.slopes.get(node, {}),
                    network.jumping_parents(node),
                    network.initial[node],
                )
        drifts = {node: network.drifts[node] for node in network.nodes if node in network.drifts}
        return cls(drifts, jumps)

    @staticmethod
    def _check(parent: str, child: str, among: Mapping[str, object], kind: str) -> None:
        if parent not in among:
            raise ModelError(f"Node {child!r} has parent {parent!r}, which is no {kind} node.")

    def rates(self, name: str) -> FloatArray:
        """(*jumping parents, S, S) rates of a jumping node, zero on the diagonal."""
        rates = np.array(self.jumps[name].rates, dtype=np.float64)
        own = np.arange(rates.shape[-1])
        rates[..., own, own] = 0.0
        return rates

    def n_states(self, name: str) -> int:
        """How many states a jumping node has."""
        return int(np.shape(self.jumps[name].rates)[-1])

    def slopes(self, name: str) -> FloatArray:
        """(C, S, S) what each continuous node adds to the log rates of a jumping one."""
        given, size = self.jumps[name].slopes, self.n_states(name)
        found = np.zeros((len(self.drifts), size, size))
        for i, parent in enumerate(self.drifts):
            found[i] = np.asarray(given.get(parent, 0.0))
        return found

    def initial(self, name: str) -> FloatArray:
        """(S,) start probabilities of a jumping node."""
        given, size = self.jumps[name].initial, self.n_states(name)
        return np.full(size, 1.0 / size) if given is None else np.asarray(given, dtype=np.float64)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Continuous nodes first."""
        return (*self.drifts, *self.jumps)

    @property
    def is_linear(self) -> bool:
        """Whether all nodes are continuous and no weight is quadratic: then all is Gaussian."""
        return not self.jumps and not any(d.quadratic for d in self.drifts.values())

    def drift_matrix(self) -> tuple[FloatArray, FloatArray]:
        """A and c of dx = (A x + c) dt: the linear part of all continuous nodes."""
        place = {name: i for i, name in enumerate(self.drifts)}
        matrix = np.zeros((len(place), len(place)))
        for i, drift in enumerate(self.drifts.values()):
            matrix[i, i] -= drift.decay
            for parent, weight in drift.linear.items():
                matrix[i, place[parent]] += weight
        return matrix, np.array([d.baseline for d in self.drifts.values()])

    def start(self) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of the continuous nodes at the start."""
        drifts = self.drifts.values()
        mean = np.array([d.start_mean for d in drifts])
        return mean, np.diag([d.start_sd**2 for d in drifts])
