"""Rates under a trend, a stimulus or factors of trajectories: draws beside exact integration.

One node with two states, noisy measurements. The integral over everything unknown is a mean over
draws from the prior, each weighed by its exact likelihood; that over the factor of a trajectory is
Gauss–Laguerre quadrature.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, roots_genlaguerre

import asterism as am
from asterism.sampling._along import ALL_RATES, MOST_SPANS, N_KINDS, OVER_TIME, UP_AND_DOWN
from asterism.sampling._factors import FactorPrior
from asterism.sampling.model_chains import run_model_chain, start_model_chain
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup
from tests.reference.random_evidence import make_evidence

END, NOISE, SHAPE, RATE = 6.0, 0.5, 2.0, 3.0
N_PRIOR_DRAWS = 150_000
WHEN = np.linspace(0.3, END - 0.3, 9)
Values = list[np.ndarray]


def measured(
    up: tuple[float, float],
    down: tuple[float, float],
    breaks: np.ndarray,
    speeds: np.ndarray | float = 1.0,
) -> Values:
    """Per trajectory noisy values; the second of the rates holds after the break."""
    rng = np.random.default_rng(11)
    found = []
    for middle, speed in zip(breaks, np.broadcast_to(speeds, len(breaks))):
        state, time, times, states = int(rng.integers(2)), 0.0, [0.0], []
        states.append(state)
        while time < END:
            rate = speed * (down if state else up)[int(time >= middle)]
            wait = rng.exponential(1.0 / rate)
            if time < middle <= time + wait:
                time = middle
                continue
            time += wait
            state = 1 - state
            times.append(time)
            states.append(state)
        seen = np.array(states)[np.searchsorted(times, WHEN, side="right") - 1]
        found.append(seen + rng.normal(0.0, NOISE, len(WHEN)))
    return found


def log_likelihood(
    values: Values, breaks: np.ndarray, up: np.ndarray, down: np.ndarray
) -> np.ndarray:
    """ln P(values) of every draw: rates [draw, before or after the break]."""
    total = np.zeros(len(up))
    for own, middle in zip(values, breaks):
        ahead = np.full((len(up), 2), 0.5)
        now = 0.0
        for time, value in zip([*WHEN, np.inf], [*own, None]):
            for until, part in ((min(time, middle), 0), (min(time, END), 1)):
                if until <= now:
                    continue
                rate = up[:, part] + down[:, part]
                moved = -np.expm1(-rate * (until - now)) / rate
                flow = moved * (ahead[:, 0] * up[:, part] - ahead[:, 1] * down[:, part])
                ahead = ahead + flow[:, None] * np.array([-1.0, 1.0])
                now = until
            if value is not None:
                ahead = ahead * stats.norm.pdf(value, [0.0, 1.0], NOISE)
        total += np.log(ahead.sum(axis=1))
    return total


def test_a_trend_has_the_rates_that_integration_says() -> None:
    breaks, shape = np.full(12, END / 2), 1.5
    values = measured((0.4, 2.0), (1.5, 0.7), breaks)
    rng = np.random.default_rng(0)
    rates = rng.gamma(SHAPE, 1.0 / RATE, size=(N_PRIOR_DRAWS, 1, 2))
    each = rates * rng.gamma(shape, 1.0 / shape, size=(N_PRIOR_DRAWS, 2, 2))
    logs = log_likelihood(values, breaks, each[:, :, 0], each[:, :, 1])
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 500.0
    exact = np.einsum("i,isx->sx", weight, np.log(each))

    logs = [np.log(factor[0, :2] * rates) for rates, factor in drawn(values, OVER_TIME, shape)]
    assert np.mean(logs, axis=0) == pytest.approx(exact, abs=0.05)


def drawn(
    values: Values, kind: int, shape: float, n_sweeps: int = 8000
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rates up and down, and factors [trajectory, span, side], where the kind is certain."""
    points = [
        (d, 0, float(t), stats.norm.logpdf(v, [0.0, 1.0], NOISE))
        for d, own in enumerate(values)
        for t, v in zip(WHEN, own)
    ]
    number = len(values)
    evidence = make_evidence([2], [0.0] * number, [END] * number, points)
    candidates = candidates_of([2], [np.array([[-1]])], [np.zeros(1)])
    choice = PriorChoice(SHAPE, RATE, [~np.eye(2, dtype=bool)], False, np.array([0.5, 0.5]))
    setup = model_setup(evidence, [2], candidates, choice, ("a",))
    a, weights = np.array([shape]), np.full(N_KINDS, 0.0)
    weights[[0, kind]] = 1e-12, 1.0
    prior = FactorPrior(a, gammaln(a[:, None] + np.arange(99)) - gammaln(a)[:, None], weights)
    setup = replace(setup, factors=prior)
    chain = start_model_chain(setup, 3, 0, np.zeros(1, dtype=np.int64))
    found = []
    for _ in range(n_sweeps):
        rate = run_model_chain(setup, chain, 1, 1, True).rates[0].reshape(2, 2)
        factor = chain.rates.factor.reshape(number, MOST_SPANS, 2).copy()
        found.append((rate[[0, 1], [1, 0]], factor))
    assert chain.rates.kind[0] == kind
    return found[500:]


