"""The app in a real browser, from a dropped table to a comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tornado")

from tests.app_server import HEADER, AppServer, app_server, small_table, wide_table
from tests.command_line import obey_ctrl_c


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    with app_server(tmp_path_factory.mktemp("runs"), preexec_fn=obey_ctrl_c) as server:
        yield server


def text(browser: Any, selector: str) -> str:
    return str(
        browser.execute_script("return document.querySelector(arguments[0]).innerText;", selector)
    )


def until(what: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.2)
    raise AssertionError("it did not come to pass")


def drop(browser: Any, content: str, name: str = "cells.csv") -> None:
    """What a browser tells a page when a file is dragged onto the drop zone and let go."""
    browser.execute_script(
        """const [content, name] = arguments, zone = document.querySelector("#drop");
        const dataTransfer = new DataTransfer();
        document.querySelector("#checking").textContent = "";
        dataTransfer.items.add(new File([content], name, { type: "text/csv" }));
        for (const kind of ["dragenter", "dragover", "drop"]) {
          const event = new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true });
          const opened = zone.dispatchEvent(event) && kind !== "dragenter";
          if (opened) throw new Error(`the browser would open the file (${kind})`);
          const marked = zone.classList.contains("over");
          if (marked !== (kind === "dragover")) throw new Error(`marked at ${kind}`);
        }""",
        content,
        name,
    )
    looked_at(browser, name)


def choose_file(browser: Any, folder: Path, content: str, name: str) -> None:
    path = folder / name
    path.write_text(content)
    browser.execute_script("document.querySelector('#checking').textContent = '';")
    browser.find_element("css selector", "#file").send_keys(str(path))
    looked_at(browser, name)


def looked_at(browser: Any, name: str) -> None:
    until(
        lambda: (
            text(browser, "#checking") not in ("", "Looking at the table …", f"Reading {name} …")
        )
    )


def choose(browser: Any, field: str, value: str) -> None:
    browser.execute_script(
        """const field = document.querySelector("#form").elements[arguments[0]];
        field.value = arguments[1];
        field.dispatchEvent(new Event("change", { bubbles: true }));""",
        field,
        value,
    )


def start(browser: Any) -> None:
    until(lambda: browser.find_element("css selector", "#start").is_enabled())
    browser.find_element("css selector", "#start").click()


def nothing_is_cut(browser: Any) -> bool:
    return bool(
        browser.execute_script("return document.documentElement.scrollWidth <= innerWidth;")
    )


def violations(browser: Any, axe: str) -> list[str]:
    browser.execute_script(axe)
    found: list[str] = browser.execute_async_script(
        """axe.run().then((result) => arguments[0](result.violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes[0].html}`)));"""
    )
    return found


@pytest.mark.slow
def test_from_a_table_to_a_comparison(
    browser: Any, app: AppServer, tmp_path: Path, axe: str
) -> None:
    browser.set_window_size(1280, 900)
    browser.get(app.address)
    assert "token" not in browser.current_url
    # a table that cannot be used is named row by row, and cannot be started
    broken = HEADER + "1,0,0.1,0.2\n1,1,oops<b>,0.3\n1,2,0.3,0.1\n1,3,0.2,0.9\n"
    drop(browser, broken, "broken.csv")
    assert "row 3, column A" in text(browser, "#problems")
    assert "oops<b>" in text(browser, "#problems")
    assert not browser.find_element("css selector", "#start").is_enabled()
    # a table whose columns have other names is mended by saying which is the time
    named = small_table().replace("trajectory,time", "cell,when x")
    choose_file(browser, tmp_path, named, "named.csv")
    choose(browser, "time", "when x")
    choose(browser, "trajectory", "cell")
    choose(browser, "states", "continuous")
    until(lambda: "can be used" in text(browser, "#checking"))
    assert "12" in text(browser, "#facts")
    assert len(browser.find_elements("css selector", ".course polyline")) == 24
    assert violations(browser, axe) == []
    start(browser)
    until(lambda: "finished" in text(browser, "#running-title"))
    assert "A → B" in text(browser, "#ranking")
    # again with another setting, watched from a second tab
    choose(browser, "max-parents", "1")
    start(browser)
    until(lambda: "(2): running" in text(browser, "#running-title"))
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"http://127.0.0.1:{app.port}/")
    until(lambda: "(2): finished" in text(browser, "#running-title"))
    browser.close()
    browser.switch_to.window(first)
    until(lambda: "(2): finished" in text(browser, "#running-title"))
    boxes = browser.find_elements("css selector", "#runs input:not(:disabled)")
    assert len(boxes) == 2
    for box in boxes:
        box.click()
    browser.find_element("css selector", "#compare").click()
    link = until(lambda: browser.find_elements("css selector", "#compared"))[0]
    report = browser.find_element("css selector", "#run-buttons a").get_attribute("href")
    browser.get(link.get_attribute("href"))
    said = text(browser, ".likely")
    assert "A → B" in said or "B → A" in said  # whichever is less certain
    assert "Only in" in said
    assert "named-1 against named-2" in text(browser, "body")
    browser.get(report)
    assert "A → B" in text(browser, "body")
    browser.get(f"http://127.0.0.1:{app.port}/")
    for width in (390, 1280):
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        until(lambda: "named" in text(browser, "#runs"))
        assert nothing_is_cut(browser)


def test_sentences_name_fields_in_which_decisions_are_undone(browser: Any, app: AppServer) -> None:
    rows = [
        f"{patient},{visit},{['1995-1998', '1999-2002'][patient % 2]},{int(visit > patient % 4)}"
        for patient in range(8)
        for visit in range(6)
    ]
    browser.get(app.address)
    drop(browser, "\n".join(["patient,time,year,pain", *rows]) + "\n", "visits.csv")
    said = text(browser, "#decisions")
    assert "“Set from outside”" in said
    assert "“Emission”" in said
    assert "--" not in said
    assert "--absorbing" in text(browser, "#problems")  # which has no field
    assert "on the command line" in text(browser, "#problems")
    choose(browser, "emission", "year=exact")
    until(lambda: "“Set from outside”" not in text(browser, "#decisions"))
    assert "can be used" in text(browser, "#checking")


@pytest.mark.slow
def test_a_run_outlives_its_page_and_can_be_stopped(browser: Any, app: AppServer) -> None:
    browser.set_window_size(1280, 900)
    browser.get(app.address)
    drop(browser, wide_table(), "wide.csv")
    choose(browser, "states", "continuous")
    choose(browser, "max-parents", "3")
    start(browser)
    until(lambda: "wide: running" in text(browser, "#running-title"))
    browser.get("about:blank")
    app.wait("wide-1", lambda run: bool(run["ranking"]))
    browser.get(f"http://127.0.0.1:{app.port}/")
    until(lambda: browser.find_elements("css selector", "#stop"))[0].click()
    until(lambda: "wide: stopped" in text(browser, "#running-title"))
    assert "best so far" in text(browser, "#outcome")
    report = browser.find_element("link text", "Open the report").get_attribute("href")
    browser.get(report)
    assert "Not converged" in text(browser, "body")
    assert len(browser.find_elements("css selector", "#ranking-table tbody tr")) == 10


def test_the_keyboard_is_enough(browser: Any, app: AppServer) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.set_window_size(1280, 900)
    browser.get(app.address)
    until(lambda: text(browser, "#runs"))

    def tab_to(wanted: str) -> list[str]:
        """Press Tab until this has the focus; everything on the way must show it."""
        passed = []
        for _ in range(40):
            ActionChains(browser).send_keys(Keys.TAB).perform()
            name, shown = browser.execute_script(
                """const at = document.activeElement, style = getComputedStyle(at);
                return [at.id || at.name || at.className || at.tagName,
                  style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];"""
            )
            assert shown, f"{name} does not show that it has the focus"
            passed.append(name)
            if name == wanted:
                return passed
        raise AssertionError(f"Tab does not reach {wanted}: {passed}")

    assert tab_to("file") == ["skip", "file"]
    drop(browser, small_table(), "keys.csv")
    focused = "return document.activeElement.id;"
    assert browser.execute_script(focused) == "understood-title"
    assert tab_to("kind") == ["time", "trajectory", "kind"]
    tab_to("states")
    ActionChains(browser).send_keys("c").perform()  # continuous
    assert chosen_states(browser) == "continuous"
    until(lambda: "can be used" in text(browser, "#checking"))
    tab_to("max-parents")
    ActionChains(browser).send_keys("1").perform()
    tab_to("start")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    until(lambda: browser.execute_script(focused) == "running-title")
    until(lambda: "keys: finished" in text(browser, "#running-title"))
    passed = tab_to("button")
    link = browser.switch_to.active_element
    assert link.text == "Open the report", passed


def chosen_states(browser: Any) -> str:
    return str(browser.execute_script("return document.querySelector('[name=states]').value;"))
