"""The score of a graph from incomplete data: marginal dynamics, then the rates integrated out.

ln score = ln P(G) + (F − E) + Gamma terms, with F the variational evidence at the self-consistent
posterior rates, E the expected log density of the paths at the same rates, and the Gamma terms of
the expected statistics (``docs/derivations.md``). F − E holds the entropy, the data and the start
terms together, each once. All graphs of one comparison share one time grid, so that most of its
error cancels between them.

Gamma terms: with independent Gamma(shape α, rate β) priors, a rate q that explains M transitions in
time T contributes ∫ Gamma(q; α, β) q^M e^(−qT) dq = β^α Γ(M+α) / (Γ(α) (T+β)^(M+α)). M and T may be
counts, or expectations under a posterior, which need not be whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asterism.errors import AsterismError, ModelError
from asterism.learning.search import _marginal as marginal
from asterism.learning.search._marginal import MarginalPrior, Rule, Sums
from asterism.learning.search.coupled import Ending, solve_in_threads
from asterism.learning.tasks import SharedInput
from asterism.numerics.arrays import BoolArray, FloatArray
from asterism.numerics.compiled import CompiledGraph, compile_graph
from asterism.numerics.resources import current_limit
from asterism.star._buffers import DWELL, SQUARES, TABLE, Problem, make_work
from asterism.star._solve import N_TOTALS
from asterism.star.batch import (
    Batch,
    ImpossibleEvidence,
    addresses_to_sweep,
    is_uncoupled,
    make_batch,
)
from asterism.star.problem import (
    Parameters,
    edge_array,
    geometric_table,
    lay_out_evidence,
    node_array,
)
from asterism.timeline.evidence import Evidence

Parents = tuple[tuple[int, ...], ...]
"""Per node its parents, as numbers."""

# not tuned: any spread breaks the tie between configurations, and that takes some iterations
_FIRST_RATE_SPREAD = 0.05
_MIN_ITERATIONS = 4
# largest change per iteration at which a large solve ends: for a ranking of proposals, and where
# scores of graphs are compared
_LARGE_TOLERANCE = 1e-3
_PRECISE_TOLERANCE = 1e-5
_MIXING_BYTES = 32 << 20  # moments up to which the iteration is accelerated


@dataclass(frozen=True)
class GraphSolution:
    """The self-consistent solution of one graph."""

    parents: Parents
    score: float
    """Without the structure prior."""
    log_evidence: float
    rates: FloatArray
    moments: FloatArray
    marginals: FloatArray
    """At linked evidence (see ``star/_buffers.py``)."""
    dwell: FloatArray
    transitions: FloatArray
    initial: FloatArray
    n_iterations: int
    converged: bool
    restless: tuple[int, ...] = ()
    """Nodes whose rates kept changing where a large solve did not converge."""
    out_of_time: bool = False
    """Whether a time limit cut the iteration short: then the score says nothing."""
    batch: Any = None
    """Of clusters, their messages; they have no moments."""

    def statistics(self, n_states: Sequence[int]) -> list[Statistics]:
        """Those of every node."""
        shapes = family_shapes(self.parents, n_states)
        moves = cut(self.transitions, [(*shape, shape[-1]) for shape in shapes])
        return list(zip(moves, cut(self.dwell, shapes)))

    def with_statistics(self, parents: Parents, found: Sequence[Statistics]) -> GraphSolution:
        """Those of another graph; scores, rates and moments are not renewed."""
        moves, times = (np.concatenate([table.ravel() for table in own]) for own in zip(*found))
        return replace(self, parents=parents, transitions=moves, dwell=times)


Statistics = tuple[FloatArray, FloatArray]
"""Expected transitions (…, S, S) and dwell times (…, S) of a node, … its parents' states."""


def family_shapes(parents: Parents, n_states: Sequence[int]) -> list[tuple[int, ...]]:
    """Per node the shape of its dwell times; rates and transitions have one axis more."""
    return [tuple(n_states[m] for m in (*family, n)) for n, family in enumerate(parents)]


def cut(flat: FloatArray, shapes: Sequence[tuple[int, ...]]) -> list[FloatArray]:
    """Tables of these shapes, which lie one after the other."""
    parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes)]


def no_statistics(parents: Parents, n_states: Sequence[int]) -> list[Statistics]:
    """Where nothing is known: zeros."""
    shapes = family_shapes(parents, n_states)
    return [(np.zeros((*shape, shape[-1])), np.zeros(shape)) for shape in shapes]


class RanAway(AsterismError):
    """The iteration for a graph never settles: its rates and its score grow without end."""


