"""Means over paths drawn from star and mean-field posteriors against their own m, M and T."""

from __future__ import annotations

import os

import numpy as np
import pytest

from asterism.engine.rules.star import solve
from asterism.inference.posterior import Posterior
from tests.agreement.test_path_sampling import statistics_by_batch
from tests.reference.random_evidence import random_evidence, random_network

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
N_BATCHES = 40


def own_statistics(posterior: Posterior) -> np.ndarray:
    """The posterior's transitions and dwell times, summed over parent configurations."""
    nodes = posterior.network.nodes
    found = posterior.statistics
    parts = [found.transitions[n] for n in nodes]
    rows = [p.reshape(-1, *p.shape[-2:]).sum(axis=0).ravel() for p in parts]
    parts = [found.dwell_times[n] for n in nodes]
    rows += [p.reshape(-1, p.shape[-1]).sum(axis=0) for p in parts]
    return np.concatenate(rows)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("seed", range(2 if REDUCED else 8))
def test_independent_draws_average_to_marginals_transitions_and_dwell_times(
    method: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, [2, 3, 2, 2])
    evidence = random_evidence(rng, network, n_trajectories=2)
    posterior = solve(network, evidence, method=method)
    each = 200 if REDUCED else 1000
    found = statistics_by_batch(posterior, "marginal", N_BATCHES, each)
    expected = own_statistics(posterior)
    error = found.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)
    # rare transitions: not less than their Poisson error
    error = np.maximum(error, 0.2 * np.sqrt(expected / (N_BATCHES * each)))
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4.5 * error + 1e-9)
    n = 20 * each
    paths = posterior.sample(n, seed=1000)
    for d in range(2):
        times = np.linspace(evidence.start[d], evidence.end[d], 7)
        mine = paths.select([label for label in paths.labels if label[0] == f"patient {d}"])
        states = mine.state_at(times)
        for k, p in enumerate(posterior.courses.marginals(d, times)):
            for x in range(p.shape[1]):
                share = (states[:, :, k] == x).mean(axis=0)
                spread = np.sqrt(p[:, x] * (1.0 - p[:, x]) / n)
                assert np.all(np.abs(share - p[:, x]) < 4.5 * spread + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_network_draws_stay_near_the_stars_marginals(seed: int) -> None:
    """No more is promised; with these moderate couplings they are within a tenth."""
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng, [2, 3, 2])
    evidence = random_evidence(rng, network, n_trajectories=1)
    posterior = solve(network, evidence)
    times = np.linspace(evidence.start[0], evidence.end[0], 7)
    states = posterior.sample(4000, kind="network", seed=0).state_at(times)
    for k, p in enumerate(posterior.courses.marginals(0, times)):
        for x in range(p.shape[1]):
            assert np.all(np.abs((states[:, :, k] == x).mean(axis=0) - p[:, x]) < 0.1)
