"""Probabilities that a few chains, which have not met, agree on."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.sampling.diagnose import of_a_further_chain


def log_loss(probability: np.ndarray, truth: np.ndarray) -> float:
    kept = np.clip(probability, 1e-6, 1.0 - 1e-6)
    return float(-np.mean(np.log(np.where(truth, kept, 1.0 - kept))))


@pytest.mark.parametrize("n_chains", [2, 4])
def test_luck_is_taken_out_and_the_order_stays(n_chains: int) -> None:
    """Most pairs are hardly possible, and every chain is off by chance."""
    rng = np.random.default_rng(1)
    true = rng.beta(0.05, 1.0, size=4000)
    truth = rng.random(len(true)) < true
    chains = rng.binomial(3, true, size=(n_chains, len(true))) / 3
    plain, corrected = chains.mean(axis=0), of_a_further_chain(chains)
    assert log_loss(corrected, truth) < 0.8 * log_loss(plain, truth)
    some = (plain > 0.0) & (plain < 0.3)
    assert abs(corrected[some].mean() - true[some].mean()) < abs(
        plain[some].mean() - true[some].mean()
    )
    order = np.argsort(plain, kind="stable")
    assert np.all(np.diff(corrected[order])[np.diff(plain[order]) > 1e-9] > 0.0)
    assert corrected.min() > 0.0
    assert corrected.max() <= 1.0


def test_chains_that_agree_are_believed() -> None:
    said = np.array([0.0, 0.01, 0.3, 0.30001, 0.9, 1.0])
    np.testing.assert_allclose(of_a_further_chain(np.tile(said, (4, 1))), said, atol=1e-12)
    assert of_a_further_chain(np.empty((4, 0))).shape == (0,)
