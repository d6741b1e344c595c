"""The record of a run (run.json) as rows of words, for people."""

from __future__ import annotations

import re
from typing import Any

from asterism.report.run import Run

Group = tuple[str, list[tuple[str, str]]]

#: shown elsewhere on the page, or of no use to a reader
HIDDEN = frozenset(
    {
        *("format", "format_version", "notices", "history", "title", "converged", "warnings"),
        *("stop_reason", "n_nodes", "n_edges", "decisions", "complete", "emissions"),
    }
)

#: flags that say how a command was to talk and where its results were to go
TALK = frozenset({"name", "data", "output", "as_json", "quiet", "force", "title", "resume"})

#: longer values are cut; run.json holds them in full
LONGEST = 300

_LONG_NUMBER = re.compile(r"-?\d+\.\d{4,}(?:e[-+]?\d+)?")


def settings_rows(run: Run) -> list[Group]:
    """Groups of (name, value): the run itself first, then each nested group under its name.

    A run of the command line is described by its flags, which say all that the learner's settings
    do; only those that were set are listed.
    """
    record = {name: value for name, value in run.run.items() if name not in HIDDEN}
    command = record.pop("command", None)
    if isinstance(command, dict):
        for repeated in ("settings", "seed"):
            record.pop(repeated, None)
    plain = [(name, value) for name, value in record.items() if not isinstance(value, dict)]
    groups = [("Run", [(_words(n), as_text(v)) for n, v in plain if v is not None])]
    if isinstance(command, dict):
        title = f"Settings of asterism {command.get('name', '')}".rstrip()
        groups.append((title, _flags(command)))
    for name, value in record.items():
        if isinstance(value, dict) and value:
            groups.append((_words(name), [(_words(k), as_text(v)) for k, v in value.items()]))
    return [(name, rows) for name, rows in groups if rows]


def _flags(command: dict[str, Any]) -> list[tuple[str, str]]:
    """The flags as they would be typed; what was left open is left out."""
    rows = []
    for name, value in command.items():
        left_open = value is None or value is False or value == []
        if name not in TALK and not left_open:
            rows.append((f"--{name.replace('_', '-')}", _typed(value)))
    return rows


def _typed(value: Any) -> str:
    """Edges as A->B, lists with commas."""
    if isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        return ", ".join("->".join(map(str, pair)) for pair in value)
    return as_text(value)


def as_text(value: Any) -> str:
    """A setting in words."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        text = ", ".join(as_text(item) for item in value) or "none"
    elif isinstance(value, dict):
        text = "; ".join(f"{key}: {as_text(item)}" for key, item in value.items()) or "none"
    else:
        text = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.4g}", str(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _words(name: str) -> str:
    return str(name).replace("_", " ")
