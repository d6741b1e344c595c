"""What all tests share: the counts of the fault tests, printed at the end of a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.faults.harness import COUNTS

_KEY = "asterism_fault_counts"


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
