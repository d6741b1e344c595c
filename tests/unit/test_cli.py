"""How flags, files and defaults come together, and what the commands say."""

from __future__ import annotations

import json
import logging
import re
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import asterism as am
from asterism.cli import main
from asterism.commands.console import Console
from asterism.commands.input_table import TableOptions, read_table
from asterism.commands.outputs import scored_in, writing_to
from asterism.data.table_file import read_header
from asterism.errors import DataError
from asterism.learning.search.journal import Journal
from asterism.report.bundled_data import demo_files
from tests.command_line import assert_refused, invoke

# ---- settings -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paths_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete paths: learned exactly, in no time."""
    folder = tmp_path_factory.mktemp("data")
    network = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=1.5)
    am.simulate(network, n_trajectories=30, duration=10.0, seed=1).save(folder / "paths.csv")
    return folder / "paths.csv"


def test_flags_win_over_the_file_and_all_are_recorded(paths_file: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        'max-parents = 1\nseed = 7\n[learn]\nprior = "3,2"\nforbidden = ["B->A"]\n[infer]\nx = 1\n'
    )
    result = invoke(
        *("learn", paths_file, "-o", tmp_path / "RUN", "--config", tmp_path / "c.toml"),
        *("--seed", 8, "-q", "--json"),
    )
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "RUN" / "run.json").read_text())
    assert record["command"]["max_parents"] == 1
    assert record["command"]["seed"] == record["seed"] == 8
    assert record["command"]["prior"] == [3.0, 2.0]
    assert record["settings"]["structure_prior"]["forbidden"] == [["B", "A"]]
    assert record["data_hash"].startswith("sha256:")
    assert record["decisions"]
    summary = json.loads(result.stdout)
    assert [(e["parent"], e["child"]) for e in summary["edges"] if e["in_graph"]] == [("A", "B")]


def test_a_list_of_settings_may_be_a_string_as_after_a_flag(
    paths_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text('[learn]\nforbidden = "A->B"\nnodes = "A,B"\n')
    result = invoke("learn", paths_file, "-o", tmp_path / "R", "--config", tmp_path / "c.toml")
    assert result.exit_code == 0, result.output
    assert "Nodes: 'A', 'B', as asked" in result.stderr


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "tcp://host", "host:", "host:port", ":8786", "ftp://host:8786", "host:0"],
)
def test_the_address_of_a_scheduler_has_a_host_and_a_port(
    paths_file: Path, tmp_path: Path, address: str
) -> None:
    """Said at once; Dask would begin to connect, and end with a traceback."""
    result = invoke("learn", paths_file, "-o", tmp_path / "RUN", "--scheduler", address)
    assert_refused(result, 2, "--scheduler", repr(address), "host and port", "tcp://host:8786")
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize("command", ["check", "learn"])
def test_a_summary_says_which_command_it_is_of(
    paths_file: Path, tmp_path: Path, command: str
) -> None:
    folder = () if command == "check" else ("-o", tmp_path / "RUN")
    result = invoke(command, paths_file, *folder, "--json")
    summary = json.loads(result.stdout)
    assert summary["command"] == command
    assert summary["data"] == str(paths_file)


