"""Where a structure search stands, from the data to the end; which search suits.

Nodes are numbered in the order of their names, so that the order of columns in the data does not
matter. A search (``exhaustive.py``, ``screened.py``) takes a prepared :class:`SearchRun` and
returns it further on, with a solved graph and scored families; ``found.py`` makes the result of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, ModelError, Sentence, Setting, first_few, require_known
from asterism.inference.methods import METHODS
from asterism.learning.learner_settings import (
    Accuracy,
    FamilyPrior,
    Search,
    as_object,
    refuse_old_names,
)
from asterism.learning.learner_settings import StructurePrior as UserPrior
from asterism.learning.search.emission_refinement import refine_emissions
from asterism.learning.search.found import FamilyTable, SearchResult, Unscored, result_of
from asterism.learning.search.score import (
    GraphSolution,
    GridPlan,
    Parents,
    RanAway,
    Scorer,
    SingleStart,
    make_scorer,
)
from asterism.learning.search.searches import SEARCHES
from asterism.learning.search.settings import AUTO, StructureSettings
from asterism.learning.search.single_nodes import SingleNodes, fit_single_nodes
from asterism.learning.search.structure_prior import NumberedPrior, family_rows, family_tuple
from asterism.learning.tasks import ProgressListener, Silent, in_order
from asterism.model.emissions import Joint, leaves_levels_open, with_joint_by_column
from asterism.model.names import as_parents
from asterism.model.priors import LEARNERS_PRIOR, GammaPrior
from asterism.numerics.arrays import IntArray
from asterism.numerics.progress import Ranking, listening, tell_ranking
from asterism.numerics.resources import current_limit
from asterism.star.batch import ImpossibleEvidence

if TYPE_CHECKING:
    from asterism.learning.levels import LevelChoice
    from asterism.learning.search.journal import Journal

#: how often emissions may be refined before the search is given up as unsettled
MAX_ROUNDS = 10

# steps in relaxation times, shared by all graphs of a search
_STEP = 0.25
_SCREENED_STEP = 0.8
#: Log-odds that nobody sees in a probability. Where measurements tell so little that scores count
#: only a hundredth, scores need to be right to a hundred times as much, and no more. With 1e-5,
#: iterations on noise grew with the number of trajectories (60 took four times as long as 30);
#: with 1e-3 the time doubles from 30 to 500, and probabilities stay the same to four digits.
_UNSEEN = 1e-3
#: families in one sweep up to which "auto" solves the whole network for each
EXHAUSTIVE_LIMIT = 150
#: … and up to which it scores all of them, if only by local solves, on finer steps
UNSCREENED_LIMIT = 3_000


@dataclass
class SearchRun:
    """One search: its data, prior and scorer, and what it has found so far."""

    settings: StructureSettings
    nodes: tuple[str, ...]
    """In the order of their names; everywhere else nodes are numbers."""
    single_nodes: SingleNodes
    prior: NumberedPrior
    scorer: Scorer
    progress: ProgressListener
    screened: bool
    """Whether families are scored by local solves."""
    n_candidates: int
    journal: Journal | None = None
    levels: Sequence[LevelChoice] = ()
    """How many levels were counted before the search."""
    round: int = 0
    """How often emissions have been refined: the same graph then has other scores."""
    found_solution: GraphSolution | None = None
    tables: dict[int, FamilyTable] = field(default_factory=dict)
    """Of the nodes that were scored in full."""
    unscored: dict[int, Unscored] = field(default_factory=dict)
    """Of nodes whose parents were screened, what screening says of all of them."""
    history: list[dict[str, Any]] = field(default_factory=list)
    n_sweeps: int = 0
    settled: bool = False
    unconverged: int = 0
    """Solves of the last sweep that hit the iteration limit."""
    complaint: str = ""
    """What besides sweeps and solves has not settled."""

    @property
    def solution(self) -> GraphSolution:
        """The present graph, solved."""
        assert self.found_solution is not None
        return self.found_solution

    @solution.setter
    def solution(self, solution: GraphSolution) -> None:
        self.found_solution = solution

    def begun_at(self, solution: GraphSolution) -> SearchRun:
        """The same search at the beginning, with this graph."""
        return replace(
            self,
            found_solution=solution,
            tables={},
            history=[],
            n_sweeps=0,
            settled=False,
            unconverged=0,
            complaint="",
        )

    def total_score(self, solution: GraphSolution) -> float:
        """Score with the structure prior."""
        children = set(self.prior.children)
        prior = sum(
            float(self.prior.log_prior(n, family_rows([family]))[0])
            for n, family in enumerate(solution.parents)
            if n in children
        )
        return solution.score + prior

    def note_sweep(self, changed: int, n_scored: int) -> None:
        """A line of the history."""
        self.history.append(
            {
                "sweep": self.n_sweeps,
                "score": self.total_score(self.solution),
                "changed_families": changed,
                "scored_families": n_scored,
            }
        )
        tell_ranking(self.progress, self.ranking)

    def ranking(self) -> Ranking:
        """The edges as the tables have them so far: as sure as the star, not yet tempered."""
        return {
            self.nodes[child]: dict(zip(self.nodes, table.edge_probabilities(len(self.nodes))))
            for child, table in self.tables.items()
        }

    def journal_context(self, what: str, *around: Any) -> str:
        """For the journal: what scores depend on besides their family; "" without a journal."""
        if self.journal is None:
            return ""
        from asterism.learning.search.journal import context_of

        # scores with other emissions are other scores
        what = f"{what}, emissions refined {self.round} times" if self.round else what
        return context_of(what, *around)


# ---- the beginning ----------------------------------------------------------------------------


def choose_search(asked: str, n_families: int, has_links: bool) -> tuple[bool, bool]:
    """Whether families are scored by local solves, and whether all of them are.

    Exactly timed jumps and joint measurements (``has_links``) need coupled solves.
    """
    if asked != "auto":
        return SEARCHES[asked].screens, not SEARCHES[asked].screens
    limit = UNSCREENED_LIMIT if has_links else EXHAUSTIVE_LIMIT
    return n_families > limit, n_families <= UNSCREENED_LIMIT


def completed_settings(
    settings: StructureSettings, observations: Observations
) -> tuple[StructureSettings, list[LevelChoice]]:
    """Settings with joint measurements by column and open levels counted, and what was counted."""
    settings = replace(settings, emission=with_joint_by_column(settings.emission, observations))
    if not leaves_levels_open(settings.emission):
        return settings, []
    from asterism.learning.levels import with_levels

    emission, choices = with_levels(settings.emission, observations, settings.states)
    return replace(settings, emission=emission), choices


def canonical_nodes(settings: StructureSettings, observations: Observations) -> tuple[str, ...]:
    """All nodes (measured, of events and intervals, or named by ``states``), by name."""
    names = {str(n) for n in observations.nodes}
    names |= {str(n) for n in (settings.states or {})}
    if isinstance(settings.emission, Mapping):
        for column, emission in settings.emission.items():
            if isinstance(emission, Joint):  # its column is no node
                names = names - {str(column)} | set(emission.nodes)
    outside = settings.structure_prior.exogenous
    require_known(outside, sorted(names), Sentence(Setting("exogenous"), " names"))
    if not names:
        raise DataError("The data have no node: a table needs at least one measured column.")
    return tuple(sorted(names))


def prepare(
    settings: StructureSettings,
    observations: Observations,
    progress: ProgressListener,
    nodes: tuple[str, ...] | None = None,
) -> SearchRun:
    """Fit the single nodes and lay out the data on the grid that all graphs share."""
    if settings.method == AUTO:  # whose first stage this is
        settings = replace(settings, method="star")
    names = nodes or canonical_nodes(settings, observations)
    prior = settings.numbered_prior(names)
    try:
        alone = fit_single_nodes(settings, observations, names)
    except ImpossibleEvidence as problem:
        raise problem.named(names) from None
    n_families = sum(prior.n_families(n) for n in prior.children)
    evidence = alone.evidence
    has_links = len(evidence.jumps.time) > 0 or len(evidence.joint) > 0
    has_edges = n_families > len(prior.children) or any(prior.required.values())
    screened, keeps_all = choose_search(settings.search.kind, n_families, has_links)
    step = _SCREENED_STEP if n_families > UNSCREENED_LIMIT else _STEP
    sizes = [len(alone.template.network.states[n]) for n in names]
    scorer = make_scorer(
        evidence,
        SingleStart(sizes, alone.allowed, alone.initial, alone.rates),
        (settings.prior.shape, alone.prior_rates),
        GridPlan(
            # nodes without neighbours are exact on steps as long as their gaps
            relaxation_rate=alone.relaxation_rate if has_edges else 0.0,
            step=step * float(np.sqrt(settings.accuracy.tolerance / 1e-3)),
            time_step=settings.accuracy.time_step,
        ),
        settings.method,
        digamma=settings.accuracy.digamma,
        negligible=_UNSEEN * (1.0 / settings.tempering_factor(alone.known_share) - 1.0),
    )
    n_candidates = len(names) if keeps_all else settings.search.candidates
    return SearchRun(settings, names, alone, prior, scorer, progress, screened, n_candidates)


# ---- coupled sweeps ---------------------------------------------------------------------------


Solve = Callable[[Parents, GraphSolution], GraphSolution]


def sweep_nodes(
    search: SearchRun,
    families: Mapping[int, IntArray],
    solve: Solve,
    what: str,
    merged: Callable[[int, FamilyTable], FamilyTable] = lambda child, scored: scored,
) -> None:
    """Let every node take the best of its families, in turn, until the graph stops changing.

    The whole graph is solved for each family. ``merged`` makes a node's table from the scores.
    """
    begin = search.solution
    known: dict[Parents, float] = {} if begin.out_of_time else {begin.parents: begin.score}
    n_families = sum(map(len, families.values()))
    limit = current_limit()
    for _ in range(search.settings.accuracy.max_sweeps):
        before = search.solution.parents
        search.unconverged = 0
        search.n_sweeps += 1
        search.progress.start(n_families, what.format(search.n_sweeps))
        for child, rows in families.items():
            if limit.stops():
                break
            scored = improve(search, child, known, rows, solve)
            if scored is not None:
                search.tables[child] = merged(child, scored)
        search.progress.finish()
        changed = sum(a != b for a, b in zip(before, search.solution.parents))
        search.note_sweep(changed, n_families)
        search.settled = changed == 0 and not limit.was_felt
        if search.settled or limit.was_felt:
            break


def improve(
    search: SearchRun,
    child: int,
    known: dict[Parents, float],
    families: IntArray,
    solve_graph: Solve,
) -> FamilyTable | None:
    """Score these families of one node around the current graph and adopt the best.

    None where there was no time to score them all: some of them say nothing about the others.
    """
    current = search.solution
    log_prior = search.prior.log_prior(child, families)
    graphs = [
        (*current.parents[:child], family_tuple(row), *current.parents[child + 1 :])
        for row in families
    ]
    # a score depends, in its last digits, on the solution it was started from
    context = search.journal_context("exhaustive", current.parents, child)
    if search.journal is not None:
        names = {repr(g[child]): g for g in graphs if g not in known}
        for item, remembered in search.journal.known(context).items():
            if item in names:
                known[names[item]] = float(remembered[0])
                search.unconverged += int(remembered[1] == 0.0)
    new = [i for i, g in enumerate(graphs) if g not in known]

    def solve(i: int) -> GraphSolution | None:
        search.progress.advance()
        try:
            return solve_graph(graphs[new[i]], current)
        except RanAway:  # strongly coupled reciprocal edges; such a graph is no answer
            return None

    kept: GraphSolution | None = None  # the best so far; the messages of all would not fit
    best_new = -np.inf
    for i, solution in zip(new, in_order(solve, len(new), search.settings.n_jobs)):
        if solution is not None and solution.out_of_time:
            current_limit().stops()
            break
        known[graphs[i]] = -np.inf if solution is None else solution.score
        converged = solution is not None and solution.converged
        search.unconverged += not converged
        if search.journal is not None:
            outcome = np.array([known[graphs[i]], float(converged)])
            search.journal.add(context, repr(graphs[i][child]), outcome)
        if solution is not None and solution.score + log_prior[i] > best_new:
            best_new = solution.score + log_prior[i]
            kept = solution
        if current_limit().stops():
            break
    search.progress.advance(len(graphs) - len(new))
    if any(graph not in known for graph in graphs):
        return None
    scored = [i for i, g in enumerate(graphs) if known[g] > -np.inf]
    if not scored:
        raise RanAway(f"No set of parents of {search.nodes[child]!r} has a score that settles.")
    scores = np.array([known[graphs[i]] for i in scored])
    table = FamilyTable(families[scored], scores + log_prior[scored])
    best = graphs[scored[int(table.ranking(search.nodes)[0])]]
    if best != current.parents:
        if kept is None or kept.parents != best:
            kept = solve_graph(best, current)
        search.solution = kept
    return table


# ---- from beginning to end --------------------------------------------------------------------


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``."""
    return result_of(search_observations(settings, observations, progress), observations)


