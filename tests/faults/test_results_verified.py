"""Results that were changed after they were written are named, never believed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

import asterism as am
from asterism.errors import AsterismError, DataError
from asterism.report.page import write_report
from asterism.results.folder import load, save_run
from asterism.results.lock import LOCK, FolderInUse, only_writer
from asterism.results.manifest import FILES
from tests.command_line import assert_refused, invoke
from tests.example_runs import example_run
from tests.faults import harness


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(example_run(), tmp_path_factory.mktemp("saved") / "run", page=write_report)


def corrupted(path: Path, how: str, at: float, rng: random.Random) -> None:
    """Cut a file, or change a bit of it, at a share of its length."""
    content = bytearray(path.read_bytes())
    place = min(len(content) - 1, int(at * len(content)))
    if how == "cut":
        content = content[:place]
    elif how == "flip":
        content[place] ^= 1 << rng.randrange(8)
    else:  # a copy of its own beginning in the middle, as a failing disk leaves it
        content[place : place + 64] = bytes(64)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "places", [1, pytest.param(2 if harness.REDUCED else 9, marks=pytest.mark.slow)]
)
def test_no_corruption_goes_unnoticed(places: int, saved: Path, tmp_path: Path) -> None:
    """Every file, cut, flipped and blanked at many places."""
    rng = random.Random(0)
    outcomes: Counter[str] = Counter()
    original = load(saved)
    names = [name for name in (*FILES, "run.json") if (saved / name).is_file()]
    for name in names:
        for how in ("cut", "flip", "blank"):
            for k in range(places):
                folder = tmp_path / "run"
                shutil.copytree(saved, folder)
                corrupted(folder / name, how, (k + rng.random()) / places, rng)
                same = (folder / name).read_bytes() == (saved / name).read_bytes()
                try:
                    found = load(folder)
                except DataError as error:
                    outcomes["named" if name in str(error) else f"not named: {name}, {how}"] += 1
                else:
                    # spaces in run.json may differ, what it says may not
                    record = {**found.run}
                    assert same or (name == "run.json" and record == original.run), (name, how, k)
                    outcomes["nothing changed"] += 1
                shutil.rmtree(folder)
    for outcome, n in outcomes.items():
        harness.count("corrupted files of a run", outcome, n)
    assert set(outcomes) <= {"named", "nothing changed"}
    assert outcomes["named"] >= 0.9 * sum(outcomes.values())


def test_half_a_table_is_refused_by_every_reader(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "RUN"
    shutil.copytree(saved, run)
    text = (run / "edges.csv").read_text()
    (run / "edges.csv").write_text(text[: len(text) // 2].rsplit("\n", 1)[0] + "\n")
    with pytest.raises(DataError, match=r"edges\.csv.*bytes, .* were written"):
        am.load(run)
    assert len(am.load(run, verify=False).edge_table) < len(am.load(saved).edge_table)
    assert_refused(invoke("report", run), 3, "edges.csv", "--unverified")
    assert invoke("report", run, "--unverified").exit_code == 0


def test_a_changed_network_is_not_inferred_with(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "RUN"
    shutil.copytree(saved, run)
    network = am.Network.load(run / "network.json")
    data = tmp_path / "data.csv"
    am.observe(
        am.simulate(network, 2, duration=2.0, seed=0), am.Gaussian((-1, 1), 0.5), seed=1
    ).to_csv(data)
    content = json.loads((run / "network.json").read_text())
    content["nodes"][0]["initial"] = [0.9, 0.1]
    (run / "network.json").write_text(json.dumps(content))
    flags = ("--network", run / "network.json", "--emission", "gaussian:-1,1:0.5")
    assert_refused(
        invoke("infer", data, *flags, "-o", tmp_path / "OUT"), 3, "network.json", "--unverified"
    )
    done = invoke("infer", data, *flags, "-o", tmp_path / "OUT", "--unverified")
    assert done.exit_code in (0, 4), done.output


def test_files_of_another_run_and_unfinished_runs_are_refused(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "RUN"
    shutil.copytree(saved, run)
    (run / "run.json").unlink()
    with pytest.raises(DataError, match="not finished"):
        load(run)
    assert load(run, verify=False).network.nodes
    shutil.copy(saved / "run.json", run)
    (run / "rates.csv").write_text("node,rate\n")
    with pytest.raises(DataError, match=r"rates\.csv.*did not write"):
        load(run)


def test_a_renewed_page_belongs_to_the_run(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "RUN"
    shutil.copytree(saved, run)
    (run / "report.html").write_text("changed")
    with pytest.raises(DataError, match=r"report\.html"):
        load(run)
    assert invoke("report", run).exit_code == 0
    load(run)


# ---- one writer ------------------------------------------------------------------------------

WRITER = """
import sys
from tests.example_runs import example_run
from tests.faults import harness
from asterism.results.folder import save_run
seed = int(sys.argv[2])
try:
    save_run(example_run(seed=seed, n_trajectories=2, n_times=20), sys.argv[1], force=True)
