"""Covariates that act on what is measured, against a plain forward recursion and scipy."""

import json
from math import lgamma

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError
from asterism.learning.em.outcome_effects import _reports
from tests.command_line import assert_refused, invoke
from tests.reference import hidden_panel
from tests.reference.panel_likelihood import maximum, standard_errors
from tests.reference.simulated_panels import outcome_panel as panel

EMISSIONS = {
    "gaussian": am.Gaussian((-1.0, 2.0), 0.7, learn=True),
    "poisson": am.Poisson((2.0, 9.0), learn=True),
    "categorical": am.Categorical([[0.85, 0.15], [0.2, 0.8]], learn=True),
}

#: where scipy starts: log rates, what is measured at group 0, no effects
DISTANT = {
    "gaussian": (-1.0, -1.0, -0.5, 1.5, 0.0, 0.0, 0.0),
    "poisson": (-1.0, -1.0, 1.0, 2.0, 0.0, 0.0),
    "categorical": (-1.0, -1.0, -1.0, -1.0, 0.0, 0.0),
}


def logs_of(kind, v, values, group):
    """(visits, 2) log-likelihoods at parameters v: those at group 0, then the two effects."""
    if kind == "gaussian":
        means, scale, effects = v[:2], np.exp(v[2]), v[3:]
        z = (values[:, None] - means - group[:, None] * effects) / scale
        return -0.5 * z**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    if kind == "poisson":
        mean = np.exp(v[:2] + group[:, None] * v[2:])
        constants = np.array([lgamma(y + 1) for y in values])[:, None]
        return values[:, None] * np.log(mean) - mean - constants
    wrong = 1 / (1 + np.exp(-(v[:2] + group[:, None] * v[2:])))
    is_wrong = np.stack([values == "b", values == "a"], axis=1)
    return np.log(np.where(is_wrong, wrong, 1 - wrong))


def named(fit, kind):
    """The fit's parameters in the units of ``logs_of``, and their standard errors."""
    table = fit.parameters_.set_index("parameter")
    own = table[table["kind"] == "emission"]
    effects = table[table["kind"] == "outcome effect"]
    if kind == "gaussian":
        base = [*own["estimate"][:2], np.log(own["estimate"].iloc[2])]
    elif kind == "poisson":
        base = list(np.log(own["estimate"]))
    else:
        p = own["estimate"].to_numpy()[[1, 2]]  # a reported as b, b reported as a
        base = list(np.log(p / (1 - p)))
    return base, list(effects["estimate"]), list(effects["se"])


@pytest.mark.parametrize("kind", list(EMISSIONS))
def test_effects_on_the_outcome_are_at_the_maximum_of_the_plain_likelihood(kind):
    table = panel(kind)
    obs = am.Observations.from_frame(
        table, covariates=["group"], labels=["y"] if kind == "categorical" else ()
    )
    fit = am.ParameterLearner(
        {"y": []},
        emission=EMISSIONS[kind],
        method="exact",
        states={"y": ["a", "b"]},
        covariates=[am.Effect("group", on="outcome")],
        initial={"y": [0.5, 0.5]},
    ).fit(obs)
    assert fit.converged_
    base, effects, errors = named(fit, kind)
    rates = fit.rate_intervals_
    at = np.array([*np.log(rates["rate"]), *base, *effects])
    groups = [
        (g["time"].to_numpy(), g["y"].to_numpy(), g["group"].to_numpy(dtype=float))
        for _, g in table.groupby("trajectory")
    ]

    def value(v):
        up, down = np.exp(v[:2])
        q = np.array([[-up, up], [down, -down]])
        return sum(
            hidden_panel.log_likelihood(q, [0.5, 0.5], t, logs_of(kind, v[2:], y, z))
            for t, y, z in groups
        )

    assert fit.log_evidence_ == pytest.approx(value(at), abs=1e-6)
    # scipy starts elsewhere and knows nothing of what was found; all patients have six visits
    visits = tuple(np.stack(column) for column in zip(*groups))

    def whole(v):
        up, down = np.exp(v[:2])
        q = np.array([[-up, up], [down, -down]])
        logs = logs_of(kind, v[2:], visits[1].ravel(), visits[2].ravel())
        logs = logs.reshape(*visits[0].shape, 2)
        return float(hidden_panel.log_likelihoods(q, [0.5, 0.5], visits[0], logs).sum())

    assert whole(at) == pytest.approx(value(at), abs=1e-8)
    best, there = maximum(whole, np.array(DISTANT[kind]))
    assert -2 * fit.log_evidence_ == pytest.approx(-2 * best, abs=0.01)
    # 0.5 % of a rate, a mean or an odds: in logarithms 0.005
    np.testing.assert_allclose(at, there, rtol=0.0, atol=5e-3)
    plain_errors = standard_errors(whole, there)
    np.testing.assert_allclose(errors, plain_errors[-2:], rtol=0.02)
    np.testing.assert_allclose(rates["se"] / rates["rate"], plain_errors[:2], rtol=0.02)
    # inference after the fit uses the covariates of its data
    assert fit.score(obs) * len(obs) == pytest.approx(fit.log_evidence_, abs=1e-6)
    assert len(fit.most_probable_paths(obs[:2])) == 12


