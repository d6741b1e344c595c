"""Whoever types commands is told of flags: no sentence may name a keyword of Python."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import asterism
from asterism.cli import main
from asterism.commands.exits import front_of, in_flags
from asterism.errors import Advice, DataError, Sentence, Setting, joined

SOURCES = Path(asterism.__file__).parent
#: layers whose sentences a command may print
LAYERS = (
    *("numerics", "data", "model", "timeline", "inference", "engine", "star", "exact"),
    *("simulation", "clusters", "continuous", "sampling", "learning"),
)

#: a word like time_step, or a keyword with its equals sign; --emission NODE=… is a flag
KEYWORD = re.compile(r"(?<![\w<{-])[a-z]+(?:_[a-z]+)+\b|(?<![\w<{-])(?!NODE=)[A-Za-z]\w*=")

#: what a command cannot bring about: settings without a flag, or values that flags never take
ONLY_IN_PYTHON = re.compile(
    "allowed_transitions|edge_log_odds|log_likelihood|max_iterations|grid_tolerance|rate_range|"
    r"map=|n_nodes=|trajectories=|outside='missing'|states= names|in states=\.|"
    r"\binitial=\"fixed\"|"
    r"from_frame\(table\)|\(n_s, S, S\)|with_covariates\(|start_rates|prior=None|to_dict|levels=|"
    "joint_marginals|runpy|There are no draws|to_arviz|<progress|has no max_seconds|"
    "a function of child and|with to_csv"
)

#: words with an underscore that a user types or sees in files as they are
KNOWN_WORDS = {"mean_field", "edges_"}

#: settings that no command has
NO_FLAG = {
    *("cluster_size", "edge_log_odds", "grid_tolerance", "max_draws", "max_iterations"),
    *("minutes", "n_chains", "n_draws"),
}


def trees() -> Iterator[ast.Module]:
    for layer in LAYERS:
        for path in sorted((SOURCES / layer).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def sentences(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, docstrings and advice to Python's callers apart."""
    skipped: set[int] = set()
    for advice in calls(tree, "Advice"):
        skipped |= {id(part) for part in ast.walk(advice.args[0])}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
                else "…"
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if id(node) not in skipped and len(text) > 25 and text.count(" ") > 3:
            yield text


def keywords(text: str) -> set[str]:
    return set(KEYWORD.findall(text)) - KNOWN_WORDS


def test_no_sentence_that_a_command_can_print_names_a_keyword() -> None:
    found = [text for tree in trees() for text in sentences(tree)]
    named = [text for text in found if keywords(text) and "CREATE TABLE" not in text]
    assert named, "the search for keywords finds nothing at all"
    assert [text for text in named if not ONLY_IN_PYTHON.search(text)] == []


def test_every_setting_that_is_named_has_a_flag() -> None:
    say = front_of(main.commands, None)
    names = {
        call.args[0].value
        for tree in trees()
        for call in calls(tree, "Setting")
        if isinstance(call.args[0], ast.Constant)
    }
    assert len(names) > 20
    assert {name for name in names if "(in Python)" in say(Setting(str(name)))} <= NO_FLAG


def test_every_flag_in_an_advice_exists() -> None:
    known = {flag for command in main.commands.values() for p in command.params for flag in p.opts}
    advice = [call for tree in trees() for call in calls(tree, "Advice")]
    said = [part.value for call in advice for part in ast.walk(call.args[1])
            if isinstance(part, ast.Constant)]  # fmt: skip
    flags = {flag for text in said for flag in re.findall(r"--[a-z][a-z-]*", str(text))}
    assert flags
    assert flags <= known


@pytest.mark.parametrize(
    ("setting", "python", "command"),
    [
        (Setting("sort", True), "sort=True", "--sort"),
        (Setting("labels", ...), "labels=", "--labels"),
        (Setting("max_sweeps"), "max_sweeps", "--max-sweeps"),
        (Setting("max_parents", 2), "max_parents=2", "--max-parents 2"),
        (Setting("n_jobs"), "n_jobs", "--jobs"),
        (Setting("random_state"), "random_state", "--seed"),
        (Setting("search", "exhaustive"), "search='exhaustive'", "--search exhaustive"),
        (Setting("method", "exact"), "method='exact'", "asterism infer --method exact"),
        (Setting("n_trajectories"), "n_trajectories", "asterism simulate --trajectories"),
        (Setting("grid_tolerance"), "grid_tolerance", "grid_tolerance (in Python)"),
        (Advice("resume.", "go on with --resume."), "resume.", "go on with --resume."),
    ],
)
def test_settings_in_flags(setting: Setting | Advice, python: str, command: str) -> None:
    sentence = Sentence("try ", setting)
    assert sentence == f"try {python}"
    assert in_flags(sentence, front_of(main.commands, "learn")) == f"try {command}"


def test_the_running_command_comes_first() -> None:
    sentence = Sentence("use ", Setting("method", "exact"))
    assert in_flags(sentence, front_of(main.commands, "infer")) == "use --method exact"
    # outside of any command the words are Python's
    assert in_flags(sentence) == "use method='exact'"


def test_names_of_the_user_stay_as_they_are() -> None:
    sentence = Sentence("There is no node 'time_step'; raise ", Setting("time_step"))
    said = in_flags(sentence, front_of(main.commands, "learn"))
    assert said == "There is no node 'time_step'; raise --time-step"


def test_an_error_carries_its_parts() -> None:
    error = DataError(
        Setting("tolerance"),
        " is -1",
        where="node 'A'",
        valid="valid are positive numbers",
        remedy=Sentence("leave out ", Setting("tolerance", ...)),
    )
    expected = "node 'A': tolerance is -1; valid are positive numbers; leave out tolerance="
    assert str(error) == expected
    assert (error.what, error.where) == ("tolerance is -1", "node 'A'")
    say = front_of(main.commands, "learn")
    assert "--tolerance is -1; " in in_flags(error.sentence, say)
    # workers of a cluster send errors back
    again = pickle.loads(pickle.dumps(error))
    assert in_flags(again.sentence, say) == in_flags(error.sentence, say)
    assert again.remedy == error.remedy


def test_sentences_add_up() -> None:
    both = "First: " + Sentence("raise ", Setting("n_init")) + " or stop."
    assert both == "First: raise n_init or stop."
    several = joined("; ", [both, "the end"])
    said = in_flags(several, front_of(main.commands, "learn"))
    assert said == "First: raise --n-init or stop.; the end"
