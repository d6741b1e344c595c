"""Owns what sampling says about the families of a graph: how often and how long, on average.

A search's result shows one graph with its rates and effects, which follow from each family's
expected transitions and dwell times. :class:`DrawnStatistics` takes these from the draws, so the
star need not solve a graph whose rates may run away. Only a family that was never drawn is left to
the star, such as one put together from edges that are probable one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from asterism.learning.search.edge_families import EdgeFamily, Statistics, solved_statistics
from asterism.learning.search.score import GraphSolution, Parents, RanAway, Scorer
from asterism.learning.search.structure_prior import family_tuple
from asterism.numerics.arrays import FloatArray, IntArray
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
        if any(one is None for one in found):
            by_star = self._by_star(parents, earlier, n_jobs)
            found = [other if one is None else one for one, other in zip(found, by_star)]
        tables = [one for one in found if one is not None]
        return replace(
            earlier,
            parents=parents,
            transitions=np.concatenate([_jumps(one).ravel() for one in tables]),
            dwell=np.concatenate([_times(one).ravel() for one in tables]),
        )

    def _by_star(
        self, parents: Parents, earlier: GraphSolution, n_jobs: int | None
    ) -> list[FloatArray]:
        """Statistics of every node by the star; none at all where it runs away."""
        sizes = self.scorer.n_states
        try:
            with time_limit(min(_STAR_SECONDS, max(current_limit().left, 0.1))):
                star = self.scorer.solve(parents, earlier, n_jobs)
        except RanAway:
            return [
                np.zeros((math.prod(sizes[p] for p in own), sizes[n], sizes[n]))
                for n, own in enumerate(parents)
            ]
        result = []
        for n, (moves, times) in enumerate(star.statistics(sizes)):
            one = moves.reshape(-1, sizes[n], sizes[n]).copy()
            _times(one)[:] = times.reshape(-1, sizes[n])
            result.append(one)
        return result

    def beyond(
        self, edges: Sequence[EdgeFamily], star: GraphSolution, n_jobs: int | None
    ) -> dict[EdgeFamily, Statistics]:
        """What the draws say about families outside the graph; the star where they were not drawn.

        ``star`` is a solution of the star to begin from.
        """
        found: dict[EdgeFamily, Statistics] = {}
        sizes = self.scorer.n_states
        for edge in edges:
            one = self.statistics(edge.child, edge.family)
            if one is not None:
                shape = [sizes[m] for m in (*edge.family, edge.child)]
                moves = _jumps(one).reshape(*shape, shape[-1])
                found[edge] = moves, _times(one).reshape(shape)
        left = [edge for edge in edges if edge not in found]
        return {**found, **solved_statistics(self.scorer, star, left, n_jobs)}

    def row(self, node: int, parents: tuple[int, ...]) -> int | None:
        """Where the averages of a family stand; None if it was never drawn."""
        begin = int(self.candidates.start[node])
        row = row_of(self.families[node], parents)
        drawn = row >= 0 and self.averages.weight[begin + row] > 0.0
        return begin + row if drawn else None

    def statistics(self, node: int, parents: tuple[int, ...]) -> FloatArray | None:
        """(configurations, S, S) mean transitions, with dwell times on the diagonal, if drawn."""
        size = self.scorer.n_states[node]
        begin, end = self.candidates.start[node : node + 2]
        if not self.averages.family[begin:end].any():  # its path is given
            return np.zeros((math.prod(self.scorer.n_states[p] for p in parents), size, size))
        row = self.row(node, parents)
        if row is None:
            return None
        first, last = self.candidates.table_start[row : row + 2]
        sums = self.averages.statistics[first:last]
        result: FloatArray = sums.reshape(-1, size, size) / self.averages.weight[row]
        return result


def row_of(rows: IntArray, parents: tuple[int, ...]) -> int:
    """The row of a family among rows of parents; −1 if there is none."""
    wanted = tuple(sorted(parents))
    return next((i for i, row in enumerate(rows) if family_tuple(row) == wanted), -1)


def _times(statistics: FloatArray) -> FloatArray:
    """The diagonals, as a view."""
    view: FloatArray = np.einsum("uxx->ux", statistics)
    return view


def _jumps(statistics: FloatArray) -> FloatArray:
    result = statistics.copy()
    _times(result)[:] = 0.0
    return result
