"""Attacks that once got through: side files, workbooks, compressed tables, links, checkpoints."""

from __future__ import annotations

import bz2
import io
import json
import os
import random
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.data import table_file
from asterism.data.table_file import read_text_table
from asterism.errors import AsterismError, DataError
from asterism.results.lock import LOCK, only_writer
from asterism.sampling import model_posterior
from tests.command_line import assert_refused, invoke
from tests.faults import harness
from tests.faults.test_hostile_files import WRONG, places

# ---- side files -------------------------------------------------------------------------------

NETWORK = am.glauber("chain:2")


@cache
def some_paths() -> am.Trajectories:
    return am.simulate(NETWORK, 3, duration=3.0, seed=0)


def written(kind: str, folder: Path) -> Path:
    path = folder / "data.csv"
    if kind == "paths":
        some_paths().save(path)
    else:
        seen = am.observe(some_paths(), am.Gaussian((-1, 1), 0.5), n_observations=3, seed=1)
        seen.to_csv(path)
    return path


@pytest.mark.parametrize("kind", ["measurements", "paths"])
def test_wrong_types_anywhere_in_a_side_file(kind: str, tmp_path: Path) -> None:
    """Every place with every wrong value, and every name left out."""
    path = written(kind, tmp_path)
    side = tmp_path / "data.meta.json"
    right = json.loads(side.read_text())
    read = am.Trajectories.load if kind == "paths" else am.Observations.from_csv
    names = "labels" if kind == "paths" else "trajectories"
    expected = set(getattr(read(path), names))
    n_refused = n_read = 0
    for place in places(right):
        for value in [*WRONG, ...]:
            content = json.loads(json.dumps(right))
            holder = content
            for key in place[:-1]:
                holder = holder[key]
            if value is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            side.write_text(json.dumps(content))
            try:
                found = read(path)
            except AsterismError:
                n_refused += 1
                harness.count("wrong values in side files", "refused")
            else:
                n_read += 1
                assert expected <= set(getattr(found, names)), (place, value)
                harness.count("wrong values in side files", "read")
    assert n_refused > n_read


def test_sampled_paths_can_be_read_back(tmp_path: Path) -> None:
    """Their names are pairs, which JSON turns into lists."""
    named = am.Trajectories(**{**vars(some_paths()), "labels": ((0, 0), (0, 1), ("a", 2))})
    named.save(tmp_path / "paths.csv")
    assert am.Trajectories.load(tmp_path / "paths.csv").labels == named.labels


def test_an_old_side_file_does_not_outlive_its_table(tmp_path: Path, monkeypatch) -> None:
    path = written("measurements", tmp_path)

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for module in ("read_table", "trajectories"):
        monkeypatch.setattr(f"asterism.data.{module}.write_text", fails)
    for kind in ("measurements", "paths"):
        with pytest.raises(OSError, match="No space"):
            written(kind, tmp_path)
        assert path.exists()
        assert not (tmp_path / "data.meta.json").exists()


# ---- tables -----------------------------------------------------------------------------------


SHEET = "xl/worksheets/sheet1.xml"


