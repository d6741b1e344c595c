"""The sampler of graphs of continuous nodes: dense scores, and Geweke's test of every conditional.

Parameters, paths and values drawn together from the prior, and by turns (a sweep given the values,
values given the paths), must have the same moments: a wrong conditional shifts some.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from asterism.continuous import sampled
from asterism.continuous.family_score import Grids
from asterism.continuous.series import Stimulus
from asterism.sampling.diagnose import monte_carlo_error
from tests.continuous_series import series_from_frame
from tests.reference import continuous_sampler as reference

N_DRAWS = 20_000 if os.environ.get("ASTERISM_REDUCED") else 60_000
GRIDS = Grids(decay=(0.5, 1.5), noise=(0.0,), stimulus=(0.0, 1.0))
RHOS = np.array([[0.0], [1.0]])
#: narrower than the sampler's own, so that moments exist
PRIOR, SIZES, START = (5.0, 2.0, 5.0, 1.0, 0.5), (0.05, 0.2), 0.5
#: A and B move, S holds labels; each set of parents with its ln prior
FAMILIES = {
    0: [(), (1,), (2,), (1, 2)],
    1: [(), (0,), (2,)],
}


def make_setup(quadratic: bool = True):
    rng = np.random.default_rng(0)
    parts = []
    for d, times in enumerate(([0.0, 0.8, 1.2, 2.2, 3.0], [0.0, 0.4, 1.4, 2.0])):
        part = pd.DataFrame({"trajectory": f"t{d}", "time": times})
        part["A"], part["B"] = rng.normal(size=(2, len(times)))
        part.loc[2, "A"] = np.nan
        part["S"] = ["x", "y", "z", "x", "y"][: len(times)]
        parts.append(part)
    series = series_from_frame(pd.concat(parts, ignore_index=True))
    unit = series.time_unit
    every = np.arange(2)
    stimulus = Stimulus("heat", every, np.full(2, -np.inf), np.array([1.0, 1.4]))
    series = series.with_stimuli([stimulus])
    families = {}
    for child, sets in FAMILIES.items():
        rows = np.full((len(sets), 2), -1, dtype=np.int64)
        for row, own in zip(rows, sets):
            row[: len(own)] = own
        families[child] = (rows, np.log(np.arange(1.0, len(sets) + 1.0)))
    setup = sampled.continuous_setup(series, GRIDS, families, RHOS, quadratic=quadratic)
    frame = setup.frame._replace(prior=np.array(PRIOR), sizes=np.array(SIZES))
    assert unit > 0.0
    return replace(setup, frame=frame, start_variance=START)


def pieces(setup, k):
    """Times, labels and stimuli by trajectory, for the reference."""
    frame = setup.frame
    bounds = list(zip(frame.first[:-1], frame.first[1:]))
    steps = [frame.step[a:b] for a, b in zip(frame.block[:-1], frame.block[1:])]
    times = [np.append(0.0, np.cumsum(step)) for step in steps]
    return bounds, times, [frame.held[a:b, k] for a, b in bounds]


def columns_of(setup, x, family, bent, a, b):
    """φ of the parents at the beginning of all steps of one trajectory."""
    own = []
    for parent in family:
        if parent == 2:
            own += [(setup.frame.held[a : b - 1, 0] == s).astype(float) for s in (1, 2)]
        else:
            own += [x[a : b - 1, parent] ** p for p in ((1, 2) if bent else (1,))]
    return np.array(own).reshape(-1, b - 1 - a).T


@pytest.mark.parametrize("quadratic", [True, False])
def test_families_as_by_dense_integration(quadratic: bool) -> None:
    setup = make_setup(quadratic)
    chain = sampled._start(setup, 3, 0)
    bounds, times, on = pieces(setup, 1)
    for _ in range(5):
        x = chain.present.x.copy()
        sampled._forget(setup, chain)
        sampled.run_chain(setup, chain, 1, 0)
        now = chain.present
        for i, sets in FAMILIES.items():
            own = setup.frame
            lam, size = own.decays[now.decay[i]], own.sizes[now.size[i]]
            logs = []
            for number, family in enumerate(sets):
                shapes = []
                for bent in (False, True):
                    if bent and (not quadratic or not set(family) - {2}):
                        continue
                    design = [columns_of(setup, x, family, bent, a, b) for a, b in bounds]
                    path = [x[a:b, i] for a, b in bounds]
                    marks = [states[:-1, None] for states in on]
                    rho = own.strengths[now.strength[i]]
                    arguments = (times, path, design, marks, lam, rho, size, PRIOR)
                    shapes.append(reference.log_evidence(*arguments))
                logs.append(np.logaddexp.reduce(shapes) - np.log(len(shapes)) + np.log(1 + number))
            expected = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
            found = chain.averages.family[setup.choices.start[i] : setup.choices.start[i + 1]]
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def drawn_from_prior(rng, setup):
    """Numbers of both nodes as the reference wants them, and where they lie in the grids."""
    nodes, places = {}, []
    for i, sets in FAMILIES.items():
        chance = np.arange(1.0, len(sets) + 1.0)
        number = rng.choice(len(sets), p=chance / chance.sum())
        family = sets[number]
        bent = bool(set(family) - {2}) and rng.random() < 0.5
        decay, strength, size = rng.integers(2, size=3)
        variance = PRIOR[1] / rng.gamma(PRIOR[0])
        scale = np.sqrt(SIZES[size] * variance)
        widths = {p: 2 if p == 2 or bent else 1 for p in family}
        nodes[i] = {
            "decay": GRIDS.decay[decay],
            "variance": variance,
            "noise": PRIOR[3] / rng.gamma(PRIOR[2]),
            "intercept": np.sqrt(PRIOR[4] * variance) * rng.normal(),
            "weights": {p: scale * rng.normal(size=w) for p, w in widths.items()},
            "pushes": {"heat": np.sqrt(variance * RHOS[strength, 0]) * rng.normal(size=2)},
        }
        places.append((number, int(bent), decay, strength, size))
    return nodes, places


def summary(places, numbers, x, y):
    """Bounded functions of everything: a rare explosion must not decide."""
    places = np.array(places)
    picked = [places[:, 0] == f for f in range(4)]
    squares = np.tanh(np.square(numbers))
    flat = [np.ravel(v) for v in (*picked, places[:, 1:], np.tanh(numbers), squares)]
    ends = np.tanh(np.array([x[0, :], x[5, :], x[-1, :], x[5] * x[6], x[5] * x[6, ::-1]]))
    return np.concatenate([*flat, np.ravel(ends), np.tanh(y[:2])]).astype(float)


@pytest.mark.slow
def test_by_turns_as_together() -> None:
    setup = make_setup()
    rng = np.random.default_rng(1)
    _, times, on = pieces(setup, 1)
    labels = [{2: states} for states in pieces(setup, 0)[2]]
    stimuli = [{"heat": states} for states in on]
    seen = np.argwhere(setup.frame.measured > 0)

    def prior():
        nodes, places = drawn_from_prior(rng, setup)
        paths = reference.simulated(rng, nodes, times, labels, stimuli, START)
        x = np.concatenate([np.stack([p[0], p[1]], axis=1) for p in paths])
        return nodes, places, x

    def numbers_of(nodes):
        rows = []
        for own in nodes.values():
            total = sum(float(np.sum(np.abs(w))) for w in own["weights"].values())
            first = sum(float(w[0]) for w in own["weights"].values())
            level = (np.log(own["variance"]), np.log(own["noise"]), own["intercept"])
            rows.append((*level, total, first, *own["pushes"]["heat"]))
        return rows

    def measured(x, noise):
        k, i = seen.T
        return x[k, i] + np.sqrt(noise)[i] * rng.normal(size=len(seen))

    together = []
    for _ in range(N_DRAWS // 2):
        nodes, places, x = prior()
        y = measured(x, np.array([own["noise"] for own in nodes.values()]))
        together.append(summary(places, numbers_of(nodes), x, y))
    chain = sampled._start(setup, 5, 0)
    now, turns = chain.present, []
    now.x[:] = prior()[2]
    for _ in range(N_DRAWS):
        y = measured(now.x, now.noise)
        setup.frame.value[seen[:, 0], seen[:, 1]] = y
        sampled.run_chain(setup, chain, 1, 0)
        rows = []
        for i in range(2):
            weights = [now.linear[i], now.quadratic[i], now.shifts[0, i, 0]]
            first = now.linear[i].sum() + now.shifts[0, i, 0, 1]
            level = (np.log(now.variance[i]), np.log(now.noise[i]), now.baseline[i])
            total = float(np.abs(np.concatenate(weights)).sum())
            rows.append((*level, total, first, *now.shifts[:, i, 1, 1]))
        own = (now.family - setup.choices.start[:-1], now.bent, now.decay, now.strength, now.size)
        turns.append(summary(np.array(own).T, rows, now.x, measured(now.x, now.noise)))
    one, two = np.array(together), np.array(turns)
    error = np.hypot(one.std(axis=0) / np.sqrt(len(one)), monte_carlo_error(two[None]))
    moving = one.std(axis=0) > 0.0
    z = (one.mean(axis=0) - two.mean(axis=0))[moving] / error[moving]
    assert np.abs(z).max() < 4.5, z.round(1)
