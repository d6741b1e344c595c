"""Geweke's joint test ("getting it right") of the sampler over graphs, rates, starts and paths.

Two ways to draw parameters and data jointly must agree: from the prior forwards, and by turns "data
given parameters and paths" and "one sweep given data". Whatever is wrong in a sweep pulls the
second away from the prior. Data of every kind: noisy points, joint measurements, windows of
continuous observation with their jumps, an exogenous node.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from asterism.evidence.arrays import JointMeasurement
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.model_chains import ModelChain, run_model_chain, start_model_chain
from asterism.sampling.model_setup import (
    LearnedEmission,
    ModelSetup,
    PriorChoice,
    candidates_of,
    model_setup,
)
from asterism.sampling.sampler_setup import seen_of
from tests.reference.random_evidence import make_evidence

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
SIZES = [2, 3, 2]
INPUT = 2
TIMES = [0.3, 1.1, 1.9]
END = 2.5
N_TRAJECTORIES = 2
SHAPE, RATE = 2.0, 2.0
NOISE = 1.0
JOINT = np.log(np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]))
"""P(value 0 | states of nodes 0 and 1) up to a factor; value 1 is the complement."""


def path_of(chain: ModelChain, d: int, n: int) -> tuple[int, np.ndarray, np.ndarray]:
    pair = d * len(SIZES) + n
    first, count = int(chain.paths.slot[pair]), int(chain.paths.n_jumps[pair])
    own = slice(first, first + count)
    return int(chain.paths.initial[pair]), chain.paths.time[own], chain.paths.state[own]


def state_at(path: tuple[int, np.ndarray, np.ndarray], time: float) -> int:
    i = int(np.searchsorted(path[1], time, side="right"))
    return path[0] if i == 0 else int(path[2][i - 1])


def draw_evidence(rng, chain, means, scale):
    """New data given the present paths; without a chain, data that say nothing."""
    points, joint, jumps, spans, values = [], [], [], [], []
    for d in range(N_TRAJECTORIES):
        spans += [(d, INPUT, 0.0, 1.3, d % 2), (d, INPUT, 1.3, END, (d + 1) % 2)]
        watched = int(rng.integers(2))
        a, b = np.sort(rng.uniform(0.0, END, size=2))
        for n in (0, 1):
            path = None if chain is None else path_of(chain, d, n)
            for t in TIMES:
                logs = np.zeros(SIZES[n])
                value = 0.0
                if path is not None:
                    value = means[n][state_at(path, t)] + scale[n] * rng.normal()
                    logs = -0.5 * ((value - means[n]) / scale[n]) ** 2
                points.append((d, n, t, logs))
                values.append((d, n, t, value))
            if path is not None and n == watched:
                inside = [(t, int(y)) for t, y in zip(path[1], path[2]) if a < t < b]
                x, begin = state_at(path, a), a
                for t, y in inside:
                    spans.append((d, n, begin, t, x))
                    # every second jump: the state before it is not recorded
                    jumps.append((d, n, t, y, x if len(jumps) % 2 else -1))
                    x, begin = y, t
                spans.append((d, n, begin, b, x))
        if chain is not None:
            t = float(rng.uniform(0.0, END))
            x = [state_at(path_of(chain, d, n), t) for n in (0, 1)]
            p = np.exp(JOINT)
            table = p if rng.random() < p[x[0], x[1]] else 1.0 - p
            joint.append(JointMeasurement(d, t, (0, 1), np.log(table)))
    evidence = make_evidence(
        SIZES, [0.0] * N_TRAJECTORIES, [END] * N_TRAJECTORIES, points, jumps, spans, joint,
        (INPUT,),
    )  # fmt: skip
    return evidence, np.array([v[3] for v in sorted(values, key=lambda v: v[:3])])


def setup_of(evidence, emissions=()) -> ModelSetup:
    families = [
        np.array([[-1, -1], [1, -1], [2, -1], [1, 2]]),
        np.array([[-1, -1], [0, -1], [2, -1], [0, 2]]),
        np.array([[-1, -1]]),
    ]
    log_prior = [np.log([0.4, 0.3, 0.1, 0.2]), np.log([0.25] * 4), np.zeros(1)]
    # the middle state of node 1 is left only upwards
    climbing = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 0]], dtype=bool)
    allowed = [~np.eye(2, dtype=bool), climbing, ~np.eye(2, dtype=bool)]
    initial = np.concatenate([np.full(s, 1.0 / s) for s in SIZES])
    return model_setup(
        evidence,
        SIZES,
        candidates_of(SIZES, families, log_prior),
        PriorChoice(SHAPE, RATE, allowed, True, initial),
        ("a", "b", "c"),
        emissions,
    )


def successive_draws(n_sweeps: int, learned: bool, seed: int) -> dict[str, np.ndarray]:
    """By turns new data and one sweep; series of everything unknown."""
    rng = np.random.default_rng(seed)
    means = [np.array([-1.0, 1.0]), np.array([-2.0, 0.0, 2.0])]
    scale = [NOISE, NOISE]
    evidence, _ = draw_evidence(rng, None, means, scale)
    emissions = []
    if learned:
        import asterism as am

        rows = np.flatnonzero(evidence.points.node == 0)
        emissions = [
            LearnedEmission(
                0, am.Gaussian((-1.0, 1.0), 1.0), np.zeros(len(rows)), evidence.points.offset[rows]
            )
        ]
    setup = setup_of(evidence, emissions)
    # a proper prior that does not look at the data
    setup.emitted.prior[0] = 0.0, 0.5, 3.0, 3.0
    chain = start_model_chain(setup, seed, 0, setup.candidates.start[:-1].copy())
    kept = []
    for _ in range(n_sweeps):
        if learned:
            means[0] = chain.emitted.parameter[:2].copy()
            scale[0] = float(chain.emitted.parameter[2])
        evidence, values = draw_evidence(rng, chain, means, scale)
        chain.seen = seen_of(evidence, np.array(SIZES))
        if learned:
            chain.emitted.value[: len(values)] = values
        drawn = run_model_chain(setup, chain, 1, 1, True)
        a, b = chain.room.place[0], chain.room.place[1]
        rate = drawn.rates[0]
        # the first configuration exists in every family
        first, second = setup.layout.table_start[:2]
        kept.append(
            [
                *(np.log(rate[first + np.array([1, 2])])),
                *(np.log(rate[second + np.array([1, 2, 5, 6, 7])])),
                *((a - setup.candidates.start[0]) == np.arange(4)),
                *((b - setup.candidates.start[1]) == np.arange(4)),
                *drawn.initial[0][:4],
                *drawn.initial[0][:4] ** 2,
                *drawn.emission[0],
                *np.log(drawn.emission[0][2:3]),
            ]
        )
    return np.array(kept, dtype=float)


def prior_means(learned: bool) -> np.ndarray:
    log_rate = digamma(SHAPE) - np.log(RATE)
    expected = [log_rate] * 7 + [0.4, 0.3, 0.1, 0.2] + [0.25] * 4
    expected += [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 6, 1 / 6]
    if learned:
        rng = np.random.default_rng(0)
        sigma = np.sqrt(3.0 / rng.gamma(3.0, size=1_000_000))
        means = np.sort(sigma[:, None] * rng.normal(size=(1_000_000, 2)) / np.sqrt(0.5), axis=1)
        mean = means.mean(axis=0)
        expected += [mean[0], mean[1], sigma.mean(), sigma.mean(), np.log(sigma).mean()]
    return np.array(expected)


@pytest.mark.parametrize("learned", [False, True], ids=["known noise", "learned noise"])
def test_sweeps_leave_the_prior_as_it_is(learned: bool) -> None:
    n_sweeps = 2500
    found = successive_draws(n_sweeps, learned, seed=5)[100:]
    error = monte_carlo_error(found[None])
    z = (found.mean(axis=0) - prior_means(learned)) / np.maximum(error, 1e-9)
    assert np.abs(z).max() < 4.0, np.round(z, 1)
    spread = np.std(found[:, :7], axis=0)
    assert np.allclose(spread, np.sqrt(polygamma(1, SHAPE)), atol=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("learned", [False, True], ids=["known noise", "learned noise"])
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_long_runs_leave_the_prior_as_it_is(learned: bool, seed: int) -> None:
    found = successive_draws(5_000 if REDUCED else 30_000, learned, seed=100 + seed)[100:]
    error = monte_carlo_error(found[None])
    z = (found.mean(axis=0) - prior_means(learned)) / np.maximum(error, 1e-9)
    assert np.abs(z).max() < 4.0, np.round(z, 1)
