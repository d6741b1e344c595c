"""The report page as text and data: what it says, what it leaves out, and that it is safe.

What it does in a browser is tested in tests/browser.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError
from asterism.learning.em.saved_fit import fit_run
from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.report import page_data as limits
from asterism.report.page import (
    render,
    write_report,
)
from asterism.report.page_data import COURSE_VALUES, fit_sentence, json_for_script, page_data
from asterism.report.page_frame import methods_paragraph, references
from asterism.results.courses import Levels, from_dataset, levels, measurements
from asterism.results.edge_effects import (
    effect,
    rate_ratios,
    rates_by_parent_state,
)
from asterism.results.run import Run, rate_intervals
from asterism.results.summary import probability_text, sentences, settings_rows
from tests.example_runs import (
    TRUE_PARENTS,
    example_network,
    example_run,
    large_run,
    with_rate_intervals,
)


def embedded(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', html)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


@pytest.mark.smoke
def test_page_is_one_file_without_outside_addresses(tmp_path: Path) -> None:
    path = write_report(example_run(), tmp_path / "report.html")
    html = path.read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", html)
    assert "default-src 'none'" in html
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_size < 300_000


def test_same_run_same_page() -> None:
    assert render(example_run()) == render(example_run())


def test_names_cannot_leave_their_place() -> None:
    names = [
        "</script><script>alert(1)</script>",
        '"><img src=x>',
        "{{ 7 * 7 }}",
        "\u2028 & é",
    ]
    with contextlib.suppress(UnicodeEncodeError):  # with pyarrow, pandas holds no half characters
        names.append(pd.Series(["\u2028 & \ud800"])[0])
    run = example_run({name: [names[i - 1]] if i else [] for i, name in enumerate(names)})
    html = render(run)
    assert "<script>alert(1)" not in html
    assert "<img src=x>" not in html
    assert "49" not in html[: html.index("report-data")]
    assert [node["name"] for node in embedded(html)["nodes"]] == names


def test_json_holds_half_characters() -> None:
    assert json.loads(json_for_script({"name": "\ud800"}).encode().decode()) == {"name": "\ud800"}


def test_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_for_script({"p": float("nan")})


def test_summary_says_what_how_much_and_how_sure() -> None:
    run = example_run()
    said = sentences(run)
    assert len(said) == 4
    assert said[0] == (
        "From 253 measurements in 4 trajectories, a network was learned among 8 nodes with 9 edges."
    )
    surest = run.edge_table.iloc[0]
    assert f"{surest['parent']} → {surest['child']}" in said[1]
    expected = run.edge_table["probability"].head(10).sum()
    assert f"the ten most probable contain about {expected:.1f} true ones" in said[2]
    assert "assumes that the rest of the graph is as learned" in said[3]
    assert "tends to be too sure" in said[3]


def test_a_small_prior_is_not_said_to_be_nothing() -> None:
    run = example_run()
    table = run.edge_table.assign(prior=0.0025, bayes_factor=460.0)
    said = " ".join(sentences(replace(run, edges=table)))
    assert "Before the data an edge had a probability of 0.0025." in said


def test_required_edges_are_no_findings() -> None:
    run = example_run()
    surest = run.edge_table.iloc[0]
    edge = (str(surest["parent"]), str(surest["child"]))
    for required in ([edge], (list(edge),)):
        prior = am.StructurePrior(required=required)
        # as version 0.2 wrote it, as files hold it, and as learners do
        for settings in ({"required": required}, *({"structure_prior": p} for p in (
            {"edge": "sparse", "required": required}, prior))):  # fmt: skip
            run.run["settings"] = settings
            assert f"{edge[0]} → {edge[1]} (required" in sentences(run)[1]
    run.run["settings"] = {"required": "a graph"}
    assert "required" not in sentences(run)[1]


def test_a_learner_says_that_its_paths_were_complete_and_what_was_required(tmp_path: Path) -> None:
    network = am.glauber({"a": [], "b": ["a"], "c": []}, b=1.0)
    paths = am.simulate(network, 10, duration=5.0, seed=0)
    known = am.StructurePrior(required=[("c", "a")])
    learner = am.StructureLearner(structure_prior=known, n_jobs=1).fit(paths)
    for run in (Run.from_learner(learner), am.load(learner.save(tmp_path / "RUN"))):
        said = sentences(run)
        assert "c → a (required" in said[1]
        assert "each probability is exact" in said[-1]


def test_complete_paths_need_no_caution_about_the_rest_of_the_graph() -> None:
    run = example_run()
    run.run["complete_data"] = True
    assert "exact under the model" in sentences(run)[-1]


def test_summary_of_a_given_or_an_empty_network() -> None:
    given = sentences(Run(example_network(TRUE_PARENTS)))
    assert given[0] == "The courses of 8 nodes were inferred in a given network with 9 edges."
    weighed = Run(example_network(TRUE_PARENTS), run={"log_evidence": -63.0859})
    assert "is -63.0859." in sentences(weighed)[1]
    assert "not learned" in given[2]
    empty = example_run({"A": [], "B": []}, truth=False, n_weak=0)
    assert "No edge reaches the threshold" in sentences(empty)[1]
    assert render(empty)


def test_only_exact_evidence_invites_to_compare_networks() -> None:
    network = example_network(TRUE_PARENTS)
    said = {
        method: sentences(Run(network, run={"log_evidence": -1.0, "settings": {"method": method}}))
        for method in ("exact", "star")
    }
    assert "networks can be compared" in said["exact"][1]
    assert "too rough" in said["star"][1]


def test_what_rises_is_said_of_words_in_alphabetical_order() -> None:
    single, pushed_up = [[0, 1], [1, 0]], [[[0, 1], [2, 0]], [[0, 2], [1, 0]]]

    def surest(*labels: str) -> str:
        network = Network(
            {"A": [], "B": ["A"]},
            {"A": single, "B": pushed_up},
            states=dict.fromkeys("AB", labels),
        )
        run = example_run({"A": [], "B": ["A"]}, truth=False, n_weak=0)
        return sentences(replace(run, network=network))[1]

    assert "; B is well more often when A is well)" in surest("ill", "well")
    assert "raises)" in surest("low", "high")
    assert "raises)" in surest("0", "1")


@pytest.mark.parametrize(
    ("probability", "text"), [(1.0, "1.00"), (0.9999999, ">0.99"), (0.5, "0.50"), (0.994, "0.99")]
)
def test_rounding_makes_no_certainty(probability: float, text: str) -> None:
    assert probability_text(probability) == text


def test_page_data_agrees_with_the_run() -> None:
    run = example_run()
    data = page_data(run)
    names = [node["name"] for node in data["nodes"]]
    assert names == list(run.network.nodes)
    table = run.edge_table
    assert len(data["edges"]) == len(table)
    for edge, row in zip(data["edges"], table.itertuples(index=False)):
        assert (names[edge["from"]], names[edge["to"]]) == (row.parent, row.child)
        assert edge["p"] == pytest.approx(row.probability, abs=1e-6)
        assert ("rates" in edge) == row.in_graph
        assert edge["true"] == ((row.parent, row.child) in (run.truth or []))
    heat = data["heatmap"]
    i, j = (heat["nodes"].index(names.index(name)) for name in ("SWI5", "GAL80"))
    assert heat["z"][i][j] == pytest.approx(run.edge_probabilities.loc["SWI5", "GAL80"], abs=1e-4)
    assert data["truth"]["scores"] == {k: round(v, 4) for k, v in (run.scores() or {}).items()}


def test_courses_hold_probabilities_and_measurements() -> None:
    run = example_run()
    data = page_data(run)["courses"]
    assert run.posterior is not None
    assert run.observations is not None
    found = from_dataset(run.posterior)
    n = [page_data(run)["nodes"][i]["name"] for i in data["nodes"]].index("GAL4")
    got = np.array(data["p"][2][n]) / 1000
    np.testing.assert_allclose(got.T, found.of(2, found.nodes.index("GAL4"), 2)[1], atol=6e-4)
    own = run.observations.query("trajectory == 3 and node == 'GAL4'").sort_values("time")
    np.testing.assert_allclose(data["measured"][2][n][0], own["time"], rtol=1e-4)
    np.testing.assert_allclose(data["measured"][2][n][1], own["value"], rtol=1e-3)


def test_levels_are_posterior_weighted_moments() -> None:
    run = example_run()
    assert run.posterior is not None
    assert run.observations is not None
    found = from_dataset(run.posterior)
    seen = measurements(run.observations, run.network, found.trajectories)
    got = levels(seen, found, "CBF1", 2)
    assert got is not None
    column = found.nodes.index("CBF1")
    weight, total, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for row in run.observations.query("node == 'CBF1'").itertuples():
        times, block = found.of(found.trajectories.index(row.trajectory), column, 2)
        p = block[int(np.argmin(np.abs(times - row.time)))]
        weight, total = weight + p, total + p * row.value
        square = square + p * row.value**2
    mean = total / weight
    np.testing.assert_allclose(got.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(got.spread, np.sqrt(square / weight - mean**2), rtol=1e-6)


def test_band_holds_its_share_of_a_mixture() -> None:
    """Also where two levels are equally likely and no normal distribution would do."""
    level = Levels(np.array([2.0, 8.0]), np.array([0.5, 1.0]))
    weights = np.array([[1.0, 0.0], [0.5, 0.5], [0.1, 0.9]])
    rng = np.random.default_rng(0)
    for share in (0.05, 0.95):
        found = level.quantile(weights, share)
        for row, value in zip(weights, found):
            state = rng.choice(2, size=200_000, p=row)
            drawn = rng.normal(level.mean[state], level.spread[state])
            assert (drawn < value).mean() == pytest.approx(share, abs=0.003)


def test_measured_labels_become_state_numbers() -> None:
    run = example_run(states=("well", "ill", "dead"), labels=True)
    data = page_data(run)["courses"]
    assert data["levels"] == [None] * 8
    values = {v for trajectory in data["measured"] for _, what in trajectory for v in what}
    assert values == {0.0, 1.0, 2.0}


def test_large_runs_are_cut_with_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    data = page_data(large_run(120))
    assert len(data["layout"]) < 240
    assert len(data["heatmap"]["nodes"]) == limits.HEATMAP_NODES
    assert sum("most probable" in notice for notice in data["notices"]) == 1
    assert len(data["edges"]) <= limits.LISTED_EDGES
    assert all(e["in_graph"] or i < limits.LISTED_EDGES for i, e in enumerate(data["edges"]))
    n_values = sum(len(line) for t in data["courses"]["p"] for node in t for line in node)
    assert n_values <= COURSE_VALUES


def test_of_very_many_nodes_some_have_courses(monkeypatch: pytest.MonkeyPatch) -> None:
    from asterism.report import page_data as module

    run = large_run(120)
    whole = page_data(run)
    monkeypatch.setattr(module, "COURSE_NODES", 60)
    monkeypatch.setattr(module, "LISTED_EDGES", 50)
    some = page_data(run)
    assert len(some["edges"]) == 50
    assert len(some["courses"]["nodes"]) == len(some["courses"]["levels"]) == 60
    assert any("Courses are shown for 60 of 120 nodes" in notice for notice in some["notices"])
    assert len(some["fit"]) == len(whole["fit"])
    for one, other in zip(some["fit"], whole["fit"]):
        node = some["courses"]["nodes"][one["node"]]
        assert node == whole["courses"]["nodes"][other["node"]]
        assert some["courses"]["levels"][one["node"]] == whole["courses"]["levels"][other["node"]]
        measured = some["courses"]["measured"][0][one["node"]]
        assert measured == whole["courses"]["measured"][0][other["node"]]
        assert len(some["courses"]["p"][0][one["node"]]) == 2


def test_fit_counts_measurements_inside_the_band() -> None:
    """Against a plain loop; and values far from both levels are noticed."""
    run = example_run()
    assert run.posterior is not None
    assert run.observations is not None
    found = from_dataset(run.posterior)
    seen = measurements(run.observations, run.network, found.trajectories)
    entry = page_data(run)["fit"][1]
    level = levels(seen, found, "CBF1", 2)
    assert level is not None
    inside = total = 0
    for row in run.observations.query("node == 'CBF1'").itertuples():
        times, block = found.of(found.trajectories.index(row.trajectory), 1, 2)
        weights = block[[int(np.argmin(np.abs(times - row.time)))]]
        low, high = (float(level.quantile(weights, q)[0]) for q in (0.05, 0.95))
        inside, total = inside + (low <= row.value <= high), total + 1
    assert (entry["inside"], entry["total"], entry["poor"]) == (inside, total, False)
    rng = np.random.default_rng(0)
    spoiled = run.observations.copy()
    own = spoiled["node"] == "CBF1"
    spoiled.loc[own, "value"] = np.where(rng.uniform(size=own.sum()) < 0.25, 9.0, 0.0)
    assert "No node holds clearly fewer" in fit_sentence(page_data(run)["fit"])
    assert page_data(replace(run, observations=spoiled))["fit"][1]["inside"] < entry["total"]


def test_fit_of_measured_states_counts_the_likeliest() -> None:
    run = example_run(states=("well", "ill", "dead"), labels=True)
    entries = page_data(run)["fit"]
    assert all(entry["states"] and not entry["poor"] for entry in entries)
    assert "likeliest state" in fit_sentence(entries)
    assert run.posterior is not None
    assert run.observations is not None
    found = from_dataset(run.posterior)
    right = 0
    for row in run.observations.query("node == 'SWI5'").itertuples():
        times, block = found.of(found.trajectories.index(row.trajectory), 0, 3)
        likeliest = block[int(np.argmin(np.abs(times - row.time)))].argmax()
        right += ("well", "ill", "dead")[likeliest] == row.value
    assert entries[0]["inside"] == right


def test_poor_fits_are_counted_in_words() -> None:
    entry = {"states": False, "total": 100, "poor": True, "inside": 40}
    assert "1 node holds clearly fewer" in fit_sentence([entry])
    assert "2 nodes hold clearly fewer" in fit_sentence([entry, entry])
    assert fit_sentence([]) == ""


def test_intervals_of_rates_and_what_a_learner_says_of_edges_reach_the_page() -> None:
    run = with_rate_intervals(example_run(), width=2.0)
    data = page_data(run)
    names = [node["name"] for node in data["nodes"]]
    family = data["rates"][str(names.index("FKH2"))]
    assert len(family["rows"]) == 4
    for row in family["rows"]:
        assert row["low"][0][1] == pytest.approx(row["r"][0][1] / 2, rel=1e-3)
        assert row["high"][1][0] == pytest.approx(row["r"][1][0] * 2, rel=1e-3)
        assert row["low"][0][0] is None
    assert data["heatmap"]["prior"] == 0.125
    first = data["edges"][0]
    assert (first["prior"], first["bf"], first["fold"], first["error"]) == (0.125, 12.5, 2.5, 0.01)
    assert "The orange line marks the prior" in render(run)
    varied = run.edge_table.assign(prior=np.linspace(0.1, 0.2, len(run.edge_table)))
    assert page_data(replace(run, edges=varied))["heatmap"]["prior"] is None


def test_interval_of_a_fold_change_agrees_with_sampled_rates() -> None:
    """Two parents: the rates of four configurations vary independently, log-normally."""
    network = pushed(1.0, -0.5)
    width, rng = 1.5, np.random.default_rng(0)
    run = with_rate_intervals(example_run(truth=False), width=width)
    own = replace(run, network=network, edges=None, families=None, rates=None, posterior=None)
    own = with_rate_intervals(replace(own, observations=None), width=width)
    found = {
        (fold.source, fold.target): fold
        for fold in rate_ratios(network, "C", "P0", rate_intervals(own.rates, own.run))
    }
    rates = network.rates["C"]
    assert isinstance(rates, np.ndarray)
    spread = np.log(width) / 1.959964
    drawn = rates[..., 0, 1] * np.exp(spread * rng.normal(size=(200_000, 2, 2)))
    ratio = drawn[:, 1].mean(axis=1) / drawn[:, 0].mean(axis=1)
    low, high = np.quantile(ratio, [0.025, 0.975])
    fold = found[0, 1]
    assert fold.ratio == pytest.approx(rates[1, :, 0, 1].mean() / rates[0, :, 0, 1].mean())
    assert fold.lower == pytest.approx(low, rel=0.03)
    assert fold.upper == pytest.approx(high, rel=0.03)
    bare = rate_ratios(network, "C", "P0")
    assert all(np.isnan(fold.lower) for fold in bare)


def test_the_page_starts_where_it_is_told() -> None:
    data = page_data(example_run(), threshold=0.3, node="GAL4")
    assert (data["threshold"], data["first_node"]) == (0.3, 2)
    assert 'value="0.3"' in render(example_run(), threshold=0.3)
    with pytest.raises(DataError, match="no node 'X'"):
        page_data(example_run(), node="X")


def test_methods_are_written_from_the_record() -> None:
    run = example_run()
    run.run.update(prior={"shape": 5.0, "rate": 2.5}, versions={"asterism": "0.2.0"})
    said = methods_paragraph(run)
    assert said.startswith("We learned a continuous-time Bayesian network of 8 nodes with 2 states")
    for part in (
        "253 measurements in 4 trajectories",
        "star approximation",
        "at most 2 parents",
        "(shape 5, rate 2.5)",
        "9 edges",
        "converged.",
        "Asterism 0.2.0 with random seed 0",
    ):
        assert part in said
    assert any("Linzner" in text for text in references(run))
    assert said in unescape(render(run))
    bare = methods_paragraph(Run(example_network({"A": []})))
    assert bare == (
        "We used a continuous-time Bayesian network of 1 node with 2 states. "
        "Computations used Asterism."
    )
    run.run["complete_data"] = True
    assert any("Nodelman" in text for text in references(run))


def test_methods_name_what_was_used_not_what_was_asked_for() -> None:
    run = example_run()
    run.run["command"] = {"name": "learn", "method": "auto"}
    run.run["settings"] = {"method": "sample"}
    run.run.update(chains={"chains": 4, "draws": 1280, "edges": []})
    run.run["prior"] = {"shape": 5.0, "rate": 2.0, "rates": {"GAL4": 1.5, "SWI5": 3.0}}
    said = methods_paragraph(run)
    for part in (
        "inferred by Markov chain Monte Carlo over paths",
        "learned by Markov chain Monte Carlo over graphs, rates and paths",
        "averages over 4 chains of 1,280 draws each",
        "(shape 5, rate 1.5 to 3, by node)",
    ):
        assert part in said
    assert "auto" not in said
    obs = am.Observations.from_frame(
        pd.DataFrame({"trajectory": [0, 0, 1, 1], "time": [0.0, 1.0, 0.0, 1.0], "A": list("abba")})
    )
    fitted = fit_run(am.ParameterLearner({"A": []}).fit(obs), {"command": {"method": "auto"}})
    assert "by exact inference on the joint chain" in methods_paragraph(fitted)


def test_page_of_one_node_has_no_parts_about_edges() -> None:
    html = render(example_run({"A": []}, truth=False, n_weak=0))
    for part in ("network", "edges", "heatmap", "threshold-bar"):
        assert f'id="{part}"' not in html
    assert "trajectories, the rates of A were learned. There is no other node" in html
    assert 'id="rates"' in html
    assert 'id="courses"' in html


def test_page_without_optional_parts() -> None:
    html = render(Run(example_network({"A": [], "B": ["A"]})))
    assert 'id="threshold"' not in html
    assert 'id="course-chart"' not in html
    assert 'id="roc-chart"' not in html
    assert "Not recorded." in html


def test_not_converged_is_said_at_the_top() -> None:
    run = example_run()
    run.run.update(converged=False, stop_reason="Stopped after 200 sweeps; raise max_sweeps.")
    html = render(run)
    assert html.index("Not converged.") < html.index('id="network"')
    assert "raise max_sweeps" in html


# ---- effects -------------------------------------------------------------------------------


def test_a_run_of_the_command_is_described_by_its_flags() -> None:
    run = example_run()
    run.run.update(
        command={
            "name": "learn",
            "seed": 0,
            "max_parents": 2,
            "sort": False,
            "time": None,
            "nodes": [],
            "forbidden": [["A", "B"]],
            "quiet": True,
        },
        decisions=["Column 'hours' is the time (--time).", "x" * 500],
        emission={"A": "Gaussian(means=(3.8213788391, 8.70682913), scale=0.72)"},
    )
    groups = dict(settings_rows(run))
    assert groups["Settings of asterism learn"] == [
        ("--seed", "0"),
        ("--max-parents", "2"),
        ("--forbidden", "A->B"),
    ]
    assert "settings" not in groups
    assert groups["emission"] == [("A", "Gaussian(means=(3.821, 8.707), scale=0.72)")]
    html = render(run)
    assert "is the time (--time)." in html
    assert "x" * 500 in html, "a decision was cut short"
    assert "sha256:9f2d1c" in html


def test_a_run_of_the_library_is_described_by_its_settings() -> None:
    groups = dict(settings_rows(example_run()))
    assert ("max parents", "2") in groups["settings"]
    assert ("seed", "0") in groups["Run"]


def pushed(*pushes: float) -> Network:
    """A child whose parents P0, P1, … each push it up (positive) or down."""
    names = [f"P{i}" for i in range(len(pushes))]
    table = np.zeros((2,) * len(pushes) + (2, 2))
    for u in np.ndindex(*(2,) * len(pushes)):
        drive = float(np.dot(pushes, np.array(u) - 0.5))
        table[(*u, 0, 1)], table[(*u, 1, 0)] = np.exp(drive), np.exp(-drive)
    single = np.array([[0.0, 1.0], [1.0, 0.0]])
    return Network(
        {**{name: [] for name in names}, "C": names}, {**dict.fromkeys(names, single), "C": table}
    )


def test_effects_have_the_sign_of_the_push() -> None:
    network = pushed(1.0, -0.5, 0.0)
    assert [effect(network, "C", f"P{i}") for i in range(3)] == ["raises", "lowers", "none"]


def test_interaction_without_main_effect_is_mixed() -> None:
    table = np.zeros((2, 2, 2, 2))
    for a, b in np.ndindex(2, 2):
        table[a, b, 0, 1], table[a, b, 1, 0] = (2.0, 0.5) if a == b else (0.5, 2.0)
    single = [[0, 1], [1, 0]]
    network = Network({"A": [], "B": [], "C": ["A", "B"]}, {"A": single, "B": single, "C": table})
    assert effect(network, "C", "A") == "mixed"


def test_absorbing_states_have_effects_too() -> None:
    single = [[0, 1], [1, 0]]
    table = [[[0, 0], [1, 0]], [[0, 1], [0, 0]]]
    network = Network({"A": [], "B": ["A"]}, {"A": single, "B": table})
    assert effect(network, "B", "A") == "raises"


def test_summary_rates_agree_with_their_expanded_table() -> None:
    names = ["P0", "P1", "P2"]
    summary = SummaryRates(
        {"P0": [0, 1], "P1": [-1, 1], "P2": [0, 2]},
        [[[0, 1.0 + s], [2.0 / (1 + s), 0]] for s in range(6)],
    )
    single = [[0, 1], [1, 0]]
    parents = {**{name: [] for name in names}, "C": names}
    short = Network(parents, {**dict.fromkeys(names, single), "C": summary})
    full = Network(parents, {**dict.fromkeys(names, single), "C": summary.expand()})
    for name in names:
        np.testing.assert_allclose(
            rates_by_parent_state(short, "C", name), rates_by_parent_state(full, "C", name)
        )
        assert effect(short, "C", name) == effect(full, "C", name) == "raises"
    one, other = short.configurations("C", 64), full.configurations("C", 64)
    assert one is not None
    assert other is not None
    assert [labels for labels, _ in one] == [labels for labels, _ in other]
    assert short.configurations("C", 7) is None


def test_exogenous_nodes_are_said_to_be_given() -> None:
    network = Network(
        {"drug": [], "B": ["drug"]},
        {"drug": None, "B": [[[0, 1], [2, 0]], [[0, 3], [1, 0]]]},
        {"drug": ["no", "yes"], "B": ["off", "on"]},
    )
    data = page_data(Run(network))
    assert data["rates"]["0"]["exogenous"] is True
    assert data["rates"]["1"]["rows"][1] == {"u": ["yes"], "r": [[-3.0, 3.0], [1.0, -1.0]]}


def test_history_may_come_as_a_list_or_a_table() -> None:
    network = example_network({"A": [], "B": ["A"]})
    listed = Run(network, history=[-3.0, -2.0])  # type: ignore[arg-type]
    assert page_data(listed)["history"] == {"objective": [-3.0, -2.0]}
    table = Run(network, history=pd.DataFrame({"sweep": [1, 2], "note": ["a", "b"]}))
    assert page_data(table)["history"] == {"sweep": [1.0, 2.0]}
