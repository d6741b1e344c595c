"""Structure from fully known paths: the exact Bayesian score (Nodelman et al. 2003), no inference.

The score decomposes over families, so every node is learned on its own: all its families are
scored in one pass over the jumps (``_complete_score.py``), in blocks that keep the tables small.
Nodes run on threads; each is computed alone, so results do not depend on their number. With very
many families ("screened") only the parents that score best alone are combined.

What must hold beforehand is checked here too: every node has two states or more, no jump is one of
those not allowed, and two nodes that may influence each other do not jump at one recorded
time, unless the rows are in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from asterism.data.labels import encode
from asterism.data.trajectories import Trajectories, path_events
from asterism.errors import Advice, DataError, ModelError, Sentence, Setting, quoted
from asterism.learning.search.edge_families import EdgeFamily
from asterism.learning.search.found import (
    FamilyCounts,
    FamilyTable,
    SearchResult,
    Unscored,
    about_unscored,
    shown_graph,
)
from asterism.learning.search.score import Parents, allowed_off_diagonal, posterior_mean_rates
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.structure_prior import NO_PARENT, NumberedPrior, enumerate_families
from asterism.learning.tasks import ProgressListener, Silent
from asterism.model.names import by_node
from asterism.model.network import Network
from asterism.model.priors import GammaPrior, as_mask, automatic_rate, totals_of_nodes
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray
from asterism.numerics.resources import map_chunks, require_memory

#: "auto" scores every family up to this many in all, and screens beyond
EXHAUSTIVE_LIMIT = 5_000_000
#: tables of one block of families, so that they stay in the processor's cache
BLOCK_BYTES = 1 << 20
#: with more families than this in all, hopeless ones are not kept …
KEEP_ALL = 2_000_000
#: … that is, those this many nats below the best: together less than 1e-10 in probability
HOPELESS = 40.0


@dataclass(frozen=True)
class CompleteScorer:
    """Scores families of any node on given paths."""

    paths: Trajectories
    n_states: IntArray
    allowed: Mapping[str, BoolArray]
    prior: GammaPrior
    """With its rate resolved."""
    log_gamma: FloatArray
    """ln Γ(m + α) of every count m that can occur."""

    @classmethod
    def prepare(
        cls,
        paths: Trajectories,
        prior: GammaPrior,
        allowed: Mapping[str, BoolArray] | None = None,
    ) -> CompleteScorer:
        """``prior`` must have a number for its rate."""
        from scipy.special import gammaln

        sizes = [len(paths.states[n]) for n in paths.nodes]
        jumps = np.bincount(paths.jump_node, minlength=len(sizes))
        masks = {n: (allowed or {}).get(n) for n in paths.nodes}
        return cls(
            paths=paths,
            n_states=np.array(sizes, dtype=np.int64),
            allowed={n: allowed_off_diagonal(s, masks[n]) for n, s in zip(paths.nodes, sizes)},
            prior=prior,
            log_gamma=gammaln(np.arange(int(jumps.max(initial=0)) + 1) + prior.shape),
        )

    def scores(self, child: int, families: IntArray) -> FloatArray:
        """(n_families,) ln P(paths of the child | paths of the parents), rates integrated out."""
        from asterism.data._path_statistics import JumpArrays
        from asterism.learning.search._complete_score import complete_scores

        paths = self.paths
        arrays = JumpArrays(*(getattr(paths, name) for name in JumpArrays._fields))
        size = int(self.n_states[child])
        widest = size * int(self.n_states.max()) ** families.shape[1]
        per_family = 8 * (widest * (1 + size) + 5 * families.shape[1])
        require_memory(per_family, "The table of one family", "fewer parents (max_parents)")
        block = max(64, BLOCK_BYTES // per_family)
        pieces = [
            complete_scores(
                child,
                families[begin : begin + block],
                self.allowed[paths.nodes[child]],
                self.prior.shape,
                self.prior.rate_value,
                self.log_gamma,
                self.n_states,
                arrays,
            )
            for begin in range(0, len(families), block)
        ]
        return np.concatenate(pieces)


def learn_from_trajectories(
    settings: StructureSettings, paths: Trajectories, progress: ProgressListener | None = None
) -> SearchResult:
    """Score the families of every node and choose the best."""
    progress = progress or Silent()
    scorer, constraints = _prepared(settings, paths)
    paths, initial = scorer.paths, _initial(scorer.paths, settings.initial)
    n_families = sum(constraints.n_families(n) for n in constraints.children)
    screened = settings.search.kind == "screened" or (
        settings.search.kind == "auto" and n_families > EXHAUSTIVE_LIMIT
    )
    if not screened:
        require_memory(
            8.0 * n_families * (2 + int(constraints.max_parents.max(initial=0))),
            f"Scoring all {n_families:,} families",
            Sentence(
                *(Setting("search", "screened"), ", or a smaller ", Setting("max_parents"), ",")
            ),
        )
    tables = _score_all(scorer, constraints, settings, screened, progress)
    factor = settings.tempering_factor(1.0)
    tables = [
        t.tempered_by(factor, constraints.log_prior(n, t.parents)) for n, t in enumerate(tables)
    ]
    by_node = dict(enumerate(tables))
    graph = shown_graph(settings, constraints, by_node, scorer.n_states.tolist())
    total = float(sum(table.scores.max() for table in tables))
    network, counts = _network(paths, constraints, graph, scorer, initial)
    n_scored = sum(len(table.scores) for table in tables) if screened else n_families
    how = "every family" if not screened else "every family of the screened candidate parents"
    found = SearchResult(
        nodes=paths.nodes,
        states=dict(paths.states),
        tables=tables,
        graph=graph,
        network=network,
        emission={},
        prior_rate=scorer.prior.rate_value,
        converged=True,
        stop_reason=f"The data are complete: {how} was scored exactly, without iteration.",
        history=[{"sweep": 1, "score": total, "n_families": n_scored}],
        n_sweeps=1,
        structure=constraints,
        counts=counts,
        tempering=factor,
        stage=about_unscored(paths.nodes, by_node),
    )
    return replace(found, beyond=_beyond(found, paths, scorer))


def _beyond(
    found: SearchResult, paths: Trajectories, scorer: CompleteScorer
) -> dict[tuple[int, int], tuple[FamilyCounts, int]]:
    """Counts of the likeliest families of likely edges outside the graph.

    A pass over the paths counts one family of every node.
    """
    waiting: dict[int, list[EdgeFamily]] = {}
    for edge in found.asked_families():
        waiting.setdefault(edge.child, []).append(edge)
    result = {}
    while waiting:
        now = {child: edges.pop(0) for child, edges in waiting.items()}
        waiting = {child: edges for child, edges in waiting.items() if edges}
        families = [now[c].family if c in now else () for c in range(len(paths.nodes))]
        above = [[paths.nodes[p] for p in family] for family in families]
        counts = _counts(paths, dict(zip(paths.nodes, above)), scorer)
        for child, edge in now.items():
            result[edge.parent, child] = counts[paths.nodes[child]], edge.slot
    return result


def score_complete_graph(
    settings: StructureSettings, parents: Mapping[str, Sequence[str]], paths: Trajectories
) -> float:
    """ln P(graph) + ln P(paths | graph, starts), rates integrated out; nodes not named have none.

    The structure prior counts up to a constant, as everywhere. Limits on parents and forbidden or
    required edges restrict a search, not the question how well a given graph does.
    """
    _require_paths(paths, parents, "The graph")
    scorer, constraints = _prepared(settings, paths)
    total = 0.0
    for child, name in enumerate(paths.nodes):
        above = sorted(paths.nodes.index(p) for p in parents.get(name, ()))
        if child in constraints.exogenous:
            if above:
                raise ModelError(f"Node {name!r} is exogenous and so has no parents.")
            continue
        family = np.array([above or [-1]], dtype=np.int64)
        score = scorer.scores(child, family) + constraints.log_prior(child, family)
        total += float(score[0])
    return total


def _prepared(
    settings: StructureSettings, paths: Trajectories
) -> tuple[CompleteScorer, NumberedPrior]:
    """What scores families, with all states and the rate of the prior; and what is known."""
    if settings.states is not None:
        # the user may know more states than were visited
        _require_paths(paths, settings.states, "states=")
        paths = paths.reordered(paths.nodes, {**paths.states, **settings.states})
    constraints = settings.numbered_prior(paths.nodes, from_paths=True)
    allowed = check_paths(paths, constraints, settings.allowed_transitions, settings.ties)
    prior = resolved_prior(paths, constraints, allowed, settings.prior.for_paths())
    return CompleteScorer.prepare(paths, prior, allowed), constraints


def _require_paths(paths: Trajectories, names: Iterable[str], what: str) -> None:
    if unknown := [name for name in names if name not in paths.nodes]:
        raise DataError(
            f"{what} names {unknown[0]!r}, which has no path; complete paths know of no hidden "
            f"nodes, and are those of {quoted(paths.nodes)}."
        )


def resolved_prior(
    paths: Trajectories,
    constraints: NumberedPrior,
    allowed: Mapping[str, BoolArray],
    prior: GammaPrior,
) -> GammaPrior:
    """The prior with its rate as a number: "auto" is found from the nodes to be learned."""
    if not float(paths.durations.sum()) > 0.0:
        raise DataError(
            "the trajectories have no duration, so nothing can be learned from them; give their ",
            Setting("end", ...),
        )
    if not prior.is_auto:
        return prior
    alone, names = paths.statistics({}), [paths.nodes[n] for n in constraints.children]
    masks = [allowed_off_diagonal(len(paths.states[n]), allowed.get(n)) for n in names]
    dwell, moves = (
        np.concatenate([table[n].ravel() for n in names] or [np.zeros(0)])
        for table in (alone.dwell_times, alone.transitions)
    )
    return prior.resolved(automatic_rate(prior.shape, *totals_of_nodes(masks, dwell, moves)))


def _score_all(
    scorer: CompleteScorer,
    constraints: NumberedPrior,
    settings: StructureSettings,
    screened: bool,
    progress: ProgressListener,
) -> list[FamilyTable]:
    lock = Lock()
    n_nodes = constraints.n_nodes
    n_all = sum(constraints.n_families(n) for n in constraints.children)
    prune = n_all > KEEP_ALL and not screened

    def one_node(child: int, _: int) -> FamilyTable:
        if child in constraints.exogenous:
            return FamilyTable(np.full((1, 1), -1, dtype=np.int64), np.zeros(1))
        among, unscored = None, None
        if screened:
            among, unscored = _screen(scorer, constraints, child, settings.search.candidates)
        families = constraints.families(child, among)
        scores = scorer.scores(child, families) + constraints.log_prior(child, families)
        table = FamilyTable(families, scores).with_unscored(unscored)
        with lock:
            progress.advance()
        return table.likely(HOPELESS) if prune else table

    progress.start(len(constraints.children), "scoring families")
    tables = map_chunks(one_node, [(n, n + 1) for n in range(n_nodes)], settings.n_jobs)
    progress.finish()
    return tables


def _screen(
    scorer: CompleteScorer, constraints: NumberedPrior, child: int, n_candidates: int
) -> tuple[IntArray, Unscored | None]:
    """The candidates that score best as one more parent beside the required ones; all gains."""
    required = constraints.required.get(child, ())
    candidates = constraints.candidates(child)
    n_candidates = max(n_candidates, int(constraints.min_parents[child]))
    if len(candidates) - len(required) <= n_candidates:
        return candidates, None
    families = enumerate_families(candidates, len(required) + 1, required)
    evidence = scorer.scores(child, families)
    single, free = families[1:], np.setdiff1d(candidates, required)
    scores = evidence[1:] + constraints.log_prior(child, single)
    best = np.argsort(-scores, kind="stable")[:n_candidates]
    # row by row the one parent that is not required
    added = single[~np.isin(single, [*required, NO_PARENT])]
    assert len(added) == len(free)
    unscored = Unscored.of(constraints, child, added, evidence[1:] - evidence[0])
    return np.unique(single[best]), unscored


def _network(
    paths: Trajectories,
    constraints: NumberedPrior,
    graph: Parents,
    scorer: CompleteScorer,
    initial: dict[str, Any] | None,
) -> tuple[Network, dict[str, FamilyCounts]]:
    """The graph with posterior means (M+α)/(T+β) as rates, and their statistics."""
    parents = {n: [paths.nodes[p] for p in above] for n, above in zip(paths.nodes, graph)}
    counts = _counts(paths, parents, scorer)
    rates: dict[str, FloatArray | None] = {n: posterior_mean_rates(*counts[n]) for n in paths.nodes}
    for exogenous in constraints.exogenous:
        rates[paths.nodes[exogenous]] = None
    return Network(parents, rates, paths.states, initial), counts


def _counts(
    paths: Trajectories, parents: Mapping[str, Sequence[str]], scorer: CompleteScorer
) -> dict[str, FamilyCounts]:
    counted = paths.statistics(parents)
    shape, rate = scorer.prior.shape, scorer.prior.rate_value
    return {
        n: FamilyCounts(
            np.asarray(counted.transitions[n]),
            np.asarray(counted.dwell_times[n]),
            shape,
            rate,
            scorer.allowed[n],
        )
        for n in paths.nodes
    }


def _initial(paths: Trajectories, initial: Any) -> dict[str, Any] | None:
    """Start probabilities: as given, uniform, or counted with one imagined start, spread out."""
    if initial is None or isinstance(initial, Mapping):
        return None if initial is None else dict(initial)
    if initial == "uniform":
        return None
    if initial != "learn":
        raise ModelError(
            Setting("initial"),
            f" is {initial!r}; valid are 'learn', 'uniform' or {{node: probabilities}}.",
        )
    result: dict[str, Any] = {}
    for n, name in enumerate(paths.nodes):
        size = len(paths.states[name])
        counts = np.bincount(paths.initial[:, n], minlength=size)
        result[name] = (counts + 1.0 / size) / (counts.sum() + 1.0)
    return result


def check_paths(
    paths: Trajectories,
    constraints: NumberedPrior,
    allowed_transitions: Mapping[str, Any] | None,
    ties: str,
) -> dict[str, BoolArray]:
    """Raise for the first contradiction; returns the allowed transitions of the nodes named."""
    for node in paths.nodes:
        if len(paths.states[node]) < 2:
            raise DataError(
                f"node {node!r} never leaves the state {paths.states[node][0]!r}, so nothing can "
                "be learned about it; ",
                Advice(
                    "leave it out, or name its other states with states=",
                    "leave it out of --nodes",
                ),
            )
    allowed = _allowed(paths, constraints, allowed_transitions)
    _check_jumps(paths, allowed)
    if ties == "error":
        _check_ties(paths, constraints)
    return allowed


def _allowed(
    paths: Trajectories, constraints: NumberedPrior, given: Mapping[str, Any] | None
) -> dict[str, BoolArray]:
    result = {}
    for node, mask in by_node("allowed_transitions", given, paths.nodes).items():
        if paths.nodes.index(node) in constraints.exogenous:
            raise ModelError(f"allowed_transitions names {node!r}, which is exogenous.")
        result[node] = as_mask(node, mask, paths.states[node])
    return result


def _check_jumps(paths: Trajectories, allowed: Mapping[str, BoolArray]) -> None:
    for node, mask in allowed.items():
        jumps, labels = path_events(paths, [node]), paths.states[node]
        bad = np.flatnonzero(~mask[encode(jumps.previous, labels), encode(jumps.to, labels)])
        if len(bad):
            k = int(bad[0])
            raise DataError(
                f"trajectory {paths.labels[jumps.trajectory[k]]!r}, time {jumps.time[k]:g}: node "
                f"{node!r} jumps from {jumps.previous[k]!r} to {jumps.to[k]!r}, which "
                "allowed_transitions exclude"
            )


def _check_ties(paths: Trajectories, constraints: NumberedPrior) -> None:
    d = np.repeat(np.arange(paths.n_trajectories), np.diff(paths.jump_offset))
    tied = np.flatnonzero((np.diff(d) == 0) & (np.diff(paths.jump_time) == 0))
    for k in tied:
        together = np.flatnonzero((d == d[k]) & (paths.jump_time == paths.jump_time[k]))
        nodes = [int(n) for n in paths.jump_node[together]]
        for one in nodes:
            for other in nodes:
                if one == other or not constraints.may_have(one, other):
                    continue
                raise DataError(
                    f"trajectory {paths.labels[d[k]]!r}: {paths.nodes[other]!r} and "
                    f"{paths.nodes[one]!r} both jump at time {paths.jump_time[k]:g}, and which "
                    "came first matters; change one time, or use ",
                    *(Setting("ties", "order"), " if the rows are in order"),
                )
