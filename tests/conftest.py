"""What all tests share: their order, and the counts of the fault tests at the end of a run.

With ``ASTERISM_COUNTS=benchmarks/results/attacks.csv`` they are also written there: the kinds of
attack of this run take the place of the rows that the file had of them.
"""

from __future__ import annotations

import csv
import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import COUNTS

_KEY = "asterism_fault_counts"
_FIRST = ("test_clusters.py", "test_sampling.py", "test_star.py")


def pytest_configure() -> None:
    """Search for cycles of garbage seldom: compiling makes millions of objects that live on."""
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that need different kernels.

    Two workers that start with an empty cache would otherwise compile the same ones side by side.
    """
    items.sort(key=lambda i: _FIRST.index(i.path.name) if i.path.name in _FIRST else len(_FIRST))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands its counts over."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = {kind: dict(outcomes) for kind, outcomes in COUNTS.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """The counts of a worker of xdist join ours."""
    for kind, outcomes in (getattr(node, "workeroutput", None) or {}).get(_KEY, {}).items():
        COUNTS.setdefault(kind, Counter()).update(outcomes)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not COUNTS:
        return
    terminalreporter.section("attacks and their outcomes")
    for kind in sorted(COUNTS):
        outcomes = ", ".join(f"{n} {what}" for what, n in COUNTS[kind].most_common())
        terminalreporter.write_line(f"{kind}: {COUNTS[kind].total()} cases: {outcomes}")
    record = os.environ.get("ASTERISM_COUNTS")
    if record:
        _write_counts(Path(record))


def _write_counts(path: Path) -> None:
    rows = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in list(csv.reader(file))[1:] if row[0] not in COUNTS]
    for kind, outcomes in COUNTS.items():
        rows += [[kind, outcome, str(n)] for outcome, n in outcomes.items()]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["attack", "outcome", "cases"], *sorted(rows)]
        )
