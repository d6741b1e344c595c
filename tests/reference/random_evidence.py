"""Small random networks, and evidence of every kind about a path that they really could take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from asterism.model.network import Network
from asterism.timeline.evidence import Evidence, JointMeasurement, Jumps, Points, Spans


def random_network(
    rng: np.random.Generator, sizes: list[int], n_parents: int = 2, exogenous: tuple[int, ...] = ()
) -> Network:
    """Every node with up to ``n_parents`` random parents; rates between 0.1 and 3."""
    names = [f"n{i}" for i in range(len(sizes))]
    parents: dict[str, list[str]] = {}
    rates: dict[str, Any] = {}
    for i, name in enumerate(names):
        if i in exogenous:
            parents[name], rates[name] = [], None
            continue
        others = [n for n in names if n != name]
        count = min(int(rng.integers(0, n_parents + 1)), len(others))
        parents[name] = [str(p) for p in rng.choice(others, size=count, replace=False)]
        shape = tuple(sizes[names.index(p)] for p in parents[name])
        table = rng.uniform(0.1, 3.0, size=(*shape, sizes[i], sizes[i]))
        diagonal = np.arange(sizes[i])
        table[..., diagonal, diagonal] = 0.0
        table[..., diagonal, diagonal] = -table.sum(axis=-1)
        rates[name] = table
    states = {name: [f"s{x}" for x in range(size)] for name, size in zip(names, sizes)}
    initial = {name: rng.dirichlet(np.ones(size)) for name, size in zip(names, sizes)}
    return Network(parents, rates, states, initial)


def make_evidence(
    sizes: list[int],
    start: list[float],
    end: list[float],
    points: list[tuple[int, int, float, Any]] = (),  # type: ignore[assignment]
    jumps: list[tuple[int, int, float, int, int]] = (),  # type: ignore[assignment]
    spans: list[tuple[int, int, float, float, int]] = (),  # type: ignore[assignment]
    joint: list[JointMeasurement] = (),  # type: ignore[assignment]
    exogenous: tuple[int, ...] = (),
) -> Evidence:
    """Evidence from plain rows: points (d, node, time, log-likelihoods), jumps (d, node, time, to,
    from), spans (d, node, start, end, state)."""
    points = sorted(points, key=lambda r: r[:3])
    jumps = sorted(jumps, key=lambda r: r[:3])
    spans = sorted(spans, key=lambda r: r[:3])
    lengths = [sizes[p[1]] for p in points]

    def column(rows: list[Any], i: int, kind: Any) -> Any:
        return np.array([r[i] for r in rows], dtype=kind)

    return Evidence(
        n_nodes=len(sizes),
        start=np.array(start, dtype=float),
        end=np.array(end, dtype=float),
        points=Points(
            column(points, 0, np.int64),
            column(points, 1, np.int64),
            column(points, 2, float),
            np.concatenate([[0], np.cumsum(lengths)])[: len(points)].astype(np.int64),
            np.concatenate([np.zeros(0), *[np.asarray(p[3], dtype=float) for p in points]]),
        ),
        jumps=Jumps(
            column(jumps, 0, np.int64),
            column(jumps, 1, np.int64),
            column(jumps, 2, float),
            column(jumps, 3, np.int64),
            column(jumps, 4, np.int64),
        ),
        spans=Spans(
            column(spans, 0, np.int64),
            column(spans, 1, np.int64),
            column(spans, 2, float),
            column(spans, 3, float),
            column(spans, 4, np.int64),
        ),
        joint=tuple(joint),
        exogenous=frozenset(exogenous),
        labels=tuple(f"patient {d}" for d in range(len(start))),
    )


def random_evidence(
    rng: np.random.Generator,
    network: Network,
    kinds: tuple[str, ...] = ("points", "jumps", "spans", "joint"),
    n_trajectories: int = 2,
) -> Evidence:
    """Some of everything: two noisy points per node, exact ones, and, if asked for in ``kinds``, a
    recorded jump, a continuously seen node with one jump, and a measurement of two nodes."""
    sizes = [len(network.states[n]) for n in network.nodes]
    exogenous = tuple(network.node_index(n) for n in network.exogenous)
    own = [n for n in range(len(sizes)) if n not in exogenous]
    start, end, points, jumps, spans, joint = [], [], [], [], [], []
    for d in range(n_trajectories):
        a = float(rng.uniform(-1, 1))
        b = a + float(rng.uniform(1, 3))
        start.append(a)
        end.append(b)
        for n in exogenous:
            middle = float(rng.uniform(a, b))
            x = int(rng.integers(sizes[n]))
            spans += [(d, n, a, middle, x), (d, n, middle, b, (x + 1) % sizes[n])]
        busy = set()
        if "spans" in kinds:
            n = int(rng.choice(own))
            busy.add(n)
            s, t, e = np.sort(rng.uniform(a, b, size=3))
            x = int(rng.integers(sizes[n]))
            y = (x + 1) % sizes[n]
            spans += [(d, n, float(s), float(t), x), (d, n, float(t), float(e), y)]
            jumps.append((d, n, float(t), y, x))
        if "jumps" in kinds and len(own) > len(busy):
            n = int(rng.choice([n for n in own if n not in busy]))
            busy.add(n)
            jumps.append((d, n, float(rng.uniform(a, b)), int(rng.integers(sizes[n])), -1))
        for n in own:
            if "points" in kinds:
                for t in rng.uniform(a, b, size=2):
                    points.append((d, n, float(t), np.log(rng.uniform(0.05, 1, size=sizes[n]))))
            if n not in busy:
                exact = np.full(sizes[n], -np.inf)
                exact[rng.integers(sizes[n])] = 0.0
                points.append((d, n, float(rng.choice([a, b])), exact))
        if "joint" in kinds and len(own) > 1:
            pair = tuple(int(n) for n in rng.choice(own, size=2, replace=False))
            table = np.log(rng.uniform(0.05, 1, size=tuple(sizes[n] for n in pair)))
            joint.append(JointMeasurement(d, float(rng.uniform(a, b)), pair, table))
    return make_evidence(sizes, start, end, points, jumps, spans, joint, exogenous)


def with_random_interventions(
    rng: np.random.Generator, network: Network, evidence: Evidence
) -> Evidence:
    """Every node without recorded jumps and spans is held once or twice in every trajectory.

    Some interventions begin with the trajectory, some end with it, some follow upon each other.
    """
    sizes = [len(network.states[n]) for n in network.nodes]
    points = evidence.points
    logs = points.log_likelihood.copy()
    rows = []
    for d in range(evidence.n_trajectories):
        a, b = float(evidence.start[d]), float(evidence.end[d])
        for n, size in enumerate(sizes):
            tables = (evidence.jumps, evidence.spans)
            if any(((t.trajectory == d) & (t.node == n)).any() for t in tables):
                continue
            cuts = np.sort(rng.uniform(a, b, size=3))
            cuts[0] = a if rng.random() < 0.3 else cuts[0]
            cuts[2] = b if rng.random() < 0.3 else cuts[2]
            rows.append((d, n, cuts[0], cuts[1], int(rng.integers(size))))
            if rng.random() < 0.5:
                rows.append((d, n, cuts[1], cuts[2], int(rng.integers(size))))
    for d, n, begin, end, _ in rows:
        mine = (points.trajectory == d) & (points.node == n)
        for i in np.flatnonzero(mine & (points.time >= begin) & (points.time <= end)):
            logs[points.offset[i] : points.offset[i] + sizes[n]] = 0.0
    kinds = (np.int64, np.int64, float, float, np.int64)
    columns = [np.array([r[k] for r in rows], dtype=kind) for k, kind in enumerate(kinds)]
    return replace(
        evidence, interventions=Spans(*columns), points=replace(points, log_likelihood=logs)
    )