def test_limits_that_exclude_each_other_are_a_usage_error(paths_file: Path, tmp_path: Path) -> None:
    limits = ("--min-parents", 2, "--max-parents", 1)
    result = invoke("learn", paths_file, "-o", tmp_path / "R", *limits)
    assert result.exit_code == 2
    assert "--min-parents 2 is more than --max-parents 1" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-parnets = 1", "max_parnets (perhaps max-parents), unknown to asterism learn"),
        ("[lern]\nseed = 1", "a table [lern], which is no command; the commands are"),
        ("max-parents = [", "not a TOML file"),
        ('max-parents = "many"', "not a valid integer"),
        ('learn = "x"', "must be a table"),
    ],
)
def test_a_wrong_file_of_settings_is_a_usage_error(
    text: str, message: str, paths_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(text)
    result = invoke("learn", paths_file, "-o", tmp_path / "R", "--config", tmp_path / "c.toml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "R").exists()


def test_the_probability_of_an_edge_is_not_that_of_a_required_one(
    paths_file: Path, tmp_path: Path
) -> None:
    nodes = am.Trajectories.load(paths_file).nodes
    edges = [("--required", f"{nodes[1]}:{node}") for node in nodes if node != nodes[1]]
    flags = [part for edge in edges for part in edge]
    result = invoke("learn", paths_file, "-o", tmp_path / "R", "--max-parents", 2, *flags)
    assert result.exit_code == 0, result.output
    assert "an edge has a probability of 0" in result.stderr
    assert "an edge has a probability of 1 " not in result.stderr


def test_what_was_decided_is_said(paths_file: Path, tmp_path: Path) -> None:
    result = invoke("learn", paths_file, "-o", tmp_path / "RUN")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    for words in ("--time", "--trajectory", "--max-parents", "--search", "--prior", "report.html"):
        assert words in result.stderr


def test_every_guess_names_the_flag_that_overrules_it(tmp_path: Path) -> None:
    """Columns, span, emission, states, parents, search and time scale."""
    with demo_files() as files:
        lines = files.data.read_text().splitlines()
    few = [",".join(line.split(",")[:5]) for line in lines if not line.startswith(("8", "9"))]
    (tmp_path / "cells.csv").write_text("\n".join(few))
    result = invoke("learn", tmp_path / "cells.csv", "-o", tmp_path / "RUN", "--method", "star")
    assert result.exit_code in (0, 4), result.output
    for words in (
        "one column per node (--kind)",
        "column 'hours' is the time, in h (--time, --unit)",
        "column 'replicate' names the trajectory (--trajectory)",
        "the other columns are nodes (--nodes)",
        "noisy levels of 2 hidden states, with means and noise learned from the data (--states, "
        "--emission), as many levels as the data show: 'AlpA', 'BetB', 'GamC'",
        "3 nodes, 10 trajectories",
        "(--start, --end)",
        "At most 2 parents of a node (--max-parents); all 12 sets of parents are scored (--search)",
        "its rate from the time scale of each node (--prior SHAPE,RATE)",
        "a transition takes about",
        "(--prior 5,auto expects the same of all nodes)",
    ):
        assert words in result.stderr, words
    record = json.loads((tmp_path / "RUN" / "run.json").read_text())
    assert all(line in result.stderr for line in record["decisions"])
    assert record["command"]["states"] == "auto"


def test_a_screened_search_is_said(paths_file: Path, tmp_path: Path) -> None:
    result = invoke("learn", paths_file, "-o", tmp_path / "RUN", "--search", "screened")
    assert "as asked, only those of the 10 best candidates" in result.stderr


def test_nodes_of_complete_paths_can_be_chosen(tmp_path: Path) -> None:
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=1.5)
    am.simulate(network, n_trajectories=30, duration=10.0, seed=1).save(tmp_path / "p.csv")
    whole = read_table(TableOptions(tmp_path / "p.csv")).require()
    found = read_table(TableOptions(tmp_path / "p.csv", nodes=("C", "A"))).require()
    assert found.nodes == ("C", "A")
    assert found.end.tolist() == whole.end.tolist()
    result = invoke("check", tmp_path / "p.csv", "--nodes", "A,Z")
    assert result.exit_code == 3
    assert "--nodes names 'Z', which is not a node" in result.stderr


def test_paths_that_never_change_are_left_out_and_said(tmp_path: Path) -> None:
    rows = "0,A,off\n0,S,on\n1,A,on\n2,A,off\n"
    (tmp_path / "p.csv").write_text("time,node,state\n" + rows)
    table = read_table(TableOptions(tmp_path / "p.csv", end=3.0))
    assert table.require().nodes == ("A",)
    assert any("the state never changes: 'S'" in line for line in table.decisions)


def test_labels_may_look_like_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("time,stage\n0,1\n1,2\n2,2b\n3,1\n4,2\n")
    refused = invoke("check", tmp_path / "t.csv")
    assert refused.exit_code == 3
    assert "--labels" in refused.stdout
    assert invoke("check", tmp_path / "t.csv", "--labels", "stage").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--random", "3", "--trajectories", "0"],
        ["simulate", "--random", "3", "--missing", "1"],
        ["simulate", "--random", "3", "--max-parents", "-1"],
        ["simulate", "--random", "3", "--jobs", "0"],
        ["learn", "DATA", "--states", "1"],
        ["learn", "DATA", "--tolerance", "0"],
        ["learn", "DATA", "--time-step", "-1"],
        ["learn", "DATA", "--candidates", "0"],
        ["learn", "DATA", "--prior", "5,-1"],
        ["learn", "DATA", "--prior", "nan"],
        ["convert", "DATA", "x.csv", "--to", "xls"],
    ],
)
def test_impossible_numbers_are_usage_errors(
    arguments: list[str], paths_file: Path, tmp_path: Path
) -> None:
    given = [str(paths_file) if a == "DATA" else a for a in arguments]
    output = [] if "convert" in given else ["-o", str(tmp_path / "OUT")]
    result = invoke(*given, *output)
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "OUT").exists()


