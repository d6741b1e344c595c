"""Edge metrics against counts done by hand, and every accepted way to write a truth."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from asterism.errors import AsterismError, DataError
from asterism.results import metrics

NODES = ["A", "B", "C"]
TRUTH = [("A", "B"), ("B", "C")]
#: ordered pairs by score: AB .9 (true), AC .8, BC .7 (true), then CA, CB, BA
TABLE = pd.DataFrame(
    [[np.nan, 0.9, 0.8], [0.1, np.nan, 0.7], [0.3, 0.2, np.nan]], index=NODES, columns=NODES
)


def long_table(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        [(p, c, table.loc[p, c]) for p in NODES for c in NODES if p != c],
        columns=["parent", "child", "probability"],
    )


def test_scores_match_counting_by_hand() -> None:
    scores = metrics.edge_scores(TABLE, TRUTH)
    # of 2·4 (true, false) comparisons one is lost: AC above BC
    assert scores["auroc"] == pytest.approx(7 / 8)
    # precision at the two hits: 1/1 and 2/3, each worth half the recall
    assert scores["aupr"] == pytest.approx(0.5 * (1 + 2 / 3))
    assert set(scores) == {"auroc", "aupr"}


def test_graph_adds_ppv_sensitivity_and_f1() -> None:
    scores = metrics.edge_scores(TABLE, TRUTH, graph=[("A", "B"), ("A", "C"), ("C", "A")])
    assert scores["ppv"] == pytest.approx(1 / 3)
    assert scores["se"] == pytest.approx(1 / 2)
    assert scores["f1"] == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))


def test_graph_without_edges_scores_zero() -> None:
    scores = metrics.edge_scores(TABLE, TRUTH, graph=[])
    assert (scores["ppv"], scores["se"], scores["f1"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "truth",
    [
        nx.DiGraph(TRUTH),
        {"B": ["A"], "C": ("B",), "A": []},
        pd.DataFrame(TRUTH, columns=["parent", "child"]),
        pd.DataFrame(TRUTH, columns=["source", "target"]),
        np.array(TRUTH).tolist(),
        SimpleNamespace(nodes=("A", "B", "C"), parents={"A": (), "B": ("A",), "C": ("B",)}),
    ],
)
def test_truth_may_be_written_in_many_ways(truth: object) -> None:
    assert metrics.edge_scores(TABLE, truth) == metrics.edge_scores(TABLE, TRUTH)


def test_long_table_gives_the_same_scores_and_absent_pairs_count_as_zero() -> None:
    rows = long_table(TABLE)
    expected = metrics.edge_scores(TABLE, TRUTH)
    assert metrics.edge_scores(rows, TRUTH, nodes=NODES) == expected
    assert metrics.edge_scores(rows.iloc[:4], nx.DiGraph(TRUTH)) == metrics.edge_scores(
        TABLE.where(TABLE > 0.25, 0.0), TRUTH
    )


def test_long_table_without_nodes_is_refused() -> None:
    with pytest.raises(DataError, match="nodes="):
        metrics.edge_scores(long_table(TABLE), TRUTH)


def test_row_and_column_order_do_not_matter() -> None:
    shuffled = TABLE.loc[["C", "A", "B"], ["B", "C", "A"]]
    assert metrics.edge_scores(shuffled, TRUTH) == metrics.edge_scores(TABLE, TRUTH)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([("A", "X"), ("Y", "B")], "'X', 'Y'"),
        ([], "no edge"),
        ([(p, c) for p in NODES for c in NODES if p != c], "every possible edge"),
        ([("A", "A")], "self-loop"),
        ([("A", "B", "C")], "not a pair"),
        (["AB"], "not a pair"),
        ({"B": "A"}, "list of names"),
        (pd.DataFrame({"from": ["A"], "to": ["B"]}), "parent and child"),
        (nx.Graph(TRUTH), "undirected"),
        (3, "type int"),
    ],
)
def test_bad_truth_is_refused_with_a_sentence(truth: object, message: str) -> None:
    with pytest.raises(AsterismError, match=message):
        metrics.edge_scores(TABLE, truth)


def test_unknown_node_in_the_graph_is_named() -> None:
    with pytest.raises(DataError, match="the graph names 'Z'"):
        metrics.edge_scores(TABLE, TRUTH, graph=[("A", "Z")])


def test_missing_probability_is_named() -> None:
    table = TABLE.copy()
    table.loc["A", "C"] = np.nan
    with pytest.raises(DataError, match="'A' → 'C'"):
        metrics.edge_scores(table, TRUTH)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("A", "B", 0.5), ("A", "B", 0.4)], "Row 1"),
        ([("A", "B", -0.5)], "Row 0"),
        ([("A", "Q", 0.5)], "'Q'"),
    ],
)
def test_bad_long_table_is_refused(rows: list[tuple[str, str, float]], message: str) -> None:
    table = pd.DataFrame(rows, columns=["parent", "child", "probability"])
    with pytest.raises(DataError, match=message):
        metrics.edge_scores(table, TRUTH, nodes=NODES)


def test_repeated_row_is_refused() -> None:
    table = pd.concat([TABLE, TABLE.iloc[[0]]])
    with pytest.raises(DataError, match="more than one row 'A'"):
        metrics.edge_scores(table, TRUTH)


def test_curves_enclose_the_areas() -> None:
    roc = metrics.roc_curve(TABLE, TRUTH)
    assert np.isfinite(roc.to_numpy()).all()
    heights = roc["true_positive_rate"].rolling(2).mean().to_numpy()[1:]
    area = np.sum(np.diff(roc["false_positive_rate"]) * heights)
    scores = metrics.edge_scores(TABLE, TRUTH)
    assert area == pytest.approx(scores["auroc"])

    pr = metrics.pr_curve(TABLE, TRUTH)
    assert np.isfinite(pr.to_numpy()).all()
    assert all(a <= b for a, b in pairwise(pr["recall"]))
    steps = np.diff(pr["recall"]) * pr["precision"].to_numpy()[1:]
    assert steps.sum() == pytest.approx(scores["aupr"])
