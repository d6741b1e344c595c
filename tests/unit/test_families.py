"""Enumeration of parent sets, and what the user may say about the graph beforehand."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import ModelError
from asterism.learning.search.settings import numbered_prior
from asterism.learning.search.structure_prior import (
    NumberedPrior,
    count_families,
    enumerate_families,
    family_rows,
    family_sizes,
    family_tuple,
)

NODES = ("A", "B", "C", "D", "E")


def numbered(max_parents: object = None, **known: object) -> NumberedPrior:
    """What is known of the nodes; every set of parents is as probable unless it says otherwise."""
    prior = am.StructurePrior(**{"edge": "uniform", **known})  # type: ignore[arg-type]
    return numbered_prior(NODES, max_parents, prior)  # type: ignore[arg-type]


@pytest.mark.parametrize("largest", range(5))
@pytest.mark.parametrize("required", [(), (7,), (2, 9)])
def test_every_allowed_set_once(largest: int, required: tuple[int, ...]) -> None:
    if largest < len(required):
        with pytest.raises(ModelError, match="required parents do not fit"):
            enumerate_families([1, 2, 4, 7, 9], largest, required)
        return
    pool = [1, 2, 4, 7, 9]
    rows = enumerate_families(pool, largest, required)
    expected = [
        c
        for size in range(largest + 1)
        for c in combinations(pool, size)
        if set(required) <= set(c)
    ]
    assert [family_tuple(r) for r in rows] == expected
    assert count_families(5, largest, len(required)) == len(rows)
    np.testing.assert_array_equal(family_sizes(rows), [len(c) for c in expected])
    assert rows.shape[1] == max(1, largest)


def test_more_parents_than_candidates() -> None:
    rows = enumerate_families([3, 5], 4)
    assert [family_tuple(r) for r in rows] == [(), (3,), (5,), (3, 5)]
    assert [family_tuple(r) for r in enumerate_families([], 2)] == [()]


def test_rows_from_plain_sets() -> None:
    np.testing.assert_array_equal(family_rows([(), (4, 1)]), [[-1, -1], [1, 4]])


def test_constraints_shape_the_families() -> None:
    prior = numbered(
        max_parents={"A": 1, "B": 3},
        exogenous=["E"],
        required=[("C", "B")],
        forbidden=[("D", "B"), ("B", "A"), ("A", "E")],
    )
    assert prior.children == [0, 1, 2, 3]
    assert {family_tuple(f) for f in prior.families(0)} == {(), (2,), (3,), (4,)}
    assert {family_tuple(f) for f in prior.families(1)} == {(2,), (0, 2), (2, 4), (0, 2, 4)}
    assert [family_tuple(f) for f in prior.families(4)] == [()]
    assert len(prior.families(2)) == 1 + 4 + 6
    assert [family_tuple(f) for f in prior.families(2, among=[0])] == [(), (0,)]
    for child in range(5):
        assert prior.n_families(child) == len(prior.families(child))
    assert prior.may_have(0, 2)
    assert not prior.may_have(0, 1)
    assert not prior.may_have(4, 1)


def test_the_fewest_parents() -> None:
    prior = numbered(
        max_parents=2,
        min_parents={"A": 1, "B": 2, "C": 1, "E": 1},
        exogenous=["E"],
        required=[("D", "C")],
    )
    assert {len(family_tuple(f)) for f in prior.families(0)} == {1, 2}
    assert {len(family_tuple(f)) for f in prior.families(1)} == {2}
    assert {family_tuple(f) for f in prior.families(2)} == {(3,), (0, 3), (1, 3), (3, 4)}
    assert {len(family_tuple(f)) for f in prior.families(3)} == {0, 1, 2}
    assert [family_tuple(f) for f in prior.families(4)] == [()]
    # a shortlist that is too short leaves the largest family it can make
    assert [family_tuple(f) for f in prior.families(1, among=[0])] == [(0,)]
    for child in range(5):
        assert prior.n_families(child) == len(prior.families(child))


def test_every_number_of_parents_can_be_equally_probable() -> None:
    prior = numbered(
        max_parents=3,
        edge="by_size",
        required=[("A", "B")],
        forbidden=[("C", "D")],
        probabilities={("E", "C"): 1.0 / (1.0 + np.exp(-0.5))},
    )
    for child, sizes in ((0, [0, 1, 2, 3]), (1, [1, 2, 3]), (3, [0, 1, 2, 3])):
        rows = prior.families(child)
        probability = np.exp(prior.log_prior(child, rows))
        for size in sizes:
            of_size = (rows >= 0).sum(axis=1) == size
            assert probability[of_size].sum() == pytest.approx(1.0)
            assert np.ptp(probability[of_size]) == 0.0
    pair = family_rows([(3, 4), (0, 3)])
    assert prior.log_prior(2, pair).tolist() == pytest.approx([0.5 - np.log(6), -np.log(6)])
    # a given graph is scored whatever the search may visit
    assert np.isfinite(prior.log_prior(1, family_rows([(), (2,), (0, 2, 3, 4)]))).all()


def test_edges_may_come_as_graph_or_table() -> None:
    graph = nx.DiGraph([("A", "B"), ("C", "D")])
    table = pd.DataFrame({"parent": ["A", "C"], "child": ["B", "D"]})
    for edges in (graph, table, [("A", "B"), ["C", "D"]]):
        assert numbered(required=edges).required == {1: (0,), 3: (2,)}


def test_log_odds_add_up_over_edges() -> None:
    rows = family_rows([(), (0,), (0, 2), (2, 3)])
    assert numbered().log_prior(1, rows).tolist() == [0, 0, 0, 0]
    scalar = numbered(edge=-2.0)
    assert scalar.log_prior(1, rows).tolist() == [0, -2, -4, -4]
    pairs = {("A", "B"): 1.5, ("C", "B"): -1.0, ("A", "C"): 9.0}
    expected = [0, 1.5, 0.5, -1.0]
    assert numbered(edge=pairs).log_prior(1, rows).tolist() == expected
    table = pd.DataFrame(np.nan, index=list("CA"), columns=["B"])
    table.loc["A", "B"], table.loc["C", "B"] = 1.5, -1.0
    assert numbered(edge=table).log_prior(1, rows).tolist() == expected
    values = np.zeros((5, 5))
    np.fill_diagonal(values, np.nan)  # the diagonal of a square table is not read
    square = pd.DataFrame(values, index=list(NODES), columns=list(NODES))
    square.loc["D", "B"] = 3.0
    assert numbered(edge=square).log_prior(1, rows)[-1] == 3.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"required": [("A", "B")], "forbidden": [("A", "B")]}, "'A' → 'B' is both required and"),
        ({"required": [("A", "B"), ("C", "B"), ("D", "B")]}, "'B' has 3 required parents"),
        ({"required": [("A", "B")], "max_parents": {"B": 0}}, "more than its max_parents=0"),
        ({"required": [("A", "B")], "exogenous": ["B"]}, "'B' is exogenous"),
        ({"required": [("A", "A")]}, "self-loops are not allowed"),
        ({"required": [("A", "X")]}, "required names 'X', which is not a node; the nodes are 'A'"),
        ({"forbidden": [("X", "A")]}, "forbidden names 'X'"),
        ({"forbidden": ["AB"]}, "forbidden holds 'AB', which is not a pair"),
        ({"required": pd.DataFrame({"from": ["A"]})}, "it needs parent and child"),
        ({"exogenous": ["X"]}, "exogenous names 'X'"),
        ({"exogenous": "A"}, "must be a list"),
        ({"max_parents": {"X": 1}}, "max_parents names 'X'"),
        ({"max_parents": -1}, "must be a whole number"),
        ({"max_parents": {"A": 1.5}}, "max_parents of 'A' must be a whole number"),
        ({"min_parents": True}, "min_parents must be a whole number"),
        ({"min_parents": {"X": 1}}, "min_parents names 'X'"),
        ({"min_parents": 3}, "'A' needs min_parents=3 and may have max_parents=2"),
        (
            {"min_parents": 2, "forbidden": [(p, "B") for p in "ACD"]},
            "'B' needs min_parents=2, but there is only 1 that may",
        ),
        ({"edge": float("nan")}, "edge_log_odds must be a finite number"),
        ({"edge": "likely"}, "prior of edges is 'likely'"),
        ({"edge": {("A", "B"): float("inf")}}, "'A' → 'B' must be a finite number"),
        ({"edge": {("A", "X"): 1.0}}, "edge_log_odds names 'X'"),
        (
            {"edge": pd.DataFrame({"B": [np.nan]}, index=["C"])},
            "'C' → 'B' must be a finite number",
        ),
        ({"edge": pd.DataFrame({"X": [0.0]}, index=["C"])}, "edge_log_odds names 'X'"),
        ({"edge": pd.DataFrame({"B": ["x"]}, index=["C"])}, "must hold numbers"),
        ({"edge": pd.DataFrame({"B": [1.0, 2.0]}, index=["C", "C"])}, "row twice"),
    ],
)
def test_contradictions_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        numbered(**settings)  # type: ignore[arg-type]
