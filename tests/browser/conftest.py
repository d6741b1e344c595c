"""A browser for the tests of pages, and the pages that they open.

Needs Chromium, its driver and selenium. Without them the tests are skipped with the reason, unless
ASTERISM_REQUIRE_BROWSER=1 asks for a failure instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.report.page import write_report
from tests.browser.page_runs import RUNS

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",  # smooth scrolling would move what is to be clicked
    "--window-size=1280,900",
]


def unavailable(reason: str) -> None:
    if os.environ.get("ASTERISM_REQUIRE_BROWSER") == "1":
        pytest.fail(f"ASTERISM_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        unavailable("selenium is not installed (pip install 'asterism[browser]')")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        unavailable("Chromium or chromedriver was not found")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    session.set_page_load_timeout(120)
    yield session
    session.quit()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Pages by name, each written once."""
    folder = tmp_path_factory.mktemp("pages")

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        return path if path.exists() else write_report(RUNS[name](), path)

    return page


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which looks for what keeps people out."""
    try:
        import axe_core_python
    except ImportError:
        unavailable("axe-core-python is not installed (pip install 'asterism[browser]')")
    return (Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
