"""The house: every module and public name says what it is, and imports have no cycles."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import asterism

SOURCE = Path(asterism.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(SOURCE.rglob("*.py"))

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
    """``lint-imports`` checks the contract; here: it leaves out nothing but annotations."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    linter = settings["tool"]["importlinter"]
    contract = next(c for c in linter["contracts"] if c["type"] == "acyclic_siblings")
    assert contract["ancestors"] == ["asterism.*"]
    assert "ignore_imports" not in contract
    assert linter["exclude_type_checking_imports"] is True


def test_the_glossary_names_what_the_code_has() -> None:
    """Every term stands there once; names and files of its last column exist."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    places = {short(path) for path in FILES} | {path.name for path in FILES}
    folders = {f"{short(path.parent)}/" for path in FILES}
    terms: list[str] = []
    glossary = ROOT / "docs" / "reference" / "glossary.md"
    for line in glossary.read_text(encoding="utf-8").splitlines():
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
