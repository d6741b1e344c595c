"""Commands that write, killed at any moment or told to stop: what is left is whole, or says not.

After every kill the folder is either unfinished (no run.json, nothing is loaded from it) or a
finished run whose every file fits; the same command, with ``--resume`` or ``--force``, then gives
the files that an undisturbed run gives.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from asterism.errors import AsterismError
from asterism.results.folder import load
from asterism.results.lock import LOCK
from tests.command_line import invoke

pytestmark = pytest.mark.slow

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))

COMMANDS = {
    "learn": ["learn", "data.csv", "--max-parents", "1", "--search", "exhaustive", "--jobs", "1"],
    "infer": ["infer", "data.csv", "--network", "network.json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kills")
    made = invoke(
        *("simulate", "--glauber", "tree:6", "-o", place / "data.csv", "--trajectories", 12),
        *("--save-network", place / "network.json"),
    )
    assert made.exit_code == 0, made.output
    return place


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "asterism", *arguments]
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(root / "src"))}
    return subprocess.Popen(command, cwd=folder, env=environment, **quiet)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_moment(name: str, sent: signal.Signals, folder: Path, capsys) -> None:
    expected = folder / f"whole {name} {sent.name}"
    begin = time.monotonic()
    assert start(folder, *COMMANDS[name], "-o", expected.name).wait() in (0, 4)
    seconds = time.monotonic() - begin
    rng = random.Random(int(sent))
    outcomes: Counter[str] = Counter()
    for trial in range(2 if REDUCED else 6):
        run = folder / f"{name} {sent.name} {trial}"
        process = start(folder, *COMMANDS[name], "-o", run.name)
        time.sleep(rng.uniform(0.2, 1.0) * seconds)
        process.send_signal(sent)
        process.wait()
        if (run / "run.json").exists():
            load(run)  # every file fits
            outcomes["finished"] += 1
        elif (run / "network.json").exists():
            with pytest.raises(AsterismError):
                load(run)
            outcomes["unfinished, and said so"] += 1
        else:
            outcomes["nothing written"] += 1
        resume = (run / "journal.sqlite").exists() and not (run / "run.json").exists()
        again = start(folder, *COMMANDS[name], "-o", run.name, "--resume" if resume else "--force")
        assert again.wait() in (0, 4)
        for file in ("network.json", "edges.csv"):
            assert (run / file).read_bytes() == (expected / file).read_bytes()
        assert not [p.name for p in run.iterdir() if p.name.startswith(".")], list(run.iterdir())
        assert not (run / LOCK).exists()
    with capsys.disabled():
        print(f"\n  {name}, {sent.name}: {dict(outcomes)}, then always the same files")


def test_a_reproduction_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """Saved rows carry checksums: a changed one is computed again."""
    from asterism.paper.common import SavedRows

    rows = SavedRows(tmp_path)
    rows.add({"case": 1}, {"value": 0.5})
    rows.add({"case": 2}, {"value": 0.25})
    text = rows.path.read_text().replace("0.25", "0.75")
    rows.path.write_text(text)
    with pytest.warns(UserWarning, match="1 saved row"):
        again = SavedRows(tmp_path)
    assert again.get({"case": 1}) == {"value": 0.5}
    assert again.get({"case": 2}) is None
