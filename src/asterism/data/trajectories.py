"""Owns :class:`Trajectories`: complete jump paths of all nodes, stored flat.

A path is piecewise constant and right-continuous: at the time of a jump the new state holds.
Nodes and states are numbers in the arrays; ``nodes`` and ``states`` give them names.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from asterism.data import path_tables
from asterism.data.columns import as_pandas
from asterism.data.covariates import Covariates, read_covariates
from asterism.data.files import side_file, write_table, write_text
from asterism.data.labels import encode, plain, positions
from asterism.data.measurements import Events, Intervals, objects
from asterism.data.problems import DataWarning
from asterism.data.statistics import Statistics
from asterism.data.table_rows import RowReading, table_format
from asterism.errors import DataError, Sentence, Setting, counted, first_few
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.compiled import CompiledGraph, compile_graph, configuration_terms


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Jump paths of N nodes in D trajectories."""

    nodes: tuple[str, ...]
    states: dict[str, tuple[Any, ...]]
    """Labels of every node's states."""
    labels: tuple[object, ...]
    """Names of the trajectories."""
    start: FloatArray
    end: FloatArray
    """(D,)"""
    initial: IntArray
    """(D, N) state numbers at the start."""
    jump_offset: IntArray
    """(D+1,) jumps of trajectory d are ``jump_offset[d]:jump_offset[d+1]``, sorted by time."""
    jump_time: FloatArray
    jump_node: IntArray
    jump_state: IntArray
    """(J,) the state entered."""
    time_unit: str = ""
    """Unit of all times, such as "h"; "" if nothing says it."""
    covariates: Covariates | None = None
    """What is known about each trajectory besides its nodes; see :meth:`with_covariates`."""

    @classmethod
    def of_jumps(
        cls,
        states: Mapping[str, Sequence[Any]],
        labels: tuple[object, ...],
        start: FloatArray,
        end: FloatArray,
        initial: IntArray,
        trajectory: IntArray,
        time: FloatArray,
        node: IntArray,
        state: IntArray,
    ) -> Trajectories:
        """From all jumps in any order; ``trajectory``: the number of the label of each."""
        # stable: jumps of one node stay in their order even where rounding makes times equal
        order = np.lexsort((time, trajectory))
        return cls(
            nodes=tuple(states),
            states={name: tuple(own) for name, own in states.items()},
            labels=labels,
            start=start,
            end=end,
            initial=initial,
            jump_offset=np.searchsorted(trajectory[order], np.arange(len(labels) + 1)),
            jump_time=time[order],
            jump_node=np.ascontiguousarray(node[order]),
            jump_state=np.ascontiguousarray(state[order]),
        )

    # ------------------------------------------------------------------ tables
    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        states: Mapping[str, Sequence[Any]] | None = None,
        end: float | Mapping[Any, float] | None = None,
        *,
        state: str = "state",
        **reading: Unpack[RowReading],
    ) -> Trajectories:
        """Read a table trajectory, time, node, state, where state is the one ENTERED.

        The first row of a node is its start. A row that repeats the node's state is no jump. The
        trajectory column may be absent (one trajectory). ``states`` fixes the labels and their
        order; otherwise they are sorted. ``end`` is when following a trajectory ended, or
        ``end_column`` a column that says it; without both, its last time, with a warning where
        the last row is a jump. ``trajectory``, ``time``, ``node`` and ``state`` name the columns;
        ``sort``, ``missing``, ``unit`` and ``comma`` are as for observations.
        """
        form = table_format(kind="long", value=state, nodes=None, labels=(), **reading)
        fields = path_tables.parse_paths(as_pandas(frame), states, end, form)
        if end is None and form.end_column is None and (which := path_tables.open_ended(fields)):
            follow = "was" if len(which) == 1 else "were"
            warnings.warn(
                Sentence(
                    f"the table does not say how long {counted(len(which), 'trajectory')} {follow} "
                    "followed: the last row is a jump, and is taken for the end. Give ",
                    *(Setting("end", ...), " or ", Setting("end_column", ...), "."),
                ),
                DataWarning,
                stacklevel=2,
            )
        return cls(**fields)

    def to_frame(self) -> pd.DataFrame:
        """Tidy table trajectory, time, node, state: the start of every node, then every jump."""
        table = _entries(self).sort_values("d", kind="stable")
        frame = pd.DataFrame(
            {
                "trajectory": objects(self.labels)[table["d"]],
                "time": table["time"].to_numpy(),
                "node": objects(self.nodes)[table["node"]],
                "state": self.state_names()[table["node"], table["state"]],
            }
        )
        return frame.infer_objects()

    def save(self, path: str | Path) -> None:
        """Write a CSV table, and beside it what a table cannot hold (states, end)."""
        meta = {
            "format": path_tables.FORMAT,
            "version": 1,
            "nodes": list(self.nodes),
            "states": {n: [plain(s) for s in self.states[n]] for n in self.nodes},
            "trajectories": [plain(x) for x in self.labels],
            "end": self.end.tolist(),
            "time_unit": self.time_unit,
        }
        side_file(path, "meta.json").unlink(missing_ok=True)  # never an old one beside a new table
        write_table(path, self.to_frame())
        write_text(side_file(path, "meta.json"), json.dumps(meta, indent=1))

    @classmethod
    def load(cls, path: str | Path) -> Trajectories:
        """Read what :meth:`save` wrote, or any CSV table with the right columns."""
        return cls(**path_tables.load_paths(path))

    # ------------------------------------------------------------------ views
    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return len(self.start)

    @property
    def n_jumps(self) -> int:
        """Number of jumps of all nodes."""
        return len(self.jump_time)

    @property
    def durations(self) -> FloatArray:
        """(D,) how long each trajectory was followed."""
        return self.end - self.start

    def state_names(self) -> NDArray[Any]:
        """(N, largest number of states) the label of every state number."""
        width = max((len(s) for s in self.states.values()), default=1)
        table = np.empty((len(self.nodes), width), dtype=object)
        for n, node in enumerate(self.nodes):
            table[n, : len(self.states[node])] = list(self.states[node])
        return table

    def state_at(self, times: ArrayLike, outside: str = "error") -> IntArray:
        """State numbers (D, len(times), N); ``times`` is shared, or (D, T) per trajectory.

        At the time of a jump the new state counts. Times outside a trajectory are an error, or
        −1 with ``outside="missing"``.
        """
        from asterism.data._path_statistics import states_at

        asked = np.asarray(times, dtype=np.float64)
        shape = (self.n_trajectories, asked.shape[-1] if asked.ndim else 1)
        if asked.ndim > 2 or (asked.ndim == 2 and asked.shape != shape):
            raise DataError(
                f"times have shape {asked.shape}; give (T,) or ({self.n_trajectories}, T)"
            )
        clock = np.ascontiguousarray(np.broadcast_to(asked, shape))
        off = ~((clock >= self.start[:, None]) & (clock <= self.end[:, None]))
        if off.any() and outside != "missing":
            d, i = (int(k[0]) for k in np.nonzero(off))
            raise DataError(
                f"time {clock[d, i]:g} lies outside trajectory {self.labels[d]!r}, which lasts "
                f"from {self.start[d]:g} to {self.end[d]:g}; pass outside='missing' to get −1 there"
            )
        result = np.empty((*shape, len(self.nodes)), dtype=np.int64)
        states_at(
            self.initial,
            self.jump_offset,
            self.jump_time,
            self.jump_node,
            self.jump_state,
            clock,
            np.argsort(clock, axis=1, kind="stable"),
            np.empty(len(self.nodes), dtype=np.int64),
            result,
        )
        result[off] = -1
        return result

    def statistics(self, network: Any) -> Statistics:
        """Exact dwell times and transition counts of every family.

        ``network`` is a Network, or {node: parents} over the nodes of these paths.
        """
        from asterism.data._path_statistics import CountedGraph, JumpArrays, path_statistics

        if hasattr(network, "compiled"):
            nodes, states, parents = network.nodes, network.states, network.parents
            graph: CompiledGraph = network.compiled.graph
        else:
            nodes, states = self.nodes, self.states
            parents = {n: tuple(network.get(n, ())) for n in nodes}
            graph = self._compiled(network)
        paths = self.reordered(nodes, states)
        dwell = np.zeros(graph.dwell_start[-1])
        transitions = np.zeros(graph.table_start[-1])
        path_statistics(
            JumpArrays(*(getattr(paths, name) for name in JumpArrays._fields)),
            CountedGraph(
                *(graph.n_states, graph.parent_start, graph.parents),
                *(graph.child_start, graph.children),
                graph.parent_start[graph.children] + graph.child_slot,
                *configuration_terms(graph),
                *(graph.table_start, graph.dwell_start),
            ),
            np.empty(len(nodes), dtype=np.int64),
            np.empty(len(nodes), dtype=np.int64),
            np.empty(len(nodes)),
            dwell,
            transitions,
        )
        return Statistics.from_flat(nodes, parents, graph, dwell, transitions, states)

    def _compiled(self, parents: Mapping[str, Sequence[str]]) -> CompiledGraph:
        """A graph over these nodes as arrays."""
        number = {n: i for i, n in enumerate(self.nodes)}
        for n in parents:
            if n not in number:
                raise DataError(f"the paths have no node {n!r}; they have {list(self.nodes)}")
            for p in parents[n]:
                if p not in number or p == n:
                    raise DataError(
                        f"{p!r} cannot be a parent of {n!r}; the nodes are {list(self.nodes)}"
                    )
        sizes = [len(self.states[n]) for n in self.nodes]
        return compile_graph(sizes, [[number[p] for p in parents.get(n, ())] for n in self.nodes])

    def _repr_html_(self) -> str:
        title = f"Trajectories: {self.n_trajectories:,}, with {counted(len(self.nodes), 'node')}"
        rows = [(node, first_few(self.states[node])) for node in self.nodes[:MOST_ROWS]]
        facts = [("jumps", f"{self.n_jumps:,}")]
        return card(title, facts, ("node", "states"), rows, len(self.nodes))

    def __repr__(self) -> str:
        shown = first_few(self.nodes)
        return (
            f"<Trajectories: {counted(self.n_trajectories, 'trajectory')}, "
            f"{counted(len(self.nodes), 'node')} ({shown}), {counted(self.n_jumps, 'jump')}>"
        )

    # ------------------------------------------------------------------ derived paths
    def select(
        self, trajectories: Iterable[object] | None = None, nodes: Iterable[str] | None = None
    ) -> Trajectories:
        """Only some trajectories, or only some nodes, by name and in the given order."""
        if nodes is not None:
            return self._with_nodes(positions(self.nodes, nodes, "node")).select(trajectories)
        if trajectories is None:
            return self
        index = positions(self.labels, trajectories, "trajectory")
        counts = np.diff(self.jump_offset)[index]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        jumps = np.repeat(self.jump_offset[index] - offset[:-1], counts) + np.arange(offset[-1])
        new = np.full(self.n_trajectories, -1, dtype=np.int64)
        new[index] = np.arange(len(index))
        return replace(
            self,
            labels=tuple(self.labels[i] for i in index),
            start=self.start[index],
            end=self.end[index],
            initial=self.initial[index],
            jump_offset=offset,
            jump_time=self.jump_time[jumps],
            jump_node=self.jump_node[jumps],
            jump_state=self.jump_state[jumps],
            covariates=None if self.covariates is None else self.covariates.renumbered(new),
        )

    def _with_nodes(self, index: IntArray) -> Trajectories:
        new = np.full(len(self.nodes), -1, dtype=np.int64)
        new[index] = np.arange(len(index))
        node = new[self.jump_node]
        kept = np.flatnonzero(node >= 0)
        names = tuple(self.nodes[i] for i in index)
        return replace(
            self,
            nodes=names,
            states={name: self.states[name] for name in names},
            initial=np.ascontiguousarray(self.initial[:, index]),
            jump_offset=np.searchsorted(kept, self.jump_offset).astype(np.int64),
            jump_time=self.jump_time[kept],
            jump_node=node[kept],
            jump_state=self.jump_state[kept],
        )

    def with_covariates(
        self, frame: pd.DataFrame, names: Sequence[str] | None = None, **form: Any
    ) -> Trajectories:
        """The same paths, with covariates of their trajectories, as for observations.

        ``frame`` has the columns trajectory and, where covariates change, time; every other column
        (or those in ``names``) is a covariate.
        """
        found = read_covariates(frame, self.labels, self.start, names=names, **form)
        if self.covariates is not None:
            found = self.covariates.merged(found)
        return replace(self, covariates=found)

    def reordered(self, nodes: Sequence[str], states: Mapping[str, Sequence[Any]]) -> Trajectories:
        """The same paths with nodes and state numbers in another order."""
        if tuple(nodes) == self.nodes and all(tuple(states[n]) == self.states[n] for n in nodes):
            return self
        if set(nodes) != set(self.nodes):
            missing = sorted(set(nodes) - set(self.nodes)) or sorted(set(self.nodes) - set(nodes))
            raise DataError(f"the paths and the network do not have the same nodes: {missing[0]!r}")
        position = {n: i for i, n in enumerate(nodes)}
        width = max(len(s) for s in self.states.values())
        number = np.full((len(self.nodes), width), -1, dtype=np.int64)
        for n, one in enumerate(self.nodes):
            code = encode(objects(self.states[one]), tuple(states[one]))
            number[n, : len(code)] = code
        new_node = np.array([position[n] for n in self.nodes], dtype=np.int64)
        initial = np.empty_like(self.initial)
        initial[:, new_node] = number[np.arange(len(self.nodes)), self.initial]
        jump_state = number[self.jump_node, self.jump_state]
        used = np.zeros(number.shape, dtype=np.bool_)
        used[np.arange(len(self.nodes)), self.initial] = True
        used[self.jump_node, self.jump_state] = True
        for n, x in np.argwhere(used & (number < 0))[:1]:
            one = self.nodes[n]
            raise DataError(
                f"node {one!r} has no state {self.states[one][x]!r}; its states are "
                f"{list(states[one])}"
            )
        return replace(
            self,
            nodes=tuple(nodes),
            states={n: tuple(states[n]) for n in nodes},
            initial=initial,
            jump_node=new_node[self.jump_node],
            jump_state=jump_state,
        )


