"""Owns what a structure search finds, and everything that follows from it.

A search gives every node a :class:`FamilyTable`: candidate parent sets with their scores,
ln P(family) + ln P(data | family), the structure prior included. The family posterior is the
softmax of the scores; the probability of an edge is the sum over the families that contain it.
Nodes are numbers here; the tables for the user carry names.

Turns where a search stopped into its result: the user's order of nodes, a network, a reason.

A search numbers the nodes by name; here they get back the order of the data's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.errors import ModelError, TooLargeError
from asterism.evidence.arrays import FloatArray
from asterism.learning.search.score import GraphSolution, posterior_mean_rates
from asterism.learning.search.structure_prior import (
    NO_PARENT,
    family_rows,
    family_sizes,
    family_tuple,
)
from asterism.model.network import Network

if TYPE_CHECKING:
    from asterism.learning.search.task import SearchState, SearchTask

IntArray = NDArray[np.int64]

#: edges less probable than this are left out of the long table
SMALLEST_PROBABILITY = 1e-6
#: a square table of edge probabilities is made up to this many nodes
SQUARE_TABLE_LIMIT = 2_000
#: scores closer than this, relatively, are a tie that rounding must not decide
TIE = 1e-12


@dataclass(frozen=True)
class FamilyTable:
    """Scored families of one node."""

    parents: IntArray
    """(F, k) node numbers, ascending, padded with −1."""
    scores: FloatArray
    """(F,) log scores, structure prior included."""

    def __post_init__(self) -> None:
        if len(self.scores) == 0:
            raise ModelError("A node has no family at all, not even that without parents.")
        if np.isnan(self.scores).any() or not np.isfinite(self.scores.max()):
            raise ModelError("The scores of a node's families are not finite.")

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[Sequence[int], float]]) -> FamilyTable:
        """From (parents, score) pairs."""
        scores = np.array([score for _, score in pairs], dtype=np.float64)
        return cls(family_rows([parents for parents, _ in pairs]), scores)

    @cached_property
    def probabilities(self) -> FloatArray:
        """(F,) the family posterior: softmax of the scores."""
        weights = np.exp(self.scores - self.scores.max())
        result: FloatArray = weights / weights.sum()
        return result

    def edge_probabilities(self, n_nodes: int) -> FloatArray:
        """(n_nodes,) probability that each node is a parent."""
        total = np.zeros(n_nodes + 1)  # the padding −1 lands in the last entry
        for column in self.parents.T:
            total += np.bincount(column % (n_nodes + 1), self.probabilities, n_nodes + 1)
        return np.minimum(total[:n_nodes], 1.0)

    def ranking(self, names: Sequence[str]) -> IntArray:
        """Rows from best to worst; ties: fewer parents, then names, never the node order."""
        order = np.argsort(-self.scores, kind="stable")
        ordered = self.scores[order]
        near = TIE * (1.0 + np.abs(ordered[:-1]))
        group = np.concatenate([[0], np.cumsum(ordered[:-1] - ordered[1:] > near)])
        sizes = family_sizes(self.parents)
        counts = np.bincount(group)
        starts = np.cumsum(counts) - counts
        for g in np.flatnonzero(counts > 1):
            tied = slice(starts[g], starts[g] + counts[g])
            order[tied] = sorted(
                order[tied], key=lambda f: (sizes[f], _names(self.parents[f], names))
            )
        return order

    def best(self, names: Sequence[str]) -> tuple[int, ...]:
        """The parents with the highest score."""
        top = self.scores.max()
        tied = np.flatnonzero(self.scores >= top - TIE * (1.0 + abs(top)))
        among = FamilyTable(self.parents[tied], self.scores[tied])
        return family_tuple(among.parents[among.ranking(names)[0]])

    def likely(self, within: float) -> FamilyTable:
        """Only the families whose score is within so many nats of the best."""
        keep = np.flatnonzero(self.scores >= self.scores.max() - within)
        return FamilyTable(self.parents[keep], self.scores[keep])


@dataclass(frozen=True)
class SearchResult:
    """What a search over graphs hands back."""

    nodes: tuple[str, ...]
    states: dict[str, tuple[Any, ...]]
    families: Sequence[FamilyTable | Sequence[tuple[Sequence[int], float]]]
    """Per node its scored families: a table, or (parents, score) pairs, which become one.
    Exogenous nodes have one family, without parents."""
    graph: list[tuple[int, ...]]
    """Per node the chosen parents, ascending."""
    network: Network
    """The chosen graph with posterior-mean rates."""
    emission: Any
    """The emissions used at the end, fitted where they learn; by node."""
    prior_rate: float
    """β of the Gamma prior, found from the data or as given."""
    converged: bool
    stop_reason: str
    history: list[dict[str, Any]] = field(default_factory=list)
    n_sweeps: int = 0

    def __post_init__(self) -> None:
        tables = [
            t if isinstance(t, FamilyTable) else FamilyTable.from_pairs(t) for t in self.families
        ]
        object.__setattr__(self, "families", tables)
        if not len(self.nodes) == len(tables) == len(self.graph):
            raise ModelError(
                f"{len(self.nodes)} nodes, {len(tables)} tables of families and {len(self.graph)} "
                "sets of parents do not belong together."
            )

    @property
    def tables(self) -> list[FamilyTable]:
        """The families of every node as tables."""
        return self.families  # type: ignore[return-value]

    # ------------------------------------------------------------------ tables for the user
    def edge_matrix(self) -> pd.DataFrame:
        """Edge probabilities, rows = parents, columns = children."""
        n = len(self.nodes)
        if n > SQUARE_TABLE_LIMIT:
            raise TooLargeError(
                f"A square table of {n:,} nodes is more than the limit of "
                f"{SQUARE_TABLE_LIMIT:,}; use the long table edges_."
            )
        columns = np.stack([table.edge_probabilities(n) for table in self.tables], axis=1)
        return pd.DataFrame(columns, index=list(self.nodes), columns=list(self.nodes))

    def edge_frame(self) -> pd.DataFrame:
        """parent, child, probability, in_graph: probable or chosen edges, surest first."""
        names = np.array(self.nodes, dtype=object)
        parent: list[IntArray] = []
        probability: list[FloatArray] = []
        in_graph: list[NDArray[np.bool_]] = []
        for child, table in enumerate(self.tables):
            chance = table.edge_probabilities(len(names))
            chosen = np.zeros(len(names), dtype=np.bool_)
            chosen[list(self.graph[child])] = True
            kept = np.flatnonzero((chance >= SMALLEST_PROBABILITY) | chosen)
            parent.append(kept)
            probability.append(chance[kept])
            in_graph.append(chosen[kept])
        child_of_row = np.repeat(np.arange(len(names)), [len(kept) for kept in parent])
        frame = pd.DataFrame(
            {
                "parent": names[np.concatenate(parent)],
                "child": names[child_of_row],
                "probability": np.concatenate(probability),
                "in_graph": np.concatenate(in_graph),
            }
        )
        # ties keep the order of names, so that the order of columns in the data does not matter
        return frame.sort_values(
            ["probability", "parent", "child"], ascending=[False, True, True], ignore_index=True
        )

    def family_frame(self) -> pd.DataFrame:
        """node, parents (a tuple of names), score, probability: node by node, best first."""
        node: list[str] = []
        parents: list[tuple[str, ...]] = []
        score: list[FloatArray] = []
        probability: list[FloatArray] = []
        for name, table in zip(self.nodes, self.tables):
            order = table.ranking(self.nodes)
            node += [name] * len(order)
            rows = table.parents[order].tolist()
            parents += [tuple(self.nodes[p] for p in r if p != NO_PARENT) for r in rows]
            score.append(table.scores[order])
            probability.append(table.probabilities[order])
        return pd.DataFrame(
            {
                "node": pd.Series(node, dtype=object),
                "parents": pd.Series(parents, dtype=object),
                "score": np.concatenate(score),
                "probability": np.concatenate(probability),
            }
        )

    def sample_parents(
        self, n_graphs: int, rng: np.random.Generator
    ) -> list[list[tuple[int, ...]]]:
        """Graphs drawn from the family posteriors, node by node, as parents per node."""
        drawn = [
            table.parents[rng.choice(len(table.scores), size=n_graphs, p=table.probabilities)]
            for table in self.tables
        ]
        return [[family_tuple(rows[i]) for rows in drawn] for i in range(n_graphs)]


def _names(row: IntArray, names: Sequence[str]) -> list[str]:
    return sorted(names[p] for p in family_tuple(row))


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