def search_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchRun:
    """The search itself, at its end."""
    settings, levels = completed_settings(settings, observations)
    search = prepare(settings, observations, progress)
    search.levels = levels
    from asterism.learning.search.journal import evidence_content, opened

    content = evidence_content(search.single_nodes.evidence)
    with opened(settings, search.nodes, content) as search.journal:
        search = _run(search)
        if settings.search.refine_emissions:
            search = _refined(search, observations)
    if current_limit().was_felt:
        _say_what_was_cut_short(search)
    return search


def _say_what_was_cut_short(search: SearchRun) -> None:
    """Nodes that were not scored in full have no table; the reason to stop counts them."""
    unscored = [search.nodes[n] for n in search.prior.children if n not in search.tables]
    which = ""
    if unscored:
        which = f"{len(unscored)} of {len(search.nodes)} nodes were not scored "
        which += f"({first_few(unscored, 5)}); "
    search.settled = False
    search.complaint = (
        f"{current_limit().sentence}: {which}the graph is the best so far: allow more time."
    )


def _run(search: SearchRun, begin: GraphSolution | None = None) -> SearchRun:
    """The search that was asked for, or that suits the number of families."""
    asked = search.settings.search.kind
    entry = SEARCHES[asked if asked != "auto" else "screened" if search.screened else "exhaustive"]
    run = getattr(importlib.import_module(entry.module), entry.function)
    ended: SearchRun = run(search, begin)
    return ended


