"""The report page in a real browser: it loads quietly, and its controls do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asterism.report.compare_page import write_comparison
from asterism.results.comparison import compare
from tests.browser.page_runs import (
    NASTY_NAMES,
    RUNS,
    choose,
    count,
    move_slider,
    open_page,
    requests_made,
)
from tests.example_runs import example_run


@pytest.mark.parametrize("name", ["small", "states", "nasty", "large", "intervals"])
def test_page_loads_without_complaint_or_request(browser: Any, pages: Any, name: str) -> None:
    open_page(browser, pages(name))
    assert count(browser, "#drawing svg .edge") > 0
    assert count(browser, "#course-chart .state") > 0
    assert count(browser, "#heatmap-chart rect") > 4
    assert count(browser, "#rates-chart .rate-bar") > 0
    assert count(browser, "#fit-grid .fit") == min(48, len(RUNS[name]().network.nodes))
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
    measured = "return report.shownCourse().when;"
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
          const { times, low, high, when, what } = report.shownCourse();
          when.forEach((time, i) => {
            const k = times.findIndex((t) => Math.abs(t - time) < 1e-6);
            if (k < 0) return;
            all += 1;
            if (low[k] <= what[i] && what[i] <= high[k]) inside += 1;
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


@pytest.mark.parametrize(("name", "width"), [("small", 390), ("long", 390), ("intervals", 1280)])
def test_every_column_of_the_edges_is_seen(browser: Any, pages: Any, name: str, width: int) -> None:
    open_page(browser, pages(name), width=width, height=844)
    wide = browser.execute_script(
        """const table = document.querySelector("#edges .scroll");
        return [table.scrollWidth, table.clientWidth];"""
    )
    assert wide[0] <= wide[1]
    effects = browser.find_elements("css selector", "#edge-table td .word")
    assert effects
    assert any(word.is_displayed() for word in effects) is (width > 390)


def test_charts_follow_the_width_of_window_and_paper(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"), width=1280)
    widths = """return [...document.querySelectorAll(".chart")].map((chart) =>
        [chart.querySelector("svg").getBoundingClientRect().width, chart.clientWidth]);"""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.execute_async_script("setTimeout(arguments[0], 300);")
    for drawn, available in browser.execute_script(widths):
        assert drawn <= available + 1
    # letters keep their size: the drawing was made again, not shrunk
    assert browser.execute_script(
        "return document.querySelector('#course-chart svg').viewBox.baseVal.width;"
    ) == pytest.approx(
        browser.execute_script("return document.getElementById('course-chart').clientWidth;"), abs=1
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        for drawn, available in browser.execute_script(widths):
            assert drawn <= available + 1
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_large_network_draws_only_what_matters(browser: Any, pages: Any) -> None:
    assert pages("large").stat().st_size < 4_000_000
    open_page(browser, pages("large"))
    move_slider(browser, 0.0)
    assert count(browser, "#drawing .edge") == 100
    assert count(browser, "#edge-table tbody tr") == 100
    browser.find_element("id", "show-more").click()
    assert count(browser, "#edge-table tbody tr") > 1000
    assert "at most 100 edges" in browser.find_element("css selector", ".notices").get_attribute(
        "textContent"
    )


def test_a_comparison_draws_both_graphs(browser: Any, tmp_path: Path) -> None:
    first, second = RUNS["nasty"](), example_run({"</script>": [], "B": ["</script>"]})
    found = compare([first, first, second], ["a", "<b>", "c"])
    page = write_comparison(found, tmp_path / "compare.html", "Compared")
    open_page(browser, page)
    n_edges = sum(map(len, first.network.parents.values()))
    assert count(browser, "#compared-0 path.line.kept") == n_edges
    assert count(browser, "#compared-0 g.node") == len(first.network.nodes)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert requests_made(browser) == []
