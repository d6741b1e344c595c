"""Trajectories that differ by a Gamma factor, against plain maximisations of the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import asterism as am
from asterism.cli import main
from asterism.errors import ModelError
from asterism.learning.em.spread_table import _held_at
from tests.reference import frailty as reference
from tests.reference.frailty import simulated
from tests.reference.hidden_panel import newton


def _generator(v: np.ndarray) -> np.ndarray:
    return np.array([[-v[0], v[0]], [v[1], -v[1]]])


def _learned(fit: am.ParameterLearner) -> np.ndarray:
    return np.append(
        fit.rate_intervals_["rate"], fit.parameters_.query("kind == 'frailty'").estimate
    )


def _spreads(fit: am.ParameterLearner) -> np.ndarray:
    """Learned spreads, without the intervals that ``frailty_`` would compute."""
    n = fit._fit.task.coordinates.update.formula.n_covariate_effects
    return np.array(fit._fit.outcome.best.estimate.effects[n:])


def _at(fit: am.ParameterLearner) -> np.ndarray:
    return np.append(fit.rate_intervals_["rate"], _spreads(fit))


@pytest.mark.slow
def test_panels_have_the_maximum_of_the_plain_marginal_likelihood() -> None:
    data = simulated(1, 0.7)
    obs = am.Observations.from_frame(data.table)
    fit = am.ParameterLearner({"B": []}, initial="uniform", frailty="B").fit(obs)
    best, value = reference.maximum(
        lambda v: reference.panel_log_likelihood(_generator(v), v[2], data.panels).sum(),
        np.array([0.8, 1.1, 0.7]),
    )
    np.testing.assert_allclose(_learned(fit), best, rtol=1e-3)
    assert fit.log_evidence_ == pytest.approx(value + len(data.panels) * np.log(0.5), abs=1e-4)
    assert fit.n_parameters_ == 3

    plain = am.ParameterLearner({"B": []}, initial="uniform").fit(obs)
    row = fit.frailty_.iloc[0]
    assert row.statistic == pytest.approx(2 * (fit.log_evidence_ - plain.log_evidence_), abs=1e-6)
    # the ends of the interval: where the profile has fallen by half the quantile of χ²
    for end in (row.lower, row.upper):
        if end > 0.0:
            _, held = reference.maximum(
                lambda v, s=end: reference.panel_log_likelihood(
                    _generator(v), s, data.panels
                ).sum(),
                np.array([0.8, 1.1]),
            )
            assert 2.0 * (value - held) == pytest.approx(3.841, rel=0.02)


def test_a_spread_of_zero_is_the_fit_without_factors() -> None:
    obs = am.Observations.from_frame(simulated(2, 0.5, n=40).table)
    plain = am.ParameterLearner({"B": []}, frailty=None).fit(obs)
    fit = am.ParameterLearner({"B": []}, frailty={"B": "all"}).fit(obs)
    objective, estimate = _held_at(fit._fit, 0, 0.0)
    assert objective == pytest.approx(plain.log_evidence_, abs=1e-4)
    rates = fit._fit.base_rates(estimate)
    np.testing.assert_allclose(rates, np.ravel(_off_diagonal(plain.network_.rates["B"])), rtol=1e-2)


def _off_diagonal(rates: Any) -> np.ndarray:
    table = np.array(rates, dtype=float)
    np.fill_diagonal(table, 0.0)
    return table


def test_complete_paths_have_the_maximum_of_the_closed_form() -> None:
    data = simulated(3, 0.7, n=60)
    paths = am.Trajectories.from_frame(data.paths, end=5.0)
    fit = am.ParameterLearner({"B": []}, frailty="B").fit(paths)
    best, value = reference.maximum(
        lambda v: reference.complete_log_likelihood(v[:2], v[2], data.counts, data.times).sum(),
        np.array([0.8, 1.1, 0.7]),
    )
    found = np.append(fit.rate_intervals_["rate"], fit._fit.outcome.best.estimate.effects)
    np.testing.assert_allclose(found, best, rtol=1e-3)
    assert fit.log_evidence_ == pytest.approx(value, abs=1e-3)


def test_evidence_chooses_and_the_command_line_says_it(tmp_path: Any) -> None:
    simulated(1, 1.0, n=150).table.to_csv(tmp_path / "data.csv", index=False)
    options = ["fit", str(tmp_path / "data.csv"), "--frailty", "auto", "--nodes", "B"]
    done = CliRunner().invoke(main, [*options, "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "differ by a factor of" in done.output
    table = pd.read_csv(tmp_path / "run" / "frailty.csv")
    assert table.node.tolist() == ["B"]
    assert 0.0 < table.lower[0] < 1.0 < table.upper[0]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "differ by a factor of" in page
    assert page.count("factor on the rates of B is 1") >= 3  # rates, sojourn times, curves
    assert "differ by a factor of" in (tmp_path / "run" / "run.json").read_text()


def _counted(table: pd.DataFrame, state: pd.Series, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(D, S, S) steps from visit to visit, and the first states."""
    counts, first = [], []
    for _, own in state.groupby(table["trajectory"]):
        x = own.to_numpy()
        counts.append(np.zeros((size, size)))
        np.add.at(counts[-1], (x[:-1], x[1:]), 1.0)
        first.append(x[0])
    return np.array(counts), np.array(first)


