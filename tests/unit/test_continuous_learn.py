"""Learning from continuous nodes: edges, effects, stimuli and the switching time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from asterism.continuous.effects import draw_family
from asterism.continuous.family_score import FamilyScorer, Grids
from asterism.continuous.learn import families_to_score, learn
from asterism.continuous.series import Stimulus, series_from_frame, stimuli_from_frame
from asterism.continuous.switching import find_switching_time
from asterism.errors import DataError

DECAY = 0.3


def simulated(seed: int = 0, push: float = 0.0, until: float = 10.0) -> pd.DataFrame:
    """A raises B, B lowers C, D stands alone; ``push`` on A, another one in every trajectory."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((4, 4))  # [child, parent]
    weights[1, 0], weights[2, 1] = 0.5, -0.5
    parts = []
    for d in range(6):
        x, rows, strength = np.zeros(4), [], push * rng.normal()
        step = 0.05
        for i in range(400):
            if i % 20 == 0:
                rows.append([d, i * step, *(10.0 + 2.0 * x)])
            drift = -DECAY * x + weights @ x
            drift[0] += strength * (i * step < until)
            x = x + drift * step + 0.4 * np.sqrt(step) * rng.normal(size=4)
        parts.append(pd.DataFrame(rows, columns=["trajectory", "time", *"ABCD"]))
    return pd.concat(parts, ignore_index=True)


def test_finds_edges_and_their_effects() -> None:
    fit = learn(series_from_frame(simulated()))
    found = fit.edge_probabilities()
    assert found.loc["A", "B"] > 0.9
    assert found.loc["B", "C"] > 0.9
    others = found.to_numpy()[~np.eye(4, dtype=bool)]
    assert (others > 0.5).sum() == 2
    assert (others > 0.0).all()
    table = fit.edges().set_index(["parent", "child"])
    assert table.loc[("A", "B"), "effect"] == "raises"
    assert table.loc[("B", "C"), "effect"] == "lowers"
    assert table.loc[("A", "B"), "shift"] > 0 > table.loc[("B", "C"), "shift"]
    nodes = fit.nodes().set_index("node")
    assert nodes.loc["B", "decay_time_lower"] <= 1 / DECAY <= nodes.loc["B", "decay_time_upper"]
    levels = nodes["resting_level"]
    assert ((levels > 6.0) & (levels < 14.0)).all()
    assert fit.graph() == {"A": [], "B": ["A"], "C": ["B"], "D": []}
    assert fit.switching_sentence() == ""


def test_finds_the_switching_time_and_its_target() -> None:
    series = series_from_frame(simulated(1, push=1.0))
    found = find_switching_time(series)
    assert found is not None
    assert found.is_taken
    assert found.time == pytest.approx(10.0)
    fit = learn(series)
    hit = fit.targets().set_index("node")["probability"]
    assert hit["A"] > 0.9
    assert hit.drop("A").max() < 0.5
    assert "A until 10" in fit.switching_sentence()


def test_known_stimuli_are_used_as_told() -> None:
    frame = simulated(1, push=1.0)
    told = pd.DataFrame(
        {"name": ["dose"], "trajectory": [np.nan], "start": [np.nan], "end": [10.0]}
    )
    series = series_from_frame(frame)
    stimuli = stimuli_from_frame(told, series.trajectories)
    fit = learn(series, stimuli=stimuli)
    assert fit.switching is None
    assert set(fit.targets()["stimulus"]) == {"dose"}
    hit = fit.targets().set_index("node")["probability"]
    assert hit.idxmax() == "A"
    with pytest.raises(DataError, match="nobody"):
        stimuli_from_frame(told.assign(trajectory="nobody"), series.trajectories)
    with pytest.raises(DataError, match="ends"):
        stimuli_from_frame(told.assign(start=11.0), series.trajectories)


def test_every_allowed_edge_has_a_probability_in_large_tables() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(60, 30)), columns=[f"n{i}" for i in range(30)])
    frame.insert(0, "trajectory", np.repeat([0, 1, 2], 20))
    frame.insert(1, "time", np.tile(np.arange(20.0), 3))
    allowed = np.ones((30, 30), dtype=bool)
    allowed[4, :] = False
    grids = Grids(decay=(0.2, 0.8), noise=(0.1,))
    matrix = learn(
        series_from_frame(frame), allowed=allowed, find_switch=False, grids=grids
    ).edge_matrix()
    np.fill_diagonal(allowed, False)
    assert (matrix[allowed] > 0.0).all()
    assert (matrix[~allowed] == 0.0).all()


def test_families_to_score() -> None:
    single = np.arange(5.0)
    allowed = np.array([True, True, False, True, False])
    rows = families_to_score(single, allowed, 2)
    assert rows.tolist() == [[-1, -1], [0, -1], [1, -1], [3, -1], [0, 1], [0, 3], [1, 3]]
    rows = families_to_score(single, allowed, 2, required=[3])
    assert rows.tolist() == [[3, -1], [0, 3], [1, 3]]
    many = families_to_score(np.arange(40.0), np.arange(40) != 7, 2, n_candidates=3)
    pairs = {tuple(r) for r in many.tolist()}
    assert (37, 38) in pairs
    assert (5, 39) in pairs
    assert (5, 6) not in pairs


def test_more_stimuli_than_can_be_weighed() -> None:
    series = series_from_frame(simulated())
    one = Stimulus("s", np.array([0]), np.array([0.0]), np.array([1.0]))
    with pytest.raises(DataError, match="stimuli"):
        FamilyScorer(series.with_stimuli([one] * 5))


def test_draws_are_the_same_for_the_same_seed() -> None:
    scorer = FamilyScorer(series_from_frame(simulated()))
    a, b = (draw_family(scorer, 1, (0,), seed=5) for _ in range(2))
    assert (a.weights == b.weights).all()
    assert not (a.weights == draw_family(scorer, 1, (0,), seed=6).weights).all()


def test_a_jumping_parent_moves_its_continuous_child() -> None:
    rng = np.random.default_rng(4)
    parts = []
    for d in range(4):
        state, x, rows = 0, 0.0, []
        for i in range(600):
            if i % 20 == 0:
                rows.append([d, i * 0.05, x, "on" if state else "off"])
            if rng.random() < 0.01:
                state = 1 - state
            x += 0.05 * (-0.5 * x + 1.0 * state) + 0.3 * np.sqrt(0.05) * rng.normal()
        parts.append(pd.DataFrame(rows, columns=["trajectory", "time", "level", "switch"]))
    fit = learn(series_from_frame(pd.concat(parts, ignore_index=True)), find_switch=False)
    assert fit.edge_probabilities().loc["switch", "level"] > 0.9
    assert fit.effect(1, 0).effect == "raises"


def test_column_without_two_measurements_in_a_trajectory() -> None:
    frame = pd.DataFrame({"trajectory": [0, 1], "time": [0.0, 0.0], "A": [1.0, 2.0]})
    with pytest.raises(DataError, match="twice"):
        series_from_frame(frame)
