"""Files made to break their reader: refused in one sentence, or read back unchanged."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat

import asterism as am
from asterism.data.files import parse_json, write_table
from asterism.data.formats.graphml import read_graphml
from asterism.data.formats.mat import read_mat
from asterism.data.table_file import escape_cell, unescape_cell
from asterism.errors import AsterismError, DataError
from asterism.results.folder import load, save_run
from tests.command_line import assert_refused, invoke
from tests.example_runs import example_run
from tests.faults import harness

NETWORK = am.glauber("chain:2").to_dict()

JSON_FILES = {
    "deep nesting": "[" * 100_000,
    "deep nesting that ends": "[" * 500 + "]" * 500,
    "a huge number": '{"format": ' + "9" * 10_000 + "}",
    "a name twice": '{"format": "asterism-network", "format": "x"}',
    "NaN": '{"format": NaN}',
    "half a character": '{"format": "\\ud800"}',
    "no JSON": "{",
    "a list": "[]",
    "null": "null",
    "not UTF-8": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", JSON_FILES)
def test_json_that_is_no_network(name: str, tmp_path: Path) -> None:
    content = JSON_FILES[name]
    path = tmp_path / "network.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AsterismError, match=r"network\.json"):
        am.Network.load(path)
    assert_refused(invoke("simulate", path, "-o", tmp_path / "x.csv"), 3, "network.json")
    assert_refused(invoke("convert", path, tmp_path / "x.graphml"), 3, "network.json")
    (tmp_path / "d.csv").write_text("time,A\n0,1\n1,0\n")
    (tmp_path / "d.meta.json").write_bytes(path.read_bytes())
    assert_refused(invoke("learn", tmp_path / "d.csv", "-o", tmp_path / "RUN"), 3, "d.meta.json")


WRONG: list[Any] = [
    None, True, -1, 1e308, 10**400, "text", [], {}, [[]], [None], {"a": 1}, [[1], [2, 3]], "\0",
]  # fmt: skip


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a JSON document."""
    found = [path] if path else []
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items if isinstance(content, (dict, list)) else ():
        found += places(value, (*path, key)) if isinstance(value, (dict, list)) else [(*path, key)]
    return found


def test_wrong_types_anywhere_in_a_network_are_refused_or_mean_something() -> None:
    """Every place of a network file, with every wrong value: never an error of the program."""
    outcomes: Counter[str] = Counter()
    for place in places(NETWORK):
        for value in WRONG:
            content = json.loads(json.dumps(NETWORK))
            holder = content
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
            try:
                am.Network.from_dict(content)
            except AsterismError:
                outcomes["refused"] += 1
            else:
                outcomes["read"] += 1
    assert outcomes["refused"] > 5 * outcomes["read"], outcomes


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_json_or_a_value_error(text: str) -> None:
    try:
        found = parse_json(text)
    except ValueError:
        return
    assert json.dumps(found) == json.dumps(json.loads(text))


# ---- binary formats ---------------------------------------------------------------------------


def mat_file() -> bytes:
    cells = np.empty((2, 1), dtype=object)
    clocks = np.empty((2, 1), dtype=object)
    for d in range(2):
        cells[d, 0] = np.random.default_rng(d).random((2, 3, 2))
        clocks[d, 0] = np.arange(3.0)[:, None]
    buffer = io.BytesIO()
    savemat(buffer, {"Z": cells, "time": clocks})
    return buffer.getvalue()


@pytest.mark.parametrize(
    "n_files", [2, pytest.param(4 if harness.REDUCED else 100, marks=pytest.mark.slow)]
)
def test_damaged_matlab_files(n_files: int, tmp_path: Path) -> None:
    """Cut and flipped; the parser runs in another process, so a crash of it is a sentence."""
    whole = mat_file()
    path = tmp_path / "data.mat"
    path.write_bytes(whole)
    assert read_mat(path).n_trajectories == 2
    rng = random.Random(0)
    outcomes: Counter[str] = Counter()
    for k in range(n_files):
        damaged = bytearray(whole)
        if k % 2:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(3):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(damaged))
        try:
            read_mat(path)
        except DataError as error:
            outcomes["crashed, said" if "crash" in str(error) else "refused"] += 1
        else:
            outcomes["read"] += 1  # a MATLAB file has no checksum
    for outcome, n in outcomes.items():
        harness.count("damaged .mat files", outcome, n)


def test_a_crash_of_the_parser_is_a_sentence(tmp_path: Path, monkeypatch) -> None:
    from asterism.numerics import child_process

    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    command = [sys.executable, "-c", crash]
    monkeypatch.setattr(child_process, "child_command", lambda *_: command)
    (tmp_path / "x.mat").write_bytes(mat_file())
    with pytest.raises(DataError, match="made its reader crash"):
        read_mat(tmp_path / "x.mat")


