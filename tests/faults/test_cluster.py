"""The screened search on a Dask cluster gives the same result, also when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import pandas as pd
import pytest

import asterism as am

pytest.importorskip("distributed", reason="needs the dask extra")
pytestmark = pytest.mark.slow

EMISSION = am.Gaussian((-1, 1), 0.4)


def data() -> am.Observations:
    net = am.glauber("tree:30", a=1.0, b=0.7)
    paths = am.simulate(net, 20, duration=8.0, seed=1)
    return am.observe(paths, EMISSION, n_observations=8, seed=2)


def learner() -> am.StructureLearner:
    return am.StructureLearner(emission=EMISSION, max_parents=2, search="screened", n_candidates=5)


def start(program: str, file: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(file)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, "--no-dashboard", *options], **quiet)


def test_a_lost_worker_changes_nothing(tmp_path):
    from distributed import Client

    expected = learner().fit(data()).edges_
    file = tmp_path / "scheduler.json"
    processes = [start("dask_scheduler", file, "--host", "127.0.0.1", "--port", "0")]
    try:
        for _ in range(300):
            if file.exists():
                break
            time.sleep(0.1)
        workers = [
            start("dask_worker", file, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
            for _ in range(2)
        ]
        processes += workers
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(2, timeout=60)
            killer = threading.Thread(target=kill_when_busy, args=(client, workers[0]))
            with joblib.parallel_config(backend="dask"):
                killer.start()
                found = learner().fit(data()).edges_
            killer.join()
        assert workers[0].wait(timeout=30) == -signal.SIGKILL
        pd.testing.assert_frame_equal(expected, found, check_exact=True)
    finally:
        for process in processes:
            process.kill()


def kill_when_busy(client: object, worker: subprocess.Popen[bytes]) -> None:
    """Wait until tasks are running, then kill one worker the hard way."""
    for _ in range(600):
        if any(client.processing().values()):
            break
        time.sleep(0.1)
    time.sleep(0.3)
    os.kill(worker.pid, signal.SIGKILL)
