"""Pairs that lead each other in the star's answer, scored again without its error.

The star lets A → B and B → A explain the same coincidences twice: of the false edges that it is
sure of, most are the reversal of a true one. Where networks are too large for sampling, every pair
whose two edges are both likely is looked at once more, A and B with their other likely parents as a
network of its own. Clusters, nearly exact on so few nodes, score four graphs: both edges, either
one, none. The other parents keep their edges and are roots themselves. With structure prior these
four give the odds of each edge, summed over the other one, which replace the star's: in the table
of B all families that hold A move by the difference.

Tempering divides the star's log-odds for its errors. Clusters have hardly any, so their odds are
divided by the factor beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from asterism.data.observations import Observations
from asterism.errors import AsterismError
from asterism.learning.learner_settings import UNIFORM, StructurePrior
from asterism.learning.search.cluster_scores import graph_scorer
from asterism.learning.search.structure_prior import family_rows
from asterism.learning.search.task import SearchRun, prepare
from asterism.learning.tasks import Silent, in_order
from asterism.numerics.arrays import FloatArray
from asterism.numerics.resources import current_limit

#: both edges of a pair must be at least as probable, for the star alone, to be scored again
_LIKELY = 0.1
#: … and as many times as probable as before the data: else there is nothing that could count twice
_RAISED = 1.1
#: other parents of each node of a pair that take part: those above one half, the likeliest first
_OTHER_PARENTS = 2
#: upper bound on the pairs: about ten minutes of one core with 80 trajectories
_MOST_PAIRS = 400


def settle_pairs(search: SearchRun, observations: Observations) -> str:
    """Score all pairs of a search again that lead each other; returns a sentence on them."""
    factor = search.settings.tempering_factor(search.single_nodes.known_share)
    pairs, chances = _likely_pairs(search, factor)
    if not pairs or search.single_nodes.evidence.joint:
        return ""
    n_looked_at = min(len(pairs), _MOST_PAIRS)
    search.progress.start(n_looked_at, "scoring pairs that lead each other")
    n_settled = 0
    odds = in_order(
        lambda i: _log_odds(search, observations, pairs[i], chances),
        n_looked_at,
        search.settings.n_jobs,
    )
    for (a, b), found in zip(pairs, odds):
        search.progress.advance()
        if found is None:
            continue
        n_settled += 1
        _move(search, b, a, found[0], factor)
        _move(search, a, b, found[1], factor)
    search.progress.finish()
    left = len(pairs) - n_settled
    return f"{n_settled} pairs that lead each other were scored again by clusters." + (
        f" {left} more were not: the star may overrate their edges." if left else ""
    )


def _likely_pairs(
    search: SearchRun, factor: float
) -> tuple[list[tuple[int, int]], dict[int, FloatArray]]:
    """Pairs with two likely edges, the likeliest first, and all edge probabilities by child."""

    def edges_by(factor: float) -> dict[int, FloatArray]:
        return {
            n: table.tempered_by(
                factor, search.prior.log_prior(n, table.parents)
            ).edge_probabilities(len(search.nodes))
            for n, table in search.tables.items()
        }

    chances, before = edges_by(factor), edges_by(0.0)
    likely = {n: (c >= _LIKELY) & (c >= _RAISED * before[n]) for n, c in chances.items()}
    found = []
    for b, chance in chances.items():
        for a in map(int, np.flatnonzero(likely[b])):
            if a < b and a in chances and likely[a][b] and not _is_given(search, a, b):
                found.append((-float(chance[a] * chances[a][b]), (a, b)))
    return [pair for _, pair in sorted(found)], chances


def _is_given(search: SearchRun, a: int, b: int) -> bool:
    """Whether either edge is required: then there is nothing to decide."""
    required = search.prior.required
    return a in required.get(b, ()) or b in required.get(a, ())


def _log_odds(
    search: SearchRun,
    observations: Observations,
    pair: tuple[int, int],
    chances: Mapping[int, FloatArray],
) -> tuple[float, float] | None:
    """Log-odds of a → b and of b → a; None where they could not be computed."""
    if current_limit().stops():
        return None
    others = {}
    for child, partner in (pair, pair[::-1]):
        order = [int(p) for p in np.argsort(-chances[child], kind="stable") if p != partner]
        room = min(_OTHER_PARENTS, int(search.prior.max_parents[child]) - 1)
        others[child] = [p for p in order if chances[child][p] >= 0.5][: max(0, room)]
    nodes = sorted({*pair, *others[pair[0]], *others[pair[1]]})
    names = tuple(search.nodes[n] for n in nodes)
    try:
        small = prepare(_about(search, names), observations.select(nodes=names), Silent(), names)
        scorer = graph_scorer(small)
        weights = np.empty((2, 2))
        a, b = pair
        for forth in (0, 1):
            for back in (0, 1):
                own = {b: [*others[b], *[a] * forth], a: [*others[a], *[b] * back]}
                graph = tuple(tuple(sorted(nodes.index(p) for p in own.get(n, ()))) for n in nodes)
                prior = sum(
                    float(search.prior.log_prior(n, family_rows([tuple(sorted(own[n]))]))[0])
                    for n in pair
                )
                weights[forth, back] = scorer.solve(graph).score + prior
    except AsterismError:  # a graph that runs away, or data that a part of the network cannot have
        return None
    if not np.isfinite(weights).all():
        return None
    joint = np.logaddexp.reduce
    return (
        float(joint(weights[1]) - joint(weights[0])),
        float(joint(weights[:, 1]) - joint(weights[:, 0])),
    )


def _about(search: SearchRun, names: tuple[str, ...]) -> Any:
    """The settings of a search for some of its nodes, without a prior over graphs."""
    settings = search.settings

    def own(given: Any) -> Any:
        return {n: given[n] for n in names if n in given} if isinstance(given, Mapping) else given

    return replace(
        settings,
        emission=own(search.single_nodes.emission),
        allowed_transitions=own(settings.allowed_transitions),
        states=own(settings.states),
        initial=own(settings.initial),
        max_parents=None,
        structure_prior=StructurePrior(
            UNIFORM, exogenous=[n for n in settings.structure_prior.exogenous if n in names]
        ),
        accuracy=replace(settings.accuracy, tempering=1.0),
    )


def _move(search: SearchRun, child: int, parent: int, log_odds: float, factor: float) -> None:
    """Give an edge other odds: all families that hold it move alike."""
    table = search.tables[child]
    tempered = table.tempered_by(factor, search.prior.log_prior(child, table.parents))
    before = tempered.log_odds(parent)
    if np.isfinite(before):
        holds = (table.parents == parent).any(axis=1)
        search.tables[child] = replace(
            table, scores=table.scores + holds * (log_odds - before) / factor
        )
