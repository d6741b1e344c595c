"""Searches and chains on a Dask cluster: the same results, also when workers or schedulers die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import asterism as am
from asterism.learning.tasks import Silent, map_tasks
from tests.faults.test_continuous_resume import learn as learn_continuous
from tests.paper_settings import paper_learner

Client = pytest.importorskip("distributed", reason="needs the dask extra").Client
pytestmark = pytest.mark.slow

EMISSION = am.Gaussian((-1, 1), 0.4)


def data() -> am.Observations:
    net = am.glauber("tree:30", a=1.0, b=0.7)
    paths = am.simulate(net, 20, duration=8.0, seed=1)
    return am.observe(paths, EMISSION, n_observations=8, seed=2)


def learner() -> am.StructureLearner:
    return paper_learner(emission=EMISSION, max_parents=2, search="screened", n_candidates=5)


def start(program: str, file: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(file)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, "--no-dashboard", *options], **quiet)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Called, it starts another worker of a scheduler that the test's client is connected to."""
    file = tmp_path / "scheduler.json"
    processes = [start("dask_scheduler", file, "--host", "127.0.0.1", "--port", "0")]

    def start_worker() -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        processes.append(start("dask_worker", file, *options))
        return processes[-1]

    try:
        for _ in range(300):
            if file.exists() and file.read_text().strip().endswith("}"):
                break
            time.sleep(0.1)
        start_worker.file = str(file)
        yield start_worker
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_lost_worker_changes_nothing(cluster):
    expected = learner().fit(data()).edges_
    workers = [cluster(), cluster()]
    with Client(scheduler_file=cluster.file) as client:
        client.wait_for_workers(2, timeout=60)
        killer = threading.Thread(target=kill_when_busy, args=(client, workers[0]))
        with joblib.parallel_config(backend="dask"):
            killer.start()
            found = learner().fit(data()).edges_
        killer.join()
    assert workers[0].wait(timeout=30) == -signal.SIGKILL
    pd.testing.assert_frame_equal(expected, found, check_exact=True)


def test_chains_of_sampled_graphs_run_on_the_workers(cluster):
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=0.8)
    seen = am.observe(am.simulate(network, 4, duration=5.0, seed=3), EMISSION, 6, seed=4)

    def sampled() -> am.StructureLearner:
        learner = am.StructureLearner(
            emission=EMISSION,
            method="sample",
            max_parents=1,
            n_jobs=1,
            sampling=am.Sampling(max_draws=40),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return learner.fit(seen)

    expected = sampled()
    for _ in range(2):
        cluster()
    with Client(scheduler_file=cluster.file, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        with joblib.parallel_config(backend="dask", client=client):
            found = sampled()
        has_run = client.run(lambda: "asterism.sampling._graphs" in sys.modules)
    assert list(has_run.values()) == [True, True]
    pd.testing.assert_frame_equal(expected.edges_, found.edges_, check_exact=True)
    pd.testing.assert_frame_equal(expected.diagnostics_, found.diagnostics_, check_exact=True)


def test_continuous_nodes_are_scored_and_drawn_on_the_workers(cluster):
    settings = {"method": "sample", "sampling": am.Sampling(chains=2, max_draws=40)}
    expected = [learn_continuous(**own) for own in ({}, settings)]
    for _ in range(2):
        cluster()
    with Client(scheduler_file=cluster.file, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        with joblib.parallel_config(backend="dask", client=client):
            found = [learn_continuous(**own) for own in ({}, settings)]
        has_run = client.run(lambda: "asterism.continuous._family" in sys.modules)
    assert list(has_run.values()) == [True, True]
    for one, other in zip(expected, found):
        pd.testing.assert_frame_equal(one.edges_, other.edges_, check_exact=True)


def test_the_input_is_sent_again_when_nobody_has_it_any_more(cluster):
    first = cluster()

    def replace_worker() -> None:
        kill_when_busy(client, first)
        cluster()

    with Client(scheduler_file=cluster.file, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        replacer = threading.Thread(target=replace_worker)
        with joblib.parallel_config(backend="dask", client=client):
            replacer.start()
            found = list(map_tasks(slow_sum, np.arange(5), [(i,) for i in range(20)], 1, Silent()))
        replacer.join()
    assert first.wait(timeout=30) == -signal.SIGKILL
    assert found == [10 + i for i in range(20)]


def test_no_worker_left_is_said(cluster, monkeypatch):
    monkeypatch.setattr("asterism.learning.tasks.PATIENCE", 2.0)
    worker = cluster()
    with Client(scheduler_file=cluster.file, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        killer = threading.Thread(target=kill_when_busy, args=(client, worker))
        with joblib.parallel_config(backend="dask", client=client):
            killer.start()
            with pytest.raises(ConnectionError, match="All Dask workers were lost"):
                list(map_tasks(slow_sum, np.arange(5), [(i,) for i in range(20)], 1, Silent()))
        killer.join()


class Disturbing(Silent):
    """Kills a scheduler and its worker after three results; can start others in their place."""

    def __init__(self, folder: Path, restarts: bool) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = str(one.getsockname()[1])
        self.folder, self.restarts, self.left = folder, restarts, 3
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_cluster(self) -> None:
        at = ("--host", "127.0.0.1")
        file = self.folder / "scheduler.json"
        self.processes = [
            start("dask_scheduler", file, *at, "--port", self.port),
            start("dask_worker", file, *at, "--nthreads", "1", "--no-nanny"),
        ]

    def kill_cluster(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def advance(self, n: int = 1) -> None:
        before, self.left = self.left, self.left - n
        if before > 0 >= self.left:
            self.kill_cluster()
            if self.restarts:
                self.start_cluster()


def sums_while(progress: Disturbing) -> list[int]:
    progress.start_cluster()
    try:
        address = f"tcp://127.0.0.1:{progress.port}"
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            if not progress.restarts:
                client._timeout = 2.0  # how long the client tries to reach it again
            tasks = [(i,) for i in range(20)]
            with joblib.parallel_config(backend="dask", client=client):
                return list(map_tasks(slow_sum, np.arange(5), tasks, 1, progress))
    finally:
        progress.kill_cluster()


def test_a_restarted_scheduler_changes_nothing(tmp_path: Path):
    assert sums_while(Disturbing(tmp_path, restarts=True)) == [10 + i for i in range(20)]


def test_a_search_goes_on_after_its_scheduler_was_restarted(tmp_path: Path):
    expected = learner().fit(data()).edges_
    progress = Disturbing(tmp_path, restarts=True)
    progress.left = 200  # of about 500 families, in the middle
    progress.start_cluster()
    try:
        address = f"tcp://127.0.0.1:{progress.port}"
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            with joblib.parallel_config(backend="dask", client=client):
                found = learner().fit(data(), progress=progress).edges_
    finally:
        progress.kill_cluster()
    assert progress.left <= 0
    pd.testing.assert_frame_equal(expected, found, check_exact=True)


def test_a_scheduler_that_stays_away_is_said(tmp_path: Path):
    with pytest.raises(ConnectionError, match="connection to the Dask scheduler was lost"):
        sums_while(Disturbing(tmp_path, restarts=False))


def slow_sum(shared: np.ndarray, i: int) -> int:
    time.sleep(0.1)
    return int(shared.sum()) + i


def kill_when_busy(client: object, worker: subprocess.Popen[bytes]) -> None:
    """Wait until tasks are running, then kill one worker the hard way."""
    for _ in range(600):
        if any(client.processing().values()):
            break
        time.sleep(0.1)
    time.sleep(0.3)
    os.kill(worker.pid, signal.SIGKILL)
