"""Factors on rates: their probabilities beside numerical integration over rates, on known paths."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from asterism.sampling._along import ALL_RATES, N_KINDS, NO_FACTORS, OVER_TIME, UP_AND_DOWN
from asterism.sampling._factors import N_CELLS, FactorPrior
from asterism.sampling.model_chains import run_model_chain, start_model_chain
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup
from tests.reference.random_evidence import make_evidence

END, SHAPE, RATE = 4.0, 2.0, 1.5
A = np.array([0.7, 4.0])
PRIOR = FactorPrior(A, gammaln(A[:, None] + np.arange(3)) - gammaln(A)[:, None],
                    np.array([2.0, 0.5, 1.0, 0.2, 0.3, 0.2]))  # fmt: skip
Path = tuple[int, list[float]]


def drawn_paths(speeds: list[float], late: float) -> list[Path]:
    """A start and times of jumps per trajectory; ``late`` multiplies rates in the second half."""
    rng = np.random.default_rng(3)
    found = []
    for speed in speeds:
        time, jumps = 0.0, []
        while (time := time + rng.exponential(1.0 / (speed * (late if time > 2 else 1)))) < END:
            jumps.append(time)
        found.append((int(rng.integers(2)), jumps))
    return found


def counted(paths: list[Path]) -> np.ndarray:
    """[trajectory, part of the time, state, (jumps, time)] by small steps."""
    cells = np.zeros((len(paths), N_CELLS, 2, 2))
    for d, (state, jumps) in enumerate(paths):
        edges = sorted([0.0, *jumps, *(END * s / N_CELLS for s in range(1, N_CELLS)), END])
        for begin, end in itertools.pairwise(edges):
            part = min(N_CELLS - 1, int((begin + end) / 2 / END * N_CELLS))
            cells[d, part, state, 1] += end - begin
            if end in jumps:
                cells[d, part, state, 0] += 1
                state = 1 - state
    return cells


def exact(paths: list[Path]) -> np.ndarray:
    """[kind, shape] probabilities: rates on a grid, factors integrated over by the Gamma integral.

    Every integral over a factor is ∫ Gamma(f; a, a) f^M e^(−f u T) df, once per cell.
    """
    cells, grid = counted(paths), np.linspace(-7.0, 4.0, 300)
    rates = np.exp(grid)
    prior = stats.gamma.logpdf(rates, SHAPE, scale=1.0 / RATE) + grid
    up, down = np.meshgrid(rates, rates, indexing="ij")
    log_up, log_down = np.meshgrid(grid, grid, indexing="ij")
    whole = cells.sum(axis=(0, 1))
    base = prior[:, None] + prior[None, :] + whole[0, 0] * log_up + whole[1, 0] * log_down

    def cell(a: float, m: float, hazard: np.ndarray) -> np.ndarray:
        return a * np.log(a) + gammaln(a + m) - gammaln(a) - (a + m) * np.log(a + hazard)  # type: ignore[no-any-return]

    result = np.full((N_KINDS, len(A)), -np.inf)
    weight = np.log(PRIOR.weight)
    plain = base - up * whole[0, 1] - down * whole[1, 1]
    result[NO_FACTORS, 0] = weight[NO_FACTORS] + logsumexp(plain)
    by_trajectory, over_time = cells.sum(axis=1), cells.sum(axis=0)
    for i, a in enumerate(A):
        each = base.copy()
        for own in by_trajectory:
            each += cell(a, own[:, 0].sum(), up * own[0, 1] + down * own[1, 1])
        result[ALL_RATES, i] = weight[ALL_RATES] - np.log(len(A)) + logsumexp(each)
        spans = [over_time.reshape(n, -1, 2, 2).sum(axis=1) for n in (2, 3, 4)]
        for kind, parts in ((UP_AND_DOWN, by_trajectory), *enumerate(spans, OVER_TIME)):
            each = base.copy()
            for own in parts:
                each += cell(a, own[0, 0], up * own[0, 1]) + cell(a, own[1, 0], down * own[1, 1])
            result[kind, i] = weight[kind] - np.log(len(A)) + logsumexp(each)
    found: np.ndarray = np.exp(result - logsumexp(result))
    return found


def sampled(paths: list[Path], n_sweeps: int = 6000) -> np.ndarray:
    jumps, spans = [], []
    for d, (state, times) in enumerate(paths):
        for begin, end in itertools.pairwise([0.0, *times, END]):
            spans.append((d, 0, begin, end, state))
            if end < END:
                jumps.append((d, 0, end, 1 - state, state))
            state = 1 - state
    number = len(paths)
    evidence = make_evidence([2], [0.0] * number, [END] * number, [], jumps, spans, [], ())
    candidates = candidates_of([2], [np.array([[-1]])], [np.zeros(1)])
    choice = PriorChoice(SHAPE, RATE, [~np.eye(2, dtype=bool)], False, np.array([0.5, 0.5]))
    setup = model_setup(evidence, [2], candidates, choice, ("a",))
    setup = replace(setup, factors=PRIOR)
    chain = start_model_chain(setup, 1, 0, np.zeros(1, dtype=np.int64))
    run_model_chain(setup, chain, n_sweeps, 1, False)
    found: np.ndarray = chain.averages.factor[0] / n_sweeps
    return found


@pytest.mark.parametrize(
    ("speeds", "late"), [([1.0] * 4, 1.0), ([0.3, 2.5, 0.8, 0.3], 1.0), ([1.5] * 4, 0.3)]
)
def test_kinds_and_shapes_of_factors_are_as_probable_as_integration_says(
    speeds: list[float], late: float
) -> None:
    paths = drawn_paths(speeds, late)
    expected = exact(paths)
    assert sampled(paths) == pytest.approx(expected, abs=0.02)
