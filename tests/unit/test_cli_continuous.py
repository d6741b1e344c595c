"""``asterism learn`` on tables whose columns move: what it decides, writes and shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import asterism as am
from asterism.commands.emissions import choose_emissions
from tests.command_line import assert_refused, invoke
from tests.unit.test_continuous_learner import table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("smooth")
    table(0.7).to_csv(place / "t.csv", index=False)
    (place / "stimuli.csv").write_text("name,trajectory,start,end\ndose,,0,10\n")
    return place


def learn(folder: Path, *flags: Any, name: str = "run") -> tuple[am.Run, dict[str, Any]]:
    result = invoke("learn", folder / "t.csv", "-o", folder / name, "--force", "--json", *flags)
    assert result.exit_code == 0, result.output
    return am.load(folder / name), json.loads(result.stdout)


def test_evidence_decides_and_everything_is_written(folder: Path) -> None:
    run, said = learn(folder)
    assert set(run.network.drifts) == set("ABC")
    assert {("A", "B"), ("B", "C")} <= set(run.network.graph.edges)
    text = " ".join(said["decisions"])
    assert "moving continuously" in text
    assert "--states" in text
    assert "until 10" in text
    kinds = run.run["kinds"]
    assert {own["kind"] for own in kinds.values()} == {"continuous"}
    assert all(own["continuous"] > own["jumps"] for own in kinds.values())
    edges = run.edge_table.set_index(["parent", "child"])
    assert edges.loc[("A", "B"), "shift"] > 0.0 > edges.loc[("B", "C"), "shift"]
    assert set(run.tables) == {"nodes", "targets"}
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "moves continuously" in page
    assert '"course":[[' in page
    assert invoke("report", folder / "run").exit_code == 0
    drawn = invoke("report", folder / "run", "--format", "svg", "--node", "A", "--force")
    assert drawn.exit_code == 0
    assert "no figure of a course" in drawn.stderr


def test_flags_set_the_kind_and_tell_stimuli(folder: Path) -> None:
    told = ("--states", "continuous", "--stimuli", folder / "stimuli.csv", "--null", 1)
    run, _ = learn(folder, *told, name="told")
    assert set(run.tables["targets"]["stimulus"]) == {"dose"}
    assert run.run["null"]["largest"][0] < 1.0
    one, _ = learn(folder, "--emission", "A=continuous", name="one")
    assert set(one.network.drifts) == set("ABC")
    jumping, _ = learn(folder, "--states", 2, "--method", "star", name="jumps")
    assert not jumping.network.drifts
    assert jumping.network.n_states == dict.fromkeys("ABC", 2)
    compared = invoke("compare", folder / "told", folder / "jumps", "-o", folder / "both")
    assert compared.exit_code == 0, compared.output


def test_columns_that_cannot_move_jump_beside_the_others(folder: Path) -> None:
    mixed = pd.read_csv(folder / "t.csv").assign(
        L=lambda t: (t["A"] > 10).map({True: "y", False: "n"}), C=3.0
    )
    mixed.to_csv(folder / "mixed.csv", index=False)
    result = invoke("learn", folder / "mixed.csv", "-o", folder / "text", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)["decisions"]
    assert any("moving continuously" in line for line in said)
    assert any("values are states" in line and line.endswith("'L'.") for line in said)
    assert any("never changes" in line and "'C'" in line for line in said)
    run = am.load(folder / "text")
    assert set(run.network.drifts) == set("AB")
    assert run.network.states["L"] == ("n", "y")
    set_outside = invoke("check", folder / "mixed.csv", "--json", "--exogenous", "L")
    assert any("read as noisy values" in x for x in json.loads(set_outside.stdout)["decisions"])
    told = am.Observations.from_frame(mixed).with_stimuli(pd.read_csv(folder / "stimuli.csv"))
    choice = choose_emissions(told, may_move=True)
    assert any("'L' cannot move" in line for line in choice.decisions)
    assert not any(isinstance(one, am.Continuous) for one in choice.emission.values())


@pytest.mark.parametrize("method", ["star", "sample"])
def test_the_method_does_not_change_the_kinds(folder: Path, method: str) -> None:
    flags = ("--method", method, "--minutes", 0.3, "--null", 0)
    result = invoke("learn", folder / "t.csv", "-o", folder / method, *flags)
    assert result.exit_code in (0, 4), result.output  # draws need not have converged
    assert set(am.load(folder / method).network.drifts) == set("ABC")


def test_clear_columns_of_both_kinds_are_learned_as_such(folder: Path) -> None:
    from tests.unit.test_mixed_learner import measured

    place = folder / "both_kinds.csv"
    measured(True, 10).to_frame().to_csv(place, index=False)
    result = invoke("learn", place, "-o", folder / "kinds", "--json")
    assert result.exit_code == 0, result.output
    run = am.load(folder / "kinds")
    assert {n: own["kind"] for n, own in run.run["kinds"].items()} == {
        n: "jumps" if n in "jk" else "continuous" for n in "jkxy"
    }
    assert set(run.network.drifts) == {"x", "y"}
    assert {("j", "y"), ("x", "k")} <= set(run.network.graph.edges)
    said = " ".join(json.loads(result.stdout)["decisions"])
    assert "unlike the other 2 columns" in said
    told = invoke("check", place, "--json", "--emission", "x=continuous")
    said = json.loads(told.stdout)["decisions"]
    assert any(text.startswith("As asked, continuous") and "'x'" in text for text in said)
    assert any("hidden states" in text and text.endswith("'j', 'k'.") for text in said)


def test_effects_between_kinds_are_said_in_the_words_of_the_states(folder: Path) -> None:
    from tests.unit.test_mixed_learner import labelled

    labelled("text").to_csv(folder / "words.csv", index=False)
    result = invoke("learn", folder / "words.csv", "-o", folder / "words", "--null", 0)
    assert result.exit_code == 0, result.output
    assert "standard deviations when j is on" in result.output
    assert "more often when x is high" in result.output


def test_misspelt_kinds_and_labels_are_refused(folder: Path) -> None:
    assert_refused(invoke("learn", folder / "t.csv", "--states", "smooth"), 2, "continuous")
    mixed = pd.read_csv(folder / "t.csv").assign(L="y")
    mixed.loc[::2, "L"] = "n"
    mixed.to_csv(folder / "labels.csv", index=False)
    result = invoke(
        "learn", folder / "labels.csv", "--emission", "L=continuous", "-o", folder / "x", "--quiet"
    )
    assert_refused(result, 2, "'L'", "text")


def test_a_learned_network_is_simulated_and_read_again(folder: Path) -> None:
    place = folder / "network.json"
    drifts = {
        "A": am.Drift(0.5, 0.4, noise_sd=0.1),
        "B": am.Drift(0.5, 0.3, linear={"A": 0.8}, noise_sd=0.1),
    }
    am.Network({"A": [], "B": ["A"]}, drifts=drifts).save(place)
    drawn = ("simulate", place, "-o", folder / "drawn.csv", "--trajectories", 4, "--json")
    result = invoke(*drawn, "--interval", 0.5, "--force")
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(folder / "drawn.csv")) == 4 * 21
    paths = invoke("simulate", place, "-o", folder / "paths.csv", "--paths")
    assert paths.exit_code == 0, paths.output
    refused = invoke("infer", folder / "drawn.csv", "--network", place, "-o", folder / "post")
    assert_refused(refused, 2, "am.infer")
    refused = invoke("fit", folder / "drawn.csv", "--network", place, "-o", folder / "fit")
    assert_refused(refused, 2, "continuous nodes")
    noisy = ("--emission", "gaussian:-1,1:0.2", "--force")
    assert_refused(invoke(*drawn, *noisy), 2, "--emission")
