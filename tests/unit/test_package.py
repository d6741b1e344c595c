"""The package as a whole: it imports fast, compiles nothing on import, and keeps its promises.

What is imported is asked of a fresh interpreter, since this one has imported everything already.
"""

from __future__ import annotations

import csv
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import asterism
from tests.command_line import invoke

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "asterism"
HEAVY = {
    "numba",
    "llvmlite",
    "scipy",
    "pandas",
    "xarray",
    "networkx",
    "matplotlib",
    "sklearn",
    "joblib",
    "dask",
    "distributed",
    "h5py",
}


def modules_after(code: str, **environment: str) -> set[str]:
    """Top-level modules loaded in a fresh interpreter that ran ``code``."""
    ask = "\nimport json, sys\nprint(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    answer = subprocess.run(
        [sys.executable, "-c", code + ask],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return set(json.loads(answer.stdout.splitlines()[-1]))


@pytest.mark.parametrize("module", ["asterism", "asterism.cli", "asterism.errors"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert modules_after(f"import {module}") & HEAVY == set()


def test_importing_every_module_compiles_nothing(tmp_path: Path) -> None:
    code = """
import importlib, pkgutil, asterism
for module in pkgutil.walk_packages(asterism.__path__, "asterism."):
    importlib.import_module(module.name)
import gc, numba
from numba.core.dispatcher import Dispatcher
compiled = [d.__module__ + "." + d.__name__ for d in gc.get_objects()
            if isinstance(d, Dispatcher) and d.signatures
            and (d.__module__ or "").startswith("asterism")]
assert not compiled, compiled
"""
    modules_after(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_one_version_everywhere() -> None:
    version = asterism.__version__
    assert importlib.metadata.version("asterism") == version
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(version)}$", citation, re.MULTILINE)
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_command_line_prints_the_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert asterism.__version__ in result.output


@pytest.mark.parametrize("name", asterism.__all__)
def test_public_name_resolves(name: str) -> None:
    assert getattr(asterism, name) is not None
    assert name in dir(asterism)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Netwrok'"):
        _ = asterism.Netwrok


def names_used_in(path: Path) -> set[str]:
    """Identifiers in the code of a file; words in comments and strings do not count."""
    source = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def test_only_one_file_decides_how_numba_compiles() -> None:
    compilers = {"njit", "jit", "guvectorize", "cfunc", "jit_module", "generated_jit"}
    offenders = [
        str(path.relative_to(ROOT))
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "numerics" / "_jit.py" and names_used_in(path) & compilers
    ]
    assert offenders == []
    assert "njit" in names_used_in(SOURCE / "numerics" / "_jit.py")


def text_files() -> list[Path]:
    folders = ["src", "tests", "docs", "benchmarks", "examples", ".ci"]
    endings = {".py", ".md", ".toml", ".json", ".csv", ".yaml", ".cff", ".html", ".txt", ""}
    # in a second working copy .git is a file
    found = [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]
    for folder in folders:
        found += [p for p in (ROOT / folder).rglob("*") if p.is_file()]
    return [p for p in found if p.suffix in endings and "__pycache__" not in p.parts]


def test_no_paths_of_a_particular_machine() -> None:
    # Spelled apart, so that this file does not find itself.
    folders = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers", "tm" + "p"])
    machine_path = re.compile(rf"(?<![\w.\-*}})/])/(?:{folders})/\w")
    offenders = []
    for path in text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if machine_path.search(line):
                offenders.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert offenders == []


NO_NUMBER = re.compile(r"^[+-]?(nan|inf|infinity)$", re.IGNORECASE)


def cells_without_a_number(path: Path) -> list[str]:
    """Where a table or a JSON file says NaN or infinity; an empty cell is honest.

    An upper limit may be infinite: that is what the data say where they tell nothing.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        found: list[str] = []
        json.loads(text, parse_constant=found.append)
        return [f"{path.name}: {constant}" for constant in found]
    rows = list(csv.reader(io.StringIO(text)))
    return [
        f"{path.name}, row {number}: {cell}"
        for number, row in enumerate(rows, start=1)
        for column, cell in enumerate(row)
        if NO_NUMBER.match(cell.strip())
        and not (cell == "inf" and "".join(rows[0][column : column + 1]).endswith("upper"))
    ]


def test_stored_tables_hold_no_nan() -> None:
    stored = [p for p in text_files() if p.suffix in {".json", ".csv"}]
    assert len(stored) > 20
    assert [cell for path in stored for cell in cells_without_a_number(path)] == []


def test_a_nan_in_a_stored_file_would_be_found(tmp_path: Path) -> None:
    table, record = tmp_path / "t.csv", tmp_path / "t.json"
    table.write_text("name,score,-inf\nnano,NaN,\ninfer,0.5,inf\n", encoding="utf-8")
    record.write_text('{"a": [1, NaN], "b": -Infinity}', encoding="utf-8")
    assert cells_without_a_number(table) == [
        "t.csv, row 1: -inf",
        "t.csv, row 2: NaN",
        "t.csv, row 3: inf",
    ]
    assert cells_without_a_number(record) == ["t.json: NaN", "t.json: -Infinity"]


def test_package_announces_its_types() -> None:
    assert (SOURCE / "py.typed").is_file()


def test_every_module_opens_with_what_it_owns() -> None:
    silent = []
    for path in sorted(SOURCE.rglob("*.py")):
        first = path.read_text(encoding="utf-8").lstrip()
        if first and not first.startswith('"""'):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []
