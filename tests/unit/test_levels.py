"""How many levels a node has: counted from the data, and refused where it cannot be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.commands.console import Console
from asterism.commands.input_table import TableOptions
from asterism.commands.learn import read_data
from asterism.commands.options import LearnOptions
from asterism.errors import DataError, ModelError
from asterism.learning._level_pass import level_pass
from asterism.learning.level_moves import Redrawn, Stepwise
from asterism.learning.levels import choose_levels, with_levels, with_outliers
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
    assert set(choice.scores) >= {2, 3, 4}


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
    learner = am.StructureLearner(AUTO, max_parents=1, n_jobs=1, method="star").fit(obs)
    assert [len(learner.network_.states[n]) for n in "ab"] == [3, 2]
    assert learner.levels_["levels"].tolist() == [3, 2]
    assert (learner.levels_["probability"] > 0.5).all()
    assert learner.level_record_["a"]["levels"] == 3
    told = am.StructureLearner(
        am.Gaussian(levels=2, learn=True), max_parents=1, n_jobs=1, method="star"
    ).fit(obs)
    assert [len(told.network_.states[n]) for n in "ab"] == [2, 2]
    fit = am.ParameterLearner({"a": [], "b": []}, AUTO).fit(obs)
    assert [len(fit.network_.states[n]) for n in "ab"] == [3, 2]


def test_one_far_value_makes_no_more_than_one_level():
    values = np.append(np.random.default_rng(0).normal(size=60), 1e6)
    table = pd.DataFrame({"trajectory": 0, "time": np.arange(61.0), "x": values})
    choice = choose_levels("x", am.Observations.from_frame(table).measurements["x"], AUTO)
    assert choice.n_levels == 2


def test_outliers_are_no_levels_and_normal_noise_stays_normal():
    table = sticky((0, 1), 0.25, n=300)
    record = am.Observations.from_frame(table).measurements["x"]
    assert type(with_outliers(record, choose_levels("x", record, AUTO)).emission) is am.Gaussian
    table = sticky((0, 1), 0.0, n=300)
    table["x"] += 0.25 * np.random.default_rng(3).standard_t(2, size=len(table))
    record = am.Observations.from_frame(table).measurements["x"]
    plain = choose_levels("x", record, AUTO)
    chosen = with_outliers(record, plain)
    assert isinstance(chosen.emission, am.StudentT)
    assert chosen.n_levels == 2 < plain.n_levels
    np.testing.assert_allclose(chosen.emission.means, [0, 1], atol=0.2)


@pytest.mark.smoke
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
        am.StructureLearner(am.Gaussian(learn=True), method="star").fit(
            am.Observations.from_frame(sticky((0, 1)))
        )
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


# ---- the models behind it ----------------------------------------------------------------------


def slow_pass(logs, moves, is_first, initial):
    """Sum over every sequence of levels: the likelihood, and the posteriors of levels and moves."""
    n, size = logs.shape
    total, levels, pairs = 0.0, np.zeros((n, size)), np.zeros((n, size, size))
    for path in product(range(size), repeat=n):
        chance = 1.0
        for i, level in enumerate(path):
            chance *= initial[level] if is_first[i] else moves[i, path[i - 1], level]
            chance *= np.exp(logs[i, level])
        total += chance
        for i, level in enumerate(path):
            levels[i, level] += chance
            if not is_first[i]:
                pairs[i, path[i - 1], level] += chance
    return np.log(total), levels / total, pairs / total


@pytest.mark.parametrize("kind", ["redrawn", "stepwise"])
def test_the_pass_agrees_with_the_sum_over_all_sequences(kind):
    rng = np.random.default_rng(1)
    gap = np.array([0.0, 0.5, 2.0, 0.0, 0.1, 7.0])
    is_first = gap == 0.0
    weights = np.array([0.2, 0.5, 0.3])
    model = Redrawn(weights, 0.7)
    if kind == "stepwise":
        model = Stepwise(weights, np.array([0.4, 1.5]), np.array([0.9, 0.2]))
    logs = rng.normal(size=(len(gap), 3))
    posterior, pairs = np.empty((len(gap), 3)), np.empty((len(gap), 3, 3))
    moves = model.moves(gap)
    total = level_pass(logs, moves, is_first, model.initial, posterior, pairs).sum()
    slow_total, slow_levels, slow_pairs = slow_pass(logs, moves, is_first, model.initial)
    assert total == pytest.approx(slow_total, rel=1e-12)
    np.testing.assert_allclose(posterior, slow_levels, atol=1e-12)
    np.testing.assert_allclose(pairs * moves * ~is_first[:, None, None], slow_pairs, atol=1e-12)


def test_stepwise_moves_are_those_of_the_chain():
    model = Stepwise(np.full(3, 1 / 3), np.array([0.4, 1.5]), np.array([0.9, 0.2]))
    generator = np.array([[-0.4, 0.4, 0.0], [0.9, -2.4, 1.5], [0.0, 0.2, -0.2]])
    gap = np.array([0.0, 0.3, 4.0, 20.0])
    for length, chances in zip(gap, model.moves(gap)):
        np.testing.assert_allclose(chances, expm(length * generator), atol=1e-7)


@pytest.mark.parametrize("model", [
    Redrawn(np.array([0.2, 0.5, 0.3]), 0.7),
    Stepwise(np.array([0.2, 0.5, 0.3]), np.array([0.4, 1.5]), np.array([0.9, 0.2])),
])  # fmt: skip
def test_every_step_of_the_fit_raises_the_likelihood(model):
    rng = np.random.default_rng(2)
    gap = np.where(np.arange(200) % 40 == 0, 0.0, rng.exponential(size=200))
    logs = rng.normal(size=(200, 3)).cumsum(axis=0) * 0.3
    posterior, pairs = np.empty((200, 3)), np.empty((200, 3, 3))
    before = -np.inf
    for _ in range(12):
        by_row = level_pass(logs, model.moves(gap), gap == 0.0, model.initial, posterior, pairs)
        total = by_row.sum()
        # the small counts that keep rates above zero cost a little
        assert total > before - 0.01
        before = total
        model = model.improved(gap, pairs, posterior[gap == 0.0])


def test_levels_that_are_climbed_are_found_where_they_are_rare():
    rng = np.random.default_rng(11)
    rows = []
    for d in range(10):
        level = 2
        for i in range(20):
            chance = rng.random()
            level += (chance < 0.35 and level < 2) - (chance > 0.82 and level > 0)
            rows.append((d, float(i), rng.normal(level, 1 / 3), level))
    table = pd.DataFrame(rows, columns=["trajectory", "time", "x", "level"])
    assert 5 <= table["level"].value_counts().min() <= 25
    obs = am.Observations.from_frame(table[["trajectory", "time", "x"]])
    choice = choose_levels("x", obs.measurements["x"], AUTO)
    assert choice.n_levels == 3
    np.testing.assert_allclose(choice.emission.means, (0, 1, 2), atol=0.35)


def test_what_is_measured_while_a_node_is_held_is_no_level_of_its_own(tmp_path):
    table = sticky((0, 1), n=120, seed=8)
    table["b"] = sticky((0, 1), n=120, seed=9)["x"]
    held = table["trajectory"] < 3
    table.loc[held, "x"] = np.random.default_rng(2).normal(-5.0, 0.3, size=held.sum())
    rows = [(d, "x", "", "", "low") for d in range(3)]
    columns = ["trajectory", "node", "start", "end", "state"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "held.csv", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for interventions in (None, tmp_path / "held.csv"):
        options = LearnOptions(TableOptions(tmp_path / "t.csv"), interventions=interventions)
        read, _ = read_data(options, Console(True))
        data = read.require()
        found.append(read.levels["x"]["levels"])
    assert found == [3, 2]
    assert len(data.interventions) == 3
