"""Owns what sampling says about the families of a graph: how often and how long, on average.

A search's result shows one graph with its rates and effects, which follow from each family's
expected transitions and dwell times. :class:`DrawnStatistics` takes these from the draws, so the
star need not solve a graph whose rates may run away. Only a family that was never drawn is left to
the star, such as one put together from edges that are probable one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asterism.learning.search.edge_families import EdgeFamily, solved_statistics
from asterism.learning.search.score import (
    GraphSolution,
    Parents,
    RanAway,
    Scorer,
    Statistics,
    no_statistics,
)
from asterism.learning.search.structure_prior import family_tuple
from asterism.numerics.arrays import IntArray
from asterism.numerics.resources import current_limit, time_limit
from asterism.sampling._graphs import DrawAverages
from asterism.sampling.sampler_arrays import Candidates

#: seconds that the star gets for a graph with a family that was never drawn
_STAR_SECONDS = 60.0


@dataclass(frozen=True)
class DrawnStatistics:
    """Looks up averages over draws."""

    scorer: Scorer
    """The star, for families that were never drawn."""
    families: list[IntArray]
    """Per node the families that were drawn from, as rows of parents."""
    candidates: Candidates
    averages: DrawAverages

    def solution(
        self, parents: Parents, earlier: GraphSolution, n_jobs: int | None
    ) -> GraphSolution:
        """``earlier`` with the statistics of another graph; scores and moments are not renewed."""
        found = [self.statistics(n, own) for n, own in enumerate(parents)]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            by_star = self._by_star(parents, earlier, n_jobs)
            known = [other if one is None else one for one, other in zip(found, by_star)]
        return earlier.with_statistics(parents, known)

    def _by_star(
        self, parents: Parents, earlier: GraphSolution, n_jobs: int | None
    ) -> list[Statistics]:
        """Statistics of every node by the star; none at all where it runs away."""
        sizes = self.scorer.n_states
        try:
            with time_limit(min(_STAR_SECONDS, max(current_limit().left, 0.1))):
                return self.scorer.solve(parents, earlier, n_jobs).statistics(sizes)
        except RanAway:
            return no_statistics(parents, sizes)

    def beyond(
        self, edges: Sequence[EdgeFamily], star: GraphSolution, n_jobs: int | None
    ) -> dict[EdgeFamily, Statistics]:
        """What the draws say about families outside the graph; the star where they were not drawn.

        ``star`` is a solution of the star to begin from.
        """
        drawn = {edge: self.statistics(edge.child, edge.family) for edge in edges}
        found = {edge: one for edge, one in drawn.items() if one is not None}
        left = [edge for edge in edges if edge not in found]
        return {**found, **solved_statistics(self.scorer, star, left, n_jobs)}

    def row(self, node: int, parents: tuple[int, ...]) -> int | None:
        """Where the averages of a family stand; None if it was never drawn."""
        begin = int(self.candidates.start[node])
        row = row_of(self.families[node], parents)
        drawn = row >= 0 and self.averages.weight[begin + row] > 0.0
        return begin + row if drawn else None

    def statistics(self, node: int, parents: tuple[int, ...]) -> Statistics | None:
        """Mean transitions and dwell times; None if the family was never drawn."""
        shape = tuple(self.scorer.n_states[m] for m in (*parents, node))
        begin, end = self.candidates.start[node : node + 2]
        if not self.averages.family[begin:end].any():  # its path is given
            return np.zeros((*shape, shape[-1])), np.zeros(shape)
        row = self.row(node, parents)
        if row is None:
            return None
        first, last = self.candidates.table_start[row : row + 2]
        mean = self.averages.statistics[first:last] / self.averages.weight[row]
        table = mean.reshape(*shape, shape[-1])
        times = np.diagonal(table, axis1=-2, axis2=-1).copy()
        return np.where(np.eye(shape[-1], dtype=bool), 0.0, table), times


def row_of(rows: IntArray, parents: tuple[int, ...]) -> int:
    """The row of a family among rows of parents; −1 if there is none."""
    wanted = tuple(sorted(parents))
    return next((i for i, row in enumerate(rows) if family_tuple(row) == wanted), -1)
