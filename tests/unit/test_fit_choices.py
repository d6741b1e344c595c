"""What a fit says about its choices: reference levels, counts of parameters, what it prints."""

import json

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError
from tests.command_line import assert_refused, invoke


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(1)
    rows = []
    for patient in range(90):
        age, state = ("<=20", "20-40", ">40")[patient % 3], "a"
        for t in range(6):
            rows.append((patient, t, state, age, patient % 7))
            if rng.uniform() < 0.4:
                state = str(rng.choice(list("abcd")))
    return pd.DataFrame(rows, columns=["id", "time", "state", "age", "score"])


def fitted(visits, **settings):
    obs = am.Observations.from_frame(
        visits, trajectory="id", labels=["state"], covariates=["age", "score"]
    )
    return am.ParameterLearner({"state": []}, covariates=["age"], **settings).fit(obs)


def test_levels_with_numbers_stand_in_their_order(visits):
    fit = fitted(visits, allowed_transitions={"state": "a>b, b>c, c>d, d>a"})
    assert set(fit.effects_["covariate"]) == {"age=20-40", "age=>40"}
    assert "<=20" in fit.baseline_[0]
    other = fitted(
        visits,
        allowed_transitions={"state": "a>b, b>c, c>d, d>a"},
        reference={"age": ">40"},
    )
    assert set(other.effects_["covariate"]) == {"age=<=20", "age=20-40"}
    assert "as asked" in other.baseline_[0]
    assert other.log_evidence_ == pytest.approx(fit.log_evidence_, abs=1e-5)
    one = fit.effects_.set_index(["transitions", "covariate"])["effect"]
    two = other.effects_.set_index(["transitions", "covariate"])["effect"]
    for move in ("a>b", "c>d"):
        assert two[move, "age=<=20"] == pytest.approx(-one[move, "age=>40"], abs=2e-3)


def test_references_that_cannot_be_are_refused(visits):
    for reference in ({"sex": "m"}, {"age": "60"}):
        with pytest.raises(AsterismError, match="reference"):
            fitted(visits, reference=reference)


def test_all_hazard_ratios_are_counted_and_the_reference_is_said(visits, tmp_path):
    visits.query("id < 60").drop(columns="score").to_csv(tmp_path / "v.csv", index=False)
    result = invoke(
        *("fit", tmp_path / "v.csv", "--covariate", "age", "--reference", "age=20-40"),
        *("--allowed", "a>b,b>a,b>c,c>b,c>d,d>c,a>d"),
        *("-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code in (0, 4), result.stderr
    printed = [line for line in result.stderr.splitlines() if line.startswith("Hazard ratio of")]
    found = json.loads(result.stdout)
    assert len(printed) == 12 < len(found["effects"]) == 14
    assert "12 of 14; all in effects.csv" in result.stderr
    assert "20-40 (as asked)" in result.stderr
    # the start probabilities of four states are three numbers that msm does not count
    assert found["n_parameters"] - found["n_parameters_given_first"] == 3
    assert found["aic_given_first"] == pytest.approx(
        2 * found["n_parameters_given_first"] - 2 * found["log_likelihood_given_first"]
    )
    bad = invoke(
        *("fit", tmp_path / "v.csv", "--covariate", "age", "--reference", "age"),
        *("-o", tmp_path / "RUN2"),
    )
    assert_refused(bad, 2, "COLUMN=VALUE")


def test_states_that_differ_in_their_letters_stay_apart():
    """The labels "1" and "1.0" of one column are two states, and death is one of them only."""
    frame = pd.DataFrame(
        {
            "trajectory": [1, 1, 1, 2, 2],
            "time": [0.0, 1.0, 2.0, 0.0, 1.0],
            "s": ["1", "1.0", "x", "1", "x"],
        }
    )
    obs = am.Observations.from_frame(frame, labels=["s"])
    entered = obs.with_exact_entries("s", "1.0")
    assert len(entered.events) == 1
    assert list(entered.events.to) == ["1.0"]
    sets = obs.with_state_sets("s", {"1": ["1", "x"]})
    assert sets.measurements["s"].in_a_set.sum() == 2
    coded = obs.with_state_codes("s", {"1.0": "dead"})
    assert coded.measurements["s"].value.tolist().count("dead") == 1


def test_the_message_about_missing_covariates_names_what_exists(visits):
    paths = am.Trajectories.from_frame(
        pd.DataFrame({"trajectory": [1, 1], "time": [0.0, 1.0], "node": "s", "state": ["a", "b"]}),
        end=2.0,
    )
    with pytest.raises(AsterismError, match="with_covariates") as raised:
        am.ParameterLearner({"s": []}, covariates=["sex"]).fit(paths)
    assert "from_frame" not in str(raised.value)