def test_damaged_netcdf_read_on_purpose(tmp_path: Path) -> None:
    run = save_run(example_run(), tmp_path / "run")
    content = bytearray((run / "posterior.nc").read_bytes())
    content[len(content) // 3 : len(content) // 3 + 2000] = os.urandom(2000)
    (run / "posterior.nc").write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"posterior\.nc"):
        load(run)
    try:
        load(run, verify=False)
    except DataError as error:
        assert "posterior.nc" in str(error)  # noqa: PT017 (reading it may as well succeed)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {c} "{f"&{p};" * 10}">' for p, c in zip("abcdefgh", "bcdefghi"))
    + "]><graphml><graph><node id='&i;'/></graph></graphml>"
)


@pytest.mark.parametrize("text", [BOMB, "<graphml>", "", "<a/>", BOMB.encode("utf-16")])
def test_graphml_bombs_and_nonsense(text: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "graph.graphml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(AsterismError, match=r"graph\.graphml"):
        read_graphml(path)


# ---- spreadsheets -----------------------------------------------------------------------------

FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "'=x", "''=x", "\u2212x", "=cmd|' /C calc'!A0"]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=8) | st.sampled_from(FORMULAS))
def test_escaped_cells_read_back(text: str) -> None:
    written = escape_cell(text)
    assert unescape_cell(written) == text
    if text[:1] in "=@" and text:
        assert written.startswith("'")


def test_numbers_are_not_escaped() -> None:
    for text in ("-1", "+1", "-0.5e-3", "1", ""):
        assert escape_cell(text) == text
    assert escape_cell(-1.5) == -1.5


def test_no_formula_reaches_a_spreadsheet(tmp_path: Path) -> None:
    """Names that are formulas, through every table of a run and every table of data."""
    parents = {"=A1": [], "+B": ["=A1"], "-C": ["=A1", "+B"], "@D": [], "'=E": []}
    run = example_run(parents, states=("=off", "@on"), labels=True)
    folder = save_run(run, tmp_path / "run")
    back = load(folder)
    assert set(back.edge_table["parent"]) == set(run.edge_table["parent"])
    assert back.families is not None
    assert back.families["parents"].tolist() == [tuple(p) for p in parents.values()]
    assert back.observations is not None
    assert set(back.observations["node"]) == set(parents)
    assert set(back.observations["value"]) == {"=off", "@on"}
    network = run.network
    paths = am.simulate(network, 3, duration=3.0, seed=0)
    paths.save(tmp_path / "paths.csv")
    assert am.Trajectories.load(tmp_path / "paths.csv").states == paths.states
    seen = am.observe(paths, am.Exact(), n_observations=4, seed=1)
    seen.to_csv(tmp_path / "seen.csv")
    again = am.Observations.from_csv(tmp_path / "seen.csv")
    assert list(again.measurements) == list(seen.measurements)
    for node, record in seen.measurements.items():
        assert list(again.measurements[node].value) == list(record.value)
    for table in [*folder.glob("*.csv"), tmp_path / "paths.csv", tmp_path / "seen.csv"]:
        cells = pd.read_csv(table, header=None, dtype=str, keep_default_na=False).to_numpy()
        for cell in cells.ravel():
            assert not cell.startswith(("=", "@")), (table, cell)
            assert not (cell.startswith(("+", "-")) and not is_number(cell)), (table, cell)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_table_with_twice_the_same_column(tmp_path: Path) -> None:
    table = pd.DataFrame([["=a", 1.0, "b"]], columns=["=x", "y", "=x"])
    write_table(tmp_path / "t.csv", table)
    assert (tmp_path / "t.csv").read_text() == "'=x,y,'=x\n'=a,1.0,b\n"


# ---- nobody listens ---------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "1>/dev/full", "2>/dev/full"])
def test_closed_streams_do_not_lose_results(closed: str, tmp_path: Path) -> None:
    if "full" in closed and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    target = tmp_path / "data.csv"
    command = f"'{sys.executable}' -m asterism simulate --random 3 -o '{target}' --json {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert target.exists(), done.stderr
    assert (tmp_path / "data.meta.json").exists()
    assert "Traceback" not in done.stderr
    assert "error of asterism itself" not in done.stderr
    assert done.returncode == (2 if closed == "1>/dev/full" else 0), done.stderr
    if closed == "1>/dev/full":
        assert "stdout" in done.stderr
