"""The runs whose pages the browser opens, and what the tests do with a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from asterism.results.run import Run
from tests.example_runs import example_run, large_run, weak_run, with_rate_intervals

NASTY_NAMES = [
    "</script><script>throw 1</script>",
    "q\"'\\",
    "Ünï 基因",
    "<b>x</b>&amp;",
    "n{{ 1 }}",
]

LONG_NAMES = [f"ENSG000001{i:05d}_putative_transcription_factor_{i}" for i in range(14)]

RUNS: dict[str, Callable[[], Run]] = {
    "small": example_run,
    "states": lambda: example_run(states=("well", "ill", "dead"), labels=True, truth=False),
    "nasty": lambda: example_run(_chain(NASTY_NAMES)),
    "long": lambda: example_run(_chain(LONG_NAMES)),
    "large": large_run,
    "one": lambda: example_run({"FEV1": []}, truth=False, n_weak=0),
    "empty": lambda: example_run({"A": [], "B": [], "C": []}, truth=False),
    "given": lambda: replace(example_run(truth=False), families=None, edges=None),
    "weak": weak_run,
    "intervals": lambda: with_rate_intervals(example_run()),
}


def _chain(names: list[str]) -> dict[str, list[str]]:
    return {name: [names[i - 1]] if i else [] for i, name in enumerate(names)}


def open_page(browser: Any, path: Path, width: int = 1280, height: int = 900) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.get_log("browser"), browser.get_log("performance")  # forget earlier pages
    browser.get(path.as_uri())


def count(browser: Any, selector: str) -> int:
    return len(browser.find_elements("css selector", selector))


def move_slider(browser: Any, value: float) -> None:
    browser.execute_async_script(
        """const [value, done] = arguments, slider = document.getElementById("threshold");
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
        requestAnimationFrame(() => requestAnimationFrame(done));""",
        value,
    )


def choose(browser: Any, menu: str, label: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("id", menu)).select_by_visible_text(label)


def requests_made(browser: Any) -> list[str]:
    """Addresses asked for, other than the page itself and data inside it."""
    found = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [url for url in found if not url.startswith(("data:", "blob:", "file:", "about:"))]
