"""Screening: which single parents of each node are worth a closer look, and what of the others.

With every node solved alone and its moments frozen, the expected statistics of all single-parent
families are matrix products over time. They are made in blocks, and only the best candidates of
each node are kept, so that memory grows linearly with the number of nodes. Gains of the others
stay with the search (``found.Unscored``; of very large networks only the larger ones): their edges
have probabilities too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from asterism.data.observations import Observations
from asterism.learning.search._parent_gains import single_parent_gains
from asterism.learning.search.found import Unscored
from asterism.learning.search.score import GraphSolution, Scorer
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import SearchRun, completed_settings, prepare
from asterism.learning.tasks import Silent
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import require_memory
from asterism.star._buffers import FIRST, IS_SET, LAST, SPAN

# sizes of the matrix products: they bound the memory, and change no number
_BLOCK_OF_CHILDREN = 64
_PARENTS_AT_ONCE = 4096


def screen(search: SearchRun, solution: GraphSolution) -> dict[int, IntArray]:
    """For each node, the candidates with the largest gain as its only parent.

    ``search.unscored`` keeps what is known about all of them.
    """
    keep = search.n_candidates
    scorer, prior = search.scorer, search.prior
    sizes = np.array(scorer.n_states)
    averages = _Averages.of(scorer.base.grid.step_start, solution.moments, sizes)
    chosen: dict[int, IntArray] = {}
    children = np.array(prior.children)
    search.progress.start(len(children), "screening all pairs")
    for size in np.unique(sizes[children]):
        group = children[sizes[children] == size]
        for first in range(0, len(group), _BLOCK_OF_CHILDREN):
            block = group[first : first + _BLOCK_OF_CHILDREN]
            gains = _gains(search, solution, averages, block, int(size))
            for row, child in enumerate(block):
                possible = prior.candidates(int(child))
                mine = gains[row, possible] + _single_prior(search, int(child), possible)
                unscored = Unscored.of(prior, int(child), possible, gains[row, possible])
                search.unscored[int(child)] = unscored
                required = np.array(sorted(prior.required.get(int(child), ())), dtype=np.int64)
                # ties are broken by the number of the node, i.e. by its name
                enough = max(keep, int(prior.min_parents[child]))
                best = possible[np.argsort(-mine, kind="stable")[:enough]]
                chosen[int(child)] = np.union1d(best, required)
            search.progress.advance(len(block))
    search.progress.finish()
    return chosen


def _single_prior(search: SearchRun, child: int, possible: IntArray) -> FloatArray:
    return np.asarray(search.prior.log_prior(child, possible[:, None]), dtype=np.float64)


@dataclass(frozen=True)
class _Averages:
    """Moments regrouped for matrix products over all steps of all trajectories."""

    moments: FloatArray
    """(Σ S², steps): ∫ f(x) ρ(y) of every node and step."""
    row_start: IntArray

    @classmethod
    def of(cls, step_start: IntArray, moments: FloatArray, sizes: IntArray) -> _Averages:
        squares = int((sizes**2).sum())
        n_steps = int(step_start[-1])
        require_memory(8.0 * squares * n_steps, "screening", "a larger time_step")
        grouped = np.empty((squares, n_steps))
        for first, last in pairwise(step_start):
            piece = moments[first * squares : last * squares]
            grouped[:, first:last] = piece.reshape(squares, last - first)
        return cls(grouped, np.concatenate([[0], np.cumsum(sizes**2)]))

    def of_state(self, nodes: IntArray, row: int) -> FloatArray:
        """One row of each of these nodes; where rows lie evenly spaced, without a copy."""
        places = self.row_start[nodes] + row
        gaps = np.diff(places)
        if len(gaps) and (gaps == gaps[0]).all():
            return self.moments[places[0] : places[-1] + 1 : gaps[0]]
        return self.moments[places]


def _without_held(scorer: Scorer, block: IntArray, size: int, own: FloatArray) -> FloatArray:
    """The children's moments, without steps on which the experimenter held the child."""
    problem, n_nodes = scorer.base.problem, len(scorer.n_states)
    is_set = problem.span[:, IS_SET] == 1
    if not is_set.any():
        return own
    own = own.copy()
    pair = np.repeat(np.arange(len(problem.pair) - 1), np.diff(problem.pair[:, SPAN]))
    for i in np.flatnonzero(is_set):
        places = np.flatnonzero(block == pair[i] % n_nodes)
        begin = problem.step_start[pair[i] // n_nodes]
        steps = slice(begin + problem.span[i, FIRST], begin + problem.span[i, LAST])
        for place in places:
            own[place * size * size : (place + 1) * size * size, steps] = 0.0
    return own


def _gains(
    search: SearchRun, solution: GraphSolution, averages: _Averages, block: IntArray, size: int
) -> FloatArray:
    """(children of the block, all nodes) gains of every possible single parent."""
    scorer = search.scorer
    sizes = np.array(scorer.n_states)
    squares = size * size
    width = scorer.base.grid.width
    rows = (averages.row_start[block][:, None] + np.arange(squares)).ravel()
    own = _without_held(scorer, block, size, averages.moments[rows])
    start = np.concatenate([[0], np.cumsum(sizes**2)])
    places = (start[block][:, None] + np.arange(squares)).ravel()
    rates = solution.rates[places]
    factor = np.ones_like(rates) if scorer.geometric else rates
    diagonal = np.tile(np.eye(size, dtype=bool).ravel(), len(block))
    factor = np.where(diagonal, 1.0, factor)
    own = own * factor[:, None]
    total = own.sum(axis=1)
    allowed = np.array([scorer.allowed[n].ravel() for n in block])
    gains = np.full((len(block), len(sizes)), -np.inf)
    over_width = own / width
    for parent_size in np.unique(sizes):
        parents = np.flatnonzero(sizes == parent_size)
        for first in range(0, len(parents), _PARENTS_AT_ONCE):
            some = parents[first : first + _PARENTS_AT_ONCE]
            products = np.empty((int(parent_size), len(rows), len(some)))
            for u in range(int(parent_size) - 1):
                of_state = averages.of_state(some, u * int(parent_size) + u)
                np.matmul(over_width, of_state.T, out=products[u])
            # the states of a parent exclude each other and one of them holds
            products[-1] = total[:, None] - products[:-1].sum(axis=0)
            found = np.empty((len(block), len(some)))
            single_parent_gains(
                np.ascontiguousarray(products[:, diagonal]),
                products,
                total[diagonal],
                total,
                size,
                int(parent_size),
                allowed,
                scorer.shape,
                scorer.rate[places].reshape(len(block), squares),
                found,
            )
            gains[:, some] = found
    return gains


def pair_gains(settings: StructureSettings, data: Observations) -> dict[tuple[str, str], float]:
    """For every allowed pair (parent, child), its gain with the parent as the only one."""
    search = prepare(completed_settings(settings, data)[0], data, Silent())
    screen(search, search.scorer.solve(tuple(() for _ in search.nodes), n_jobs=settings.n_jobs))
    return {
        (search.nodes[parent], search.nodes[child]): float(gain)
        for child, found in search.unscored.items()
        for parent, gain in zip(found.parents, found.gains)
    }