def _entries(paths: Trajectories) -> pd.DataFrame:
    """trajectory, node, time and state entered, in numbers: every node at the start, then jumps."""
    n_trajectories, n_nodes = paths.initial.shape
    each, jumped = np.arange(n_trajectories), np.diff(paths.jump_offset)
    return pd.DataFrame(
        {
            "d": np.concatenate([np.repeat(each, n_nodes), np.repeat(each, jumped)]),
            "node": np.concatenate([np.tile(np.arange(n_nodes), n_trajectories), paths.jump_node]),
            "time": np.concatenate([np.repeat(paths.start, n_nodes), paths.jump_time]),
            "state": np.concatenate([paths.initial.ravel(), paths.jump_state]),
        }
    )


# ---- paths as what is known of them: jumps and stays ------------------------------------------


def path_events(paths: Trajectories, nodes: Sequence[str]) -> Events:
    """Every jump of the nodes, with the state before it."""
    d, node, time, state, _, previous = _stays(paths, nodes)
    jump = np.flatnonzero(previous >= 0)
    jump = jump[np.lexsort((time[jump], d[jump]))]
    names = paths.state_names()
    return Events(
        d[jump],
        time[jump],
        objects(paths.nodes)[node[jump]],
        names[node[jump], state[jump]],
        names[node[jump], previous[jump]],
        np.arange(len(jump), dtype=np.int64),
    )


