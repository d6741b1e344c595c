"""The page by keyboard, on a phone, for screen readers, and with one choice shown everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.page_runs import LONG_NAMES, RUNS, count, move_slider, open_page

PHONE = {"width": 390, "height": 844}


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).get_attribute("textContent"))


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def chosen(browser: Any) -> dict[str, Any]:
    """The chosen edge as each part of the page shows it."""
    found: dict[str, Any] = browser.execute_script(
        """const one = (selector) => document.querySelector(selector);
        return {
          drawing: one("#drawing .edge.on")?.dataset.edge ?? null,
          table: one("#edge-table tr.on")?.dataset.edge ?? null,
          map: one("#heatmap-chart .chosen-cell") !== null,
          detail: one("#edge-detail strong")?.textContent ?? null,
          rates: Number(one("#rates-node").value),
          course: report.courses.nodes[Number(one("#course-node").value)],
          fit: Number(one("#fit-grid .on").dataset.node),
        };"""
    )
    return found


def test_one_choice_shows_everywhere(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    nodes = list(RUNS["small"]().network.nodes)
    parent, child = nodes.index("CLN3"), nodes.index("FKH2")
    name = f"{parent}-{child}"
    ways = {
        "table": f"document.querySelector('#edge-table [data-edge=\"{name}\"]').click();",
        "drawing": f"document.querySelector('#drawing [data-edge=\"{name}\"]')"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true }));",
        "map": f"""const [parent, child] = [{parent}, {child}];
            """
        """const reach = document.querySelector("#heatmap-chart [style]");
            const box = reach.getBoundingClientRect(), n = report.heatmap.nodes.length;
            reach.dispatchEvent(new MouseEvent("click", {
              clientX: box.left + (child + 0.5) / n * box.width,
              clientY: box.top + (parent + 0.5) / n * box.height, bubbles: true }));""",
    }
    for way, script in ways.items():
        browser.execute_script("report.chooseEdge(null); report.chooseNode(0);")
        assert chosen(browser)["drawing"] is None
        browser.execute_script(script)
        found = chosen(browser)
        assert found == {
            "drawing": name,
            "table": name,
            "map": True,
            "detail": "CLN3 → FKH2",
            "rates": child,
            "course": child,
            "fit": child,
        }, way
    move_slider(browser, 0.3)
    assert chosen(browser)["drawing"] == chosen(browser)["table"] == name


def test_escape_and_another_node_drop_the_chosen_edge(browser: Any, pages: Any) -> None:
    open_page(browser, pages("small"))
    choose_first = "document.querySelector('#edge-table tbody tr').click();"
    browser.execute_script(choose_first)
    assert chosen(browser)["table"] is not None
    press(browser, "\ue00c")
    assert chosen(browser)["table"] is None
    browser.execute_script(choose_first)
    browser.execute_script("report.chooseNode((report.chosen.node + 1) % report.nodes.length);")
    assert chosen(browser)["table"] is chosen(browser)["drawing"] is None
    assert chosen(browser)["map"] is False


def test_everything_can_be_reached_by_keyboard(browser: Any, pages: Any) -> None:
    right, down, enter = "\ue014", "\ue015", "\ue007"
    open_page(browser, pages("small"))
    focus = "document.querySelector(arguments[0]).focus();"
    browser.execute_script(focus, "#drawing [tabindex='0']")
    press(browser, right, right, enter)
    assert browser.execute_script("return report.chosen.node;") == 2
    browser.execute_script(focus, "#heatmap-chart .cursor")
    press(browser, down, right)
    where = text(browser, "heatmap-text")
    assert "probability" in where
    assert where.startswith("CBF1 → GAL4")
    press(browser, enter)
    assert text(browser, "edge-detail").startswith("CBF1 → GAL4")
    # the map was drawn again, and the keyboard is still where it was
    press(browser, right)
    assert text(browser, "heatmap-text").startswith("CBF1 → GAL80")
    browser.execute_script(focus, "#course-chart .cursor")
    press(browser, right, right)
    slider = browser.find_element("css selector", "#course-chart .cursor")
    assert "expected" in slider.get_attribute("aria-valuetext")
    assert text(browser, "course-reading") == slider.get_attribute("aria-valuetext")


@pytest.mark.parametrize(
    ("name", "width"),
    [*((name, 1280) for name in ("states", "one", "empty", "given", "intervals")), ("long", 390)],
)
def test_nothing_keeps_people_out(
    browser: Any, pages: Any, axe: str, name: str, width: int
) -> None:
    open_page(browser, pages(name), width=width)
    browser.execute_script(axe)
    found = browser.execute_async_script(
        """axe.run().then((result) => arguments[0](result.violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes[0].html}`)));"""
    )
    assert found == []


def test_the_check_for_everyone_can_fail(browser: Any, pages: Any, axe: str) -> None:
    open_page(browser, pages("small"))
    browser.execute_script("document.querySelector('label[for=threshold]').remove();" + axe)
    found = browser.execute_async_script(
        "axe.run().then((result) => arguments[0](result.violations.map(({ id }) => id)));"
    )
    assert "label" in found


@pytest.mark.parametrize("name", sorted(RUNS))
@pytest.mark.parametrize("width", [1280, 390])
def test_everything_fits(browser: Any, pages: Any, name: str, width: int) -> None:
    """Nobody scrolls sideways, and no chart cuts off words at its rim."""
    open_page(browser, pages(name), width=width, height=844)
    wide = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth];"
    )
    assert wide[0] <= wide[1] <= width
    outside = browser.execute_script(
        """return [...document.querySelectorAll(".chart svg text")].filter((label) => {
          const box = label.getBoundingClientRect();
          const chart = label.closest(".chart").getBoundingClientRect();
          return box.width > 0 && (box.left < chart.left - 1 || box.right > chart.right + 1
            || box.top < chart.top - 1 || box.bottom > chart.bottom + 1);
        }).map((label) => `${label.closest(".chart").id}: ${label.textContent}`);"""
    )
    assert outside == []


def test_long_names_are_cut_in_pictures_and_whole_in_words(browser: Any, pages: Any) -> None:
    open_page(browser, pages("long"), **PHONE)
    shown = browser.execute_script(
        """return [...document.querySelectorAll("#heatmap-chart text")]
        .map((label) => label.textContent).filter((name) => name.includes("ENSG"));"""
    )
    assert shown
    assert all("…" in name for name in shown)
    assert len(set(shown)) == len(LONG_NAMES), "names that were cut look alike"
    assert LONG_NAMES[1] in text(browser, "edge-table")


def test_page_of_one_node_speaks_of_no_edges(browser: Any, pages: Any) -> None:
    open_page(browser, pages("one"))
    assert count(browser, "#network, #edges, #heatmap, #threshold-bar, nav a[href='#edges']") == 0
    assert count(browser, "#rates-chart .rate-bar") == 2
    assert count(browser, "#course-chart .measured") > 0
    assert browser.get_log("browser") == []


def test_page_without_edges_says_what_comes_closest(browser: Any, pages: Any) -> None:
    open_page(browser, pages("empty"))
    assert "No single edge is certain" in text(browser, "summary")
    assert count(browser, "#ranking-table tbody tr") == 6
    assert count(browser, "#edge-table tbody tr") == 6
    assert count(browser, "#drawing .edge") == 6
    assert "of these edges are true" in text(browser, "drawn-count")
    move_slider(browser, 0.99)
    assert "The surest is" in text(browser, "no-edges")


def test_navigation_and_headings_use_the_same_names(browser: Any, pages: Any) -> None:
    open_page(browser, pages("intervals"))
    pairs = browser.execute_script(
        """return [...document.querySelectorAll("nav a")].map((link) =>
        [link.textContent, document.querySelector(link.hash + " h2").textContent]);"""
    )
    assert len(pairs) > 8
    assert all(link == heading for link, heading in pairs)


def test_intervals_and_prior_are_drawn_where_they_are_known(browser: Any, pages: Any) -> None:
    open_page(browser, pages("intervals"))
    assert count(browser, "#rates-chart .interval") == count(browser, "#rates-chart .rate-bar") > 0
    assert " to " in text(browser, "rates-table")
    assert "times faster (" in text(browser, "rates-text")
    assert count(browser, "#heatmap-chart .prior") == 1
    assert "Fold" in text(browser, "edge-table")
    browser.execute_script("document.querySelector('#edge-table tbody tr').click();")
    assert "Bayes factor 12.5" in text(browser, "edge-detail")
    open_page(browser, pages("small"))
    assert count(browser, "#rates-chart .interval, #heatmap-chart .prior") == 0
    assert "Fold" not in text(browser, "edge-table")


def test_the_page_opens_with_a_ranking_that_has_signs(browser: Any, pages: Any) -> None:
    for width in (1280, 390):
        open_page(browser, pages("weak"), width, 800)
        rows = browser.find_elements("css selector", "#ranking-table tbody tr")
        assert len(rows) == 10
        first = rows[0].text
        for part in ("→", "raises", "to", "0."):
            assert part in first
        assert "the ten most probable contain about" in text(browser, "summary")
        assert browser.execute_script(
            """const box = document.querySelector(".ranking");
            return box.scrollWidth <= box.clientWidth
              && document.documentElement.scrollWidth <= innerWidth;"""
        ), "nothing is cut"
        assert browser.get_log("browser") == []
    rows[1].find_element("css selector", "button").click()
    assert "Bayes factor" in text(browser, "edge-detail")


def test_edges_below_the_threshold_are_drawn_with_their_signs(browser: Any, pages: Any) -> None:
    open_page(browser, pages("weak"))
    move_slider(browser, 0.05)
    assert count(browser, "#drawing .line.raises.dashed") > 0
    assert count(browser, "#drawing .line.lowers.dashed") > 0
    listed = browser.execute_script(
        """return report.edges.filter((edge) => edge.p >= 0.05)
        .reduce((sum, edge) => sum + edge.p, 0);"""
    )
    assert f"about {listed:.1f} of these edges are true" in text(browser, "drawn-count")


def test_the_heat_map_of_a_dark_page_is_dark(browser: Any, pages: Any) -> None:
    """Surer cells stand out from the paper: darker on a light page, brighter on a dark one."""
    for scheme, sign in (("light", -1), ("dark", 1)):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        try:
            open_page(browser, pages("small"))
            cells = browser.execute_script(
                """const pen = document.createElement("canvas").getContext("2d");
                const cells = [...document.querySelectorAll("#heatmap-chart [data-cells] rect")];
                return report.heatmap.z.flat().filter((p) => p !== null).map((p, i) => {
                  pen.fillStyle = getComputedStyle(cells[i]).fill;
                  pen.fillRect(0, 0, 1, 1);
                  return [p, pen.getImageData(0, 0, 1, 1).data.slice(0, 3).reduce((a, b) => a + b)];
                });"""
            )
        finally:
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        light = [sign * brightness for _, brightness in sorted(cells)]
        assert light == sorted(light)
        assert light[-1] - light[0] > 300


def test_edges_do_not_run_behind_other_nodes(browser: Any, pages: Any) -> None:
    open_page(browser, pages("weak"))
    move_slider(browser, 0.1)
    hidden = browser.execute_script(
        """const boxes = [...document.querySelectorAll("#drawing .node")].map((node) => (
          { node: node.dataset.node, box: node.querySelector("rect").getBBox() }));
        return [...document.querySelectorAll("#drawing .edge")].filter((edge) => {
          const path = edge.querySelector(".line"), ends = edge.dataset.edge.split("-");
          return [...Array(40).keys()].some((k) => {
            const at = path.getPointAtLength(path.getTotalLength() * k / 39);
            return boxes.some(({ node, box }) => !ends.includes(node) && at.x > box.x
              && at.x < box.x + box.width && at.y > box.y && at.y < box.y + box.height);
          });
        }).length;"""
    )
    assert hidden == 0
