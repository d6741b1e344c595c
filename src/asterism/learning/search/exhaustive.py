"""The paper's exhaustive search.

Sweep over the nodes; for each, score every candidate family with the rest of the graph held fixed,
the coupled network solved anew each time, and adopt the best; repeat until the graph stops
changing. Family posteriors are those around the final graph.
"""

from __future__ import annotations

import numpy as np

from asterism.learning.search.score import GraphSolution, Parents
from asterism.learning.search.structure_prior import family_tuple
from asterism.learning.search.task import SearchRun, sweep_nodes


def search_exhaustively(search: SearchRun, begin: GraphSolution | None = None) -> SearchRun:
    """From one graph if it is given, otherwise the best of the empty one and random ones."""
    families = {child: search.prior.families(child) for child in search.prior.children}

    def run(begin: GraphSolution) -> SearchRun:
        one = search.begun_at(begin)
        sweep_nodes(one, families, search.scorer.solve, "sweep {}")
        return one

    if begin is not None:
        return run(begin)
    # required edges only: a start, even where a node needs more parents than these
    empty = tuple(search.prior.required.get(n, ()) for n in range(len(search.nodes)))
    best = run(search.scorer.solve(empty))
    rng = np.random.default_rng(search.settings.random_state)
    for _ in range(search.settings.search.n_init - 1):
        one = run(search.scorer.solve(_random_graph(search, rng)))
        gain = one.total_score(one.solution) - best.total_score(best.solution)
        # where there was no time, some nodes have no table
        if len(one.tables) >= len(best.tables) and gain > 1e-9:
            best = one
    return best


def _random_graph(search: SearchRun, rng: np.random.Generator) -> Parents:
    graph: list[tuple[int, ...]] = [()] * len(search.nodes)
    for child in search.prior.children:
        families = search.prior.families(child)
        graph[child] = family_tuple(families[int(rng.integers(len(families)))])
    return tuple(graph)
