"""Simulation-based calibration (Talts et al. 2018): truths from the prior rank uniformly."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.stats import kstest

import asterism as am
from asterism.sampling._graphs import DrawnModels
from asterism.sampling.model_chains import ModelChain, run_model_chain, start_model_chain
from asterism.sampling.model_setup import (
    PriorChoice,
    all_parents,
    candidates_of,
    model_setup,
)
from asterism.sampling.sampler_arrays import AllParents, Candidates
from asterism.timeline.build import build_evidence

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
SHAPE, RATE = 2.0, 2.0
NODES = ("a", "b")
N_TRAJECTORIES, DURATION = 4, 5.0
FAMILIES = [np.array([[-1], [1]]), np.array([[-1], [0]])]
NOISE = am.Gaussian((-1.0, 1.0), 0.8)
FLIPS = [[-1.0, 1.0], [1.0, -1.0]]
#: values that are drawn from where the shape is unknown
SHAPES = (0.8, 2.0)


def time_in_one(chain: ModelChain, n: int) -> float:
    """What all present paths of a node spend in state 1."""
    total = 0.0
    for pair in range(n * N_TRAJECTORIES, (n + 1) * N_TRAJECTORIES):
        first = chain.paths.slot[pair]
        times = chain.paths.time[first : first + chain.paths.n_jumps[pair]]
        lengths = np.diff([0.0, *times, DURATION])
        total += lengths[1 - chain.paths.initial[pair] :: 2].sum()
    return float(total)


def beyond(candidates: Candidates) -> AllParents:
    """Every other node may be the parent, but is compared in some sweeps only."""
    may_be = ~np.eye(2, dtype=bool)
    found = all_parents(
        candidates, np.ones(2, dtype=np.int64), may_be, np.zeros_like(may_be), np.zeros((2, 2)),
        np.zeros((2, 2)),
    )  # fmt: skip
    return found._replace(chance=np.array([[1.0, 0.4], [0.7, 1.0]]))


def one_truth(seed: int, open_: bool) -> tuple[list[float], list[float], list[float]]:
    """Ranks in (0, 1) of rates, dwell times and jumps; P(edge) of both edges; which exist.

    ``open_``: no edge is in a candidate family, and the shape of the rates' prior is unknown.
    """
    rng = np.random.default_rng(seed)
    has = rng.random(2) < 0.5
    shape = float(rng.choice(SHAPES)) if open_ else SHAPE
    parents = {n: ([NODES[1 - i]] if has[i] else []) for i, n in enumerate(NODES)}
    rates = {}
    for n in NODES:
        # the prior mean does not depend on the shape
        table = rng.gamma(shape, size=(*[2] * len(parents[n]), 2, 2)) / (shape * RATE / SHAPE)
        table[..., [0, 1], [0, 1]] = 0.0
        rates[n] = table
    initial = {n: rng.dirichlet(np.ones(2)) for n in NODES}
    network = am.Network(parents, rates, {n: ["0", "1"] for n in NODES}, initial)
    paths = am.simulate(network, N_TRAJECTORIES, duration=DURATION, seed=seed + 10_000)
    seen = am.observe(paths, NOISE, 6, seed=seed + 20_000)
    empty = am.Network({n: [] for n in NODES}, dict.fromkeys(NODES, FLIPS), network.states)
    listed = 1 if open_ else 2
    candidates = candidates_of([2, 2], [f[:listed] for f in FAMILIES], [np.zeros(listed)] * 2)
    setup = model_setup(
        build_evidence(empty, seen, NOISE),
        [2, 2],
        candidates,
        PriorChoice(
            *(SHAPE, RATE, [~np.eye(2, dtype=bool)] * 2, True, empty.compiled.initial),
            SHAPES if open_ else (),
        ),
        NODES,
        (),
        beyond(candidates) if open_ else None,
    )
    chain = start_model_chain(setup, seed, 0, setup.candidates.start[:-1].copy())
    run_model_chain(setup, chain, 100, 0, False)
    blocks, dwelt = [], []
    for _ in range(100):
        blocks.append(run_model_chain(setup, chain, 15, 15, True))
        dwelt.append([time_in_one(chain, n) for n in range(2)])
    drawn = DrawnModels(*(np.concatenate(field) for field in zip(*blocks)))
    ranks = []
    for i, n in enumerate(NODES):
        # the rate out of state 0 while the other node is in 0: the family's first configuration
        at = setup.layout.table_start[i] + 1
        true = rates[n][(0, 0, 1) if has[i] else (0, 1)]
        ranks.append((drawn.rates[:, at] < true).mean())
    truth = paths.statistics({n: [] for n in NODES})
    for i, n in enumerate(NODES):
        ranks.append((np.array(dwelt)[:, i] < truth.dwell_times[n].ravel()[1]).mean())
    counted = float(len(paths.jump_time))
    # jumps are whole numbers: ties are broken at random
    noise = rng.uniform(-0.5, 0.5, size=len(drawn.n_jumps) + 1)
    ranks.append((drawn.n_jumps + noise[1:] < counted + noise[0]).mean())
    probability = drawn.edges.mean(axis=0)
    into = {int(c): float(probability[k]) for k, (_, c) in enumerate(setup.edges)}
    return ranks, [into[0], into[1]], has.astype(float).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("open_", [False, True])
def test_truths_rank_uniformly_and_edges_are_calibrated(open_: bool) -> None:
    n_truths = 60 if REDUCED else 300
    found = [one_truth(seed, open_) for seed in range(n_truths)]
    ranks = np.array([f[0] for f in found])
    for column in ranks.T:
        # 100 kept draws: ranks are steps of a hundredth
        jittered = np.clip(column + np.random.default_rng(0).uniform(-0.005, 0.005, n_truths), 0, 1)
        assert kstest(jittered, "uniform").pvalue > 1e-3
    probability = np.array([f[1] for f in found]).ravel()
    exists = np.array([f[2] for f in found]).ravel()
    spread = np.sqrt(np.sum(probability * (1.0 - probability)))
    assert abs(np.sum(exists - probability)) < 4.0 * spread
    # among the surer half, and among the less sure
    for half in (probability > 0.5, probability <= 0.5):
        spread = np.sqrt(np.sum((probability * (1.0 - probability))[half]))
        assert abs(np.sum((exists - probability)[half])) < 4.0 * spread
