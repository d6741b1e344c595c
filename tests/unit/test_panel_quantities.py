"""What follows from fitted rates, each against the simplest way to get it."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.learning.em.rates_update import RateFormula, rate_update

TRUTH = np.array([[0, 0.4, 0.1], [0.2, 0, 0.5], [0, 0, 0]])


@pytest.fixture(scope="module")
def obs():
    network = am.Network({"s": []}, {"s": TRUTH}, {"s": [1, 2, 3]}, initial={"s": [0.8, 0.2, 0]})
    paths = am.simulate(network, n_trajectories=120, duration=6.0, seed=3)
    frame = am.observe(paths, am.Exact(), n_observations=7, seed=4).to_frame()
    dead = frame["s"] == 3
    frame = frame[~(dead & dead.groupby(frame["trajectory"]).shift(fill_value=False))]
    frame["sex"] = np.where(frame["trajectory"].astype(int) % 2, "female", "male")
    return am.Observations.from_frame(frame, labels=["s"], covariates=["sex"])


@pytest.fixture(scope="module")
def learner(obs):
    return am.ParameterLearner(
        {"s": []}, method="auto", allowed_transitions={"s": am.Transitions(absorbing=[3])}
    ).fit(obs)


def test_auto_is_exact_for_few_states(learner):
    assert learner.method_ == "exact"


def test_transition_probabilities_are_exponentials(learner):
    found = learner.transition_probabilities([0.0, 1.5])
    q = learner.network_.joint_generator().toarray()
    at = found[found.time == 1.5].probability.to_numpy().reshape(3, 3)
    np.testing.assert_allclose(at, expm(1.5 * q), atol=1e-12)
    assert (found.lower <= found.probability).all()
    assert (found.probability <= found.upper).all()
    by_draws = learner.transition_probabilities([1.5], interval="simulate")
    inside = found[(found.time == 1.5) & (found.se > 0)]
    drawn = by_draws[by_draws.se > 0]
    np.testing.assert_allclose(drawn.lower, inside.lower, atol=0.02)
    np.testing.assert_allclose(drawn.upper, inside.upper, atol=0.02)


def test_sojourn_times_are_inverse_exit_rates(learner):
    found = learner.sojourn_times()
    q = learner.network_.joint_generator().toarray()
    np.testing.assert_allclose(found["mean"][:2], -1.0 / np.diag(q)[:2])
    assert np.isinf(found["mean"][2])


def test_length_of_stay_integrates_transition_probabilities(learner):
    q = learner.network_.joint_generator().toarray()
    clock = np.linspace(0, 2.0, 2001)
    path = np.array([expm(q * t) for t in clock[::20]])
    expected = np.trapezoid(path, clock[::20], axis=0)
    found = learner.length_of_stay(2.0)["time"].to_numpy().reshape(3, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for_ever = learner.length_of_stay()["time"].to_numpy().reshape(2, 2)
    np.testing.assert_allclose(for_ever, np.linalg.inv(-q[:2, :2]))


def test_prevalence_begins_with_what_was_seen(learner, obs):
    found = learner.prevalence([0.0, 3.0], obs)
    assert set(found.columns) == {"time", "state", "observed", "expected", "n"}
    later = found[found.time == 3.0]
    assert later.expected.sum() == pytest.approx(1.0)
    assert np.abs(later.observed - later.expected).max() < 0.15


def test_the_likeliest_path_against_all_paths():
    rng = np.random.default_rng(0)
    confusion = [[0.8, 0.2, 0.0], [0.3, 0.6, 0.1], [0.0, 0.0, 1.0]]
    frame = pd.DataFrame(
        {"trajectory": np.repeat(range(12), 4), "time": np.tile([0.0, 0.7, 1.1, 2.5], 12),
         "s": rng.choice([1, 2], 48)}
    )  # fmt: skip
    obs = am.Observations.from_frame(frame, labels=["s"])
    learner = am.ParameterLearner(
        {"s": []},
        emission=am.Categorical(confusion),
        method="exact",
        states={"s": [1, 2, 3]},
        allowed_transitions={"s": am.Transitions(absorbing=[3])},
    ).fit(obs)
    q, start = learner.network_.joint_generator().toarray(), learner.network_.initial["s"]
    found = learner.most_probable_paths(obs)
    for name, rows in frame.groupby("trajectory"):
        seen = rows["s"].to_numpy() - 1
        steps = [expm(q * h) for h in np.diff(rows["time"])]
        best, likeliest = -1.0, None
        for path in product(range(3), repeat=4):
            value = start[path[0]] * np.prod([confusion[x][y] for x, y in zip(path, seen)])
            value *= np.prod([p[a, b] for p, a, b in zip(steps, path[:-1], path[1:])])
            if value > best:
                best, likeliest = value, path
        ours = found[found.trajectory == name]["s"].to_numpy() - 1
        assert tuple(ours) == likeliest


def test_forecasts_continue_from_the_end(learner, obs):
    found = learner.forecast(obs[:3], [0.0, 100.0])
    late = found[found.horizon == 100.0].pivot(
        index="trajectory", columns="state", values="probability"
    )
    assert (late[3] > 0.95).all()


def test_likelihood_ratio_test(obs, learner):
    options = {"method": "exact", "allowed_transitions": {"s": am.Transitions(absorbing=[3])}}
    larger = am.ParameterLearner({"s": []}, covariates=["sex"], **options).fit(obs)
    test = am.likelihood_ratio_test(learner, larger)
    assert test.degrees_of_freedom == 4
    assert test.statistic == pytest.approx(2 * (larger.log_evidence_ - learner.log_evidence_))
    assert 0.0 < test.p_value <= 1.0
    assert larger.aic_ == pytest.approx(-2 * larger.log_evidence_ + 2 * larger.n_parameters_)
    with pytest.raises(ModelError, match="smaller model first"):
        am.likelihood_ratio_test(larger, learner)


def test_covariance_belongs_to_the_parameters(learner):
    table, covariance = learner.parameters_, learner.covariance_
    assert list(covariance.columns) == list(table.parameter)
    rates = (table.kind == "rate").to_numpy()
    np.testing.assert_allclose(
        np.sqrt(np.diag(covariance))[rates], learner.rate_intervals_.se, rtol=1e-4
    )
    # probabilities that sum to one cannot all move up
    start = (table.kind == "start").to_numpy()
    block = covariance.to_numpy()[np.ix_(start, start)]
    np.testing.assert_allclose(block.sum(axis=1), 0.0, atol=1e-8)


def test_equal_and_fixed_rates(obs, learner):
    options = {"method": "exact", "allowed_transitions": {"s": am.Transitions(absorbing=[3])}}
    equal = am.ParameterLearner({"s": []}, equal_rates={"s": "1>2=2>3"}, **options).fit(obs)
    rates = equal.network_.rates["s"]
    assert rates[0, 1] == pytest.approx(rates[1, 2])
    assert equal.n_parameters_ == learner.n_parameters_ - 1
    fixed = am.ParameterLearner({"s": []}, fixed_rates={"s": {"1>3": 0.1}}, **options).fit(obs)
    assert fixed.network_.rates["s"][0, 2] == pytest.approx(0.1)
    row = fixed.rate_intervals_.set_index(["from", "to"]).loc[(1, 3)]
    assert (row.lower, row.upper, row.note) == (pytest.approx(0.1), pytest.approx(0.1), "fixed")
    for other in (equal, fixed):
        assert other.log_evidence_ <= learner.log_evidence_ + 1e-8
    started = am.ParameterLearner({"s": []}, start_rates={"1>2": 5.0}, **options).fit(obs)
    assert started.log_evidence_ == pytest.approx(learner.log_evidence_, abs=1e-5)
    with pytest.raises(ModelError, match="not an allowed transition"):
        am.ParameterLearner({"s": []}, fixed_rates={"3>1": 1.0}, **options).fit(obs)


def test_the_regression_of_the_m_step_finds_the_maximum():
    network = am.Network({"s": []}, {"s": 1.0 - np.eye(2)}, {"s": [0, 1]})
    graph = network.compiled.graph
    rng = np.random.default_rng(1)
    # two situations would need a larger graph: here the same two rates with one effect each
    formula = RateFormula(
        base=np.array([0, 0]),
        offset=np.zeros(2),
        design=np.array([[0.0], [1.0]]),
        n_base=1,
        start_effects=np.zeros(1),
        start_base=np.full(1, np.nan),
    )
    update = rate_update(graph, network.compiled.rates > 0, None, False, 1e9, formula)
    moves, dwell = np.zeros(4), rng.uniform(1, 5, 2)
    moves[[1, 2]] = rng.uniform(1, 20, 2)
    rates, effects = update.improved(moves, dwell, network.compiled.rates, np.zeros(1))
    # two rates, a baseline and an effect: the best is M/T for both
    np.testing.assert_allclose(rates[[1, 2]], moves[[1, 2]] / dwell, rtol=1e-6)
    assert effects[0] == pytest.approx(np.log(rates[2] / rates[1]))


def test_cross_validation_splits_trajectories(obs):
    from sklearn.model_selection import GridSearchCV, cross_val_score

    learner = am.ParameterLearner(
        {"s": []}, method="exact", allowed_transitions={"s": am.Transitions(absorbing=[3])}
    )
    scores = cross_val_score(learner, obs, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(learner, {"prior": [None, am.GammaPrior(2.0, 4.0)]}, cv=2).fit(obs)
    assert search.best_score_ <= 0.0


def test_saved_fits_are_read_back(obs, learner, tmp_path):
    folder = learner.save(tmp_path / "run")
    run = am.load(folder)
    assert list(run.rates.columns[:7]) == [
        "node", "configuration", "from", "to", "rate", "lower", "upper",
    ]  # fmt: skip
    np.testing.assert_allclose(run.rates.rate, learner.rate_intervals_.rate)
    assert run.run["n_parameters"] == learner.n_parameters_
    from asterism.report.page import write_report

    page = write_report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Mean time in a state" in page
    assert "plotly" not in page.lower()
    assert len(page) < 1_000_000


def test_covariates_that_cannot_be(obs):
    learner = am.ParameterLearner({"s": []}, method="exact", covariates=["age"])
    with pytest.raises(DataError, match="no covariate 'age'"):
        learner.fit(obs)
    twice = am.ParameterLearner(
        {"s": []}, method="exact", covariates=["sex", am.Effect("sex", "1>2")]
    )
    with pytest.raises(ModelError, match="Two effects"):
        twice.fit(obs)


def test_probabilities_at_zero_have_limits_by_the_likelihood():
    """What the limit excludes, the likelihood of a refit with that value excludes too."""
    rates = np.array([[0.0, 0.4], [0.3, 0.0]])
    network = am.Network({"s": []}, {"s": rates}, {"s": ["a", "b"]}, initial={"s": [1.0, 0.0]})
    paths = am.simulate(network, n_trajectories=40, duration=6.0, seed=1)
    data = am.observe(paths, am.Exact(), n_observations=10, seed=2)
    data = am.Observations.from_frame(data.to_frame(), labels=["s"])

    def fitted(confusion, learn):
        emission = am.Categorical(confusion, learn=learn, labels=("a", "b"))
        return am.ParameterLearner(
            {"s": []}, {"s": emission}, method="exact", states={"s": ["a", "b"]}
        ).fit(data)

    free = fitted([[0.9, 0.1], [0.0, 1.0]], learn=True)
    table = free.parameters_.set_index("parameter")
    wrong, right = table.loc["s: a reported as b"], table.loc["s: a reported as a"]
    assert wrong.note == "at zero: upper is a limit"
    assert wrong.lower == 0.0
    assert 0.0 < wrong.upper < 0.2
    assert right.lower == pytest.approx(1.0 - wrong.upper)
    held = fitted([[1.0 - wrong.upper, wrong.upper], [0.0, 1.0]], learn=False)
    fall = 2.0 * (free.log_evidence_ - held.log_evidence_)
    assert 2.0 < fall < 6.0  # 3.84 if the evidence fell in a straight line


def test_hazard_ratios_of_edges_are_ratios_of_rates():
    """Of complete paths, ln ratio has the variance 1/M + 1/M', where M are the transitions."""
    network = am.glauber({"A": [], "B": ["A"], "C": ["A", "B"]}, a=1.0, b=0.5)
    paths = am.simulate(network, n_trajectories=10, duration=6.0, seed=3)
    fit = am.ParameterLearner({"A": [], "B": ["A"], "C": ["A", "B"]}, method="exact").fit(paths)
    found = fit.edge_ratios_
    assert set(zip(found["parent"], found["child"])) == {("A", "B"), ("A", "C"), ("B", "C")}
    row = found.query("parent == 'A' and child == 'B' and transition == '-1>1'").iloc[0]
    rates = fit.rate_intervals_.query("node == 'B' and `from` == -1").set_index("configuration")
    one, other = rates.loc["A=1"], rates.loc["A=-1"]
    assert row["hazard_ratio"] == pytest.approx(one["rate"] / other["rate"])
    variance = 1 / one["expected_transitions"] + 1 / other["expected_transitions"]
    width = np.exp(1.959964 * np.sqrt(variance))
    assert row["upper"] == pytest.approx(row["hazard_ratio"] * width, rel=1e-3)
    assert set(found.query("parent == 'B'")["others"]) == {"A=-1", "A=1"}
