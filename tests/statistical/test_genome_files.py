"""Results, page and GraphML of a network of 20,000 nodes can be written and read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asterism.data.formats.graphml import read_graphml
from asterism.report.page import write_report
from asterism.results.folder import load, save_run
from tests.example_runs import genome_run

N_NODES = 2_000 if os.environ.get("ASTERISM_REDUCED") else 20_000


@pytest.mark.slow
def test_files_of_a_genome(tmp_path: Path) -> None:
    run = genome_run(N_NODES)
    folder = save_run(run, tmp_path / "RUN", page=write_report)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(page) < 4_000_000
    assert f"{N_NODES:,}" in page
    again = load(folder)
    assert again.network.parents == run.network.parents
    assert len(again.edge_table) == len(run.edge_table)
    graph = read_graphml(folder / "graph.graphml")
    assert len(graph.nodes) == N_NODES
