"""Edges outside the graph shown: which of them a reader asks about, and what their family does.

A graph of certain edges says nothing about the likely ones. So every edge of at least twice its
prior probability has an effect too, and so has every edge that a drawing can show. It is read off
the likeliest set of parents that holds the edge: its expected transitions and dwell times come from
the draws, where that set was drawn, or from the search's own solves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from asterism.learning.search.local_solves import solve_families
from asterism.learning.search.score import GraphSolution, Parents, RanAway, Scorer, Statistics
from asterism.learning.search.structure_prior import family_rows, family_tuple
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import current_limit, time_to_finish
from asterism.results.ranking import DRAWN, TIMES_PRIOR

Family = tuple[int, ...]

#: most edges outside the graph that have one, so that large networks do not wait for them
MOST = 1_000
#: edges for which the whole graph is solved, and nodes up to which it is: as many as the search
#: itself solves for a few nodes
_MOST_COUPLED = 30
_SMALL_NETWORK = 50


class EdgeFamily(NamedTuple):
    """An edge outside the graph, and the likeliest family that holds it."""

    parent: int
    child: int
    family: Family

    @property
    def slot(self) -> int:
        """The place of the parent in its family."""
        return self.family.index(self.parent)


def asked_edges(
    probability: Callable[[int], FloatArray],
    prior: Callable[[int], FloatArray],
    graph: Sequence[Family],
) -> list[tuple[int, int]]:
    """(parent, child) of edges outside the graph that have an effect, most probable first.

    ``probability`` and ``prior`` give those of all edges into a child; NaN is not known.
    """
    found: list[tuple[float, int, int, bool]] = []
    for child in range(len(graph)):
        chance = np.nan_to_num(probability(child), nan=0.0)
        likely = (chance > 0.0) & (chance >= TIMES_PRIOR * prior(child))
        first = np.argsort(-chance, kind="stable")[:DRAWN]
        often = np.flatnonzero(likely)
        for parent in np.union1d(first[chance[first] > 0.0], often):
            found.append((-float(chance[parent]), int(parent), child, bool(likely[parent])))
    kept = [row for i, row in enumerate(sorted(found)) if i < DRAWN or row[3]][:MOST]
    return [(parent, child) for _, parent, child, _ in kept if parent not in graph[child]]


def likeliest_families(
    edges: Iterable[tuple[int, int]], tables: Mapping[int, tuple[IntArray, FloatArray]]
) -> list[EdgeFamily]:
    """For each edge the family of highest weight that holds it, where one is listed.

    ``tables`` hold each child's families (F, k) and their log weights.
    """
    found = []
    for parent, child in edges:
        if child not in tables:
            continue
        rows, weights = tables[child]
        holds = np.flatnonzero((rows == parent).any(axis=1))
        if len(holds):
            best = holds[int(np.argmax(weights[holds]))]
            found.append(EdgeFamily(parent, child, family_tuple(rows[best])))
    return found


def solved_statistics(
    scorer: Scorer, solution: GraphSolution, wanted: Sequence[EdgeFamily], n_jobs: int | None
) -> dict[EdgeFamily, Statistics]:
    """What the scorer says about families around a graph; without those that do not settle.

    In small networks the whole graph is solved with each of the most probable edges. Others are
    solved locally, which finds weaker effects: the other nodes' courses stay as they are.
    """
    if not wanted:
        return {}
    linked = len(scorer.base.problem.link) > 1
    small = len(scorer.n_states) <= _SMALL_NETWORK
    n_coupled = _MOST_COUPLED if small or linked else 0
    with time_to_finish():
        found = _coupled(scorer, solution, wanted[:n_coupled])
        rest = wanted[n_coupled:]
        if not rest or linked:
            return found
        # nothing to begin from: no moments, or rates of another graph
        if not len(solution.moments) or len(solution.rates) != len(solution.transitions):
            try:
                solution = scorer.plain().solve(solution.parents, None, n_jobs)
            except RanAway:
                return found
        return {**found, **_local(scorer, solution, rest)}


def _local(
    scorer: Scorer, solution: GraphSolution, wanted: Sequence[EdgeFamily]
) -> dict[EdgeFamily, Statistics]:
    by_child: dict[int, list[EdgeFamily]] = {}
    for edge in wanted:
        by_child.setdefault(edge.child, []).append(edge)
    children = sorted(by_child)
    edges = [edge for child in children for edge in by_child[child]]
    sizes = scorer.n_states
    shapes = [[sizes[m] for m in (*edge.family, edge.child)] for edge in edges]
    largest = max(math.prod(shape) * shape[-1] for shape in shapes)
    solved = solve_families(
        scorer.shared_input(solution),
        np.array(children, dtype=np.int64),
        [family_rows([edge.family for edge in by_child[child]]) for child in children],
        largest,
    )
    found = {}
    for i, (edge, shape) in enumerate(zip(edges, shapes)):
        if np.isfinite(solved.scores[i]):
            n = math.prod(shape)
            moves = solved.transitions[i, : n * shape[-1]].reshape(*shape, shape[-1])
            found[edge] = moves, solved.dwell[i, :n].reshape(shape)
    return found


def _coupled(
    scorer: Scorer, solution: GraphSolution, wanted: Sequence[EdgeFamily]
) -> dict[EdgeFamily, Statistics]:
    """The whole graph is solved for each family."""
    found: dict[EdgeFamily, Statistics] = {}
    for edge in wanted:
        parents: Parents = (
            *solution.parents[: edge.child],
            edge.family,
            *solution.parents[edge.child + 1 :],
        )
        try:
            solved = scorer.solve(parents, solution)
        except RanAway:
            continue
        if current_limit().stops():
            break
        found[edge] = solved.statistics(scorer.n_states)[edge.child]
    return found
