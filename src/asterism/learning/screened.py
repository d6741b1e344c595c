"""Search for large networks: screen all pairs, solve families locally, couple once per sweep.

1. *Screening.* With every node solved alone and its moments frozen, the expected statistics of all
   single-parent families are matrix products over time; the best ``n_candidates`` per node stay.
   A pure interaction of two parents, each without effect alone, escapes this stage: raise
   ``n_candidates`` or search exhaustively if that is to be feared.
2. *Local solves.* Each family of up to ``max_parents`` among the candidates is scored by iterating
   only that node's messages and rates, the others frozen.
3. *Coupling.* The graph of the best families is solved once as a whole, which decides whether they
   are adopted (``adoption.py``); families are scored again around that solution, until the graph
   stops changing.
4. *Close calls.* Where the network is small enough, families that come close to a node's best are
   scored once more as the exhaustive search does it, with the whole graph solved for each.

Memory grows linearly with the number of nodes; nothing of size N² is ever stored.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from asterism.errors import ModelError
from asterism.inference.evidence import FloatArray, IntArray
from asterism.inference.threads import chunks
from asterism.kernels import local
from asterism.learning.adoption import Refusals, adopt, propose
from asterism.learning.families import NO_PARENT, family_tuple
from asterism.learning.journal import context_of
from asterism.learning.parallel import SharedInput, map_tasks
from asterism.learning.result import FamilyTable
from asterism.learning.score import GraphSolution, Parents
from asterism.learning.screening import screen
from asterism.learning.search import SearchState, SearchTask, improve, in_round, total_score

_NODES_PER_TASK = 16
_LOCAL_TOLERANCE = 1e-4
_LOCAL_ITERATIONS = 60
_SPREAD = 0.3
_CLOSE = 6.0  # nats within which a local score does not decide
_SMALL_NETWORK = 50
_COUPLED_NODE_SOLVES = 3_000  # families times nodes up to which close calls are solved coupled
_HOPELESS = 30.0  # families this many nats below a node's best are not scored again


def screened_search(task: SearchTask, begin: GraphSolution | None = None) -> SearchState:
    """All three stages; the state's tables hold the families around the final graph.

    With ``begin`` the second stage begins from that solution instead of lone nodes.
    """
    if len(task.scorer.base.problem.link) > 1:
        raise ModelError(
            "search='screened' cannot use exactly timed jumps or joint measurements yet; use "
            "search='exhaustive', or give the jumps as measurements."
        )
    empty: Parents = tuple(() for _ in task.nodes)
    task.progress.start(1, "solving every node alone")
    solution = task.scorer.solve(empty, n_jobs=task.settings.n_jobs)
    task.progress.finish()
    candidates = screen(task, solution)
    if begin is not None:
        solution = begin
        for child in task.prior.children:
            own = np.array(begin.parents[child], dtype=np.int64)
            candidates[child] = np.union1d(candidates[child], own)
    families = {
        child: task.prior.families(child, among=candidates[child]) for child in task.prior.children
    }
    state = SearchState(solution=solution)
    refusals = Refusals()
    waiting = families
    for sweep in range(task.settings.max_sweeps):
        before = state.solution.parents
        around = sweep + (begin is not None)
        context = f"sweep {around}" if around else "lone"
        scores = local_scores(task, state.solution, waiting, context)
        for child, rows in waiting.items():
            table = FamilyTable(rows, scores[child] + task.prior.log_prior(child, rows))
            state.tables[child] = refusals.applied_to(child, table, before[child])
        proposals = propose(task, state.tables, before)
        state.n_sweeps = sweep + 1
        if not proposals:
            state.settled = True
            _note(task, state, 0, waiting)
            break
        state.solution = adopt(task, state.solution, state.tables, proposals, refusals)
        after = state.solution.parents
        for child in proposals:
            state.tables[child] = refusals.applied_to(child, state.tables[child], after[child])
        state.unconverged = int(not state.solution.converged)
        changed = [c for c, (a, b) in enumerate(zip(before, after)) if a != b]
        _note(task, state, len(changed), waiting)
        touched = _touched(changed, before, after)
        waiting = {
            c: _survivors(state.tables[c], _HOPELESS, after[c])
            for c in families
            if c in touched or not touched.isdisjoint(candidates[c].tolist())
        }
    return _settle_close_calls(task, state)


def _settle_close_calls(task: SearchTask, state: SearchState) -> SearchState:
    """Let coupled solves decide between each node's best families, if they are few enough."""
    close = {c: _survivors(table, _CLOSE) for c, table in state.tables.items()}
    n_solves = sum(len(rows) for rows in close.values() if len(rows) > 1)
    n_nodes = len(task.nodes)
    if n_nodes > _SMALL_NETWORK or n_solves * n_nodes > _COUPLED_NODE_SOLVES or n_solves == 0:
        return state
    solve = partial(task.scorer.solve, n_jobs=1, precise=True)
    state.solution = solve(state.solution.parents, state.solution)
    known: dict[Parents, float] = {state.solution.parents: state.solution.score}
    local_tables = dict(state.tables)
    for _ in range(task.settings.max_sweeps):
        before = state.solution.parents
        state.unconverged = 0
        task.progress.start(n_solves, "settling close calls")
        for child, rows in close.items():
            if len(rows) > 1:
                improve(task, state, child, known, rows, solve)
                state.tables[child] = _merged(local_tables[child], state.tables[child])
        task.progress.finish()
        state.n_sweeps += 1
        changed = sum(a != b for a, b in zip(before, state.solution.parents))
        _note(task, state, changed, close)
        state.settled = changed == 0
        if state.settled:
            break
    return state


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


