"""Jumps or moves: which kind of node a column is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.continuous.column_evidence import Column, column_evidence, time_on
from asterism.continuous.series import Stimulus
from asterism.data.measurements import NodeMeasurements
from asterism.learning.kinds import (
    choose_kind,
    choose_kinds,
    decide_kinds,
    kind_frame,
    rounding_step,
)


def record(trajectory, time, value) -> NodeMeasurements:
    n = len(time)
    return NodeMeasurements(
        np.asarray(trajectory, dtype=np.int64),
        np.asarray(time, dtype=float),
        np.asarray(value, dtype=float),
        np.zeros(n, dtype=bool),
        np.arange(n),
    )


def simulated(kind: str, seed: int) -> NodeMeasurements:
    rng = np.random.default_rng([seed, len(kind)])
    rows = []
    for d in range(5):
        x = float(rng.integers(3)) if kind == "jumps" else rng.normal()
        for i in range(30):
            rows.append((d, i, x + (rng.normal() / 4 if kind == "jumps" else 0.1 * rng.normal())))
            if kind == "jumps":
                x = float(rng.integers(3)) if rng.random() < 0.25 else x
            else:
                x = 0.8 * x + 0.6 * rng.normal()
    return record(*zip(*rows))


@pytest.mark.parametrize("kind", ["jumps", "continuous"])
def test_simulated_columns(kind: str) -> None:
    found = [choose_kind("x", simulated(kind, seed)) for seed in range(4)]
    assert [c.kind for c in found] == [kind] * 4
    table = kind_frame(found)
    assert list(table["kind"]) == [kind] * 4
    assert ((table["levels"] > 0) == (kind == "jumps")).all()


def test_units_shift_both_kinds_alike() -> None:
    seen = simulated("jumps", 1)
    other = record(seen.trajectory, 60 * seen.time, 10 * seen.value + 3)
    a, b = choose_kind("x", seen), choose_kind("x", other)
    assert a.continuous - b.continuous == pytest.approx(len(seen.value) * np.log(10), abs=0.1)
    assert a.jumps - b.jumps == pytest.approx(len(seen.value) * np.log(10), abs=0.5)


def test_rounding_step() -> None:
    assert rounding_step(np.array([0.0, 1.0, 3.0])) == 1.0
    assert rounding_step(np.array([0.1, 0.3, 0.2])) == pytest.approx(0.1)
    assert rounding_step(np.array([0.0, 1.0, 2.5])) == 0.0
    assert rounding_step(np.ones(4)) == 0.0


def test_rounded_levels_do_not_become_infinitely_probable() -> None:
    seen = simulated("jumps", 2)
    exact = record(seen.trajectory, seen.time, seen.value.round())
    found = choose_kind("x", exact)
    assert np.isfinite([found.continuous, found.jumps]).all()
    assert found.kind == "jumps"


def test_a_stimulus_takes_part_in_both() -> None:
    rng = np.random.default_rng(5)
    rows = []
    for d in range(6):
        push, x = 2.5 * rng.normal(), 0.0
        for i in range(24):
            rows.append((d, i, x + 0.05 * rng.normal()))
            x = 0.6 * x + 0.4 * push * (i < 12) + 0.15 * rng.normal()
    every = np.arange(6)
    on = Stimulus("dose", every, np.full(6, -np.inf), np.full(6, 12.0))
    without = choose_kind("x", record(*zip(*rows)))
    with_it = choose_kind("x", record(*zip(*rows)), [on])
    assert with_it.continuous > without.continuous + 10.0
    assert with_it.jumps > without.jumps - 1.0
    assert with_it.kind == "continuous"


def test_close_calls_follow_the_table() -> None:
    columns = {f"m{i}": simulated("continuous", i) for i in range(3)}
    short = simulated("jumps", 9)
    columns["few"] = short.take(np.flatnonzero(short.trajectory == 0)[:12])
    found = {c.node: c for c in choose_kinds(columns)}
    assert {found[f"m{i}"].kind for i in range(3)} == {"continuous"}
    assert found["few"].kind == "continuous" or found["few"].gain >= 3.0


def decided(n_smooth: int, n_jumping: int, **asked: bool) -> dict[str, str]:
    """The kinds of a table with so many columns of each kind, all of them clear."""
    columns = {f"m{i}": simulated("continuous", i) for i in range(n_smooth)}
    columns |= {f"j{i}": simulated("jumps", i) for i in range(n_jumping)}
    names = ("trajectory", "time", "value")
    frame = pd.DataFrame({n: getattr(columns["m0"], n) for n in names[:2]})
    for name, one in columns.items():
        frame[name] = one.value
    data = am.Observations.from_frame(frame)
    decision = decide_kinds(data, data.measurements, **asked)
    assert " ".join(decision.sentences).count("unlike the other") == (n_jumping > 0)
    return {c.node: c.kind for c in decision.choices}


def test_clear_columns_keep_their_kind() -> None:
    kinds = decided(2, 2)
    assert kinds == {"m0": "continuous", "m1": "continuous", "j0": "jumps", "j1": "jumps"}
    assert len(set(decided(2, 2, may_mix=False).values())) == 1


def test_a_rare_exception_is_taken_as_the_rest() -> None:
    assert set(decided(6, 1).values()) == {"continuous"}
    assert set(decided(6, 0).values()) == {"continuous"}


def test_noise_that_grows_with_the_level_does_not_make_levels() -> None:
    """exp of a process: its noise grows with its level, and two levels would explain it better."""
    moves = [simulated("continuous", seed) for seed in range(4)]
    grown = [replace(one, value=np.exp(1.5 * one.value)) for one in moves]
    assert [choose_kind("x", one).kind for one in grown] == ["continuous"] * 4
    below_zero = [replace(one, value=one.value - 0.01) for one in grown]
    assert "jumps" in [choose_kind("x", one).kind for one in below_zero]


def test_overlapping_levels_are_no_levels() -> None:
    """Slow movement beneath much noise: what would be levels lie closer than the noise is wide."""
    found = []
    for seed in range(6):
        seen = simulated("continuous", seed)
        noise = 2.0 * np.random.default_rng(seed).normal(size=len(seen))
        found.append(choose_kind("x", replace(seen, value=seen.value + noise)))
    assert [c.kind for c in found] == ["continuous"] * 6
    assert min(c.gain for c in found) > 1.0


def dense_evidence(column, lam, spread, noise, rho, on):
    """The same likelihood by one large covariance matrix."""
    total = np.zeros((len(column.time),) * 2)
    level = np.zeros(len(column.time))
    for d in np.unique(column.trajectory):
        own = np.flatnonzero(column.trajectory == d)
        t = column.time[own] - column.time[own][0]
        start = np.exp(-lam * t)
        bridge = np.exp(-lam * np.abs(t[:, None] - t)) - np.outer(start, start)
        stop = on - column.time[own][0]
        pushed = np.exp(-lam * np.maximum(t - stop, 0)) - np.exp(-lam * t)
        pushed = np.where(stop > 0, pushed, 0.0)
        block = np.outer(start, start) + spread * bridge + rho * np.outer(pushed, pushed)
        total[np.ix_(own, own)] = block + noise * np.eye(len(own))
        level[own] = 1.0 - start
    total += np.outer(level, level)
    _, log_det = np.linalg.slogdet(2 * np.pi * total)
    return -0.5 * (log_det + column.value @ np.linalg.solve(total, column.value))


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_likelihood_against_one_covariance_matrix(rho: float) -> None:
    from asterism.continuous._column import log_likelihood

    rng = np.random.default_rng(1)
    trajectory = np.repeat([0, 1, 2], [4, 6, 5])
    time = np.concatenate([np.sort(rng.uniform(0, 5, n)) for n in (4, 6, 5)])
    column = Column(trajectory, time, rng.normal(size=15))
    stimulus = Stimulus("s", np.arange(3), np.full(3, -np.inf), np.full(3, 2.5))
    gap = np.concatenate([[0.0], np.diff(time)])
    gap[column.is_first] = 0.0
    found = log_likelihood(
        *(0.6, 0.8, 0.1, rho, gap, column.is_first, time_on(column, stimulus), column.value)
    )
    assert found == pytest.approx(dense_evidence(column, 0.6, 0.8, 0.1, rho, 2.5), abs=1e-9)


def test_a_constant_column_has_no_evidence() -> None:
    assert (
        column_evidence(Column(np.zeros(4, dtype=np.int64), np.arange(4.0), np.ones(4))) == -np.inf
    )
