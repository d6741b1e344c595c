"""How many levels a node has: counted from the data, and refused where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.commands.console import Console
from asterism.commands.exits import Refused
from asterism.commands.input_table import TableOptions
from asterism.commands.learn import read_data
from asterism.commands.learnable import Learnable, many_levels
from asterism.commands.options import LearnOptions
from asterism.errors import DataError, ModelError
from asterism.learning._level_pass import level_pass
from asterism.learning.level_moves import Pushed, Redrawn, Stepwise
from asterism.learning.levels import (
    LevelRows,
    choose_levels,
    em,
    with_levels,
    with_outliers,
)
from asterism.learning.offsets import shifts_of, with_offset, without_offsets
from asterism.model.emissions import emission_from_dict
from tests.reference import level_em

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
    own = model.arrays(gap)
    moves, each = own.chances()[own.which], np.arange(len(gap))
    total = level_pass(logs, moves, each, is_first, model.initial, posterior, pairs).sum()
    slow_total, slow_levels, slow_pairs = slow_pass(logs, moves, is_first, model.initial)
    assert total == pytest.approx(slow_total, rel=1e-12)
    np.testing.assert_allclose(posterior, slow_levels, atol=1e-12)
    np.testing.assert_allclose(pairs * moves * ~is_first[:, None, None], slow_pairs, atol=1e-12)


def test_stepwise_moves_are_those_of_the_chain():
    model = Stepwise(np.full(3, 1 / 3), np.array([0.4, 1.5]), np.array([0.9, 0.2]))
    generator = np.array([[-0.4, 0.4, 0.0], [0.9, -2.4, 1.5], [0.0, 0.2, -0.2]])
    gap = np.array([0.0, 0.3, 4.0, 20.0])
    for length, chances in zip(gap, model.arrays(gap).chances()):
        np.testing.assert_allclose(chances, expm(length * generator), atol=1e-7)


@pytest.mark.parametrize("model", [
    Redrawn(np.array([0.2, 0.5, 0.3]), 0.7),
    Stepwise(np.array([0.2, 0.5, 0.3]), np.array([0.4, 1.5]), np.array([0.9, 0.2])),
])  # fmt: skip
def test_every_step_of_the_fit_raises_the_likelihood(model):
    rng = np.random.default_rng(2)
    gap = np.where(np.arange(200) % 40 == 0, 0.0, rng.exponential(size=200))
    values = rng.integers(0, 3, 200) + 0.4 * rng.normal(size=200)
    rows = LevelRows(values, gap, gap == 0.0, np.cumsum(gap == 0.0), 1.0)
    emission = am.Gaussian((0.0, 1.0, 2.0), 0.4)
    before = -np.inf
    for _ in range(12):
        _, model, total, _ = em(rows, emission, model, 1)
        # the small counts that keep rates above zero cost a little
        assert total > before - 0.01
        before = total


@pytest.mark.parametrize("emission", [
    am.Gaussian((0.0, 1.0, 2.2), 0.4, learn=True),
    am.Gaussian((0.0, 1.0, 2.2), (0.4, 0.3, 0.2), learn=True),
    am.Gaussian((0.0, 1.0, 2.2), 0.4),
    am.StudentT((0.0, 1.0, 2.2), 0.4, df=2.0, learn=True),
    am.Poisson((0.5, 1.0, 4.0), learn=True),
])  # fmt: skip
@pytest.mark.parametrize("moves", [
    Redrawn(np.array([0.2, 0.5, 0.3]), 0.7),
    Stepwise(np.array([0.2, 0.5, 0.3]), np.array([0.4, 1.5]), np.array([0.9, 0.2])),
    Pushed(
        Redrawn(np.array([0.2, 0.5, 0.3]), 0.7),
        Redrawn(np.array([0.6, 0.2, 0.2]), 1.7),
        np.arange(120) % 7 < 3,
    ),
])  # fmt: skip
@pytest.mark.parametrize("n_steps", [1, 2, 60])
def test_em_agrees_with_the_slow_one(emission, moves, n_steps):
    rng = np.random.default_rng(4)
    is_first = np.isin(np.arange(120), [0, 40, 41, 90])
    gap = np.where(is_first, 0.0, rng.choice([0.5, 1.0, 1.3, 0.0], 120))
    values = np.repeat(rng.integers(0, 3, 24), 5) + 0.3 * rng.normal(size=120)
    values[7] = 9.0
    if isinstance(emission, am.Poisson):
        values = np.maximum(values.round(), 0.0)
    rows = LevelRows(values, gap, is_first, np.cumsum(is_first), 1.0)
    one, other = (fit(rows, emission, moves, n_steps) for fit in (level_em.em, em))
    np.testing.assert_allclose(one[0].means, other[0].means, rtol=1e-9)
    if not isinstance(emission, am.Poisson):
        np.testing.assert_allclose(one[0].scale, other[0].scale, rtol=1e-9)
    np.testing.assert_allclose(one[1].initial, other[1].initial, rtol=1e-9)
    assert one[1].penalty(4) == pytest.approx(other[1].penalty(4), rel=1e-9)
    assert one[2] == pytest.approx(other[2], rel=1e-11)
    np.testing.assert_allclose(one[3], other[3], rtol=1e-9)


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


# ---- shifts of whole trajectories --------------------------------------------------------------


def shifted(sd, scale=0.25, means=(-1.0, 1.0), n_trajectories=16, n=12, stay=0.7, seed=0):
    """Two levels in trajectories whose values are all shifted; the table and the shifts."""
    rng = np.random.default_rng(seed)
    shift = rng.normal(0.0, sd, n_trajectories) if sd else np.zeros(n_trajectories)
    rows = []
    for d in range(n_trajectories):
        level = rng.integers(len(means))
        for i in range(n):
            if rng.random() > stay:
                level = rng.integers(len(means))
            rows.append((d, float(i), rng.normal(means[level], scale) + shift[d]))
    return pd.DataFrame(rows, columns=["trajectory", "time", "x"]), shift


def chosen_with_shifts(table):
    record = am.Observations.from_frame(table).measurements["x"]
    return with_offset(record, with_outliers(record, choose_levels("x", record, AUTO)))


def test_the_evidence_of_shifts_is_the_integral_over_all_of_them():
    """Brute force: every sequence of levels, every shift on a fine grid."""
    table = pd.DataFrame(
        {
            "trajectory": [0, 0, 0, 1, 1, 2],
            "time": [0.0, 1.0, 3.0, 0.0, 1.0, 0.0],
            "x": [0.1, 0.4, 1.2, 1.9, 0.3, -0.2],
        }
    )
    rows = LevelRows.of(am.Observations.from_frame(table).measurements["x"])
    emission, model, sd = am.Gaussian((0.0, 1.0), 0.3), Redrawn(np.array([0.4, 0.6]), 0.5), 0.6
    found = shifts_of(rows, emission, model, sd)
    grid = np.linspace(-6.0 * sd, 6.0 * sd, 4001)
    density = np.exp(-0.5 * (grid / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    for d in range(3):
        mine = rows.trajectory == d
        values, moves = rows.values[mine], level_em.moves_within(model, rows.gap[mine])
        likelihood = np.zeros(len(grid))
        for course in product(range(2), repeat=len(values)):
            chance = model.initial[course[0]]
            for i in range(1, len(values)):
                chance *= moves[i, course[i - 1], course[i]]
            z = (values - np.array([0.0, 1.0])[list(course)] - grid[:, None]) / 0.3
            likelihood += chance * np.prod(
                np.exp(-0.5 * z**2) / (0.3 * np.sqrt(2.0 * np.pi)), axis=1
            )
        total = np.trapezoid(density * likelihood, grid)
        mean = np.trapezoid(grid * density * likelihood, grid) / total
        square = np.trapezoid(grid**2 * density * likelihood, grid) / total
        assert found.log_evidence[d] == pytest.approx(np.log(total), abs=2e-3)
        assert found.mean[d] == pytest.approx(mean, abs=2e-3)
        assert found.variance[d] == pytest.approx(square - mean**2, abs=2e-3)


def test_shifts_are_found_and_are_no_levels():
    table, shift = shifted(0.5)
    record = am.Observations.from_frame(table).measurements["x"]
    plain = choose_levels("x", record, AUTO)
    choice = with_offset(record, plain)
    assert choice.n_levels == 2 < plain.n_levels
    assert choice.offset.gain > 10.0
    assert choice.offset.sd == pytest.approx(shift.std(), rel=0.4)
    assert choice.emission.scale == pytest.approx(0.25, rel=0.2)
    data = am.Observations.from_frame(table)
    less = without_offsets(data, [choice]).measurements["x"].value
    removed = (record.value - less).reshape(16, 12)
    assert np.ptp(removed, axis=1).max() < 1e-9
    # the common part of all shifts cannot be told from the levels
    np.testing.assert_allclose(
        removed[:, 0] - removed[:, 0].mean(), shift - shift.mean(), atol=0.35
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("stay", [0.5, 0.97])
def test_no_shift_is_seen_where_there_is_none(seed, stay):
    """Also where most trajectories stay in one level, which could look like a shift."""
    choice = chosen_with_shifts(shifted(0.0, stay=stay, seed=seed)[0])
    assert choice.offset is None
    assert choice.n_levels == 2


def test_learners_subtract_shifts_and_say_so():
    table, _ = shifted(0.6, seed=4)
    table["y"] = shifted(0.0, seed=5)[0]["x"]
    data = am.Observations.from_frame(table)
    learner = am.StructureLearner(max_parents=1, n_jobs=1, method="star").fit(data)
    levels = learner.levels_.set_index("node")
    assert levels["levels"].tolist() == [2, 2]
    assert levels.loc["x", "offset_sd"] > 0.3
    assert levels.loc["y", "offset_sd"] == 0.0
    assert learner.level_record_["x"]["offset"]["gain"] > 3.0
    assert "shifted" in learner.stage_
    # new trajectories have shifts of their own
    other, _ = shifted(0.6, seed=14)
    other["y"] = shifted(0.0, seed=15)[0]["x"]
    new = learner.score(am.Observations.from_frame(other))
    assert new == pytest.approx(learner.score(data), abs=6.0)


@pytest.mark.parametrize(("asked", "is_shifted"), [("none", False), ("trajectory", True)])
def test_the_flag_decides_about_shifts(tmp_path, asked, is_shifted):
    table, _ = shifted(0.0, seed=6)
    table["y"] = shifted(0.0, seed=7)[0]["x"]
    table.to_csv(tmp_path / "data.csv", index=False)
    options = LearnOptions(TableOptions(tmp_path / "data.csv"), tmp_path / "run", offset=asked)
    found, decisions = read_data(options, Console(quiet=True))
    assert all(("offset" in record) == is_shifted for record in found.levels.values())
    assert any("--offset none" in line for line in decisions) == is_shifted


def test_logarithms_are_proposed_and_taken(tmp_path):
    rng = np.random.default_rng(8)
    table, _ = shifted(0.0, seed=6)
    table["y"] = np.exp(table["x"] + rng.normal(0.0, 0.8, len(table)))
    table.to_csv(tmp_path / "data.csv", index=False)
    source = TableOptions(tmp_path / "data.csv")
    options = LearnOptions(source, tmp_path / "run")
    _, said = read_data(options, Console(quiet=True))
    assert any("'y'" in line and "--log" in line for line in said if "'x'" not in line)
    logged, _ = read_data(replace(options, log=("y",)), Console(quiet=True))
    np.testing.assert_allclose(
        logged.data.measurements["y"].value, np.log(table["y"].to_numpy()), rtol=1e-12
    )
    with pytest.raises(Refused, match="not all values of 'x' are positive"):
        read_data(replace(options, log=("x",)), Console(quiet=True))
    with pytest.raises(Refused, match="'z', which is not a node"):
        read_data(replace(options, log=("z",)), Console(quiet=True))


def test_many_levels_in_most_nodes_are_a_warning():
    def record(n):
        return {"levels": n, "chosen": True}

    most = Learnable(None, levels={"a": record(5), "b": record(4), "c": record(2)})
    (warning,) = many_levels(most)
    for flag in ("--emission t", "--offset", "--states continuous", "--log"):
        assert flag in warning
    assert many_levels(Learnable(None, levels={"a": record(5), "b": record(2)})) == []
