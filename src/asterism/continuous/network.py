"""What is read from a network of nodes that move continuously, beside nodes that jump.

    dx = [baseline − decay · x + Σ linear · x_parent + Σ quadratic · x_parent² + shift of the states
          of jumping parents] dt + diffusion dW

A jumping node's rates depend on the states of its jumping parents and are multiplied by
e^(Σ slope · x) of its continuous parents. Arrays have the continuous nodes in the order of
``Network.drifts`` and the jumping ones in that of :func:`jumping`.
"""

from __future__ import annotations

import numpy as np

from asterism.continuous.series import FloatArray
from asterism.model.network import Network
from asterism.model.rates import SummaryRates


def jumping(network: Network) -> list[str]:
    """The nodes that jump; one that is set from outside keeps the state it starts in."""
    return [node for node in network.nodes if node not in network.drifts]


def jump_rates(network: Network, node: str) -> FloatArray:
    """(*jumping parents, S, S) rates of a jumping node, zero on the diagonal."""
    given, size = network.rates[node], len(network.states[node])
    rates = given.expand() if isinstance(given, SummaryRates) else given
    found: FloatArray = np.zeros((size, size)) if rates is None else np.array(rates)
    own = np.arange(size)
    found[..., own, own] = 0.0
    return found


def slopes(network: Network, node: str) -> FloatArray:
    """(C, S, S) what each continuous node adds to the log rates of a jumping one."""
    given, size = network.slopes.get(node, {}), len(network.states[node])
    nothing = np.zeros((size, size))
    return np.array([given.get(parent, nothing) for parent in network.drifts])


def is_linear(network: Network) -> bool:
    """Whether all nodes are continuous and no weight is quadratic: then all is Gaussian."""
    return not jumping(network) and not any(d.quadratic for d in network.drifts.values())


def drift_matrix(network: Network) -> tuple[FloatArray, FloatArray]:
    """A and c of dx = (A x + c) dt: the linear part of all continuous nodes."""
    drifts = network.drifts.values()
    matrix = np.array([[d.linear.get(m, 0.0) for m in network.drifts] for d in drifts])
    return matrix - np.diag([d.decay for d in drifts]), np.array([d.baseline for d in drifts])


def start(network: Network) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the continuous nodes at the start."""
    drifts = network.drifts.values()
    return np.array([d.start_mean for d in drifts]), np.diag([d.start_sd**2 for d in drifts])
