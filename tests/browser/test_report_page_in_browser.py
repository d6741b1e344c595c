"""The report page in a real browser: it loads quietly, and its controls do what they say.

Needs Chromium, its driver and selenium. Without them the tests are skipped with the reason, unless
ASTERISM_REQUIRE_BROWSER=1 asks for a failure instead.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.report.page import write_report
from asterism.results.run import Run
from tests.example_runs import example_run, large_run

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

NASTY_NAMES = [
    "</script><script>throw 1</script>",
    "q\"'\\",
    "Ünï 基因",
    "<b>x</b>&amp;",
    "n{{ 1 }}",
]


def _unavailable(reason: str) -> None:
    if os.environ.get("ASTERISM_REQUIRE_BROWSER") == "1":
        pytest.fail(f"ASTERISM_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        _unavailable("selenium is not installed (pip install 'asterism[browser]')")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        _unavailable("Chromium or chromedriver was not found")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    session.set_page_load_timeout(120)
    yield session
    session.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Pages by name, each written once."""
    folder = tmp_path_factory.mktemp("pages")
    runs: dict[str, Callable[[], Run]] = {
        "small": example_run,
        "states": lambda: example_run(states=("well", "ill", "dead"), labels=True, truth=False),
        "nasty": lambda: example_run(
            {name: [NASTY_NAMES[i - 1]] if i else [] for i, name in enumerate(NASTY_NAMES)}
        ),
        "large": large_run,
    }

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        return path if path.exists() else write_report(runs[name](), path)

    return page


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


@pytest.mark.parametrize("name", ["small", "states", "nasty", "large"])
def test_page_loads_without_complaint_or_request(browser: Any, pages: Any, name: str) -> None:
    open_page(browser, pages(name))
    assert count(browser, "#drawing svg .edge") > 0
    assert count(browser, "#course-chart .main-svg") > 0
    assert count(browser, "#heatmap-chart .main-svg") > 0
    assert count(browser, "#rates-chart .main-svg") > 0
    move_slider(browser, 0.1)
    assert [line for line in browser.get_log("browser") if line["level"] != "INFO"] == []
    assert requests_made(browser) == []


def test_request_log_would_show_a_request(browser: Any, tmp_path: Path) -> None:
    """The check above is worth something only if the log can see requests."""
    page = tmp_path / "asks.html"
    page.write_text('<img src="http://127.0.0.1:9/picture.png">')
    open_page(browser, page)
    assert requests_made(browser) == ["http://127.0.0.1:9/picture.png"]


