"""Owns trajectories that differ (frailty): a factor of each trajectory on the rates of a node.

The factors are Gamma-distributed with mean 1 and standard deviation s, which is learned:

    P(Y) = ∫ P(Y | rates · u) Gamma(u; shape 1/s², mean 1) du ≈ Σ_j w_j P(Y | rates · u(s, x_j))

u(s, x) is the quantile of the Gamma distribution at the normal probability Φ(x), so that the points
x_j and their weights w_j = φ(x_j) h do not depend on s. In x the integrand is smooth and falls like
a normal density: equal steps h are then exact up to exp(−2π²σ²/h²), where σ is the width of what a
trajectory says about its x (about 1/√(1 + m s²) after m transitions). So each factor is a hidden
node that never moves, with the points as states and the weights as start probabilities
(``covariate_network.py`` adds it), and exact inference sums it out. s is a coordinate of the fit
beside the effects of covariates (``rates_update.py``); P(Y) is even in s, and s = 0 is the model
without the factor. Intervals of s are those of the profile likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr, polygamma

from asterism.errors import ModelError, Setting
from asterism.model.network import Network
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

ALL, UP_DOWN = "all", "up-down"
AUTO = "auto"
LARGEST_SPREAD = 3.0
"""No standard deviation of the factors is followed beyond this: nine in ten are then below 0.1 or
above 1.5, and the data cannot tell one such spread from another."""
FIRST_SPREAD = 0.5
"""Where learning starts."""
_REACH = 5.0
"""Points lie this many standard deviations to both sides: 6e-7 of all factors lie beyond."""
_LARGEST_STEP = 0.5
"""Of the points, however little a trajectory says."""
_MOST_POINTS, _MOST_OF_SEVERAL = 61, 21
"""Points of one factor, and of each of several, whose numbers multiply: a limit of the work."""
_SMALL = 0.01
"""Below this spread quantiles are Wilson and Hilferty's, which are then right to 1e-8."""
_SLOPE_STEP = 1e-4
"""Of a central difference: its error is of the order of the square."""


@dataclass(frozen=True)
class Factor:
    """One factor of each trajectory: which rates it multiplies."""

    node: str
    rates: str
    """"all", "up" or "down": the states of a node are in their order."""
    places: BoolArray
    """Over the flat rates of the network without covariates."""
    x: FloatArray
    """The points, standard normal."""

    @property
    def weights(self) -> FloatArray:
        """Probabilities of the points."""
        density = np.exp(-0.5 * self.x**2)
        result: FloatArray = density / density.sum()
        return result


def points(n_transitions: float, n_factors: int) -> FloatArray:
    """Points that are close enough for so many transitions of a trajectory."""
    # exp(-2π²σ²/h²) is 1e-6 for h = 1.2 σ
    step = min(_LARGEST_STEP, 1.2 / np.sqrt(1.0 + n_transitions))
    most = _MOST_POINTS if n_factors == 1 else _MOST_OF_SEVERAL
    return np.linspace(-_REACH, _REACH, min(most, 2 * int(np.ceil(_REACH / step)) + 1))


def log_factors(x: FloatArray, spread: float) -> FloatArray:
    """ln u at the points: mean 1, standard deviation ``spread``."""
    s = abs(spread)
    if s < _SMALL:
        return 3.0 * np.log1p(-s * s / 9.0 + s * x / 3.0)
    shape = 1.0 / (s * s)
    upper = x > 0.0
    u = np.empty(len(x))
    u[upper] = gammainccinv(shape, ndtr(-x[upper]))
    u[~upper] = gammaincinv(shape, ndtr(x[~upper]))
    result: FloatArray = np.log(np.maximum(u / shape, 1e-300))
    return result


def slopes(x: FloatArray, spread: float) -> FloatArray:
    """d ln u / d spread."""
    ends = [log_factors(x, spread + sign * _SLOPE_STEP) for sign in (1.0, -1.0)]
    if abs(spread) < _SLOPE_STEP:  # ln u(−s, x) is ln u(s, −x)
        ends[1] = log_factors(-x, abs(spread - _SLOPE_STEP))
    result: FloatArray = (ends[0] - ends[1]) / (2.0 * _SLOPE_STEP)
    return result


