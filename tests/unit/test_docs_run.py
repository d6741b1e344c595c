"""The Python examples of the README and the docs run, in order, as a reader would run them.

The blocks of one file share a namespace and a temporary working directory. A block that opens
with ``python notest`` is shown but not run. Commands of the tutorials run too, in order; on all
other pages their flags are compared with those of the program.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import textwrap
import warnings
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import asterism
from asterism.cli import main
from tests.command_line import invoke

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>.*)$")


@pytest.fixture(autouse=True)
def _few_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the examples print is not looked at, so learning need not draw for long."""
    from asterism.learning.search import staged

    monkeypatch.setattr(staged, "MOST_SWEEPS", staged.FEWEST_SWEEPS)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """(number of the line before the code, code) of every runnable Python block."""
    blocks: list[tuple[int, str]] = []
    opened: tuple[int, str, str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.match(line)
        if opened is None:
            if match:
                opened = (number, match["fence"], match["info"].strip())
                body = []
        elif match and match["fence"] == opened[1] and not match["info"].strip():
            words = opened[2].split()
            if words[:1] == ["python"] and "notest" not in words:
                blocks.append((opened[0], textwrap.dedent("\n".join(body)) + "\n"))
            opened = None
        else:
            body.append(line)
    if opened is not None:
        raise ValueError(f"the code block opened on line {opened[0]} is never closed")
    return blocks


def run_blocks(blocks: list[tuple[int, str]], filename: str) -> dict[str, object]:
    namespace: dict[str, object] = {"__name__": "documentation"}
    for line, code in blocks:
        # Padding makes a traceback point at the line of the document.
        exec(compile("\n" * line + code, filename, "exec"), namespace)
    return namespace


def commands_of(text: str) -> list[list[str]]:
    """The words of every ``asterism`` command in blocks of the console, lines joined."""
    found = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "".join(found).replace("\\\n", " ").splitlines()
    steps = [step for line in lines for step in line.split(" && ") if "asterism " in step]
    words = [shlex.split(step, comments=True) for step in steps]
    return [own[own.index("asterism") + 1 :] for own in words if "asterism" in own]


def names_given(blocks: list[tuple[int, str]]) -> set[str]:
    """What the blocks import, define and assign, inside functions apart."""
    names: set[str] = set()
    for _, code in blocks:
        scopes: list[ast.AST] = [ast.parse(code)]
        while scopes:
            for node in ast.iter_child_nodes(scopes.pop()):
                match node:
                    case ast.FunctionDef() | ast.ClassDef():
                        names.add(node.name)
                        continue
                    case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                        continue
                    case ast.GeneratorExp():
                        continue
                    case ast.alias():
                        names.add((node.asname or node.name).partition(".")[0])
                    case ast.Name(ctx=ast.Store()):
                        names.add(node.id)
                scopes.append(node)
    return names


DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "tests" / "faults" / "ATTACKS.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Sampling has kernels of its own. It comes first: another worker that tests the star meanwhile
# compiles what the other pages need.
DOCUMENTS.sort(key=lambda document: document.name != "sampling.md")
DOCUMENTS_WITH_CODE = [d for d in DOCUMENTS if python_blocks(d.read_text(encoding="utf-8"))]
# These draw graphs or compare methods, which takes a while.
LONG = {"sampling.md", "choose-a-method.md", "python.md"}


@pytest.mark.parametrize(
    "document",
    [pytest.param(d, marks=[pytest.mark.slow] * (d.name in LONG)) for d in DOCUMENTS_WITH_CODE],
    ids=lambda d: d.name,
)
def test_examples_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(document.read_text(encoding="utf-8"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        left = run_blocks(blocks, str(document))
    given = names_given(blocks)
    assert given
    assert given <= left.keys()  # every block ran to its end
    own = [w for w in warned if "asterism" in w.filename or w.filename == str(document)]
    assert [str(w.message) for w in own] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tutorial.md", "tutorial-patients.md"])
def test_commands_of_tutorials_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = commands_of((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert len(commands) > 2
    for words in commands:
        result = invoke(*words)
        assert result.exit_code == 0, f"{words}: {result.stderr}"
        if words[0] == "demo":  # fewer patients are quicker and ask for the same flags
            table = pd.read_csv("patients.csv")
            table[table["patient"] <= 80].to_csv("patients.csv", index=False)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_commands_have_flags_that_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    inline = re.findall(r"`asterism ([a-z][^`]*)`", text)
    for words in [*commands_of(text), *(line.split() for line in inline)]:
        if words[0] in main.commands:
            known = {flag for own in main.commands[words[0]].params for flag in own.opts}
            used = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
            assert used <= {*known, "--help"}, words


def test_readme_has_an_example_that_runs() -> None:
    assert ROOT / "README.md" in DOCUMENTS_WITH_CODE


def test_only_runnable_python_is_found() -> None:
    text = "\n".join(
        [
            "```python",
            "a = 1",
            "```",
            "```python notest",
            "raise SystemExit",
            "```",
            "```console",
            "$ false",
            "```",
            "- in a list:",
            "  ```python",
            "  if a:",
            "      a += 1",
            "  ```",
        ]
    )
    blocks = python_blocks(text)
    assert [line for line, _ in blocks] == [1, 11]
    assert run_blocks(blocks, "example")["a"] == 2


def test_names_that_examples_leave_behind() -> None:
    text = "import a.b\nfrom c import d as e\nf, g = [h for h in range(2)]\ndef i(j):\n    k = j\n"
    loop = "for m in (lambda n: [n, n])(1):\n    o = m\n"
    assert names_given([(1, text), (9, loop)]) == {"a", "e", "f", "g", "i", "m", "o"}


def test_commands_are_found_in_console_blocks_only() -> None:
    lines = "pip install . && asterism demo\nA=1 asterism fit t.csv \\\n  -o 'R 1'  # so\n"
    text = f"```console\n{lines}```\n```text\nasterism no\n```\n"
    assert commands_of(text) == [["demo"], ["fit", "t.csv", "-o", "R 1"]]


def test_failure_names_the_line_of_the_document() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_blocks(python_blocks("Text.\n\n```python\nb = 2\nb / 0\n```\n"), "example.md")
    assert caught.traceback[-1].lineno + 1 == 5


def test_unclosed_block_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2 is never closed"):
        python_blocks("text\n```python\na = 1\n")


LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    broken = [link for link in links if not (document.parent / link).exists()]
    assert broken == []


REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def make_reference() -> ModuleType:
    path = ROOT / "examples" / "make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(set(asterism.__all__) - {"__version__"}))
def test_every_public_name_has_an_example_in_the_reference(name: str) -> None:
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    code = "".join(block for _, block in python_blocks(text))
    assert re.search(rf"\bam\.{name}\b", code)
    assert f"<!-- api: {name} -->" in text.splitlines()


def test_the_reference_says_what_the_docstrings_say(make_reference: ModuleType) -> None:
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    assert make_reference.python_page(text) == text, "run: python examples/make_reference.py"


def test_the_list_of_flags_is_that_of_the_program(make_reference: ModuleType) -> None:
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert make_reference.commands_page() == text, "run: python examples/make_reference.py"


def test_the_gallery_shows_every_plot() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in asterism.plots.__all__ if f"am.plots.{name}(" not in text] == []


def test_the_map_names_files_and_folders_that_exist() -> None:
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    source = Path(asterism.__file__).parent
    named = set(re.findall(r"`([a-z_/]+\.py)`", text)) - {"_name.py"}
    assert len(named) > 20
    assert [name for name in named if not (any(source.rglob(name)) or (ROOT / name).exists())] == []
    folders = {own.name for own in source.iterdir() if (own / "__init__.py").exists()}
    assert [name for name in folders if f"| `{name}/` |" not in text] == []
