"""The record of a run (run.json) as rows of words, for people."""

from __future__ import annotations

from typing import Any

from asterism.report.run import Run

#: shown elsewhere on the page, or of no use to a reader
HIDDEN = frozenset({"format", "format_version", "notices", "history", "title", "converged"})

#: longer values are cut; run.json holds them in full
LONGEST = 300


def settings_rows(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """Groups of (name, value): the run itself first, then each nested group under its name."""
    record = {name: value for name, value in run.run.items() if name not in HIDDEN}
    plain = [(name, value) for name, value in record.items() if not isinstance(value, dict)]
    groups = [("Run", [(_words(n), as_text(v)) for n, v in plain if v is not None])]
    for name, value in record.items():
        if isinstance(value, dict) and value:
            groups.append((_words(name), [(_words(k), as_text(v)) for k, v in value.items()]))
    return [(name, rows) for name, rows in groups if rows]


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
        text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _words(name: str) -> str:
    return str(name).replace("_", " ")
