"""Numbers in the docs come from files under benchmarks/results/, which commands write.

Tables and values stand between markers (see benchmarks/quoted.py). Here they are made again
from the files and compared; and numbers that look like results outside of markers are refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.quoted import documents, refresh, without_quotes

from asterism.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = documents(ROOT)

#: tables whose decimals are settings, constants of the paper or arithmetic, not measurements
EXEMPT_TABLES = {"derivations.md", "commands.md"}
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
#: a decimal after "=", a sign of comparison or inside code is a setting, not a result
SETTING = re.compile(r"(?:[=≥≤<>]\s*[−-]?\d+\.\d+)|`[^`]*`|\$[^$]*\$")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_quoted_numbers_are_those_of_the_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert refresh(text, RESULTS) == text, "run: python benchmarks/quoted.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_tables_hold_no_typed_results(document: Path) -> None:
    if document.name in EXEMPT_TABLES:
        pytest.skip("its tables hold constants and arithmetic")
    rows = [
        line for line in without_quotes(document.read_text(encoding="utf-8")).splitlines()
        if line.lstrip().startswith("|")
    ]  # fmt: skip
    typed = [line for line in rows if DECIMAL.search(SETTING.sub("", line))]
    assert typed == []


@pytest.mark.parametrize("name", ["accuracy.md", "reproduce.md"])
def test_pages_of_results_hold_no_typed_results_anywhere(name: str) -> None:
    text = without_quotes((ROOT / "docs" / name).read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if DECIMAL.search(SETTING.sub("", line))]
    assert lines == []


def test_every_result_file_is_quoted_or_explained() -> None:
    known = "\n".join(d.read_text(encoding="utf-8") for d in DOCUMENTS)
    assert [f.name for f in sorted(RESULTS.glob("*.csv")) if f.name not in known] == []


def test_refresh_replaces_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("k,score,name\n1,0.51234,low\n2,0.75,high\n")
    text = (
        "<!-- table: r.csv; columns k, score .2f as AUROC; where k=1 -->\nwrong\n<!-- end -->\n"
        "It is <!-- value: r.csv; score .1f; where name=high -->9.9<!-- end -->, at most "
        "<!-- value: r.csv; max score .2f --><!-- end --> in "
        "<!-- value: r.csv; count; where k=2 -->7<!-- end --> rows."
    )
    made = refresh(text, tmp_path)
    assert "| k | AUROC |\n|---|---|\n| 1 | 0.51 |\n<!-- end -->" in made
    assert "-->0.8<!-- end -->, at most" in made
    assert "-->0.75<!-- end --> in" in made
    assert "-->1<!-- end --> rows." in made
    assert refresh(made, tmp_path) == made
    assert "0.51" not in without_quotes(made)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("value: gone.csv; score", "does not hold"),
        ("value: r.csv; nothing; where k=1", "does not exist"),
        ("value: r.csv; score; where q=1", "no column"),
        ("value: r.csv; score", "exactly one row"),
        ("value: r.csv; where k=1", "names one column"),
    ],
)
def test_a_quote_that_leads_nowhere_is_an_error(tmp_path: Path, spec: str, message: str) -> None:
    (tmp_path / "r.csv").write_text("k,score\n1,0.5\n2,0.75\n")
    with pytest.raises(DataError, match=message):
        refresh(f"<!-- {spec} --><!-- end -->", tmp_path)
