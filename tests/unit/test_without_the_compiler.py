"""Tests that replace what kernels call need kernels that are ordinary functions.

They are skipped while numba compiles; here they run in a process of their own with it off.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_numbers_of_the_structure_score() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider",
         "-W", "ignore", "tests/unit/test_score_numbers.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout[-3000:]
    found = re.search(r"(\d+) passed", answer.stdout)
    assert found is not None
    assert int(found.group(1)) > 50
    assert "skipped" not in answer.stdout