def test_an_effect_that_runs_away_takes_no_other_interval_with_it():
    """Counts of the lower state are all zero in one group: only that effect is unknown."""
    table = panel("poisson")
    table.loc[(table["group"] == 1) & (table["y"] < 5), "y"] = 0
    obs = am.Observations.from_frame(table, covariates=["group"])
    fit = am.ParameterLearner(
        {"y": []},
        emission=EMISSIONS["poisson"],
        method="exact",
        states={"y": ["a", "b"]},
        covariates=[am.Effect("group", on="outcome")],
        initial={"y": [0.5, 0.5]},
    ).fit(obs)
    assert fit.converged_
    base, effects, _ = named(fit, "poisson")
    found, rates = fit.parameters_, fit.rate_intervals_
    lost = found["parameter"] == "y: log mean in a × group"
    assert found["note"].str.startswith("not identified").tolist() == lost.tolist()
    assert found[lost][["lower", "upper"]].to_numpy().tolist() == [[-np.inf, np.inf]]
    times, counts, group = (
        np.stack(list(table.groupby("trajectory")[name].apply(np.array)))
        for name in ("time", "y", "group")
    )

    def whole(v):
        up, down = np.exp(v[:2])
        q = np.array([[-up, up], [down, -down]])
        v = [*v[2:4], effects[0], v[4]]  # at its limit the evidence does not depend on the effect
        logs = logs_of("poisson", np.array(v), counts.ravel(), group.ravel())
        logs = logs.reshape(*times.shape, 2)
        return float(hidden_panel.log_likelihoods(q, [0.5, 0.5], times, logs).sum())

    at = np.array([*np.log(rates["rate"]), *base, effects[1]])
    assert whole(at) == pytest.approx(fit.log_evidence_, abs=1e-6)
    plain = standard_errors(whole, at)
    np.testing.assert_allclose(rates["se"] / rates["rate"], plain[:2], rtol=0.02)
    own = found[found["kind"] == "emission"]
    np.testing.assert_allclose(own["se"] / own["estimate"], plain[2:4], rtol=0.02)


def test_the_unit_of_the_outcome_only_rescales_its_effects():
    table = panel("gaussian")

    def effects(unit):
        obs = am.Observations.from_frame(table.assign(y=unit * table["y"]), covariates=["group"])
        fit = am.ParameterLearner(
            {"y": []},
            emission=am.Gaussian((-unit, 2.0 * unit), 0.7 * unit, learn=True),
            method="exact",
            states={"y": ["a", "b"]},
            covariates=[am.Effect("group", on="outcome")],
        ).fit(obs)
        found = fit.parameters_.query("kind == 'outcome effect'")
        return found[["estimate", "se"]].to_numpy() / unit

    np.testing.assert_allclose(effects(1e5), effects(1.0), rtol=1e-4)


def test_one_effect_for_all_states_and_chosen_states():
    table = panel("gaussian")
    obs = am.Observations.from_frame(table, covariates=["group"])
    common = {"emission": EMISSIONS["gaussian"], "method": "exact", "states": {"y": ["a", "b"]}}
    one = am.ParameterLearner(
        {"y": []}, covariates=[am.Effect("group", on="outcome", equal=True)], **common
    ).fit(obs)
    assert (one.parameters_["kind"] == "outcome effect").sum() == 1
    some = am.ParameterLearner(
        {"y": []}, covariates=[am.Effect("group", on="outcome", states="b")], **common
    ).fit(obs)
    found = some.parameters_.query("kind == 'outcome effect'")["parameter"].tolist()
    assert found == ["y: mean in b × group"]
    with pytest.raises(AsterismError, match="not learned"):
        am.ParameterLearner(
            {"y": []},
            emission=am.Gaussian((-1.0, 2.0), 0.7),
            states={"y": ["a", "b"]},
            covariates=[am.Effect("group", on="outcome")],
        ).fit(obs)


