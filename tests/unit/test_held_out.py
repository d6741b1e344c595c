"""Prediction of trajectories that were not learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.learning.held_out import held_out_gain
from asterism.numerics.progress import LongPart
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


class Stages:
    """Keeps the names of the stages, and how far the present one is."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.total = self.done = 0

    def start(self, total: int, what: str) -> None:
        self.names.append(what)
        self.total, self.done = total, 0

    def advance(self, n: int = 1) -> None:
        self.done += n

    def finish(self) -> None:
        pass


def test_a_part_shows_its_stages_only_if_it_takes_long(
    learner: am.StructureLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for brief, shown in ((1e9, False), (0.0, True)):
        monkeypatch.setattr(LongPart, "BRIEF", brief)
        seen = Stages()
        held_out_gain(learner, measured(20, 0), 3, progress=seen)
        for part in ("part 1 of 3: ", "part 3 of 3: "):
            assert any(name.startswith(part) for name in seen.names) is shown
        assert seen.names[0] == seen.names[-1]
        assert seen.done == seen.total == 3


def test_a_stage_that_becomes_long_is_shown_with_what_is_done() -> None:
    now, seen = [0.0], Stages()
    part = LongPart(seen, "part 1 of 2", lambda: now[0])
    part.start(10, "scoring")
    part.advance(4)
    assert seen.names == []
    now[0] = 3.0
    part.advance(1)
    assert (seen.names, seen.done, seen.total) == (["part 1 of 2: scoring"], 5, 10)
    part.advance(2)
    assert seen.done == 7


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


def quadratic() -> am.Observations:
    """B follows the square of A."""
    network = am.Network(
        {"A": [], "B": ["A"]},
        drifts={"A": am.Drift(0.3, 1.0), "B": am.Drift(1.0, 0.2, quadratic={"A": 0.8})},
    )
    return am.observe(am.simulate(network, 8, duration=20.0, seed=1), interval=0.5, seed=2)


def test_linear_networks_of_continuous_nodes_predict() -> None:
    network = am.Network(
        {"A": [], "B": ["A"]},
        drifts={"A": am.Drift(0.3, 1.0), "B": am.Drift(1.0, 0.2, linear={"A": 0.8})},
    )
    data = am.observe(am.simulate(network, 8, duration=20.0, seed=1), interval=0.5, seed=2)
    gain = held_out_gain(am.StructureLearner(am.Continuous()).fit(data), data, 2)
    assert gain.min() > 0.0


def test_what_cannot_be_predicted_is_said_and_leaves_the_run(tmp_path: Path) -> None:
    learner = am.StructureLearner(am.Continuous()).fit(quadratic())
    assert learner.network_.drifts["B"].quadratic
    with pytest.raises(ModelError, match="quadratic"):
        learner.score(quadratic())
    quadratic().to_frame().to_csv(tmp_path / "data.csv", index=False)
    result = invoke(
        *("learn", tmp_path / "data.csv", "-o", tmp_path / "RUN", "--states", "continuous"),
        *("--null", 0, "--cross-validate", 2),
    )
    assert result.exit_code == 0, result.output
    run = am.load(tmp_path / "RUN")
    assert "held_out" not in run.run
    assert any("quadratic" in warning for warning in run.run["warnings"])
