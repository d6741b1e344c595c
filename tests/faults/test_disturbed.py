"""Every command that writes, disturbed at every step: what is left is whole, or says it is not.

At any step a command may be killed, interrupted, terminated, or find the disk full. The folder then
holds no finished run, or one whose every file fits; and the same command, with ``--resume`` or
``--force``, gives the files that an undisturbed run gives. Reduced: a few steps of each.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from asterism.data.files import TEMPORARY
from asterism.errors import AsterismError
from asterism.report.page import write_report
from asterism.results.folder import load, save_run
from asterism.results.lock import LOCK
from tests.command_line import invoke
from tests.example_runs import example_run
from tests.faults import harness
from tests.faults.harness import FULL, INTERRUPT, KILL, REDUCED, TERMINATE, Ended

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

#: steps of a command that are tried, per kind of disturbance
MOST = 3 if REDUCED else 10**6
EMISSION = ("--emission", "gaussian:-1,1:0.5", "--jobs", "1")


class Case(NamedTuple):
    """A command that writes to a folder."""

    arguments: tuple[Any, ...]
    """Before ``-o``; paths are relative to the folder of the data."""
    compared: tuple[str, ...]
    """Files that must come out the same."""
    target: str = ""
    """What ``-o`` names, below the folder that is watched; nothing: the folder."""
    before: Callable[[Path, Path], object] | None = None
    """Puts into the folder what the command needs there."""
    makes_run: bool = True


def _old_tables(data: Path, folder: Path) -> None:
    """An older table with other trajectories: its side file must not be taken for the new one's."""
    folder.mkdir()
    made = invoke("simulate", "--random", 2, "-o", folder / "x.csv", "--trajectories", 2)
    assert made.exit_code == 0


def _a_run(data: Path, folder: Path) -> None:
    shutil.copytree(data / "RUN", folder)


