"""Structure learning by sampling: edge probabilities that are not conditional on the other edges.

The star's search comes first. It gives the automatic prior rate, fitted emissions, the graph from
which all chains but one begin, and, for large networks, the candidate families. Then graphs, rates,
starts, emissions and paths are drawn together (``sampling/sweep.py``). The probability of a family
is the average of P(family | paths) over the sweeps; in large networks, where chains may not have
met, that of an edge is what a further chain would say on average (``sampling/diagnose.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.errors import ModelError, Setting
from asterism.learning.em.sampled_emissions import learned_emission, mean_emissions
from asterism.learning.search.drawn_statistics import DrawnStatistics, row_of
from asterism.learning.search.found import (
    FamilyTable,
    SearchResult,
    counts_beyond,
    result_of,
    shown_graph,
)
from asterism.learning.search.score import Parents
from asterism.learning.search.settings import HiddenNode, StructureSettings
from asterism.learning.search.structure_prior import NumberedPrior, family_sizes
from asterism.learning.search.task import UNSCREENED_LIMIT, SearchRun, search_observations
from asterism.learning.tasks import ProgressListener, Silent, dask_client, map_tasks
from asterism.model.priors import LearnersPrior
from asterism.numerics.arrays import with_exits
from asterism.numerics.progress import Ranking, in_percent, tell_ranking
from asterism.numerics.resources import current_limit, time_limit, without_limit
from asterism.sampling.diagnose import (
    Diagnosis,
    effective_size,
    monte_carlo_error,
    of_a_further_chain,
    potential_scale_reduction,
)
from asterism.sampling.draw_tree import draw_tree
from asterism.sampling.model_chains import ChainTask, GivenPaths, advanced, mean_rates
from asterism.sampling.model_posterior import RunPlan, SampledModels, sample_models
from asterism.sampling.model_setup import (
    ALL_EDGES_KEPT,
    OTHERS_COMPARED,
    Drawn,
    LearnedEmission,
    PriorChoice,
    all_parents,
    can_sample,
    candidates_of,
    model_setup,
)
from asterism.sampling.sampler_arrays import AllParents, Candidates
from asterism.timeline.evidence import FloatArray, IntArray

if TYPE_CHECKING:
    import xarray

#: an edge between these is unsure: R̂ and effective draws of the others say nothing that matters
UNSURE = (0.02, 0.98)
#: the draws have converged when all unsure edges reach these (Vehtari et al. 2021 ask for R̂ ≤ 1.01
#: of parameters; of an edge only the mean is read, and its error is told)
R_HAT_GOAL = 1.05
EFFECTIVE_GOAL = 100.0
#: drawing ends before its limit when, besides, no edge has a larger error than this
ERROR_GOAL = 0.03
#: With a larger R̂ chains stay apart so far that errors are not to be trusted. An answer in which
#: that holds for most unsure edges should not be used, unless all errors are small all the same.
LOOSE_R_HAT, LOOSE_ERROR = 1.2, 0.1
#: edges that vary by less than this between draws have no error to speak of
_STILL = 0.003
#: a family that a search kept is drawn from directly if its score is within so many nats of the
#: best; the others are reached by exchanges of one parent. Three in ten are within 8 nats (networks
#: of 20 and 40 nodes), which makes a sweep a third cheaper
_DRAWN_DIRECTLY = 8.0
#: Upper bound on the parents of a node where the user gives none. A search counts on two: three
#: among ten candidates cost it three times as much. Draws move over all parents, and three cost
#: them little (``benchmarks/pairs.py``).
MAX_PARENTS_DRAWN = 3
#: Shapes of the rates' prior that are compared where the user gives none: rates of one node under
#: different parents differ by a factor of 3.6, 2.2 or 1.6 (one standard deviation of the logarithm)
SHAPES = (1.0, 2.0, 5.0)
#: probability that a family which was never likely still has
SMALLEST = 1e-12
CHECKPOINT = "sampling.npz"
#: below this a limit of time makes no sense
_LEAST_SECONDS = 0.1
#: edges whose chains the report draws, and points of each
_TRACED = 6
_TRACE_POINTS = 120


@dataclass(frozen=True)
class SampledGraphs:
    """The draws behind a result."""

    models: SampledModels
    share: float = 1.0
    """Of the draws in the probabilities, where they were averaged with others."""

    @cached_property
    def edge_errors(self) -> FloatArray:
        """[parent, child] Monte Carlo standard errors.

        Of pairs whose draws are not kept (``ALL_EDGES_KEPT``) only the mean is known: their errors
        are those of as many independent draws as a typical edge has.
        """
        draws = self.models.series("edges")
        error = self.share * monte_carlo_error(draws)
        by_chain = self.models.edge_probabilities()
        if by_chain is None or by_chain.shape[1] <= ALL_EDGES_KEPT:
            return self._square(error, 0.0)
        pairs = by_chain.mean(axis=0)
        moving = draws[:, :, draws.std(axis=(0, 1)) > _STILL]
        size = float(np.median(effective_size(moving))) if moving.shape[2] else 1.0
        typical: FloatArray = np.sqrt(np.maximum(pairs * (1.0 - pairs), 0.0) / max(1.0, size))
        known = self._square(error, np.nan)
        return np.where(np.isnan(known), typical, known)

    @cached_property
    def r_hat(self) -> FloatArray:
        """[parent, child]"""
        return self._square(potential_scale_reduction(self.models.series("edges")), 1.0)

    def parents(self, n_graphs: int, rng: np.random.Generator) -> list[list[tuple[int, ...]]]:
        """Graphs that were drawn, as parents per node."""
        drawn = self.models.series("parents")
        drawn = drawn.reshape(-1, *drawn.shape[2:])
        chosen = rng.choice(len(drawn), size=n_graphs, replace=n_graphs > len(drawn))
        result = []
        for rows in drawn[chosen]:
            result.append([tuple(sorted(row[row >= 0].tolist())) for row in rows])
        return result

    def diagnostics(self, nodes: tuple[str, ...]) -> pd.DataFrame:
        """Edge by edge: probability, error, R̂, effective draws; the least sure first."""
        draws = self.models.series("edges").astype(np.float64)
        edges = self.models.setup.edges
        table = pd.DataFrame(
            {
                "parent": np.array(nodes, dtype=object)[edges[:, 0]],
                "child": np.array(nodes, dtype=object)[edges[:, 1]],
                "probability": draws.mean(axis=(0, 1)),
                "error": monte_carlo_error(draws),
                "r_hat": potential_scale_reduction(draws),
                "effective_draws": effective_size(draws),
            }
        )
        return table.sort_values("error", ascending=False, ignore_index=True)

    def chain_record(self, nodes: tuple[str, ...]) -> dict[str, Any]:
        """Plain numbers about the edges with the largest errors: what the report draws."""
        table = self.diagnostics(nodes)
        table = table[table["error"] > 0.0].head(_TRACED)
        edges = self.models.setup.edges
        number = {(nodes[p], nodes[c]): i for i, (p, c) in enumerate(edges.tolist())}
        draws = self.models.series("edges")
        length = max(1, draws.shape[1] // _TRACE_POINTS)
        rows = []
        for row in table.to_dict("records"):
            own = draws[:, :, number[row["parent"], row["child"]]]
            whole = own[:, : own.shape[1] // length * length].reshape(len(own), -1, length)
            rows.append({**row, "traces": np.round(whole.mean(axis=2), 3).tolist()})
        return {
            "chains": self.models.n_chains,
            "draws": self.models.n_draws,
            "edges": [
                {k: v if isinstance(v, str | list) else float(v) for k, v in row.items()}
                for row in rows
            ],
        }

    def to_arviz(
        self, nodes: tuple[str, ...], observations: Observations | None = None
    ) -> xarray.DataTree:
        """Draws of edges (P(edge | paths)), numbers of jumps, starts and emissions."""
        edges = self.models.setup.edges
        parents, children = ([nodes[i] for i in edges[:, end]] for end in (0, 1))
        names = [f"{p}->{c}" for p, c in zip(parents, children)]
        along = {"parent": parents, "child": children}
        return draw_tree(self.models, {"edge": Drawn("edges", names, along)}, observations)

    def _square(self, values: FloatArray, other: float) -> FloatArray:
        n = len(self.models.setup.names)
        result = np.full((n, n), other)
        edges = self.models.setup.edges
        result[edges[:, 0], edges[:, 1]] = values
        return result


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``.

    Where time is limited, a third of it is for the search before the draws. If that is cut short,
    the draws begin from what the first scores say.
    """
    seconds = seconds_left(settings.sampling.seconds)
    clock = time.monotonic()
    kept = _checkpoint(settings)
    # draws that are there belong to the whole search: cut short, it would be another one
    going_on = settings.search.resume and kept is not None and kept.exists()
    third = None if going_on or seconds is None else seconds / 3.0
    with without_limit() if going_on else nullcontext(), time_limit(third) as limit:
        search = search_observations(replace(settings, method="star"), observations, progress)
    begin = search.solution.parents
    if limit.was_felt:
        best = {n: table.best(search.nodes) for n, table in search.tables.items()}
        begin = tuple(best.get(n, own) for n, own in enumerate(begin))
    if seconds is not None:
        seconds -= time.monotonic() - clock
    limits = DrawLimits(settings.sampling.max_draws, seconds_left(seconds))
    return sample_from(search, settings, observations, limits, begin)


