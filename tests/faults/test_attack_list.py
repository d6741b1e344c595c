"""The list of attacks names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_attack_has_its_test() -> None:
    page = Path(__file__).with_name("ATTACKS.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and "`test_" in line]
    named = set(re.findall(r"`(test_\w+)`", "\n".join(rows)))
    assert len(named) > 40
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert sorted(name for name in named if f"def {name}(" not in code) == []
