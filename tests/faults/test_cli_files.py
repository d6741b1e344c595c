"""Files as people have them, and files that are none: read rightly, or refused in one paragraph."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.commands.input_table import TableOptions, read_table
from tests.command_line import assert_refused, invoke

TABLE = """trajectory,time,A,B
1,0,0.5,on
1,1.5,0.7,off
1,2.5,,off
2,0,0.1,on
2,3,0.9,on
"""


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


SAME_TABLE = {
    "byte-order mark": "\ufeff" + TABLE,
    "semicolons": TABLE.replace(",", ";"),
    "semicolons and decimal commas": TABLE.replace(",", ";").replace(".", ","),
    "decimal commas in quotes": re.sub(r"(\d)\.(\d)", r'"\1,\2"', TABLE),
    "tabs": TABLE.replace(",", "\t"),
    "Windows line ends": TABLE.replace("\n", "\r\n"),
    "old Mac line ends": TABLE.replace("\n", "\r"),
    "no line end at the end": TABLE.rstrip("\n"),
    "blank lines": TABLE.replace("\n2,0", "\n\n\n2,0") + "\n\n",
    "quotes": TABLE.replace("A,B", '"A","B"').replace("on", '"on"'),
    "spaces": TABLE.replace(",", ", "),
    "a separator at the end of each line": TABLE.replace("\n", ",\n"),
    "NA": TABLE.replace(",,", ",NA,"),
    "nd": TABLE.replace(",,", ",n.d.,"),
    "UTF-16": TABLE,
}


@pytest.mark.parametrize("name", SAME_TABLE)
def test_spellings_of_one_table(name: str, tmp_path: Path) -> None:
    plain = read_table(TableOptions(write(tmp_path / "plain.csv", TABLE))).require()
    other = read_table(
        TableOptions(
            write(tmp_path / "t.csv", SAME_TABLE[name], "utf-16" if name == "UTF-16" else "utf-8")
        )
    ).require()
    assert isinstance(plain, am.Observations)
    assert isinstance(other, am.Observations)
    pd.testing.assert_frame_equal(plain.to_frame(), other.to_frame())
    assert invoke("check", tmp_path / "t.csv").exit_code == 0


def test_utf8_names_survive_the_whole_way(tmp_path: Path) -> None:
    network = am.glauber({"Ünï 基因": [], "β-катенин": ["Ünï 基因"]}, a=1.0, b=1.5)
    am.simulate(network, n_trajectories=20, duration=10.0, seed=1).save(tmp_path / "p.csv")
    result = invoke("learn", tmp_path / "p.csv", "-o", tmp_path / "RÜN")
    assert result.exit_code == 0, result.output
    assert "Ünï 基因 → β-катенин" in result.stderr
    assert "β-катенин" in (tmp_path / "RÜN" / "edges.csv").read_text(encoding="utf-8")


REFUSED: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "0 bytes": (b"", ("0 bytes",)),
    "blank lines only": (b"\n \n\n", ("blank lines",)),
    "header only": (b"trajectory,time,A\n", ("no rows",)),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ("not a text file",)),
    "Latin-1": ("time,Grün\n0,1\n".encode("latin-1"), ("UTF-8",)),
    "no time": (b"A,B\n1,2\n", ("--time",)),
    "time twice": (b"time,A,time\n0,1,0\n1,2,1\n", ("'time'", "more than once")),
    "a node twice": (b"time,A,A\n0,1,0\n1,2,1\n", ("'A'", "more than once")),
    "only times": (b"trajectory,time\n1,0\n1,1\n", ("no column of measurements",)),
    "a cell too many": (b"time,A\n0,1,7\n", ("row 2",)),
    "a cell too few": (b"time,A,B\n0,1\n", ("row 2",)),
    "text for a time": (b"time,A\nnoon,1\n1,2\n", ("row 2", "'noon'")),
    "American dates": (b"date,A\n11/3/2026,1\n11/4/2026,2\n", ("row 2", "is a date")),
    "a workbook": (b"PK\x03\x04\x14\0", ("Excel", "CSV UTF-8")),
    "infinite time": (b"time,A\n0,1\ninf,2\n", ("row 3",)),
    "times going back": (b"time,A\n0,1\n2,3\n1,2\n", ("row 4", "sort")),
    "text among numbers": (b"time,A\n0,1\n1,2\n2,three\n", ("row 4", "'three'", "'A'")),
    "a quote that never ends": (b'time,A\n0,"1\n1,2\n', ()),
}


@pytest.mark.parametrize("command", ["check", "learn"])
@pytest.mark.parametrize("name", REFUSED)
def test_bad_files_are_refused_in_one_paragraph(command: str, name: str, tmp_path: Path) -> None:
    content, words = REFUSED[name]
    (tmp_path / "t.csv").write_bytes(content)
    output = ["-o", tmp_path / "RUN"] if command == "learn" else []
    result = invoke(command, tmp_path / "t.csv", *output)
    assert result.exit_code == 3, result.output
    for word in words:
        assert word in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "RUN").exists()


def test_check_names_every_problem_at_once(tmp_path: Path) -> None:
    write(
        tmp_path / "t.csv",
        "trajectory,time,A,B\n1,0,1,2\n1,x,2,3\n,2,2,3\n1,1,inf,3\n1,0.5,2,many\n",
    )
    result = invoke("check", tmp_path / "t.csv")
    assert result.exit_code == 3
    for place in ("row 3", "row 4", "row 5", "row 6"):
        assert place in result.stdout, result.stdout
    assert result.stdout.count("Error: ") >= 5


@pytest.mark.parametrize("byte", [b"\0", b"0"])
def test_two_gigabytes_of_zeros_are_refused_at_once(byte: bytes, tmp_path: Path) -> None:
    """A sparse file; only its beginning may be read, or this test would take minutes."""
    path = tmp_path / "zeros.csv"
    with path.open("wb") as file:
        file.write(byte * 5_000_000)
        file.truncate(2_000_000_000)
    assert_refused(invoke("check", path), 3, "not a")
    assert_refused(invoke("learn", path, "-o", tmp_path / "RUN"), 3, "not a")


def test_a_table_that_memory_cannot_hold_is_refused_with_numbers(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.write(b"time,A\n" + b"0,1\n" * 1_500_000)  # more than is looked at first
        file.truncate(10**13)
    assert_refused(invoke("check", path), 3, "GB")


def test_thousands_are_not_taken_for_decimals(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'time,A\n0,"1,100"\n1,"1,200"\n')
    asked = invoke("check", path)
    assert asked.exit_code == 3
    assert all(part in asked.stdout for part in ("'1,100'", "--comma", "--labels"))
    labels = read_table(TableOptions(path, labels=["A"])).require()
    assert isinstance(labels, am.Observations)
    assert labels.measurements["A"].value.tolist() == ["1,100", "1,200"]
    write(path, 'time,A\n0,"0,125"\n1,"1,200"\n')  # no thousand begins with a zero
    decimals = read_table(TableOptions(path)).require()
    assert isinstance(decimals, am.Observations)
    assert decimals.measurements["A"].value.tolist() == [0.125, 1.2]


def test_names_with_commas_survive(tmp_path: Path) -> None:
    table = {
        "trajectory": ["1,5", "1,5", "2,5"],
        "time": [0.0, 1.0, 0.0],
        "a": ["0,1", "1,0", "0,1"],
    }
    am.Observations.from_frame(pd.DataFrame(table), labels=["a"]).to_csv(tmp_path / "t.csv")
    read = am.Observations.from_csv(tmp_path / "t.csv")
    assert read.trajectories == ("1,5", "2,5")
    assert read.measurements["a"].value.tolist() == ["0,1", "1,0", "0,1"]
    states = {"trajectory": "1", "time": [0.0, 0.5], "node": "a", "state": ["0,1", "1,0"]}
    am.Trajectories.from_frame(pd.DataFrame(states), end=1.0).save(tmp_path / "p.csv")
    assert am.Trajectories.load(tmp_path / "p.csv").states == {"a": ("0,1", "1,0")}


def test_a_column_may_be_called_as_workbooks_begin(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "PKA,PKC,time\n0,1,0\n1,0,1\n")
    assert invoke("check", path).exit_code == 0
    path.write_bytes(b"PK\x03\x04\x14")
    with pytest.raises(am.errors.DataError, match="Excel"):
        am.Observations.from_csv(path)


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    return folder


@pytest.mark.parametrize("deep", ["RUN", "a/b/RUN"])
def test_read_only_folder(deep: str, locked: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", TABLE)
    assert_refused(invoke("learn", data, "-o", locked / deep), 2, "cannot be written")


def test_unwritable_folder_is_refused_before_learning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("asterism.commands.outputs.tempfile.mkstemp", denied)
    data = write(tmp_path / "t.csv", TABLE)
    result = invoke("learn", data, "-o", tmp_path / "RUN")
    assert_refused(result, 2, "cannot be written to: Permission denied")
    result = invoke("simulate", "--random", "3", "-o", tmp_path / "x.csv")
    assert_refused(result, 2, "cannot be written")


def test_output_beneath_a_file_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", TABLE)
    assert_refused(invoke("learn", data, "-o", data / "RUN"), 2)


def test_an_interrupted_run_is_neither_overwritten_nor_resumed_by_chance(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", TABLE)
    run = tmp_path / "RUN"
    run.mkdir()
    (run / "journal.sqlite").write_bytes(b"")
    assert_refused(invoke("learn", data, "-o", run), 2, "--resume", "--force")
    (run / "run.json").write_text("{}")
    assert_refused(invoke("learn", data, "-o", run, "--resume"), 2, "finished already")


def test_columns_without_information_are_left_out_and_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "time": np.arange(60.0),
            "A": rng.choice(["on", "off"], 60),
            "same": 1.0,
            "empty": np.nan,
            "B": rng.choice(["x", "y", "z"], 60),
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    result = invoke("check", tmp_path / "t.csv")
    assert result.exit_code == 0
    assert "never changes: 'same'" in result.stdout
    assert "nothing was measured: 'empty'" in result.stdout
    assert "seen without error (--emission categorical allows errors): 'A', 'B'" in result.stdout


def test_trajectories_of_a_single_time_teach_nothing(tmp_path: Path) -> None:
    rows = "".join(f"{d},0,{d % 2},{d % 3}\n" for d in range(6))
    table = write(tmp_path / "table.csv", "trajectory,time,A,B\n" + rows)
    checked = invoke("check", table)
    assert "single time" in checked.output
    refused = invoke("learn", table, "-o", tmp_path / "run")
    assert refused.exit_code == 3
    assert "Error: Every trajectory has rows at a single time only" in refused.stderr


def test_two_states_at_one_time_are_pointed_out(tmp_path: Path) -> None:
    table = write(
        tmp_path / "table.csv",
        "trajectory,time,node,value\n1,0,A,on\n1,1,A,off\n1,1,A,on\n1,0,B,on\n1,1,B,off\n",
    )
    assert "rows 3 and 4" in invoke("check", table).output
    good = table.read_text(encoding="utf-8").replace("1,1,A,on\n", "")
    assert "two different states" not in invoke("check", write(table, good)).output