def seconds_left(seconds: float | None = None) -> float | None:
    """These seconds, or those that the learner has left, whichever are fewer; None: no limit."""
    left = min(current_limit().left, math.inf if seconds is None else seconds)
    return None if left == math.inf else max(left, _LEAST_SECONDS)


class DrawLimits(NamedTuple):
    """How long to draw at most."""

    max_sweeps: int
    """Per chain."""
    seconds: float | None = None
    burn_in: int = 400
    """Sweeps per chain before the draws count."""


def sample_from(
    search: SearchRun,
    settings: StructureSettings,
    observations: Observations,
    limits: DrawLimits,
    begin: Parents | None = None,
) -> SearchResult:
    """Draw graphs, rates and paths from where a search ended; its tables are replaced.

    All chains but one begin from the graph of the search, or from ``begin``.
    """
    begin = search.solution.parents if begin is None else begin
    if settings.max_parents is None:
        most = MAX_PARENTS_DRAWN + min(1, len(settings.influences))
        search.prior = _with_more_parents(search.prior, most)
    progress = search.progress
    begin, begun = _with_hidden(search, settings, begin)
    families = _families(search, begin)
    n_nodes = len(search.nodes)
    sizes = [len(search.single_nodes.template.network.states[n]) for n in search.nodes]
    learned = _learned_emissions(search, observations)
    candidates = candidates_of(
        sizes, families, [search.prior.log_prior(n, families[n]) for n in range(n_nodes)]
    )
    setup = model_setup(
        search.single_nodes.evidence,
        sizes,
        candidates,
        PriorChoice(
            settings.prior.shape,
            search.single_nodes.prior_rates,
            search.single_nodes.allowed,
            isinstance(settings.initial, str) and settings.initial == "learn",
            _first_initial(search, settings),
            SHAPES if isinstance(settings.prior, LearnersPrior) else (),
            isinstance(settings.prior, LearnersPrior),
        ),
        search.nodes,
        learned,
        None if _are_few(search) else _all_families(search, candidates),
    )
    start = setup.candidates.start
    best = np.array(
        [start[n] + row_of(families[n], begin[n]) for n in range(n_nodes)],
        dtype=np.int64,
    )
    # the last chain begins without edges, but for those of hidden nodes: their paths would be lost
    tied = np.array([not begun[0].keys().isdisjoint(own) for own in begin])
    places = [best] * (settings.sampling.chains - 1) + [np.where(tied, best, start[:-1])]

    progress.start(100, "drawing graphs, rates and paths (percent of the limit)")
    plan = run_plan(settings, limits, search.nodes, progress, advanced)
    models = sample_models(setup, places, plan, begun)
    progress.finish()
    return _result(search, models, families, settings, observations)