def path_intervals(paths: Trajectories, nodes: Sequence[str]) -> Intervals:
    """Every stay of the nodes; stays of no length only where a whole trajectory has none."""
    d, node, begin, state, end, _ = _stays(paths, nodes)
    keep = np.flatnonzero((end > begin) | (paths.end[d] == paths.start[d]))
    return Intervals(
        d[keep],
        objects(paths.nodes)[node[keep]],
        begin[keep],
        end[keep],
        paths.state_names()[node[keep], state[keep]],
        np.arange(len(keep), dtype=np.int64),
    )


def _stays(paths: Trajectories, nodes: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """Trajectory, node, start, state, end and previous state (−1 at the start) of every stay."""
    table = _entries(paths)
    table["jump"] = np.arange(len(table)) >= paths.initial.size
    table = table[table["node"].isin([paths.nodes.index(n) for n in nodes])]
    table = table.sort_values(["d", "node", "time", "jump"], kind="stable")
    d, node, begin, state = (table[c].to_numpy() for c in ("d", "node", "time", "state"))
    is_jump = table["jump"].to_numpy()
    previous = np.where(is_jump, np.concatenate([[-1], state[:-1]]), -1)
    end = paths.end[d]
    followed = np.flatnonzero(is_jump[1:])
    end[followed] = begin[followed + 1]
    return d, node, begin, state, end, previous
