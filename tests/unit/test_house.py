"""The house: short files, short argument lists, one name for one thing, and short walks.

A walk is the list of files that a call visits, in the order of the first visit. The three walks of
docs/map.md are counted with the compiler off, in a fresh interpreter.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import asterism

SOURCE = Path(asterism.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(SOURCE.rglob("*.py"))

LONGEST_FILE = 450
MOST_ARGUMENTS = 10

#: what users call with keywords, so that a long list costs them nothing
CONSTRUCTORS = {
    "data/observations.py:Observations.from_frame",
    "data/trajectories.py:Trajectories.from_frame",
    "learning/em/parameter_learner.py:ParameterLearner.__init__",
    "learning/search/structure_learner.py:StructureLearner.__init__",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def short(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def definitions(
    body: list[ast.stmt], prefix: str = ""
) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Every function and class of a module with its dotted name, methods included."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield prefix + node.name, node
            yield from definitions(node.body, f"{prefix}{node.name}.")


def parsed() -> Iterator[tuple[Path, str, Function | ast.ClassDef]]:
    for path in FILES:
        for name, node in definitions(ast.parse(path.read_text(encoding="utf-8")).body):
            yield path, name, node


def test_no_file_is_long() -> None:
    lengths = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_no_function_takes_many_arguments() -> None:
    found = {}
    for path, name, node in parsed():
        if isinstance(node, Function):
            given = node.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            n = len([one for one in names if one not in ("self", "cls")])
            if n > MOST_ARGUMENTS:
                found[f"{short(path)}:{name}"] = n
    assert set(found) >= CONSTRUCTORS, "a name in CONSTRUCTORS no longer needs to be there"
    assert {name: n for name, n in found.items() if name not in CONSTRUCTORS} == {}


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        name.rpartition(".")[2].lstrip("_")
        for _, name, node in parsed()
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 100
    assert [name for name, n in names.items() if n > 1] == []


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.stem.lstrip("_") for path in FILES if not path.stem.startswith("__"))
    assert len(names) > 100
    assert [name for name, n in names.items() if n > 1] == []


def test_every_module_says_what_it_owns() -> None:
    bare = [
        short(path)
        for path in FILES
        if path.stem != "__init__"
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert bare == []


def has_inherited_docstring(path: Path, name: str) -> bool:
    """Whether a method says in a base class what it does."""
    module = ".".join(("asterism", *path.relative_to(SOURCE).with_suffix("").parts))
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return bool(inspect.getdoc(found))


def test_every_public_name_has_a_docstring() -> None:
    bare = []
    for path, name, node in parsed():
        parts = (path.stem, *name.split("."))
        if any(part.startswith("_") for part in parts) or ast.get_docstring(node):
            continue
        if inside_a_function(name, path):
            continue
        if "." in name and has_inherited_docstring(path, name):
            continue
        bare.append(f"{short(path)}:{name}")
    assert bare == []


def inside_a_function(name: str, path: Path) -> bool:
    """Whether a definition is local to a function, and so nobody else's business."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split(".")[:-1]:
        found = next(n for n in body if isinstance(n, Function | ast.ClassDef) and n.name == part)
        if isinstance(found, Function):
            return True
        body = found.body
    return False


def test_cycles_are_kept_out_of_every_folder() -> None:
    """``lint-imports`` checks the contract; here: what it leaves out is for annotations only."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["type"] == "acyclic_siblings")
    assert contract["ancestors"] == ["asterism.*"]
    for left_out in contract["ignore_imports"]:
        importer, imported = left_out.split(" -> ")
        path = SOURCE.joinpath(*importer.split(".")[1:]).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        only_types = {
            id(node)
            for block in tree.body
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == imported:
                assert id(node) in only_types, left_out


# ---- walks ------------------------------------------------------------------------------------

WALK = """
import contextlib, io, json, os, sys, tempfile, warnings
from pathlib import Path
warnings.filterwarnings("ignore")
import asterism as am
from asterism.cli import main

home = os.path.dirname(am.__file__) + os.sep
network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=1.0)
noise = am.Gaussian((-1, 1), 0.4)
paths = am.simulate(network, 3, duration=3.0, seed=1)
seen = am.observe(paths, noise, n_observations=4, seed=2)
folder = Path(tempfile.mkdtemp())
seen.to_frame().to_csv(folder / "t.csv", index=False)

def infer():
    am.infer(network, seen, noise, method="star")

def fit():
    options = dict(max_parents=1, method="star", search="screened", n_jobs=1)
    am.StructureLearner(noise, **options).fit(seen)

def learn():
    run = folder / f"RUN{len(list(folder.iterdir()))}"
    arguments = ["learn", str(folder / "t.csv"), "-o", str(run), "--max-parents", "1"]
    main([*arguments, "--method", "star", "--emission", "gaussian:-1,1:0.4"])

def visited(call):
    files = {}
    def look(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(home):
            files.setdefault(name[len(home):])
    sys.setprofile(look)
    try:
        with contextlib.suppress(SystemExit):
            call()
    finally:
        sys.setprofile(None)
    return list(files)

call = {"infer": infer, "fit": fit, "learn": learn}[sys.argv[1]]
with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
    with contextlib.suppress(SystemExit):
        call()  # imports do not count
    files = visited(call)
print(json.dumps(files))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "most_files", "most_changes"),
    [("infer", 25, None), ("fit", 40, None), ("learn", 75, 25)],
)
def test_a_call_visits_few_files(call: str, most_files: int, most_changes: int | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WALK, call],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    files = json.loads(done.stdout.splitlines()[-1])
    assert len(files) > 10
    folders = [os.path.dirname(name) for name in files]
    changes = sum(one != other for one, other in pairwise(folders))
    said = f"{len(files)} files, {changes} changes of folder: {' '.join(files)}"
    assert len(files) <= most_files, said
    assert most_changes is None or changes <= most_changes, said


def test_the_glossary_names_what_the_code_has() -> None:
    """Every term stands there once; names and files of its last column exist."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    places = {short(path) for path in FILES} | {path.name for path in FILES}
    folders = {f"{short(path.parent)}/" for path in FILES}
    terms: list[str] = []
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]
        if len(cells) != 4 or cells[0] in ("term", "---"):
            continue
        terms += [term.strip() for term in cells[0].split(",")]
        for name in re.findall(r"`([^`]+)`", cells[3]):
            words = re.findall(r"\w+", name)
            known = name in places | folders or all(re.search(rf"\b{w}\b", code) for w in words)
            assert known, f"{cells[0]}: {name}"
    assert len(terms) > 70
    assert len(set(terms)) == len(terms)
