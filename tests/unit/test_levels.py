"""How many levels a node has: counted from the data, and refused where it cannot be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.learning.levels import choose_levels, with_levels
from asterism.model.emissions import emission_from_dict

AUTO = am.Gaussian(levels="auto", learn=True)


def sticky(means, scale=0.3, n=200, stay=0.6, seed=0):
    """Measurements of levels that stay for a while, in ten trajectories."""
    rng = np.random.default_rng(seed)
    rows = []
    for d in range(10):
        level = rng.integers(len(means))
        for i in range(n // 10):
            if rng.random() > stay:
                level = rng.integers(len(means))
            rows.append((d, float(i), rng.normal(means[level], scale)))
    return pd.DataFrame(rows, columns=["trajectory", "time", "x"])


@pytest.mark.parametrize("means", [(0, 1), (0, 1, 2), (0, 1, 2, 3), (5, 900)])
def test_the_number_of_levels_is_found(means):
    scale = 0.3 * (means[1] - means[0])
    obs = am.Observations.from_frame(sticky(means, scale))
    choice = choose_levels("x", obs.measurements["x"], AUTO)
    assert choice.n_levels == len(means)
    assert choice.probability > 0.8
    np.testing.assert_allclose(choice.emission.means, means, atol=0.6 * scale)
    assert choice.emission.scale == pytest.approx(scale, rel=0.25)
    assert set(choice.scores) == {2, 3, 4, 5}


def test_counts_have_levels_too():
    rng = np.random.default_rng(3)
    table = sticky((2, 14, 40), scale=1e-9, seed=4)
    table["x"] = rng.poisson(np.maximum(table["x"], 0)).astype(float)
    obs = am.Observations.from_frame(table)
    choice = choose_levels("x", obs.measurements["x"], am.Poisson(levels="auto", learn=True))
    assert choice.n_levels == 3


def test_units_of_time_and_value_do_not_matter():
    table = sticky((0, 1, 2))
    other = table.assign(time=3600.0 * table["time"], x=1e-4 * table["x"] + 7.0)
    one, two = (
        choose_levels("x", am.Observations.from_frame(t).measurements["x"], AUTO)
        for t in (table, other)
    )
    assert one.n_levels == two.n_levels == 3
    assert two.probability == pytest.approx(one.probability, abs=1e-3)


def test_learners_count_levels_and_say_so():
    table = sticky((0, 1, 2), n=100).rename(columns={"x": "a"})
    table["b"] = sticky((0, 1), n=100, seed=5)["x"]
    obs = am.Observations.from_frame(table)
    learner = am.StructureLearner(AUTO, max_parents=1, n_jobs=1).fit(obs)
    assert [len(learner.network_.states[n]) for n in "ab"] == [3, 2]
    assert learner.levels_["levels"].tolist() == [3, 2]
    assert (learner.levels_["probability"] > 0.5).all()
    assert learner.level_record_["a"]["levels"] == 3
    told = am.StructureLearner(am.Gaussian(levels=2, learn=True), max_parents=1, n_jobs=1).fit(obs)
    assert [len(told.network_.states[n]) for n in "ab"] == [2, 2]
    fit = am.ParameterLearner({"a": [], "b": []}, AUTO).fit(obs)
    assert [len(fit.network_.states[n]) for n in "ab"] == [3, 2]


def test_named_states_settle_the_number():
    obs = am.Observations.from_frame(sticky((0, 1, 2)))
    resolved, choices = with_levels(AUTO, obs, {"x": ["low", "high"]})
    assert resolved["x"].n_states == 2
    assert not choices[0].chosen
    same = am.Gaussian((0.0, 1.0), 0.3)
    assert with_levels(same, obs) == (same, [])


def test_what_cannot_be_is_refused():
    for bad in (1, 0, "many", 2.5, True):
        with pytest.raises(ModelError, match="levels of Gaussian must be"):
            am.Gaussian(levels=bad, learn=True)
    with pytest.raises(ModelError, match="2 means but levels=3"):
        am.Gaussian((0.0, 1.0), 1.0, levels=3)
    with pytest.raises(ModelError, match='levels="auto"'):
        am.StructureLearner(am.Gaussian(learn=True)).fit(am.Observations.from_frame(sticky((0, 1))))
    flat = am.Observations.from_frame(sticky((0, 1)).assign(x=1.5))
    with pytest.raises(DataError, match=r"Node 'x': .* without any variation"):
        with_levels(AUTO, flat)


def test_open_levels_survive_a_file():
    for emission in (
        AUTO,
        am.Gaussian(levels=3, learn=True),
        am.Poisson(levels="auto", learn=True),
    ):
        assert emission_from_dict(emission.to_dict()) == emission
    assert "levels" not in am.Gaussian((0.0, 1.0), 1.0).to_dict()
    assert am.Gaussian(levels=3, learn=True).n_states == 3
