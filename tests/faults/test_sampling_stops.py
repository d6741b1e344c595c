"""Ctrl-C while the posterior is sampled: what was drawn is kept, and --resume goes on from it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.learning.search import sampled
from asterism.numerics.resources import current_limit
from asterism.sampling import model_posterior, rounds
from tests.command_line import invoke, obey_ctrl_c

PROGRAM = Path(sys.executable).with_name("asterism")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=0.8)
    noise = am.Gaussian((-1, 1), 0.7)
    seen = am.observe(am.simulate(network, 4, duration=4.0, seed=3), noise, 6, seed=4)
    seen.to_frame().to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def drawn(folder: Path) -> int:
    with np.load(folder / "sampling.npz") as held:
        return int(held["draws/n_jumps"].shape[1])


def test_an_interruption_keeps_what_was_drawn(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = model_posterior.MODEL_CHAINS
    n_kept = 0

    def interrupted(setup: Any, chains: Any, n_sweeps: int, keep_every: int, *others: Any) -> Any:
        nonlocal n_kept
        n_kept += keep_every > 0
        if n_kept == 5:
            raise KeyboardInterrupt
        return original.go_on(setup, chains, n_sweeps, keep_every, *others)

    monkeypatch.setattr(model_posterior, "MODEL_CHAINS", original._replace(go_on=interrupted))
    # looks as often as possible, and judges nothing: the chains cannot end before the interruption
    monkeypatch.setattr(rounds, "LOOK", 0.0)
    monkeypatch.setattr(model_posterior, "_FIRST_JUDGED", 10**9)
    folder = tmp_path / "RUN"
    command = (
        "learn",
        table,
        "-o",
        folder,
        "--method",
        "sample",
        "--max-parents",
        1,
        "--states",
        2,
    )
    result = invoke(*command)
    assert result.exit_code == 130, result.output
    assert "--resume goes on" in result.stderr
    record = json.loads((folder / "run.json").read_text())
    assert record["stop_reason"].startswith("Interrupted after ")
    assert record["converged"] is False
    assert record["chains"]["edges"][0]["traces"]
    assert "Chains that agree" in (folder / "report.html").read_text()
    before = drawn(folder)
    assert before >= 4
    assert invoke(*command).exit_code == 2, "an interrupted run was overwritten"
    monkeypatch.undo()
    # a few sweeps are enough now
    monkeypatch.setattr(sampled, "ERROR_GOAL", 1.0)
    monkeypatch.setattr(sampled, "R_HAT_GOAL", 100.0)
    result = invoke(*command, "--resume")
    assert result.exit_code in (0, 4), result.output
    record = json.loads((folder / "run.json").read_text())
    sweeps = int(record["stop_reason"].split()[0].replace(",", ""))
    assert sweeps > before
    assert (folder / "sampling.npz").exists() != record["converged"]


@pytest.mark.slow
def test_a_real_interruption(table: Path) -> None:
    folder = table.parent
    command = [str(PROGRAM), "learn", "table.csv", "-o", "RUN", "--max-parents", "1"]
    process = subprocess.Popen(
        [*command, "--states", "2", "--method", "sample", "--minutes", "5"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_ctrl_c,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("drawing"):
            break
    # until the first checkpoint
    for _ in range(600):
        if (folder / "RUN" / "sampling.npz").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert "Traceback" not in said
    if process.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    assert process.returncode == 130, said
    before = drawn(folder / "RUN")
    went_on = subprocess.run(
        [*command, "--states", "2", "--method", "sample", "--minutes", "0.1", "--resume"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert went_on.returncode in (0, 4), went_on.stderr
    record = json.loads((folder / "RUN" / "run.json").read_text())
    assert record["converged"] or drawn(folder / "RUN") >= before


class Killed(BaseException):
    """Nothing may catch it, as nothing can catch a kill."""


def test_a_run_killed_after_its_first_checkpoint_ends_as_if_undisturbed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = am.Observations.from_csv(table)
    # the first of several checkpoints: no draws are enough before the limit
    monkeypatch.setattr(model_posterior, "_FIRST_JUDGED", 100)
    monkeypatch.setattr(sampled, "ERROR_GOAL", 0.0)

    def learner(folder: str, resume: bool = False) -> am.StructureLearner:
        return am.StructureLearner(
            am.Gaussian((-1, 1), 0.7),
            1,
            method="sample",
            search=am.Search(journal=tmp_path / folder / "journal.sqlite", resume=resume),
            sampling=am.Sampling(max_draws=400),
        )

    whole = learner("whole").fit(seen)
    original = model_posterior._write_checkpoint

    def write_and_die(*arguments: Any) -> None:
        original(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(model_posterior, "_write_checkpoint", write_and_die)
        with pytest.raises(Killed):
            learner("killed").fit(seen)
    for _ in range(2):  # the second time everything is there already
        again = learner("killed", resume=True).fit(seen)
        assert again.edges_.equals(whole.edges_)
        assert again.stop_reason_ == whole.stop_reason_


def test_a_converged_run_is_not_done_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("learn", table, "-o", tmp_path / "RUN", "--method", "sample", "--max-parents", 1)
    monkeypatch.setattr("asterism.learning.search.sampled.ERROR_GOAL", 1.0)
    monkeypatch.setattr("asterism.learning.search.sampled.R_HAT_GOAL", 100.0)
    assert invoke(*command, "--states", 2).exit_code == 0
    assert invoke(*command, "--states", 2, "--resume").exit_code == 2


@pytest.mark.parametrize("sampling", [{}, {"minutes": 9.0}])
def test_the_search_before_the_draws_gets_a_third_of_the_time(
    table: Path, monkeypatch: pytest.MonkeyPatch, sampling: dict[str, float]
) -> None:
    """Whoever set the limit: the learner, or the settings of the draws."""
    original, left = sampled.search_observations, []

    def watched(*given: Any) -> Any:
        left.append(current_limit().left)
        return original(*given)

    monkeypatch.setattr(sampled, "search_observations", watched)
    learner = am.StructureLearner(
        am.Gaussian((-1, 1), 0.7),
        1,
        method="sample",
        minutes=0.5 if not sampling else 3.0,
        sampling=am.Sampling(max_draws=20, **sampling),
    )
    learner.fit(am.Observations.from_csv(table))
    limit = 30.0 if not sampling else 180.0
    assert 0.2 * limit < left[0] <= limit / 3.0