def _note(
    task: SearchTask, state: SearchState, changed: int, families: dict[int, IntArray]
) -> None:
    state.history.append(
        {
            "sweep": state.n_sweeps,
            "score": total_score(task, state.solution),
            "changed_families": changed,
            "scored_families": sum(len(rows) for rows in families.values()),
        }
    )


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
    task: SearchTask, solution: GraphSolution, families: dict[int, IntArray], context: str
) -> dict[int, FloatArray]:
    """Scores of the listed families of every node around one solution."""
    if not families:
        return {}
    scorer = task.scorer
    children = sorted(families)
    shared = SharedInput(
        problem=scorer.problem_of(solution.parents),
        table=scorer.table_of(solution),
        initial=solution.initial,
        geometric=scorer.geometric,
        moments=solution.moments,
        lone_rates=scorer.lone_rates,
        allowed=scorer.allowed,
        shape=scorer.shape,
        rate=scorer.rate,
        digamma=scorer.digamma,
    )
    pieces = [
        children[a:b] for a, b in chunks(len(children), max(1, len(children) // _NODES_PER_TASK))
    ]
    total = sum(len(f) for f in families.values())
    task.progress.start(total, f"scoring families ({context})")
    scores: dict[int, FloatArray] = {}
    around = context_of(in_round(context, task), solution.parents)
    if task.journal is not None:
        for item, remembered in task.journal.known(around).items():
            if int(item) in families and len(remembered) == len(families[int(item)]):
                scores[int(item)] = remembered
                task.progress.advance(len(remembered))
        pieces = [left for p in pieces if (left := [c for c in p if c not in scores])]
    tasks = [(np.array(p, dtype=np.int64), [families[c] for c in p]) for p in pieces]
    for piece, found in zip(
        pieces, map_tasks(score_piece, shared, tasks, task.settings.n_jobs, task.progress)
    ):
        scores.update(zip(piece, found))
        if task.journal is not None:
            for child in piece:
                task.journal.add(around, str(child), scores[child])
    task.progress.finish()
    return scores


def score_piece(shared: SharedInput, nodes: IntArray, families: list[IntArray]) -> list[FloatArray]:
    """Local scores of some nodes' families: one task of a parallel map."""
    widest = max(f.shape[1] for f in families)
    rows = np.full((sum(len(f) for f in families), widest), -1, dtype=np.int64)
    family_start = np.concatenate([[0], np.cumsum([len(f) for f in families])]).astype(np.int64)
    for first, f in zip(family_start, families):
        rows[first : first + len(f), : f.shape[1]] = f
    scores = np.empty(len(rows))
    iterations = np.empty(len(rows), dtype=np.int64)
    status = np.empty(len(rows), dtype=np.int64)
    local.score_families(
        shared.problem,
        shared.table,
        shared.initial,
        shared.geometric,
        shared.moments,
        nodes,
        family_start,
        rows,
        np.concatenate([shared.lone_rates[n].ravel() for n in nodes]),
        np.concatenate([shared.allowed[n].ravel() for n in nodes]),
        shared.shape,
        shared.rate,
        shared.digamma,
        _LOCAL_ITERATIONS,
        _LOCAL_TOLERANCE,
        _SPREAD,
        scores,
        iterations,
        status,
    )
    return [scores[a:b] for a, b in pairwise(family_start)]
