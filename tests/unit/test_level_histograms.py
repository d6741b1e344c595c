"""Histograms of measurements with the levels counted in them."""

from __future__ import annotations

import pandas as pd

from asterism.report.level_histograms import MOST_NODES, level_histograms


def record(probability: float, means=(0.0, 3.0)):
    return {"levels": len(means), "chosen": True, "probability": probability, "means": list(means)}


def table(*nodes: str) -> pd.DataFrame:
    rows = [(0, float(i), node, str(i % 4)) for node in nodes for i in range(40)]
    return pd.DataFrame(rows, columns=["trajectory", "time", "node", "value"])


def test_every_bin_and_level_is_drawn_and_the_least_clear_comes_first():
    drawn = str(level_histograms({"A": record(0.99), "<B>": record(0.6)}, table("A", "<B>")))
    assert drawn.index("&lt;B&gt;: 2 levels, probability 0.60") < drawn.index("A: 2 levels")
    assert drawn.count("<line") == 4
    assert drawn.count("<rect") == 2 * 6
    assert "<B>" not in drawn


def test_nothing_is_drawn_without_levels_or_measurements():
    assert level_histograms({}, table("A")) is None
    assert level_histograms({"A": record(0.9)}, None) is None
    assert level_histograms({"A": record(0.9)}, table("B")) is None


def test_many_nodes_are_cut_and_a_constant_node_is_drawn():
    names = [f"N{i}" for i in range(MOST_NODES + 3)]
    drawn = str(level_histograms({n: record(0.5) for n in names}, table(*names)))
    assert drawn.count("<figure>") == MOST_NODES
    flat = table("A").assign(value="2")
    assert "nan" not in str(level_histograms({"A": record(1.0, (2.0, 2.0))}, flat))
