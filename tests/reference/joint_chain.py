"""The joint chain in plain Python: dense matrices, scipy's expm, one loop per thing that happens.

Slow and obvious, to check everything else against. Works on a Network and an Evidence; handles
measurements of one or several nodes, exactly timed jumps, continuous observation and known inputs.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.linalg import expm


class ReferenceChain:
    """Forward–backward over all joint states of the network, one trajectory at a time."""

    def __init__(self, network: Any, evidence: Any) -> None:
        self.network = network
        self.evidence = evidence
        self.nodes = list(network.nodes)
        self.sizes = [len(network.states[n]) for n in self.nodes]
        self.parents = [[self.nodes.index(p) for p in network.parents[n]] for n in self.nodes]
        self.states = list(itertools.product(*[range(s) for s in self.sizes]))
        self.number = {x: i for i, x in enumerate(self.states)}

    def rate(self, node: int, joint: tuple[int, ...], target: int) -> float:
        """R_n^u(x_n, target), u read from the joint state; the diagonal is not asked for."""
        rates = self.network.rates[self.nodes[node]]
        if rates is None:
            return 0.0
        if hasattr(rates, "table"):
            value = sum(w[joint[p]] for w, p in zip(rates.shifted_weights, self.parents[node]))
            return float(rates.table[value][joint[node], target])
        return float(rates[tuple(joint[p] for p in self.parents[node])][joint[node], target])

    def generator(self, held: dict[int, int]) -> np.ndarray:
        """Joint generator with the jumps of held nodes deleted, the diagonal as without holding."""
        q = np.zeros((len(self.states), len(self.states)))
        for joint in self.states:
            i = self.number[joint]
            for node, size in enumerate(self.sizes):
                for target in range(size):
                    if target != joint[node]:
                        rate = self.rate(node, joint, target)
                        q[i, i] -= rate
                        if node not in held:
                            after = (*joint[:node], target, *joint[node + 1 :])
                            q[i, self.number[after]] += rate
        return q

    def held_between(self, d: int, left: float, right: float) -> dict[int, int]:
        s = self.evidence.spans
        middle = 0.5 * (left + right)
        return {
            int(s.node[i]): int(s.state[i])
            for i in range(len(s.node))
            if s.trajectory[i] == d and s.start[i] <= middle <= s.end[i]
        }

    def instants(self, d: int, more: list[float]) -> list[float]:
        e = self.evidence
        times = {float(e.start[d]), float(e.end[d]), *map(float, more)}
        times |= {float(t) for t, k in zip(e.points.time, e.points.trajectory) if k == d}
        times |= {float(t) for t, k in zip(e.jumps.time, e.jumps.trajectory) if k == d}
        for i in range(len(e.spans.node)):
            if e.spans.trajectory[i] == d:
                times |= {float(e.spans.start[i]), float(e.spans.end[i])}
        times |= {float(m.time) for m in e.joint if m.trajectory == d}
        return sorted(times)

    def likelihood(self, d: int, time: float) -> np.ndarray:
        """P(measurements at this time | joint state), spans that begin now included."""
        e = self.evidence
        out = np.ones(len(self.states))
        for i, joint in enumerate(self.states):
            for r in range(len(e.points.node)):
                if e.points.trajectory[r] == d and e.points.time[r] == time:
                    at = e.points.offset[r] + joint[e.points.node[r]]
                    out[i] *= np.exp(e.points.log_likelihood[at])
            for m in e.joint:
                if m.trajectory == d and m.time == time:
                    out[i] *= np.exp(m.log_likelihood[tuple(joint[n] for n in m.nodes)])
            for r in range(len(e.spans.node)):
                begins = e.spans.start[r] == time and e.spans.end[r] > e.spans.start[r]
                if e.spans.trajectory[r] == d and begins:
                    out[i] *= joint[e.spans.node[r]] == e.spans.state[r]
        return out

    def jump_matrices(self, d: int, time: float) -> list[tuple[int, int, np.ndarray]]:
        """(node, state entered, J) of every jump recorded at this time; inputs move for free."""
        e = self.evidence
        found = []
        for r in range(len(e.jumps.node)):
            if e.jumps.trajectory[r] == d and e.jumps.time[r] == time:
                node, to = int(e.jumps.node[r]), int(e.jumps.to_state[r])
                matrix = np.zeros((len(self.states), len(self.states)))
                for joint in self.states:
                    if joint[node] == to or e.jumps.from_state[r] not in (-1, joint[node]):
                        continue
                    after = (*joint[:node], to, *joint[node + 1 :])
                    matrix[self.number[joint], self.number[after]] = self.rate(node, joint, to)
                found.append((node, to, matrix))
        for node in e.exogenous:
            begins = [
                r
                for r in range(len(e.spans.node))
                if e.spans.trajectory[r] == d
                and e.spans.node[r] == node
                and e.spans.start[r] == time
                and time > e.start[d]
            ]
            for r in begins:
                matrix = np.zeros((len(self.states), len(self.states)))
                for joint in self.states:
                    after = (*joint[:node], int(e.spans.state[r]), *joint[node + 1 :])
                    matrix[self.number[joint], self.number[after]] = 1.0
                found.append((-1, 0, matrix))
        return found

    def initial(self) -> np.ndarray:
        p = [
            np.ones(size) if n in self.evidence.exogenous else self.network.initial[name]
            for n, (name, size) in enumerate(zip(self.nodes, self.sizes))
        ]
        return np.array([np.prod([p[n][x] for n, x in enumerate(joint)]) for joint in self.states])

    def solve(self, d: int, more: list[float] | None = None) -> dict[str, Any]:
        """ln P(Y), node marginals just after the times in ``more``, dwell times, transitions.

        The statistics of node n are arrays (\\*parent states, S) and (\\*parent states, S, S).
        """
        more = list(more or [])
        times = self.instants(d, more)
        steps = [
            (right - left, self.generator(self.held_between(d, left, right)))
            for left, right in itertools.pairwise(times)
        ]
        likelihoods = [self.likelihood(d, t) for t in times]
        jumps = [self.jump_matrices(d, t) for t in times]
        after = [np.ones(len(self.states))]
        for k in range(len(times) - 1, 0, -1):
            beta = likelihoods[k] * after[0]
            for _, _, matrix in reversed(jumps[k]):
                beta = matrix @ beta
            after.insert(0, expm(steps[k - 1][1] * steps[k - 1][0]) @ beta)
        shapes = [tuple(self.sizes[p] for p in self.parents[n]) for n in range(len(self.nodes))]
        dwell = [np.zeros((*shapes[n], s)) for n, s in enumerate(self.sizes)]
        transitions = [np.zeros((*shapes[n], s, s)) for n, s in enumerate(self.sizes)]
        alpha = self.initial()
        total = float((alpha * likelihoods[0] * after[0]).sum())
        if jumps[0]:
            raise ValueError("a jump at the very start")
        marginals: dict[float, list[np.ndarray]] = {}
        for k, time in enumerate(times):
            for r, (node, to, matrix) in enumerate(jumps[k]):
                beta = likelihoods[k] * after[k]
                for _, _, later in reversed(jumps[k][r + 1 :]):
                    beta = later @ beta
                if node >= 0:
                    for joint in self.states:
                        i = self.number[joint]
                        u = tuple(joint[p] for p in self.parents[node])
                        p = alpha[i] * (matrix[i] @ beta) / total
                        transitions[node][(*u, joint[node], to)] += p
                alpha = alpha @ matrix
            alpha = alpha * likelihoods[k]
            p = alpha * after[k] / total
            marginals[time] = self.marginals_of(p)
            if k + 1 < len(times):
                length, q = steps[k]
                beta = likelihoods[k + 1] * after[k + 1]
                for _, _, matrix in reversed(jumps[k + 1]):
                    beta = matrix @ beta
                if time < self.evidence.end[d]:
                    self.integrate(alpha, beta, q, length, total, dwell, transitions)
                alpha = alpha @ expm(q * length)
        return {
            "log_evidence": float(np.log(total)),
            "marginals": [marginals[t] for t in more],
            "dwell_times": dwell,
            "transitions": transitions,
        }

    def marginals_of(self, p: np.ndarray) -> list[np.ndarray]:
        out = [np.zeros(s) for s in self.sizes]
        for joint, weight in zip(self.states, p):
            for node, x in enumerate(joint):
                out[node][x] += weight
        return out

    def integrate(
        self,
        alpha: np.ndarray,
        beta: np.ndarray,
        q: np.ndarray,
        length: float,
        total: float,
        dwell: list[np.ndarray],
        transitions: list[np.ndarray],
    ) -> None:
        """∫ α(x) β(y) dt by the block exponential, spread over the families."""
        n = len(self.states)
        block = np.zeros((2 * n, 2 * n))
        block[:n, :n] = block[n:, n:] = q
        block[:n, n:] = np.outer(beta, alpha) / total
        w = expm(block * length)[:n, n:].T
        for joint in self.states:
            i = self.number[joint]
            for node, size in enumerate(self.sizes):
                u = tuple(joint[p] for p in self.parents[node])
                dwell[node][(*u, joint[node])] += w[i, i]
                for target in range(size):
                    if target != joint[node]:
                        after = (*joint[:node], target, *joint[node + 1 :])
                        j = self.number[after]
                        transitions[node][(*u, joint[node], target)] += w[i, j] * q[i, j]
