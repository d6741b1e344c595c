"""Learning from continuous nodes: edges, effects, stimuli and the switching time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.continuous.effects import draw_family
from asterism.continuous.family_score import FamilyScorer
from asterism.continuous.series import Stimulus, stimuli_from_frame
from asterism.continuous.switching import find_switching_time
from asterism.errors import DataError
from tests.continuous_series import series_from_frame

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


def learned(frame: pd.DataFrame, **settings: Any) -> am.StructureLearner:
    """With every set of up to three parents, and one edge per node beforehand."""
    n = frame.shape[1] - 2
    prior = am.StructurePrior(edge=-math.log(n - 1), **settings.pop("prior", {}))
    learner = am.StructureLearner(settings.pop("emission", am.Continuous()), 3, n_jobs=1)
    data = am.Observations.from_frame(frame)
    if "stimuli" in settings:
        data = data.with_stimuli(settings.pop("stimuli"))
    return learner.set_params(structure_prior=prior, **settings).fit(data, progress=False)


def test_finds_edges_and_their_effects() -> None:
    learner = learned(simulated())
    found = learner.edge_probabilities_
    assert found.loc["A", "B"] > 0.9
    assert found.loc["B", "C"] > 0.9
    others = found.to_numpy()[~np.eye(4, dtype=bool)]
    assert (others > 0.5).sum() == 2
    assert (others > 0.0).all()
    table = learner.edges_.set_index(["parent", "child"])
    assert table.loc[("A", "B"), "effect"] == "raises"
    assert table.loc[("B", "C"), "effect"] == "lowers"
    assert table.loc[("A", "B"), "shift"] > 0 > table.loc[("B", "C"), "shift"]
    nodes = learner.nodes_.set_index("node")
    assert nodes.loc["B", "decay_time_lower"] <= 1 / DECAY <= nodes.loc["B", "decay_time_upper"]
    levels = nodes["resting_level"]
    assert ((levels > 6.0) & (levels < 14.0)).all()
    assert set(learner.graph_.edges) == {("A", "B"), ("B", "C")}
    assert "until" not in learner.stage_


def test_finds_the_switching_time_and_its_target() -> None:
    frame = simulated(1, push=1.0)
    found = find_switching_time(series_from_frame(frame))
    assert found is not None
    assert found.is_taken
    assert found.time == pytest.approx(10.0)
    learner = learned(frame)
    hit = learner.targets_.set_index("node")["probability"]
    assert hit["A"] > 0.9
    assert hit.drop("A").max() < 0.5
    assert "A until 10" in learner.stage_


def test_known_stimuli_are_used_as_told() -> None:
    frame = simulated(1, push=1.0)
    told = pd.DataFrame(
        {"name": ["dose"], "trajectory": [np.nan], "start": [np.nan], "end": [10.0]}
    )
    learner = learned(frame, stimuli=told)
    assert "switching_time" not in learner.history_[0]
    assert set(learner.targets_["stimulus"]) == {"dose"}
    hit = learner.targets_.set_index("node")["probability"]
    assert hit.idxmax() == "A"
    labels = series_from_frame(frame).trajectories
    with pytest.raises(DataError, match="nobody"):
        stimuli_from_frame(told.assign(trajectory="nobody"), labels)
    with pytest.raises(DataError, match="ends"):
        stimuli_from_frame(told.assign(start=11.0), labels)


def test_every_allowed_edge_has_a_probability_in_large_tables() -> None:
    rng = np.random.default_rng(3)
    names = [f"n{i}" for i in range(30)]
    frame = pd.DataFrame(rng.normal(size=(60, 30)), columns=names)
    frame.insert(0, "trajectory", np.repeat([0, 1, 2], 20))
    frame.insert(1, "time", np.tile(np.arange(20.0), 3))
    told = pd.DataFrame({"name": ["s"], "trajectory": [0], "start": [2.0], "end": [5.0]})
    forbidden = [("n4", child) for child in names if child != "n4"]
    learner = learned(frame, max_parents=2, prior={"forbidden": forbidden}, stimuli=told)
    matrix = learner.edge_probabilities_.to_numpy()
    allowed = ~np.eye(30, dtype=bool)
    allowed[4, :] = False
    assert (matrix[allowed] > 0.0).all()
    assert (matrix[~allowed] == 0.0).all()
    # sets of two are those of the twenty best single parents, and the best one with everybody
    families = learner.family_scores_
    sizes = families["parents"].map(len)
    for node, own in families.groupby("node"):
        n_parents = 29 - (node != "n4")
        assert len(own) == 1 + n_parents + 20 * 19 // 2 + n_parents - 20
    assert sizes.max() == 2


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
    kinds = {"level": am.Continuous(), "switch": am.Exact()}
    prior = am.StructurePrior(edge="uniform")
    learner = am.StructureLearner(kinds, structure_prior=prior, n_jobs=1)
    learner.fit(am.Observations.from_frame(pd.concat(parts, ignore_index=True)), progress=False)
    edges = learner.edges_.set_index(["parent", "child"])
    assert edges.loc[("switch", "level"), "probability"] > 0.9
    assert edges.loc[("switch", "level"), "effect"] == "raises"


def test_column_without_two_measurements_in_a_trajectory() -> None:
    frame = pd.DataFrame({"trajectory": [0, 1], "time": [0.0, 0.0], "A": [1.0, 2.0]})
    with pytest.raises(DataError, match="twice"):
        series_from_frame(frame)
