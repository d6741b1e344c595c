"""The star equations as differential equations, handed to scipy's ``solve_ivp``.

Marginals m and backward messages ρ in the form the equations are usually printed, with ratios
ρ(y)/ρ(x), and with the right signs:

    dρ_n(x)/dt = −(E_n[R(x,x)] + ψ_n(x)) ρ_n(x) − Σ_{y≠x} E_n[R(x,y)] ρ_n(y)
    dm_n(x)/dt = Σ_{y≠x} { m_n(y) E_n[R(y,x)] ρ_n(x)/ρ_n(y) − m_n(x) E_n[R(x,y)] ρ_n(y)/ρ_n(x) }

The ratios are singular at noiseless evidence, so this is for noisy data only. A sweep integrates
all ρ backward, with averages and ψ from the last sweep, then all m forward; each gap between
measurements is one call.
The right-hand sides handle all nodes at once in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

Course = Callable[[float], np.ndarray]


def both(first: Course, second: Course) -> Course:
    return lambda t: np.array([first(t), second(t)])


class StarODE:
    """One trajectory of a network whose nodes all have the same number of states."""

    def __init__(
        self,
        network: Any,
        evidence: Any,
        trajectory: int = 0,
        rtol: float = 1e-5,
        atol: float | None = None,
    ) -> None:
        self.rtol = rtol
        self.atol = 1e-3 * rtol if atol is None else atol
        names = list(network.nodes)
        self.n_nodes, self.n_states = len(names), len(network.states[names[0]])
        size = self.n_states
        above = [[names.index(p) for p in network.parents[n]] for n in names]
        most = max(1, *(len(p) for p in above))
        # absent parents are node N, which is always in its state 0
        self.parent = np.full((self.n_nodes, most), self.n_nodes)
        self.rates = np.zeros((self.n_nodes, size**most, size, size))
        self.configuration = np.array(list(np.ndindex(*[size] * most)))
        for n, name in enumerate(names):
            self.parent[n, : len(above[n])] = above[n]
            for c, u in enumerate(self.configuration):
                if not u[len(above[n]) :].any():
                    self.rates[n, c] = network.rates[name][tuple(u[: len(above[n])])]
        self.initial = np.array([network.initial[n] for n in names])
        self.read_measurements(evidence, trajectory)

    def read_measurements(self, evidence: Any, trajectory: int) -> None:
        p = evidence.points
        mine = np.flatnonzero(p.trajectory == trajectory)
        start, end = float(evidence.start[trajectory]), float(evidence.end[trajectory])
        self.times = np.unique(np.concatenate([[start, end], p.time[mine]]))
        self.likelihood = np.ones((len(self.times), self.n_nodes, self.n_states))
        for i in mine:
            at = int(np.searchsorted(self.times, p.time[i]))
            values = p.log_likelihood[p.offset[i] : p.offset[i] + self.n_states]
            self.likelihood[at, p.node[i]] *= np.exp(values - values.max())

    # ---- right-hand sides -------------------------------------------------------------------

    def parent_factors(self, m: np.ndarray) -> np.ndarray:
        """(N, configurations, parents): m_l(u_l)."""
        padded = np.vstack([m, np.eye(self.n_states)[0]])
        return padded[self.parent[:, None, :], self.configuration[None, :, :]]

    def pull(self, m: np.ndarray, ratio: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """ψ of all nodes: every child hands a share to each of its parents."""
        flux = m[:, :, None] * ratio  # w(x,y) = m(x) ρ(y)/ρ(x)
        per_configuration = np.einsum("nxy,nuxy->nu", flux, self.rates)
        psi = np.zeros((self.n_nodes + 1, self.n_states))
        for slot in range(self.parent.shape[1]):
            others = np.delete(factors, slot, axis=2).prod(axis=2)
            np.add.at(
                psi,
                (self.parent[:, slot, None], self.configuration[None, :, slot]),
                others * per_configuration,
            )
        return psi[:-1]

    def backward_slope(self, rho: np.ndarray, last: np.ndarray) -> np.ndarray:
        m, last_rho = last
        factors = self.parent_factors(m)
        averaged = np.einsum("nu,nuxy->nxy", factors.prod(axis=2), self.rates)
        psi = self.pull(m, last_rho[:, None, :] / last_rho[:, :, None], factors)
        return -np.einsum("nxy,ny->nx", averaged, rho) - psi * rho

    def forward_slope(self, m: np.ndarray, rho: np.ndarray) -> np.ndarray:
        weights = self.parent_factors(m).prod(axis=2)
        averaged = np.einsum("nu,nuxy->nxy", weights, self.rates)
        flux = m[:, :, None] * averaged * (rho[:, None, :] / rho[:, :, None])
        diagonal = np.arange(self.n_states)
        flux[:, diagonal, diagonal] = 0.0
        return flux.sum(axis=1) - flux.sum(axis=2)

    # ---- sweeps -----------------------------------------------------------------------------

    def integrate(
        self, slope: Callable[[np.ndarray, np.ndarray], np.ndarray], other: Course,
        begin: float, end: float, value: np.ndarray,
    ) -> tuple[Course, np.ndarray]:  # fmt: skip
        shape = (self.n_nodes, self.n_states)

        def right_hand_side(t: float, y: np.ndarray) -> np.ndarray:
            return slope(y.reshape(shape), other(t)).ravel()

        solved = solve_ivp(
            right_hand_side, (begin, end), value.ravel(), rtol=self.rtol, atol=self.atol,
            dense_output=True,
        )  # fmt: skip
        assert solved.success, solved.message
        dense = solved.sol
        return (lambda t: dense(t).reshape(shape)), solved.y[:, -1].reshape(shape)

    def solve(self, n_sweeps: int) -> list[Course]:
        """Marginals m(t) on each gap between measurement times after so many sweeps."""
        gaps = len(self.times) - 1
        uniform = np.full((self.n_nodes, self.n_states), 1.0 / self.n_states)
        marginals: list[Course] = [lambda t: uniform] * gaps
        backward: list[Course] = [lambda t: uniform] * gaps
        for _ in range(n_sweeps):
            rho = self.likelihood[gaps]
            for k in range(gaps - 1, -1, -1):
                rho = rho / rho.sum(axis=1, keepdims=True)
                last = both(marginals[k], backward[k])
                backward[k], rho = self.integrate(
                    self.backward_slope, last, self.times[k + 1], self.times[k], rho
                )
                rho = rho * self.likelihood[k]
            m = self.initial * rho
            m = m / m.sum(axis=1, keepdims=True)
            for k in range(gaps):
                marginals[k], m = self.integrate(
                    self.forward_slope, backward[k], self.times[k], self.times[k + 1], m
                )
        return marginals

    def at(self, marginals: list[Course], times: np.ndarray) -> np.ndarray:
        """(times, N, S) values of a solution."""
        gap = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(marginals) - 1)
        return np.array([marginals[g](t) for g, t in zip(gap, times)])
