"""Averages over many drawn paths against exact expectations."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.exact.exact_posterior import solve
from tests.reference.random_evidence import make_evidence, random_evidence, random_network
from tests.shared_data import DATA, needs

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))


def drug_network() -> am.Network:
    rates = pd.read_csv(DATA / "drug_network_cims.csv", keep_default_na=False)
    start = pd.read_csv(DATA / "drug_network_initial.csv")
    initial = {n: g["probability"].to_numpy() for n, g in start.groupby("node", sort=False)}
    parents: dict[str, list[str]] = {}
    tables: dict[str, np.ndarray] = {}
    for row in rates.itertuples(index=False):
        above = [part.split("=") for part in row.parent_state.split(";") if part]
        if row.node not in tables:
            parents[row.node] = [name for name, _ in above]
            sizes = [len(initial[n]) for n in (*parents[row.node], row.node, row.node)]
            tables[row.node] = np.zeros(sizes)
        tables[row.node][(*(int(x) for _, x in above), row[2], row[3])] = row.intensity
    return am.Network(parents, tables, initial=initial)


def flat(statistics: object, nodes: tuple[str, ...]) -> np.ndarray:
    parts = [s[n].ravel() for n in nodes for s in (statistics.dwell_times, statistics.transitions)]
    return np.concatenate(parts)


def assert_agrees(batches: np.ndarray, expected: np.ndarray, n_paths: int) -> None:
    """Means of equal batches within 4 standard errors; rare events by their Poisson variance."""
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    error = np.maximum(error, np.sqrt(np.maximum(expected, 0.0) / n_paths) * 0.05)
    assert np.all(np.abs(batches.mean(axis=0) - expected) <= 4 * error + 1e-12)


@needs("drug_network_cims.csv")
@pytest.mark.slow
def test_drug_network_paths_have_the_exact_expectations() -> None:
    network = drug_network()
    size, n_batches = 100, 100  # fewer paths would see too little of the rare transitions
    evidence = make_evidence([len(network.states[n]) for n in network.nodes], [0.0], [3.0])
    expected = flat(solve(network, evidence).statistics, network.nodes)
    batches = np.array(
        [
            flat(
                am.simulate(network, size, duration=3.0, seed=k).statistics(network), network.nodes
            )
            / size
            for k in range(n_batches)
        ]
    )
    assert_agrees(batches, expected, size * n_batches)


def test_expected_statistics_equal_averages_over_accepted_paths() -> None:
    """Rejection: keep the simulated paths that show exactly what was measured."""
    rng = np.random.default_rng(1)
    network = random_network(rng, [2, 3])
    exact = [(0, 0, 0.5, [-np.inf, 0.0]), (0, 1, 1.0, [0.0, -np.inf, -np.inf])]
    posterior = solve(network, make_evidence([2, 3], [0.0], [1.2], exact))
    expected = flat(posterior.statistics, network.nodes)
    batches, accepted, drawn = [], 0, 0
    for k in range(40):
        paths = am.simulate(network, 1500, duration=1.2, seed=k)
        states = paths.state_at(np.array([0.5, 1.0]))
        keep = np.flatnonzero((states[:, 0, 0] == 1) & (states[:, 1, 1] == 0))
        chosen = paths.select([paths.labels[d] for d in keep])
        batches.append(flat(chosen.statistics(network), network.nodes) / len(keep))
        accepted += len(keep)
        drawn += 1500
    assert_agrees(np.array(batches), expected, accepted)
    share = accepted / drawn
    spread = np.sqrt(share * (1 - share) / drawn)
    assert abs(share - np.exp(posterior.log_evidence)) < 4 * spread


@pytest.mark.parametrize("exogenous", [(), (0,)])
def test_sampled_posterior_paths_average_to_the_statistics(exogenous: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    network = random_network(rng, [2, 3, 2], exogenous=exogenous)
    posterior = solve(network, random_evidence(rng, network, n_trajectories=1))
    expected = flat(posterior.statistics, network.nodes)
    batches = []
    for k in range(30):
        paths = posterior.sample(200, seed=k)
        batches.append(flat(paths.statistics(network), network.nodes) / 200)
    assert_agrees(np.array(batches), expected, 6000)
    assert paths.labels[1] == ("patient 0", 1)
    middle = float(posterior.evidence.start[0] + 0.6)
    drawn = posterior.sample(6000, seed=99).state_at(np.array([middle]))[:, 0]
    for n, p in enumerate(posterior.courses.marginals(0, np.array([middle]))):
        share = np.bincount(drawn[:, n], minlength=p.shape[1]) / 6000
        np.testing.assert_allclose(share, p[0], atol=4 * 0.5 / np.sqrt(6000))
