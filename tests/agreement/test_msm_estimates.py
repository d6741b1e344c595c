"""What the R package msm prints for its heart-transplant data, found again.

Three models: death seen at a visit; death times exact; misclassified visits with the first one
exact. −2 ln P is conditional on each patient's first visit, as msm's is.
"""

import numpy as np
import pandas as pd
import pytest

import asterism as am
from tests.shared_data import DATA, needs

pytestmark = needs("msm_cav.csv")

FORTH_AND_BACK = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)
FORTH_ONLY = np.triu(FORTH_AND_BACK)
CONFUSION = [[0.9, 0.1, 0, 0], [0.1, 0.8, 0.1, 0], [0, 0.1, 0.9, 0], [0, 0, 0, 1]]


def visits() -> pd.DataFrame:
    table = pd.read_csv(DATA / "msm_cav.csv")
    return table.rename(columns={"PTNUM": "trajectory", "years": "time", "state": "disease"})[
        ["trajectory", "time", "disease"]
    ]


def published(model: str) -> pd.DataFrame:
    table = pd.read_csv(DATA / "msm_cav_estimates.csv")
    return table[table.model == model].set_index("param")


def panel() -> am.Observations:
    return am.Observations.from_frame(visits(), labels=["disease"])


def with_death_times(**options) -> am.Observations:
    table = visits()
    dead = table.disease == 4
    events = table[dead].assign(node="disease", to=4)[["trajectory", "time", "node", "to"]]
    return am.Observations.from_frame(table[~dead], labels=["disease"], events=events, **options)


def fitted(obs, method="exact", emission=None, allowed=FORTH_AND_BACK) -> am.ParameterLearner:
    return am.ParameterLearner(
        {"disease": []},
        emission=emission or am.Exact(),
        method=method,
        allowed_transitions={"disease": allowed},
    ).fit(obs)


def check_rates(learner, expected, relative):
    table = learner.rate_intervals_
    names = [f"q{a}{b}" for a, b in zip(table["from"], table["to"])]
    assert len(names) == sum(name.startswith("q") for name in expected.index)
    np.testing.assert_allclose(table.rate, expected.est[names], rtol=relative)
    return table, names


@pytest.mark.parametrize("method", ["exact", "star", "mean_field"])
def test_death_seen_at_a_visit(method):
    learner = fitted(panel(), method)
    expected = published("cav_M1_bidirectional_pure_panel")
    check_rates(learner, expected, 0.005)
    deviance = -2.0 * learner.log_evidence_given_first_
    assert deviance == pytest.approx(3986.087, abs=0.01)
    # msm's own optimiser stops a little short of the top; ours must not stop below it
    assert deviance < expected.est["minus2loglik"] + 1e-6
    assert learner.converged_
    assert learner.n_iter_ < 40


def test_exact_death_times_and_standard_errors():
    learner = fitted(with_death_times())
    expected = published("cav_M1_bidirectional_deathexact")
    table, names = check_rates(learner, expected, 0.005)
    assert -2.0 * learner.log_evidence_given_first_ == pytest.approx(3968.798, abs=0.01)
    # msm's 95 % limits, too, come from the Hessian in ln R
    np.testing.assert_allclose(table.lower, expected.lo[names].astype(float), rtol=0.01)
    np.testing.assert_allclose(table.upper, expected.hi[names].astype(float), rtol=0.01)
    assert (table.conditional_upper - table.conditional_lower < table.upper - table.lower).all()


def test_exact_death_times_with_star():
    learner = fitted(with_death_times(), "star")
    check_rates(learner, published("cav_M1_bidirectional_deathexact"), 0.005)
    assert -2.0 * learner.log_evidence_given_first_ == pytest.approx(3968.798, abs=0.01)


def test_misclassification():
    emission = am.Categorical(CONFUSION, learn=True)
    learner = fitted(with_death_times(exact="first"), emission=emission, allowed=FORTH_ONLY)
    expected = published("cav_M5_misclassification_deathexact_obstrue_firstobs")
    check_rates(learner, expected, 0.02)
    assert -2.0 * learner.log_evidence_given_first_ == pytest.approx(3933.738, abs=0.05)
    found = np.array(learner.emission_["disease"].confusion)
    for name, value in expected.est.items():
        if name.startswith("e_true"):
            true, seen = int(name[6]) - 1, int(name[-1]) - 1
            assert found[true, seen] == pytest.approx(value, rel=0.02)
    assert (found[np.array(CONFUSION) == 0] == 0).all()


def test_the_fixed_parameters_of_the_manual():
    rates = np.array(
        [[0, 0.25, 0, 0.25], [0.166, 0, 0.166, 0.166], [0, 0.25, 0, 0.25], [0, 0, 0, 0]]
    )
    network = am.Network({"disease": []}, {"disease": rates}, {"disease": [1, 2, 3, 4]})
    for obs, model in (
        (panel(), "cav_fixedQ_initial_pure_panel"),
        (with_death_times(), "cav_fixedQ_initial_deathexact"),
    ):
        found = am.infer(network, obs, am.Exact(), method="exact").log_evidence_given_first
        assert -2.0 * found == pytest.approx(published(model).est["minus2loglik"], abs=1e-8)


def test_nothing_is_left_to_gain_where_it_stopped():
    """The stop is judged by the true Hessian, not by the one the iteration built up."""
    from asterism.learning.em.uncertainty import observed_information

    learner = fitted(with_death_times())
    found = observed_information(learner._fit.task, learner._fit.outcome.best)
    newton, *_ = np.linalg.lstsq(found.matrix, found.score, rcond=1e-12)
    assert 0.0 <= found.score @ newton < 2e-6
