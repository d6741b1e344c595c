"""Drawn paths: from the chains that a method has solved to trajectories.

A method says which nodes each of its chains holds (:class:`ChainSets`, once) and what its chains
are along one trajectory (rates, backward vectors, start). ``_jumps.py`` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.data.trajectories import Trajectories
from asterism.engine._jumps import (
    DRAW,
    ENTERED,
    NODE,
    PIECE,
    Chains,
    OwnRates,
    Steps,
    draw_jumps,
    shift_diagonals,
)
from asterism.engine.grid import Grid
from asterism.engine.joint_states import joint_states
from asterism.errors import TooLargeError
from asterism.model.network import Network
from asterism.numerics.arrays import Ragged, offsets
from asterism.numerics.compiled import CompiledGraph, configuration_terms
from asterism.numerics.resources import require_memory
from asterism.timeline.evidence import Evidence, FloatArray, IntArray
from asterism.timeline.timeline import (
    EVENT,
    HELD,
    JUMP,
    KIND,
    SET,
    VALUE,
    known_states,
    timeline_of,
)

_MOST_EVENTS = 2e9  # elementary steps of drawing paths; more is refused


@dataclass(frozen=True)
class DrawnPaths:
    """Paths of one trajectory."""

    start: IntArray
    """(draws, N) states at the start; −1 where a node was not drawn."""
    time: FloatArray
    record: IntArray
    """Of every jump the draw, the node and the state entered."""


class Solved(NamedTuple):
    """The chains along one trajectory, as a method has solved them (see ``Steps``)."""

    rate: FloatArray
    diagonal: FloatArray
    """May be overwritten."""
    ending: FloatArray
    first: FloatArray
    column: IntArray | None = None
    """One column per step if None."""


def known_nodes(evidence: Evidence, graph: CompiledGraph, d: int, n_steps: int) -> Solved:
    """Exogenous nodes, in the order of their numbers: all that they do is forced."""
    nodes = sorted(evidence.exogenous)
    sizes = graph.n_states[nodes]
    at_start = [
        known_states(evidence, d, n, evidence.start[d]) == np.arange(size)
        for n, size in zip(nodes, sizes)
    ]
    return Solved(
        np.zeros((int((sizes * (sizes - 1)).sum()), n_steps)),
        np.zeros((int(sizes.sum()), n_steps)),
        np.ones((int(sizes.sum()), n_steps)),
        np.concatenate([np.zeros(0), *at_start]),
    )


@dataclass(frozen=True)
class ChainSets:
    """Which nodes are drawn together."""

    chains: Chains
    own: OwnRates
    set_of: IntArray
    """(N,) the set in which a node is drawn, −1 for none."""

    @classmethod
    def of(
        cls,
        graph: CompiledGraph,
        chains: Sequence[tuple[int, ...]],
        *,
        together: bool,
        rates: FloatArray | None = None,
    ) -> ChainSets:
        """Chains by their nodes, in one set if ``together``, else each in a set of its own.

        ``rates``: of the network, where single nodes jump at rates that their parents determine.
        """
        shapes = [joint_states(graph, nodes) for nodes in chains]
        leader: dict[int, int] = {}
        holders = Ragged([] for _ in range(graph.n_nodes))
        for r, nodes in enumerate(chains):
            for n in nodes:
                leader.setdefault(n, r)
                holders[n].append(r)
        if rates is not None:
            for n in range(graph.n_nodes):
                first, last = graph.child_start[n : n + 2]
                holders[n] += [leader[c] for c in graph.children[first:last].tolist()]
        flat = {name: Ragged() for name in ("target", "mover", "entered")}
        for r, (nodes, shape) in enumerate(zip(chains, shapes)):
            moves = np.array([n if leader[n] == r else -1 for n in nodes], dtype=np.int64)
            flat["target"].append(shape.column)
            flat["mover"].append(moves[shape.slot])
            flat["entered"].append(shape.target)
        starts = range(len(chains) + 1)
        set_of = np.full(graph.n_nodes, -1, dtype=np.int64)
        for n, r in leader.items():
            set_of[n] = 0 if together else r
        found = Chains(
            set_start=np.array([0, len(chains)] if together else starts, dtype=np.int64),
            node_start=Ragged(chains).offsets,
            node=Ragged(chains).values,
            stride=Ragged(shape.stride for shape in shapes).values,
            n_states=graph.n_states.astype(np.int64),
            row_start=offsets([len(shape.digit) for shape in shapes]),
            per_row=np.array([shape.column.shape[1] for shape in shapes], dtype=np.int64),
            entry_start=flat["target"].offsets,
            concerned_start=holders.offsets,
            concerned=holders.values,
            **{name: parts.values for name, parts in flat.items()},
        )
        if rates is None:
            nothing: IntArray = np.zeros(0, dtype=np.int64)
            return cls(found, OwnRates(np.zeros(0), *[nothing] * 5), set_of)
        terms = configuration_terms(graph)
        own = OwnRates(rates, graph.table_start, graph.parent_start, graph.parents, *terms)
        return cls(found, own, set_of)

    def draw(
        self,
        solved: Solved,
        evidence: Evidence,
        grid: Grid,
        d: int,
        n: int,
        key: NDArray[np.uint64],
    ) -> DrawnPaths:
        """``n`` paths of trajectory d."""
        width = grid.width[grid.step_start[d] : grid.step_start[d + 1]]
        column = solved.column
        steps = Steps(
            rate=solved.rate,
            diagonal=solved.diagonal,
            column=np.arange(len(width), dtype=np.int64) if column is None else column,
            ending=solved.ending,
            first=solved.first,
            width=width,
            time=grid.times(d),
            **self._forced(evidence, grid, d),
        )
        mass = shift_diagonals(self.chains, steps)[:, steps.column] * width
        chains_of_set = np.diff(self.chains.set_start)
        mass = np.maximum.reduceat(mass, self.chains.set_start[:-1], axis=0)
        events = n * float(mass.sum(axis=1) @ chains_of_set)
        pieces = np.ceil(mass / PIECE)
        rows = np.diff(self.chains.row_start[self.chains.set_start])
        if events > _MOST_EVENTS:
            raise TooLargeError(
                f"Drawing {n} paths would take {events:.2g} elementary steps, above the limit of "
                f"{_MOST_EVENTS:.2g}, because rates are large for the duration: ask for fewer "
                "paths."
            )
        require_memory(
            8.0 * float((rows * pieces.max(axis=1, initial=0.0)).max()),
            f"{rows.max()} joint states at {pieces.max(initial=0.0):.3g} times of one step",
            "a simpler method",
        )
        found = draw_jumps(self.chains, steps, self.own, pieces.astype(np.int64), n, key)
        return DrawnPaths(*found)

    def _forced(self, evidence: Evidence, grid: Grid, d: int) -> dict[str, IntArray]:
        """Recorded jumps, beginnings of interventions, and the paths of exogenous nodes."""
        timeline = timeline_of(evidence)
        rows = slice(*timeline.start[[d * evidence.n_nodes, (d + 1) * evidence.n_nodes]])
        entry, node = timeline.entry[rows], timeline.pair[rows] % evidence.n_nodes
        is_known = (entry[:, KIND] == HELD) & np.isin(node, list(evidence.exogenous))
        happens = np.isin(entry[:, KIND], (JUMP, SET)) | is_known
        chosen = np.flatnonzero(happens & (self.set_of[node] >= 0))
        entry, node = entry[chosen], node[chosen]
        forced = np.column_stack([grid.point_of_event[entry[:, EVENT]], node, entry[:, VALUE]])
        which = self.set_of[node]
        order = np.lexsort((forced[:, 0], which))
        return {
            "forced_start": np.searchsorted(which[order], np.arange(len(self.chains.set_start))),
            "forced": forced[order],
        }


@dataclass
class PathCollector:
    """Gathers the paths of one trajectory after the other."""

    network: Network
    evidence: Evidence
    chosen: list[int] = field(default_factory=list)
    parts: list[DrawnPaths] = field(default_factory=list)

    def add(self, trajectory: int, *paths: DrawnPaths) -> None:
        """Append all draws of one trajectory; several parts of it are about different nodes."""
        self.chosen.append(trajectory)
        self.parts.append(
            DrawnPaths(
                np.max([p.start for p in paths], axis=0),
                np.concatenate([p.time for p in paths]),
                np.concatenate([p.record for p in paths]),
            )
        )

    def trajectories(self) -> Trajectories:
        """All paths, labelled (trajectory, draw)."""
        counts = np.array([len(p.start) for p in self.parts])
        before = np.cumsum(counts) - counts
        record = np.concatenate([p.record for p in self.parts])
        return Trajectories.of_jumps(
            self.network.states,
            tuple(
                (self.evidence.label(d), draw)
                for d, count in zip(self.chosen, counts)
                for draw in range(count)
            ),
            np.repeat(self.evidence.start[self.chosen], counts),
            np.repeat(self.evidence.end[self.chosen], counts),
            np.concatenate([p.start for p in self.parts]),
            np.concatenate([b + p.record[:, DRAW] for b, p in zip(before, self.parts)]),
            np.concatenate([p.time for p in self.parts]),
            record[:, NODE],
            record[:, ENTERED],
        )