def test_the_command_line_takes_outcome_covariates_and_scales_per_state(tmp_path):
    panel("gaussian").to_csv(tmp_path / "y.csv", index=False)
    common = ("fit", tmp_path / "y.csv", "--nodes", "y")
    result = invoke(
        *common,
        *("--outcome-covariate", "group", "--emission", "gaussian:per-state"),
        *("-o", tmp_path / "RUN", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    table = pd.read_csv(tmp_path / "RUN" / "parameters.csv")
    assert table["parameter"].str.contains("scale in").sum() == 2
    effects = table[table["kind"] == "outcome effect"]
    assert effects["estimate"].to_numpy() == pytest.approx([0.8, 0.8], abs=0.5)
    assert "group" in result.stderr
    assert "mean in low × group" in (tmp_path / "RUN" / "report.html").read_text(encoding="utf-8")
    assert json.loads(result.stdout)["converged"]
    wrong = invoke(*common, "--outcome-covariate", "weight", "-o", tmp_path / "RUN2")
    assert_refused(wrong, 3, "weight")


def test_starts_that_depend_on_a_covariate(tmp_path):
    """Against the forward recursion, with a start that differs between the groups."""
    table = panel("gaussian", n_patients=60, seed=9)
    # many of the second group start in the upper state
    later = table[table["group"] == 1].groupby("trajectory").head(1).index
    first = table.loc[later, "y"]
    table.loc[later, "y"] = np.where(np.arange(len(first)) % 4 > 0, 2.8, first)
    obs = am.Observations.from_frame(table, covariates=["group"])
    fit = am.ParameterLearner(
        {"y": []},
        emission=am.Gaussian((-1.0, 2.0), 0.9, learn=True),
        method="exact",
        states={"y": ["a", "b"]},
        covariates=[am.Effect("group", on="start")],
    ).fit(obs)
    assert fit.converged_
    found = fit.parameters_
    start = found[found["kind"] == "start"]["estimate"].to_numpy()
    effect = found[found["kind"] == "start effect"]
    own = found[found["kind"] == "emission"]["estimate"].to_numpy()
    rates = fit.rate_intervals_
    at = np.array([
        *np.log(rates["rate"]), own[0], own[1], np.log(own[2]),
        np.log(start[1] / start[0]), float(effect["estimate"].iloc[0]),
    ])  # fmt: skip
    patients = [
        (g["time"].to_numpy(), g["y"].to_numpy(), float(g["group"].iloc[0]))
        for _, g in table.groupby("trajectory")
    ]

    def value(v):
        up, down = np.exp(v[:2])
        q = np.array([[-up, up], [down, -down]])
        total = 0.0
        for t, y, group in patients:
            upper = 1 / (1 + np.exp(-(v[5] + v[6] * group)))
            logs = logs_of("gaussian", [*v[2:5], 0.0, 0.0], y, np.zeros(len(y)))
            total += hidden_panel.log_likelihood(q, [1 - upper, upper], t, logs)
        return total

    assert fit.log_evidence_ == pytest.approx(value(at), abs=1e-6)
    gain, better, errors = hidden_panel.newton(value, at)
    assert 2 * gain < 0.01
    np.testing.assert_allclose(at, better, rtol=5e-3, atol=5e-3)
    assert effect["se"].iloc[0] == pytest.approx(errors[-1], rel=0.02)
    assert fit.score(obs) * len(obs) == pytest.approx(fit.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(fit.network_.initial["y"], start, atol=1e-12)
    assert fit.n_parameters_ - fit.n_parameters_given_first_ == 2
    # in a most probable path the start counts as often: once
    y, group = np.tile(np.linspace(-1.0, 2.8, 400), 2), np.repeat([0.0, 1.0], 400)
    seen = pd.DataFrame({"trajectory": range(800), "time": 0.0, "y": y, "group": group})
    odds = at[5] + at[6] * group + np.diff(logs_of("gaussian", [*at[2:5], 0.0, 0.0], y, 0 * y)).T
    alone = am.Observations.from_frame(seen, end=1.0, covariates=["group"])
    paths = fit.most_probable_paths(alone)
    assert paths["y"].tolist() == np.where(odds.ravel() > 0.0, "b", "a").tolist()
    table.to_csv(tmp_path / "y.csv", index=False)
    result = invoke(
        *("fit", tmp_path / "y.csv", "--nodes", "y", "--start-covariate", "group"),
        *("-o", tmp_path / "RUN"),
    )
    assert result.exit_code == 0, result.stderr
    saved = pd.read_csv(tmp_path / "RUN" / "parameters.csv").query("kind == 'start effect'")
    assert saved["estimate"].iloc[0] == pytest.approx(effect["estimate"].iloc[0], abs=0.02)


def test_probabilities_stay_finite_where_an_effect_runs_away():
    shift = np.array([[0.0, 900.0, 0.0, -900.0], [0.0, 0.0, 0.0, 0.0]])
    found = _reports(am.Categorical([[0.8, 0.2], [0.3, 0.7]]), shift)
    expected = [[[0.0, 1.0], [1.0, 0.0]], [[0.8, 0.2], [0.3, 0.7]]]
    np.testing.assert_allclose(found, expected, atol=1e-12)
