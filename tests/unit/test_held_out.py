"""Prediction of trajectories that were not learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import asterism as am
from asterism.errors import DataError
from asterism.learning.held_out import held_out_gain
from tests.command_line import invoke

NETWORK = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.5)
NOISE = am.Gaussian((-1.0, 1.0), 0.3)


def measured(n: int, seed: int) -> am.Observations:
    return am.observe(am.simulate(NETWORK, n, duration=6.0, seed=seed), NOISE, 12, seed=seed + 1)


@pytest.fixture(scope="module")
def learner() -> am.StructureLearner:
    return am.StructureLearner(NOISE, 1, method="star").fit(measured(20, 0))


def test_the_score_is_the_exact_log_evidence_of_the_network_learned(
    learner: am.StructureLearner,
) -> None:
    new = measured(4, 10)
    found = learner.score_samples(new)
    exact = am.infer(learner.network_, new, learner.emission_, method="exact")
    np.testing.assert_allclose(found, exact.log_evidence_by_trajectory, rtol=1e-3)
    assert learner.score(new) == pytest.approx(found.mean())


def test_edges_predict_and_an_unconnected_network_gains_nothing(
    learner: am.StructureLearner,
) -> None:
    gain = held_out_gain(learner, measured(20, 0), 3)
    assert gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)) > 0.0
    assert len(gain) == 20
    with pytest.raises(DataError, match="from 2 to 20"):
        held_out_gain(learner, measured(20, 0), 40)


def test_scikit_learn_cross_validates(learner: am.StructureLearner) -> None:
    scores = cross_val_score(learner, measured(9, 5), cv=3)
    assert np.isfinite(scores).all()


def test_the_command_prints_the_gain(tmp_path: Path) -> None:
    measured(16, 3).to_frame().to_csv(tmp_path / "data.csv", index=False)
    result = invoke(
        *("learn", tmp_path / "data.csv", "-o", tmp_path / "RUN", "--method", "star"),
        *("--max-parents", 1, "--emission", "gaussian:-1,1:0.3", "--cross-validate", 2),
    )
    assert result.exit_code == 0, result.output
    assert "held-out" in result.output
    assert "held_out" in (tmp_path / "RUN" / "run.json").read_text()
