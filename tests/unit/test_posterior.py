"""The posterior object: shapes, labels, padding, forecasts, tables, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError, DataError


@pytest.fixture(scope="module")
def network() -> am.Network:
    return am.Network(
        {"gene": [], "protein": ["gene"]},
        {
            "gene": [[-1.0, 1.0], [2.0, -2.0]],
            "protein": [
                [[-1, 1, 0], [3, -4, 1], [0, 4, -4]],
                [[-5, 5, 0], [1, -4, 3], [0, 1, -1]],
            ],
        },
        {"gene": ["off", "on"], "protein": ["none", "some", "much"]},
    )


@pytest.fixture(scope="module")
def posterior(network: am.Network) -> am.Posterior:
    table = pd.DataFrame(
        {
            "trajectory": ["a", "a", "b"],
            "time": [0.5, 2.0, 1.0],
            "gene": ["on", "off", None],
            "protein": ["some", None, "much"],
        }
    )
    observations = am.Observations.from_frame(table, start=0.0, end={"a": 3.0, "b": 2.0})
    return am.infer(network, observations, am.Exact(), method="exact")


def test_marginals_carry_labels_and_pad_with_zero(posterior: am.Posterior) -> None:
    m = posterior.marginals([0.0, 0.5, 2.0])
    assert m.dims == ("trajectory", "time", "node", "state")
    assert list(m.trajectory.values) == ["a", "b"]
    assert float(m.sel(trajectory="a", time=0.5, node="gene", state=1)) == pytest.approx(1.0)
    assert float(m.sel(trajectory="a", time=0.5, node="protein", state=1)) == pytest.approx(1.0)
    assert np.all(m.sel(node="gene", state=2) == 0.0)
    assert m.label.sel(node="protein").values.tolist() == ["none", "some", "much"]
    np.testing.assert_allclose(m.sum("state"), 1.0, atol=1e-12)
    default = posterior.marginals()
    assert default.sizes["time"] == 101
    assert float(default.time[0]) == 0.0
    assert float(default.time[-1]) == 3.0


def test_forecast_tends_to_the_stationary_state(
    network: am.Network, posterior: am.Posterior
) -> None:
    late = posterior.marginals([200.0])
    np.testing.assert_allclose(late.sel(node="gene").values[:, 0, :2], [[2 / 3, 1 / 3]] * 2)


def test_before_the_start_the_start_is_repeated(posterior: am.Posterior) -> None:
    m = posterior.marginals([-5.0, 0.0])
    np.testing.assert_array_equal(m.values[:, 0], m.values[:, 1])


def test_tables(posterior: am.Posterior) -> None:
    tidy = posterior.marginals_frame([0.5, 2.0])
    assert list(tidy.columns) == ["trajectory", "time", "node", "state", "probability"]
    assert len(tidy) == 2 * 2 * (2 + 3)
    seen = tidy.query("trajectory == 'a' and time == 0.5 and node == 'gene' and state == 'on'")
    assert seen["probability"].item() == pytest.approx(1.0)
    likely = posterior.most_likely_states([0.5, 2.0])
    assert likely.loc[0, "gene"] == "on"
    assert likely.loc[1, "gene"] == "off"


@pytest.mark.smoke
def test_evidence_views(posterior: am.Posterior) -> None:
    assert list(posterior.log_evidence_by_trajectory.index) == ["a", "b"]
    assert posterior.log_evidence == pytest.approx(posterior.log_evidence_by_trajectory.sum())
    assert posterior.log_evidence_parts == {"log_evidence": posterior.log_evidence}
    assert posterior.log_evidence < posterior.log_evidence_given_first < 0
    assert posterior.converged
    assert "exact" in repr(posterior)


def test_samples_are_labelled_and_obey_exact_measurements(posterior: am.Posterior) -> None:
    paths = posterior.sample(5, seed=1)
    assert paths.labels[:6] == (("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 0))
    assert np.all(paths.end == [3.0] * 5 + [2.0] * 5)
    assert np.all(paths.state_at(np.array([0.5]))[:5, 0] == [1, 1])
    again = posterior.sample(5, seed=1)
    np.testing.assert_array_equal(paths.jump_time, again.jump_time)


def test_bad_requests_name_the_options(network: am.Network, posterior: am.Posterior) -> None:
    with pytest.raises(AsterismError, match="marginal, network"):
        posterior.sample(2, kind="some")
    with pytest.raises(DataError, match="finite"):
        posterior.marginals([0.0, np.nan])
    with pytest.raises(AsterismError, match="star, mean_field, clusters, exact"):
        am.infer(network, am.simulate(network, 1, duration=1.0), method="magic")