def test_commands_are_listed_in_full() -> None:
    lines = invoke("--help").output.split("Commands:")[1].split("Exit codes")[0].splitlines()
    assert [line.split()[0] for line in lines if line.strip()][:3] == ["demo", "check", "learn"]
    assert not any(line.rstrip().endswith("...") for line in lines)


def test_every_command_has_help_with_an_example() -> None:
    for name, command in main.commands.items():
        result = invoke(name, "--help")
        assert result.exit_code == 0
        assert f"asterism {name} " in result.output.split("Example", 1)[1]
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.name} is not explained"
        assert {"as_json", "output"} <= {p.name for p in command.params} | {
            "output" if name in ("app", "check", "convert", "warm-up") else ""
        }


def test_reproduce_lists_what_there_is(tmp_path: Path) -> None:
    result = invoke("reproduce", "fig99", "-o", tmp_path / "OUT")
    assert result.exit_code == 2
    assert "'fig99' cannot be reproduced" in result.stderr


def test_reproduce_names_its_page_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(output: Path, quick: bool, data: Path | None, progress: Any) -> Path:
        output.mkdir(exist_ok=True)
        (output / "fig2.html").write_text("page")
        return output / "fig2.html"

    monkeypatch.setattr("asterism.paper.fig2.run", made)
    result = invoke("reproduce", "fig2", "--quick", "-o", tmp_path / "OUT", "--json")
    assert result.exit_code == 0, result.output
    page = str(tmp_path / "OUT" / "fig2.html")
    assert json.loads(result.stdout) == {
        "command": "reproduce",
        "name": "fig2",
        "output": str(tmp_path / "OUT"),
        "page": page,
        "files": [page],
    }
    assert f"open {page}" in result.stderr


