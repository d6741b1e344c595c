"""``learn --scheduler``: the same result from a cluster, and one sentence where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import invoke

pytest.importorskip("distributed", reason="needs the dask extra")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.csv"
    made = invoke("simulate", "--glauber", "tree:5", "-o", path, "--trajectories", 10)
    assert made.exit_code == 0, made.output
    return path


def start(program: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, "--host", "127.0.0.1", *options], **quiet)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler without workers."""
    file = tmp_path / "scheduler.json"
    process = start("scheduler", "--port", "0", "--scheduler-file", str(file))
    try:
        for _ in range(300):
            if file.exists() and file.read_text().strip().endswith("}"):
                break
            time.sleep(0.1)
        yield str(json.loads(file.read_text())["address"])
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_cluster_gives_the_same_edges(data: Path, scheduler: str, tmp_path: Path) -> None:
    workers = [start("worker", scheduler, "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        for search in ("screened", "exhaustive"):
            alone, together = tmp_path / f"{search} alone", tmp_path / f"{search} together"
            flags = ("--search", search, "--max-parents", "1", "--method", "star")
            assert invoke("learn", data, "-o", alone, *flags).exit_code in (0, 4)
            result = invoke("learn", data, "-o", together, *flags, "--scheduler", scheduler)
            assert result.exit_code in (0, 4), result.output
            assert f"at {scheduler}" in result.stderr
            assert ("runs on this machine" in result.stderr) is (search == "exhaustive")
            assert (alone / "edges.csv").read_bytes() == (together / "edges.csv").read_bytes()
    finally:
        for process in workers:
            process.kill()
            process.wait()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.commands.outputs.PATIENCE", 0.5)


def assert_unusable(address: str, data: Path, folder: Path, why: str) -> None:
    """A usage error that says why, before anything is written."""
    result = invoke("learn", data, "-o", folder, "--scheduler", address)
    assert result.exit_code == 2, result.output
    assert why in result.stderr
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_scheduler_without_workers_is_refused(data: Path, scheduler: str, tmp_path: Path) -> None:
    assert_unusable(scheduler, data, tmp_path / "RUN", "has no workers")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("address", "why"),
    [("nonsense", "write its host and port"), ("tcp://127.0.0.1:9", "No scheduler answers at")],
)
def test_no_scheduler_is_a_usage_error(address: str, why: str, data: Path, tmp_path: Path) -> None:
    assert_unusable(address, data, tmp_path / "RUN", why)


def test_a_lost_cluster_leaves_the_journal(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asterism as am

    def lose_workers(learner: am.StructureLearner, *_: object, **__: object) -> None:
        Path(learner.search.journal).write_bytes(b"scores")
        raise ConnectionError("All Dask workers were lost.")

    monkeypatch.setattr(am.StructureLearner, "fit", lose_workers)
    result = invoke("learn", data, "-o", tmp_path / "RUN")
    assert result.exit_code == 2, result.output
    assert "All Dask workers were lost. What was scored is kept" in result.stderr
    assert "--resume" in result.stderr
    assert (tmp_path / "RUN" / "journal.sqlite").exists()
