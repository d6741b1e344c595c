"""One trajectory's star or mean-field sweep in plain Python, on given time steps.

The same discretisation as the kernels (one generator for every step, moments by a block
exponential) written with scipy's ``expm`` and one loop per thing that is summed. Undamped
Gauss–Seidel sweeps over nodes; all kinds of evidence; any number of states. Where ``kinks`` are
given, steps between two of them are corrected to fourth order; every correction is a small matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import expm


def rate_matrix(network: Any, name: str, configuration: tuple[int, ...]) -> np.ndarray:
    """(S, S) intensities of a node under one parent configuration, with their diagonal."""
    rates = network.rates[name]
    if hasattr(rates, "table"):
        value = sum(w[x] for w, x in zip(rates.shifted_weights, configuration))
        return np.asarray(rates.table[value])
    return np.asarray(rates[configuration])


def logarithm(value: float) -> float:
    return math.log(value) if value > 0.0 else -1000.0


class ReferenceSweep:
    """Moments W of every node and step, iterated in place."""

    def __init__(
        self,
        network: Any,
        evidence: Any,
        trajectory: int,
        times: np.ndarray,
        method: str = "star",
        kinks: Sequence[int] = (),
        longest: float = 0.0,
    ) -> None:
        self.network, self.evidence, self.d = network, evidence, trajectory
        self.times = [float(t) for t in times]
        self.h = np.diff(times)
        self.is_star = method == "star"
        self.names = list(network.nodes)
        self.sizes = [len(network.states[n]) for n in self.names]
        self.parents = [[self.names.index(p) for p in network.parents[n]] for n in self.names]
        self.children = [
            [j for j in range(len(self.names)) if n in self.parents[j]]
            for n in range(len(self.names))
        ]
        self.hidden = [n for n in range(len(self.names)) if n not in evidence.exogenous]
        self.table = [self.averaged_table(n) for n in range(len(self.names))]
        gaps = itertools.pairwise(kinks)
        self.stretches = [(a, b) for a, b in gaps if self.is_smooth(a, b, longest)]
        self.to_middle, self.to_step = self.corrections()
        self.quadrature = np.linalg.solve(self.to_middle.T, np.ones(len(self.h)))
        self.w = [[np.full((s, s), h / s) for h in self.h] for s in self.sizes]
        self.psi = [[np.zeros(s) for _ in self.h] for s in self.sizes]
        self.links = self.find_links()
        self.seen = {
            (i, n): np.full(self.sizes[n], 1.0 / self.sizes[n])
            for i, link in enumerate(self.links)
            for n in link["members"]
        }
        for n in range(len(self.names)):
            for k in range(len(self.h)):
                state = self.known_state(n, k)
                if state is not None:
                    self.w[n][k] = np.zeros((self.sizes[n], self.sizes[n]))
                    self.w[n][k][state, state] = self.h[k]
        for i, link in enumerate(self.links):
            for n in link["members"]:
                if n not in self.hidden:
                    k = self.times.index(link["time"])
                    state = self.known_state(n, max(k - 1, 0))
                    assert state is not None
                    self.seen[i, n] = np.eye(self.sizes[n])[state]

    # ---- corrections of fourth order ------------------------------------------------------------

    def is_smooth(self, first: int, last: int, longest: float) -> bool:
        h = self.h[first:last]
        return (
            len(h) >= 3
            and h.max() <= longest
            and max(h[1:] / h[:-1]) <= 2 <= 4 * min(h[1:] / h[:-1])
        )

    def corrections(self) -> tuple[np.ndarray, np.ndarray]:
        """What turns integrals over steps into h times middles, and middles into whole steps."""
        to_middle, to_step = np.eye(len(self.h)), np.eye(len(self.h))
        for first, last in self.stretches:
            for k in range(first, last):
                near = self.nearest(k, first, last)
                h, d = self.h[near], self.middles()[near] - self.middles()[k]
                # parabolas a + b τ + c τ² by their means, or by their values, on three steps
                of_means = np.linalg.inv(np.stack([d**0, d, d**2 + h**2 / 12], axis=1))
                of_values = np.linalg.inv(np.stack([d**0, d, d**2], axis=1))
                widening = of_values[1] @ h
                to_middle[k, near] = of_means[0] * self.h[k] / h
                to_step[k, near] -= self.h[k] ** 2 / 24 * 2 * of_values[2]
                to_step[k, near] -= self.h[k] * widening / 6 * of_values[1]
        return to_middle, to_step

    def middles(self) -> np.ndarray:
        return 0.5 * (np.array(self.times[1:]) + np.array(self.times[:-1]))

    def nearest(self, k: int, first: int, last: int) -> np.ndarray:
        return np.arange(3) + min(max(k - 1, first), last - 3)

    def edge(
        self, middle: np.ndarray, step: np.ndarray, at_start: bool, first: int, last: int
    ) -> np.ndarray:
        """1 ∓ h²/12 G' at one end of a stretch, G without what all states have in common."""
        point, outermost, next_one = (
            (first, first, first + 1) if at_start else (last, last - 1, last - 2)
        )
        near = self.nearest(outermost, first, last)
        offsets = self.middles()[near] - self.times[point]
        slope = np.linalg.inv(np.stack([offsets**0, offsets, offsets**2], axis=1))[1]
        h, h_next = self.h[outermost], self.h[next_one]
        s = (
            np.einsum("k,kxy->xy", slope, middle[near])
            * max(1.5 * h**2 - 0.5 * h_next**2, h**2 / 4)
            / 12
        )
        of_rows = s.sum(axis=1)
        stays = np.diag(step)
        most = 0.25 * (step / stays[None, :] if at_start else step / stays[:, None])
        s = np.clip(s, -most, most)
        np.fill_diagonal(s, 0.0)
        diagonal = of_rows - of_rows.mean() - s.sum(axis=1)
        np.fill_diagonal(s, np.clip(diagonal, -0.5, 0.5))
        return np.eye(len(s)) + (-s if at_start else s)

    def whole_steps(self, middle: np.ndarray) -> np.ndarray:
        """Generators that propagate the steps, from those in the middle."""
        size = middle.shape[1]
        of_rows = middle.sum(axis=2)
        common = of_rows.mean(axis=1)
        off = ~np.eye(size, dtype=bool)
        out = np.where(off, np.einsum("jk,kxy->jxy", self.to_step, middle), 0.0)
        out = np.where(off, np.maximum(out, 0.5 * middle), 0.0)
        own = of_rows - common[:, None]
        change = np.clip(self.to_step @ own - own, -0.5 / self.h[:, None], 0.5 / self.h[:, None])
        diagonal = own + change - out.sum(axis=2)
        return out + np.einsum(
            "kx,xy->kxy", diagonal + (common * self.quadrature)[:, None], np.eye(size)
        )

    def in_the_middle(self, moments: np.ndarray) -> np.ndarray:
        """h times the values in the middle of steps, from integrals over them."""
        if not self.stretches:
            return moments
        out = np.maximum(np.einsum("jk,kxy->jxy", self.to_middle, moments), 0.5 * moments)
        size = out.shape[1]
        if size == 2:
            out[:, 0, 0] = np.minimum(out[:, 0, 0], self.h - 0.5 * moments[:, 1, 1])
            out[:, 1, 1] = self.h - out[:, 0, 0]
        scale = self.h / np.einsum("kxx->k", out)
        return np.where(np.eye(size, dtype=bool), out * scale[:, None, None], out)

    # ---- evidence ---------------------------------------------------------------------------

    def known_state(self, node: int, step: int) -> int | None:
        s = self.evidence.spans
        middle = 0.5 * (self.times[step] + self.times[step + 1])
        for i in range(len(s.node)):
            if s.trajectory[i] == self.d and s.node[i] == node and s.start[i] < middle < s.end[i]:
                return int(s.state[i])
        return None

    def find_links(self) -> list[dict[str, Any]]:
        """Joint measurements and jumps; a jump's first member is the node that jumped."""
        e = self.evidence
        found: list[dict[str, Any]] = []
        for m in e.joint:
            if m.trajectory == self.d:
                found.append(
                    {"time": m.time, "members": list(m.nodes), "table": m.log_likelihood, "to": -1}
                )
        for i in range(len(e.jumps.node)):
            if e.jumps.trajectory[i] == self.d:
                n = int(e.jumps.node[i])
                found.append(
                    {
                        "time": float(e.jumps.time[i]),
                        "members": [n, *self.parents[n]],
                        "table": self.jump_table(n, int(e.jumps.to_state[i])),
                        "to": int(e.jumps.to_state[i]),
                        "from": int(e.jumps.from_state[i]),
                    }
                )
        return found

    def jump_table(self, node: int, to: int) -> np.ndarray:
        """ln R_n^u(x, y*) with axes (x, *u)."""
        shape = [self.sizes[p] for p in self.parents[node]]
        table = np.zeros((self.sizes[node], *shape))
        for u in itertools.product(*map(range, shape)):
            rates = rate_matrix(self.network, self.names[node], u)
            for x in range(self.sizes[node]):
                table[(x, *u)] = logarithm(rates[x, to]) if x != to else 0.0
        return table

    def link_average(self, i: int, free: int | None) -> np.ndarray:
        """E[table | state of ``free``], or its full expectation where ``free`` is None."""
        link = self.links[i]
        axes = list(range(len(link["members"])))
        operands: list[Any] = [np.maximum(link["table"], -1000.0), axes]
        for axis, n in enumerate(link["members"]):
            if n != free:
                operands += [self.seen[i, n], [axis]]
        out = [link["members"].index(free)] if free is not None else []
        return np.einsum(*operands, out)

    def factors(self, node: int, point: int) -> list[tuple[str, np.ndarray, int]]:
        """What multiplies the messages of a node at a grid point, its jump first."""
        time = self.times[point]
        found: list[tuple[str, np.ndarray, int]] = []
        for i, link in enumerate(self.links):
            if link["time"] == time and node in link["members"]:
                value = np.exp(self.link_average(i, node))
                if link["to"] >= 0 and link["members"][0] == node:
                    value[link["to"]] = 0.0
                    if link["from"] >= 0:
                        value[np.arange(len(value)) != link["from"]] = 0.0
                    found.insert(0, ("jump", value, i))
                else:
                    found.append(("link", value, i))
        p = self.evidence.points
        for i in range(len(p.node)):
            if p.trajectory[i] == self.d and p.node[i] == node and p.time[i] == time:
                values = p.log_likelihood[p.offset[i] : p.offset[i] + self.sizes[node]]
                found.append(("point", np.exp(values), -1))
        return found

    # ---- averages ---------------------------------------------------------------------------

    def averaged_table(self, node: int) -> np.ndarray:
        """(configurations, S, S): intensities; for mean field logarithms off the diagonal."""
        if node not in self.hidden:
            return np.zeros((1, self.sizes[node], self.sizes[node]))
        shape = [range(self.sizes[p]) for p in self.parents[node]]
        name = self.names[node]
        out = np.array([rate_matrix(self.network, name, u) for u in itertools.product(*shape)])
        if not self.is_star:
            for i, x, y in np.ndindex(*out.shape):
                if x != y:
                    out[i, x, y] = logarithm(out[i, x, y])
        return out

    def marginal(self, node: int, step: int) -> np.ndarray:
        return np.diag(self.w[node][step]) / self.h[step]

    def weights(self, node: int, step: int, fixed: int | None) -> np.ndarray:
        """Π m_l(u_l) over the parents other than ``fixed``; one axis per parent."""
        out = np.ones(())
        for p in self.parents[node]:
            factor = np.ones(self.sizes[p]) if p == fixed else self.marginal(p, step)
            out = np.multiply.outer(out, factor)
        return out

    def averaged_rates(self, node: int, step: int) -> np.ndarray:
        """E_n[R], or with geometric averages off the diagonal for mean field."""
        weights = self.weights(node, step, None).ravel()
        out = np.einsum("u,uxy->xy", weights, self.table[node])
        if not self.is_star:
            off = ~np.eye(self.sizes[node], dtype=bool)
            out[off] = np.exp(out[off])
        return out

    def pull(self, node: int, step: int) -> np.ndarray:
        """ψ of the equations, from all children."""
        psi = np.zeros(self.sizes[node])
        for j in self.children[node]:
            if j not in self.hidden:
                continue
            flux = self.w[j][step] / self.h[step]
            if not self.is_star:
                off = ~np.eye(self.sizes[j], dtype=bool)
                flux = np.where(off, flux * self.averaged_rates(j, step), flux)
            weights = self.weights(j, step, node)
            value = weights * np.einsum("xy,uxy->u", flux, self.table[j]).reshape(weights.shape)
            psi += np.moveaxis(value, self.parents[j].index(node), 0).reshape(len(psi), -1).sum(1)
        return psi

    # ---- messages ---------------------------------------------------------------------------

    def update(self, node: int, with_pull: bool) -> tuple[float, float]:
        """New moments of a node; (its share of F, the largest change of a step's marginal)."""
        size, n_steps = self.sizes[node], len(self.h)
        middle = np.zeros((n_steps, size, size))
        for k in range(n_steps):
            self.psi[node][k] = self.pull(node, k) if with_pull else np.zeros(size)
            middle[k] = self.averaged_rates(node, k) + np.diag(self.psi[node][k])
        generators = list(self.whole_steps(middle)) if self.stretches else list(middle)
        for k in range(n_steps):
            state = self.known_state(node, k)
            if state is not None:
                value = middle[k][state, state] * self.quadrature[k]
                generators[k] = np.diag(np.where(np.arange(size) == state, value, -np.inf))
        steps = []
        for k, a in enumerate(generators):
            if np.isneginf(np.diag(a)).any():
                steps.append(np.diag(np.exp(np.diag(a) * self.h[k])))
            else:
                steps.append(expm(a * self.h[k]))
        enter, leave = {}, {}
        for a, b in self.stretches:
            if self.known_state(node, a) is None:
                enter[a] = self.edge(middle, steps[a], True, a, b)
                leave[b] = self.edge(middle, steps[b - 1], False, a, b)
        factors = [self.factors(node, k) for k in range(n_steps + 1)]

        rho, log_norm = np.ones(size), 0.0
        after: list[np.ndarray] = [rho] * (n_steps + 1)  # ρ at each point, behind its evidence
        before: list[np.ndarray] = [rho] * (n_steps + 1)  # … in front of it
        for k in range(n_steps, -1, -1):
            if k in enter:
                rho = enter[k] @ rho
            after[k] = rho
            for kind, value, i in reversed(factors[k]):
                rho = value * rho[self.links[i]["to"]] if kind == "jump" else value * rho
            assert rho.sum() > 0.0, "impossible evidence"
            log_norm += math.log(rho.sum())
            rho = rho / rho.sum()
            if k in leave:
                rho = leave[k] @ rho
            before[k] = rho
            if k > 0:
                rho = steps[k - 1] @ rho
        initial = np.asarray(self.network.initial[self.names[node]])
        log_z = log_norm + math.log(initial @ rho)

        f, fresh = initial, np.zeros((n_steps, size, size))
        for k in range(n_steps + 1):
            if k in leave:
                f = f @ leave[k]
            for kind, value, i in factors[k]:
                f = value * f
                if kind == "jump":
                    self.seen[i, node] = f / f.sum()
                    f = np.eye(size)[self.links[i]["to"]] * f.sum()
            f = f / f.sum()
            for kind, _, i in factors[k]:
                if kind == "link":
                    self.seen[i, node] = f * after[k] / (f @ after[k])
            if k == n_steps:
                break
            if k in enter:
                f = f @ enter[k]
            fresh[k] = self.integral(f, before[k + 1], generators[k], self.h[k])
            f = f @ steps[k]
        fresh = self.in_the_middle(fresh)
        diagonal = np.einsum("kxx->kx", fresh - np.array(self.w[node]))
        self.w[node] = list(fresh)
        pulled = np.einsum("k,kxx,kx->", self.quadrature, fresh, np.array(self.psi[node]))
        return log_z - float(pulled), float((np.abs(diagonal).max(axis=1) / self.h).max())

    def integral(self, f: np.ndarray, rho: np.ndarray, a: np.ndarray, h: float) -> np.ndarray:
        """W(x,y) = ∫ f(x) ρ(y) dt / (f P ρ) over one step."""
        size = len(f)
        alive = ~np.isneginf(np.diag(a))
        if not alive.all():
            return np.diag(np.where(alive, h, 0.0))
        block = np.zeros((2 * size, 2 * size))
        block[:size, :size] = block[size:, size:] = a
        block[:size, size:] = np.outer(rho, f)
        result = expm(block * h)
        return result[:size, size:].T / (f @ result[:size, :size] @ rho)

    def solve(self, tolerance: float = 1e-12, max_sweeps: int = 500) -> float:
        """Sweep until nothing moves; returns F."""
        for sweep in range(max_sweeps):
            evidence, largest = 0.0, 0.0
            for n in self.hidden:
                share, change = self.update(n, sweep > 0)
                evidence += share
                largest = max(largest, change)
            for i, link in enumerate(self.links):
                extra = sum(n in self.hidden for n in link["members"][1:])
                evidence -= extra * float(self.link_average(i, None))
            if largest < tolerance and sweep > 1:
                return evidence
        raise RuntimeError(f"not settled: last change {largest}")

    def statistics(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Expected dwell times (*u, S) and transitions (*u, S, S) of a node."""
        shape = [self.sizes[p] for p in self.parents[node]]
        size = self.sizes[node]
        dwell, moves = np.zeros((*shape, size)), np.zeros((*shape, size, size))
        off = ~np.eye(size, dtype=bool)
        for k in range(len(self.h)):
            weights = self.weights(node, k, None)
            averaged = np.broadcast_to(self.averaged_rates(node, k), self.table[node].shape)
            rates = (self.table[node] if self.is_star else averaged).reshape(moves.shape)
            weights = weights * self.quadrature[k]
            dwell += np.multiply.outer(weights, np.diag(self.w[node][k]))
            moves += np.multiply.outer(weights, self.w[node][k]) * rates * off
        for i, link in enumerate(self.links):
            if link["to"] >= 0 and link["members"][0] == node:
                for u in itertools.product(*map(range, shape)):
                    weight = math.prod(self.seen[i, p][x] for p, x in zip(self.parents[node], u))
                    moves[(*u, slice(None), link["to"])] += self.seen[i, node] * weight
        return dwell, moves
