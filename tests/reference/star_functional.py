"""The variational energy F itself, from marginals and fluxes, by quadrature on a fine grid.

Nothing here knows about messages. A course of the approximation is given by where each node
starts and by its jump rates on every time step: q_n^u(x,y) = τ_n^u(x,y)/(m_n m_n^u) for the star
(one per parent configuration), q_n(x,y) = τ_n(x,y)/m_n for mean field. Marginals then follow from
dm_n(y)/dt = Σ_x m_n(x) Q_n(x,y), so that *every* choice of start and rates is feasible, and

    F = Σ_n (H_n + E_n) + F_0 + F_init

is a function of them whose derivative can be taken numerically. Single-node measurements only.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.reference.star_sweep import rate_matrix


class Functional:
    """F of one trajectory on the given time points, which must contain all measurement times."""

    def __init__(
        self, network: Any, evidence: Any, trajectory: int, times: np.ndarray, method: str
    ) -> None:
        self.network, self.evidence, self.d = network, evidence, trajectory
        self.times = np.asarray(times)
        self.h = np.diff(self.times)
        self.is_star = method == "star"
        self.names = list(network.nodes)
        self.sizes = [len(network.states[n]) for n in self.names]
        self.parents = [[self.names.index(p) for p in network.parents[n]] for n in self.names]
        self.configurations = [
            list(itertools.product(*[range(self.sizes[p]) for p in above]))
            for above in self.parents
        ]
        self.rates = [
            np.array([rate_matrix(network, name, u) for u in self.configurations[n]])
            for n, name in enumerate(self.names)
        ]

    def weights(self, node: int, m: list[np.ndarray]) -> np.ndarray:
        """m_n^u of every configuration."""
        return np.array(
            [
                np.prod([m[p][x] for p, x in zip(self.parents[node], u)])
                for u in self.configurations[node]
            ]
        )

    def total_rates(self, node: int, q: np.ndarray, m: list[np.ndarray]) -> np.ndarray:
        """Q_n with its diagonal: E_n[q^u] for the star, q itself for mean field."""
        total = np.einsum("u,uxy->xy", self.weights(node, m), q) if self.is_star else q.copy()
        np.fill_diagonal(total, 0.0)
        return total - np.diag(total.sum(axis=1))

    def slope(self, m: list[np.ndarray], q: list[np.ndarray]) -> list[np.ndarray]:
        return [m[n] @ self.total_rates(n, q[n], m) for n in range(len(m))]

    def advance(self, m: list[np.ndarray], q: list[np.ndarray], h: float) -> list[np.ndarray]:
        """One step of the classical fourth-order Runge–Kutta rule."""

        def shifted(slopes: list[np.ndarray], length: float) -> list[np.ndarray]:
            return [a + length * b for a, b in zip(m, slopes)]

        k1 = self.slope(m, q)
        k2 = self.slope(shifted(k1, h / 2), q)
        k3 = self.slope(shifted(k2, h / 2), q)
        k4 = self.slope(shifted(k3, h), q)
        return [m[n] + h / 6 * (k1[n] + 2 * k2[n] + 2 * k3[n] + k4[n]) for n in range(len(m))]

    def density(self, m: list[np.ndarray], q: list[np.ndarray]) -> tuple[float, float]:
        """Integrands of Σ H_n and Σ E_n."""
        entropy = energy = 0.0
        for n in range(len(m)):
            u = self.weights(n, m)
            off = ~np.eye(self.sizes[n], dtype=bool)
            if self.is_star:
                flux = u[:, None, None] * m[n][None, :, None] * q[n]
                terms = flux * (1.0 - np.log(np.where(off, q[n], 1.0)))
            else:
                flux = u[:, None, None] * (m[n][:, None] * q[n])[None]
                terms = flux * (1.0 - np.log(np.where(off, q[n], 1.0)))[None]
            entropy += float(terms[:, off].sum())
            log_rates = np.log(np.where(off, self.rates[n], 1.0))
            energy += float((flux * log_rates)[:, off].sum())
            diagonal = np.einsum("uxx->ux", self.rates[n])
            energy += float(np.einsum("u,x,ux->", u, m[n], diagonal))
        return entropy, energy

    def data_term(self, m: list[np.ndarray], time: float) -> float:
        p = self.evidence.points
        total = 0.0
        for i in range(len(p.node)):
            if p.trajectory[i] == self.d and p.time[i] == time:
                node = int(p.node[i])
                values = p.log_likelihood[p.offset[i] : p.offset[i] + self.sizes[node]]
                total += float(m[node] @ values)
        return total

    def evaluate(self, first: list[np.ndarray], q: list[list[np.ndarray]]) -> dict[str, float]:
        """F and its parts; ``q[k][n]`` are the rates of node n on step k. Simpson's rule."""
        m = [np.asarray(p, dtype=float) for p in first]
        initial = -sum(
            float(np.sum(p * np.log(p / self.network.initial[name])))
            for p, name in zip(m, self.names)
        )
        entropy = energy = 0.0
        data = self.data_term(m, self.times[0])
        for k, h in enumerate(self.h):
            half = self.advance(m, q[k], h / 2)
            end = self.advance(half, q[k], h / 2)
            parts = np.array([self.density(p, q[k]) for p in (m, half, end)])
            step = h / 6 * (parts[0] + 4 * parts[1] + parts[2])
            entropy += step[0]
            energy += step[1]
            m = end
            data += self.data_term(m, self.times[k + 1])
        return {
            "entropy": entropy,
            "energy": energy,
            "data": data,
            "initial": initial,
            "log_evidence": entropy + energy + data + initial,
        }
