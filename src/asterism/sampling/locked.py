"""Owns nodes that zero rates or zero likelihoods lock to each other, and draws them as one.

Drawing one node at a time must be able to reach every possible combination of paths. It is not if

* a joint measurement or a recorded jump allows only combinations of states that differ in several
  nodes at once ("exactly one of A and B is on");
* two nodes forbid each other's jumps: each may jump only while the other is in a certain state;
* a node decides which jumps of a child are possible, and cannot itself freely change (it has a
  state that it cannot leave or enter).

Such nodes become one node, whose states are the combinations of theirs. Everything else in the
sampler then works as it is; the draws are taken apart afterwards.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asterism.engine.joint_states import joint_states
from asterism.errors import AsterismError, Setting
from asterism.numerics.compiled import (
    CompiledGraph,
    CompiledNetwork,
    compile_graph,
    configuration_terms,
)
from asterism.sampling._gibbs import Record
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    JointMeasurement,
    Points,
    Table,
    in_order,
)

#: largest number of states that locked nodes may have together
STATE_LIMIT = 64
#: largest table of rates of locked nodes, and the most configurations that are looked through
TABLE_LIMIT = 1_000_000


class Merged(NamedTuple):
    """A network and its evidence with locked nodes made one."""

    graph: CompiledGraph
    rates: FloatArray
    initial: FloatArray
    evidence: Evidence
    members: list[tuple[int, ...]]
    """Per new node: the old nodes it consists of, ascending."""


def locked_groups(network: CompiledNetwork, evidence: Evidence) -> list[tuple[int, ...]]:
    """Sets of nodes that must be drawn together; empty if all can be drawn one at a time."""
    graph = network.graph
    links = links_by_measurements(evidence)
    gates = _gates(network)
    for node in set(evidence.jumps.node.tolist()):
        if gates.get(node):
            links |= _locked_parents(network, int(node), evidence)
    for node, above in gates.items():
        for parent in above:
            if node in gates.get(parent, ()) or not _moves_freely(network, parent):
                links.add((node, parent))
    given = evidence.exogenous
    return _groups([(a, b) for a, b in links if a not in given and b not in given], graph.n_nodes)


def links_by_measurements(evidence: Evidence) -> set[tuple[int, int]]:
    """Pairs of nodes that joint measurements lock to each other."""
    links: set[tuple[int, int]] = set()
    for measurement in evidence.joint:
        log = np.asarray(measurement.log_likelihood)
        if np.isneginf(log).any():
            links |= _disconnected(~np.isneginf(log), measurement.nodes, evidence)
    return links


def merge(
    network: CompiledNetwork,
    evidence: Evidence,
    groups: list[tuple[int, ...]],
    names: tuple[str, ...],
) -> Merged:
    """The same problem with each group as one node; refuses what cannot be drawn that way."""
    graph = network.graph
    for group in groups:
        _check_group(network, evidence, group, names)
    grouped = {n for group in groups for n in group}
    members = sorted([*groups, *((n,) for n in range(graph.n_nodes) if n not in grouped)])
    home = {n: (k, i) for k, own in enumerate(members) for i, n in enumerate(own)}
    sizes = [math.prod(int(graph.n_states[n]) for n in own) for own in members]
    states = [joint_states(graph, own).digit for own in members]
    parents: list[list[int]] = []
    weights: dict[int, list[list[int]]] = {}
    n_blocks: dict[int, int] = {}
    tables: list[FloatArray] = []
    for k, own in enumerate(members):
        above, terms, table = _family(network, own, home, states, sizes)
        parents.append(above)
        weights[k], n_blocks[k] = terms, len(table)
        tables.append(table.ravel())
    initial = [
        np.prod(
            [network.initial[graph.state_start[n] + states[k][:, i]] for i, n in enumerate(own)],
            axis=0,
        )
        for k, own in enumerate(members)
    ]
    return Merged(
        graph=compile_graph(sizes, parents, weights, n_blocks),
        rates=np.concatenate(tables),
        initial=np.concatenate(initial),
        evidence=_merged_evidence(evidence, members, home, states),
        members=members,
    )


def split_draws(record: Record, merged: Merged, graph: CompiledGraph) -> Record:
    """Draws of the old nodes from draws of the merged ones."""
    n_new, n_old = len(merged.members), graph.n_nodes
    n_draws = len(record.initial)
    n_trajectories = record.initial.shape[1] // n_new
    # every path of a merged node is a row; its jumps follow each other in the record
    first = record.initial.reshape(-1, n_new)
    n_jumps = np.diff(record.start, axis=1).ravel()
    row, node = np.divmod(np.repeat(np.arange(len(n_jumps)), n_jumps), n_new)
    initial = np.empty((len(first), n_old), dtype=np.int16)
    pieces = []
    for k, own in enumerate(merged.members):
        jumps = np.flatnonzero(node == k)
        is_first = np.diff(row[jumps], prepend=-1) != 0
        states = joint_states(graph, own).digit
        for i, n in enumerate(own):
            initial[:, n] = states[first[:, k], i]
            path = states[record.state[jumps], i]
            before = np.where(is_first, initial[row[jumps], n], np.roll(path, 1))
            moved = path != before
            pieces.append((row[jumps][moved] * n_old + n, record.time[jumps][moved], path[moved]))
    place, time, state = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(place, kind="stable")
    n_places = n_trajectories * n_old
    ends = np.searchsorted(place[order], np.arange(n_draws * n_places + 1))
    start = np.column_stack([ends[:-1].reshape(n_draws, n_places), ends[n_places::n_places]])
    return Record(
        initial.reshape(n_draws, n_places),
        np.ascontiguousarray(start, dtype=np.int64),
        time[order],
        state[order].astype(np.int16),
    )


# ---------------------------------------------------------------------- which nodes are locked
def _groups(links: list[tuple[int, int]], n_nodes: int) -> list[tuple[int, ...]]:
    import networkx

    graph = networkx.Graph(links)
    return sorted(tuple(sorted(part)) for part in networkx.connected_components(graph))


def _block(network: CompiledNetwork, node: int) -> FloatArray:
    graph = network.graph
    size = int(graph.n_states[node])
    table = network.rates[graph.table_start[node] : graph.table_start[node + 1]]
    return table.reshape(-1, size, size)


def _gates(network: CompiledNetwork) -> dict[int, set[int]]:
    """node -> parents whose state decides which of its jumps are possible at all."""
    graph = network.graph
    result: dict[int, set[int]] = {}
    for node in range(graph.n_nodes):
        possible = _block(network, node) != 0.0
        if (possible == possible[0]).all():
            continue
        edges = range(int(graph.parent_start[node]), int(graph.parent_start[node + 1]))
        if graph.is_summary[node]:
            result[node] = {int(graph.parents[e]) for e in edges}
            continue
        shape = [int(graph.n_states[graph.parents[e]]) for e in edges]
        by_parent = possible.reshape(*shape, *possible.shape[1:])
        result[node] = {
            int(graph.parents[e])
            for axis, e in enumerate(edges)
            if (by_parent != by_parent.take([0], axis=axis)).any()
        }
    return result


def _moves_freely(network: CompiledNetwork, node: int) -> bool:
    """Whether a node can get from every state to every other, whatever its parents do."""
    from scipy.sparse.csgraph import connected_components

    return all(
        connected_components(block > 0.0, directed=True, connection="strong")[0] == 1
        for block in np.unique(_block(network, node) > 0.0, axis=0)
    )


def _locked_parents(
    network: CompiledNetwork, node: int, evidence: Evidence
) -> set[tuple[int, int]]:
    """Parents of a node with recorded jumps that cannot change one at a time when it jumps."""
    graph = network.graph
    edges = range(int(graph.parent_start[node]), int(graph.parent_start[node + 1]))
    parents = tuple(int(graph.parents[e]) for e in edges)
    shape = [int(graph.n_states[p]) for p in parents]
    if math.prod(shape) > TABLE_LIMIT:
        return set()
    term_start, terms = configuration_terms(graph)
    config = np.zeros(shape, dtype=np.int64)
    for axis, e in enumerate(edges):
        own = terms[term_start[e] : term_start[e + 1]]
        config += own.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    table = _block(network, node)
    found: set[tuple[int, int]] = set()
    mine = evidence.jumps.node == node
    for target in set(evidence.jumps.to_state[mine].tolist()):
        for origin in range(table.shape[1]):
            if origin != target:
                found |= _disconnected(table[config, origin, target] > 0.0, parents, evidence)
    return found


def _disconnected(
    allowed: NDArray[np.bool_], nodes: tuple[int, ...], evidence: Evidence
) -> set[tuple[int, int]]:
    """Links among the nodes if steps in one node at a time do not connect what is allowed."""
    import networkx

    graph = networkx.Graph()
    cells = [tuple(int(i) for i in cell) for cell in np.argwhere(allowed)]
    graph.add_nodes_from(cells)
    for cell in cells:
        for axis, size in enumerate(allowed.shape):
            for x in range(size):
                other = (*cell[:axis], x, *cell[axis + 1 :])
                if allowed[other]:
                    graph.add_edge(cell, other)
    if len(cells) < 2 or networkx.is_connected(graph):
        return set()
    free = [n for n in nodes if n not in evidence.exogenous]
    return set(pairwise(free))


# ---------------------------------------------------------------------- making them one node
def _check_group(
    network: CompiledNetwork, evidence: Evidence, group: tuple[int, ...], names: tuple[str, ...]
) -> None:
    listed = ", ".join(names[n] for n in group)
    size = math.prod(int(network.graph.n_states[n]) for n in group)
    why = (
        f"The nodes {listed} are locked to each other by rates or likelihoods of zero, so they "
        "must be drawn together"
    )
    if size > STATE_LIMIT:
        raise AsterismError(
            f"{why}; they have {size} states together, above the limit of {STATE_LIMIT}: use ",
            *(Setting("method", "clusters"), ", or small rates instead of zeros."),
        )
    for rows in (evidence.jumps.node, evidence.spans.node, evidence.interventions.node):
        if np.isin(rows, group).any():
            raise AsterismError(
                f"{why}, which sampling cannot do while jumps, intervals or interventions of them "
                "are recorded: use ",
                *(Setting("method", "exact"), " or ", Setting("method", "clusters")),
                ", or small rates instead of zeros.",
            )


def _family(
    network: CompiledNetwork,
    own: tuple[int, ...],
    home: dict[int, tuple[int, int]],
    states: list[IntArray],
    sizes: list[int],
) -> tuple[list[int], list[list[int]], FloatArray]:
    """New parents, what each of their states adds to the configuration, and the table."""
    graph = network.graph
    term_start, terms = configuration_terms(graph)

    def edges_of(n: int) -> range:
        return range(int(graph.parent_start[n]), int(graph.parent_start[n + 1]))

    def own_terms(e: int) -> IntArray:
        return terms[term_start[e] : term_start[e + 1]]

    above = sorted({home[int(graph.parents[e])][0] for n in own for e in edges_of(n)})
    here = home[own[0]][0]
    above = [k for k in above if k != here]
    if len(own) == 1:
        added = [np.zeros(sizes[k], dtype=np.int64) for k in above]
        for e in edges_of(own[0]):
            k, i = home[int(graph.parents[e])]
            added[above.index(k)] += own_terms(e)[states[k][:, i]]
        return above, [a.tolist() for a in added], _block(network, own[0])
    shape = [sizes[k] for k in above]
    size = sizes[here]
    if math.prod(shape) * size * size > TABLE_LIMIT:
        raise AsterismError(
            "Nodes that are locked to each other by rates of zero have too many parents to be "
            "drawn together: use ",
            *(Setting("method", "clusters"), ", or small rates instead of zeros."),
        )
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    table = np.zeros((math.prod(shape), size, size))
    every, together = np.arange(size), joint_states(graph, own)
    outside = dict(zip(above, np.indices(shape).reshape(len(shape), len(table))))
    for i, n in enumerate(own):
        config = np.zeros((len(table), size), dtype=np.int64)
        for e in edges_of(n):
            k, j = home[int(graph.parents[e])]
            term = own_terms(e)[states[k][:, j]]
            config += term if k == here else term[outside[k]][:, None]
        a, jump = np.nonzero(together.slot == i)
        before, after = together.digit[a, i], together.target[a, jump]
        table[:, a, together.column[a, jump]] = _block(network, n)[config[:, a], before, after]
    table[:, every, every] = -table.sum(axis=2)
    return above, [[s * x for x in range(sizes[k])] for s, k in zip(strides, above)], table


def _merged_evidence(
    evidence: Evidence,
    members: list[tuple[int, ...]],
    home: dict[int, tuple[int, int]],
    states: list[IntArray],
) -> Evidence:
    rows: list[tuple[int, int, float, FloatArray]] = []
    points = evidence.points
    for d, n, time, at in zip(points.trajectory, points.node, points.time, points.offset):
        k, i = home[int(n)]
        rows.append((int(d), k, float(time), points.log_likelihood[at + states[k][:, i]]))
    joint = []
    for m in evidence.joint:
        table = _merged_table(m, home, states)
        nodes = tuple(sorted({home[n][0] for n in m.nodes}))
        if len(nodes) == 1:
            rows.append((m.trajectory, nodes[0], m.time, table))
        else:
            joint.append(JointMeasurement(m.trajectory, m.time, nodes, table))
    rows.sort(key=lambda row: row[:3])
    lengths = np.array([len(row[3]) for row in rows], dtype=np.int64)
    number = np.array([home[n][0] for n in range(evidence.n_nodes)], dtype=np.int64)

    def renumbered(table: Table) -> Table:
        return in_order(replace(table, node=number[table.node]))

    return replace(
        evidence,
        n_nodes=len(members),
        points=Points(
            np.array([row[0] for row in rows], dtype=np.int64),
            np.array([row[1] for row in rows], dtype=np.int64),
            np.array([row[2] for row in rows], dtype=np.float64),
            np.cumsum(lengths) - lengths,
            np.concatenate([np.zeros(0), *(row[3] for row in rows)]),
        ),
        jumps=renumbered(evidence.jumps),
        spans=renumbered(evidence.spans),
        interventions=renumbered(evidence.interventions),
        joint=tuple(joint),
        exogenous=frozenset(home[n][0] for n in evidence.exogenous),
    )


def _merged_table(
    measurement: JointMeasurement, home: dict[int, tuple[int, int]], states: list[IntArray]
) -> FloatArray:
    """The measurement's table over the combined states of the new nodes, ascending."""
    new = sorted({home[n][0] for n in measurement.nodes})
    index = []
    for n in measurement.nodes:
        k, i = home[n]
        axis = new.index(k)
        index.append(states[k][:, i].reshape([-1 if a == axis else 1 for a in range(len(new))]))
    table: FloatArray = np.asarray(measurement.log_likelihood)[tuple(index)]
    return np.broadcast_to(table, [len(states[k]) for k in new]).copy()
