"""Interrupted searches resume to the same result; foreign or damaged journals are not used."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError, DataError
from asterism.learning.search.journal import Journal, JournalWarning
from tests.paper_settings import paper_learner

EMISSION = am.Gaussian((-1, 1), 0.5)


def data(seed: int = 0) -> am.Observations:
    net = am.glauber("tree:5", a=1.0, b=0.8)
    paths = am.simulate(net, 6, duration=5.0, seed=seed)
    return am.observe(paths, EMISSION, n_observations=6, seed=seed + 1)


def learner(**options: object) -> am.StructureLearner:
    settings = {"emission": EMISSION, "max_parents": 1, "n_jobs": 1, **options}
    return paper_learner(**settings)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_resuming_a_complete_journal_scores_nothing_again(search, tmp_path, monkeypatch):
    obs = data()
    path = tmp_path / "journal.sqlite"
    first = learner(search=search, n_candidates=3, journal=path).fit(obs)
    plain = learner(search=search, n_candidates=3).fit(obs)
    again = learner(search=search, n_candidates=3, journal=path, resume=True).fit(obs)
    for other in (plain, again):
        pd.testing.assert_frame_equal(first.edges_, other.edges_, check_exact=True)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_resuming_a_partial_journal_gives_the_same_result(share, tmp_path):
    obs = data()
    path = tmp_path / "journal.sqlite"
    first = learner(search="exhaustive", journal=path).fit(obs)
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT context, item FROM scores").fetchall()
        lost = random.Random(1).sample(rows, int(len(rows) * (1 - share)))
        connection.executemany("DELETE FROM scores WHERE context = ? AND item = ?", lost)
    again = learner(search="exhaustive", journal=path, resume=True).fit(obs)
    pd.testing.assert_frame_equal(first.edges_, again.edges_, check_exact=True)
    pd.testing.assert_frame_equal(first.family_scores_, again.family_scores_, check_exact=True)


def test_other_data_or_settings_are_refused_by_name(tmp_path):
    path = tmp_path / "journal.sqlite"
    learner(search="exhaustive", journal=path).fit(data())
    with pytest.raises(DataError, match=r"data \("):
        learner(search="exhaustive", journal=path, resume=True).fit(data(5))
    with pytest.raises(DataError, match="max_parents"):
        learner(search="exhaustive", journal=path, resume=True, max_parents=2).fit(data())
    # threads do not matter
    learner(search="exhaustive", journal=path, resume=True, n_jobs=2).fit(data())


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "not a database"])
def test_a_damaged_journal_is_set_aside(damage, tmp_path):
    path = tmp_path / "journal.sqlite"
    obs = data()
    first = learner(search="exhaustive", journal=path).fit(obs)
    content = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(content[: len(content) // 2 + 100])
    elif damage == "overwritten":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + os.urandom(4096) + content[middle + 4096 :])
    else:
        path.write_bytes(b"no database at all" * 100)
    with pytest.warns(JournalWarning, match="set aside"):
        again = learner(search="exhaustive", journal=path, resume=True).fit(obs)
    assert list(tmp_path.glob("*.damaged-1"))
    pd.testing.assert_frame_equal(first.edges_, again.edges_, check_exact=True)


def test_a_full_disk_is_said_and_leaves_the_journal_intact(tmp_path):
    path = tmp_path / "journal.sqlite"
    journal = Journal.open(path, {"data": "x"}, resume=False)
    journal.add("a", "1", np.array([1.0]))
    journal.flush()
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")
    for i in range(1000):
        journal._waiting.append(("b", str(i), bytes(4000), bytes(16)))
    with pytest.raises(AsterismError, match="disk is full"):
        journal.flush()
    with pytest.raises(AsterismError, match="disk is full"):
        journal.close()
    kept = Journal.open(path, {"data": "x"}, resume=True)
    assert kept.known("a")["1"] == np.array([1.0])
    kept.close()


def long_search(search: str, path: Path) -> am.StructureLearner:
    """A search of some seconds: long enough to be killed in the middle."""
    net = am.glauber("tree:10", a=1.0, b=0.6)
    many = {"exhaustive": (12, 1), "screened": (60, 2)}
    n_trajectories, max_parents = many[search]
    paths = am.simulate(net, n_trajectories, duration=10.0, seed=0)
    obs = am.observe(paths, EMISSION, n_observations=10, seed=1)
    return learner(search=search, max_parents=max_parents, journal=path, resume=True).fit(obs)


SCRIPT = """
from pathlib import Path
from tests.faults.test_journal import long_search
long_search({search!r}, Path({path!r})).edges_.to_csv({out!r}, index=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_killed_searches_resume_to_identical_edges(search, tmp_path):
    """kill −9 at random moments of a search, then resume; now and then kill that as well."""
    root = Path(__file__).resolve().parents[2]

    def start(name: str) -> tuple[subprocess.Popen[bytes], Path]:
        """A search in a process of its own, which has opened its journal."""
        path, out = tmp_path / f"{name}.sqlite", tmp_path / f"{name}.csv"
        code = SCRIPT.format(search=search, path=str(path), out=str(out))
        process = subprocess.Popen([sys.executable, "-c", code], cwd=root)
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        return process, out

    def finish(name: str) -> str:
        process, out = start(name)
        assert process.wait() == 0
        return out.read_text()

    finish("compiles")
    process, out = start("uninterrupted")
    begin = time.monotonic()
    assert process.wait() == 0
    seconds = time.monotonic() - begin
    expected = out.read_text()
    moments = 2 if os.environ.get("ASTERISM_REDUCED") else 10
    rng = random.Random(3)
    n_killed = 0
    for trial in range(moments):
        for _ in range(rng.choice([1, 1, 2])):
            process, _ = start(f"killed {trial}")
            time.sleep(rng.uniform(0.0, 0.8) * seconds)
            process.send_signal(signal.SIGKILL)
            n_killed += process.wait() == -signal.SIGKILL
        assert finish(f"killed {trial}") == expected
    assert n_killed >= moments // 2
