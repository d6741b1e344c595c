"""Runs side by side: what counts as gained, lost and changed, and how sure that is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError
from asterism.model.network import Network
from asterism.report.compare_page import comparison_sentences, render_comparison
from asterism.report.page import write_report
from asterism.results.comparison import CHANGED, GAINED, KEPT, LOST, OUTSIDE, UNKNOWN, compare
from asterism.results.folder import save_run
from asterism.results.run import Run
from tests.command_line import assert_refused, invoke
from tests.example_runs import example_run, with_rate_intervals


def small_run(
    parents: dict[str, list[str]], probabilities: dict[tuple[str, str], float], push: float = 2.0
) -> Run:
    """Every parent multiplies the rate upwards by ``push`` and divides that downwards by it."""
    rates = {}
    for node, above in parents.items():
        table = np.zeros((2,) * len(above) + (2, 2))
        for u in np.ndindex(*(2,) * len(above)):
            table[(*u, 0, 1)], table[(*u, 1, 0)] = push ** sum(u), push ** -sum(u)
        rates[node] = table
    network = Network(parents, rates, {node: ["off", "on"] for node in parents})
    edges = pd.DataFrame(
        [(p, c, q, p in parents[c]) for (p, c), q in probabilities.items()],
        columns=["parent", "child", "probability", "in_graph"],
    )
    families = pd.DataFrame(columns=["node", "parents", "score", "probability"])
    return Run(network, edges=edges, families=families)


@pytest.fixture
def two_runs() -> tuple[Run, Run]:
    first = small_run(
        {"A": [], "B": ["A"], "C": ["A"], "D": ["C"]},
        {("A", "B"): 0.9, ("A", "C"): 0.8, ("C", "D"): 0.95, ("B", "D"): 0.1},
    )
    other = small_run(
        {"A": [], "B": ["A"], "C": [], "D": ["C", "B"]},
        {("A", "B"): 0.7, ("A", "C"): 0.3, ("C", "D"): 0.9, ("B", "D"): 0.6, ("D", "A"): 0.4},
    )
    return first, other


def test_changes_and_their_probabilities(two_runs: tuple[Run, Run]) -> None:
    found = compare(two_runs, ["one", "two"])
    table = found.edges.set_index(["parent", "child"])
    assert table["change"].to_dict() == {
        ("B", "D"): GAINED,
        ("A", "C"): LOST,
        ("A", "B"): KEPT,
        ("C", "D"): KEPT,
        ("D", "A"): OUTSIDE,
    }
    assert table.loc[("B", "D"), "probability_gained"] == pytest.approx(0.9 * 0.6)
    assert table.loc[("A", "C"), "probability_lost"] == pytest.approx(0.8 * 0.7)
    assert table.loc[("D", "A"), "probability_gained"] == pytest.approx(0.4)
    assert found.counts("two") == {GAINED: 1, LOST: 1, CHANGED: 0, KEPT: 2}
    gained, lost = found.expected_changes("two")
    assert gained == pytest.approx(0.1 * 0.7 + 0.2 * 0.3 + 0.05 * 0.9 + 0.9 * 0.6 + 0.4)
    assert lost == pytest.approx(0.9 * 0.3 + 0.8 * 0.7 + 0.95 * 0.1 + 0.1 * 0.4)


def test_expected_changes_agree_with_sampled_graphs(two_runs: tuple[Run, Run]) -> None:
    found = compare(two_runs, ["one", "two"])
    rng = np.random.default_rng(0)
    p, q = (found.edges[name].to_numpy() for name in ("probability_first", "probability"))
    before, after = (rng.uniform(size=(100_000, len(p))) < value for value in (p, q))
    assert found.expected_changes("two") == pytest.approx(
        ((~before & after).sum(axis=1).mean(), (before & ~after).sum(axis=1).mean()), abs=0.01
    )


def test_a_parent_that_acts_differently_is_a_change() -> None:
    parents, sure = {"A": [], "B": ["A"]}, {("A", "B"): 0.99}
    first, opposite = small_run(parents, sure, 3.0), small_run(parents, sure, 1 / 3)
    assert compare([first, opposite], "xy").edges["change"].tolist() == [CHANGED]
    # stronger in the same direction: a change only if the intervals say so
    stronger = small_run(parents, sure, 6.0)
    assert compare([first, stronger], "xy").edges["change"].tolist() == [KEPT]
    for width, change in ((1.1, CHANGED), (3.0, KEPT)):
        pair = [with_rate_intervals(run, width) for run in (first, stronger)]
        row = compare(pair, "xy").edges.iloc[0]
        assert row["change"] == change
        # rates go up by 6 instead of 3 in one direction and down alike in the other
        assert max(row["fold_ratio"], 1 / row["fold_ratio"]) == pytest.approx(2.0)
        spread = width ** np.sqrt(4)
        assert row["upper"] == pytest.approx(row["fold_ratio"] * spread)


def test_a_run_does_not_differ_from_itself() -> None:
    run = with_rate_intervals(example_run())
    found = compare([run, run], ["a", "b"])
    assert set(found.edges["change"]) == {KEPT, OUTSIDE}
    assert found.settings == []
    assert found.same_data is True


def test_nodes_of_one_run_only_are_not_compared() -> None:
    first = small_run({"A": [], "B": ["A"]}, {("A", "B"): 0.9})
    other = small_run({"A": [], "X": ["A"]}, {("A", "X"): 0.9})
    found = compare([first, other], ["one", "two"])
    assert set(found.edges["change"]) == {UNKNOWN}
    assert found.only_in_some == ["B", "X"]
    assert found.expected_changes("two") == (0.0, 0.0)
    assert "cannot be compared" in comparison_sentences(found)[-1]
    assert render_comparison(found, "x")


def test_settings_that_differ_are_listed() -> None:
    runs = [example_run(), example_run()]
    runs[1].run["settings"] = {**runs[1].run["settings"], "max_parents": 3}
    found = compare(runs, ["a", "b"])
    assert found.settings == [("max parents", ("2", "3"))]
    assert "come from the settings" in " ".join(comparison_sentences(found))


class Unwritable:
    """As an emission without a form in files."""

    def to_dict(self) -> dict[str, object]:
        raise DataError("it cannot be written")

    def __repr__(self) -> str:
        return "Unwritable()"


def test_settings_inside_objects_are_listed_one_by_one() -> None:
    """As a learner holds them, and as its folder does; journals make no difference."""
    runs = [example_run(), example_run()]
    for run, candidates in zip(runs, (5, 10)):
        search = am.Search(candidates=candidates, journal=f"{candidates}.sqlite")
        run.run["settings"] = {**run.run["settings"], "search": search}
        run.run["settings"]["emission"] = Unwritable()
    runs[1].run["settings"]["search"] = runs[1].run["settings"]["search"].to_dict()
    assert compare(runs, ["a", "b"]).settings == [("search candidates", ("5", "10"))]
    assert runs[0].setting("candidates") == 5


def test_page_is_safe_and_repeats_itself() -> None:
    names = ["</svg><script>alert(1)</script>", '"><img src=x>']
    run = example_run({names[0]: [], names[1]: [names[0]]}, truth=False)
    found = compare([run, run], ["<b>", "&amp;"])
    html = render_comparison(found, "<i>title</i>")
    for text in ("<script>alert", "<img", "<b>", "<i>"):
        assert text not in html
    assert html == render_comparison(found, "<i>title</i>")
    assert len(html) < 300_000


def test_comparison_needs_two_runs_with_names_of_their_own() -> None:
    with pytest.raises(DataError, match="at least two"):
        compare([example_run()], ["a"])
    with pytest.raises(DataError, match="name of its own"):
        compare([example_run(), example_run()], ["a", "a"])


def test_the_command_writes_a_page_and_a_table(two_runs: tuple[Run, Run], tmp_path: Path) -> None:
    for name, run in zip(("control", "treated"), two_runs):
        save_run(replace(run), tmp_path / name, page=write_report)
    folders = (tmp_path / "control", tmp_path / "treated")
    result = invoke("compare", *folders, "-o", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["names"] == ["control", "treated"]
    assert summary["changes"]["treated"]["gained"] == 1
    table = pd.read_csv(tmp_path / "out" / "edges.csv")
    assert set(table["run"]) == {"treated"}
    assert "treated against control" in (tmp_path / "out" / "compare.html").read_text()
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"compare.html", "edges.csv"}
    again = invoke("compare", *folders, "-o", tmp_path / "out")
    assert_refused(again, 2, "--force")
    assert invoke("compare", *folders, "-o", tmp_path / "out", "--force").exit_code == 0


def test_the_command_refuses_what_it_cannot_compare(tmp_path: Path) -> None:
    save_run(example_run(), tmp_path / "a")
    (tmp_path / "empty").mkdir()
    out = ("-o", tmp_path / "out")
    assert_refused(invoke("compare", tmp_path / "a", *out), 2, "at least two")
    pair = (tmp_path / "a", tmp_path / "a")
    assert_refused(invoke("compare", *pair, *out, "--names", "x"), 2, "1 names for 2 runs")
    assert_refused(invoke("compare", *pair, *out, "--names", "x,x"), 2, "name of its own")
    assert_refused(invoke("compare", tmp_path / "a", tmp_path / "empty", *out), 3, "network.json")
    assert not (tmp_path / "out").exists()


def test_fits_without_edges_are_compared_by_their_fit() -> None:
    run = example_run({"FEV1": []}, truth=False, n_weak=0)
    record = {"log_evidence": -10.0, "n_parameters": 1, "aic": 22.0}
    runs = [replace(run, run={**run.run, **record, "aic": aic}) for aic in (22.0, 20.5)]
    said = " ".join(comparison_sentences(compare(runs, ["one", "two"])))
    assert "Neither one nor two has an edge." in said
    assert "two has ln L -10.00 with 1 parameter, AIC 20.50" in said


def test_differences_have_probabilities_also_below_the_thresholds() -> None:
    empty = {"A": [], "B": [], "C": []}
    runs = [
        small_run(empty, {("A", "B"): 0.4, ("B", "C"): 0.1}),
        small_run(empty, {("A", "B"): 0.05, ("B", "C"): 0.3}),
    ]
    found = compare(runs, ["control", "treated"])
    lost, gained = 0.4 * 0.95, 0.3 * 0.9
    said = " ".join(comparison_sentences(found))
    assert f"about {0.05 * 0.6 + gained:.1f} edges were gained" in said
    page = render_comparison(found, "two")
    table = page[page.index("Likeliest differences") :]
    for edge, run, sure in (("A → B", "control", lost), ("B → C", "treated", gained)):
        row = table[table.index(edge) : table.index("</tr>", table.index(edge))]
        assert f"<td>{run}</td><td>{sure:.2f}</td>" in row


def smooth_run(shift: float, half_width: float = 0.2) -> Run:
    """A moves B by so many standard deviations."""
    drifts = {"A": am.Drift(0.5, 1.0), "B": am.Drift(0.5, 1.0, linear={"A": 0.5 * shift})}
    ends = (shift, shift - half_width, shift + 2.0 * half_width)
    edges = pd.DataFrame(
        [("A", "B", 0.9, True, "raises" if shift > 0.0 else "lowers", *ends)],
        columns=[
            *("parent", "child", "probability", "in_graph", "effect"),
            *("shift", "shift_lower", "shift_upper"),
        ],
    )
    families = pd.DataFrame(columns=["node", "parents", "score", "probability"])
    return Run(Network({"A": [], "B": ["A"]}, drifts=drifts), edges=edges, families=families)


def test_shifts_of_continuous_nodes_are_subtracted() -> None:
    first = smooth_run(0.5)
    found = compare([first, smooth_run(1.2), smooth_run(0.6)], ["one", "two", "three"])
    rows = found.edges.set_index("run")
    assert rows["change"].to_dict() == {"two": CHANGED, "three": KEPT}
    assert rows.loc["two", "shift_change"] == pytest.approx(0.7)
    # half widths of .2 below and .4 above in each run, independent of each other
    assert rows.loc["two", "shift_lower"] == pytest.approx(0.7 - np.hypot(0.2, 0.4))
    assert rows.loc["two", "shift_upper"] == pytest.approx(0.7 + np.hypot(0.4, 0.2))
    assert rows["fold_ratio"].isna().all()
    assert "shift +0.7 (+0.25 to +1.1)" in render_comparison(found, "Two tables")
