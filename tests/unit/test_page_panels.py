"""What the page is told about chains and counted levels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from asterism.report.page_data import LEVEL_NODES, page_data
from asterism.results.run import Run
from tests.example_runs import example_run

EDGE = {
    "parent": 'A"<b>',
    "child": "C",
    "probability": 0.314,
    "error": 0.0123,
    "r_hat": float("nan"),
    "traces": [[0.0, 0.5, 1.0], [0.25, 0.25, 0.25]],
}


def with_record(**record: Any) -> Run:
    run = example_run()
    return replace(run, run={**run.run, **record})


def test_chains_keep_their_traces_and_what_is_not_known_is_nothing() -> None:
    assert page_data(with_record())["chains"] is None
    assert page_data(with_record(chains={"draws": 3, "edges": []}))["chains"] is None
    chains = page_data(with_record(chains={"draws": 1200, "edges": [EDGE]}))["chains"]
    assert chains["draws"] == 1200
    (edge,) = chains["edges"]
    assert edge["traces"] == EDGE["traces"]
    assert (edge["error"], edge["r_hat"]) == (0.0123, None)


def counted(probability: float, means: tuple[float, ...] = (0.0, 3.0)) -> dict[str, Any]:
    return {"levels": len(means), "chosen": True, "probability": probability, "means": list(means)}


def histograms(levels: dict[str, Any], nodes: list[str], value: str | None = None) -> Any:
    rows = [(0, float(i), n, value or str(i % 4)) for n in nodes for i in range(40)]
    table = pd.DataFrame(rows, columns=["trajectory", "time", "node", "value"])
    return page_data(replace(with_record(levels=levels), observations=table))["levels"]


def test_every_measurement_is_in_a_bin_and_the_least_clear_node_comes_first() -> None:
    found = histograms({"A": counted(0.99), "<B>": counted(0.6)}, ["A", "<B>"])
    assert [one["title"].split(":")[0] for one in found] == ["<B>", "A"]
    assert all(sum(one["counts"]) == 40 and one["means"] == [0.0, 3.0] for one in found)
    assert found[0]["range"] == [0.0, 3.0]


def test_nothing_is_drawn_without_measurements_and_many_nodes_are_cut() -> None:
    assert histograms({"A": counted(0.9)}, ["B"]) is None
    names = [f"N{i}" for i in range(LEVEL_NODES + 3)]
    assert len(histograms({n: counted(0.5) for n in names}, names)) == LEVEL_NODES


def test_a_constant_node_has_a_range() -> None:
    (one,) = histograms({"A": counted(1.0, (2.0, 2.0))}, ["A"], "2")
    assert one["range"] == [2.0, 3.0]