def _with_hidden(
    search: SearchRun, settings: StructureSettings, begin: Parents
) -> tuple[Parents, list[dict[int, GivenPaths]]]:
    """The graph with hidden nodes as parents of their groups, and per chain their first paths."""
    number = {name: n for n, name in enumerate(search.nodes)}
    graph = list(begin)
    begun: list[dict[int, GivenPaths]] = [{} for _ in range(settings.sampling.chains)]
    for hidden in settings.begins:
        node = number[hidden.node]
        graph[node] = tuple(sorted(search.prior.required.get(node, ())))
        for child in (number[name] for name in hidden.children):
            own = {*search.prior.required.get(child, ()), node}
            fits = len(own) <= search.prior.max_parents[child]
            if fits and node in search.prior.candidates(child):
                graph[child] = tuple(sorted(own))
        for chain, given in enumerate(begun):
            given[node] = _one_draw(hidden, chain, settings.sampling.chains)
    return tuple(graph), begun


def _one_draw(hidden: HiddenNode, draw: int, n_draws: int) -> GivenPaths:
    """The hidden node in one of the draws of every trajectory."""
    paths, column = hidden.paths, hidden.paths.nodes.index(hidden.node)
    row = np.repeat(np.arange(paths.n_trajectories), np.diff(paths.jump_offset))
    own = (paths.jump_node == column) & (row % n_draws == draw)
    n_jumps = np.bincount(row[own] // n_draws, minlength=paths.n_trajectories // n_draws)
    return GivenPaths(
        paths.initial[draw::n_draws, column], n_jumps, paths.jump_time[own], paths.jump_state[own]
    )


def run_plan(
    settings: StructureSettings,
    limits: DrawLimits,
    nodes: tuple[str, ...],
    progress: ProgressListener,
    work: Callable[[Any, ChainTask], Any],
) -> RunPlan:
    """Draw until edges are known well, and tell how far it is.

    On a Dask cluster that joblib is set to use, ``work`` lets chains go on at the workers.
    """

    def judge(models: SampledModels) -> tuple[Diagnosis, bool, str]:
        tell_ranking(progress, lambda: _ranking(models, nodes))
        return judge_edges(models)

    return RunPlan(
        judge=judge,
        n_jobs=settings.n_jobs,
        seed=settings.random_state,
        burn_in=limits.burn_in,
        max_sweeps=limits.max_sweeps,
        seconds=limits.seconds,
        tell=in_percent(progress.advance),
        checkpoint=_checkpoint(settings),
        resume=settings.search.resume,
        spread=None if dask_client() is None else partial(_on_cluster, work),
    )


def _with_more_parents(prior: NumberedPrior, most: int) -> NumberedPrior:
    """The prior of a search where the draws may go beyond its number of parents."""
    own = np.where(prior.max_parents > 0, most, 0)
    return replace(prior, max_parents=np.maximum(prior.max_parents, own))


def _on_cluster(
    work: Callable[[Any, ChainTask], Any], setup: Any, tasks: list[ChainTask]
) -> Iterator[Any]:
    """Chains go on at the workers of the Dask cluster that joblib is set to use."""
    return map_tasks(work, setup, [(task,) for task in tasks], 1, Silent())


@dataclass(frozen=True)
class EdgeCheck:
    """How well the draws know the edges."""

    worst: Diagnosis
    """The largest error of any edge; R̂ and effective draws of the worst unsure edge."""
    n_unsure: int
    n_known: int
    """Unsure edges with R̂ and effective draws as good as the goals."""
    usable: bool
    """Whether the errors can be trusted, so that the answer can be used with them."""
    has_draws: bool = True

    @property
    def converged(self) -> bool:
        """Whether all unsure edges are known well."""
        return self.has_draws and self.n_known == self.n_unsure

    @property
    def words(self) -> str:
        """As part of a sentence."""
        if not self.has_draws:
            return "too few draws to say how sure edges are"
        low, high = UNSURE
        between = f"with a probability between {low:g} and {high:g}"
        goals = f"R̂ ≤ {R_HAT_GOAL} and at least {EFFECTIVE_GOAL:.0f} effective draws"
        error = f"the largest Monte Carlo error of an edge is {self.worst.error:.3f}"
        if self.n_unsure == 0:
            return f"no edge has a probability between {low:g} and {high:g}; {error}"
        if self.converged:
            return f"all {self.n_unsure:,} edges {between} have {goals}; {error}"
        share = math.floor(100.0 * self.n_known / self.n_unsure)
        return (
            f"{self.n_known:,} of {self.n_unsure:,} edges {between} ({share} %) have {goals}, the "
            f"largest R̂ is {self.worst.r_hat_words}; {error}"
        )


def check_edges(models: SampledModels) -> EdgeCheck:
    """How well the draws so far know the edges."""
    edges = models.series("edges")
    if edges.shape[2] == 0:
        return EdgeCheck(Diagnosis(0.0, 1.0, np.inf), 0, 0, True)
    if edges.shape[1] < 4:
        return EdgeCheck(Diagnosis(np.inf, np.inf, 0.0), 0, 0, False, False)
    moving = edges[:, :, edges.std(axis=(0, 1)) > _STILL].astype(np.float64)
    error = monte_carlo_error(moving)
    mean = moving.mean(axis=(0, 1))
    unsure = moving[:, :, (mean >= UNSURE[0]) & (mean <= UNSURE[1])]
    r_hat, size = potential_scale_reduction(unsure), effective_size(unsure)
    worst = Diagnosis(
        float(error.max(initial=0.0)),
        float(r_hat.max(initial=1.0)),
        float(size.min(initial=edges.shape[0] * edges.shape[1])),
    )
    known = int(((r_hat <= R_HAT_GOAL) & (size >= EFFECTIVE_GOAL)).sum())
    apart = int((r_hat > LOOSE_R_HAT).sum())
    usable = worst.error <= LOOSE_ERROR or apart <= len(r_hat) / 2
    return EdgeCheck(worst, len(r_hat), known, usable)


def _ranking(models: SampledModels, nodes: Sequence[str]) -> Ranking:
    """Averages of the edges over the draws so far."""
    ranking: dict[str, dict[str, float]] = {}
    means = models.series("edges").mean(axis=(0, 1))
    for (parent, child), mean in zip(models.setup.edges.tolist(), means.tolist()):
        ranking.setdefault(nodes[child], {})[nodes[parent]] = mean
    return ranking


def judge_edges(models: SampledModels) -> tuple[Diagnosis, bool, str]:
    """The worst edge, whether drawing can end, and how well edges are known in words."""
    check = check_edges(models)
    return check.worst, check.converged and check.worst.error <= ERROR_GOAL, check.words


def _are_few(search: SearchRun) -> bool:
    """Whether all families are candidates."""
    return sum(search.prior.n_families(n) for n in search.prior.children) <= UNSCREENED_LIMIT


def _all_families(search: SearchRun, candidates: Candidates) -> AllParents:
    """What the prior says of every family, for the moves beyond the candidates."""
    prior, n_nodes = search.prior, len(search.nodes)
    if prior.function is not None:
        raise ModelError(
            f"A structure prior that is a function can be sampled with up to {UNSCREENED_LIMIT:,} "
            "sets of parents in all; give prior odds of edges instead, or lower ",
            *(Setting("max_parents"), "."),
        )
    most = np.zeros(n_nodes, dtype=np.int64)
    may_be, required = (np.zeros((n_nodes, n_nodes), dtype=np.bool_) for _ in range(2))
    for child in prior.children:
        may_be[child, prior.candidates(child)] = True
        most[child] = min(int(prior.max_parents[child]), int(may_be[child].sum()))
        required[child, list(prior.required.get(child, ()))] = True
    largest = int(most.max(initial=0))
    return all_parents(
        candidates,
        most,
        may_be,
        required,
        np.array([prior.log_odds(n) for n in range(n_nodes)]),
        np.array([prior.log_prior_by_number(n, largest) for n in range(n_nodes)]),
    )


def families_compared(search: SearchRun) -> float:
    """About how many families a sweep compares, of all nodes together."""
    listed = sum(map(len, _families(search)))
    if _are_few(search):
        return listed
    # draws from the candidates and exchanges take turns
    others = sum(
        min(len(search.prior.candidates(n)), search.n_candidates + OTHERS_COMPARED)
        for n in search.prior.children
    )
    return (listed + others) / 2


def _families(search: SearchRun, begin: Parents | None = None) -> list[IntArray]:
    """Per node all families, if they are few; otherwise those that the search kept.

    Those of its graph, and of the one with which the draws ``begin``, are always among them.
    """
    graphs = [search.solution.parents, *([] if begin is None else [begin])]
    everything = _are_few(search)
    result = []
    for n in range(len(search.nodes)):
        if n not in search.prior.children:
            result.append(np.full((1, 1), -1, dtype=np.int64))
            continue
        if everything:
            rows = search.prior.families(n)
        elif n in search.tables:
            table = search.tables[n]
            keep = table.scores >= table.scores.max() - _DRAWN_DIRECTLY
            keep[np.argmin(family_sizes(table.parents))] = True  # one chain begins there
            rows = table.parents[keep]
        else:  # there was no time to find its candidates: all its families are moves beyond them
            rows = np.array([[*search.prior.required.get(n, ())] or [-1]], dtype=np.int64)
        for own in (graph[n] for graph in graphs):
            if row_of(rows, own) < 0:
                extra = np.full((1, rows.shape[1]), -1, dtype=np.int64)
                extra[0, : len(own)] = own
                rows = np.concatenate([extra, rows])
        # the family without parents, or the smallest, comes first: one chain begins there
        order = np.argsort((rows >= 0).sum(axis=1), kind="stable")
        result.append(rows[order])
    return result


def _first_initial(search: SearchRun, settings: StructureSettings) -> FloatArray:
    if isinstance(settings.initial, str) and settings.initial == "learn":
        return search.single_nodes.initial
    return search.single_nodes.template.network.compiled.initial


def _learned_emissions(search: SearchRun, observations: Observations) -> list[LearnedEmission]:
    """Learned emissions whose parameters can be drawn; others stay as they were fitted."""
    network = search.single_nodes.template.network
    _, nodes = search.single_nodes.learned(observations)
    return [learned_emission(network, node) for node in nodes if can_sample(node.start)]


def _checkpoint(settings: StructureSettings) -> Path | None:
    if settings.search.journal is None:
        return None
    return Path(settings.search.journal).with_name(CHECKPOINT)


def _result(
    search: SearchRun,
    models: SampledModels,
    families: list[IntArray],
    settings: StructureSettings,
    observations: Observations,
) -> SearchResult:
    """The star's result with its probabilities, rates and emissions replaced by sampled ones."""
    start, check = models.setup.candidates.start, check_edges(models)
    # chosen on five networks of 20 to 80 nodes: where more is known, the correction gains nothing
    have_met = 2 * check.n_known >= check.n_unsure
    probability = models.family_probabilities()
    pairs = _pair_probabilities(search, models, have_met)
    for n in search.prior.children:
        own = probability[start[n] : start[n + 1]]
        table = FamilyTable(families[n], np.log(np.maximum(own, SMALLEST)))
        if pairs is not None:
            table = replace(table, share=float(own.sum()), pairs=pairs[:, n])
        search.tables[n] = table
    graph = shown_graph(search.settings, search.prior, search.tables, search.scorer.n_states)
    averages = models.mean_averages()
    drawn = DrawnStatistics(search.scorer, families, models.setup.candidates, averages)
    star = search.solution
    search.solution = replace(
        drawn.solution(graph, search.solution, settings.n_jobs), initial=_mean_initial(models)
    )
    rates = {}
    for n in search.prior.children:
        family, row = graph[n], drawn.row(n, graph[n])
        if row is not None:
            sizes = [search.scorer.n_states[p] for p in (*family, n, n)]
            own = mean_rates(models.setup, averages, row, sizes[-1])
            rates[n] = with_exits(own.reshape(sizes))
    found = result_of(search, observations, SampledGraphs(models), rates)
    beyond = drawn.beyond(found.asked_families(), star, settings.n_jobs)
    emission = found.emission
    if means := mean_emissions(models, search.nodes):
        emission = {**search.single_nodes.learned(observations)[0], **means}
    return replace(
        found,
        beyond=counts_beyond(search, beyond),
        emission=emission,
        converged=check.converged and not models.interrupted,
        usable=check.usable,
        stop_reason=models.stop_reason,
        history=[dict(row) for row in models.history],
        n_sweeps=models.n_draws * models.keep_every,
    )


def _pair_probabilities(
    search: SearchRun, models: SampledModels, have_met: bool
) -> FloatArray | None:
    """[parent, child] where moves went beyond the candidates: there chains may not have met.

    An edge that was hardly ever compared is not impossible: it has at least its prior probability
    over the number of sweeps.
    """
    by_chain = models.edge_probabilities()
    if by_chain is None:
        return None
    prior = np.stack([search.prior.edge_probabilities(n) for n in range(len(search.nodes))], axis=1)
    open_ = (prior > 0.0) & (prior < 1.0)
    result: FloatArray = by_chain.mean(axis=0)
    if not have_met:
        result[open_] = of_a_further_chain(by_chain[:, open_])
    floor = prior / max(1, models.n_chains * models.n_draws * models.keep_every)
    return np.clip(result, floor, 1.0)


def _mean_initial(models: SampledModels) -> FloatArray:
    """Start probabilities of all nodes, one after the other."""
    mean = models.series("initial").mean(axis=(0, 1))
    own = np.split(mean, models.setup.layout.state_start[1:-1])
    return np.concatenate([one / one.sum() for one in own])
