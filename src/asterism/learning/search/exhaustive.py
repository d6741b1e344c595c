"""The paper's exhaustive search.

Sweep over the nodes; for each, score every candidate family with the rest of the graph held fixed,
the coupled network solved anew each time, and adopt the best; repeat until the graph stops
changing. Family posteriors are those around the final graph.
"""

from __future__ import annotations

import numpy as np

from asterism.learning.search.score import GraphSolution, Parents
from asterism.learning.search.structure_prior import family_tuple
from asterism.learning.search.task import SearchState, SearchTask, improve, total_score
from asterism.numerics.resources import current_limit


def search_exhaustively(task: SearchTask, begin: GraphSolution | None = None) -> SearchState:
    """From one graph if it is given, otherwise the best of several starts."""
    return best_of_starts(task) if begin is None else exhaustive_search(task, begin)


def best_of_starts(task: SearchTask) -> SearchState:
    """Exhaustive search from the empty graph and ``n_init`` − 1 random ones; the best kept."""
    rng = np.random.default_rng(task.settings.random_state)
    best: SearchState | None = None
    for start in range(task.settings.n_init):
        graph = _required_graph(task) if start == 0 else _random_graph(task, rng)
        state = exhaustive_search(task, task.scorer.solve(graph))
        if best is not None and len(state.tables) < len(best.tables):  # there was no time
            continue
        if (
            best is None
            or total_score(task, state.solution) > total_score(task, best.solution) + 1e-9
        ):
            best = state
    assert best is not None
    return best


def exhaustive_search(task: SearchTask, begin: GraphSolution) -> SearchState:
    """Greedy sweeps from one graph until it stops changing."""
    state = SearchState(solution=begin)
    known: dict[Parents, float] = {} if begin.out_of_time else {begin.parents: begin.score}
    sweeps = task.settings.max_sweeps
    total = sum(task.prior.n_families(n) for n in task.prior.children)
    for sweep in range(sweeps):
        before = state.solution.parents
        state.unconverged = 0
        task.progress.start(total, f"sweep {sweep + 1}")
        for child in task.prior.children:
            if current_limit().stops():
                break
            families = task.prior.families(child)
            scored = improve(task, state, child, known, families, task.scorer.solve)
            if scored is not None:
                state.tables[child] = scored
        task.progress.finish()
        state.n_sweeps = sweep + 1
        state.history.append(
            {
                "sweep": sweep + 1,
                "score": total_score(task, state.solution),
                "changed_families": sum(a != b for a, b in zip(before, state.solution.parents)),
                "scored_graphs": len(known),
            }
        )
        if current_limit().was_felt:
            break
        if state.solution.parents == before:
            state.settled = True
            break
    return state


def _required_graph(task: SearchTask) -> Parents:
    """Required edges only: a start, even where a node needs more parents than these."""
    return tuple(task.prior.required.get(n, ()) for n in range(len(task.nodes)))


def _random_graph(task: SearchTask, rng: np.random.Generator) -> Parents:
    graph: list[tuple[int, ...]] = [()] * len(task.nodes)
    for child in task.prior.children:
        families = task.prior.families(child)
        graph[child] = family_tuple(families[int(rng.integers(len(families)))])
    return tuple(graph)