def _refined(search: SearchRun, observations: Observations) -> SearchRun:
    """Fit emissions on the graph and search on from there, until the graph stays."""
    for number in range(1, MAX_ROUNDS + 1):
        if current_limit().stops():
            return search
        refined = refine_emissions(search, observations)
        if refined is None:
            return search
        before, search = search, _run(replace(refined, round=number), refined.solution)
        # for which there was no time: what was found before counts
        search.tables = {**before.tables, **search.tables}
        if not refined.settled:
            search.complaint = "the emissions were still changing when their fit was stopped"
        search.history = [
            *before.history,
            *({**row, "sweep": row["sweep"] + before.n_sweeps} for row in search.history),
        ]
        search.n_sweeps += before.n_sweeps
        if search.solution.parents == before.solution.parents:
            return search
    search.complaint = f"it still changed when emissions had been refined {MAX_ROUNDS} times"
    return search


# ---- one graph --------------------------------------------------------------------------------


def graph_scorer(search: SearchRun) -> Scorer:
    """What scores single graphs: for star and mean field, what the search itself uses."""
    return search.scorer


def score_graph(
    settings: StructureSettings, graph: Any, data: Observations | Trajectories
) -> float:
    """Score of one graph, structure prior included (see :func:`structure_score`)."""
    if settings.method == AUTO:
        settings = replace(settings, method="star")
    if not METHODS[settings.method].has_evidence:
        raise ModelError(
            f"method {settings.method!r} has no evidence value, so it cannot score a single graph; "
            "use another method."
        )
    wanted = as_parents(graph)
    if isinstance(data, Trajectories):
        from asterism.learning.search.complete import score_complete_graph

        return score_complete_graph(settings, wanted, data)
    settings, _ = completed_settings(settings, data)
    nodes = tuple(sorted({*canonical_nodes(settings, data), *wanted}))
    # a single score counts in full
    in_full = replace(settings, accuracy=replace(settings.accuracy, tempering=1.0))
    search = prepare(in_full, data, Silent(), nodes)
    learner = importlib.import_module(METHODS[settings.method].graph_learner)
    search.scorer = learner.graph_scorer(search)
    number = {name: n for n, name in enumerate(nodes)}
    parents = tuple(tuple(sorted(number[p] for p in wanted.get(name, ()))) for name in nodes)
    search.solution = search.scorer.solve(parents)
    if settings.search.refine_emissions:
        search = refine_emissions(search, data) or search
    return search.total_score(search.solution)


