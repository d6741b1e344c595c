"""Fits emissions once more, on the graph that a search has found.

Emissions are first fitted to single nodes, before anything is known of the graph. Neighbours tell
more about the state in which a value was measured: with the graph held fixed, M-steps of the
emissions and solves of the whole network alternate until the emissions stay. Each M-step raises the
expected log-likelihood of the measurements, and nothing else in the score depends on emissions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asterism.data.observations import Observations
from asterism.learning.em.emission_fit import LearnedNode, distance, write_log_likelihoods
from asterism.learning.search.score import GraphSolution, Scorer
from asterism.numerics.arrays import FloatArray
from asterism.star.batch import Batch
from asterism.star.point_values import point_marginals, set_log_likelihoods
from asterism.star.problem import Parameters

if TYPE_CHECKING:
    from asterism.learning.search.task import SearchRun

#: the largest change, in scales of a measurement, that ends the alternation
_TOLERANCE = 1e-3
_MAX_STEPS = 300


def refine_emissions(search: SearchRun, observations: Observations) -> SearchRun | None:
    """The search with emissions fitted on its present graph; None if there is nothing to learn.

    It is settled if the emissions are. The scorer's likelihoods change in place.
    """
    emissions, nodes = search.single_nodes.learned(observations)
    if not nodes:
        return None
    settled = False
    scorer, solution = search.scorer, search.solution
    search.progress.start(_MAX_STEPS, "fitting emissions on the graph")
    for _ in range(_MAX_STEPS):
        weights = _weights(scorer, solution, search.settings.n_jobs)
        fitted = {
            n.node: emissions[n.node].m_step(n.values, weights[n.place], n.states) for n in nodes
        }
        moved = max(distance(emissions[n.node], fitted[n.node], n) for n in nodes)
        emissions |= fitted
        scorer = _with_emissions(scorer, nodes, emissions)
        solution = scorer.solve(
            solution.parents, solution, search.settings.n_jobs if search.screened else None
        )
        search.progress.advance()
        settled = moved < _TOLERANCE
        if settled:
            break
    search.progress.finish()
    alone = replace(search.single_nodes, emission=emissions, evidence=scorer.evidence)
    return replace(
        search, single_nodes=alone, scorer=scorer, found_solution=solution, settled=settled
    )


def _weights(scorer: Scorer, solution: GraphSolution, n_jobs: int) -> FloatArray:
    """Probability of each state at every measurement, flat as in the evidence."""
    base = scorer.base
    problem = scorer.problem_of(solution.parents)
    if len(problem.marginals) == len(solution.marginals):
        problem.marginals[:] = solution.marginals
    solved = Batch(
        scorer.evidence, base.grid, base.layout, base.graph, problem, solution.moments.copy()
    )
    parameters = Parameters(
        solution.rates, scorer.table_of(solution), solution.initial, scorer.geometric
    )
    return point_marginals(solved, parameters, n_jobs)


def _with_emissions(scorer: Scorer, nodes: list[LearnedNode], emissions: dict[str, Any]) -> Scorer:
    """The scorer with other likelihoods of the same measurements."""
    present = scorer.evidence.points.log_likelihood
    flat = write_log_likelihoods(nodes, [emissions[n.node] for n in nodes], present)
    set_log_likelihoods(scorer.base, flat)
    return replace(scorer, evidence=scorer.base.evidence)
