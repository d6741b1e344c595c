"""Clusters of one trajectory in plain Python, on given time steps: slow and obvious.

Joint states are tuples, generators are full matrices, and scipy's ``expm`` of a block matrix gives
the integrals over a step. Messages are dictionaries of logarithms, as in docs/derivations.md; the
kernels keep them as factors. Measurements, exactly timed jumps, spans and interventions; no inputs.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.linalg import expm

GAMMA = 0.75


class Chain:
    """A region: its nodes, its joint states, and what one solve found."""

    def __init__(self, nodes: tuple[int, ...], sizes: list[int]) -> None:
        self.nodes = nodes
        self.states = list(itertools.product(*(range(sizes[n]) for n in nodes)))
        self.index = {x: i for i, x in enumerate(self.states)}

    def jumps(self) -> Any:
        """(x, place of the node, y, x after the jump)."""
        for x in self.states:
            for i in range(len(self.nodes)):
                for y in sorted({z[i] for z in self.states} - {x[i]}):
                    yield x, i, y, (*x[:i], y, *x[i + 1 :])

    def part(self, x: tuple[int, ...], nodes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x[self.nodes.index(n)] for n in nodes)


class ReferenceClusters:
    """Regions, messages, and sweeps to and fro over the clusters."""

    def __init__(
        self, network: Any, evidence: Any, regions: Any, times: np.ndarray, trajectory: int = 0
    ) -> None:
        self.network, self.evidence, self.d = network, evidence, trajectory
        self.names = list(network.nodes)
        self.sizes = [len(network.states[n]) for n in self.names]
        self.times = np.asarray(times)
        self.h = np.diff(self.times)
        self.owner = regions.owner
        self.clusters = [Chain(c, self.sizes) for c in regions.clusters]
        self.separators = [(Chain(s.nodes, self.sizes), s.clusters) for s in regions.separators]
        self.eta: dict[Any, float] = {}
        self.theta: dict[Any, float] = {}
        self.iota: dict[Any, float] = {}
        self.worst = 0.0
        self.first_messages()

    # ---- what the network says
    def rates(self, n: int, chain: Chain, x: tuple[int, ...]) -> np.ndarray:
        above = [self.names.index(p) for p in self.network.parents[self.names[n]]]
        return np.asarray(self.network.rates[self.names[n]][chain.part(x, tuple(above))])

    def mean_rates(self, n: int) -> np.ndarray:
        size = self.sizes[n]
        return np.asarray(self.network.rates[self.names[n]]).reshape(-1, size, size).mean(axis=0)

    def initial(self, chain: Chain, x: tuple[int, ...]) -> float:
        return math.prod(
            float(self.network.initial[self.names[n]][v]) for n, v in zip(chain.nodes, x)
        )

    def side_of_owner(self, s: int, n: int) -> int:
        """The side of separator s from which n's owner is reached without crossing s."""
        pair = self.separators[s][1]
        for side in range(2):
            seen, front = {pair[side]}, [pair[side]]
            while front:
                c = front.pop()
                for t, (chain, ends) in enumerate(self.separators):
                    if t != s and n in chain.nodes and c in ends:
                        other = ends[1 - ends.index(c)]
                        if other not in seen:
                            seen.add(other)
                            front.append(other)
            if self.owner[n] in seen:
                return side
        raise AssertionError("the clusters of a node form a tree")

    def first_messages(self) -> None:
        for s, (chain, _) in enumerate(self.separators):
            for k in range(len(self.h)):
                for side in range(2):
                    for x in chain.states:
                        self.theta[s, side, k, x] = 0.0
                        self.iota[s, side, x] = 0.0
                for x, i, y, _ in chain.jumps():
                    n = chain.nodes[i]
                    side = self.side_of_owner(s, n)
                    self.eta[s, side, k, x, i, y] = math.log(self.mean_rates(n)[x[i], y])
                    self.eta[s, 1 - side, k, x, i, y] = 0.0
                for i, n in enumerate(chain.nodes):
                    side = self.side_of_owner(s, n)
                    for x in chain.states:
                        self.theta[s, side, k, x] += self.mean_rates(n)[x[i], x[i]]

    # ---- what the evidence says
    def held(self, n: int, k: int) -> tuple[int, bool] | None:
        """State in which a node is held on step k, and whether by the experimenter."""
        middle = 0.5 * (self.times[k] + self.times[k + 1])
        for table, is_set in ((self.evidence.spans, False), (self.evidence.interventions, True)):
            for i in np.flatnonzero((table.trajectory == self.d) & (table.node == n)):
                if table.start[i] < middle < table.end[i]:
                    return int(table.state[i]), is_set
        return None

    def at_point(self, chain: Chain, k: int, c: int | None) -> np.ndarray:
        """What happens at grid point k, as a matrix that acts on row vectors from the right."""
        time = self.times[k]
        result = np.eye(len(chain.states))
        by_hand, jumps, points = (
            self.evidence.interventions,
            self.evidence.jumps,
            self.evidence.points,
        )
        for i in np.flatnonzero((by_hand.trajectory == self.d) & (by_hand.start == time)):
            if by_hand.node[i] in chain.nodes:
                result = result @ self.jump(chain, int(by_hand.node[i]), int(by_hand.state[i]))
        for i in np.flatnonzero((jumps.trajectory == self.d) & (jumps.time == time)):
            if jumps.node[i] in chain.nodes:
                n, to = int(jumps.node[i]), int(jumps.to_state[i])
                weight = np.zeros(len(chain.states))
                for x in chain.states:
                    before = x[chain.nodes.index(n)]
                    if before != to and jumps.from_state[i] in (-1, before):
                        owned = c is not None and self.owner[n] == c
                        weight[chain.index[x]] = (
                            self.rates(n, chain, x)[before, to] if owned else 1.0
                        )
                result = result @ (weight[:, None] * self.jump(chain, n, to))
        likelihood = np.ones(len(chain.states))
        for i in np.flatnonzero((points.trajectory == self.d) & (points.time == time)):
            if points.node[i] in chain.nodes:
                place = chain.nodes.index(int(points.node[i]))
                for x in chain.states:
                    value = points.log_likelihood[points.offset[i] + x[place]]
                    likelihood[chain.index[x]] *= math.exp(value)
        result = result * likelihood
        return result @ self.allowed(chain, k) if k < len(self.h) else result

    def jump(self, chain: Chain, n: int, to: int) -> np.ndarray:
        move = np.zeros((len(chain.states), len(chain.states)))
        i = chain.nodes.index(n)
        for x in chain.states:
            move[chain.index[x], chain.index[(*x[:i], to, *x[i + 1 :])]] = 1.0
        return move

    def allowed(self, chain: Chain, k: int) -> np.ndarray:
        keep = np.ones(len(chain.states))
        for i, n in enumerate(chain.nodes):
            held = self.held(n, k)
            if held is not None:
                keep *= [float(x[i] == held[0]) for x in chain.states]
        return np.diag(keep)

    # ---- one region
    def generator(self, chain: Chain, k: int, c: int | None, s: int | None) -> np.ndarray:
        """A of a cluster (``c``) or a separator (``s``) on step k."""
        a = np.zeros((len(chain.states), len(chain.states)))
        told = [
            (t, 1 - ends.index(c) if c is not None else None, shared)
            for t, (shared, ends) in enumerate(self.separators)
            if (c in ends if c is not None else t == s)
        ]
        for x, i, y, after in chain.jumps():
            n = chain.nodes[i]
            if self.held(n, k) is not None:
                continue
            log_rate = 0.0
            if c is not None and self.owner[n] == c:
                log_rate = math.log(self.rates(n, chain, x)[x[i], y])
            for t, other, shared in told:
                if n in shared.nodes:
                    place = shared.nodes.index(n)
                    for side in range(2) if other is None else (other,):
                        log_rate += self.eta[t, side, k, chain.part(x, shared.nodes), place, y]
            a[chain.index[x], chain.index[after]] = math.exp(log_rate)
        for x in chain.states:
            value = 0.0
            for i, n in enumerate(chain.nodes):
                held = self.held(n, k)
                if c is not None and self.owner[n] == c and not (held and held[1]):
                    value += self.rates(n, chain, x)[x[i], x[i]]
            for t, other, shared in told:
                for side in range(2) if other is None else (other,):
                    value += self.theta[t, side, k, chain.part(x, shared.nodes)]
            a[chain.index[x], chain.index[x]] = value
        return a

    def start(self, chain: Chain, c: int | None, s: int | None) -> np.ndarray:
        vector = np.array([self.initial(chain, x) for x in chain.states])
        for t, (shared, ends) in enumerate(self.separators):
            if c is not None and c in ends:
                sides: tuple[int, ...] = (1 - ends.index(c),)
            elif t == s:
                sides = (0, 1)
            else:
                continue
            for x in chain.states:
                for side in sides:
                    vector[chain.index[x]] *= math.exp(
                        self.iota[t, side, chain.part(x, shared.nodes)]
                    )
        return vector

    def solve(self, chain: Chain, c: int | None = None, s: int | None = None) -> float:
        """Forward–backward; leaves T, M and the start in the chain and returns ln Z."""
        n, n_steps = len(chain.states), len(self.h)
        generators = [self.generator(chain, k, c, s) for k in range(n_steps)]
        at = [self.at_point(chain, k, c) for k in range(n_steps + 1)]
        begin = self.start(chain, c, s)
        forward = [begin @ at[0]]
        for k in range(n_steps):
            forward.append(forward[-1] @ expm(generators[k] * self.h[k]) @ at[k + 1])
        backward = [np.ones(n)]
        for k in range(n_steps - 1, -1, -1):
            backward.insert(0, expm(generators[k] * self.h[k]) @ (at[k + 1] @ backward[0]))
        z = float(forward[-1].sum())
        chain.first = begin * (at[0] @ backward[0]) / z  # type: ignore[attr-defined]
        chain.time, chain.count = [], []  # type: ignore[attr-defined]
        for k in range(n_steps):
            # exp [[A, ρ f], [0, A]] h has ∫ exp(A t) ρ f exp(A (h − t)) dt in its corner
            block = np.zeros((2 * n, 2 * n))
            block[:n, :n] = block[n:, n:] = generators[k]
            block[:n, n:] = np.outer(at[k + 1] @ backward[k + 1], forward[k])
            integral = expm(block * self.h[k])[:n, n:].T / z  # (x, y): ∫ f(x) ρ(y)
            chain.time.append(np.diag(integral))  # type: ignore[attr-defined]
            chain.count.append(generators[k] * integral)  # type: ignore[attr-defined]
        return math.log(z)

    # ---- the iteration
    def onto(
        self, chain: Chain, shared: Chain, k: int
    ) -> tuple[dict[Any, float], dict[Any, float]]:
        time: dict[Any, float] = {}
        count: dict[Any, float] = {}
        for x in chain.states:
            u = chain.part(x, shared.nodes)
            time[u] = time.get(u, 0.0) + chain.time[k][chain.index[x]]  # type: ignore[attr-defined]
        for x, i, y, after in chain.jumps():
            if chain.nodes[i] in shared.nodes:
                key = (chain.part(x, shared.nodes), shared.nodes.index(chain.nodes[i]), y)
                moved = chain.count[k][chain.index[x], chain.index[after]]  # type: ignore[attr-defined]
                count[key] = count.get(key, 0.0) + moved
        return time, count

    def update(self, c: int) -> None:
        """Solve cluster c and tell its separators."""
        chain = self.clusters[c]
        self.solve(chain, c=c)
        for s, (shared, ends) in enumerate(self.separators):
            if c not in ends:
                continue
            side = ends.index(c)
            self.solve(shared, s=s)
            apart: dict[Any, float] = {}
            for k in range(len(self.h)):
                theirs, moved = self.onto(chain, shared, k)
                mine, own = self.onto(shared, shared, k)
                for x, i, y, _ in shared.jumps():
                    if self.held(shared.nodes[i], k) is not None or mine[x] < 1e-14:
                        continue
                    wanted, present = moved[x, i, y] / theirs[x], own[x, i, y] / mine[x]
                    gap = abs(wanted - present) * theirs[x]
                    apart[x, i, y] = apart.get((x, i, y), 0.0) + gap
                    factor = (wanted / present) ** GAMMA
                    self.eta[s, side, k, x, i, y] += math.log(factor)
                    self.theta[s, side, k, x] -= present * (factor - 1.0)
            for x in shared.states:
                theirs_first = sum(
                    chain.first[chain.index[z]]  # type: ignore[attr-defined]
                    for z in chain.states
                    if chain.part(z, shared.nodes) == x
                )
                mine_first = shared.first[shared.index[x]]  # type: ignore[attr-defined]
                self.worst = max(self.worst, abs(theirs_first - mine_first))
                if mine_first > 1e-12:
                    self.iota[s, side, x] += GAMMA * math.log(theirs_first / mine_first)
            self.worst = max(self.worst, *apart.values())

    def sweep(self, number: int) -> None:
        """Over the clusters in their order, then back, and so on; notes the largest difference."""
        self.worst = 0.0
        order = range(len(self.clusters))
        for c in order if number % 2 == 0 else reversed(order):
            self.update(c)

    def evidence_value(self) -> float:
        """F = Σ ln Z of clusters − Σ ln Z of separators."""
        value = sum(self.solve(chain, c=c) for c, chain in enumerate(self.clusters))
        return value - sum(self.solve(chain, s=s) for s, (chain, _) in enumerate(self.separators))

    def statistics(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Times and transitions of a node by configuration; recorded jumps are not counted."""
        chain = self.clusters[self.owner[n]]
        table = np.asarray(self.network.rates[self.names[n]])
        time, moves = np.zeros(table.shape[:-1]), np.zeros(table.shape)
        above = tuple(self.names.index(p) for p in self.network.parents[self.names[n]])
        place = chain.nodes.index(n)
        for k in range(len(self.h)):
            held = self.held(n, k)
            if held is not None and held[1]:
                continue
            for x in chain.states:
                here = (*chain.part(x, above), x[place])
                time[here] += chain.time[k][chain.index[x]]  # type: ignore[attr-defined]
            for x, i, y, after in chain.jumps():
                if i == place:
                    moved = chain.count[k][chain.index[x], chain.index[after]]  # type: ignore[attr-defined]
                    moves[(*chain.part(x, above), x[place], y)] += moved
        return time, moves