def fold(spread: FloatArray) -> FloatArray:
    """By which factor trajectories typically differ: exp of the standard deviation of ln u."""
    s = np.minimum(np.asarray(spread, dtype=np.float64), 1e3)
    some = s > 1e-6
    result: FloatArray = np.where(
        some, np.exp(np.sqrt(polygamma(1, 1.0 / np.where(some, s, 1.0) ** 2))), 1.0
    )
    return np.where(np.isfinite(spread), result, np.inf)


def factors(network: Network, allowed: BoolArray, frailty: Any) -> tuple[Factor, ...]:
    """What the user asked for: a node, several, or {node: "all" or "up-down"}."""
    result = []
    changing = [n for n in network.nodes if n not in network.exogenous]
    for node, which in _asked(frailty, changing).items():
        if node not in changing:
            raise ModelError(
                *(Setting("frailty"), f" names {node!r}; the nodes that can have a factor are "),
                f"{', '.join(changing)}.",
            )
        if which not in (ALL, UP_DOWN):
            raise ModelError(
                *(Setting("frailty"), f" of {node!r} is {which!r}; valid are "),
                f'"{ALL}" and "{UP_DOWN}".',
            )
        graph, n = network.compiled.graph, network.node_index(node)
        inside = np.arange(graph.table_start[n], graph.table_start[n + 1])
        size = int(graph.n_states[n])
        before, after = (inside - inside[0]) % size**2 // size, (inside - inside[0]) % size
        parts: dict[str, Any] = {"all": before != after}
        if which == UP_DOWN:
            parts = {"up": after > before, "down": after < before}
        for name, chosen in parts.items():
            places = np.zeros(len(allowed), dtype=np.bool_)
            places[inside] = chosen
            places &= allowed
            if not places.any():
                raise ModelError(
                    *(Setting("frailty"), f" of {node!r}: no rate of it goes {name}; use "),
                    f'"{ALL}".',
                )
            result.append(Factor(node, name, places, np.zeros(0)))
    return tuple(result)


def _asked(frailty: Any, nodes: Sequence[str]) -> dict[str, str]:
    if frailty is None or frailty is False:
        return {}
    if isinstance(frailty, Mapping):
        return {str(node): str(which) for node, which in frailty.items()}
    if frailty in (True, ALL, UP_DOWN) and frailty not in nodes:
        if len(nodes) > 1:
            raise ModelError(
                *(Setting("frailty"), " must name its node; the nodes are "),
                f"{', '.join(nodes)}.",
            )
        return dict.fromkeys(nodes, ALL if frailty is True else frailty)
    return dict.fromkeys([frailty] if isinstance(frailty, str) else map(str, frailty), ALL)


@dataclass(frozen=True)
class Spreads:
    """Where factors enter learned rates: the points of each factor, and which one a rate has."""

    x: tuple[FloatArray, ...]
    point: IntArray
    """(rates, factors) number of the point; −1 where the factor does not act."""
    held: frozenset[int] = frozenset()
    """Factors whose spread is not learned."""

    def log_factors(self, spreads: FloatArray) -> FloatArray:
        """Per rate: the sum of its factors' logarithms."""
        total = np.zeros(len(self.point))
        for x, point, s in zip(self.x, self.point.T, spreads):
            total += np.append(log_factors(x, float(s)), 0.0)[point]
        return total

    def slopes(self, spreads: FloatArray) -> FloatArray:
        """(rates, factors) the derivatives; zero where the spread is held."""
        result = np.zeros(self.point.shape)
        for k, (x, s) in enumerate(zip(self.x, spreads)):
            if k not in self.held:
                result[:, k] = np.append(slopes(x, float(s)), 0.0)[self.point[:, k]]
        return result
