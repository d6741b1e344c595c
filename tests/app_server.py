"""The app as its tests start it: a process of its own, spoken to by http.client."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

HEADER = "trajectory,time,A,B\n"


def small_table(n_trajectories: int = 12) -> str:
    """Two genes with two clear levels; B follows A."""
    rng = np.random.default_rng(3)
    rows = []
    for trajectory in range(n_trajectories):
        a = b = int(rng.integers(2))
        for time_ in range(8):
            values = rng.normal([a, b], 0.1)
            rows.append(f"{trajectory},{time_},{values[0]:.3f},{values[1]:.3f}\n")
            b = a if rng.random() < 0.8 else b
            a = 1 - a if rng.random() < 0.3 else a
    return HEADER + "".join(rows)


def wide_table(n_nodes: int = 60) -> str:
    """Noise in so many columns that learning takes long enough to be stopped."""
    rng = np.random.default_rng(0)
    rows = [f"trajectory,time,{','.join(f'G{i}' for i in range(n_nodes))}\n"]
    for trajectory in range(6):
        for time_, values in enumerate(np.cumsum(rng.normal(size=(12, n_nodes)), axis=0)):
            rows.append(f"{trajectory},{time_},{','.join(f'{v:.3f}' for v in values)}\n")
    return "".join(rows)


#: a closed form: little to compute and to compile
QUICK = {"states": "continuous", "max-parents": "1"}
#: the same with many sets of parents
LONG = {"states": "continuous", "max-parents": "3"}


@dataclass
class AppServer:
    """A running app."""

    address: str
    folder: Path
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def ask(
        self,
        path: str,
        body: Any = None,
        method: str | None = None,
        cookie: bool = True,
        **headers: str,
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        """Status, content and answer; headers are named with _ for -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            sent["Cookie"] = f"asterism-{self.port}={self.token}"
        if isinstance(body, dict | list):
            body = json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        try:
            return answer.status, json.loads(content), answer
        except ValueError:
            return answer.status, content, answer

    def upload(self, text: str, name: str = "cells.csv") -> str:
        status, content, _ = self.ask("/tables", text.encode(), X_Filename=name)
        assert status == 200, content
        return str(content["name"])

    def run(self, name: str) -> dict[str, Any]:
        _, content, _ = self.ask("/runs")
        return next(run for run in content["runs"] if run["name"] == name)

    def wait(self, name: str, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            run = self.run(name)
            if until(run):
                return run
            time.sleep(0.2)
        raise AssertionError(f"{name} did not get there: {self.run(name)}")

    def ended(self, name: str) -> dict[str, Any]:
        return self.wait(name, lambda run: run["state"] not in ("new", "running"))


@contextmanager
def app_server(folder: Path, **more: Any) -> Iterator[AppServer]:
    """Start the app; end it as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "asterism", "app", "--no-browser", "--folder", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        **more,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), address
    try:
        yield AppServer(address, folder, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(200)
