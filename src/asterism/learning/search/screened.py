"""Search for large networks: screen all pairs, solve families locally, couple once per sweep.

1. *Screening* (``screening.py``). The best ``n_candidates`` per node stay. Two parents that act
   only together can escape this stage: raise ``n_candidates`` or search exhaustively.
2. *Local solves.* Each family of up to ``max_parents`` among the candidates is scored by iterating
   only that node's messages and rates, the others frozen.
3. *Coupling.* The graph of the best families is solved once as a whole, which decides whether they
   are adopted; families are scored again around that solution, until the graph stops changing.
4. *Close calls.* Where the network is small enough, families that come close to a node's best are
   scored once more as the exhaustive search does it, with the whole graph solved for each.

Memory grows linearly with the number of nodes; nothing of size N² is ever stored.

A local score takes all other families as they are. Adopted together, families may keep less than
they promised: two nodes that become each other's parents explain the same coincidences twice, and
in the coupled solve their rates can run away. So the coupled solve decides:

- of two edges that point at each other and are both new, the surer one is adopted first, and the
  other is judged again around it;
- families under which the rates run away are dropped: they have no self-consistent solution;
- families that do not raise the score of the coupled solve are not adopted.

The score of the graph rises with every change and no graph comes back, so the search ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from asterism.errors import ModelError, Setting
from asterism.learning.search.found import FamilyTable
from asterism.learning.search.local_solves import solve_families
from asterism.learning.search.pieces import scores_by_child
from asterism.learning.search.score import GraphSolution, Parents
from asterism.learning.search.screening import screen
from asterism.learning.search.structure_prior import NO_PARENT, family_tuple
from asterism.learning.search.task import SearchRun, sweep_nodes
from asterism.learning.tasks import SharedInput
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import current_limit

_NODES_PER_TASK = 16  # not tuned: enough work for a message to a cluster
_CLOSE = 6.0  # nats within which a local score does not decide
_SMALL_NETWORK = 50  # nodes up to which close calls are solved coupled
_COUPLED_NODE_SOLVES = 3_000  # families times nodes up to which they are
_HOPELESS = 30.0  # families this many nats below a node's best are not scored again


def screened_search(search: SearchRun, begin: GraphSolution | None = None) -> SearchRun:
    """All stages; the tables hold the families around the final graph.

    With ``begin`` the second stage begins from that solution instead of single nodes.
    """
    if len(search.scorer.base.problem.link) > 1:
        raise ModelError(
            *(Setting("search", "screened"), " cannot use exactly timed jumps or joint "),
            *("measurements yet; use ", Setting("search", "exhaustive")),
            ", or give the jumps as measurements.",
        )
    prior = search.prior
    empty: Parents = tuple(() for _ in search.nodes)
    search.progress.start(1, "solving every node alone")
    alone = search.scorer.solve(empty, n_jobs=search.settings.n_jobs)
    search.progress.finish()
    candidates = {child: prior.candidates(child) for child in prior.children}
    if max(map(len, candidates.values()), default=0) > search.n_candidates:
        candidates = screen(search, alone)
    if begin is not None:
        for child in prior.children:
            own = np.array(begin.parents[child], dtype=np.int64)
            candidates[child] = np.union1d(candidates[child], own)
    families = {child: prior.families(child, among=candidates[child]) for child in prior.children}
    search = search.begun_at(alone if begin is None else begin)
    refusals = Refusals()
    waiting = families
    for sweep in range(search.settings.accuracy.max_sweeps):
        if current_limit().stops():
            break
        before = search.solution.parents
        around = sweep + (begin is not None)
        context = f"sweep {around}" if around else "single nodes"
        for child, scores in local_scores(search, search.solution, waiting, context).items():
            rows = waiting[child]
            table = FamilyTable(rows, scores + prior.log_prior(child, rows))
            search.tables[child] = refusals.applied_to(child, table, before[child])
        proposals = propose(search, search.tables, before)
        search.n_sweeps = sweep + 1
        if current_limit().was_felt:
            break
        n_scored = sum(map(len, waiting.values()))
        if not proposals:
            search.settled = True
            search.note_sweep(0, n_scored)
            break
        search.solution = adopt(search, search.solution, search.tables, proposals, refusals)
        after = search.solution.parents
        for child in proposals:
            search.tables[child] = refusals.applied_to(child, search.tables[child], after[child])
        search.unconverged = int(not search.solution.converged)
        changed = [c for c, (a, b) in enumerate(zip(before, after)) if a != b]
        search.note_sweep(len(changed), n_scored)
        touched = _touched(changed, before, after)
        waiting = {
            c: _survivors(search.tables[c], _HOPELESS, after[c])
            for c in families
            if c in touched or not touched.isdisjoint(candidates[c].tolist())
        }
    _settle_close_calls(search)
    return search


def _settle_close_calls(search: SearchRun) -> None:
    """Let coupled solves decide between each node's best families, if they are few enough."""
    if current_limit().stops():
        return
    local_tables = dict(search.tables)
    close = {c: _survivors(table, _CLOSE) for c, table in local_tables.items()}
    close = {c: rows for c, rows in close.items() if len(rows) > 1}
    n_nodes = len(search.nodes)
    n_solves = sum(map(len, close.values())) * n_nodes
    if not close or n_nodes > _SMALL_NETWORK or n_solves > _COUPLED_NODE_SOLVES:
        return
    solve = partial(search.scorer.solve, n_jobs=1, precise=True)
    search.solution = solve(search.solution.parents, search.solution)
    sweep_nodes(
        search,
        close,
        solve,
        "comparing the best sets of parents again",
        lambda child, coupled: _merged(local_tables[child], coupled),
    )


