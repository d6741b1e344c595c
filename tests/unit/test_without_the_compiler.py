"""Tests that replace what kernels call need kernels that are ordinary functions.

They are skipped while numba compiles; here they run in a process of their own with it off.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "least"),
    [
        ("test_score_numbers.py", 70),
        pytest.param("test_tiny_networks.py", 38, marks=pytest.mark.slow),
    ],
)
def test_with_the_compiler_off(file: str, least: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", "-p", "no:cacheprovider",
         "-W", "ignore", f"tests/unit/{file}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTEST_ADDOPTS": "-m 'not slow'"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout[-3000:]
    found = re.search(r"(\d+) passed", answer.stdout)
    assert found is not None
    assert int(found.group(1)) >= least
    assert "skipped" not in answer.stdout