except ValueError as error:
    sys.exit(str(error))
"""


def start_writer(folder: Path, seed: int) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(folder), str(seed)]
    return subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)


def test_the_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "RUN"
    with only_writer(folder):
        owner = json.loads((folder / LOCK).read_text())
        assert owner["process"] == os.getpid()
        done = start_writer(folder, 0)
        said = done.communicate(timeout=60)[1]
        assert done.returncode != 0
        assert f"process {os.getpid()} on {owner['host']}" in said
        save_run(example_run(), folder, force=True)  # the owner may
    assert not (folder / LOCK).exists()
    save_run(example_run(), folder, force=True)


@pytest.mark.parametrize("flag", ["--force", "--resume"])
def test_no_flag_gets_past_the_lock(flag: str, tmp_path: Path, monkeypatch) -> None:
    data = tmp_path / "data.csv"
    invoke("simulate", "--random", "2", "-o", data)
    run = tmp_path / "RUN"
    run.mkdir()
    (run / "journal.sqlite").write_bytes(b"")
    code = "import sys, time; from asterism.results.lock import only_writer\n" + (
        f"with only_writer({str(run)!r}):\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert_refused(invoke("learn", data, "-o", run, flag), 2, f"process {holder.pid}")
        assert (run / "journal.sqlite").exists()
        holder.kill()
        holder.wait()
        # the owner was killed: its lock is stale, and its leftovers go
        assert (run / LOCK).exists()
        (run / ".asterism-part-edges.csv").write_text("half")
        with only_writer(run):
            assert not (run / ".asterism-part-edges.csv").exists()
    finally:
        holder.kill()
        holder.wait()


def test_a_lock_of_another_host_is_respected(tmp_path: Path) -> None:
    folder = tmp_path / "RUN"
    folder.mkdir()
    (folder / LOCK).write_text('{"process": 7, "host": "elsewhere", "since": "noon"}')
    somebody = pytest.raises(FolderInUse, match=r"process 7 on elsewhere since noon.*delete")
    with somebody, only_writer(folder):
        pass
    (folder / LOCK).write_text("damaged")
    with only_writer(folder):
        pass


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), only_writer(tmp_path / "a" / "b"):
        raise RuntimeError
    assert not (tmp_path / "a").exists()


# ---- a disk that is full ----------------------------------------------------------------------


def test_a_full_disk_at_every_write_is_said_and_leaves_no_mixture(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th write fails, for every n: the file is named and the folder is not a finished run."""
    import errno

    real = Path.write_bytes
    n_writes = 0

    def failing_at(wanted: int):
        count = 0

        def write(path: Path, content: bytes) -> int:
            nonlocal count, n_writes
            count += 1
            n_writes = max(n_writes, count)
            if count == wanted:
                real(path, content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, content)

        return write

    monkeypatch.setattr(Path, "write_bytes", failing_at(-1))
    save_run(example_run(), tmp_path / "counted", page=write_report)
    for wanted in range(1, n_writes + 1):
        folder = tmp_path / f"full at {wanted}"
        monkeypatch.setattr(Path, "write_bytes", failing_at(wanted))
        with pytest.raises(OSError, match="No space left on device") as caught:
            save_run(example_run(), folder, page=write_report)
        assert Path(str(caught.value.filename)).name in (*FILES, "run.json")
        assert not (folder / "run.json").exists()
        assert not list(folder.glob(".*"))
        with pytest.raises(AsterismError):
            load(folder) if (folder / "edges.csv").exists() else load(tmp_path / "absent")
        monkeypatch.setattr(Path, "write_bytes", real)
        save_run(example_run(), folder, force=True, page=write_report)
        load(folder)
    assert n_writes >= 9
