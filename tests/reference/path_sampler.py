"""Slow reference of the path sampler: uniformisation of one node after the other, in plain Python.

A path is (state at the start, [(time, state entered), …]). One fixed rate Ω above all rates of
leaving serves the whole network (the compiled sampler has one per configuration), candidate times
come from thinning, and every weight is found by cutting time at everybody's jumps. All kinds of
evidence: points, recorded jumps, known spans, joint measurements, given nodes, interventions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.model.network import Network
from asterism.timeline.evidence import Evidence

Path = tuple[int, list[tuple[float, int]]]


def state_at(path: Path, time: float, before: bool = False) -> int:
    """State at a time; at a jump the new one, or the old one if asked for."""
    state = path[0]
    for when, entered in path[1]:
        if when < time or (when == time and not before):
            state = entered
    return state


@dataclass
class ReferenceSampler:
    """Present paths of all nodes in one trajectory, and how to redraw them."""

    network: Network
    evidence: Evidence
    trajectory: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.names = self.network.nodes
        self.begin = float(self.evidence.start[self.trajectory])
        self.end = float(self.evidence.end[self.trajectory])
        self.tables = {
            n: np.asarray(self.network.rates[n])
            for n in self.names
            if self.network.rates[n] is not None
        }
        self.omega = 2.0 * max(-t.min() for t in self.tables.values())

    # ------------------------------------------------------------------ evidence of one node
    def rows(self, table: Any, n: int) -> list[int]:
        return [
            int(i)
            for i in np.flatnonzero((table.trajectory == self.trajectory) & (table.node == n))
        ]

    def held(self, n: int) -> list[tuple[float, float, int]]:
        by_hand = self.evidence.interventions
        return [
            (by_hand.start[i], by_hand.end[i], int(by_hand.state[i])) for i in self.rows(by_hand, n)
        ]

    def known(self, n: int) -> list[tuple[float, float, int]]:
        spans = self.evidence.spans
        return [(spans.start[i], spans.end[i], int(spans.state[i])) for i in self.rows(spans, n)]

    def generator(self, n: int, paths: list[Path], time: float, **instead: int) -> np.ndarray:
        """Rates of a node just after a time, some parents' states replaced."""
        config = tuple(
            instead.get(p, state_at(paths[self.names.index(p)], time))
            for p in self.network.parents[self.names[n]]
        )
        return self.tables[self.names[n]][config]

    # ------------------------------------------------------------------ weights
    def children_weight(self, n: int, x: int, begin: float, end: float, paths: list[Path]) -> float:
        """ln of what the children's paths say to state x of node n between two times."""
        name = self.names[n]
        total = 0.0
        for c, child in enumerate(self.names):
            if name not in self.network.parents[child] or child not in self.tables:
                continue
            cuts = {begin, end, *(t for s, e, _ in self.held(c) for t in (s, e))}
            cuts |= {t for path in paths for t, _ in path[1]}
            inside = sorted(t for t in cuts if begin <= t <= end)
            for a, b in itertools.pairwise(inside):
                if any(s <= a and b <= e for s, e, _ in self.held(c)):
                    continue
                y = state_at(paths[c], a)
                total += self.generator(c, paths, a, **{name: x})[y, y] * (b - a)
            for when, entered in paths[c][1]:
                by_hand = any(s == when for s, _, _ in self.held(c))
                if begin < when <= end and not by_hand:
                    old = state_at(paths[c], when, before=True)
                    config = tuple(
                        x if p == name else state_at(paths[self.names.index(p)], when, before=True)
                        for p in self.network.parents[child]
                    )
                    total += np.log(self.tables[child][config][old, entered])
        return total

    def evidence_weight(self, n: int, x: int, begin: float, end: float, paths: list[Path]) -> float:
        """ln of what measurements in [begin, end) say, or up to and with the end of time."""
        last = end == self.end

        def here(time: float) -> bool:
            return begin <= time < end or (last and time == end)

        total = 0.0
        points = self.evidence.points
        for i in self.rows(points, n):
            if here(points.time[i]):
                total += points.log_likelihood[points.offset[i] + x]
        for m in self.evidence.joint:
            if m.trajectory == self.trajectory and n in m.nodes and here(m.time):
                states = tuple(x if k == n else state_at(paths[k], m.time) for k in m.nodes)
                total += m.log_likelihood[states]
        for a, b, state in self.known(n):
            # grid points never lie inside a known span: the interval that holds its start
            if here(a) and b > a and x != state:
                total = -np.inf
        return total

    # ------------------------------------------------------------------ one path
    def redraw(self, n: int, paths: list[Path]) -> None:
        held, jumps = self.held(n), self.evidence.jumps
        recorded = {float(jumps.time[i]): i for i in self.rows(jumps, n)}
        by_hand = {a: x for a, _, x in held}
        size = len(self.network.states[self.names[n]])
        pinned = [*held, *self.known(n)]
        times = {t for t, _ in paths[n][1]} | set(recorded)
        times |= {a for a in by_hand if a > self.begin}
        for t in self.rng.uniform(
            self.begin, self.end, self.rng.poisson(self.omega * (self.end - self.begin))
        ):
            leaving = -self.generator(n, paths, t)[state_at(paths[n], t), state_at(paths[n], t)]
            free = not any(a <= t < b for a, b, _ in pinned)
            if free and self.rng.uniform() < 1.0 - leaving / self.omega:
                times.add(float(t))
        grid = [self.begin, *sorted(times), self.end]
        start = np.asarray(self.network.initial[self.names[n]], dtype=float)
        if self.begin in by_hand:
            start = np.eye(size)[by_hand[self.begin]]
        forward = [start * self.weights(n, grid[0], grid[1], paths, size)]
        steps = []
        for k in range(1, len(grid) - 1):
            steps.append(self.step(n, grid[k], recorded, by_hand, paths, size))
            after = forward[-1] @ steps[-1] * self.weights(n, grid[k], grid[k + 1], paths, size)
            forward.append(after / after.sum())
        state = self.choose(forward[-1])
        drawn = [state]
        for k in range(len(steps) - 1, -1, -1):
            state = self.choose(forward[k] * steps[k][:, state])
            drawn.append(state)
        drawn.reverse()
        changes = [(grid[k], drawn[k]) for k in range(1, len(drawn)) if drawn[k] != drawn[k - 1]]
        paths[n] = (drawn[0], changes)

    def step(
        self, n: int, time: float, recorded: dict[float, int], by_hand: dict[float, int],
        paths: list[Path], size: int,
    ) -> np.ndarray:  # fmt: skip
        """[from, to] weights of what may happen at a grid point."""
        if time in by_hand:
            return np.tile(np.eye(size)[by_hand[time]], (size, 1))
        config = tuple(
            state_at(paths[self.names.index(p)], time, before=True)
            for p in self.network.parents[self.names[n]]
        )
        rates = self.tables[self.names[n]][config]
        if time in recorded:
            i = recorded[time]
            result = np.zeros((size, size))
            y, x = int(self.evidence.jumps.to_state[i]), int(self.evidence.jumps.from_state[i])
            for a in range(size):
                if a != y and x in (-1, a):
                    result[a, y] = rates[a, y]
            return result
        return np.eye(size) + rates / self.omega

    def weights(self, n: int, begin: float, end: float, paths: list[Path], size: int) -> np.ndarray:
        logs = np.array(
            [
                self.children_weight(n, x, begin, end, paths)
                + self.evidence_weight(n, x, begin, end, paths)
                for x in range(size)
            ]
        )
        return np.exp(logs - logs.max())

    def choose(self, weights: np.ndarray) -> int:
        return int(self.rng.choice(len(weights), p=weights / weights.sum()))


def statistics_of(
    network: Network, evidence: Evidence, trajectory: int, paths: list[Path]
) -> dict[str, np.ndarray]:
    """Per node (…, S, S): jumps, and on the diagonal the time, of one trajectory's paths."""
    sampler = ReferenceSampler(network, evidence, trajectory, np.random.default_rng(0))
    result = {}
    for n, name in enumerate(network.nodes):
        if network.rates[name] is None:
            continue
        table = np.zeros_like(sampler.tables[name])
        held = sampler.held(n)
        cuts = {sampler.begin, sampler.end, *(t for p in paths for t, _ in p[1])}
        cuts |= {t for a, b, _ in held for t in (a, b)}
        parents = [network.nodes.index(p) for p in network.parents[name]]
        for a, b in itertools.pairwise(sorted(cuts)):
            if not any(s <= a and b <= e for s, e, _ in held):
                x = state_at(paths[n], a)
                table[(*(state_at(paths[p], a) for p in parents), x, x)] += b - a
        for time, entered in paths[n][1]:
            if not any(s == time for s, _, _ in held):
                x = state_at(paths[n], time, before=True)
                above = tuple(state_at(paths[p], time, before=True) for p in parents)
                table[(*above, x, entered)] += 1.0
        result[name] = table
    return result