TABLE = ("network.json", "edges.csv")
CASES = {
    "learn": Case(
        ("learn", "data.csv", "--max-parents", "1", "--search", "exhaustive", *EMISSION,
         "--method", "star"),
        (*TABLE, "families.csv"),
    ),
    "fit": Case(("fit", "data.csv", "--edges", "edges.csv", *EMISSION), (*TABLE, "rates.csv")),
    "infer": Case(("infer", "data.csv", "--network", "network.json", *EMISSION), TABLE),
    "reproduce": Case(("reproduce", "fig2", "--quick"), ("fig2.csv",), makes_run=False),
    "compare": Case(("compare", "RUN", "RUN", "--names", "a,b"), ("edges.csv", "compare.html"),
                    makes_run=False),
    "simulate": Case(
        ("simulate", "network.json", "--trajectories", "3"), ("x.csv", "x.meta.json"), "x.csv",
        _old_tables, False,
    ),
    "report": Case(("report", "RUN"), (*TABLE, "report.html"), before=_a_run),
    "sample": Case(
        ("learn", "data.csv", "--max-parents", "1", "--method", "sample", "--minutes", "0.05",
         *EMISSION), ()
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small table with its network, and a finished run."""
    from asterism.paper import fig2

    folder = tmp_path_factory.mktemp("disturbed")
    made = invoke(
        *("simulate", "--glauber", "chain:3", "-o", folder / "data.csv", "--trajectories", 5),
        *("--observations", 5, "--save-network", folder / "network.json"),
        *("--save-truth", folder / "edges.csv"),
    )
    assert made.exit_code == 0, made.output
    save_run(example_run({"A": [], "B": ["A"]}), folder / "RUN", page=write_report)
    real, here = fig2.run, Path.cwd()
    fig2.run = _fake_figure
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(here)
        fig2.run = real


def _fake_figure(folder: Path, quick: bool, data: Any, progress: Any = None) -> Path:
    """A reproduction whose cases take no time: saved rows, a table, a figure and a page."""
    import pandas as pd

    from asterism.data.files import write_text
    from asterism.paper import common
    from asterism.report.figure_style import new_figure

    cases = [{"k": k} for k in range(4)]
    rows = common.for_each(folder, cases, lambda case: {"square": case["k"] ** 2}, "cases")
    figure = new_figure(1.0, 1.0)
    common.write_figure(folder, "fig2", figure)
    common.write_table(folder, "fig2", pd.DataFrame(rows))
    write_text(folder / "fig2.html", "<p>done</p>")
    return folder / "fig2.html"


def start(name: str, data: Path, folder: Path, *more: str, at: int = 0, how: str = KILL) -> Ended:
    case = CASES[name]
    arguments = list(case.arguments)
    if name == "report":
        arguments[1] = folder
    else:
        arguments += ["-o", folder / case.target]
    return harness.run(folder, *arguments, *more, at=at, how=how)


def prepared(name: str, data: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    before = CASES[name].before
    if before is not None:
        before(data, folder)


def flags(name: str, folder: Path) -> list[str]:
    """What the first attempt needs."""
    return ["--force"] if name == "simulate" else []


@pytest.mark.parametrize("how", [KILL, INTERRUPT, TERMINATE, FULL])
@pytest.mark.parametrize("name", CASES)
def test_disturbed_at_any_step(name: str, how: str, data: Path, tmp_path: Path) -> None:
    case = CASES[name]
    warm = data / f"warm {name}"
    if not warm.exists() and name not in ("report", "simulate"):  # compiles what the forks need
        done = invoke(*case.arguments, "-o", warm)
        assert done.exit_code in (0, 4), done.output
    # pages name their folder: both have one name
    whole, folder = tmp_path / "whole" / "run", tmp_path / "run"
    whole.parent.mkdir()
    prepared(name, data, whole)
    first = start(name, data, whole, *flags(name, whole))
    assert first.code in (0, 4), first.said
    assert first.n_steps >= 2
    expected = {file: (whole / file).read_bytes() for file in case.compared}
    for step in harness.steps_to_try(first.n_steps, MOST):
        prepared(name, data, folder)
        ended = start(name, data, folder, *flags(name, folder), at=step, how=how)
        where = (name, how, step, ended)
        assert "error of asterism itself" not in ended.said, where
        assert "Traceback" not in ended.said, where
        assert "ESCAPED" not in ended.said, where
        _require_code(how, ended, where)
        outcome = _state_of(case, folder, where)
        if name == "simulate":  # has no lock: what a killed process left goes when it is old
            for leftover in folder.glob(f"{TEMPORARY}*"):
                os.utime(leftover, (0.0, 0.0))
        again = start(name, data, folder, *_to_go_on(name, folder))
        assert again.code in (0, 4), (where, again.said)
        for file, content in expected.items():
            assert (folder / file).read_bytes() == content, (where, file)
        if case.makes_run:
            load(folder)
        left = [p.name for p in folder.iterdir() if p.name.startswith((".asterism", LOCK))]
        assert not left, (where, left)
        harness.count(f"{name} {how}", outcome)


def _require_code(how: str, ended: Ended, where: Any) -> None:
    if how == FULL:
        # it may have been done already, or what could not be written was of no consequence
        assert ended.code in (0, 2, 3, 4), where
        if ended.code in (2, 3):
            assert "No space" in ended.said or "disk is full" in ended.said, where
            assert ": a file." not in ended.said, where
    elif how == INTERRUPT:
        assert ended.code in (0, 4, 130), where
    else:
        assert ended.code in (0, 4, -harness.SIGNALS[how]), where


def _state_of(case: Case, folder: Path, where: Any) -> str:
    """What is left; a folder that looks finished must be."""
    if not folder.exists() or not any(folder.iterdir()):
        return "nothing written"
    if not case.makes_run:
        return _whole_files(folder, where)
    if (folder / "run.json").exists():
        load(folder)
        return "finished"
    if (folder / "network.json").exists() and (folder / "edges.csv").exists():
        with pytest.raises(AsterismError):
            load(folder)
        return "unfinished, and says so"
    return "unfinished"


def _whole_files(folder: Path, where: Any) -> str:
    """Files under their own names are whole; those being written have other names."""
    names = [path.name for path in folder.iterdir() if not path.name.startswith(TEMPORARY)]
    for path in folder.rglob("*.json"):
        if path.name in names:
            json.loads(path.read_text())
    for path in folder.rglob("*.csv"):
        if path.name in names:
            assert path.read_bytes().endswith(b"\n"), where
    for path in folder.rglob("*.html"):
        if path.name in names:
            assert path.read_text().rstrip().endswith((">", "</html>")), where
    return "whole files" if any(name != LOCK for name in names) else "nothing under its own name"


def _to_go_on(name: str, folder: Path) -> list[str]:
    if name == "report":
        return []
    if name == "reproduce" and (folder / "rows.jsonl").exists():
        return []
    kept = (folder / "journal.sqlite").exists() or (folder / "sampling.npz").exists()
    if name in ("learn", "sample") and kept and not (folder / "run.json").exists():
        return ["--resume"]
    return ["--force"]


def test_two_writers_never_mix_a_folder(data: Path, tmp_path: Path) -> None:
    """Pairs that start together, with different data: the folder is one's or the other's."""
    for seed in (1, 2):
        made = invoke(
            *("simulate", "network.json", "-o", f"pair{seed}.csv", "--seed", seed, "--force"),
            *("--trajectories", 3),
        )
        assert made.exit_code == 0
    command = ("infer", "--network", "network.json", *EMISSION)
    for seed in (1, 2):
        done = harness.run(tmp_path / f"alone{seed}", *command, f"pair{seed}.csv", "-o",
                           tmp_path / f"alone{seed}")  # fmt: skip
        assert done.code in (0, 4), done.said
    alone = [(tmp_path / f"alone{s}" / "observations.csv").read_bytes() for s in (1, 2)]
    for pair in range(4 if REDUCED else 20):
        folder = tmp_path / f"pair {pair}"
        logs = [tmp_path / f".said {k}" for k in range(2)]
        pids = [
            harness.in_fork(
                harness.command(*command, f"pair{k + 1}.csv", "-o", folder, "--force"), log
            )
            for k, log in enumerate(logs)
        ]
        codes = [harness.wait_for(pid) for pid in pids]
        said = [log.read_text() for log in logs]
        assert any(code in (0, 4) for code in codes), said
        for code, text in zip(codes, said):
            if code not in (0, 4):
                assert code == 2, text
                assert "is being written by process" in text, text
                harness.count("pairs of writers", "second refused")
            else:
                harness.count("pairs of writers", "wrote")
        load(folder)
        assert (folder / "observations.csv").read_bytes() in alone
        assert not (folder / LOCK).exists()
