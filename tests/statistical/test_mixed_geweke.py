"""Geweke's test of the sampler of mixed and quadratic networks.

Paths and values drawn together from the model, and by turns (a sweep given the values, values given
the paths), must have the same moments: a wrong conditional of any kind of node shifts them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from asterism.continuous import _mixed as compiled
from asterism.continuous.mixed import model_arrays, noise_variance
from asterism.continuous.simulate import simulate
from asterism.model.drift import Drift
from asterism.numerics._random_stream import new_stream
from asterism.sampling.diagnose import monte_carlo_error
from tests.drift_network import JumpRates, drift_network

N_DRAWS = 8_000 if os.environ.get("ASTERISM_REDUCED") else 60_000
RATES = [[0.0, 0.7], [0.5, 0.0]]
NETWORKS = {
    "a jumping parent of a continuous child": drift_network(
        {"x": Drift(0.8, 0.6, 0.1, shifts={"s": (-1.0, 1.0)}, noise_sd=0.5)},
        {"s": JumpRates(RATES, initial=[0.7, 0.3])},
    ),
    "a continuous parent of a jumping child": drift_network(
        {"x": Drift(0.8, 0.9, 0.1, noise_sd=0.5)},
        {"s": JumpRates(RATES, {"x": [[0.0, 1.5], [-1.0, 0.0]]})},
    ),
    "a quadratic child": drift_network(
        {
            "x": Drift(0.8, 0.9, 0.3, noise_sd=0.5),
            "y": Drift(1.0, 0.6, linear={"x": 0.8}, quadratic={"x": 0.4}, noise_sd=0.3),
        }
    ),
    "jumping parents of jumping and continuous children": drift_network(
        {"x": Drift(0.8, 0.6, shifts={"s": (0.0, 0.8, -0.8), "t": (0.0, 0.7)}, noise_sd=0.5)},
        {
            "t": JumpRates(RATES, {"x": -0.8}),
            "s": JumpRates(
                [
                    [[0.0, 0.9, 0.1], [0.2, 0.0, 0.3], [0.5, 0.5, 0.0]],
                    [[0.0, 0.1, 0.8], [0.9, 0.0, 0.6], [0.2, 0.0, 0.0]],
                ],
                parents=("t",),
            ),
        },
    ),
}
#: grid points, and those at which there are measurements
TIMES = np.linspace(0.0, 6.0, 16)
MEASURED = np.array([3, 8, 15])
CLEAR = 1.5  # log odds of what is seen of a jumping node


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_by_turns_as_together(name: str) -> None:
    network = NETWORKS[name]
    n_draws, n_moving = N_DRAWS, len(network.drifts)
    # one step between two times, as the sampler takes them
    together = simulate(network, TIMES, n_draws, seed=1, time_step=10.0)
    model, noise = model_arrays(network), noise_variance(network)
    rng = np.random.default_rng(2)
    x = together[0, :, :n_moving].copy()
    s = together[0, :, n_moving:].astype(np.int64)
    stream = new_stream(np.array([3, 4], dtype=np.uint64), 0)
    widest = model.rates.shape[2]
    kept = np.empty((1, len(TIMES), together.shape[2]))
    everywhere = np.arange(len(TIMES))
    sums, counts = np.zeros((2, *x.shape)), np.zeros((len(TIMES), s.shape[1], widest))
    drawn = np.empty_like(together)
    for i in range(n_draws):
        weight, pull = np.zeros(x.shape), np.zeros(x.shape)
        weight[MEASURED] = 1.0 / noise
        values = x[MEASURED] + np.sqrt(noise) * rng.normal(size=(len(MEASURED), n_moving))
        pull[MEASURED] = values / noise
        logs = np.zeros(counts.shape)
        for m in range(s.shape[1]):
            size = model.n_states[m]
            for k in MEASURED:
                chance = np.exp(CLEAR * (np.arange(size) == s[k, m]))
                logs[k, m, rng.choice(size, p=chance / chance.sum())] = CLEAR
        seen = compiled.Seen(np.diff(TIMES), weight, pull, logs)
        assert compiled.sweeps(model, seen, x, s, 1, False, everywhere, stream, kept, sums, counts)
        drawn[i] = kept[0]
    moments = (
        lambda v: v,
        lambda v: v**2,
        lambda v: v[..., :1] * v,
        lambda v: v[:, :-1, :1] * v[:, 1:],
        lambda v: v[:, 1:, :1] * v[:, :-1],
        lambda v: v[:, :-1, 1:] * v[:, 1:, 1:],
        lambda v: v[:, :-1, :1] ** 2 * v[:, 1:],
    )
    for moment in moments:
        one, two = (moment(v).reshape(n_draws, -1) for v in (together, drawn))
        error = np.hypot(one.std(axis=0) / np.sqrt(n_draws), monte_carlo_error(two[None]))
        z = (one.mean(axis=0) - two.mean(axis=0))[error > 0] / error[error > 0]
        assert np.abs(z).max() < 4.5, np.abs(z).max()