@pytest.mark.parametrize("kind", [ALL_RATES, UP_AND_DOWN])
def test_trajectories_that_differ_have_the_rates_and_factors_that_integration_says(
    kind: int,
) -> None:
    number, shape, n_draws = 10, 1.5, 4_000
    speeds = np.geomspace(0.2, 4.0, number)
    values = measured((0.8, 0.8), (1.1, 1.1), np.full(number, END), speeds)
    rates = np.random.default_rng(0).gamma(SHAPE, 1.0 / RATE, size=(n_draws, 1, 2))
    at, weight = roots_genlaguerre(12, shape - 1.0)
    factor, share = np.stack([at / shape] * 2, axis=1), weight / weight.sum()
    if kind == UP_AND_DOWN:
        both = np.meshgrid(at / shape, at / shape, indexing="ij")
        factor = np.stack(both, axis=-1).reshape(-1, 2)
        share = np.outer(share, share).ravel()
    each = (rates * factor).reshape(-1, 2, 1).repeat(2, axis=2)
    whole, of_factor = np.zeros(n_draws), []
    for own in values:
        log = log_likelihood([own], np.array([END]), each[:, 0], each[:, 1])
        inside = np.exp(log).reshape(n_draws, -1) * share
        whole += np.log(inside.sum(axis=1))
        of_factor.append(inside @ factor / inside.sum(axis=1, keepdims=True))
    weight = np.exp(whole - whole.max())
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 500.0
    found = drawn(values, kind, shape, 24_000)  # unseen jumps of a fast one stay for long
    logs = np.mean([np.log(rate) for rate, _ in found], axis=0)
    assert logs == pytest.approx(weight @ np.log(rates[:, 0]), abs=0.06)
    factors = np.mean([factor[:, 0] for _, factor in found], axis=0)
    expected = np.einsum("i,dis->ds", weight, of_factor)
    assert np.ptp(expected) > 0.5
    assert factors == pytest.approx(expected, rel=0.09)


def test_a_stimulus_has_the_targets_and_rates_that_integration_says() -> None:
    rng = np.random.default_rng(2)
    breaks = rng.uniform(1.0, 5.0, 10)
    values = measured((0.5, 1.3), (1.0, 0.8), breaks)
    rates = rng.gamma(SHAPE, 1.0 / RATE, size=(N_PRIOR_DRAWS, 2, 2))
    logs = np.stack(
        [
            log_likelihood(values, breaks, each[:, :, 0], each[:, :, 1])
            for each in (np.repeat(rates[:, :1], 2, axis=1), rates)
        ]
    )
    weight = np.exp(logs - logs.max())
    assert (weight[1].sum() ** 2 / (weight[1] ** 2).sum()) > 500.0
    chance = weight.sum(axis=1) / weight.sum()
    exact = np.einsum("i,isx->sx", weight[1] / weight[1].sum(), rates)

    frame = pd.DataFrame(
        [(d, t, v) for d, own in enumerate(values) for t, v in zip(WHEN, own)],
        columns=["trajectory", "time", "A"],
    )
    told = pd.DataFrame(
        {"name": "drug", "trajectory": range(len(values)), "start": breaks, "end": END}
    )
    seen = am.Observations.from_frame(frame, start=0.0, end=END).with_stimuli(told)
    learners = [
        am.StructureLearner(
            am.Gaussian((0.0, 1.0), NOISE),
            method="sample",
            prior=am.GammaPrior(SHAPE, RATE),
            structure_prior=am.StructurePrior("uniform"),
            initial="uniform",
            threshold=1e-6,
            sampling=am.Sampling(chains=2),
            random_state=seed,
            n_jobs=1,
        ).fit(seen)
        for seed in range(8)
    ]
    assert 0.05 < chance[1] < 0.95
    hit = [float(one.targets_["probability"].iloc[0]) for one in learners]
    assert np.mean(hit) == pytest.approx(chance[1], abs=0.03)
    tables = [np.asarray(one.network_.rates["A"]) for one in learners]
    found = np.mean([[table[:, 0, 1], table[:, 1, 0]] for table in tables], axis=0).T
    assert found == pytest.approx(exact, rel=0.05)