def test_nowhere_to_keep_compiled_code_is_no_bug(
    paths_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise RuntimeError("cannot cache function 'f': no locator available for file 'x.py'")

    monkeypatch.setattr("asterism.commands.check.run", fail)
    result = invoke("check", paths_file)
    assert result.exit_code == 2
    assert "NUMBA_CACHE_DIR" in result.stderr


def test_an_existing_target_is_refused_without_naming_a_flag_that_is_not_there(
    paths_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    result = invoke("convert", paths_file, tmp_path / "there.csv")
    assert result.exit_code == 2
    assert " -o" not in result.stderr
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_flags_reach_the_learner(tmp_path: Path) -> None:
    from asterism.commands.learn import make_learner
    from asterism.commands.options import LearnOptions

    options = LearnOptions(
        TableOptions(Path("x.csv")), output=tmp_path / "RUN", resume=True, candidates=4, jobs=2
    )
    learner = make_learner(options, None, None)
    assert learner.search.journal == tmp_path / "RUN" / "journal.sqlite"
    assert learner.search.resume is True
    assert (learner.search.candidates, learner.n_jobs) == (4, 2)


def stop(folder: Path, reason: BaseException) -> None:
    """A search that ends early, one score in its journal."""
    with writing_to(folder, force=False), scored_in(folder, Console()):
        journal = Journal.open(folder / "journal.sqlite", {"data": "x"}, resume=False)
        if not isinstance(reason, DataError):
            journal.add("context", "item", np.array([1.0]))
        journal.close()
        raise reason


def test_an_error_takes_away_the_folder_it_made(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        stop(tmp_path / "RUN", DataError("no"))
    assert not (tmp_path / "RUN").exists()


def test_ctrl_c_keeps_the_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        stop(tmp_path / "RUN", KeyboardInterrupt())
    assert "--resume" in capsys.readouterr().err
    assert (tmp_path / "RUN" / "journal.sqlite").exists()


# ---- talking --------------------------------------------------------------------------------


def test_warnings_and_logs_become_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(quiet=True)
    with console.listening():
        for _ in range(2):
            warnings.warn("twice  the\nsame", UserWarning, stacklevel=1)
        logging.getLogger("asterism.report").warning("from the log")
        console.say("not said when quiet")
    assert capsys.readouterr().err.splitlines() == [
        "Warning: twice the same",
        "Warning: from the log",
    ]


def test_progress_off_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Console().progress() as progress:
        for stage in ("first", "second"):
            progress.start(3, stage)
            progress.advance(3)
            progress.finish()
    assert capsys.readouterr().err.splitlines() == ["first …", "second …"]


def test_progress_on_a_terminal_is_a_bar_that_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Console, "on_terminal", True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console()
    with console.progress() as progress:
        progress.start(4, "scoring")
        progress.advance(2)
        console.say("a line above the bar")
        progress.finish()
    said = capsys.readouterr().err
    assert "scoring" in said
    assert "a line above the bar" in said


def test_work_without_a_measure_is_a_line_once_it_lasts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Console().busy("brief"):
        pass
    monkeypatch.setattr("asterism.commands.console.BRIEF", 0.01)
    with Console().busy("long"):
        time.sleep(0.2)
    assert capsys.readouterr().err.splitlines() == ["long …"]
    monkeypatch.setattr(Console, "on_terminal", True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Console().busy("on a terminal"):
        pass
    assert "on a terminal" in capsys.readouterr().err


def test_header_is_read_whatever_the_separator(tmp_path: Path) -> None:
    for text in ("a,b\n1,2\n", "\ufeffa;b\r\n1;2\r\n", "a\tb\n", '"a","b"\n', "\n\na,b,\n"):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
        assert read_header(tmp_path / "t.csv") == ["a", "b"]


def test_short_help_lists_everyday_flags_under_headings_and_long_help_all() -> None:
    for name, command in main.commands.items():
        flags = {max(p.opts, key=len) for p in command.params if isinstance(p, click.Option)}
        short = invoke(name, "--help").output
        listed = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", short, re.MULTILINE))
        assert listed <= {*flags, "--help"}
        if "--help-all" in flags:
            whole = invoke(name, "--help-all").output
            assert all(flag in whole for flag in flags)
            assert len(whole) > len(short)
        else:
            assert flags - {"-a", "-b"} <= listed
    short = invoke("learn", "--help").output
    assert short.count("\n  -") <= 45
    headings = re.findall(r"^(\w+):$", short, re.MULTILINE)
    assert headings == ["Input", "Model", "Search", "Sampling", "Computation", "Output", "Help"]
    for flag in ("--allowed", "--absorbing", "--progressive", "--null", "--method", "--minutes"):
        assert flag in short


def test_a_flag_that_went_is_named_with_its_successor(tmp_path: Path) -> None:
    result = invoke("learn", __file__, "-o", tmp_path / "RUN", "--sample", "3")
    assert result.exit_code == 2
    assert "--method sample" in result.stderr
