"""The demonstration: its data come from the script in the repository, and it never destroys."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest

from asterism.report.bundled_data import demo_files
from tests.command_line import invoke

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "make_demo_data.py"


def test_bundled_data_are_what_the_script_makes(tmp_path: Path) -> None:
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    with demo_files() as files:
        pd.testing.assert_frame_equal(pd.read_csv(files.data), pd.read_csv(tmp_path / "cells.csv"))
        assert files.truth.read_text() == (tmp_path / "true_edges.csv").read_text()


@pytest.mark.smoke
def test_demo_finds_most_edges_and_says_where_the_report_is(tmp_path: Path) -> None:
    result = invoke("demo", "-o", tmp_path / "deep" / "RUN")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["edge", "probability", "in", "graph", "true"]
    assert "report.html" in lines[-1]
    record = json.loads((tmp_path / "deep" / "RUN" / "run.json").read_text())
    assert record["converged"] is True
    edges = pd.read_csv(tmp_path / "deep" / "RUN" / "edges.csv")
    with demo_files() as files:
        truth = set(pd.read_csv(files.truth).itertuples(index=False, name=None))
    chosen = set(edges[edges["in_graph"]][["parent", "child"]].itertuples(index=False, name=None))
    assert len(chosen & truth) >= 0.6 * len(truth)
    assert len(chosen - truth) <= 2


def test_existing_folder_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "RUN"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    refused = invoke("demo", "-o", folder)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert [p.name for p in folder.iterdir()] == ["precious.txt"]


def test_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asterism.learning.search.structure_learner.StructureLearner.fit", fail)
    result = invoke("demo", "-o", tmp_path / "RUN")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert not (tmp_path / "RUN" / "run.json").exists()


def test_demo_copies_its_tables_for_trying_things(tmp_path: Path) -> None:
    first = invoke("demo", "--tables", tmp_path / "here")
    assert first.exit_code == 0, first.output
    with demo_files() as files:
        assert (tmp_path / "here" / "cells.csv").read_bytes() == files.data.read_bytes()
    again = invoke("demo", "--tables", tmp_path / "here")
    assert again.exit_code == 2
    assert "--force" in again.output
    assert invoke("demo", "--tables", tmp_path / "here", "--force").exit_code == 0
