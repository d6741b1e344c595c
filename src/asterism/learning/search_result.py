"""Turns where a search stopped into its result: the user's order of nodes, a network, a reason.

A search numbers the nodes by name; here they get back the order of the data's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.inference.evidence import FloatArray
from asterism.learning.gamma_terms import posterior_mean_rates
from asterism.learning.result import FamilyTable, SearchResult
from asterism.learning.score import GraphSolution
from asterism.model.network import Network

if TYPE_CHECKING:
    from asterism.learning.search import SearchState, SearchTask


def in_the_users_order(
    task: SearchTask, state: SearchState, column_order: list[str]
) -> SearchResult:
    """The state of a search as its result, nodes numbered as in the data again."""
    order = [n for n in column_order if n in task.nodes]
    order += [n for n in task.nodes if n not in order]
    new_number = {task.nodes.index(name): i for i, name in enumerate(order)}
    renumber = np.array([*(new_number[n] for n in range(len(order))), -1])
    solution = state.solution
    families: list[FamilyTable] = []
    graph: list[tuple[int, ...]] = []
    for name in order:
        n = task.nodes.index(name)
        if n in state.tables:
            table = state.tables[n]
            rows = renumber[table.parents]
            rows = np.sort(np.where(rows < 0, len(order), rows), axis=1)
            rows[rows == len(order)] = -1
            families.append(FamilyTable(rows, table.scores))
        else:
            families.append(FamilyTable.from_pairs([((), 0.0)]))
        graph.append(tuple(sorted(int(renumber[m]) for m in solution.parents[n])))
    settled = state.settled and state.unconverged == 0 and not state.complaint
    return SearchResult(
        nodes=tuple(order),
        states={n: tuple(task.lone.template.network.states[n]) for n in order},
        families=families,
        graph=graph,
        network=_network(task, solution, order),
        emission=task.lone.emission,
        prior_rate=task.lone.prior_rate,
        converged=settled,
        stop_reason=_stop_reason(task, state),
        history=state.history,
        n_sweeps=state.n_sweeps,
    )


def _stop_reason(task: SearchTask, state: SearchState) -> str:
    if not state.settled:
        return (
            f"The graph still changed in the last of {state.n_sweeps} sweeps: raise max_sweeps, or "
            "take the probabilities with a grain of salt."
        )
    if state.unconverged:
        return (
            f"The graph stopped changing after {state.n_sweeps} sweeps, but {state.unconverged} "
            "solves of the last sweep hit their iteration limit: strong coupling; a stronger prior "
            "helps."
        )
    if state.complaint:
        return f"The graph stopped changing in {state.n_sweeps} sweeps, but {state.complaint}."
    return f"The graph stopped changing after {state.n_sweeps} sweeps."


def _network(task: SearchTask, solution: GraphSolution, order: list[str]) -> Network:
    """The chosen graph with posterior-mean rates, in the user's order of nodes."""
    lone = task.lone.template.network
    sizes = [len(lone.states[n]) for n in task.nodes]
    parents: dict[str, list[str]] = {}
    rates: dict[str, Any] = {}
    initial: dict[str, FloatArray] = {}
    offset = dwell_offset = 0
    table_of: dict[str, FloatArray] = {}
    for n, name in enumerate(task.nodes):
        shape = (*(sizes[m] for m in solution.parents[n]), sizes[n], sizes[n])
        count = int(np.prod(shape))
        n_dwell = count // sizes[n]
        table_of[name] = posterior_mean_rates(
            solution.transitions[offset : offset + count].reshape(shape),
            solution.dwell[dwell_offset : dwell_offset + n_dwell].reshape(shape[:-1]),
            task.scorer.shape,
            task.scorer.rate,
            task.scorer.allowed[n],
        )
        offset += count
        dwell_offset += n_dwell
    start = np.concatenate([[0], np.cumsum(sizes)])
    for name in order:
        n = task.nodes.index(name)
        above = [task.nodes[m] for m in solution.parents[n]]
        axes = sorted(range(len(above)), key=lambda i: order.index(above[i]))
        parents[name] = [above[i] for i in axes]
        table = table_of[name]
        rates[name] = None
        if name not in lone.exogenous:
            rates[name] = np.transpose(table, (*axes, table.ndim - 2, table.ndim - 1))
        initial[name] = solution.initial[start[n] : start[n + 1]]
    return Network(parents, rates, {n: lone.states[n] for n in order}, initial)
