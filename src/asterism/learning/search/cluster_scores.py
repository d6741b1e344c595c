"""Graphs scored by clusters: close calls of a search settled without the star's error.

The star lets reciprocal edges explain the same coincidences twice, so it overrates such pairs.
Clusters keep a family together and do not. They cost more, so the search itself is the star's, and
clusters settle what it leaves open: they score again, with the whole graph solved for each, every
family that comes close to a node's best, and the best that drop one edge of a pair. Families far
behind keep the star's distance.

The score is the same as the star's, F − E + Gamma terms at self-consistent posterior rates
(``score.py``), with F, M and T from clusters. Messages and rates move together: one sweep, then new
rates. A graph starts from the messages of the one before wherever both have the same clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asterism.clusters.batch import (
    ClusterBatch,
    ClusterModel,
    make_cluster_batch,
    run_clusters,
    start_messages,
)
from asterism.clusters.regions import Regions, find_regions
from asterism.data.observations import Observations
from asterism.engine._outcome import IMPOSSIBLE
from asterism.engine.grid import Grid, make_grid
from asterism.engine.rules.clusters import require_possible
from asterism.learning.search import _marginal as marginal
from asterism.learning.search._marginal import MarginalPrior, Sums, update_all_rates
from asterism.learning.search.coupled import Ending, Extrapolation
from asterism.learning.search.found import FamilyTable, SearchResult, result_of
from asterism.learning.search.score import GraphSolution, Scorer
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.structure_prior import family_rows, family_tuple
from asterism.learning.search.task import SearchRun, search_observations, sweep_nodes
from asterism.learning.tasks import ProgressListener
from asterism.numerics.arrays import IntArray
from asterism.numerics.compiled import CompiledGraph, diagonal_index
from asterism.numerics.resources import current_limit
from asterism.star.problem import Parameters
from asterism.timeline.timeline import timeline_of

_STEP = 0.5  # relaxation times
_CLOSE = 8.0  # nats within which the star's score does not decide
_MOST_FAMILIES = 8  # of one node
_WITHOUT_PARTNER = 4  # best families that drop one edge of a pair
_NODE_SOLVES = 6_000  # families times nodes up to which clusters settle them
_SWEEPS = 2  # of messages between two updates of the rates
_SCORE_TOLERANCE = 1e-3  # nats, of a whole graph
_SETTLED = 1e-4  # disagreement of clusters, in expected jumps of a trajectory
_MAX_ITERATIONS = 150  # not tuned: a guard


@dataclass(frozen=True)
class ClusterScorer(Scorer):
    """Scores graphs as :class:`Scorer` does, with clusters in the place of the star."""

    cluster_grid: Grid | None = None

    def _iterated(
        self,
        graph: CompiledGraph,
        start: Parameters,
        prior: MarginalPrior,
        earlier: GraphSolution | None,
        n_jobs: int | None,
        **_: bool,
    ) -> tuple[Ending, dict[str, Any]]:
        """Some sweeps, then new rates; what concerns moments changes nothing."""
        assert self.cluster_grid is not None
        model = ClusterModel.of(graph, find_regions(graph, self.evidence))
        batch = make_cluster_batch(model, self.evidence, self.cluster_grid)
        start_messages(batch, start.rates)
        if earlier is not None and earlier.batch is not None:
            _take_over_messages(earlier.batch, batch)
        problem = self._problem(graph)
        extrapolation = Extrapolation(problem, start)
        totals = np.zeros((self.evidence.n_trajectories, 1))
        summary = np.zeros(marginal.N_SUMMARY)
        diagonal = diagonal_index(graph)
        score, n_quiet, iteration, status = np.inf, 0, 0, marginal.ITERATION_LIMIT
        while iteration < _MAX_ITERATIONS and status == marginal.ITERATION_LIMIT:
            iteration += 1
            outcome, found = run_clusters(
                batch, start.rates, start.initial, _SETTLED, _SWEEPS, n_jobs or 1
            )
            if (outcome.status == IMPOSSIBLE).any():
                require_possible(batch, outcome)
            sums = Sums(found.table[diagonal], found.table, totals, summary)
            update_all_rates(problem, start, prior, self.learn_initial, found.initial, sums)
            summary[marginal.TOTAL_EVIDENCE] = outcome.evidence.sum()
            before = score
            score = summary[marginal.TOTAL_EVIDENCE] - summary[marginal.ENERGY]
            score += summary[marginal.GAMMA_TERMS]
            n_quiet = n_quiet + 1 if abs(score - before) <= _SCORE_TOLERANCE else 0
            if not np.isfinite(summary[marginal.TOTAL_EVIDENCE]):
                status = marginal.NOT_FINITE
            # extrapolation moves every third iteration only: three in a row must be quiet
            elif n_quiet >= 3 and float(outcome.residual.max()) <= 100.0 * _SETTLED:
                status = marginal.CONVERGED
            elif current_limit().stops():
                status = marginal.OUT_OF_TIME
            elif not self.digamma:
                extrapolation.improve()
        nothing = np.zeros(0)
        end = Ending(sums.dwell, sums.transitions, summary, iteration, status, np.full(2, -1))
        return end, {"moments": nothing, "marginals": nothing, "batch": batch}


def _take_over_messages(old: ClusterBatch, new: ClusterBatch) -> None:
    """Start separators that both have from the messages of the old ones."""
    place = {key: s for s, key in enumerate(_separator_keys(old.model.regions))}
    for s, key in enumerate(_separator_keys(new.model.regions)):
        if key not in place:
            continue
        for field in ("entry", "state"):
            starts = [getattr(b.model.arrays, f"message_{field}_start") for b in (old, new)]
            was, now = (
                slice(2 * int(start[i]), 2 * int(start[i + 1]))
                for start, i in zip(starts, (place[key], s))
            )
            for mine, theirs in zip(new.messages, old.messages):
                if field == "entry":
                    mine.rate[now] = theirs.rate[was]
                else:
                    mine.diagonal[now] = theirs.diagonal[was]
                    mine.start[now] = theirs.start[was]
    new.halvings[:] = old.halvings


def _separator_keys(regions: Regions) -> list[tuple[tuple[int, ...], ...]]:
    return [(s.nodes, *(regions.clusters[c] for c in s.clusters)) for s in regions.separators]


def graph_scorer(search: SearchRun) -> ClusterScorer:
    """The same data, prior and nodes as a search's scorer."""
    scorer, settings = search.scorer, search.settings
    step = _STEP * float(np.sqrt(settings.accuracy.tolerance / 1e-3))
    rate, time_step = search.single_nodes.relaxation_rate, settings.accuracy.time_step
    grid = make_grid(timeline_of(scorer.evidence), rate, step, time_step=time_step)
    return ClusterScorer(**vars(scorer.plain()), cluster_grid=grid)


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Search with the star, then settle close calls by clusters."""
    search = search_observations(replace(settings, method="star"), observations, progress)
    search = replace(search, scorer=graph_scorer(search), journal=None)
    settle_by_clusters(search)
    return result_of(search, observations)


def settle_by_clusters(search: SearchRun) -> None:
    """Score close families of every node again, until the graph stops changing."""
    if current_limit().stops():
        return
    stars = dict(search.tables)
    search.solution = search.scorer.solve(search.solution.parents)
    close, n_left = _close_families(search)
    if n_left:
        search.complaint = search.complaint or (
            f"{n_left} close decisions were left to the star, which may overrate reciprocal edges: "
            "the network is too large for more by clusters"
        )
    sweep_nodes(
        search,
        close,
        search.scorer.solve,
        "comparing the best sets of parents by clusters",
        lambda child, scored: _merged(stars[child], scored),
    )


def _close_families(search: SearchRun) -> tuple[dict[int, IntArray], int]:
    """Per node the families that clusters compare, and for how many nodes there is no room."""
    graph = search.solution.parents
    wanted: list[tuple[float, int, IntArray]] = []
    for child, table in search.tables.items():
        order = table.ranking(search.nodes)
        best = table.scores[order[0]]
        near = [i for i in order if table.scores[i] >= best - _CLOSE][:_MOST_FAMILIES]
        rows = [family_tuple(table.parents[i]) for i in near]
        paired = [p for p in graph[child] if child in graph[p]]
        every = [family_tuple(table.parents[i]) for i in order]
        extra = [f for f in every if f == graph[child]]
        for p in paired:
            extra += [f for f in every if p not in f][:_WITHOUT_PARTNER]
        rows += [f for f in dict.fromkeys(extra) if f not in rows]
        if len(rows) > 1:
            margin = float(best - table.scores[order[1]])
            wanted.append((-np.inf if paired else margin, child, family_rows(rows)))
    wanted.sort(key=lambda item: item[:2])
    found: dict[int, IntArray] = {}
    room = _NODE_SOLVES / max(1, len(search.nodes))
    for _, child, padded in wanted:
        room -= len(padded)
        if room < 0 and found:
            break
        found[child] = padded
    return dict(sorted(found.items())), len(wanted) - len(found)


def _merged(star: FamilyTable, clusters: FamilyTable) -> FamilyTable:
    """Clusters' scores where there are any; other families keep the star's distance.

    That is the distance to the family next above them that clusters scored.
    """
    rows = [family_tuple(row) for row in star.parents]
    new = {family_tuple(row): s for row, s in zip(clusters.parents, clusters.scores)}
    scores = star.scores.copy()
    offset = 0.0
    for i in np.argsort(-star.scores, kind="stable"):
        if rows[i] in new:
            offset = float(new[rows[i]] - star.scores[i])
        scores[i] = star.scores[i] + offset
    return FamilyTable(star.parents, scores)
