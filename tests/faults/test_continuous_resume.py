"""Searches for edges of continuous nodes: killed or interrupted, they go on to the same result."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import asterism as am
from asterism.continuous import sampled
from asterism.continuous.family_score import FamilyScorer
from asterism.errors import AsterismError, DataError
from asterism.learning.search import journal as journal_module
from asterism.learning.tasks import Silent
from asterism.sampling import model_posterior, rounds
from tests.unit.test_continuous_learner import table


@cache
def data(seed: int = 3) -> am.Observations:
    """Six nodes of which the last three are copies of the first, moved in time."""
    frame = table(seed=seed)
    later = frame[list("ABC")].shift(1, fill_value=10.0).to_numpy()
    return am.Observations.from_frame(frame.assign(**dict(zip("DEF", later.T))))


def learn(path: Path | None = None, resume: bool = False, **settings: Any) -> am.StructureLearner:
    progress = settings.pop("progress", False)
    observations = settings.pop("data", None) or data()
    search = am.Search(journal=path, resume=resume)
    learner = am.StructureLearner(am.Continuous(), search=search, random_state=1, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return learner.fit(observations, progress=progress)


class Killed(Silent):
    """Kills this process, or interrupts it, as soon as three nodes have been scored."""

    def __init__(self, how: str) -> None:
        self.how, self.left = how, 3

    def advance(self, n: int = 1) -> None:
        self.left -= 1
        if self.left:
            return
        if self.how == "killed":
            signal.raise_signal(signal.SIGKILL)
        raise KeyboardInterrupt


def killed_search(path: str) -> None:
    journal_module._SECONDS = 0.0  # written at once
    learn(Path(path), n_jobs=1, progress=Killed("killed"))


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_search_goes_on_with_what_was_scored(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn(n_jobs=1)
    path = tmp_path / "journal.sqlite"
    if how == "killed":
        root = Path(__file__).resolve().parents[2]
        code = f"from {__name__} import killed_search; killed_search({str(path)!r})"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        with pytest.raises(KeyboardInterrupt):
            learn(path, n_jobs=1, progress=Killed(how))
    n_known = journal_module.n_scores(path)
    assert 1 <= n_known <= 3
    scored: list[int] = []
    original = FamilyScorer.families

    def counted(scorer: FamilyScorer, child: int, families: Any) -> Any:
        scored.append(child)
        return original(scorer, child, families)

    monkeypatch.setattr(FamilyScorer, "families", counted)
    again = learn(path, resume=True, n_jobs=2)
    assert len(scored) == 6 - n_known
    for name in ("edges_", "family_scores_", "targets_"):
        one, other = getattr(expected, name), getattr(again, name)
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    learn(path, resume=True)
    assert len(scored) == 6 - n_known, "what the journal knows was scored again"
    with pytest.raises(DataError, match=r"data \("):
        learn(path, resume=True, data=data(4))


DRAWS = {"method": "sample", "sampling": am.Sampling(chains=2, max_draws=60)}


def test_chains_go_on_where_they_were_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn(**DRAWS)
    original, n_calls = sampled._CONTINUOUS_CHAINS, 0

    def interrupted(setup: Any, chains: Any, n_sweeps: int, keep_every: int, *others: Any) -> Any:
        nonlocal n_calls
        n_calls += keep_every > 0
        if n_calls == 20:
            raise KeyboardInterrupt
        return original.go_on(setup, chains, n_sweeps, keep_every, *others)

    # looks as often as possible, so that one call is one sweep
    monkeypatch.setattr(sampled, "_CONTINUOUS_CHAINS", original._replace(go_on=interrupted))
    monkeypatch.setattr(rounds, "LOOK", 0.0)
    path = tmp_path / "journal.sqlite"
    stopped = learn(path, **DRAWS)
    assert stopped.interrupted_
    assert "Interrupted after 19 sweeps" in stopped.stop_reason_
    monkeypatch.undo()
    again = learn(path, resume=True, **DRAWS)
    pd.testing.assert_frame_equal(expected.edges_, again.edges_, check_exact=True)
    pd.testing.assert_frame_equal(expected.diagnostics_, again.diagnostics_, check_exact=True)


def test_forged_checkpoints_of_chains_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    learn(path, **DRAWS)
    file = tmp_path / "sampling.npz"
    with np.load(file) as held:
        whole = {name: held[name] for name in held.files if name != "checksum"}
    for name in ("family", "bent", "decay", "strength", "size"):
        for wrong in (-1, 10**6):
            forged = {**whole, f"1/{name}": np.full_like(whole[f"1/{name}"], wrong)}
            np.savez(file, **forged, checksum=np.array(model_posterior._checksum(forged)))
            with pytest.raises(AsterismError, match="damaged"):
                learn(path, resume=True, **DRAWS)
