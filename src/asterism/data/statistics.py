"""Owns :class:`Statistics`: time spent and jumps made, per node and parent configuration.

Counted from known paths or expected under a posterior: the object is the same. Kernels hold the
numbers flat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from asterism.data.labels import RATE_LABELS, combinations, rate_labels
from asterism.errors import DataError
from asterism.numerics.arrays import FloatArray
from asterism.numerics.compiled import CompiledGraph


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Dwell times T and transition counts M of every family."""

    dwell_times: dict[str, FloatArray]
    """Per node an array (*parent states, S); (n_s, S) for a summary of n_s values."""
    transitions: dict[str, FloatArray]
    """Per node an array (*parent states, S, S) with zero diagonal; (n_s, S, S) for a summary."""
    parents: dict[str, tuple[str, ...]]
    states: dict[str, tuple[object, ...]]
    """Labels of the states, for tables."""

    @classmethod
    def from_flat(
        cls,
        nodes: Sequence[str],
        parents: Mapping[str, Sequence[str]],
        graph: CompiledGraph,
        dwell_flat: FloatArray,
        transitions_flat: FloatArray,
        states: Mapping[str, Sequence[object]] | None = None,
    ) -> Statistics:
        """Cut flat arrays, laid out like the graph's tables, into one array per node."""
        size = {node: int(s) for node, s in zip(nodes, graph.n_states)}
        dwell: dict[str, FloatArray] = {}
        moves: dict[str, FloatArray] = {}
        for n, node in enumerate(nodes):
            s = size[node]
            above: tuple[int, ...] = tuple(size[p] for p in parents[node])
            if graph.is_summary[n]:
                above = (int(graph.n_configurations[n]),)
            dwell[node] = dwell_flat[slice(*graph.dwell_start[n : n + 2])].reshape(*above, s).copy()
            moves[node] = transitions_flat[graph.place(n)].reshape(*above, s, s).copy()
            moves[node][..., np.arange(s), np.arange(s)] = 0.0
        labels = {n: tuple((states or {}).get(n, range(size[n]))) for n in nodes}
        return cls(dwell, moves, {n: tuple(parents[n]) for n in nodes}, labels)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(self.dwell_times)

    def __add__(self, other: object) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.parents != other.parents or any(
            self.dwell_times[n].shape != other.dwell_times[n].shape for n in self.nodes
        ):
            raise DataError("statistics of different graphs cannot be added")
        return Statistics(
            {n: self.dwell_times[n] + other.dwell_times[n] for n in self.nodes},
            {n: self.transitions[n] + other.transitions[n] for n in self.nodes},
            self.parents,
            self.states,
        )

    def __radd__(self, other: object) -> Statistics:
        """Lets ``sum()`` add up statistics."""
        return self if other == 0 else NotImplemented

    def to_frame(self) -> pd.DataFrame:
        """One row per node, parent configuration and pair of different states.

        ``dwell_time`` is the time spent in ``from`` under the configuration, and so repeats for
        each ``to``.
        """
        pieces = [pd.DataFrame()]
        for node, moves in self.transitions.items():
            labels = self.states[node]
            given = self._configurations(node, moves.size // len(labels) ** 2)
            rows = rate_labels(node, given, labels)
            table = pd.DataFrame(rows, columns=list(RATE_LABELS)).assign(
                dwell_time=np.repeat(self.dwell_times[node], len(labels)), transitions=moves.ravel()
            )
            differ = ~np.eye(len(labels), dtype=np.bool_)
            pieces.append(table[np.broadcast_to(differ, moves.shape).ravel()])
        return pd.concat(pieces, ignore_index=True)

    def _configurations(self, node: str, n_configurations: int) -> list[str]:
        above = self.parents[node]
        shape = self.dwell_times[node].shape[:-1]
        if shape != tuple(len(self.states[p]) for p in above if p in self.states):
            return [f"summary={s}" for s in range(n_configurations)]
        return combinations(self.states, above)

    def __repr__(self) -> str:
        n_jumps = sum(float(m.sum()) for m in self.transitions.values())
        time = float(self.dwell_times[self.nodes[0]].sum()) if self.nodes else 0.0
        return f"<Statistics: {len(self.nodes)} nodes, {n_jumps:g} transitions in time {time:g}>"
