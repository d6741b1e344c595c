"""A structure search from data to result: what it works on, where it stands, which search suits.

Nodes are numbered in the order of their names, so that the order of columns in the data does not
matter. Every search (``exhaustive.py``, ``screened.py``) works on a :class:`SearchTask` and returns
a :class:`SearchState`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, ModelError, Setting
from asterism.inference.methods import METHODS
from asterism.learning.learner_settings import (
    MOVED,
    Accuracy,
    FamilyPrior,
    as_object,
    new_name,
)
from asterism.learning.learner_settings import StructurePrior as UserPrior
from asterism.learning.search.emission_refinement import refine_emissions
from asterism.learning.search.found import FamilyTable, SearchResult, in_the_users_order
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
from asterism.learning.search.structure_prior import NumberedPrior, family_tuple
from asterism.learning.tasks import ProgressListener, Silent, in_order
from asterism.model.emissions import Joint, leaves_levels_open, with_joint_by_column
from asterism.model.names import as_parents
from asterism.model.priors import LEARNERS_PRIOR, GammaPrior
from asterism.numerics.progress import listening
from asterism.numerics.resources import current_limit
from asterism.star.batch import ImpossibleEvidence
from asterism.timeline.evidence import IntArray

if TYPE_CHECKING:
    from asterism.learning.levels import LevelChoice
    from asterism.learning.search.journal import Journal

#: how often emissions may be refined before the search is given up as unsettled
MAX_ROUNDS = 10


# steps in relaxation times, shared by all graphs of a search
_STEP = 0.25
_SCREENED_STEP = 0.8
#: Log-odds that nobody sees in a probability. Where measurements tell so little that scores count
#: only a hundredth, scores need to be right to a hundred times as much, and no more.
_UNSEEN = 1e-5
#: families in one sweep up to which "auto" solves the whole network for each
EXHAUSTIVE_LIMIT = 150
#: … and up to which it scores all of them, if only by local solves, on finer steps
UNSCREENED_LIMIT = 3_000


@dataclass
class SearchTask:
    """One search: data, prior and scorer; nodes numbered in the order of their names."""

    settings: StructureSettings
    nodes: tuple[str, ...]
    single_nodes: SingleNodes
    prior: NumberedPrior
    scorer: Scorer
    progress: ProgressListener
    screened: bool
    n_candidates: int
    journal: Journal | None = None
    levels: Sequence[LevelChoice] = ()
    """How many levels were counted before the search."""
    round: int = 0
    """How often emissions have been refined: the same graph then has other scores."""


@dataclass
class SearchState:
    """Where a search stands."""

    solution: GraphSolution
    tables: dict[int, FamilyTable] = field(default_factory=dict)
    """Of the nodes that were scored in full."""
    history: list[dict[str, Any]] = field(default_factory=list)
    n_sweeps: int = 0
    settled: bool = False
    unconverged: int = 0
    """Solves of the last sweep that hit the iteration limit."""
    complaint: str = ""
    """What besides sweeps and solves has not settled."""


def choose_search(asked: str, n_families: int, has_links: bool) -> tuple[bool, bool]:
    """Whether families are scored by local solves, and whether all of them are.

    Exactly timed jumps and joint measurements (``has_links``) need coupled solves.
    """
    if asked != "auto":
        return SEARCHES[asked].screens, not SEARCHES[asked].screens
    limit = UNSCREENED_LIMIT if has_links else EXHAUSTIVE_LIMIT
    return n_families > limit, n_families <= UNSCREENED_LIMIT


def settings_with_joint_by_column(
    settings: StructureSettings, observations: Observations
) -> StructureSettings:
    """The settings with joint measurements by the columns they read."""
    return replace(settings, emission=with_joint_by_column(settings.emission, observations))


def settings_with_levels(
    settings: StructureSettings, observations: Observations
) -> tuple[StructureSettings, list[LevelChoice]]:
    """The settings with emissions whose levels have been counted, and what was chosen."""
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
    for node in settings.exogenous:
        if str(node) not in names:
            raise ModelError(
                Setting("exogenous"),
                f" names {str(node)!r}, which is not a node; the nodes are "
                f"{', '.join(sorted(names))}.",
            )
    if not names:
        raise DataError("The data have no node: a table needs at least one measured column.")
    return tuple(sorted(names))


def prepare(
    settings: StructureSettings,
    observations: Observations,
    progress: ProgressListener,
    nodes: tuple[str, ...] | None = None,
) -> SearchTask:
    """Fit the single nodes and lay out the data on the grid that all graphs share."""
    names = nodes or canonical_nodes(settings, observations)
    prior = settings.structure_prior(names)
    try:
        alone = fit_single_nodes(settings, observations, names)
    except ImpossibleEvidence as problem:
        raise problem.named(names) from None
    n_families = sum(prior.n_families(n) for n in prior.children)
    evidence = alone.evidence
    has_links = len(evidence.jumps.time) > 0 or len(evidence.joint) > 0
    has_edges = n_families > len(prior.children) or any(prior.required.values())
    screened, keeps_all = choose_search(settings.search, n_families, has_links)
    step = _SCREENED_STEP if n_families > UNSCREENED_LIMIT else _STEP
    sizes = [len(alone.template.network.states[n]) for n in names]
    scorer = make_scorer(
        evidence,
        SingleStart(sizes, alone.allowed, alone.initial, alone.rates),
        (settings.prior.shape, alone.prior_rates),
        GridPlan(
            # nodes without neighbours are exact on steps as long as their gaps
            relaxation_rate=alone.relaxation_rate if has_edges else 0.0,
            step=step * float(np.sqrt(settings.tolerance / 1e-3)),
            time_step=settings.time_step,
        ),
        settings.method,
        digamma=settings.digamma,
        negligible=_UNSEEN * (1.0 / settings.tempering_factor(alone.known_share) - 1.0),
    )
    n_candidates = len(names) if keeps_all else settings.n_candidates
    return SearchTask(settings, names, alone, prior, scorer, progress, screened, n_candidates)


def few_candidates(task: SearchTask) -> dict[int, IntArray] | None:
    """For each node all that may be its parents; None if so many must be screened first."""
    prior = task.prior
    if max((len(prior.candidates(c)) for c in prior.children), default=0) > task.n_candidates:
        return None
    return {c: prior.candidates(c) for c in prior.children}


def improve(
    task: SearchTask,
    state: SearchState,
    child: int,
    known: dict[Parents, float],
    families: IntArray,
    solve_graph: Callable[[Parents, GraphSolution], GraphSolution],
) -> FamilyTable | None:
    """Score these families of one node around the current graph and adopt the best.

    None where there was no time to score them all: some of them say nothing about the others.
    """
    current = state.solution
    log_prior = task.prior.log_prior(child, families)
    graphs = [
        (*current.parents[:child], family_tuple(row), *current.parents[child + 1 :])
        for row in families
    ]
    # a score depends, in its last digits, on the solution it was started from
    context = journal_context(task, "exhaustive", current.parents, child)
    if task.journal is not None:
        names = {repr(g[child]): g for g in graphs if g not in known}
        for item, remembered in task.journal.known(context).items():
            if item in names:
                known[names[item]] = float(remembered[0])
                state.unconverged += int(remembered[1] == 0.0)
    new = [i for i, g in enumerate(graphs) if g not in known]

    def solve(i: int) -> GraphSolution | None:
        task.progress.advance()
        try:
            return solve_graph(graphs[new[i]], current)
        except RanAway:  # strongly coupled nodes that lead each other; such a graph is no answer
            return None

    kept: GraphSolution | None = None  # the best so far; the messages of all would not fit
    best_new = -np.inf
    for i, solution in zip(new, in_order(solve, len(new), task.settings.n_jobs)):
        if solution is not None and solution.out_of_time:
            current_limit().stops()
            break
        known[graphs[i]] = -np.inf if solution is None else solution.score
        converged = solution is not None and solution.converged
        state.unconverged += not converged
        if task.journal is not None:
            outcome = np.array([known[graphs[i]], float(converged)])
            task.journal.add(context, repr(graphs[i][child]), outcome)
        if solution is not None and solution.score + log_prior[i] > best_new:
            best_new = solution.score + log_prior[i]
            kept = solution
        if current_limit().stops():
            break
    task.progress.advance(len(graphs) - len(new))
    if any(graph not in known for graph in graphs):
        return None
    scored = [i for i, g in enumerate(graphs) if known[g] > -np.inf]
    if not scored:
        raise RanAway(f"No set of parents of {task.nodes[child]!r} has a score that settles.")
    table = FamilyTable(
        families[scored], np.array([known[graphs[i]] for i in scored]) + log_prior[scored]
    )
    best = graphs[scored[int(table.ranking(task.nodes)[0])]]
    if best != current.parents:
        if kept is None or kept.parents != best:
            kept = solve_graph(best, current)
        state.solution = kept
    return table


def journal_context(task: SearchTask, what: str, *around: Any) -> str:
    """For the journal: what scores depend on besides their family; "" without a journal."""
    if task.journal is None:
        return ""
    from asterism.learning.search.journal import context_of

    # scores with other emissions are other scores
    what = f"{what}, emissions refined {task.round} times" if task.round else what
    return context_of(what, *around)


def total_score(task: SearchTask, solution: GraphSolution) -> float:
    """Score with the structure prior."""
    prior = sum(
        float(task.prior.log_prior(n, np.array([_padded(p)], dtype=np.int64))[0])
        for n, p in enumerate(solution.parents)
        if n in task.prior.children
    )
    return solution.score + prior


def _padded(parents: Sequence[int]) -> list[int]:
    return list(parents) or [-1]


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``."""
    task, state = search_observations(settings, observations, progress)
    return in_the_users_order(task, state, list(observations.nodes))


def search_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> tuple[SearchTask, SearchState]:
    """The search itself: what it worked on, and where it ended."""
    settings = settings_with_joint_by_column(settings, observations)
    settings, levels = settings_with_levels(settings, observations)
    task = prepare(settings, observations, progress)
    task.levels = levels
    if settings.journal is not None:
        from asterism.learning.search.journal import Journal, fingerprint

        print_of = fingerprint(settings, task.single_nodes.evidence, task.nodes)
        task.journal = Journal.open(settings.journal, print_of, settings.resume)
    try:
        state = _search(task)
        if settings.refine_emissions:
            task, state = _go_on_refining(task, state, observations)
    finally:
        if task.journal is not None:
            task.journal.close()
    _say_what_was_cut_short(task, state)
    return task, state


def _say_what_was_cut_short(task: SearchTask, state: SearchState) -> None:
    """Nodes that were not scored in full have no table; the reason to stop counts them."""
    unscored = [n for n in task.prior.children if n not in state.tables]
    if current_limit().was_felt:
        state.settled = False
        state.complaint = f"{current_limit().sentence}: "
        if unscored:
            names = ", ".join(task.nodes[n] for n in unscored[:5])
            state.complaint += f"{len(unscored)} of {len(task.nodes)} nodes were not scored "
            state.complaint += f"({names}{', …' if len(unscored) > 5 else ''}); "
        state.complaint += "the graph is the best so far: allow more time."


