"""Paths of networks of continuous and jumping nodes.

Linear networks are drawn exactly, however long the steps. Otherwise time is cut into small steps:
within a step every continuous node takes an exact step of its own OU process, its parents held, and
a jumping node leaves its state with the probability that its held rates give.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asterism.continuous.kalman import transition
from asterism.continuous.network import is_linear, jump_rates, jumping, slopes, start
from asterism.continuous.series import FloatArray
from asterism.model.network import Network

#: steps per shortest time that a node needs to relax or jump
_STEPS_PER_RELAXATION = 20.0
#: Continuous parents make steps shorter by at most this factor: their rare extremes, at which a
#: node jumps more often than once per step, need not be followed.
_MOST_FASTER = 8.0


def simulate(
    network: Network,
    times: Sequence[float] | FloatArray,
    n_trajectories: int = 1,
    seed: int = 0,
    *,
    time_step: float | None = None,
) -> FloatArray:
    """(D, T, N) values at ascending times from the start, continuous nodes first.

    Jumping nodes have the numbers of their states.
    """
    at = np.asarray(times, dtype=np.float64)
    rng = np.random.default_rng(seed)
    if is_linear(network):
        return _exact_paths(network, at, n_trajectories, rng)
    step = time_step or default_step(network)
    return _stepped_paths(network, at, n_trajectories, rng, step)


def default_step(network: Network) -> float:
    """A step in which nothing changes much."""
    fastest = [d.decay for d in network.drifts.values()]
    usual = np.array(
        [
            abs(d.baseline) / d.decay + 2.0 * d.diffusion / np.sqrt(2.0 * d.decay)
            for d in network.drifts.values()
        ]
    )
    for n in jumping(network):
        faster = np.exp(np.minimum(np.tensordot(usual, np.abs(slopes(network, n)), 1), 50.0))
        rates = jump_rates(network, n) * np.minimum(faster, _MOST_FASTER)
        fastest.append(float(rates.sum(axis=-1).max()))
    return 1.0 / (_STEPS_PER_RELAXATION * max(fastest))


def _exact_paths(
    network: Network, times: FloatArray, n: int, rng: np.random.Generator
) -> FloatArray:
    mean, covariance = start(network)
    x = mean + np.sqrt(np.diag(covariance)) * rng.normal(size=(n, len(mean)))
    path = [x]
    for gap in np.diff(times):
        forward, offset, spread = transition(network, float(gap))
        values, vectors = np.linalg.eigh(spread)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        x = x @ forward.T + offset + rng.normal(size=x.shape) @ root.T
        path.append(x)
    return np.array(path).transpose(1, 0, 2)


def _stepped_paths(
    network: Network, times: FloatArray, n: int, rng: np.random.Generator, step: float
) -> FloatArray:
    """All trajectories side by side, (D, T, N)."""
    drifts, jumps = list(network.drifts.values()), jumping(network)
    names = list(network.drifts)
    decay = np.array([d.decay for d in drifts])
    diffusion = np.array([d.diffusion for d in drifts])
    baseline = np.array([d.baseline for d in drifts])
    linear = np.array([[d.linear.get(m, 0.0) for d in drifts] for m in names])
    quadratic = np.array([[d.quadratic.get(m, 0.0) for d in drifts] for m in names])
    shifts = [(i, m, np.array(v)) for i, d in enumerate(drifts) for m, v in d.shifts.items()]
    rates = {m: jump_rates(network, m) for m in jumps}
    steering = {m: slopes(network, m) for m in jumps}
    mean, covariance = start(network)
    x = mean + np.sqrt(np.diag(covariance)) * rng.normal(size=(n, len(mean)))
    state = {m: rng.choice(len(network.states[m]), size=n, p=network.initial[m]) for m in jumps}
    path = [np.column_stack([x, *state.values()])]
    for gap in np.diff(times):
        n_steps = max(1, int(np.ceil(gap / step)))
        h = gap / n_steps
        a = np.exp(-decay * h)
        kick = diffusion * np.sqrt((1.0 - a * a) / (2.0 * decay))
        for _ in range(n_steps):
            push = baseline + x @ linear + (x * x) @ quadratic
            for i, parent, by_state in shifts:
                push[:, i] += by_state[state[parent]]
            moved = a * x + push / decay * (1.0 - a) + kick * rng.normal(size=x.shape)
            after = {}
            for m in jumps:
                above = tuple(state[p] for p in network.jumping_parents(m))
                log_factor = np.einsum("nc,cns->ns", x, steering[m][:, state[m]])
                leave = rates[m][(*above, state[m])] * np.exp(log_factor)
                total = leave.sum(axis=1)
                goes = rng.random(n) < -np.expm1(-total * h)
                reached = np.cumsum(leave, axis=1) > (rng.random(n) * total)[:, None]
                after[m] = np.where(goes, reached.argmax(axis=1), state[m])
            x, state = moved, after
        path.append(np.column_stack([x, *state.values()]))
    return np.array(path, dtype=np.float64).transpose(1, 0, 2)
