"""Simulated networks with smooth nodes: Hill-type gene networks, and networks of the model itself.

A gene's production is a product of Hill functions of its parents, scaled to a random maximum; its
decay is linear; noise is multiplicative in time and proportional when measured. Nothing here was
taken from the model that is judged with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Simulated:
    """A table, the true edges as [parent, child], and when a stimulus ended (None: none)."""

    frame: pd.DataFrame
    truth: np.ndarray
    switch: float | None


@dataclass(frozen=True)
class Design:
    """How a data set is made."""

    n_nodes: int = 10
    n_trajectories: int = 5
    n_points: int = 21
    mean_parents: float = 1.2
    """0: no edges."""
    stimulus: bool = False
    irregular: bool = False
    missing: float = 0.0


def random_graph(rng: np.random.Generator, design: Design) -> np.ndarray:
    """[parent, child]; every node has 0 to 3 parents."""
    n = design.n_nodes
    truth = np.zeros((n, n), dtype=bool)
    if design.mean_parents == 0.0:
        return truth
    for child in range(n):
        k = min(3, rng.poisson(design.mean_parents))
        others = np.delete(np.arange(n), child)
        truth[rng.choice(others, k, replace=False), child] = True
    return truth


def hill_network(seed: int, design: Design = Design()) -> Simulated:
    """A gene network in the manner of Hill, ten relaxation times long."""
    rng = np.random.default_rng([7, seed])
    n = design.n_nodes
    truth = random_graph(rng, design)
    decay = np.exp(rng.normal(np.log(0.4), 0.4, n))
    base = rng.uniform(0.3, 1.0, n)
    represses = rng.random((n, n)) < 0.5
    half = rng.uniform(0.2, 0.8, (n, n))
    power = rng.uniform(1.0, 4.0, (n, n))
    noise = rng.uniform(0.03, 0.10, n)
    duration, step = 20.0, 0.05
    n_steps = int(duration / step)
    hit = (rng.random((design.n_trajectories, n)) < 0.33) if design.stimulus else None
    size = rng.normal(0.0, 0.8, (design.n_trajectories, n))
    parts = []

    def production(x: np.ndarray) -> np.ndarray:
        ratio = (np.maximum(x, 0.0)[:, None] / half) ** power
        act = np.where(represses, 1.0 / (1.0 + ratio), ratio / (1.0 + ratio))
        return base * np.prod(np.where(truth, 0.1 + 0.9 * act, 1.0), axis=0)

    for d in range(design.n_trajectories):
        x = rng.uniform(0.1, 0.9, n)
        if design.stimulus:  # begins at rest
            for _ in range(2000):
                x = x + step * decay * (production(x) - x)
        path = np.empty((n_steps + 1, n))
        path[0] = x
        for i in range(n_steps):
            made = production(x)
            if hit is not None and i * step < duration / 2:
                made = np.clip(made + np.where(hit[d], size[d], 0.0), 0.0, 1.5)
            kick = noise * np.sqrt(step) * rng.normal(size=n) * np.sqrt(np.maximum(x, 0.01))
            x = np.maximum(x + step * decay * (made - x) + kick, 0.0)
            path[i + 1] = x
        parts.append(measured(rng, path, d, step, design))
    frame = pd.concat(parts, ignore_index=True)
    return Simulated(frame, truth, duration / 2 if design.stimulus else None)


def model_network(seed: int, design: Design = Design()) -> Simulated:
    """A linear network of the model itself."""
    rng = np.random.default_rng([8, seed])
    n = design.n_nodes
    truth = random_graph(rng, design)
    decay = rng.choice([0.2, 0.4, 0.8], n)
    weights = np.where(truth, rng.choice([-1.0, 1.0], (n, n)) * rng.uniform(0.4, 1.2, (n, n)), 0.0)
    weights *= decay  # into the child
    drift = weights.T - np.diag(decay)
    highest = np.linalg.eigvals(drift).real.max()
    if highest > -0.1:  # keep it stable
        weights *= 0.5
        drift = weights.T - np.diag(decay)
        while np.linalg.eigvals(drift).real.max() > -0.05:
            weights *= 0.7
            drift = weights.T - np.diag(decay)
    hit = (rng.random((design.n_trajectories, n)) < 0.33) if design.stimulus else None
    size = rng.normal(0.0, 1.0, (design.n_trajectories, n))
    duration, step = 20.0, 0.05
    parts = []
    for d in range(design.n_trajectories):
        x = rng.normal(size=n)
        path = np.empty((int(duration / step) + 1, n))
        path[0] = x
        for i in range(len(path) - 1):
            push = drift @ x
            if hit is not None and i * step < duration / 2:
                push = push + np.where(hit[d], size[d], 0.0)
            x = x + step * push + 0.6 * np.sqrt(step) * rng.normal(size=n)
            path[i + 1] = x
        parts.append(measured(rng, path, d, step, design, 0.1))
    frame = pd.concat(parts, ignore_index=True)
    return Simulated(frame, truth, duration / 2 if design.stimulus else None)


def measured(
    rng: np.random.Generator,
    path: np.ndarray,
    d: int,
    step: float,
    design: Design,
    scale: float = 0.03,
) -> pd.DataFrame:
    """Noisy measurements, at even or random times, some cells left out."""
    last = len(path) - 1
    if design.irregular:
        at = np.sort(rng.choice(last + 1, design.n_points, replace=False))
    else:
        at = np.linspace(0, last, design.n_points).round().astype(int)
    values = path[at] + scale * rng.normal(size=(len(at), path.shape[1]))
    values[rng.random(values.shape) < design.missing] = np.nan
    frame = pd.DataFrame(values, columns=[f"n{i:03d}" for i in range(path.shape[1])])
    frame.insert(0, "trajectory", d)
    frame.insert(1, "time", at * step)
    return frame