def workbook(path: Path, *changes: tuple[bytes, bytes]) -> Path:
    """A sound workbook with something replaced in its sheet."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["trajectory", "time", "A"], [1, 0, 1], [1, 1, 0], [1, 2, 1]):
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            for old_text, new_text in changes if name == SHEET else ():
                assert old_text in content
                content = content.replace(old_text, new_text, 1)
            new.writestr(name, content)
    return path


ENTITY = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
FAR = b'<row r="99999999999"><c r="A1"><v>1</v></c></row></sheetData>'
SHARED = b'<c r="A2" t="s"><v>99</v></c>'
WORKBOOKS = {
    "broken sheet": [(b"</row>", b"<")],
    "a cell nowhere": [(b'r="A1"', b'r="!!"')],
    "no number": [(b"<v>1</v>", b"<v>zz</v>")],
    "a text that is not there": [(b"</row>", SHARED + b"</row>")],
    "a row beyond all rows": [(b"</sheetData>", FAR)],
    "a file of ours": [(b"<worksheet", ENTITY + b"<worksheet"), (b"<t>A</t>", b"<t>&e;</t>")],
}


@pytest.mark.parametrize("name", WORKBOOKS)
def test_workbooks_made_to_break_their_reader(name: str, tmp_path: Path) -> None:
    path = workbook(tmp_path / "data.xlsx", *WORKBOOKS[name])
    done = invoke("check", path)
    assert done.exit_code in (0, 3), done.output
    assert "root:" not in done.output
    harness.count("hostile workbooks", "refused" if done.exit_code else "read")


def test_a_sheet_may_lie_about_its_size(tmp_path: Path) -> None:
    """Sixteen billion cells by its own account, six in truth."""
    far = (b'ref="A1:C4"', b'ref="A1:XFD1048576"')
    table = read_text_table(workbook(tmp_path / "data.xlsx", far))
    assert table.shape == (3, 3)


def test_a_workbook_that_unpacks_into_too_much(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("asterism.numerics.resources.available_bytes", lambda: 1e8)
    bomb = (b"<t>A</t>", b"<t>" + b"a" * 10_000_000 + b"</t>")
    path = workbook(tmp_path / "data.xlsx", bomb)
    assert path.stat().st_size < 100_000
    with pytest.raises(AsterismError, match=r"data\.xlsx.*GB"):
        read_text_table(path)
    wide = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (i, i) for i in range(5, 99))
    path = workbook(tmp_path / "data.xlsx", (b"</sheetData>", wide + b"</sheetData>"))
    with pytest.raises(AsterismError, match="too large"):
        read_text_table(path)


@pytest.mark.parametrize(
    "content",
    [
        b"BZh9 and no more",
        bz2.compress(b"time,A\n0,1\n" * 1000)[:-10],
        b"time,A\n0," + b"1" * 200_000 + b"\n",
        b"time,A\n0,1\n\x00,1\n",
    ],
)
def test_tables_that_cannot_be_read_are_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    assert_refused(invoke("check", path), 3, "data.csv")
    harness.count("hostile tables", "refused")


def test_a_compressed_bomb_is_refused_with_its_size(tmp_path: Path, monkeypatch) -> None:
    import gzip

    monkeypatch.setattr("asterism.numerics.resources.available_bytes", lambda: 1e9)
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"time,A\n" + b"0,1\n" * 20_000_000))
    with pytest.raises(AsterismError, match=r"data\.csv\.gz.*GB"):
        read_text_table(path)
    assert table_file.BYTES_PER_BYTE >= 10


# ---- links and names ----------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this system cannot refuse links")
def test_a_lock_that_is_a_link_does_not_destroy_a_file(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    run = tmp_path / "RUN"
    run.mkdir()
    (run / LOCK).symlink_to(precious)
    with pytest.raises(DataError, match="Cannot write"), only_writer(run):
        pass
    assert precious.read_text() == "mine"


def test_a_comparison_holds_no_formula_and_has_one_writer(tmp_path: Path) -> None:
    from asterism.results.folder import save_run
    from tests.example_runs import example_run

    runs = [save_run(example_run({"=A": [], "@B": ["=A"]}), tmp_path / f"run{k}") for k in "12"]
    folder = tmp_path / "PAGE"
    assert invoke("compare", *runs, "-o", folder).exit_code == 0
    for line in (folder / "edges.csv").read_text().splitlines():
        assert not any(cell.startswith(("=", "@")) for cell in line.split(",")), line
    (folder / LOCK).write_text('{"process": 7, "host": "elsewhere", "since": "noon"}')
    assert_refused(invoke("compare", *runs, "-o", folder, "--force"), 2, "process 7 on elsewhere")


# ---- checkpoints of sampling --------------------------------------------------------------------


class Betrayal:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return (open, (self.path, "w"))


def checkpoint(path: Path) -> dict[str, Any]:
    """A file as the sampler writes it, with other arrays in it."""
    arrays: dict[str, Any] = {"key": np.array("k"), "n_burned": np.array(3), "x": np.arange(500.0)}
    arrays["checksum"] = np.array(model_posterior._checksum(arrays))
    np.savez(path, **arrays)
    return arrays


def test_a_checkpoint_is_never_unpickled(tmp_path: Path) -> None:
    executed, path = tmp_path / "executed", tmp_path / "sampling.npz"
    np.savez(path, key=np.array([Betrayal(executed)], dtype=object), allow_pickle=True)
    with pytest.raises(AsterismError, match=r"sampling\.npz.*damaged"):
        model_posterior._checkpoint_arrays(path)
    path.write_bytes(__import__("pickle").dumps(Betrayal(executed)))
    with pytest.raises(AsterismError, match=r"sampling\.npz.*damaged"):
        model_posterior._checkpoint_arrays(path)
    assert not executed.exists()


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "sampling.npz"
    arrays = checkpoint(path)
    whole = path.read_bytes()
    rng = random.Random(0)
    for k in range(60):
        damaged = bytearray(whole)
        if k % 3:
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        else:
            damaged = damaged[: rng.randrange(len(whole))]
        path.write_bytes(bytes(damaged))
        try:
            found = model_posterior._checkpoint_arrays(path)
        except AsterismError:
            harness.count("damaged checkpoints", "refused")
        else:  # a date or a comment of the archive
            assert all(np.array_equal(found[name], arrays[name]) for name in found)
            harness.count("damaged checkpoints", "nothing changed")


# ---- no run without end ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph", ["tree:10000000000", "full:100000", "tree:\u00b2", "chain:" + "9" * 5000]
)
def test_graphs_that_nobody_could_use_are_refused_at_once(graph: str, tmp_path: Path) -> None:
    assert_refused(invoke("simulate", "--glauber", graph, "-o", tmp_path / "x.csv"), 2)
    with pytest.raises(AsterismError, match="edges, the limit"):
        am.random_network(10**9)


def test_courses_longer_than_numbers_can_follow_are_refused_at_once() -> None:
    """The sweep never ended; a course as long as 1e11 jumps is still an easy one."""
    for span, works in ((1e306, False), (1e10, True)):
        seen = am.Observations.from_likelihoods(
            [np.array([0.5 * span])], [{n: np.array([[0.2, 0.8]]) for n in NETWORK.nodes}],
            start=0.0, end=span, states=NETWORK.states,
        )  # fmt: skip
        if works:
            assert am.infer(NETWORK, seen, am.Likelihood(), method="star").converged
        else:
            with pytest.raises(AsterismError, match="unit of time"):
                am.infer(NETWORK, seen, am.Likelihood(), method="star")
