"""Published measurements that are not part of the repository, and the tests that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

#: a folder beside the repository
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test, or as ``pytestmark`` a file of tests, where this file is absent."""
    absent = not (DATA / name).is_file()
    return pytest.mark.skipif(absent, reason=f"{name} is not in ../shared/data")
