"""Rates that change at known times, and what follows from them, against plain scipy."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.errors import AsterismError
from tests.command_line import assert_refused, invoke
from tests.reference import panel_likelihood

PAIRS = [(0, 1), (0, 2), (1, 2)]
BEFORE = np.array([[-0.6, 0.4, 0.2], [0.0, -0.5, 0.5], [0.0, 0.0, 0.0]])
AFTER = np.array([[-1.1, 0.9, 0.2], [0.0, -0.8, 0.8], [0.0, 0.0, 0.0]])
CHANGE = 2.0
NAMES = ["well", "ill", "dead"]


def step(first, second, start, end):
    """P from one time to another; the rates change in between."""
    early = expm(first * max(min(end, CHANGE) - start, 0.0))
    return early @ expm(second * max(end - max(start, CHANGE), 0.0))


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(2)
    result = []
    for _ in range(80):
        times = np.cumsum(rng.uniform(0.3, 1.2, size=7)) - 0.3
        states = [0]
        for a, b in pairwise(times):
            states.append(int(rng.choice(3, p=step(BEFORE, AFTER, a, b)[states[-1]])))
        result.append((times, states))
    return result


@pytest.fixture(scope="module")
def table(visits):
    rows = [
        (d, t, NAMES[x], "mf"[d % 2])
        for d, (times, states) in enumerate(visits)
        for t, x in zip(times, states)
    ]
    return pd.DataFrame(rows, columns=["trajectory", "time", "state", "sex"])


@pytest.fixture(scope="module")
def fit(table):
    obs = am.Observations.from_frame(table.drop(columns="sex"))
    return am.ParameterLearner(
        {"state": []},
        allowed_transitions={"state": "well>ill, well>dead, ill>dead"},
        states={"state": NAMES},
        change_times=[CHANGE],
    ).fit(obs)


def test_the_maximum_is_that_of_scipy(visits, fit):
    def value(v):
        first, second = (
            panel_likelihood.generator(logs, np.zeros((3, 1)), np.zeros(1), PAIRS, 3)
            for logs in (v[:3], v[:3] + v[3:])
        )
        return sum(
            np.log(max(step(first, second, a, b)[x, y], 1e-300))
            for times, states in visits
            for a, b, x, y in zip(times[:-1], times[1:], states[:-1], states[1:])
            if x != 2
        )

    estimates = np.concatenate([np.log(fit.rate_intervals_["rate"]), fit.effects_["effect"]])
    best = value(estimates)
    assert best == pytest.approx(fit.log_evidence_given_first_, abs=1e-6)
    # no step in any direction leads up, and the curvature there gives the standard errors
    information = panel_likelihood.hessian(value, estimates, 1e-2)
    slope = np.array([
        (value(estimates + 1e-4 * e) - value(estimates - 1e-4 * e)) / 2e-4 for e in np.eye(6)
    ])  # fmt: skip
    assert slope @ np.linalg.solve(information, slope) < 1e-3
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(fit.effects_["se"], errors[3:], rtol=0.02)
    rates = fit.rate_intervals_
    np.testing.assert_allclose(rates["se"] / rates["rate"], errors[:3], rtol=0.02)
    assert set(fit.effects_["covariate"]) == {"period=>=2"}


def test_chances_follow_the_change(fit):
    first = fit.network_at({"period": "<2"}).joint_generator().toarray()
    second = fit.network_at({"period": ">=2"}).joint_generator().toarray()
    for t in (1.0, 3.5):
        table = fit.transition_probabilities([t])
        found = table["probability"].to_numpy().reshape(3, 3)
        np.testing.assert_allclose(found, step(first, second, 0.0, t), atol=1e-10)
        alive = fit.survival([t]).set_index("from")["survival"]
        assert alive["ill"] == pytest.approx(1.0 - step(first, second, 0.0, t)[1, 2])


def test_expected_shares_follow_changes_of_each_patient(visits, fit):
    first = fit.network_at({"period": "<2"}).joint_generator().toarray()
    second = fit.network_at({"period": ">=2"}).joint_generator().toarray()
    clock = [1.0, 2.6, 4.0]
    found = fit.prevalence(clock).set_index(["time", "state"])
    for now in clock:
        expected, n = np.zeros(3), 0
        for times, states in visits:
            if times[0] <= now and (now <= times[-1] or states[-1] == 2):
                expected += step(first, second, times[0], now)[states[0]]
                n += 1
        np.testing.assert_allclose(found.loc[now]["expected"], expected / n, atol=1e-10)
        assert (found.loc[now]["n"] == n).all()


def test_survival_stands_beside_kaplan_and_meier(visits, fit):
    clock = [0.5, 1.5, 3.0]
    found = fit.survival(clock).query("`from` == 'well'")
    for now, empirical, at_risk in zip(clock, found["empirical"], found["at_risk"]):
        lasted = [
            (next((t for t, x in zip(*v) if x == 2), v[0][-1]) - v[0][0], 2 in v[1]) for v in visits
        ]
        share = 1.0
        for time in sorted({t for t, dead in lasted if dead and t <= now}):
            dead = sum(t == time and d for t, d in lasted)
            share *= 1.0 - dead / sum(t >= time for t, _ in lasted)
        assert empirical == pytest.approx(share)
        assert at_risk == sum(t >= now for t, _ in lasted)
    assert (found["lower"] < found["survival"]).all()
    assert (found["survival"] < found["upper"]).all()
    late = fit.survival([100.0])
    assert (late["at_risk"] == 0).all()
    assert late["empirical"].isna().all()  # nobody is followed so long


def test_the_command_line_takes_times_of_change(table, fit, tmp_path):
    table.drop(columns="sex").to_csv(tmp_path / "t.csv", index=False)
    common = ("fit", tmp_path / "t.csv", "--allowed", "well>ill,well>dead,ill>dead")
    result = invoke(*common, "--change-times", "2", "-o", tmp_path / "RUN")
    assert result.exit_code == 0, result.stderr
    effects = pd.read_csv(tmp_path / "RUN" / "effects.csv")
    found = effects.set_index("transitions")["effect"]
    for row in fit.effects_.to_dict("records"):
        assert found[row["transitions"]] == pytest.approx(row["effect"], abs=2e-3)
    assert "period" in result.stderr
    survival = pd.read_csv(tmp_path / "RUN" / "survival.csv")
    assert {"from", "time", "survival", "empirical"} <= set(survival.columns)
    assert_refused(invoke(*common, "--change-times", "x", "-o", tmp_path / "A"), 2, "numbers")
    for flags, acts in (
        (("--equal-effects", "period"), [", ".join(found.index)]),
        (("--covariate", "period:well>ill"), ["well>ill"]),
    ):
        result = invoke(*common, "--change-times", "2", *flags, "-o", tmp_path / "RUN", "--force")
        assert result.exit_code == 0, result.stderr
        effects = pd.read_csv(tmp_path / "RUN" / "effects.csv")
        assert effects["transitions"].tolist() == acts


def test_times_of_change_must_lie_in_the_data(table):
    obs = am.Observations.from_frame(table.drop(columns="sex"))
    for times in ([50.0], [2.0, 1.0]):
        with pytest.raises(AsterismError, match="change_times"):
            am.ParameterLearner({"state": []}, change_times=times).fit(obs)
