"""Marginal dynamics and the structure score in plain Python, on given time steps.

Rates start anywhere; messages are swept (``star_sweep``), statistics are summed over trajectories,
rates become posterior means (or the digamma form), until nothing moves. The score is evaluated
twice: as F − E + Gamma terms, and as H + F_0 + F_init + Gamma terms, where entropy, data and
initial terms come from their own formulas (``star_functional``) and never see a message's norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from tests.reference.star_functional import Functional
from tests.reference.star_sweep import ReferenceSweep


class PlainModel:
    """What the plain sweeps read of a network; exit rates need not be sums."""

    def __init__(self, parents: dict[str, list[str]], sizes: dict[str, int], initial: Any) -> None:
        self.nodes = tuple(parents)
        self.parents = parents
        self.states = {n: tuple(range(sizes[n])) for n in parents}
        self.initial = initial
        self.rates: dict[str, np.ndarray] = {}


class MarginalDynamics:
    """One graph, all trajectories; ``times[d]`` are the grid points of trajectory d."""

    def __init__(
        self,
        parents: dict[str, list[str]],
        sizes: dict[str, int],
        initial: dict[str, np.ndarray],
        evidence: Any,
        times: list[np.ndarray],
        prior: tuple[float, Sequence[np.ndarray]],
        method: str = "star",
        digamma: bool = False,
    ) -> None:
        self.model = PlainModel(parents, sizes, initial)
        self.evidence, self.times, self.method = evidence, times, method
        self.shape, self.rate = prior  # (S, S) of every node
        self.digamma = digamma
        for i, n in enumerate(parents):
            above = tuple(sizes[p] for p in parents[n])
            table = np.ones((*above, sizes[n], sizes[n]))
            for j, u in enumerate(np.ndindex(*above)):
                table[u] *= (1.0 + 0.1 * j + 0.05 * i) / self.rate[i].mean()
            self.model.rates[n] = with_exit_rates(table)
        self.sweeps = [
            ReferenceSweep(self.model, evidence, d, times[d], method) for d in range(len(times))
        ]

    def solve(self, tolerance: float = 1e-12, max_iterations: int = 400) -> None:
        """Sweep, count, update the rates; until the rates stand still."""
        for iteration in range(max_iterations):
            self.log_evidence, moved = 0.0, 0.0
            for sweep in self.sweeps:
                sweep.table = [sweep.averaged_table(n) for n in range(len(sweep.names))]
                for n in sweep.hidden:
                    share, change = sweep.update(n, iteration > 0)
                    self.log_evidence += share
                    moved = max(moved, change)
            self.statistics = [
                [sum(parts) for parts in zip(*(s.statistics(n) for s in self.sweeps))]
                for n in range(len(self.model.nodes))
            ]
            self.used = {n: table.copy() for n, table in self.model.rates.items()}
            for n, name in enumerate(self.model.nodes):
                new = self.posterior_rates(self.rate[n], *self.statistics[n])
                moved = max(moved, float(np.abs(new / self.model.rates[name] - 1.0).max()))
                self.model.rates[name] = new
            if moved < tolerance and iteration > 2:
                return
        raise RuntimeError(f"not settled: last change {moved}")

    def posterior_rates(self, rate: np.ndarray, dwell: np.ndarray, moves: np.ndarray) -> np.ndarray:
        mean = with_exit_rates((moves + self.shape) / (dwell[..., None] + rate))
        if not self.digamma:
            return mean
        off = np.exp(digamma(moves + self.shape)) / (dwell[..., None] + rate)
        return np.where(np.eye(moves.shape[-1], dtype=bool), mean, off)

    def energy(self) -> float:
        """E = Σ (M ln R − T R_exit) at the rates that the last sweep used."""
        total = 0.0
        for (dwell, moves), rates in zip(self.statistics, self.used.values()):
            off = ~np.eye(moves.shape[-1], dtype=bool)
            total += float((moves * np.log(np.where(off, rates, 1.0)))[..., off].sum())
            total += float((dwell * np.einsum("...xx->...x", rates)).sum())
        return total

    def gamma_terms(self) -> float:
        total = 0.0
        a = self.shape
        for b, (dwell, moves) in zip(self.rate, self.statistics):
            off = ~np.eye(moves.shape[-1], dtype=bool)
            terms = gammaln(moves + a) - (moves + a) * np.log(dwell[..., None] + b)
            total += float((terms + a * np.log(b) - gammaln(a))[..., off].sum())
        return total

    def score(self) -> float:
        """F − E + Gamma terms."""
        return self.log_evidence - self.energy() + self.gamma_terms()

    def score_from_its_parts(self) -> float:
        """H + F_0 + F_init + Gamma terms, by quadrature along marginals and fluxes."""
        total = self.gamma_terms()
        for d, sweep in enumerate(self.sweeps):
            functional = Functional(self.model, self.evidence, d, self.times[d], self.method)
            courses = [self.jump_rates(sweep, k) for k in range(len(sweep.h))]
            parts = functional.evaluate(self.first_marginals(sweep), courses)
            total += parts["entropy"] + parts["data"] + parts["initial"]
        return total

    def jump_rates(self, sweep: ReferenceSweep, step: int) -> list[np.ndarray]:
        """q = τ/(m m^u) for the star, τ/m for mean field, averaged over a step."""
        rates = []
        for n, name in enumerate(self.model.nodes):
            w = sweep.w[n][step]
            ratio = w / np.diag(w)[:, None]
            size = len(w)
            if self.method == "star":
                q = self.used[name].reshape(-1, size, size) * ratio
            else:
                q = sweep.averaged_rates(n, step) * ratio
            rates.append(np.where(np.eye(size, dtype=bool), 0.0, q))
        return rates

    def first_marginals(self, sweep: ReferenceSweep) -> list[np.ndarray]:
        """At the start, by linear extrapolation of the averages of the first two steps."""
        first = []
        for n in range(len(self.model.nodes)):
            a, b = sweep.marginal(n, 0), sweep.marginal(n, 1)
            start = a - (b - a) * sweep.h[0] / (sweep.h[0] + sweep.h[1])
            first.append(start / start.sum())
        return first


def with_exit_rates(table: np.ndarray) -> np.ndarray:
    """The diagonal as minus the sum of the row's other entries."""
    off = ~np.eye(table.shape[-1], dtype=bool)
    full = np.where(off, table, 0.0)
    return full - np.eye(table.shape[-1]) * full.sum(axis=-1, keepdims=True)
