"""Numbers in documents that come from files: written between markers, and checked by a test.

A document marks a table or a single number with a comment that says where it comes from::

    <!-- table: table1.csv; columns k_max, auroc .2f as AUROC; where sigma=0.2 -->
    <!-- end -->
    … on average <!-- value: fig2.csv; mean star_largest .3f --><!-- end --> …

Between the markers stands what :func:`refresh` makes of the CSV file. A value is one cell, or
``count``, ``min``, ``max`` or ``mean`` of a column over the rows chosen. After new results,
``python benchmarks/quoted.py``, run in the root of the repository, rewrites all documents from
the files in ``benchmarks/results/``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from asterism.data.files import write_text
from asterism.errors import DataError

TABLE = re.compile(
    r"(?P<open><!-- table: (?P<spec>.*?) -->\n).*?(?P<close><!-- end -->)", re.DOTALL
)
VALUE = re.compile(
    r"(?P<open><!-- value: (?P<spec>.*?) -->)[^\n]*?(?P<close><!-- end -->)", re.DOTALL
)
#: a comma that begins another condition: values may hold commas too
CONDITIONS = re.compile(r",\s*(?=\w+=)")
SUMMARIES = ("min", "max", "mean")


def refresh(text: str, results: Path) -> str:
    """The document with everything between markers made again from the files in ``results``."""
    text = TABLE.sub(lambda m: m["open"] + _table(m["spec"], results) + m["close"], text)
    return VALUE.sub(lambda m: m["open"] + _value(m["spec"], results) + m["close"], text)


def without_quotes(text: str) -> str:
    """The document without anything that stands between markers."""
    return VALUE.sub("", TABLE.sub("", text))


def _table(spec: str, results: Path) -> str:
    frame, rest = _rows(spec, results)
    wanted = [p for p in rest if p.startswith("columns ")]
    items = wanted[0].removeprefix("columns ").split(",") if wanted else list(frame.columns)
    columns = [_column(str(item), frame, spec) for item in items]
    lines = ["| " + " | ".join(heading for _, _, heading in columns) + " |"]
    lines.append("|" + "---|" * len(columns))
    for _, row in frame.iterrows():
        lines.append("| " + " | ".join(_shown(row[c], form) for c, form, _ in columns) + " |")
    return "\n".join(lines) + "\n"


def _value(spec: str, results: Path) -> str:
    frame, rest = _rows(spec, results)
    if len(rest) != 1:
        raise DataError(f"A quoted value names one column, or a summary of one: {spec!r}.")
    what = rest[0]
    if what == "count":
        return str(len(frame))
    summary = what.split(" ", 1)[0]
    if summary in SUMMARIES and " " in what:
        column, form, _ = _column(what.split(" ", 1)[1], frame, spec)
        return _shown(float(getattr(frame[column], summary)()), form)
    column, form, _ = _column(what, frame, spec)
    if len(frame) != 1:
        raise DataError(f"A quoted value needs exactly one row, {spec!r} has {len(frame)}.")
    return _shown(frame[column].iloc[0], form)


def _rows(spec: str, results: Path) -> tuple[pd.DataFrame, list[str]]:
    """The rows that ``where`` chooses, and the other parts of the spec."""
    name, *parts = [" ".join(p.split()) for p in spec.split(";")]
    path = results / name
    if not path.is_file():
        raise DataError(f"A document quotes {name!r}, which {str(results)!r} does not hold.")
    frame = pd.read_csv(path)
    rest = []
    for part in parts:
        if not part.startswith("where "):
            rest.append(part)
            continue
        for condition in CONDITIONS.split(part.removeprefix("where ")):
            column, _, value = condition.strip().partition("=")
            if column not in frame.columns:
                raise DataError(f"{name!r} has no column {column!r}, used in {spec!r}.")
            frame = frame[[_same(v, value) for v in frame[column]]]
    return frame, rest


def _same(cell: Any, wanted: str) -> bool:
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        try:
            return bool(cell == float(wanted))
        except ValueError:
            return False
    return str(cell) == wanted


def _column(item: str, frame: pd.DataFrame, spec: str) -> tuple[str, str, str]:
    """Name, format and heading from ``name [.2f] [as heading]``."""
    left, _, heading = item.strip().partition(" as ")
    name, _, form = left.strip().partition(" ")
    if name not in frame.columns:
        raise DataError(
            f"The column {name!r} of {spec!r} does not exist; there are {', '.join(frame.columns)}."
        )
    return name, form.strip(), heading.strip() or name.replace("_", " ")


def _shown(value: Any, form: str) -> str:
    if pd.isna(value):
        return ""
    if form and isinstance(value, (int, float)):
        return format(value, form)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return {"True": "yes", "False": "no"}.get(str(value), str(value))


def documents(root: Path) -> list[Path]:
    """The documents of a repository that may quote results."""
    pages = sorted((root / "docs").rglob("*.md"))
    return [root / "README.md", *pages, root / "benchmarks" / "RESULTS.md"]


def main() -> int:
    """Rewrite every document that quotes something."""
    root = Path.cwd()
    for document in documents(root):
        old = document.read_text(encoding="utf-8")
        new = refresh(old, root / "benchmarks" / "results")
        if new != old:
            write_text(document, new)
            print(f"{document.relative_to(root)}: numbers updated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
