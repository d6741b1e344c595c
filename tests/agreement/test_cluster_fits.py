"""Rates and standard errors learned by clusters, beside those of exact inference."""

from __future__ import annotations

import numpy as np

import asterism as am

NOISE = am.Gaussian((0.0, 1.0), 0.4)


def test_estimates_and_standard_errors_are_those_of_exact_inference() -> None:
    """A chain of three nodes: two clusters that share B."""
    lead = np.array([[0, 0.8], [0.6, 0]])
    follow = np.array([[[0, 0.3], [2.0, 0]], [[0, 2.0], [0.5, 0]]])
    network = am.Network(
        {"A": [], "B": ["A"], "C": ["B"]},
        {"A": lead, "B": follow, "C": follow},
        {n: [0, 1] for n in "ABC"},
    )
    paths = am.simulate(network, 8, duration=5.0, seed=3)
    seen = am.observe(paths, NOISE, n_observations=8, seed=4)
    prior = am.GammaPrior(2.0, 1.0)
    exact, clusters = (
        am.ParameterLearner(network, NOISE, prior, method, n_jobs=1).fit(seen)
        for method in ("exact", "clusters")
    )
    assert clusters.converged_
    its, mine = exact.rate_intervals_, clusters.rate_intervals_
    assert (np.abs(mine.rate - its.rate) < 0.05 * its.se).all()
    np.testing.assert_allclose(mine.se, its.se, rtol=0.01)
    assert its.se.max() / its.rate[its.se.idxmax()] > 0.3  # the data leave much open
