"""One meaning for the many ways to write down a set of edges.

A true network may come as a graph, a list of pairs, a table or a dictionary of parents; scores
come as a square table or as a long list. Here they all become plain pairs and plain matrices, and
names that do not fit are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import DataError, TooLargeError, quoted
from asterism.numerics.arrays import BoolArray, FloatArray

Edge = tuple[str, str]

#: headings under which a table of edges may name its two ends
EDGE_COLUMNS = (("parent", "child"), ("source", "target"))


@dataclass(frozen=True)
class ScoredPairs:
    """Every ordered pair that could be an edge, with its score. Self pairs are left out."""

    parents: tuple[str, ...]
    children: tuple[str, ...]
    scores: FloatArray
    """(parents, children) score of each pair."""
    possible: BoolArray
    """(parents, children) False where parent and child are the same node."""

    def flags(self, edges: Iterable[Edge], what: str) -> BoolArray:
        """For each possible pair, in the order of ``flat``, whether it is among the edges."""
        row = {name: i for i, name in enumerate(self.parents)}
        column = {name: i for i, name in enumerate(self.children)}
        known = set(row) | set(column)
        edges = list(edges)
        unknown = sorted({end for edge in edges for end in edge if end not in known}, key=str)
        if unknown:
            raise DataError(
                f"{what} names {quoted(unknown)}, unknown to the edge probabilities, "
                f"whose nodes are {quoted(sorted(known, key=str))}."
            )
        found = np.zeros(self.scores.shape, dtype=bool)
        for parent, child in edges:
            if parent == child:
                raise DataError(f"{what} holds the self-loop {parent!r} → {child!r}.")
            if parent not in row or child not in column:
                raise DataError(
                    f"{what} holds {parent!r} → {child!r}, a pair without an edge probability."
                )
            found[row[parent], column[child]] = True
        return found[self.possible]

    @property
    def flat(self) -> FloatArray:
        """The scores of all pairs that can be edges, one after the other."""
        return self.scores[self.possible]


def edge_list(edges: Any, what: str = "the truth") -> list[Edge]:
    """Pairs (parent, child) from a graph, Network, dict child -> parents, table or list."""
    if isinstance(edges, pd.DataFrame):
        return _edges_of_table(edges, what)
    if isinstance(edges, Mapping):
        return _edges_of_parents(edges, what)
    if hasattr(edges, "edges") and hasattr(edges, "is_directed"):
        if not edges.is_directed():
            raise DataError(f"{what} is an undirected graph; give a networkx.DiGraph.")
        return [(parent, child) for parent, child in edges.edges()]
    if isinstance(getattr(edges, "parents", None), Mapping):
        return _edges_of_parents(edges.parents, what)
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise DataError(
            f"{what} is of type {type(edges).__name__}; give a networkx.DiGraph, a Network, a list "
            "of (parent, child), a dict child -> parents, or a table with columns parent and child."
        )
    pairs = list(edges)
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise DataError(f"{what} holds {pair!r}, which is not a pair (parent, child).")
    return [(parent, child) for parent, child in pairs]


def named_nodes(edges: Any) -> list[str] | None:
    """All nodes of a truth that lists them, isolated ones included; None when it only has pairs."""
    if isinstance(edges, pd.DataFrame):
        return None
    if isinstance(edges, Mapping):
        return list(dict.fromkeys([*edges, *(end for e in edge_list(edges) for end in e)]))
    if hasattr(edges, "nodes"):
        return list(edges.nodes)
    return None


def scored_pairs(
    edge_probabilities: pd.DataFrame, nodes: Sequence[str] | None, truth: Any
) -> ScoredPairs:
    """Read a square table (rows = parents) or a long one (parent, child, probability)."""
    if not isinstance(edge_probabilities, pd.DataFrame):
        raise DataError(
            f"The edge probabilities are of type {type(edge_probabilities).__name__}; give a "
            "DataFrame with rows = parents and columns = children, or one with columns parent, "
            "child and probability."
        )
    if {"parent", "child", "probability"} <= set(map(str, edge_probabilities.columns)):
        return _pairs_of_long_table(edge_probabilities, nodes, truth)
    return _pairs_of_matrix(edge_probabilities, nodes)


def _pairs_of_matrix(table: pd.DataFrame, nodes: Sequence[str] | None) -> ScoredPairs:
    if nodes is not None:
        absent = [name for name in nodes if name not in table.index or name not in table.columns]
        if absent:
            raise DataError(f"The edge probabilities have no row or no column {quoted(absent)}.")
        table = table.loc[list(nodes), list(nodes)]
    parents, children = tuple(table.index), tuple(table.columns)
    for names, where in ((parents, "row"), (children, "column")):
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1}, key=str)
            raise DataError(f"The edge probabilities have more than one {where} {quoted(twice)}.")
    scores = table.to_numpy(dtype=np.float64, na_value=np.nan)
    possible = np.array([[p != c for c in children] for p in parents], dtype=bool)
    possible = possible.reshape(len(parents), len(children))
    bad = np.argwhere(possible & ~np.isfinite(scores))
    if len(bad):
        parent, child = parents[bad[0][0]], children[bad[0][1]]
        raise DataError(
            f"The probability of {parent!r} → {child!r} is not a finite number; pairs that were "
            "not scored cannot be judged."
        )
    return ScoredPairs(parents, children, scores, possible)


def _pairs_of_long_table(
    table: pd.DataFrame, nodes: Sequence[str] | None, truth: Any
) -> ScoredPairs:
    if nodes is None:
        nodes = named_nodes(truth)
    if nodes is None:
        raise DataError(
            "A long table of edges leaves out the least likely pairs, and so perhaps whole nodes: "
            "name all nodes with nodes=[...]."
        )
    unknown = sorted((set(table["parent"]) | set(table["child"])) - set(nodes), key=str)
    if unknown:
        raise DataError(f"The edge probabilities name {quoted(unknown)}, which are not nodes.")
    probability = table["probability"].to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.all(np.isfinite(probability)) or np.any(probability < 0):
        row = int(np.flatnonzero(~(probability >= 0) | ~np.isfinite(probability))[0])
        raise DataError(f"Row {row} of the edge probabilities holds {probability[row]}.")
    if table.duplicated(["parent", "child"]).any():
        row = int(np.flatnonzero(table.duplicated(["parent", "child"]))[0])
        raise DataError(f"Row {row} of the edge probabilities repeats an earlier pair.")
    names, scores = tuple(nodes), square(table, nodes).to_numpy()
    return ScoredPairs(names, names, scores, ~np.eye(len(names), dtype=bool))


#: a square table of edge probabilities is made up to this many nodes
SQUARE_TABLE_LIMIT = 2_000


def require_few(n_nodes: int, instead: str) -> None:
    """Refuse a square table of very many nodes; ``instead`` names the long one."""
    if n_nodes > SQUARE_TABLE_LIMIT:
        raise TooLargeError(
            f"A square table of {n_nodes:,} nodes is more than the limit of "
            f"{SQUARE_TABLE_LIMIT:,}; use the long table {instead}."
        )


def square(table: pd.DataFrame, nodes: Sequence[str]) -> pd.DataFrame:
    """Rows = parents, columns = children: pairs that a long table does not list are 0.

    Pairs that it lists without a probability, because they were not scored, are NaN.
    """
    place = {name: i for i, name in enumerate(nodes)}
    scores = np.zeros((len(nodes), len(nodes)))
    ends = (table[end].map(place).to_numpy(dtype=np.int64) for end in ("parent", "child"))
    scores[tuple(ends)] = table["probability"].to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.DataFrame(scores, index=list(nodes), columns=list(nodes))


def _edges_of_table(table: pd.DataFrame, what: str) -> list[Edge]:
    for parent, child in EDGE_COLUMNS:
        if parent in table.columns and child in table.columns:
            return list(zip(table[parent].tolist(), table[child].tolist()))
    raise DataError(
        f"{what} is a table with columns {quoted(list(table.columns))}; "
        "it needs parent and child, or source and target."
    )


def _edges_of_parents(parents: Mapping[str, Any], what: str) -> list[Edge]:
    for child, names in parents.items():
        if isinstance(names, str):
            raise DataError(f"{what} gives {child!r} the parents {names!r}; give a list of names.")
    return [(parent, child) for child, names in parents.items() for parent in names]