#: nats by which the least of data may be overrated
_ROOM = 1_000.0
_RAN_AWAY = (
    "The iteration left the range of finite numbers; the likelihoods are too extreme. Check the "
    "emission's scale and the prior's rate."
)


@dataclass(frozen=True)
class Scorer:
    """Scores graphs over the same nodes, data, prior and time grid."""

    evidence: Evidence
    n_states: tuple[int, ...]
    allowed: tuple[BoolArray, ...]
    """Per node (S, S): which transitions may happen."""
    shape: float
    rate: FloatArray
    """Flat (S, S) blocks: Gamma prior of every allowed rate; zero for maximum likelihood."""
    geometric: bool
    initial: FloatArray
    base: Batch
    """Evidence on the grid, for the graph without edges."""
    single_rates: tuple[FloatArray, ...]
    """Per node (S, S): where the rates of a new family start."""
    digamma: bool = False
    learn_initial: bool = False
    tolerance: float = 3e-7
    max_iterations: int = 500
    negligible: float = 0.0
    """Nats of a score that cannot be seen in a probability, as little as measurements count."""

    def solve(
        self,
        parents: Parents,
        earlier: GraphSolution | None = None,
        n_jobs: int | None = None,
        precise: bool = False,
        keep_moments: bool = True,
        overwrite: bool = False,
    ) -> GraphSolution:
        """Solve a graph, starting from the solution of a similar one if given.

        With ``n_jobs`` the trajectories are shared among threads (large networks; a looser
        tolerance unless ``precise``); otherwise one kernel does it all, and threads may solve
        graphs side by side. ``keep_moments=False``: only rates and statistics are wanted.
        ``overwrite``: the moments of ``earlier`` are not needed any more, which saves a copy.
        """
        graph = compile_graph(list(self.n_states), [list(p) for p in parents])
        rates, allowed = self._start_rates(parents, graph, earlier)
        table = geometric_table(rates, graph) if self.geometric else rates
        initial = (self.initial if earlier is None else earlier.initial).copy()
        start = Parameters(rates, table, initial, self.geometric)
        prior = MarginalPrior(allowed, self.shape, self.rate, self.digamma)
        how = {"precise": precise, "keep_moments": keep_moments, "overwrite": overwrite}
        end, kept = self._iterated(graph, start, prior, earlier, n_jobs, **how)
        self._require_success(end)
        evidence = float(end.summary[marginal.TOTAL_EVIDENCE])
        energy = float(end.summary[marginal.ENERGY])
        return GraphSolution(
            parents=parents,
            score=evidence - energy + float(end.summary[marginal.GAMMA_TERMS]),
            log_evidence=evidence,
            rates=rates,
            dwell=end.dwell,
            transitions=end.transitions,
            initial=initial,
            n_iterations=end.n_iterations,
            converged=end.status == marginal.CONVERGED,
            restless=tuple(int(n) for n in end.restless),
            out_of_time=end.status == marginal.OUT_OF_TIME,
            **kept,
        )

    def _iterated(
        self,
        graph: CompiledGraph,
        start: Parameters,
        prior: MarginalPrior,
        earlier: GraphSolution | None,
        n_jobs: int | None,
        *,
        precise: bool,
        keep_moments: bool,
        overwrite: bool,
    ) -> tuple[Ending, dict[str, Any]]:
        """Messages and rates until they agree, and what the next solve can begin from.

        The rates are changed in place.
        """
        problem = self._problem(graph)
        if earlier is None:
            moments = np.empty_like(self.base.moments)
        else:
            moments = earlier.moments if overwrite else earlier.moments.copy()
        if earlier is not None and len(problem.marginals) == len(earlier.marginals):
            problem.marginals[:] = earlier.marginals
        if n_jobs is None and not is_uncoupled(problem):
            end = self._solve_in_one(problem, start, moments, prior, earlier is not None)
        else:
            tolerance = self.tolerance
            if n_jobs is not None:
                tolerance = max(tolerance, _PRECISE_TOLERANCE if precise else _LARGE_TOLERANCE)
            rule = self._rule(tolerance, earlier is not None, False)
            end = solve_in_threads(problem, start, moments, prior, rule, n_jobs or 1, keep_moments)
        kept = moments if keep_moments else moments[:0]
        return end, {"moments": kept, "marginals": problem.marginals}

    def resumed(
        self, failed: GraphSolution, before: GraphSolution, astray: Iterable[int]
    ) -> GraphSolution:
        """Where to begin after a solve that did not settle: only the nodes ``astray`` start again.

        These are as in ``before``, all others as in ``failed``, whose moments are overwritten.
        """
        nodes, starts = self.base.problem.node, self.base.problem.step_start
        squares = int(nodes[-1, SQUARES])
        again = sorted(astray)
        for first, last in pairwise(starts.tolist()):
            for n in again:
                begin = first * squares + int(nodes[n, SQUARES]) * (last - first)
                own = slice(begin, begin + self.n_states[n] ** 2 * (last - first))
                failed.moments[own] = before.moments[own]
        parents = list(failed.parents)
        rates = self._rates_by_node(failed)
        rates_before = self._rates_by_node(before)
        for n in again:
            parents[n], rates[n] = before.parents[n], rates_before[n]
        return replace(
            failed, parents=tuple(parents), rates=np.concatenate(rates), initial=before.initial
        )

    def rate_by_node(self) -> list[FloatArray]:
        """Per node (S, S): the prior's β of its transitions."""
        return cut(self.rate, [(size, size) for size in self.n_states])

    def _rates_by_node(self, solution: GraphSolution) -> list[FloatArray]:
        """Flat tables."""
        shapes = family_shapes(solution.parents, self.n_states)
        return cut(solution.rates, [(math.prod(shape) * shape[-1],) for shape in shapes])

    def _solve_in_one(
        self,
        problem: Problem,
        start: Parameters,
        moments: FloatArray,
        prior: MarginalPrior,
        goes_on: bool,
    ) -> Ending:
        sums = Sums(
            np.zeros(int(problem.node[-1, DWELL])),
            np.zeros(int(problem.node[-1, TABLE])),
            np.zeros((self.evidence.n_trajectories, N_TOTALS)),
            np.zeros(marginal.N_SUMMARY),
        )
        rule = self._rule(self.tolerance, goes_on, self._accelerate)
        iterations, status, node, trajectory = marginal.solve_marginal(
            *(problem, make_work(problem, addresses_to_sweep(problem)), start, moments),
            *(prior, rule, sums),
        )
        bad = np.array([node, trajectory])
        return Ending(sums.dwell, sums.transitions, sums.summary, int(iterations), int(status), bad)

    def _rule(self, tolerance: float, goes_on: bool, accelerate: bool) -> Rule:
        return Rule(
            restart=not goes_on,
            min_iterations=_MIN_ITERATIONS,
            max_iterations=self.max_iterations,
            tolerance=tolerance,
            learn_initial=self.learn_initial,
            accelerate=accelerate,
            ceiling=self.ceiling,
            negligible=self.negligible,
            stop=current_limit().flag,
        )

    def _require_success(self, end: Ending) -> None:
        """Raise where the data are impossible or numbers left their range."""
        if end.status == marginal.IMPOSSIBLE:
            node, trajectory = int(end.bad[0]), int(end.bad[1])
            raise ImpossibleEvidence(
                trajectory,
                self.evidence.label(trajectory),
                node,
                float(self.evidence.start[trajectory]),
            )
        if end.status == marginal.NOT_FINITE:
            raise RanAway(_RAN_AWAY)

    @cached_property
    def ceiling(self) -> float:
        """Above this score an iteration has run away.

        It is the log-likelihood with every measurement as probable as any state makes it. The
        approximation may exceed that, so a nat per measurement is added.
        """
        if len(self.evidence.jumps.time):  # densities of exactly timed jumps have no limit
            return np.inf
        points = self.evidence.points
        first, place = np.unique(points.offset, return_inverse=True)
        most = np.maximum.reduceat(points.log_likelihood, first)[place] if len(first) else place
        joint = sum(float(one.log_likelihood.max()) for one in self.evidence.joint)
        return float(most.sum()) + joint + len(points.time) + _ROOM

    def plain(self) -> Scorer:
        """The same without what replaces the star's iteration."""
        return Scorer(**{one.name: getattr(self, one.name) for one in fields(Scorer)})

    def problem_of(self, parents: Parents) -> Problem:
        """The evidence laid out for one graph."""
        return self._problem(compile_graph(list(self.n_states), [list(p) for p in parents]))

    def table_of(self, solution: GraphSolution) -> FloatArray:
        """What the method averages over parents, for a solved graph."""
        if not self.geometric:
            return solution.rates
        graph = compile_graph(list(self.n_states), [list(p) for p in solution.parents])
        return geometric_table(solution.rates, graph)

    def shared_input(self, solution: GraphSolution) -> SharedInput:
        """What all local solves around one solution read."""
        return SharedInput(
            problem=self.problem_of(solution.parents),
            table=self.table_of(solution),
            initial=solution.initial,
            geometric=self.geometric,
            moments=solution.moments,
            single_rates=self.single_rates,
            allowed=self.allowed,
            shape=self.shape,
            rate=self.rate,
            digamma=self.digamma,
            stop=current_limit().flag,
        )

    @property
    def _accelerate(self) -> bool:
        """Whether to mix: not where that needs much memory, nor for rates that may reach zero."""
        few = self.base.moments.nbytes <= _MIXING_BYTES
        return few and self.shape > 0.0 and not self.learn_initial

    def _problem(self, graph: CompiledGraph) -> Problem:
        """The evidence with another graph; rebuilt where exactly timed jumps link families."""
        if len(self.base.problem.link) > 1:
            return lay_out_evidence(self.evidence, graph).on_grid(self.base.grid)
        return self.base.problem._replace(
            node=node_array(graph, self.evidence.exogenous), edge=edge_array(graph)
        )

    def _start_rates(
        self, parents: Parents, graph: CompiledGraph, earlier: GraphSolution | None
    ) -> tuple[FloatArray, BoolArray]:
        """Rates of unchanged families from ``earlier``; new ones start near the single node's.

        The configurations of a new family start a little apart: from equal rates the first sweep
        changes nothing and would look converged.
        """
        before = [] if earlier is None else self._rates_by_node(earlier)
        rates, allowed = [], []
        for n, family in enumerate(parents):
            n_configurations = int(graph.n_configurations[n])
            allowed.append(np.tile(self.allowed[n].ravel(), n_configurations))
            if earlier is not None and earlier.parents[n] == family:
                rates.append(before[n])
            else:
                spread = np.linspace(-1.0, 1.0, n_configurations) * (n_configurations > 1)
                factor = np.exp(_FIRST_RATE_SPREAD * spread)
                rates.append((factor[:, None, None] * self.single_rates[n]).ravel())
        return np.concatenate(rates), np.concatenate(allowed)


