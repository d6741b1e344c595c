"""What arviz gets: the same groups and named dimensions for every kind of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import asterism as am
from asterism.errors import AsterismError

NETWORK = am.glauber({"A": [], "B": ["A"]}, b=1.0)
NOISE = am.Gaussian((-1.0, 1.0), 0.4)


@pytest.fixture(scope="module")
def seen() -> am.Observations:
    paths = am.simulate(NETWORK, 3, duration=3.0, seed=0)
    return am.observe(paths, NOISE, n_observations=5, seed=1)


def require_groups(tree: Any, seen: am.Observations) -> Any:
    assert set(tree.children) >= {"posterior", "sample_stats", "observed_data"}
    observed = tree["observed_data"]
    assert observed.sizes["measurement"] == seen.n_measurements
    assert {"trajectory", "time", "node"} <= set(observed.coords)
    sizes = [tree[group].sizes for group in ("posterior", "sample_stats")]
    assert sizes[0]["chain"] == sizes[1]["chain"] == 4
    assert sizes[0]["draw"] == sizes[1]["draw"]
    return tree["posterior"]


def test_draws_of_paths(seen: am.Observations) -> None:
    found = am.infer(NETWORK, seen, NOISE, method="sample", n_draws=50, seed=2)
    posterior = require_groups(found.to_arviz(times=[0.5, 2.0]), seen)
    states = posterior["state"]
    assert states.dims == ("chain", "draw", "trajectory", "time", "node")
    share = (states == 1).mean(("chain", "draw"))
    np.testing.assert_allclose(share, found.marginals([0.5, 2.0]).isel(state=1), atol=1e-12)
    likelihood = found.to_arviz(times=[0.5])["log_likelihood"]["value"]
    table = seen.to_frame("long").set_index(["trajectory", "node", "time"])["value"]
    for i in (0, 7, -1):
        one = likelihood[:, :, i]
        d, node, t = int(one["trajectory"]), str(one["node"].values), float(one["time"])
        states = found.to_arviz(times=[t])["posterior"]["state"].sel(node=node)[:, :, d, 0]
        expected = norm.logpdf(table.loc[(d, node, t)], np.where(states, 1.0, -1.0), 0.4)
        np.testing.assert_allclose(one, expected)


def test_draws_of_rates_and_their_summary(seen: am.Observations) -> None:
    fit = am.ParameterLearner(
        NETWORK.graph, NOISE, method="sample", prior=am.GammaPrior(2, 2), states=NETWORK.states
    ).fit(seen)
    tree = fit.to_arviz()
    posterior = require_groups(tree, seen)
    table = fit.rate_intervals_.set_index(["node", "configuration"])
    mean = posterior["rates"].mean(("chain", "draw"))
    assert len(mean) == len(table)
    assert set(mean["transition"].values) == {"-1->1", "1->-1"}
    np.testing.assert_allclose(mean, table["rate"])
    assert "log evidence" not in fit._repr_html_()


def test_draws_of_graphs(seen: am.Observations) -> None:
    learner = am.StructureLearner(
        NOISE, 1, method="sample", states=NETWORK.states, sampling=am.Sampling(max_draws=50)
    ).fit(seen)
    edges = require_groups(learner.to_arviz(), seen)["edges"]
    assert edges.dims == ("chain", "draw", "edge")
    assert set(zip(edges["parent"].values, edges["child"].values)) == {("A", "B"), ("B", "A")}


def test_a_sampled_posterior_says_that_its_accuracy_is_its_errors(seen: am.Observations) -> None:
    found = am.infer(NETWORK, seen, NOISE, method="sample", n_draws=50, seed=2)
    with pytest.raises(AsterismError, match="errors"):
        _ = found.accuracy
