"""benchmarks/all.py: a ratio that has grown by more than a quarter ends it with an error."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("name", "grown", "code"),
    [("a ratio", 1.2, 0), ("a ratio", 1.3, 1), ("three states times two", 1.3, 1), ("ns", 3.0, 0)],
)
def test_only_a_ratio_that_grew_is_a_loss(
    name: str, grown: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("all_benchmarks", FOLDER / "all.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    row = {"benchmark": "states", "measured": name, "value": 2.0, "wanted": ""}
    pd.DataFrame([row]).to_csv(tmp_path / "recorded.csv", index=False)
    monkeypatch.setattr(script, "told_by", lambda *_: [[name, 2.0 * grown, ""]])
    options = ["--only", "states", "--record", "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["all.py", *options])
    assert script.main() == code
    kept = pd.read_csv(tmp_path / "recorded.csv")
    assert kept["value"].tolist() == pytest.approx([2.0 * grown])