def _merged(local_table: FamilyTable, coupled: FamilyTable) -> FamilyTable:
    """Coupled scores where there are any, local ones elsewhere, put on the same scale.

    The two differ by a constant of the node; families far behind hardly matter.
    """
    scores = local_table.scores - local_table.scores.max() + coupled.scores.max()
    place = {family_tuple(row): i for i, row in enumerate(local_table.parents)}
    for row, score in zip(coupled.parents, coupled.scores):
        scores[place[family_tuple(row)]] = score
    return FamilyTable(local_table.parents, scores)


def _touched(changed: list[int], before: Parents, after: Parents) -> set[int]:
    """Nodes whose families changed, and those linked to them by an edge, before or after.

    The courses of all others are as good as unchanged, and so are scores that depend on these only.
    """
    touched = set(changed)
    is_changed = np.zeros(len(before), dtype=bool)
    is_changed[changed] = True
    for parents in (before, after):
        for child, family in enumerate(parents):
            if is_changed[child]:
                touched.update(family)
            elif any(is_changed[p] for p in family):
                touched.add(child)
    return touched


def _survivors(
    table: FamilyTable, distance: float, current: tuple[int, ...] | None = None
) -> IntArray:
    """Families whose score is at most so far below the best, and the current one."""
    keep = table.scores >= table.scores.max() - distance
    if current is not None:
        padded = [*current, *[NO_PARENT] * (table.parents.shape[1] - len(current))]
        keep |= (table.parents == padded).all(axis=1)
    alive: IntArray = table.parents[keep]
    return alive


def local_scores(
    search: SearchRun, solution: GraphSolution, families: dict[int, IntArray], context: str
) -> dict[int, FloatArray]:
    """Scores of the listed families of every node around one solution.

    Nodes of whose families a time limit left some unscored are left out.
    """
    if not families:
        return {}
    return dict(
        scores_by_child(
            score_piece,
            search.scorer.shared_input(solution),
            families,
            per_task=_NODES_PER_TASK,
            n_jobs=search.settings.n_jobs,
            progress=search.progress,
            told=f"scoring families ({context})",
            journal=search.journal,
            around=search.journal_context(context, solution.parents),
        )
    )


def score_piece(shared: SharedInput, nodes: IntArray, families: list[IntArray]) -> list[FloatArray]:
    """Local scores of some nodes' families: one piece of a parallel map."""
    first = np.concatenate([[0], np.cumsum([len(f) for f in families])])
    scores = solve_families(shared, nodes, families).scores
    return [scores[a:b] for a, b in pairwise(first)]


Family = tuple[int, ...]
Proposals = dict[int, Family]

_LEAST_GAIN = 0.01  # nats


@dataclass
class Refusals:
    """What coupled solves said against families that local scores favour."""

    behind: dict[tuple[int, Family], float] = field(default_factory=dict)
    """(node, family): by how many nats it is behind the family that stayed."""
    dropped: set[tuple[int, Family]] = field(default_factory=set)
    left: set[Parents] = field(default_factory=set)
    """Graphs that a better one has replaced; rounding must not bring them back."""

    def applied_to(self, child: int, table: FamilyTable, current: Family) -> FamilyTable:
        """The table without dropped families, refused ones behind the current one."""
        rows = [family_tuple(row) for row in table.parents]
        scores = table.scores.copy()
        if current in rows:
            reference = scores[rows.index(current)]
            for i, family in enumerate(rows):
                behind = self.behind.get((child, family))
                if behind is not None and family != current:
                    scores[i] = min(scores[i], reference - behind)
        keep = [(child, family) not in self.dropped for family in rows]
        return FamilyTable(table.parents[keep], scores[keep])


def propose(search: SearchRun, tables: dict[int, FamilyTable], graph: Parents) -> Proposals:
    """Nodes with a better family than their own, without new pairs of opposite edges."""
    proposals: Proposals = {}
    for child, table in tables.items():
        best = table.best(search.nodes)
        if best != graph[child] and _gain(table, best, graph[child]) > _LEAST_GAIN:
            proposals[child] = best
    not_yet: dict[int, set[int]] = {}
    while pairs := _new_pairs(proposals, graph):
        for a, b in pairs:
            surer_a = _margin(tables[a], {b}) >= _margin(tables[b], {a})
            later, other = (b, a) if surer_a else (a, b)
            not_yet.setdefault(later, set()).add(other)
            proposals.pop(later, None)
            rest = _without(tables[later], not_yet[later])
            if rest is not None:
                best = rest.best(search.nodes)
                if best != graph[later] and _gain(tables[later], best, graph[later]) > _LEAST_GAIN:
                    proposals[later] = best
    return proposals