def structure_score(
    graph: Any,
    obs: Observations | Trajectories,
    emission: Any = None,
    prior: GammaPrior | None = None,
    method: str = "star",
    *,
    structure_prior: UserPrior | FamilyPrior | str = "uniform",
    search: Search | str = "auto",
    accuracy: Accuracy = Accuracy(),
    progress: ProgressListener | bool | None = None,
    **options: Any,
) -> float:
    """ln P(graph | data) up to a constant: comparable between graphs over the same data.

    ``graph``: {node: parents}, a networkx.DiGraph, a Network or a short name. The other arguments
    are those of :class:`StructureLearner`, with its defaults but for one: graphs are equally
    probable beforehand, so that the score says what the data say and differences are log Bayes
    factors. ``structure_prior="sparse"`` adds the learner's own prior over graphs. Complete paths
    get the exact Bayesian score.
    """
    refuse_old_names(options)
    settings = StructureSettings(
        emission=emission,
        prior=prior or LEARNERS_PRIOR,
        method=method,
        structure_prior=as_object("structure_prior", structure_prior),
        search=as_object("search", search),
        accuracy=accuracy,
        **options,
    )
    if settings.search.hidden:
        raise ModelError(
            Setting("hidden"),
            " is for learners. To score a graph with a hidden node, name the node in the graph "
            "and its states in states=.",
        )
    with listening(progress, "Scoring the graph"):
        return score_graph(settings, graph, obs)
