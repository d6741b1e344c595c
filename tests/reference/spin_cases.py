"""Spins on a tree and on a ring, and noisy measurements of Glauber networks, for several tests."""

from __future__ import annotations

import numpy as np
import pandas as pd

import asterism as am
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence

TREE = {0: [], 1: [0], 2: [0], 3: [1], 4: [1], 5: [2], 6: [2], 7: [3]}
RING = {n: [(n - 1) % 8, (n + 1) % 8] for n in range(8)}
NOISY = am.Gaussian(means=(-1, 1), scale=0.6)


def alternating_to_aligned(graph: dict[int, list[int]], b: float) -> tuple[am.Network, Evidence]:
    """Aligning spins, a = 8, seen without noise as −+−+−+−+ at 0 and all + at 1."""
    network = am.glauber(graph, a=8.0, b=b, align=True)
    low, high = network.states["0"]
    row = {str(n): [low if n % 2 == 0 else high, high] for n in range(8)}
    table = pd.DataFrame({"trajectory": [0, 0], "time": [0.0, 1.0], **row})
    return network, build_evidence(network, am.Observations.from_frame(table), am.Exact())


def noisy_spins(
    graph: dict[int, list[int]],
    b: float = 0.6,
    n_trajectories: int = 2,
    duration: float = 3.0,
    n_observations: int = 4,
    seed: int = 0,
) -> tuple[am.Network, Evidence]:
    """A simulated Glauber network and noisy values of all its nodes."""
    network = am.glauber(graph, a=1.0, b=b)
    paths = am.simulate(network, n_trajectories, duration=duration, seed=seed)
    values = am.observe(paths, NOISY, n_observations=n_observations, seed=seed + 1)
    return network, build_evidence(network, values, NOISY)


def random_points(
    rng: np.random.Generator, sizes: list[int], end: float, n_points: int = 2
) -> list[tuple[int, int, float, np.ndarray]]:
    """Rows for ``make_evidence``: noisy likelihoods of every node of trajectory 0."""
    return [
        (0, n, float(t), np.log(rng.uniform(0.05, 1.0, size=size)))
        for n, size in enumerate(sizes)
        for t in rng.uniform(0.0, end, size=n_points)
    ]