def _two_factor_panel(rates: dict[str, Any], spreads: Any, parents: Any, n: int) -> pd.DataFrame:
    """Visits at 0, ½, 1, … of trajectories with factors u and v: ``rates[node](u, v)``."""
    rng = np.random.default_rng(8)
    frames = []
    for d in range(n):
        u, v = (rng.gamma(1.0 / s**2, s**2) for s in spreads)
        network = am.Network(
            parents,
            {node: make(u, v) for node, make in rates.items()},
            {node: [0, 1] for node in rates},
        )
        path = am.simulate(network, n_trajectories=1, duration=3.0, seed=int(rng.integers(2**31)))
        frame = am.observe(path, am.Exact(), times=np.arange(0.0, 3.01, 0.5)).to_frame()
        frames.append(frame.assign(trajectory=d))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.slow
def test_up_and_down_have_factors_of_their_own() -> None:
    table = _two_factor_panel(
        {"B": lambda u, v: np.array([[0.0, u], [v, 0.0]])}, (1.2, 0.8), {"B": []}, 20
    )
    obs = am.Observations.from_frame(table)
    fit = am.ParameterLearner({"B": []}, initial="uniform", frailty={"B": "up-down"}).fit(obs)
    counts, _ = _counted(table, table["B"].astype(int), 2)

    def value(v: np.ndarray) -> float:
        def generator(up: np.ndarray, down: np.ndarray) -> np.ndarray:
            a, b = v[0] * up, v[1] * down
            return np.stack([np.stack([-a, a], -1), np.stack([b, -b], -1)], -2)

        return float(reference.pair_log_likelihood(generator, v[2:], counts, 0.5).sum())

    given_first = fit.log_evidence_ - len(counts) * np.log(0.5)
    assert given_first == pytest.approx(value(_at(fit)), abs=2e-3)
    gain, better, _ = newton(lambda v: value(np.exp(v)), np.log(_at(fit)), step=0.02)
    assert 2.0 * gain < 0.01
    np.testing.assert_allclose(_at(fit), np.exp(better), rtol=0.02)
    plain = am.ParameterLearner({"B": []}, initial="uniform").fit(obs)
    assert fit.log_evidence_ > plain.log_evidence_
    assert fit.n_parameters_ == plain.n_parameters_ + 2


def test_factors_beside_a_covariate() -> None:
    """The group doubles both rates; the rest of the differences is the factor's."""
    slow, fast = simulated(11, 0.7, n=50), simulated(12, 0.7, n=50, rates=2.0 * reference.RATES)
    tables = [
        data.table.assign(trajectory=data.table["trajectory"] + 1000 * g, group=g)
        for g, data in enumerate((slow, fast))
    ]
    obs = am.Observations.from_frame(pd.concat(tables), covariates=["group"])
    effect = am.Effect("group", equal=True)
    options: dict[str, Any] = {"initial": "uniform", "covariates": [effect]}
    fit = am.ParameterLearner({"B": []}, frailty="B", **options).fit(obs)

    def value(v: np.ndarray) -> float:
        return float(
            reference.panel_log_likelihood(_generator(v), v[2], slow.panels).sum()
            + reference.panel_log_likelihood(_generator(v) * v[3], v[2], fast.panels).sum()
        )

    ours = np.array([*_at(fit), float(fit.effects_.hazard_ratio.iloc[0])])
    assert fit.log_evidence_ == pytest.approx(value(ours) + 100 * np.log(0.5), abs=1e-4)
    gain, better, errors = newton(lambda v: value(np.exp(v)), np.log(ours), step=0.01)
    assert 2.0 * gain < 1e-3
    np.testing.assert_allclose(ours, np.exp(better), rtol=2e-3)
    assert fit.effects_.se.iloc[0] == pytest.approx(errors[3], rel=0.02)
    plain = am.ParameterLearner({"B": []}, **options).fit(obs)
    assert fit.log_evidence_ > plain.log_evidence_
    assert ours[2] == pytest.approx(0.7, abs=0.25)
    # patients that differ say less about a group than as many that do not
    assert fit.effects_.se.iloc[0] > plain.effects_.se.iloc[0]


def test_predictions_leave_the_factors_out() -> None:
    obs = am.Observations.from_frame(simulated(4, 0.7, n=40).table)
    fit = am.ParameterLearner({"B": []}, frailty="B").fit(obs)
    assert list(fit.predict_proba(obs[:2], [1.0]).node.values) == ["B"]
    assert list(fit.impute(obs[:2], [1.0]).columns) == ["trajectory", "time", "B"]
    assert set(fit.forecast(obs[:2], [1.0]).node) == {"B"}
    assert fit.score_samples(obs).sum() == pytest.approx(fit.log_evidence_, abs=1e-6)
    assert fit.statistics_.transitions["B"].shape == (2, 2)


def test_what_cannot_be_is_said() -> None:
    obs = am.Observations.from_frame(simulated(4, 0.0, n=10).table)
    with pytest.raises(ModelError, match=r"'C'.*B"):
        am.ParameterLearner({"B": []}, frailty="C").fit(obs)
    with pytest.raises(ModelError, match="up-down"):
        am.ParameterLearner({"B": []}, frailty={"B": "some"}).fit(obs)
    with pytest.raises(ModelError, match="exact"):
        am.ParameterLearner({"B": []}, frailty="B", method="star").fit(obs)
