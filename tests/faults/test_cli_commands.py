"""Every command and every exit code, end to end, in a temporary folder.

Each exit code is seen once from the installed program (:func:`typed`). All else runs in this
process, because starting a program takes longer than most commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asterism as am
from tests.command_line import invoke, obey_ctrl_c

PROGRAM = Path(sys.executable).with_name("asterism")


def typed(folder: Path, *arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a user would type in that folder."""
    result = subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result


def run(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """The same command, in this process."""
    with contextlib.chdir(folder):
        result = invoke(*arguments)
    assert "Traceback" not in result.stderr, result.stderr
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated data of a small network, by the command itself."""
    if not PROGRAM.exists():
        pytest.skip(f"the command is not installed beside {sys.executable}")
    folder = tmp_path_factory.mktemp("cli")
    result = typed(
        *(folder, "simulate", "--glauber", "chain:3", "-o", "data.csv", "-b", "1.5"),
        *("--save-network", "network.json", "--save-truth", "edges.csv", "--seed", "3"),
        *("--trajectories", "12", "--observations", "8"),
    )
    assert result.returncode == 0, result.stderr
    result = run(folder, "simulate", "network.json", "--paths", "-o", "paths.csv", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["n_nodes"] == 3
    return folder


@pytest.fixture(scope="module")
def learned(folder: Path) -> Path:
    """A finished run on measurements."""
    result = typed(
        *(folder, "learn", "data.csv", "-o", "RUN", "--truth", "edges.csv", "--json"),
        *("--method", "star"),
    )
    assert result.returncode in (0, 4), result.stderr
    summary = json.loads(result.stdout)
    assert summary["converged"] is (result.returncode == 0)
    assert "\x1b" not in result.stderr, "a bar was drawn off a terminal"
    return folder / "RUN"


def test_learn_writes_the_whole_folder(learned: Path) -> None:
    names = {p.name for p in learned.iterdir()}
    promised = "network.json edges.csv families.csv posterior.nc graph.graphml report.html run.json"
    assert set(promised.split()) <= names
    assert not [n for n in names if n.startswith(".")], "temporary files were left"
    record = json.loads((learned / "run.json").read_text())
    assert record["command"]["truth"] == "edges.csv"
    assert record["stop_reason"]
    run_ = am.load(learned)
    assert run_.truth is not None
    assert run_.posterior is not None


def test_a_run_is_not_overwritten_unless_forced(learned: Path) -> None:
    before = (learned / "run.json").read_bytes()
    result = typed(learned.parent, "learn", "paths.csv", "-o", "RUN")
    assert result.returncode == 2
    assert "--force" in result.stderr
    assert (learned / "run.json").read_bytes() == before


def test_force_replaces_a_run(folder: Path) -> None:
    assert run(folder, "learn", "paths.csv", "-o", "FORCED").returncode == 0
    again = run(folder, "learn", "paths.csv", "-o", "FORCED", "--force", "--max-parents", "1")
    assert again.returncode == 0, again.stderr
    record = json.loads((folder / "FORCED" / "run.json").read_text())
    assert record["settings"]["max_parents"] == 1


def test_infer_with_and_without_convergence(folder: Path) -> None:
    common = ("infer", "data.csv", "--network", "network.json", "--emission", "gaussian:-1,1:0.2")
    result = run(folder, *common, "-o", "INFER", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["log_evidence"] < 0
    assert (folder / "INFER" / "report.html").is_file()
    hasty = typed(folder, *common, "-o", "HASTY", "--max-sweeps", "1")
    assert hasty.returncode == 4
    assert "did not converge" in hasty.stderr
    assert (folder / "HASTY" / "report.html").is_file()


def test_report_again_with_figures(learned: Path) -> None:
    (learned / "report.html").unlink()
    result = run(learned.parent, "report", "RUN", "--figures", "--format", "svg", "--json")
    assert result.returncode == 0, result.stderr
    assert (learned / "report.html").is_file()
    figures = json.loads(result.stdout)["figures"]
    assert all((learned.parent / name).read_text().startswith("<?xml") for name in figures)
    one = ("--threshold", "0.9", "--node", "1", "--format", "svg,png")
    result = run(learned.parent, "report", "RUN", *one, "--json")
    assert result.returncode == 0, result.stderr
    made = {Path(name).name for name in json.loads(result.stdout)["figures"]}
    assert {"course_1.svg", "course_1.png", "network.svg"} <= made
    assert 'value="0.9"' in (learned / "report.html").read_text()
    for wrong in (("--node", "X"), ("--format", "bmp"), ("--threshold", "2")):
        refused = run(learned.parent, "report", "RUN", *wrong)
        assert refused.returncode in (2, 3)
        assert wrong[1] in refused.stderr
    elsewhere = run(learned.parent, "report", "RUN", "-o", "edges.csv")
    assert elsewhere.returncode == 2, "a file that is no page was overwritten"


def test_check_says_what_is_in_a_table(folder: Path) -> None:
    result = run(folder, "check", "data.csv")
    assert result.returncode == 0, result.stderr
    assert "12 trajectories, 288 measurements" in result.stdout
    assert json.loads(run(folder, "check", "data.csv", "--json").stdout)["ok"] is True


def test_convert_there_and_back(folder: Path) -> None:
    assert run(folder, "convert", "paths.csv", "pyagrum.csv", "--to", "pyagrum").returncode == 0
    assert run(folder, "convert", "pyagrum.csv", "back.csv").returncode == 0
    assert (folder / "back.csv").read_text() == (folder / "paths.csv").read_text()
    assert run(folder, "convert", "network.json", "network.graphml").returncode == 0
    refused = run(folder, "convert", "paths.csv", "back.csv")
    assert refused.returncode == 2
    assert run(folder, "convert", "paths.csv", "x.mat").returncode == 3


def test_usage_errors(folder: Path) -> None:
    for arguments in (
        ["learn"],
        ["learn", "absent.csv"],
        ["learn", "data.csv", "-o", "NEW", "--emission", "gauss"],
        ["learn", "data.csv", "-o", "NEW", "--required", "A-B"],
        ["learn", "data.csv", "-o", "NEW", "--prior", "strong"],
        ["learn", "data.csv", "-o", "data.csv"],
        ["simulate", "-o", "x.csv"],
        ["simulate", "absent.json", "-o", "x.csv"],
        ["simulate", "--glauber", "star:5", "-o", "x.csv"],
        ["simulate", "--glauber", "chain:3", "--emission", "gaussian:1,2,3:0.1", "-o", "x.csv"],
        ["simulate", "--glauber", "chain:3", "--emission", "gaussian:0,1", "-o", "x.csv"],
        ["simulate", "--glauber", "chain:3", "--observations", "0", "-o", "x.csv"],
        ["infer", "data.csv"],
        ["nonsense"],
    ):
        result = run(folder, *arguments)
        assert result.returncode == 2, (arguments, result.stderr)
        assert "Error" in result.stderr
    assert not (folder / "NEW").exists()


def test_wrong_names_are_bad_data(folder: Path) -> None:
    (folder / "other_truth.csv").write_text("source,target\n0,Z\n")
    for arguments in (
        ["learn", "paths.csv", "-o", "NEW", "--truth", "other_truth.csv"],
        ["learn", "paths.csv", "-o", "NEW", "--required", "0->Z"],
        ["learn", "data.csv", "-o", "NEW", "--nodes", "Z"],
        ["infer", "data.csv", "-o", "NEW", "--network", "edges.csv"],
    ):
        result = (typed if arguments[0] == "infer" else run)(folder, *arguments)
        assert result.returncode == 3, (arguments, result.stderr)
        assert not (folder / "NEW").exists()


def test_a_bug_is_told_apart_and_shown_on_request(folder: Path) -> None:
    """A programming error must not look like an error of the data."""
    code = (
        "import asterism.commands.check as c\n"
        "def fail(*_): raise KeyError('oops')\n"
        "c.run = fail\n"
        "from asterism.cli import main\n"
        "main(['check', 'data.csv'])\n"
    )
    ask = [sys.executable, "-c", code]
    plain = subprocess.run(ask, cwd=folder, capture_output=True, text=True)
    assert plain.returncode == 1
    assert "error of asterism itself" in plain.stderr
    assert "Traceback" not in plain.stderr
    shown = subprocess.run(
        ask, cwd=folder, capture_output=True, text=True, env={**os.environ, "ASTERISM_DEBUG": "1"}
    )
    assert "Traceback" in shown.stderr


def test_shell_completion_answers(folder: Path) -> None:
    result = typed(folder, _ASTERISM_COMPLETE="bash_source")
    assert result.returncode == 0
    assert "_asterism_completion" in result.stdout


def test_ctrl_c_in_mid_learn_and_resume(folder: Path) -> None:
    """Exit code 130, no half-written results, and the same command with --resume finishes."""
    made = run(
        *(folder, "simulate", "--glauber", "tree:6", "-o", "long.csv", "--trajectories", "30"),
        *("--observations", "15"),
    )
    assert made.returncode == 0, made.stderr
    command = ["learn", "long.csv", "-o", "STOPPED", "--search", "exhaustive", "--method", "star"]
    process = subprocess.Popen(
        [str(PROGRAM), *command],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_ctrl_c,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("sweep"):  # families are being scored
            break
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    stopped = folder / "STOPPED"
    left = {p.name for p in stopped.iterdir()} if stopped.exists() else set()
    assert not left & {"run.json", "network.json", "report.html"}
    if "journal.sqlite" in left:
        assert "--resume" in said
        assert run(folder, *command).returncode == 2, "an interrupted run was overwritten"
    resumed = run(folder, *command, "--resume")
    assert resumed.returncode in (0, 4), resumed.stderr
    assert (stopped / "report.html").is_file()
    assert run(folder, *command, "--resume").returncode == 2, "a finished run was done again"
