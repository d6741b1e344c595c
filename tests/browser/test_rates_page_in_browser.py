"""The page of a fit of rates in a real browser: slider, patients, phones, screen readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.learning.em.saved_fit import fit_run
from asterism.report.page import write_report
from tests.browser.page_runs import choose, count, open_page, requests_made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    rows = []
    for d in range(30):
        state, sex = "well", "f" if d % 2 else "m"
        for t in range(6):
            rows.append((f"patient {d}", float(t), state, sex))
            if state == "dead":
                break
            places = {"well": ["ill", "well"], "ill": ["dead", "well", "ill"]}[state]
            state = str(rng.choice(places))
    table = pd.DataFrame(rows, columns=["trajectory", "time", "state", "sex"])
    obs = am.Observations.from_frame(table, labels=["state"], covariates=["sex"], unit="years")
    learner = am.ParameterLearner(
        {"state": []},
        method="exact",
        states={"state": ["well", "ill", "dead"]},
        allowed_transitions={"state": "well>ill, ill>well, ill>dead"},
        covariates=[am.Effect("sex", equal=True)],
    ).fit(obs)
    run = fit_run(learner, {"title": "A panel", "time_unit": "years", "warnings": []})
    return write_report(run, tmp_path_factory.mktemp("fit") / "report.html")


@pytest.fixture(scope="module")
def many_transitions(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Pages of as many states, each of which can follow each other."""
    folder = tmp_path_factory.mktemp("many")

    def page(n_states: int) -> Path:
        path = folder / f"{n_states}.html"
        if path.exists():
            return path
        rng = np.random.default_rng(1)
        states = ["stable", "worse", "hospital", "remission", "home"][:n_states]
        rows = [(d, float(t), str(rng.choice(states))) for d in range(60) for t in range(5)]
        table = pd.DataFrame(rows, columns=["trajectory", "time", "state"])
        obs = am.Observations.from_frame(table, labels=["state"])
        learner = am.ParameterLearner({"state": []}, method="exact", prior=am.GammaPrior(2.0))
        return write_report(fit_run(learner.fit(obs), {"title": "Many", "warnings": []}), path)

    return page


def test_the_slider_shows_other_times(browser: Any, page: Path) -> None:
    open_page(browser, page)
    shown = "return [document.getElementById('time'), document.getElementById('probabilities')]"
    read = shown + ".map((e) => e.textContent);"
    before = browser.execute_script(read)
    browser.execute_script(
        """const slider = document.getElementById("slider");
        slider.value = 0;
        slider.dispatchEvent(new Event("input"));"""
    )
    time, table = browser.execute_script(read)
    assert time == "0"
    assert table != before[1]
    assert "1.000" in table  # at once everybody is where they are
    body = browser.find_element("css selector", "body").text
    assert "rate per year" in body
    assert "Mean time in a state (years)" in body
    assert "Rates were estimated by maximum likelihood" in body
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert requests_made(browser) == []


def test_another_patient_can_be_chosen(browser: Any, page: Path) -> None:
    open_page(browser, page)
    first = browser.find_element("id", "course-chart").get_attribute("innerHTML")
    choose(browser, "course-trajectory", "patient 1")
    assert browser.find_element("id", "course-chart").get_attribute("innerHTML") != first
    assert count(browser, "#course-chart path.state") == 3


def test_states_hazard_ratios_and_shares_are_drawn(browser: Any, page: Path) -> None:
    open_page(browser, page)
    assert count(browser, "#diagram-0 g.transition") == 3
    assert count(browser, "#forest-chart line.interval") == 1
    assert count(browser, "#survival-chart path.survival") == 2
    assert count(browser, "#survival-chart path.empirical") == 2
    assert count(browser, "#prevalence-chart path.expected") == 3
    assert count(browser, "#prevalence-chart circle.observed") > 3


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("n_states", [4, 5])
def test_numbers_of_many_transitions_do_not_collide(
    browser: Any, many_transitions: Callable[[int], Path], n_states: int, width: int
) -> None:
    open_page(browser, many_transitions(n_states), width=width)
    collisions = browser.execute_script(
        """const boxes = [...document.querySelectorAll("#diagram-0 text.rate")]
          .map((label) => label.getBoundingClientRect());
        return [boxes.length, boxes.filter((a, i) => boxes.some((b, j) => i < j
          && a.left < b.right - 1 && b.left < a.right - 1
          && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length];"""
    )
    shown, colliding = collisions
    n_transitions = n_states * (n_states - 1)
    assert colliding == 0
    assert count(browser, "#diagram-0 g.transition") == n_transitions
    if (n_states, width) != (5, 390):
        assert shown == n_transitions
    else:  # what has no room is counted, and is in the table
        said = browser.find_element("id", "diagram-0").get_attribute("textContent")
        assert (f"room for {shown} of 20 rates" in said) == (shown < n_transitions)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_keeps_nobody_out(browser: Any, page: Path, axe: str, width: int) -> None:
    open_page(browser, page, width=width)
    wide = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth];"
    )
    assert wide[0] <= wide[1] <= width
    outside = browser.execute_script(
        """return [...document.querySelectorAll("svg text")].filter((label) => {
          const box = label.getBoundingClientRect();
          const all = label.closest("svg").getBoundingClientRect();
          return box.width > 0 && (box.left < all.left - 1 || box.right > all.right + 1);
        }).map((label) => label.textContent);"""
    )
    assert outside == []
    browser.execute_script(axe)
    found = browser.execute_async_script(
        """axe.run().then((result) => arguments[0](result.violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes[0].html}`)));"""
    )
    assert found == []
