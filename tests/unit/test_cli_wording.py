"""Whoever types commands is told of flags: no sentence may name a keyword of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import asterism
from asterism.cli import main
from asterism.commands.wording import FLAGS, in_flags

SOURCES = Path(asterism.__file__).parent
LAYERS = ("data", "model", "inference", "learning")

#: a word like time_step, or a keyword with its equals sign; --emission NODE=… is a flag
KEYWORD = re.compile(r"(?<![\w<{-])[a-z]+(?:_[a-z]+)+\b|(?<![\w<{-])(?!NODE=)[A-Za-z]\w*=")

#: what a command cannot bring about: settings without a flag, or values that flags never take
ONLY_IN_PYTHON = re.compile(
    "allowed_transitions|edge_log_odds|log_likelihood|max_iterations|grid_tolerance|rate_range|"
    r"map=|n_nodes=|trajectories=|outside='missing'|exact= must be|(ties|kind)=…|"
    r"states= names|\binitial=\"fixed\"|from_frame\(table\)|\(n_s, S, S\)"
)

#: words with an underscore that a user types or sees in files as they are
KNOWN_WORDS = {"mean_field", "edges_"}


def sentences(path: Path) -> Iterator[str]:
    """The texts of a module, docstrings apart; what is filled in later is shown as …"""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if id(node) not in skipped and len(text) > 25 and text.count(" ") > 3:
            yield text.replace("exact=…", "exact='…'")


def keywords(text: str) -> set[str]:
    return set(KEYWORD.findall(text)) - KNOWN_WORDS


@pytest.mark.parametrize("layer", LAYERS)
def test_no_sentence_that_a_command_can_print_names_a_keyword(layer: str) -> None:
    found = [text for path in (SOURCES / layer).rglob("*.py") for text in sentences(path)]
    named = [text for text in found if keywords(text) and "CREATE TABLE" not in text]
    assert named, "the search for keywords finds nothing at all"
    left = {text: in_flags(text, "learn") for text in named if not ONLY_IN_PYTHON.search(text)}
    assert {text: new for text, new in left.items() if keywords(new)} == {}


def test_every_flag_that_is_named_exists() -> None:
    known = {flag for command in main.commands.values() for p in command.params for flag in p.opts}
    assert set(FLAGS.values()) <= known
    for layer in LAYERS:
        for path in (SOURCES / layer).rglob("*.py"):
            for text in sentences(path):
                for flag in re.findall(r"--[a-z][a-z-]*", in_flags(text, "learn")):
                    assert flag in known, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sort the table or pass sort=True", "sort the table or use --sort"),
        ("or list the column in labels=", "or name the column with --labels"),
        ("raise max_sweeps, or rest", "raise --max-sweeps, or rest"),
        ("more than its max_parents=2; raise", "more than its --max-parents 2; raise"),
        ("use search='exhaustive', or", "use --search exhaustive, or"),
        ("tolerance is -1; it must", "--tolerance is -1; it must"),
        ("raise the tolerance", "raise the tolerance"),
        ("exact='x' names no column", "--exact 'x' names no column"),
        ("There is no node 'time_step'.", "There is no node 'time_step'."),
        ("column 'n_jobs': 'max_parents'", "column 'n_jobs': 'max_parents'"),
    ],
)
def test_sentences_in_flags(text: str, expected: str) -> None:
    assert in_flags(text, "learn") == expected


def test_the_exact_method_is_that_of_infer() -> None:
    text = "use method='exact' if the network is small"
    assert in_flags(text, "infer") == "use --method exact if the network is small"
    assert in_flags(text, "learn") == "use asterism infer --method exact if the network is small"
    assert in_flags("use method='star' or 'exact', or", "infer") == "use --method star or exact, or"
