"""Graphs that are drawn, beside the exact posterior over all 64 graphs of three nodes.

The exact one, plainly: rates are drawn from their prior, the likelihood of the measurements follows
from the joint chain of eight states, and its mean over the draws is the evidence of a graph. Few
measurements keep the error of that small.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.model_chains import run_model_chain, start_model_chain
from asterism.sampling.model_setup import PriorChoice, all_parents, candidates_of, model_setup
from asterism.timeline.build import build_evidence

NODES = ("A", "B", "C")
OTHERS = [(1, 2), (0, 2), (0, 1)]
#: none, either parent, both: as rows of node numbers
FAMILIES = [np.array([[-1, -1], [a, -1], [b, -1], [a, b]]) for a, b in OTHERS]
GRAPHS = list(product(range(4), repeat=3))
NOISE = am.Gaussian((-1.0, 1.0), 0.5)
SHAPE, RATE = 1.0, 1.0
GAP, N_TIMES, N_TRAJECTORIES = 0.7, 5, 2
N_DRAWS = 4_000
STATES = np.array(list(product((0, 1), repeat=3)))


def measured() -> am.Observations:
    truth = {"A": [], "B": ["A"], "C": ["B"]}
    rates = {"A": [[-0.5, 0.5], [0.5, -0.5]]}
    for child in ("B", "C"):
        rates[child] = [[[-0.1, 0.1], [4.0, -4.0]], [[-4.0, 4.0], [0.1, -0.1]]]
    network = am.Network(truth, rates, {n: ["0", "1"] for n in NODES})
    times = GAP * np.arange(N_TIMES)
    paths = am.simulate(network, N_TRAJECTORIES, duration=float(times[-1]), seed=4)
    return am.observe(paths, NOISE, times=times, seed=5)


def evidence_of(graph: tuple[int, ...], table: np.ndarray, seed: int) -> tuple[float, float]:
    """P(Y | graph) up to a factor of all graphs, and its standard error.

    ``table`` (trajectory, time, joint state) are the likelihoods of the measurements.
    """
    rng = np.random.default_rng(seed)
    q = np.zeros((N_DRAWS, 8, 8))
    for n, family in enumerate(graph):
        above = [int(p) for p in FAMILIES[n][family] if p >= 0]
        rates = rng.gamma(SHAPE, size=(N_DRAWS, 2 ** len(above), 2)) / RATE
        config = sum((STATES[:, p] * 2**k for k, p in enumerate(above)), np.zeros(8, dtype=int))
        flipped = np.arange(8) ^ (4 >> n)
        q[:, np.arange(8), flipped] = rates[:, config, STATES[:, n]]
    q[:, np.arange(8), np.arange(8)] = -q.sum(axis=2)
    step = expm(GAP * q)
    alpha = np.full((N_DRAWS, N_TRAJECTORIES, 8), 1 / 8) * table[:, 0]
    for k in range(1, N_TIMES):
        alpha = (alpha @ step) * table[:, k]
    seen = alpha.sum(axis=2).prod(axis=1)
    return float(seen.mean()), float(seen.std() / np.sqrt(N_DRAWS))


@pytest.fixture(scope="module")
def exact() -> tuple[am.Observations, np.ndarray, np.ndarray]:
    """The data, the probability of each graph, and its error."""
    seen = measured()
    frame = seen.to_frame().sort_values(["trajectory", "time"])
    values = frame[list(NODES)].to_numpy().reshape(N_TRAJECTORIES, N_TIMES, 3)
    levels = np.array(NOISE.means)[STATES]
    logs = -0.5 * (((values[:, :, None] - levels) / NOISE.scale) ** 2).sum(axis=-1)
    table = np.exp(logs - logs.max(axis=-1, keepdims=True))
    found = np.array([evidence_of(g, table, seed) for seed, g in enumerate(GRAPHS)])
    return seen, found[:, 0] / found[:, 0].sum(), found[:, 1] / found[:, 0].sum()


@pytest.mark.parametrize("listed", [4, 1])
def test_graphs_as_often_as_they_are_probable(
    exact: tuple[am.Observations, np.ndarray, np.ndarray], listed: int
) -> None:
    """With all families as candidates, and with one, where the others are reached by exchanges."""
    seen, expected, expected_error = exact
    assert 0.02 < expected.max() < 0.7, "the data should say something, and not all"
    own = [f[:listed] for f in FAMILIES]
    candidates = candidates_of([2, 2, 2], own, [np.zeros(listed)] * 3)
    beyond = None
    if listed < 4:
        none = np.zeros((3, 3))
        may_be, most = ~np.eye(3, dtype=bool), np.full(3, 2)
        beyond = all_parents(candidates, most, may_be, none.astype(bool), none, none)
        # each parent is compared in some sweeps only
        beyond = beyond._replace(chance=np.array([[1, 0.5, 0.7], [0.4, 1, 1], [0.6, 0.3, 1.0]]))
    empty = am.glauber({n: [] for n in NODES})
    setup = model_setup(
        build_evidence(empty, seen, NOISE),
        [2, 2, 2],
        candidates,
        PriorChoice(*(SHAPE, RATE, [~np.eye(2, dtype=bool)] * 3, False, empty.compiled.initial)),
        NODES,
        (),
        beyond,
    )
    series = []
    for number in range(2):
        chain = start_model_chain(setup, 1, number, setup.candidates.start[:-1].copy())
        run_model_chain(setup, chain, 300, 0, False)
        drawn = run_model_chain(setup, chain, 12_000, 1, False)
        # a family by the parents it has: 1 for the first of the others, 2 for the second
        has = [
            (drawn.parents[:, n] == a).any(axis=1) + 2 * (drawn.parents[:, n] == b).any(axis=1)
            for n, (a, b) in enumerate(OTHERS)
        ]
        series.append(16 * has[0] + 4 * has[1] + has[2])
    graphs = np.stack(series)
    each = (graphs[..., None] == np.arange(64)).astype(float)
    error = np.hypot(monte_carlo_error(each), expected_error)
    gap = each.mean(axis=(0, 1)) - expected
    assert np.all(np.abs(gap) <= 4.0 * error + 5e-4), np.round(gap / error, 1)
    families = np.array(GRAPHS)
    for n in range(3):
        for bit in (1, 2):  # the edges
            holds = (families[:, n] & bit) > 0
            wide = np.hypot(
                float(monte_carlo_error(each[..., holds].sum(axis=-1)[..., None])[0]),
                float(np.sqrt((expected_error[holds] ** 2).sum())),
            )
            assert abs(gap[holds].sum()) <= 4.0 * wide + 2e-3
