"""Networks of nodes that move continuously, beside nodes that jump, with known numbers.

    dx = [baseline − decay · x + Σ linear · x_parent + Σ quadratic · x_parent² + shift of the states
          of jumping parents] dt + diffusion dW

A jumping node's rates are multiplied by e^(Σ slope · x) of its continuous parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from asterism.continuous.series import FloatArray
from asterism.errors import ModelError
from asterism.model.drift import Drift
from asterism.model.network import Network


@dataclass(frozen=True)
class JumpRates:
    """Rates of a jumping node: ``rates`` (S, S) × e^(slope · x) of continuous parents."""

    rates: ArrayLike
    slopes: Mapping[str, float] = field(default_factory=dict)


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
                if len(shifts) != len(self.rates(parent)):
                    raise ModelError(f"Node {name!r}: {parent!r} has another number of states.")
        for name, jump in self.jumps.items():
            for parent in jump.slopes:
                self._check(parent, name, self.drifts, "continuous")
            rates = self.rates(name)
            if rates.ndim != 2 or rates.shape[0] != rates.shape[1] or (rates < 0.0).any():
                raise ModelError(f"Node {name!r}: rates must be a square table of numbers ≥ 0.")

    @classmethod
    def of(cls, network: Network) -> DriftNetwork:
        """The nodes of a network; a node set from outside keeps the state it starts in."""
        jumps = {}
        for node in network.nodes:
            if node not in network.drifts:
                rates = network.rates[node]
                size = len(network.states[node])
                if not (rates is None or (isinstance(rates, np.ndarray) and rates.ndim == 2)):
                    raise ModelError(
                        f"Node {node!r} jumps and has parents: such nodes cannot be simulated "
                        "beside continuous ones yet."
                    )
                jumps[node] = JumpRates(np.zeros((size, size)) if rates is None else rates)
        drifts = {node: network.drifts[node] for node in network.nodes if node in network.drifts}
        return cls(drifts, jumps)

    @staticmethod
    def _check(parent: str, child: str, among: Mapping[str, object], kind: str) -> None:
        if parent not in among:
            raise ModelError(f"Node {child!r} has parent {parent!r}, which is no {kind} node.")

    def rates(self, name: str) -> FloatArray:
        """(S, S) rates of a jumping node, zero on the diagonal."""
        rates = np.array(self.jumps[name].rates, dtype=np.float64)
        np.fill_diagonal(rates, 0.0)
        return rates

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