def test_slider_redraws_graph_and_table(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    edges = example_run().edge_table["probability"]
    for threshold in (0.0, 0.05, 0.5, 0.9, 1.0):
        move_slider(browser, threshold)
        expected = int((edges.round(6) >= threshold).sum())
        assert count(browser, "#drawing .edge") == expected
        assert count(browser, "#edge-table tbody tr") == expected
        assert str(expected) in browser.find_element("id", "drawn-count").text
        assert browser.find_element("id", "threshold-value").text == f"{threshold:.2f}"


def test_edges_are_wider_when_surer(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    move_slider(browser, 0.0)
    rows = browser.execute_script(
        """return report.drawnEdges().map((edge) => [edge.p, parseFloat(getComputedStyle(
        document.querySelector(`[data-edge="${edge.from}-${edge.to}"] .line`)).strokeWidth)]);"""
    )
    widths = [width for _, width in sorted(rows)]
    assert widths == sorted(widths)
    assert widths[-1] > 2 * widths[0]


def test_pointing_at_an_edge_shows_its_rates(browser: Any, pages: Any) -> None:
    from selenium.webdriver import ActionChains

    open_page(browser, pages("small"))
    middle = browser.execute_script(
        """const path = [...document.querySelectorAll("#drawing .edge .reach")].at(-1);
        path.scrollIntoView({ block: "center", behavior: "instant" });
        const half = path.getPointAtLength(path.getTotalLength() / 2);
        const at = half.matrixTransform(path.getScreenCTM());
        return [Math.round(at.x), Math.round(at.y)];"""
    )
    chain = ActionChains(browser)
    chain.w3c_actions.pointer_action.move_to_location(*middle)
    chain.perform()
    tooltip = browser.find_element("id", "tooltip")
    assert tooltip.is_displayed()
    assert "off → on" in tooltip.text
    assert "probability" in tooltip.text


def test_trajectory_menu_changes_the_course(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    measured = """return document.getElementById("course-chart").data
        .filter((trace) => trace.name === "measured").map((trace) => Array.from(trace.x))[0];"""
    choose(browser, "course-node", "ASH1")
    for trajectory in ("1", "3"):
        choose(browser, "course-trajectory", trajectory)
        table = example_run().observations
        assert table is not None
        own = table[(table["node"] == "ASH1") & (table["trajectory"] == int(trajectory))]
        assert browser.execute_script(measured) == pytest.approx(sorted(own["time"]), rel=1e-4)
        assert f"trajectory {trajectory}" in browser.find_element("id", "course-text").text


def test_measurements_lie_mostly_inside_the_band(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    inside = browser.execute_script(
        """let inside = 0, all = 0;
        report.courses.nodes.forEach((node, n) => report.courses.trajectories.forEach((_, t) => {
          document.getElementById("course-node").value = n;
          document.getElementById("course-trajectory").value = t;
          report.drawCourse();
          const traces = document.getElementById("course-chart").data;
          const y2 = traces.filter((trace) => trace.yaxis === "y2");
          const [low, high, , seen] = y2;
          seen.x.forEach((when, i) => {
            const k = Array.from(low.x).findIndex((time) => Math.abs(time - when) < 1e-6);
            if (k < 0) return;
            all += 1;
            if (low.y[k] <= seen.y[i] && seen.y[i] <= high.y[k]) inside += 1;
          });
        }));
        return [inside, all];"""
    )
    assert inside[1] > 100
    assert 0.85 < inside[0] / inside[1] < 0.99


def test_choosing_a_node_in_the_drawing_shows_it_everywhere(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    browser.execute_script(
        """document.querySelector('#drawing .node[data-node="6"]')
        .dispatchEvent(new MouseEvent("click", { bubbles: true }));"""
    )
    assert "FKH2" in browser.find_element("id", "course-text").text
    rates = browser.find_element("id", "rates-table")
    assert "MCM1" in rates.text
    assert count(browser, "#rates-table tbody tr") == 4


def test_search_filters_the_table(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    move_slider(browser, 0.0)
    before = count(browser, "#edge-table tbody tr")
    browser.find_element("id", "search").send_keys("gal8")
    rows = [row.text for row in browser.find_elements("css selector", "#edge-table tbody tr")]
    assert 0 < len(rows) < before
    assert all("GAL80" in row for row in rows)
    browser.find_element("id", "search").send_keys("zzz")
    assert count(browser, "#edge-table tbody tr") == 0


def test_headings_sort_the_table(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    heading = browser.find_elements("css selector", "#edge-table th button")[1]
    heading.click()
    cells = browser.find_elements("css selector", "#edge-table tbody td:nth-child(2)")
    names = [cell.text for cell in cells]
    assert len(set(names)) > 1
    # numbers in names count as numbers: GAL4 before GAL80
    assert names == sorted(
        names,
        key=lambda n: (n.rstrip("0123456789"), int("0" + n.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))),
    )


def test_names_are_shown_as_they_are(browser: Any, pages: Any) -> None:
    open_page(browser, pages("nasty"))
    shown = browser.execute_script("return report.nodes.map((node) => node.name);")
    assert shown == NASTY_NAMES
    move_slider(browser, 0.0)
    table = browser.find_element("id", "edge-table").text
    assert all(name in table for name in NASTY_NAMES)


@pytest.mark.parametrize("name", ["small", "states", "nasty", "large"])
def test_phone_needs_no_sideways_scrolling(browser: Any, pages: Any, name: str) -> None:
    open_page(browser, pages(name), width=390, height=844)
    wide = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth];"
    )
    assert wide[0] <= wide[1] == 390


def test_phone_shows_every_column_of_the_edges(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"), width=390, height=844)
    wide = browser.execute_script(
        """const table = document.querySelector("#edges .scroll");
        return [table.scrollWidth, table.clientWidth];"""
    )
    assert wide[0] <= wide[1]
    effects = browser.find_elements("css selector", "#edge-table td .word")
    assert effects
    assert not any(word.is_displayed() for word in effects)


def test_charts_fit_on_paper_and_the_window_again(browser: Any, pages: Any) -> None:
    """Printing gives the page another width, but charts learn of it only from the event."""
    open_page(browser, pages("small"), width=1280)
    widths = """return [...document.querySelectorAll(".chart .main-svg:first-child")]
        .map((drawing) => drawing.getBoundingClientRect().width);"""
    on_screen = browser.execute_script(widths)
    assert max(on_screen) > 1000
    on_paper = browser.execute_script("dispatchEvent(new Event('beforeprint'));" + widths)
    assert len(on_paper) == len(on_screen)
    assert max(on_paper) <= 700
    browser.execute_async_script(
        """dispatchEvent(new Event("afterprint"));
        setTimeout(arguments[0], 500);"""
    )
    assert browser.execute_script(widths) == pytest.approx(on_screen, abs=2)


def test_large_network_draws_only_what_matters(browser: Any, pages: Any) -> None:
    open_page(browser, pages("large"))
    move_slider(browser, 0.0)
    assert count(browser, "#drawing .edge") == 100
    assert count(browser, "#edge-table tbody tr") == 100
    browser.find_element("id", "show-more").click()
    assert count(browser, "#edge-table tbody tr") > 1000
    assert "at most 100 edges" in browser.find_element("css selector", ".notices").get_attribute(
        "textContent"
    )
