"""Which of the families that local solves propose join the graph: the coupled solve decides.

A local score takes all other families as they are. Adopted together, families may keep less than
they promised: two nodes that become each other's parents explain the same coincidences twice, and
in the coupled solve their rates can run away. Hence:

- of two edges that point at each other and are both new, the surer one is adopted first, and the
  other is judged again around it;
- families under which the rates run away are dropped: they have no self-consistent solution;
- families that do not raise the score of the coupled solve are not adopted.

The score of the graph thus rises with every change and no graph comes back, so the search ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from asterism.learning.families import family_tuple
from asterism.learning.result import FamilyTable
from asterism.learning.score import GraphSolution, Parents
from asterism.learning.search import SearchTask, total_score

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


def propose(task: SearchTask, tables: dict[int, FamilyTable], graph: Parents) -> Proposals:
    """Nodes with a better family than their own, without new pairs of opposite edges."""
    proposals: Proposals = {}
    for child, table in tables.items():
        best = table.best(task.nodes)
        if best != graph[child] and _gain(table, best, graph[child]) > _LEAST_GAIN:
            proposals[child] = best
    shunned: dict[int, set[int]] = {}
    while pairs := _new_pairs(proposals, graph):
        for a, b in pairs:
            surer_a = _margin(tables[a], {b}) >= _margin(tables[b], {a})
            later, other = (b, a) if surer_a else (a, b)
            shunned.setdefault(later, set()).add(other)
            proposals.pop(later, None)
            rest = _without(tables[later], shunned[later])
            if rest is not None:
                best = rest.best(task.nodes)
                if best != graph[later] and _gain(tables[later], best, graph[later]) > _LEAST_GAIN:
                    proposals[later] = best
    return proposals


def adopt(
    task: SearchTask,
    solution: GraphSolution,
    tables: dict[int, FamilyTable],
    proposals: Proposals,
    refusals: Refusals,
) -> GraphSolution:
    """The coupled solution with those of the proposed families that hold what they promise."""
    before = solution.parents
    taken = dict(proposals)
    # required parents are in every family, but not in the graph that a search begins with
    bound = {c for c in taken if _place(tables[c], before[c]) is None}
    while taken:
        trial = _solve_with(task, solution, taken)
        free = [c for c in taken if c not in bound]
        gain = total_score(task, trial) - total_score(task, solution)
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
    return solution


def _solve_with(task: SearchTask, solution: GraphSolution, taken: Proposals) -> GraphSolution:
    graph = [taken.get(c, family) for c, family in enumerate(solution.parents)]
    task.progress.start(1, "solving the whole graph")
    trial = task.scorer.solve(tuple(graph), solution, n_jobs=task.settings.n_jobs)
    task.progress.finish()
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
    restless = set(trial.restless)
    groups: list[set[int]] = []
    for node in trial.restless:
        linked = {node} | (restless & set(trial.parents[node]))
        apart = [g for g in groups if g.isdisjoint(linked)]
        for g in groups:
            if not g.isdisjoint(linked):
                linked |= g
        groups = [*apart, linked]
    return groups


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
