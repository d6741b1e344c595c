"""Emissions: likelihoods against scipy, M-steps against plain sums, refusals, files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import kstest, t

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.model.emissions import (
    Categorical,
    Exact,
    Gaussian,
    Joint,
    Likelihood,
    Poisson,
    Threshold,
    check_emissions,
    emission_for,
    emission_from_dict,
    emission_to_dict,
    joint_emissions,
    require_possible,
)

TWO = ("off", "on")
THREE = (1, 2, 3)
CONFUSION = [[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]


def some_weights(n: int, n_states: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n_states), size=n)


class TestGaussian:
    values = np.array([-1.3, 0.0, 2.5, 400.0])

    def test_likelihood_is_the_normal_density(self) -> None:
        for scale in (0.2, (0.2, 3.0)):
            found = Gaussian((-1, 1), scale).log_likelihood(self.values, TWO)
            expected = stats.norm.logpdf(self.values[:, None], [-1, 1], scale)
            np.testing.assert_allclose(found, expected, rtol=1e-13)
            assert np.isfinite(found).all()

    def test_m_step_shared_scale(self) -> None:
        w = some_weights(4, 2)
        new = Gaussian((-1, 1), 0.2, learn=True).m_step(self.values, w)
        means = [np.average(self.values, weights=w[:, x]) for x in range(2)]
        squares = sum(
            w[i, x] * (self.values[i] - means[x]) ** 2 for i in range(4) for x in range(2)
        )
        np.testing.assert_allclose(new.means, means)
        assert new.scale == pytest.approx(math.sqrt(squares / 4))
        assert new.learn

    def test_m_step_scale_per_state(self) -> None:
        w = some_weights(4, 2)
        new = Gaussian((-1, 1), (0.2, 0.3), learn=True).m_step(self.values, w)
        for x in range(2):
            variance = np.average((self.values - new.means[x]) ** 2, weights=w[:, x])
            assert new.scale[x] == pytest.approx(math.sqrt(variance))

    def test_m_step_never_lowers_the_expected_log_likelihood(self) -> None:
        w = some_weights(4, 2, seed=4)
        old = Gaussian((-1, 1), (2.0, 0.7), learn=True)
        new = old.m_step(self.values, w)
        for other in (old, Gaussian(new.means, tuple(1.01 * s for s in new.scale))):
            gained = w * (
                new.log_likelihood(self.values, TWO) - other.log_likelihood(self.values, TWO)
            )
            assert gained.sum() > 0

    def test_scale_does_not_collapse(self) -> None:
        values = np.array([1.0, 1.0, 5.0])
        w = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        for scale in (1.0, (1.0, 1.0)):
            new = Gaussian((0, 4), scale, learn=True).m_step(values, w)
            assert np.min(new.scale) == pytest.approx(1e-6 * values.std())
            same = Gaussian((0, 4), scale, learn=True).m_step(np.ones(3), w)
            assert same.scale == scale

    def test_a_state_without_weight_keeps_its_parameters(self) -> None:
        w = np.array([[1.0, 0.0]] * 4)
        new = Gaussian((-1, 7), (0.2, 0.3), learn=True).m_step(self.values, w)
        assert new.means[1] == 7
        assert new.scale[1] == 0.3
        unseen = Gaussian((-1, 7), 0.2).m_step(self.values, np.zeros((4, 2)))
        assert unseen.means == (-1, 7)

    def test_starts_from_clusters(self) -> None:
        rng = np.random.default_rng(1)
        values = np.concatenate([rng.normal(m, 0.1, 50) for m in (9, -4, 2)])
        started = Gaussian(learn=True).initialise(values, 3)
        np.testing.assert_allclose(started.means, [-4, 2, 9], atol=0.1)
        assert 0.05 < started.scale < 0.5
        assert started.initialise(values * 9, 3) == started
        half = Gaussian(means=(-4, 2, 9), learn=True).initialise(values, 3)
        assert half.means == (-4, 2, 9)
        assert 0.05 < half.scale < 0.5

    def test_clusters_of_unequal_size_are_found(self) -> None:
        rng = np.random.default_rng(1)
        values = np.concatenate([rng.normal(-4, 0.1, 180), rng.normal(9, 0.1, 20)])
        np.testing.assert_allclose(
            Gaussian(learn=True).initialise(values, 2).means, [-4, 9], atol=0.1
        )

    def test_clusters_survive_ties(self) -> None:
        few = np.array([0.0] * 50 + [1.0, 2.0])
        assert Gaussian(learn=True).initialise(few, 3).means == (0.0, 1.0, 2.0)
        values = np.array([0.0] * 50 + [1.0])
        started = Gaussian(learn=True).initialise(values, 2)
        assert started.means == (0.0, 1.0)
        with pytest.raises(DataError, match="without any variation; give means="):
            Gaussian(learn=True).initialise(np.ones(5), 2)
        with pytest.raises(ModelError, match="initialise it from data first"):
            Gaussian(learn=True).log_likelihood(values, TWO)

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({}, "unless learn=True"),
            ({"means": (0, 1)}, "unless learn=True"),
            ({"means": (0, 1), "scale": 0.0}, "positive"),
            ({"means": (0, 1), "scale": (1, 2, 3)}, "2 means but 3 scales"),
            ({"means": (0, math.nan), "scale": 1.0}, "finite"),
            ({"means": "ab", "scale": 1.0}, "finite"),
        ],
    )
    def test_refusals(self, setting: dict, words: str) -> None:
        with pytest.raises(ModelError, match=words):
            Gaussian(**setting)

    def test_wrong_number_of_states_and_text(self) -> None:
        with pytest.raises(ModelError, match="2 states, but the node has 3"):
            Gaussian((-1, 1), 0.2).log_likelihood(self.values, THREE)
        with pytest.raises(DataError, match="got 'high'"):
            Gaussian((-1, 1), 0.2).log_likelihood(np.array(["1.0", "high"]), TWO)
        with pytest.raises(DataError, match="finite numbers, got inf"):
            Gaussian((-1, 1), 0.2).log_likelihood(np.array([1.0, math.inf]), TWO)
        with pytest.raises(ModelError, match=r"shape \(3, 2\), expected \(4, 2\)"):
            Gaussian((-1, 1), 0.2).m_step(self.values, np.ones((3, 2)))


class TestStudentT:
    values = np.array([-1.4, -0.2, 0.9, 30.0])

    def test_likelihood_is_the_t_density(self) -> None:
        emission = am.StudentT((-1, 1), 0.5, df=3.0)
        expected = t.logpdf(self.values[:, None], 3.0, loc=[-1, 1], scale=0.5)
        np.testing.assert_allclose(emission.log_likelihood(self.values, TWO), expected)
        far = emission.log_likelihood(np.array([1e200]), TWO)
        assert np.isfinite(far).all()

    def test_em_finds_the_maximum_of_the_likelihood(self) -> None:
        values = t.rvs(3.0, loc=2.0, scale=0.7, size=400, random_state=1)
        fitted = am.StudentT((0.0, 9.0), 2.0, df=3.0, learn=True)
        weights = np.tile([1.0, 0.0], (400, 1))
        for _ in range(300):
            fitted = fitted.m_step(values, weights)
        _, mean, scale = t.fit(values, f0=3.0)
        assert fitted.means is not None
        np.testing.assert_allclose([fitted.means[0], fitted.scale], [mean, scale], rtol=1e-4)

    def test_draws_have_its_distribution(self) -> None:
        drawn = am.StudentT((0, 5), 2.0, df=2.5).sample(
            np.ones(4_000, dtype=np.int64), np.random.default_rng(0), TWO
        )
        assert kstest(drawn, t(2.5, loc=5, scale=2.0).cdf).pvalue > 0.001

    def test_refusals(self) -> None:
        with pytest.raises(ModelError, match="positive"):
            am.StudentT((-1, 1), 0.2, df=0)
        with pytest.raises(ModelError, match="StudentT needs means"):
            am.StudentT()


class TestPoisson:
    def test_likelihood_is_the_probability(self) -> None:
        values = np.array([0, 3, 2000])
        found = Poisson((0.5, 12)).log_likelihood(values, TWO)
        np.testing.assert_allclose(found, stats.poisson.logpmf(values[:, None], [0.5, 12]))
        assert np.isfinite(found).all()

    def test_mean_zero_excludes_positive_counts(self) -> None:
        found = Poisson((0, 4)).log_likelihood(np.array([0, 1]), TWO)
        assert found[0, 0] == 0
        assert found[1, 0] == -np.inf
        assert not np.isnan(found).any()

    def test_m_step(self) -> None:
        values = np.array([0.0, 3.0, 9.0])
        w = some_weights(3, 2)
        new = Poisson((1, 5), learn=True).m_step(values, w)
        np.testing.assert_allclose(new.means, [np.average(values, weights=w[:, x]) for x in (0, 1)])
        zero = Poisson((1, 5), learn=True).m_step(values, np.array([[1, 0], [0, 1], [0, 1]]))
        assert 0 < zero.means[0] < 1e-4

    def test_starts_from_clusters(self) -> None:
        values = np.random.default_rng(0).poisson(np.repeat([2, 40], 100))
        np.testing.assert_allclose(
            Poisson(learn=True).initialise(values, 2).means, [2, 40], rtol=0.2
        )

    def test_refusals(self) -> None:
        with pytest.raises(ModelError, match="negative"):
            Poisson((-1, 2))
        with pytest.raises(ModelError, match="unless learn"):
            Poisson()
        for bad in (-1.0, 0.5):
            with pytest.raises(DataError, match=f"counts.*{bad}"):
                Poisson((1, 2)).log_likelihood(np.array([bad]), TWO)


class TestCategorical:
    def test_likelihood_reads_the_column_of_the_label(self) -> None:
        with np.errstate(divide="ignore"):
            expected = np.log(np.array(CONFUSION))[:, [2, 0]].T
        for values in ([3, 1], ["3", "1"], [3.0, 1.0]):
            found = Categorical(CONFUSION).log_likelihood(np.array(values), THREE)
            np.testing.assert_array_equal(found, expected)

    def test_reported_labels_may_differ_from_the_states(self) -> None:
        emission = Categorical([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], labels=["no", "maybe", "yes"])
        found = emission.log_likelihood(np.array(["yes"]), TWO)
        np.testing.assert_allclose(found, np.log([[0.1, 0.7]]))
        drawn = emission.sample(np.zeros(50, dtype=int), np.random.default_rng(0), TWO)
        assert set(drawn) <= {"no", "maybe", "yes"}
        with pytest.raises(DataError, match="'on' is unknown; the labels are 'no', 'maybe', 'yes'"):
            emission.log_likelihood(np.array(["on"]), TWO)

    def test_m_step_counts_and_keeps_zeros_and_ones(self) -> None:
        values = np.array([1, 1, 2, 3, 2, 2, 3])
        w = some_weights(7, 3)
        old = Categorical(CONFUSION, learn=True)
        new = np.array(old.m_step(values, w, THREE).confusion)
        np.testing.assert_array_equal(new[2], [0, 0, 1])
        assert new[0, 2] == 0
        ones, twos = w[values == 1, 0].sum(), w[values == 2, 0].sum()
        np.testing.assert_allclose(new[0, :2], np.array([ones, twos]) / (ones + twos))
        counts = [w[values == label, 1].sum() for label in THREE]
        np.testing.assert_allclose(new[1], np.array(counts) / sum(counts))

    def test_a_state_never_seen_keeps_its_row(self) -> None:
        w = np.tile([1.0, 0.0, 0.0], (3, 1))
        new = Categorical(CONFUSION, learn=True).m_step(np.array([1, 1, 2]), w, THREE)
        np.testing.assert_allclose(new.confusion[1], CONFUSION[1])

    def test_labels_of_probability_zero_are_never_drawn(self) -> None:
        states = np.repeat([0, 2], 500)
        drawn = Categorical(CONFUSION).sample(states, np.random.default_rng(0), THREE)
        assert set(drawn[:500]) == {1, 2}
        assert set(drawn[500:]) == {3}

    @pytest.mark.parametrize(
        ("confusion", "words"),
        [
            ([[0.5, 0.4], [0, 1]], "Row 0"),
            ([[1, 0], [-0.5, 1.5]], "Row 1"),
            ([0.5, 0.5], "one row per true state"),
            ([[1, 0], [1]], "one row per true state"),
        ],
    )
    def test_refusals(self, confusion: list, words: str) -> None:
        with pytest.raises(ModelError, match=words):
            Categorical(confusion)

    def test_labels_must_match_the_columns(self) -> None:
        with pytest.raises(ModelError, match="3 columns but 2 labels"):
            Categorical(CONFUSION, labels=["a", "b"])


class TestThreshold:
    def test_likelihood_is_the_normal_integral(self) -> None:
        values = np.array([-3.0, 0.0, 1.0, 500.0])
        found = Threshold(0.5, 2.0).log_likelihood(values, TWO)
        z = (values - 0.5) / 2
        expected = np.stack([stats.norm.logsf(z), stats.norm.logcdf(z)], axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        assert found[-1, 0] < -30_000

    def test_fitted_from_the_data(self) -> None:
        values = np.array([1.0, 2.0, 6.0])
        fitted = Threshold().fitted(values)
        assert fitted == Threshold(3.0, float(values.std()))
        assert fitted.fitted(values * 7) == fitted
        assert Threshold(mean=1.0).fitted(values) == Threshold(1.0, float(values.std()))
        with pytest.raises(ModelError, match="fitted"):
            Threshold().log_likelihood(values, TWO)
        with pytest.raises(DataError, match="do not vary"):
            Threshold().fitted(np.ones(4))

    def test_fitted_per_group(self) -> None:
        values = np.array([1.0, 3.0, 10.0, 30.0])
        groups = ["a", "a", "b", "b"]
        fitted = Threshold().fitted(values, groups)
        assert fitted.mean == {"a": 2.0, "b": 20.0}
        found = fitted.log_likelihood(values, TWO, groups)
        np.testing.assert_allclose(found[:2], found[2:])
        with pytest.raises(ModelError, match="groups"):
            fitted.log_likelihood(values, TWO)

    def test_refusals(self) -> None:
        with pytest.raises(ModelError, match="positive"):
            Threshold(0.0, -1.0)
        with pytest.raises(ModelError, match="2 states, but the node has 3"):
            Threshold(0.0, 1.0).log_likelihood(np.array([0.0]), THREE)


class TestExactAndLikelihood:
    def test_exact_is_an_indicator(self) -> None:
        found = Exact().log_likelihood(np.array([2.0, 1.0]), THREE)
        np.testing.assert_array_equal(np.exp(found), [[0, 1, 0], [1, 0, 0]])
        with pytest.raises(DataError, match="unknown; the labels are 1, 2, 3"):
            Exact().log_likelihood(np.array([4.0]), THREE)

    def test_exact_samples_the_labels(self) -> None:
        drawn = Exact().sample(np.array([1, 0]), np.random.default_rng(0), TWO)
        assert drawn.tolist() == ["on", "off"]

    def test_likelihood_takes_logs(self) -> None:
        table = np.array([[0.2, 0.0], [1e-300, 3.0]])
        found = Likelihood().log_likelihood(table, TWO)
        np.testing.assert_array_equal(np.exp(found) > 0, table > 0)
        np.testing.assert_allclose(found[1], [-300 * math.log(10), math.log(3)])
        with pytest.raises(DataError, match="negative"):
            Likelihood().log_likelihood(-table, TWO)
        with pytest.raises(DataError, match=r"shape \(n, 3\)"):
            Likelihood().log_likelihood(table, THREE)
        with pytest.raises(ModelError, match="cannot simulate"):
            Likelihood().sample(np.array([0]), np.random.default_rng(0), TWO)


class TestJoint:
    def test_table_has_one_axis_per_node(self) -> None:
        joint = Joint(
            ["A", "B"], lambda v: stats.norm.logpdf(v, np.add.outer([0, 1], [0, 1, 2]), 1)
        )
        assert joint.column == "A+B"
        assert Joint(["A", "B"], len, column="sum").column == "sum"
        table = joint.table(1.0, (2, 3))
        assert table.shape == (2, 3)
        assert table[1, 0] == table[0, 1]
        with pytest.raises(ModelError, match=r"shape \(2, 3\), expected \(2, 2\)"):
            joint.table(1.0, (2, 2))

    def test_refusals(self) -> None:
        for nodes in (["A"], ["A", "A"], "AB"):
            with pytest.raises(ModelError, match="at least two different nodes"):
                Joint(nodes, len)
        with pytest.raises(ModelError, match="must be a function"):
            Joint(["A", "B"], 3)
        with pytest.raises(ModelError, match="not a number"):
            Joint(["A", "B"], lambda v: np.full((2, 2), np.nan)).table(1.0, (2, 2))
        with pytest.raises(DataError, match="impossible"):
            Joint(["A", "B"], lambda v: np.full((2, 2), -np.inf)).table(1.0, (2, 2))


ALL = [
    am.StudentT((-1, 1), 0.2, df=3.0),
    Gaussian((-1, 1), 0.2),
    Gaussian((-1, 1), (0.2, 0.1), learn=True),
    Gaussian(learn=True),
    Poisson((1, 2), learn=True),
    Categorical(CONFUSION, learn=True),
    Categorical([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], labels=["no", 1, 2.5]),
    Exact(),
    Threshold(),
    Threshold(1.0, 2.0, per_trajectory=True),
    Threshold().fitted(np.array([1.0, 3.0, 10.0, 30.0]), [1, 1, "b", "b"]),
    Likelihood(),
    {"A": Exact(), "B": Poisson((1, 2))},
]


@pytest.mark.parametrize("emission", ALL, ids=str)
def test_emissions_survive_json(emission: object) -> None:
    text = json.dumps(emission_to_dict(emission), allow_nan=False)
    assert emission_from_dict(json.loads(text)) == emission


def test_emissions_that_differ_are_not_equal() -> None:
    for i, one in enumerate(ALL):
        assert all(one != other for other in ALL[i + 1 :])


def test_files_do_not_keep_functions() -> None:
    with pytest.raises(ModelError, match=r"'A\+B' holds a function"):
        emission_from_dict(emission_to_dict(Joint(["A", "B"], len)))
    with pytest.raises(ModelError, match="Unknown kind of emission 'cauchy'"):
        emission_from_dict({"kind": "cauchy"})


def test_one_emission_or_one_per_node() -> None:
    assert emission_for(Exact(), "A") == Exact()
    joint = Joint(["A", "B"], len)
    per_node = {"A": Exact(), "B": Poisson((1, 2)), joint.column: joint}
    assert emission_for(per_node, "B", ["A", "B"]) == Poisson((1, 2))
    assert joint_emissions(per_node) == (joint,)
    assert joint_emissions(Exact()) == ()
    with pytest.raises(ModelError, match="'C' is measured but has no emission"):
        emission_for(per_node, "C")
    with pytest.raises(ModelError, match="'B', which is not a node; the nodes are 'A', 'C'"):
        check_emissions({"B": Exact()}, ["A", "C"])
    with pytest.raises(ModelError, match="reads 'B', which is not a node"):
        check_emissions(joint, ["A", "C"])
    with pytest.raises(ModelError, match="only a joint measurement of A, B"):
        emission_for(joint, "A")
    with pytest.raises(ModelError, match="'A' is 'gaussian'"):
        emission_for("gaussian", "A")


def test_impossible_rows_are_named() -> None:
    logs = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    require_possible(logs[:1], str)
    with pytest.raises(DataError, match="row 1 is impossible under every state"):
        require_possible(logs, lambda row: f"row {row}")


def test_an_entry_that_rounds_to_one_is_fitted_with_its_row() -> None:
    rows = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [1e-18, 3e-18, 1.0]]
    values = np.array(["0", "1", "2"], dtype=object)
    weights = np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    fitted = Categorical(rows, learn=True).m_step(values, weights, ("0", "1", "2"))
    np.testing.assert_allclose(np.sum(fitted.confusion, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(fitted.confusion[2], [0.5, 0.5, 0.0])