def adopt(
    search: SearchRun,
    solution: GraphSolution,
    tables: dict[int, FamilyTable],
    proposals: Proposals,
    refusals: Refusals,
) -> GraphSolution:
    """The coupled solution with those of the proposed families that hold what they promise."""
    before = solution.parents
    begin = solution
    taken = dict(proposals)
    # required parents are in every family, but not in the graph that a search begins with
    bound = {c for c in taken if _place(tables[c], before[c]) is None}
    while taken and not current_limit().stops():
        graph = tuple(taken.get(c, family) for c, family in enumerate(before))
        trial = _solve_whole(search, graph, begin, overwrite=begin is not solution)
        if current_limit().was_felt:  # it was cut short: its score says nothing
            break
        free = [c for c in taken if c not in bound]
        gain = search.total_score(trial) - search.total_score(solution)
        if trial.parents in refusals.left:
            gain = min(gain, 0.0)
        if not free or (gain > 0.0 and not trial.restless):
            refusals.left.add(before)
            return trial
        blamed = _blamed(trial, tables, free) if trial.restless else []
        refusals.dropped.update((c, taken[c]) for c in blamed)
        if not blamed:
            # the less they promise the less is lost by trying them later
            gains = {c: _gain(tables[c], taken[c], before[c]) for c in free}
            blamed = sorted(free, key=lambda c: (gains[c], c))[: (len(free) + 1) // 2]
            if len(free) == 1:
                refusals.behind[blamed[0], taken[blamed[0]]] = max(-gain, _LEAST_GAIN)
        for child in blamed:
            del taken[child]
        # far from the nodes that ran away the next trial goes on where this one was
        begin = solution
        if trial.restless:
            begin = search.scorer.resumed(trial, solution, _astray(trial))
        del trial  # it is large
    return solution


def _astray(trial: GraphSolution) -> set[int]:
    """Restless nodes with their parents and children."""
    restless = set(trial.restless)
    children = {n for n, family in enumerate(trial.parents) if not restless.isdisjoint(family)}
    return restless.union(children, *(trial.parents[n] for n in restless))


def _solve_whole(
    search: SearchRun, graph: Parents, begin: GraphSolution, overwrite: bool
) -> GraphSolution:
    search.progress.start(1, "solving the whole graph")
    trial = search.scorer.solve(graph, begin, n_jobs=search.settings.n_jobs, overwrite=overwrite)
    search.progress.finish()
    return trial


def _blamed(trial: GraphSolution, tables: dict[int, FamilyTable], free: list[int]) -> list[int]:
    """Of each group of linked restless nodes, the changed node that is least sure of its family."""
    blamed = []
    for group in _groups(trial):
        near = {p for c in group for p in trial.parents[c]} | group
        near |= {c for c in free if not group.isdisjoint(trial.parents[c])}
        # a node's only family cannot be dropped
        changed = [c for c in free if len(tables[c].scores) > 1]
        suspects = [c for c in changed if c in group] or [c for c in changed if c in near]
        if suspects:
            blamed.append(min(suspects, key=lambda c: (_margin(tables[c], near), c)))
    return sorted(set(blamed))


def _groups(trial: GraphSolution) -> list[set[int]]:
    """Restless nodes, grouped by the edges between them."""
    import networkx

    linked = networkx.Graph((n, p) for n in trial.restless for p in trial.parents[n])
    linked.add_nodes_from(trial.restless)
    return list(networkx.connected_components(linked.subgraph(trial.restless)))


def _new_pairs(proposals: Proposals, graph: Parents) -> list[tuple[int, int]]:
    """Nodes that would become each other's parents, neither of which is the other's now."""
    return [
        (a, b)
        for a, family in sorted(proposals.items())
        for b in family
        if a < b and a in proposals.get(b, ()) and b not in graph[a] and a not in graph[b]
    ]


def _margin(table: FamilyTable, others: set[int]) -> float:
    """By how much the best family beats the best one without these parents."""
    rest = _without(table, others)
    return np.inf if rest is None else float(table.scores.max() - rest.scores.max())


def _without(table: FamilyTable, others: set[int]) -> FamilyTable | None:
    """Only the families without these parents."""
    keep = ~np.isin(table.parents, list(others)).any(axis=1)
    return FamilyTable(table.parents[keep], table.scores[keep]) if keep.any() else None


def _gain(table: FamilyTable, family: Family, current: Family) -> float:
    """How much better the local score of a family is than that of the current one."""
    here, there = _place(table, current), _place(table, family)
    assert there is not None
    return np.inf if here is None else float(table.scores[there] - table.scores[here])


def _place(table: FamilyTable, family: Family) -> int | None:
    rows = [family_tuple(row) for row in table.parents]
    return rows.index(family) if family in rows else None
