"""What notebooks show: cards of the public objects, and a bar while something is learned."""

from __future__ import annotations

import re
import sys
import warnings
from html.parser import HTMLParser
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics import progress
from asterism.numerics.progress import (
    ProgressMeter,
    Silent,
    Stage,
    bar_html,
    bar_text,
    listener_for,
)
from tests.example_runs import example_run


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(thing: Any) -> str:
    """The card of a thing, as text without marks."""
    html = str(thing._repr_html_())
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert "<script" not in html
    return re.sub(r"<[^>]*>", " ", html)


@pytest.fixture(scope="module")
def observations() -> am.Observations:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.2)
    paths = am.simulate(network, n_trajectories=5, duration=4.0, seed=0)
    return am.observe(paths, am.Gaussian((-1, 1), 0.3), n_observations=4, seed=1)


def test_network_observations_and_paths_show_their_sizes(observations: am.Observations) -> None:
    network = am.random_network(n_nodes=20, n_states=3, max_parents=2, seed=0)
    shown = checked(network)
    assert "Network: 20 nodes" in shown
    assert f"and {20 - MOST_ROWS} more" in shown
    shown = checked(observations)
    assert "5 trajectories, 2 nodes, 40 measurements" in shown
    paths = am.simulate(network, n_trajectories=3, duration=1.0, seed=0)
    assert "Trajectories: 3, with 20 nodes" in checked(paths)


def test_posterior_and_learners_say_whether_they_converged(
    observations: am.Observations,
) -> None:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.2)
    emission = am.Gaussian((-1, 1), 0.3)
    post = am.infer(network, observations, emission, method="exact")
    assert "Posterior (exact)" in checked(post)
    assert f"{post.log_evidence:.6g}" in checked(post)
    post.converged, post.stop_reason = False, "Stopped at the limit."
    assert "Not converged. Stopped at the limit." in checked(post)
    learner = am.StructureLearner(max_parents=1, method="star")
    assert "not fitted" in checked(learner)
    learner.fit(am.simulate(network, n_trajectories=20, duration=10.0, seed=2))
    shown = checked(learner)
    assert "probability" in shown
    assert learner.stop_reason_ in shown
    assert "a network was learned" in checked(example_run())


def test_names_are_text_and_nothing_else() -> None:
    table = pd.DataFrame({"trajectory": 1, "time": [0.0, 1.0], "<img src=x>&": [0.0, 1.0]})
    shown = am.Observations.from_frame(table)._repr_html_()
    assert "<img" not in shown
    assert "&lt;img src=x&gt;&amp;" in shown
    assert "<b>" not in card("<b>", [("<b>", "<b>")], ["<b>"], [["<b>"]], warning="<b>")


def test_who_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Silent()
    assert listener_for(own) is own
    assert isinstance(listener_for(False), Silent)
    assert isinstance(listener_for(None), Silent), "a bar outside of notebooks was not asked for"
    assert isinstance(listener_for(True), ProgressMeter)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    assert isinstance(listener_for(None), ProgressMeter)


def test_a_notebook_is_told_from_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython: Any = ModuleType("IPython")
    shell: Any = type("Shell", (), {})()
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not progress.in_notebook()
    shell.kernel = object()
    assert progress.in_notebook()


def test_a_notebook_bar_appears_after_a_moment_and_is_updated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def display(html: str, display_id: bool) -> Handle:
        shown.append(html)
        return Handle()

    module: Any = ModuleType("IPython.display")
    module.HTML, module.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    bar = progress.NotebookBar()
    bar(Stage("Scoring <x>", 10, 1, 0.2, 1.8, False))
    assert shown == []
    bar(Stage("Scoring <x>", 10, 6, 1.5, 1.0, False))
    bar(Stage("Scoring <x>", 10, 10, 2.5, 0.0, True))
    assert len(shown) == 2
    assert 'value="6" max="10"' in shown[0]
    assert "Scoring &lt;x&gt;: done in 2 s" in shown[1]


def test_a_line_in_a_terminal_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    bar = progress.TextBar()
    bar(Stage("Scoring", 10, 1, 0.2, 1.8, False))
    bar(Stage("Scoring", 10, 5, 2.0, 2.0, False))
    bar(Stage("Scoring", 10, 10, 4.0, 0.0, True))
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("\rScoring: 5 of 10 (50%), about 2 s left\rScoring: done in 4 s")
    assert out.err.endswith("\n")


def test_bars_say_how_far_they_are() -> None:
    assert bar_text(Stage("Scoring", 1000, 0, 0.0, None, False)) == "Scoring: 0 of 1,000 (0%)"
    assert bar_text(Stage("Steps", 0, 7, 3.0, None, False)) == "Steps: 7, 3 s"
    assert "value" not in bar_html(Stage("Steps", 0, 7, 3.0, None, False))


class Notes:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.stages: list[list[Any]] = []

    def start(self, total: int, what: str) -> None:
        self.stages.append([what, total, 0])

    def advance(self, n: int = 1) -> None:
        self.stages[-1][2] += n

    def finish(self) -> None:
        pass


def test_calls_that_take_long_say_how_far_they_are(observations: am.Observations) -> None:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.2)
    emission = am.Gaussian((-1, 1), 0.3)
    for method in ("star", "clusters", "sample"):
        notes = Notes()
        shown = am.infer(network, observations, emission, method=method, progress=notes)
        assert notes.stages, method
        assert all(done == total > 0 and what for what, total, done in notes.stages)
        quiet = am.infer(network, observations, emission, method=method, progress=False)
        np.testing.assert_array_equal(shown.marginals([1.0]), quiet.marginals([1.0]))
    notes = Notes()
    am.simulate(network, n_trajectories=50, duration=5.0, seed=2, progress=notes)
    assert notes.stages
    for method in ("exact", "sample"):
        notes = Notes()
        am.ParameterLearner(network.graph, emission, method=method).fit(
            observations, progress=notes
        )
        assert any(done > 0 for _, _, done in notes.stages), method


def test_what_is_asked_of_a_fit_says_how_far_it_is(observations: am.Observations) -> None:
    network, emission = am.glauber({"A": [], "B": ["A"]}, b=1.2), am.Gaussian((-1, 1), 0.3)
    fit = am.ParameterLearner(network.graph, emission, method="clusters").fit(observations)
    for ask in (fit.score, fit.score_samples, fit.impute):
        notes = Notes()
        ask(observations, progress=notes)
        assert any(done > 0 for _, _, done in notes.stages), ask.__name__
    notes = Notes()
    fit.predict_proba(observations, [1.0], progress=notes)
    assert notes.stages


def test_fitting_with_a_bar_changes_nothing(observations: am.Observations) -> None:
    network = am.glauber({"A": [], "B": ["A"]}, b=1.2)
    paths = am.simulate(network, n_trajectories=10, duration=5.0, seed=2)
    quiet = am.StructureLearner(max_parents=1, method="star").fit(paths, progress=False)
    shown = am.StructureLearner(max_parents=1, method="star").fit(paths, progress=True)
    np.testing.assert_array_equal(quiet.edges_["probability"], shown.edges_["probability"])


def test_the_card_of_sampled_rates_shows_no_evidence(observations: am.Observations) -> None:
    noise = am.Gaussian((-1, 1), 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        fit = am.ParameterLearner(
            dict.fromkeys(observations.nodes, ()), noise, method="sample", max_iterations=5
        ).fit(observations)
    shown = checked(fit)
    assert "nodes" in shown
    assert "log evidence" not in shown