class GridPlan(NamedTuple):
    """How long the time steps are: ``step`` relaxation times, or ``time_step`` where given."""

    relaxation_rate: float
    step: float
    time_step: float | None = None


class SingleStart(NamedTuple):
    """The nodes without parents, from which every graph starts."""

    n_states: Sequence[int]
    allowed: Sequence[BoolArray]
    initial: FloatArray
    rates: Sequence[FloatArray]


def make_scorer(
    evidence: Evidence,
    alone: SingleStart,
    prior: tuple[float, float | FloatArray],
    grid: GridPlan,
    method: str,
    **how: Any,
) -> Scorer:
    """Lay the evidence out on a grid once; ``prior`` is shape and rate, or rates of transitions.

    ``how`` are those fields of :class:`Scorer` that have defaults.
    """
    graph = compile_graph(list(alone.n_states), [[] for _ in alone.n_states])
    base = make_batch(
        evidence, graph, grid.relaxation_rate, grid.step, time_step=grid.time_step, copies=3
    )
    return Scorer(
        evidence=evidence,
        n_states=tuple(int(s) for s in alone.n_states),
        allowed=tuple(alone.allowed),
        shape=prior[0],
        rate=np.full(sum(int(s) ** 2 for s in alone.n_states), prior[1], dtype=np.float64),
        geometric=method == "mean_field",
        initial=alone.initial,
        base=base,
        single_rates=tuple(alone.rates),
        **how,
    )


def posterior_mean_rates(
    transitions: ArrayLike,
    dwell: ArrayLike,
    shape: float,
    rate: float | FloatArray,
    allowed: ArrayLike | None = None,
) -> FloatArray:
    """(..., S, S) rates (M+α)/(T+β), zero where a transition is not allowed and on the diagonal."""
    moves = np.asarray(transitions, dtype=np.float64)
    time = np.asarray(dwell, dtype=np.float64)
    off = allowed_off_diagonal(moves.shape[-1], allowed)
    rates: FloatArray = np.where(off, (moves + shape) / (time[..., :, None] + rate), 0.0)
    return rates


def allowed_off_diagonal(n_states: int, allowed: ArrayLike | None = None) -> BoolArray:
    """(S, S) which transitions may happen; never the diagonal."""
    off = ~np.eye(n_states, dtype=np.bool_)
    if allowed is not None:
        given = np.asarray(allowed, dtype=np.bool_)
        if given.shape != off.shape:
            raise ModelError(
                f"allowed transitions have shape {given.shape}, expected {off.shape} (from, to)."
            )
        off &= given
    return off