def _search(task: SearchTask, begin: GraphSolution | None = None) -> SearchState:
    """The search that was asked for, or that suits the number of families."""
    asked = task.settings.search
    entry = SEARCHES[asked if asked != "auto" else "screened" if task.screened else "exhaustive"]
    search = getattr(importlib.import_module(entry.module), entry.function)
    state: SearchState = search(task, begin)
    return state


def _go_on_refining(
    task: SearchTask, state: SearchState, observations: Observations
) -> tuple[SearchTask, SearchState]:
    """Fit emissions on the graph and search on from there, until the graph stays."""
    for number in range(1, MAX_ROUNDS + 1):
        if current_limit().stops():
            return task, state
        refined = refine_emissions(task, state.solution, observations)
        if refined is None:
            return task, state
        task = replace(refined.task, round=number)
        before = state
        state = _search(task, refined.solution)
        # for which there was no time: what was found before counts
        state.tables = {**before.tables, **state.tables}
        if not refined.settled:
            state.complaint = "the emissions were still changing when their fit was stopped"
        state.history = [
            *before.history,
            *({**row, "sweep": row["sweep"] + before.n_sweeps} for row in state.history),
        ]
        state.n_sweeps += before.n_sweeps
        if state.solution.parents == before.solution.parents:
            return task, state
    state.complaint = f"it still changed when emissions had been refined {MAX_ROUNDS} times"
    return task, state


def graph_scorer(task: SearchTask) -> Scorer:
    """What scores single graphs: for star and mean field, what the search itself uses."""
    return task.scorer


def score_graph(
    settings: StructureSettings, graph: Any, data: Observations | Trajectories
) -> float:
    """Score of one graph, structure prior included (see ``score.structure_score``)."""
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
    settings = settings_with_joint_by_column(settings, data)
    settings, _ = settings_with_levels(settings, data)
    nodes = tuple(sorted({*canonical_nodes(settings, data), *wanted}))
    # a single score counts in full
    task = prepare(replace(settings, tempering=1.0), data, Silent(), nodes)
    learner = importlib.import_module(METHODS[settings.method].graph_learner)
    task.scorer = learner.graph_scorer(task)
    number = {name: n for n, name in enumerate(nodes)}
    parents = tuple(tuple(sorted(number[p] for p in wanted.get(name, ()))) for name in nodes)
    solution = task.scorer.solve(parents)
    refined = refine_emissions(task, solution, data) if settings.refine_emissions else None
    if refined is not None:
        task, solution = refined.task, refined.solution
    return total_score(task, solution)


def structure_score(
    graph: Any,
    obs: Observations | Trajectories,
    emission: Any = None,
    prior: GammaPrior | None = None,
    method: str = "star",
    *,
    structure_prior: UserPrior | FamilyPrior | str = "uniform",
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
    for name in options:
        if name in MOVED:
            raise TypeError(f"The argument {name} is gone; say {new_name(*MOVED[name])}.")
    settings = StructureSettings(
        emission=emission,
        prior=prior or LEARNERS_PRIOR,
        method=method,
        **as_object("structure_prior", structure_prior).settings(),
        **as_object("accuracy", accuracy).settings(),
        **options,
    )
    with listening(progress, "Scoring the graph"):
        return score_graph(settings, graph, obs)
