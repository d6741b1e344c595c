"""Scores of continuous families against dense Gaussian integration (tests/reference)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from asterism.continuous.family_score import FamilyScorer, Grids, held_labels
from asterism.continuous.series import Stimulus
from tests.continuous_series import series_from_frame
from tests.reference import continuous_families as reference

GRIDS = Grids(decay=(0.2, 0.7), noise=(0.0, 0.4), stimulus=(0.0, 0.8), g=(30.0, 6.0))


def random_frame(seed: int) -> pd.DataFrame:
    """Irregular times, a third of the cells empty, one column of three labels."""
    rng = np.random.default_rng(seed)
    parts = []
    for d, n in enumerate((7, 5, 6)):
        times = np.sort(rng.uniform(0, 6, n))
        part = pd.DataFrame({"trajectory": f"t{d}", "time": times})
        for name in "ABC":
            part[name] = np.cumsum(rng.normal(size=n)) + 5
            part.loc[rng.random(n) < 0.3, name] = np.nan
        part["A"] = np.cumsum(rng.normal(size=n))
        part["state"] = rng.choice(["x", "y", "z"], n)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def spans_of(n_trajectories: int) -> list[Stimulus]:
    every = np.arange(n_trajectories)
    return [
        Stimulus("heat", every, np.full(3, -np.inf), np.array([2.0, 3.0, 2.5])),
        Stimulus("light", every, np.array([1.0, 1.5, 2.0]), np.array([4.0, 4.0, 5.0])),
    ]


def in_reference_form(scorer: FamilyScorer, child: int):
    series, node = scorer.series, scorer.series.nodes[child]
    every = range(series.n_trajectories)
    times = [node.time[node.trajectory == d] for d in every]
    values = [node.value[node.trajectory == d] for d in every]
    grids = [series.grid_time[series.grid_trajectory == d] for d in every]

    def split(column):
        return [column[series.grid_trajectory == d] for d in every]

    paths = []
    for m, other in enumerate(series.nodes):
        if other.is_continuous:
            line = scorer.course(m)
            both = [split(line), split(line**2)]
            paths.append({"linear": both[:1], "all": both})
        else:
            state = held_labels(series, m)
            dummies = [split((state == s).astype(float)) for s in (1, 2)]
            paths.append({"linear": dummies, "all": dummies})
    spans = [
        [(s.start[s.trajectory == d][0], s.end[s.trajectory == d][0]) for d in every]
        for s in series.stimuli
    ]
    return times, values, grids, paths, spans


@pytest.mark.parametrize("n_stimuli", [0, 1, 2])
def test_families_as_by_dense_integration(n_stimuli: int) -> None:
    series = series_from_frame(random_frame(n_stimuli))
    series = series.with_stimuli(spans_of(3)[:n_stimuli])
    scorer = FamilyScorer(series, GRIDS)
    families = [(), (1,), (3,), (1, 2), (1, 3), (1, 2, 3)]
    rows = np.full((len(families), 3), -1)
    for row, family in zip(rows, families):
        row[: len(family)] = family
    found = scorer.combined(scorer.families(0, rows))
    settings = (GRIDS.decay, GRIDS.noise, GRIDS.stimulus, GRIDS.g)
    forms = in_reference_form(scorer, 0)
    # the reference is slow: all families without a stimulus, some with
    for f in range(len(families)) if n_stimuli == 0 else (0, 4):
        expected = reference.family_score(*forms, families[f], settings)
        assert found[f] == pytest.approx(expected, abs=1e-6), families[f]


@pytest.mark.parametrize("seed", [3, 4])
def test_screening_gives_the_same_scores(seed: int) -> None:
    series = series_from_frame(random_frame(seed)).with_stimuli(spans_of(3)[:1])
    scorer = FamilyScorer(series)
    none, single = scorer.single_parents()
    for child in scorer.children:
        rows = np.array([[-1]] + [[m] for m in range(4) if m != child])
        scores = scorer.families(child, rows)
        assert none[child] == pytest.approx(scores[0], abs=1e-8)
        others = [m for m in range(4) if m != child]
        assert single[child, others] == pytest.approx(scores[1:], abs=1e-8)
    assert np.isneginf(single[3]).all()  # a jumping node is no child here


def test_children_with_common_times_are_screened_together() -> None:
    frame = random_frame(5)[["trajectory", "time", "A"]]
    rng = np.random.default_rng(1)
    for name in "BCD":
        frame[name] = rng.normal(size=len(frame))
    scorer = FamilyScorer(series_from_frame(frame))
    _, single = scorer.single_parents()
    for child, parent in combinations(range(4), 2):
        alone = scorer.families(child, np.array([[parent]]))[0]
        assert single[child, parent] == pytest.approx(alone, abs=1e-8)


@pytest.mark.parametrize("kappa", [0.0, 0.3])
def test_course_of_a_parent(kappa: float) -> None:
    frame = random_frame(6)
    scorer = FamilyScorer(series_from_frame(frame), Grids(decay=(0.4,), noise=(kappa,)))
    series, node = scorer.series, scorer.series.nodes[1]
    measured = np.zeros(len(series.grid_time), dtype=bool)
    values = np.zeros(len(series.grid_time))
    measured[node.grid], values[node.grid] = True, node.value
    found = scorer.course(1)
    for d in range(3):
        own = series.grid_trajectory == d
        expected = reference.course(
            series.grid_time[own], measured[own], values[own], 0.4, kappa, node.value.mean()
        )
        assert found[own] == pytest.approx(expected, abs=1e-8)


def test_units_of_time_and_values_do_not_matter() -> None:
    frame = random_frame(7)
    other = frame.copy()
    other["time"] *= 60.0
    other["A"] = other["A"] * 1e-3 + 7.0
    other["B"] *= -40.0
    rows = np.array([[-1, -1], [1, -1], [1, 2]])
    scores = [FamilyScorer(series_from_frame(f)).families(0, rows) for f in (frame, other)]
    gains = [s - s[0] for s in scores]
    assert gains[0] == pytest.approx(gains[1], abs=1e-7)


def test_dependent_columns_add_nothing() -> None:
    frame = random_frame(8)
    frame["B"] = 3.0 * frame["A"].where(frame["B"].notna()) + 1.0
    frame["twin"] = frame["B"]
    frame["flat"] = 1.0
    names = [c for c in frame.columns if c not in ("trajectory", "time")]
    scorer = FamilyScorer(series_from_frame(frame), quadratic=False)
    b, twin, flat, c = (names.index(n) for n in ("B", "twin", "flat", "C"))
    rows = np.array([[b, -1], [min(b, twin), max(b, twin)], [b, flat], [-1, -1], [flat, -1]])
    scores = scorer.combined(scorer.families(c, rows))
    assert scores[:3] == pytest.approx(scores[0], abs=1e-6)
    assert scores[4] == pytest.approx(scores[3], abs=1e-6)
    assert flat not in scorer.children
